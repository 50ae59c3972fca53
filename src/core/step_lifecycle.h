// The step: a unit of work that a worker leases, a gate that a person opens, or a wait that the engine ends.
#pragma once

#include "core/lifecycle.h"

namespace pawl {

enum class StepStatus {
  pending,
  ready,
  running,
  waiting_approval,
  waiting_input,
  failed_retryable,
  succeeded,
  failed_terminal,
  canceled,
  waiting_event  // last: snapshots hold the number
};

enum class StepTrigger {
  unblock,
  open_gate,
  open_wait,
  arrive,
  claim,
  reclaim,
  release,
  complete,
  gate,
  ask,
  fail_retryable,
  fail_terminal,
  due,
  approve_action,
  approve_gate,
  refuse,
  answer,
  cancel
};

template <>
inline constexpr std::array enum_names<StepStatus>{
    std::string_view("pending"),          std::string_view("ready"),           std::string_view("running"),
    std::string_view("waiting_approval"), std::string_view("waiting_input"),   std::string_view("failed_retryable"),
    std::string_view("succeeded"),        std::string_view("failed_terminal"), std::string_view("canceled"),
    std::string_view("waiting_event")};

template <>
inline constexpr std::array enum_names<StepTrigger>{
    std::string_view("unblock"), std::string_view("open_gate"),      std::string_view("open_wait"),
    std::string_view("arrive"),  std::string_view("claim"),          std::string_view("reclaim"),
    std::string_view("release"), std::string_view("complete"),       std::string_view("gate"),
    std::string_view("ask"),     std::string_view("fail_retryable"), std::string_view("fail_terminal"),
    std::string_view("due"),     std::string_view("approve_action"), std::string_view("approve_gate"),
    std::string_view("refuse"),  std::string_view("answer"),         std::string_view("cancel")};

inline constexpr auto step_table = [] {
  using enum StepStatus;
  using enum StepTrigger;
  using Row = Transition<StepStatus, StepTrigger>;
  return std::array{
      Row{pending, unblock, ready},
      Row{pending, open_gate, waiting_approval},
      Row{pending, open_wait, waiting_event},
      Row{pending, StepTrigger::fail_terminal, StepStatus::failed_terminal},
      Row{ready, claim, running},
      Row{running, reclaim, running},
      Row{running, release, ready},
      Row{running, complete, succeeded},
      Row{running, gate, waiting_approval},
      Row{running, ask, waiting_input},
      Row{running, StepTrigger::fail_retryable, StepStatus::failed_retryable},
      Row{running, StepTrigger::fail_terminal, StepStatus::failed_terminal},
      Row{StepStatus::failed_retryable, due, ready},
      Row{waiting_approval, approve_action, ready},
      Row{waiting_approval, approve_gate, succeeded},
      Row{waiting_approval, refuse, StepStatus::failed_terminal},
      Row{waiting_input, answer, ready},
      Row{waiting_event, arrive, succeeded},
      Row{pending, cancel, canceled},
      Row{ready, cancel, canceled},
      Row{running, cancel, canceled},
      Row{waiting_approval, cancel, canceled},
      Row{waiting_input, cancel, canceled},
      Row{waiting_event, cancel, canceled},
      Row{StepStatus::failed_retryable, cancel, canceled},
  };
}();

static_assert(proven(step_table, StepStatus::pending));

constexpr bool is_terminal(StepStatus status) { return is_terminal(step_table, status); }

// It moves without a person.
constexpr bool is_active(StepStatus status) {
  return status == StepStatus::ready || status == StepStatus::running || status == StepStatus::failed_retryable;
}

}  // namespace pawl
