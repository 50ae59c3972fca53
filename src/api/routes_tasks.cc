#include <algorithm>
#include <boost/json/array.hpp>
#include <set>

#include "api/api.h"
#include "core/snapshot.h"
#include "core/task_object.h"
#include "crypto/sha256.h"
#include "engine/task_workflows.h"
#include "tools/agent_request.h"

namespace pawl::api {
namespace {

using boost::json::array;
using boost::json::object;
using RunPointer = std::shared_ptr<const Run>;

TaskId task_of(const Call& call) {
  auto id = TaskId::parse(call.path[0]);
  if (!id) throw not_found();
  return *id;
}

// ---- Creating

std::vector<std::string> read_texts(const Input& input, std::string_view key, std::size_t count_max,
                                    std::size_t chars_max) {
  std::vector<std::string> out;
  const Json* list = input.find(key);
  if (!list) return out;
  if (!list->is_array()) input.refuse(key, "must be a list of strings");
  if (list->get_array().size() > count_max) input.refuse(key, "has more than " + std::to_string(count_max) + " items");
  for (const Json& item : list->get_array()) {
    if (!item.is_string() || item.get_string().empty())
      input.refuse(key, "must be a list of strings that say something");
    if (item.get_string().size() > chars_max)
      input.refuse(key, "has an item of more than " + std::to_string(chars_max) + " bytes");
    std::string text(item.get_string());
    if (std::ranges::find(out, text) == out.end()) out.push_back(std::move(text));
  }
  return out;
}

constexpr std::array claude_settings{std::string_view("permission_mode"), std::string_view("allowed_tools"),
                                     std::string_view("disallowed_tools"), std::string_view("project_settings")};
constexpr std::array agent_settings{std::string_view("model"), std::string_view("command"), std::string_view("folder"),
                                    std::string_view("mcp"),   std::string_view("sandbox"), claude_settings[0],
                                    claude_settings[1],        claude_settings[2],          claude_settings[3]};

// What only an agent has. Each must be of its kind; what they mean is the agent's business.
JsonText read_settings(const Input& input) {
  object out;
  auto take = [&](std::string_view key, auto is_right, std::string_view kind) {
    const Json* value = input.find(key);
    if (!value) return;
    if (!is_right(*value)) input.refuse(key, "must be " + std::string(kind));
    out[key] = *value;
  };
  auto is_text = [](const Json& value) { return value.is_string() && !value.get_string().empty(); };
  auto is_list = [&](const Json& value) {
    return value.is_array() && !value.get_array().empty() && std::ranges::all_of(value.get_array(), is_text);
  };
  take("model", is_text, "a string");
  take(
      "command",
      [](const Json& value) {
        auto fits = [](const Json& each) { return each.is_string(); };
        return value.is_array() && !value.get_array().empty() && std::ranges::all_of(value.get_array(), fits);
      },
      "a list of strings: a program and its arguments");
  take(
      "permission_mode", [](const Json& value) { return value.is_string() && is_permission_mode(value.get_string()); },
      "acceptEdits, auto, bypassPermissions, manual, dontAsk or plan");
  take("allowed_tools", is_list, "a list of tools, such as Bash(git *)");
  take("disallowed_tools", is_list, "a list of tools, such as WebFetch");
  take("folder", is_text, "a string");
  take(
      "project_settings", [](const Json& value) { return value.is_bool(); }, "true or false");
  take(
      "mcp", [](const Json& value) { return value.is_bool(); }, "true or false");
  take(
      "sandbox", [](const Json& value) { return value.is_object(); }, "an object");
  return out.empty() ? JsonText() : canonical(out);
}

std::string read_prompt(const Input& input) {
  std::string out = input.text("prompt", task_prompt_bytes_max);
  if (out.find_first_not_of(" \t\r\n") == out.npos) input.refuse("prompt", "is empty: say what the agent is to do");
  return out;
}

TaskSpec read_spec(const Input& input) {
  TaskSpec out;
  out.title = input.text("title", task_title_chars_max);
  if (out.title.empty()) input.refuse("title", "must say something");
  if (input.has("workflow")) {
    out.workflow = WorkflowName{input.name("workflow")};
    for (std::string_view key : {"agent", "prompt"})
      if (input.has(key)) input.refuse(key, "is for agents, and this task is a workflow's");
    for (std::string_view key : agent_settings)
      if (input.has(key)) input.refuse(key, "is for agents, and this task is a workflow's");
    out.input = input.json("input", std::move(out.input), run_input_bytes_max, "INPUT_TOO_LARGE");
  } else {
    out.agent = input.word<TaskAgent>("agent").value_or(TaskAgent::claude);
    if (out.agent == TaskAgent::none) input.refuse("agent", "must be claude or command");
    if (!input.has("prompt")) input.refuse("prompt", "is missing: say what the agent is to do, or name a workflow");
    out.prompt = read_prompt(input);
    if (input.has("input")) input.refuse("input", "is for workflows, and this task is an agent's");
    out.settings = read_settings(input);
    if (out.agent == TaskAgent::command && !input.has("command")) input.refuse("command", "is missing");
    if (out.agent == TaskAgent::command)
      for (std::string_view key : claude_settings)
        if (input.has(key)) input.refuse(key, "is for the agent claude");
  }
  if (input.has("parent_task_id")) out.parent = input.id<TaskId>("parent_task_id");
  for (const std::string& text : read_texts(input, "depends_on", task_dependencies_max, 64)) {
    auto id = TaskId::parse(text);
    if (!id) input.refuse("depends_on", "must hold ids of tasks, like " + TaskId{}.str());
    out.depends_on.push_back(*id);
  }
  out.max_budget = input.money("max_budget_usd");
  out.timeout = input.positive_duration("timeout");
  out.priority = input.word<TaskPriority>("priority").value_or(TaskPriority::normal);
  out.tags = read_texts(input, "tags", task_tags_max, task_tag_chars_max);
  return out;
}

// With the task as it is once all of it is durable.
void answer_with_task(CallPtr call, TaskId id, int status, Headers headers = {}) {
  call->api.runtime().post([call, id, status, headers = std::move(headers)](Engine& engine) mutable {
    engine.request(InspectTask{call->who.tenant, id}, [call, status, headers = std::move(headers)](
                                                          std::expected<RunPointer, Refusal> run) mutable {
      if (!run) return call->answer(problem_of(run.error()));
      call->api.answers().post(call->who.tenant, [call, status, headers = std::move(headers), run = *run]() mutable {
        call->answer(status, task_object(*run), std::move(headers));
      });
    });
  });
}

// One that a repeated request finds may run already.
void run_new_task(Engine& engine, CallPtr call, TaskId id, bool is_new, Headers headers) {
  engine.request(TaskRequest{call->who.tenant, id, RunTask{call->who.actor()}},
                 [call, id, is_new, headers](std::expected<RunAnswer, Refusal>) {
                   answer_with_task(call, id, is_new ? 201 : 200, headers);
                 });
}

void make_task(Engine& engine, CallPtr call, NewTask task, bool runs) {
  auto made = std::make_shared<std::optional<RunAnswer>>();
  engine.request(std::move(task), [call, made](std::expected<RunAnswer, Refusal> answer) {
    if (answer)
      *made = *answer;
    else
      call->answer(problem_of(answer.error()));
  });
  // Behind all of it: its parent knows of it too.
  engine.when_durable([call, made, runs] {
    if (!*made) return;
    const bool is_new = (*made)->is_new;
    TaskId id = task_of_stream((*made)->run);
    Headers headers{{"Location", "/tasks/" + id.str()}};
    if (!is_new) headers.push_back({"Idempotency-Replayed", "true"});
    if (!runs) return answer_with_task(call, id, is_new ? 201 : 200, std::move(headers));
    call->api.runtime().post([call, id, is_new, headers = std::move(headers)](Engine& again) {
      run_new_task(again, call, id, is_new, headers);
    });
  });
}

void create_task(CallPtr call) {
  call->query.only({});
  Input input = Input::parse(call->request);
  input.only({"title",
              "prompt",
              "agent",
              "model",
              "command",
              "folder",
              "mcp",
              "sandbox",
              "permission_mode",
              "allowed_tools",
              "disallowed_tools",
              "project_settings",
              "workflow",
              "input",
              "parent_task_id",
              "depends_on",
              "max_budget_usd",
              "timeout",
              "priority",
              "tags",
              "workspace",
              "run"});
  // An agent that delegates chooses neither another program nor another sandbox than its own.
  if (call->who.lease)
    input.only(
        {"title", "prompt", "parent_task_id", "depends_on", "max_budget_usd", "timeout", "priority", "tags", "run"});
  const bool runs = input.flag("run").value_or(false);
  NewTask task;
  task.tenant = call->who.tenant;
  task.by = call->who.actor();
  task.spec = read_spec(input);
  task.like_parent =
      task.spec.parent && task.spec.agent != TaskAgent::none && !input.has("agent") && task.spec.settings.empty();
  if (input.has("workspace")) task.workspace = WorkspaceName{input.name("workspace")};
  // Of its own kind: a run that was made under the same key is something else.
  if (auto key = idempotency_key(call->request))
    task.idempotency = std::make_shared<const Idempotency>(
        Idempotency{"tasks/" + call->who.key.str(), std::move(*key), sha256(input.canonical_text()).hex()});
  call->api.runtime().post([call, runs, task = std::move(task)](Engine& engine) mutable {
    TaskAgent agent = task.spec.agent;
    if (engine.can_make_tasks(task.tenant, agent)) return make_task(engine, call, std::move(task), runs);
    engine.request(PrepareTasks{task.tenant, agent},
                   [call, runs, task = std::move(task)](std::expected<WorkflowRef, Refusal> done) mutable {
                     if (!done) return call->answer(problem_of(done.error()));
                     call->api.runtime().post([call, runs, task = std::move(task)](Engine& again) mutable {
                       make_task(again, call, std::move(task), runs);
                     });
                   });
  });
}

// ---- Looking

void get_task(CallPtr call) {
  call->query.only({});
  answer_with_task(call, task_of(*call), 200);
}

struct TaskQuery {
  std::optional<TaskState> state;
  std::string tag;
  std::size_t limit = page_default;
  std::optional<TaskId> before;
};

bool fits(const Task& task, const TaskQuery& wanted) {
  if (task.deleted || (wanted.state && task.state != *wanted.state)) return false;
  return wanted.tag.empty() || std::ranges::find(task.spec.tags, wanted.tag) != task.spec.tags.end();
}

// What reading a task back needs of its workflow is the name.
const Workflow& task_workflow() {
  static const Workflow workflow = [] {
    Workflow out;
    out.name.text = task_workflow_name;
    return out;
  }();
  return workflow;
}

Run read_task(Store& store, const RunRow& row) {
  if (auto run = read_snapshot(row.snapshot, task_workflow())) return std::move(*run);
  auto run = fold_lines(row.tenant, row.id, task_workflow(), store.history(StreamKey::of(row.tenant, row.id)).lines);
  if (!run) throw StoreFailure(run.error());
  return std::move(*run);
}

// Those of them that are there, in their order.
std::vector<Run> read_tasks(Store& store, TenantId tenant, const std::vector<TaskId>& ids) {
  std::map<RunId, RunRow> rows;
  if (SharedStore* shared = store.shared()) {
    std::vector<StreamKey> keys;
    for (TaskId id : ids) keys.push_back(StreamKey::of(tenant, stream_of(id)));
    std::ranges::sort(keys);
    for (RunRow& row : shared->load_all(keys)) rows.emplace(row.id, std::move(row));
  } else {
    for (TaskId id : ids)
      if (auto row = store.load(tenant, stream_of(id))) rows.emplace(row->id, std::move(*row));
  }
  std::vector<Run> out;
  for (TaskId id : ids)
    if (auto row = rows.find(stream_of(id)); row != rows.end()) out.push_back(read_task(store, row->second));
  return out;
}

void answer_page_of(Call& call, const std::vector<Run>& found, std::optional<TaskId> more) {
  array items;
  for (const Run& run : found) items.push_back(task_summary(run));
  call.answer(200, object{{"items", std::move(items)}, {"next_cursor", more ? Json(more->str()) : Json(nullptr)}});
}

// Newest first.
void list_all(Call& call, const TaskQuery& wanted) {
  Store& store = call.api.store();
  RunFilter filter;
  filter.workflow = WorkflowName{std::string(task_workflow_name)};
  if (wanted.state) filter.status = run_status_of(*wanted.state);
  if (wanted.before) filter.before = stream_of(*wanted.before);
  filter.limit = large_items_page_max;
  std::vector<Run> out;
  std::optional<TaskId> more;
  for (std::size_t looked_at = 0; looked_at < rows_read_max;) {
    auto rows = store.list_runs(call.who.tenant, filter);
    std::vector<TaskId> ids;
    for (const RunRow& row : rows) ids.push_back(task_of_stream(row.id));
    for (Run& run : read_tasks(store, call.who.tenant, ids)) {
      if (!fits(*run.task, wanted)) continue;
      if (out.size() == wanted.limit) return answer_page_of(call, out, task_of_stream(out.back().id));
      out.push_back(std::move(run));
    }
    if (rows.size() < filter.limit) return answer_page_of(call, out, std::nullopt);
    looked_at += rows.size();
    filter.before = rows.back().id;
    more = task_of_stream(rows.back().id);
  }
  answer_page_of(call, out, more);
}

// A parent knows its subtasks, so nobody has to look for them.
void list_subtasks(Call& call, const TaskQuery& wanted, std::vector<TaskId> ids) {
  std::ranges::sort(ids, std::ranges::greater{});
  if (wanted.before) std::erase_if(ids, [&](TaskId id) { return id >= *wanted.before; });
  std::vector<Run> out;
  for (Run& run : read_tasks(call.api.store(), call.who.tenant, ids)) {
    if (!fits(*run.task, wanted)) continue;
    if (out.size() == wanted.limit) return answer_page_of(call, out, task_of_stream(out.back().id));
    out.push_back(std::move(run));
  }
  answer_page_of(call, out, std::nullopt);
}

void list_tasks(CallPtr call) {
  call->query.only({"state", "tag", "parent", "limit", "cursor"});
  TaskQuery wanted;
  if (const auto* word = call->query.find("state")) {
    wanted.state = parse_enum<TaskState>(*word);
    if (!wanted.state) refuse_input("state", "There is no such state.");
  }
  if (const auto* tag = call->query.find("tag")) wanted.tag = *tag;
  wanted.limit = call->query.number("limit", page_default, large_items_page_max);
  wanted.before = call->query.cursor<TaskId>();
  const auto* parent = call->query.find("parent");
  if (!parent) return with_fresh_tables(call, std::nullopt, [wanted](Call& c) { list_all(c, wanted); });
  auto id = TaskId::parse(*parent);
  if (!id) refuse_input("parent", "It must be a task's id, like " + TaskId{}.str() + ".");
  call->api.runtime().post([call, wanted, id = *id](Engine& engine) {
    engine.request(InspectTask{call->who.tenant, id}, [call, wanted](std::expected<RunPointer, Refusal> run) {
      if (!run) return call->answer(problem_of(run.error()));
      with_fresh_tables(call, std::nullopt,
                        [wanted, ids = (*run)->task->subtasks](Call& c) { list_subtasks(c, wanted, ids); });
    });
  });
}

void get_task_events(CallPtr call) {
  TaskId id = task_of(*call);
  call->api.runtime().post([call, id](Engine& engine) {
    engine.request(InspectTask{call->who.tenant, id}, [call, id](std::expected<RunPointer, Refusal> run) {
      if (!run) return call->answer(problem_of(run.error()));
      in_background(call, [call, id](Call&) { answer_with_events(call, stream_of(id), StreamKind::task); });
    });
  });
}

// A workflow's task may have several steps with programs: the one that is meant is named, unless only one has said
// something.
std::optional<StepId> only_step_with_logs(const Call& call, RunId run) {
  auto steps = call.api.logs().steps(run);
  if (steps.size() > 1) {
    std::string names;
    for (const StepId& step : steps) names += (names.empty() ? "" : ", ") + step.text;
    refuse_input("step", "Several steps have logs; name one: " + names + ".");
  }
  return steps.empty() ? std::nullopt : std::optional(steps.front());
}

void answer_log_of_task(CallPtr call, const Task& task, std::optional<int> number, LogRequest request) {
  auto execution = number                    ? std::ranges::find(task.executions, *number, &TaskExecution::number)
                   : task.executions.empty() ? task.executions.end()
                                             : std::prev(task.executions.end());
  if (execution == task.executions.end()) return call->answer(not_found());
  request.run = execution->run;
  // An agent's can be followed before its run has begun.
  if (task.spec.agent != TaskAgent::none) {
    request.step = StepId{std::string(agent_step)};
    return answer_log(call, std::move(request));
  }
  if (!request.step.empty()) return answer_log_of_run(call, std::move(request));
  in_background(call, [call, request = std::move(request)](Call& c) mutable {
    auto step = only_step_with_logs(c, request.run);
    if (!step) return c.answer(not_found());
    request.step = *step;
    answer_log_of_run(call, std::move(request));
  });
}

void get_logs(CallPtr call) {
  call->query.only({"execution", "step", "stream", "attempt", "after", "tail", "limit", "follow"});
  TaskId id = task_of(*call);
  LogRequest request = read_log_request(*call);
  std::optional<int> number;
  if (call->query.find("execution")) number = static_cast<int>(call->query.number("execution", 1, 1'000'000));
  if (const std::string* step = call->query.find("step")) request.step = StepId{*step};
  call->api.runtime().post([call, id, number, request = std::move(request)](Engine& engine) {
    engine.request(InspectTask{call->who.tenant, id}, [call, number, request](std::expected<RunPointer, Refusal> run) {
      if (!run) return call->answer(problem_of(run.error()));
      answer_log_of_task(call, *(*run)->task, number, request);
    });
  });
}

// ---- Asking

void command_task(CallPtr call, TaskCommand command) {
  TaskId id = task_of(*call);
  call->api.runtime().post([call, id, command = std::move(command)](Engine& engine) {
    // A deleted task is shown once more, as it was.
    bool is_delete = std::holds_alternative<DeleteTask>(command);
    auto before = std::make_shared<RunPointer>();
    if (is_delete)
      engine.request(InspectTask{call->who.tenant, id}, [before](std::expected<RunPointer, Refusal> run) {
        if (run) *before = std::move(*run);
      });
    engine.request(
        TaskRequest{call->who.tenant, id, command}, [call, id, before](std::expected<RunAnswer, Refusal> answer) {
          if (!answer) return call->answer(problem_of(answer.error()));
          if (!*before) return answer_with_task(call, id, 200);
          call->api.answers().post(call->who.tenant, [call, before] { call->answer(200, task_object(**before)); });
        });
  });
}

void run_task(CallPtr call) {
  call->query.only({});
  Input::parse(call->request).only({});
  command_task(call, RunTask{call->who.actor()});
}

// Whether all that is beneath the task is meant too.
bool with_subtasks(const Call& call) {
  call.query.only({"subtasks"});
  const auto* word = call.query.find("subtasks");
  if (word && *word != "true" && *word != "false") refuse_input("subtasks", "It must be true or false.");
  return word && *word == "true";
}

void cancel_task(CallPtr call) {
  const bool subtasks = with_subtasks(*call);
  Input input = Input::parse(call->request);
  input.only({"reason"});
  command_task(call, CancelTask{call->who.actor(), input.text_or("reason", "", 2000), subtasks});
}

// The keys that are to change, each as it would be when the task were made; null takes a limit away.
void change_task(CallPtr call) {
  call->query.only({});
  Input input = Input::parse(call->request);
  input.only({"prompt", "timeout", "max_budget_usd", "tags", "priority"});
  // Nothing is taken away by these; a null that changed nothing would look as if it did.
  for (const char* key : {"prompt", "priority", "tags"})
    if (input.is_null(key)) input.refuse(key, "must not be null; leave it out, or give another value");
  object changes;
  if (input.has("prompt")) changes["prompt"] = read_prompt(input);
  if (input.is_null("timeout"))
    changes["timeout"] = nullptr;
  else if (const auto timeout = input.positive_duration("timeout"))
    changes["timeout"] = print_duration(*timeout);
  if (input.is_null("max_budget_usd"))
    changes["max_budget_usd"] = nullptr;
  else if (const auto budget = input.money("max_budget_usd"))
    changes["max_budget_usd"] = print_money(*budget);
  if (const auto priority = input.word<TaskPriority>("priority")) changes["priority"] = to_string(*priority);
  if (input.has("tags")) {
    array tags;
    for (const std::string& tag : read_texts(input, "tags", task_tags_max, task_tag_chars_max)) tags.emplace_back(tag);
    changes["tags"] = std::move(tags);
  }
  command_task(call, ChangeTask{call->who.actor(), canonical(changes)});
}

void accept_task(CallPtr call) {
  call->query.only({});
  Input::parse(call->request).only({});
  command_task(call, AcceptTask{call->who.actor()});
}

void reject_task(CallPtr call) {
  call->query.only({});
  Input input = Input::parse(call->request);
  input.only({"comment"});
  command_task(call, RejectTask{call->who.actor(), input.text_or("comment", "", task_text_bytes_max)});
}

void resume_task(CallPtr call) {
  call->query.only({});
  Input::parse(call->request).only({});
  command_task(call, ResumeTask{call->who.actor()});
}

void answer_task(CallPtr call) {
  call->query.only({});
  Input input = Input::parse(call->request);
  input.only({"answer"});
  if (!input.has("answer")) input.refuse("answer", "is missing");
  command_task(call, AnswerTask{call->who.actor(), input.json("answer", {}, task_text_bytes_max, "INPUT_TOO_LARGE")});
}

void delete_task(CallPtr call) {
  const bool subtasks = with_subtasks(*call);
  command_task(call, DeleteTask{call->who.actor(), subtasks});
}

}  // namespace

std::vector<Route> task_routes() {
  using enum Method;
  using enum Access;
  return {
      {post, "/tasks", operator_, create_task, "Ask for something to be done"},
      {get, "/tasks", viewer, list_tasks, "List tasks, newest first"},
      {get, "/tasks/{id}", viewer, get_task, "A task with its executions"},
      {get, "/tasks/{id}/events", viewer, get_task_events, "A task's stream of events"},
      {get, "/tasks/{id}/logs", viewer, get_logs, "What those who carry a task out say", RouteKind::waits},
      {patch, "/tasks/{id}", operator_, change_task, "Change what is asked for, while nobody works on it"},
      {delete_, "/tasks/{id}", operator_, delete_task, "Delete a task that is neither queued nor running"},
      {post, "/tasks/{id}/run", operator_, run_task, "Have it done, or start over after it failed or timed out"},
      {post, "/tasks/{id}/cancel", operator_, cancel_task, "End a task"},
      {post, "/tasks/{id}/accept", approver, accept_task, "Accept the result"},
      {post, "/tasks/{id}/reject", approver, reject_task, "Reject the result"},
      {post, "/tasks/{id}/resume", operator_, resume_task, "Go on with a task that timed out"},
      {post, "/tasks/{id}/answer", approver, answer_task, "Answer its question"},
  };
}

}  // namespace pawl::api
