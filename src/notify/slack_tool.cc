// pawl.slack: shows what waits for people in the tenant's Slack channel, as it is when the tool runs.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "notify/http_answers.h"
#include "notify/slack.h"
#include "notify/slack_card.h"
#include "notify/slack_client.h"
#include "notify/slack_notice.h"
#include "tools/outcome.h"

namespace pawl::notify {
namespace {

using boost::json::array;
using boost::json::object;
using RunPointer = std::shared_ptr<const Run>;

constexpr Duration card_patience = std::chrono::seconds(3);
constexpr int messages_looked_at = 100;

Completed skipped(std::string_view why) {
  return {.output = boost::json::serialize(object{{"shown", false}, {"why", why}}), .cost = {}};
}

std::string word(const object& in, std::string_view key) {
  const Json* value = in.if_contains(key);
  return value && value->is_string() ? std::string(value->get_string()) : "";
}

struct Card {
  std::string channel;
  std::string ts;
};

JsonText print(const Card& card) {
  return boost::json::serialize(object{{"shown", true}, {"channel", card.channel}, {"ts", card.ts}});
}

class SlackTool final : public Tool {
 public:
  explicit SlackTool(const NotifyContext& context) : context_(context) {}

  const ToolSpec& spec() const override { return spec_; }

  ToolResult run(const Lease& lease, Instant now, std::stop_token stop) override {
    ToolResult result = show(lease, now, stop);
    if (stop.stop_requested()) return result;
    context_.count("slack", delivery_outcome(result, "shown"));
    return result;
  }

 private:
  RunPointer look(TenantId tenant, std::string_view id) {
    auto run = RunId::parse(id);
    if (!run) return nullptr;
    auto found = context_.runtime->ask(InspectRun{tenant, *run});
    return found ? *found : nullptr;
  }

  ToolResult show(const Lease& lease, Instant now, const std::stop_token& stop) {
    auto input = parse_json(lease.input);
    const object* with = input ? input->if_object() : nullptr;
    if (!with) return invalid_arguments("there is nothing to show");
    auto tenant = context_.find_tenant(lease.tenant);
    if (!tenant || !tenant->slack) return skipped("Slack is not set any more");
    RunPointer run = look(lease.tenant, word(*with, "run"));
    const std::string notice = word(*with, "notice");
    if (notice == "task" || notice == "question")
      return tell(lease, *tenant, run, notice == "task" ? "" : word(*with, "step"), now, stop);
    const Approval* approval = nullptr;
    for (std::size_t i = 0; run && i < run->approvals.size(); ++i)
      if (run->approvals[i].id.str() == word(*with, "approval")) approval = &run->approvals[i];
    if (!approval) return invalid_arguments("there is no such approval");
    std::vector<std::string> requesters;
    for (const Actor& each : requesters_of(*run)) requesters.push_back(describe_actor(*tenant, each));
    object card =
        card_of({.tenant = tenant->name, .run = *run, .approval = *approval, .requesters = std::move(requesters)});
    if (word(*with, "card").empty()) {
      if (approval->status != ApprovalStatus::requested) return skipped("it was decided before it could be asked for");
      return post(lease, *tenant, approval->id.str(), std::move(card), now, stop);
    }
    auto place = place_of_card(lease.tenant, word(*with, "card"));
    if (!place) return std::move(place.error());
    if (notice.empty()) return update(*tenant, *place, std::move(card), now, stop);
    if (approval->status != ApprovalStatus::requested) return skipped("it was decided meanwhile");
    object reminder = reminder_notice(*tenant, *approval, notice == "escalation");
    reminder["thread_ts"] = place->ts;
    reminder["reply_broadcast"] = true;
    return post(lease, *tenant, {}, std::move(reminder), now, stop);
  }

  // A question of a step, or what a task asks of people.
  ToolResult tell(const Lease& lease, const Tenant& tenant, const RunPointer& run, const std::string& step, Instant now,
                  const std::stop_token& stop) {
    if (!run) return skipped("it is gone");
    // What a task's run asks, the task asks; pawl's own runs ask nobody here.
    const bool is_own = is_reserved_name(run->workflow->name.text) || run->trigger_type == task_trigger;
    if (!step.empty() && is_own) return skipped("its task asks");
    auto message = step.empty() ? task_notice(*run) : question_notice(*run, StepId{step});
    if (!message) return skipped("it does not wait for anybody any more");
    const std::string mark = lease.run.str();
    (*message)["metadata"] = object{{"event_type", "pawl_notice"}, {"event_payload", object{{"approval_id", mark}}}};
    return post(lease, tenant, mark, std::move(*message), now, stop);
  }

