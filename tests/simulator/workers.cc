// What workers do: complete, fail, ask, stall, answer twice, answer late, vanish.
#include <algorithm>
#include <array>

#include "crypto/sha256.h"
#include "simulator/failure.h"
#include "simulator/simulation.h"
#include "store/shared_store.h"

namespace pawl::simulator {

void Simulation::make_workers() {
  auto add = [&](std::string name, std::vector<ToolName> tools) {
    workers_.push_back(std::make_unique<SimWorker>(
        WorkerName{std::move(name)}, std::move(tools),
        [this](SimWorker& worker, Lease lease) { return take_lease(worker, std::move(lease)); }));
  };
  add("w1", {{"read"}, {"write"}, {"fetch"}});
  // One that would do anything, if it were let.
  add("w2", {{"fetch"}, {"approval"}, {"write"}, {"read"}});
  if (dice_.percent(50)) add("w3", {{"read"}});
  if (dice_.percent(60)) add("local/1", {{"write"}, {"read"}, {"fetch"}});
  if (dice_.percent(20)) add("local/2", {{"read"}, {"fetch"}});
}

void Simulation::name_workers() {
  SharedStore* shared = store_->shared();
  if (!shared) return;
  int number = 0;
  for (auto& worker : workers_)
    if (worker->is_local())
      worker->name.text =
          std::string(local_worker_prefix) + std::to_string(shared->server_number()) + "/" + std::to_string(++number);
}

void Simulation::register_worker(SimWorker& worker) {
  note([&] { return worker.name.text + " comes"; });
  if (!worker.key) engine_->add_worker(worker.name, worker.tools, worker);
  worker.registered = true;
  worker.since_turn = turn_number_;
  worker.slots = 0;
  if (dice_.percent(70)) offer(worker, dice_.between(1, 4));
}

void Simulation::remove_worker(SimWorker& worker) {
  note([&] { return worker.name.text + " leaves"; });
  if (worker.key) {  // nobody knows that but itself
    worker.registered = false;
    return worker.drop_everything();
  }
  engine_->remove_worker(worker.name);
  worker.registered = false;
  worker.slots = 0;
  worker.drop_everything();
  checker_.worker_removed(worker.name, clock_.now(), turn_number_);
}

void Simulation::offer(SimWorker& worker, int slots) {
  if (worker.key) return poll(worker, slots);
  worker.slots += slots;
  engine_->offer({worker.name, slots});
}

// A lease reaches its worker: nobody else may still count on one for the same step.
Held Simulation::take_lease(SimWorker& worker, Lease lease) {
  Instant now = clock_.now();
  auto what = [&] {
    return lease.run.str() + " " + lease.step.text + " token " + std::to_string(lease.token) + " to " +
           worker.name.text;
  };
  note([&] { return "grant " + what(); });
  demand(releasing_, "no grant before its claim is durable", what);
  // Whoever left before it came does not work on it, even when back by now.
  bool too_late = !worker.registered || releasing_turn_ <= worker.since_turn;
  if (ground_->is_shared() && !too_late && !worker.key)
    demand(--worker.slots >= 0, "a worker is given no more than it offered", worker.name.text);
  demand(granted_.insert({{lease.run, lease.step, lease.token}, lease.proof()}).second, "a lease is granted once",
         what);
  demand(std::ranges::find(worker.tools, lease.tool) != worker.tools.end(), "a worker is given what it can do", what);
  for (auto& other : workers_)
    for (const Held& held : other->held)
      demand(held.lease.run != lease.run || held.lease.step != lease.step || !held.is_live(now) || held.awaits_gate(),
             "one live lease a step", [&] {
               return what() + " while " + other->name.text + " holds token " + std::to_string(held.lease.token);
             });
  const RunModel& run = *checker_.find(lease.run);
  const StepDefinition& definition = run.definition(*run.find_step(lease.step));
  Instant ends_by = lease.expires_at - definition.lease + lease.timeout;
  Instant until = worker.is_local() ? end_of_time : lease.expires_at;
  int chance = lease.tool.text == "read" ? habits_.governed / 10 : habits_.governed;
  int effects = !dice_.percent(chance) ? 0 : dice_.percent(80) ? 1 : 2;
  return {
      .lease = std::move(lease), .until = until, .ends_by = ends_by, .revoked = too_late, .effects_wanted = effects};
}

void Simulation::work() {
  SimWorker& worker = *dice_.one_of(workers_);
  if (worker.held.size() > 12) worker.held.erase(worker.held.begin());
  if (worker.held.empty()) {
    if (worker.registered && dice_.percent(50)) offer(worker, 1);
    return;
  }
  // The latest are the likeliest to be live.
  auto back = dice_.below(std::min<std::size_t>(worker.held.size(), 3));
  Held& held = worker.held[worker.held.size() - 1 - back];
  if (dice_.percent(habits_.bad_workers))
    do_badly(worker, held);
  else
    do_well(worker, held);
  if (worker.registered && dice_.percent(70)) offer(worker, 1);
}

void Simulation::do_well(SimWorker& worker, Held& held) {
  if (held.revoked || held.reported || pursue_effect(worker, held)) return;
  complete(held);
}

void Simulation::complete(Held& held) {
  held.reported = true;
  send(held,
       Completed{.output = "{\"n\":" + std::to_string(++reports_made_) +
                           ",\"token\":" + std::to_string(held.lease.token) + "}",
                 .cost = Money{dice_.between(0, 8000)}},
       held.lease.token, held.effect && held.effect->stage == Pending::Stage::called);
}

void Simulation::release_lease(Held& held) {
  held.reported = true;
  send(held, Released{}, held.lease.token);
}

void Simulation::send(const Held& held, StepOutcome outcome, std::uint64_t token, bool with_effect) {
  const Lease& lease = held.lease;
  static constexpr std::array verbs{"complete", "fail", "release"};
  const char* verb = verbs[outcome.index()];
  bool completes = std::holds_alternative<Completed>(outcome);
  note([&] {
    return std::string(verb) + " " + lease.run.str() + " " + lease.step.text + " token " + std::to_string(token);
  });
  auto next = granted_.upper_bound({lease.run, lease.step, token});
  bool surely_stale =
      next != granted_.end() && std::get<0>(next->first) == lease.run && std::get<1>(next->first) == lease.step;
  StepReport report{lease.tenant, lease.run, lease.step, proof_of(lease, token), std::move(outcome)};
  if (with_effect) report.effect = outcome_of(held);
  bool owes = completes && (held.forgot_effect || token != lease.token || (held.effect && !with_effect));
  if (dice_.percent(20)) return asked().request(ReportStep{report});
  asked().request(
      ReportStep{report}, expect<RunAnswer>([this, completes, surely_stale, owes, tenant = lease.tenant,
                                             run = lease.run, step = lease.step](const auto& answer) {
        if (!answer) {
          bool told = answer.error().code == RefusalCode::outcome_missing && owes;
          demand(told || answer.error().code == RefusalCode::lease_lost, "a report that is late is told so",
                 run.str() + ": " + answer.error().message);
          return;
        }
        demand(!surely_stale, "a stale token changes nothing",
               "a report on " + run.str() + " " + step.text + " was taken though a later token had been given out");
        check_answer(tenant, *answer, "report on");
        const RunModel& model = *checker_.find(run);
        const StepModel& state = model.steps[*model.find_step(step)];
        demand(!completes || state.status == StepStatus::succeeded || state.status == StepStatus::failed_terminal,
               "a completion that is accepted stands", run.str() + " " + step.text);
      }));
}

// What the worker shows for the attempt of this number: its own, or as it would make one up.
LeaseProof Simulation::proof_of(const Lease& lease, std::uint64_t number) const {
  if (number == lease.token) return lease.proof();
  if (!lease.holder) return LeaseProof::local(number);
  auto other = granted_.find({lease.run, lease.step, number});
  const bool is_known = other != granted_.end() && other->second.bearer() == LeaseProof::Bearer::remote;
  return LeaseProof::remote(
      {lease.holder->key, is_known ? other->second.holder().token_digest : sha256(std::to_string(number))});
}

void Simulation::heartbeat(Held& held) {
  const Lease& lease = held.lease;
  const RunModel& run = *checker_.find(lease.run);
  const Instant at_least = clock_.now() + run.definition(*run.find_step(lease.step)).lease;
  // It may be durable, and its answer lost with the process.
  if (ground_->is_shared()) checker_.lease_extended(lease.run, lease.step, lease.token, at_least, false);
  asked().request(
      Heartbeat{lease.tenant, lease.run, lease.step, lease.proof()},
      expect_heartbeat([this, id = lease.run, step = lease.step, token = lease.token, at_least](const auto& until) {
        note([&] { return "heartbeat " + id.str() + " " + step.text + (until ? "" : " (lost)"); });
        if (!until) return;
        demand(*until >= at_least, "a heartbeat extends the lease by its term", id.str() + " " + step.text);
        for (auto& worker : workers_)
          for (Held& one : worker->held)
            if (one.lease.run == id && one.lease.step == step && one.lease.token == token)
              one.until = std::max(one.until, *until);
        checker_.lease_extended(id, step, token, *until, true);
      }));
}

void Simulation::do_badly(SimWorker& worker, Held& held) {
  const Lease& lease = held.lease;
  std::string token = "token " + std::to_string(lease.token);
  switch (dice_.below(17)) {
    case 12:
    case 13:
    case 14:
      return act_badly(worker, held);
    case 0:
    case 1:
      held.reported = true;
      return send(held,
                  Failed{"SIMULATED", token, true,
                         dice_.percent(20) ? std::optional(dice_.between(Duration(0), Duration(30'000))) : std::nullopt,
                         Money{dice_.between(0, 8000)}},
                  lease.token);
    case 2:
      held.reported = true;
      return send(held, Failed{"SIMULATED", token, false, {}, Money{dice_.between(0, 8000)}}, lease.token);
    case 3:  // again, or late: whatever it holds, it answers
      return send(held, Completed{"{\"token\":" + std::to_string(lease.token) + "}", {}}, lease.token);
    case 4: {  // with a token that is not its own
      std::uint64_t wrong = lease.token + static_cast<std::uint64_t>(dice_.between(-1, 1));
      if (wrong == lease.token) ++wrong;
      return send(held, Completed{"{\"token\":" + std::to_string(wrong) + "}", {}}, wrong);
    }
    case 5:
    case 6:
      return heartbeat(held);
    case 7: {  // a question
      note([&] { return "ask " + lease.run.str() + " " + lease.step.text; });
      held.reported = true;
      return asked().request(RunRequest{lease.tenant, lease.run, AskQuestion{lease.step, lease.proof(), "\"may I?\""}},
                             expect<RunAnswer>([this, tenant = lease.tenant](const auto& answer) {
                               if (answer) check_answer(tenant, *answer, "question of");
                             }));
    }
    case 8: {  // for another tenant
      Held foreign = held;
      foreign.lease.tenant = dice_.one_of(tenants_);
      if (foreign.lease.tenant == lease.tenant) return;
      asked().request(
          Heartbeat{foreign.lease.tenant, lease.run, lease.step, lease.proof()},
          expect_heartbeat([](const auto& until) { demand(!until, "no tenant sees another's", "a heartbeat"); }));
      StepReport report{foreign.lease.tenant, lease.run, lease.step, lease.proof(), Completed{}};
      return asked().request(ReportStep{report}, expect<RunAnswer>([](const auto& answer) {
                               demand(!answer, "no tenant sees another's", "a report was accepted");
                             }));
    }
    case 15:
    case 16: {  // what it has spent so far, now and then under the lease before its own
      std::uint64_t under = lease.token - (dice_.percent(10) ? 1 : 0);
      Money cost{dice_.between(0, 4000)};
      note([&] { return "charge " + lease.run.str() + " " + lease.step.text + " " + print_money(cost); });
      return asked().request(
          RunRequest{lease.tenant, lease.run, ChargeStep{lease.step, proof_of(lease, under), cost}},
          expect<RunAnswer>([this, tenant = lease.tenant, is_own = under == lease.token](const auto& answer) {
            demand(is_own || !answer, "a stale token changes nothing", "a charge was taken");
            if (answer) check_answer(tenant, *answer, "charge of");
          }));
    }
    case 9:  // it stops, and gives back what it has begun
      return release_lease(held);
    case 10:  // gives back what belongs to whoever came after it, or before
      return send(held, Released{}, lease.token - 1);
    default:  // it is never heard of again
      std::erase_if(worker.held, [&](const Held& one) { return &one == &held; });
  }
}

}  // namespace pawl::simulator
