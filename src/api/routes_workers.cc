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

WaitReasons::WaitReasons(Call& call, int running) : is_shared_(call.api.store().shared() != nullptr) {
  for (const ToolName& tool : call.api.local_worker().tools) served_.insert(tool);
  for (const auto& worker : call.api.workers().connected(call.who.tenant, call.api.clock().now()))
    served_.insert(worker.tools.begin(), worker.tools.end());
  const auto cap = call.api.limit_of(call.who.tenant, Limit::max_concurrency);
  if (cap && running >= *cap) cap_ = "max_concurrency";
}

Json WaitReasons::object_of(const Run& run) const {
  auto wait = wait_of(run);
  if (!wait) return nullptr;
  if (wait->kind == WaitKind::worker) {
    // With several servers, the workers of the others are not known here.
    wait->is_unserved = !is_shared_ && !served_.contains(wait->tool);
    if (!wait->is_unserved) wait->cap = cap_;
  }
  object out{{"kind", to_string(wait->kind)}, {"text", describe(*wait)}};
  if (!wait->step.empty()) out["step"] = wait->step.text;
  if (!wait->tool.empty()) out["tool"] = wait->tool.text;
  if (wait->kind == WaitKind::worker) out["is_served"] = !wait->is_unserved;
  if (!wait->cap.empty()) out["cap"] = wait->cap;
  if (wait->until.ms != 0) out["until"] = print_time(wait->until);
  if (wait->approval) out["approval_id"] = wait->approval->str();
  return out;
}

std::vector<Route> worker_routes() {
  return {{Method::get, "/workers", Access::viewer, list_workers, "Who is connected, and for which tools"}};
}

}  // namespace pawl::api
