// pawl worker: any program as a tool of a server.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "cli/commands.h"
#include "cli/folder.h"
#include "cli/remote.h"
#include "cli/stop_signals.h"
#include "core/characters.h"
#include "core/diagnostic.h"
#include "engine/clock.h"
#include "tools/tools.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

constexpr std::string_view poll_wait = "3s";  // a worker that stops waits for its last one
// And sooner when a lease is short: at a third of its time.
constexpr Duration heartbeat_every = std::chrono::seconds(5);
constexpr Duration heartbeat_least = std::chrono::milliseconds(50);
constexpr auto retry_first = std::chrono::milliseconds(200);
constexpr auto retry_last = std::chrono::seconds(10);
constexpr auto give_back_time_max = std::chrono::seconds(10);

// A step that a program is working on, on its thread's stack.
struct Held {
  std::string lease_id;
  std::string token;
  Duration term = {};  // how long the lease lasts without a heartbeat
  std::stop_source stop;
  bool lost = false;
  bool left = false;  // stopped because the worker stops
};

class Worker {
 public:
  Worker(Remote remote, const WorkerOptions& options)
      : remote_(std::move(remote)),
        name_(options.name),
        concurrency_(options.concurrency),
        tool_(make_program(ToolName{options.tool}, options.command, ToolLimits{})) {
    std::thread([this] { or_end([this] { take(); }); }).detach();
    for (int i = 0; i < options.concurrency; ++i) std::thread([this] { or_end([this] { work(); }); }).detach();
    heartbeats_ = std::jthread([this](std::stop_token stop) { keep_leases(stop); });
  }

  // Takes no more, lets programs end for at most `grace`, then stops them and gives their steps back. False when some
  // could not be given back: their leases run out.
  bool finish(Duration grace) {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    // The poll that is open is waited for: what it is given must be given back, and a lease that it was given after its
    // worker has gone would have to run out.
    auto at_rest = [&] { return busy_ == 0 && !taking_; };
    if (changed_.wait_for(lock, grace, at_rest)) return true;
    for (Held* held : held_) {
      held->left = true;
      held->stop.request_stop();
    }
    return changed_.wait_for(lock, give_back_time_max, at_rest);
  }

 private:
  template <class Call>
  void or_end(Call call) try {
    call();
  } catch (const std::exception& error) {
    fmt::print(stderr, "pawl: {}\n", error.what());
    std::_Exit(exit_denied);
  }

  // Until it works: a server that is away comes back. A poll gives up when the worker stops: then there is no answer.
  template <class Call>
  std::optional<Json> insist(Call call, bool is_poll = false) {
    auto pause = std::chrono::milliseconds(retry_first);
    while (true) {
      try {
        return call();
      } catch (const Stop& stop) {
        if (stop.code() != exit_busy) throw;
      }
      std::unique_lock lock(mutex_);
      remote_.look_again();
      if (changed_.wait_for(lock, pause, [&] { return is_poll && stopping_; })) return std::nullopt;
      pause = std::min<std::chrono::milliseconds>(pause * 2, retry_last);
    }
  }

  // One that comes back may do so at another address.
  Remote server() {
    std::lock_guard lock(mutex_);
    return remote_;
  }

