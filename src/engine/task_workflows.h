// The workflows of pawl's own that tasks are made of. One that a tenant needs is published there when it first does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/task.h"

namespace pawl {

struct InternalWorkflow {
  WorkflowName name;
  std::string source;
};

// The only step of a workflow that has an agent carry a task out.
inline constexpr std::string_view agent_step = "agent";

// Whatever a task that this agent carries out, or none, needs.
std::vector<InternalWorkflow> task_workflows(TaskAgent agent);

}  // namespace pawl
