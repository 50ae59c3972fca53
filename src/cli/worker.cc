// pawl worker: any program as a tool of a server.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <condition_variable>
#include <list>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "cli/folder.h"
#include "cli/remote.h"
#include "cli/verbs.h"
#include "engine/clock.h"
#include "tools/tools.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

constexpr std::string_view poll_wait = "20s";
constexpr auto heartbeat_every = std::chrono::seconds(5);

// A step that a program is working on, on its thread's stack.
struct Held {
  std::string lease_id;
  std::uint64_t token = 0;
  std::stop_source stop;
  bool lost = false;
};

class Worker {
 public:
  Worker(Remote remote, const WorkerOptions& options)
      : remote_(std::move(remote)),
        name_(options.name),
        tool_(make_program(ToolName{options.tool}, options.command, ToolLimits{})) {
    for (int i = 0; i < options.concurrency; ++i)
      std::thread([this] { take_and_work(); }).detach();
    heartbeats_ = std::jthread([this](std::stop_token stop) { keep_leases(stop); });
  }

  // Takes no more; returns when nothing is being worked on.
  void finish() {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.wait(lock, [&] { return held_.empty(); });
  }

 private:
  void take_and_work() try {
    while (true) {
      Json answer = insist([&] {
        return remote_.post("/leases", object{{"worker", name_},
                                              {"tools", array{tool_->spec().name.text}},
                                              {"max", 1},
                                              {"wait", poll_wait}});
      });
      for (const Json& lease : answer.at("leases").as_array()) work_on(lease);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "pawl: {}\n", error.what());
    std::_Exit(exit_denied);
  }

  void work_on(const Json& item) {
    Lease lease;
    lease.run = RunId::parse(item.at("run_id").as_string()).value_or(RunId{});
    lease.step.text = item.at("step_id").as_string();
    lease.tool = tool_->spec().name;
    lease.input = canonical(item.at("input"));
    lease.token = static_cast<std::uint64_t>(item.at("token").as_int64());
    lease.attempt = static_cast<int>(item.at("attempt").as_int64());
    lease.idempotency_key = item.at("idempotency_key").as_string();
    Held held{std::string(item.at("lease_id").as_string()), lease.token, {}, false};
    std::list<Held*>::iterator place;
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;  // it is taken again when it runs out
      place = held_.insert(held_.end(), &held);
    }
    ToolResult result = tool_->run(lease, clock_.now(), held.stop.get_token());
    if (!held.lost) report(held, result);
    std::lock_guard lock(mutex_);
    held_.erase(place);
    changed_.notify_all();
  }

  void report(const Held& held, const ToolResult& result) {
    object body{{"lease_id", held.lease_id}, {"token", held.token}};
    bool completed = std::holds_alternative<Completed>(result);
    if (completed) {
      body["output"] = parse_json(std::get<Completed>(result).output).value_or(nullptr);
    } else {
      const auto& failed = std::get<Failed>(result);
      body["error_code"] = failed.error_code;
      body["message"] = failed.message.substr(0, 2000);
      if (failed.retryable) body["retryable"] = *failed.retryable;
      if (failed.retry_after) body["retry_after"] = print_duration(*failed.retry_after);
    }
    insist([&] {
      return remote_.post(completed ? "/leases/complete" : "/leases/fail", object{{"items", array{body}}});
    });
  }

  // One request for all; what is lost stops its program.
  void keep_leases(std::stop_token stop) {
    std::mutex pause_mutex;
    std::condition_variable_any pause;
    while (!stop.stop_requested()) {
      {
        std::unique_lock lock(pause_mutex);
        pause.wait_for(lock, stop, heartbeat_every, [] { return false; });
      }
      array items;
      {
        std::lock_guard lock(mutex_);
        for (const Held* held : held_) items.push_back(object{{"lease_id", held->lease_id}, {"token", held->token}});
      }
      if (items.empty()) continue;
      try {
        Json answer = remote_.post("/leases/heartbeat", object{{"items", std::move(items)}});
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
  std::unique_ptr<Tool> tool_;
  SystemClock clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Held*> held_;
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
  if (!is_valid_name(options.tool)) throw Stop(exit_usage, "--tool: a name is letters, digits, . _ and -, at most 64 of them");
  if (options.name.empty()) options.name = default_name();
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  Remote remote = Remote::require(options.server, data_folder(options.data));
  remote.get("/tenant");  // a wrong key or address shows at once
  fmt::print(stderr, "{} offers {} to {}\n", options.name, options.tool, remote.url());
  // Never destroyed: its threads wait for the server, and end with the process.
  auto* worker = new Worker(std::move(remote), options);
  int signal = 0;
  sigwait(&signals, &signal);
  fmt::print(stderr, "finishing what is being worked on; once more ends it at once\n");
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  worker->finish();
  std::_Exit(exit_success);
}

}  // namespace pawl
