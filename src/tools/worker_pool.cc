#include "tools/worker_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <system_error>
#include <utility>

#include "core/expression.h"
#include "core/invariant.h"
#include "crypto/sha256.h"
#include "tools/outcome.h"

namespace pawl {
namespace {

// The clock may jump, and in tests it is moved by hand; the keeper looks at it this often while something is pending.
constexpr std::chrono::milliseconds clock_look_interval{50};

// Signals are for the main thread. A write to a closed socket inside a library must not end the process either.
void block_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

StepReport report_for(Lease&& lease, StepOutcome outcome, std::optional<EffectOutcome> effect = {}) {
  return {.tenant = lease.tenant,
          .run = lease.run,
          .step = std::move(lease.step),
          .proof = lease.proof(),
          .outcome = std::move(outcome),
          .effect = std::move(effect),
          .is_last = true};
}

Failed timed_out(Duration timeout, Money cost = {}) {
  auto failed =
      failure("TOOL_TIMEOUT", fmt::format("not done within the step's timeout of {}", print_duration(timeout)));
  failed.cost = cost;
  return failed;
}

// What a tool that was stopped has spent all the same.
Money cost_of(const ToolResult& result) {
  const auto* failed = std::get_if<Failed>(&result);
  return failed ? failed->cost : Money{};
}

void limit_output(ToolResult& result) {
  const auto* now = std::get_if<Completed>(&result);
  const auto* later = std::get_if<CompleteAt>(&result);
  const Completed* completed = now ? now : later ? &later->outcome : nullptr;
  if (!completed || completed->output.size() <= step_output_bytes_max) return;
  auto failed = failure("TOOL_OUTPUT_TOO_LARGE", fmt::format("the output is {} bytes; at most {} are kept",
                                                             completed->output.size(), step_output_bytes_max));
  failed.cost = completed->cost;
  result = std::move(failed);
}

Instant deadline_of(const Lease& lease, Instant started) {
  return lease.timeout > Duration::zero() ? started + lease.timeout : end_of_time;
}

constexpr std::string_view model_connector = "model";

bool passes_gate(const Tool& tool, const Lease& lease) {
  return tool.spec().writes != ToolSpec::Writes::never && may_write(tool.spec(), lease.input);
}

// What its receipt says of a write. Nothing when nobody can say: then it is in doubt.
std::optional<EffectOutcome> outcome_for(ReceiptId receipt, const ToolResult& result) {
  if (receipt.is_nil()) return std::nullopt;  // nobody keeps receipts here
  if (const auto* completed = std::get_if<Completed>(&result)) {
    const JsonText& response = completed->response.empty() ? completed->output : completed->response;
    bool fits = response.size() <= action_metadata_bytes_max;
    return EffectOutcome{
        .receipt = receipt,
        .response =
            fits ? response : fmt::format(R"({{"bytes":{},"sha256":"{}"}})", response.size(), sha256(response).hex()),
        .undo = completed->undo};
  }
  // It did not get done, and is called again with the answer.
  if (std::holds_alternative<Asked>(result))
    return EffectOutcome{
        .receipt = receipt, .succeeded = false, .error_code = "AGENT_INTERRUPTED", .message = "it waits for an answer"};
  const auto* failed = std::get_if<Failed>(&result);
  if (!failed || !failed->is_harmless) return std::nullopt;
  return EffectOutcome{
      .receipt = receipt, .succeeded = false, .error_code = failed->error_code, .message = failed->message};
}

StepOutcome outcome_of(ToolResult&& result) {
  if (auto* completed = std::get_if<Completed>(&result)) return std::move(*completed);
  if (auto* asked = std::get_if<Asked>(&result)) return std::move(*asked);
  return std::get<Failed>(std::move(result));
}

std::uint64_t token_of(const Lease& lease) { return lease.token; }
std::uint64_t token_of(const StepReport& report) { return report.proof.number(); }

// It came to an end of its own, whatever it was told meanwhile.
bool is_done(const ToolResult& result) {
  return std::holds_alternative<Completed>(result) || std::holds_alternative<Asked>(result);
}

}  // namespace

std::size_t WorkerPool::LeaseKeyHash::operator()(const LeaseKey& key) const noexcept {
  return std::hash<RunId>{}(key.run) ^ std::hash<StepId>{}(key.step) ^ key.token;
}

WorkerPool::WorkerPool(WorkerPoolOptions options, const std::vector<std::unique_ptr<Tool>>& tools, Gate& gate)
    : options_(std::move(options)), gate_(gate) {
  invariant(options_.slots > 0 && options_.threads_max > 0 && options_.clock, "a worker pool can work");
  for (const auto& tool : tools) tools_.emplace(tool->spec().name, tool.get());
}

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::start(LeaseBroker& broker) {
  invariant(!broker_, "a worker pool starts once");
  broker_ = &broker;
  quick_thread_ = std::thread([this] { run_quick_leases(); });
  keeper_thread_ = std::thread([this] { keep(); });
  broker_->offer(options_.worker, options_.slots);
}

void WorkerPool::stop(std::chrono::milliseconds grace) {
  std::vector<std::stop_source> stops;
  {
    std::unique_lock lock(mutex_);
    if (!broker_ || is_draining_) return;
    is_draining_ = true;
    drain_end_ = options_.clock() + grace;
    for (auto& lease : std::exchange(quick_queue_, {})) give_back(std::move(lease));
    for (auto& lease : std::exchange(slow_queue_, {})) give_back(std::move(lease));
    give_back_timers_after(drain_end_);
    came_to_rest_.wait_for(lock, grace, [this] { return is_at_rest(); });
    is_stopping_ = true;
    for (Running* running : running_) {
      if (running->state != Running::State::working) continue;
      running->state = Running::State::released;
      stops.push_back(running->stop);
    }
  }
  quick_wake_.notify_all();
  slow_wake_.notify_all();
  keeper_wake_.notify_all();
  for (auto& stop : stops) stop.request_stop();
  quick_thread_.join();
  keeper_thread_.join();
  {
    std::unique_lock lock(mutex_);
    const bool ended = came_to_rest_.wait_for(lock, stop_time_max, [this] { return running_.empty(); });
    invariant(ended, "every tool ends soon after it is told to");
  }
  for (auto& thread : slow_threads_) thread.join();
  std::vector<StepReport> rest;
  {
    const std::lock_guard lock(mutex_);
    give_back_timers_after({});
    rest = std::exchange(given_back_, {});
  }
  if (!rest.empty()) broker_->report(std::move(rest));
}

void WorkerPool::give_back(Lease&& lease) {
  given_back_.push_back(report_for(std::move(lease), Released{}));
  keeper_is_called_ = true;
  keeper_wake_.notify_one();
}

void WorkerPool::give_back_timers_after(Instant last) {
  for (auto it = timers_.upper_bound({last, UINT64_MAX}); it != timers_.end(); it = timers_.erase(it)) {
    timer_of_.erase(it->second.lease);
    it->second.report.outcome = Released{};
    given_back_.push_back(std::move(it->second.report));
    keeper_is_called_ = true;
  }
}

bool WorkerPool::is_at_rest() const { return running_.empty() && !batch_is_running_ && timers_.empty(); }

void WorkerPool::grant(std::vector<Lease> leases) {
  bool has_quick = false;
  int slow = 0;
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_) return;
    if (is_draining_) {
      for (auto& lease : leases) give_back(std::move(lease));
      return;
    }
    for (auto& lease : leases) {
      const Tool* tool = find(lease.tool);
      // That there is no such tool is quickly said. The gate is not quick.
      const bool is_slow = tool && (!tool->is_quick() || passes_gate(*tool, lease));
      if (is_slow) {
        slow_queue_.push_back(std::move(lease));
        ++slow;
      } else {
        quick_queue_.push_back(std::move(lease));
        has_quick = true;
      }
    }
    if (slow > 0 && slow_queue_.size() > static_cast<std::size_t>(idle_threads_)) keeper_is_called_ = true;
  }
  if (has_quick) quick_wake_.notify_one();
  for (int i = 0; i < std::min(slow, options_.threads_max); ++i) slow_wake_.notify_one();
  if (slow > 0) keeper_wake_.notify_one();
}

