// Reads typed values out of a document, and keeps every complaint with its place, so that an author sees them all at
// once. A reason says what to write instead.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/money.h"
#include "core/names.h"
#include "core/source.h"
#include "core/time.h"

namespace pawl {

// `text`, on one line and cut when it is long: fit to stand in a reason.
std::string quote(std::string_view text);
// A reason may quote what it is about: line ends and other control characters become spaces.
std::string one_line(std::string text);
// "a, b or c"
std::string list_words(std::span<const std::string_view> words, std::string_view last = "or");
// "; did you mean `timeout`?", or nothing when no candidate is near.
std::string suggest(std::string_view word, std::span<const std::string_view> candidates);

const SourceNode::Entry* find_entry(const SourceNode& map, std::string_view key);
// Where the character at `offset` of a scalar stands, as near as can be told.
Place place_inside(const SourceNode& node, std::size_t offset);

struct IntegerRange {
  int min = 0;
  int max = 0;
};

struct KeyAdvice {
  std::string_view key;
  std::string_view instead;  // "write `needs: [fetch]`"
};

struct KnownKeys {
  std::string_view owner;  // who has keys: "a step"
  std::span<const std::string_view> here;
  // Keys that have a meaning, but not here, and why: "belongs to a step with `tool: approval`".
  std::span<const std::string_view> elsewhere = {};
  std::string_view why_elsewhere = {};
  // Keys that other systems have, and what to write instead.
  std::span<const KeyAdvice> advice = {};
};

// Each reading function gives nothing after it has refused; `name` is what the author calls the value.
class SourceReader {
 public:
  void refuse(Place place, std::string reason);
  // "`timeout` must be a duration, not a list"
  void refuse_kind(const SourceNode& node, std::string_view name, std::string_view wanted);

  std::size_t error_count() const { return errors_.size(); }
  // Further complaints are dropped: no one reads them all, and a hostile document can hold a hundred thousand.
  bool is_full() const { return errors_.size() >= errors_kept_max; }
  // Sorted by place, at most errors_max of them.
  std::vector<SourceError> take_errors(std::size_t errors_max);

  bool is_map(const SourceNode& node, std::string_view name);
  bool is_list(const SourceNode& node, std::string_view name);
  void only_keys(const SourceNode& map, const KnownKeys& known);
  // Refuses keys that there is advice about, and says whether there were any.
  bool refuse_advised(const SourceNode& map, std::span<const KeyAdvice> advice);
  // "this step has no `id`; add one, such as `id: fetch`"
  const SourceNode::Entry* required(const SourceNode& map, std::string_view key, std::string_view owner,
                                    std::string_view example);

  // May hold expressions; the other functions refuse them.
  std::optional<std::string> text_template(const SourceNode& node, std::string_view name);
  std::optional<std::string> text(const SourceNode& node, std::string_view name, std::string_view wanted = "text");
  std::optional<std::string> valid_name(const SourceNode& node, std::string_view name);
  std::optional<bool> boolean(const SourceNode& node, std::string_view name);
  std::optional<int> integer(const SourceNode& node, std::string_view name, IntegerRange range);
  std::optional<double> fraction(const SourceNode& node, std::string_view name);
  std::optional<Duration> duration(const SourceNode& node, std::string_view name, Duration min);
  std::optional<Money> money(const SourceNode& node, std::string_view name);

  template <class Enum>
  std::optional<Enum> word(const SourceNode& node, std::string_view name) {
    const auto at = word_index(node, name, enum_names<Enum>);
    return at ? std::optional(static_cast<Enum>(*at)) : std::nullopt;
  }

  // Plain scalars by the core schema of YAML 1.2; quoted ones are strings. What JSON cannot say is refused and null.
  Json json(const SourceNode& node);

 private:
  bool refuse_advised(const SourceNode::Entry& entry, std::span<const KeyAdvice> advice);
  std::optional<std::size_t> word_index(const SourceNode& node, std::string_view name,
                                        std::span<const std::string_view> words);
  Json plain_scalar(const SourceNode& node);

  static constexpr std::size_t errors_kept_max = 200;
  std::vector<SourceError> errors_;
};

}  // namespace pawl
