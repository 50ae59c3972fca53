#include "evidence/evidence_follower.h"

#include <algorithm>

#include "crypto/sha256.h"

namespace pawl {
namespace {

bool has_type(std::string_view line, std::string_view type) {
  const std::string mark = "\"type\":\"" + std::string(type);
  return line.find(mark) != line.npos;
}

bool ends_run(std::string_view line) {
  using enum RunTrigger;
  if (!has_type(line, "run.")) return false;
  return std::ranges::any_of(std::array{succeed, fail, deny, time_out, cancel},
                             [&](RunTrigger trigger) { return has_type(line, event_name(trigger)); });
}

}  // namespace

void EvidenceFollower::see(const JournalEvent& event) {
  Pending& pending = pending_[event.stream.tenant];
  if (event.stream.is_tenant()) {
    // A checkpoint of nothing but the last checkpoint would go on for ever.
    pending.has_moved = pending.has_moved || !has_type(event.line, "checkpoint.made");
    return;
  }
  pending.runs.insert(event.run());
  // What an effect came to may turn out after the run is over: its bundle is then another one.
  if (ends_run(event.line) || has_type(event.line, "receipt.")) pending.ended.insert(event.run());
}

void EvidenceFollower::missed(Position, Position) { missed_ = true; }

std::chrono::steady_clock::time_point EvidenceFollower::settles_at() const {
  const bool is_full = std::ranges::any_of(
      pending_, [](const auto& each) { return each.second.runs.size() >= checkpoint_entries_max - 1; });
  return is_full ? std::chrono::steady_clock::time_point{} : next_;
}

void EvidenceFollower::took_over() {
  pending_.clear();
  missed_ = false;
}

void EvidenceFollower::settle() {
  std::erase_if(pending_, [](const auto& each) { return each.second.runs.empty() && !each.second.has_moved; });
  if (pending_.empty() && !missed_) return;
  if (missed_)
    for (const Tenant& tenant : store_.tenants()) notary_.cover_all(tenant.id);
  missed_ = false;
  for (auto& [tenant, pending] : pending_) {
    // What is done is taken off at once: when something later fails and all is seen again, less is covered twice.
    if (!pending.runs.empty() || pending.has_moved) {
      auto rows = notary_.cover(tenant, {pending.runs.begin(), pending.runs.end()}, pending.has_moved);
      std::erase_if(pending.ended, [&](RunId run) {
        auto row = std::ranges::find(rows, run, &RunRow::id);
        return row == rows.end() || !is_terminal(row->status);
      });
      pending.runs.clear();
      pending.has_moved = false;
    }
    store_bundles(tenant, pending);
  }
  pending_.clear();
  next_ = std::chrono::steady_clock::now() + options_.interval;
}

void EvidenceFollower::store_bundles(TenantId tenant, Pending& pending) {
  while (!pending.ended.empty() && options_.bundles != BundlesWanted::none) {
    const RunId run = *pending.ended.begin();
    const bool is_wanted =
        options_.bundles == BundlesWanted::all || is_governed(store_.history(StreamKey::of(tenant, run)).lines);
    if (is_wanted) {
      const Bundle bundle = notary_.bundle(tenant, run);
      BundleStored stored{run, bundle.seq, sha256(bundle.bytes), bundle.bytes.size(), {}};
      if (!is_stored(tenant, stored)) {
        stored.where = artifacts_.put(tenant.str() + "/" + run.str() + ".zip", bundle.bytes);
        notary_.record(tenant, std::move(stored));
      }
    }
    pending.ended.erase(pending.ended.begin());
  }
}

// Of what was seen again after a crash. Looks back a little only: at worst it is recorded twice.
bool EvidenceFollower::is_stored(TenantId tenant, const BundleStored& stored) {
  int left = 200;
  bool found = false;
  store_.for_each_piece_back(StreamKey::of(tenant), [&](std::uint64_t, std::string_view lines) {
    found = lines.find("\"sha256\":\"" + stored.sha256.hex()) != lines.npos && has_type(lines, "bundle.stored");
    return !found && --left > 0;
  });
  return found;
}

}  // namespace pawl
