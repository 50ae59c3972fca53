// What people and other systems ask for: sensible things mostly, and what they must not get.
#include <algorithm>

#include "simulator/failure.h"
#include "simulator/simulation.h"
#include "simulator/workflow_maker.h"

namespace pawl::simulator {

Actor Simulation::anyone() { return Actor{dice_.one_of({"person:ada", "person:bob", "person:cyd", "person:dan"})}; }

const RunModel* Simulation::any_run() {
  if (run_ids_.empty()) return nullptr;
  const RunModel* run = nullptr;
  for (int tries = 0; tries < 3; ++tries) {
    run = checker_.find(dice_.one_of(run_ids_));
    if (!run->ended()) break;
  }
  return run;
}

void Simulation::check_answer(TenantId tenant, const RunAnswer& answer, const char* to) {
  const RunModel* run = checker_.find(answer.run);
  auto what = [&] { return std::string(to) + " " + answer.run.str() + " seq " + std::to_string(answer.seq); };
  demand(run && run->seq >= answer.seq && answer.seq > 0, "no answer before the commit is durable", what);
  demand(run->tenant == tenant, "no tenant sees another's", what);
  demand(run->status_after[answer.seq - 1] == answer.status, "answers say what the journal says", what);
}

void Simulation::create_run() {
  TenantId tenant = dice_.one_of(tenants_);
  const auto& known = published_[tenant];
  if (known.empty()) return;
  bool unknown = dice_.percent(2);
  NewRun request;
  request.tenant = tenant;
  request.workflow.text =
      unknown ? "nowhere" : std::next(known.begin(), static_cast<std::ptrdiff_t>(dice_.below(known.size())))->first;
  request.workspace.text = dice_.one_of({"default", "a", "b"});
  request.provider = dice_.percent(habits_.external) ? Provider::external : Provider::native;
  request.input = dice_.percent(92) ? "{\"about\":" + std::to_string(dice_.below(1000)) + "}" : "{}";
  request.by = any_identity(tenant);
  if (dice_.percent(5)) request.budget = Money{dice_.between(0, 50'000)};
  if (dice_.percent(10)) request.timeout = dice_.between(Duration(500), Duration(120'000));
  note([&] { return "create a run of " + request.workflow.text; });
  asked().request(request, expect<RunAnswer>([this, tenant, unknown, by = request.by](const auto& answer) {
                    demand(answer.has_value() != unknown, "a run is created of a known workflow only", "otherwise");
                    if (!answer) return;
                    check_answer(tenant, *answer, "creation of");
                    demand(checker_.find(answer->run)->created_by == by, "answers say what the journal says",
                           "another creator");
                  }));
}

Actor Simulation::any_requester(const RunModel& run) {
  if (run.other_requesters.empty() || dice_.percent(50)) return run.created_by;
  return dice_.one_of(run.other_requesters);
}

void Simulation::resolve_approval() {
  const RunModel* run = any_run();
  for (int tries = 0; run && tries < 4 && run->status != RunStatus::waiting; ++tries) run = any_run();
  if (!run) return;
  ResolveApproval command{.approval = {},
                          .approve = dice_.percent(80),
                          .by = dice_.percent(20) ? any_requester(*run) : any_identity(run->tenant),
                          .reason = {}};
  if (!run->approvals.empty() && dice_.percent(60)) command.approval = dice_.one_of(run->approvals).id;
  if (dice_.percent(5)) command.approval = ApprovalId{{dice_.next(), dice_.next()}};
  if (command.approval) command.reason = command.approval->str();
  note(
      [&] { return std::string(command.approve ? "approve " : "reject ") + run->id.str() + " by " + command.by.text; });
  asked().request(RunRequest{run->tenant, run->id, command},
                  expect<RunAnswer>([this, tenant = run->tenant, id = run->id, command](const auto& answer) {
                    const RunModel& model = *checker_.find(id);
                    if (!answer) {
                      demand(answer.error().code != RefusalCode::not_found, "what was acknowledged is there", id.str());
                      return;
                    }
                    check_answer(tenant, *answer, "decision on");
                    bool counted = std::ranges::any_of(model.approvals, [&](const ApprovalModel& approval) {
                      if (command.approval && approval.id != *command.approval) return false;
                      if (!command.approve) return approval.status == ApprovalStatus::rejected;
                      // Whose vote it was is checked where the journal says it.
                      return approval.status == ApprovalStatus::approved || !approval.votes.empty();
                    });
                    demand(counted, "a decision that is accepted stands in the journal", id.str());
                  }));
}

void Simulation::cancel_run() {
  const RunModel* run = any_run();
  if (!run) return;
  note([&] { return "cancel " + run->id.str(); });
  asked().request(RunRequest{run->tenant, run->id, CancelRun{anyone(), "why not"}},
                  expect<RunAnswer>([this, tenant = run->tenant, id = run->id](const auto& answer) {
                    const RunModel& model = *checker_.find(id);
                    // Cancel against completion: whoever was first, both see the same end.
                    demand(model.ended(), "a cancel ends the run, or finds it ended", id.str());
                    demand(answer.has_value() == (model.status == RunStatus::canceled),
                           "cancel and completion see one end", id.str());
                    if (answer) check_answer(tenant, *answer, "cancel of");
                  }));
}

void Simulation::retry_run() {
  const RunModel* run = any_run();
  if (!run || checker_.runs().size() >= 40) return;
  note([&] { return "retry " + run->id.str(); });
  asked().request(
      RetryRun{run->tenant, run->id, anyone()},
      expect<RunAnswer>([this, tenant = run->tenant, id = run->id](const auto& answer) {
        if (!answer) return;
        check_answer(tenant, *answer, "retry of");
        const RunModel& old = *checker_.find(id);
        const RunModel& made = *checker_.find(answer->run);
        demand(old.ended() && old.status != RunStatus::success && made.retry_of == id && made.workflow == old.workflow,
               "a retry is a new run of one that ended badly", id.str());
      }));
}

void Simulation::answer_question() {
  const RunModel* run = any_run();
  if (!run) return;
  StepId step = dice_.one_of(run->workflow->steps).id;
  for (StepIndex i = 0; i < run->steps.size(); ++i)
    if (run->steps[i].status == StepStatus::waiting_input && dice_.percent(70)) {
      if (run->steps[i].doubt && dice_.percent(80)) {
        answer_doubt(*run, i);
        return;
      }
      step = run->definition(i).id;
    }
  note([&] { return "answer " + run->id.str() + " " + step.text; });
  asked().request(RunRequest{run->tenant, run->id, AnswerQuestion{step, "\"yes\"", anyone()}},
                  expect<RunAnswer>([this, tenant = run->tenant](const auto& answer) {
                    if (answer) check_answer(tenant, *answer, "answer to");
                  }));
}

void Simulation::report_external() {
  const RunModel* run = any_run();
  for (int tries = 0; run && run->is_native() && tries < 5; ++tries) run = any_run();
  if (!run) return;
  ReportRun command{.trigger = static_cast<RunTrigger>(dice_.below(enum_count<RunTrigger>)),
                    .by = anyone(),
                    .diagnostic = {},
                    .reason = {}};
  if (dice_.percent(80))
    command.diagnostic = std::make_shared<const Diagnostic>(diagnose("TOOL_FAILED", "elsewhere", clock_.now()));
  note([&] { return "report " + std::string(to_string(command.trigger)) + " of " + run->id.str(); });
  asked().request(RunRequest{run->tenant, run->id, command},
                  expect<RunAnswer>([this, tenant = run->tenant, id = run->id](const auto& answer) {
                    if (answer) return check_answer(tenant, *answer, "report on");
                    const RunModel& model = *checker_.find(id);
                    if (answer.error().code == RefusalCode::invalid_transition)
                      demand(model.error_code == "INVALID_STATE_TRANSITION", "an undefined transition fails the run",
                             id.str());
                  }));
}

void Simulation::publish(TenantId tenant, const std::string& name) {
  auto& sources = published_[tenant];
  bool again = sources.contains(name) && dice_.percent(30);
  std::string source = again ? sources[name] : make_workflow(dice_, name);
  if (hostile_ && !again) source = with_risks(hostile_dice_, std::move(source));
  note([&] { return "publish " + name + "\n" + source; });
  asked().request(PublishWorkflow{tenant, source, name, Actor{"admin"}},
                  expect<WorkflowRef>([this, tenant, name, source](const std::expected<WorkflowRef, Refusal>& answer) {
                    demand(answer.has_value(), "what the simulation writes is a workflow",
                           [&] { return answer.error().message + "\n" + source; });
                    const Workflow* known = checker_.workflow(tenant, answer->name, answer->version);
                    demand(known && known->source == source, "the same content is the same version", name);
                    published_[tenant][name] = source;
                  }));
}

RunCommand Simulation::any_command_on(const RunModel& run) {
  switch (dice_.below(4)) {
    case 0:
      return CancelRun{anyone(), {}};
    case 1:
      return ResolveApproval{{}, true, anyone(), {}};
    case 2:
      return AnswerQuestion{run.definition(0).id, "1", anyone()};
    default:
      return ReportRun{RunTrigger::start, anyone(), {}, {}};
  }
}

// Another tenant's run, and one that never was, must look the same.
void Simulation::meddle() {
  const RunModel* run = any_run();
  if (!run) return;
  auto other = std::ranges::find_if(tenants_, [&](TenantId tenant) { return tenant != run->tenant; });
  TenantId tenant = other == tenants_.end() ? TenantId{{1, 1}} : *other;
  RunId id = dice_.percent(80) ? run->id : RunId{{dice_.next(), dice_.next()}};
  note([&] { return "meddle with " + id.str(); });
  auto refused = [](const auto& answer) {
    demand(!answer && answer.error().code == RefusalCode::not_found && answer.error().message == "there is no such run",
           "no tenant sees another's", answer ? "it was accepted" : answer.error().message);
  };
  if (dice_.percent(25)) {
    asked().request(RetryRun{tenant, id, anyone()}, expect<RunAnswer>(refused));
    return;
  }
  if (dice_.percent(25)) return asked().request(InspectRun{tenant, id}, expect<std::shared_ptr<const Run>>(refused));
  if (dice_.percent(20)) return asked().request(FlushRows{tenant, id}, expect<RunAnswer>(refused));
  if (const TaskModel* task = any_task(run->tenant); task && dice_.percent(20))
    return asked().request(InspectTask{tenant, task->id}, expect<std::shared_ptr<const Run>>([](const auto& answer) {
                             demand(!answer && answer.error().code == RefusalCode::not_found,
                                    "no tenant sees another's", "a task");
                           }));
  asked().request(RunRequest{tenant, id, any_command_on(*run)}, expect<RunAnswer>(refused));
}

}  // namespace pawl::simulator
