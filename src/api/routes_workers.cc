// Who works here, and why runs do not move.
#include <algorithm>
#include <boost/json/array.hpp>

#include "api/api.h"

namespace pawl::api {
namespace {

using boost::json::array;
using boost::json::object;

array names_of(const std::vector<ToolName>& tools) {
  array out;
  for (const ToolName& tool : tools) out.emplace_back(tool.text);
  return out;
}

void list_workers(CallPtr call) {
  call->query.only({});
  array items;
  const LocalWorker& own = call->api.local_worker();
  if (!own.tools.empty())
    items.push_back(object{{"name", own.name.text},
                           {"kind", "server"},
                           {"tools", names_of(own.tools)},
                           {"key_id", nullptr},
                           {"since", print_time(own.since)},
                           {"last_seen_at", print_time(call->api.clock().now())}});
  for (const auto& worker : call->api.workers().connected(call->who.tenant, call->api.clock().now()))
    items.push_back(object{{"name", worker.name.text},
                           {"kind", "remote"},
                           {"tools", names_of(worker.tools)},
                           {"key_id", worker.key.str()},
                           {"since", print_time(worker.since)},
                           {"last_seen_at", print_time(worker.last_seen)}});
  call->answer(200, object{{"items", std::move(items)}, {"next_cursor", nullptr}});
}

}  // namespace

WaitReasons::WaitReasons(Call& call, std::vector<CapUse> caps)
    : caps_(std::move(caps)), now_(call.api.clock().now()), is_shared_(call.api.store().shared() != nullptr) {
  for (const ToolName& tool : call.api.local_worker().tools) served_.insert(tool);
  for (const auto& worker : call.api.workers().connected(call.who.tenant, call.api.clock().now()))
    served_.insert(worker.tools.begin(), worker.tools.end());
  if (SharedStore* shared = call.api.store().shared()) caps_ = shared->cap_use(call.who.tenant);
}

// Of several caps the one that holds it back longest: first those that no time lifts by itself.
void WaitReasons::add_cap(RunWait& wait, const Run& run) const {
  for (const CapUse& use : caps_) {
    const bool is_workflows = !use.workflow.empty();
    if (is_workflows && use.workflow != run.workflow->name) continue;
    const auto &at_once = use.caps.max_concurrency, &starts = use.caps.max_runs_per_min;
    if (wait.kind == WaitKind::worker && at_once && use.running >= static_cast<std::uint64_t>(*at_once)) {
      wait.cap = {"max_concurrency", is_workflows, *at_once};
      wait.until = {};
      return;
    }
    if (run.status == RunStatus::created && starts && use.may_start_at > now_ && use.may_start_at > wait.until) {
      wait.cap = {"max_runs_per_min", is_workflows, *starts};
      wait.until = use.may_start_at;
    }
  }
}

Json WaitReasons::object_of(const Run& run) const {
  auto wait = wait_of(run);
  if (!wait) return nullptr;
  if (wait->kind == WaitKind::worker) {
    // With several servers, the workers of the others are not known here.
    wait->is_unserved = !is_shared_ && !served_.contains(wait->tool);
  }
  if ((wait->kind == WaitKind::worker && !wait->is_unserved) || wait->kind == WaitKind::start) add_cap(*wait, run);
  if (wait->kind == WaitKind::start && !wait->cap) return nullptr;  // it is about to
  object out{{"kind", to_string(wait->kind)}, {"text", describe(*wait)}};
  if (!wait->step.empty()) out["step"] = wait->step.text;
  if (!wait->tool.empty()) out["tool"] = wait->tool.text;
  if (wait->kind == WaitKind::worker) out["is_served"] = !wait->is_unserved;
  if (wait->cap) {
    out["cap"] = wait->cap->name;
    out["cap_of"] = wait->cap->is_workflows ? "workflow" : "tenant";
  }
  if (wait->until.ms != 0 && wait->until != end_of_time) out["until"] = print_time(wait->until);
  if (wait->approval) out["approval_id"] = wait->approval->str();
  return out;
}

std::vector<Route> worker_routes() {
  return {{Method::get, "/workers", Access::viewer, list_workers, "Who is connected, and for which tools"}};
}

}  // namespace pawl::api
