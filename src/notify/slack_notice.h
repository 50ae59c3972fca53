// What people are told in Slack beside approvals: questions of runs and tasks, tasks to review, and approvals that
// nobody has decided for a while. Pure: from a run to JSON, within Slack's limits. There are no buttons: each message
// says which command answers.
#pragma once

#include <optional>
#include <string_view>

#include "core/json.h"
#include "core/run.h"
#include "core/tenant.h"

namespace pawl::notify {

// Of a task that has a question, or waits for its review, with the beginning of its result; nothing otherwise.
std::optional<boost::json::object> task_notice(const Run& task);
// Of a step that waits for an answer; nothing when it does not, or any more.
std::optional<boost::json::object> question_notice(const Run& run, const StepId& step);
// Of an open approval: those who may decide are mentioned, as far as their accounts in this team are known. For the
// thread of its card.
boost::json::object reminder_notice(const Tenant& tenant, const Approval& approval, bool escalates);

}  // namespace pawl::notify
