// Who executes a run, and what the states of those who do are called here. The table below is all there is to it: the
// code maps by it, the tests walk it, docs/providers.md prints it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "core/names.h"
#include "core/run_lifecycle.h"

namespace pawl {

// native = this engine. external = somebody reports, and contract v1 is enforced on the reports. The others are
// foreign: pawl starts them, looks at them and stops them (src/providers).
enum class Provider { native, external, restate, stepfunctions };
template <>
inline constexpr std::array enum_names<Provider>{std::string_view("native"), std::string_view("external"),
                                                 std::string_view("restate"), std::string_view("stepfunctions")};

constexpr bool is_foreign(Provider provider) {
  return provider == Provider::restate || provider == Provider::stepfunctions;
}

// What a run does just now, in the same words for every provider.
enum class SubState { running, waiting, backing_off, error, succeeded, failed };
template <>
inline constexpr std::array enum_names<SubState>{std::string_view("running"),     std::string_view("waiting"),
                                                 std::string_view("backing-off"), std::string_view("error"),
                                                 std::string_view("succeeded"),   std::string_view("failed")};

// What a provider says beside the name of a state, where one name stands for several sub-states.
enum class Sign {
  none,
  after_failure,     // an attempt runs, and one before it failed
  between_attempts,  // one failed, and the next one has not begun
  awaits_callback    // somebody outside has to say something, or time has to pass
};
template <>
inline constexpr std::array enum_names<Sign>{std::string_view(""), std::string_view("an earlier attempt failed"),
                                             std::string_view("between two attempts"),
                                             std::string_view("waits for a callback or a time")};

struct ProviderState {
  Provider provider;
  std::string_view word;
  Sign sign;
  SubState sub_state;
  // What it makes of the run; nothing while it goes on.
  std::optional<RunTrigger> ends;
  std::string_view note;
};

inline constexpr auto provider_states = [] {
  using enum Provider;
  using enum Sign;
  using enum SubState;
  using Row = ProviderState;
  constexpr auto goes_on = std::nullopt;
  return std::array{
      Row{restate, "running", none, running, goes_on, ""},
      Row{restate, "running", after_failure, error, goes_on, "`last_failure` is set: a retry is being tried"},
      Row{restate, "active", none, running, goes_on, "not said by servers of today"},
      Row{restate, "ready", none, running, goes_on, "about to run"},
      Row{restate, "pending", none, waiting, goes_on, "queued behind another invocation of the same key"},
      Row{restate, "scheduled", none, waiting, goes_on, "its start lies ahead"},
      Row{restate, "backing-off", none, backing_off, goes_on, "a retry is scheduled"},
      Row{restate, "backoff", none, backing_off, goes_on, "not said by servers of today"},
      Row{restate, "retrying", none, backing_off, goes_on, "not said by servers of today"},
      Row{restate, "retry", none, backing_off, goes_on, "not said by servers of today"},
      Row{restate, "suspended", none, waiting, goes_on, "waits for an awakeable, a promise, a call or a timer"},
      Row{restate, "paused", none, waiting, goes_on, "goes on only when an operator resumes it"},
      Row{restate, "completed", none, succeeded, RunTrigger::succeed, "with `completion_result` success"},
      Row{restate, "succeeded", none, succeeded, RunTrigger::succeed, "not said by servers of today"},
      Row{restate, "success", none, succeeded, RunTrigger::succeed, "not said by servers of today"},
      Row{restate, "failed", none, failed, RunTrigger::fail, "`completed` with `completion_result` failure"},
      Row{restate, "error", none, failed, RunTrigger::fail, "not said by servers of today"},
      Row{restate, "cancelled", none, failed, RunTrigger::cancel, "`completed` with the failure `[409] Cancelled`"},
      Row{restate, "killed", none, failed, RunTrigger::cancel, "`completed` with the failure `[409] killed`"},
      Row{stepfunctions, "RUNNING", none, running, goes_on, ""},
      Row{stepfunctions, "RUNNING", between_attempts, backing_off, goes_on,
          "the newest event of the history is a failure that is retried"},
      Row{stepfunctions, "RUNNING", after_failure, error, goes_on,
          "an attempt is under way in a state that failed before"},
      Row{stepfunctions, "RUNNING", awaits_callback, waiting, goes_on,
          "a task token, an activity's worker or a `Wait` state is awaited"},
      Row{stepfunctions, "PENDING_REDRIVE", none, waiting, goes_on, "a child of a map run that will be redriven"},
      Row{stepfunctions, "SUCCEEDED", none, succeeded, RunTrigger::succeed, ""},
      Row{stepfunctions, "FAILED", none, failed, RunTrigger::fail, ""},
      Row{stepfunctions, "TIMED_OUT", none, failed, RunTrigger::time_out, ""},
      Row{stepfunctions, "ABORTED", none, failed, RunTrigger::cancel, "somebody stopped it"},
  };
}();

// The row for what a provider said. Null for a word that it has never been heard to say: the run is taken to be
// running, and whoever asked says so aloud. A sign that the word does not have is no sign.
constexpr const ProviderState* find_provider_state(Provider provider, std::string_view word, Sign sign = Sign::none) {
  const ProviderState* plain = nullptr;
  for (const ProviderState& row : provider_states) {
    if (row.provider != provider || row.word != word) continue;
    if (row.sign == sign) return &row;
    if (row.sign == Sign::none) plain = &row;
  }
  return plain;
}

// What a foreign workflow names instead of steps.
struct Target {
  // Restate: a handler of a service, and for one with keys, which. A template; empty = none, or the run's id for a
  // workflow.
  std::string service;
  std::string handler;
  std::string key;
  // Step Functions: the ARN of a state machine.
  std::string state_machine;

  friend bool operator==(const Target&, const Target&) = default;
};

// arn:PARTITION:states:REGION:ACCOUNT:stateMachine:NAME, taken apart; nothing when it is no such thing.
struct StateMachine {
  std::string_view partition, region, account, name;
};
constexpr std::optional<StateMachine> find_state_machine(std::string_view arn) {
  std::array<std::string_view, 7> parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t colon = i + 1 < parts.size() ? arn.find(':') : arn.npos;
    if (i + 1 < parts.size() && colon == arn.npos) return std::nullopt;
    parts[i] = arn.substr(0, colon);
    arn = colon == arn.npos ? std::string_view() : arn.substr(colon + 1);
    for (char c : parts[i])
      if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
            c == '.'))
        return std::nullopt;
    if (parts[i].empty()) return std::nullopt;
  }
  if (parts[0] != "arn" || parts[2] != "states" || parts[5] != "stateMachine") return std::nullopt;
  return StateMachine{parts[1], parts[3], parts[4], parts[6]};
}

// Where the answer to an approval goes, in the engine that waits for it.
enum class CallbackKind { task_token, awakeable, handler };
template <>
inline constexpr std::array enum_names<CallbackKind>{std::string_view("task_token"), std::string_view("awakeable"),
                                                     std::string_view("handler")};

struct Callback {
  CallbackKind kind = CallbackKind::task_token;
  std::string address;

  friend bool operator==(const Callback&, const Callback&) = default;
};

inline constexpr std::size_t callback_chars_max = 2048;

constexpr Provider provider_of(CallbackKind kind) {
  return kind == CallbackKind::task_token ? Provider::stepfunctions : Provider::restate;
}

}  // namespace pawl
