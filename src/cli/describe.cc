#include "cli/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <initializer_list>

#include "core/run_object.h"

namespace pawl {
namespace {

constexpr std::size_t indent = 2;
constexpr std::size_t id_columns_max = 28;
constexpr std::size_t tool_columns_max = 18;
constexpr std::size_t elapsed_columns = 7;
// Below these, columns are left out.
constexpr std::size_t columns_for_tool = 72;
constexpr std::size_t columns_for_tries = 52;

struct Mark {
  std::string_view unicode;
  std::string_view ascii;
  Ink ink;
};

constexpr std::array<std::string_view, 10> running_signs{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};

Mark sign_of(StepStatus status, std::size_t beat) {
  switch (status) {
    case StepStatus::pending:
      return {"·", ".", Ink::dim};
    case StepStatus::ready:
      return {"○", "o", Ink::dim};
    case StepStatus::running:
      return {running_signs[beat % running_signs.size()], ">", Ink::blue};
    case StepStatus::waiting_approval:
    case StepStatus::waiting_input:
      return {"?", "?", Ink::yellow};
    case StepStatus::waiting_event:
      return {"◷", "@", Ink::blue};
    case StepStatus::failed_retryable:
      return {"↻", "~", Ink::yellow};
    case StepStatus::succeeded:
      return {"✓", "+", Ink::green};
    case StepStatus::failed_terminal:
      return {"✗", "x", Ink::red};
    case StepStatus::canceled:
      return {"–", "-", Ink::dim};
  }
  return {"", "", Ink::plain};
}

const Approval* latest_approval(const Run& run, StepIndex step) {
  auto found = std::find_if(run.approvals.rbegin(), run.approvals.rend(),
                            [&](const Approval& approval) { return approval.step == step; });
  return found == run.approvals.rend() ? nullptr : &*found;
}

// Of the latest attempt, or of the wait for people; nothing when nothing has begun.
std::optional<Duration> elapsed_of(const Run& run, StepIndex index, Instant now) {
  const Step& step = run.steps[index];
  Instant begin = step.started_at;
  if (run.definition(index).is_gate()) {
    const Approval* approval = latest_approval(run, index);
    begin = approval ? approval->requested_at : Instant{};
  }
  if (begin.ms == 0 || step.status == StepStatus::failed_retryable || step.status == StepStatus::ready)
    return std::nullopt;
  Instant end = step.finished_at.ms != 0 ? step.finished_at : now;
  return std::max(end - begin, Duration(0));
}

void add_note(Line& line, const Run& run, StepIndex index, Instant now) {
  const Step& step = run.steps[index];
  switch (step.status) {
    case StepStatus::failed_retryable:
      line.add(Ink::yellow, "retry in " + print_elapsed(std::max(step.next_eligible_at - now, Duration(0))));
      line.add(Ink::dim, "  " + printable(step.last_error->message));
      return;
    case StepStatus::failed_terminal:
      line.add(Ink::red, printable(step.last_error->message));
      return;
    case StepStatus::waiting_approval:
      if (const Approval* approval = latest_approval(run, index)) line.add(Ink::dim, describe_terms(*approval, now));
      return;
    case StepStatus::waiting_input:
      line.add(Ink::dim, question_text(step.question));
      return;
    case StepStatus::waiting_event:
      line.add(Ink::dim, fmt::format("until {} (in {})", print_time(step.due_at),
                                     print_elapsed(std::max(step.due_at - now, Duration(0)))));
      return;
    case StepStatus::ready:
      if (is_untaken(run, index, now)) {
        line.add(Ink::yellow, describe_untaken(run, index));
        return;
      }
      [[fallthrough]];
    case StepStatus::running:
      if (step.last_error) line.add(Ink::dim, "after: " + printable(step.last_error->message));
      return;
    case StepStatus::pending:
    case StepStatus::succeeded:
    case StepStatus::canceled:
      return;
  }
}

}  // namespace

std::string print_elapsed(Duration span) {
  auto ms = std::max<std::int64_t>(span.count(), 0);
  auto seconds = ms / 1000;
  if (ms > 0 && ms < 100) return fmt::format("{}ms", ms);
  if (seconds < 60) return fmt::format("{}.{}s", seconds, ms % 1000 / 100);
  if (seconds < 3600) return fmt::format("{}m{:02}s", seconds / 60, seconds % 60);
  if (seconds < 86400) return fmt::format("{}h{:02}m", seconds / 3600, seconds / 60 % 60);
  return fmt::format("{}d{:02}h", seconds / 86400, seconds / 3600 % 24);
}

std::string print_usd(Money amount) { return "$" + print_money(amount); }

std::string print_cost(Money amount, bool is_known) {
  if (is_known) return amount.micros > 0 ? print_usd(amount) : "";
  return amount.micros > 0 ? print_usd(amount) + " and more" : "cost unknown";
}

bool is_untaken(const Run& run, StepIndex index, Instant now) {
  const Step& step = run.steps[index];
  if (step.status != StepStatus::ready) return false;
  Instant since = std::max(run.created_at, step.next_eligible_at);
  for (StepIndex need : run.definition(index).needs) since = std::max(since, run.steps[need].finished_at);
  if (const Approval* approval = latest_approval(run, index)) since = std::max(since, approval->resolved_at);
  return now - since >= untaken_after;
}

std::string describe_untaken(const Run& run, StepIndex index) {
  return fmt::format("no worker that offers {} has taken it yet", run.definition(index).tool.text);
}

StepLayout layout_of(const Run& run, std::size_t columns) {
  StepLayout out;
  for (StepIndex i = 0; i < run.steps.size(); ++i) {
    const StepDefinition& step = run.definition(i);
    out.id = std::max(out.id, std::min(step.id.text.size(), id_columns_max));
    out.tool = std::max(out.tool, std::min(step.tool.text.size(), tool_columns_max));
    out.tries = std::max(out.tries, fmt::formatted_size("{0}/{0}", step.retry.max_attempts));
  }
  for (const auto& row : step_projections)
    for (std::string_view word : row.words) out.state = std::max(out.state, word.size());
  out.cost = columns >= columns_for_tries;
  if (columns < columns_for_tool) out.tool = 0;
  if (columns < columns_for_tries) out.tries = 0;
  return out;
}

Line describe_step(const Run& run, StepIndex index, const StepLayout& layout, const Look& look, const StepLook& how) {
  const Step& step = run.steps[index];
  const StepDefinition& definition = run.definition(index);
  Mark sign = sign_of(step.status, how.beat);
  bool quiet = step.status == StepStatus::pending || step.status == StepStatus::canceled;
  Line line(Ink::plain, std::string(indent, ' '));
  line.add(sign.ink, look.unicode ? sign.unicode : sign.ascii).add(" ");
  std::size_t column = line.columns();
  line.add(quiet ? Ink::dim : Ink::plain, shorten(definition.id.text, layout.id, look));
  line.to_column(column += layout.id + 2);
  if (layout.tool > 0) {
    line.add(Ink::dim, shorten(definition.tool.text, layout.tool, look));
    line.to_column(column += layout.tool + 2);
  }
  line.add(sign.ink, step_word(how.vocabulary, step.status)).to_column(column += layout.state + 1);
  if (layout.tries > 0) {
    std::string tries = step.attempts > 0 ? fmt::format("{}/{}", step.attempts, definition.retry.max_attempts) : "";
    line.add_right(step.attempts > 1 ? Ink::yellow : Ink::dim, tries, layout.tries);
  }
  auto elapsed = elapsed_of(run, index, how.now);
  line.add_right(Ink::plain, elapsed ? print_elapsed(*elapsed) : "", elapsed_columns);
  if (std::string cost = print_cost(step.cost, cost_is_known(step)); layout.cost && !cost.empty())
    line.add("  ").add(Ink::cyan, cost);
  line.add("  ");
  add_note(line, run, index, how.now);
  return line;
}

Ink ink_of(RunStatus status) {
  switch (status) {
    case RunStatus::created:
      return Ink::dim;
    case RunStatus::running:
      return Ink::blue;
    case RunStatus::waiting:
      return Ink::yellow;
    case RunStatus::success:
      return Ink::green;
    case RunStatus::failed:
    case RunStatus::denied:
    case RunStatus::timeout:
      return Ink::red;
    case RunStatus::canceled:
      return Ink::yellow;
  }
  return Ink::plain;
}

std::string_view sign_of(RunStatus status, const Look& look) {
  switch (status) {
    case RunStatus::created:
      return look.unicode ? "○" : "o";
    case RunStatus::running:
      return look.unicode ? "●" : ">";
    case RunStatus::waiting:
      return "?";
    case RunStatus::success:
      return look.unicode ? "✓" : "+";
    case RunStatus::failed:
    case RunStatus::denied:
    case RunStatus::timeout:
      return look.unicode ? "✗" : "x";
    case RunStatus::canceled:
      return look.unicode ? "–" : "-";
  }
  return "";
}

Line describe_end(const Run& run, const Look& look, Vocabulary vocabulary) {
  Line line(Ink::plain, std::string(indent, ' '));
  line.add(ink_of(run.status), sign_of(run.status, look)).add(" ");
  line.add(ink_of(run.status), run_word(vocabulary, run));
  if (run.started_at.ms != 0 && run.finished_at.ms != 0)
    line.add(fmt::format(" in {}", print_elapsed(run.finished_at - run.started_at)));
  if (std::string cost = print_cost(run.cost, cost_is_known(run)); !cost.empty()) {
    line.add(", ").add(Ink::cyan, cost);
    if (run.budget) line.add(Ink::dim, " of " + print_usd(*run.budget));
  }
  return line;
}

std::vector<std::string> wrap(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    auto end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!lines.back().empty() && columns_of(lines.back()) + 1 + columns_of(word) > columns) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    // A word that is longer than a line is broken where the line ends.
    for (auto head = fitting(word, columns); head.size() < word.size(); head = fitting(word, columns)) {
      lines.back() += head;
      lines.emplace_back();
      word.remove_prefix(head.size());
    }
    lines.back() += word;
  }
  return lines;
}

