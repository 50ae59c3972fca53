#include "engine/runtime.h"

#include <pthread.h>
#include <sys/random.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <utility>

namespace pawl {
namespace {

// Journal that is decided but not yet durable: past this, deciding waits for the disk.
constexpr std::size_t undurable_bytes_max = 16 << 20;
constexpr std::size_t commands_per_turn_max = 1024;
// How long the writer waits for work before it tidies the store.
constexpr auto idle_before_tidying = std::chrono::milliseconds(500);
constexpr auto listening_at_once = std::chrono::milliseconds(250);

std::uint64_t system_seed() {
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != sizeof seed) throw std::runtime_error("the system gives no random numbers");
  return seed;
}

void stop_process(const std::string& reason) {
  std::fprintf(stderr,
               "pawl: %s\npawl: stopped, because nothing after this point could be trusted; everything that was "
               "acknowledged is in the journal. Mend the cause and start again.\n",
               reason.c_str());
  std::_Exit(74);  // EX_IOERR
}

}  // namespace

Runtime::Runtime(Store& store, const ToolCatalog& tools, const Clock& clock, RuntimeOptions options)
    : store_(store),
      shared_(store.shared()),
      clock_(clock),
      still_clock_(clock),
      options_(std::move(options)),
      random_(options_.seed ? options_.seed : system_seed()),
      engine_(store, tools, still_clock_, random_, options_.limits) {
  if (!options_.on_failure) options_.on_failure = stop_process;
  engine_.on_lease_lost(options_.on_lease_lost);
}

Runtime::~Runtime() { stop(); }

void Runtime::start() {
  still_clock_.read();
  if (options_.on_tenant) engine_.on_tenant(options_.on_tenant);
  if (options_.on_damage) engine_.on_damage(options_.on_damage);
  engine_.recover();
  engine_thread_ = std::thread([this] { decide_loop(); });
  writer_thread_ = std::thread([this] { write_loop(); });
  pthread_setname_np(engine_thread_.native_handle(), "pawl-engine");
  pthread_setname_np(writer_thread_.native_handle(), "pawl-writer");
  if (!shared_) return;
  listener_thread_ = std::thread([this] { listen_loop(); });
  pthread_setname_np(listener_thread_.native_handle(), "pawl-listener");
}

void Runtime::stop() {
  {
    std::lock_guard lock(inbox_mutex_);
    stopping_ = true;
  }
  inbox_changed_.notify_one();
  ending_ = true;
  if (listener_thread_.joinable()) listener_thread_.join();
  if (engine_thread_.joinable()) engine_thread_.join();
  if (writer_thread_.joinable()) writer_thread_.join();
  drop_inbox();
}

// A turn's grants are released after its answers, so the answer of the next one is waited for.
void Runtime::wind_down() try {
  for (int turn = 0; turn < 2; ++turn)
    ask<bool>([](Engine& engine, Reply<bool> reply) {
      engine.wind_down();
      engine.when_durable([reply = std::move(reply)]() mutable { reply(true); });
    });
} catch (const std::runtime_error&) {
  // It has ended already: nothing is handed out any more.
}

// What is dropped is destroyed outside the lock: a reply's owner may post again.
void Runtime::drop_inbox() {
  Inbox dropped;
  std::lock_guard lock(inbox_mutex_);
  stopped_ = true;
  std::swap(dropped, inbox_);
}

void Runtime::post(Task task, std::optional<StreamKey> concerns) {
  {
    std::lock_guard lock(inbox_mutex_);
    if (stopped_) return;
    inbox_.tasks.push_back(std::move(task));
    if (concerns && shared_) inbox_.concerned.push_back(*concerns);
  }
  inbox_changed_.notify_one();
}

void Runtime::post_urgent(Task task) {
  {
    std::lock_guard lock(inbox_mutex_);
    if (stopped_) return;
    inbox_.urgent.push_back(std::move(task));
  }
  inbox_changed_.notify_one();
}

void Runtime::decide(std::vector<Task>& urgent) {
  for (Task& task : urgent) {
    engine_.begin_round();
    task(engine_);
  }
}

