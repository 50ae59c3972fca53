#include <boost/json/array.hpp>

#include "api/api.h"
#include "engine/policy_records.h"

namespace pawl::api {
namespace {

using boost::json::array;
using boost::json::object;

constexpr std::size_t tried_actions_max = 1000;
constexpr std::size_t tried_actions_usual = 200;

Problem invalid_policy(std::string detail, std::string where = {}) {
  return {.status = 422, .code = "INVALID_POLICY", .detail = std::move(detail), .where = std::move(where)};
}

// Compiled in the background: a large one takes longer than the engine should be held up for.
void publish_policy(CallPtr call) {
  call->query.only({});
  if (call->request.body.empty()) refuse_input("", "The body must be the policy, in YAML or JSON.");
  in_background(call, [call](Call& c) {
    auto source = PolicySource::read(c.request.body, "policy");
    if (!source) throw invalid_policy(source.error());
    c.api.runtime().post([call, source = std::move(*source)](Engine& engine) mutable {
      engine.request(
          PublishPolicy{call->who.tenant, std::move(source), call->who.actor()},
          [call](std::expected<PolicyRef, Refusal> done) {
            if (!done) return call->answer(problem_of(done.error()));
            call->answer(done->is_new ? 201 : 200, object{{"version", done->version}, {"digest", done->digest}});
          });
    });
  });
}

void get_policy(CallPtr call) {
  call->query.only({"version"});
  auto latest = static_cast<std::uint64_t>(call->api.tenants().find(call->who.tenant)->policy.version);
  const std::string* given = call->query.find("version");
  const std::uint64_t version = given && *given == "0" ? 0 : call->query.number("version", latest, INT32_MAX);
  in_background(call, [version](Call& c) {
    auto found = find_policy_version(c.api.store(), c.who.tenant, static_cast<int>(version));
    if (!found) throw not_found();
    c.answer(200, policy_object(*found, true));
  });
}

void get_history(CallPtr call) {
  call->query.only({"limit", "cursor"});
  const std::uint64_t limit = call->query.number("limit", page_default, page_max);
  PolicyPage page{.limit = limit + 1};  // one more tells whether there are more
  if (call->query.find("cursor")) page.before = static_cast<int>(call->query.number("cursor", 0, INT32_MAX));
  in_background(call, [page, limit](Call& c) {
    auto versions = policy_versions(c.api.store(), c.who.tenant, page);
    bool more = versions.size() > limit;
    if (more) versions.pop_back();
    array items;
    for (const PolicyVersion& version : versions) items.push_back(policy_object(version, false));
    Json next = more ? Json(std::to_string(versions.back().version)) : Json(nullptr);
    c.answer(200, object{{"items", std::move(items)}, {"next_cursor", std::move(next)}});
  });
}

std::vector<ProposedAction> read_actions(const Input& input) {
  std::vector<ProposedAction> out;
  input.each(
      "actions", tried_actions_max,
      [&](const Input& item) {
        item.only({"action", "workspace", "workflow"});
        const Json* action = item.find("action");
        if (!action) item.refuse("action", "is missing");
        auto read = read_action(*action);
        if (!read) item.refuse("action", "cannot be read: " + read.error());
        out.push_back({.action = std::move(*read),
                       .workspace = WorkspaceName{item.has("workspace") ? item.name("workspace") : "default"},
                       .workflow = WorkflowName{item.has("workflow") ? item.name("workflow") : ""},
                       .record = {}});
      },
      [](const Problem& problem, const Json&) { throw problem; });
  return out;
}

void try_draft(CallPtr call) {
  call->query.only({});
  Input input = Input::parse(call->request);
  input.only({"policy", "actions", "limit"});
  std::string text = input.text("policy", policy_bytes_max);
  const auto limit =
      static_cast<std::size_t>(input.number("limit", 1, tried_actions_max).value_or(std::int64_t{tried_actions_usual}));
  std::optional<std::vector<ProposedAction>> given;
  if (input.has("actions")) given = read_actions(input);
  auto answer = [text, limit](Call& c, std::optional<std::vector<ProposedAction>> actions) {
    auto draft = Policy::compile(text, "policy");
    if (!draft) throw invalid_policy(draft.error(), "/policy");
    RecordedActions tried;
    if (actions)
      tried.actions = std::move(*actions);
    else
      tried = recorded_actions(c.api.store(), c.who.tenant, limit);
    c.answer(200, try_policy(*draft, *c.api.tenants().find(c.who.tenant), tried));
  };
  if (given)
    in_background(call, [answer, given = std::move(given)](Call& c) mutable { answer(c, std::move(given)); });
  else
    with_fresh_tables(call, std::nullopt, [answer](Call& c) { answer(c, std::nullopt); });
}

}  // namespace

std::vector<Route> policy_routes() {
  using enum Method;
  using enum Access;
  return {
      {put, "/policy", admin, publish_policy, "Make this the tenant's policy: a new version, or the one there is",
       RouteKind::heavy},
      {get, "/policy", viewer, get_policy, "The policy that holds, or an earlier version, with its source"},
      {get, "/policy/history", viewer, get_history, "The versions of the policy, and who published them"},
      {post, "/policy/test", operator_, try_draft, "What a draft would change, tried on actions that runs recorded",
       RouteKind::heavy},
  };
}

}  // namespace pawl::api
