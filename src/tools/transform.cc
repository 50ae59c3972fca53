// transform: runs a jq program over `input`. One result is the output; none is null; several are a list.
// A pure function: without files, environment or network, bounded in time, memory and output.
#include <fmt/format.h>

#include <boost/json/serialize.hpp>

#include "tools/arguments.h"
#include "tools/jq_modules.h"
#include "tools/jq_pool.h"
#include "tools/outcome.h"
#include "tools/tools.h"

namespace pawl {
namespace {

// Two brackets around several results.
constexpr std::size_t jq_result_bytes_max = step_output_bytes_max - 2;

Failed failed(const JqError& error, const ToolLimits& limits) {
  switch (error.kind) {
    case JqError::Kind::program:
      return invalid_arguments("jq: " + repaired_utf8(error.message));
    case JqError::Kind::cpu_time: {
      auto late = failure("TOOL_TIMEOUT", fmt::format("the jq program computed for longer than {}",
                                                      print_duration(limits.transform_cpu_max)));
      late.retryable = false;  // the same program over the same input takes as long again
      return late;
    }
    case JqError::Kind::wall_time:
      return failure("TOOL_TIMEOUT", fmt::format("the jq program was not done after {}; this machine is overloaded",
                                                 print_duration(limits.transform_wall_max)));
    case JqError::Kind::memory:
      return invalid_arguments(
          fmt::format("the jq program needs more than {} MiB of memory", limits.transform_memory_bytes_max >> 20));
    case JqError::Kind::output_too_large:
      return failure("TOOL_OUTPUT_TOO_LARGE", fmt::format("the result is over {} bytes", step_output_bytes_max));
    case JqError::Kind::crashed:
      return failure("TOOL_INTERNAL_ERROR", fmt::format("the jq helper ended with {}", error.message));
    case JqError::Kind::stopped:
      return stopped();
  }
  return failure("TOOL_INTERNAL_ERROR", "unknown");
}

class Transform final : public Tool {
 public:
  explicit Transform(const ToolLimits& limits)
      : limits_(limits),
        jq_({.cpu_max = limits.transform_cpu_max,
             .wall_max = limits.transform_wall_max,
             .memory_bytes_max = limits.transform_memory_bytes_max,
             .output_bytes_max = jq_result_bytes_max}) {}

  const ToolSpec& spec() const override { return spec_; }

  ToolResult run(const Lease& lease, Instant, std::stop_token stop) override {
    Arguments with(lease.input);
    const auto program = with.required_text("jq");
    if (reads_modules(program)) with.refuse("jq", modules_refusal);
    if (with.refusal()) return *with.refusal();
    const Json* input = with.any("input");

    auto results = jq_.evaluate(program, input ? boost::json::serialize(*input) : "null", stop);
    if (!results) return failed(results.error(), limits_);
    Completed completed;
    if (results->count == 1) completed.output = std::move(results->text);
    if (results->count > 1) completed.output = "[" + results->text + "]";
    // A program can nest deeper than any expression that reads its output could follow.
    if (const auto parsed = parse_json(completed.output); !parsed)
      return invalid_arguments("the result cannot be kept: " + parsed.error());
    return completed;
  }

 private:
  const ToolLimits limits_;
  JqPool jq_;
  const ToolSpec spec_{.name = {"transform"},
                       .keys = {{.name = "jq", .required = true, .kind = ToolKey::Kind::text}, {.name = "input"}},
                       .writes = ToolSpec::Writes::never};
};

}  // namespace

std::unique_ptr<Tool> make_transform(const ToolLimits& limits) { return std::make_unique<Transform>(limits); }

}  // namespace pawl
