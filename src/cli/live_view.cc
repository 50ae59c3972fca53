// One line a step (a run, when there are several), redrawn in place. The block's last line has no line end: the cursor
// rests there, so that going back to the block's first line needs nothing but its height.
//
// A question that is higher than the screen cannot be drawn over. It is printed once, scrolls like any output, and only
// the line for the answer stays in place below it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/terminal.h"
#include "cli/view.h"
#include "core/run_object.h"

namespace pawl {
namespace {

constexpr std::string_view clear_to_end_of_line = "\x1b[K";
constexpr std::string_view clear_below = "\x1b[J";
constexpr Duration beat = std::chrono::milliseconds(100);

bool is_moving(const Run& run) {
  return std::ranges::any_of(run.steps, [](const Step& step) {
    return step.status == StepStatus::running || step.status == StepStatus::ready ||
           step.status == StepStatus::failed_retryable || step.status == StepStatus::waiting_approval ||
           step.status == StepStatus::waiting_input || step.status == StepStatus::waiting_event;
  });
}

class LiveView final : public View {
 public:
  explicit LiveView(const Look& look) : look_(look), size_(terminal_size()) {}

  void begin(const Run& run) override { runs_.push_back(&run); }
  void on_event(const Run&, const RunEvent&, std::string_view) override {}

  void notice(std::string_view text) override {
    std::string out = to_block_start();
    out.append(clear_below).append(Line(Ink::yellow, "  ").add(Ink::yellow, text).print(look_)).append("\n");
    drawn_.clear();
    put(out);
  }

  void refresh(Instant now, const Prompt* prompt) override { draw(now, prompt, true); }

  void resized() override {
    printed_.clear();
    // A terminal that became narrower has wrapped the lines that no longer fit.
    size_ = terminal_size();
    std::size_t rows = 0;
    for (std::size_t columns : drawn_) rows += std::max<std::size_t>(1, (columns + size_.columns - 1) / size_.columns);
    if (rows > 0) put(fmt::format("\r{}{}", up(rows - 1), clear_below));
    drawn_.clear();
  }

  void end(const Ending& ending, Instant now) override {
    draw(now, nullptr, false);
    std::string out = "\n\n";
    auto lines = ending.runs.size() == 1 ? closing_lines(*ending.runs[0], ending, size_.columns, look_, now)
                                         : closing_lines(ending, look_);
    // Not cut: paths and commands are there to be copied, and nothing is drawn over these lines any more.
    for (const Line& line : lines) out += line.print(look_) + "\n";
    put(out.append(show_cursor).append("\n"));
  }

 private:
  static std::string up(std::size_t rows) { return rows > 0 ? fmt::format("\x1b[{}A", rows) : ""; }
  std::string to_block_start() const { return "\r" + (drawn_.empty() ? "" : up(drawn_.size() - 1)); }

  // With the line for the answer, while one row stays free.
  bool is_too_high(const Prompt& prompt) const { return prompt.lines.size() + 1 >= size_.rows; }

  void draw(Instant now, const Prompt* prompt, bool must_fit) {
    if (prompt && is_too_high(*prompt)) {
      if (std::exchange(printed_, prompt->subject) != prompt->subject) print(*prompt);
      return replace_block({prompt->input}, true);
    }
    printed_.clear();
    std::vector<Line> lines = header(now);
    std::vector<Line> foot = footer(now, prompt);
    std::size_t rows_left =
        size_.rows > lines.size() + foot.size() + 1 ? size_.rows - lines.size() - foot.size() - 1 : 1;
    Body body = runs_.size() == 1 ? steps_of(*runs_[0], now) : all_runs(now);
    if (must_fit && body.lines.size() > rows_left) body = window(std::move(body), rows_left);
    std::ranges::move(body.lines, std::back_inserter(lines));
    std::ranges::move(foot, std::back_inserter(lines));
    // A block that is higher than the screen could not be drawn over. A question always fits here, with all its lines.
    if (must_fit && lines.size() >= size_.rows && size_.rows > 1)
      lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(size_.rows - 1));
    replace_block(lines, prompt != nullptr);
  }

  // In place of the block, to stay where it scrolls to: not cut.
  void print(const Prompt& prompt) {
    std::string out = to_block_start();
    out.append(clear_below).append("\n");
    for (const Line& line : prompt.lines) out += line.print(look_) + "\n";
    drawn_.clear();
    put(out);
  }

  void replace_block(const std::vector<Line>& lines, bool takes_input) {
    std::string out = to_block_start();
    drawn_.clear();
    for (std::size_t i = 0; i < lines.size(); ++i) {
      // One column stays free: in the last one, terminals differ on where the cursor is.
      std::string text = lines[i].print(look_, size_.columns - 1);
      if (takes_input && i + 1 == lines.size()) text += ' ';
      out.append(text).append(clear_to_end_of_line);
      if (i + 1 < lines.size()) out += '\n';
      drawn_.push_back(std::min(lines[i].columns(), size_.columns - 1));
    }
    out.append(clear_below).append(takes_input ? show_cursor : hide_cursor);
    put(out);
  }

