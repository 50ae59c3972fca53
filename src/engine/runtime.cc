#include "engine/runtime.h"

#include <sys/random.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace pawl {
namespace {

// Journal that is decided but not yet durable: past this, deciding waits for the disk.
constexpr std::size_t undurable_bytes_max = 16 << 20;
// How long the writer waits for work before it tidies the store.
constexpr auto idle_before_tidying = std::chrono::milliseconds(500);

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
      clock_(clock),
      options_(std::move(options)),
      random_(options_.seed ? options_.seed : system_seed()),
      engine_(store, tools, clock, random_, options_.limits) {
  if (!options_.on_failure) options_.on_failure = stop_process;
}

Runtime::~Runtime() { stop(); }

void Runtime::start() {
  engine_.recover();
  engine_thread_ = std::thread([this] { decide_loop(); });
  writer_thread_ = std::thread([this] { write_loop(); });
}

void Runtime::stop() {
  {
    std::lock_guard lock(inbox_mutex_);
    stopping_ = true;
  }
  inbox_changed_.notify_one();
  if (engine_thread_.joinable()) engine_thread_.join();
  if (writer_thread_.joinable()) writer_thread_.join();
}

void Runtime::post(Task task) {
  {
    std::lock_guard lock(inbox_mutex_);
    tasks_.push_back(std::move(task));
  }
  inbox_changed_.notify_one();
}

void Runtime::offer(const WorkerName& worker, int slots) {
  {
    std::lock_guard lock(inbox_mutex_);
    offers_.emplace_back(worker, slots);
  }
  inbox_changed_.notify_one();
}

void Runtime::report(std::vector<StepReport> reports) {
  {
    std::lock_guard lock(inbox_mutex_);
    if (reports_.empty())
      reports_ = std::move(reports);
    else
      std::move(reports.begin(), reports.end(), std::back_inserter(reports_));
  }
  inbox_changed_.notify_one();
}

void Runtime::fail(const std::string& reason) {
  if (!failed_.exchange(true)) options_.on_failure(reason);
  inbox_changed_.notify_one();
  turns_changed_.notify_all();
}

void Runtime::decide_loop() try {
  for (bool stopping = false; !stopping && !failed_;) {
    std::vector<Task> tasks;
    std::vector<StepReport> reports;
    std::vector<std::pair<WorkerName, int>> offers;
    {
      std::unique_lock lock(inbox_mutex_);
      auto has_news = [&] { return !tasks_.empty() || !reports_.empty() || !offers_.empty() || stopping_ || failed_; };
      if (!has_news()) {
        Duration wait = std::max(Duration(0), std::min(engine_.next_wakeup() - clock_.now(), Duration(60'000)));
        inbox_changed_.wait_for(lock, wait, has_news);
      }
      tasks = std::exchange(tasks_, {});
      reports = std::exchange(reports_, {});
      offers = std::exchange(offers_, {});
      stopping = stopping_;
    }
    for (auto& report : reports) engine_.report(report);
    for (auto& [worker, slots] : offers) engine_.offer(worker, slots);
    for (auto& task : tasks) task(engine_);
    engine_.durable(durable_.load(std::memory_order_acquire));
    engine_.advance();
    if (stopping) engine_.fold_all();
    Turn turn = engine_.take_turn();
    if (turn.empty()) continue;
    std::unique_lock lock(turns_mutex_);
    turns_changed_.wait(lock, [&] { return turns_bytes_ < undurable_bytes_max || failed_; });
    turns_bytes_ += turn.frame.parts.size();
    turns_.push_back(std::move(turn));
    lock.unlock();
    turns_changed_.notify_all();
  }
  std::lock_guard lock(turns_mutex_);
  decided_all_ = true;
  turns_changed_.notify_all();
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
    if (!frames.empty()) {
      store_.commit(frames);
      durable_.store(frames.back().position, std::memory_order_release);
      if (options_.on_durable)
        for (const Frame& frame : frames) options_.on_durable(frame);
    }
    for (Turn& turn : turns) turn.release();
    turns.clear();
  }
} catch (const StoreFailure& failure) {
  fail(failure.what());
}

}  // namespace pawl
