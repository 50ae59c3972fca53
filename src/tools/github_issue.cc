// github.labels and github.assignees: who and what an issue or a pull request is marked with.
//
// What is there is read first, and only the difference is sent: a label that was there already was not our doing, and
// an undo leaves it. Both are sets, so a call that is in doubt may be repeated. GitHub drops assignees without access
// silently, so the set is read again afterwards.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "core/characters.h"
#include "core/expression.h"
#include "tools/connector.h"
#include "tools/outcome.h"
#include "tools/tools.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

constexpr std::string_view github_api = "https://api.github.com";
using Names = std::vector<std::string>;

// The two sets of an issue that can be changed.
struct Kind {
  std::string_view tool;  // github.<this>
  std::string_view list;  // the issue's member, and the path below it
  std::string_view name;  // the member of an entry that names it
  bool can_set = false;   // all of it at once
  bool removes_one_by_one = false;
};
constexpr Kind labels{"labels", "labels", "name", true, true};
constexpr Kind assignees{"assignees", "assignees", "login", false, false};

// GitHub keeps the case of names and does not distinguish by it.
bool has(const Names& names, std::string_view name) {
  return std::ranges::any_of(names, [&](const std::string& each) { return lower_case(each) == lower_case(name); });
}
Names without(const Names& names, const Names& others) {
  Names out;
  for (const auto& name : names)
    if (!has(others, name) && !has(out, name)) out.push_back(name);
  return out;
}
Names common(const Names& names, const Names& others) {
  Names out;
  for (const auto& name : names)
    if (has(others, name) && !has(out, name)) out.push_back(name);
  return out;
}
array json_of(const Names& names) {
  array out;
  for (const auto& name : names) out.emplace_back(name);
  return out;
}

struct Change {
  std::string base;
  std::string repo;
  int issue = 0;
  Names add, remove;
  std::optional<Names> set;
  std::string token;
  Duration timeout{};
};

bool is_repo(std::string_view text) {
  const auto slash = text.find('/');
  const auto is_part = [](std::string_view part) {
    return !part.empty() && part != "." && part != ".." && std::ranges::all_of(part, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    });
  };
  return slash != text.npos && is_part(text.substr(0, slash)) && is_part(text.substr(slash + 1));
}

Change read_change(Arguments& with, const Kind& kind, const ToolLimits& limits) {
  Change change{.base = base_url(with, "url", github_api),
                .repo = lower_case(with.required_text("repo")),
                .issue = with.count("issue").value_or(0),
                .add = with.text_list("add"),
                .remove = with.text_list("remove"),
                .set = {},
                .token = with.required_text("token"),
                .timeout = timeout_of(with, limits.http_timeout)};
  if (!is_repo(change.repo)) with.refuse("repo", "must be owner/name");
  if (change.issue <= 0) with.refuse("issue", "is required, and must be the issue's number");
  if (kind.can_set && with.any("set")) change.set = with.text_list("set");
  if (change.set && !(change.add.empty() && change.remove.empty()))
    with.refuse("set", "says all there is to be, so `add` and `remove` cannot stand beside it");
  if (!change.set && change.add.empty() && change.remove.empty())
    with.refuse("add", kind.can_set ? "or `remove` or `set` is required" : "or `remove` is required");
  if (!common(change.add, change.remove).empty()) with.refuse("remove", "must not name what `add` names");
  for (const auto* names : {&change.add, &change.remove})
    if (has(*names, "")) with.refuse("add", "and `remove` must not hold an empty name");
  return change;
}

void explain_github_error(const ApiAnswer& answer, Instant now, Failed& failed) {
  if (auto message = text_member(answer.body, "message"); !message.empty()) {
    if (const Json* errors = member(answer.body, "errors")) message += " " + canonical(*errors);
    failed.message = fmt::format("GitHub answered {}: {}", answer.http.status, head_of(message, 600));
  }
  if (answer.http.status != 403 && answer.http.status != 429) return;
  const auto* remaining = answer.http.header("x-ratelimit-remaining");
  const bool is_used_up = remaining && *remaining == "0";
  if (answer.http.status == 403 && !is_used_up && !answer.http.header("retry-after")) return;
  failed.error_code = "TOOL_RATE_LIMITED";
  failed.retryable.reset();
  failed.retry_after = retry_after(answer.http, now);
  if (!failed.retry_after && is_used_up) failed.retry_after = until_unix_time(answer.http, "x-ratelimit-reset", now);
}

