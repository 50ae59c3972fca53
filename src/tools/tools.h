// The tools that every pawl has, and the limits that its operator sets for them. A workflow cannot raise these.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/time.h"
#include "core/tool_spec.h"
#include "tools/http_address.h"
#include "tools/tool.h"

namespace pawl {

class Prices;
struct AgentContext;

struct ToolLimits {
  // Processor time, since a program that computes cannot be slow for any other reason of its own; on a busy machine
  // the wall gives it longer.
  Duration transform_cpu_max = std::chrono::seconds(1);
  Duration transform_wall_max = std::chrono::seconds(10);
  std::size_t transform_memory_bytes_max = std::size_t{256} << 20;

  // Between SIGTERM and SIGKILL.
  Duration shell_kill_grace = std::chrono::seconds(2);
  // Of stdout, and of stderr: both together still fit into one output.
  std::size_t shell_stream_bytes_max = step_output_bytes_max / 2;

  Duration http_timeout = std::chrono::seconds(30);
  Duration http_connect_timeout = std::chrono::seconds(10);
  std::size_t http_body_bytes_max = step_output_bytes_max;
  // Private, loopback, link-local and other special addresses are refused, unless they are listed here.
  std::vector<HttpAllow> http_allow = {};
  // When true, http_proxy and its kin are heeded, and what may be reached behind the proxy is the proxy's affair.
  bool http_proxy_from_environment = false;
  // Of model calls; null: those that come with pawl.
  std::shared_ptr<const Prices> prices = {};
  // Where agents live, and sandboxes are. Null: agents can be named in workflows, and are refused.
  std::shared_ptr<const AgentContext> agents = {};
};

// The tools must outlive every worker pool that uses them.
std::vector<std::unique_ptr<Tool>> built_in_tools(const ToolLimits& limits);

// What workflows may name: the tools, and `approval`, which no worker executes.
ToolCatalog catalog_of(const std::vector<std::unique_ptr<Tool>>& tools);

std::unique_ptr<Tool> make_noop();
std::unique_ptr<Tool> make_sleep();
// Starts helper processes of this same program: its main() must call jq_child_main() (see jq_child.h).
std::unique_ptr<Tool> make_transform(const ToolLimits& limits);
std::unique_ptr<Tool> make_shell(const ToolLimits& limits);
// A fixed program: the step's input on its stdin, its output on stdout, both JSON. When it exits with anything but 0,
// an object on stdout may say more: error_code, message, retryable, retry_after.
std::unique_ptr<Tool> make_program(ToolName name, std::vector<std::string> argv, const ToolLimits& limits);
std::unique_ptr<Tool> make_http_request(const ToolLimits& limits);
std::unique_ptr<Tool> make_servicenow_incident(const ToolLimits& limits);
std::unique_ptr<Tool> make_slack_post(const ToolLimits& limits);
std::unique_ptr<Tool> make_github_labels(const ToolLimits& limits);
std::unique_ptr<Tool> make_github_assignees(const ToolLimits& limits);
std::unique_ptr<Tool> make_model_chat(const ToolLimits& limits);
std::unique_ptr<Tool> make_agent_claude(std::shared_ptr<const AgentContext> agents);
std::unique_ptr<Tool> make_agent_command(std::shared_ptr<const AgentContext> agents);

}  // namespace pawl
