#include "tools/agent_run.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <vector>

#include "tools/outcome.h"

namespace pawl {
namespace {

using std::chrono::steady_clock;

constexpr int pipe_bytes = 1 << 20;
constexpr std::size_t read_bytes = 256 << 10;
constexpr std::size_t stderr_kept_bytes = 4 << 10;
// Without a byte, and at most: somebody who escaped from the group may hold the other end of a pipe, and fill it.
constexpr auto drain_pause_max = std::chrono::milliseconds(200);
constexpr auto agent_drain_time_max = std::chrono::seconds(5);

pollfd readable(int fd) { return {.fd = fd, .events = POLLIN, .revents = 0}; }

class Life {
 public:
  Life(const AgentOrder& order, const AgentContext& context, const LogSecrets& secrets)
      : order_(order),
        context_(context),
        secrets_(secrets),
        stream_(order.dialect),
        out_log_(order.log_folder, LogStream::stdout_, context.logs.limits(), secrets),
        err_log_(order.log_folder, LogStream::stderr_, context.logs.limits(), secrets) {}

  AgentEnd run(ProcessLedger::Entry& entry, const std::stop_token& stop) {
    auto process = start();
    if (!process) {
      end_.not_started = process.error();
      return std::move(end_);
    }
    process_ = &*process;
    entry.began(process->pid());
    watch(stop);
    end_.status = process->kill_and_reap();
    stream_.finish();
    // It may have been faster than we.
    if (end_.how == AgentEnd::How::by_itself && order_.needs_tools && stream_.story().has_lost_tools)
      end_.how = AgentEnd::How::without_tools;
    out_log_.flush();
    err_log_.flush();
    end_.story = stream_.story();
    end_.cost = cost();
    end_.stderr_tail = secrets_.scrubber.text(repaired_utf8(std::move(end_.stderr_tail)));
    return std::move(end_);
  }

 private:
  std::expected<Process, SpawnError> start() {
    auto out = make_pipe();
    auto err = make_pipe();
    ::fcntl(out.read_end.get(), F_SETPIPE_SZ, pipe_bytes);  // fewer, larger reads; smaller when not allowed
    // A file rather than a pipe: nothing to pump, nothing to block on, whether the program reads it or not.
    const auto in = file_in_memory(order_.input);
    ProcessPlan plan = order_.plan;
    plan.stdin_fd = in.get();
    plan.stdout_fd = out.write_end.get();
    plan.stderr_fd = err.write_end.get();
    plan.dies_with_thread = true;
    auto process = Process::spawn(plan);
    out_ = std::move(out.read_end);
    err_ = std::move(err.read_end);
    return process;
  }

  void watch(const std::stop_token& stop) {
    const StopEvent stop_event(stop);
    while (!is_over()) {
      const bool may_stop = !has_ended_ && kill_at_ == never;
      pollfd waits[] = {readable(may_stop ? stop_event.fd() : -1), readable(has_ended_ ? -1 : process_->ended_fd()),
                        readable(out_.get()), readable(err_.get())};
      if (::poll(waits, std::size(waits), wait_ms()) < 0 && errno != EINTR)
        throw std::system_error(errno, std::generic_category(), "poll");
      if (waits[0].revents) terminate(AgentEnd::How::stopped);
      if (waits[2].revents) take_output();
      if (waits[3].revents) take_errors();
      if (waits[1].revents) leader_ended();
      const auto now = steady_clock::now();
      if (order_.meter) order_.meter->note(cost(), now);
      if (!has_ended_ && now >= linger_until_ && kill_at_ == never) terminate(AgentEnd::How::lingered);
      if (!has_ended_ && now >= kill_at_) process_->signal_group(SIGKILL);
    }
  }

  bool is_over() const {
    if (has_ended_ && !out_.is_open() && !err_.is_open()) return true;
    return steady_clock::now() >= give_up_at_;
  }

  int wait_ms() const {
    const auto now = steady_clock::now();
    auto next = give_up_at_;
    if (order_.meter) next = std::min(next, order_.meter->due());
    if (!has_ended_ && kill_at_ > now) next = std::min(next, kill_at_);
    if (!has_ended_ && kill_at_ == never) next = std::min(next, linger_until_);
    if (next == never) return -1;
    return static_cast<int>(std::max(std::chrono::ceil<Duration>(next - now), Duration::zero()).count());
  }

  void terminate(AgentEnd::How how) {
    end_.how = how;
    process_->signal_group(SIGTERM);
    kill_at_ = steady_clock::now() + context_.kill_grace;
    give_up_at_ = kill_at_ + reap_time_max;
  }

  // The rest of the group dies before the pipes are drained: it holds their other ends.
  void leader_ended() {
    has_ended_ = true;
    process_->signal_group(SIGKILL);
    drain_until_ = steady_clock::now() + agent_drain_time_max;
    give_up_at_ = steady_clock::now() + drain_pause_max;
  }

  // How much; nothing when there is nothing, or no more.
  std::size_t read_from(Descriptor& pipe) {
    const auto got = ::read(pipe.get(), buffer_.data(), buffer_.size());
    if (got == 0) pipe.close();
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  }

  void take_output() {
    const std::string_view bytes(buffer_.data(), read_from(out_));
    if (bytes.empty()) return;
    if (has_ended_) give_up_at_ = std::min(drain_until_, steady_clock::now() + drain_pause_max);
    out_log_.write(bytes);
    stream_.feed(bytes);
    if (!is_known_ && !stream_.story().session_id.empty()) {
      is_known_ = true;
      if (order_.on_session) order_.on_session(stream_.story().session_id);
    }
    if (has_ended_ || kill_at_ != never) return;
    if (order_.budget_left && cost() > *order_.budget_left && !stream_.story().result)
      terminate(AgentEnd::How::over_budget);
    else if (order_.needs_tools && stream_.story().has_lost_tools)
      terminate(AgentEnd::How::without_tools);
    if (stream_.story().result && linger_until_ == never) linger_until_ = steady_clock::now() + context_.linger_max;
  }

  void take_errors() {
    const std::string_view bytes(buffer_.data(), read_from(err_));
    err_log_.write(bytes);
    end_.stderr_tail.append(bytes);
    if (end_.stderr_tail.size() > 2 * stderr_kept_bytes)
      end_.stderr_tail.erase(0, end_.stderr_tail.size() - stderr_kept_bytes);
  }

  // A total is of the whole session, with what was known before this life; unless it is less than that: then it cannot
  // be.
  Money cost() const {
    const auto& total = stream_.story().total_cost;
    if (!total) return {};
    return *total >= order_.spent_before ? Money{total->micros - order_.spent_before.micros} : *total;
  }

  static constexpr auto never = steady_clock::time_point::max();

  const AgentOrder& order_;
  const AgentContext& context_;
  const LogSecrets& secrets_;
  AgentStream stream_;
  LogWriter out_log_;
  LogWriter err_log_;
  std::vector<char> buffer_ = std::vector<char>(read_bytes);
  Descriptor out_;
  Descriptor err_;
  Process* process_ = nullptr;
  AgentEnd end_;
  bool has_ended_ = false;
  bool is_known_ = false;
  steady_clock::time_point kill_at_ = never;
  steady_clock::time_point give_up_at_ = never;
  steady_clock::time_point linger_until_ = never;
  steady_clock::time_point drain_until_ = never;
};

}  // namespace

AgentEnd live(const AgentOrder& order, const AgentContext& context, const LogSecrets& secrets,
              ProcessLedger::Entry& entry, const std::stop_token& stop) {
  return Life(order, context, secrets).run(entry, stop);
}

}  // namespace pawl
