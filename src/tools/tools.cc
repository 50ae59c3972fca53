#include "tools/tools.h"

#include "core/characters.h"

namespace pawl {

std::string connector_of(const ToolName& tool) { return lower_case(tool.text.substr(0, tool.text.find('.'))); }

std::expected<Plan, Failed> Tool::plan(const Lease& lease, std::stop_token) {
  const std::string& name = lease.tool.str();
  auto dot = name.find('.');
  return Plan{.action = {.connector = connector_of(lease.tool),
                         .operation = dot == name.npos ? "run" : lower_case(name.substr(dot + 1)),
                         .target = name,
                         .fields = lease.shown,
                         .risk = lease.risk}};
}

std::vector<std::unique_ptr<Tool>> built_in_tools(const ToolLimits& limits) {
  std::vector<std::unique_ptr<Tool>> tools;
  tools.push_back(make_noop());
  tools.push_back(make_sleep());
  tools.push_back(make_transform(limits));
  tools.push_back(make_shell(limits));
  tools.push_back(make_http_request(limits));
  tools.push_back(make_servicenow_incident(limits));
  tools.push_back(make_slack_post(limits));
  tools.push_back(make_github_labels(limits));
  tools.push_back(make_github_assignees(limits));
  tools.push_back(make_model_chat(limits));
  tools.push_back(make_agent_claude(limits.agents));
  tools.push_back(make_agent_command(limits.agents));
  return tools;
}

ToolCatalog catalog_of(const std::vector<std::unique_ptr<Tool>>& tools) {
  ToolCatalog catalog;
  for (const auto& tool : tools) catalog.add(tool->spec());
  catalog.add({.name = approval_tool, .keys = {}, .writes = ToolSpec::Writes::never});
  catalog.add({.name = wait_tool, .keys = {}, .writes = ToolSpec::Writes::never});
  return catalog;
}

}  // namespace pawl
