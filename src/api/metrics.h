// What the operators' monitoring reads, in Prometheus' text form.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <string_view>

#include "engine/engine.h"

namespace pawl::api {

// Thread-safe.
class Metrics {
 public:
  Metrics();

  void committed(std::chrono::nanoseconds took, std::size_t frames);
  void answered(int status);
  // Of an attempt to send something out: "webhook" or "slack"; "delivered", "retried", "failed" or "skipped".
  void sent(std::string_view channel, std::string_view outcome);

  // A look at the runs that a provider carries, and how many those are; a state of one that no table knows.
  void looked(std::string_view provider, bool succeeded, std::size_t runs);
  void unknown_state(std::string_view provider, std::string_view state);

  // So many runs have ended whose evidence bundle is not stored yet.
  void bundles_due(std::size_t runs);

  // Something that is stored is not what the journal says.
  void found_damage();
  // All that is stored was checked once more.
  void verified_all();
  std::uint64_t damages() const { return static_cast<std::uint64_t>(damages_.Value()); }

  // What others count, as of now.
  struct Figures {
    // Without both while the database is away, which the engine may be waiting for.
    std::optional<EngineStats> engine = {};
    std::optional<WaitingFigures> waiting = {};
    Instant now;
    std::size_t feeds = 0;
    std::uint64_t log_lines_dropped = 0;
  };
  // All of it.
  std::string text(const Figures& figures);

 private:
  prometheus::Registry registry_;
  prometheus::Histogram& commit_seconds_;
  prometheus::Counter& frames_;
  prometheus::Counter& damages_;
  prometheus::Counter& verify_passes_;
  prometheus::Gauge& bundles_due_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Family<prometheus::Counter>& deliveries_;
  prometheus::Family<prometheus::Counter>& looks_;
  prometheus::Family<prometheus::Gauge>& carried_;
  prometheus::Family<prometheus::Counter>& unknown_states_;
  // Of each status that was answered already: finding them by their labels costs more than a request should.
  std::array<std::atomic<prometheus::Counter*>, 600> by_status_{};
};

}  // namespace pawl::api
