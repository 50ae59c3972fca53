#include "cli/store_move.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "core/decide.h"
#include "core/snapshot.h"
#include "engine/resident.h"

namespace pawl {
namespace {

constexpr std::size_t batch_runs_max = 500;
constexpr std::size_t batch_bytes_max = 4 << 20;

[[noreturn]] void stop_at_other(std::string_view what) {
  throw Stop(exit_usage, fmt::format("the database already has {} with another history: move into an empty one", what));
}

// What is done of what there is, in one line that is written over.
class ProgressLine {
 public:
  explicit ProgressLine(std::uint64_t total) : total_(total), shown_(::isatty(STDERR_FILENO)) {}
  ~ProgressLine() {
    if (shown_) fmt::print(stderr, "\r\x1b[K");
  }
  void show(std::uint64_t done, std::uint64_t events) {
    auto now = std::chrono::steady_clock::now();
    if (!shown_ || now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    std::uint64_t percent = total_ == 0 ? 100 : done * 100 / total_;
    std::string bar(percent / 5, '#');
    fmt::print(stderr, "\r[{:<20}] {:>3} %  {} of {} runs, {} events", bar, percent, done, total_, events);
  }

 private:
  std::uint64_t total_;
  bool shown_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace

StoreMove::StoreMove(Store& from, Store& to, Instant now)
    : from_(from), to_(to), now_(now), workflows_(from), position_(to.shared() ? 0 : to.last_position()) {}

void StoreMove::tenants() {
  std::map<TenantId, std::vector<WorkflowRow>> published;
  from_.for_each_workflow([&](const WorkflowRow& row) { published[row.tenant].push_back(row); });
  for (const Tenant& tenant : from_.tenants()) {
    ++counts_.tenants;
    counts_.workflows += published[tenant.id].size();
    auto stream = from_.history(StreamKey::of(tenant.id));
    counts_.events += stream.last_seq;
    SharedStore* shared = to_.shared();
    if (auto there = shared ? shared->load_tenant(tenant.id) : std::nullopt) {
      if (there->second != stream.head) stop_at_other("tenant " + tenant.name);
      continue;
    }
    Frame frame = next_frame();
    StreamKey key = StreamKey::of(tenant.id);
    frame.tenants.push_back({tenant, {key, 1, std::move(stream.lines), stream.last_seq, stream.head}, genesis(key)});
    for (WorkflowRow& row : published[tenant.id]) {
      row.caps = workflow(row.tenant, row.name, row.version).caps;
      frame.workflows.push_back(std::move(row));
    }
    if (!to_.commit({&frame, 1}).empty()) stop_at_other("a tenant called " + tenant.name);
  }
}

void StoreMove::runs() {
  std::vector<StreamKey> keys;
  from_.for_each_stream([&](StreamKey key) {
    if (!key.is_tenant()) keys.push_back(key);
  });
  ProgressLine progress(keys.size());
  for (std::size_t at = 0; at < keys.size();) {
    auto page = std::span(keys).subspan(at, std::min(batch_runs_max, keys.size() - at));
    const auto there = heads_there(page);
    Frame frame = next_frame();
    std::size_t bytes = 0;
    for (StreamKey key : page) {
      if (bytes > batch_bytes_max) break;
      ++at;
      bytes += add(frame, key, there);
      progress.show(at, counts_.events);
    }
    if (frame.runs.empty()) {
      --position_;  // it was not used
      continue;
    }
    auto lost = to_.commit({&frame, 1});
    if (!lost.empty()) stop_at_other("run " + RunId{lost[0].key.stream}.str());
  }
}

void StoreMove::end_copy() {
  Frame frame = next_frame();
  to_.commit({&frame, 1});
}

std::map<RunId, Hash> StoreMove::heads_there(std::span<const StreamKey> page) {
  std::map<RunId, Hash> out;
  if (SharedStore* shared = to_.shared())
    for (RunRow& row : shared->load_all(page)) out[row.id] = row.head;
  return out;
}

Frame StoreMove::next_frame() {
  Frame frame;
  frame.position = ++position_;
  frame.folded_before = position_;
  return frame;
}

const Workflow& StoreMove::workflow(TenantId tenant, const WorkflowName& name, int version) {
  const Workflow* found = workflows_.find(tenant, name, version);
  if (!found)
    throw Stop(exit_store_failure,
               fmt::format("workflow {} version {} is missing: see pawl verify", name.text, version));
  return *found;
}

std::size_t StoreMove::add(Frame& frame, StreamKey key, const std::map<RunId, Hash>& there) {
  auto row = from_.load(key.tenant, RunId{key.stream});
  if (!row) throw Stop(exit_store_failure, "a run has a history and no row: see pawl verify");
  ++counts_.runs;
  counts_.events += row->seq;
  if (auto found = there.find(row->id); found != there.end()) {
    if (found->second != row->head) stop_at_other("run " + row->id.str());
    ++counts_.already_there;
    return 0;
  }
  auto stream = from_.history(key);
  const Workflow& definition = workflow(key.tenant, row->workflow, row->version);
  auto run = read_snapshot(row->snapshot, definition);
  if (!run) {
    auto folded = fold_lines(key.tenant, row->id, definition, stream.lines);
    if (!folded) throw Stop(exit_store_failure, folded.error() + ": see pawl verify");
    run = std::move(*folded);
  }
  RunFold fold = fold_of(*run, row->head, row->updated_at, now_);
  fold.row.due_at = row->due_at;
  fold.row.revision = 1;
  fold.is_new = true;
  fold.follows = genesis(key);
  fold.request_keys = request_keys(*run);
  fold.approvals = approval_rows(*run);
  for (const Receipt& receipt : run->receipts) fold.receipts.push_back(receipt_row(*run, receipt));
  fold.history = {key, 1, std::move(stream.lines), stream.last_seq, stream.head};
  std::size_t bytes = fold.history.lines.size() + fold.row.snapshot.size();
  frame.runs.push_back(std::move(fold));
  return bytes;
}

}  // namespace pawl