void WorkerPool::revoke(RunId run, const StepId& step, std::uint64_t token) {
  const auto is_it = [&](const Lease& lease) { return lease.run == run && lease.step == step && lease.token == token; };
  std::stop_source stop(std::nostopstate);
  {
    const std::lock_guard lock(mutex_);
    const auto is_dropped = [&](const Lease& lease) {
      if (!is_it(lease)) return false;
      freed_.add(lease.tenant);
      return true;
    };
    std::erase_if(quick_queue_, is_dropped);
    std::erase_if(slow_queue_, is_dropped);
    if (const auto timer = timer_of_.find({run, step, token}); timer != timer_of_.end()) {
      const auto waiting = timers_.find(timer->second);
      if (waiting->second.holds_slot) freed_.add(waiting->second.report.tenant);
      timers_.erase(waiting);
      timer_of_.erase(timer);
    }
    for (Running* running : running_)
      if (is_it(running->lease)) {
        running->state = Running::State::revoked;
        stop = running->stop;
      }
    if (batch_is_running_) revoked_in_batch_.push_back({run, step, token});
    if (!freed_.empty()) keeper_is_called_ = true;
  }
  keeper_wake_.notify_one();
  stop.request_stop();
}

Tool* WorkerPool::find(const ToolName& name) const {
  const auto it = tools_.find(name);
  return it == tools_.end() ? nullptr : it->second;
}

