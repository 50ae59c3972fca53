// One authoritative run status, many vocabularies. What is stored are the words of contract v1; the words of the other
// documents are projections of it, computed here and never stored. The two tables below are all there is to it, and
// docs/lifecycles.md prints them.
#pragma once

#include <string_view>

#include "core/run.h"

namespace pawl {

enum class Vocabulary { contract_v1, state_machine, runtime };

template <>
inline constexpr std::array enum_names<Vocabulary>{std::string_view("contract-v1"), std::string_view("state-machine"),
                                                   std::string_view("runtime")};

using Words = std::array<std::string_view, enum_count<Vocabulary>>;

// What a run is up to, beyond its stored status, in the vocabularies that care.
enum class RunPhase {
  plain,
  backing_off,  // some step waits for its retry and none is ready or running
  // A failed attempt waits for someone's decision to retry. The engine itself never leaves a native run so: its
  // steps back off or end. It shows where another orchestrator reported a diagnostic with a move that ends nothing.
  error,
  awaiting_event  // the run waits for a timer, an event or another run, and for no person
};

template <>
inline constexpr std::array enum_names<RunPhase>{std::string_view("plain"), std::string_view("backing off"),
                                                 std::string_view("error"), std::string_view("awaiting event")};

struct RunProjection {
  RunStatus stored;
  RunPhase phase;
  Words words;                 // in the order of Vocabulary
  std::string_view sub_state;  // canonical across providers; empty = null: execution has not begun
};

inline constexpr auto run_projections = [] {
  using enum RunStatus;
  using enum RunPhase;
  using Row = RunProjection;
  return std::array{
      Row{created, plain, {"created", "PENDING", "queued"}, ""},
      Row{running, plain, {"running", "RUNNING", "running"}, "running"},
      Row{running, backing_off, {"running", "RUNNING", "failed_retryable"}, "backing-off"},
      Row{running, error, {"running", "RUNNING", "running"}, "error"},
      Row{waiting, plain, {"waiting", "WAITING_APPROVAL", "waiting_approval"}, "waiting"},
      Row{waiting, error, {"waiting", "WAITING_APPROVAL", "waiting_approval"}, "error"},
      Row{waiting, awaiting_event, {"waiting", "RUNNING", "running"}, "waiting"},
      Row{success, plain, {"success", "SUCCEEDED", "succeeded"}, "succeeded"},
      Row{failed, plain, {"failed", "FAILED", "failed_terminal"}, "failed"},
      Row{denied, plain, {"denied", "FAILED", "failed_terminal"}, "failed"},
      Row{timeout, plain, {"timeout", "FAILED", "failed_terminal"}, "failed"},
      Row{canceled, plain, {"canceled", "CANCELED", "canceled"}, "failed"},
  };
}();

struct StepProjection {
  StepStatus stored;
  Words words;
};

inline constexpr auto step_projections = [] {
  using enum StepStatus;
  using Row = StepProjection;
  return std::array{
      Row{pending, {"pending", "PENDING", "ready"}},
      Row{ready, {"ready", "PENDING", "ready"}},
      Row{running, {"running", "RUNNING", "running"}},
      Row{waiting_approval, {"waiting_approval", "WAITING_APPROVAL", "waiting_approval"}},
      Row{waiting_input, {"waiting_input", "WAITING_APPROVAL", "waiting_approval"}},
      Row{failed_retryable, {"failed_retryable", "PENDING", "failed_retryable"}},
      Row{succeeded, {"succeeded", "SUCCEEDED", "succeeded"}},
      Row{failed_terminal, {"failed_terminal", "FAILED", "failed_terminal"}},
      Row{canceled, {"canceled", "CANCELED", "canceled"}},
      Row{waiting_event, {"waiting_event", "RUNNING", "running"}},
  };
}();

RunPhase phase_of(const Run& run);

std::string_view run_word(Vocabulary vocabulary, RunStatus status, RunPhase phase);
std::string_view run_word(Vocabulary vocabulary, const Run& run);
std::string_view step_word(Vocabulary vocabulary, StepStatus status);
// The provider-agnostic word for what the run does just now; empty = null.
std::string_view sub_state(RunStatus status, RunPhase phase);
std::string_view sub_state(const Run& run);

// Approvals have the same five words everywhere: enum_names<ApprovalStatus>.

}  // namespace pawl
