// Why a run does not move by itself: for lists, and for whoever wonders.
#pragma once

#include <optional>
#include <string>

#include "core/run.h"

namespace pawl {

// `start`: the engine has not begun it, and no worker is needed for that.
enum class WaitKind { worker, start, retry, approval, question, timer, provider };
template <>
inline constexpr std::array enum_names<WaitKind>{
    std::string_view("worker"),   std::string_view("start"), std::string_view("retry"),   std::string_view("approval"),
    std::string_view("question"), std::string_view("timer"), std::string_view("provider")};

// The cap that holds a run back, when one is known to.
struct ReachedCap {
  std::string name;           // max_concurrency, max_runs_per_min
  bool is_workflows = false;  // otherwise the tenant's
  int value = 0;

  friend bool operator==(const ReachedCap&, const ReachedCap&) = default;
};

struct RunWait {
  WaitKind kind = WaitKind::worker;
  StepId step;                         // empty: of the run as a whole
  ToolName tool;                       // worker
  Instant until;                       // retry, timer: when it is due; approval: when it expires; under a cap of
                                       // starts: when the next run may start, end_of_time when not before it changes
  std::optional<ApprovalId> approval;  // approval
  std::optional<ReachedCap> cap = {};  // worker, start
  bool is_unserved = false;            // worker: nobody who is connected has the tool

  friend bool operator==(const RunWait&, const RunWait&) = default;
};

// Nothing while a worker has a step of it, and of a run that has ended. What is nearest to moving is named first: a
// step that waits for a worker, then the start, a retry, people, a timer. Which cap is reached, the caller knows.
std::optional<RunWait> wait_of(const Run& run);

// "waits for a worker with the tool warehouse.pack; none is connected"
std::string describe(const RunWait& wait);

}  // namespace pawl
