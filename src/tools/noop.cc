// noop: gives back `output`. For rehearsing a workflow before its real tools exist, and for tests and benchmarks:
// `cost_usd` is what an attempt claims to have cost, and the first `fail_times` attempts fail as a flaky tool would.
#include <fmt/format.h>

#include <boost/json/serialize.hpp>

#include "tools/arguments.h"
#include "tools/outcome.h"
#include "tools/tools.h"

namespace pawl {
namespace {

class Noop final : public Tool {
 public:
  const ToolSpec& spec() const override { return spec_; }
  bool is_quick() const override { return true; }

  ToolResult run(const Lease& lease, Instant, std::stop_token) override {
    if (lease.input == "{}") return Completed{};
    Arguments with(lease.input);
    const Money cost = with.money("cost_usd").value_or(Money{});
    const int fail_times = with.count("fail_times").value_or(0);
    if (with.refusal()) return *with.refusal();
    if (lease.attempt <= fail_times) {
      auto failed =
          failure("TOOL_FAILED", fmt::format("attempt {} of {} that were to fail", lease.attempt, fail_times));
      failed.cost = cost;
      return failed;
    }
    const Json* output = with.any("output");
    return Completed{.output = output ? boost::json::serialize(*output) : "null", .cost = cost};
  }

 private:
  using Kind = ToolKey::Kind;
  const ToolSpec spec_{.name = {"noop"},
                       .keys = {{.name = "output"},
                                {.name = "cost_usd", .kind = Kind::text},
                                {.name = "fail_times", .kind = Kind::number}},
                       .writes = ToolSpec::Writes::never};
};

}  // namespace

std::unique_ptr<Tool> make_noop() { return std::make_unique<Noop>(); }

}  // namespace pawl
