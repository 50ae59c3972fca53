#include "core/snapshot.h"

#include <algorithm>
#include <climits>

#include "core/bytes.h"

namespace pawl {
namespace {

constexpr char format = 7;
// Without the requesters beside the creator. Runs had none then; tasks did, and are folded anew.
constexpr char format_without_requesters = 6;
// Without timers and the losses of servers.
constexpr char format_without_timers = 5;
// Also without who holds a lease, who proposed an effect, and who said how to undo it.
constexpr char format_without_holders = 4;

bool is_readable(std::string_view bytes) {
  return !bytes.empty() && bytes[0] >= format_without_holders && bytes[0] <= format;
}

class Writer : ByteWriter {
 public:
  explicit Writer(std::string& out) : ByteWriter(out) {}

  void run(const Run& run) {
    id(run.tenant.bits);
    id(run.id.bits);
    text(run.workspace.text);
    word(run.provider);
    word(run.status);
    text(run.input);
    text(run.created_by.text);
    text(run.trigger_type);
    text(run.trigger_ref);
    u64(run.idempotency != nullptr);
    if (run.idempotency) {
      text(run.idempotency->scope);
      text(run.idempotency->key);
      text(run.idempotency->digest);
    }
    id(run.retry_of.value_or(RunId{}).bits);
    u64(run.other_requesters.size());
    for (const Actor& each : run.other_requesters) text(each.text);
    i64(run.budget ? run.budget->micros : -1);
    i64(run.timeout ? run.timeout->count() : -1);
    i64(run.created_at.ms);
    since(run.created_at, run.started_at);
    since(run.created_at, run.finished_at);
    i64(run.cost.micros);
    u64(static_cast<std::uint64_t>(run.writes));
    u64(run.seq);
    diagnostic(run.diagnostic.get());
    u64(run.steps.size());
    for (const auto& each : run.steps) step(run, each);
    u64(run.approvals.size());
    for (const auto& each : run.approvals) approval(each);
    u64(run.receipts.size());
    for (const auto& each : run.receipts) receipt(run, each);
    // Only a task, or a run that is carried elsewhere, has more: what was asked for stands in the input already.
    if (run.task) task(run, *run.task);
    if (run.foreign) foreign(run, *run.foreign);
  }

 private:
  template <class Enum>
  void word(Enum value) {
    u64(static_cast<std::uint64_t>(value));
  }
  // Most moments lie shortly after the run's creation: two or three bytes instead of six. Zero stays zero.
  void since(Instant base, Instant at) { i64(at.ms == 0 ? INT64_MIN / 2 : at.ms - base.ms); }

  void diagnostic(const Diagnostic* value) {
    u64(value != nullptr);
    if (!value) return;
    text(value->error_code);
    word(value->category);
    text(value->message);
    text(value->likely_cause);
    text(value->suggested_fix);
    u64(value->retryable);
    word(value->severity);
    text(value->step.text);
    i64(value->attempt);
    i64(value->occurred_at.ms);
    diagnostic(value->cause.get());
  }

  void execution(const Run& run, const TaskExecution& value) {
    id(value.run.bits);
    text(value.session);
    u64(value.resumes);
    text(value.message);
    since(run.created_at, value.queued_at);
    since(run.created_at, value.started_at);
    since(run.created_at, value.ended_at);
    u64(value.outcome ? static_cast<std::uint64_t>(*value.outcome) + 1 : 0);
    i64(value.cost.micros);
  }

  void ids(const std::vector<TaskId>& values) {
    u64(values.size());
    for (TaskId each : values) id(each.bits);
  }

  void task(const Run& run, const Task& task) {
    word(task.state);
    u64(task.executions.size());
    for (const TaskExecution& each : task.executions) execution(run, each);
    text(task.question);
    text(task.asked_by.text);
    u64(task.asked_under);
    optional_id(task.asked_about);
    text(task.answer);
    text(task.rejection_comment);
    ids(task.subtasks);
    ids(task.dropped);
    since(run.created_at, task.updated_at);
    u64(task.deleted);
    for (const TaskExecution& each : task.executions) text(each.result);
    const JsonText spec = print_task_spec(task.spec);
    text(spec == run.input ? JsonText() : spec);
  }

  void foreign(const Run& run, const Foreign& value) {
    text(value.id);
    text(value.state);
    word(value.sub_state);
    u64(static_cast<std::uint64_t>(value.retries));
    since(run.created_at, value.next_retry_at);
    text(value.last_failure);
    text(value.output);
    u64(value.bound.size());
    for (const Foreign::Bound& each : value.bound) {
      id(each.approval.bits);
      word(each.callback.kind);
      text(each.callback.address);
      u64(each.told);
      text(each.problem);
    }
  }

