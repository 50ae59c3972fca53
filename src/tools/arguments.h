// A step's `with`, read defensively: expressions may have put anything anywhere. Each getter answers with what is there
// or with nothing, and the first thing that does not fit is kept as the refusal, which names its key.
//
//   Arguments with(lease.input);
//   const auto url = with.required_text("url");
//   const auto timeout = with.duration("timeout").value_or(default_timeout);
//   if (with.refusal()) return *with.refusal();
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"
#include "core/money.h"
#include "core/time.h"
#include "engine/lease.h"

namespace pawl {

using TextMap = std::vector<std::pair<std::string, std::string>>;

class Arguments {
 public:
  explicit Arguments(const JsonText& input);

  // A key that is null counts as absent: that is what an expression yields for a value that was not given.
  const Json* any(std::string_view key) const;
  std::optional<std::string> text(std::string_view key);
  std::string required_text(std::string_view key);
  std::optional<bool> boolean(std::string_view key);
  // A whole number that is not negative.
  std::optional<int> count(std::string_view key);
  std::optional<Duration> duration(std::string_view key);
  std::optional<Money> money(std::string_view key);
  std::vector<std::string> text_list(std::string_view key);
  TextMap text_map(std::string_view key);

  // `key` does not fit, for a reason that follows it in the sentence: "`url` must be text".
  void refuse(std::string_view key, std::string_view reason);
  const std::optional<Failed>& refusal() const { return refusal_; }

 private:
  Json values_;
  std::optional<Failed> refusal_;
};

}  // namespace pawl
