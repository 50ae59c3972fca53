// Events to canonical JSON. The fields below are written in the order RFC 8785 sorts them in, by hand: this
// is the hottest code of the engine, and a test compares every kind of event with the generic canonical writer.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/event_names.h"
#include "core/tenant.h"

namespace pawl {
namespace {

// A field's name as it stands in the text, made when this is compiled: ,"name":
struct Key {
  static constexpr std::size_t size_max = 24;

  consteval Key(const char* name) {
    for (char c : std::string_view(",\"")) text[size++] = c;
    for (char c : std::string_view(name)) text[size++] = c;
    for (char c : std::string_view("\":")) text[size++] = c;
  }

  char text[size_max]{};
  std::size_t size = 0;
};

// Appends to a string whose end is made first and filled then: many small pieces cost a few instructions each.
class TextWriter {
 public:
  explicit TextWriter(std::string& out) : out_(out), used_(out.size()) { make_room(usual_bytes); }
  TextWriter(const TextWriter&) = delete;
  TextWriter& operator=(const TextWriter&) = delete;
  ~TextWriter() { out_.resize(used_); }

  void put(char c) {
    make_room(1);
    out_[used_++] = c;
  }
  void put(std::string_view text) {
    make_room(text.size());
    std::memcpy(&out_[used_], text.data(), text.size());
    used_ += text.size();
  }
  void put(const Key& key, bool with_comma) {
    make_room(Key::size_max);
    std::size_t skipped = with_comma ? 0 : 1;
    std::memcpy(&out_[used_], key.text + skipped, Key::size_max - 1);  // a known size is copied at once
    used_ += key.size - skipped;
  }
  void put(std::int64_t number) {
    constexpr std::size_t digits_max = 20;
    make_room(digits_max);
    char* begin = &out_[used_];
    used_ += static_cast<std::size_t>(std::to_chars(begin, begin + digits_max, number).ptr - begin);
  }
  void put_string(std::string_view text) {
    if (plain_json_prefix(text) == text.size()) {
      put('"');
      put(text);
      put('"');
    } else {
      std::string escaped;
      append_json_string(escaped, text);
      put(escaped);
    }
  }

 private:
  static constexpr std::size_t usual_bytes = 256;

  void make_room(std::size_t bytes) {
    if (out_.size() - used_ < bytes) out_.resize(used_ + std::max(bytes, usual_bytes));
  }

  std::string& out_;
  std::size_t used_;
};

class ObjectWriter {
 public:
  explicit ObjectWriter(TextWriter& out) : out_(out) { out_.put('{'); }
  void close() { out_.put('}'); }

  void number(const Key& key, std::int64_t value) {
    open(key);
    out_.put(value);
  }
  void text(const Key& key, std::string_view value) {
    open(key);
    out_.put_string(value);
  }
  // Known to need no escape: enumerators, ids, our own words.
  void word(const Key& key, std::string_view value) {
    open(key);
    out_.put('"');
    out_.put(value);
    out_.put('"');
  }
  void flag(const Key& key, bool value) {
    open(key);
    out_.put(std::string_view(value ? "true" : "false"));
  }
  // JSON that is stored as text is a string here: hashing must not depend on how someone else spells a number.
  void json(const Key& key, const JsonText& value) { text(key, value); }

  // JSON that is canonical already stands as what it is.
  void canonical_json(const Key& key, std::string_view value) {
    open(key);
    out_.put(value);
  }

  void texts_unless_empty(const Key& key, const std::vector<std::string>& values) {
    if (values.empty()) return;
    open(key);
    for (std::size_t i = 0; i < values.size(); ++i) {
      out_.put(i == 0 ? '[' : ',');
      out_.put_string(values[i]);
    }
    out_.put(']');
  }
  void text_unless_empty(const Key& key, std::string_view value) {
    if (!value.empty()) text(key, value);
  }
  void money_unless_zero(const Key& key, Money value) {
    if (value.micros != 0) word(key, print_money(value));
  }
  void callback(const Key& key, const Callback& value) {
    open(key);
    ObjectWriter object(out_);
    object.text("address", value.address);
    object.word("kind", to_string(value.kind));
    object.close();
  }
  void diagnostic(const Key& key, const Diagnostic& value) {
    open(key);
    write(value);
  }

 private:
  void open(const Key& key) {
    out_.put(key, !is_first_);
    is_first_ = false;
  }

