// What the history of an execution in Step Functions says of its retries. No event is called a retry: one shows as a
// second attempt that follows a failure within the same state.
//
//   TaskStateEntered -> TaskScheduled -> TaskStarted -> TaskFailed -> TaskScheduled -> ...
//                                                       ^ between two attempts while nothing follows
//
// Branches of a Parallel or a Map interleave; previousEventId tells them apart. Each event that nothing follows is the
// end of a branch, and the execution does what its branches do: it backs off when all of them do.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/provider.h"

namespace pawl::providers {

struct HistoryEvent {
  std::int64_t id = 0;
  std::int64_t previous = 0;
  std::string type;
  std::string failure;  // of one that failed: its error and cause
};

class History {
 public:
  // In the order of their ids; those that were added before are passed over.
  void add(const HistoryEvent& event);

  std::int64_t last() const { return last_; }
  int retries() const { return retries_; }
  Sign sign() const;
  // Of the latest attempt that failed, while its state is being tried again.
  const std::string& last_failure() const { return last_failure_; }

 private:
  enum class Tip { works, failed, awaits, over };
  struct Branch {
    Tip tip = Tip::works;
    bool failed_before = false;  // in the state that it is in
  };
  static Tip tip_of(std::string_view type);

  std::map<std::int64_t, Branch> branches_;  // by the event that each ends with
  std::int64_t last_ = 0;
  int retries_ = 0;
  std::string last_failure_;
};

}  // namespace pawl::providers
