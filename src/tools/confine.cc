#include "tools/confine.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <filesystem>

#include "process/private_folder.h"
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

// What is the server's alone: its data folder and files, and what shows other processes and devices.
std::vector<std::string> hidden_paths(const AgentContext& context) {
  std::vector<std::string> out{"/proc", "/sys", "/dev"};
  std::error_code error;
  out.push_back(fs::weakly_canonical(context.data, error).string());
  for (const auto& path : context.own_paths) out.push_back(fs::weakly_canonical(path, error).string());
  return out;
}

// Neither one of these, nor what lies in one of them, nor what holds one.
bool may_be_shown(const fs::path& folder, const std::vector<std::string>& hidden) {
  return std::ranges::none_of(hidden,
                              [&](const fs::path& path) { return is_within(path, folder) || is_within(folder, path); });
}

Failed not_shown(const fs::path& folder) {
  return invalid_arguments(fmt::format(
      "{} cannot be a sandbox's workspace: the data folder, another file of the server, /proc, /sys or /dev "
      "is there",
      folder.string()));
}

// What a confined program is shown. Each is bound as a whole, and none of their parents can be written by programs of
// the tenant: a link that one puts into its folder leads nowhere in the sandbox.
std::expected<std::vector<std::string>, Failed> own_folders(const ProgramTerms& terms,
                                                            const std::vector<std::string>& hidden) {
  std::error_code error;
  make_private_folders(terms.workspaces, error);
  std::vector<std::string> out{fs::weakly_canonical(terms.workspaces, error).string()};
  for (const auto& each : terms.access.folders) {
    const auto folder = fs::canonical(each, error);
    if (error)
      return std::unexpected(
          unavailable(fmt::format("{}, a folder of tenant {}, is not there: {}", each, terms.tenant, error.message())));
    if (!may_be_shown(folder, hidden)) return std::unexpected(not_shown(folder));
    out.push_back(folder.string());
  }
  return out;
}

}  // namespace

SandboxRequest read_sandbox(Arguments& with, const AgentContext& context, const ProgramTerms& terms,
                            const UsualSandbox& usual) {
  const SandboxUse demanded = terms.is_confined ? SandboxUse::required : context.sandbox_use;
  SandboxRequest request{.use = demanded == SandboxUse::auto_ ? usual.use : demanded,
                         .network = usual.network,
                         .limits = context.sandbox_limits};
  std::optional<SandboxUse> said;
  if (const Json* value = with.any("sandbox")) {
    if (const auto* word = value->if_string())
      said = parse_enum<SandboxUse>(*word);
    else if (const auto* map = value->if_object())
      read_map(with, *map, request, said);
    if (!said) with.refuse("sandbox", "must be off, auto, required, or a map");
  }
  if (terms.is_confined && request.network && !terms.access.network)
    with.refuse(
        "sandbox",
        fmt::format("cannot have a network: the installation does not let programs of tenant {} have one; say "
                    "sandbox: {{network: false}}, or ask for `network: true` in the server's setting `programs`",
                    terms.tenant));
  if (!said) return request;
  if (demanded == SandboxUse::required && *said == SandboxUse::off)
    with.refuse("sandbox", terms.is_confined ? fmt::format("cannot be off for programs of tenant {}", terms.tenant)
                                             : "cannot be off: this server demands a sandbox");
  if (demanded != SandboxUse::required) request.use = *said;
  return request;
}

std::expected<bool, Failed> decide_sandbox(const SandboxRequest& request, const AgentContext& context) {
  if (request.use == SandboxUse::off) return false;
  const auto& available = context.sandbox->is_available();
  if (available) return true;
  if (request.use == SandboxUse::required) return std::unexpected(unavailable(available.error()));
  return false;
}

std::optional<Failed> folder_problem(const std::string& folder, const ProgramTerms& terms) {
  if (!terms.is_confined) return std::nullopt;
  std::error_code error;
  const auto wanted = fs::weakly_canonical(folder, error);
  bool is_own = !error && is_within(wanted, fs::weakly_canonical(terms.workspaces, error));
  for (const auto& each : terms.access.folders) is_own = is_own || is_within(wanted, fs::weakly_canonical(each, error));
  if (is_own && fs::path(folder).is_absolute()) return std::nullopt;
  return invalid_arguments(
      fmt::format("{} is no folder of tenant {}: name none, and the run has one of its own, or one that the "
                  "installation lists in the setting `programs`",
                  folder, terms.tenant));
}

std::expected<ProcessPlan, Failed> in_sandbox(ProcessPlan plan, const SandboxRequest& request, SandboxPlace place) {
  const AgentContext& context = place.context;
  if (request.use == SandboxUse::required && !can_limit_processes(place.group))
    return std::unexpected(
        unavailable("processes of root are bounded by control groups only, and none can be made here"));
  if (auto problem = folder_problem(plan.directory, place.terms)) return std::unexpected(std::move(*problem));
  std::error_code error;
  const auto directory = fs::canonical(plan.directory, error);
  if (error) return std::unexpected(invalid_arguments(fmt::format("{}: {}", plan.directory, error.message())));
  const auto hidden = hidden_paths(context);
  SandboxPlan sandbox{.directory = directory.string(),
                      .writable = std::move(place.writable),
                      .readable = context.sandbox_readable,
                      .hidden = hidden,
                      .network = request.network,
                      .shows_program = place.shows_program || !place.terms.is_confined};
  std::ranges::copy(place.readable, std::back_inserter(sandbox.readable));
  if (place.terms.is_confined) {
    auto folders = own_folders(place.terms, hidden);
    if (!folders) return std::unexpected(std::move(folders.error()));
    std::ranges::move(*folders, std::back_inserter(sandbox.writable));
  } else {
    const auto own = fs::weakly_canonical(place.terms.workspaces, error);
    const bool is_workspace = is_within(directory, own) || directory == own.parent_path() / place.terms.run.str();
    if (!is_workspace && !may_be_shown(directory, hidden)) return std::unexpected(not_shown(directory));
    std::ranges::copy(context.sandbox_writable, std::back_inserter(sandbox.writable));
    sandbox.writable.push_back(directory.string());
  }
  for (const auto& path : sandbox.writable)
    if (!fs::exists(path, error))
      return std::unexpected(unavailable(fmt::format("{}, which it is to be able to write, does not exist", path)));
  if (plan.environment.size() > sandbox_variables_max)
    return std::unexpected(invalid_arguments(fmt::format(
        "`env` and `pass_env` make {} variables, and a program in a sandbox can have {}; pass fewer, or a file",
        plan.environment.size(), sandbox_variables_max)));
  plan.limits = process_limits(request.limits, place.group);
  return context.sandbox->wrap(std::move(plan), sandbox);
}

}  // namespace pawl
