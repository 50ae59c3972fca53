#include "store/tenant_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/bytes.h"
#include "store/store.h"

namespace pawl {
namespace {

constexpr std::uint64_t format_version = 5;

void write_cap(ByteWriter& out, const std::optional<int>& cap) {
  out.u64(cap ? 1 : 0);
  if (cap) out.i64(*cap);
}

std::optional<int> read_cap(ByteReader& in) {
  if (!in.flag()) return std::nullopt;
  return in.i32();
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
  out.u64(tenant.keys.size());
  for (const auto& [id, key] : tenant.keys) {
    out.id(id.bits);
    out.text(key.name);
    out.u64(static_cast<std::uint64_t>(key.role));
    out.text(key.secret_hash);
    out.i64(key.created_at.ms);
    out.text(key.created_by.text);
    out.i64(key.expires_at.ms);
    out.u64(key.revoked ? 1 : 0);
  }
  out.u64(tenant.people.size());
  for (const auto& [name, person] : tenant.people) {
    out.text(name);
    out.u64(person.keys.size());
    for (KeyId key : person.keys) out.id(key.bits);
    out.u64(person.accounts.size());
    for (const std::string& account : person.accounts) out.text(account);
  }
  out.i64(tenant.policy.version);
  out.text(tenant.policy.digest);
  out.text(tenant.policy.source);
  out.u64(tenant.signing_keys.size());
  for (const auto& [id, key] : tenant.signing_keys) {
    out.text(id);
    out.text(key.public_key);
    out.i64(key.from.ms);
    out.i64(key.until.ms);
  }
  out.text(tenant.signing_key);
  out.u64(tenant.checkpoint.number);
  out.u64(tenant.checkpoint.size);
  out.text(tenant.checkpoint.hash.hex());
  out.u64(tenant.checkpoint.peaks.size());
  for (const Hash& peak : tenant.checkpoint.peaks) out.text(peak.hex());
  out.u64(tenant.seq);
  return bytes;
}

std::optional<Tenant> read_tenant(TenantId id, std::string_view bytes) {
  ByteReader in(bytes);
  if (in.u64() != format_version) return std::nullopt;
  Tenant tenant;
  tenant.id = id;
  tenant.name = in.text();
  tenant.weight = in.i32();
  tenant.caps.max_concurrency = read_cap(in);
  tenant.caps.max_runs_per_min = read_cap(in);
  tenant.caps.max_writes_per_run = read_cap(in);
  for (std::uint64_t left = in.u64(); left > 0 && !in.bad(); --left) {
    WorkspaceName workspace{std::string(in.text())};
    tenant.workspaces[workspace] = in.i32();
  }
  for (std::uint64_t left = in.u64(); left > 0 && !in.bad(); --left) {
    WorkflowName workflow{std::string(in.text())};
    auto& published = tenant.workflows[workflow];
    published.version = in.i32();
    published.digest = in.text();
  }
  for (std::uint64_t left = in.u64(); left > 0 && !in.bad(); --left) {
    auto& key = tenant.keys[KeyId{in.id()}];
    key.name = in.text();
    key.role = static_cast<Role>(std::min<std::uint64_t>(in.u64(), enum_count<Role> - 1));
    key.secret_hash = in.text();
    key.created_at.ms = in.i64();
    key.created_by.text = in.text();
    key.expires_at.ms = in.i64();
    key.revoked = in.u64() != 0;
  }
  for (std::uint64_t left = in.u64(); left > 0 && !in.bad(); --left) {
    auto& person = tenant.people[std::string(in.text())];
    for (std::uint64_t keys = in.u64(); keys > 0 && !in.bad(); --keys) person.keys.insert(KeyId{in.id()});
    for (std::uint64_t accounts = in.u64(); accounts > 0 && !in.bad(); --accounts)
      person.accounts.insert(std::string(in.text()));
  }
  tenant.policy.version = in.i32();
  tenant.policy.digest = in.text();
  tenant.policy.source = in.text();
  for (std::uint64_t left = in.u64(); left > 0 && !in.bad(); --left) {
    auto& key = tenant.signing_keys[std::string(in.text())];
    key.public_key = in.text();
    key.from.ms = in.i64();
    key.until.ms = in.i64();
  }
  tenant.signing_key = in.text();
  tenant.checkpoint.number = in.u64();
  tenant.checkpoint.size = in.u64();
  tenant.checkpoint.hash = Hash::parse(in.text()).value_or(Hash{});
  for (std::uint64_t left = in.u64(); left > 0 && !in.bad(); --left)
    tenant.checkpoint.peaks.push_back(Hash::parse(in.text()).value_or(Hash{}));
  tenant.seq = in.u64();
  if (in.bad() || !in.at_end()) return std::nullopt;
  return tenant;
}

Tenant fold_tenant(TenantId id, std::string_view lines) {
  Tenant tenant;
  tenant.id = id;
  while (!lines.empty()) {
    auto end = lines.find('\n');
    auto event = parse_tenant_event(lines.substr(0, end));
    if (!event) throw StoreFailure(fmt::format("the history of {} is damaged: {}", id.str(), event.error()));
    if (auto evolved = evolve_checked(tenant, *event); !evolved)
      throw StoreFailure(fmt::format("the history of {} is damaged: {}", id.str(), evolved.error()));
    lines.remove_prefix(end == lines.npos ? lines.size() : end + 1);
  }
  return tenant;
}

}  // namespace pawl
