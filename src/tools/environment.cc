#include "tools/environment.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>

namespace pawl {
namespace {

constexpr std::array passed_by_default = {"PATH", "LANG", "LC_ALL", "TZ"};
// Folders that a confined program cannot see.
constexpr std::array passed_unless_confined = {"HOME", "TMPDIR"};

bool is_environment_name(std::string_view name) { return !name.empty() && !name.contains('=') && !has_nul(name); }

}  // namespace

bool has_nul(std::string_view text) { return text.contains('\0'); }

void Environment::set(std::string_view name, std::string_view value) {
  const auto entry = fmt::format("{}={}", name, value);
  for (auto& existing : entries_)
    if (std::string_view(existing).substr(0, name.size() + 1) == std::string_view(entry).substr(0, name.size() + 1)) {
      existing = entry;
      return;
    }
  entries_.push_back(entry);
}

void Environment::pass(const std::string& name) {
  if (const char* value = std::getenv(name.c_str())) set(name, value);
}

Environment read_environment(Arguments& with, const ProgramTerms& terms, std::span<const char* const> passed_too) {
  Environment environment;
  for (const char* name : passed_by_default) environment.pass(name);
  if (!terms.is_confined)
    for (const char* name : passed_unless_confined) environment.pass(name);
  for (const char* name : passed_too)
    if (!terms.variable_problem(name)) environment.pass(name);
  for (const auto& name : with.text_list("pass_env")) {
    if (!is_environment_name(name)) with.refuse("pass_env", "must be a list of names of variables");
    if (auto problem = terms.variable_problem(name)) with.refuse("pass_env", *problem);
    environment.pass(name);
  }
  for (const auto& [name, value] : with.text_map("env")) {
    if (!is_environment_name(name) || has_nul(value)) with.refuse("env", "must map names of variables to texts");
    environment.set(name, value);
  }
  return environment;
}

void name_lease(Environment& environment, const Lease& lease) {
  environment.set("PAWL_RUN_ID", lease.run.str());
  environment.set("PAWL_STEP_ID", lease.step.str());
  environment.set("PAWL_ATTEMPT", std::to_string(lease.attempt));
  environment.set("PAWL_IDEMPOTENCY_KEY", lease.idempotency_key);
}

}  // namespace pawl