  // How many leases may be taken; 0 when the worker stops.
  int wait_for_room() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopping_ || busy_ < concurrency_; });
    return stopping_ ? 0 : concurrency_ - busy_;
  }

  void take() {
    while (int room = wait_for_room()) {
      auto answer = insist(
          [&] {
            return server().post(
                "/leases",
                object{
                    {"worker", name_}, {"tools", array{tool_->spec().name.text}}, {"max", room}, {"wait", poll_wait}});
          },
          true);
      if (!answer) break;
      std::lock_guard lock(mutex_);
      for (const Json& lease : answer->at("leases").as_array()) {
        todo_.push_back(lease);
        ++busy_;
      }
      changed_.notify_all();
    }
    std::lock_guard lock(mutex_);
    taking_ = false;
    changed_.notify_all();
  }

  void work() {
    while (true) {
      Json lease;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !todo_.empty(); });
        lease = std::move(todo_.front());
        todo_.pop_front();
      }
      work_on(lease);
    }
  }

  void work_on(const Json& item) {
    Lease lease;
    lease.run = RunId::parse(item.at("run_id").as_string()).value_or(RunId{});
    lease.step.text = item.at("step_id").as_string();
    lease.tool = tool_->spec().name;
    lease.input = canonical(item.at("input"));
    lease.attempt = static_cast<int>(item.at("attempt").as_int64());
    lease.idempotency_key = item.at("idempotency_key").as_string();
    Held held{.lease_id = std::string(item.at("lease_id").as_string()),
              .token = std::string(item.at("token").as_string()),
              .term = parse_duration(item.at("lease").as_string()).value_or(default_lease),
              .stop = {}};
    std::list<Held*>::iterator place;
    bool is_late;
    {
      std::lock_guard lock(mutex_);
      place = held_.insert(held_.end(), &held);
      ++times_held_;
      is_late = held.left = stopping_;
    }
    newly_held_.notify_one();
    ToolResult result = is_late ? Failed{} : tool_->run(lease, clock_.now(), held.stop.get_token());
    bool is_lost, is_left;
    {
      std::lock_guard lock(mutex_);
      is_lost = held.lost;
      is_left = held.left && !std::holds_alternative<Completed>(result);
    }
    if (!is_lost && is_left)
      send("/leases/release", names_of(held));
    else if (!is_lost)
      report(held, result);
    std::lock_guard lock(mutex_);
    held_.erase(place);
    --busy_;
    changed_.notify_all();
  }

  void report(const Held& held, const ToolResult& result) {
    object body = names_of(held);
    bool completed = std::holds_alternative<Completed>(result);
    if (completed) {
      body["output"] = parse_json(std::get<Completed>(result).output).value_or(nullptr);
    } else {
      const auto& failed = std::get<Failed>(result);
      body["error_code"] = std::string(first_characters(failed.error_code, diagnostic_code_chars_max));
      body["message"] = std::string(first_characters(failed.message, diagnostic_message_chars_max));
      if (failed.retryable) body["retryable"] = *failed.retryable;
      if (failed.retry_after) body["retry_after"] = print_duration(*failed.retry_after);
    }
    auto said = send(completed ? "/leases/complete" : "/leases/fail", std::move(body));
    if (said.empty() || said == "LEASE_LOST") return;
    // The server does not take it: without another word the step would hang until its lease runs out, and again.
    object failure = names_of(held);
    failure["error_code"] = said;
    failure["message"] = "the server did not take what the program said";
    failure["retryable"] = false;
    send("/leases/fail", std::move(failure));
  }

  static object names_of(const Held& held) { return {{"lease_id", held.lease_id}, {"token", held.token}}; }
  // Why the server did not take it; empty when it did.
  std::string send(const char* path, object item) {
    auto answer = insist([&] { return server().post(path, object{{"items", array{item}}}); });
    if (!answer) return {};
    const Json& result = answer->at("items").as_array().at(0);
    return result.at("ok").as_bool() ? "" : std::string(result.at("code").as_string());
  }

  // One request for all; what is lost stops its program.
  void keep_leases(std::stop_token stop) {
    auto last = std::chrono::steady_clock::now();
    while (!stop.stop_requested()) {
      array items;
      {
        std::unique_lock lock(mutex_);
        Duration pause = heartbeat_every;
        for (const Held* held : held_) pause = std::min(pause, std::max(held->term / 3, heartbeat_least));
        // One with a short lease may come while this waits.
        bool has_more =
            newly_held_.wait_until(lock, stop, last + pause, [&, seen = times_held_] { return times_held_ != seen; });
        if (has_more && std::chrono::steady_clock::now() < last + pause) continue;
        last = std::chrono::steady_clock::now();
        for (const Held* held : held_) items.push_back(names_of(*held));
      }
      if (items.empty()) continue;
      try {
        Json answer = server().post("/leases/heartbeat", object{{"items", std::move(items)}});
        std::lock_guard lock(mutex_);
        for (const Json& item : answer.at("items").as_array())
          if (!item.at("ok").as_bool())
            for (Held* held : held_)
              if (held->lease_id == item.at("lease_id").as_string()) {
                held->lost = true;
                held->stop.request_stop();
              }
      } catch (const std::exception&) {
        // The next one is soon enough, or the lease is lost: then its report will say so.
      }
    }
  }

  Remote remote_;
  std::string name_;
  const int concurrency_;
  std::unique_ptr<Tool> tool_;
  SystemClock clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Json> todo_;
  std::list<Held*> held_;
  std::uint64_t times_held_ = 0;
  std::condition_variable_any newly_held_;
  int busy_ = 0;  // leases that are taken and not yet reported
  bool taking_ = true;
  bool stopping_ = false;
  std::jthread heartbeats_;
};

std::string default_name() {
  char host[64] = "worker";
  ::gethostname(host, sizeof host - 1);
  std::string name = fmt::format("{}-{}", host, ::getpid());
  return is_valid_name(name) ? name : fmt::format("worker-{}", ::getpid());
}

}  // namespace

ExitCode work(const WorkerOptions& given) {
  WorkerOptions options = given;
  if (!is_valid_name(options.tool))
    throw Stop(exit_usage, "--tool: a name is letters, digits, . _ and -, at most 64 of them");
  if (options.name.empty()) options.name = default_name();
  StopSignals signals;
  Remote remote = Remote::require(options.server, data_folder(options.data));
  remote.get("/tenant");  // a wrong key or address shows at once
  fmt::print(stderr, "{} offers {} to {}\n", options.name, options.tool, remote.url());
  // Never destroyed: its threads wait for the server, and end with the process.
  auto* worker = new Worker(std::move(remote), options);
  signals.wait();
  fmt::print(stderr, "finishing what is being worked on; once more ends it at once\n");
  signals.next_one_ends();
  bool gave_all_back = worker->finish(options.grace);
  if (!gave_all_back)
    fmt::print(stderr, "pawl: some steps could not be given back; they are taken again when their leases run out\n");
  std::_Exit(gave_all_back ? exit_success : exit_busy);
}

}  // namespace pawl
