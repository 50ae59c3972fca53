// What waits for people, in Slack. An approval that is asked for becomes a card in the tenant's channel, and what
// becomes of it changes the card; a reminder is an answer to it. Questions of runs and tasks, and tasks to review, are
// messages that say what to do. All are runs of pawl.slack, made once for each event, as webhooks' deliveries are
// (webhooks.h). What people click comes back through the API (api/routes_slack.cc).
#pragma once

#include <memory>
#include <string>

#include "engine/follower.h"
#include "notify/run_creator.h"
#include "tools/tool.h"

namespace pawl::notify {

inline const ToolName slack_tool{"pawl.slack"};
inline const WorkflowName slack_workflow{"pawl.slack"};
inline constexpr std::string_view card_trigger = "slack-card";
inline constexpr std::string_view update_trigger = "slack-update";
inline constexpr std::string_view notice_trigger = "slack-notice";

class SlackFollower final : public Follower {
 public:
  explicit SlackFollower(const NotifyContext& context) : context_(context), run_creator_(context) {}

  std::string name() const override { return "slack"; }
  bool wants(const Tenant& tenant) const override { return tenant.slack.has_value(); }
  void see(const JournalEvent& event) override;
  void settle() override { run_creator_.settle(); }

 private:
  void see_approval(const JournalEvent& event, std::string_view type, const std::string& approval);
  void see_question(const JournalEvent& event, std::string_view step);

  const NotifyContext& context_;
  RunCreator run_creator_;
};

// Posts a card or a message, or brings a card up to date. `context` outlives it, and is complete before it runs.
std::unique_ptr<Tool> make_slack_tool(const NotifyContext& context);

}  // namespace pawl::notify