class IssueSet final : public Tool {
 public:
  IssueSet(const Kind& kind, const ToolLimits& limits) : kind_(kind), limits_(limits), spec_(spec_of(kind)) {}
  const ToolSpec& spec() const override { return spec_; }

  std::expected<Plan, Failed> plan(const Lease& lease, std::stop_token stop) override {
    Arguments with(lease.input);
    const Change change = read_change(with, kind_, limits_);
    if (with.refusal()) return std::unexpected(*with.refusal());
    const auto present = look(change, client_for(change, stop), wall_clock());
    if (!present) return std::unexpected(present.error());
    auto plan = Tool::plan(lease, std::move(stop));
    if (!plan) return plan;
    plan->action.fields = with_fields(lease.shown, {{"url", change.base}, {"repo", change.repo}});
    plan->action.target = target_of(change);
    plan->idempotent = true;
    plan->before = canonical(object{{kind_.list, json_of(*present)}});
    return plan;
  }

  ToolResult run(const Lease& lease, Instant now, std::stop_token stop) override {
    Arguments with(lease.input);
    const Change change = read_change(with, kind_, limits_);
    if (with.refusal()) return *with.refusal();
    const ApiClient github = client_for(change, stop);
    const auto before = look(change, github, now);
    if (!before) return harmless(before.error());
    const Names to_add = added_to(change, *before), to_remove = removed_from(change, *before);
    bool wrote = false;
    if (auto failed = apply(change, github, to_add, to_remove, now, wrote)) {
      if (wrote) failed->is_harmless = false;
      return *failed;
    }
    const auto after = to_add.empty() && to_remove.empty() ? before : look(change, github, now);
    if (!after) {
      Failed failed = after.error();
      failed.is_harmless = false;
      return failed;
    }
    const Names was = first_seen(lease).value_or(*before);
    return compare(lease, change, {added_to(change, was), removed_from(change, was)}, was, *after);
  }

 private:
  struct Difference {
    Names added;
    Names removed;
  };

  static Names added_to(const Change& change, const Names& present) {
    return without(change.set.value_or(change.add), present);
  }
  static Names removed_from(const Change& change, const Names& present) {
    return change.set ? without(present, *change.set) : common(change.remove, present);
  }

  // What was there before the first call of an effect that is called again.
  std::optional<Names> first_seen(const Lease& lease) const {
    const auto before = parse_json(lease.before);
    const Json* list = before ? member(*before, kind_.list) : nullptr;
    if (!list || !list->is_array()) return std::nullopt;
    Names out;
    for (const Json& name : list->get_array())
      if (name.is_string()) out.emplace_back(name.get_string());
    return out;
  }

  static Failed harmless(Failed failed) {
    failed.is_harmless = true;
    return failed;
  }

  static std::string target_of(const Change& change) {
    return target_at(change.base, github_api, fmt::format("{}#{}", change.repo, change.issue));
  }
  static std::string path_of(const Change& change) {
    return fmt::format("/repos/{}/issues/{}", change.repo, change.issue);
  }

  ApiClient client_for(const Change& change, std::stop_token stop) const {
    return ApiClient(limits_,
                     {.base = change.base,
                      .headers = {{"Authorization", "Bearer " + change.token}, {"X-GitHub-Api-Version", "2022-11-28"}},
                      .timeout = change.timeout,
                      .explain = explain_github_error},
                     std::move(stop));
  }

  std::expected<Names, Failed> look(const Change& change, const ApiClient& github, Instant now) const {
    const auto answer = github.get(path_of(change), now);
    if (!answer) return std::unexpected(answer.error());
    const Json* list = member(answer->body, kind_.list);
    if (!list || !list->is_array()) return std::unexpected(failure("TOOL_FAILED", "GitHub answered without an issue"));
    Names out;
    for (const Json& entry : list->get_array())
      if (auto name = entry.is_string() ? std::string(entry.get_string()) : text_member(entry, kind_.name);
          !name.empty())
        out.push_back(std::move(name));
    return out;
  }