// Plans, passes the gate, and does exactly what was allowed: the tool is given the action's fields and nothing else.
WorkerPool::Result WorkerPool::execute_write(Tool& tool, Lease&& lease, SecretUse& secrets, Instant now,
                                             std::stop_token stop) {
  auto plan = tool.plan(lease, stop);
  if (!plan) {
    secrets.scrub(plan.error());
    return {std::move(plan.error())};
  }
  secrets.scrub(*plan);
  if (plan->action.idempotency_key.empty() || lease.key_is_declared)
    plan->action.idempotency_key = lease.idempotency_key;
  if (auto fits = check_action(plan->action); !fits)
    return {invalid_arguments("the action cannot be proposed: " + fits.error())};
  const Proposal proposal{.action = std::move(plan->action),
                          .digest = {},
                          .idempotent = plan->idempotent,
                          .before = std::move(plan->before),
                          .sandboxed = plan->sandboxed};
  auto input = secrets.fill(proposal.action.fields);
  if (!input) return {std::move(input.error())};
  Lease exactly = std::move(lease);
  exactly.shown = proposal.action.fields;
  exactly.input = std::move(*input);
  exactly.idempotency_key = proposal.action.idempotency_key;
  Gate::Question question{.can_look = tool.can_look()};
  GatePass pass = gate_.pass(exactly, proposal, question);
  if (std::holds_alternative<Doubted>(pass)) {
    question.happened = tool.has_happened(exactly, stop);
    question.can_look = question.happened.has_value();
    pass = gate_.pass(exactly, proposal, question);
  }
  if (auto* failed = std::get_if<Failed>(&pass)) return {std::move(*failed)};
  if (auto* frozen = std::get_if<Frozen>(&pass)) {
    ToolResult result = failure("EFFECTS_FROZEN", std::move(frozen->reason));
    std::get<Failed>(result).is_harmless = true;
    auto effect = outcome_for(frozen->receipt, result);
    return {std::move(result), std::move(effect)};
  }
  auto* allowed = std::get_if<Allowed>(&pass);
  if (!allowed) return {Nothing{}};
  if (allowed->is_done) return {Completed{.output = std::move(allowed->response)}};
  exactly.before = std::move(allowed->before);
  ToolResult result = tool.run(exactly, now, std::move(stop));
  secrets.scrub(result);
  if (auto* completed = std::get_if<Completed>(&result)) completed->undo = tool.make_undo(exactly, *completed);
  limit_output(result);
  auto effect = outcome_for(allowed->receipt, result);  // before the result is moved from
  return {std::move(result), std::move(effect)};
}

