// One run that a server carries, followed through its feed. A server that goes away is waited for; what happened
// meanwhile is not missed.
#pragma once

#include <exception>
#include <thread>

#include "cli/carrier.h"
#include "cli/remote.h"

namespace pawl {

class ServedRun final : public Carrier {
 public:
  // What follows its event `seq` is news.
  ServedRun(Remote remote, RunId run, std::uint64_t seq);
  ~ServedRun() override { stop(); }

  void start() override;
  void stop() override;
  int news_fd() const override { return news_.fd(); }
  std::vector<RunNews> take_news() override;
  std::vector<std::string> take_notices() override;
  std::expected<void, NotTaken> resolve(const Run& run, const Decided& decided) override;
  std::expected<void, NotTaken> answer(const Run& run, const Answered& answered) override;

 private:
  void listen(const std::stop_token& stop);
  void take_message(const Remote& remote, std::string_view data);
  // What the journal has and this has not. One caller at a time: events are news in their order.
  void catch_up(const Remote& remote);
  void notice(std::string text);
  std::expected<void, NotTaken> post(const std::string& route, const Json& body);

  Remote remote_;  // the caller's; the listening thread has its own
  const RunId run_;
  NewsBox news_;
  std::mutex mutex_;  // of the following
  std::uint64_t seq_;
  std::vector<std::string> notices_;
  std::exception_ptr failure_;
  std::string position_;  // the listening thread's
  std::jthread thread_;
};

// Waits, unless `stop` is requested.
void pause_for(std::chrono::milliseconds time, const std::stop_token& stop);

}  // namespace pawl
