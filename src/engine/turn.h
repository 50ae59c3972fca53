// One frame and all that must wait until it is durable: answers, leases, what is told to workers and other servers.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/lease.h"
#include "engine/request.h"
#include "store/shared_store.h"

namespace pawl {

// One load of a run or a tenant into memory, of all that this process ever did. 0 is none.
using Incarnation = std::uint64_t;

// What a request was decided on that is not durable yet, in a store with several servers: when one of these loses, the
// request is decided again.
using Basis = std::array<Incarnation, 2>;

// What one task asked for is answered together with its last part: an answer that says "that was all of them" waits for
// those that have to be decided again.
struct Round {
  std::size_t open = 0;  // being decided again
  std::vector<std::move_only_function<void()>> waiting;
};

// Called with the leases of a poll once their claims are durable, or with none when the poll ended without any.
using LeaseReply = std::move_only_function<void(std::vector<Lease>)>;

// A remote worker asks once: up to `max` leases of its own tenant, now or as soon as there is one within `wait`.
struct Poll {
  TenantId tenant;
  KeyId key;  // that asks: only this one can report on what it is given
  WorkerName worker;
  std::vector<ToolName> tools;
  int max = 1;
  Duration wait{0};
  std::function<bool()> is_wanted;  // still: what nobody will receive is not taken
  LeaseReply reply;
};

struct WaitingPoll {
  Poll poll;
  Instant until;
  std::vector<Lease> granted = {};  // in this turn
};

// A worker can take so many more leases; of a tenant: because that many of its leases hold a slot no longer.
struct SlotOffer {
  WorkerName worker;
  int slots = 0;
  std::optional<TenantId> held_by = {};
};

// What turned out to be void and is to be decided anew.
struct Again {
  struct Part {
    std::shared_ptr<Round> round;
    std::shared_ptr<EngineRequest> request;
  };
  std::vector<Part> requests;
  std::vector<WaitingPoll> polls;
  std::vector<SlotOffer> offers;  // slots that got nothing

  bool empty() const { return requests.empty() && polls.empty() && offers.empty(); }
  void add(Again more);
};

struct Turn {
  Frame frame;
  bool needs_commit = false;
  struct Answer {
    std::move_only_function<void()> say;  // empty: the request is decided when this turn is durable
    Basis basis{};
    std::shared_ptr<EngineRequest> again;  // as asked, when it may have to be decided again
    std::shared_ptr<Round> round;
    bool ends_round = false;
    bool was_open = false;  // decided again already: its round waits for it
  };
  std::vector<Answer> answers;
  struct Grant {
    WorkerName worker;
    LeaseSink* sink;                       // of a worker in this process, or
    std::optional<WaitingPoll> poll = {};  // whoever asked; goes on waiting when all of the leases are lost
    std::vector<Lease> leases;
  };
  std::vector<Grant> grants;
  struct Revoke {
    LeaseSink* sink;
    RunId run;
    StepId step;
    std::uint64_t token;
    Incarnation basis;
  };
  std::vector<Revoke> revokes;
  // For the other servers.
  News news;
  std::vector<std::pair<std::uint32_t, StreamKey>> servers_to_notify;  // servers whose own workers lost a lease

  bool empty() const { return !needs_commit && answers.empty() && grants.empty() && revokes.empty(); }
  // Says and grants everything, but for what was decided on one of these.
  using IsLost = std::function<bool(Incarnation)>;
  Again release(const IsLost& is_lost = {});
};

}  // namespace pawl
