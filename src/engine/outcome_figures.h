// What became of runs and of attempts, by workflow and by tool, for monitoring. Names are the tenants' to choose, so
// only so many are told apart; the rest is counted together.
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "core/names.h"
#include "core/run_lifecycle.h"
#include "engine/scheduler.h"

namespace pawl {

struct RunOutcomes {
  std::array<std::uint64_t, enum_names<RunStatus>.size()> by_status{};  // the terminal ones
};

struct ToolOutcomes {
  std::uint64_t attempts = 0;  // begun
  std::uint64_t succeeded = 0;
  std::uint64_t failed_retryable = 0;
  std::uint64_t failed_terminal = 0;
  std::uint64_t released = 0;
};

class OutcomeFigures {
 public:
  static constexpr std::size_t workflows_max = 500, tools_max = 200;

  RunOutcomes& of_workflow(Scheduler::WorkflowNumber number) {
    if (number >= workflows_max) return other_workflows_;
    if (number >= workflows_.size()) workflows_.resize(number + 1);
    return workflows_[number];
  }
  ToolOutcomes& of_tool(const ToolName& tool) {
    if (auto found = tools_.find(tool.text); found != tools_.end()) return found->second;
    return tools_.size() < tools_max ? tools_[tool.text] : other_tools_;
  }

  const std::vector<RunOutcomes>& workflows() const { return workflows_; }
  const RunOutcomes& other_workflows() const { return other_workflows_; }
  const auto& tools() const { return tools_; }
  const ToolOutcomes& other_tools() const { return other_tools_; }

 private:
  std::vector<RunOutcomes> workflows_;  // by number
  RunOutcomes other_workflows_;
  boost::unordered_flat_map<std::string, ToolOutcomes> tools_;
  ToolOutcomes other_tools_;
};

}  // namespace pawl
