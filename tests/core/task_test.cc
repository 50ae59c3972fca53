// The task's table row by row, as the document that defines it has it, and what must hold of the moves beyond the
// table.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/invariants.h"
#include "core/snapshot.h"
#include "core/task_command.h"
#include "core/workflow.h"

namespace pawl::tests {
namespace {

struct Row {
  std::string_view from, to;
};

// Copied from the document, in its order; two rows lead from RUNNING to BLOCKED.
constexpr std::array rows{
    Row{"PENDING", "QUEUED"},    Row{"PENDING", "CANCELLED"},       Row{"QUEUED", "RUNNING"},
    Row{"QUEUED", "CANCELLED"},  Row{"RUNNING", "READY"},           Row{"RUNNING", "BLOCKED"},
    Row{"RUNNING", "COMPLETED"}, Row{"RUNNING", "FAILED"},          Row{"RUNNING", "TIMED_OUT"},
    Row{"RUNNING", "CANCELLED"}, Row{"RUNNING", "BUDGET_EXCEEDED"}, Row{"RUNNING", "BLOCKED"},
    Row{"READY", "COMPLETED"},   Row{"READY", "PENDING"},           Row{"FAILED", "QUEUED"},
    Row{"TIMED_OUT", "QUEUED"},  Row{"BLOCKED", "QUEUED"},          Row{"BLOCKED", "READY"},
};

constexpr Instant start{1'763'000'000'000};
const Actor ada{"person:ada"};

const Workflow& task_workflow() {
  static const Workflow workflow = [] {
    Workflow out;
    out.name.text = task_workflow_name;
    out.version = 1;
    return out;
  }();
  return workflow;
}

const Workflow& carrier() {
  static const Workflow workflow = [] {
    Workflow out;
    out.name.text = "work";
    out.version = 1;
    out.steps.resize(1);
    out.steps[0].id.text = "do";
    out.steps[0].tool.text = "some.tool";
    return out;
  }();
  return workflow;
}

// A task, what carries it, and everything that decide() says about it on the way.
class Story {
 public:
  explicit Story(TaskSpec spec = usual()) {
    run_.workflow = &task_workflow();
    run_.tenant.bits = {1, 1};
    run_.id.bits = {1, 2};
    CreateRun command{.tenant = run_.tenant,
                      .id = run_.id,
                      .workflow = &task_workflow(),
                      .provider = Provider::external,
                      .input = print_task_spec(spec),
                      .by = ada};
    fold(pawl::decide(command, now_));
  }

  static TaskSpec usual() {
    TaskSpec spec;
    spec.title = "Sweep the floor";
    spec.workflow.text = "work";
    return spec;
  }
  static TaskSpec subtask() {
    TaskSpec spec = usual();
    spec.parent = TaskId{{1, 3}};
    return spec;
  }

  TaskState state() const { return run_.task->state; }
  const Task& task() const { return *run_.task; }
  const Run& run() const { return run_; }
  const Run& carried() const { return *carried_; }
  Step& step() { return carried_->steps[0]; }
  FollowTask around;

  std::optional<Refusal> ask(TaskCommand command) {
    ++draws_;
    Decision decision = pawl::decide(run_, command, now_, {RunId{{2, draws_}}, "session-" + std::to_string(draws_)});
    auto refusal = decision.refusal;
    fold(std::move(decision));
    return refusal;
  }
  void follow() {
    around.run = carried_ ? &*carried_ : nullptr;
    EXPECT_FALSE(ask(around));
  }

  void queue() {
    EXPECT_FALSE(ask(RunTask{ada}));
    begin_run();
  }
  void begin_run() {
    carried_ = Run{};
    carried_->workflow = &carrier();
    carried_->id = task().latest()->run;
    carried_->steps.resize(1);
    carried_->steps[0].status = StepStatus::ready;
  }
  void claim() {
    carried_->status = RunStatus::running;
    carried_->steps[0].status = StepStatus::running;
    carried_->steps[0].lease_token += 1;
    follow();
  }
  void run_asks(const JsonText& question) {
    carried_->status = RunStatus::waiting;
    carried_->steps[0].status = StepStatus::waiting_input;
    carried_->steps[0].question = question;
    follow();
  }
  void end(RunStatus status, std::string_view code = "TOOL_FAILED") {
    carried_->status = status;
    if (ended_badly(status))
      carried_->diagnostic = std::make_shared<const Diagnostic>(diagnose(code, "it broke", now_));
    follow();
  }
  void add_subtask(std::uint64_t number) {
    EXPECT_FALSE(ask(AddSubtask{TaskId{{7, number}}}));
    around.subtasks.push_back({TaskId{{7, number}}, TaskState::pending, "part " + std::to_string(number)});
  }

