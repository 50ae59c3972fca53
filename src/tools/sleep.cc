// sleep, for steps that an earlier version of pawl made ready for a worker. Since then the engine's own timers execute
// it (StepDefinition::wait).
#include <fmt/format.h>

#include "tools/arguments.h"
#include "tools/outcome.h"
#include "tools/tools.h"

namespace pawl {
namespace {

class Sleep final : public Tool {
 public:
  const ToolSpec& spec() const override { return spec_; }
  bool is_quick() const override { return true; }

  ToolResult run(const Lease& lease, Instant now, std::stop_token) override {
    Arguments with(lease.input);
    const auto duration = with.duration("duration");
    if (!duration) with.refuse("duration", "is required");
    // Said at once: every attempt would sleep until the time-out, and then fail.
    if (duration && lease.timeout > Duration{} && *duration > lease.timeout)
      with.refuse("duration", fmt::format("is longer than the step's timeout of {}", print_duration(lease.timeout)));
    if (with.refusal()) return *with.refusal();
    return CompleteAt{.at = now + *duration,
                      .outcome = {.output = fmt::format(R"({{"slept_ms":{}}})", duration->count()), .cost = {}}};
  }

 private:
  const ToolSpec spec_{.name = {"sleep"},
                       .keys = {{.name = "duration", .required = true, .kind = ToolKey::Kind::duration}},
                       .writes = ToolSpec::Writes::never};
};

}  // namespace

std::unique_ptr<Tool> make_sleep() { return std::make_unique<Sleep>(); }

}  // namespace pawl
