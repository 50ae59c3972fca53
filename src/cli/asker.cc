#include "cli/asker.h"

#include <fmt/format.h>

#include <algorithm>

namespace pawl {
namespace {

constexpr std::size_t typed_bytes_max = 4000;

void erase_last_character(std::string& text) {
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80) text.pop_back();
  if (!text.empty()) text.pop_back();
}

// What was typed is JSON when it is JSON, and plain text otherwise.
JsonText as_json(const std::string& typed) {
  if (auto value = parse_json(typed)) return canonical(*value);
  return canonical(Json(typed));
}

}  // namespace

void Asker::begin(Matter matter) {
  stage_ = matter.approval.is_nil() ? Stage::answer : Stage::choice;
  matter_ = std::move(matter);
  typed_.clear();
}

bool Asker::is_open(const Run& run) const {
  if (matter_->approval.is_nil()) {
    auto index = run.find_step(matter_->step);
    return index && run.steps[*index].status == StepStatus::waiting_input &&
           run.steps[*index].lease_token == matter_->token;
  }
  return std::ranges::any_of(run.approvals, [&](const Approval& approval) {
    return approval.id == matter_->approval && approval.status == ApprovalStatus::requested;
  });
}

bool Asker::take_up(const Run& run) {
  if (matter_ && matter_->run == run.id && !is_open(run)) matter_.reset();
  if (matter_) return matter_->run == run.id;
  auto take = [&](Matter matter) {
    if (left_.contains(matter)) return false;
    begin(std::move(matter));
    return true;
  };
  for (const Approval& approval : run.approvals)
    if (approval.status == ApprovalStatus::requested &&
        take({run.id, approval.id, run.definition(approval.step).id, 0}))
      return true;
  for (StepIndex i = 0; i < run.steps.size(); ++i)
    if (run.steps[i].status == StepStatus::waiting_input &&
        take({run.id, {}, run.definition(i).id, run.steps[i].lease_token}))
      return true;
  return false;
}

Prompt Asker::prompt(const Run& run, Instant now, const Look& look, std::size_t columns) const {
  Prompt out;
  Line title(Ink::plain, "  ");
  title.add(Ink::yellow, look.unicode ? "▌" : "?").add(" ").add(Ink::bold, matter_->step.text);
  auto approval = std::ranges::find(run.approvals, matter_->approval, &Approval::id);
  if (approval != run.approvals.end()) {
    out.subject = fmt::format("{} {}", approval->id.str(), approval->votes.size());
    out.lines = with_note(title.add(" asks for approval"), describe_terms(*approval, now), columns);
    for (const Line& each : describe_approval(run, *approval, columns, look)) out.lines.push_back(each);
  } else {
    auto index = run.find_step(matter_->step);
    out.subject = fmt::format("{} {} {}", run.id.str(), matter_->step.text, matter_->token);
    const std::string question = question_text(run.steps[*index].question);
    title.add(" asks:");
    if (title.columns() + 1 + columns_of(question) <= columns) {
      out.lines.push_back(std::move(title.add(" ").add(question)));
    } else {
      out.lines.push_back(std::move(title));
      for (const std::string& words : wrap(question, columns > 24 ? columns - 4 : 20))
        out.lines.push_back(Line(Ink::plain, "    " + words));
    }
  }
  out.input.add("  ");
  switch (stage_) {
    case Stage::choice:
      out.input.add("approve?  ").add(Ink::bold, "[y]").add("es  ").add(Ink::bold, "[n]").add("o  ");
      out.input.add(Ink::bold, "[q]").add(" later:");
      break;
    case Stage::reason:
      out.input.add("reason (Enter for none): ");
      break;
    case Stage::answer:
      out.input.add("answer (empty = leave it waiting): ");
      break;
  }
  if (!whole_lines_) out.input.add(printable(typed_));
  return out;
}

std::optional<PersonsReply> Asker::choose(char choice) {
  switch (choice) {
    case 'y':
    case 'Y':
      return Decided{matter_->run, matter_->approval, true, {}};
    case 'n':
    case 'N':
      stage_ = Stage::reason;
      typed_.clear();
      return std::nullopt;
    case 'q':
    case 'Q':
    case '\x04':
      return leave();
    default:
      return std::nullopt;
  }
}

std::optional<PersonsReply> Asker::finish() {
  std::string typed = std::exchange(typed_, {});
  switch (stage_) {
    case Stage::choice:
      return typed.empty() ? std::nullopt : choose(typed[0]);
    case Stage::reason:
      return Decided{matter_->run, matter_->approval, false, printable(typed)};
    case Stage::answer:
      if (typed.empty()) return leave();
      return Answered{matter_->run, matter_->step, as_json(typed)};
  }
  return std::nullopt;
}

Left Asker::leave() {
  left_.insert(*matter_);
  matter_.reset();
  return {};
}

std::optional<PersonsReply> Asker::key(std::string_view character) {
  char first = character[0];
  if (first == '\r' || first == '\n') return finish();
  if (stage_ == Stage::choice && !whole_lines_) return choose(first);
  if (first == '\x04') return typed_.empty() ? std::optional<PersonsReply>(leave()) : std::nullopt;
  if (first == '\x7f' || first == '\b')
    erase_last_character(typed_);
  else if (first == '\x15')  // Ctrl-U
    typed_.clear();
  else if (static_cast<unsigned char>(first) >= 0x20 && typed_.size() + character.size() <= typed_bytes_max)
    typed_ += character;
  return std::nullopt;
}

}  // namespace pawl