WorkerPool::Result WorkerPool::execute(Tool& tool, const Lease& lease, SecretUse& secrets, Instant now,
                                       std::stop_token stop) {
  const bool writes = passes_gate(tool, lease);
  // A question to a model is data that leaves for somebody else to work on, so a freeze stops it too.
  if (const auto connector = connector_of(lease.tool); !writes && connector == model_connector)
    if (auto reason = gate_.frozen(lease, connector)) {
      auto failed = failure("EFFECTS_FROZEN", std::move(*reason));
      failed.is_harmless = true;
      return {std::move(failed)};
    }
  if (!writes && !lease.keeps_expressions) {
    ToolResult result = tool.run(lease, now, std::move(stop));
    limit_output(result);
    return {std::move(result)};
  }
  Lease open = lease;
  if (writes) open.input = with_fallbacks(tool.spec(), std::move(open.input));
  open.shown = lease.keeps_expressions ? open.input : template_of_json(open.input);
  if (lease.keeps_expressions) {
    auto input = secrets.fill(open.shown);
    if (!input) return {std::move(input.error())};
    open.input = std::move(*input);
  }
  if (writes) return execute_write(tool, std::move(open), secrets, now, std::move(stop));
  ToolResult result = tool.run(open, now, std::move(stop));
  secrets.scrub(result);
  limit_output(result);
  return {std::move(result)};
}

WorkerPool::Result WorkerPool::execute(Tool* tool, const Lease& lease, Instant now, std::stop_token stop) {
  if (!tool) return {failure("TOOL_NOT_IMPLEMENTED", fmt::format("this worker has no tool {}", lease.tool.str()))};
  SecretUse secrets(options_.secrets, lease);
  const auto broken = [&](std::string_view what) {
    return failure("TOOL_INTERNAL_ERROR", fmt::format("{}: {}", lease.tool.str(), secrets.scrub(what)));
  };
  try {
    return execute(*tool, lease, secrets, now, std::move(stop));
  } catch (const std::system_error& error) {
    auto failed = broken(error.what());
    failed.retryable = true;  // the machine ran out of something; it need not be so the next time
    return {std::move(failed)};
  } catch (const std::exception& error) {
    return {broken(error.what())};
  } catch (...) {
    return {broken("an exception of no known kind")};
  }
}

void WorkerPool::FreedSlots::add(TenantId tenant, int slots) {
  if (slots == 0) return;
  auto found = std::ranges::find(by_tenant_, tenant, &std::pair<TenantId, int>::first);
  if (found == by_tenant_.end())
    by_tenant_.emplace_back(tenant, slots);
  else
    found->second += slots;
}

// Reports before slots: whoever fills the slots may want to know what became of their last leases.
void WorkerPool::send(Messages messages) {
  for (auto& stop : messages.stops) stop.request_stop();
  if (!messages.reports.empty()) broker_->report(std::move(messages.reports));
  for (const auto& [tenant, slots] : messages.freed.by_tenant()) broker_->give_back(options_.worker, tenant, slots);
}

void WorkerPool::run_quick_leases() {
  block_signals();
  std::vector<Lease> batch;
  std::unique_lock lock(mutex_);
  for (;;) {
    quick_wake_.wait(lock, [this] { return is_stopping_ || !quick_queue_.empty(); });
    if (is_stopping_) return;
    batch.swap(quick_queue_);
    batch_is_running_ = true;
    lock.unlock();
    auto messages = run_batch(batch, options_.clock());
    send(std::move(messages));
    batch.clear();
    lock.lock();
    if (is_draining_) came_to_rest_.notify_all();
  }
}