// What came while a long turn was being decided.
void Runtime::decide_urgent() {
  std::vector<Lost> lost;
  std::vector<Task> urgent;
  {
    std::lock_guard lock(inbox_mutex_);
    std::swap(lost, inbox_.lost);
    std::swap(urgent, inbox_.urgent);
    known_durable_ = durable_;
  }
  still_clock_.read();  // these came after the turn before read it: an expired lease must not look alive to them
  begin_turn(lost);
  decide(urgent);
}

void Runtime::offer(const WorkerName& worker, int slots) {
  {
    std::lock_guard lock(inbox_mutex_);
    inbox_.offers.push_back({worker, slots, {}});
  }
  inbox_changed_.notify_one();
}

void Runtime::give_back(const WorkerName& worker, TenantId tenant, int slots) {
  {
    std::lock_guard lock(inbox_mutex_);
    inbox_.offers.push_back({worker, slots, tenant});
  }
  inbox_changed_.notify_one();
}

void Runtime::report(std::vector<StepReport> reports) {
  {
    std::lock_guard lock(inbox_mutex_);
    if (inbox_.reports.empty())
      inbox_.reports = std::move(reports);
    else
      std::move(reports.begin(), reports.end(), std::back_inserter(inbox_.reports));
  }
  inbox_changed_.notify_one();
}

void Runtime::fail(const std::string& reason) {
  if (!failed_.exchange(true)) options_.on_failure(reason);
  drop_inbox();
  std::vector<Turn> dropped;
  {
    std::lock_guard lock(turns_mutex_);
    std::swap(dropped, turns_);
  }
  inbox_changed_.notify_one();
  turns_changed_.notify_all();
}

