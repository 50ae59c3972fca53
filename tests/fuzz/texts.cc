// Short texts from outside: ids and cursors, times, durations, amounts, names, queries, API keys. What is taken is
// printed as the same, and one value has one spelling where programs compare texts.
#include <algorithm>
#include <cctype>

#include "api/feed.h"
#include "api/keys.h"
#include "api/request_input.h"
#include "core/chain.h"
#include "core/characters.h"
#include "fuzz.h"

namespace pawl::fuzz {
namespace {

template <class AnyId>
void read_id(std::string_view input) {
  if (const auto id = AnyId::parse(input)) check_equal(id->str(), input, "an id has one spelling");
}

template <class Parse, class Print>
void read_value(std::string_view input, Parse parse, Print print) {
  const auto value = parse(input);
  if (!value) return;
  const std::string text = print(*value);
  check(parse(text) == value, "what is printed is read as the same");
}

void read_query(std::string_view input) {
  try {
    const api::Query query(input);
    for (const std::string_view name : {"limit", "cursor", "after"}) {
      const auto* value = query.find(name);
      check(!value || !find_invalid_utf8(*value), "a parameter is text");
      if (!value) continue;
      const auto number = query.number(name, 1, 500);
      check(number >= 1 && number <= 500, "a number is within its limits");
    }
    query.only({"limit", "cursor", "after"});
  } catch (const api::Problem& problem) {
    check(problem.status == 400 && !problem.code.empty() && !problem.detail.empty(),
          "a query is refused with a reason");
    check(!find_invalid_utf8(api::to_response(problem).body), "a refusal is text");
  }
}

void read_percents(std::string_view input) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : input) {
    encoded += '%';
    encoded += digits[static_cast<unsigned char>(c) >> 4];
    encoded += digits[static_cast<unsigned char>(c) & 15];
  }
  const auto decoded = api::percent_decode(encoded);
  check(decoded && *decoded == input, "any bytes can be percent-encoded");
  const auto as_it_is = api::percent_decode(input);
  check(!as_it_is || as_it_is->size() + 2 * static_cast<std::size_t>(std::ranges::count(input, '%')) >= input.size(),
        "decoding takes three characters for one at most");
}

// A key that is good, and all that can be made of it by changing some of its characters.
void read_key(std::string_view input) {
  static const Instant now{1'800'000'000'000};
  static const api::KeyRing keys(std::string(32, 's'));
  static const api::NewKey key = keys.make(now);
  static api::KeyRing* const ring = [] {
    auto* made = new api::KeyRing(std::string(32, 's'));
    Tenant tenant;
    tenant.keys[key.id] = {"admin", Role::admin, key.secret_hash, key.secret_id, now, {}, now + std::chrono::hours(1)};
    made->update(tenant);
    return made;
  }();
  check(!ring->authenticate(input, now), "a text that is no key lets nobody in");
  std::string near = key.text;
  for (std::size_t i = 0; i < std::min(near.size(), input.size()); ++i) near[i] = static_cast<char>(near[i] ^ input[i]);
  check(ring->authenticate(near, now).has_value() == (near == key.text), "only the key itself is the key");
  check(!ring->authenticate(key.text, now + std::chrono::hours(1)), "a key ends when it expires");
  if (!input.empty()) check(!ring->authenticate(key.text + std::string(input), now), "nothing follows a key");
}

void read_characters(std::string_view input) {
  const auto invalid = find_invalid_utf8(input);
  check(!invalid || *invalid < input.size(), "what is wrong is in the text");
  const std::string_view sound = input.substr(0, invalid.value_or(input.size()));
  check(!find_invalid_utf8(sound), "what comes before it is sound");
  check(count_characters(sound) <= sound.size(), "a character is one byte at least");
  for (std::size_t size = 0; size <= std::min<std::size_t>(sound.size(), 8); ++size) {
    const std::string_view first = first_characters(sound, size);
    check(sound.starts_with(first) && first.size() <= size && size - first.size() < 4,
          "a beginning is as long as it can be");
    check(!find_invalid_utf8(first), "no character is cut");
  }
}

}  // namespace

FUZZ_TARGET(texts) {
  read_id<RunId>(input);  // also the cursor of a list
  read_id<ApprovalId>(input);
  read_id<KeyId>(input);
  if (const auto hash = Hash::parse(input)) check_equal(hash->hex(), input, "a hash has one spelling");
  read_id<api::PositionId>(input);
  api::FeedPositions positions(std::string(32, 's'));
  check(!positions.parse(TenantId{{0, 1}}, input), "nobody can make a position");
  read_value(input, parse_time, print_time);
  read_value(input, parse_duration, print_duration);
  read_value(input, parse_money, print_money);
  if (const auto span = parse_duration(input))
    check(span->count() >= 0 && *span <= duration_max, "a span has its limits");
  if (is_valid_name(input))
    check(!input.empty() && input.size() <= name_chars_max &&
              std::ranges::all_of(input,
                                  [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '_' || c == '-'; }),
          "a name is safe anywhere");
  read_query(input);
  read_percents(input);
  read_key(input);
  read_characters(input);
}

}  // namespace pawl::fuzz
