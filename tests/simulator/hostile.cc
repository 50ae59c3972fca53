// Those who mean harm: workers that use other workers' tokens and other workers' leases, agents that report in place of
// their step and record forged outcomes and undos, workers that say less than the risk is. None of it may change
// anything; what the journal says of reporters is checked in run_model.cc.
#include <algorithm>

#include "core/undo.h"
#include "crypto/sha256.h"
#include "simulator/failure.h"
#include "simulator/simulation.h"
#include "yaml/yaml.h"

namespace pawl::simulator {
namespace {

constexpr const char* undo_fields = R"({"command":"curl ${{ secrets.KEY }}","note":"$${{ input.about }}"})";

template <class Answer>
bool is_lost(const Answer& answer) {
  return !answer && answer.error().code == RefusalCode::lease_lost;
}

}  // namespace

void Simulation::make_remote_workers() {
  for (int i = 1; i <= 2; ++i) {
    workers_.push_back(std::make_unique<SimWorker>(
        WorkerName{"remote-" + std::to_string(i)}, std::vector<ToolName>{{"read"}, {"write"}, {"fetch"}},
        [this](SimWorker& worker, Lease lease) { return take_lease(worker, std::move(lease)); }));
    workers_.back()->key = KeyId{{100, static_cast<std::uint64_t>(i)}};
  }
}

void Simulation::poll(SimWorker& worker, int max) {
  engine_->poll({.tenant = hostile_dice_.one_of(tenants_),
                 .key = *worker.key,
                 .worker = worker.name,
                 .tools = worker.tools,
                 .max = max,
                 .wait = Duration(0),
                 .is_wanted = {},
                 .reply = [&worker](std::vector<Lease> leases) { worker.grant(std::move(leases)); }});
}

void Simulation::do_harm() {
  SimWorker& worker = *hostile_dice_.one_of(workers_);
  if (worker.key && worker.registered && hostile_dice_.percent(40)) return poll(worker, 2);
  if (hostile_dice_.percent(15)) return plan_undos();
  if (worker.held.empty()) return;
  Held& held = worker.held[worker.held.size() - 1 - hostile_dice_.below(std::min<std::size_t>(worker.held.size(), 3))];
  if (hostile_dice_.percent(20)) return lower_risk(held.lease);
  if (held.lease.holder) return use_foreign_token(held.lease);
  switch (hostile_dice_.below(3)) {
    case 0:
      return report_on_local_lease(held.lease);
    case 1:
      return report_as_program(held);
    default:
      return act_as_program(held);
  }
}

// The right token, by a key that did not take the lease; and the right key, with a token that it made up.
void Simulation::use_foreign_token(const Lease& lease) {
  RemoteHolder forged = *lease.holder;
  if (hostile_dice_.percent(70))
    forged.key = KeyId{{100, 9}};
  else
    forged.token_digest = sha256(std::to_string(lease.token));
  report_all(lease, LeaseProof::remote(forged), "a foreign token");
}

void Simulation::report_on_local_lease(const Lease& lease) {
  report_all(lease, LeaseProof::remote({KeyId{{100, 1}}, sha256(std::to_string(lease.token))}),
             "a remote report on a lease of a worker in this process");
}

// One of all that can be said of a lease: the answer is that it is lost, and nothing changes.
void Simulation::report_all(const Lease& lease, const LeaseProof& proof, const char* who) {
  const std::string token = "token " + std::to_string(lease.token);
  note([&] { return std::string(who) + " for " + lease.run.str() + " " + lease.step.text + " " + token; });
  auto lost = [who](const auto& answer) { demand(is_lost(answer), "a foreign token changes nothing", who); };
  auto say = [&](StepOutcome outcome) {
    StepReport report{lease.tenant, lease.run, lease.step, proof, std::move(outcome)};
    asked().request(ReportStep{report}, expect<RunAnswer>(lost));
  };
  switch (hostile_dice_.below(8)) {
    case 0:
      return say(Completed{"{\"token\":" + std::to_string(lease.token) + "}", {}});
    case 1:
      return say(Failed{"SIMULATED", token, false, {}, {}});
    case 2:
      return say(Released{});
    case 3:
      return say(Asked{"\"may I?\""});
    case 4:
      return asked().request(RunRequest{lease.tenant, lease.run, ChargeStep{lease.step, proof, Money{1000}}},
                             expect<RunAnswer>(lost));
    case 5: {
      // Of whatever call of the step is open, when there is one.
      const RunModel* run = checker_.find(lease.run);
      ReceiptId receipt{{hostile_dice_.next(), 1}};
      for (const ReceiptModel& one : run->receipts)
        if (run->definition(one.step).id == lease.step) receipt = one.id;
      return asked().request(
          RunRequest{lease.tenant, lease.run,
                     outcome_command(lease.step, proof,
                                     {.receipt = receipt, .response = "{\"forged\":true}", .undo = hostile_undo()})},
          expect<RunAnswer>(lost));
    }
    case 6: {
      auto proposal = std::make_shared<Proposal>();
      proposal->action = draw_action(hostile_dice_, lease);
      proposal->action.risk = Tier::high;
      proposal->digest = digest_of(sha256, proposal->action);
      return asked().request(
          ProposeEffect{.tenant = lease.tenant,
                        .run = lease.run,
                        .step = lease.step,
                        .proof = proof,
                        .proposal = std::move(proposal),
                        .verdict = {.effect = Effect::allow,
                                    .policy_version = engine_->find_tenant(lease.tenant)->policy.version}},
          expect<GateAnswer>(lost));
    }
    default:
      asked().request(Heartbeat{lease.tenant, lease.run, lease.step, proof}, expect_heartbeat([](const auto& until) {
                        demand(!until, "a foreign token changes nothing", "a heartbeat was taken");
                      }));
  }
}

// ---- Agents: programs that a worker in this process runs

// Ends its step itself, or records what became of what its step's tool does.
void Simulation::report_as_program(Held& held) {
  const Lease& lease = held.lease;
  const auto proof = LeaseProof::program(lease.token);
  note([&] { return "an agent reports for " + lease.run.str() + " " + lease.step.text; });
  auto lost = [](const auto& answer) { demand(is_lost(answer), "an agent does not end its step", "it was taken"); };
  if (held.effect && held.effect->stage != Pending::Stage::asked && hostile_dice_.percent(60)) {
    EffectOutcome forged{.receipt = held.effect->receipt,
                         .succeeded = hostile_dice_.percent(50),
                         .response = "{\"forged\":true}",
                         .undo = hostile_undo()};
    return asked().request(RunRequest{lease.tenant, lease.run, outcome_command(lease.step, proof, forged)},
                           expect<RunAnswer>([](const auto& answer) {
                             demand(!answer, "an agent does not answer for its step's tool", "it was taken");
                           }));
  }
  auto say = [&](StepOutcome outcome) {
    StepReport report{lease.tenant, lease.run, lease.step, proof, std::move(outcome)};
    asked().request(ReportStep{report}, expect<RunAnswer>(lost));
  };
  switch (hostile_dice_.below(5)) {
    case 0:
      return say(Completed{"{\"token\":" + std::to_string(lease.token) + "}", {}});
    case 1:
      return say(Failed{"SIMULATED", "token " + std::to_string(lease.token), false, {}, {}});
    case 2:
      return say(Released{});
    case 3:
      return asked().request(RunRequest{lease.tenant, lease.run, ChargeStep{lease.step, proof, Money{1000}}},
                             expect<RunAnswer>(lost));
    default:
      asked().request(Heartbeat{lease.tenant, lease.run, lease.step, proof}, expect_heartbeat([](const auto& until) {
                        demand(!until, "an agent does not end its step", "a heartbeat was taken");
                      }));
  }
}

// What it may do: an effect of its own. It says how to undo it, and that is for people to read.
void Simulation::act_as_program(Held& held) {
  const Lease& lease = held.lease;
  if (!held.is_live(clock_.now()) || held.awaits_gate()) return;
  Action action{.connector = "desk",
                .operation = "post",
                .target = "desk/9",
                .fields = R"({"value":9})",
                .risk = std::max(lease.risk, Tier::low),
                .idempotency_key = lease.idempotency_key + "/agent" + std::to_string(hostile_dice_.below(1000))};
  // Or exactly what another step means, so that its success would answer for that step.
  if (Action meant = draw_action(hostile_dice_, lease); meant.idempotency_key.starts_with("shared-")) {
    meant.risk = std::max(meant.risk, lease.risk);
    action = std::move(meant);
  }
  auto proposal = std::make_shared<Proposal>();
  proposal->digest = digest_of(sha256, action);
  proposal->action = action;
  const Tenant::Policy& policy = engine_->find_tenant(lease.tenant)->policy;
  Verdict verdict = judge(policy_number(policy.source), policy.version, action);
  if (verdict.effect != Effect::allow) return;
  held.forgot_effect = true;  // the worker cannot say what its agent has under way
  const auto proof = LeaseProof::program(lease.token);
  note([&] { return "an agent proposes for " + lease.run.str() + " " + lease.step.text; });
  asked().request(
      ProposeEffect{.tenant = lease.tenant,
                    .run = lease.run,
                    .step = lease.step,
                    .proof = proof,
                    .proposal = proposal,
                    .verdict = verdict},
      expect<GateAnswer>([this, lease, proof, action](const auto& answer) {
        if (!answer || answer->effect != Effect::allow || answer->is_done) return;
        target_.call(lease.tenant, answer->receipt, action, Target::Answer::done);
        asked().request(
            RunRequest{
                lease.tenant, lease.run,
                outcome_command(lease.step, proof,
                                {.receipt = answer->receipt, .response = "{\"ok\":true}", .undo = hostile_undo()})},
            expect<RunAnswer>([](const auto&) {}));
      }));
}

// ---- Risk

void Simulation::lower_risk(const Lease& lease) {
  auto proposal = std::make_shared<Proposal>();
  proposal->action = draw_action(hostile_dice_, lease);
  proposal->action.idempotency_key += "/low" + std::to_string(hostile_dice_.below(1000));
  proposal->action.risk = Tier::low;
  proposal->digest = digest_of(sha256, proposal->action);
  const bool by_policy = lease.risk == Tier::low;  // otherwise the step's own is above it
  Verdict verdict{.effect = Effect::allow, .policy_version = engine_->find_tenant(lease.tenant)->policy.version};
  if (by_policy) verdict.risk = Tier::med;
  note([&] { return "a lower risk for " + lease.run.str() + " " + lease.step.text; });
  asked().request(ProposeEffect{.tenant = lease.tenant,
                                .run = lease.run,
                                .step = lease.step,
                                .proof = lease.proof(),
                                .proposal = std::move(proposal),
                                .verdict = verdict},
                  expect<GateAnswer>([](const auto& answer) {
                    demand(!answer, "a worker's word does not lower a risk", "it was taken");
                  }));
}

// ---- Undo

std::shared_ptr<const Action> Simulation::hostile_undo() const {
  return std::make_shared<const Action>(Action{.connector = "shell",
                                               .operation = "run",
                                               .target = "/",
                                               .fields = undo_fields,
                                               .risk = Tier::low,
                                               .idempotency_key = "undo"});
}

void Simulation::plan_undos() {
  ReceiptId receipt;
  const RunModel* run = any_run_with(ReceiptStatus::succeeded, receipt);
  if (!run) return;
  note([&] { return "plan the undo of " + run->id.str(); });
  asked().request(InspectRun{run->tenant, run->id}, expect<std::shared_ptr<const Run>>([this](const auto& found) {
                    if (found) check_undos(**found);
                  }));
}

// A tool of this server is given only what it said itself; what others said is data; and no undo is less risky than
// what it undoes. By the journal's own words, on a server that has the tools and on one that has none of them.
void Simulation::check_undos(const Run& run) const {
  const RunModel& model = *checker_.find(run.id);
  for (const bool has_tools : {true, false}) {
    auto plan = plan_undo(run, {}, has_tools ? tools_ : ToolCatalog(), sha256);
    if (!plan) continue;
    auto workflow = read_workflow(read_yaml(plan->source).value(), nullptr);
    demand(workflow.has_value(), "an undo is a workflow", [&] { return plan->source; });
    for (std::size_t i = 0; i < plan->undoing.size(); ++i) {
      const ReceiptModel* receipt = model.find_receipt(plan->undoing[i]);
      if (!receipt) continue;  // later than what the checker has read
      const StepDefinition& step = workflow->steps[i];
      const StepDefinition& original = run.definition(receipt->step);
      const std::string& by = receipt->by.text;
      auto what = [&] { return receipt->id.str() + " by " + by + ": " + plan->source; };
      demand(by.starts_with(has_tools ? "worker:" : "key:"), "an undo goes to whoever said it", what);
      demand(step.tool == original.tool && step.timeout == original.timeout && step.lease == original.lease,
             "an undo keeps its step's tool and limits", what);
      demand(step.risk >= std::max(original.risk, receipt->proposal->action.risk),
             "an undo is as risky as what it undoes", what);
      demand(has_tools || !step.keeps_expressions, "what comes from outside is data", what);
    }
  }
}

}  // namespace pawl::simulator
