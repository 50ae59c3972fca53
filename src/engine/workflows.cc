#include "engine/workflows.h"

#include <algorithm>
#include <climits>

#include "core/event_header.h"
#include "core/invariant.h"
#include "core/tenant.h"
#include "crypto/sha256.h"
#include "store/store.h"
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

std::expected<Workflow, std::string> read_stored_workflow(const WorkflowRow& row) {
  if (sha256(row.source).hex() != row.digest) return std::unexpected("its source is not what was published");
  auto workflow = compile_workflow(row.source, row.name.text, nullptr);
  if (!workflow) return std::unexpected("it cannot be read: " + workflow.error());
  if (workflow->name != row.name) return std::unexpected("its source is that of " + workflow->name.text);
  workflow->version = row.version;
  return workflow;
}

WorkflowDigests published_digests(Store& store, TenantId tenant, std::set<std::pair<WorkflowName, int>> wanted) {
  WorkflowDigests out;
  store.for_each_piece_back(StreamKey::of(tenant), [&](std::uint64_t, std::string_view lines) {
    while (!lines.empty()) {
      const std::string_view line = take_line(lines);
      if (read_event_header(line).type != "workflow.published") continue;
      auto event = parse_tenant_event(line);
      const auto* published = event ? std::get_if<WorkflowPublished>(&event->payload) : nullptr;
      if (!published || wanted.erase({published->workflow, published->version}) == 0) continue;
      out[{published->workflow, published->version}] = published->digest;
    }
    return !wanted.empty();
  });
  return out;
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
