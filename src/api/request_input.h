// Reading requests strictly: every key is known, every value has its kind and its limit, and what is wrong is named
// with its place. A route either gets all it needs or throws a Problem before anything is done.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/problem.h"
#include "core/id.h"
#include "core/json.h"
#include "core/money.h"
#include "core/time.h"

namespace pawl::api {

// Items on a page of a list: when the request does not say, and at most. Lists whose items are whole objects of some
// size take fewer.
inline constexpr std::uint64_t page_default = 50;
inline constexpr std::uint64_t page_max = 500;
inline constexpr std::uint64_t large_items_page_max = 200;
// Rows that one request may read to find the items of a page.
inline constexpr std::size_t rows_read_max = 20'000;

[[noreturn]] void refuse_input(std::string where, std::string detail);
[[noreturn]] void refuse_cursor();

inline constexpr std::string_view name_rule =
    "A name begins with a letter or digit, then may hold . _ and -, 64 characters at most.";

// %41 -> A; nothing when it is malformed.
std::optional<std::string> percent_decode(std::string_view text);

inline constexpr std::size_t idempotency_key_chars_max = 255;
// The Idempotency-Key header; nothing when there is none.
std::optional<std::string> idempotency_key(const Request& request);

class Query {
 public:
  explicit Query(std::string_view text);
  // A parameter that is not among these is refused: a misspelt filter must not show everything.
  void only(std::initializer_list<std::string_view> known) const;
  const std::string* find(std::string_view name) const;
  std::uint64_t number(std::string_view name, std::uint64_t otherwise, std::uint64_t max) const;
  // False unless it says true.
  bool flag(std::string_view name) const;
  // Where an earlier page of a list ended.
  template <class AnyId>
  std::optional<AnyId> cursor() const {
    const std::string* text = find("cursor");
    if (!text) return std::nullopt;
    auto id = AnyId::parse(*text);
    if (!id) refuse_cursor();
    return id;
  }

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

// One JSON object of the body.
class Input {
 public:
  // An empty body is an empty object.
  static Input parse(const Request& request);
  Input(const boost::json::object& object, std::string place) : object_(&object), place_(std::move(place)) {}

  void only(std::initializer_list<std::string_view> known) const { only({known.begin(), known.size()}); }
  void only(std::span<const std::string_view> known) const;
  std::string canonical_text() const { return canonical(*object_); }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  std::string text(std::string_view key, std::size_t chars_max = 1024) const;
  std::string text_or(std::string_view key, std::string otherwise, std::size_t chars_max = 1024) const;
  std::string name(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::int64_t> number(std::string_view key, std::int64_t min, std::int64_t max) const;
  std::optional<Duration> duration(std::string_view key) const;
  std::optional<Duration> positive_duration(std::string_view key) const;
  std::optional<Money> money(std::string_view key) const;
  std::optional<Instant> moment(std::string_view key) const;
  const Json* find(std::string_view key) const;  // null is as good as absent
  bool is_null(std::string_view key) const;      // and here it is not
  // Canonical JSON of what is there, `otherwise` when nothing is; more than so many bytes have this code.
  JsonText json(std::string_view key, JsonText otherwise, std::size_t bytes_max, std::string_view too_large) const;
  template <class Enum>
  std::optional<Enum> word(std::string_view key) const {
    if (!has(key)) return std::nullopt;
    auto value = parse_enum<Enum>(text(key));
    if (!value) refuse_word(key, enum_names<Enum>);
    return value;
  }
  template <class AnyId>
  AnyId id(std::string_view key) const {
    auto value = AnyId::parse(text(key));
    if (!value) refuse(key, "is not an id like " + AnyId{}.str());
    return *value;
  }
  // Each element stands for itself: `refused` is told of one that is no object, or of which `visit` throws a Problem.
  void each(std::string_view key, std::size_t count_max, const std::function<void(const Input&)>& visit,
            const std::function<void(const Problem&, const Json& item)>& refused) const;
  [[noreturn]] void refuse(std::string_view key, std::string_view why) const;

 private:
  [[noreturn]] void refuse_word(std::string_view key, std::span<const std::string_view> words) const;

  const boost::json::object* object_;
  std::string place_;
  std::shared_ptr<Json> owned_;
};

}  // namespace pawl::api
