// pawl policy: what every side effect is held against. At a server, or in a folder that none serves.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "cli/commands.h"
#include "cli/files.h"
#include "cli/remote.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/text.h"
#include "core/characters.h"
#include "engine/policy_records.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

constexpr std::string_view tenant_here = "default";

std::string read_policy_file(const PolicyOptions& options) {
  if (options.file.empty())
    throw Stop(exit_usage, fmt::format("which policy? pawl policy {} FILE", to_string(options.what)));
  return read_whole_file(options.file);
}

Policy compile(const std::string& source, const std::string& file) {
  auto policy = Policy::compile(source, file);
  if (!policy) throw Stop(exit_usage, policy.error());
  return std::move(*policy);
}

// The tenant that runs belong to which `pawl run` carries in a folder. One that nobody has run in yet has none.
Tenant find_tenant(Store& store) {
  for (Tenant& tenant : store.tenants())
    if (tenant.name == tenant_here) return std::move(tenant);
  return {};
}

[[noreturn]] void no_such_version(int version) {
  throw Stop(exit_not_found, fmt::format("there is no policy v{}; see pawl policy history", version));
}

Json find_policy(const PolicyOptions& options, const std::filesystem::path& folder) {
  if (auto remote = Remote::find_named(options.server, folder)) try {
      return remote->get(options.version ? fmt::format("/policy?version={}", *options.version) : "/policy");
    } catch (const Stop& stop) {
      if (stop.code() == exit_not_found && options.version) no_such_version(*options.version);
      throw;
    }
  auto store = open_to_read(folder);
  const Tenant tenant = find_tenant(*store);
  const int version = options.version.value_or(tenant.policy.version);
  auto found = find_policy_version(*store, tenant.id, version);
  if (!found) no_such_version(version);
  return policy_object(*found, true);
}

Json list_versions(const PolicyOptions& options, const std::filesystem::path& folder) {
  if (auto remote = Remote::find_named(options.server, folder)) return remote->get_all("/policy/history");
  auto store = open_to_read(folder);
  array items;
  for (const PolicyVersion& version : policy_versions(*store, find_tenant(*store).id, {.limit = SIZE_MAX}))
    items.push_back(policy_object(version, false));
  return object{{"items", std::move(items)}};
}

Json publish(const PolicyOptions& options, const std::filesystem::path& folder) {
  std::string text = read_policy_file(options);
  auto source = PolicySource::read(text, options.file);
  if (!source) throw Stop(exit_usage, source.error());
  if (auto remote = Remote::find(options.server, folder)) return remote->put("/policy", text);
  Toolbox toolbox;
  auto store = open_folded(folder, toolbox);
  Session session(*store, toolbox, std::set<RunId>{});
  auto done = session.runtime().ask(PublishPolicy{session.tenant(), *source, this_person()});
  session.stop();
  if (!done) throw Stop(exit_usage, done.error().message);
  return object{{"version", done->version}, {"digest", done->digest}};
}

Json try_draft(const PolicyOptions& options, const std::filesystem::path& folder) {
  std::string text = read_policy_file(options);
  Policy draft = compile(text, options.file);
  if (auto remote = Remote::find(options.server, folder))
    return remote->post("/policy/test", object{{"policy", text}, {"limit", options.limit}});
  auto store = open_folded(folder, Toolbox());
  const Tenant tenant = find_tenant(*store);
  return try_policy(draft, tenant, recorded_actions(*store, tenant.id, options.limit));
}

std::string_view word(const Json& item, std::string_view verdict, std::string_view key) {
  return item.at(verdict).at(key).as_string();
}

