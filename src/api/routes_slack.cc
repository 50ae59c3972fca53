// Slack: where a tenant's approvals are shown, and what comes back when somebody clicks.
//
// Clicks have no key. Slack signs what it sends, over the raw body; before that signature fits a tenant's secret
// nothing in the body is looked at. A repeat of a request changes nothing: a decision is made once.
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <set>

#include "api/api.h"
#include "notify/signatures.h"
#include "notify/slack_card.h"
#include "notify/slack_client.h"

namespace pawl::api {
namespace {

using boost::json::array;
using boost::json::object;
using RunPointer = std::shared_ptr<const Run>;
using TenantPointer = std::shared_ptr<const Tenant>;

constexpr Duration modal_timeout = std::chrono::milliseconds(2500);  // a trigger is good for three seconds

// ---- Configuration

object slack_object(const SlackPlace& slack) {
  return {{"team", slack.team},         {"channel", slack.channel},
          {"token", slack.token},       {"signing_secret", slack.signing_secret},
          {"api_base", slack.api_base}, {"since", print_time(slack.since)}};
}

void answer_with_slack(CallPtr call, std::expected<TenantId, Refusal> done) {
  if (!done) return call->answer(problem_of(done.error()));
  auto tenant = call->api.tenants().find(call->who.tenant);
  call->answer(200, tenant->slack ? Json(slack_object(*tenant->slack)) : Json(nullptr));
}

void set_slack(CallPtr call) {
  call->query.only({});
  Input input = Input::parse(call->request);
  input.only({"team", "channel", "token", "signing_secret", "api_base"});
  SlackSet slack{.team = input.text("team"),
                 .channel = input.text("channel"),
                 .token = input.name("token"),
                 .signing_secret = input.name("signing_secret"),
                 .api_base = input.text_or("api_base", std::string(slack_api_base), 2048)};
  if (auto problem = slack_problem(slack)) refuse_input("", *problem);
  call->api.runtime().post([call, slack](Engine& engine) {
    engine.request(TenantRequest{call->who.tenant, slack, call->who.actor()},
                   [call](std::expected<TenantId, Refusal> done) { answer_with_slack(call, std::move(done)); });
  });
}

void get_slack(CallPtr call) {
  call->query.only({});
  auto tenant = call->api.tenants().find(call->who.tenant);
  if (!tenant->slack) throw not_found();
  call->answer(200, slack_object(*tenant->slack));
}

void remove_slack(CallPtr call) {
  call->query.only({});
  auto tenant = call->api.tenants().find(call->who.tenant);
  if (!tenant->slack) throw not_found();
  call->api.runtime().post([call, before = slack_object(*tenant->slack)](Engine& engine) {
    engine.request(TenantRequest{call->who.tenant, SlackRemoved{}, call->who.actor()},
                   [call, before](std::expected<TenantId, Refusal> done) {
                     if (!done) return call->answer(problem_of(done.error()));
                     call->answer(200, before);
                   });
  });
}

// ---- What comes back

Problem not_signed() {
  return {.status = 401,
          .code = "UNAUTHORIZED",
          .detail =
              "This is for Slack: a request that is signed with the signing secret of a tenant's app, and was sent "
              "within the last five minutes.",
          .headers = {{"WWW-Authenticate", "Slack"}}};
}

Problem not_understood(std::string detail) {
  return {.status = 400, .code = "INVALID_REQUEST", .detail = std::move(detail)};
}

// The tenants whose signing secret made this signature: several may have the same app.
std::vector<TenantPointer> signers(Call& call, const notify::SlackRequest& request) {
  std::vector<TenantPointer> out;
  std::map<std::string, bool> tried;  // by the secret itself
  const std::string* only = call.query.find("tenant");
  for (const TenantPointer& tenant : call.api.tenants().all()) {
    if (!tenant->slack || (only && tenant->name != *only)) continue;
    auto secret =
        call.api.notify_context().find_secret(*tenant, OwnSecret::find(*tenant, OwnSecret::Use::slack_signing_secret));
    if (!secret) {
      call.api.log().warning("Slack's signing secret cannot be read",
                             {{"tenant", tenant->name}, {"why", secret.error()}});
      continue;
    }
    auto known = tried.find(*secret);
    if (known == tried.end()) known = tried.emplace(*secret, notify::is_signed_with(request, *secret)).first;
    if (known->second) out.push_back(tenant);
  }
  return out;
}

// The value of one field of a form.
std::optional<std::string> form_field(std::string_view body, std::string_view wanted) {
  while (!body.empty()) {
    std::string pair(body.substr(0, body.find('&')));
    body.remove_prefix(std::min(pair.size() + 1, body.size()));
    auto equals = pair.find('=');
    if (equals == pair.npos || pair.substr(0, equals) != wanted) continue;
    std::string value = pair.substr(equals + 1);
    std::ranges::replace(value, '+', ' ');
    return percent_decode(value);
  }
  return std::nullopt;
}

// What stands at this path, when all of it is there.
const Json* at(const Json& value, std::initializer_list<std::string_view> path) {
  const Json* place = &value;
  for (std::string_view key : path) {
    const object* map = place->if_object();
    place = map ? map->if_contains(key) : nullptr;
    if (!place) return nullptr;
  }
  return place;
}

std::string text_at(const Json& value, std::initializer_list<std::string_view> path) {
  const Json* found = at(value, path);
  return found && found->is_string() ? std::string(found->get_string()) : "";
}

struct Click {
  TenantPointer tenant;
  notify::CardButton button;
  Actor by;
  std::string response_url;
};

std::optional<Click> read_click(const std::vector<TenantPointer>& tenants, const Json& payload,
                                std::string_view button) {
  auto meant = notify::read_button(button);
  if (!meant) return std::nullopt;
  std::string team = text_at(payload, {"team", "id"});
  // Who comes from another company's Slack is that one's user.
  std::string users_team = text_at(payload, {"user", "team_id"});
  std::string user = text_at(payload, {"user", "id"});
  for (const TenantPointer& tenant : tenants)
    if (tenant->name == meant->tenant && tenant->slack->team == team && !user.empty())
      return Click{.tenant = tenant,
                   .button = *meant,
                   .by = {"slack:" + (users_team.empty() ? team : users_team) + ":" + user},
                   .response_url = text_at(payload, {"response_url"})};
  return std::nullopt;
}

// Slack has its answer already, or has it at once.
void tell(Api& api, const Click& click, std::string text) {
  if (click.response_url.empty()) return;
  api.slack_replies().post(click.tenant->id, [&api, click, text = std::move(text)] {
    notify::tell_clicker(api.notify_context(), *click.tenant, click.response_url, text);
  });
}

std::string not_known(const Actor& by) {
  return "You are not known here, so you cannot decide this. An admin can say who you are: the account is " + by.text +
         ".";
}

// How the decision came out, for the one who made it; empty when there is nothing to say, because the card says it.
struct Outcome {
  bool accepted = false;
  std::string text;
};

Outcome outcome_for(const Run& run, const Click& click, const Actor& person, bool approve,
                    const std::optional<Refusal>& refusal) {
  const Approval* approval = nullptr;
  for (const Approval& each : run.approvals)
    if (each.id == click.button.approval) approval = &each;
  if (!approval) return {false, "There is no such approval any more."};
  auto wanted = approve ? ApprovalStatus::approved : ApprovalStatus::rejected;
  if (refusal && approval->status == ApprovalStatus::requested) return {false, notify::escaped(refusal->message) + "."};
  if (approval->status == wanted && approval->resolved_by == person) return {true, ""};
  for (const Vote& vote : approval->votes)
    if (approve && vote.by == person)
      return {true, approval->status == ApprovalStatus::requested
                        ? "Your approval counts: " + notify::outcome_line(*approval) + "."
                        : ""};
  return {false, "This was already decided: " + notify::outcome_line(*approval) + "."};
}

// The one way to a decision, as for the API (Engine::command), then what it came to: durable when `done` is called.
void decide(CallPtr call, const Click& click, bool approve, std::string reason,
            std::move_only_function<void(const Outcome&)> done) {
  call->api.runtime().post([=, reason = std::move(reason), done = std::move(done)](Engine& engine) mutable {
    const Tenant* tenant = engine.find_tenant(click.tenant->id);
    Actor person = tenant ? person_of(*tenant, click.by) : click.by;
    if (!is_person(person))
      return engine.when_durable([click, done = std::move(done)]() mutable { done({false, not_known(click.by)}); });
    auto refusal = std::make_shared<std::optional<Refusal>>();
    ResolveApproval command{
        .approval = click.button.approval, .approve = approve, .by = click.by, .reason = std::move(reason)};
    engine.request(RunRequest{click.tenant->id, click.button.run, command},
                   [refusal](std::expected<RunAnswer, Refusal> answer) {
                     if (!answer) *refusal = answer.error();
                   });
    engine.request(InspectRun{click.tenant->id, click.button.run},
                   [=, done = std::move(done)](std::expected<RunPointer, Refusal> run) mutable {
                     if (!run) return done({false, "There is no such run any more."});
                     done(outcome_for(**run, click, person, approve, *refusal));
                   });
  });
}

void acknowledge(Call& call) {
  call.respond({.status = 200, .content_type = "text/plain", .body = {}, .headers = {}, .stream = {}});
}

void open_modal(Api& api, const Click& click, std::string trigger) {
  api.slack_replies().post(click.tenant->id, [&api, click, trigger = std::move(trigger)] {
    auto said = notify::call_slack(api.notify_context(),
                                   {.tenant = *click.tenant,
                                    .method = "views.open",
                                    .body = {{"trigger_id", trigger}, {"view", notify::reject_modal(click.button)}},
                                    .timeout = modal_timeout},
                                   api.clock().now(), {});
    api.notify_context().count("slack", said ? notify::Delivery::delivered : notify::Delivery::failed);
    if (!said)
      api.log().warning("Slack opened no window to reject in",
                        {{"tenant", click.tenant->name}, {"why", said.error().message}});
  });
}

void handle_action(CallPtr call, const std::vector<TenantPointer>& tenants, const Json& payload) {
  const Json* actions = at(payload, {"actions"});
  if (!actions || !actions->is_array() || actions->get_array().empty())
    throw not_understood("A click names what was clicked.");
  const Json& action = actions->get_array()[0];
  std::string what = text_at(action, {"action_id"});
  if (what != notify::approve_action && what != notify::reject_action) return acknowledge(*call);
  auto click = read_click(tenants, payload, text_at(action, {"value"}));
  if (!click) throw not_understood("This button is not of a card that pawl posted in this team.");
  if (what == notify::reject_action) {
    if (is_person(person_of(*click->tenant, click->by)))
      open_modal(call->api, *click, text_at(payload, {"trigger_id"}));
    else
      tell(call->api, *click, not_known(click->by));
    return acknowledge(*call);
  }
  decide(call, *click, true, "", [call, click = *click](const Outcome& outcome) {
    acknowledge(*call);
    if (!outcome.text.empty()) tell(call->api, click, outcome.text);
  });
}

void answer_modal(Call& call, std::string_view problem) {
  call.answer(200, object{{"response_action", "errors"}, {"errors", object{{notify::reason_block, problem}}}});
}

void handle_submission(CallPtr call, const std::vector<TenantPointer>& tenants, const Json& payload) {
  if (text_at(payload, {"view", "callback_id"}) != notify::reject_view) return acknowledge(*call);
  auto click = read_click(tenants, payload, text_at(payload, {"view", "private_metadata"}));
  if (!click) throw not_understood("This window is not one that pawl opened in this team.");
  std::string reason =
      text_at(payload, {"view", "state", "values", notify::reason_block, notify::reason_input, "value"});
  if (reason.find_first_not_of(" \t\r\n") == reason.npos) return answer_modal(*call, "Please say why.");
  if (reason.size() > 4 * notify::reason_chars_max) return answer_modal(*call, "Please be shorter.");
  decide(call, *click, false, std::move(reason), [call](const Outcome& outcome) {
    if (outcome.accepted) return acknowledge(*call);
    answer_modal(*call, outcome.text);
  });
}

void receive(CallPtr call) {
  call->query.only({"tenant"});
  notify::SlackRequest request{.timestamp = call->request.header("x-slack-request-timestamp"),
                               .signature = call->request.header("x-slack-signature"),
                               .body = call->request.body};
  if (!notify::is_timely(request, call->api.clock().now())) throw not_signed();
  // A secret that takes long to find holds up the clicks of its own tenant.
  if (const std::string* named = call->query.find("tenant"))
    for (const TenantPointer& tenant : call->api.tenants().all())
      if (tenant->name == *named) call->who.tenant = tenant->id;
  in_background(call, [call, request](Call& c) {
    auto tenants = signers(c, request);
    if (tenants.empty()) throw not_signed();
    if (form_field(request.body, "ssl_check") == "1") return acknowledge(c);
    auto text = form_field(request.body, "payload");
    auto payload = text ? parse_json(*text) : std::unexpected(std::string("there is no payload"));
    if (!payload) throw not_understood("The body must be a form with a payload in JSON: " + payload.error() + ".");
    std::string type = text_at(*payload, {"type"});
    if (type == "block_actions") return handle_action(call, tenants, *payload);
    if (type == "view_submission") return handle_submission(call, tenants, *payload);
    acknowledge(c);
  });
}

}  // namespace

std::vector<Route> slack_routes() {
  using enum Method;
  using enum Access;
  return {
      {put, "/tenant/slack", admin, set_slack, "Ask for approvals in this Slack channel"},
      {get, "/tenant/slack", viewer, get_slack, "Where approvals are asked for in Slack"},
      {delete_, "/tenant/slack", admin, remove_slack, "Ask for nothing in Slack any more"},
      {post, "/slack/actions", open, receive, "What people click in Slack: the app's interactivity request URL",
       RouteKind::callback},
  };
}

}  // namespace pawl::api
