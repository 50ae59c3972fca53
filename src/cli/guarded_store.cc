#include "cli/guarded_store.h"

#include <algorithm>

#include "core/event.h"
#include "crypto/sha256.h"

namespace pawl {
namespace {

// Longer streams are left to the background check: who waits for a run must not wait for ten thousand hashes.
constexpr std::uint64_t events_checked_max = 1000;

// Nothing when the run was created as its row says.
std::string damage_of_creation(std::string_view lines, const RunRow& row) {
  auto event = parse_run_event(lines.substr(0, lines.find('\n')));
  const auto* created = event ? std::get_if<RunCreated>(&event->payload) : nullptr;
  if (!created) return "its first event does not create it";
  return created->workflow == row.workflow && created->version == row.version
             ? ""
             : "its row names another workflow than it was created with";
}

// Nothing when the events that are stored lead to the head that is.
std::string damage_of(const Store::Stream& stream, const RunRow& row) {
  Hash head = genesis(StreamKey::of(row.tenant, row.id));
  std::uint64_t seq = 0;
  for (std::string_view lines = stream.lines; !lines.empty(); ++seq) {
    auto end = lines.find('\n');
    if (end == lines.npos) return "its history ends in mid-line";
    head = chain_next(sha256, head, lines.substr(0, end));
    lines.remove_prefix(end + 1);
  }
  if (seq != row.seq) return "its history and its row differ in the number of events";
  if (head != row.head) return "the recomputed hash of its history is not the stored head";
  return damage_of_creation(stream.lines, row);
}

}  // namespace

bool GuardedStore::is_hidden(RunId run) const {
  std::lock_guard lock(mutex_);
  return hidden_.contains(run);
}

void GuardedStore::hide(RunId run, const std::string& what) {
  {
    std::lock_guard lock(mutex_);
    if (!hidden_.insert(run).second) return;
  }
  on_damage_(run, what);
}

// The row and the history are read one after the other, and a commit may come between: a row that does not fit is
// compared again until it is the same twice.
std::vector<RunRow> GuardedStore::load_from(TenantId tenant, RunId run, std::size_t limit) {
  auto rows = store_.load_from(tenant, run, limit);
  std::erase_if(rows, [&](const RunRow& row) { return is_hidden(row.id); });
  std::erase_if(rows, [&](RunRow& row) {
    while (row.seq <= events_checked_max) {
      const std::string damage = damage_of(store_.history(StreamKey::of(tenant, row.id)), row);
      if (damage.empty()) return false;
      auto again = store_.load(tenant, row.id);
      if (!again || again->head == row.head) {
        hide(row.id, damage);
        return true;
      }
      row = std::move(*again);
    }
    return false;
  });
  return rows;
}

// A page that is not full means "no more", so pages are filled up from the next ones.
std::vector<RunRow> GuardedStore::list_runs(TenantId tenant, const RunFilter& filter) {
  std::vector<RunRow> out;
  for (RunFilter wanted = filter;;) {
    wanted.limit = filter.limit - out.size();
    auto page = store_.list_runs(tenant, wanted);
    const bool is_last = page.size() < wanted.limit;
    if (!page.empty()) wanted.before = page.back().id;
    for (RunRow& row : page)
      if (!is_hidden(row.id)) out.push_back(std::move(row));
    if (is_last || out.size() == filter.limit) return out;
  }
}

std::optional<ApprovalRow> GuardedStore::find_approval(TenantId tenant, ApprovalId approval) {
  auto row = store_.find_approval(tenant, approval);
  return row && is_hidden(row->run) ? std::nullopt : row;
}

std::optional<ReceiptRow> GuardedStore::find_receipt(TenantId tenant, ReceiptId receipt) {
  auto row = store_.find_receipt(tenant, receipt);
  return row && is_hidden(row->run) ? std::nullopt : row;
}

void GuardedStore::hold_key(const ReceiptRow& receipt) {
  std::lock_guard lock(mutex_);
  held_.insert_or_assign({receipt.tenant, receipt.key}, receipt);
}

std::vector<ReceiptRow> GuardedStore::find_effects(TenantId tenant, const std::string& key) {
  auto rows = store_.find_effects(tenant, key);
  std::lock_guard lock(mutex_);
  if (auto found = held_.find({tenant, key}); found != held_.end()) rows.push_back(found->second);
  return rows;
}

Store::Stream GuardedStore::history(StreamKey key) {
  return !key.is_tenant() && is_hidden(RunId{key.stream}) ? Stream{} : store_.history(key);
}

}  // namespace pawl
