// Copies all that one store holds into another: every tenant, workflow and run with its whole chain. What the other has
// already is left, so that a move that was interrupted goes on where it was.
//
// Not copied, because no event tells of it: how far followers of the journal are, and the starts of the last minute.
#pragma once

#include <cstdint>
#include <map>

#include "cli/history.h"
#include "store/shared_store.h"

namespace pawl {

class StoreMove {
 public:
  StoreMove(Store& from, Store& to, Instant now);

  // Both stop the command when the other store has something else under the same id.
  void tenants();
  void runs();
  // Into a store of one process: its journal begins behind what was copied, since streams are in the history alone.
  void end_copy();

  struct Counts {
    std::uint64_t tenants = 0, workflows = 0, runs = 0, events = 0, already_there = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  Frame next_frame();
  const Workflow& workflow(TenantId tenant, const WorkflowName& name, int version);
  std::map<RunId, Hash> heads_there(std::span<const StreamKey> page);
  std::size_t add(Frame& frame, StreamKey key, const std::map<RunId, Hash>& there);

  Store& from_;
  Store& to_;
  Instant now_;
  PublishedWorkflows workflows_;
  Position position_;
  Counts counts_;
};

}  // namespace pawl
