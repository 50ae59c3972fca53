// decide(state, command, now) -> events or a refusal; evolve(state, event) -> state. Both pure: no I/O, no clock, no
// random number. Every status change in pawl goes through these two functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/command.h"
#include "core/event.h"
#include "core/run.h"

namespace pawl {

// docs/errors.md says of each what it means and what to do.
enum class RefusalCode {
  lease_lost,          // the token is not the live one
  not_claimable,       // the step is not ready, nor its lease over
  nothing_waiting,     // approve, reject or answer with nothing open
  already_resolved,    // that approval was decided otherwise
  ambiguous_approval,  // several are open: name one
  unknown_approval,
  self_approval,         // two_person: those who asked for the run cannot decide
  run_ended,             // the run is terminal
  run_not_ended,         // only an ended run can be retried
  invalid_transition,    // an implementation reported what contract v1 does not have
  not_external,          // only external runs take reports
  provider_unset,        // this server cannot reach who should carry the run
  not_found,             // no such run, workflow or tenant here
  idempotency_conflict,  // that idempotency key belongs to another request, or another action
  not_a_person,          // two_person: a key that is nobody's cannot decide
  not_an_approver,       // the approval names who may decide it
  unknown_receipt,
  outcome_missing,     // a call was allowed whose outcome is not recorded
  effect_in_progress,  // somebody else is having the same effect at this moment
  effect_in_doubt,     // nobody knows whether it happened: a person is asked
  policy_changed,      // the verdict is of an older policy: evaluate again
  not_reversible,      // nothing would undo it
  task_transition,     // the task's state has no such way out
  task_active,         // a task that is queued or running cannot be deleted
  task_cycle,          // it would wait for itself
  effects_frozen,      // nothing may be done outside until the freeze is lifted
  above_ceiling,       // the installation allows the tenant less
  storage_full,        // the tenant's journal has reached max_stored_bytes
  task_limit,          // the tree of tasks is too deep, too large, or has no budget left for it
  unknown_workflow,    // a task names a workflow that is not published
  unknown_task,        // a task names another one, as its parent or to wait for, that does not exist
  invalid              // the request itself is wrong; the field and the message say where
};

template <>
inline constexpr std::array enum_names<RefusalCode>{std::string_view("LEASE_LOST"),
                                                    std::string_view("NOT_CLAIMABLE"),
                                                    std::string_view("NOTHING_WAITING"),
                                                    std::string_view("ALREADY_RESOLVED"),
                                                    std::string_view("AMBIGUOUS_APPROVAL"),
                                                    std::string_view("UNKNOWN_APPROVAL"),
                                                    std::string_view("SELF_APPROVAL"),
                                                    std::string_view("RUN_ENDED"),
                                                    std::string_view("RUN_NOT_ENDED"),
                                                    std::string_view("INVALID_STATE_TRANSITION"),
                                                    std::string_view("NOT_EXTERNAL"),
                                                    std::string_view("PROVIDER_NOT_CONFIGURED"),
                                                    std::string_view("NOT_FOUND"),
                                                    std::string_view("IDEMPOTENCY_KEY_REUSED"),
                                                    std::string_view("NOT_A_PERSON"),
                                                    std::string_view("NOT_AN_APPROVER"),
                                                    std::string_view("UNKNOWN_RECEIPT"),
                                                    std::string_view("OUTCOME_MISSING"),
                                                    std::string_view("EFFECT_IN_PROGRESS"),
                                                    std::string_view("EFFECT_IN_DOUBT"),
                                                    std::string_view("POLICY_CHANGED"),
                                                    std::string_view("NOT_REVERSIBLE"),
                                                    std::string_view("INVALID_TASK_TRANSITION"),
                                                    std::string_view("TASK_ACTIVE"),
                                                    std::string_view("TASK_CYCLE"),
                                                    std::string_view("EFFECTS_FROZEN"),
                                                    std::string_view("ABOVE_CEILING"),
                                                    std::string_view("STORAGE_FULL"),
                                                    std::string_view("TASK_LIMIT"),
                                                    std::string_view("UNKNOWN_WORKFLOW"),
                                                    std::string_view("UNKNOWN_TASK"),
                                                    std::string_view("INVALID_REQUEST")};

// Programs decide by the code and the field. The message is for people: it may be reworded at any time, and no code
// reads it.
struct Refusal {
  RefusalCode code;
  std::string message;
  // Which field of the request is meant, as a JSON pointer into the body of the HTTP request: "/parent_task_id". Empty:
  // the request as a whole.
  std::string field = {};
};

// A report about a lease whose token is not, or no longer, the live one.
Refusal lease_lost_refusal();

struct Decision {
  std::vector<RunEvent> events;
  // A refusal may come with events: its own audit, and the failure of a run that was reported wrongly.
  std::optional<Refusal> refusal;
};

// What randomness a command may need, drawn by the engine beforehand. In [-1, 1].
struct Draws {
  double jitter = 0;
};

Decision decide(const CreateRun& command, Instant now);
Decision decide(const Run& run, const RunCommand& command, Instant now, Draws draws);

// The record of a request that did not fit.
TransitionRefused refused_transition(const Run& run, std::string_view requested, RefusalCode code, const Actor& by);

// Of a run that `creator` makes and that all of these asked for: those beside the creator, each once. Refused when
// there are more than requesters_max.
std::expected<std::vector<Actor>, Refusal> other_requesters_of(const Actor& creator, const std::vector<Actor>& all);

// Whether a run can be retried as a new one, and the command that does it.
std::expected<CreateRun, Refusal> retry_of(const Run& run, RunId new_id, Actor by);

// `run.workflow`, `tenant` and `id` must be set before the first event, which is RunCreated.
// An event that no table allows is our bug: the process stops.
void evolve(Run& run, const RunEvent& event);

// The same, for events whose origin is not trusted (pawl verify): says what is wrong instead of stopping.
std::expected<void, std::string> evolve_checked(Run& run, const RunEvent& event);

// The same for an event as its stream has it, one a line.
std::expected<RunEvent, std::string> fold_line(Run& run, std::string_view line);
// A whole stream, or its beginning, from the first event on.
std::expected<Run, std::string> fold_lines(TenantId tenant, RunId id, const Workflow& workflow, std::string_view lines);

}  // namespace pawl
