// Thousands of random histories a document: random workflows, random commands at random moments, many of them nonsense.
// After every commit, what a reader of that document's vocabulary sees has moved along its table, and the invariants
// of the design hold.
//
// Histories for a document use the features that it knows: questions and deadlines, for example, are in neither of the
// two older ones. PAWL_SEED=n replays history n alone, PAWL_HISTORIES=n tries more of them.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>

#include "core/documents.h"
#include "core/run_builder.h"

namespace pawl::tests {
namespace {

using namespace std::chrono_literals;

struct Features {
  bool dags = false;       // otherwise strict sequences
  bool gates = false;      // steps that are approvals
  bool timers = false;     // steps that wait for a time
  bool actions = false;    // side effects that need approval
  bool refusals = false;   // rejected and expired approvals
  bool questions = false;  // waiting_input
  bool deadlines = false;
  bool budgets = false;
  bool write_caps = false;
  bool bad_inputs = false;   // expressions that lead nowhere
  bool reports = false;      // runs that another orchestrator carries
  bool clock_jumps = false;  // the clock is set back now and then
};

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : random_(seed) {}
  int below(int limit) { return static_cast<int>(random_() % static_cast<std::uint64_t>(limit)); }
  bool in(int percent) { return below(100) < percent; }
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<int>(choices.size()))];
  }

 private:
  std::mt19937_64 random_;
};

RunBuilder random_workflow(Chance& chance, const Features& features) {
  RunBuilder builder;
  int steps = 1 + chance.below(6);
  for (int i = 0; i < steps; ++i) {
    std::string id = "s" + std::to_string(i);
    if (features.gates && chance.in(30)) {
      int quorum = chance.one_of({1, 1, 1, 2});
      builder.gate(id).terms({.two_person = quorum == 2 && chance.in(50),
                              .quorum = quorum,
                              .expires = features.refusals ? Duration(10min) : duration_max,
                              .prompt = {}});
    } else if (features.timers && chance.in(15)) {
      builder.timer(id, chance.one_of({"0s", "5s", "3m"}));
    } else {
      builder.step(id).attempts(1 + chance.below(3)).step_timeout(chance.one_of<Duration>({40s, 10min}));
    }
    if (features.dags && chance.in(60)) {
      std::vector<std::string> needs;
      for (int before = 0; before < i; ++before)
        if (chance.in(40)) needs.push_back("s" + std::to_string(before));
      builder.needs(needs);
    }
  }
  if (features.deadlines && chance.in(30)) builder.run_timeout(chance.one_of<Duration>({5s, 2min, 1h}));
  if (features.budgets && chance.in(30)) builder.budget(chance.one_of({100, 1000}));
  if (features.reports && chance.in(15)) builder.provider(Provider::external);
  return builder;
}

// Draws one command after the other, mostly such as make sense, so that histories get somewhere.
class Driver {
 public:
  Driver(Chance& chance, const Features& features, History& history)
      : chance_(chance), features_(features), history_(history) {}

  void act() {
    history_.wait(chance_.one_of<Duration>({0s, 0s, 1ms, 1s, 5s, 31s, 3min}));
    if (features_.clock_jumps && chance_.in(3)) history_.wait(-1min);
    const pawl::Run& run = history_.run();
    if (run.provider != Provider::native && chance_.in(80)) return act_on(report());
    if (chance_.in(2)) return act_on(CancelRun{person(), "random"});
    if (chance_.in(3)) return act_on(nonsense());
    if (chance_.in(15)) return act_on(TimePasses{});
    if (chance_.in(10)) return act_on(StartRun{});
    if (features_.questions && chance_.in(5)) return act_on(AnswerQuestion{id_of(any_step()), "1", person()});
    if (any_open_approval() && chance_.in(50)) return act_on(decision());
    StepIndex step = any_step();
    if (step < run.steps.size() && run.steps[step].status == StepStatus::running) return act_on_running(step);
    act_on(claim(step));
  }

  const std::string& told() const { return told_; }

 private:
  void act_on(const RunCommand& command) {
    static constexpr std::array names{"start",  "claim",  "complete", "fail",    "charge",  "release", "withdraw",
                                      "ask",    "answer", "resolve",  "propose", "outcome", "settle",  "reverse",
                                      "cancel", "time",   "report",   "observe", "request", "told"};
    static_assert(names.size() == std::variant_size_v<RunCommand>);
    told_ += "  +" + std::to_string((history_.now() - first_moment).count()) + "ms " + names[command.index()];
    const Commit& commit = history_.act(command, {chance_.below(201) / 100.0 - 1});
    tell(commit);
  }

  StepId id_of(StepIndex step) const { return history_.id(step); }