  void step(const Run& run, const Step& step) {
    word(step.status);
    text(step.answer);
    if (step.status == StepStatus::pending) return;
    u64(static_cast<std::uint64_t>(step.attempts) << 1 | (step.wrote ? 1 : 0));
    u64(static_cast<std::uint64_t>(step.server_losses));
    if (step.status == StepStatus::waiting_event) since(run.created_at, step.due_at);
    u64(step.lease_token);
    u64(step.lease_holder.has_value());
    if (step.lease_holder) {
      id(step.lease_holder->key.bits);
      text(step.lease_holder->token_digest.view());
    }
    text(step.lease_owner.text);
    since(run.created_at, step.lease_expires_at);
    since(run.created_at, step.started_at);
    since(run.created_at, step.finished_at);
    since(run.created_at, step.next_eligible_at);
    text(step.output);
    i64(step.cost.micros);
    text(step.question);
    optional_id(step.doubt);
    diagnostic(step.last_error.get());
  }

  template <class AnyId>
  void optional_id(const std::optional<AnyId>& value) {
    u64(value.has_value());
    if (value) id(value->bits);
  }

  void action(const Action& value) {
    text(value.connector);
    text(value.operation);
    text(value.target);
    text(value.fields);
    word(value.risk);
    text(value.idempotency_key);
  }

  void proposal(const Proposal& value) {
    action(value.action);
    text(value.digest.view());
    u64(value.idempotent);
    text(value.before);
    optional_id(value.reverses);
    u64(value.sandboxed ? 1 + *value.sandboxed : 0);
  }

  void policy_reason(const PolicyReason& value) {
    i64(value.policy_version);
    text(value.rule);
    text(value.reason);
  }

  void receipt(const Run& run, const Receipt& receipt) {
    id(receipt.id.bits);
    u64(receipt.step);
    word(receipt.status);
    proposal(*receipt.proposal);
    policy_reason(receipt.policy_reason);
    optional_id(receipt.approval);
    text(receipt.proposed_by.text);
    u64(static_cast<std::uint64_t>(receipt.by_program) | static_cast<std::uint64_t>(receipt.is_reported) << 1);
    u64(receipt.token);
    u64(static_cast<std::uint64_t>(receipt.calls));
    since(run.created_at, receipt.intended_at);
    since(run.created_at, receipt.resolved_at);
    text(receipt.resolved_by.text);
    text(receipt.error_code);
    text(receipt.message);
    text(receipt.response);
    u64(receipt.undo != nullptr);
    if (receipt.undo) {
      action(receipt.undo->action);
      word(receipt.undo->source);
    }
    optional_id(receipt.reversed_by);
  }

  void approval(const Approval& approval) {
    id(approval.id.bits);
    u64(approval.step);
    word(approval.status);
    word(approval.terms.tier);
    u64(static_cast<std::uint64_t>(approval.terms.two_person) | (names_people(approval) ? 2u : 0u));
    i64(approval.terms.quorum);
    i64(approval.terms.expires.count());
    text(approval.terms.prompt);
    u64(approval.proposal != nullptr);
    if (approval.proposal) {
      proposal(*approval.proposal);
      policy_reason(approval.policy_reason);
    }
    i64(approval.requested_at.ms);
    i64(approval.expires_at.ms);
    i64(approval.resolved_at.ms);
    u64(approval.votes.size());
    for (const auto& vote : approval.votes) {
      text(vote.by.text);
      text(vote.via.text);
      i64(vote.at.ms);
    }
    text(approval.resolved_by.text);
    text(approval.reason);
    if (names_people(approval)) people(approval);
  }

  // Most approvals have none of this, and take no room for it.
  static bool names_people(const Approval& approval) {
    return !approval.terms.approvers.empty() || approval.terms.remind || approval.terms.escalate;
  }
  void people(const Approval& approval) {
    texts(approval.terms.approvers);
    i64(approval.terms.remind ? approval.terms.remind->count() : -1);
    i64(approval.terms.escalate ? approval.terms.escalate->count() : -1);
    texts(approval.terms.escalate_to);
    u64(static_cast<std::uint64_t>(approval.reminded) | static_cast<std::uint64_t>(approval.escalated) << 1);
    for (const auto& vote : approval.votes) text(vote.as);
  }
  void texts(const std::vector<std::string>& values) {
    u64(values.size());
    for (const std::string& value : values) text(value);
  }
};

class Reader : public ByteReader {
 public:
  // Without the workflow, how many steps there are is believed.
  explicit Reader(std::string_view snapshot, bool knows_workflow = true)
      : ByteReader(snapshot.substr(1)),
        knows_holders_(snapshot[0] > format_without_holders),
        knows_timers_(snapshot[0] > format_without_timers),
        knows_requesters_(snapshot[0] > format_without_requesters),
        knows_workflow_(knows_workflow) {}

