#include "cli/follow.h"

#include <fmt/format.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <set>
#include <system_error>
#include <unordered_map>

#include "cli/asker.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/view.h"
#include "core/decide.h"
#include "engine/clock.h"

namespace pawl {
namespace {

constexpr int beat_ms = 100;        // while something moves by itself
constexpr int slow_beat_ms = 1000;  // while only people are waited for
constexpr Duration redraw_min = std::chrono::milliseconds(40);
constexpr Duration decide_again_after = std::chrono::seconds(1);

std::unique_ptr<View> make_view(const TerminalTraits& traits, const FollowOptions& options) {
  if (options.json) return make_json_view();
  return traits.can_move ? make_live_view(traits.look) : make_plain_view(traits.look);
}

bool has_timer(const Run& run) { return std::ranges::count(run.steps, StepStatus::waiting_event, &Step::status) > 0; }

// Whether anything of it goes on without a person.
bool moves_by_itself(const Run& run) {
  return !is_terminal(run.status) && (run.status != RunStatus::waiting || has_timer(run));
}

// Whether only people can move it. Events come one by one: between those of one decision the run still waits, and
// yet will go on or end.
bool waits_for_people(const Run& run) {
  if (run.status != RunStatus::waiting || has_timer(run)) return false;
  bool is_asked = false;
  for (StepIndex i = 0; i < run.steps.size(); ++i) {
    StepStatus status = run.steps[i].status;
    bool is_open = status == StepStatus::waiting_input || std::ranges::any_of(run.approvals, [&](const Approval& a) {
                     return a.step == i && a.status == ApprovalStatus::requested;
                   });
    bool is_between = is_active(status) || status == StepStatus::canceled || status == StepStatus::failed_terminal ||
                      (status == StepStatus::waiting_approval && !is_open);
    if (is_between) return false;
    is_asked = is_asked || is_open;
  }
  return is_asked || run.steps.empty();
}

bool has_ready_step(const Run& run) { return std::ranges::count(run.steps, StepStatus::ready, &Step::status) > 0; }

class RunFollower {
 public:
  RunFollower(Carrier& carrier, std::vector<Run> runs, const FollowOptions& options)
      : carrier_(carrier),
        options_(options),
        traits_(terminal_traits(options.no_colour)),
        view_(make_view(traits_, options)),
        asker_(!traits_.can_move),
        may_ask_(traits_.can_ask && !options.json && !options.approve),
        runs_(std::move(runs)) {
    if (traits_.can_move && !options.json) keys_.emplace();
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      index_[runs_[i].id] = i;
      view_->begin(runs_[i]);
    }
  }

  ExitCode follow() {
    carrier_.start();
    while (!is_over()) {
      take_news();
      decide_or_ask();
      if (is_over()) break;
      say_what_nobody_takes();
      show();
      wait();
      if (!view_->is_read()) interrupted_ = true;
    }
    carrier_.stop();
    take_news();  // what became durable while stopping
    Ending ending{.outcome = outcome(), .runs = {}, .location = options_.location};
    for (const Run& run : runs_) ending.runs.push_back(&run);
    view_->end(ending, clock_.now());
    keys_.reset();
    return exit_code();
  }

 private:
  bool is_over() const {
    return interrupted_ || std::ranges::all_of(runs_, [&](const Run& run) { return is_left(run); });
  }
  // Nothing more will happen to it here.
  bool is_left(const Run& run) const {
    if (is_terminal(run.status)) return true;
    return waits_for_people(run) && !asker_.is_asking() && left_.contains(run.id);
  }
  Outcome outcome() const {
    if (interrupted_ && std::ranges::any_of(runs_, [](const Run& run) { return !is_terminal(run.status); }))
      return Outcome::interrupted;
    bool all_ended = std::ranges::all_of(runs_, [](const Run& run) { return is_terminal(run.status); });
    return all_ended ? Outcome::ended : Outcome::waiting;
  }

  void take_news() {
    for (const RunNews& news : carrier_.take_news()) {
      auto found = index_.find(news.run);
      if (found == index_.end()) continue;
      Run& run = runs_[found->second];
      std::string_view rest = news.lines;
      for (std::uint64_t seq = news.first_seq; !rest.empty(); ++seq) {
        auto end = std::min(rest.find('\n'), rest.size());
        std::string_view line = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        if (seq <= run.seq) continue;  // known since before
        auto event = parse_run_event(line);
        if (!event) throw Stop(exit_internal, "there is an event that cannot be read: " + event.error());
        evolve(run, *event);
        view_->on_event(run, *event, line);
        left_.erase(run.id);
      }
      has_news_ = true;
    }
    for (const std::string& notice : carrier_.take_notices()) view_->notice(notice);
  }

