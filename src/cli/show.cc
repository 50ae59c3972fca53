// pawl show: one run as it is, or as it was after any of its events. Reads only, also beside a live process.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "cli/commands.h"
#include "cli/describe.h"
#include "cli/recorded_run.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "core/decide.h"
#include "core/event_object.h"
#include "core/run_object.h"
#include "engine/clock.h"

namespace pawl {
namespace {

constexpr std::size_t output_lines_max = 40;
constexpr std::size_t fact_column = 13;
constexpr std::size_t detail_column = 17;

struct Told {
  RunEvent event;
  EventWords words;
  const StreamLine* line;
};

// Folds up to `at`, and keeps what each event did in words.
struct Replay {
  Run run;
  std::vector<Told> events;
};

Replay replay(const WholeStream& stream, Run run, std::uint64_t at, Vocabulary vocabulary) {
  Replay out{std::move(run), {}};
  for (const StreamLine& line : stream.lines) {
    if (line.seq > at) break;
    auto event = parse_run_event(line.text);
    std::expected<void, std::string> folded;
    if (event) folded = evolve_checked(out.run, *event);
    if (!event || !folded)
      throw Stop(exit_ended_badly, fmt::format("{} seq {} does not fold: {} (pawl verify tells more)", out.run.id.str(),
                                               line.seq, event ? folded.error() : event.error()));
    EventWords words = describe_event(out.run, *event, vocabulary);
    out.events.push_back({std::move(*event), std::move(words), &line});
  }
  return out;
}

class Page {
 public:
  Page(const ShowOptions& options, const TerminalTraits& traits, const boost::json::array& requesters)
      : options_(options),
        requesters_(requesters),
        look_(traits.look),
        columns_(traits.can_move ? terminal_size().columns : 100),
        cut_(traits.can_move ? columns_ : 0) {}

  void run(const Run& run, Instant now, std::uint64_t last_seq) {
    Line title(Ink::bold, run.workflow->name.text);
    title.add(Ink::dim, fmt::format(" v{}", run.workflow->version)).add("  ").add(run.id.str());
    if (run.seq < last_seq) title.add(Ink::yellow, fmt::format("  as it was after event {} of {}", run.seq, last_seq));
    put(title);
    put(describe_end(run, look_, options_.vocabulary));
    put(Line());
    std::string by = requesters_.empty() ? "" : requester_names(boost::json::array{requesters_[0]});
    if (by.empty()) by = person_name(run.created_by);
    fact("created", fmt::format("{} by {}", print_time(run.created_at), by));
    if (requesters_.size() > 1) fact("requested by", requester_names(requesters_));
    if (run.started_at.ms != 0) fact("started", print_time(run.started_at));
    if (run.finished_at.ms != 0) fact("finished", print_time(run.finished_at));
    if (run.retry_of) fact("retry of", run.retry_of->str());
    if (run.workspace.text != "default") fact("workspace", run.workspace.text);
    if (run.input != "{}") put(labelled("input", printable(run.input)));
    if (run.foreign) foreign(run, *run.foreign);
    put(Line());
    StepLayout layout = layout_of(run, columns_);
    for (StepIndex i = 0; i < run.steps.size(); ++i)
      put(describe_step(run, i, layout, look_, {.now = now, .vocabulary = options_.vocabulary}));
    for (const Approval& approval : run.approvals) this->approval(run, approval, now);
    for (StepIndex i = 0; i < run.steps.size(); ++i)
      if (run.steps[i].status == StepStatus::waiting_input) question(run, i);
    for (const Receipt& receipt : run.receipts) sandbox(run, receipt);
    if (run.diagnostic) put_all(describe_diagnostic(*run.diagnostic, columns_));
    if (run.status == RunStatus::success) put_all(describe_json(result_of(run), output_lines_max, columns_, look_));
  }

  void bundle(const Json& stored) {
    put(Line());
    // To be copied, so never cut.
    fmt::print("{}\n", labelled("evidence", text_of(stored, "location")).print(look_));
    fact("stored", text_of(stored, "stored_at"));
    fact("sha256", text_of(stored, "sha256"));
  }

  void events(const std::vector<Told>& events) {
    put(Line());
    if (events.empty()) return;
    Instant since = events[0].event.at;
    for (const Told& told : events) {
      Line line;
      line.add_right(Ink::dim, std::to_string(told.line->seq), 5);
      auto offset = (told.event.at - since).count();
      line.add_right(Ink::dim, fmt::format("+{}.{:03}s", offset / 1000, offset % 1000), 11).add("  ");
      line.add(Ink::dim, told.line->hash.hex().substr(0, 8)).add("  ");
      std::size_t column = line.columns();
      line.add(shorten(told.words.subject, 20, look_)).to_column(column += 22);
      line.add(told.words.ink, told.words.what).to_column(column += 20).add(Ink::dim, told.words.more);
      put(line);
    }
  }