void print_trial(const Json& trial) {
  const object& summary = trial.at("summary").as_object();
  for (const Json& item : trial.at("items").as_array()) {
    if (!item.at("changes").as_bool()) continue;
    const object& action = item.at("action").as_object();
    fmt::print("{} -> {}: {} {} on {}\n", word(item, "now", "effect"), word(item, "draft", "effect"),
               printable(action.at("connector").as_string()), printable(action.at("operation").as_string()),
               printable(action.at("target").as_string()));
    fmt::print("  {}\n", printable(word(item, "draft", "reason")));
    if (const object* record = item.at("record").if_object())
      fmt::print("  {} event {}\n", std::string_view(record->at("run_id").as_string()),
                 boost::json::serialize(record->at("seq")));
  }
  auto count = [](const Json& value) { return value.to_number<std::uint64_t>(); };
  if (count(summary.at("actions")) == 0)
    return fmt::print("no run has proposed an action yet; there is nothing to test it on\n");
  fmt::print("{} of {} actions would be decided otherwise than by v{}{}\n", count(summary.at("changed")),
             count(summary.at("actions")), count(summary.at("policy_version")),
             trial.at("is_all").as_bool() ? "" : " (older ones were not looked at)");
  for (const Json& change : summary.at("changes").as_array())
    fmt::print("  {} {} -> {}\n", count(change.at("actions")), std::string_view(change.at("from").as_string()),
               std::string_view(change.at("to").as_string()));
}

// "5,000" is 5 to a CAST, and [5000] is 0: a rule that limits an amount would let them pass.
bool casts_fields(const PolicyRule& rule) {
  const std::string text = lower_case(rule.when.value_or(""));
  for (auto at = text.find("cast"); at != text.npos; at = text.find("cast", at + 1)) {
    const auto next = text.find_first_not_of(" \t\r\n", at + 4);
    if (next != text.npos && text[next] == '(' && text.find("fields", next) != text.npos) return true;
  }
  return false;
}

std::vector<std::string> warnings_about(const Policy& policy) {
  std::vector<std::string> out;
  for (const PolicyRule& rule : policy.rules())
    if (casts_fields(rule))
      out.push_back(
          fmt::format("rule `{}` uses CAST on `fields`, which makes a number of any text: \"5,000\" is 5. Write "
                      "number(fields -> 'amount'), which is NULL for what is no number",
                      rule.id));
  return out;
}

ExitCode check_policy(const PolicyOptions& options) {
  const auto policy = Policy::compile(read_policy_file(options), options.file);
  if (!policy) {
    fmt::print(stderr, "{}\n", policy.error());
    return exit_usage;
  }
  const std::size_t rules = policy->rules().size();
  const auto warnings = warnings_about(*policy);
  for (const auto& warning : warnings) fmt::print(stderr, "{}: warning: {}\n", options.file, warning);
  if (options.json)
    print_json(
        object{{"policy", policy->name()}, {"rules", rules}, {"warnings", array(warnings.begin(), warnings.end())}});
  else
    fmt::print("{}: {} has {} rule{}, no errors\n", options.file, policy->name(), rules, rules == 1 ? "" : "s");
  return exit_success;
}

}  // namespace

ExitCode manage_policy(const PolicyOptions& options) {
  using enum PolicyAction;
  if (options.version && options.what != show) throw Stop(exit_usage, "--version is for pawl policy show");
  if (!options.file.empty() && (options.what == show || options.what == history))
    throw Stop(exit_usage, fmt::format("pawl policy {} takes no file", to_string(options.what)));
  if (options.what == check) return check_policy(options);
  const auto folder = data_folder(options.data);
  if (options.what == history) {
    print_table(list_versions(options, folder), options.json, {"version", "published_at", "published_by", "digest"},
                "none was published; the one that pawl brings along holds");
    return exit_success;
  }
  const Json answer = options.what == show  ? find_policy(options, folder)
                      : options.what == put ? publish(options, folder)
                                            : try_draft(options, folder);
  if (options.json) {
    print_json(answer);
  } else if (options.what == show) {
    const std::string_view source = answer.at("source").as_string();
    fmt::print("{}{}", source, source.ends_with('\n') ? "" : "\n");
  } else if (options.what == put) {
    fmt::print("v{}\n", text_of(answer, "version"));
  } else {
    print_trial(answer);
  }
  return exit_success;
}

}  // namespace pawl