  // `wrote`: something was changed, or may have been.
  std::optional<Failed> apply(const Change& change, const ApiClient& github, const Names& to_add,
                              const Names& to_remove, Instant now, bool& wrote) const {
    const auto path = fmt::format("{}/{}", path_of(change), kind_.list);
    const auto send = [&](std::string method, const std::string& to, const Names* names) -> std::optional<ApiFailed> {
      const Json body = names ? Json(object{{kind_.list, json_of(*names)}}) : Json();
      const auto answer = github.call(std::move(method), to, names ? &body : nullptr, now);
      if (answer || !answer.error().is_harmless) wrote = true;
      if (answer) return std::nullopt;
      return answer.error();
    };
    if (change.set && !(to_add.empty() && to_remove.empty())) return send("PUT", path, &*change.set);
    if (!to_add.empty())
      if (auto failed = send("POST", path, &to_add)) return failed;
    if (to_remove.empty()) return std::nullopt;
    if (!kind_.removes_one_by_one) return send("DELETE", path, &to_remove);
    for (const auto& name : to_remove)
      // One that somebody else took away meanwhile is gone, which is what is wanted: the look afterwards says so.
      if (auto failed = send("DELETE", path + "/" + url_encoded(name), nullptr); failed && failed->status != 404)
        return failed;
    return std::nullopt;
  }

  ToolResult compare(const Lease& lease, const Change& change, const Difference& wanted, const Names& before,
                     const Names& after) const {
    const Names missing = without(wanted.added, after), left = common(wanted.removed, after);
    const Names added = common(wanted.added, after), removed = without(wanted.removed, after);
    if (!missing.empty() || !left.empty()) {
      auto failed =
          failure("TOOL_FAILED",
                  fmt::format("GitHub accepted the change of {} and did not do all of it:{}{}", target_of(change),
                              missing.empty() ? "" : " not added: " + canonical(json_of(missing)),
                              left.empty() ? "" : " not removed: " + canonical(json_of(left))));
      failed.retryable = false;
      failed.is_harmless = added.empty() && removed.empty();
      return failed;
    }
    Completed done{.output =
                       canonical(object{{kind_.list, json_of(after)},
                                        {"added", json_of(added)},
                                        {"removed", json_of(removed)},
                                        {"were_there", json_of(common(change.set.value_or(change.add), before))}})};
    if (!added.empty() || !removed.empty()) done.undo = undo_of(lease, change, added, removed);
    return done;
  }

  std::shared_ptr<const Action> undo_of(const Lease& lease, const Change& change, const Names& added,
                                        const Names& removed) const {
    auto fields = parse_json(lease.shown).value_or(object{});
    if (!fields.is_object()) return nullptr;
    auto& map = fields.get_object();
    for (const auto* key : {"add", "remove", "set"}) map.erase(key);
    if (!removed.empty()) map["add"] = template_of_value(json_of(removed));
    if (!added.empty()) map["remove"] = template_of_value(json_of(added));
    return std::make_shared<const Action>(Action{.connector = "github",
                                                 .operation = std::string(kind_.tool),
                                                 .target = target_of(change),
                                                 .fields = canonical(fields),
                                                 .risk = lease.risk,
                                                 .idempotency_key = undo_key(lease)});
  }

  static ToolSpec spec_of(const Kind& kind) {
    using Form = ToolKey::Kind;
    ToolSpec spec{.name = {"github." + std::string(kind.tool)},
                  .keys = {{.name = "repo", .required = true, .kind = Form::text},
                           {.name = "issue", .required = true, .kind = Form::number},
                           {.name = "add", .kind = Form::text_list},
                           {.name = "remove", .kind = Form::text_list},
                           {.name = "token", .required = true, .kind = Form::text, .secrets = true},
                           {.name = "url", .kind = Form::text, .fallback = canonical(Json(github_api))},
                           {.name = "timeout", .kind = Form::duration}},
                  .writes = ToolSpec::Writes::always};
    if (kind.can_set) spec.keys.push_back({.name = "set", .kind = Form::text_list});
    return spec;
  }

  const Kind& kind_;
  const ToolLimits limits_;
  const ToolSpec spec_;
};

}  // namespace

std::unique_ptr<Tool> make_github_labels(const ToolLimits& limits) {
  return std::make_unique<IssueSet>(labels, limits);
}
std::unique_ptr<Tool> make_github_assignees(const ToolLimits& limits) {
  return std::make_unique<IssueSet>(assignees, limits);
}

}  // namespace pawl
