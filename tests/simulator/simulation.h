// One simulation: a virtual clock, a disk that can lose power, the real engine on the real store, people who want
// things, workers who do them more or less well. All of it is drawn from one seed.
//
// Where the journal is (ground.h) makes no difference to what people and workers do. On a database that several servers
// could write to, what must happen at once on a disk may take the engine a look around, so there it is only checked
// that it happens in the end.
//
// A simulation drives the engine as Runtime does, without threads: commands, advance, take a turn; later commit some of
// the turns that were taken, and release them. Between any two of these the process may die.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/losses.h"
#include "simulator/actions.h"
#include "simulator/checker.h"
#include "simulator/dice.h"
#include "simulator/failure.h"
#include "simulator/ground.h"
#include "simulator/sim_worker.h"
#include "simulator/trace.h"

namespace pawl::simulator {

inline constexpr Instant beginning{1'800'000'000'000};

class VirtualClock : public Clock {
 public:
  Instant now() const override { return now_; }
  void pass(Duration span) { now_ = now_ + span; }

 private:
  Instant now_ = beginning;
};

class Simulation {
 public:
  Simulation(std::uint64_t seed, const MakeGround& make_ground, bool keep_lines);
  ~Simulation();

  // The whole history. Throws Broken.
  void run();

  const Trace& trace() const { return trace_; }
  int steps_done() const { return step_; }

 private:
  // How this simulation is inclined, in percent where not said otherwise.
  struct Habits {
    int steps;
    int pending_max;  // turns taken and not yet committed
    int kill_commit, die_before_commit, die_before_release, kill_recovery, power_loss, bad_disk;
    int long_waits;
    int bad_workers, foreign, change_limits, restrict, publish, external;
    int governed;       // attempts that go through the gate
    int change_policy;  // per mille, like what changes people
    int tasks;
  };
  struct Person {
    TenantId tenant;
    Actor actor;
  };

  static Habits draw_habits(Dice& dice);

  // The process (simulation.cc).
  void open();
  void lose_process();
  void set_up();
  void one_step();
  void pass_time();
  void pass_time(Duration span);
  void take_turn();
  void commit(std::size_t count);
  void commit_shared();
  void learn_runs();
  void recover(std::size_t in_doubt);
  void read_journal(const TakenTurn& taken);
  // A request comes in.
  Engine& asked();
  void release(TakenTurn& taken);
  void arm_a_fault();
  void die(std::size_t in_doubt);
  void settle_down();
  bool serve_everyone();
  void check_fairness();
  void check_everything();
  void inspect_everything();
  void stop_in_order();
  void flush();
  template <class Line>
  void note(Line&& line);

  // What people do (people.cc).
  void create_run();
  void resolve_approval();
  void cancel_run();
  void retry_run();
  void answer_question();
  void report_external();
  void change_limits();
  void restrict_tenant();
  void lift_restrictions();
  bool is_frozen(TenantId tenant, const std::string& connector) const;
  void publish(TenantId tenant, const std::string& name);
  void meddle();
  const RunModel* any_run();
  Actor anyone();
  // Somebody of the tenant, by whatever key or account they speak.
  Actor any_identity(TenantId tenant);
  Actor any_requester(const RunModel& run);
  RunCommand any_command_on(const RunModel& run);

  // What becomes of tasks (tasks.cc).
  void attend_to_tasks();
  void create_task();
  void command_task();
  void follow_task(const TaskModel& task);
  bool serve_tasks();
  const TaskModel* any_task(std::optional<TenantId> tenant = {});

  // What workers do (workers.cc).
  void make_workers();
  // In-process workers are called by their server's number, where it has one.
  void name_workers();
  void register_worker(SimWorker& worker);
  void remove_worker(SimWorker& worker);
  void offer(SimWorker& worker, int slots);
  void work();
  void do_well(SimWorker& worker, Held& held);
  void do_badly(SimWorker& worker, Held& held);
  // `with_effect`: it says what became of its call in the same report.
  void send(const Held& held, StepOutcome outcome, std::uint64_t token, bool with_effect = false);
  void complete(Held& held);
  void release_lease(Held& held);
  void heartbeat(Held& held);
  Held take_lease(SimWorker& worker, Lease lease);
  LeaseProof proof_of(const Lease& lease, std::uint64_t number) const;

