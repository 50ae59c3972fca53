// Why a step or a run ended badly: the seven fields of the tool gateway contract, and where it happened.
// Orchestrators read status, error_code and retryable, and infer nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/id.h"
#include "core/names.h"
#include "core/time.h"

namespace pawl {

enum class Category { policy, validation, dependency, timeout, internal, state, approval, budget, auth, rate_limit };
enum class Severity { info, low, medium, high, critical };

template <>
inline constexpr std::array enum_names<Category>{std::string_view("policy"),     std::string_view("validation"),
                                                 std::string_view("dependency"), std::string_view("timeout"),
                                                 std::string_view("internal"),   std::string_view("state"),
                                                 std::string_view("approval"),   std::string_view("budget"),
                                                 std::string_view("auth"),       std::string_view("rate_limit")};

template <>
inline constexpr std::array enum_names<Severity>{std::string_view("info"), std::string_view("low"),
                                                 std::string_view("medium"), std::string_view("high"),
                                                 std::string_view("critical")};

// A code that pawl itself gives, and what it says where the one who reports it says nothing.
// docs/errors.md is printed from this table.
struct ErrorCode {
  std::string_view code;
  Category category;
  bool retryable;
  Severity severity;
  std::string_view likely_cause;
  std::string_view suggested_fix;
};

inline constexpr std::array error_codes{
    ErrorCode{"TOOL_NOT_IMPLEMENTED", Category::validation, false, Severity::high, "no worker knows this tool",
              "correct the tool's name, or start a worker that offers it"},
    ErrorCode{"TOOL_DENIED", Category::policy, false, Severity::high, "the tool refused what it was asked to do",
              "read the message; change the step or what the tool is allowed"},
    ErrorCode{"TOOL_INVALID_ARGUMENTS", Category::validation, false, Severity::medium,
              "the step's `with` does not fit the tool", "correct the step's `with` and start a new run"},
    ErrorCode{"TOOL_TIMEOUT", Category::timeout, true, Severity::medium, "the tool or what it calls is slow",
              "check the dependency's health, or raise the step's timeout"},
    ErrorCode{"TOOL_DEPENDENCY_DOWN", Category::dependency, true, Severity::medium,
              "what the tool calls is unreachable or failing", "check the dependency's health, then retry"},
    ErrorCode{"TOOL_RATE_LIMITED", Category::rate_limit, true, Severity::low, "too many calls in a short time",
              "retry later, or lower the concurrency"},
    ErrorCode{"TOOL_FAILED", Category::dependency, true, Severity::medium, "the tool ran and reported failure",
              "read the step's message and output"},
    ErrorCode{"TOOL_INTERNAL_ERROR", Category::internal, false, Severity::high, "a bug in the tool",
              "report it with the run's journal"},
    ErrorCode{"TOOL_OUTPUT_TOO_LARGE", Category::validation, false, Severity::medium,
              "the output is over the limit for one step", "return less, or a reference to where it lies"},
    ErrorCode{"AGENT_FAILED", Category::dependency, true, Severity::medium,
              "the agent ended with an error, or without a result", "read the message and the logs: pawl logs RUN"},
    ErrorCode{"AGENT_BUDGET_EXCEEDED", Category::budget, false, Severity::high,
              "the agent reported that it has spent more than max_budget_usd",
              "raise max_budget_usd, or ask for less at once"},
    ErrorCode{"SANDBOX_UNAVAILABLE", Category::dependency, false, Severity::high,
              "the step or the server demands a sandbox, and this machine cannot give one",
              "install bubblewrap and allow user namespaces, or run the step where there is one"},
    ErrorCode{"PROGRAMS_NOT_ALLOWED", Category::policy, false, Severity::high,
              "the tool runs programs on the server, and the installation does not let this tenant do so",
              "ask the person who runs the server to list the tenant in the setting `programs`"},
    ErrorCode{"EXPRESSION_FAILED", Category::validation, false, Severity::medium,
              "an expression has no value, or one of the wrong kind", "correct the expression and start a new run"},
    ErrorCode{"SECRET_UNAVAILABLE", Category::dependency, false, Severity::high,
              "a secret that the step names is not to be had", "put it where the message says that it was looked for"},
    ErrorCode{"SECRET_NOT_ALLOWED", Category::policy, false, Severity::high,
              "the step names a secret that pawl itself uses, or that the installation limits to others",
              "use another secret, or ask the person who runs the server to change the setting `secrets`"},
    ErrorCode{"LEASE_EXPIRED", Category::dependency, true, Severity::medium, "the worker died, stalled, or was cut off",
              "check the worker; raise the step's lease if it needs longer"},
    ErrorCode{"SERVER_LOST", Category::dependency, false, Severity::high,
              "the server died again and again while it ran this step: the step may be what kills it",
              "look at what the step does to the server's memory and disk; run it with a remote worker"},
    ErrorCode{"RUN_TIMEOUT", Category::timeout, true, Severity::high, "the run passed its deadline",
              "raise the workflow's timeout, or retry as a new run"},
    ErrorCode{"BUDGET_EXCEEDED", Category::budget, false, Severity::high, "the recorded cost passed budget_usd",
              "raise budget_usd, or make the steps cheaper"},
    ErrorCode{"WRITE_CAP_EXCEEDED", Category::policy, false, Severity::high,
              "the run asked for more writes than max_writes_per_run", "raise the cap, or split the run"},
    ErrorCode{"POLICY_DENIED", Category::policy, false, Severity::high,
              "the tenant's policy does not allow this action",
              "read the rule that is named; change the action, or the policy: pawl policy show"},
    ErrorCode{"EFFECTS_FROZEN", Category::policy, false, Severity::high,
              "the installation or an admin of the tenant has frozen effects: none may begin",
              "read who froze them and why; once that is lifted (pawl unfreeze), retry the run"},
    ErrorCode{"ACTION_CHANGED", Category::policy, false, Severity::critical,
              "after people approved one action the worker proposed another under its key",
              "find out why the step's action differs from what was approved; then start a new run"},
    ErrorCode{"EFFECT_IN_PROGRESS", Category::state, true, Severity::low,
              "another run has the same effect under way, or in doubt, under the same idempotency key",
              "wait for it; it is tried again by itself"},
    ErrorCode{"EFFECT_ABSENT", Category::dependency, true, Severity::low,
              "an effect that was in doubt turned out not to have happened", "nothing: it may be tried again"},
    ErrorCode{"EFFECT_UNKNOWN", Category::dependency, true, Severity::high,
              "the call ended without an answer, so its effect may or may not have happened",
              "see the receipt: what cannot be repeated safely is asked of a person"},
    ErrorCode{"IDEMPOTENCY_KEY_REUSED", Category::validation, false, Severity::high,
              "the step's idempotency key belongs to another action", "give the step a key of its own"},
    ErrorCode{"UNDO_CONFLICT", Category::state, false, Severity::medium,
              "what was written has been changed by someone else since", "look at the target and decide by hand"},
    ErrorCode{"APPROVAL_REJECTED", Category::approval, false, Severity::medium, "a person said no",
              "read the reason; change what is asked for"},
    ErrorCode{"APPROVAL_EXPIRED", Category::approval, false, Severity::medium, "nobody decided in time",
              "tell the approvers, or give them longer; then start a new run, which asks again"},
    ErrorCode{"DEPENDENCY_FAILED", Category::dependency, true, Severity::medium,
              "a task that this one depends on failed, was cancelled, or is gone",
              "see to the task that is named; then run this one again"},
    ErrorCode{"TASK_NOT_STARTED", Category::validation, true, Severity::medium,
              "the run that should carry the task out cannot be made",
              "publish the workflow that is named, then run the task again; without budget left, create a new one"},
    ErrorCode{"PROVIDER_REFUSED", Category::validation, false, Severity::high,
              "the engine that should carry the run does not take it",
              "read the message; correct the workflow's target"},
    ErrorCode{"PROVIDER_RUN_FAILED", Category::dependency, false, Severity::medium,
              "the workflow failed in the engine that carries it", "read the message, and look at it there"},
    ErrorCode{"PROVIDER_RUN_LOST", Category::dependency, false, Severity::high,
              "the engine that carried the run does not know it any more, so nobody knows how it ended",
              "look at what it was to do; then retry as a new run"},
    ErrorCode{"INVALID_STATE_TRANSITION", Category::state, false, Severity::critical,
              "an implementation reported a transition that contract v1 does not have",
              "correct the orchestrator; then retry as a new run"},
};

constexpr const ErrorCode* find_error_code(std::string_view code) {
  for (const auto& row : error_codes)
    if (row.code == code) return &row;
  return nullptr;
}

struct Diagnostic {
  std::string error_code;
  Category category = Category::internal;
  std::string message;
  std::string likely_cause;
  std::string suggested_fix;
  bool retryable = false;
  Severity severity = Severity::medium;

  StepId step;      // empty when the run as a whole is meant
  int attempt = 0;  // 0 likewise
  Instant occurred_at;
  // What led to this one: a run's diagnostic names its step's. Depth at most diagnostic_depth_max.
  std::shared_ptr<const Diagnostic> cause;

  friend bool operator==(const Diagnostic& a, const Diagnostic& b);
};

inline constexpr int diagnostic_depth_max = 4;
inline constexpr std::size_t diagnostic_code_chars_max = 80;
inline constexpr std::size_t diagnostic_message_chars_max = 2000;

// At most diagnostic_message_chars_max bytes of it, cut at a character's boundary.
std::string diagnostic_message(std::string text);

// Fills category, retryable, severity, cause and fix from the table; unknown codes are internal and terminal.
// Messages over the limit are cut.
Diagnostic diagnose(std::string_view code, std::string message, Instant at);

}  // namespace pawl