std::vector<std::string> wrap_lines(std::string_view text, std::size_t columns) {
  std::vector<std::string> out;
  while (text.ends_with('\n')) text.remove_suffix(1);
  for (std::size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    const std::string line = printable(text.substr(at, end - at));
    const auto spaces = std::min(line.find_first_not_of(' '), line.size());
    const std::string margin(std::min(spaces, columns / 2), ' ');
    for (const std::string& words : wrap(line.substr(spaces), columns - margin.size())) out.push_back(margin + words);
    at = end + 1;
  }
  return out;
}

std::vector<Line> describe_diagnostic(const Diagnostic& diagnostic, std::size_t columns) {
  constexpr std::size_t label_columns = 10;
  std::vector<Line> out;
  auto put = [&](std::string_view label, const std::string& text, Ink ink) {
    if (text.empty()) return;
    std::size_t start = indent + label_columns;
    auto lines = wrap_lines(text, std::max<std::size_t>(columns, start + 20) - start);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      Line line(Ink::plain, std::string(indent, ' '));
      line.add(Ink::dim, i == 0 ? label : "").to_column(start).add(ink, lines[i]);
      out.push_back(std::move(line));
    }
  };
  put("what", diagnostic.message, Ink::plain);
  put("code",
      fmt::format("{} ({}, {})", diagnostic.error_code, to_string(diagnostic.category), to_string(diagnostic.severity)),
      Ink::red);
  put("cause", diagnostic.likely_cause, Ink::plain);
  put("fix", diagnostic.suggested_fix, Ink::plain);
  put("retryable", diagnostic.retryable ? "yes" : "no", Ink::plain);
  return out;
}

