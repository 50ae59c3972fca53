// Why a run does not move by itself: for lists, and for whoever wonders.
#pragma once

#include <optional>
#include <string>

#include "core/run.h"

namespace pawl {

enum class WaitKind { worker, retry, approval, question, timer, provider };
template <>
inline constexpr std::array enum_names<WaitKind>{std::string_view("worker"),   std::string_view("retry"),
                                                 std::string_view("approval"), std::string_view("question"),
                                                 std::string_view("timer"),    std::string_view("provider")};

struct RunWait {
  WaitKind kind = WaitKind::worker;
  StepId step;                         // empty: of the run as a whole
  ToolName tool;                       // worker
  Instant until;                       // retry, timer: when it is due; approval: when it expires
  std::optional<ApprovalId> approval;  // approval
  std::string cap;                     // worker: the cap that holds it back, when one is known to
  bool is_unserved = false;            // worker: nobody who is connected has the tool

  friend bool operator==(const RunWait&, const RunWait&) = default;
};

// Nothing while a worker has a step of it, and of a run that has ended. What is nearest to moving is named first: a
// step that waits for a worker, then a retry, then people, then a timer.
std::optional<RunWait> wait_of(const Run& run);

// "waits for a worker with the tool warehouse.pack; none is connected"
std::string describe(const RunWait& wait);

}  // namespace pawl