 private:
  void put(const Line& line) { fmt::print("{}\n", line.print(look_, cut_)); }
  // To be copied, so never cut.
  void command(std::string_view text) {
    fmt::print("{}\n", Line(Ink::dim, fmt::format("  pawl {}", text)).print(look_));
  }
  void question(const Run& run, StepIndex index) {
    const Step& step = run.steps[index];
    const std::string& id = run.definition(index).id.text;
    put(Line());
    Line title(Ink::plain, "  ");
    title.add(Ink::bold, id).add(" ").add(Ink::yellow, "waits for an answer");
    for (const Line& each : with_note(std::move(title), question_text(step.question), columns_)) put(each);
    command(answer_command(run, index));
  }
  void put_all(const std::vector<Line>& lines) {
    put(Line());
    for (const Line& line : lines) put(line);
  }
  static Line labelled(std::string_view label, std::string_view text) {
    return Line(Ink::plain, "  ").add(Ink::dim, label).to_column(fact_column).add(text);
  }
  void fact(std::string_view label, std::string_view text) {
    if (cut_ == 0) return put(labelled(label, text));
    for (const std::string& words : wrap(text, columns_beside(fact_column)))
      put(labelled(std::exchange(label, ""), words));
  }
  std::size_t columns_beside(std::size_t margin) const {
    constexpr std::size_t columns_min = 20;
    return std::max(columns_, margin + columns_min) - margin;
  }
  void foreign(const Run& run, const Foreign& foreign) {
    const std::string state = foreign.state.empty() ? "not seen yet" : printable(foreign.state);
    fact("executed by", fmt::format("{}, as {}: {}", to_string(run.provider),
                                    foreign.id.empty() ? "not accepted yet" : printable(foreign.id), state));
    if (foreign.retries > 0) fact("retries", std::to_string(foreign.retries));
    if (foreign.next_retry_at.ms != 0) fact("next retry", print_time(foreign.next_retry_at));
    if (!foreign.last_failure.empty()) fact("failure", printable(foreign.last_failure));
    for (const Foreign::Bound& bound : foreign.bound)
      if (!bound.problem.empty())
        fact("not told", fmt::format("{}: {}", bound.approval.str(), printable(bound.problem)));
  }
  void approval(const Run& run, const Approval& approval, Instant now) {
    put(Line());
    Line line(Ink::plain, "  ");
    line.add(Ink::bold, run.definition(approval.step).id.text).add(" ");
    if (approval.status == ApprovalStatus::requested) {
      line.add(Ink::yellow, "waits for approval");
      for (const Line& each : with_note(std::move(line), describe_terms(approval, now), columns_)) put(each);
      for (const Line& each : describe_approval(run, approval, columns_, look_, requesters_)) put(each);
      return command(fmt::format("approve {} --approval {}", run.id.str(), approval.id.str()));
    }
    line.add(to_string(approval.status));
    if (approval.status == ApprovalStatus::rejected) line.add(" by ").add(person_name(approval.resolved_by));
    if (approval.resolved_at.ms != 0) line.add(Ink::dim, " at " + print_time(approval.resolved_at));
    put(line);
    if (!approval.reason.empty()) detail("reason", printable(approval.reason));
    for (const Vote& vote : approval.votes)
      detail("approved by", fmt::format("{}, {}", describe_vote(vote), print_time(vote.at)));
    if (approval.proposal) {
      const Action& action = approval.proposal->action;
      detail("action", printable(fmt::format("{} {} {}", action.connector, action.operation, action.target)));
    }
  }
  void detail(std::string_view label, std::string_view text) {
    const std::size_t columns = cut_ == 0 ? std::string::npos : columns_beside(detail_column);
    for (const std::string& words : wrap(text, columns))
      put(Line(Ink::plain, "    ").add(Ink::dim, std::exchange(label, "")).to_column(detail_column).add(words));
  }

  void sandbox(const Run& run, const Receipt& receipt) {
    if (!receipt.proposal->sandboxed) return;
    const bool sandboxed = *receipt.proposal->sandboxed;
    Line line(Ink::plain, "  ");
    line.add(sandboxed ? Ink::dim : Ink::yellow,
             fmt::format("{} ran {}", run.definition(receipt.step).id.text,
                         sandboxed ? "in a sandbox" : "without a sandbox, as the user of the server"));
    put(line);
  }

  const ShowOptions& options_;
  const boost::json::array& requesters_;
  Look look_;
  std::size_t columns_;
  std::size_t cut_;
};

}  // namespace

ExitCode show_run(const ShowOptions& options) {
  RecordedRun source = read_run(options.server, data_folder(options.data), options.run);
  WholeStream& stream = source.stream;
  auto last = static_cast<std::uint64_t>(stream.lines.size());
  if (options.at && (*options.at == 0 || *options.at > last))
    throw Stop(exit_not_found, fmt::format("--at {}: this run has events 1 to {}", *options.at, last));
  Replay replayed = replay(stream, source.unborn(), options.at.value_or(last), options.vocabulary);

  if (options.json && options.events) {
    for (const Told& told : replayed.events) fmt::print("{}\n", shown_event_text(told.line->text));
    return exit_success;
  }
  if (options.json) {
    auto object = run_object(replayed.run, options.vocabulary);
    object["head"] = replayed.events.back().line->hash.hex();
    if (!options.at) object["bundle"] = source.bundle;
    fmt::print("{}\n", boost::json::serialize(object));
    return exit_success;
  }
  // As it was: clocks stand where they stood then.
  Instant now = options.at ? replayed.events.back().event.at : SystemClock().now();
  Page page(options, terminal_traits(options.no_colour), source.requesters);
  page.run(replayed.run, now, last);
  if (!options.at && !source.bundle.is_null()) page.bundle(source.bundle);
  if (options.events) page.events(replayed.events);
  return exit_success;
}

}  // namespace pawl
