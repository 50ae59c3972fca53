// What providers answer, one answer a line; its first letter says what is asked: r Restate's invocations, o an output,
// e an execution of Step Functions, h a page of its history, l a page of a list, x a refusal of either. Whatever they
// say, the runs that they carry stay sound, never go back, and succeed only by a word that means it.
#include <algorithm>

#include "core/decide.h"
#include "core/invariants.h"
#include "core/snapshot.h"
#include "fuzz.h"
#include "providers/restate_answers.h"
#include "providers/stepfunctions_answers.h"
#include "yaml/yaml.h"

namespace pawl::fuzz {
namespace {

using namespace pawl::providers;
using ProviderResponse = pawl::providers::Response;

constexpr Instant observed_at{1'800'000'000'000};

const Workflow& workflow_of(Provider provider) {
  auto made = [](std::string_view source) {
    auto out = read_workflow(read_yaml(source).value(), nullptr).value();
    out.version = 1;
    return out;
  };
  static const Workflow restate = made("workflow: w\nprovider: restate\ntarget: {service: Demo, handler: run}\n");
  static const Workflow stepfunctions = made(
      "workflow: w\nprovider: stepfunctions\n"
      "target: {state_machine: \"arn:aws:states:eu-west-1:123456789012:stateMachine:ship\"}\n");
  return provider == Provider::restate ? restate : stepfunctions;
}

class ForeignRun {
 public:
  explicit ForeignRun(Provider provider) : provider_(provider) {
    run_.workflow = &workflow_of(provider);
    run_.id = RunId{IdBits{0x0192'0000'0000'7000, 0x8000'0000'0000'0001}};
    fold(decide(
        CreateRun{.tenant = {}, .id = run_.id, .workflow = run_.workflow, .provider = provider, .by = Actor{"key:a"}},
        observed_at));
  }

  void see(const Sighting& sighting) {
    const Run before = run_;
    const ObserveRun meaning = meaning_of(provider_, sighting, observed_at);
    const ProviderState* state = find_provider_state(provider_, sighting.word, sighting.sign);
    check(meaning.ends.has_value() == (state && state->ends), "only a word that the table knows ends a run");
    fold(decide(run_, meaning, observed_at, {}));
    check(check_run(run_).empty(), "a run is sound after every look");
    check(retries_of(run_) >= retries_of(before), "retries never become fewer");
    if (is_terminal(before.status)) check(same_fold(before, run_), "what has ended stays as it is");
    if (run_.status == RunStatus::success && before.status != RunStatus::success)
      check(state && state->sub_state == SubState::succeeded, "a success is one by its own word");
    const auto copy = read_snapshot(write_snapshot(run_), *run_.workflow);
    check(copy && same_fold(*copy, run_), "a snapshot is the run");
  }

 private:
  void fold(const Decision& decision) {
    check(!decision.refusal, "what is seen is taken");
    for (const RunEvent& event : decision.events) {
      std::string text;
      append_event(text, event);
      const auto value = parse_json(text);
      check(value.has_value(), "an event is JSON, whatever was said");
      check_equal(canonical(*value), text, "an event's text is canonical");
      check(parse_run_event(text).has_value(), "an event can be read again");
      evolve(run_, event);
    }
  }

  const Provider provider_;
  Run run_;
};

void read_refusal(const std::string& body) {
  for (const int status : {0, 400, 404, 429, 470, 500}) {
    const ProviderResponse response{.status = status, .problem = status == 0 ? body : "", .body = body};
    for (const Outcome& outcome : {restate::outcome_of(response), stepfunctions::outcome_of(response)}) {
      check(outcome.kind != Outcome::Kind::done, "a refusal is none done");
      check(!outcome.text.empty(), "a refusal says why");
    }
    check(status < 500 || stepfunctions::may_be_asked_again(response), "a server's fault is asked again");
  }
}

void read_list(const std::string& body) {
  const auto page = stepfunctions::read_executions_page(body);
  const auto cut = stepfunctions::cut_token(body);
  check_equal(std::string(cut.before) + std::string(cut.token) + std::string(cut.after), body,
              "nothing is lost by a cut");
  const auto again =
      page ? stepfunctions::read_executions_page(std::string(cut.before) + std::string(cut.after)) : page;
  if (page && cut.is_plain())
    check(again && again->executions == page->executions, "a token is not a part of the list");
}

}  // namespace

FUZZ_TARGET(providers) {
  ForeignRun invocation(Provider::restate), execution(Provider::stepfunctions);
  providers::History history;
  for (std::size_t begin = 0; begin < input.size();) {
    const std::size_t end = std::min(input.find('\n', begin), input.size());
    const std::string line(input.substr(begin, end - begin));
    begin = end + 1;
    if (line.empty()) continue;
    const std::string body = line.substr(1);
    switch (line.front()) {
      case 'r':
        for (auto& row : restate::read_rows(body).value_or(std::vector<restate::Invocation>{})) {
          if (row.sighting.word == "completed") row.sighting.output = restate::read_output(row.id);
          invocation.see(row.sighting);
        }
        break;
      case 'o':
        check(parse_json(restate::read_output(body)).has_value(), "an output is JSON");
        break;
      case 'e':
        if (auto found = stepfunctions::read_execution(body)) {
          check(parse_json(found->output).has_value(), "an output is JSON");
          execution.see({.run = {},
                         .word = found->status,
                         .sign = history.sign(),
                         .retries = history.retries(),
                         .last_failure = history.last_failure(),
                         .output = found->status == "SUCCEEDED" ? found->output : JsonText(),
                         .failure = found->failure});
        }
        break;
      case 'h':
        if (auto page = stepfunctions::read_history_page(body)) {
          std::ranges::sort(page->events, {}, &HistoryEvent::id);
          const int before = history.retries();
          for (const HistoryEvent& event : page->events) history.add(event);
          check(history.retries() >= before, "retries never become fewer");
        }
        break;
      case 'l':
        read_list(body);
        break;
      case 'x':
        read_refusal(body);
        break;
      default:
        break;
    }
  }
}

}  // namespace pawl::fuzz
