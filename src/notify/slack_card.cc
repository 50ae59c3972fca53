#include "notify/slack_card.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <vector>

#include "core/display_name.h"
#include "core/field_changes.h"
#include "core/invariant.h"

namespace pawl::notify {
namespace {

using boost::json::array;
using boost::json::object;

// Slack's limits are in characters; these are in bytes, which are never fewer.
constexpr std::size_t header_max = 150;
constexpr std::size_t field_max = 2000;
constexpr std::size_t section_max = 3000;
constexpr std::size_t target_bytes_max = 1900;  // a field, without its name
constexpr std::size_t fallback_max = 3000;
constexpr std::size_t button_value_max = 2000;
constexpr std::size_t metadata_max = 3000;
// Slack refuses a section with more.
constexpr std::size_t facts_max = 10;
// Of the table: what fits on a screen without being folded away.
constexpr std::size_t rows_max = 40;
constexpr std::size_t name_bytes_max = 200;
constexpr std::size_t value_bytes_max = 500;
// A longer one pushes its own row aside, and not all others.
constexpr std::size_t name_width_max = 40;
constexpr std::size_t value_width_max = 60;

// Cut between characters, with a word about it.
std::string cut(std::string text, std::size_t bytes_max) {
  constexpr std::string_view note = "... (cut)";
  if (text.size() <= bytes_max) return text;
  std::size_t end = bytes_max - note.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  text.resize(end);
  return text + std::string(note);
}

object plain(std::string_view text) { return {{"type", "plain_text"}, {"text", text}, {"emoji", false}}; }
object mrkdwn(std::string text) { return {{"type", "mrkdwn"}, {"text", std::move(text)}}; }

// As it is: nothing in it has a meaning.
object literal(std::string_view kind, std::string text) {
  return {{"type", "rich_text"},
          {"elements", array{object{{"type", kind}, {"elements", array{object{{"type", "text"}, {"text", text}}}}}}}};
}

// `is_whole` becomes false when something is cut.
std::string cut(std::string text, std::size_t bytes_max, bool& is_whole) {
  is_whole = is_whole && text.size() <= bytes_max;
  return cut(std::move(text), bytes_max);
}

struct Shown {
  std::string text;
  bool is_whole = true;
};

// Field, before, after; one line each.
Shown table_of(const Proposal& proposal) {
  const auto changes = field_changes(value_of(proposal.action.fields), value_of(proposal.before));
  bool is_whole = changes.size() <= rows_max;
  std::size_t name_width = 5, then_width = 6;
  std::vector<std::array<std::string, 3>> rows;
  for (const FieldChange& change : changes) {
    if (rows.size() == rows_max) break;
    rows.push_back({cut(change.path, name_bytes_max, is_whole),
                    change.before ? cut(canonical(*change.before), value_bytes_max, is_whole) : "(unknown)",
                    cut(canonical(change.after), value_bytes_max, is_whole)});
    name_width = std::max(name_width, std::min(rows.back()[0].size(), name_width_max));
    then_width = std::max(then_width, std::min(rows.back()[1].size(), value_width_max));
  }
  std::string out = fmt::format("{:<{}}  {:<{}}  {}", "field", name_width, "before", then_width, "after");
  for (const auto& row : rows)
    out += fmt::format("\n{:<{}}  {:<{}}  {}", row[0], name_width, row[1], then_width, row[2]);
  if (changes.size() > rows.size())
    out += fmt::format("\n({} more fields are not shown)", changes.size() - rows.size());
  out = cut(std::move(out), section_max, is_whole);
  return {std::move(out), is_whole};
}

std::string slack_time(Instant at) {
  return fmt::format("<!date^{}^{{date_short_pretty}} {{time}}|{}>", at.ms / 1000, print_time(at));
}

std::string title_of(const CardSubject& subject) {
  const Approval& approval = subject.approval;
  std::string what = approval.proposal ? approval.proposal->action.connector + "." + approval.proposal->action.operation
                                       : subject.run.definition(approval.step).id.text;
  switch (approval.status) {
    case ApprovalStatus::requested:
      return "Approval needed: " + what;
    case ApprovalStatus::approved:
      return "Approved: " + what;
    case ApprovalStatus::rejected:
      return "Rejected: " + what;
    case ApprovalStatus::expired:
      return "Expired: " + what;
    case ApprovalStatus::canceled:
      return "Canceled: " + what;
  }
  return what;
}

std::string policy_of(const Approval& approval) {
  if (!approval.proposal) return "a gate of the workflow";
  std::string out = approval.policy_reason.rule.empty() ? "no rule" : "rule " + escaped(approval.policy_reason.rule);
  out += fmt::format(", version {}", approval.policy_reason.policy_version);
  if (!approval.policy_reason.reason.empty()) out += "\n" + escaped(approval.policy_reason.reason);
  return out;
}

std::string name_of(const Actor& actor) { return escaped(display_name(actor)); }

std::string voters_of(const Approval& approval) {
  std::string out;
  for (const Vote& vote : approval.votes) (out += out.empty() ? "" : ", ") += name_of(vote.by);
  return out;
}

std::string needed_of(const Approval& approval) {
  std::string out = fmt::format("{} of {}", approval.votes.size(), approval.terms.quorum);
  if (approval.terms.two_person) out += ", not by the requester";
  if (!approval.votes.empty()) out += "\napproved by " + voters_of(approval);
  return out;
}

std::string names_of(const Approvers& approvers) {
  std::string out;
  for (const std::string& name : approvers) (out += out.empty() ? "" : ", ") += escaped(name);
  return out;
}

array facts_of(const CardSubject& subject) {
  const Approval& approval = subject.approval;
  const Action* action = approval.proposal ? &approval.proposal->action : nullptr;
  std::vector<std::pair<std::string_view, std::string>> facts{{"Workflow", escaped(subject.run.workflow->name.text)},
                                                              {"Run", "`" + subject.run.id.str() + "`"}};
  // The tier is the rule's or the gate's word for who must decide; the risk is the action's own.
  if (action) facts.emplace_back("Risk", to_string(action->risk));
  if (!action || action->risk != approval.terms.tier) facts.emplace_back("Tier", to_string(approval.terms.tier));
  facts.emplace_back("Policy", policy_of(approval));
  facts.emplace_back("Requested by", names_of(subject.requesters));
  facts.emplace_back(approval.status == ApprovalStatus::requested ? "Expires" : "Would have expired",
                     slack_time(approval.expires_at));
  if (action) facts.emplace_back("Target", escaped(action->target));
  if (approval.terms.quorum > 1) facts.emplace_back("Approvals", needed_of(approval));
  if (const Approvers may = approvers_now(approval); !may.empty()) facts.emplace_back("May decide", names_of(may));
  invariant(facts.size() <= facts_max, "a card has more facts than Slack takes");
  array out;
  for (auto& [name, text] : facts) out.push_back(mrkdwn(cut(fmt::format("*{}*\n{}", name, text), field_max)));
  return out;
}

object button(std::string_view action, std::string_view text, std::string_view style, const std::string& value) {
  return {{"type", "button"}, {"action_id", action}, {"style", style}, {"text", plain(text)}, {"value", value}};
}

std::string approve_command(const CardSubject& subject) {
  return "pawl approve " + subject.run.id.str() + " --approval " + subject.approval.id.str();
}

// Nobody approves with a click what the card does not show.
object buttons_of(const CardSubject& subject, bool is_whole) {
  std::string value = print_button({std::string(subject.tenant), subject.run.id, subject.approval.id});
  object approve = button(approve_action, "Approve", "primary", value);
  std::string warning = subject.approval.proposal
                            ? "This will write to " + escaped(subject.approval.proposal->action.connector) + "."
                            : "The run goes on.";
  approve["confirm"] = object{{"title", plain("Approve?")},
                              {"text", mrkdwn(cut(warning, 300))},
                              {"confirm", plain("Approve")},
                              {"deny", plain("Back")}};
  array buttons;
  if (is_whole) buttons.push_back(std::move(approve));
  buttons.push_back(button(reject_action, "Reject...", "danger", value));
  return {{"type", "actions"}, {"block_id", "approval:" + subject.approval.id.str()}, {"elements", std::move(buttons)}};
}

// The prompt, or nothing.
std::string summary_of(const CardSubject& subject) {
  auto prompt = render_prompt(subject.run, subject.approval);
  return prompt ? *prompt : "";
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

std::string outcome_line(const Approval& approval) {
  const std::string who = name_of(approval.resolved_by);
  switch (approval.status) {
    case ApprovalStatus::requested:
      return fmt::format("{} of {} have approved{}{}", approval.votes.size(), approval.terms.quorum,
                         approval.votes.empty() ? "" : ": ", voters_of(approval));
    case ApprovalStatus::approved: {
      std::string all;
      for (const Vote& vote : approval.votes)
        if (vote.by != approval.resolved_by) all += name_of(vote.by) + ", ";
      return "approved by " + all + who;
    }
    case ApprovalStatus::rejected:
      return "rejected by " + who + (approval.reason.empty() ? "" : ": " + escaped(approval.reason));
    case ApprovalStatus::expired:
      return "expired: nobody decided in time";
    case ApprovalStatus::canceled:
      return "canceled: the run needs it no more";
  }
  return "";
}

std::string print_button(const CardButton& button) {
  return canonical(
      object{{"v", 1}, {"tenant", button.tenant}, {"run", button.run.str()}, {"approval", button.approval.str()}});
}

std::optional<CardButton> read_button(std::string_view text) {
  if (text.size() > button_value_max) return std::nullopt;
  auto value = parse_json(text);
  const object* map = value ? value->if_object() : nullptr;
  auto word = [&](std::string_view key) -> std::string {
    const Json* found = map ? map->if_contains(key) : nullptr;
    return found && found->is_string() ? std::string(found->get_string()) : "";
  };
  auto run = RunId::parse(word("run"));
  auto approval = ApprovalId::parse(word("approval"));
  if (!run || !approval) return std::nullopt;
  return CardButton{word("tenant"), *run, *approval};
}

object card_of(const CardSubject& subject) {
  const Approval& approval = subject.approval;
  bool is_open = approval.status == ApprovalStatus::requested;
  std::string title = title_of(subject);
  std::string summary = summary_of(subject);
  bool is_whole = true;
  array blocks{object{{"type", "header"}, {"text", plain(cut(title, header_max, is_whole))}}};
  if (!is_open)
    blocks.push_back(
        object{{"type", "section"}, {"text", mrkdwn(cut("*Outcome*\n" + outcome_line(approval), section_max))}});
  if (!summary.empty()) blocks.push_back(literal("rich_text_quote", cut(summary, section_max, is_whole)));
  blocks.push_back(object{{"type", "section"}, {"fields", facts_of(subject)}});
  if (approval.proposal) {
    Shown table = table_of(*approval.proposal);
    is_whole = is_whole && table.is_whole && escaped(approval.proposal->action.target).size() <= target_bytes_max;
    blocks.push_back(object{{"type", "section"}, {"text", mrkdwn("*Proposed writes*")}});
    blocks.push_back(literal("rich_text_preformatted", std::move(table.text)));
  }
  blocks.push_back(object{
      {"type", "context"},
      {"elements",
       array{mrkdwn("The quoted text and the values come from the workflow and from what its steps produced, models "
                    "included; pawl has not checked them. Approval `" +
                    approval.id.str() + "`. All of it: `pawl show " + subject.run.id.str() + "`")}}});
  if (is_open && !is_whole)
    blocks.push_back(object{{"type", "section"},
                            {"text", mrkdwn("Too long to show here in full: `" + approve_command(subject) + "`")}});
  if (is_open) blocks.push_back(buttons_of(subject, is_whole));
  std::string fallback = escaped(title) + " (" + escaped(subject.run.workflow->name.text) + ")";
  if (!is_open)
    fallback += ": " + outcome_line(approval);
  else if (!summary.empty())
    fallback += ": " + escaped(summary);
  return {{"text", cut(std::move(fallback), fallback_max)},
          {"blocks", std::move(blocks)},
          {"unfurl_links", false},
          {"unfurl_media", false},
          {"metadata",
           object{{"event_type", "pawl_approval"}, {"event_payload", object{{"approval_id", approval.id.str()}}}}}};
}

object reject_modal(const CardButton& button) {
  object input{
      {"type", "plain_text_input"}, {"action_id", reason_input}, {"multiline", true}, {"max_length", reason_chars_max}};
  return {
      {"type", "modal"},
      {"callback_id", reject_view},
      {"private_metadata", cut(print_button(button), metadata_max)},
      {"title", plain("Reject request")},
      {"submit", plain("Reject")},
      {"close", plain("Cancel")},
      {"blocks",
       array{object{
           {"type", "input"}, {"block_id", reason_block}, {"label", plain("Reason")}, {"element", std::move(input)}}}}};
}

}  // namespace pawl::notify