  void run(Run& run) {
    run.tenant.bits = id();
    run.id.bits = id();
    run.workspace.text = text();
    run.provider = word<Provider>();
    run.status = word<RunStatus>();
    run.input = text();
    run.created_by.text = text();
    run.trigger_type = text();
    run.trigger_ref = text();
    if (flag()) {
      Idempotency found;
      found.scope = text();
      found.key = text();
      found.digest = text();
      run.idempotency = std::make_shared<const Idempotency>(std::move(found));
    }
    if (RunId retry_of{id()}; !retry_of.is_nil()) run.retry_of = retry_of;
    std::uint64_t others = knows_requesters_ ? u64() : 0;
    if (others > requesters_max) return fail();
    for (; others > 0 && !failed(); --others) run.other_requesters.push_back({std::string(text())});
    if (auto micros = i64(); micros >= 0) run.budget = Money{micros};
    if (auto ms = milliseconds(); ms >= 0) run.timeout = Duration(ms);
    run.created_at = moment();
    run.started_at = since(run.created_at);
    run.finished_at = since(run.created_at);
    run.cost = money();
    run.writes = count(u64());
    run.seq = u64();
    run.diagnostic = diagnostic(0);
    std::uint64_t steps = u64();
    if (steps != 0 && steps != run.defined_steps() && (knows_workflow_ || steps > steps_max)) return fail();
    run.steps.resize(steps);
    for (auto& each : run.steps) step(run, each);
    std::uint64_t approvals = u64();
    for (std::uint64_t i = 0; i < approvals && !failed(); ++i) approval(run, run.approvals.emplace_back());
    std::uint64_t receipts = u64();
    for (std::uint64_t i = 0; i < receipts && !failed(); ++i) receipt(run, run.receipts.emplace_back());
    if (run.workflow->name.text == task_workflow_name && !knows_requesters_) return fail();
    if (run.workflow->name.text == task_workflow_name && !failed()) task(run);
    if (is_foreign(run.provider) && !failed()) foreign(run);
    // What a question asks about must be there to be settled.
    for (const Step& each : run.steps)
      if (each.doubt && !failed() && !find_receipt(run, *each.doubt)) fail();
  }

  bool failed() const { return failed_ || bad(); }

 private:
  void fail() { failed_ = true; }

  template <class Enum>
  Enum word() {
    std::uint64_t value = u64();
    if (value >= enum_count<Enum>) {
      fail();
      return Enum{};
    }
    return static_cast<Enum>(value);
  }
  Money money() {
    Money out{i64()};
    if (out.micros < 0) fail();
    return out;
  }
  int count(std::uint64_t value) {
    if (value <= INT_MAX) return static_cast<int>(value);
    fail();
    return 0;
  }
  std::int64_t milliseconds() {
    std::int64_t value = i64();
    if (is_possible_time(value)) return value;
    fail();
    return 0;
  }
  Instant moment() { return {milliseconds()}; }
  Instant since(Instant base) {
    std::int64_t delta = i64();
    if (delta == INT64_MIN / 2) return {};
    if (is_possible_time(delta) && is_possible_time(base.ms + delta)) return {base.ms + delta};
    fail();
    return {};
  }

  std::shared_ptr<const Diagnostic> diagnostic(int depth) {
    if (!flag()) return nullptr;
    if (depth > diagnostic_depth_max) return fail(), nullptr;
    auto out = std::make_shared<Diagnostic>();
    out->error_code = text();
    out->category = word<Category>();
    out->message = text();
    out->likely_cause = text();
    out->suggested_fix = text();
    out->retryable = flag();
    out->severity = word<Severity>();
    out->step.text = text();
    out->attempt = i32();
    out->occurred_at = moment();
    out->cause = diagnostic(depth + 1);
    return out;
  }

