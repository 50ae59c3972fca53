// Events from their text: whatever it is, an event or what is wrong with it.
#include "core/event_names.h"
#include "core/tenant.h"

namespace pawl {
namespace {

template <class Trigger, std::size_t N>
std::optional<Trigger> trigger_named(const std::array<std::string_view, N>& names, std::string_view type) {
  for (std::size_t i = 0; i < N; ++i)
    if (names[i] == type) return static_cast<Trigger>(i);
  return std::nullopt;
}

// Thrown and caught in this file only: a text that is not an event has many ways to be wrong and one to say so.
struct BadEvent {
  std::string reason;
};

class ObjectReader {
 public:
  explicit ObjectReader(const Json& value) {
    if (!value.is_object()) throw BadEvent{"not an object"};
    object_ = &value.get_object();
  }

  std::string text(std::string_view key) const {
    const Json* value = object_->if_contains(key);
    if (!value || !value->is_string()) throw BadEvent{"\"" + std::string(key) + "\" must be a string"};
    return std::string(value->get_string());
  }
  std::string text_or_empty(std::string_view key) const { return has(key) ? text(key) : std::string(); }
  std::vector<std::string> texts(std::string_view key) const {
    std::vector<std::string> out;
    if (!has(key)) return out;
    if (!at(key).is_array()) throw BadEvent{"\"" + std::string(key) + "\" must be a list"};
    for (const Json& each : at(key).get_array()) {
      if (!each.is_string()) throw BadEvent{"\"" + std::string(key) + "\" must hold texts"};
      out.emplace_back(each.get_string());
    }
    return out;
  }
  std::int64_t number(std::string_view key) const {
    const Json* value = object_->if_contains(key);
    if (!value || !value->is_int64()) throw BadEvent{"\"" + std::string(key) + "\" must be a whole number"};
    return value->get_int64();
  }
  int small_number(std::string_view key) const {
    std::int64_t value = number(key);
    if (value != static_cast<int>(value)) throw BadEvent{"\"" + std::string(key) + "\" is out of range"};
    return static_cast<int>(value);
  }
  StepId step() const {
    StepId out{text("step")};
    if (!is_valid_name(out.text)) throw BadEvent{"\"step\" is not a step's name"};
    return out;
  }
  bool flag(std::string_view key) const {
    const Json* value = object_->if_contains(key);
    return value && value->is_bool() && value->get_bool();
  }
  bool has(std::string_view key) const { return object_->contains(key); }
  const Json& at(std::string_view key) const {
    const Json* value = object_->if_contains(key);
    if (!value) throw BadEvent{"\"" + std::string(key) + "\" is missing"};
    return *value;
  }
  std::int64_t milliseconds(std::string_view key) const {
    std::int64_t value = number(key);
    if (!is_possible_time(value)) throw BadEvent{"\"" + std::string(key) + "\" is out of range"};
    return value;
  }
  Instant instant(std::string_view key) const { return {milliseconds(key)}; }
  Money money(std::string_view key) const {
    if (!has(key)) return {};
    auto value = parse_money(text(key));
    if (!value) throw BadEvent{"\"" + std::string(key) + "\" is not an amount"};
    return *value;
  }
  template <class Enum>
  Enum word(std::string_view key) const {
    auto value = parse_enum<Enum>(text(key));
    if (!value) throw BadEvent{"\"" + std::string(key) + "\" has no known word"};
    return *value;
  }
  template <class Enum>
  std::optional<Enum> optional_word(std::string_view key) const {
    return has(key) ? std::optional(word<Enum>(key)) : std::nullopt;
  }
  template <class AnyId>
  AnyId id(std::string_view key) const {
    auto value = AnyId::parse(text(key));
    if (!value) throw BadEvent{"\"" + std::string(key) + "\" is not an id"};
    return *value;
  }
  template <class AnyId>
  std::optional<AnyId> optional_id(std::string_view key) const {
    return has(key) ? std::optional(id<AnyId>(key)) : std::nullopt;
  }
  Action action(std::string_view key) const {
    auto value = read_action(at(key));
    if (!value) throw BadEvent{"\"" + std::string(key) + "\": " + value.error()};
    return std::move(*value);
  }
  std::shared_ptr<const Diagnostic> diagnostic(std::string_view key, int depth = 0) const {
    if (!has(key)) return nullptr;
    if (depth > diagnostic_depth_max) throw BadEvent{"causes nest too deeply"};
    ObjectReader in(at(key));
    auto out = std::make_shared<Diagnostic>();
    out->error_code = in.text("error_code");
    out->category = in.word<Category>("category");
    out->message = in.text("message");
    out->likely_cause = in.text("likely_cause");
    out->suggested_fix = in.text("suggested_fix");
    out->retryable = in.flag("retryable");
    out->severity = in.word<Severity>("severity");
    out->step = StepId{in.text_or_empty("step")};
    out->attempt = in.has("attempt") ? in.small_number("attempt") : 0;
    out->occurred_at = in.instant("occurred_at");
    out->cause = in.diagnostic("cause", depth + 1);
    return out;
  }

