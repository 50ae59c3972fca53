#include "core/reference.h"

#include "core/diagnostic.h"
#include "core/vocabulary.h"

namespace pawl {
namespace {

// What the one who is on call does first. The table in diagnostic.h says what is wrong; this says what to touch.
struct Advice {
  std::string_view code;
  std::string_view what_to_do;
};

constexpr std::array advice{
    Advice{"TOOL_NOT_IMPLEMENTED",
           "Compare the step's `tool` with what your workers offer, publish a corrected version of the workflow, and "
           "start a new run; or start a worker that knows the tool, and retry this one."},
    Advice{"TOOL_DENIED",
           "Do not retry unchanged: the tool will refuse again. Decide whether the step asks for too much or the tool "
           "is allowed too little, and change that one."},
    Advice{"TOOL_INVALID_ARGUMENTS",
           "Read which key the message names, correct it in the workflow or in the run's input, and start a new run."},
    Advice{"TOOL_TIMEOUT",
           "Nothing while attempts remain. If it keeps coming back, measure how long the call takes and set the step's "
           "`timeout` above that."},
    Advice{"TOOL_DEPENDENCY_DOWN",
           "Nothing while attempts remain. Once the dependency is back, retry the runs that have failed meanwhile."},
    Advice{"TOOL_RATE_LIMITED",
           "Nothing while attempts remain; a Retry-After is obeyed. If it keeps coming back, lower `max_concurrency`."},
    Advice{"TOOL_FAILED", "Read the message: it holds what the tool said last. Retry the run once the cause is gone."},
    Advice{"TOOL_INTERNAL_ERROR",
           "Keep the run as it is, export its events and report them to the tool's owner; a retry would most likely "
           "end the same way."},
    Advice{"TOOL_OUTPUT_TOO_LARGE",
           "Have the step store the result elsewhere and return where it lies, or select what later steps need with "
           "`transform`."},
    Advice{"EXPRESSION_FAILED",
           "The message names the expression. Check that the step it reads from produces that field, also when its "
           "answer is empty."},
    Advice{"LEASE_EXPIRED",
           "Look for the worker that the message names: did it crash, hang, or lose the network? Workers that are "
           "healthy but slow need a longer `lease` or more frequent heartbeats."},
    Advice{"RUN_TIMEOUT",
           "Look at the diagnostic's cause, if it has one: a step that kept failing explains most of these. Otherwise "
           "start a new run with a longer `timeout`; a retry keeps the old one."},
    Advice{"BUDGET_EXCEEDED",
           "Compare the cost of each step with what you expected before raising `budget_usd`. A retry starts "
           "from nought again, under the same budget."},
    Advice{"WRITE_CAP_EXCEEDED",
           "Check whether the run should write that often at all: the cap exists to stop a loop. If it should, raise "
           "`max_writes_per_run` for this workflow and start a new run."},
    Advice{"APPROVAL_REJECTED", "Talk to the person whose name and reason stand in the message. A retry asks again."},
    Advice{"APPROVAL_EXPIRED", "Make sure that the approvers are told, then retry the run: it asks again."},
    Advice{"INVALID_STATE_TRANSITION",
           "Find in the run's events which move was reported and in which state the run was, and correct whoever "
           "reported it; then retry as a new run."},
};

constexpr bool every_code_has_advice() {
  if (advice.size() != error_codes.size()) return false;
  for (std::size_t i = 0; i < advice.size(); ++i)
    if (advice[i].code != error_codes[i].code) return false;
  return true;
}
static_assert(every_code_has_advice(), "a new error code needs its line of advice, in the same order");

constexpr std::string_view yes_no(bool value) { return value ? "yes" : "no"; }

// The tables hold phrases; the page holds sentences.
std::string sentence(std::string_view phrase) {
  std::string out(phrase);
  if (!out.empty() && out.front() >= 'a' && out.front() <= 'z')
    out.front() = static_cast<char>(out.front() - 'a' + 'A');
  return out + ".";
}

std::string code_text(std::string_view word) { return word.empty() ? "null" : "`" + std::string(word) + "`"; }

std::string row(const std::vector<std::string>& cells) {
  std::string out = "|";
  for (const auto& cell : cells) out += " " + cell + " |";
  return out + "\n";
}

std::string header(const std::vector<std::string>& names) {
  std::string out = row(names) + "|";
  for (std::size_t i = 0; i < names.size(); ++i) out += "---|";
  return out + "\n";
}

std::vector<std::string> vocabulary_names() {
  std::vector<std::string> out;
  for (auto name : enum_names<Vocabulary>) out.push_back(code_text(name));
  return out;
}

}  // namespace

std::string run_projection_reference() {
  auto names = vocabulary_names();
  names.insert(names.begin(), "while");
  names.push_back("sub_state");
  std::string out = header(names);
  for (const auto& projection : run_projections) {
    std::vector<std::string> cells{projection.phase == RunPhase::plain ? "" : std::string(to_string(projection.phase))};
    for (auto word : projection.words) cells.push_back(code_text(word));
    cells.push_back(code_text(projection.sub_state));
    out += row(cells);
  }
  return out;
}

std::string step_projection_reference() {
  std::string out = header(vocabulary_names());
  for (const auto& projection : step_projections) {
    std::vector<std::string> cells;
    for (auto word : projection.words) cells.push_back(code_text(word));
    out += row(cells);
  }
  return out;
}

std::string error_reference() {
  std::string out;
  for (std::size_t i = 0; i < error_codes.size(); ++i) {
    const ErrorCode& code = error_codes[i];
    if (i > 0) out += "\n";
    out += "## " + std::string(code.code) + "\n\n";
    out += header({"category", "retryable", "severity"});
    out += row({std::string(to_string(code.category)), std::string(yes_no(code.retryable)),
                std::string(to_string(code.severity))});
    out += "\n**Likely cause.** " + sentence(code.likely_cause) + "\n";
    out += "\n**Suggested fix.** " + sentence(code.suggested_fix) + "\n";
    out += "\n**What to do.** " + std::string(advice[i].what_to_do) + "\n";
  }
  return out;
}

}  // namespace pawl
