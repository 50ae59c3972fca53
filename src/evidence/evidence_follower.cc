#include "evidence/evidence_follower.h"

#include <algorithm>
#include <exception>

#include "core/notices.h"
#include "crypto/sha256.h"

namespace pawl {
namespace {

constexpr std::chrono::milliseconds measure_period{250};
// Bundles that are recorded in one commit.
constexpr std::size_t bundles_a_record = 32;
// Runs that have not ended and are known to be governed. Of one that is forgotten, the bundle is only not made first.
constexpr std::size_t governed_max = 100'000;

}  // namespace

void EvidenceFollower::see(const JournalEvent& event) {
  // Of a tenant's own stream are its checkpoints and bundles: what this itself does makes no server busy.
  if (!event.stream.is_tenant()) ++events_;
  Pending& pending = pending_[event.stream.tenant];
  if (event.stream.is_tenant()) {
    // A checkpoint of nothing but the last checkpoint would go on for ever.
    pending.has_moved = pending.has_moved || event.header.type != "checkpoint.made";
    return;
  }
  pending.runs.insert(event.run());
  if (is_of_governance(event.header) && governed_.size() < governed_max) governed_.insert(event.run());
  if (options_.bundles == BundlesWanted::none) return;
  // What an effect came to may turn out after the run is over: its bundle is then another one.
  const bool has_ended = ends_run(event.header.type);
  if (has_ended)
    pending.ended.insert(event.run());
  else if (event.header.subject() == "receipt")
    pending.touched.insert(event.run());
  else
    return;
  gathers_until_ = std::min(gathers_until_, Clock::now() + options_.gather);
}

void EvidenceFollower::missed(Position, Position) { missed_ = true; }

EvidenceFollower::Clock::time_point EvidenceFollower::settles_at() const {
  const bool is_full = std::ranges::any_of(
      pending_, [](const auto& each) { return each.second.runs.size() >= checkpoint_entries_max - 1; });
  if (is_full || missed_) return {};
  const bool is_due = std::ranges::any_of(pending_, [](const auto& each) { return each.second.has_due(); });
  return std::min({covers_all_at_, gathers_until_, is_due ? goes_on_at_ : Clock::time_point::max()});
}

void EvidenceFollower::took_over() {
  pending_.clear();
  governed_.clear();
  missed_ = false;
  tell_backlog();
}

void EvidenceFollower::settle() {
  covers_all_at_ = {};
  while (!settle_some()) covers_all_at_ = {};
}

bool EvidenceFollower::settle_some() {
  const auto now = Clock::now();
  std::erase_if(pending_, [](const auto& each) { return each.second.is_covered() && !each.second.has_due(); });
  if (missed_)
    for (const Tenant& tenant : store_.tenants()) look_for_missed(tenant.id);
  missed_ = false;
  const bool covers_all = now >= covers_all_at_;
  for (auto& [tenant, pending] : pending_)
    cover(tenant, pending, covers_all || pending.runs.size() >= checkpoint_entries_max - 1);
  if (covers_all) covers_all_at_ = now + options_.interval;
  gathers_until_ = Clock::time_point::max();
  tell_backlog();
  // In slices, so that the server keeps its hold on this place in the journal. Governed ones are never kept waiting.
  bool is_done = store_bundles(&Pending::due_first, Clock::now() + options_.gather);
  if (const bool is_slice = is_busy(); is_done && is_slice && now < goes_on_at_) {
    is_done = std::ranges::all_of(pending_, [](const auto& each) { return each.second.due.empty(); });
  } else if (is_done) {
    is_done = store_bundles(&Pending::due, Clock::now() + (is_slice ? options_.busy_slice : options_.gather));
    goes_on_at_ = is_slice ? Clock::now() + options_.gather : Clock::time_point{};
  }
  tell_backlog();
  if (!is_done) return false;
  return std::ranges::all_of(pending_, [](const auto& each) { return each.second.is_covered(); });
}

// What is done is taken off at once: when something later fails and all is seen again, less is covered twice.
void EvidenceFollower::cover(TenantId tenant, Pending& pending, bool with_all) {
  for (RunId run : std::exchange(pending.touched, {}))
    if (auto row = store_.load(tenant, run); row && is_terminal(row->status)) pending.ended.insert(run);
  const std::set<RunId>& wanted = with_all ? pending.runs : pending.ended;
  if (wanted.empty() && !(with_all && pending.has_moved)) return;
  const auto rows = notary_.cover(tenant, {wanted.begin(), wanted.end()}, with_all && pending.has_moved);
  for (const RunRow& row : rows) {
    if (!is_terminal(row.status) || !pending.ended.contains(row.id)) continue;
    const bool is_first = governed_.contains(row.id);
    if (!is_stored(tenant, row.id, row.seq) && wants_bundle(row))
      (is_first ? pending.due_first : pending.due).insert({row.updated_at, row.id, row.seq});
    governed_.erase(row.id);
  }
  if (with_all) {
    pending.runs.clear();
    pending.has_moved = false;
  } else {
    for (RunId run : pending.ended) pending.runs.erase(run);
  }
  pending.ended.clear();
}

// With `all`: of every run that people can see. Deliveries of notices are runs of pawl's own.
bool EvidenceFollower::wants_bundle(const RunRow& row) const {
  const std::string& name = row.workflow.text;
  const bool is_notice = is_reserved_name(name) && !name.starts_with(undo_workflow_prefix);
  if (options_.bundles == BundlesWanted::all && !is_notice) return true;
  return governed_.contains(row.id) || is_governed(store_.history(StreamKey::of(row.tenant, row.id)).lines);
}

// Frames are gone that it had not seen: what they were about is in the tables.
void EvidenceFollower::look_for_missed(TenantId tenant) {
  notary_.cover_all(tenant);
  if (options_.bundles == BundlesWanted::none) return;
  constexpr std::size_t rows_a_look = 512;
  for (RunId place{};;) {
    const auto rows = store_.load_from(tenant, place, rows_a_look);
    for (const RunRow& row : rows)
      if (is_terminal(row.status) && !is_stored(tenant, row.id, row.seq) && wants_bundle(row))
        pending_[tenant].due.insert({row.updated_at, row.id, row.seq});
    if (rows.size() < rows_a_look) return;
    place = rows.back().id;
    ++place.bits.low;
  }
}

bool EvidenceFollower::is_stored(TenantId tenant, RunId run, std::uint64_t seq) {
  const auto known = store_.find_bundle(tenant, run);
  return known && known->stored.seq >= seq;
}

bool EvidenceFollower::store_bundles(DueBundles Pending::*which, Clock::time_point until) {
  const auto has_due = [&](const auto& each) { return !(each.second.*which).empty(); };
  while (std::ranges::any_of(pending_, has_due)) {
    if (Clock::now() >= until) return false;
    auto next = std::find_if(pending_.upper_bound(last_served_), pending_.end(), has_due);
    if (next == pending_.end()) next = std::ranges::find_if(pending_, has_due);
    last_served_ = next->first;
    store_some(next->first, next->second.*which, until);
  }
  return true;
}

// What is stored when one fails is recorded all the same, so that no bundle is made for nothing.
void EvidenceFollower::store_some(TenantId tenant, DueBundles& due, Clock::time_point until) {
  std::map<RunId, BundleStored> stored;
  std::exception_ptr failure;
  auto next = due.begin();
  try {
    for (; next != due.end() && stored.size() < bundles_a_record && Clock::now() < until; ++next) {
      const RunId run = next->run;
      // A run that something was found out about twice is due twice.
      if (stored.contains(run) || is_stored(tenant, run, next->seq)) continue;
      const Bundle bundle = notary_.bundle(tenant, run);
      const std::string where = artifacts_.put(tenant.str() + "/" + run.str() + ".zip", bundle.bytes);
      stored[run] = {run, bundle.seq, sha256(bundle.bytes), bundle.bytes.size(), where};
    }
  } catch (const std::exception&) {
    failure = std::current_exception();
  }
  std::vector<BundleStored> made;
  for (auto& [run, each] : stored) made.push_back(std::move(each));
  notary_.record(tenant, made);
  due.erase(due.begin(), next);
  if (failure) std::rethrow_exception(failure);
}

bool EvidenceFollower::is_busy() {
  const auto now = Clock::now();
  if (now - measured_at_ < measure_period) return is_busy_;
  const std::chrono::duration<double> span = now - measured_at_;
  is_busy_ = static_cast<double>(events_) / span.count() > options_.busy_events_per_second;
  events_ = 0;
  measured_at_ = now;
  return is_busy_;
}

void EvidenceFollower::tell_backlog() const {
  if (!options_.on_backlog) return;
  std::size_t count = 0;
  for (const auto& [tenant, pending] : pending_)
    count += pending.due_first.size() + pending.due.size() + pending.ended.size();
  options_.on_backlog(count);
}

}  // namespace pawl