  Actor actor() const { return Actor{text_or_empty("by")}; }
  Hash hash(std::string_view key) const {
    auto out = Hash::parse(text(key));
    if (!out) throw BadEvent{"\"" + std::string(key) + "\" is not a sha256 in hex"};
    return *out;
  }

 private:
  const boost::json::object* object_;
};

RunPayload read_created(const ObjectReader& in) {
  RunCreated out;
  out.workflow = WorkflowName{in.text("workflow")};
  out.version = in.small_number("version");
  out.workflow_digest = in.text("workflow_digest");
  out.workspace = WorkspaceName{in.text("workspace")};
  out.provider = in.word<Provider>("provider");
  out.input = in.text("input");
  out.by = Actor{in.text("by")};
  out.trigger_type = in.text("trigger_type");
  out.trigger_ref = in.text_or_empty("trigger_ref");
  if (in.has("idempotency_key"))
    out.idempotency = std::make_shared<const Idempotency>(
        Idempotency{in.text("idempotency_scope"), in.text("idempotency_key"), in.text("request_digest")});
  if (in.has("retry_of")) out.retry_of = in.id<RunId>("retry_of");
  if (in.has("budget_usd")) out.budget = in.money("budget_usd");
  if (in.has("timeout_ms")) out.timeout = Duration(in.milliseconds("timeout_ms"));
  for (std::string& each : in.texts("other_requesters")) out.other_requesters.push_back({std::move(each)});
  return out;
}

std::shared_ptr<const Proposal> read_proposal(const ObjectReader& in) {
  Proposal out;
  out.action = in.action("action");
  out.digest = in.hash("digest");
  out.idempotent = in.flag("idempotent");
  out.before = in.text_or_empty("before");
  out.reverses = in.optional_id<ReceiptId>("reverses");
  if (in.has("sandboxed")) out.sandboxed = in.flag("sandboxed");
  return std::make_shared<const Proposal>(std::move(out));
}

PolicyReason read_policy_reason(const ObjectReader& in) {
  return {in.small_number("policy_version"), in.text_or_empty("rule"), in.text_or_empty("reason")};
}

RunPayload read_receipt(const ObjectReader& in, ReceiptTrigger trigger) {
  ReceiptMoved out{.receipt = in.id<ReceiptId>("receipt"), .trigger = trigger};
  out.by = in.actor();
  out.error_code = in.text_or_empty("error_code");
  out.message = in.text_or_empty("message");
  out.response = in.text_or_empty("response");
  if (in.has("undo"))
    out.undo = std::make_shared<const Undo>(in.action("undo"),
                                            in.optional_word<UndoSource>("undo_source").value_or(UndoSource::unknown));
  out.reversed_by = in.optional_id<ReceiptId>("reversed_by");
  out.is_reported = in.flag("reported");
  return out;
}

// A claim of a remote worker from before tokens had a digest names none: nobody outside can report on it any more.
std::optional<RemoteHolder> read_holder(const ObjectReader& in) {
  if (!in.has("token_sha256")) return std::nullopt;
  auto key = key_of(in.actor());
  if (!key) throw BadEvent{"\"by\" is not an API key"};
  return RemoteHolder{*key, in.hash("token_sha256")};
}

RunPayload read_step(const ObjectReader& in, StepTrigger trigger) {
  StepId step = in.step();
  switch (trigger) {
    case StepTrigger::claim:
    case StepTrigger::reclaim:
      return StepClaimed{step,
                         trigger,
                         WorkerName{in.text("worker")},
                         static_cast<std::uint64_t>(in.number("token")),
                         in.instant("lease_expires_at"),
                         in.flag("writes"),
                         read_holder(in)};
    case StepTrigger::complete:
      return StepCompleted{step, in.text("output"), in.money("cost_usd"), in.actor()};
    case StepTrigger::fail_retryable:
    case StepTrigger::fail_terminal:
    case StepTrigger::refuse:
      in.at("diagnostic");  // always there
      return StepFailed{step,
                        trigger,
                        in.diagnostic("diagnostic"),
                        in.has("next_eligible_at") ? in.instant("next_eligible_at") : Instant{},
                        in.money("cost_usd"),
                        in.actor()};
    case StepTrigger::ask:
      return StepAsked{step, in.text("question"), in.optional_id<ReceiptId>("doubt"), in.actor()};
    case StepTrigger::answer:
      return StepAnswered{step, in.text("answer"), in.actor(), in.flag("early")};
    case StepTrigger::open_wait:
      return StepWaitOpened{step, in.instant("due_at")};
    case StepTrigger::arrive:
      return StepArrived{step, in.text("output")};
    case StepTrigger::release:
      return StepReleased{step, in.has("cause") ? in.word<ReleaseCause>("cause") : ReleaseCause::worker, in.actor()};
    case StepTrigger::unblock:
    case StepTrigger::open_gate:
    case StepTrigger::gate:
    case StepTrigger::due:
    case StepTrigger::approve_action:
    case StepTrigger::approve_gate:
    case StepTrigger::cancel:
      return StepMoved{step, trigger, in.actor()};
  }
  throw BadEvent{"unknown step trigger"};
}

RunPayload read_task(const ObjectReader& in, TaskTrigger trigger) {
  TaskMoved out{.trigger = trigger, .by = in.actor(), .message = in.text_or_empty("message")};
  out.run = in.optional_id<RunId>("run");
  out.session = in.text_or_empty("session");
  out.resumes = in.flag("resumes");
  if (in.has("step")) out.step = in.step();
  if (in.has("token")) out.token = static_cast<std::uint64_t>(in.number("token"));
  out.cost = in.money("cost_usd");
  out.diagnostic = in.diagnostic("diagnostic");
  out.result = in.text_or_empty("result");
  return out;
}

RunPayload read_observed(const ObjectReader& in) {
  RunObserved out;
  out.id = in.text_or_empty("foreign_id");
  out.state = in.text_or_empty("provider_state");
  out.sub_state = in.word<SubState>("sub_state");
  if (in.has("retry_count")) out.retries = in.small_number("retry_count");
  if (in.has("next_retry_at")) out.next_retry_at = in.instant("next_retry_at");
  out.last_failure = in.text_or_empty("last_failure");
  out.output = in.text_or_empty("output");
  return out;
}

RunPayload read_payload(const ObjectReader& in) {
  std::string type = in.text("type");
  if (auto trigger = trigger_named<StepTrigger>(step_event_names, type)) return read_step(in, *trigger);
  if (auto trigger = trigger_named<RunTrigger>(run_event_names, type))
    return RunMoved{*trigger, in.actor(), in.text_or_empty("reason"), in.diagnostic("diagnostic"),
                    in.optional_word<Provider>("tells")};
  if (auto trigger = trigger_named<ApprovalTrigger>(approval_event_names, type))
    return ApprovalMoved{in.id<ApprovalId>("approval"),
                         *trigger,
                         in.actor(),
                         in.text_or_empty("reason"),
                         Actor{in.text_or_empty("via")},
                         in.optional_word<Provider>("tells"),
                         in.text_or_empty("as")};
  if (auto trigger = trigger_named<ReceiptTrigger>(receipt_event_names, type)) return read_receipt(in, *trigger);
  if (auto trigger = trigger_named<TaskTrigger>(task_event_names, type)) return read_task(in, *trigger);
  if (type == "run.observed") return read_observed(in);
  if (type == "approval.told") return ApprovalTold{in.id<ApprovalId>("approval"), in.text_or_empty("problem")};
  if (type == "run.created" || type == "task.created") return read_created(in);
  if (type == "task.asked")
    return TaskAsked{in.text("question"), in.optional_id<TaskId>("about"), in.actor(), in.text_or_empty("answer")};
  if (type == "task.question_closed")
    return TaskAsked{{}, in.optional_id<TaskId>("about"), in.actor(), in.text_or_empty("answer")};
  if (type == "task.subtask_added" || type == "task.subtask_dropped")
    return TaskSubtask{in.id<TaskId>("subtask"), type == "task.subtask_dropped", in.actor()};
  if (type == "task.changed") return TaskChanged{in.text("changes"), in.actor()};
  if (type == "task.deleted") return TaskDeleted{in.actor()};
  if (type == "step.charged") return StepCharged{in.step(), in.money("cost_usd"), in.actor()};
  if (type == "approval.requested") {
    ApprovalTerms terms;
    terms.tier = in.word<Tier>("tier");
    terms.two_person = in.flag("two_person");
    terms.quorum = in.small_number("quorum");
    terms.prompt = in.text_or_empty("prompt");
    Instant expires_at = in.instant("expires_at");
    terms.expires = expires_at - in.instant("at");
    terms.approvers = in.texts("approvers");
    terms.escalate_to = in.texts("escalate_to");
    if (in.has("remind_at")) terms.remind = in.instant("remind_at") - in.instant("at");
    if (in.has("escalate_at")) terms.escalate = in.instant("escalate_at") - in.instant("at");
    ApprovalRequested out{in.id<ApprovalId>("approval"), in.step(), std::move(terms), expires_at};
    if (in.has("action")) {
      out.proposal = read_proposal(in);
      out.policy_reason = read_policy_reason(in);
    }
    out.by = in.actor();
    if (in.has("callback")) {
      ObjectReader callback(in.at("callback"));
      out.callback = Callback{callback.word<CallbackKind>("kind"), callback.text("address")};
    }
    return out;
  }
  if (type == "approval.voted")
    return ApprovalVoted{in.id<ApprovalId>("approval"), Actor{in.text("by")}, Actor{in.text_or_empty("via")},
                         in.text_or_empty("as")};
  if (type == "approval.reminded" || type == "approval.escalated")
    return ApprovalReminded{in.id<ApprovalId>("approval"), type == "approval.escalated", in.texts("to")};
  if (type == "receipt.intended")
    return ReceiptIntended{in.id<ReceiptId>("receipt"),
                           in.step(),
                           read_proposal(in),
                           read_policy_reason(in),
                           in.optional_id<ApprovalId>("approval"),
                           in.actor(),
                           in.flag("by_program")};
  if (type == "receipt.repeated")
    return ReceiptRepeated{in.id<ReceiptId>("receipt"), read_policy_reason(in), in.optional_id<ApprovalId>("approval"),
                           in.actor(), in.has("action") ? read_proposal(in) : nullptr};
  if (type == "action.denied") return ActionDenied{in.step(), read_proposal(in), read_policy_reason(in), in.actor()};
  if (type == "action.found")
    return ActionFound{in.step(), read_proposal(in), in.id<ReceiptId>("receipt"), in.id<RunId>("run"), in.actor()};
  if (type == "transition.refused" || type == "task.refused")
    return TransitionRefused{in.text("requested"), in.text("state"), in.text("code"), in.actor(),
                             type == "task.refused"};
  throw BadEvent{"unknown type \"" + type + "\""};
}

}  // namespace

std::expected<RunEvent, std::string> parse_run_event(std::string_view text) {
  auto value = parse_json(text);
  if (!value) return std::unexpected(value.error());
  try {
    ObjectReader in(*value);
    if (std::int64_t version = in.number("v"); version < 1 || version > event_format_version)
      return std::unexpected("event format " + std::to_string(version) + " is newer than this pawl; upgrade it");
    return RunEvent{in.instant("at"), read_payload(in)};
  } catch (const BadEvent& bad) {
    return std::unexpected(bad.reason);
  }
}

}  // namespace pawl
