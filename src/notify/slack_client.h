// Calls to Slack's Web API, as the bot of one tenant.
#pragma once

#include <chrono>
#include <condition_variable>
#include <expected>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>

#include "notify/notify_context.h"

namespace pawl::notify {

struct SlackCall {
  const Tenant& tenant;  // with Slack set
  std::string_view method;
  boost::json::object body;
  Duration timeout = std::chrono::seconds(15);
};

// What Slack said, when it said ok; otherwise what that means for the next attempt. Blocks.
std::expected<boost::json::object, Failed> call_slack(const NotifyContext& context, const SlackCall& call, Instant now,
                                                      const std::stop_token& stop);

// Says something to the one who clicked, and to nobody else. Nothing is sent anywhere but to Slack, or to where the
// tenant reaches it.
void tell_clicker(const NotifyContext& context, const Tenant& tenant, const std::string& response_url,
                  const std::string& text);

// Slack takes about one message a second in a channel.
class ChannelPace {
 public:
  // Waits for the channel's turn; false when told to stop.
  bool wait(const std::string& channel, const std::stop_token& stop);

 private:
  using Clock = std::chrono::steady_clock;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, Clock::time_point> next_;
};

}  // namespace pawl::notify
