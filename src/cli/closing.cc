#include <fmt/format.h>

#include <array>

#include "cli/view.h"

namespace pawl {
namespace {

constexpr std::size_t result_lines_max = 24;

Line labelled(std::string_view label, std::string_view text) {
  Line line(Ink::plain, "  ");
  line.add(Ink::dim, label).to_column(12).add(text);
  return line;
}

Line where(const Location& location) {
  return location.server.empty() ? labelled("journal", journal_in(location.folder).string())
                                 : labelled("server", location.server);
}

void add_waiting(std::vector<Line>& out, const Run& run, const Ending& ending, Instant now) {
  for (const Approval& approval : run.approvals) {
    if (approval.status != ApprovalStatus::requested) continue;
    out.push_back(labelled("waits for", fmt::format("approval of {} ({})", run.definition(approval.step).id.text,
                                                    describe_terms(approval, now))));
    if (auto prompt = prompt_of(run, approval); !prompt.empty()) out.push_back(labelled("", prompt));
    out.push_back(labelled("decide", command_line("approve", run.id, ending.location)));
    out.push_back(labelled("", command_line("reject", run.id, ending.location)));
  }
  for (StepIndex i = 0; i < run.steps.size(); ++i)
    if (run.steps[i].status == StepStatus::waiting_input) {
      out.push_back(labelled("waits for", fmt::format("an answer to {}: {}", run.definition(i).id.text,
                                                      question_text(run.steps[i].question))));
      if (const auto& doubt = run.steps[i].doubt)
        out.push_back(
            labelled("resolve it", command_line("receipts", doubt->str(), ending.location) + " --happened yes|no"));
    }
}

}  // namespace

std::vector<Line> closing_lines(const Run& run, const Ending& ending, std::size_t columns, const Look& look,
                                Instant now) {
  std::vector<Line> out;
  bool ended = is_terminal(run.status);
  if (ended) {
    out.push_back(describe_end(run, look));
    out.emplace_back();
    if (run.diagnostic) {
      for (Line& line : describe_diagnostic(*run.diagnostic, columns)) out.push_back(std::move(line));
      out.emplace_back();
    } else if (run.status == RunStatus::success) {
      for (Line& line : describe_json(result_of(run), result_lines_max, columns, look)) out.push_back(std::move(line));
      out.emplace_back();
    }
  } else if (ending.outcome == Outcome::interrupted) {
    bool goes_on = ending.location.is_served;
    Line line(Ink::plain, "  ");
    line.add(Ink::yellow, "interrupted")
        .add(goes_on ? "; the server goes on with it. Follow it again with: " : "; go on with: ")
        .add(Ink::bold, command_line("resume", run.id, ending.location));
    out.push_back(std::move(line));
    if (goes_on) out.push_back(labelled("end it", command_line("cancel", run.id, ending.location)));
  } else {
    add_waiting(out, run, ending, now);
    out.push_back(
        labelled(ending.location.is_served ? "follow" : "go on", command_line("resume", run.id, ending.location)));
  }
  out.push_back(where(ending.location));
  out.push_back(labelled("look", command_line("show", run.id, ending.location)));
  return out;
}

std::vector<Line> closing_lines(const Ending& ending, const Look& look) {
  std::array<std::size_t, enum_count<RunStatus>> counts{};
  for (const Run* run : ending.runs) ++counts[static_cast<std::size_t>(run->status)];
  Line line(Ink::plain, fmt::format("  {} runs:", ending.runs.size()));
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    auto status = static_cast<RunStatus>(i);
    line.add("  ").add(ink_of(status), fmt::format("{} {} {}", sign_of(status, look), counts[i], to_string(status)));
  }
  std::vector<Line> out{std::move(line)};
  if (ending.outcome == Outcome::interrupted)
    out.push_back(Line(Ink::plain,
                       fmt::format("  interrupted; go on with: {} resume {}", this_program(), ending.location.flags)));
  out.push_back(where(ending.location));
  out.push_back(labelled("look", fmt::format("{} runs {}", this_program(), ending.location.flags)));
  return out;
}

}  // namespace pawl
