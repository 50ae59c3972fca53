#include "api/api.h"

namespace pawl::api {
namespace {

void follow(CallPtr call) {
  call->query.only({"after", "run", "task", "vocabulary"});
  call->vocabulary();
  FeedFilter filter{call->who.tenant, std::nullopt, call->who.role == Role::admin};
  if (const auto* run = call->query.find("run")) {
    filter.run = RunId::parse(*run);
    if (!filter.run) refuse_input("run", "It must be a run's id, like " + RunId{}.str() + ".");
  }
  if (const auto* task = call->query.find("task")) {
    auto id = TaskId::parse(*task);
    if (!id) refuse_input("task", "It must be a task's id, like " + TaskId{}.str() + ".");
    if (filter.run) refuse_input("task", "Follow a run, or a task.");
    filter.run = stream_of(*id);
  }
  // A browser that reconnects says where it was in this header.
  std::string after(call->request.header("last-event-id"));
  if (const auto* given = call->query.find("after")) after = *given;
  std::optional<FeedPosition> position;
  if (!after.empty()) {
    position = FeedPosition::parse(after);
    if (!position) refuse_input("after", "It must be the position of an event, like 12.3, or 0 for all that is kept.");
  }
  auto open = [filter, position](Call& c) mutable {
    Feed& feed = c.api.feed();
    // From before the client sees the head: what it reads after that, and what it is sent, leave no hole between them.
    if (!position) position = feed.now();
    if (!feed.can_resume(position))
      throw Problem{.status = 410,
                    .code = "FEED_POSITION_GONE",
                    .detail = "What follows this position is not kept any more. Read the runs, then follow without it.",
                    .where = "after"};
    c.respond({.status = 200,
               .content_type = "text/event-stream",
               .body = {},
               .headers = {},
               .stream = [&api = c.api, filter, position, key = c.who.key](std::shared_ptr<Channel> channel) {
                 api.feed().subscribe(
                     filter, position, std::move(channel),
                     [&keys = api.keys(), &clock = api.clock(), key] { return keys.is_good(key, clock.now()); });
               }});
  };
  // A run that is not there, or not this tenant's, is answered as everywhere.
  if (filter.run)
    with_fresh_tables(call, filter.run, open);
  else
    in_background(call, open);
}

}  // namespace

std::vector<Route> feed_routes() {
  return {
      {Method::get, "/events", Access::viewer, follow, "The tenant's events as they happen (SSE or WebSocket)", true}};
}

}  // namespace pawl::api
