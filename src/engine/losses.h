// What the writer remembers of commits that lost to another server: nothing that was decided on such a load holds,
// neither in the turn that found out nor in those that were decided before the engine heard of it.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace pawl {

class Losses {
 public:
  // What a commit of these frames lost. A tenant's is found by its name.
  void add(std::span<Lost> lost, std::span<const Frame> frames) {
    for (Lost& each : lost) {
      if (each.key.is_tenant())
        for (const Frame& frame : frames)
          for (const TenantFold& fold : frame.tenants)
            if (fold.tenant.id == each.key.tenant) incarnations_.insert(each.incarnation = fold.incarnation);
      incarnations_.insert(each.incarnation);
    }
    while (incarnations_.size() > remembered_max) incarnations_.erase(incarnations_.begin());
  }
  bool contains(Incarnation incarnation) const { return incarnations_.contains(incarnation); }

  // Takes out of the frames what does not hold, and says what that was.
  std::vector<Lost> strike(std::span<Frame> frames) const;

 private:
  // Only the latest can still matter: a few turns are under way at a time.
  static constexpr std::size_t remembered_max = 100'000;
  std::set<Incarnation> incarnations_;
};

}  // namespace pawl
