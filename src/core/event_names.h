// The types of events, in the order of the triggers they come from. For event_*.cc, notices.cc and who offers them to
// people.
#pragma once

#include <array>
#include <string_view>

#include "core/event.h"

namespace pawl {

inline constexpr std::array run_event_names{std::string_view("run.started"),   std::string_view("run.paused"),
                                            std::string_view("run.resumed"),   std::string_view("run.succeeded"),
                                            std::string_view("run.failed"),    std::string_view("run.denied"),
                                            std::string_view("run.timed_out"), std::string_view("run.canceled")};

inline constexpr std::array step_event_names{std::string_view("step.unblocked"),
                                             std::string_view("step.gate_opened"),
                                             std::string_view("step.wait_opened"),
                                             std::string_view("step.arrived"),
                                             std::string_view("step.claimed"),
                                             std::string_view("step.reclaimed"),
                                             std::string_view("step.released"),
                                             std::string_view("step.completed"),
                                             std::string_view("step.gated"),
                                             std::string_view("step.asked"),
                                             std::string_view("step.failed_retryable"),
                                             std::string_view("step.failed_terminal"),
                                             std::string_view("step.due"),
                                             std::string_view("step.action_approved"),
                                             std::string_view("step.gate_approved"),
                                             std::string_view("step.refused"),
                                             std::string_view("step.answered"),
                                             std::string_view("step.canceled")};

inline constexpr std::array approval_event_names{
    std::string_view("approval.approved"), std::string_view("approval.rejected"), std::string_view("approval.expired"),
    std::string_view("approval.canceled")};

inline constexpr std::array receipt_event_names{std::string_view("receipt.succeeded"),
                                                std::string_view("receipt.failed"), std::string_view("receipt.doubted"),
                                                std::string_view("receipt.reversed")};

inline constexpr std::array task_event_names{
    std::string_view("task.queued"),          std::string_view("task.started"),
    std::string_view("task.finished"),        std::string_view("task.subtasks_awaited"),
    std::string_view("task.completed"),       std::string_view("task.failed"),
    std::string_view("task.timed_out"),       std::string_view("task.cancelled"),
    std::string_view("task.budget_exceeded"), std::string_view("task.blocked"),
    std::string_view("task.accepted"),        std::string_view("task.rejected"),
    std::string_view("task.retried"),         std::string_view("task.resumed"),
    std::string_view("task.answered"),        std::string_view("task.unblocked")};

static_assert(run_event_names.size() == enum_count<RunTrigger>);
static_assert(step_event_names.size() == enum_count<StepTrigger>);
static_assert(approval_event_names.size() == enum_count<ApprovalTrigger>);
static_assert(task_event_names.size() == enum_count<TaskTrigger>);
static_assert(receipt_event_names.size() == enum_count<ReceiptTrigger>);

}  // namespace pawl