  TaskExecution execution(const Run& run, int number) {
    TaskExecution out;
    out.number = number;
    out.run.bits = id();
    out.session = text();
    out.resumes = flag();
    out.message = text();
    out.queued_at = since(run.created_at);
    out.started_at = since(run.created_at);
    out.ended_at = since(run.created_at);
    if (std::uint64_t outcome = u64(); outcome > enum_count<TaskState>)
      fail();
    else if (outcome > 0)
      out.outcome = static_cast<TaskState>(outcome - 1);
    out.cost = money();
    return out;
  }

  std::vector<TaskId> ids() {
    std::vector<TaskId> out;
    std::uint64_t size = u64();
    for (std::uint64_t i = 0; i < size && !failed(); ++i) out.push_back(TaskId{id()});
    return out;
  }

  void task(Run& run) {
    auto spec = parse_task_spec(run.input);
    if (!spec) return fail();
    Task out;
    out.spec = std::move(*spec);
    out.state = word<TaskState>();
    std::uint64_t executions = u64();
    for (std::uint64_t i = 0; i < executions && !failed(); ++i)
      out.executions.push_back(execution(run, static_cast<int>(i) + 1));
    out.question = text();
    out.asked_by.text = text();
    out.asked_under = u64();
    out.asked_about = optional_id<TaskId>();
    out.answer = text();
    out.rejection_comment = text();
    out.subtasks = ids();
    out.dropped = ids();
    out.updated_at = since(run.created_at);
    out.deleted = flag();
    // One that was written before tasks had results and could be changed ends here.
    if (!at_end()) {
      for (TaskExecution& each : out.executions) each.result = text();
      if (const JsonText changed(text()); !changed.empty()) {
        spec = parse_task_spec(changed);
        if (!spec) return fail();
        out.spec = std::move(*spec);
      }
    }
    run.task = std::make_shared<const Task>(std::move(out));
  }

  void foreign(Run& run) {
    Foreign out;
    out.id = text();
    out.state = text();
    out.sub_state = word<SubState>();
    out.retries = count(u64());
    out.next_retry_at = since(run.created_at);
    out.last_failure = text();
    out.output = text();
    std::uint64_t bound = u64();
    for (std::uint64_t i = 0; i < bound && !failed(); ++i) {
      Foreign::Bound& each = out.bound.emplace_back();
      each.approval.bits = id();
      each.callback.kind = word<CallbackKind>();
      each.callback.address = text();
      each.told = flag();
      each.problem = text();
    }
    run.foreign = std::make_shared<const Foreign>(std::move(out));
  }

  void step(const Run& run, Step& step) {
    step.status = word<StepStatus>();
    step.answer = text();
    if (step.status == StepStatus::pending) return;
    std::uint64_t attempts = u64();
    step.attempts = count(attempts >> 1);
    step.wrote = (attempts & 1) != 0;
    if (knows_timers_) step.server_losses = count(u64());
    if (step.status == StepStatus::waiting_event) step.due_at = since(run.created_at);
    step.lease_token = u64();
    if (knows_holders_ && flag()) {
      RemoteHolder& holder = step.lease_holder.emplace();
      holder.key.bits = id();
      holder.token_digest = hash();
    }
    step.lease_owner.text = text();
    step.lease_expires_at = since(run.created_at);
    step.started_at = since(run.created_at);
    step.finished_at = since(run.created_at);
    step.next_eligible_at = since(run.created_at);
    step.output = text();
    step.cost = money();
    step.question = text();
    step.doubt = optional_id<ReceiptId>();
    step.last_error = diagnostic(0);
  }

  template <class AnyId>
  std::optional<AnyId> optional_id() {
    return flag() ? std::optional(AnyId{id()}) : std::nullopt;
  }

  Hash hash() {
    Hash out;
    std::string_view bytes = text();
    if (bytes.size() == out.bytes.size())
      std::copy(bytes.begin(), bytes.end(), out.bytes.begin());
    else
      fail();
    return out;
  }

  Action action() {
    Action out;
    out.connector = text();
    out.operation = text();
    out.target = text();
    out.fields = text();
    out.risk = word<Tier>();
    out.idempotency_key = text();
    return out;
  }

  std::shared_ptr<const Proposal> proposal() {
    Proposal out;
    out.action = action();
    out.digest = hash();
    out.idempotent = flag();
    out.before = text();
    out.reverses = optional_id<ReceiptId>();
    const std::uint64_t sandboxed = u64();
    if (sandboxed > 2) fail();
    if (sandboxed > 0) out.sandboxed = sandboxed == 2;
    return std::make_shared<const Proposal>(std::move(out));
  }

  PolicyReason policy_reason() {
    PolicyReason out;
    out.policy_version = i32();
    out.rule = text();
    out.reason = text();
    return out;
  }

