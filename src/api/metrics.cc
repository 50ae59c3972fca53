#include "api/metrics.h"

#include <prometheus/text_serializer.h>

namespace pawl::api {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// Figures that the engine counts itself are read when they are asked for.
MetricFamily family(const char* name, const char* help, MetricType type) { return {name, help, type, {}}; }

ClientMetric value(MetricType type, double number, std::vector<ClientMetric::Label> labels = {}) {
  ClientMetric metric;
  metric.label = std::move(labels);
  if (type == MetricType::Counter)
    metric.counter.value = number;
  else
    metric.gauge.value = number;
  return metric;
}

// What has no name of its own: names are the tenants' to choose, and only so many are told apart.
constexpr const char* others = "(others)";

void add_outcomes(const EngineStats& stats, std::vector<MetricFamily>& families) {
  using enum MetricType;
  auto count = [](std::uint64_t number) { return static_cast<double>(number); };
  auto runs = family("pawl_runs_ended_total", "Runs that ended, by tenant, workflow and status", Counter);
  for (const auto& [tenant, workflow, outcomes] : stats.by_workflow)
    for (std::size_t status = 0; status < outcomes.by_status.size(); ++status)
      if (outcomes.by_status[status] > 0)
        runs.metric.push_back(value(Counter, count(outcomes.by_status[status]),
                                    {{"tenant", workflow.empty() ? others : tenant.str()},
                                     {"workflow", workflow.empty() ? others : workflow.text},
                                     {"status", std::string(enum_names<RunStatus>[status])}}));
  auto begun = family("pawl_attempts_total", "Attempts that began, by tool", Counter);
  auto ended = family("pawl_attempts_ended_total", "Attempts that ended, by tool and result", Counter);
  for (const auto& [tool, outcomes] : stats.by_tool) {
    const std::string name = tool.empty() ? others : tool.text;
    if (outcomes.attempts > 0) begun.metric.push_back(value(Counter, count(outcomes.attempts), {{"tool", name}}));
    for (const auto& [result, times] :
         {std::pair("succeeded", outcomes.succeeded), std::pair("failed_retryable", outcomes.failed_retryable),
          std::pair("failed_terminal", outcomes.failed_terminal), std::pair("released", outcomes.released)})
      if (times > 0) ended.metric.push_back(value(Counter, count(times), {{"tool", name}, {"result", result}}));
  }
  for (auto* each : {&runs, &begun, &ended}) families.push_back(std::move(*each));
}

// Adds families of one value each.
class Adder {
 public:
  Adder(std::vector<MetricFamily>& families, Instant now) : families_(families), now_(now) {}

  void number(MetricType type, const char* name, const char* help, double number) {
    auto out = family(name, help, type);
    out.metric.push_back(value(type, number));
    families_.push_back(std::move(out));
  }
  void gauge(const char* name, const char* help, std::uint64_t count) {
    number(MetricType::Gauge, name, help, static_cast<double>(count));
  }
  void counter(const char* name, const char* help, std::uint64_t count) {
    number(MetricType::Counter, name, help, static_cast<double>(count));
  }
  void age(const char* name, const char* help, Instant since) {
    number(MetricType::Gauge, name, help, since == end_of_time ? 0 : static_cast<double>((now_ - since).count()) / 1e3);
  }

 private:
  std::vector<MetricFamily>& families_;
  Instant now_;
};

void add_engine(const EngineStats& stats, Adder& add, std::vector<MetricFamily>& families) {
  using enum MetricType;
  add.gauge("pawl_steps_queued", "Steps that wait for a worker", stats.steps_queued);
  add.gauge("pawl_runs_in_memory", "Runs in the working set", stats.runs_resident);
  add.gauge("pawl_working_set_bytes", "Memory of the runs in the working set; `working_set` bounds it",
            stats.working_set_bytes);
  add.gauge("pawl_leases_open", "Steps that a worker holds", stats.leases_open);
  add.age("pawl_oldest_lease_seconds", "Age of the lease that has been held for longest", stats.oldest_lease);
  add.age("pawl_oldest_queued_seconds", "How long the step has waited for a worker that waits longest",
          stats.oldest_queued);
  add.gauge("pawl_polls_waiting", "Remote workers that wait for a step", stats.polls_waiting);
  add.counter("pawl_events_total", "Events appended to the journal", stats.events);
  add.counter("pawl_runs_created_total", "Runs created", stats.runs_created);
  add.counter("pawl_runs_finished_total", "Runs that ended", stats.runs_finished);
  add.counter("pawl_runs_loaded_total", "Runs that came back into memory", stats.runs_loaded);
  add.counter("pawl_leases_granted_total", "Leases given to workers", stats.leases_granted);
  auto count = [](std::uint64_t number) { return static_cast<double>(number); };
  auto steps = family("pawl_steps_total", "Attempts that ended, by result", Counter);
  steps.metric = {value(Counter, count(stats.steps_succeeded), {{"result", "succeeded"}}),
                  value(Counter, count(stats.steps_failed_retryable), {{"result", "failed_retryable"}}),
                  value(Counter, count(stats.steps_failed_terminal), {{"result", "failed_terminal"}}),
                  value(Counter, count(stats.steps_released), {{"result", "released"}})};
  families.push_back(std::move(steps));
  auto held = family("pawl_held_back_total", "How often a cap made a tenant's steps wait, or refused a write", Counter);
  for (const auto& [tenant, by] : stats.held_back)
    for (const auto& [cap, times] :
         {std::pair("max_concurrency", by.max_concurrency), std::pair("max_runs_per_min", by.max_runs_per_min),
          std::pair("max_writes_per_run", by.max_writes_per_run)})
      held.metric.push_back(value(Counter, count(times), {{"tenant", tenant.str()}, {"cap", cap}}));
  families.push_back(std::move(held));
  add_outcomes(stats, families);
}

}  // namespace