  void write(const Diagnostic& value) {
    ObjectWriter object(out_);
    if (value.attempt != 0) object.number("attempt", value.attempt);
    object.word("category", to_string(value.category));
    if (value.cause) object.diagnostic("cause", *value.cause);
    object.text("error_code", value.error_code);
    object.text("likely_cause", value.likely_cause);
    object.text("message", value.message);
    object.number("occurred_at", value.occurred_at.ms);
    object.flag("retryable", value.retryable);
    object.word("severity", to_string(value.severity));
    object.text_unless_empty("step", value.step.text);
    object.text("suggested_fix", value.suggested_fix);
    object.close();
  }

  TextWriter& out_;
  bool is_first_ = true;
};

// Writes one event's fields; "at" sorts among them, so each writer places it itself.
class EventWriter {
 public:
  EventWriter(TextWriter& out, const RunEvent& event) : object_(out), at_(event.at), type_(type_of(event.payload)) {}

  void operator()(const RunCreated& event) {
    object_.number("at", at_.ms);
    if (event.budget) object_.word("budget_usd", print_money(*event.budget));
    object_.text("by", event.by.text);
    if (event.idempotency) {
      object_.text("idempotency_key", event.idempotency->key);
      object_.text("idempotency_scope", event.idempotency->scope);
    }
    object_.json("input", event.input);
    std::vector<std::string> others;
    for (const Actor& each : event.other_requesters) others.push_back(each.text);
    object_.texts_unless_empty("other_requesters", others);
    object_.word("provider", to_string(event.provider));
    if (event.idempotency) object_.text("request_digest", event.idempotency->digest);
    if (event.retry_of) object_.word("retry_of", event.retry_of->str());
    if (event.timeout) object_.number("timeout_ms", event.timeout->count());
    object_.text_unless_empty("trigger_ref", event.trigger_ref);
    object_.text("trigger_type", event.trigger_type);
    object_.word("type", type_);
    object_.number("v", event_format_version);
    object_.number("version", event.version);
    object_.text("workflow", event.workflow.text);
    object_.text("workflow_digest", event.workflow_digest);
    object_.text("workspace", event.workspace.text);
    object_.close();
  }

  void operator()(const RunMoved& event) {
    object_.number("at", at_.ms);
    object_.text_unless_empty("by", event.by.text);
    if (event.diagnostic) object_.diagnostic("diagnostic", *event.diagnostic);
    object_.text_unless_empty("reason", event.reason);
    if (event.tells) object_.word("tells", to_string(*event.tells));
    end();
  }

  void operator()(const RunObserved& event) {
    object_.number("at", at_.ms);
    object_.text_unless_empty("foreign_id", event.id);
    object_.text_unless_empty("last_failure", event.last_failure);
    if (event.next_retry_at.ms != 0) object_.number("next_retry_at", event.next_retry_at.ms);
    if (!event.output.empty()) object_.json("output", event.output);
    object_.text_unless_empty("provider_state", event.state);
    if (event.retries != 0) object_.number("retry_count", event.retries);
    object_.word("sub_state", to_string(event.sub_state));
    end();
  }

  void operator()(const ApprovalTold& event) {
    object_.word("approval", event.approval.str());
    object_.number("at", at_.ms);
    object_.text_unless_empty("problem", event.problem);
    end();
  }

  void operator()(const StepMoved& event) {
    object_.number("at", at_.ms);
    object_.text_unless_empty("by", event.by.text);
    object_.word("step", event.step.text);
    end();
  }

  void operator()(const StepWaitOpened& event) {
    object_.number("at", at_.ms);
    object_.number("due_at", event.due_at.ms);
    object_.word("step", event.step.text);
    end();
  }

  void operator()(const StepArrived& event) {
    object_.number("at", at_.ms);
    object_.json("output", event.output);
    object_.word("step", event.step.text);
    end();
  }

  void operator()(const StepReleased& event) {
    object_.number("at", at_.ms);
    object_.text_unless_empty("by", event.by.text);
    if (event.cause != ReleaseCause::worker) object_.word("cause", to_string(event.cause));
    object_.word("step", event.step.text);
    end();
  }

  void operator()(const StepClaimed& event) {
    object_.number("at", at_.ms);
    if (event.holder) object_.word("by", actor_of(event.holder->key).text);
    object_.number("lease_expires_at", event.lease_expires_at.ms);
    object_.word("step", event.step.text);
    object_.number("token", static_cast<std::int64_t>(event.token));
    if (event.holder) object_.word("token_sha256", event.holder->token_digest.hex());
    object_.word("type", type_);
    object_.number("v", event_format_version);
    object_.text("worker", event.worker.text);
    if (event.writes) object_.flag("writes", true);
    object_.close();
  }

