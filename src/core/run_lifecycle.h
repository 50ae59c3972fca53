// The run: contract v1, exactly its nine transitions. Nothing else may change a run's status.
//
// Moves that contract v1 does not have are paths of these rows, appended in one commit (see decide.cc):
// cancel of a created run = start, cancel; rejected while waiting = resume, deny; deadline while waiting = resume,
// time_out.
#pragma once

#include "core/lifecycle.h"

namespace pawl {

enum class RunStatus { created, running, waiting, success, failed, denied, timeout, canceled };
enum class RunTrigger { start, pause, resume, succeed, fail, deny, time_out, cancel };

template <>
inline constexpr std::array enum_names<RunStatus>{std::string_view("created"), std::string_view("running"),
                                                  std::string_view("waiting"), std::string_view("success"),
                                                  std::string_view("failed"),  std::string_view("denied"),
                                                  std::string_view("timeout"), std::string_view("canceled")};

template <>
inline constexpr std::array enum_names<RunTrigger>{
    std::string_view("start"), std::string_view("pause"), std::string_view("resume"),   std::string_view("succeed"),
    std::string_view("fail"),  std::string_view("deny"),  std::string_view("time_out"), std::string_view("cancel")};

inline constexpr auto run_table = [] {
  using enum RunStatus;
  using enum RunTrigger;
  using Row = Transition<RunStatus, RunTrigger>;
  return std::array{
      Row{created, start, running},    Row{running, pause, waiting},   Row{waiting, resume, running},
      Row{running, succeed, success},  Row{running, fail, failed},     Row{running, deny, denied},
      Row{running, time_out, timeout}, Row{running, cancel, canceled}, Row{waiting, cancel, canceled},
  };
}();

static_assert(proven(run_table, RunStatus::created));
static_assert(run_table.size() == 9);

constexpr bool is_terminal(RunStatus status) { return is_terminal(run_table, status); }

// These carry a diagnostic, always.
constexpr bool ended_badly(RunStatus status) {
  return status == RunStatus::failed || status == RunStatus::denied || status == RunStatus::timeout;
}

}  // namespace pawl
