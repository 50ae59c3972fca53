// A store that shows the engine the unfinished work of some runs only.
//
// One command is about one run, but the engine goes on with everything it finds. Were others taken up on the side, they
// would be cut off in the middle of a step as soon as the command is done. So their queues, leases and timers are
// hidden: they stay exactly as they were. Runs made meanwhile are not hidden, since they come from the engine itself.
#pragma once

#include <optional>
#include <set>

#include "store/forwarding_store.h"

namespace pawl {

class FocusedStore final : public ForwardingStore {
 public:
  // `store` must have no unfolded events (see fold_leftovers) and outlive this. Without `runs` everything is shown.
  FocusedStore(Store& store, std::optional<std::set<RunId>> runs) : ForwardingStore(store), runs_(std::move(runs)) {}

  void for_each_ready(const std::function<void(const ReadyStep&)>& visit) override {
    store_.for_each_ready([&](const ReadyStep& ready) {
      if (shows(ready.run)) visit(ready);
    });
  }
  std::vector<DueRun> leased_runs() override {
    auto runs = store_.leased_runs();
    std::erase_if(runs, [&](const DueRun& due) { return !shows(due.run); });
    return runs;
  }
  // A page that is not full means "no more", so pages are filled up from the next ones.
  std::vector<DueRun> due_runs(Instant until, std::size_t limit, std::optional<DueRun> after) override {
    std::vector<DueRun> out;
    while (out.size() < limit) {
      auto page = store_.due_runs(until, limit, after);
      bool is_last = page.size() < limit;
      if (!page.empty()) after = page.back();
      for (const DueRun& due : page)
        if (shows(due.run) && out.size() < limit) out.push_back(due);
      if (is_last) break;
    }
    return out;
  }

 private:
  bool shows(RunId run) const { return !runs_ || runs_->contains(run); }

  std::optional<std::set<RunId>> runs_;
};

}  // namespace pawl