  void act_on_running(StepIndex step) {
    std::uint64_t number = history_.run().steps[step].lease_token;
    if (chance_.in(10)) number -= 1;
    const auto proof = LeaseProof::local(number);
    if (features_.actions && chance_.in(40)) return act_on(action(step, proof));
    if (features_.questions && chance_.in(15)) return act_on(AskQuestion{id_of(step), proof, "\"?\""});
    if (chance_.in(10)) return act_on(claim(step));
    if (chance_.in(10)) return act_on(ReleaseStep{id_of(step), proof});
    Money cost{features_.budgets ? chance_.below(200) : 0};
    if (chance_.in(10)) return act_on(ChargeStep{id_of(step), proof, cost});
    if (chance_.in(35)) {
      std::optional<Duration> after = chance_.in(10) ? std::optional<Duration>(20s) : std::nullopt;
      std::string code = chance_.in(85) ? "TOOL_TIMEOUT" : chance_.in(50) ? "TOOL_DENIED" : "MY_CODE";
      return act_on(FailStep{id_of(step), proof, code, "random", {}, after, cost});
    }
    act_on(CompleteStep{id_of(step), proof, "{}", cost});
  }

  // Few keys and few actions, so that they meet.
  RunCommand action(StepIndex step, const LeaseProof& proof) {
    const auto& receipts = history_.run().receipts;
    if (!receipts.empty() && chance_.in(60)) {
      ReceiptId receipt = receipts[static_cast<std::size_t>(chance_.below(static_cast<int>(receipts.size())))].id;
      if (chance_.in(10)) return SettleReceipt{receipt, chance_.in(50), person()};
      if (chance_.in(10)) return ReverseReceipt{receipt, ReceiptId{{1, 1}}};
      return RecordOutcome{.step = id_of(step), .proof = proof, .receipt = receipt, .succeeded = chance_.in(70)};
    }
    Action proposed = an_action();
    proposed.idempotency_key = "key" + std::to_string(chance_.below(4));
    if (chance_.in(10)) proposed.target = "elsewhere";
    bool two_person = chance_.in(30);
    Verdict verdict{.effect = chance_.in(50) ? Effect::allow : Effect::needs_approval,
                    .policy_version = chance_.in(90) ? 1 : 2,
                    .terms = {.two_person = two_person,
                              .quorum = two_person ? 2 : 1,
                              .expires = features_.refusals ? Duration(10min) : duration_max}};
    if (features_.refusals && chance_.in(5)) verdict.effect = Effect::deny;
    // What is not idempotent leads to questions.
    bool idempotent = !features_.questions || proposed.idempotency_key < "key2";
    return ProposeAction{
        .step = id_of(step),
        .proof = proof,
        .proposal = std::make_shared<const Proposal>(a_proposal(proposed, idempotent)),
        .verdict = verdict,
        .writes_max = features_.write_caps && chance_.in(20) ? std::optional(chance_.below(5)) : std::nullopt};
  }

  RunCommand claim(StepIndex step) {
    ClaimStep command{id_of(step), WorkerName{"w" + std::to_string(chance_.below(3))}, false, {}, {}};
    if (features_.write_caps && chance_.in(40)) {
      command.writes = true;
      command.writes_max = chance_.below(3);
    }
    if (features_.bad_inputs && chance_.in(3)) command.input_error = "leads nowhere";
    return command;
  }

  RunCommand decision() {
    std::vector<ApprovalId> open;
    for (const auto& approval : history_.run().approvals)
      if (approval.status == ApprovalStatus::requested) open.push_back(approval.id);
    ResolveApproval command{{}, true, person(), "random"};
    if (open.size() > 1 || chance_.in(20))
      command.approval = open[static_cast<std::size_t>(chance_.below(static_cast<int>(open.size())))];
    if (features_.refusals && chance_.in(10)) command.approve = false;
    return command;
  }

  RunCommand report() {
    auto trigger = static_cast<RunTrigger>(chance_.below(static_cast<int>(enum_count<RunTrigger>)));
    return ReportRun{trigger, Actor{"key:other"}, chance_.in(80) ? some_diagnostic() : nullptr, {}};
  }

