#include "tools/confine.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <filesystem>

#include "tools/outcome.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;

Failed unavailable(std::string_view why) {
  auto failed = failure("SANDBOX_UNAVAILABLE", fmt::format("a sandbox is demanded and cannot be had: {}", why));
  failed.is_harmless = true;
  return failed;
}

std::optional<int> limit_in(Arguments& with, const boost::json::object& map, std::string_view key) {
  const Json* value = map.if_contains(key);
  if (!value || value->is_null()) return std::nullopt;
  const auto* number = value->if_int64();
  if (number && *number > 0 && *number <= 1'000'000) return static_cast<int>(*number);
  with.refuse("sandbox", fmt::format("has a {} that is not a whole number from 1 to 1000000", key));
  return std::nullopt;
}

void read_map(Arguments& with, const boost::json::object& map, SandboxRequest& request,
              std::optional<SandboxUse>& said) {
  for (const auto& entry : map) {
    const std::string_view key = entry.key();
    if (key != "mode" && key != "network" && key != "memory_mib" && key != "processes" && key != "files")
      with.refuse("sandbox", "has an unknown key; there are mode, network, memory_mib, processes and files");
  }
  if (const Json* mode = map.if_contains("mode")) {
    said = mode->is_string() ? parse_enum<SandboxUse>(mode->get_string()) : std::nullopt;
    if (!said) with.refuse("sandbox", "must have a mode that is off, auto or required");
  } else {
    said = SandboxUse::required;  // who describes a sandbox wants one
  }
  if (const Json* network = map.if_contains("network")) {
    if (!network->is_bool()) with.refuse("sandbox", "must have a network that is true or false");
    request.network = network->is_bool() && network->get_bool();
  }
  if (const auto mib = limit_in(with, map, "memory_mib"))
    request.limits.memory_bytes_max = std::min(request.limits.memory_bytes_max, static_cast<std::size_t>(*mib) << 20);
  if (const auto count = limit_in(with, map, "processes"))
    request.limits.processes_max = std::min(request.limits.processes_max, *count);
  if (const auto count = limit_in(with, map, "files"))
    request.limits.files_max = std::min(request.limits.files_max, *count);
}

bool is_within(const fs::path& inner, const fs::path& outer) {
  const auto [end, ignored] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return end == outer.end();
}

}  // namespace

SandboxRequest read_sandbox(Arguments& with, const AgentContext& context, SandboxUse usual, bool usual_network) {
  SandboxRequest request{.use = context.sandbox_use == SandboxUse::auto_ ? usual : context.sandbox_use,
                         .network = usual_network,
                         .limits = context.sandbox_limits};
  std::optional<SandboxUse> said;
  if (const Json* value = with.any("sandbox")) {
    if (const auto* word = value->if_string())
      said = parse_enum<SandboxUse>(*word);
    else if (const auto* map = value->if_object())
      read_map(with, *map, request, said);
    if (!said) with.refuse("sandbox", "must be off, auto, required, or a map");
  }
  if (!said) return request;
  if (context.sandbox_use == SandboxUse::required && *said == SandboxUse::off)
    with.refuse("sandbox", "cannot be off: this server demands a sandbox");
  if (context.sandbox_use != SandboxUse::required) request.use = *said;
  return request;
}

std::expected<bool, Failed> decide_sandbox(const SandboxRequest& request, const AgentContext& context) {
  if (request.use == SandboxUse::off) return false;
  const auto& available = context.sandbox->is_available();
  if (available) return true;
  if (request.use == SandboxUse::required) return std::unexpected(unavailable(available.error()));
  return false;
}

std::expected<ProcessPlan, Failed> in_sandbox(ProcessPlan plan, const SandboxRequest& request,
                                              const AgentContext& context, const ControlGroup& group,
                                              std::vector<std::string> writable) {
  if (request.use == SandboxUse::required && !can_limit_processes(group))
    return std::unexpected(
        unavailable("processes of root are bounded by control groups only, and none can be made here"));
  std::error_code error;
  const auto workspace = fs::canonical(plan.directory, error);
  if (error) return std::unexpected(invalid_arguments(fmt::format("{}: {}", plan.directory, error.message())));
  const auto data = fs::weakly_canonical(context.data, error);
  if (is_within(data, workspace) || (is_within(workspace, data) && !is_within(workspace, data / "workspaces")))
    return std::unexpected(invalid_arguments(
        fmt::format("{} cannot be a sandbox's workspace: the data folder is there", workspace.string())));
  SandboxPlan sandbox{.workspace = workspace.string(),
                      .writable = std::move(writable),
                      .readable = context.sandbox_readable,
                      .network = request.network};
  std::ranges::copy(context.sandbox_writable, std::back_inserter(sandbox.writable));
  for (const auto& path : sandbox.writable)
    if (!fs::exists(path, error))
      return std::unexpected(unavailable(fmt::format("{}, which it is to be able to write, does not exist", path)));
  plan.limits = process_limits(request.limits, group);
  return context.sandbox->wrap(std::move(plan), sandbox);
}

}  // namespace pawl
