#include "api/api.h"

namespace pawl::api {
namespace {

constexpr std::string_view key_ended = "The key was revoked or has expired, or its tenant was suspended.";

// A stream from its admission to its end, which may come before there is a channel.
class OpenStream {
 public:
  void begin(const std::shared_ptr<Channel>& channel) {
    std::lock_guard lock(mutex_);
    channel_ = channel;
    if (has_ended_) channel->end("UNAUTHORIZED", key_ended);
  }
  void end() {
    std::lock_guard lock(mutex_);
    has_ended_ = true;
    if (auto channel = channel_.lock()) channel->end("UNAUTHORIZED", key_ended);
  }

 private:
  std::mutex mutex_;
  std::weak_ptr<Channel> channel_;
  bool has_ended_ = false;
};

Problem position_gone(std::string detail) {
  return {.status = 410, .code = "FEED_POSITION_GONE", .detail = std::move(detail), .where = "after"};
}

// As earlier versions of the server printed it: the numbers themselves.
bool is_old_position(std::string_view text) {
  return text.find('.') != text.npos && text.find_first_not_of("0123456789.") == text.npos;
}

FeedPosition read_position(Call& call, const std::string& text) {
  if (text == "0") return {};
  if (auto position = call.api.feed().positions().parse(call.who.tenant, text)) return *position;
  if (is_old_position(text))
    throw position_gone(
        "This position is of an earlier version of the server, which said them otherwise. Read the runs, then follow "
        "without it.");
  if (PositionId::parse(text))
    throw position_gone("This is not a position of this tenant's feed. Read the runs, then follow without it.");
  refuse_input("after",
               "It must be the position of an event, like " + PositionId{}.str() + ", or 0 for all that is kept.");
}

void follow(CallPtr call) {
  call->query.only({"after", "run", "task", "raw", "vocabulary"});
  call->vocabulary();
  FeedFilter filter{call->who.tenant, std::nullopt, call->who.role == Role::admin, call->query.flag("raw")};
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
  if (!after.empty()) position = read_position(*call, after);
  auto open = [filter, position](Call& c) mutable {
    Feed& feed = c.api.feed();
    // From before the client sees the head: what it reads after that, and what it is sent, leave no hole between them.
    if (!position) position = feed.now();
    if (!feed.can_resume(position))
      throw position_gone("What follows this position is not kept any more. Read the runs, then follow without it.");
    auto stream = std::make_shared<OpenStream>();
    auto ticket = c.api.open_requests().open(
        c.who, OpenRequests::Kind::stream, c.api.limit_of(c.who.tenant, Limit::max_feed_streams),
        [stream, &log = c.api.log(), tenant = c.who.tenant_name] {
          log.info("a follower of the feed was cut off", {{"why", "its key is not good any more"}, {"tenant", tenant}});
          stream->end();
        });
    c.respond({.status = 200,
               .content_type = "text/event-stream",
               .body = {},
               .headers = {},
               .stream = [&feed, filter, position, stream, ticket](const std::shared_ptr<Channel>& channel) {
                 stream->begin(channel);
                 feed.subscribe(filter, position, channel, ticket);
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
  return {{Method::get, "/events", Access::viewer, follow, "The tenant's events as they happen (SSE or WebSocket)",
           RouteKind::waits}};
}

}  // namespace pawl::api
