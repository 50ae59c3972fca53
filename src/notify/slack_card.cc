#include "notify/slack_card.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <vector>

#include "core/field_changes.h"

namespace pawl::notify {
namespace {

using boost::json::array;
using boost::json::object;

// Slack's limits are in characters; these are in bytes, which are never fewer.
constexpr std::size_t header_max = 150;
constexpr std::size_t field_max = 2000;
constexpr std::size_t section_max = 3000;
constexpr std::size_t fallback_max = 3000;
constexpr std::size_t button_value_max = 2000;
constexpr std::size_t metadata_max = 3000;
// Of the table: what fits on a screen without being folded away.
constexpr std::size_t rows_max = 40;
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

std::string shown(const Json& value, std::size_t width) {
  std::string text = canonical(value);
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return cut(std::move(text), width);
}

// Field, before, after; one line each.
std::string table_of(const Proposal& proposal) {
  const auto changes = field_changes(value_of(proposal.action.fields), value_of(proposal.before));
  std::size_t name_width = 5, then_width = 6;
  std::vector<std::array<std::string, 3>> rows;
  for (const FieldChange& change : changes) {
    if (rows.size() == rows_max) break;
    rows.push_back({cut(change.path, name_width_max),
                    change.before ? shown(*change.before, value_width_max) : "(unknown)",
                    shown(change.after, value_width_max)});
    name_width = std::max(name_width, rows.back()[0].size());
    then_width = std::max(then_width, rows.back()[1].size());
  }
  std::string out = fmt::format("{:<{}}  {:<{}}  {}", "field", name_width, "before", then_width, "after");
  for (const auto& row : rows)
    out += fmt::format("\n{:<{}}  {:<{}}  {}", row[0], name_width, row[1], then_width, row[2]);
  if (changes.size() > rows.size())
    out += fmt::format("\n({} more fields are not shown)", changes.size() - rows.size());
  return cut(std::move(out), section_max);
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

std::string name_of(const Actor& actor) {
  std::string name = actor.text;
  if (name.starts_with("person:")) name.erase(0, 7);
  return escaped(name);
}

std::string needed_of(const Approval& approval) {
  std::string out = fmt::format("{} of {}", approval.votes.size(), approval.terms.quorum);
  if (approval.terms.two_person) out += ", not by the requester";
  for (std::size_t i = 0; i < approval.votes.size(); ++i)
    out += (i == 0 ? "\napproved by " : ", ") + name_of(approval.votes[i].by);
  return out;
}

std::string names_of(const Approvers& approvers) {
  std::string out;
  for (const std::string& name : approvers) (out += out.empty() ? "" : ", ") += escaped(name);
  return out;
}

array facts_of(const CardSubject& subject) {
  const Approval& approval = subject.approval;
  std::vector<std::pair<std::string_view, std::string>> facts{
      {"Workflow", escaped(subject.run.workflow->name.text)},
      {"Run", "`" + subject.run.id.str() + "`"},
      {"Risk tier", std::string(to_string(approval.terms.tier))},
      {"Policy", policy_of(approval)},
      {"Requested by", names_of(subject.requesters)},
      {approval.status == ApprovalStatus::requested ? "Expires" : "Would have expired",
       slack_time(approval.expires_at)}};
  if (approval.proposal) facts.emplace_back("Target", escaped(approval.proposal->action.target));
  if (approval.terms.quorum > 1) facts.emplace_back("Approvals", needed_of(approval));
  if (const Approvers may = approvers_now(approval); !may.empty()) facts.emplace_back("May decide", names_of(may));
  array out;
  for (auto& [name, text] : facts) out.push_back(mrkdwn(cut(fmt::format("*{}*\n{}", name, text), field_max)));
  return out;
}

object button(std::string_view action, std::string_view text, std::string_view style, const std::string& value) {
  return {{"type", "button"}, {"action_id", action}, {"style", style}, {"text", plain(text)}, {"value", value}};
}

object buttons_of(const CardSubject& subject) {
  std::string value = print_button({std::string(subject.tenant), subject.run.id, subject.approval.id});
  object approve = button(approve_action, "Approve", "primary", value);
  std::string warning = subject.approval.proposal
                            ? "This will write to " + escaped(subject.approval.proposal->action.connector) + "."
                            : "The run goes on.";
  approve["confirm"] = object{{"title", plain("Approve?")},
                              {"text", mrkdwn(cut(warning, 300))},
                              {"confirm", plain("Approve")},
                              {"deny", plain("Back")}};
  return {{"type", "actions"},
          {"block_id", "approval:" + subject.approval.id.str()},
          {"elements", array{std::move(approve), button(reject_action, "Reject...", "danger", value)}}};
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
      return fmt::format("open: {} approved so far", needed_of(approval));
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
  array blocks{object{{"type", "header"}, {"text", plain(cut(title, header_max))}}};
  if (!is_open)
    blocks.push_back(
        object{{"type", "section"}, {"text", mrkdwn(cut("*Outcome*\n" + outcome_line(approval), section_max))}});
  if (!summary.empty()) blocks.push_back(literal("rich_text_quote", cut(summary, section_max)));
  blocks.push_back(object{{"type", "section"}, {"fields", facts_of(subject)}});
  if (approval.proposal) {
    blocks.push_back(object{{"type", "section"}, {"text", mrkdwn("*Proposed writes*")}});
    blocks.push_back(literal("rich_text_preformatted", table_of(*approval.proposal)));
  }
  blocks.push_back(object{
      {"type", "context"},
      {"elements",
       array{mrkdwn("The quoted text and the values come from the workflow and from what its steps produced, models "
                    "included; pawl has not checked them. Approval `" +
                    approval.id.str() + "`")}}});
  if (is_open) blocks.push_back(buttons_of(subject));
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
