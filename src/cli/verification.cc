#include "cli/verification.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "core/decide.h"
#include "core/invariants.h"
#include "core/snapshot.h"
#include "crypto/sha256.h"
#include "engine/resident.h"

namespace pawl {
namespace {

auto ready_key(const ReadyStep& ready) { return std::tuple(ready.step, ready.tool, ready.workspace, ready.fresh); }

auto approval_key(const ApprovalRow& row) {
  return std::tuple(row.id, row.step, row.status, row.tier, row.requested_at, row.expires_at);
}

bool is_same(const BundleRow& a, const BundleRow& b) {
  auto members = [](const BundleRow& row) {
    return std::tie(row.at, row.stored.seq, row.stored.sha256, row.stored.bytes, row.stored.where);
  };
  return members(a) == members(b);
}

}  // namespace

std::optional<RunEvent> fold_line(Run& run, const StreamLine& line, const Found& found) {
  auto wrong = [&](const std::string& what) { found({run.id.str(), line.seq, what}); };
  auto event = parse_run_event(line.text);
  if (!event) {
    wrong(event.error());
    return std::nullopt;
  }
  std::string again;
  append_event(again, *event);
  if (again != line.text) wrong("the event is not in canonical form");
  if (auto evolved = evolve_checked(run, *event); !evolved) {
    wrong(evolved.error());
    return std::nullopt;
  }
  return std::move(*event);
}

Verification::Verification(Store& store, Found found, Progress progress)
    : store_(store),
      found_(std::move(found)),
      progress_(std::move(progress)),
      streams_(store, StreamReader::Frames::kept),
      workflows_(store) {}

void Verification::report(std::string subject, std::uint64_t seq, std::string what) {
  found_({std::move(subject), seq, std::move(what)});
}

VerifyCounts Verification::check() {
  auto tenants = store_.tenants();
  for (const Tenant& tenant : tenants) check_tenant(tenant);
  for (const std::string& problem : workflows_.problems()) report("workflows", 0, problem);
  check_workflow_rows(store_, published_, found_);

  for (const Tenant& tenant : tenants)
    for (std::size_t status = 0; status < enum_count<ApprovalStatus>; ++status)
      for (ApprovalRow& row :
           store_.list_approvals(tenant.id, {.status = static_cast<ApprovalStatus>(status), .limit = SIZE_MAX})) {
        ++counts_.approvals;
        approvals_[row.run].push_back(std::move(row));
      }
  for (const Tenant& tenant : tenants) read_receipts(tenant.id);
  store_.for_each_ready([&](const ReadyStep& ready) {
    ++counts_.ready;
    ready_[ready.run].push_back(ready);
  });

  store_.for_each_start({INT64_MIN},
                        [&](const StartRow& start) { starts_.emplace(start.tenant, start.workflow, start.at); });

  std::set<StreamKey> unfolded;
  for (StreamKey key : streams_.unfolded())
    if (key.is_tenant())
      check_tenant_is_there(key, tenants, found_);
    else
      unfolded.insert(key);
  store_.for_each_stream([&](StreamKey key) {
    if (!audits_.contains(key.tenant)) check_tenant_is_there(key, tenants, found_);
    if (key.is_tenant()) return;
    unfolded.erase(key);
    check_run_stream(key);
  });
  for (StreamKey key : unfolded) check_run_stream(key);
  check_leftovers();
  for (const Tenant& tenant : tenants) check_bundle_rows(tenant.id);
  check_bundles();
  for (auto& [tenant, audit] : audits_) {
    audit.end();
    counts_.checkpoints += audit.checkpoints();
  }
  for (const SignedCheckpoint& held : held_)
    if (!audits_.contains(held.tenant))
      report(held.tenant.str(), 0, "a checkpoint is held of this tenant, which is not here");
  return counts_;
}

void Verification::read_receipts(TenantId tenant) {
  constexpr std::size_t page = 10'000;
  for (ReceiptFilter filter{.limit = page};;) {
    auto rows = store_.list_receipts(tenant, filter);
    counts_.receipts += rows.size();
    if (!rows.empty()) filter.before = rows.back().id;
    bool more = rows.size() == page;
    for (ReceiptRow& row : rows) receipts_[row.run].push_back(std::move(row));
    if (!more) return;
  }
}

void Verification::check_tenant(const Tenant& tenant) try {
  ++counts_.tenants;
  WholeStream stream = streams_.read(StreamKey::of(tenant.id));
  for (const std::string& problem : stream.problems) report(tenant.id.str(), 0, problem);
  Tenant folded;
  folded.id = tenant.id;
  auto& audit = audits_
                    .try_emplace(tenant.id, tenant.id,
                                 [this](const std::string& subject, std::uint64_t seq, const std::string& what) {
                                   report(subject, seq, what);
                                 })
                    .first->second;
  for (const SignedCheckpoint& held : held_) audit.expect(held);
  std::string again;
  for (const StreamLine& line : stream.lines) {
    ++counts_.events;
    auto event = parse_tenant_event(line.text);
    if (!event) return report(tenant.id.str(), line.seq, event.error());
    again.clear();
    append_event(again, *event);
    if (again != line.text) report(tenant.id.str(), line.seq, "the event is not in canonical form");
    audit.see(line.seq, *event);
    if (const auto* published = std::get_if<WorkflowPublished>(&event->payload)) {
      published_[tenant.id][{published->workflow, published->version}] = published->digest;
      if (sha256(published->source).hex() != published->digest)
        report(tenant.id.str(), line.seq, "a workflow's digest is not that of its source");
    }
    if (const auto* stored = std::get_if<BundleStored>(&event->payload))
      bundles_[{tenant.id, stored->run}] = {tenant.id, *stored, event->at};
    if (const auto* published = std::get_if<PolicyPublished>(&event->payload))
      if (sha256(published->source).hex() != published->digest)
        report(tenant.id.str(), line.seq, "a policy's digest is not that of its source");
    if (auto evolved = evolve_checked(folded, *event); !evolved)
      return report(tenant.id.str(), line.seq, evolved.error());
  }
  this->audit(StreamKey::of(tenant.id), stream);
  if (folded != tenant) report(tenant.id.str(), 0, "the tenant's row is not the fold of its stream");
} catch (const StoreFailure& failure) {
  report(tenant.id.str(), 0, failure.what());
}

void Verification::audit(StreamKey key, const WholeStream& stream) {
  auto found = audits_.find(key.tenant);
  if (found == audits_.end()) return;
  found->second.see_stream(key.is_tenant() ? key.tenant.str() : RunId{key.stream}.str(),
                           [&](std::uint64_t seq) -> std::optional<Hash> {
                             if (seq == 0 || seq > stream.lines.size()) return std::nullopt;
                             return stream.lines[seq - 1].hash;
                           });
}

void check_workflow_rows(Store& store, std::map<TenantId, WorkflowDigests> published, const Found& found) {
  store.for_each_workflow([&](const WorkflowRow& row) {
    const std::string name = fmt::format("workflow {} v{}", row.name.text, row.version);
    auto& of_tenant = published[row.tenant];
    auto digest = of_tenant.find({row.name, row.version});
    if (digest == of_tenant.end()) return found({name, 0, "it is in the table and was never published"});
    if (digest->second != row.digest || sha256(row.source).hex() != row.digest)
      found({name, 0, "its source is not what was published"});
    of_tenant.erase(digest);
  });
  for (const auto& [tenant, missing] : published)
    for (const auto& [key, digest] : missing)
      found(
          {fmt::format("workflow {} v{}", key.first.text, key.second), 0, "it was published and is not in the table"});
}

void check_tenant_is_there(StreamKey key, const std::vector<Tenant>& tenants, const Found& found) {
  if (std::ranges::find(tenants, key.tenant, &Tenant::id) != tenants.end()) return;
  found({key.tenant.str(), 0,
         key.is_tenant() ? "its stream is there and it has no row"
                         : fmt::format("{} is its run, and it has no row", RunId{key.stream}.str())});
}

void Verification::check_run_stream(StreamKey key) {
  ++counts_.runs;
  if (counts_.runs % 256 == 0) progress_(counts_);
  std::string id = RunId{key.stream}.str();
  WholeStream stream;
  try {
    stream = streams_.read(key);
  } catch (const StoreFailure& failure) {
    return report(id, 0, failure.what());
  }
  for (const std::string& problem : stream.problems) report(id, 0, problem);
  audit(key, stream);
  auto created = creation_of(stream);
  if (!created) return report(id, 0, created.error());
  const Workflow* workflow = workflows_.find(key.tenant, created->workflow, created->version);
  if (!workflow)
    return report(id, 1, fmt::format("{} v{} was never published", created->workflow.text, created->version));
  if (workflow->digest != created->workflow_digest) report(id, 1, "its workflow is not the one it was created with");
  fold_and_compare(key, stream, *workflow);
}

void Verification::fold_and_compare(StreamKey key, const WholeStream& stream, const Workflow& workflow) {
  Run run;
  run.tenant = key.tenant;
  run.id = RunId{key.stream};
  run.workflow = &workflow;
  std::string id = run.id.str();
  auto row = store_.load(key.tenant, run.id);
  auto commit_end = stream.commit_ends.begin();
  Instant last_at;
  for (const StreamLine& line : stream.lines) {
    ++counts_.events;
    auto event = fold_line(run, line, found_);
    if (!event) return;
    last_at = event->at;
    bool is_folded_end = row && line.seq == row->seq;
    bool is_commit_end = commit_end != stream.commit_ends.end() && *commit_end == line.seq;
    if (is_commit_end) ++commit_end;
    if (is_folded_end || is_commit_end)
      for (const std::string& problem : check_run(run)) report(id, line.seq, problem);
    if (is_folded_end) {
      check_row(run, stream, *row);
      if (row->updated_at != last_at) report(id, line.seq, "the row's updated_at is not the last event's time");
    }
  }
  check_start(run);
  if (row && row->seq > stream.lines.size())
    report(id, row->seq,
           fmt::format("the row is at an event the journal does not have; it ends at {}", stream.lines.size()));
  if (!row && stream.folded_seq > 0) report(id, 0, "its events are folded and it has no row");
}

void compare_row(const Run& run, const WholeStream& stream, const RunRow& row, const Found& found) {
  auto expect = [&](bool holds, std::string_view what) {
    if (!holds) found({run.id.str(), row.seq, fmt::format("the row is not the fold of the journal: {}", what)});
  };
  expect(row.seq == stream.folded_seq, "seq differs from the history's");
  expect(row.head == stream.lines[row.seq - 1].hash, "the head is not the chain's hash");
  expect(row.status == run.status,
         fmt::format("status is {}, folded {}", to_string(row.status), to_string(run.status)));
  expect(!row.phase || *row.phase == phase_of(run), "phase");
  expect(row.error_code == (run.diagnostic ? run.diagnostic->error_code : ""), "error_code");
  expect(row.workflow == run.workflow->name && row.version == run.workflow->version, "workflow or version");
  expect(row.workspace == run.workspace, "workspace");
  expect(row.created_at == run.created_at, "created_at");
  bool leased = std::ranges::any_of(run.steps, [](const Step& s) { return s.status == StepStatus::running; });
  expect(row.leased == leased, "leased");
  // While a step runs, the due time follows its heartbeats, which are not journaled.
  if (!leased) expect(row.due_at == next_due(run), "due_at");
  auto snapshot = read_snapshot(row.snapshot, *run.workflow);
  bool is_this_format = !row.snapshot.empty() && row.snapshot[0] == write_snapshot(run)[0];
  if (snapshot)
    expect(same_fold(*snapshot, run), "the snapshot");
  else
    expect(!is_this_format, "the snapshot cannot be read");
}

namespace {

// The receipts that hold an idempotency key of the author's and are not found by it.
std::vector<ReceiptRow> check_receipts_of(Store& store, const Run& run, const Found& found) {
  std::vector<ReceiptRow> unfound;
  for (const Receipt& receipt : run.receipts) {
    const ReceiptRow folded = receipt_row(run, receipt);
    if (store.find_receipt(run.tenant, receipt.id) != folded)
      found({run.id.str(), run.seq, fmt::format("the row of {} is not the fold of the journal", receipt.id.str())});
    if (!holds_key(receipt.status) || owner_of_key(folded.key)) continue;
    if (auto holders = store.find_effects(run.tenant, folded.key);
        std::ranges::find(holders, receipt.id, &ReceiptRow::id) != holders.end())
      continue;
    found({run.id.str(), run.seq, fmt::format("{} is not found by its idempotency key", receipt.id.str())});
    unfound.push_back(folded);
  }
  return unfound;
}

void check_approvals_and_requests_of(Store& store, const Run& run, const Found& found) {
  for (const ApprovalRow& folded : approval_rows(run)) {
    auto row = store.find_approval(run.tenant, folded.id);
    if (!row || row->run != run.id || approval_key(*row) != approval_key(folded))
      found({run.id.str(), run.seq, fmt::format("the row of {} is not the fold of the journal", folded.id.str())});
  }
  for (const std::string& key : request_keys(run))
    if (store.find_request(run.tenant, key) != run.id)
      found({run.id.str(), run.seq, "a repeated request to create it would not find it by its key"});
}

}  // namespace

std::vector<ReceiptRow> check_run_alone(Store& store, const WholeStream& stream, const RunRow& row,
                                        const PublishedWorkflows& workflows, const Found& found) {
  const std::string id = row.id.str();
  auto give_up = [&](std::uint64_t seq, const std::string& what) {
    found({id, seq, what});
    return std::vector<ReceiptRow>();
  };
  for (const std::string& problem : stream.problems) found({id, 0, problem});
  if (!stream.problems.empty()) return {};
  auto created = creation_of(stream);
  if (!created) return give_up(0, created.error());
  const Workflow* workflow = workflows.find(row.tenant, created->workflow, created->version);
  if (!workflow || workflow->digest != created->workflow_digest)
    return give_up(1, "its workflow is not the one it was created with");
  if (row.seq == 0 || row.seq > stream.lines.size())
    return give_up(row.seq, "the row is at an event that is not there");
  Run run;
  run.tenant = row.tenant;
  run.id = row.id;
  run.workflow = workflow;
  for (const StreamLine& line : stream.lines) {
    if (line.seq > row.seq) break;
    auto event = fold_line(run, line, found);
    if (!event) return {};
    if (line.seq == row.seq && row.updated_at != event->at)
      found({id, line.seq, "the row's updated_at is not the last event's time"});
  }
  compare_row(run, stream, row, found);
  check_approvals_and_requests_of(store, run, found);
  return check_receipts_of(store, run, found);
}

WorkflowDigests check_tenant_alone(const WholeStream& stream, const Tenant& tenant, const Found& found) {
  const std::string id = tenant.id.str();
  for (const std::string& problem : stream.problems) found({id, 0, problem});
  WorkflowDigests published;
  if (!stream.problems.empty()) return published;
  Tenant folded;
  folded.id = tenant.id;
  auto give_up = [&](std::uint64_t seq, const std::string& what) {
    found({id, seq, what});
    return published;
  };
  std::vector<KnownKey> keys;
  std::optional<CheckpointMade> last;
  for (const StreamLine& line : stream.lines) {
    auto event = parse_tenant_event(line.text);
    if (!event) return give_up(line.seq, event.error());
    if (auto evolved = evolve_checked(folded, *event); !evolved) return give_up(line.seq, evolved.error());
    if (const auto* workflow = std::get_if<WorkflowPublished>(&event->payload))
      published[{workflow->workflow, workflow->version}] = workflow->digest;
    if (const auto* made = std::get_if<CheckpointMade>(&event->payload)) last = *made;
    if (const auto* set = std::get_if<SigningKeySet>(&event->payload))
      if (auto key = PublicKey::parse(set->public_key); key && key->id() == set->key)
        keys.push_back({*key, set->previous, Signature::parse(set->signature), {}});
  }
  if (folded != tenant) found({id, 0, "the tenant's row is not the fold of its stream"});
  if (!last) return published;
  SignedCheckpoint checkpoint{tenant.id, last->checkpoint, Signature::parse(last->signature).value_or(Signature{})};
  if (checkpoint.hash() != last->hash) found({id, 0, "the last checkpoint's hash is not that of what it says"});
  if (auto checked = check_signature(checkpoint, keys); !checked)
    found({id, 0, fmt::format("the last checkpoint: {}", checked.error())});
  return published;
}

void Verification::check_row(const Run& run, const WholeStream& stream, const RunRow& row) {
  compare_row(run, stream, row, found_);
  check_approval_rows(run);
  check_receipt_rows(run);
  check_ready_rows(run);
  check_requests(run);
}

// What a repeated request finds it by.
void Verification::check_requests(const Run& run) {
  for (const std::string& key : request_keys(run)) {
    ++request_keys_;
    if (store_.find_request(run.tenant, key) != run.id)
      report(run.id.str(), run.seq, "a repeated request to create it would not find it by its key");
  }
}

// A start that is counted is one that happened.
void Verification::check_start(const Run& run) {
  auto counted = starts_.find({run.tenant, run.workflow->name, run.started_at});
  if (counted != starts_.end()) starts_.erase(counted);
}

void Verification::check_bundle_rows(TenantId tenant) {
  std::set<RunId> rows;
  store_.for_each_bundle(tenant, [&](const BundleRow& row) {
    const auto found = bundles_.find({tenant, row.stored.run});
    rows.insert(row.stored.run);
    if (found == bundles_.end() || !is_same(found->second, row))
      report(row.stored.run.str(), row.stored.seq, "the row of its stored bundle is not what the journal says of it");
  });
  for (const auto& [key, row] : bundles_)
    if (key.first == tenant && !rows.contains(key.second))
      report(key.second.str(), row.stored.seq, "a bundle of it was stored, and there is no row of it");
}

// A bundle that is gone can be made again from the journal; one that is not what was stored deceives.
void Verification::check_bundles() {
  for (const auto& [key, row] : bundles_) {
    const BundleStored& stored = row.stored;
    std::ifstream in(stored.where, std::ios::binary);
    if (stored.where.find("://") != stored.where.npos || !in) continue;
    ++counts_.bundles;
    if (sha256(std::string{std::istreambuf_iterator<char>(in), {}}) != stored.sha256)
      report(key.second.str(), stored.seq, fmt::format("its stored bundle {} is not what was stored", stored.where));
  }
}

void Verification::check_approval_rows(const Run& run) {
  std::vector<ApprovalRow> folded;
  for (const Approval& approval : run.approvals)
    folded.push_back({run.tenant, approval.id, run.id, run.definition(approval.step).id, approval.status,
                      approval.terms.tier, approval.requested_at, approval.expires_at});
  auto found = approvals_.find(run.id);
  std::vector<ApprovalRow> rows;
  if (found != approvals_.end()) {
    rows = std::move(found->second);
    approvals_.erase(found);
  }
  std::ranges::sort(rows, {}, approval_key);
  std::ranges::sort(folded, {}, approval_key);
  if (!std::ranges::equal(rows, folded, {}, approval_key, approval_key))
    report(run.id.str(), run.seq, "its rows of approvals are not the fold of the journal");
}

void Verification::check_receipt_rows(const Run& run) {
  std::vector<ReceiptRow> rows;
  if (auto found = receipts_.find(run.id); found != receipts_.end()) {
    rows = std::move(found->second);
    receipts_.erase(found);
  }
  for (const Receipt& receipt : run.receipts) {
    auto row = std::ranges::find(rows, receipt.id, &ReceiptRow::id);
    if (row == rows.end()) {
      report(run.id.str(), run.seq, fmt::format("{} is in the journal and has no row", receipt.id.str()));
      continue;
    }
    if (*row != receipt_row(run, receipt))
      report(run.id.str(), run.seq, fmt::format("the row of {} is not the fold of the journal", receipt.id.str()));
    rows.erase(row);
    const std::string& key = receipt.proposal->action.idempotency_key;
    if (!holds_key(receipt.status) || owner_of_key(key)) continue;
    if (auto holders = store_.find_effects(run.tenant, key);
        std::ranges::find(holders, receipt.id, &ReceiptRow::id) == holders.end())
      report(run.id.str(), run.seq, fmt::format("{} is not found by its idempotency key", receipt.id.str()));
  }
  for (const ReceiptRow& row : rows)
    report(run.id.str(), run.seq, fmt::format("there is a row of {}, of which the journal says nothing", row.id.str()));
}

void Verification::check_ready_rows(const Run& run) {
  std::vector<ReadyStep> folded = ready_steps(run);
  auto found = ready_.find(run.id);
  std::vector<ReadyStep> rows;
  if (found != ready_.end()) {
    rows = std::move(found->second);
    ready_.erase(found);
  }
  // Where several servers take from one queue, a lease that somebody saw run out waits there too.
  if (store_.shared())
    std::erase_if(rows, [&](const ReadyStep& row) {
      return row.step < run.steps.size() && run.steps[row.step].status == StepStatus::running;
    });
  std::ranges::sort(rows, {}, ready_key);
  std::ranges::sort(folded, {}, ready_key);
  if (!std::ranges::equal(rows, folded, {}, ready_key, ready_key))
    report(run.id.str(), run.seq, "its rows of ready steps are not the fold of the journal");
}

// Every row was taken by its run; what is left belongs to none.
void Verification::check_leftovers() {
  for (const auto& [run, rows] : approvals_)
    report(run.str(), 0, "there are rows of approvals and no such row of a run");
  for (const auto& [run, rows] : receipts_) report(run.str(), 0, "there are rows of receipts and no such row of a run");
  for (const auto& [run, rows] : ready_) report(run.str(), 0, "there are rows of ready steps and no such row of a run");
  for (const auto& [tenant, workflow, at] : starts_)
    report(tenant.str(), 0, fmt::format("a start of {} is counted that the journal does not know", workflow.text));
  if (auto rows = store_.count_requests(); rows != request_keys_)
    report("requests", 0,
           fmt::format("there are {} request keys in the table, and runs were created under {}", rows, request_keys_));
}

}  // namespace pawl
