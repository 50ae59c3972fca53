// Workflows from text, against a small catalog of tools.
#pragma once

#include <string>
#include <string_view>

#include "core/workflow.h"
#include "yaml/yaml.h"

namespace pawl {

inline ToolCatalog test_tools() {
  using Kind = ToolKey::Kind;
  ToolCatalog tools;
  tools.add({{"noop"}, {{"note", false, Kind::text}}, ToolSpec::Writes::never});
  tools.add({sleep_tool, {{"duration", true, Kind::duration}}, ToolSpec::Writes::never});
  tools.add({{"transform"}, {{"jq", true, Kind::text}, {"input", false, Kind::any}}, ToolSpec::Writes::never});
  tools.add({{"http.request"},
             {{.name = "method", .kind = Kind::text, .fallback = "\"GET\""},
              {"url", true, Kind::text},
              {"headers", false, Kind::text_map, true},
              {"body", false, Kind::any},
              {"redirects", false, Kind::number},
              {"insecure", false, Kind::boolean},
              {"wait", false, Kind::duration},
              {.name = "undo", .kind = Kind::map, .secrets = true, .response = true}},
             ToolSpec::Writes::by_method});
  tools.add({{"shell"},
             {{"args", true, Kind::text_list}, {"env", false, Kind::map}, {"files", false, Kind::list}},
             ToolSpec::Writes::always});
  return tools;
}

inline std::expected<Workflow, std::vector<SourceError>> workflow_from(std::string_view text) {
  const auto document = read_yaml(text);
  if (!document) return std::unexpected(std::vector{document.error()});
  const ToolCatalog tools = test_tools();
  return read_workflow(*document, &tools);
}

// Every error on a line of its own: "3:5: reason".
inline std::string errors_of(std::string_view text) {
  const auto workflow = workflow_from(text);
  if (workflow) return "no error";
  std::string out;
  for (const auto& error : workflow.error()) out += print_error("", error).substr(1) + "\n";
  if (!out.empty()) out.pop_back();
  return out;
}

}  // namespace pawl
