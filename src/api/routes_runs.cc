#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <iterator>
#include <set>

#include "api/api.h"
#include "api/run_reader.h"
#include "core/event_header.h"
#include "core/event_object.h"
#include "crypto/sha256.h"
#include "store/run_summaries.h"
#include "store/stream.h"

namespace pawl::api {
namespace {

using boost::json::array;
using boost::json::object;

constexpr std::size_t batch_items_max = 10'000;
constexpr std::size_t events_bytes_max = 8 << 20;  // past it a page ends, however many were asked for

// ---- Creating

// `content`: what makes another request with the same key another request.
std::shared_ptr<const Idempotency> idempotency_of(const Principal& who, std::string key, std::string_view content) {
  return std::make_shared<const Idempotency>(Idempotency{who.key.str(), std::move(key), sha256(content).hex()});
}

// In a batch each item may bring its own idempotency key, as a single request does in a header.
NewRun read_new_run(const Input& input, const Principal& who, bool in_batch) {
  if (in_batch)
    input.only({"workflow", "version", "input", "workspace", "trigger_type", "trigger_ref", "budget_usd", "timeout",
                "provider", "idempotency_key"});
  else
    input.only({"workflow", "version", "input", "workspace", "trigger_type", "trigger_ref", "budget_usd", "timeout",
                "provider"});
  NewRun out;
  out.tenant = who.tenant;
  out.by = who.actor();
  out.workflow = WorkflowName{input.name("workflow")};
  if (auto version = input.number("version", 1, INT32_MAX)) out.version = static_cast<int>(*version);
  out.input = input.json("input", std::move(out.input), run_input_bytes_max, "INPUT_TOO_LARGE");
  if (input.has("workspace")) out.workspace = WorkspaceName{input.name("workspace")};
  out.trigger_type = input.text_or("trigger_type", "api", 64);
  out.trigger_ref = input.text_or("trigger_ref", "", 512);
  if (out.trigger_type == "retry" || out.trigger_type == "cli" || out.trigger_type == task_trigger)
    input.refuse("trigger_type", "cannot be retry, cli or task: those are pawl's own");
  out.budget = input.money("budget_usd");
  out.timeout = input.positive_duration("timeout");
  out.provider = input.word<Provider>("provider");
  if (in_batch && input.has("idempotency_key"))
    out.idempotency =
        idempotency_of(who, input.text("idempotency_key", idempotency_key_chars_max), input.canonical_text());
  return out;
}

Problem creation_problem(const Refusal& refusal) {
  if (refusal.code != RefusalCode::not_found) return problem_of(refusal);
  return {.status = 422,
          .code = "UNKNOWN_WORKFLOW",
          .detail = "There is no such workflow, or not that version of it.",
          .where = "/workflow"};
}

// 201 with the new run, or 200 with the one that an earlier request made; with `wait`, once it has ended.
void answer_with_made_run(CallPtr call, RunAnswer made, std::optional<EndWait> wait = {}) {
  auto answer = [is_new = made.is_new](Call& c, const Run& run) {
    Headers headers{{"Location", "/runs/" + run.id.str()}};
    if (!is_new) headers.push_back({"Idempotency-Replayed", "true"});
    c.answer(is_new ? 201 : 200, shown_run(c, run), std::move(headers));
  };
  if (wait) return wait_for_end(call, made.run, std::move(*wait), answer);
  call->api.answers().post(call->who.tenant, [call, answer, run = std::move(made.state)] { answer(*call, *run); });
}

void create_run(CallPtr call) {
  call->query.only({"wait", "vocabulary"});
  call->vocabulary();
  Input input = Input::parse(call->request);
  NewRun run = read_new_run(input, call->who, false);
  run.wants_state = true;
  if (auto key = idempotency_key(call->request))
    run.idempotency = idempotency_of(call->who, std::move(*key), input.canonical_text());
  auto wait = read_end_wait(call);
  call->api.runtime().request(std::move(run),
                              [call, wait = std::move(wait)](std::expected<RunAnswer, Refusal> made) mutable {
                                if (!made) return call->answer(creation_problem(made.error()));
                                answer_with_made_run(call, std::move(*made), std::move(wait));
                              });
}

// One result an item, in their order; a bad item harms no other.
void create_batch(CallPtr call) {
  call->query.only({"vocabulary"});
  Vocabulary vocabulary = call->vocabulary();
  Input input = Input::parse(call->request);
  input.only({"items"});
  struct Item {
    std::optional<NewRun> run;
    object result;
  };
  auto items = std::make_shared<std::vector<Item>>();
  // With a key for the whole of it each item has its own: the key and the item's number.
  auto key = idempotency_key(call->request);
  input.each(
      "items", batch_items_max,
      [&](const Input& item) {
        NewRun run = read_new_run(item, call->who, true);
        if (key && !run.idempotency)
          run.idempotency =
              idempotency_of(call->who, *key + "/" + std::to_string(items->size()), item.canonical_text());
        items->emplace_back().run = std::move(run);
      },
      [&](const Problem& problem, const Json&) {
        items->emplace_back().result = {
            {"status", problem.status}, {"code", problem.code}, {"detail", problem.detail}, {"where", problem.where}};
      });
  call->api.runtime().post([call, items, vocabulary](Engine& engine) {
    for (Item& item : *items) {
      if (!item.run) continue;
      engine.request(std::move(*item.run), [&item, items, vocabulary](std::expected<RunAnswer, Refusal> answer) {
        if (answer) {
          item.result = {{"status", answer->is_new ? 201 : 200},
                         {"id", answer->run.str()},
                         {"run_status", run_word(vocabulary, answer->status, answer->phase)}};
        } else {
          Problem problem = creation_problem(answer.error());
          item.result = {{"status", problem.status}, {"code", problem.code}, {"detail", problem.detail}};
        }
      });
    }
    // Answers come in the order they were decided: this one after all of them.
    engine.when_durable([call, items] {
      call->api.answers().post(call->who.tenant, [call, items] {
        array results;
        for (Item& item : *items) results.push_back(std::move(item.result));
        call->answer(200, object{{"items", std::move(results)}});
      });
    });
  });
}

// ---- Looking

void get_run(CallPtr call) {
  call->query.only({"at", "wait", "vocabulary"});
  RunId id = run_of(*call);
  if (call->query.find("at") && call->query.find("wait"))
    refuse_input("wait", "It cannot stand beside at: the past does not change.");
  call->vocabulary();
  if (auto wait = read_end_wait(call))
    return wait_for_end(call, id, std::move(*wait), [](Call& c, const Run& run) { c.answer(200, shown_run(c, run)); });
  if (!call->query.find("at")) return answer_with_run(call, call->who.tenant, id, 200);
  std::uint64_t at = call->query.number("at", 1, UINT64_MAX / 2);
  call->api.runtime().post([call, id, at](Engine& engine) {
    auto present = std::make_shared<std::shared_ptr<const Run>>();
    engine.request(InspectRun{call->who.tenant, id}, [present](std::expected<std::shared_ptr<const Run>, Refusal> run) {
      if (run) *present = std::move(*run);
    });
    engine.request(FlushRows{call->who.tenant, id}, [call, id, at, present](std::expected<RunAnswer, Refusal> done) {
      if (!done) return call->answer(problem_of(done.error()));
      in_background(call, [id, at, present](Call& c) {
        if ((*present)->task) throw not_found();
        WholeStream stream = read_stream(c.api.store(), StreamKey::of(c.who.tenant, id));
        if (at > stream.lines.size())
          refuse_input("at", "This run has events 1 to " + std::to_string(stream.lines.size()) + ".");
        std::string lines;
        for (std::uint64_t i = 0; i < at; ++i) (lines += stream.lines[i].text) += '\n';
        auto then = fold_lines(c.who.tenant, id, *(*present)->workflow, lines);
        if (!then) throw StoreFailure(then.error());
        object out = shown_run(c, *then);
        out["head"] = stream.lines[at - 1].hash.hex();
        c.answer(200, out);
      });
    });
  });
}

void get_run_events(CallPtr call) {
  RunId id = run_of(*call);
  answer_with_events(std::move(call), id, StreamKind::run);
}

struct RunQuery {
  RunFilter filter;
  std::optional<std::string_view> word;  // a status, in the vocabulary that was asked for
  std::optional<std::string> sub_state;
  std::optional<Provider> provider;
  std::optional<std::string> provider_state;
  std::optional<std::uint64_t> retries_min;
  std::optional<Instant> until;
  std::string error_code;
  std::string text;
  Vocabulary vocabulary = Vocabulary::contract_v1;
  bool by_summary() const { return provider || provider_state || retries_min; }
  bool all_rows_fit = false;  // that the store's filter lets through
};

RunQuery read_filter(const Call& call) {
  call.query.only({"status", "sub_state", "provider", "provider_state", "retry_count_min", "workflow", "workspace",
                   "since", "until", "error_code", "q", "limit", "cursor", "vocabulary"});
  RunQuery out;
  out.vocabulary = call.vocabulary();
  out.filter.limit = call.query.number("limit", page_default, page_max);
  if (const auto* name = call.query.find("workflow")) out.filter.workflow = WorkflowName{*name};
  if (const auto* name = call.query.find("workspace")) out.filter.workspace = WorkspaceName{*name};
  auto time = [&](std::string_view name) -> std::optional<Instant> {
    const std::string* text = call.query.find(name);
    auto at = text ? parse_time(*text) : std::nullopt;
    if (text && !at) refuse_input(std::string(name), "It must be a time like 2026-11-16T02:21:57Z.");
    return at;
  };
  out.filter.since = time("since");
  out.until = time("until");
  if (const auto* code = call.query.find("error_code")) out.error_code = *code;
  out.filter.before = call.query.cursor<RunId>();
  if (const auto* text = call.query.find("q")) out.text = *text;
  auto column = static_cast<std::size_t>(out.vocabulary);
  if (const auto* word = call.query.find("status")) {
    auto row = std::ranges::find(run_projections, *word, [&](const RunProjection& r) { return r.words[column]; });
    if (row == run_projections.end()) refuse_input("status", "There is no such status in this vocabulary.");
    out.word = row->words[column];
  }
  if (const auto* word = call.query.find("sub_state")) {
    if (std::ranges::find(run_projections, *word, &RunProjection::sub_state) == run_projections.end() || word->empty())
      refuse_input("sub_state", "There is no such sub_state.");
    out.sub_state = *word;
  }
  if (const auto* word = call.query.find("provider")) {
    out.provider = parse_enum<Provider>(*word);
    if (!out.provider) refuse_input("provider", "It must be native, external, restate or stepfunctions.");
  }
  if (const auto* word = call.query.find("provider_state")) out.provider_state = *word;
  if (call.query.find("retry_count_min")) out.retries_min = call.query.number("retry_count_min", 0, INT32_MAX);
  // Several stored statuses may have one word, and one status several words. A status alone has an index.
  std::set<RunStatus> stored, others;
  for (const RunProjection& row : run_projections) {
    bool fits = (!out.word || row.words[column] == *out.word) && (!out.sub_state || row.sub_state == *out.sub_state);
    (fits ? stored : others).insert(row.stored);
  }
  if (stored.size() == 1) out.filter.status = *stored.begin();
  bool is_status = stored.size() == 1 && !others.contains(*stored.begin());
  out.all_rows_fit = out.text.empty() && out.error_code.empty() && !out.until && !out.by_summary() &&
                     ((!out.word && !out.sub_state) || is_status);
  return out;
}

RunPhase phase_of_row(const RunRow& row) { return row.phase.value_or(RunPhase::plain); }

bool fits(const RunRow& row, const RunQuery& wanted) {
  if (wanted.word && run_word(wanted.vocabulary, row.status, phase_of_row(row)) != *wanted.word) return false;
  if (wanted.sub_state && sub_state(row.status, phase_of_row(row)) != *wanted.sub_state) return false;
  if (!wanted.error_code.empty() && row.error_code != wanted.error_code) return false;
  if (wanted.until && row.created_at > *wanted.until) return false;
  const std::string& text = wanted.text;
  return text.empty() || row.id.str().find(text) != std::string::npos ||
         row.workflow.text.find(text) != std::string::npos || row.error_code.find(text) != std::string::npos;
}

bool fits(const RunSummaries& summaries, RunId run, const RunQuery& wanted) {
  auto found = summaries.find(run);
  if (found == summaries.end()) return false;
  const RunSummary& summary = found->second;
  return (!wanted.provider || summary.provider == *wanted.provider) &&
         (!wanted.provider_state || summary.provider_state == *wanted.provider_state) &&
         (!wanted.retries_min || static_cast<std::uint64_t>(summary.retries) >= *wanted.retries_min);
}

// Newest first. `more`: where to go on, when there may be more.
std::vector<RunRow> find_rows(Store& store, TenantId tenant, RunQuery wanted, std::optional<RunId>& more) {
  std::vector<RunRow> out;
  std::size_t limit = wanted.filter.limit;
  wanted.filter.limit = wanted.all_rows_fit ? limit + 1 : page_max;
  for (std::size_t looked_at = 0; looked_at < rows_read_max;) {
    auto rows = store.list_runs(tenant, wanted.filter);
    RunSummaries summaries;
    if (wanted.by_summary()) {
      std::vector<RunRow> some;
      std::ranges::copy_if(rows, std::back_inserter(some), [&](const RunRow& row) { return fits(row, wanted); });
      summaries = summaries_of(store, tenant, some);
    }
    for (RunRow& row : rows) {
      if (out.size() == limit) {
        more = out.back().id;
        return out;
      }
      wanted.filter.before = row.id;
      if (fits(row, wanted) && (!wanted.by_summary() || fits(summaries, row.id, wanted))) out.push_back(std::move(row));
    }
    if (rows.size() < wanted.filter.limit) {
      more = std::nullopt;
      return out;
    }
    looked_at += rows.size();
    more = wanted.filter.before;
  }
  return out;
}

object row_object(const RunRow& row, const RunSummaries& summaries, Vocabulary vocabulary) {
  auto found = summaries.find(row.id);
  const RunSummary summary = found == summaries.end() ? RunSummary{} : found->second;
  std::string_view sub = sub_state(row.status, phase_of_row(row));
  return {{"id", row.id.str()},
          {"tenant_id", row.tenant.str()},
          {"workflow", row.workflow.text},
          {"version", row.version},
          {"workspace", row.workspace.text},
          {"provider", to_string(summary.provider)},
          {"status", run_word(vocabulary, row.status, phase_of_row(row))},
          {"sub_state", sub.empty() ? Json(nullptr) : Json(sub)},
          {"provider_state", summary.provider_state.empty() ? Json(nullptr) : Json(summary.provider_state)},
          {"retry_count", summary.retries},
          {"error_code", row.error_code.empty() ? Json(nullptr) : Json(row.error_code)},
          {"retryable", summary.retryable ? Json(*summary.retryable) : Json(nullptr)},
          {"created_at", print_time(row.created_at)},
          {"updated_at", print_time(row.updated_at)},
          {"finished_at", summary.finished_at.ms == 0 ? Json(nullptr) : Json(print_time(summary.finished_at))},
          {"seq", row.seq}};
}

void list_runs(CallPtr call) {
  auto wanted = read_filter(*call);
  auto caps = std::make_shared<std::vector<CapUse>>();
  call->api.runtime().post(
      [call, caps](Engine& engine) { *caps = engine.scheduler().cap_use(call->who.tenant, call->api.clock().now()); });
  with_fresh_tables(call, std::nullopt, [wanted = std::move(wanted), caps](Call& c) {
    std::optional<RunId> more;
    array items;
    auto rows = find_rows(c.api.store(), c.who.tenant, wanted, more);
    auto summaries = summaries_of(c.api.store(), c.who.tenant, rows);
    RunReader runs(c.api.store(), c.who.tenant);
    const WaitReasons reasons(c, std::move(*caps));
    for (const RunRow& row : rows) {
      items.push_back(row_object(row, summaries, wanted.vocabulary));
      const bool may_wait = !is_terminal(row.status) && row.workflow.text != task_workflow_name;
      const Run* run = may_wait ? runs.find(row.id) : nullptr;
      items.back().as_object()["waits_for"] = run ? reasons.object_of(*run) : Json(nullptr);
    }
    c.answer(200, object{{"items", std::move(items)}, {"next_cursor", more ? Json(more->str()) : Json(nullptr)}});
  });
}

// ---- Deciding

void decide_waiting(CallPtr call, bool approve) {
  call->query.only({"vocabulary"});
  Input input = Input::parse(call->request);
  input.only({"approval_id", "reason"});
  ResolveApproval command{
      .approval = {}, .approve = approve, .by = call->who.actor(), .reason = input.text_or("reason", "", 2000)};
  if (input.has("approval_id")) command.approval = input.id<ApprovalId>("approval_id");
  command_run(call, run_of(*call), std::move(command));
}

void cancel_run(CallPtr call) {
  call->query.only({"vocabulary"});
  Input input = Input::parse(call->request);
  input.only({"reason"});
  command_run(call, run_of(*call), CancelRun{call->who.actor(), input.text_or("reason", "", 2000)});
}

void retry_run(CallPtr call) {
  call->query.only({"vocabulary"});
  call->vocabulary();
  Input::parse(call->request).only({});
  RunId id = run_of(*call);
  std::shared_ptr<const Idempotency> idempotency;
  if (auto key = idempotency_key(call->request))
    idempotency = idempotency_of(call->who, std::move(*key), "retry " + id.str());
  RetryRun request{call->who.tenant, id, call->who.actor(), std::move(idempotency), true};
  call->api.runtime().request(std::move(request), [call](std::expected<RunAnswer, Refusal> made) {
    if (!made) return call->answer(problem_of(made.error()));
    answer_with_made_run(call, std::move(*made));
  });
}

void answer_question(CallPtr call) {
  call->query.only({"vocabulary"});
  call->vocabulary();
  Input input = Input::parse(call->request);
  input.only({"step", "answer"});
  StepId step{input.name("step")};
  if (!input.has("answer")) input.refuse("answer", "is missing");
  RunId id = run_of(*call);
  JsonText answer = input.json("answer", {}, run_input_bytes_max, "INPUT_TOO_LARGE");
  command_run(call, id, AnswerQuestion{step, std::move(answer), call->who.actor()});
}

std::shared_ptr<const Diagnostic> read_diagnostic(const Input& input, Instant now) {
  const Json* value = input.find("diagnostic");
  if (!value) return nullptr;
  if (!value->is_object()) input.refuse("diagnostic", "must be an object");
  Input in(value->get_object(), "/diagnostic");
  in.only({"error_code", "category", "message", "likely_cause", "suggested_fix", "retryable", "severity"});
  Diagnostic out = diagnose(in.text("error_code", 128), in.text("message", diagnostic_message_chars_max), now);
  if (auto category = in.word<Category>("category")) out.category = *category;
  out.likely_cause = in.text_or("likely_cause", out.likely_cause);
  out.suggested_fix = in.text_or("suggested_fix", out.suggested_fix);
  if (auto retryable = in.flag("retryable")) out.retryable = *retryable;
  if (auto severity = in.word<Severity>("severity")) out.severity = *severity;
  return std::make_shared<const Diagnostic>(std::move(out));
}

void report_status(CallPtr call) {
  call->query.only({"vocabulary"});
  call->vocabulary();
  Input input = Input::parse(call->request);
  input.only({"status", "diagnostic", "reason"});
  auto status = input.word<RunStatus>("status");
  if (!status) input.refuse("status", "is missing");
  RunId id = run_of(*call);
  ReportStatus report{call->who.tenant,
                      id,
                      *status,
                      call->who.actor(),
                      read_diagnostic(input, call->api.clock().now()),
                      input.text_or("reason", "", 2000)};
  call->api.runtime().request(std::move(report), [call, id](std::expected<RunAnswer, Refusal> done) {
    if (!done) return call->answer(problem_of(done.error()));
    answer_with_run(call, call->who.tenant, id, 200);
  });
}

}  // namespace

void answer_with_events(CallPtr call, RunId id, StreamKind kind) {
  call->query.only({"after", "cursor", "limit", "at", "raw", "vocabulary"});
  call->vocabulary();
  const bool raw = call->query.flag("raw");
  if (call->query.find("after") && call->query.find("cursor"))
    refuse_input("cursor", "Say where to begin once: cursor, or after.");
  std::uint64_t after =
      call->query.find("after") && *call->query.find("after") == "0"
          ? 0
          : call->query.number("after", call->query.number("cursor", 0, UINT64_MAX / 2), UINT64_MAX / 2);
  std::uint64_t limit = call->query.number("limit", 1000, 10'000);
  std::uint64_t at = call->query.number("at", UINT64_MAX / 2, UINT64_MAX / 2);
  with_fresh_tables(call, id, [=](Call& c) {
    WholeStream stream = read_stream(c.api.store(), StreamKey::of(c.who.tenant, id));
    bool is_task = !stream.lines.empty() && read_event_header(stream.lines[0].text).type == "task.created";
    if (is_task != (kind == StreamKind::task)) throw not_found();
    array items;
    std::uint64_t last = std::min<std::uint64_t>(stream.lines.size(), at);
    std::uint64_t seq = after;
    std::size_t bytes = 0;
    for (; seq < last && items.size() < limit && bytes < events_bytes_max; ++seq) {
      const StreamLine& line = stream.lines[seq];
      bytes += line.text.size();
      Json event = raw ? parse_json(line.text).value_or(Json(line.text)) : shown_event(line.text);
      items.push_back(object{{"seq", line.seq}, {"hash", line.hash.hex()}, {"event", std::move(event)}});
    }
    c.answer(200, object{{"items", std::move(items)},
                         {"next_cursor", seq < last ? Json(std::to_string(seq)) : Json(nullptr)}});
  });
}

std::vector<Route> run_routes() {
  using enum Method;
  using enum Access;
  return {
      {post, "/runs", operator_, create_run, "Start a run"},
      {post, "/runs/batch", operator_, create_batch, "Start many runs in one request"},
      {get, "/runs", viewer, list_runs, "List runs, newest first"},
      {get, "/runs/{id}", viewer, get_run, "A run with its steps, as it is or as it was"},
      {get, "/runs/{id}/events", viewer, get_run_events, "A run's stream of events"},
      {post, "/runs/{id}/approve", approver, [](CallPtr call) { decide_waiting(std::move(call), true); },
       "Approve what the run waits for"},
      {post, "/runs/{id}/reject", approver, [](CallPtr call) { decide_waiting(std::move(call), false); },
       "Reject what the run waits for"},
      {post, "/runs/{id}/answer", approver, answer_question, "Answer a step's question"},
      {post, "/runs/{id}/cancel", operator_, cancel_run, "End a run for good"},
      {post, "/runs/{id}/retry", operator_, retry_run, "Start a run anew that ended badly"},
      {post, "/runs/{id}/status", operator_, report_status, "Report the status of an external run"},
  };
}

}  // namespace pawl::api