Metrics::Metrics()
    : commit_seconds_(prometheus::BuildHistogram()
                          .Name("pawl_commit_seconds")
                          .Help("How long commits took, the sync included")
                          .Register(registry_)
                          .Add({}, prometheus::Histogram::BucketBoundaries{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02,
                                                                           0.05, 0.1, 0.2, 0.5, 1, 2, 5})),
      frames_(prometheus::BuildCounter()
                  .Name("pawl_frames_total")
                  .Help("Journal frames committed")
                  .Register(registry_)
                  .Add({})),
      damages_(prometheus::BuildCounter()
                   .Name("pawl_damage_found_total")
                   .Help("Things that are stored and are not what the journal says")
                   .Register(registry_)
                   .Add({})),
      verify_passes_(prometheus::BuildCounter()
                         .Name("pawl_verify_passes_total")
                         .Help("How often all that is stored was checked in the background")
                         .Register(registry_)
                         .Add({})),
      bundles_due_(prometheus::BuildGauge()
                       .Name("pawl_evidence_backlog")
                       .Help("Ended runs whose evidence bundle is not stored yet")
                       .Register(registry_)
                       .Add({})),
      requests_(prometheus::BuildCounter()
                    .Name("pawl_http_requests_total")
                    .Help("Requests answered, by status")
                    .Register(registry_)),
      deliveries_(prometheus::BuildCounter()
                      .Name("pawl_deliveries_total")
                      .Help("Attempts to send events to webhooks and cards to Slack, by outcome")
                      .Register(registry_)),
      looks_(prometheus::BuildCounter()
                 .Name("pawl_provider_looks_total")
                 .Help("Looks at the runs that a provider carries, by outcome")
                 .Register(registry_)),
      carried_(prometheus::BuildGauge()
                   .Name("pawl_provider_runs")
                   .Help("Runs that a provider carries and this server looks at")
                   .Register(registry_)),
      unknown_states_(prometheus::BuildCounter()
                          .Name("pawl_provider_unknown_states_total")
                          .Help("Times that a provider said a state which no table knows")
                          .Register(registry_)) {
  for (const char* channel : {"webhook", "slack"})
    for (const char* outcome : {"delivered", "retried", "failed", "skipped"})
      deliveries_.Add({{"channel", channel}, {"outcome", outcome}});
}

void Metrics::sent(std::string_view channel, std::string_view outcome) {
  deliveries_.Add({{"channel", std::string(channel)}, {"outcome", std::string(outcome)}}).Increment();
}

void Metrics::looked(std::string_view provider, bool succeeded, std::size_t runs) {
  looks_.Add({{"provider", std::string(provider)}, {"outcome", succeeded ? "succeeded" : "failed"}}).Increment();
  carried_.Add({{"provider", std::string(provider)}}).Set(static_cast<double>(runs));
}

void Metrics::unknown_state(std::string_view provider, std::string_view state) {
  unknown_states_.Add({{"provider", std::string(provider)}, {"state", std::string(state)}}).Increment();
}

void Metrics::bundles_due(std::size_t runs) { bundles_due_.Set(static_cast<double>(runs)); }
void Metrics::found_damage() { damages_.Increment(); }
void Metrics::verified_all() { verify_passes_.Increment(); }

void Metrics::committed(std::chrono::nanoseconds took, std::size_t frames) {
  commit_seconds_.Observe(std::chrono::duration<double>(took).count());
  frames_.Increment(static_cast<double>(frames));
}

void Metrics::answered(int status) {
  auto& known = by_status_.at(static_cast<std::size_t>(status));
  prometheus::Counter* counter = known.load(std::memory_order_acquire);
  if (!counter) {
    counter = &requests_.Add({{"status", std::to_string(status)}});  // the same one, whoever asks
    known.store(counter, std::memory_order_release);
  }
  counter->Increment();
}

std::string Metrics::text(const Figures& figures) {
  auto families = registry_.Collect();
  Adder add(families, figures.now);
  if (figures.engine) add_engine(*figures.engine, add, families);
  if (const auto& waiting = figures.waiting) {
    add.gauge("pawl_approvals_waiting", "Approvals that nobody has decided yet", waiting->approvals);
    add.age("pawl_oldest_approval_seconds", "How long the approval has waited that waits longest",
            waiting->oldest_approval);
    add.gauge("pawl_receipts_in_doubt", "Effects of which nobody knows whether they happened",
              waiting->receipts_in_doubt);
  }
  add.gauge("pawl_feeds_open", "Clients that follow the feed", figures.feeds);
  add.counter("pawl_log_lines_dropped_total", "Log lines that were dropped because nobody took them",
              figures.log_lines_dropped);
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace pawl::api
