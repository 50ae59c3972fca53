// An approval in words, for those who decide it.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>

#include "cli/card.h"
#include "cli/describe.h"
#include "core/display_name.h"
#include "core/field_changes.h"
#include "core/run_object.h"
#include "core/time.h"
#include "engine/clock.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

std::string name_of(std::string actor) { return person_name(Actor{std::move(actor)}); }

std::string word_of(const object& in, std::string_view key) {
  const Json* value = in.if_contains(key);
  return value && value->is_string() ? printable(value->get_string()) : "";
}

void add_action(Card& card, const object& listed, const object& action) {
  std::string target = word_of(action, "target");
  card.fact("action", fmt::format("{} {} {}", word_of(action, "connector"), word_of(action, "operation"), target));
  const Json* fields = action.if_contains("fields");
  const Json* before = listed.if_contains("before");
  std::string_view label = "writes";
  for (const FieldChange& change : field_changes(fields ? *fields : Json(), before ? *before : Json())) {
    std::string value = printable(canonical(change.after));
    const std::string name = change.path.empty() ? "(all)" : printable(change.path);
    if (!change.before)
      card.fact(label, fmt::format("{} = {}", name, value));
    else if (*change.before == change.after)
      card.fact(label, fmt::format("{} = {} (as it is)", name, value));
    else
      card.fact(label, fmt::format("{}: {} -> {}", name, printable(canonical(*change.before)), value));
    label = "";
  }
  const Json* sandboxed = listed.if_contains("sandboxed");
  if (sandboxed && sandboxed->is_bool() && !sandboxed->get_bool())
    card.fact("sandbox", "none: it runs as the user of the server");
  std::string rule = word_of(listed, "rule"), reason = word_of(listed, "rationale");
  const Json* version = listed.if_contains("policy_version");
  card.fact("risk", word_of(action, "risk"));
  card.fact("rule", fmt::format("{} of policy {}{}", rule.empty() ? "none" : rule,
                                version ? canonical(*version) : std::string("0"), reason.empty() ? "" : ": " + reason));
}

// "2 people, neither of them the requester (1 so far)"
std::string needed_in(const object& listed) {
  const Json* quorum = listed.if_contains("quorum");
  const Json* two_person = listed.if_contains("two_person");
  const Json* votes = listed.if_contains("votes");
  const bool is_two_person = two_person && two_person->is_bool() && two_person->get_bool();
  const std::int64_t people = quorum && quorum->is_int64() ? quorum->get_int64() : 1;
  const std::size_t so_far = votes && votes->is_array() ? votes->get_array().size() : 0;
  std::string out = people == 1 ? "1 person" : fmt::format("{} people", people);
  if (is_two_person) out += people == 2 ? ", neither of them the requester" : ", none of them the requester";
  return out + (people > 1 ? fmt::format(" ({} so far)", so_far) : "");
}

std::string names_in(const object& listed, std::string_view key) {
  std::string out;
  if (const Json* names = listed.if_contains(key); names && names->is_array())
    for (const Json& name : names->get_array())
      if (name.is_string()) (out += out.empty() ? "" : ", ") += printable(name.get_string());
  return out;
}

std::string votes_in(const object& listed) {
  std::string out;
  const Json* votes = listed.if_contains("votes");
  if (!votes || !votes->is_array()) return out;
  for (const Json& vote : votes->get_array()) {
    if (!vote.is_object()) continue;
    std::string as = word_of(vote.get_object(), "as");
    (out += out.empty() ? "" : ", ") += name_of(word_of(vote.get_object(), "by"));
    if (as.starts_with(group_prefix)) out += " as " + as;
  }
  return out;
}

}  // namespace

std::string person_name(const Actor& actor) { return printable(display_name(actor)); }

std::string describe_vote(const Vote& vote) {
  return person_name(vote.by) + (vote.as.starts_with(group_prefix) ? " as " + printable(vote.as) : "");
}

std::string prompt_of(const Run& run, const Approval& approval) {
  if (approval.proposal) {
    const Action& action = approval.proposal->action;
    return printable(fmt::format("{} {} {}", action.connector, action.operation, action.target));
  }
  auto rendered = render_prompt(run, approval);
  return printable(rendered ? *rendered : approval.terms.prompt);
}

std::string requester_names(const Json& requesters) {
  std::string out;
  for (const Json& each : requesters.as_array()) {
    const object& who = each.as_object();
    std::string name = word_of(who, "text");
    // The id of a key tells nobody anything.
    if (Actor actor{word_of(who, "actor")}; name.empty() && !key_of(actor)) name = person_name(actor);
    if (!name.empty()) (out += out.empty() ? "" : ", ") += printable(name);
  }
  return out;
}

std::vector<Line> describe_approval(const Run& run, const Approval& approval, std::size_t columns, const Look& look,
                                    const array& requesters) {
  object listed = approval_object(run, approval);
  if (!requesters.empty()) listed["requesters"] = requesters;
  return describe_approval(listed, columns, look);
}

std::vector<Line> describe_approval(const Json& listed, std::size_t columns, const Look& look) {
  Card card(columns, look);
  const object& in = listed.as_object();
  const Json* action = in.if_contains("action");
  const bool is_action = action && action->is_object();
  if (std::string prompt = word_of(in, "prompt"); !prompt.empty() && !is_action) card.quote(prompt);
  if (is_action) add_action(card, in, action->get_object());
  if (const Json* requesters = in.if_contains("requesters"))
    if (std::string by = requester_names(*requesters); !by.empty()) card.fact("requested by", by);
  card.fact("needs", needed_in(in));
  if (std::string tier = word_of(in, "tier"); !tier.empty()) card.fact("tier", tier);
  if (std::string may = names_in(in, "approvers"); !may.empty()) card.fact("may decide", may);
  if (std::string all = votes_in(in); !all.empty()) card.fact("approved by", all);
  if (std::string until = word_of(in, "expires_at"); !until.empty()) card.fact("expires", until);
  if (std::string at = word_of(in, "escalate_at"); !at.empty())
    card.fact(parse_time(at).value_or(end_of_time) > SystemClock().now() ? "escalates" : "escalated",
              fmt::format("{} to {}", at, names_in(in, "escalate_to")));
  return std::move(card).take();
}

}  // namespace pawl