  // What no sensible caller would say.
  RunCommand nonsense() {
    switch (chance_.below(7)) {
      case 0:
        return ClaimStep{id_of(static_cast<StepIndex>(chance_.below(99))), WorkerName{"w"}, false, {}, {}};
      case 1:
        return CompleteStep{
            id_of(any_step()), LeaseProof::local(static_cast<std::uint64_t>(chance_.below(9)) + 40), "{}", {}};
      case 2:
        return FailStep{StepId{"no-such-step"}, LeaseProof::local(0), "NONSENSE", "", true, Duration(1h), {}};
      case 3:
        return ResolveApproval{ApprovalId{IdBits{1, 1}}, chance_.in(50), person(), {}};
      case 4:
        return AskQuestion{id_of(any_step()), LeaseProof::local(77), "\"?\""};
      case 5:
        return ReleaseStep{id_of(any_step()), LeaseProof::local(static_cast<std::uint64_t>(chance_.below(9)) + 40)};
      default:
        return report();
    }
  }

  StepIndex any_step() {
    return static_cast<StepIndex>(chance_.below(static_cast<int>(history_.workflow().steps.size())));
  }
  Actor person() { return chance_.in(20) ? asker : Actor{"person:" + std::to_string(chance_.below(3))}; }
  bool any_open_approval() const {
    const auto& approvals = history_.run().approvals;
    return std::any_of(approvals.begin(), approvals.end(),
                       [](const Approval& each) { return each.status == ApprovalStatus::requested; });
  }
  void tell(const Commit& commit) {
    for (const auto& name : commit.names()) told_ += " " + name;
    if (commit.refusal) told_ += " refused: " + std::string(to_string(commit.refusal->code));
    told_ += "\n";
  }

  Chance& chance_;
  const Features& features_;
  History& history_;
  std::string told_;
};

// Which rows of a document some history has shown; a generator that never gets anywhere would prove nothing.
struct Coverage {
  std::set<std::pair<std::string_view, std::string_view>> run, step;
};

void check_words(const Document& document, const Seen& before, const Seen& after, const Commit& commit,
                 Coverage& coverage) {
  EXPECT_TRUE(may_show(document.run, document.run_in_one_commit, before.run, after.run))
      << "run: " << before.run << " -> " << after.run;
  coverage.run.insert({before.run, after.run});
  for (std::size_t i = 0; i < after.steps.size() && !document.step.empty(); ++i) {
    EXPECT_TRUE(may_show(document.step, document.step_in_one_commit, before.steps[i], after.steps[i]))
        << "step " << i << ": " << before.steps[i] << " -> " << after.steps[i];
    bool moved = before.steps[i] != after.steps[i] || commit.names() == Names{"step.reclaimed"};
    if (moved) coverage.step.insert({before.steps[i], after.steps[i]});
  }
}

// Contract v1 counts transitions, not commits: each is one event, and each is in the table.
void check_transitions(RunStatus before, const Commit& commit, RunStatus after, Coverage& coverage) {
  std::string_view status = to_string(before);
  for (const auto& event : commit.events)
    if (const auto* moved = std::get_if<RunMoved>(&event.payload)) {
      std::string_view to;
      for (const auto& row : run_table)
        if (row.trigger == moved->trigger) to = to_string(row.to);
      EXPECT_TRUE(has_edge(contract_v1_words.run, status, to)) << status << " -> " << to;
      coverage.run.insert({status, to});
      status = to;
    }
  EXPECT_EQ(status, to_string(after)) << "a status changed without an event";
}

void check_steps(const pawl::Run& run) {
  for (StepIndex i = 0; i < run.steps.size(); ++i) {
    const Step& step = run.steps[i];
    const StepDefinition& definition = run.definition(i);
    EXPECT_TRUE(step.attempts >= 0 && step.attempts <= definition.retry.max_attempts);
    EXPECT_TRUE(!definition.is_gate() || step.lease_token == 0) << "a worker had a gate";
    EXPECT_TRUE(step.status != StepStatus::failed_retryable || step.next_eligible_at <= run.deadline());
    bool began = step.lease_token > 0 || step.status == StepStatus::ready;
    for (StepIndex need : definition.needs)
      EXPECT_TRUE(!began || run.steps[need].status == StepStatus::succeeded) << "ran before what it needs";
  }
}

void check_invariants(const pawl::Run& before, const pawl::Run& run, const Commit& commit) {
  check_steps(run);
  EXPECT_TRUE(!is_terminal(before.status) || commit.events.empty()) << "something followed the end";
  EXPECT_TRUE(!ended_badly(run.status) || run.diagnostic);
  EXPECT_TRUE(!run.budget || run.cost <= *run.budget || is_terminal(run.status));
  auto all = [&](auto&& holds) { return std::all_of(run.steps.begin(), run.steps.end(), holds); };
  bool native = run.provider == Provider::native;
  if (native) {
    bool all_succeeded = all([](const Step& step) { return step.status == StepStatus::succeeded; });
    EXPECT_EQ(run.status == RunStatus::success, all_succeeded);
    bool none_active = all([](const Step& step) { return !is_active(step.status); });
    bool begun = run.status == RunStatus::running || run.status == RunStatus::waiting;
    EXPECT_TRUE(!begun || (run.status == RunStatus::waiting) == none_active);
  }
  bool open = std::any_of(run.approvals.begin(), run.approvals.end(),
                          [](const Approval& each) { return each.status == ApprovalStatus::requested; });
  if (is_terminal(run.status)) {
    EXPECT_TRUE(all([](const Step& step) { return is_terminal(step.status); }));
    EXPECT_FALSE(open) << "an approval outlived its run";
    EXPECT_EQ(next_due(run), end_of_time);
  }
}

