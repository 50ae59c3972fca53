// A run in the engine's memory: its state, the events that are not folded yet, and what only matters while it is here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/decide.h"
#include "crypto/sha256.h"
#include "engine/engine.h"

namespace pawl {

inline constexpr StepIndex no_step = UINT16_MAX;

// What the scheduler has been told about a step's lease.
enum class LeaseMark : std::uint8_t { none, counted, reclaim_queued };

struct Engine::Resident {
  Resident(Run state, const Hash& chain_head)
      : run(std::move(state)),
        head(chain_head),
        lease_marks(run.steps.size()),
        folded_head(chain_head),
        folded_seq(run.seq) {}

  Run run;
  Hash head;
  // With several servers: what the row in the store is, and when it was last looked at.
  Incarnation incarnation = 0;
  std::uint64_t verified_in = 0;  // Engine::arrivals_
  std::uint64_t revision = 0;
  int folded_leases = 0;
  int claims = 0;  // of ready steps, since then
  bool folded_ready = false;
  bool wants_latest = false;    // new, of whatever version is the latest
  bool rewrite_wanted = false;  // its row is written with this turn, whether an event comes or not
  std::vector<StepIndex> left;  // ready, and not queued here but left to whoever takes it from the store
  std::vector<LeaseMark> lease_marks;
  Hash folded_head;
  Scheduler::WorkflowNumber workflow_number = 0;
  StepIndex claiming = no_step;  // being claimed right now: its ticket is in hand, so it is not queued again
  Instant updated_at;
  Instant timer_at = end_of_time;       // the earliest timer set for it
  Instant load_timer_at = end_of_time;  // one that will fetch it if it is gone by then; from when it last was
  Position changed_at = 0;              // the last frame that concerned it
  Position claimed_at = 0;              // the last frame with a claim of one of its steps
  Position first_unfolded = 0;          // while dirty
  bool dirty = false;                   // has events that its row does not know
  bool in_rows = false;
  bool approvals_changed = false;
  std::vector<ReceiptId> changed_receipts;  // since the last fold
  bool fold_wanted = false;
  bool is_idle = false;           // named in Engine::idle_
  std::size_t weighed_bytes = 0;  // as they count in Engine::working_set_bytes_

  // About what it takes in memory.
  std::size_t bytes() const;

  void append(const RunEvent& event) {
    std::size_t from = lines.size();
    append_event(lines, event);
    head = chain_next(sha256, head, std::string_view(lines).substr(from));
    lines += '\n';
    updated_at = event.at;
  }

  bool in_turn() const { return turn_offset != npos; }
  void begin_turn() {
    if (lines.capacity() < lines_bytes_usual) lines.reserve(lines_bytes_usual);
    turn_offset = lines.size();
    turn_first_seq = run.seq + 1;
  }
  std::size_t lines_bytes() const { return lines.size(); }
  std::size_t turn_bytes() const { return lines.size() - turn_offset; }
  // The events of this turn. Valid until the next change.
  StreamPart end_turn() {
    StreamPart part{StreamKey::of(run.tenant, run.id), turn_first_seq, std::string_view(lines).substr(turn_offset)};
    turn_offset = npos;
    return part;
  }

  History take_history() {
    History out{StreamKey::of(run.tenant, run.id), folded_seq + 1, std::move(lines), run.seq, head};
    lines.clear();
    folded_seq = run.seq;
    folded_head = head;
    return out;
  }

  // Folds events that memory has not seen; false when it has seen them all.
  bool replay(const StreamPart& part);

  int running_steps() const {
    int count = 0;
    for (const Step& step : run.steps) count += step.status == StepStatus::running;
    return count;
  }
  bool has_running_step() const { return running_steps() > 0; }
  bool holds_leases() const { return has_running_step(); }

 private:
  static constexpr std::size_t npos = std::string::npos;
  // Enough for a run of a few steps: growing there by doubling would copy it eight times.
  static constexpr std::size_t lines_bytes_usual = 2000;

  std::string lines;  // since the last fold
  std::uint64_t folded_seq = 0;
  std::size_t turn_offset = npos;
  std::uint64_t turn_first_seq = 0;
};

// Whether an event changes an approval's row.
bool concerns_approval(const RunPayload& payload);

// Notes the receipt that an event is about.
void note_receipt(const RunPayload& payload, std::vector<ReceiptId>& changed);

// The step that an event is about.
std::optional<StepIndex> step_of(const Run& run, const RunPayload& payload);

// Whether the run has nothing for a worker yet: it begins with gates only, and starts by itself.
bool starts_at_gate(const Run& run);

// The run's row, its leases and what of it is ready.
RunFold fold_of(const Run& run, const Hash& head, Instant updated_at, Instant now);
std::vector<ReadyStep> ready_steps(const Run& run);
std::vector<ApprovalRow> approval_rows(const Run& run);
ReceiptRow receipt_row(const Run& run, const Receipt& receipt);

bool is_claimable(const Run& run, StepIndex step, Instant now);

}  // namespace pawl
