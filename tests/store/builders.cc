#include <fmt/format.h>

#include <algorithm>

#include "crypto/sha256.h"
#include "store/store_suite.h"

namespace pawl::test {
namespace {

constexpr std::int64_t first_ms = 1'700'000'000'000;

}  // namespace

TenantId tenant_id(std::uint64_t number) {
  return {{static_cast<std::uint64_t>(first_ms) << 16 | 0x7000, 0x8000'0000'0000'0000 | number}};
}

Instant run_time(std::uint64_t number) { return {first_ms + static_cast<std::int64_t>(number) * 1000}; }

RunId run_id(std::uint64_t number) {
  return {{static_cast<std::uint64_t>(run_time(number).ms) << 16 | 0x7000, 0x8000'0000'0000'0000 | number}};
}

Hash head_after(StreamKey key, std::uint64_t seq) {
  Hash head = genesis(key);
  for (std::uint64_t at = 1; at <= seq; ++at) {
    std::string line = lines_of(key, at, at);
    line.pop_back();
    head = chain_next(sha256, head, line);
  }
  return head;
}

std::string lines_of(StreamKey key, std::uint64_t first_seq, std::uint64_t last_seq) {
  std::string lines;
  for (std::uint64_t seq = first_seq; seq <= last_seq; ++seq)
    lines += fmt::format("{{\"seq\":{},\"stream\":\"{:x}\"}}\n", seq, key.stream.low);
  return lines;
}

History history_of(StreamKey key, std::uint64_t first_seq, std::uint64_t last_seq) {
  return {key, first_seq, lines_of(key, first_seq, last_seq), last_seq, head_after(key, last_seq)};
}

RunFold new_run(TenantId tenant, std::uint64_t number, std::uint64_t seq) {
  RunFold fold;
  fold.is_new = true;
  RunRow& row = fold.row;
  row.tenant = tenant;
  row.id = run_id(number);
  row.workflow.text = "triage";
  row.version = 2;
  row.workspace.text = "default";
  row.status = RunStatus::running;
  row.created_at = run_time(number);
  row.updated_at = run_time(number) + Duration(static_cast<std::int64_t>(seq));
  row.seq = seq;
  row.snapshot = fmt::format("snapshot {} of {}", seq, number);
  fold.history = history_of(StreamKey::of(tenant, row.id), 1, seq);
  row.head = fold.history.head;
  fold.follows = genesis(fold.history.key);
  return fold;
}

RunFold later(const RunFold& before, std::uint64_t events, RunStatus status) {
  RunFold fold;
  fold.row = before.row;
  fold.follows = before.row.head;
  fold.leases = fold.leases_before = before.leases;
  fold.was_ready = !before.ready.empty();
  fold.row.status = status;
  fold.row.seq += events;
  fold.row.updated_at = before.row.updated_at + Duration(static_cast<std::int64_t>(events));
  fold.row.snapshot = fmt::format("snapshot {}", fold.row.seq);
  if (events > 0) {
    fold.history = history_of(before.history.key, before.row.seq + 1, fold.row.seq);
    fold.row.head = fold.history.head;
  } else {
    fold.history.key = before.history.key;
  }
  return fold;
}

ReadyStep ready_step(const RunFold& fold, StepIndex step) {
  return {fold.row.tenant,
          fold.row.workspace,
          fold.row.workflow,
          {fmt::format("tool-{}", step)},
          fold.row.id,
          step,
          fold.row.status == RunStatus::created};
}

ApprovalRow approval(const RunFold& fold, std::uint64_t ordinal, ApprovalStatus status) {
  ApprovalRow row;
  row.tenant = fold.row.tenant;
  row.id.bits = derive_id(fold.row.id.bits, ordinal);
  row.run = fold.row.id;
  row.step.text = fmt::format("gate-{}", ordinal);
  row.status = status;
  row.tier = Tier::high;
  row.requested_at = fold.row.created_at + Duration(static_cast<std::int64_t>(ordinal));
  row.expires_at = row.requested_at + std::chrono::hours(4);
  return row;
}

Tenant tenant_named(TenantId id, const std::string& name, std::uint64_t seq) {
  Tenant tenant;
  tenant.id = id;
  tenant.name = name;
  tenant.weight = 7;
  tenant.limits[Limit::max_concurrency] = 5;
  tenant.limits[Limit::max_writes_per_run] = 0;
  tenant.ceiling[Limit::max_stored_bytes] = std::int64_t{1} << 40;
  tenant.weight_max = 8;
  tenant.stored_bytes = 123'456'789;
  tenant.freezes[{FreezeScope::tenant, ""}] = {{15}, {"person:ada"}, "an incident"};
  tenant.freezes[{FreezeScope::installation, "shop"}] = {{16}, {"key:2"}, "another"};
  tenant.workspaces[{"default"}] = 1;
  tenant.workspaces[{"slow"}] = 3;
  tenant.workflows[{"triage"}] = {2, "digest of 2"};
  tenant.policy = {3, "digest of 3", "policy: p\nrules: [{id: all, effect: deny}]\n"};
  tenant.webhooks["orders"] = {"https://example.com/in", {"run.*", "approval.requested"}, "KEY", {17}, ""};
  tenant.webhooks["gone"] = {"https://example.com/gone", {"*"}, "KEY", {18}, "it answered 410 Gone"};
  tenant.slack = {"T1", "C1", "BOT", "SIGNING", "https://slack.com/api", {19}};
  tenant.seq = seq;
  return tenant;
}

TenantFold tenant_fold(const Tenant& tenant, std::uint64_t first_seq) {
  StreamKey key = StreamKey::of(tenant.id);
  return {tenant, history_of(key, first_seq, tenant.seq), head_after(key, first_seq - 1)};
}

std::string parts_of(const std::vector<StreamKey>& keys) {
  std::string parts;
  for (StreamKey key : keys) append_part(parts, {key, 1, lines_of(key, 1, 3)});
  return parts;
}

std::string describe(const RunRow& row) {
  return fmt::format("{} {} {} v{} {} {} {} {} created {} updated {} due {} leased {} seq {} {} [{}]", row.tenant.str(),
                     row.id.str(), row.workflow.text, row.version, row.workspace.text, to_string(row.status),
                     to_string(row.phase.value()), row.error_code, row.created_at.ms, row.updated_at.ms, row.due_at.ms,
                     row.leased, row.seq, row.head.hex(), row.snapshot);
}

std::string describe(Store& store) {
  std::string out = fmt::format("last {}\n", store.last_position());
  store.for_each_frame(
      [&](Position at, std::string_view parts) { out += fmt::format("frame {} {}\n", at, std::string(parts)); });
  for (const Tenant& tenant : store.tenants()) out += fmt::format("tenant {} {}\n", tenant.name, tenant.seq);
  store.for_each_workflow([&](const WorkflowRow& row) {
    out += fmt::format("workflow {} {} {} {}\n", row.name.text, row.version, row.digest, row.source);
  });
  store.for_each_ready([&](const ReadyStep& step) {
    out += fmt::format("ready {} {} {} {}\n", step.run.str(), step.step, step.tool.text, step.fresh);
  });
  store.for_each_start({0}, [&](const StartRow& row) {
    out += fmt::format("start {} {} {}\n", row.tenant.str(), row.workflow.text, row.at.ms);
  });
  for (const DueRun& run : store.leased_runs()) out += fmt::format("leased {}\n", run.run.str());
  for (const DueRun& run : store.due_runs(end_of_time, 1000, std::nullopt))
    out += fmt::format("due {} {}\n", run.due_at.ms, run.run.str());
  store.for_each_stream([&](StreamKey key) {
    auto stream = store.history(key);
    out += fmt::format("stream {} {}\n{}", stream.last_seq, stream.head.hex(), stream.lines);
    if (key.is_tenant()) return;
    if (auto row = store.load(key.tenant, {key.stream})) out += "run " + describe(*row) + "\n";
  });
  for (const Tenant& tenant : store.tenants())
    for (std::size_t status = 0; status < enum_count<ApprovalStatus>; ++status)
      for (const ApprovalRow& row :
           store.list_approvals(tenant.id, {.status = static_cast<ApprovalStatus>(status), .limit = 1000}))
        out += fmt::format("approval {} {} {}\n", row.id.str(), row.step.text, to_string(row.status));
  return out;
}

std::vector<RunId> ids_of(const std::vector<RunRow>& rows) {
  std::vector<RunId> ids;
  std::ranges::transform(rows, std::back_inserter(ids), &RunRow::id);
  return ids;
}

std::vector<RunId> ids_of(const std::vector<DueRun>& runs) {
  std::vector<RunId> ids;
  std::ranges::transform(runs, std::back_inserter(ids), &DueRun::run);
  return ids;
}

}  // namespace pawl::test
