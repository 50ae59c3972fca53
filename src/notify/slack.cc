#include "notify/slack.h"

#include <boost/json/object.hpp>

namespace pawl::notify {
namespace {

using boost::json::object;

constexpr const char* workflow_source = R"(workflow: pawl.slack
description: Shows an approval, as it is, in the tenant's Slack channel
caps: {max_concurrency: 2}
steps:
  - id: show
    tool: pawl.slack
    timeout: 2m
    lease: 2m
    retry: {max_attempts: 20, schedule: [2s, 5s, 15s, 1m, 5m, 15m, 1h], jitter: 0.2}
    with: {run: "${{ input.run }}", approval: "${{ input.approval }}", card: "${{ input.card }}"}
)";

NewRun showing(const JournalEvent& event, const std::string& approval, Json card) {
  NewRun run;
  run.tenant = event.stream.tenant;
  run.workflow = slack_workflow;
  run.workspace = internal_workspace;
  run.input = canonical(object{{"run", event.run().str()}, {"approval", approval}, {"card", std::move(card)}});
  run.by = engine_actor;
  run.is_internal = true;
  return run;
}

NewRun card_run(const JournalEvent& event, const std::string& approval) {
  NewRun run = showing(event, approval, nullptr);
  run.trigger_type = card_trigger;
  run.trigger_ref = approval;
  return run;
}

}  // namespace

void SlackFollower::see(const JournalEvent& event) {
  // Most events are of other kinds, and need not be read.
  if (event.stream.is_tenant() || event.line.find("\"type\":\"approval.") == event.line.npos) return;
  auto line = parse_json(event.line);
  if (!line || !line->is_object()) return context_.report("an event of " + event.run().str() + " cannot be read");
  const object& parsed = line->get_object();
  std::string_view type = parsed.at("type").get_string();
  const Json* id = parsed.if_contains("approval");
  if (!type.starts_with("approval.") || !id || !id->is_string()) return;
  if (Instant{parsed.at("at").to_number<std::int64_t>()} < event.tenant.slack->since) return;
  std::string approval(id->get_string());
  run_creator_.publish(event.stream.tenant, slack_workflow, workflow_source);
  if (type == "approval.requested") return run_creator_.make(card_run(event, approval));
  // The run that posts the card: which one that is, the trigger knows.
  RunId card = run_creator_.make_now(card_run(event, approval));
  NewRun update = showing(event, approval, Json(card.str()));
  update.trigger_type = update_trigger;
  update.trigger_ref = approval + ":" + std::to_string(event.seq);
  run_creator_.make(std::move(update));
}

}  // namespace pawl::notify