  void operator()(const StepCompleted& event) {
    object_.number("at", at_.ms);
    object_.text_unless_empty("by", event.by.text);
    object_.money_unless_zero("cost_usd", event.cost);
    object_.json("output", event.output);
    object_.word("step", event.step.text);
    end();
  }

  void operator()(const StepFailed& event) {
    object_.number("at", at_.ms);
    object_.text_unless_empty("by", event.by.text);
    object_.money_unless_zero("cost_usd", event.cost);
    object_.diagnostic("diagnostic", *event.diagnostic);
    if (event.next_eligible_at.ms != 0) object_.number("next_eligible_at", event.next_eligible_at.ms);
    object_.word("step", event.step.text);
    end();
  }

  void operator()(const StepCharged& event) {
    object_.number("at", at_.ms);
    object_.text_unless_empty("by", event.by.text);
    object_.money_unless_zero("cost_usd", event.cost);
    object_.word("step", event.step.text);
    end();
  }

  void operator()(const StepAsked& event) {
    object_.number("at", at_.ms);
    object_.text_unless_empty("by", event.by.text);
    if (event.doubt) object_.word("doubt", event.doubt->str());
    object_.json("question", event.question);
    object_.word("step", event.step.text);
    end();
  }

  void operator()(const StepAnswered& event) {
    object_.json("answer", event.answer);
    object_.number("at", at_.ms);
    object_.text_unless_empty("by", event.by.text);
    if (event.early) object_.flag("early", true);
    object_.word("step", event.step.text);
    end();
  }

  void operator()(const ApprovalRequested& event) {
    if (event.proposal) action(event.proposal->action);
    object_.word("approval", event.approval.str());
    object_.texts_unless_empty("approvers", event.terms.approvers);
    object_.number("at", at_.ms);
    if (event.proposal) before(*event.proposal);
    object_.text_unless_empty("by", event.by.text);
    if (event.callback) object_.callback("callback", *event.callback);
    if (event.proposal) object_.word("digest", event.proposal->digest.hex());
    if (event.terms.escalate) object_.number("escalate_at", (at_ + *event.terms.escalate).ms);
    object_.texts_unless_empty("escalate_to", event.terms.escalate_to);
    object_.number("expires_at", event.expires_at.ms);
    if (event.proposal) {
      object_.flag("idempotent", event.proposal->idempotent);
      object_.number("policy_version", event.policy_reason.policy_version);
    }
    object_.text_unless_empty("prompt", event.terms.prompt);
    object_.number("quorum", event.terms.quorum);
    if (event.proposal) object_.text_unless_empty("reason", event.policy_reason.reason);
    if (event.terms.remind) object_.number("remind_at", (at_ + *event.terms.remind).ms);
    if (event.proposal) rule_after_reason(*event.proposal, event.policy_reason);
    object_.word("step", event.step.text);
    object_.word("tier", to_string(event.terms.tier));
    if (event.terms.two_person) object_.flag("two_person", true);
    end();
  }

  void operator()(const ApprovalVoted& event) {
    object_.word("approval", event.approval.str());
    object_.text_unless_empty("as", event.as);
    object_.number("at", at_.ms);
    object_.text("by", event.by.text);
    end_via(event.via);
  }

  void operator()(const ApprovalReminded& event) {
    object_.word("approval", event.approval.str());
    object_.number("at", at_.ms);
    object_.texts_unless_empty("to", event.to);
    end();
  }

  void operator()(const ApprovalMoved& event) {
    object_.word("approval", event.approval.str());
    object_.text_unless_empty("as", event.as);
    object_.number("at", at_.ms);
    object_.text_unless_empty("by", event.by.text);
    object_.text_unless_empty("reason", event.reason);
    if (event.tells) object_.word("tells", to_string(*event.tells));
    end_via(event.via);
  }

  void operator()(const ReceiptIntended& event) {
    action(event.proposal->action);
    if (event.approval) object_.word("approval", event.approval->str());
    object_.number("at", at_.ms);
    judged(*event.proposal, event.policy_reason,
           {.by = event.by, .by_program = event.by_program, .receipt = &event.receipt});
    object_.word("step", event.step.text);
    end();
  }