  std::vector<std::pair<TaskState, TaskState>> seen;
  std::vector<std::string> types;

 private:
  void fold(Decision decision) {
    for (const RunEvent& event : decision.events) {
      // What is written can be read, and is the same event.
      std::string text, again;
      append_event(text, event);
      auto parsed = parse_run_event(text);
      ASSERT_TRUE(parsed) << parsed.error() << "\n" << text;
      append_event(again, *parsed);
      EXPECT_EQ(text, again);
      EXPECT_EQ(text, canonical(*parse_json(text)));
      types.emplace_back(type_of(event.payload));
      bool had_state = run_.task != nullptr;
      TaskState before = had_state ? state() : TaskState::pending;
      auto folded = evolve_checked(run_, *parsed);
      ASSERT_TRUE(folded) << folded.error();
      if (had_state && before != state()) seen.emplace_back(before, state());
    }
    EXPECT_EQ(check_run(run_), std::vector<std::string>{});
    auto back = read_snapshot(write_snapshot(run_), task_workflow());
    ASSERT_TRUE(back);
    EXPECT_TRUE(same_fold(*back, run_));
    now_ = now_ + Duration(1000);
  }

  Instant now_ = start;
  std::uint64_t draws_ = 0;
  Run run_;
  std::optional<Run> carried_;
};

// A way into each state; the first of them is how a task begins.
Story into(TaskState state, const TaskSpec& spec = Story::usual()) {
  Story story(spec);
  if (state == TaskState::pending) return story;
  if (state == TaskState::cancelled) {
    story.ask(CancelTask{ada, ""});
    return story;
  }
  story.queue();
  if (state == TaskState::queued) return story;
  story.claim();
  switch (state) {
    case TaskState::ready:
      story.end(RunStatus::success);
      break;
    case TaskState::completed:
      story.end(RunStatus::success);
      if (!spec.parent) story.ask(AcceptTask{ada});
      break;
    case TaskState::failed:
      story.end(RunStatus::failed);
      break;
    case TaskState::timed_out:
      story.end(RunStatus::timeout, "RUN_TIMEOUT");
      break;
    case TaskState::budget_exceeded:
      story.end(RunStatus::failed, "BUDGET_EXCEEDED");
      break;
    case TaskState::blocked:
      story.run_asks("{\"question\":\"why?\"}");
      break;
    case TaskState::pending:
    case TaskState::queued:
    case TaskState::running:
    case TaskState::cancelled:
      break;
  }
  EXPECT_EQ(story.state(), state);
  return story;
}

std::vector<TaskState> all_states() {
  std::vector<TaskState> out;
  for (std::size_t i = 0; i < enum_count<TaskState>; ++i) out.push_back(static_cast<TaskState>(i));
  return out;
}

TEST(Task, has_exactly_the_eighteen_transitions_of_its_document) {
  ASSERT_EQ(task_table.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(to_string(task_table[i].from), rows[i].from) << i;
    EXPECT_EQ(to_string(task_table[i].to), rows[i].to) << i;
  }
  std::set<std::string_view> terminal;
  for (TaskState state : all_states())
    if (is_terminal(state)) terminal.insert(to_string(state));
  EXPECT_EQ(terminal, (std::set<std::string_view>{"COMPLETED", "CANCELLED", "BUDGET_EXCEEDED"}));
}

TEST(Task, evolve_moves_it_only_along_its_table) {
  for (TaskState from : all_states()) {
    Story story = into(from);
    for (std::size_t i = 0; i < enum_count<TaskTrigger>; ++i) {
      auto trigger = static_cast<TaskTrigger>(i);
      pawl::Run run = story.run();
      TaskMoved moved{.trigger = trigger, .by = ada, .message = "\"m\"", .run = RunId{{9, 9}}, .session = "s"};
      moved.diagnostic = std::make_shared<const Diagnostic>(diagnose("TOOL_FAILED", "m", start));
      auto folded = evolve_checked(run, {start, moved});
      auto to = next(task_table, from, trigger);
      // Of a task that is no subtask, and has none.
      bool fits = trigger != TaskTrigger::complete && trigger != TaskTrigger::await_subtasks;
      EXPECT_EQ(folded.has_value(), to.has_value() && fits)
          << to_string(from) << ", " << to_string(trigger) << (folded ? "" : ": " + folded.error());
      if (folded)
        EXPECT_EQ(run.task->state, *to);
      else
        EXPECT_TRUE(same_fold(run, story.run()));
    }
  }
}

struct Request {
  std::string_view name;
  TaskCommand command;
  std::map<TaskState, TaskState> leads_to;
};

// What each request does in each state; everything else is refused, says so, and changes nothing.
std::vector<Request> requests() {
  using enum TaskState;
  return {
      {"run", RunTask{ada}, {{pending, queued}, {failed, queued}, {timed_out, queued}}},
      {"cancel",
       CancelTask{ada, "no"},
       {{pending, cancelled}, {queued, cancelled}, {running, running}, {blocked, cancelled}}},
      {"accept", AcceptTask{ada}, {{ready, completed}}},
      {"reject", RejectTask{ada, "dirty"}, {{ready, pending}}},
      {"resume", ResumeTask{ada}, {{timed_out, queued}}},
      {"answer", AnswerTask{ada, "\"because\"", true}, {{blocked, queued}}},
  };
}

TEST(Task, every_request_moves_it_as_the_document_says_and_is_refused_everywhere_else) {
  for (const Request& request : requests())
    for (TaskState from : all_states()) {
      SCOPED_TRACE(std::string(request.name) + " in " + std::string(to_string(from)));
      Story story = into(from);
      auto refusal = story.ask(request.command);
      auto to = request.leads_to.find(from);
      EXPECT_EQ(refusal.has_value(), to == request.leads_to.end());
      EXPECT_EQ(story.state(), to == request.leads_to.end() ? from : to->second);
      auto possible = possible_requests(from);
      EXPECT_EQ(std::ranges::find(possible, request.name) != possible.end(), to != request.leads_to.end());
      if (!refusal) continue;
      EXPECT_EQ(refusal->code, RefusalCode::task_transition);
      EXPECT_EQ(story.types.back(), "task.refused");
      for (std::string_view word : possible)
        EXPECT_NE(refusal->message.find(word), std::string::npos) << refusal->message;
    }
}

TEST(Task, all_rows_of_the_table_are_taken_by_what_people_and_runs_do) {
  std::set<std::pair<TaskState, TaskState>> seen;
  auto note = [&](const Story& story) { seen.insert(story.seen.begin(), story.seen.end()); };
  for (TaskState state : all_states())
    for (const Request& request : requests()) {
      Story story = into(state);
      story.ask(request.command);
      note(story);
    }
  note(into(TaskState::completed, Story::subtask()));
  Story queued = into(TaskState::running);
  queued.end(RunStatus::canceled);
  note(queued);
  Story parent = into(TaskState::running);
  parent.add_subtask(1);
  parent.end(RunStatus::success);
  EXPECT_EQ(parent.state(), TaskState::blocked);
  parent.around.subtasks[0].state = TaskState::completed;
  parent.follow();
  note(parent);
  for (const auto& row : task_table)
    EXPECT_TRUE(seen.contains({row.from, row.to})) << to_string(row.from) << " " << to_string(row.to);
  for (const auto& [from, to] : seen) {
    auto is_row = [&](const auto& row) { return row.from == from && row.to == to; };
    EXPECT_TRUE(std::ranges::any_of(task_table, is_row));
  }
}

TEST(Task, cancelled_while_it_is_blocked_it_takes_two_rows_of_its_table) {
  Story asks = into(TaskState::blocked);
  asks.ask(CancelTask{ada, "no"});
  EXPECT_EQ(std::vector(asks.types.end() - 2, asks.types.end()),
            (std::vector<std::string>{"task.answered", "task.cancelled"}));
  EXPECT_TRUE(asks.task().question.empty());
  EXPECT_EQ(next_action_of(asks.run(), {.run = &asks.carried()}), NextTaskAction::cancel_run);
  Story waits = into(TaskState::running);
  waits.add_subtask(1);
  waits.end(RunStatus::success);
  EXPECT_TRUE(waits.task().question.empty());
  EXPECT_FALSE(waits.ask(CancelTask{ada, "no"}));
  EXPECT_EQ(waits.state(), TaskState::cancelled);
}

TEST(Task, run_after_a_time_out_begins_a_new_session) {
  Story story = into(TaskState::timed_out);
  const std::string before = story.task().latest()->session;
  story.ask(RunTask{ada});
  EXPECT_EQ(story.types.back(), "task.resumed");
  EXPECT_FALSE(story.task().latest()->resumes);
  EXPECT_NE(story.task().latest()->session, before);
}

TEST(Task, is_changed_while_nobody_works_on_it) {
  for (TaskState state : all_states()) {
    Story story = into(state);
    const bool can_change = !is_active(state) && !is_terminal(state);
    EXPECT_EQ(story.ask(ChangeTask{ada, R"({"tags":["a"],"timeout":"5m","priority":"high"})"}).has_value(),
              !can_change);
    EXPECT_EQ(story.task().spec.tags.size(), can_change ? 1U : 0U);
    EXPECT_EQ(story.state(), state);
    if (!can_change) continue;
    EXPECT_EQ(story.types.back(), "task.changed");
    const auto events = story.types.size();
    EXPECT_FALSE(story.ask(ChangeTask{ada, R"({"tags":["a"]})"}));
    EXPECT_EQ(story.types.size(), events) << "what is so already changes nothing";
    EXPECT_FALSE(story.ask(ChangeTask{ada, R"({"timeout":null})"}));
    EXPECT_FALSE(story.task().spec.timeout);
  }
}

TEST(Task, what_it_cannot_become_is_refused) {
  Story story;
  for (const char* changes : {"[]", R"({"title":"other"})", R"({"prompt":"p"})", R"({"timeout":"soon"})",
                              R"({"tags":[1]})", R"({"priority":"urgent"})"})
    EXPECT_TRUE(story.ask(ChangeTask{ada, changes})) << changes;
  EXPECT_TRUE(story.ask(ChangeTask{ada, R"({"max_budget_usd":"3.00"})", Money{2'000'000}}));
  EXPECT_FALSE(story.ask(ChangeTask{ada, R"({"max_budget_usd":"2.00"})", Money{2'000'000}}));
  EXPECT_EQ(story.task().spec.max_budget, Money{2'000'000});
}

TEST(Task, keeps_what_each_execution_came_to) {
  Story story = into(TaskState::running);
  story.step().status = StepStatus::succeeded;
  story.step().output = R"({"n":1})";
  story.end(RunStatus::success);
  const Json result = *parse_json(story.task().latest()->result);
  EXPECT_EQ(result.at("step"), Json("do"));
  EXPECT_EQ(result.at("output"), (Json{{"n", 1}}));
  EXPECT_TRUE(result.at("text").is_null());
  story.ask(RejectTask{ada, "again"});
  story.queue();
  EXPECT_FALSE(story.task().executions[0].result.empty());
  EXPECT_TRUE(story.task().executions[1].result.empty());
}

TEST(Task, the_result_of_an_agent_says_what_it_was_not_permitted) {
  Workflow agent = carrier();
  agent.steps[0].tool.text = "agent.claude";
  pawl::Run run;
  run.workflow = &agent;
  run.steps.resize(1);
  EXPECT_EQ(task_result_of(run), "");
  run.steps[0].status = StepStatus::succeeded;
  run.steps[0].output =
      R"({"result":"I tried.","permission_denials":[{"tool":"Bash","input":1},{"tool":"Bash","input":2}]})";
  const Json tried = *parse_json(task_result_of(run));
  EXPECT_EQ(tried.at("text"), Json("I tried.\n\nThe agent was not permitted to use: Bash."));
  EXPECT_EQ(tried.at("permission_denials").as_array().size(), 2U);
  EXPECT_EQ(tried.at("is_cut"), Json(false));
  run.steps[0].output = canonical(Json{{"result", std::string(100'000, 'x')}});
  const Json cut = *parse_json(task_result_of(run));
  EXPECT_EQ(cut.at("text").as_string().size(), task_result_text_bytes_max);
  EXPECT_EQ(cut.at("is_cut"), Json(true));
}

TEST(Task, the_result_says_what_an_agent_before_the_last_step_was_not_permitted) {
  Workflow workflow = carrier();
  workflow.steps[0].tool.text = "agent.claude";
  workflow.steps.push_back(workflow.steps[0]);
  workflow.steps[1].tool.text = "transform";
  pawl::Run run;
  run.workflow = &workflow;
  run.steps.resize(2);
  for (Step& step : run.steps) step.status = StepStatus::succeeded;
  run.steps[0].output = R"({"result":"I tried.","permission_denials":[{"tool":"Bash","input":1}]})";
  run.steps[1].output = R"({"permission_denials":[7]})";
  const Json result = *parse_json(task_result_of(run));
  EXPECT_TRUE(result.at("text").is_null());
  EXPECT_EQ(result.at("permission_denials"), *parse_json(R"([{"tool":"Bash","input":1}])"));
}

TEST(Task, a_subtask_that_is_done_needs_no_review) {
  EXPECT_EQ(into(TaskState::completed, Story::subtask()).seen.back().first, TaskState::running);
}

TEST(Task, cannot_be_deleted_while_it_is_queued_or_running) {
  for (TaskState state : all_states()) {
    Story story = into(state);
    auto refusal = story.ask(DeleteTask{ada});
    EXPECT_EQ(refusal.has_value(), state == TaskState::queued || state == TaskState::running);
    EXPECT_EQ(story.task().deleted, !refusal);
    if (refusal) {
      EXPECT_EQ(refusal->code, RefusalCode::task_active);
    }
  }
}

TEST(Task, an_answer_goes_on_with_the_run_that_asked_in_its_session) {
  Story story = into(TaskState::blocked);
  EXPECT_EQ(story.task().question, "{\"question\":\"why?\"}");
  story.ask(AnswerTask{ada, "\"because\"", true});
  ASSERT_EQ(story.task().executions.size(), 2u);
  const auto& [first, second] = std::tie(story.task().executions[0], story.task().executions[1]);
  EXPECT_EQ(first.run, second.run);
  EXPECT_EQ(first.session, second.session);
  EXPECT_EQ(first.outcome, TaskState::blocked);
  EXPECT_TRUE(second.resumes);
  EXPECT_EQ(second.message, "\"because\"");
  EXPECT_TRUE(story.task().question.empty());
  story.around.run = &story.carried();
  EXPECT_EQ(next_action_of(story.run(), story.around), NextTaskAction::deliver_answer);
  story.follow();
  EXPECT_EQ(story.state(), TaskState::queued) << "nobody has taken it up yet";
  story.claim();
  EXPECT_EQ(story.state(), TaskState::running);
  EXPECT_EQ(next_action_of(story.run(), story.around), NextTaskAction::none);
}

TEST(Task, a_second_question_is_not_answered_with_the_answer_to_the_first) {
  Story story = into(TaskState::blocked);
  story.ask(AnswerTask{ada, "\"one\"", true});
  // Taken up, and asked again, before anybody looked.
  pawl::Run asks_again = story.carried();
  asks_again.steps[0].lease_token += 1;
  story.around.run = &asks_again;
  EXPECT_EQ(next_action_of(story.run(), story.around), NextTaskAction::none);
  EXPECT_FALSE(story.ask(story.around));
  EXPECT_EQ(story.state(), TaskState::blocked);
}

TEST(Task, an_answer_after_its_run_has_ended_begins_a_new_one_with_the_session) {
  Story story = into(TaskState::blocked);
  story.end(RunStatus::timeout, "RUN_TIMEOUT");
  EXPECT_EQ(story.state(), TaskState::blocked) << "the question stands";
  story.ask(AnswerTask{ada, "\"late\"", false});
  ASSERT_EQ(story.task().executions.size(), 2u);
  EXPECT_NE(story.task().executions[0].run, story.task().executions[1].run);
  EXPECT_EQ(story.task().executions[0].session, story.task().executions[1].session);
  story.around.run = nullptr;
  EXPECT_EQ(next_action_of(story.run(), story.around), NextTaskAction::make_run);
}

TEST(Task, a_retry_begins_anew_and_a_resume_goes_on) {
  Story failed = into(TaskState::failed);
  failed.ask(RunTask{ada});
  EXPECT_NE(failed.task().executions[0].session, failed.task().executions[1].session);
  EXPECT_NE(failed.task().executions[0].run, failed.task().executions[1].run);
  EXPECT_FALSE(failed.task().executions[1].resumes);
  Story late = into(TaskState::timed_out);
  late.ask(ResumeTask{ada});
  EXPECT_EQ(late.task().executions[0].session, late.task().executions[1].session);
  EXPECT_NE(late.task().executions[0].run, late.task().executions[1].run);
  EXPECT_EQ(late.task().executions[1].message,
            "\"Your previous execution timed out. Please continue where you left off.\"");
}

TEST(Task, follows_what_its_run_came_to) {
  using enum TaskState;
  const std::vector<std::tuple<RunStatus, std::string_view, TaskState>> ends{
      {RunStatus::success, "", ready},
      {RunStatus::failed, "TOOL_FAILED", failed},
      {RunStatus::denied, "POLICY_DENIED", failed},
      {RunStatus::timeout, "RUN_TIMEOUT", timed_out},
      {RunStatus::failed, "TOOL_TIMEOUT", timed_out},
      {RunStatus::failed, "AGENT_BUDGET_EXCEEDED", budget_exceeded},
      {RunStatus::failed, "BUDGET_EXCEEDED", budget_exceeded},
      {RunStatus::canceled, "", cancelled}};
  for (const auto& [status, code, state] : ends)
    for (TaskState from : {queued, running}) {
      Story story = into(from);
      story.end(status, code);
      EXPECT_EQ(story.state(), state) << code;
      EXPECT_EQ(story.task().latest()->outcome, state);
      std::size_t events = story.types.size();
      story.follow();
      EXPECT_EQ(story.types.size(), events) << "what it has followed, it does not follow again";
    }
}

TEST(Task, waits_for_what_it_depends_on_and_fails_with_it) {
  Story story;
  EXPECT_FALSE(story.ask(RunTask{ada}));
  story.around.dependencies = {{TaskId{{5, 1}}, TaskState::completed, "one"},
                               {TaskId{{5, 2}}, TaskState::running, "two"}};
  EXPECT_EQ(next_action_of(story.run(), story.around), NextTaskAction::none);
  EXPECT_FALSE(story.ask(story.around));
  EXPECT_EQ(story.state(), TaskState::queued);
  for (TaskState state : {TaskState::failed, TaskState::timed_out, TaskState::cancelled, TaskState::budget_exceeded}) {
    Story other = story;
    other.around.dependencies[1].state = state;
    EXPECT_FALSE(other.ask(other.around));
    EXPECT_EQ(other.state(), TaskState::failed);
    EXPECT_EQ(other.run().diagnostic->error_code, "DEPENDENCY_FAILED");
    EXPECT_NE(other.run().diagnostic->message.find(TaskId{{5, 2}}.str()), std::string::npos);
  }
  story.around.dependencies[1].state = TaskState::completed;
  EXPECT_EQ(next_action_of(story.run(), story.around), NextTaskAction::make_run);
}

TEST(Task, a_failed_subtask_does_not_strand_its_parent) {
  Story parent = into(TaskState::running);
  parent.add_subtask(1);
  parent.add_subtask(2);
  parent.end(RunStatus::success);
  EXPECT_EQ(parent.state(), TaskState::blocked);
  EXPECT_TRUE(parent.task().question.empty());
  EXPECT_EQ(parent.ask(AnswerTask{ada, "\"what?\""})->code, RefusalCode::nothing_waiting);
  parent.around.subtasks[0].state = TaskState::failed;
  parent.follow();
  EXPECT_EQ(parent.state(), TaskState::blocked);
  EXPECT_EQ(parent.task().asked_about, parent.around.subtasks[0].id);
  EXPECT_NE(parent.task().question.find("retry"), std::string::npos);
  EXPECT_EQ(parent.ask(AnswerTask{ada, "\"perhaps\""})->code, RefusalCode::invalid);

  Story retried = parent;
  EXPECT_FALSE(retried.ask(AnswerTask{ada, "\"retry\"", false, TaskState::failed}));
  retried.around.subtasks[0].state = TaskState::queued;
  retried.follow();
  EXPECT_EQ(retried.state(), TaskState::blocked);
  EXPECT_TRUE(retried.task().question.empty());

  Story dropped = parent;
  EXPECT_FALSE(dropped.ask(AnswerTask{ada, "\"drop\""}));
  dropped.follow();
  EXPECT_EQ(dropped.state(), TaskState::blocked) << "there is another subtask";
  dropped.around.subtasks[1].state = TaskState::completed;
  dropped.follow();
  EXPECT_EQ(dropped.state(), TaskState::ready);

  Story cancelled = parent;
  EXPECT_FALSE(cancelled.ask(AnswerTask{ada, "\"cancel\""}));
  EXPECT_EQ(cancelled.state(), TaskState::cancelled);

  // Somebody saw to the subtask without answering: there is nothing to ask any more.
  parent.around.subtasks[0].state = TaskState::running;
  parent.follow();
  EXPECT_TRUE(parent.task().question.empty());
  EXPECT_EQ(parent.types.back(), "task.question_closed");
}

TEST(Task, one_that_was_done_before_anybody_saw_it_running_waits_for_its_subtasks_too) {
  Story parent = into(TaskState::queued);
  parent.add_subtask(1);
  parent.end(RunStatus::success);
  EXPECT_EQ(parent.state(), TaskState::blocked);
}

TEST(Task, what_cannot_be_tried_again_is_dropped_or_cancelled) {
  Story parent = into(TaskState::running);
  parent.add_subtask(1);
  parent.around.subtasks[0].state = TaskState::cancelled;
  parent.end(RunStatus::success);
  EXPECT_EQ(parent.task().question.find("retry"), std::string::npos);
  EXPECT_EQ(parent.ask(AnswerTask{ada, "\"retry\"", false, TaskState::cancelled})->code, RefusalCode::invalid);
}

TEST(Task, a_cancelled_or_deleted_one_ends_its_run) {
  Story queued = into(TaskState::queued);
  queued.ask(CancelTask{ada, ""});
  queued.around.run = &queued.carried();
  EXPECT_EQ(next_action_of(queued.run(), queued.around), NextTaskAction::cancel_run);
  Story blocked = into(TaskState::blocked);
  blocked.ask(DeleteTask{ada});
  blocked.around.run = &blocked.carried();
  EXPECT_EQ(next_action_of(blocked.run(), blocked.around), NextTaskAction::cancel_run);
}

TEST(Task, somebody_who_answers_the_run_itself_has_answered_the_task) {
  Story story = into(TaskState::blocked);
  pawl::Run answered = story.carried();
  answered.status = RunStatus::running;
  answered.steps[0].status = StepStatus::ready;
  answered.steps[0].answer = "42";
  story.around.run = &answered;
  EXPECT_FALSE(story.ask(story.around));
  EXPECT_EQ(story.state(), TaskState::queued);
  EXPECT_EQ(story.task().answer, "42");
}

TEST(Task, what_an_agent_is_given_has_every_key_and_tells_of_a_rejection) {
  TaskSpec spec;
  spec.title = "Write";
  spec.agent = TaskAgent::claude;
  spec.prompt = "Write a poem.";
  spec.settings = "{\"model\":\"opus\"}";
  Story story = into(TaskState::ready, spec);
  story.ask(RejectTask{ada, "too long"});
  EXPECT_EQ(story.task().rejection_comment, "too long");
  story.queue();
  auto input = parse_json(carrying_input(story.run(), story.run().task->spec.max_budget))->get_object();
  EXPECT_EQ(input.at("prompt"), "Write a poem.\n\nAn earlier result was rejected: too long");
  EXPECT_EQ(input.at("model"), "opus");
  EXPECT_TRUE(input.at("folder").is_null());
  EXPECT_FALSE(input.at("resume").get_bool());
  EXPECT_EQ(input.at("task_id").get_string(), task_of_stream(story.run().id).str());
  EXPECT_EQ(carrying_workflow(spec).text, "pawl.agent.claude");
}

TEST(Task, what_was_asked_for_survives_being_written) {
  TaskSpec spec;
  spec.title = "All of it";
  spec.workflow.text = "work";
  spec.input = "{\"a\":1}";
  spec.parent = TaskId{{1, 2}};
  spec.depends_on = {TaskId{{3, 4}}, TaskId{{5, 6}}};
  spec.max_budget = Money{1'500'000};
  spec.timeout = std::chrono::minutes(15);
  spec.priority = TaskPriority::high;
  spec.tags = {"a", "b"};
  auto back = parse_task_spec(print_task_spec(spec));
  ASSERT_TRUE(back) << back.error();
  EXPECT_EQ(*back, spec);
  for (std::string_view bad : {"", "[]", "{}", R"({"title":"x"})", R"({"title":"x","workflow":"w","agent":"claude"})",
                               R"({"title":"x","workflow":"w","depends_on":["run_x"]})"})
    EXPECT_FALSE(parse_task_spec(bad)) << bad;
}

}  // namespace
}  // namespace pawl::tests
