#include "cli/runs_watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <csignal>
#include <map>

#include "cli/describe.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "engine/clock.h"

namespace pawl {
namespace {

constexpr double seconds_min = 0.1;
constexpr double seconds_max = 86400;

double parse_seconds(const std::string& text) {
  double seconds = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || !(seconds >= seconds_min && seconds <= seconds_max))
    throw Stop(exit_usage, fmt::format("--watch={}: write the seconds between two looks, from {} to {}",
                                       printable(text), seconds_min, seconds_max));
  return seconds;
}

// One look after the other; what each shows is the derived class's affair.
class Watch {
 public:
  Watch(const RunRows& source, const RunsOptions& options)
      : source_(source), options_(options), seconds_(parse_seconds(options.watch)) {}
  virtual ~Watch() = default;

  ExitCode watch() {
    while (true) {
      look();
      Instant next_look = clock_.now() + Duration(static_cast<std::int64_t>(seconds_ * 1000));
      do {
        wait(next_look - clock_.now());
        if (is_over_) return is_interrupted_ ? exit_interrupted : exit_success;
      } while (clock_.now() < next_look);
    }
  }

 protected:
  virtual void show(const std::vector<ListedRun>& rows) = 0;
  virtual void show_problem(const std::string& what) = 0;
  virtual void key(char) {}
  virtual void resized() {}
  virtual void suspend() { ::raise(SIGSTOP); }
  // What stdin says is of interest.
  virtual bool has_keys() const { return false; }
  void end() { is_over_ = true; }

  const RunRows& source_;
  const RunsOptions& options_;
  const double seconds_;
  SystemClock clock_;

 private:
  void look() {
    try {
      show(source_.newest_with_reasons(options_.wanted, options_.limit));
      seen_ = true;
    } catch (const Stop& stop) {
      // The first look shows a mistake in the command; later ones, a server that went away.
      if (!seen_ || !is_away(stop)) throw;
      show_problem(stop.what());
    }
  }

  void wait(Duration time) {
    pollfd waits[] = {{.fd = signals_.fd(), .events = POLLIN, .revents = 0},
                      {.fd = has_keys() ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0}};
    ::poll(waits, std::size(waits), static_cast<int>(std::clamp<std::int64_t>(time.count(), 0, 1'000'000)));
    if (waits[0].revents) {
      Signals::Taken taken = signals_.take();
      is_interrupted_ = is_interrupted_ || taken.interrupted;
      is_over_ = is_over_ || taken.interrupted;
      if (taken.suspended) suspend();
      if (taken.suspended || taken.resized) resized();
    }
    char typed = 0;
    if (waits[1].revents && ::read(STDIN_FILENO, &typed, 1) == 1) key(typed);
  }

  Signals signals_;
  bool seen_ = false;
  bool is_over_ = false;
  bool is_interrupted_ = false;
};

// For programs: a line for each run that is new or has moved since the last look.
class Changes final : public Watch {
 public:
  using Watch::Watch;

 private:
  void show(const std::vector<ListedRun>& rows) override {
    std::map<RunId, std::uint64_t> now;
    std::string out;
    for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
      now[row->id] = row->seq;
      auto known = known_.find(row->id);
      if (known == known_.end() || known->second != row->seq) out += boost::json::serialize(row_object(*row)) + "\n";
    }
    known_ = std::move(now);
    if (!write_all(STDOUT_FILENO, out)) end();
  }
  void show_problem(const std::string& what) override { fmt::print(stderr, "pawl: {}\n", what); }

  std::map<RunId, std::uint64_t> known_;
};

// For people: the whole screen, which is given back as it was.
class Screen final : public Watch {
 public:
  Screen(const RunRows& source, const RunsOptions& options)
      : Watch(source, options), look_(terminal_traits(options.no_colour).look) {}

 private:
  void show(const std::vector<ListedRun>& rows) override {
    rows_ = rows;
    problem_.clear();
    looked_at_ = clock_.now();
    draw();
  }
  void show_problem(const std::string& what) override {
    problem_ = what;
    draw();
  }
  void resized() override { draw(); }
  void suspend() override {
    screen_.leave();
    keys_.leave();
    Watch::suspend();
    keys_.enter();
    screen_.enter();
  }
  bool has_keys() const override { return ::isatty(STDIN_FILENO) == 1; }
  void key(char key) override {
    if (key == 'q' || key == 'Q' || key == '\x04') end();
  }

  Line title() const {
    Line line(Ink::bold, "pawl runs");
    line.add("  ").add(Ink::dim, source_.where());
    std::array<std::size_t, enum_count<RunStatus>> counts{};
    for (const ListedRun& row : rows_) ++counts[static_cast<std::size_t>(row.status)];
    for (std::size_t i = 0; i < counts.size(); ++i) {
      auto status = static_cast<RunStatus>(i);
      if (counts[i] > 0) line.add("  ").add(ink_of(status), fmt::format("{} {}", counts[i], to_string(status)));
    }
    return line;
  }

  Line foot(std::size_t hidden) const {
    if (!problem_.empty())
      return Line(Ink::red, problem_).add(Ink::dim, "  as of " + print_elapsed(clock_.now() - looked_at_) + " ago");
    Line line;
    if (hidden > 0) line.add(Ink::dim, fmt::format("{} more below; ", hidden));
    line.add(Ink::dim, fmt::format("every {} s; q or Ctrl-C ends", seconds_));
    return line;
  }

  void draw() {
    TerminalSize size = terminal_size();
    std::vector<Line> lines{title(), Line()};
    std::size_t room = size.rows > 4 ? size.rows - 4 : 1;
    std::size_t shown = 0;
    for (; shown < rows_.size(); ++shown) {
      auto of_row = row_lines(rows_[shown], clock_.now(), look_, size.columns - 1);
      if (lines.size() - 2 + of_row.size() > room) break;
      lines.insert(lines.end(), of_row.begin(), of_row.end());
    }
    if (rows_.empty()) lines.emplace_back(Ink::dim, "no run yet");
    lines.emplace_back();
    lines.push_back(foot(rows_.size() - shown));
    std::string out = "\x1b[H";
    for (std::size_t i = 0; i < lines.size(); ++i)
      out.append(lines[i].print(look_, size.columns - 1)).append("\x1b[K").append(i + 1 < lines.size() ? "\n" : "");
    if (!write_all(STDOUT_FILENO, out + "\x1b[J")) end();
  }

  Look look_;
  KeyMode keys_;
  AlternateScreen screen_;
  std::vector<ListedRun> rows_;
  std::string problem_;
  Instant looked_at_;
};

}  // namespace

ExitCode watch_runs(const RunRows& source, const RunsOptions& options) {
  if (!options.json && !terminal_traits(options.no_colour).can_move)
    throw Stop(exit_usage, "--watch draws on a terminal, and stdout is none: use --json, which prints a line a change");
  block_signals();
  if (options.json) return Changes(source, options).watch();
  return Screen(source, options).watch();
}

}  // namespace pawl
