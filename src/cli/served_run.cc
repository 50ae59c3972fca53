#include "cli/served_run.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <condition_variable>
#include <utility>

namespace pawl {

using boost::json::object;

void pause_for(std::chrono::milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
}

ServedRun::ServedRun(Remote remote, RunId run, std::uint64_t seq) : remote_(std::move(remote)), run_(run), seq_(seq) {}

void ServedRun::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { listen(stop); });
}

void ServedRun::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

std::vector<RunNews> ServedRun::take_news() {
  auto news = news_.take();
  std::lock_guard lock(mutex_);
  if (news.empty() && failure_) std::rethrow_exception(failure_);
  return news;
}

std::vector<std::string> ServedRun::take_notices() {
  std::lock_guard lock(mutex_);
  return std::exchange(notices_, {});
}

void ServedRun::notice(std::string text) {
  {
    std::lock_guard lock(mutex_);
    notices_.push_back(std::move(text));
  }
  news_.ring();
}

void ServedRun::listen(const std::stop_token& stop) {
  Remote remote = remote_;
  Pauses pauses(std::chrono::milliseconds(100), std::chrono::seconds(2));
  bool away = false;
  while (!stop.stop_requested()) {
    try {
      std::string path = fmt::format("/events?raw=true&run={}", run_.str());
      if (!position_.empty()) path += "&after=" + position_;
      auto opened = [&] {
        catch_up(remote);
        pauses.start_over();
        if (std::exchange(away, false)) notice(fmt::format("{} is back", remote.url()));
      };
      remote.follow(path,
                    {opened, [&](std::string_view data) { take_message(remote, data); },
                     [&](std::string position) { position_ = std::move(position); }},
                    stop);
    } catch (const Stop& refused) {
      // Too long away for the feed: the run's own stream has what was missed.
      if (refused.code() == exit_not_found && !position_.empty()) {
        position_.clear();
        continue;
      }
      if (!is_away(refused)) {
        std::lock_guard lock(mutex_);
        failure_ = std::current_exception();
        return news_.ring();
      }
      if (!std::exchange(away, true)) notice(fmt::format("{}; waiting for it to come back", refused.what()));
    }
    pause_for(pauses.next(), stop);
    remote.look_again();
  }
}

void ServedRun::take_message(const Remote& remote, std::string_view data) {
  auto message = parse_json(data);
  if (!message || !message->is_object()) return;
  auto seq = static_cast<std::uint64_t>(message->at("seq").as_int64());
  bool has_hole = false;
  {
    std::lock_guard lock(mutex_);
    has_hole = seq > seq_ + 1;
    if (seq == seq_ + 1) {
      seq_ = seq;
      news_.add({run_, seq, canonical(message->at("event")) + "\n"});
    }
  }
  if (has_hole) catch_up(remote);
}

void ServedRun::catch_up(const Remote& remote) {
  std::lock_guard lock(mutex_);
  RunNews news{run_, seq_ + 1, {}};
  for (const StreamLine& line : remote.stream(run_, seq_).lines) {
    seq_ = line.seq;
    news.lines += line.text + "\n";
  }
  if (!news.lines.empty()) news_.add(std::move(news));
}

std::expected<void, NotTaken> ServedRun::post(const std::string& route, const Json& body) try {
  remote_.look_again();
  remote_.post(fmt::format("/runs/{}/{}", run_.str(), route), body);
  catch_up(remote_);
  return {};
} catch (const Stop& stop) {
  return std::unexpected(NotTaken{stop.what(), is_away(stop)});
}

std::expected<void, NotTaken> ServedRun::resolve(const Run&, const Decided& decided) {
  return post(decided.approve ? "approve" : "reject",
              object{{"approval_id", decided.approval.str()}, {"reason", decided.reason}});
}

std::expected<void, NotTaken> ServedRun::answer(const Run&, const Answered& answered) {
  return post("answer",
              object{{"step", answered.step.text}, {"answer", parse_json(answered.answer).value_or(nullptr)}});
}

}  // namespace pawl
