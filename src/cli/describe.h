// Runs, steps and events in words: what every command that shows something shares.
#pragma once

#include <boost/json/array.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "cli/text.h"
#include "core/event.h"
#include "core/json.h"
#include "core/run.h"
#include "core/vocabulary.h"

namespace pawl {

// 12ms, 0.4s, 12.0s, 3m05s, 2h10m, 4d03h: as exact as one wants to know.
std::string print_elapsed(Duration span);
// $0.02
std::string print_usd(Money amount);
// The same, and what to say when that is not all of it, or nobody knows any of it; empty when it was nought.
std::string print_cost(Money amount, bool is_known);

// How a run's steps stand beside each other: widths by the longest, and what a narrow terminal must do without.
struct StepLayout {
  std::size_t id = 0;
  std::size_t tool = 0;  // 0 = left out
  std::size_t state = 0;
  std::size_t tries = 0;  // 0 = left out
  bool cost = false;
};
StepLayout layout_of(const Run& run, std::size_t columns);

struct StepLook {
  Instant now;
  std::size_t beat = 0;  // which picture of the running sign
  Vocabulary vocabulary = Vocabulary::contract_v1;
};
Line describe_step(const Run& run, StepIndex step, const StepLayout& layout, const Look& look, const StepLook& how);

// A ready step that no worker has taken for so long that a person should know.
inline constexpr Duration untaken_after = std::chrono::seconds(2);
bool is_untaken(const Run& run, StepIndex step, Instant now);
std::string describe_untaken(const Run& run, StepIndex step);

Ink ink_of(RunStatus status);
std::string_view sign_of(RunStatus status, const Look& look);

// "success in 4.1s, $0.02"
Line describe_end(const Run& run, const Look& look, Vocabulary vocabulary = Vocabulary::contract_v1);

// Words of `text` in lines of at most `columns`.
std::vector<std::string> wrap(std::string_view text, std::size_t columns);
// The same of each line of a text of several lines, indented as it is and made safe to show.
std::vector<std::string> wrap_lines(std::string_view text, std::size_t columns);

// What went wrong, the likely cause, what to do, whether a retry can help.
std::vector<Line> describe_diagnostic(const Diagnostic& diagnostic, std::size_t columns);

// The outputs of the steps that nothing else needs: what the run was for. One step's output as it is, several by id.
Json result_of(const Run& run);
// Indented, as many lines as asked for at most, each no wider than `columns`.
std::vector<Line> describe_json(const Json& value, std::size_t lines_max, std::size_t columns, const Look& look);

// What an open approval asks, without its step: tier, quorum, how long there is time.
std::string describe_terms(const Approval& approval, Instant now);
// `title` and a note beside it, or in lines below it where both are wider than `columns`.
std::vector<Line> with_note(Line title, std::string_view note, std::size_t columns);
// What it asks, in one line: the action, or the prompt; may be empty.
std::string prompt_of(const Run& run, const Approval& approval);
// All that somebody who decides must know: what would be done, field by field, why it is asked, who may decide, who has
// approved already. No value is cut; what is more than some screens long ends with a word about it.
// `requesters`: as requester_objects() gives them, with names where those are known.
std::vector<Line> describe_approval(const Run& run, const Approval& approval, std::size_t columns, const Look& look,
                                    const boost::json::array& requesters = {});
// The same of an answer of GET /approvals.
std::vector<Line> describe_approval(const Json& listed, std::size_t columns, const Look& look);
// "bob as group:finance"
std::string describe_vote(const Vote& vote);
// "ada, bob's key ci": those of them whose names are known, or who need none.
std::string requester_names(const Json& requesters);
// "ada" for person:ada, and other actors as they are.
std::string person_name(const Actor& actor);
// As a person reads it: its words and what there is to choose from, when it is an object that has such; otherwise all
// of it.
std::string question_text(const Json& question);
// What answers the question of a step that waits, without the program's name: "answer RUN --step STEP ANSWER", or what
// resolves the receipt that it is about.
std::string answer_command(const Run& run, StepIndex step);
std::string question_text(const JsonText& question);

// A call that an agent was not permitted: its tool, and its input where that is known.
std::string denial_text(const Json& denial);

// One event in words: subject, what happened, and what else there is to know.
struct EventWords {
  std::string subject;  // "run", a step's id, "approval"
  std::string what;     // "running", "succeeded", ...
  std::string more;
  Ink ink = Ink::plain;
};
// `after` is the run with the event folded in.
EventWords describe_event(const Run& after, const RunEvent& event, Vocabulary vocabulary = Vocabulary::contract_v1);

}  // namespace pawl
