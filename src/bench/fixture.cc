#include "bench/fixture.h"

#include <stdexcept>

#include "bench/figures.h"
#include "store/postgres/postgres_store.h"
#include "store/sqlite/sqlite_store.h"

namespace pawl::bench {
namespace {

constexpr std::uint64_t creations_per_post = 256;
constexpr std::uint64_t creations_unanswered_max = 20'000;

template <class T>
T must(std::expected<T, Refusal> answer) {
  if (!answer) throw std::runtime_error(answer.error().message);
  return *answer;
}

std::unique_ptr<Store> open_store(const FixtureOptions& options) {
  if (!options.database.empty()) return std::make_unique<PostgresStore>(PostgresOptions{.url = options.database});
  return std::make_unique<SqliteStore>(SqliteOptions{.folder = options.folder, .vfs = {}});
}

}  // namespace

void Counter::add(std::uint64_t count) {
  std::lock_guard lock(mutex_);
  value_ += count;
  changed_.notify_all();  // under the lock: whoever waits may end the counter's life at once
}

void Counter::wait_for(std::uint64_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return value_ >= count; });
}

std::uint64_t Counter::value() {
  std::lock_guard lock(mutex_);
  return value_;
}

Fixture::Fixture(const FixtureOptions& options) : options_(options), store_(open_store(options)), clock_(*store_) {
  tools_.push_back(make_noop());
  if (options.http) tools_.push_back(make_http_request(*options.http));
  catalog_ = catalog_of(tools_);
  if (options.between) between_ = options.between(*store_);
  RuntimeOptions runtime_options;
  runtime_options.limits = options.limits;
  runtime_options.on_durable = [this](const Frame& frame) { watch(frame); };
  runtime_ = std::make_unique<Runtime>(between_ ? *between_ : *store_, catalog_, clock_, std::move(runtime_options));
  runtime_->start();
  if (options.governed)
    gate_ = std::make_unique<PolicyGate>(*runtime_);
  else
    gate_ = std::make_unique<OpenGate>();
  tenant_ = must(runtime_->ask(CreateTenant{"default", Actor{"bench"}}));
  if (options.slots > 0) start_workers();
}

Fixture::~Fixture() {
  if (workers_) workers_->stop();
  runtime_->stop();
}

void Fixture::start_workers() {
  WorkerName name = local_worker(*store_);
  workers_ = std::make_unique<WorkerPool>(WorkerPoolOptions{.worker = name,
                                                            .slots = options_.slots > 0 ? options_.slots : 8192,
                                                            .threads_max = options_.threads,
                                                            .clock = [this] { return clock_.now(); }},
                                          tools_, *gate_);
  runtime_->post([this, name](Engine& engine) {
    std::vector<ToolName> names;
    for (const auto& tool : tools_) names.push_back(tool->spec().name);
    engine.add_worker(name, names, *workers_);
  });
  workers_->start(*runtime_);
}

// A run that ended is folded in the same commit.
void Fixture::watch(const Frame& frame) {
  std::uint64_t ended = 0;
  for (const RunFold& fold : frame.runs) ended += is_terminal(fold.row.status);
  if (ended > 0) finished_.add(ended);
}

WorkflowName Fixture::publish(const std::string& source) {
  return must(runtime_->ask(PublishWorkflow{tenant_, source, "bench.yaml", Actor{"bench"}})).name;
}

void Fixture::publish_policy(const std::string& source) {
  must(runtime_->ask(PublishPolicy{tenant_, PolicySource::read(source, "bench").value(), Actor{"bench"}}));
}

double Fixture::run_many(const WorkflowName& workflow, std::uint64_t count, std::uint64_t in_flight) {
  double begin = seconds_now();
  std::uint64_t before = finished();
  for (std::uint64_t created = 0; created < count;) {
    if (created >= in_flight) finished_.wait_for(before + created - in_flight + 1);
    std::uint64_t batch = std::min({creations_per_post, count - created});
    runtime_->post([this, workflow, batch](Engine& engine) {
      for (std::uint64_t i = 0; i < batch; ++i)
        engine.request(NewRun{.tenant = tenant_, .workflow = workflow, .version = {}, .by = Actor{"bench"}});
    });
    created += batch;
  }
  finished_.wait_for(before + count);
  return seconds_now() - begin;
}

double Fixture::create_many(const WorkflowName& workflow, std::uint64_t count) {
  double begin = seconds_now();
  Counter answered;
  for (std::uint64_t created = 0; created < count;) {
    if (created >= creations_unanswered_max) answered.wait_for(created - creations_unanswered_max + 1);
    std::uint64_t batch = std::min({creations_per_post, count - created});
    runtime_->post([this, workflow, batch, &answered](Engine& engine) {
      for (std::uint64_t i = 0; i < batch; ++i) {
        Reply<RunAnswer> reply;
        if (i + 1 == batch) reply = [&answered, batch](std::expected<RunAnswer, Refusal>) { answered.add(batch); };
        engine.request(NewRun{.tenant = tenant_, .workflow = workflow, .version = {}, .by = Actor{"bench"}},
                       std::move(reply));
      }
    });
    created += batch;
  }
  answered.wait_for(count);
  return seconds_now() - begin;
}

double Fixture::run_one(const WorkflowName& workflow) {
  double begin = seconds_now();
  std::uint64_t before = finished();
  runtime_->post([this, workflow](Engine& engine) {
    engine.request(NewRun{.tenant = tenant_, .workflow = workflow, .version = {}, .by = Actor{"bench"}});
  });
  finished_.wait_for(before + 1);
  return seconds_now() - begin;
}

EngineStats Fixture::stats() {
  std::promise<EngineStats> promise;
  auto answer = promise.get_future();
  runtime_->post([&](Engine& engine) { promise.set_value(engine.stats()); });
  return answer.get();
}

std::string steps_workflow(const std::string& name, int steps) {
  std::string out = "workflow: " + name + "\nsteps:\n";
  for (int i = 1; i <= steps; ++i) out += "  - {id: step" + std::to_string(i) + ", tool: noop}\n";
  return out;
}

std::string gate_workflow(const std::string& name) {
  return "workflow: " + name + "\nsteps:\n  - {id: gate, tool: approval, expires: 30d}\n  - {id: after, tool: noop}\n";
}

}  // namespace pawl::bench
