#include "simulator/simulation.h"

#include <algorithm>

#include "simulator/failure.h"
#include "simulator/workflow_maker.h"

namespace pawl::simulator {
namespace {

constexpr int rounds_to_settle = 600;
constexpr int rounds_to_be_answered = 50;

std::string list_events(std::string_view parts) {
  std::string out;
  for_each_part(parts, [&](const StreamPart& part) {
    std::string_view lines = part.lines;
    while (!lines.empty()) {
      auto end = lines.find('\n');
      std::string name = part.key.is_tenant() ? part.key.tenant.str() : RunId{part.key.stream}.str();
      out += "\n      " + name + " " + std::string(lines.substr(0, std::min<std::size_t>(end, 300)));
      lines.remove_prefix(end + 1);
    }
  });
  return out;
}

}  // namespace

Simulation::Habits Simulation::draw_habits(Dice& dice) {
  bool calm = dice.percent(10);
  auto chance = [&](int high) { return calm ? 0 : dice.percent(40) ? 0 : dice.between(1, high); };
  Habits habits{.steps = dice.between(120, 300),
                .pending_max = dice.between(1, 4),
                .kill_commit = chance(8),
                .die_before_commit = chance(6),
                .die_before_release = chance(6),
                .kill_recovery = chance(30),
                .power_loss = dice.one_of({0, 50, 100}),
                .bad_disk = chance(2),
                .long_waits = dice.between(0, 40),
                .bad_workers = dice.between(0, 60),
                .foreign = dice.between(0, 6),
                .change_limits = dice.between(0, 6),
                .restrict = dice.percent(50) ? 0 : dice.between(1, 4),
                .publish = dice.between(0, 2),
                .external = dice.percent(30) ? 10 : 0,
                .governed = dice.percent(25) ? 0 : dice.between(30, 100),
                .change_policy = dice.between(0, 20),
                .tasks = dice.percent(35) ? dice.between(10, 50) : 0};
  // Some simulations are bad ones: what shows only when one loss follows hard upon another is not left to luck alone.
  if (dice.percent(8)) {
    habits.kill_commit = 25;
    habits.kill_recovery = 60;
    habits.power_loss = 50;
  }
  return habits;
}

Simulation::Simulation(std::uint64_t seed, const MakeGround& make_ground, bool keep_lines)
    : dice_(seed * 0x9e3779b97f4a7c15ULL + 1),
      trace_(keep_lines),
      habits_(draw_habits(dice_)),
      tools_(simulated_tools()),
      ground_(make_ground(dice_)),
      checker_(tools_, target_, ground_->is_shared()),
      hostile_dice_(seed * 0xbf58476d1ce4e5b9ULL + 7),
      hostile_(hostile_dice_.percent(30)),
      token_random_(seed) {
  limits_.working_set_bytes_max = dice_.one_of<std::size_t>({0, 1, 10'000, 40'000, 10 << 20});
  limits_.unfolded_bytes_max = dice_.one_of<std::size_t>({0, 500, 3000, 20'000, 1 << 20});
  limits_.timer_horizon = dice_.between(Duration(500), Duration(90'000));
}

Simulation::~Simulation() {
  engine_.reset();
  if (store_) ground_->kill_at(0);  // nothing of it matters any more: no checkpoint on closing
  store_.reset();
}

void Simulation::run() {
  make_workers();
  if (hostile_) make_remote_workers();
  open();
  set_up();
  for (step_ = 1; step_ <= habits_.steps; ++step_) one_step();
  faults_ = false;
  flush();
  check_everything();
  settle_down();
  check_everything();
  if (!ground_->is_shared() && dice_.percent(15)) check_fairness();
  die(0);
  check_everything();
}

// ---- The process

void Simulation::open() {
  for (;;) {
    bool fault = faults_ && dice_.percent(habits_.kill_recovery);
    if (fault) ground_->kill_at(static_cast<std::uint64_t>(dice_.between(1, 12)));
    try {
      store_ = ground_->open();
      engine_random_ = std::make_unique<Random>(dice_.next());
      engine_ = std::make_unique<Engine>(*store_, tools_, clock_, *engine_random_, limits_,
                                         LeaseTokens([this](std::size_t count) {
                                           std::string bytes(count, '\0');
                                           for (char& byte : bytes) byte = static_cast<char>(token_random_.next());
                                           return bytes;
                                         }));
      durable_ = 0;
      engine_->recover();
      ground_->disarm();
      name_workers();
      return;
    } catch (const StoreFailure& failure) {
      demand(fault, "the store fails only with its disk", [&] { return std::string(failure.what()); });
      note([&] { return std::string("killed while it recovers"); });
      engine_.reset();
      store_.reset();
      lose_process();
    }
  }
}

void Simulation::lose_process() {
  bool power = dice_.percent(habits_.power_loss);
  note([&] { return std::string(power ? "power is lost" : "only the process is lost"); });
  ground_->lose_process(power, power ? dice_.next() : 0);
}

Engine& Simulation::asked() {
  engine_->requests_came();
  engine_->begin_round();
  return *engine_;
}

void Simulation::set_up() {
  bool was = std::exchange(faults_, false);
  for (int i = dice_.between(1, 3); i > 0; --i)
    asked().request(
        CreateTenant{i == 1 ? std::string(installation_tenant) : "tenant-" + std::to_string(i), Actor{"admin"}},
        expect<TenantId>([this](const std::expected<TenantId, Refusal>& id) { tenants_.push_back(id.value()); }));
  flush();
  for (TenantId tenant : tenants_) {
    for (int i = dice_.between(1, 2); i > 0; --i) publish(tenant, "w" + std::to_string(i));
    if (habits_.tasks > 0) asked().request(PrepareTasks{tenant, TaskAgent::none});
    if (dice_.percent(50)) change_limits();
    if (habits_.governed > 0 || dice_.percent(30)) introduce_people(tenant);
    if (habits_.governed > 0 && dice_.percent(70)) change_policy(tenant);
  }
  for (auto& worker : workers_)
    if (dice_.percent(80)) register_worker(*worker);
  flush();
  faults_ = was;
}

void Simulation::one_step() {
  if (hostile_ && hostile_dice_.percent(20)) return do_harm();
  int draw = dice_.between(1, 100);
  if (dice_.percent(habits_.foreign)) return meddle();
  if (dice_.percent(habits_.tasks)) return attend_to_tasks();
  if (dice_.percent(habits_.change_limits)) return change_limits();
  if (dice_.percent(habits_.restrict)) return restrict_tenant();
  if (dice_.percent(habits_.publish)) return publish(dice_.one_of(tenants_), "w" + std::to_string(dice_.between(1, 3)));
  if (dice_.percent(habits_.die_before_commit / 3)) return die(0);
  if (dice_.between(1, 1000) <= habits_.change_policy)
    return dice_.percent(70) ? change_policy(dice_.one_of(tenants_)) : change_people(dice_.one_of(tenants_));
  if (draw <= 12 && checker_.runs().size() < 40) return create_run();
  if (draw <= 20) return resolve_approval();
  if (draw <= 22) return cancel_run();
  if (draw <= 24) return retry_run();
  if (draw <= 26)
    return dice_.percent(60) ? answer_question() : dice_.percent(60) ? settle_receipt() : reverse_receipt();
  if (draw <= 27) return report_external();
  if (draw <= 32) return pass_time();
  if (draw <= 62) return work();
  if (draw <= 66) {
    SimWorker& worker = *dice_.one_of(workers_);
    return worker.registered ? dice_.percent(10) ? remove_worker(worker) : offer(worker, dice_.between(1, 3))
                             : register_worker(worker);
  }
  if (draw <= 82 && static_cast<int>(pending_.size()) < habits_.pending_max) return take_turn();
  if (draw <= 97) return commit(1 + dice_.below(std::max<std::size_t>(1, pending_.size())));
  if (draw <= 98) return engine_->fold_all();
  if (draw <= 99) return stop_in_order();
  try {
    store_->tidy();
  } catch (const StoreFailure&) {
    die(0);
  }
}

void Simulation::pass_time() {
  Duration span = dice_.percent(habits_.long_waits)
                      ? dice_.between(Duration(1000), Duration(dice_.percent(10) ? 7'200'000 : 90'000))
                  : dice_.percent(30) ? std::max(Duration(0), engine_->next_wakeup() - clock_.now())
                                      : dice_.between(Duration(0), Duration(2000));
  pass_time(std::min(span, Duration(7'200'000)));
  note([&] { return "time passes by " + print_duration(span); });
}

void Simulation::pass_time(Duration span) {
  clock_.pass(span);
  ground_->set_time(clock_.now());
}

void Simulation::take_turn() {
  engine_->advance();
  TakenTurn taken{.turn = engine_->take_turn(),
                  .number = ++turn_number_,
                  .at = clock_.now(),
                  .workers = {},
                  .alive = {},
                  .replies = ground_->is_shared() ? 0 : std::exchange(replies_owed_, 0)};
  if (!ground_->is_shared())  // there, a grant may yet be lost
    for (const auto& grant : taken.turn.grants)
      for (auto& worker : workers_)
        if (worker.get() == grant.sink) worker->slots -= static_cast<int>(grant.leases.size());
  demand(!winding_down_ || taken.turn.grants.empty(), "nothing is handed out while the process winds down", "a grant");
  for (auto& worker : workers_) {
    if (!worker->registered) continue;
    demand(worker->slots >= 0, "a worker is given no more than it offered", worker->name.text);
    if (!winding_down_) taken.workers.push_back({worker->name, worker->tools, worker->slots});
    if (worker->is_local()) taken.alive.insert(worker->name);
  }
  trace_.mix(static_cast<std::uint64_t>(clock_.now().ms));
  trace_.mix(taken.turn.frame.parts);
  note([&] {
    return "turn " + std::to_string(taken.number) + ", frame " + std::to_string(taken.turn.frame.position) +
           list_events(taken.turn.frame.parts);
  });
  pending_.push_back(std::move(taken));
}

void Simulation::arm_a_fault() {
  if (!faults_) return;
  auto call = static_cast<std::uint64_t>(dice_.between(1, 14));
  if (dice_.percent(habits_.kill_commit)) {
    note([&] { return "to be killed at disk call " + std::to_string(call); });
    ground_->kill_at(call);
  }
  if (!dice_.percent(habits_.bad_disk)) return;
  bool sync = dice_.percent(50);
  note([&] { return std::string(sync ? "a sync is to fail" : "a write is to fail"); });
  sync ? ground_->fail_sync(1) : ground_->fail_write(1 + call % 6);
}

void Simulation::commit(std::size_t count) {
  count = std::min(count, pending_.size());
  if (count == 0) return;
  if (faults_ && dice_.percent(habits_.die_before_commit)) return die(0);
  if (ground_->is_shared()) {
    for (; count > 0 && !pending_.empty(); --count) commit_shared();
    return;
  }
  std::vector<Frame> frames;
  for (std::size_t i = 0; i < count; ++i)
    if (pending_[i].turn.needs_commit) frames.push_back(pending_[i].turn.frame);
  note([&] { return "commit " + std::to_string(frames.size()) + " frames"; });
  arm_a_fault();
  if (!frames.empty()) {
    try {
      ground_->commit(*store_, frames);
    } catch (const StoreFailure& failure) {
      demand(faults_, "the store fails only with its disk", [&] { return std::string(failure.what()); });
      return die(count);
    }
  }
  ground_->disarm();
  std::deque<TakenTurn> durable;
  for (std::size_t i = 0; i < count; ++i) {
    checker_.turn_is_durable(pending_.front());
    durable.push_back(std::move(pending_.front()));
    pending_.pop_front();
  }
  if (faults_ && dice_.percent(habits_.die_before_release)) return die(0);
  engine_->durable(checker_.position());
  for (TakenTurn& taken : durable) release(taken);
  learn_runs();
}

void Simulation::learn_runs() {
  if (run_ids_.size() == checker_.runs().size()) return;
  run_ids_.clear();
  for (const auto& [id, run] : checker_.runs()) run_ids_.push_back(id);
}

// One turn, as the writer of a Runtime does it where others may have been faster.
void Simulation::commit_shared() {
  TakenTurn taken = std::move(pending_.front());
  pending_.pop_front();
  Frame& frame = taken.turn.frame;
  std::vector<Lost> lost = losses_.strike({&frame, 1});
  if (taken.turn.needs_commit) {
    arm_a_fault();
    try {
      auto lost_now = ground_->commit(*store_, {&frame, 1});
      losses_.add(lost_now, {&frame, 1});
      lost.insert(lost.end(), lost_now.begin(), lost_now.end());
    } catch (const StoreFailure& failure) {
      demand(faults_, "the store fails only with its process", [&] { return std::string(failure.what()); });
      read_journal(taken);
      return die(0);
    }
    ground_->disarm();
    read_journal(taken);
    durable_ = frame.position;
  }
  engine_->durable(durable_, lost);
  if (faults_ && dice_.percent(habits_.die_before_release)) return die(0);
  releasing_ = true;
  releasing_turn_ = taken.number;
  Again again = taken.turn.release([this](Incarnation basis) { return losses_.contains(basis); });
  releasing_ = false;
  if (taken.turn.news.ready) engine_->ready_is_durable();
  engine_->decide_again(std::move(again));
  learn_runs();
}

void Simulation::read_journal(const TakenTurn& taken) {
  for (const KeptFrame& frame : ground_->read_on()) {
    note([&] { return "commit of turn " + std::to_string(taken.number) + list_events(frame.parts); });
    checker_.commit_is_durable(frame.parts, taken, clock_.now());
  }
}

void Simulation::release(TakenTurn& taken) {
  releasing_ = true;
  releasing_turn_ = taken.number;
  replies_released_ = 0;
  taken.turn.release();
  releasing_ = false;
  demand(replies_released_ == taken.replies, "every request is answered once", [&] {
    return std::to_string(taken.replies) + " requests, " + std::to_string(replies_released_) + " answers";
  });
}

// The process is gone, and so is every turn that was not released. Of those whose commit was under way, the store has
// all or none; nobody was told either way.
void Simulation::die(std::size_t in_doubt) {
  note([&] { return "the process dies" + (in_doubt ? " while it commits" : std::string()); });
  engine_.reset();
  ground_->kill_at(0);
  store_.reset();
  lose_process();
  for (auto& worker : workers_) {
    worker->registered = false;
    worker->slots = 0;
    if (worker->is_local()) worker->drop_everything();
  }
  replies_owed_ = 0;
  open();
  ground_->is_shared() ? pending_.clear() : recover(in_doubt);
  checker_.process_restarted(clock_.now());
  checker_.compare_streams(*store_);
  if (dice_.percent(30)) inspect_everything();
}

void Simulation::recover(std::size_t in_doubt) {
  Position found = store_->last_position();
  trace_.mix(found);
  std::size_t frames = 0;
  for (std::size_t i = 0; i < in_doubt; ++i) frames += pending_[i].turn.needs_commit;
  demand(found == checker_.position() || (in_doubt && found == checker_.position() + frames),
         "what was acknowledged is there", [&] {
           return "the store ends at frame " + std::to_string(found) + ", " + std::to_string(checker_.position()) +
                  " was acknowledged";
         });
  if (found != checker_.position())
    for (std::size_t i = 0; i < in_doubt; ++i) checker_.turn_is_durable(pending_[i]);
  pending_.clear();
  note([&] { return "recovered at frame " + std::to_string(found); });
}

// As pawl serve ends at SIGTERM: nothing is handed out any more, and its own workers give back what they hold.
void Simulation::stop_in_order() {
  note([] { return "the process stops in order"; });
  auto was = std::exchange(faults_, false);
  flush();
  engine_->wind_down();
  winding_down_ = true;
  for (auto& worker : workers_)
    for (Held& held : worker->held)
      if (worker->is_local() && held.is_live(clock_.now())) release_lease(held);
  flush();
  winding_down_ = false;
  faults_ = was;
  die(0);
}

void Simulation::flush() {
  take_turn();
  commit(pending_.size());
  // What was lost is decided again.
  for (int rounds = 0; ground_->is_shared() && replies_owed_ > 0; ++rounds) {
    demand(rounds < rounds_to_be_answered, "every request is answered once",
           [&] { return std::to_string(replies_owed_) + " are not"; });
    pass_time(Duration(20));
    take_turn();
    commit(pending_.size());
  }
}

// ---- Looking at all of it

void Simulation::inspect_everything() {
  engine_->advance();
  for (const auto& [id, run] : checker_.runs())
    asked().request(InspectRun{run.tenant, id}, expect<std::shared_ptr<const Run>>([this](const auto& answer) {
                      demand(answer.has_value(), "what was acknowledged is there", "an inspected run is unknown");
                      const RunModel& model = *checker_.find((*answer)->id);
                      // What happened to it later in the same turn is not in the answer.
                      if (!ground_->is_shared() || (*answer)->seq == model.seq) model.compare(**answer, "in memory");
                    }));
  for (const auto& [id, task] : checker_.tasks())
    asked().request(InspectRun{task.tenant, stream_of(id)},
                    expect<std::shared_ptr<const Run>>([this](const auto& answer) {
                      demand(answer.has_value(), "what was acknowledged is there", "an inspected task is unknown");
                      const TaskModel& model = *checker_.find(task_of_stream((*answer)->id));
                      if (!ground_->is_shared() || (*answer)->seq == model.seq) model.compare(**answer, "in memory");
                    }));
  auto was = std::exchange(faults_, false);
  flush();
  faults_ = was;
}

void Simulation::check_everything() {
  engine_->fold_all();
  flush();
  checker_.compare_streams(*store_);
  engine_->fold_all();
  flush();
  checker_.compare_tables(*store_);
  inspect_everything();
}

// ---- The end: no more faults, everybody does their best, and everything must come to its end

bool Simulation::serve_everyone() {
  bool any = false;
  for (auto& worker : workers_) {
    if (!worker->registered) register_worker(*worker);
    if (worker->slots < 4) offer(*worker, 4 - worker->slots);
    for (Held& held : worker->held)
      if (held.is_live(clock_.now())) {
        if (!pursue_effect(*worker, held)) complete(held);
        any = true;
      }
  }
  for (const auto& [id, run] : checker_.runs()) {
    if (run.ended()) continue;
    if (!run.is_native()) {
      asked().request(RunRequest{run.tenant, id, CancelRun{Actor{"admin"}, "the end"}});
      any = true;
    }
    for (StepIndex i = 0; i < run.steps.size(); ++i)
      if (run.steps[i].status == StepStatus::waiting_input && run.steps[i].doubt) {
        any = answer_doubt(run, i) || any;
      } else if (run.steps[i].status == StepStatus::waiting_input) {
        asked().request(
            RunRequest{run.tenant, id, AnswerQuestion{run.definition(i).id, "\"yes\"", Actor{"person:ada"}}});
        any = true;
      }
    for (const auto& approval : run.approvals)
      if (approval.status == ApprovalStatus::requested)
        for (const char* person : {"person:one", "person:two", "person:three"}) {
          asked().request(RunRequest{run.tenant, id, ResolveApproval{approval.id, true, Actor{person}, {}}});
          any = true;
        }
  }
  return any;
}

void Simulation::settle_down() {
  lift_restrictions();
  for (int round = 0; round < rounds_to_settle; ++round) {
    bool any = serve_everyone();
    any = serve_tasks() || any;
    flush();
    if (std::ranges::all_of(checker_.runs(), [](auto& entry) { return entry.second.ended(); }) &&
        std::ranges::all_of(checker_.tasks(), [](auto& entry) { return entry.second.is_at_rest(); }))
      return;
    // A little late at times, as a loaded machine would be.
    if (!any) pass_time(std::max(Duration(dice_.percent(50) ? 1 : 20'000), engine_->next_wakeup() - clock_.now()));
  }
  for (const auto& [id, run] : checker_.runs())
    demand(run.ended(), "every run ends once faults stop",
           [&, run_id = id] { return run_id.str() + " is still " + std::string(to_string(run.status)); });
  for (const auto& [id, task] : checker_.tasks())
    demand(task.is_at_rest(), "every task comes to rest once faults stop",
           [&, task_id = id] { return task_id.str() + " is still " + std::string(to_string(task.state)); });
}

}  // namespace pawl::simulator