std::string denial_text(const Json& denial) {
  const Json& input = denial.at("input");
  const std::string tool = denial.at("tool").is_string() ? std::string(denial.at("tool").get_string()) : "";
  return printable(input.is_null() ? tool : tool + " " + boost::json::serialize(input));
}

Json result_of(const Run& run) {
  if (run.foreign) {
    auto value = parse_json(run.foreign->output);
    return value ? std::move(*value) : Json(nullptr);
  }
  std::vector<bool> needed(run.steps.size());
  for (StepIndex i = 0; i < run.steps.size(); ++i)
    for (StepIndex need : run.definition(i).needs) needed[need] = true;
  boost::json::object outputs;
  for (StepIndex i = 0; i < run.steps.size(); ++i) {
    if (needed[i] || run.steps[i].output.empty()) continue;
    auto value = parse_json(run.steps[i].output);
    outputs[run.definition(i).id.text] = value ? std::move(*value) : Json(run.steps[i].output);
  }
  if (outputs.size() == 1) return std::move(outputs.begin()->value());
  return outputs;
}

namespace {

class Pretty {
 public:
  explicit Pretty(std::vector<std::string>& lines) : lines_(lines) {}

  void write(const Json& value, std::size_t depth, std::string begin, std::string_view end) {
    const auto* object = value.if_object();
    const auto* array = value.if_array();
    std::string short_form = boost::json::serialize(value);
    bool is_nested = (object && !object->empty()) || (array && !array->empty());
    if (!is_nested || short_form.size() + begin.size() + depth * 2 <= 60) {
      lines_.push_back(begin.append(short_form).append(end));
      return;
    }
    lines_.push_back(begin + (object ? "{" : "["));
    std::string inner((depth + 1) * 2, ' ');
    std::size_t left = object ? object->size() : array->size();
    if (object)
      for (const auto& entry : *object)
        write(entry.value(), depth + 1, inner + boost::json::serialize(entry.key()) + ": ", --left ? "," : "");
    else
      for (const Json& item : *array) write(item, depth + 1, inner, --left ? "," : "");
    lines_.push_back(std::string(depth * 2, ' ') + (object ? "}" : "]") + std::string(end));
  }

