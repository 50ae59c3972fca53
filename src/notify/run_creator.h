// Runs that a follower makes for what it sees, and waits for.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "notify/notify_context.h"

namespace pawl::notify {

// For one thread.
class RunCreator {
 public:
  explicit RunCreator(const NotifyContext& context) : context_(context) {}

  // Makes sure that the tenant has this workflow of pawl's own; asks the engine once for each. Throws when it cannot
  // be.
  void publish(TenantId tenant, const WorkflowName& name, const std::string& source);
  // Made once for each trigger, however often it is asked for. Returns at once.
  void make(NewRun run);
  // The same, and says which run it is. Waits.
  RunId make_now(NewRun run);
  // All that was asked for is durable. Throws when something was not made; asking again is safe.
  void settle();

 private:
  // Shared with the replies: those may come late, or never.
  struct Pending {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t open = 0;
    std::string failure;
  };
  class Token;

  const NotifyContext& context_;
  std::set<std::pair<TenantId, std::string>> published_;
  std::shared_ptr<Pending> pending_ = std::make_shared<Pending>();
};

}  // namespace pawl::notify