  // Settles what is open: by the flag, by asking, or by leaving the run to wait.
  void decide_or_ask() {
    if (asker_.is_asking()) {
      const Run& asking = runs_[index_.at(asker_.run())];
      if (is_terminal(asking.status)) asker_.drop();  // expired, canceled, out of time
    }
    for (const Run& run : runs_) {
      if (is_terminal(run.status) || left_.contains(run.id)) continue;
      if (options_.approve) {
        decide_by_flag(run);
        if (clock_.now() < decide_again_at_) continue;
      } else if (may_ask_ && take_up(run)) {
        return;
      }
      if (waits_for_people(run) && !asker_.is_asking()) left_.insert(run.id);
    }
  }

  bool take_up(const Run& run) {
    bool was_asking = asker_.is_asking();
    if (!asker_.take_up(run)) return false;
    // What was typed before the question was there does not answer it.
    if (!was_asking) ::tcflush(STDIN_FILENO, TCIFLUSH);
    return true;
  }

  // One after the other: each decision may change what else is open.
  void decide_by_flag(const Run& run) {
    auto is_open = [&](const Approval& approval) {
      return approval.status == ApprovalStatus::requested && !decided_.contains(approval.id);
    };
    while (clock_.now() >= decide_again_at_) {
      auto open = std::ranges::find_if(run.approvals, is_open);
      if (open == run.approvals.end()) return;
      decided_.insert(open->id);
      resolve({run.id, open->id, *options_.approve, options_.reason});
    }
  }

  void resolve(const Decided& decided) {
    auto taken = carrier_.resolve(runs_[index_.at(decided.run)], decided);
    take_news();
    if (!taken && taken.error().is_away) return keep_for_later(decided, taken.error());
    const Run& run = runs_[index_.at(decided.run)];
    auto approval = std::ranges::find(run.approvals, decided.approval, &Approval::id);
    bool is_open = approval != run.approvals.end() && approval->status == ApprovalStatus::requested;
    if (!taken)
      view_->notice(taken.error().message);
    else if (is_open)
      view_->notice(
          fmt::format("noted; {} of {} people have said yes", approval->votes.size(), approval->terms.quorum));
    // Asking the same person again would change nothing.
    if (is_open && asker_.is_asking()) asker_.leave();
  }

  // The flag decides again by itself; a person is still asked.
  void keep_for_later(const Decided& decided, const NotTaken& why) {
    if (options_.approve) {
      decided_.erase(decided.approval);
      decide_again_at_ = clock_.now() + decide_again_after;
    } else {
      view_->notice(why.message + "; nothing is decided yet");
    }
  }

  void answer(const Answered& answered) {
    auto taken = carrier_.answer(runs_[index_.at(answered.run)], answered);
    take_news();
    if (!taken) view_->notice(taken.error().message);
  }

  // Where a step's line does not show it.
  void say_what_nobody_takes() {
    Instant now = clock_.now();
    if (shows_steps() || now - began_at_ < untaken_after) return;  // who is here has only just come
    for (const Run& run : runs_)
      for (StepIndex i = 0; i < run.steps.size(); ++i)
        if (is_untaken(run, i, now) && untaken_.insert({run.id, i}).second)
          view_->notice(fmt::format("{}: {}", run.definition(i).id.text, describe_untaken(run, i)));
  }
  bool shows_steps() const { return traits_.can_move && !options_.json && runs_.size() == 1; }

  void show() {
    Instant now = clock_.now();
    if (std::exchange(has_news_, false) && now - shown_at_ < redraw_min && !asker_.is_asking()) {
      redraw_pending_ = true;
      return;
    }
    redraw_pending_ = false;
    shown_at_ = now;
    if (!asker_.is_asking()) return view_->refresh(now, nullptr);
    const Run& run = runs_[index_.at(asker_.run())];
    // One column stays free (live_view.cc).
    Prompt prompt = asker_.prompt(run, now, traits_.look, std::max<std::size_t>(terminal_size().columns, 2) - 1);
    if (runs_.size() > 1)
      prompt.lines.insert(prompt.lines.begin(),
                          Line(Ink::dim, fmt::format("  {} {}", run.workflow->name.text, run.id.str())));
    view_->refresh(now, &prompt);
  }