WorkerPool::Messages WorkerPool::run_batch(std::vector<Lease>& batch, Instant now) {
  Messages messages;
  messages.reports.reserve(batch.size());
  std::vector<std::pair<Lease*, CompleteAt>> timers;
  Tool* tool = nullptr;
  for (auto& lease : batch) {
    if (!tool || tool->spec().name != lease.tool) tool = find(lease.tool);
    auto [result, effect] = execute(tool, lease, now, {});
    if (auto* later = std::get_if<CompleteAt>(&result)) {
      timers.emplace_back(&lease, std::move(*later));
      continue;
    }
    messages.freed.add(lease.tenant);
    if (!std::holds_alternative<Nothing>(result))
      messages.reports.push_back(report_for(std::move(lease), outcome_of(std::move(result)), std::move(effect)));
  }

  const std::lock_guard lock(mutex_);
  batch_is_running_ = false;
  const auto is_revoked = [this](const auto& lease) {
    return std::ranges::any_of(revoked_in_batch_, [&](const LeaseKey& key) {
      return key.run == lease.run && key.step == lease.step && key.token == token_of(lease);
    });
  };
  if (!revoked_in_batch_.empty()) std::erase_if(messages.reports, is_revoked);
  for (auto& [lease, later] : timers) {
    const TenantId tenant = lease->tenant;
    messages.freed.add(tenant, is_revoked(*lease) ? 1 : add_timer(std::move(*lease), std::move(later), now));
  }
  revoked_in_batch_.clear();
  return messages;
}

// With the lock held. How many slots that frees.
int WorkerPool::add_timer(Lease&& lease, CompleteAt result, Instant started) {
  const Instant deadline = deadline_of(lease, started);
  const bool is_too_long = result.at > deadline;
  StepOutcome outcome = is_too_long ? StepOutcome(timed_out(lease.timeout)) : StepOutcome(std::move(result.outcome));
  const Timer timer{.at = std::min(result.at, deadline), .number = ++timers_made_};
  const bool holds_slot = timers_.size() >= static_cast<std::size_t>(options_.timers_max);
  LeaseKey key{lease.run, lease.step, lease.token};
  timer_of_.emplace(key, timer);
  timers_.emplace(timer, Waiting{.lease = std::move(key),
                                 .report = report_for(std::move(lease), std::move(outcome)),
                                 .holds_slot = holds_slot});
  if (is_draining_) give_back_timers_after(drain_end_);  // it began while stop() gave the others back
  keeper_is_called_ = true;
  keeper_wake_.notify_one();
  return holds_slot ? 0 : 1;
}

void WorkerPool::run_slow_leases() {
  block_signals();
  std::unique_lock lock(mutex_);
  for (;;) {
    slow_wake_.wait(lock, [this] { return is_stopping_ || !slow_queue_.empty(); });
    --idle_threads_;
    if (is_stopping_) return;
    Lease lease = std::move(slow_queue_.front());
    slow_queue_.pop_front();
    const Instant now = options_.clock();
    Running running{.lease = lease, .deadline = deadline_of(lease, now), .stop = {}};
    const auto place = running_.insert(running_.end(), &running);
    keeper_is_called_ = true;
    keeper_wake_.notify_one();
    lock.unlock();

    auto result = execute(find(lease.tool), lease, now, running.stop.get_token());

    lock.lock();
    running_.erase(place);
    Messages messages;
    const TenantId tenant = lease.tenant;
    int freed = 1;
    auto* later = std::get_if<CompleteAt>(&result.result);
    if (later && running.state == Running::State::working)
      freed = add_timer(std::move(lease), std::move(*later), now);
    else if (auto report = finish(running, std::move(lease), std::move(result)))
      messages.reports.push_back(std::move(*report));
    messages.freed.add(tenant, freed);
    if (is_draining_) came_to_rest_.notify_all();
    lock.unlock();
    send(std::move(messages));
    lock.lock();
    ++idle_threads_;
  }
}

