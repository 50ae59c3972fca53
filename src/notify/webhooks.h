// Outgoing webhooks. An event that a tenant's webhook wants becomes a run of a workflow of pawl's own,
// pawl.webhook.NAME, made under a trigger that names webhook and event: once, whatever crashes. That run's one step
// sends it. So retries with their waits, the log of deliveries, their way to a free worker on any server, all that is
// what every run has.
//
// Events of pawl's own runs are sent to nobody.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>

#include "engine/follower.h"
#include "notify/run_creator.h"
#include "tools/tool.h"

namespace pawl::notify {

inline const ToolName webhook_tool{"pawl.webhook"};
inline constexpr std::string_view webhook_trigger = "webhook";
inline constexpr std::string_view replay_trigger = "webhook-replay";

// The workflow whose runs are the deliveries to it, and its source.
WorkflowName webhook_workflow(std::string_view webhook);
std::string webhook_workflow_source(std::string_view webhook);

// A delivery of `event`, an envelope, as it is made; the caller sets trigger and actor when it is a replay.
NewRun delivery_of(TenantId tenant, std::string_view webhook, const boost::json::object& event);

// How often a delivery is tried at most.
inline constexpr int delivery_attempts_max = 10;
// Whether anything was delivered to the webhook at this time or later. Blocks.
bool was_delivered_since(Store& store, TenantId tenant, std::string_view webhook, Instant since);

// Makes deliveries.
class WebhookFollower final : public Follower {
 public:
  explicit WebhookFollower(const NotifyContext& context) : context_(context), run_creator_(context) {}

  std::string name() const override { return "webhooks"; }
  bool wants(const Tenant& tenant) const override;
  void see(const JournalEvent& event) override;
  void settle() override { run_creator_.settle(); }

 private:
  const std::string& workflow_of(const JournalEvent& event, const boost::json::object& parsed);
  std::shared_ptr<const Run> look(const JournalEvent& event);
  void remember(RunId run, std::string workflow);

  const NotifyContext& context_;
  RunCreator run_creator_;
  // Of runs seen lately: an event names its run, and only the first one says of what workflow that is.
  std::unordered_map<RunId, std::string> workflows_;
  std::deque<RunId> oldest_;
};

// Sends one. `context` outlives it, and is complete before it runs.
std::unique_ptr<Tool> make_webhook_tool(const NotifyContext& context);

}  // namespace pawl::notify
