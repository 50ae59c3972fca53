#include "store/tenant_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/bytes.h"
#include "core/event_header.h"
#include "store/store.h"

namespace pawl {
namespace {

constexpr std::uint64_t format_version = 8;

void write_limits(ByteWriter& out, const Limits& limits) {
  for (std::size_t i = 0; i < enum_count<Limit>; ++i) {
    const auto& value = limits[static_cast<Limit>(i)];
    out.u64(value ? 1 : 0);
    if (value) out.i64(*value);
  }
}

void read_limits(ByteReader& in, Limits& limits) {
  for (std::size_t i = 0; i < enum_count<Limit>; ++i)
    if (in.flag()) limits[static_cast<Limit>(i)] = in.i64();
}

void write_restriction(ByteWriter& out, const Restriction& restriction) {
  out.i64(restriction.since.ms);
  out.text(restriction.by.text);
  out.text(restriction.reason);
}

Restriction read_restriction(ByteReader& in) {
  Restriction out;
  out.since.ms = in.i64();
  out.by.text = in.text();
  out.reason = in.text();
  return out;
}

}  // namespace

std::string write_tenant(const Tenant& tenant) {
  std::string bytes;
  ByteWriter out(bytes);
  out.u64(format_version);
  out.text(tenant.name);
  out.i64(tenant.weight);
  write_limits(out, tenant.limits);
  write_limits(out, tenant.ceiling);
  out.i64(tenant.weight_max.value_or(0));
  out.i64(tenant.stored_bytes);
  out.u64(tenant.suspended ? 1 : 0);
  if (tenant.suspended) write_restriction(out, *tenant.suspended);
  out.u64(tenant.freezes.size());
  for (const auto& [what, freeze] : tenant.freezes) {
    out.u64(static_cast<std::uint64_t>(what.first));
    out.text(what.second);
    write_restriction(out, freeze);
  }
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
    out.text(key.secret_id);
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
    out.u64(person.groups.size());
    for (const std::string& group : person.groups) out.text(group);
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
  out.u64(tenant.webhooks.size());
  for (const auto& [name, webhook] : tenant.webhooks) {
    out.text(name);
    out.text(webhook.url);
    out.u64(webhook.events.size());
    for (const std::string& pattern : webhook.events) out.text(pattern);
    out.text(webhook.secret);
    out.i64(webhook.since.ms);
    out.text(webhook.disabled);
  }
  out.u64(tenant.slack ? 1 : 0);
  if (tenant.slack) {
    for (const std::string* text : {&tenant.slack->team, &tenant.slack->channel, &tenant.slack->token,
                                    &tenant.slack->signing_secret, &tenant.slack->api_base})
      out.text(*text);
    out.i64(tenant.slack->since.ms);
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
  tenant.weight = in.i32();
  read_limits(in, tenant.limits);
  read_limits(in, tenant.ceiling);
  if (int highest = in.i32(); highest > 0) tenant.weight_max = highest;
  tenant.stored_bytes = in.i64();
  if (in.flag()) tenant.suspended = read_restriction(in);
  for (std::uint64_t left = in.u64(); left > 0 && !in.bad(); --left) {
    auto scope = static_cast<FreezeScope>(std::min<std::uint64_t>(in.u64(), enum_count<FreezeScope> - 1));
    std::string connector(in.text());
    tenant.freezes[{scope, std::move(connector)}] = read_restriction(in);
  }
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
    key.secret_id = in.text();
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
    for (std::uint64_t groups = in.u64(); groups > 0 && !in.bad(); --groups)
      person.groups.insert(std::string(in.text()));
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
  for (std::uint64_t left = in.u64(); left > 0 && !in.bad(); --left) {
    auto& webhook = tenant.webhooks[std::string(in.text())];
    webhook.url = in.text();
    for (std::uint64_t events = in.u64(); events > 0 && !in.bad(); --events) webhook.events.emplace_back(in.text());
    webhook.secret = in.text();
    webhook.since.ms = in.i64();
    webhook.disabled = in.text();
  }
  if (in.flag()) {
    auto& slack = tenant.slack.emplace();
    for (std::string* text : {&slack.team, &slack.channel, &slack.token, &slack.signing_secret, &slack.api_base})
      *text = in.text();
    slack.since.ms = in.i64();
  }
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

std::vector<BundleRow> stored_bundles(TenantId id, std::string_view lines) {
  std::vector<BundleRow> out;
  while (!lines.empty()) {
    const std::string_view line = take_line(lines);
    if (read_event_header(line).type != "bundle.stored") continue;
    const auto event = parse_tenant_event(line);
    if (const auto* stored = event ? std::get_if<BundleStored>(&event->payload) : nullptr)
      out.push_back({id, *stored, event->at});
  }
  return out;
}

}  // namespace pawl
