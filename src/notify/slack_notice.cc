#include "notify/slack_notice.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <set>

#include "notify/slack_card.h"

namespace pawl::notify {
namespace {

using boost::json::array;
using boost::json::object;

constexpr std::size_t title_chars_max = 150;
constexpr std::size_t text_chars_max = 2900;
constexpr std::size_t result_bytes_max = 1500;  // its beginning: the command shows all of it

std::string shortened(std::string text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  std::size_t end = bytes_max - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

// The words of a question, and what there is to choose from.
std::string words_of(const JsonText& question) {
  auto value = parse_json(question);
  if (!value) return question;
  if (value->is_string()) return std::string(value->get_string());
  const object* parts = value->if_object();
  const Json* words = parts ? parts->if_contains("question") : nullptr;
  if (parts && !words) words = parts->if_contains("text");
  if (!words || !words->is_string()) return canonical(*value);
  std::string out(words->get_string());
  for (const char* key : {"options", "choices"})
    if (const Json* choices = parts->if_contains(key); choices && choices->is_array())
      for (const Json& choice : choices->get_array())
        out += "\n- " + (choice.is_string() ? std::string(choice.get_string()) : canonical(choice));
  return out;
}

const Json* member(const object& in, std::string_view key) {
  const Json* value = in.if_contains(key);
  return value && !value->is_null() ? value : nullptr;
}

// What an agent said, or what a step returned; the message has room for its beginning.
std::string words_of_result(const object& result) {
  const Json* words = member(result, "text");
  if (words && words->is_string()) return std::string(words->get_string());
  const Json* output = member(result, "output");
  return output ? canonical(*output) : "";
}

// The tools whose calls were not permitted, each once.
std::string denied_tools_of(const object& result) {
  std::string out;
  std::set<std::string_view> named;
  const Json* denials = member(result, "permission_denials");
  if (!denials || !denials->is_array()) return out;
  for (const Json& each : denials->get_array()) {
    const object* denial = each.if_object();
    const Json* tool = denial ? member(*denial, "tool") : nullptr;
    if (tool && tool->is_string() && named.insert(tool->get_string()).second)
      (out += out.empty() ? "" : ", ") += std::string_view(tool->get_string());
  }
  return out;
}

struct Notice {
  std::string title;
  std::string facts;    // mrkdwn, escaped
  std::string text;     // as it is: nothing in it has a meaning
  std::string command;  // what to do
};

object message_of(const Notice& notice) {
  const std::string title = shortened(notice.title, title_chars_max);
  array blocks{object{{"type", "header"}, {"text", object{{"type", "plain_text"}, {"text", title}, {"emoji", false}}}},
               object{{"type", "section"}, {"text", object{{"type", "mrkdwn"}, {"text", notice.facts}}}}};
  if (!notice.text.empty()) {
    object text{{"type", "text"}, {"text", shortened(notice.text, text_chars_max)}};
    blocks.push_back(
        object{{"type", "rich_text"},
               {"elements", array{object{{"type", "rich_text_quote"}, {"elements", array{std::move(text)}}}}}});
  }
  blocks.push_back(object{{"type", "section"},
                          {"text", object{{"type", "mrkdwn"}, {"text", "*What to do*\n`" + notice.command + "`"}}}});
  return {{"text", escaped(title)}, {"blocks", std::move(blocks)}, {"unfurl_links", false}, {"unfurl_media", false}};
}

std::string mentions_of(const Tenant& tenant, const Approvers& approvers) {
  const std::string prefix = "slack:" + tenant.slack->team + ":";
  std::string out;
  for (const auto& [name, person] : tenant.people) {
    const bool is_named = std::ranges::any_of(approvers, [&, &name = name, &person = person](const std::string& each) {
      return each == name ||
             (each.starts_with(group_prefix) && person.groups.contains(each.substr(group_prefix.size())));
    });
    if (!is_named) continue;
    for (const std::string& account : person.accounts)
      if (account.starts_with(prefix)) out += "<@" + escaped(account.substr(prefix.size())) + "> ";
  }
  return out;
}

}  // namespace

std::optional<object> task_notice(const Run& run) {
  if (!run.task || run.task->deleted) return std::nullopt;
  const Task& task = *run.task;
  const std::string id = task_of_stream(run.id).str();
  const std::string facts =
      fmt::format("*Task*\n{}\n*State*\n{}\n`{}`", escaped(shortened(task.spec.title, 200)), to_string(task.state), id);
  if (task.state == TaskState::blocked && !task.question.empty())
    return message_of({.title = "Question: " + task.spec.title,
                       .facts = facts,
                       .text = words_of(task.question),
                       .command = "pawl task answer " + id + " TEXT"});
  if (task.state == TaskState::ready) {
    const Json value = task.latest() ? value_of(task.latest()->result) : Json(nullptr);
    const object* result = value.if_object();
    const std::string denied = result ? denied_tools_of(*result) : "";
    return message_of({.title = "Ready for review: " + task.spec.title,
                       .facts = facts + (denied.empty() ? "" : "\n*Not permitted*\n" + escaped(shortened(denied, 200))),
                       .text = result ? shortened(words_of_result(*result), result_bytes_max) : "",
                       .command = "pawl task show " + id + "`, then `pawl task accept " + id +
                                  "` or `pawl task reject " + id + " COMMENT"});
  }
  return std::nullopt;
}

std::optional<object> question_notice(const Run& run, const StepId& step) {
  const auto index = run.find_step(step);
  if (!index || *index >= run.steps.size() || run.steps[*index].status != StepStatus::waiting_input)
    return std::nullopt;
  const std::string& name = run.workflow->name.text;
  const auto& doubt = run.steps[*index].doubt;
  return message_of(
      {.title = "Question: " + name + ", step " + step.text,
       .facts = fmt::format("*Run*\n{} `{}`\n*State*\n{}", escaped(name), run.id.str(), to_string(run.status)),
       .text = words_of(run.steps[*index].question),
       .command = doubt ? "pawl receipts " + doubt->str() + " --happened yes|no"
                        : "pawl answer " + run.id.str() + " --step " + step.text + " ANSWER"});
}

object reminder_notice(const Tenant& tenant, const Approval& approval, bool escalates) {
  const Approvers to = escalates ? approval.terms.escalate_to : approvers_now(approval);
  std::string names;
  for (const std::string& name : to) (names += names.empty() ? "" : ", ") += escaped(name);
  std::string text = mentions_of(tenant, to);
  text += escalates ? "Nobody has decided this yet. " + names + " may decide it as well now."
                    : "This still waits for a decision" + (names.empty() ? "." : " by " + names + ".");
  text += " It expires " + fmt::format("<!date^{}^{{date_short_pretty}} {{time}}|{}>.", approval.expires_at.ms / 1000,
                                       print_time(approval.expires_at));
  text = shortened(std::move(text), text_chars_max);
  array blocks{object{{"type", "section"}, {"text", object{{"type", "mrkdwn"}, {"text", text}}}}};
  return {{"text", text}, {"blocks", std::move(blocks)}, {"unfurl_links", false}, {"unfurl_media", false}};
}

}  // namespace pawl::notify