  // `mark`: what its metadata say it is for; empty: nothing.
  ToolResult post(const Lease& lease, const Tenant& tenant, const std::string& mark, object card, Instant now,
                  const std::stop_token& stop) {
    // An attempt whose answer got lost may have posted it.
    if (lease.attempt > 1 && !mark.empty())
      if (auto known = find_posted(tenant, mark, now, stop)) return Completed{.output = print(*known), .cost = {}};
    if (!pace_.wait(tenant.slack->channel, stop)) return stopped();
    card["channel"] = tenant.slack->channel;
    auto said =
        call_slack(context_, {.tenant = tenant, .method = "chat.postMessage", .body = std::move(card)}, now, stop);
    if (!said) return said.error();
    Card posted{word(*said, "channel"), word(*said, "ts")};
    if (posted.ts.empty()) return failure("TOOL_INTERNAL_ERROR", "Slack did not say what the message is called");
    if (posted.channel.empty()) posted.channel = tenant.slack->channel;
    return Completed{.output = print(posted), .cost = {}};
  }

  // Where the bot may read the channel; where it may not, a second card does no harm: a decision is made once.
  std::optional<Card> find_posted(const Tenant& tenant, const std::string& approval, Instant now,
                                  const std::stop_token& stop) {
    auto said = call_slack(
        context_,
        {.tenant = tenant,
         .method = "conversations.history",
         .body = {{"channel", tenant.slack->channel}, {"include_all_metadata", true}, {"limit", messages_looked_at}}},
        now, stop);
    const Json* messages = said ? said->if_contains("messages") : nullptr;
    if (!messages || !messages->is_array()) return std::nullopt;
    for (const Json& each : messages->get_array()) {
      const object* message = each.if_object();
      const Json* metadata = message ? message->if_contains("metadata") : nullptr;
      const Json* payload =
          metadata && metadata->is_object() ? metadata->get_object().if_contains("event_payload") : nullptr;
      if (payload && payload->is_object() && word(payload->get_object(), "approval_id") == approval)
        return Card{tenant.slack->channel, word(*message, "ts")};
    }
    return std::nullopt;
  }

  std::expected<Card, ToolResult> place_of_card(TenantId tenant, const std::string& card_run) {
    RunPointer poster = look(tenant, card_run);
    if (!poster) return std::unexpected(ToolResult(invalid_arguments("there is no run that posted the card")));
    if (poster->status != RunStatus::success) {
      if (is_terminal(poster->status)) return std::unexpected(ToolResult(skipped("its card was never posted")));
      Failed out = patient_failure("TOOL_DEPENDENCY_DOWN", "the card is not posted yet");
      out.retry_after = card_patience;
      return std::unexpected(ToolResult(std::move(out)));
    }
    auto output = parse_json(poster->steps.front().output);
    const object* posted = output ? output->if_object() : nullptr;
    if (!posted || word(*posted, "ts").empty())
      return std::unexpected(ToolResult(skipped("its card was never posted")));
    return Card{word(*posted, "channel"), word(*posted, "ts")};
  }

  ToolResult update(const Tenant& tenant, const Card& place, object card, Instant now, const std::stop_token& stop) {
    if (!pace_.wait(place.channel, stop)) return stopped();
    object body{{"channel", place.channel}, {"ts", place.ts}, {"text", card["text"]}, {"blocks", card["blocks"]}};
    auto said = call_slack(context_, {.tenant = tenant, .method = "chat.update", .body = std::move(body)}, now, stop);
    if (!said) return said.error();
    return Completed{.output = print(place), .cost = {}};
  }

  const NotifyContext& context_;
  ChannelPace pace_;
  const ToolSpec spec_{.name = slack_tool,
                       .keys = {{.name = "run", .required = true, .kind = ToolKey::Kind::text},
                                {.name = "approval"},
                                {.name = "card"},
                                {.name = "notice"},
                                {.name = "step"}},
                       .writes = ToolSpec::Writes::never};
};

}  // namespace

std::unique_ptr<Tool> make_slack_tool(const NotifyContext& context) { return std::make_unique<SlackTool>(context); }

}  // namespace pawl::notify