// Takes what has queued up, or waits for it until the engine wants to wake. False when there is nothing but the end.
bool Runtime::receive(Inbox& taken) {
  std::unique_lock lock(inbox_mutex_);
  auto has_news = [&] { return !inbox_.empty() || stopping_ || failed_; };
  if (!has_news()) {
    Duration wait = std::max(Duration(0), std::min(engine_.next_wakeup() - clock_.now(), Duration(60'000)));
    inbox_changed_.wait_for(lock, wait, has_news);
  }
  taken = std::exchange(inbox_, {});
  known_durable_ = durable_;
  return !stopping_ && !failed_;
}

void Runtime::hand_over(Turn turn) {
  if (turn.empty()) return;
  std::unique_lock lock(turns_mutex_);
  turns_changed_.wait(lock, [&] { return turns_bytes_ < undurable_bytes_max || failed_; });
  if (failed_) return;
  turns_bytes_ += turn.frame.parts.size();
  turns_.push_back(std::move(turn));
  lock.unlock();
  turns_changed_.notify_all();
}

// Whoever asks may have heard already that what this server wrote is durable, and have had it changed at another one
// since.
void Runtime::begin_turn(std::span<const Lost> lost) {
  engine_.durable(known_durable_, lost);
  engine_.requests_came();
}

// Before any caller is answered. Position and losses change under one lock: the engine must not take a run that was
// lost for a durable one, not even for the requests that are decided in between.
void Runtime::note_durable(std::optional<Position> position, std::vector<Lost> lost) {
  {
    std::lock_guard lock(inbox_mutex_);
    if (position) durable_ = *position;
    if (lost.empty()) return;
    std::ranges::move(lost, std::back_inserter(inbox_.lost));
  }
  inbox_changed_.notify_one();
}

void Runtime::end_turn() {
  still_clock_.read();
  engine_.advance();
  hand_over(engine_.take_turn());
}

void Runtime::decide_loop() try {
  for (bool goes_on = true; goes_on;) {
    Inbox taken;
    goes_on = receive(taken);
    // A turn is kept short, so that the writer has something to sync while the rest is being decided.
    std::size_t decided = 0;
    auto decide_one = [&] {
      if (++decided % commands_per_turn_max != 0) return;
      end_turn();
      decide_urgent();
    };
    still_clock_.read();
    begin_turn(taken.lost);
    if (shared_) {
      for (const auto& report : taken.reports) taken.concerned.push_back(StreamKey::of(report.tenant, report.run));
      engine_.expect(taken.concerned);
    }
    decide(taken.urgent);
    // Tasks first: one of them may register the worker whose offer came right after it.
    for (auto& task : taken.tasks) {
      still_clock_.read();
      engine_.begin_round();
      task(engine_);
      decide_one();
    }
    for (const SlotOffer& offer : taken.offers) engine_.offer(offer);
    for (auto& report : taken.reports) {
      still_clock_.read();
      engine_.begin_round();
      engine_.request(ReportStep{std::move(report)});
      decide_one();
    }
    if (!goes_on) engine_.fold_all();
    end_turn();
  }
  std::lock_guard lock(turns_mutex_);
  decided_all_ = true;
  turns_changed_.notify_all();
} catch (const StoreFailure& failure) {
  fail(failure.what());
}

// Answers what holds; the rest goes back to be decided again.
void Runtime::settle(std::vector<Turn>& turns) {
  Again again;
  News news;
  for (Turn& turn : turns) {
    again.add(turn.release([&](Incarnation basis) { return losses_.contains(basis); }));
    news.ready |= turn.news.ready;
    news.events |= turn.news.events;
    std::ranges::copy(turn.news.tenants, std::back_inserter(news.tenants));
    for (auto& [server, run] : turn.servers_to_notify) shared_->tell({.runs = {run}}, server);
  }
  if (!news.empty()) shared_->tell(news, {});
  if (news.ready) post_urgent([](Engine& engine) { engine.ready_is_durable(); });
  if (news.events && options_.on_events) options_.on_events();
  if (again.empty()) return;
  post_urgent([again = std::move(again)](Engine& engine) mutable { engine.decide_again(std::move(again)); });
}

void Runtime::listen_loop() try {
  while (!ending_ && !failed_) {
    News news = shared_->wait_for_news(listening_at_once);
    if (news.empty()) continue;
    if (news.events && options_.on_events) options_.on_events();
    News of_events;
    of_events.events = news.events;
    if (news == of_events) continue;
    post_urgent([news = std::move(news)](Engine& engine) { engine.hear(news); });
  }
} catch (const StoreFailure& failure) {
  fail(failure.what());
}

void Runtime::write_loop() try {
  std::vector<Turn> turns;
  std::vector<Frame> frames;
  for (;;) {
    {
      std::unique_lock lock(turns_mutex_);
      auto has_news = [&] { return !turns_.empty() || decided_all_ || failed_; };
      while (!turns_changed_.wait_for(lock, idle_before_tidying, has_news)) {
        lock.unlock();
        store_.tidy();
        lock.lock();
      }
      if (failed_ || (turns_.empty() && decided_all_)) return;
      turns = std::exchange(turns_, {});
      turns_bytes_ = 0;
    }
    turns_changed_.notify_all();
    frames.clear();
    for (Turn& turn : turns)
      if (turn.needs_commit) frames.push_back(std::move(turn.frame));
    std::vector<Lost> lost;
    if (shared_) lost = losses_.strike(frames);
    if (!frames.empty()) {
      auto begin = std::chrono::steady_clock::now();
      auto lost_now = store_.commit(frames);
      if (options_.on_commit) options_.on_commit(std::chrono::steady_clock::now() - begin, frames.size());
      losses_.add(lost_now, frames);
      lost.insert(lost.end(), lost_now.begin(), lost_now.end());
      if (!lost_now.empty()) losses_.strike(frames);
      note_durable(frames.back().position, std::move(lost));
      if (options_.on_durable)
        for (Frame& frame : frames) options_.on_durable(frame);
    } else {
      note_durable({}, std::move(lost));
    }
    if (shared_) {
      settle(turns);
      store_.tidy();  // now and then; a server among others may never be idle
    } else {
      for (Turn& turn : turns) turn.release();
    }
    turns.clear();
  }
} catch (const StoreFailure& failure) {
  fail(failure.what());
}

}  // namespace pawl