constexpr int acts_max = 70;

// An invariant that breaks stops the process; the seed must be told even then.
std::uint64_t seed_on_trial = 0;
void tell_seed(int) {
  std::fprintf(stderr, "replay with PAWL_SEED=%llu\n", static_cast<unsigned long long>(seed_on_trial));
}

void try_history(const Document& document, const Features& features, std::uint64_t seed, Coverage& coverage) {
  seed_on_trial = seed;
  Chance chance(seed);
  History history = random_workflow(chance, features).create();
  Driver driver(chance, features, history);
  for (int i = 0; i < acts_max; ++i) {
    pawl::Run before = history.run();
    driver.act();
    const pawl::Run& after = history.run();
    if (document.vocabulary == Vocabulary::contract_v1)
      check_transitions(before.status, history.last(), after.status, coverage);
    else
      check_words(document, seen(before, document.vocabulary), seen(after, document.vocabulary), history.last(),
                  coverage);
    check_invariants(before, after, history.last());
    if (::testing::Test::HasFailure()) break;
    if (is_terminal(before.status) && chance.in(50)) break;  // a few more acts on the ended run, then enough
  }
  EXPECT_TRUE(same_fold(history.run(), history.refolded()));
  if (::testing::Test::HasFailure())
    ADD_FAILURE() << "replay with PAWL_SEED=" << seed << " and this test as --gtest_filter; it went\n" << driver.told();
}

std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

Coverage try_histories(const Document& document, const Features& features) {
  Coverage coverage;
  std::signal(SIGABRT, tell_seed);
  std::uint64_t seed = number_from("PAWL_SEED", 0);
  if (seed != 0) {
    try_history(document, features, seed, coverage);
    return coverage;
  }
  std::uint64_t count = number_from("PAWL_HISTORIES", 4000);
  for (seed = 1; seed <= count && !::testing::Test::HasFailure(); ++seed)
    try_history(document, features, seed, coverage);
  return coverage;
}

template <class Edges, class Shown>
void expect_shown(const Edges& edges, const Shown& shown, std::string_view except_from = "",
                  std::string_view except_to = "") {
  if (::testing::Test::HasFailure() || std::getenv("PAWL_SEED")) return;
  for (const auto& edge : edges)
    EXPECT_TRUE(shown.contains({edge.from, edge.to}) || (edge.from == except_from && edge.to == except_to))
        << "never seen: " << edge.from << " -> " << edge.to;
}

TEST(RandomHistories, are_legal_in_the_words_of_the_state_machine_document) {
  auto coverage = try_histories(state_machine_words, {.gates = true, .timers = true});
  // A waiting run fails at once only by a rejection, an expiry or a deadline, none of which this document knows.
  expect_shown(state_machine_words.run, coverage.run, "WAITING_APPROVAL", "FAILED");
  expect_shown(state_machine_words.run_in_one_commit, coverage.run);
  expect_shown(state_machine_words.step, coverage.step);
}

TEST(RandomHistories, are_legal_in_the_words_of_the_runtime_document) {
  auto coverage = try_histories(
      runtime_words,
      {.dags = true, .timers = true, .actions = true, .refusals = true, .deadlines = true, .write_caps = true});
  expect_shown(runtime_words.run, coverage.run);
  expect_shown(runtime_words.run_in_one_commit, coverage.run);
  expect_shown(runtime_words.step, coverage.step);
  expect_shown(runtime_words.step_in_one_commit, coverage.step);
}

TEST(RandomHistories, are_legal_by_contract_v1) {
  auto coverage = try_histories(contract_v1_words, {.dags = true,
                                                    .gates = true,
                                                    .timers = true,
                                                    .actions = true,
                                                    .refusals = true,
                                                    .questions = true,
                                                    .deadlines = true,
                                                    .budgets = true,
                                                    .write_caps = true,
                                                    .bad_inputs = true,
                                                    .reports = true,
                                                    .clock_jumps = true});
  expect_shown(contract_v1_words.run, coverage.run);
}

}  // namespace
}  // namespace pawl::tests
