#include "tools/tools.h"

namespace pawl {

std::vector<std::unique_ptr<Tool>> built_in_tools(const ToolLimits& limits) {
  std::vector<std::unique_ptr<Tool>> tools;
  tools.push_back(make_noop());
  tools.push_back(make_sleep());
  tools.push_back(make_transform(limits));
  tools.push_back(make_shell(limits));
  tools.push_back(make_http_request(limits));
  return tools;
}

ToolCatalog catalog_of(const std::vector<std::unique_ptr<Tool>>& tools) {
  ToolCatalog catalog;
  for (const auto& tool : tools) catalog.add(tool->spec());
  catalog.add({.name = approval_tool, .keys = {}, .writes = ToolSpec::Writes::never});
  return catalog;
}

}  // namespace pawl
