// Asks the person at the terminal: approvals (yes, no with a reason, later) and questions (an answer, later).
// A small machine that is fed keys; what it shows is the view's affair.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "cli/carrier.h"
#include "cli/view.h"

namespace pawl {

// Left for another time.
struct Left {};

using PersonsReply = std::variant<Decided, Answered, Left>;

class Asker {
 public:
  // `whole_lines`: keys come a line at a time, echoed by the terminal itself.
  explicit Asker(bool whole_lines) : whole_lines_(whole_lines) {}

  // Takes up the first open matter of `run` that was not left; false when there is none. Drops the one in hand when
  // it is no longer open.
  bool take_up(const Run& run);
  bool is_asking() const { return matter_.has_value(); }
  void drop() { matter_.reset(); }

  // Of the matter in hand.
  Prompt prompt(const Run& run, Instant now, const Look& look, std::size_t columns) const;
  RunId run() const { return matter_->run; }

  // One character of input; a reply when it completes one. End of input leaves the matter.
  std::optional<PersonsReply> key(std::string_view character);
  Left leave();

 private:
  struct Matter {
    RunId run;
    ApprovalId approval;  // nil: a question of this step
    StepId step;
    std::uint64_t token = 0;  // which question: a step can ask again
    friend auto operator<=>(const Matter&, const Matter&) = default;
  };
  enum class Stage { choice, reason, answer };

  bool is_open(const Run& run) const;
  void begin(Matter matter);
  std::optional<PersonsReply> choose(char choice);
  std::optional<PersonsReply> finish();

  bool whole_lines_;
  std::optional<Matter> matter_;
  Stage stage_ = Stage::choice;
  std::string typed_;
  std::set<Matter> left_;
};

}  // namespace pawl