  void receipt(const Run& run, Receipt& receipt) {
    receipt.id.bits = id();
    std::uint64_t step = u64();
    receipt.status = word<ReceiptStatus>();
    receipt.proposal = proposal();
    if (step >= run.steps.size()) return fail();
    receipt.step = static_cast<StepIndex>(step);
    receipt.policy_reason = policy_reason();
    receipt.approval = optional_id<ApprovalId>();
    if (knows_holders_) {
      receipt.proposed_by.text = text();
      const std::uint64_t flags = u64();
      receipt.by_program = (flags & 1) != 0;
      receipt.is_reported = (flags & 2) != 0;
    }
    receipt.token = u64();
    receipt.calls = count(u64());
    receipt.intended_at = since(run.created_at);
    receipt.resolved_at = since(run.created_at);
    receipt.resolved_by.text = text();
    receipt.error_code = text();
    receipt.message = text();
    receipt.response = text();
    if (flag()) {
      Action undo = action();
      receipt.undo =
          std::make_shared<const Undo>(std::move(undo), knows_holders_ ? word<UndoSource>() : UndoSource::unknown);
    }
    receipt.reversed_by = optional_id<ReceiptId>();
  }

  void approval(const Run& run, Approval& approval) {
    approval.id.bits = id();
    std::uint64_t step = u64();
    if (knows_workflow_ && step >= (is_foreign(run.provider) ? run.defined_steps() : run.steps.size())) return fail();
    approval.step = static_cast<StepIndex>(step);
    approval.status = word<ApprovalStatus>();
    approval.terms.tier = word<Tier>();
    const std::uint64_t bits = u64();
    if (bits > 3) return fail();
    approval.terms.two_person = (bits & 1) != 0;
    approval.terms.quorum = i32();
    approval.terms.expires = Duration(milliseconds());
    approval.terms.prompt = text();
    if (flag()) {
      approval.proposal = proposal();
      approval.policy_reason = policy_reason();
    }
    approval.requested_at = moment();
    approval.expires_at = moment();
    approval.resolved_at = moment();
    std::uint64_t votes = u64();
    for (std::uint64_t i = 0; i < votes && !bad(); ++i) {
      auto& vote = approval.votes.emplace_back();
      vote.by.text = text();
      vote.via.text = text();
      vote.at = moment();
    }
    approval.resolved_by.text = text();
    approval.reason = text();
    if ((bits & 2) != 0) people(approval);
  }

  void people(Approval& approval) {
    auto span = [this]() -> std::optional<Duration> {
      const std::int64_t milliseconds_or_none = i64();
      return milliseconds_or_none < 0 ? std::nullopt : std::optional(Duration(milliseconds_or_none));
    };
    texts(approval.terms.approvers);
    approval.terms.remind = span();
    approval.terms.escalate = span();
    texts(approval.terms.escalate_to);
    const std::uint64_t told = u64();
    if (told > 3) return fail();
    approval.reminded = (told & 1) != 0;
    approval.escalated = (told & 2) != 0;
    for (auto& vote : approval.votes) vote.as = text();
  }
  void texts(std::vector<std::string>& values) {
    for (std::uint64_t left = u64(); left > 0 && !bad(); --left) values.emplace_back(text());
  }

  const bool knows_holders_;
  const bool knows_timers_;
  const bool knows_requesters_;
  const bool knows_workflow_;
  bool failed_ = false;
};

}  // namespace

std::string write_snapshot(const Run& run) {
  std::string out;
  out.reserve(256);
  out += format;
  Writer(out).run(run);
  return out;
}

std::optional<Run> read_snapshot(std::string_view bytes, const Workflow& workflow) {
  if (!is_readable(bytes)) return std::nullopt;
  Run run;
  run.workflow = &workflow;
  Reader in(bytes);
  in.run(run);
  if (in.failed() || !in.at_end()) return std::nullopt;
  return run;
}

RunSummary summary_of(const Run& run) {
  return {run.provider, std::string(provider_state(run)), retries_of(run),
          run.diagnostic ? std::optional(run.diagnostic->retryable) : std::nullopt, run.finished_at};
}

std::optional<RunSummary> read_summary(std::string_view bytes) {
  static const Workflow unknown;
  if (!is_readable(bytes)) return std::nullopt;
  Run run;
  run.workflow = &unknown;
  Reader in(bytes, false);
  in.run(run);
  if (in.failed() || !in.at_end()) return std::nullopt;
  return summary_of(run);
}

}  // namespace pawl