  void operator()(const ReceiptRepeated& event) {
    if (event.proposal) action(event.proposal->action);
    if (event.approval) object_.word("approval", event.approval->str());
    object_.number("at", at_.ms);
    if (event.proposal) {
      judged(*event.proposal, event.policy_reason, {.by = event.by, .receipt = &event.receipt});
      return end();
    }
    object_.text_unless_empty("by", event.by.text);
    object_.number("policy_version", event.policy_reason.policy_version);
    object_.text_unless_empty("reason", event.policy_reason.reason);
    object_.word("receipt", event.receipt.str());
    object_.text_unless_empty("rule", event.policy_reason.rule);
    end();
  }

  void operator()(const ReceiptMoved& event) {
    object_.number("at", at_.ms);
    object_.text_unless_empty("by", event.by.text);
    object_.text_unless_empty("error_code", event.error_code);
    object_.text_unless_empty("message", event.message);
    object_.word("receipt", event.receipt.str());
    if (event.is_reported) object_.flag("reported", true);
    if (!event.response.empty()) object_.json("response", event.response);
    if (event.reversed_by) object_.word("reversed_by", event.reversed_by->str());
    object_.word("type", type_);
    if (event.undo) object_.canonical_json("undo", print_action(event.undo->action));
    if (event.undo && event.undo->source != UndoSource::unknown)
      object_.word("undo_source", to_string(event.undo->source));
    object_.number("v", event_format_version);
    object_.close();
  }

  void operator()(const ActionDenied& event) {
    action(event.proposal->action);
    object_.number("at", at_.ms);
    judged(*event.proposal, event.policy_reason, {.by = event.by});
    object_.word("step", event.step.text);
    end();
  }

  void operator()(const ActionFound& event) {
    action(event.proposal->action);
    object_.number("at", at_.ms);
    judged(*event.proposal, {}, {.by = event.by, .receipt = &event.receipt, .run = &event.run});
    object_.word("step", event.step.text);
    end();
  }

  void operator()(const TaskMoved& event) {
    object_.number("at", at_.ms);
    object_.text_unless_empty("by", event.by.text);
    object_.money_unless_zero("cost_usd", event.cost);
    if (event.diagnostic) object_.diagnostic("diagnostic", *event.diagnostic);
    object_.text_unless_empty("message", event.message);
    if (!event.result.empty()) object_.json("result", event.result);
    if (event.resumes) object_.flag("resumes", true);
    if (event.run) object_.word("run", event.run->str());
    object_.text_unless_empty("session", event.session);
    object_.text_unless_empty("step", event.step.text);
    if (event.token != 0) object_.number("token", static_cast<std::int64_t>(event.token));
    end();
  }

  void operator()(const TaskAsked& event) {
    if (event.about) object_.word("about", event.about->str());
    object_.text_unless_empty("answer", event.answer);
    object_.number("at", at_.ms);
    object_.text_unless_empty("by", event.by.text);
    if (!event.question.empty()) object_.json("question", event.question);
    end();
  }

  void operator()(const TaskSubtask& event) {
    object_.number("at", at_.ms);
    object_.text_unless_empty("by", event.by.text);
    object_.word("subtask", event.subtask.str());
    end();
  }

  void operator()(const TaskChanged& event) {
    object_.number("at", at_.ms);
    object_.text_unless_empty("by", event.by.text);
    object_.json("changes", event.changes);
    end();
  }

  void operator()(const TaskDeleted& event) {
    object_.number("at", at_.ms);
    object_.text_unless_empty("by", event.by.text);
    end();
  }

  void operator()(const TransitionRefused& event) {
    object_.number("at", at_.ms);
    object_.text_unless_empty("by", event.by.text);
    object_.text("code", event.code);
    object_.text("requested", event.requested);
    object_.text("state", event.state);
    end();
  }

 private:
  void end() {
    object_.word("type", type_);
    object_.number("v", event_format_version);
    object_.close();
  }
  void end_via(const Actor& via) {
    object_.word("type", type_);
    object_.number("v", event_format_version);
    object_.text_unless_empty("via", via.text);
    object_.close();
  }

  void action(const Action& value) { object_.canonical_json("action", print_action(value)); }
  void before(const Proposal& proposal) {
    if (!proposal.before.empty()) object_.json("before", proposal.before);
  }
  void rule_after_reason(const Proposal& proposal, const PolicyReason& policy_reason) {
    if (proposal.reverses) object_.word("reverses", proposal.reverses->str());
    object_.text_unless_empty("rule", policy_reason.rule);
    if (proposal.sandboxed) object_.flag("sandboxed", *proposal.sandboxed);
  }
  struct Beside {
    const Actor& by;
    bool by_program = false;
    const ReceiptId* receipt = nullptr;
    const RunId* run = nullptr;
  };
  void judged(const Proposal& proposal, const PolicyReason& policy_reason, const Beside& beside) {
    before(proposal);
    object_.text_unless_empty("by", beside.by.text);
    if (beside.by_program) object_.flag("by_program", true);
    object_.word("digest", proposal.digest.hex());
    object_.flag("idempotent", proposal.idempotent);
    object_.number("policy_version", policy_reason.policy_version);
    object_.text_unless_empty("reason", policy_reason.reason);
    if (beside.receipt) object_.word("receipt", beside.receipt->str());
    if (proposal.reverses) object_.word("reverses", proposal.reverses->str());
    object_.text_unless_empty("rule", policy_reason.rule);
    if (beside.run) object_.word("run", beside.run->str());
    if (proposal.sandboxed) object_.flag("sandboxed", *proposal.sandboxed);
  }

