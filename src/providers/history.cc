#include "providers/history.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace pawl::providers {
namespace {

constexpr std::array failures{std::string_view("TaskFailed"),
                              std::string_view("TaskTimedOut"),
                              std::string_view("TaskStartFailed"),
                              std::string_view("TaskSubmitFailed"),
                              std::string_view("LambdaFunctionFailed"),
                              std::string_view("LambdaFunctionTimedOut"),
                              std::string_view("LambdaFunctionScheduleFailed"),
                              std::string_view("LambdaFunctionStartFailed"),
                              std::string_view("ActivityFailed"),
                              std::string_view("ActivityTimedOut"),
                              std::string_view("ActivityScheduleFailed"),
                              std::string_view("ParallelStateFailed"),
                              std::string_view("MapStateFailed")};
// After these nothing happens before somebody answers, or time has passed.
constexpr std::array awaiting{std::string_view("TaskSubmitted"), std::string_view("ActivityScheduled"),
                              std::string_view("WaitStateEntered")};

bool is_one_of(std::string_view type, const auto& types) { return std::ranges::find(types, type) != types.end(); }

}  // namespace

History::Tip History::tip_of(std::string_view type) {
  if (is_one_of(type, failures)) return Tip::failed;
  if (is_one_of(type, awaiting)) return Tip::awaits;
  // What began the execution is followed by nothing: the first state says that nothing was before it.
  return type.ends_with("StateExited") || type.starts_with("Execution") ? Tip::over : Tip::works;
}

void History::add(const HistoryEvent& event) {
  if (event.id <= last_) return;
  last_ = event.id;
  Branch branch{.tip = tip_of(event.type)};
  // Of an event that several follow, only the first finds it here: a branch begins anew, and has not failed yet.
  if (auto before = branches_.find(event.previous); before != branches_.end()) {
    const bool is_retry = before->second.tip == Tip::failed && event.type.ends_with("Scheduled");
    retries_ += is_retry ? 1 : 0;
    branch.failed_before = is_retry || (before->second.failed_before && !event.type.ends_with("StateEntered"));
    branches_.erase(before);
  }
  if (branch.tip == Tip::failed) last_failure_ = event.failure;
  // Its branches have ended, each with its last state left, and it goes on with this one.
  if (event.type == "ParallelStateSucceeded" || event.type == "MapStateSucceeded")
    std::erase_if(branches_, [](const auto& each) { return each.second.tip == Tip::over; });
  branches_[event.id] = branch;
  const bool any_failed = std::ranges::any_of(
      branches_, [](const auto& each) { return each.second.failed_before || each.second.tip == Tip::failed; });
  if (!any_failed) last_failure_.clear();
}

Sign History::sign() const {
  int live = 0, failed = 0, awaits = 0, tried_again = 0;
  for (const auto& [id, branch] : branches_) {
    if (branch.tip == Tip::over) continue;
    ++live;
    failed += branch.tip == Tip::failed;
    awaits += branch.tip == Tip::awaits;
    tried_again += branch.tip == Tip::works && branch.failed_before;
  }
  if (live > 0 && failed == live) return Sign::between_attempts;
  if (live > 0 && failed + awaits == live) return Sign::awaits_callback;
  return tried_again > 0 ? Sign::after_failure : Sign::none;
}

}  // namespace pawl::providers
