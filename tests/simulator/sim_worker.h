// The workers of a simulation: they take leases and do with them what real ones do, and worse. Each remembers what it
// was given, so that it can answer twice, late, or never.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/lease.h"

namespace pawl::simulator {

// An effect that a worker is about to have, as far as it knows.
struct Pending {
  enum class Stage { asked, allowed, called };
  Stage stage = Stage::asked;
  std::shared_ptr<const Proposal> proposal;
  ReceiptId receipt;      // from allowed on
  bool succeeded = true;  // from called on
  bool is_known = true;   // the answer of the other side arrived
};

// A lease as its worker sees it.
struct Held {
  Lease lease;
  Instant until;    // what the worker may count on: as granted, extended by heartbeats that were accepted,
  Instant ends_by;  // and never beyond the attempt's time-out
  bool revoked = false;
  bool reported = false;
  int effects_wanted = 0;  // that it still wants to have; 0 for one that does not go through the gate
  std::optional<Pending> effect = {};
  bool forgot_effect = false;  // it proposed something and never waited for the answer

  // What the gate said may have ended the lease, and may have been lost with the process. Until it hears, it can do
  // nothing.
  bool awaits_gate() const { return forgot_effect || (effect && effect->stage == Pending::Stage::asked); }
  bool is_live(Instant now) const { return !revoked && !reported && std::min(until, ends_by) > now; }
};

class SimWorker : public LeaseSink {
 public:
  // `on_grant` is the simulation's: it checks what can only be checked across workers.
  SimWorker(WorkerName worker, std::vector<ToolName> offers, std::function<Held(SimWorker&, Lease)> on_grant)
      : name(std::move(worker)), tools(std::move(offers)), on_grant_(std::move(on_grant)) {}

  bool is_local() const { return name.text.starts_with(local_worker_prefix); }

  void grant(std::vector<Lease> leases) override {
    for (Lease& lease : leases) held.push_back(on_grant_(*this, std::move(lease)));
  }
  void revoke(RunId run, const StepId& step, std::uint64_t token) override {
    for (Held& one : held)
      if (one.lease.run == run && one.lease.step == step && one.lease.token == token) one.revoked = true;
  }
  // It no longer works on anything: removed, or gone with its process.
  void drop_everything() {
    for (Held& one : held) one.revoked = true;
  }

  WorkerName name;
  std::vector<ToolName> tools;
  std::optional<KeyId> key = {};  // of a remote one, which polls
  bool registered = false;
  std::uint64_t since_turn = 0;  // what was granted up to that turn was for whoever bore the name before
  int slots = 0;                 // offered and not yet used, as the engine counts
  std::vector<Held> held;

 private:
  std::function<Held(SimWorker&, Lease)> on_grant_;
};

}  // namespace pawl::simulator
