#include "engine/workflows.h"

#include <climits>

#include "core/invariant.h"
#include "crypto/sha256.h"
#include "yaml/yaml.h"

namespace pawl {

std::expected<Workflow, std::string> compile_workflow(std::string_view source, std::string_view file,
                                                      const ToolCatalog* tools, const TenantRules* rules) {
  auto document = read_yaml(source);
  if (!document) return std::unexpected(print_error(file, document.error()));
  auto workflow = read_workflow(*document, tools, rules);
  if (!workflow) return std::unexpected(print_errors(file, workflow.error()));
  workflow->source = source;
  workflow->digest = sha256(source).hex();
  return std::move(*workflow);
}

const Workflow* Workflows::find(TenantId tenant, const WorkflowName& name, int version) const {
  auto found = versions_.find({tenant, name, version});
  return found == versions_.end() ? nullptr : found->second.get();
}

const Workflow* Workflows::latest(TenantId tenant, const WorkflowName& name) const {
  auto after = versions_.upper_bound({tenant, name, INT_MAX});
  if (after == versions_.begin()) return nullptr;
  const auto& [key, workflow] = *std::prev(after);
  return std::get<0>(key) == tenant && std::get<1>(key) == name ? workflow.get() : nullptr;
}

const Workflow& Workflows::add(TenantId tenant, Workflow workflow) {
  auto key = std::tuple(tenant, workflow.name, workflow.version);
  auto [it, is_new] = versions_.emplace(std::move(key), std::make_unique<const Workflow>(std::move(workflow)));
  invariant(is_new, "a workflow version was added twice");
  return *it->second;
}

}  // namespace pawl
