#include "store/postgres/wire.h"

#include <fmt/format.h>

#include <cstring>

#include "store/store.h"

namespace pawl::postgres {
namespace {

std::uint64_t read_number(std::string_view bytes) {
  std::uint64_t value = 0;
  for (char byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

void put_number(std::string& out, std::size_t at, std::uint32_t value) {
  for (unsigned i = 0; i < 4; ++i) out[at + i] = static_cast<char>(value >> (24 - 8 * i));
}

void append_value(std::string& out, std::string_view bytes) {
  append_number(out, bytes.size(), 4);
  out += bytes;
}

// Up to the values, which follow.
std::string array_header(Oid element, std::size_t count) {
  std::string out;
  append_number(out, count > 0 ? 1 : 0, 4);
  append_number(out, 0, 4);
  append_number(out, element, 4);
  if (count == 0) return out;
  append_number(out, count, 4);
  append_number(out, 1, 4);
  return out;
}

}  // namespace

void append_number(std::string& out, std::uint64_t value, int bytes) {
  char buffer[8];
  for (int i = 0; i < bytes; ++i) buffer[i] = static_cast<char>(value >> (8 * (bytes - 1 - i)));
  out.append(buffer, static_cast<std::size_t>(bytes));
}

void append_id(std::string& out, IdBits bits) {
  append_number(out, bits.high, 8);
  append_number(out, bits.low, 8);
}

void Records::begin() {
  row_at_ = values_.size();
  fields_ = 0;
  values_.append(8, '\0');
  ++count_;
}

void Records::end() {
  put_number(values_, row_at_, static_cast<std::uint32_t>(values_.size() - row_at_ - 4));
  put_number(values_, row_at_ + 4, fields_);
}

Records& Records::id(IdBits bits) {
  field(type::uuid);
  append_number(values_, 16, 4);
  append_id(values_, bits);
  return *this;
}

Records& Records::numbers(std::span<const int> values) {
  std::string array = array_header(type::int4, values.size());
  for (int value : values) {
    append_number(array, 4, 4);
    append_number(array, static_cast<std::uint64_t>(value), 4);
  }
  return bytes_of(type::int4_array, array);
}

Records& Records::null(Oid type) {
  field(type);
  append_number(values_, UINT32_MAX, 4);
  return *this;
}

Records& Records::number(Oid type, std::uint64_t value, int bytes) {
  field(type);
  append_number(values_, static_cast<std::uint64_t>(bytes), 4);
  append_number(values_, value, bytes);
  return *this;
}

Records& Records::bytes_of(Oid type, std::string_view value) {
  field(type);
  append_value(values_, value);
  return *this;
}

std::string Records::encode(Oid record) const { return array_header(record, count_) + values_; }

Values& Values::id(IdBits bits) {
  std::string value;
  append_id(value, bits);
  return raw(type::uuid, std::move(value));
}

Values& Values::id(std::optional<IdBits> bits) { return bits ? id(*bits) : raw(type::uuid, std::nullopt); }

Values& Values::i16(std::optional<int> value) {
  return value ? number(type::int2, static_cast<std::uint64_t>(*value), 2) : raw(type::int2, std::nullopt);
}

Values& Values::ids(std::span<const IdBits> values) {
  std::string array = array_header(type::uuid, values.size());
  for (IdBits bits : values) {
    append_number(array, 16, 4);
    append_id(array, bits);
  }
  return raw(type::uuid_array, std::move(array));
}

Values& Values::texts(std::span<const std::string> values) {
  std::string array = array_header(type::text, values.size());
  for (const std::string& value : values) append_value(array, value);
  return raw(type::text_array, std::move(array));
}

Values& Values::number(Oid type, std::uint64_t value, int bytes) {
  std::string out;
  append_number(out, value, bytes);
  return raw(type, std::move(out));
}

Values& Values::raw(Oid type, std::optional<std::string> value) {
  types_.push_back(type);
  values_.push_back(std::move(value));
  return *this;
}

std::string_view Rows::bytes(int row, int column) const {
  return {PQgetvalue(result_.get(), row, column), static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
}

std::int64_t Rows::i64(int row, int column) const {
  auto stored = bytes(row, column);
  auto value = read_number(stored);
  switch (stored.size()) {
    case 1:
      return static_cast<std::int64_t>(value);
    case 2:
      return static_cast<std::int16_t>(value);
    case 4:
      return static_cast<std::int32_t>(value);
    case 8:
      return static_cast<std::int64_t>(value);
    default:
      damaged(column);
  }
}

IdBits Rows::id(int row, int column) const {
  auto stored = bytes(row, column);
  if (stored.size() != 16) damaged(column);
  return {read_number(stored.substr(0, 8)), read_number(stored.substr(8))};
}

Hash Rows::hash(int row, int column) const {
  auto stored = bytes(row, column);
  Hash hash;
  if (stored.size() != hash.bytes.size()) damaged(column);
  std::memcpy(hash.bytes.data(), stored.data(), stored.size());
  return hash;
}

std::vector<int> Rows::numbers(int row, int column) const {
  auto stored = bytes(row, column);
  std::vector<int> values;
  constexpr std::size_t header = 20, element = 8;
  for (std::size_t at = header; at + element <= stored.size(); at += element)
    values.push_back(static_cast<int>(read_number(stored.substr(at + 4, 4))));
  return values;
}

void Rows::damaged(int column) const {
  throw StoreFailure(fmt::format("column {} of a row is not what pawl writes there: the database is damaged",
                                 PQfname(result_.get(), column)));
}

}  // namespace pawl::postgres
