// Values in PostgreSQL's binary form: what statements are given and what they answer. Numbers are big-endian.
//
//   array  := dimensions(4) has_null(4) type(4) count(4) lower_bound(4) value*      dimensions = 0 and no more when
//   empty record := fields(4) (type(4) value)* value  := size(4) bytes size = -1: NULL
#pragma once

#include <libpq-fe.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/chain.h"
#include "core/id.h"
#include "core/lifecycle.h"
#include "core/time.h"

namespace pawl::postgres {

namespace type {
inline constexpr Oid boolean = 16, bytea = 17, int8 = 20, int2 = 21, int4 = 23, text = 25, uuid = 2950;
inline constexpr Oid int4_array = 1007, text_array = 1009, uuid_array = 2951;
}  // namespace type

void append_number(std::string& out, std::uint64_t value, int bytes);
void append_id(std::string& out, IdBits bits);

// An array of rows of one type.
class Records {
 public:
  void begin();
  Records& id(IdBits bits);
  Records& i16(int value) { return number(type::int2, static_cast<std::uint64_t>(value), 2); }
  Records& i32(int value) { return number(type::int4, static_cast<std::uint64_t>(value), 4); }
  Records& i32(std::optional<int> value) { return value ? i32(*value) : null(type::int4); }
  Records& i64(std::int64_t value) { return number(type::int8, static_cast<std::uint64_t>(value), 8); }
  Records& u64(std::uint64_t value) { return number(type::int8, value, 8); }
  Records& flag(bool value) { return number(type::boolean, value, 1); }
  Records& text(std::string_view value) { return bytes_of(type::text, value); }
  Records& bytes(std::string_view value) { return bytes_of(type::bytea, value); }
  Records& hash(const Hash& value) { return bytes(value.view()); }
  Records& numbers(std::span<const int> values);
  Records& null(Oid type);
  void end();

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  // As the value of a parameter; `record` is the rows' type in this database.
  std::string encode(Oid record) const;

 private:
  void field(Oid type) {
    append_number(values_, type, 4);
    ++fields_;
  }
  Records& number(Oid type, std::uint64_t value, int bytes);
  Records& bytes_of(Oid type, std::string_view value);

  std::string values_;
  std::size_t count_ = 0;
  std::size_t row_at_ = 0;
  std::uint32_t fields_ = 0;
};

// The parameters of one statement, $1 first.
class Values {
 public:
  Values& id(IdBits bits);
  Values& id(std::optional<IdBits> bits);
  Values& i32(int value) { return number(type::int4, static_cast<std::uint64_t>(value), 4); }
  Values& i16(std::optional<int> value);
  Values& i64(std::int64_t value) { return number(type::int8, static_cast<std::uint64_t>(value), 8); }
  Values& u64(std::uint64_t value) { return number(type::int8, value, 8); }
  Values& at(Instant value) { return i64(value.ms); }
  // At most this many: no database has more rows than 2^63 - 1.
  Values& limit(std::size_t count) { return i64(static_cast<std::int64_t>(std::min<std::size_t>(count, INT64_MAX))); }
  Values& text(std::string_view value) { return raw(type::text, std::string(value)); }
  Values& text_or_null(const std::optional<std::string>& value) { return raw(type::text, value); }
  Values& bytes(std::string_view value) { return raw(type::bytea, std::string(value)); }
  Values& ids(std::span<const IdBits> values);
  Values& texts(std::span<const std::string> values);
  Values& records(Oid array, Oid record, const Records& rows) { return raw(array, rows.encode(record)); }

  int count() const { return static_cast<int>(types_.size()); }
  const Oid* types() const { return types_.data(); }

 private:
  friend class Connection;
  Values& number(Oid type, std::uint64_t value, int bytes);
  Values& raw(Oid type, std::optional<std::string> value);

  std::vector<Oid> types_;
  std::vector<std::optional<std::string>> values_;
};

// What a statement answered.
class Rows {
 public:
  explicit Rows(PGresult* result) : result_(result) {}

  int size() const { return PQntuples(result_.get()); }
  bool empty() const { return size() == 0; }
  // Rows that an UPDATE, INSERT or DELETE concerned.
  int changed() const { return std::atoi(PQcmdTuples(result_.get())); }

  bool is_null(int row, int column) const { return PQgetisnull(result_.get(), row, column) != 0; }
  std::string_view bytes(int row, int column) const;
  std::string text(int row, int column) const { return std::string(bytes(row, column)); }
  // Of whatever size the column is.
  std::int64_t i64(int row, int column) const;
  std::uint64_t u64(int row, int column) const { return static_cast<std::uint64_t>(i64(row, column)); }
  int i32(int row, int column) const { return static_cast<int>(i64(row, column)); }
  bool flag(int row, int column) const { return i64(row, column) != 0; }
  Instant at(int row, int column) const { return {i64(row, column)}; }
  IdBits id(int row, int column) const;
  Hash hash(int row, int column) const;
  std::vector<int> numbers(int row, int column) const;
  template <class Enum>
  Enum enumerator(int row, int column) const {
    auto value = u64(row, column);
    if (value >= enum_count<Enum>) damaged(column);
    return static_cast<Enum>(value);
  }

 private:
  [[noreturn]] void damaged(int column) const;

  struct Clear {
    void operator()(PGresult* result) const { PQclear(result); }
  };
  std::unique_ptr<PGresult, Clear> result_;
};

}  // namespace pawl::postgres