  struct Body {
    std::vector<Line> lines;
    std::size_t first_moving = 0;
  };

  std::vector<Line> header(Instant) const {
    std::vector<Line> out(1);
    if (runs_.size() != 1) return out;
    const Run& run = *runs_[0];
    Line line(Ink::plain, "  ");
    line.add(Ink::bold, run.workflow->name.text).add(Ink::dim, fmt::format(" v{}", run.workflow->version));
    line.add("  ").add(Ink::dim, run.id.str());
    out.push_back(std::move(line));
    out.emplace_back();
    return out;
  }

  Body steps_of(const Run& run, Instant now) const {
    Body out;
    StepLayout layout = layout_of(run, size_.columns);
    StepLook how{.now = now, .beat = static_cast<std::size_t>(now.ms / beat.count())};
    out.first_moving = run.steps.size();
    for (StepIndex i = 0; i < run.steps.size(); ++i) {
      out.lines.push_back(describe_step(run, i, layout, look_, how));
      StepStatus status = run.steps[i].status;
      if (!is_terminal(status) && status != StepStatus::pending)
        out.first_moving = std::min<std::size_t>(out.first_moving, i);
    }
    return out;
  }

  Body all_runs(Instant now) const {
    Body out;
    out.first_moving = runs_.size();
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const Run& run = *runs_[i];
      auto done = std::ranges::count(run.steps, StepStatus::succeeded, &Step::status);
      Line line(Ink::plain, "  ");
      line.add(ink_of(run.status), sign_of(run.status, look_)).add(" ").add(Ink::dim, run.id.str()).add("  ");
      line.add(shorten(run.workflow->name.text, 20, look_)).to_column(58);
      line.add(ink_of(run.status), to_string(run.status)).to_column(68);
      line.add(Ink::dim, fmt::format("{}/{}", done, run.steps.size()));
      Instant end = run.finished_at.ms != 0 ? run.finished_at : now;
      if (run.started_at.ms != 0) line.add_right(Ink::plain, print_elapsed(end - run.started_at), 9);
      if (auto cost = print_cost(run.cost, cost_is_known(run)); !cost.empty()) line.add("  ").add(Ink::cyan, cost);
      if (run.diagnostic) line.add("  ").add(Ink::red, printable(run.diagnostic->message));
      out.lines.push_back(std::move(line));
      if (!is_terminal(run.status)) out.first_moving = std::min(out.first_moving, i);
    }
    return out;
  }

  // What moves, and as much around it as there is room for.
  Body window(Body body, std::size_t rows) const {
    if (rows < 3) {
      body.lines.resize(rows);
      return body;
    }
    std::size_t room = rows - 2;
    std::size_t first = body.first_moving > 1 ? body.first_moving - 1 : 0;
    first = std::min(first, body.lines.size() - room);
    std::size_t below = body.lines.size() - first - room;
    Body out;
    std::string_view dots = look_.unicode ? "⋮" : ":";
    out.lines.push_back(first > 0 ? Line(Ink::dim, fmt::format("  {} {} above", dots, first)) : Line());
    std::move(body.lines.begin() + static_cast<std::ptrdiff_t>(first),
              body.lines.begin() + static_cast<std::ptrdiff_t>(first + room), std::back_inserter(out.lines));
    out.lines.push_back(below > 0 ? Line(Ink::dim, fmt::format("  {} {} more", dots, below)) : Line());
    return out;
  }

  std::vector<Line> footer(Instant now, const Prompt* prompt) const {
    std::vector<Line> out;
    if (prompt) {
      out.emplace_back();
      out.insert(out.end(), prompt->lines.begin(), prompt->lines.end());
      out.push_back(prompt->input);
      return out;
    }
    if (runs_.size() != 1 || is_terminal(runs_[0]->status) || !is_moving(*runs_[0])) return out;
    const Run& run = *runs_[0];
    Line line(Ink::plain, "  ");
    line.add(ink_of(run.status), to_string(run.status));
    if (run.started_at.ms != 0) line.add(Ink::dim, " for " + print_elapsed(now - run.started_at));
    if (auto cost = print_cost(run.cost, cost_is_known(run)); !cost.empty()) line.add(Ink::dim, ", " + cost);
    if (run.timeout) line.add(Ink::dim, fmt::format(", at most {}", print_duration(*run.timeout)));
    out.emplace_back();
    out.push_back(std::move(line));
    return out;
  }

  Look look_;
  TerminalSize size_;
  std::vector<const Run*> runs_;
  std::vector<std::size_t> drawn_;  // the columns of each line of the block
  std::string printed_;             // the subject of the question above the block; empty: none
};

}  // namespace

std::unique_ptr<View> make_live_view(const Look& look) { return std::make_unique<LiveView>(look); }

}  // namespace pawl