 private:
  std::vector<std::string>& lines_;
};

}  // namespace

std::vector<Line> describe_json(const Json& value, std::size_t lines_max, std::size_t columns, const Look& look) {
  std::vector<std::string> lines;
  Pretty(lines).write(value, 0, "", "");
  std::vector<Line> out;
  for (std::size_t i = 0; i < lines.size() && i < lines_max; ++i)
    out.push_back(Line(
        Ink::plain,
        std::string(indent, ' ') + shorten(printable(lines[i]), std::max<std::size_t>(columns, 20) - indent, look)));
  if (lines.size() > lines_max)
    out.push_back(Line(Ink::dim, fmt::format("  ({} more lines: pawl show --json)", lines.size() - lines_max)));
  return out;
}

std::string describe_terms(const Approval& approval, Instant now) {
  std::string out = fmt::format("tier {}", to_string(approval.terms.tier));
  if (approval.terms.two_person)
    out += ", two people other than the requesters";
  else if (approval.terms.quorum > 1)
    out += fmt::format(", {} people", approval.terms.quorum);
  if (!approval.votes.empty()) out += fmt::format(", {} of {} said yes", approval.votes.size(), approval.terms.quorum);
  if (approval.expires_at > now) out += fmt::format(", expires in {}", print_elapsed(approval.expires_at - now));
  return out;
}

std::vector<Line> with_note(Line title, std::string_view note, std::size_t columns) {
  constexpr std::size_t note_column = 4;
  std::vector<Line> out;
  if (title.columns() + 2 + columns_of(note) <= columns) {
    out.push_back(std::move(title.add("  ").add(Ink::dim, note)));
    return out;
  }
  out.push_back(std::move(title));
  for (const std::string& words : wrap(note, std::max(columns, note_column + 20) - note_column)) {
    Line line(Ink::plain, std::string(note_column, ' '));
    out.push_back(std::move(line.add(Ink::dim, words)));
  }
  return out;
}

std::string question_text(const Json& question) {
  const boost::json::object* parts = question.if_object();
  if (!parts) return printable(question.is_string() ? std::string(question.get_string()) : canonical(question));
  auto find = [&](std::initializer_list<const char*> names) -> const Json* {
    for (const char* name : names)
      if (const Json* value = parts->if_contains(name)) return value;
    return nullptr;
  };
  const Json* words = find({"text", "question"});
  if (!words || !words->is_string()) return printable(canonical(question));
  std::string out(words->get_string());
  const Json* choices = find({"options", "choices"});
  if (choices && choices->is_array() && !choices->get_array().empty()) {
    std::string list;
    for (const Json& choice : choices->get_array())
      (list += list.empty() ? "" : " / ") += choice.is_string() ? std::string(choice.get_string()) : canonical(choice);
    out += " (" + list + ")";
  }
  return printable(out);
}

std::string answer_command(const Run& run, StepIndex step) {
  if (const auto& doubt = run.steps[step].doubt) return fmt::format("receipts {} --happened yes|no", doubt->str());
  return fmt::format("answer {} --step {} ANSWER", run.id.str(), run.definition(step).id.text);
}

std::string question_text(const JsonText& question) {
  auto value = parse_json(question);
  return value ? question_text(*value) : printable(question);
}

}  // namespace pawl
