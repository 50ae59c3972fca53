#include "store/sqlite/tenant_state.h"

#include "core/bytes.h"

namespace pawl::sqlite {
namespace {

constexpr std::uint64_t format_version = 1;

void write_cap(ByteWriter& out, const std::optional<int>& cap) {
  out.u64(cap ? 1 : 0);
  if (cap) out.i64(*cap);
}

std::optional<int> read_cap(ByteReader& in) {
  if (in.u64() == 0) return std::nullopt;
  return static_cast<int>(in.i64());
}

}  // namespace

std::string write_tenant(const Tenant& tenant) {
  std::string bytes;
  ByteWriter out(bytes);
  out.u64(format_version);
  out.text(tenant.name);
  out.i64(tenant.weight);
  write_cap(out, tenant.caps.max_concurrency);
  write_cap(out, tenant.caps.max_runs_per_min);
  write_cap(out, tenant.caps.max_writes_per_run);
  out.u64(tenant.workspaces.size());
  for (const auto& [workspace, weight] : tenant.workspaces) {
    out.text(workspace.text);
    out.i64(weight);
  }
  out.u64(tenant.workflows.size());
  for (const auto& [workflow, published] : tenant.workflows) {
    out.text(workflow.text);
    out.i64(published.version);
    out.text(published.digest);
  }
  out.u64(tenant.seq);
  return bytes;
}

std::optional<Tenant> read_tenant(TenantId id, std::string_view bytes) {
  ByteReader in(bytes);
  if (in.u64() != format_version) return std::nullopt;
  Tenant tenant;
  tenant.id = id;
  tenant.name = in.text();
  tenant.weight = static_cast<int>(in.i64());
  tenant.caps.max_concurrency = read_cap(in);
  tenant.caps.max_runs_per_min = read_cap(in);
  tenant.caps.max_writes_per_run = read_cap(in);
  for (std::uint64_t left = in.u64(); left > 0 && !in.bad(); --left) {
    WorkspaceName workspace{std::string(in.text())};
    tenant.workspaces[workspace] = static_cast<int>(in.i64());
  }
  for (std::uint64_t left = in.u64(); left > 0 && !in.bad(); --left) {
    WorkflowName workflow{std::string(in.text())};
    auto& published = tenant.workflows[workflow];
    published.version = static_cast<int>(in.i64());
    published.digest = in.text();
  }
  tenant.seq = in.u64();
  if (in.bad() || !in.at_end()) return std::nullopt;
  return tenant;
}

}  // namespace pawl::sqlite
