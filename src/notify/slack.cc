#include "notify/slack.h"

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>

#include "core/event.h"

namespace pawl::notify {
namespace {

using boost::json::object;

constexpr const char* workflow_source = R"(workflow: pawl.slack
description: Shows what waits for people in the tenant's Slack channel
caps: {max_concurrency: 2}
steps:
  - id: show
    tool: pawl.slack
    timeout: 2m
    lease: 2m
    retry: {max_attempts: 20, schedule: [2s, 5s, 15s, 1m, 5m, 15m, 1h], jitter: 0.2}
    with: {run: "${{ input.run }}", approval: "${{ input.approval }}", card: "${{ input.card }}", notice: "${{ input.notice }}", step: "${{ input.step }}"}
)";

// What the tool is told; what does not apply is null.
struct Showing {
  Json approval = nullptr;
  Json card = nullptr;    // the run that posted the card
  Json notice = nullptr;  // a message of its own: task, question, reminder or escalation
  Json step = nullptr;    // that asks
};

NewRun showing(const JournalEvent& event, Showing what) {
  NewRun run;
  run.tenant = event.stream.tenant;
  run.workflow = slack_workflow;
  run.workspace = internal_workspace;
  run.input = canonical(object{{"run", event.run().str()},
                               {"approval", std::move(what.approval)},
                               {"card", std::move(what.card)},
                               {"notice", std::move(what.notice)},
                               {"step", std::move(what.step)}});
  run.by = engine_actor;
  run.is_internal = true;
  return run;
}

NewRun card_run(const JournalEvent& event, const std::string& approval) {
  NewRun run = showing(event, {.approval = Json(approval)});
  run.trigger_type = card_trigger;
  run.trigger_ref = approval;
  return run;
}

// Whether an event of this type asks people something, or asks them to review.
bool is_task_notice(std::string_view type) {
  return type == "task.asked" || type == event_name(TaskTrigger::finish) || type == event_name(TaskTrigger::unblock);
}

// Most events are of other types, and need not be read.
bool may_concern_people(const EventHeader& event) {
  return event.subject() == "approval" || is_task_notice(event.type) || event.type == event_name(StepTrigger::ask);
}

}  // namespace

void SlackFollower::see_approval(const JournalEvent& event, std::string_view type, const std::string& approval) {
  if (type == "approval.requested") return run_creator_.make(card_run(event, approval));
  // The run that posts the card: which one that is, the trigger knows.
  RunId card = run_creator_.make_now(card_run(event, approval));
  Showing what{.approval = Json(approval), .card = Json(card.str())};
  if (type == "approval.reminded") what.notice = "reminder";
  if (type == "approval.escalated") what.notice = "escalation";
  NewRun update = showing(event, std::move(what));
  update.trigger_type = update_trigger;
  update.trigger_ref = approval + ":" + std::to_string(event.seq);
  run_creator_.make(std::move(update));
}

void SlackFollower::see_question(const JournalEvent& event, std::string_view step) {
  NewRun notice =
      showing(event, step.empty() ? Showing{.notice = "task"} : Showing{.notice = "question", .step = Json(step)});
  notice.trigger_type = notice_trigger;
  notice.trigger_ref = event.run().str() + ":" + std::to_string(event.seq);
  run_creator_.make(std::move(notice));
}

void SlackFollower::see(const JournalEvent& event) {
  if (event.stream.is_tenant() || !may_concern_people(event.header)) return;
  auto line = parse_json(event.line);
  if (!line || !line->is_object()) return context_.report("an event of " + event.run().str() + " cannot be read");
  const object& parsed = line->get_object();
  if (Instant{parsed.at("at").to_number<std::int64_t>()} < event.tenant.slack->since) return;
  auto text = [&](std::string_view key) -> std::string {
    const Json* value = parsed.if_contains(key);
    return value && value->is_string() ? std::string(value->get_string()) : "";
  };
  const bool is_approval = event.header.subject() == "approval";
  const std::string approval = text("approval");
  if (is_approval && approval.empty()) return;
  run_creator_.publish(event.stream.tenant, slack_workflow, workflow_source);
  if (is_approval) return see_approval(event, event.header.type, approval);
  see_question(event, event.header.subject() == "step" ? text("step") : "");
}

}  // namespace pawl::notify