  int wait_ms() const {
    if (redraw_pending_) return static_cast<int>(redraw_min.count());
    if (clock_.now() < decide_again_at_) return static_cast<int>(decide_again_after.count());
    if (options_.json || !traits_.can_move) return std::ranges::any_of(runs_, has_ready_step) ? slow_beat_ms : -1;
    return std::ranges::any_of(runs_, moves_by_itself) ? beat_ms : slow_beat_ms;
  }

  void wait() {
    pollfd waits[] = {{.fd = carrier_.news_fd(), .events = POLLIN, .revents = 0},
                      {.fd = signals_.fd(), .events = POLLIN, .revents = 0},
                      {.fd = asker_.is_asking() ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0}};
    if (::poll(waits, std::size(waits), wait_ms()) < 0 && errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "poll");
    if (waits[1].revents) take_signals();
    if (waits[2].revents && asker_.is_asking()) take_keys();
  }

  void take_signals() {
    Signals::Taken taken = signals_.take();
    if (taken.interrupted) interrupted_ = true;
    if (taken.suspended) {
      if (keys_) keys_->leave();
      ::raise(SIGSTOP);
      if (keys_) keys_->enter();
    }
    if (taken.suspended || taken.resized) view_->resized();
  }

  void take_keys() {
    char bytes[512];
    auto got = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (got <= 0) {
      asker_.leave();
      may_ask_ = false;
      return;
    }
    typed_ahead_.append(bytes, static_cast<std::size_t>(got));
    while (!typed_ahead_.empty() && asker_.is_asking()) {
      auto lead = static_cast<unsigned char>(typed_ahead_[0]);
      std::size_t size = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
      if (typed_ahead_.size() < size) return;  // the rest of the character is on its way
      std::string character = typed_ahead_.substr(0, size);
      typed_ahead_.erase(0, character[0] == '\x1b' ? typed_ahead_.size() : size);  // an arrow key or the like
      auto reply = asker_.key(character);
      if (!reply) continue;
      if (const auto* decided = std::get_if<Decided>(&*reply)) resolve(*decided);
      if (const auto* answered = std::get_if<Answered>(&*reply)) answer(*answered);
    }
    // What was typed for one question must not answer the next.
    typed_ahead_.clear();
  }

  ExitCode exit_code() const {
    if (outcome() == Outcome::interrupted) return exit_interrupted;
    auto any = [&](auto holds) { return std::ranges::any_of(runs_, holds, &Run::status); };
    if (any([](RunStatus status) {
          return status == RunStatus::failed || status == RunStatus::timeout || status == RunStatus::canceled;
        }))
      return exit_ended_badly;
    if (any([](RunStatus status) { return status == RunStatus::denied; })) return exit_denied;
    if (any([](RunStatus status) { return !is_terminal(status); })) return exit_waiting;
    return exit_success;
  }

  Carrier& carrier_;
  const FollowOptions& options_;
  TerminalTraits traits_;
  std::unique_ptr<View> view_;
  std::optional<KeyMode> keys_;
  Asker asker_;
  bool may_ask_;
  Signals signals_;
  SystemClock clock_;
  const Instant began_at_ = clock_.now();

  std::vector<Run> runs_;
  std::unordered_map<RunId, std::size_t> index_;
  std::set<RunId> left_;          // wait for someone who is not here
  std::set<ApprovalId> decided_;  // by the flag
  Instant decide_again_at_;
  std::set<std::pair<RunId, StepIndex>> untaken_;  // of which it was said
  std::string typed_ahead_;
  bool interrupted_ = false;
  bool has_news_ = false;
  bool redraw_pending_ = false;
  Instant shown_at_;
};

}  // namespace

FollowOptions follow_options(Location location, const ProgressFlags& flags) {
  return {.location = std::move(location),
          .approve = flags.approve  ? std::optional(true)
                     : flags.reject ? std::optional(false)
                                    : std::nullopt,
          .reason = flags.reason,
          .json = flags.json,
          .no_colour = flags.no_colour};
}

ExitCode follow(Carrier& carrier, std::vector<Run> runs, const FollowOptions& options) {
  return RunFollower(carrier, std::move(runs), options).follow();
}

}  // namespace pawl