// With the lock held. What, if anything, is to be said of a lease whose tool has returned.
std::optional<StepReport> WorkerPool::finish(Running& running, Lease&& lease, Result done) {
  auto& [result, effect] = done;
  if (std::holds_alternative<Nothing>(result)) return std::nullopt;
  auto as_it_is = [&] { return report_for(std::move(lease), outcome_of(std::move(result)), std::move(effect)); };
  switch (running.state) {
    case Running::State::working:
      return as_it_is();
    case Running::State::timed_out:
      // It finished while it was being stopped. To call that a time-out would have the work done twice.
      if (is_done(result)) return as_it_is();
      return report_for(std::move(lease), timed_out(running.lease.timeout, cost_of(result)), std::move(effect));
    case Running::State::released:
      if (is_done(result)) return as_it_is();
      return report_for(std::move(lease), Released{}, std::move(effect));
    case Running::State::abandoned:
    case Running::State::revoked:
      return std::nullopt;
  }
  return std::nullopt;
}

void WorkerPool::keep() {
  block_signals();
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    keeper_is_called_ = false;
    make_threads();
    const Instant now = options_.clock();
    Messages messages{.reports = std::exchange(given_back_, {}), .stops = {}, .freed = std::exchange(freed_, {})};
    collect_due_timers(now, messages);
    collect_overdue(now, messages);
    if (!messages.empty()) {
      lock.unlock();
      send(std::move(messages));
      lock.lock();
      continue;
    }
    const auto is_wanted = [this] { return is_stopping_ || keeper_is_called_; };
    if (const auto next = next_moment())
      keeper_wake_.wait_for(lock, std::clamp<Duration>(*next - now, Duration(1), clock_look_interval), is_wanted);
    else
      keeper_wake_.wait(lock, is_wanted);
  }
}

// With the lock held, as are the three that follow.
void WorkerPool::make_threads() {
  const auto waiting = static_cast<int>(slow_queue_.size()) - idle_threads_;
  const auto room = options_.threads_max - static_cast<int>(slow_threads_.size());
  for (int i = 0; i < std::min(waiting, room); ++i) {
    try {
      slow_threads_.emplace_back([this] { run_slow_leases(); });
      ++idle_threads_;  // from here on, or the next look would make it again
    } catch (const std::system_error&) {
      // Fewer threads, then. With none at all there is nobody to make do with, and leases would wait for ever.
      if (slow_threads_.empty()) throw;
      return;
    }
  }
}

void WorkerPool::collect_due_timers(Instant now, Messages& messages) {
  while (!timers_.empty() && timers_.begin()->first.at <= now) {
    Waiting& waiting = timers_.begin()->second;
    timer_of_.erase(waiting.lease);
    if (waiting.holds_slot) messages.freed.add(waiting.report.tenant);
    messages.reports.push_back(std::move(waiting.report));
    timers_.erase(timers_.begin());
  }
  if (is_draining_ && timers_.empty()) came_to_rest_.notify_all();
}

void WorkerPool::collect_overdue(Instant now, Messages& messages) {
  for (Running* running : running_) {
    if (running->state == Running::State::working && now >= running->deadline) {
      running->state = Running::State::timed_out;
      running->abandon_at = now + stop_grace;
      messages.stops.push_back(running->stop);
    } else if (running->state == Running::State::timed_out && now >= running->abandon_at) {
      running->state = Running::State::abandoned;
      messages.reports.push_back(report_for(Lease(running->lease), timed_out(running->lease.timeout)));
    }
  }
}

std::optional<Instant> WorkerPool::next_moment() const {
  Instant next = end_of_time;
  if (!timers_.empty()) next = timers_.begin()->first.at;
  for (const Running* running : running_) {
    if (running->state == Running::State::working) next = std::min(next, running->deadline);
    if (running->state == Running::State::timed_out) next = std::min(next, running->abandon_at);
  }
  return next == end_of_time ? std::nullopt : std::optional(next);
}

}  // namespace pawl