  ObjectWriter object_;
  Instant at_;
  std::string_view type_;
};

struct TypeOf {
  std::string_view operator()(const RunCreated& event) const {
    return event.workflow.text == task_workflow_name ? "task.created" : "run.created";
  }
  std::string_view operator()(const RunMoved& event) const { return event_name(event.trigger); }
  std::string_view operator()(const StepMoved& event) const { return event_name(event.trigger); }
  std::string_view operator()(const StepClaimed& event) const { return event_name(event.trigger); }
  std::string_view operator()(const StepWaitOpened&) const { return event_name(StepTrigger::open_wait); }
  std::string_view operator()(const StepArrived&) const { return event_name(StepTrigger::arrive); }
  std::string_view operator()(const StepReleased&) const { return event_name(StepTrigger::release); }
  std::string_view operator()(const StepCompleted&) const { return event_name(StepTrigger::complete); }
  std::string_view operator()(const StepFailed& event) const { return event_name(event.trigger); }
  std::string_view operator()(const StepCharged&) const { return "step.charged"; }
  std::string_view operator()(const StepAsked&) const { return event_name(StepTrigger::ask); }
  std::string_view operator()(const StepAnswered&) const { return event_name(StepTrigger::answer); }
  std::string_view operator()(const ApprovalRequested&) const { return "approval.requested"; }
  std::string_view operator()(const ApprovalVoted&) const { return "approval.voted"; }
  std::string_view operator()(const ApprovalMoved& event) const { return event_name(event.trigger); }
  std::string_view operator()(const ReceiptIntended&) const { return "receipt.intended"; }
  std::string_view operator()(const ReceiptRepeated&) const { return "receipt.repeated"; }
  std::string_view operator()(const ReceiptMoved& event) const { return event_name(event.trigger); }
  std::string_view operator()(const ActionDenied&) const { return "action.denied"; }
  std::string_view operator()(const ActionFound&) const { return "action.found"; }
  std::string_view operator()(const TaskMoved& event) const { return event_name(event.trigger); }
  std::string_view operator()(const TaskAsked& event) const {
    return event.question.empty() ? "task.question_closed" : "task.asked";
  }
  std::string_view operator()(const TaskSubtask& event) const {
    return event.dropped ? "task.subtask_dropped" : "task.subtask_added";
  }
  std::string_view operator()(const TaskChanged&) const { return "task.changed"; }
  std::string_view operator()(const TaskDeleted&) const { return "task.deleted"; }
  std::string_view operator()(const RunObserved&) const { return "run.observed"; }
  std::string_view operator()(const ApprovalTold&) const { return "approval.told"; }
  std::string_view operator()(const ApprovalReminded& event) const {
    return event.escalates ? "approval.escalated" : "approval.reminded";
  }
  std::string_view operator()(const TransitionRefused& event) const {
    return event.of_task ? "task.refused" : "transition.refused";
  }
};

}  // namespace

std::string_view event_name(RunTrigger trigger) { return run_event_names[static_cast<std::size_t>(trigger)]; }
std::string_view event_name(StepTrigger trigger) { return step_event_names[static_cast<std::size_t>(trigger)]; }
std::string_view event_name(ApprovalTrigger trigger) { return approval_event_names[static_cast<std::size_t>(trigger)]; }
std::string_view event_name(ReceiptTrigger trigger) { return receipt_event_names[static_cast<std::size_t>(trigger)]; }
std::string_view event_name(TaskTrigger trigger) { return task_event_names[static_cast<std::size_t>(trigger)]; }
std::string_view type_of(const RunPayload& payload) { return std::visit(TypeOf{}, payload); }

void append_event(std::string& out, const RunEvent& event) {
  TextWriter text(out);
  std::visit(EventWriter(text, event), event.payload);
}

}  // namespace pawl