  // What those who mean harm do (hostile.cc): workers with other workers' tokens, agents that forge, and what is
  // undone.
  void make_remote_workers();
  void poll(SimWorker& worker, int max);
  void do_harm();
  void use_foreign_token(const Lease& lease);
  void report_on_local_lease(const Lease& lease);
  void report_as_program(Held& held);
  void act_as_program(Held& held);
  void lower_risk(const Lease& lease);
  void plan_undos();
  void check_undos(const Run& run) const;
  void report_all(const Lease& lease, const LeaseProof& proof, const char* who);
  std::shared_ptr<const Action> hostile_undo() const;

  // What goes through the gate (effects.cc).
  void introduce_people(TenantId tenant);
  void change_people(TenantId tenant);
  void change_policy(TenantId tenant);
  // The next thing to do about the effects that the attempt wants; false when there is nothing left but to complete.
  bool pursue_effect(SimWorker& worker, Held& held);
  void propose(SimWorker& worker, Held& held, std::optional<bool> happened = {});
  void take_gate_answer(SimWorker& worker, const Lease& lease, const std::shared_ptr<const Proposal>& proposal,
                        const std::expected<GateAnswer, Refusal>& answer);
  void look(SimWorker& worker, Held& held);
  void call_target(Held& held);
  EffectOutcome outcome_of(const Held& held) const;
  void record_outcome(SimWorker& worker, Held& held);
  static Held* find_held(SimWorker& worker, RunId run, const StepId& step, std::uint64_t token);
  void act_badly(SimWorker& worker, Held& held);
  // Somebody was allowed to, and still may.
  bool may_still_call(ReceiptId receipt) const;
  bool answer_doubt(const RunModel& run, StepIndex step);
  void settle_receipt();
  void reverse_receipt();
  const RunModel* any_run_with(ReceiptStatus status, ReceiptId& receipt);

  // Wraps a check into a reply that must come when its turn is released, once.
  template <class T, class Check>
  Reply<T> expect(Check check);
  // One server alone answers a heartbeat at once.
  template <class Check>
  Reply<Instant> expect_heartbeat(Check check) {
    if (ground_->is_shared()) return expect<Instant>(std::move(check));
    return [check = std::move(check)](std::expected<Instant, Refusal> until) { check(until); };
  }
  void check_answer(TenantId tenant, const RunAnswer& answer, const char* to);

  Dice dice_;
  Trace trace_;
  Habits habits_;
  ToolCatalog tools_;
  VirtualClock clock_;
  std::unique_ptr<Ground> ground_;
  EngineLimits limits_;
  Target target_;
  Checker checker_;
  std::vector<std::unique_ptr<SimWorker>> workers_;

  // The process; gone between its death and the next open().
  std::unique_ptr<Store> store_;
  std::unique_ptr<Random> engine_random_;
  std::unique_ptr<Engine> engine_;
  std::deque<TakenTurn> pending_;
  Losses losses_;
  Position durable_ = 0;

  bool faults_ = true;
  bool winding_down_ = false;
  bool releasing_ = false;
  std::uint64_t releasing_turn_ = 0;
  int replies_owed_ = 0;  // by the turn that is being filled; on a shared ground by all of them
  int replies_released_ = 0;
  std::uint64_t turn_number_ = 0;
  std::uint64_t lifts_ = 0;  // freezes that somebody lifted
  int step_ = 0;
  std::uint64_t reports_made_ = 0;
  std::vector<TenantId> tenants_;
  std::map<TenantId, std::map<std::string, std::string>> published_;  // name -> source
  std::vector<RunId> run_ids_;
  std::map<std::tuple<RunId, StepId, std::uint64_t>, LeaseProof> granted_;

  // Those who mean harm draw from a seed of their own, so that all others do what they would do without them.
  Dice hostile_dice_;
  const bool hostile_;
  Random token_random_;
  std::map<TenantId, std::vector<KeyId>> keys_;
};

template <class Line>
void Simulation::note(Line&& line) {
  trace_.note([&] { return std::to_string(step_) + " " + print_time(clock_.now()).substr(11) + " " + line(); });
}

template <class T, class Check>
Reply<T> Simulation::expect(Check check) {
  ++replies_owed_;
  return [this, check = std::move(check)](std::expected<T, Refusal> answer) mutable {
    demand(releasing_, "no answer before the commit is durable",
           "an answer came while its turn was not being released");
    ground_->is_shared() ? --replies_owed_ : ++replies_released_;
    check(answer);
  };
}

}  // namespace pawl::simulator
