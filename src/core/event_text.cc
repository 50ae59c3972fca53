// Events to canonical JSON and back. The fields below are written in the order RFC 8785 sorts them in, by hand: this
// is the hottest code of the engine, and a test compares every kind of event with the generic canonical writer.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/event.h"
#include "core/invariant.h"

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

  void text_unless_empty(const Key& key, std::string_view value) {
    if (!value.empty()) text(key, value);
  }
  void money_unless_zero(const Key& key, Money value) {
    if (value.micros != 0) word(key, print_money(value));
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
    end();
  }

  void operator()(const StepMoved& event) {
    object_.number("at", at_.ms);
    object_.word("step", event.step.text);
    end();
  }

  void operator()(const StepClaimed& event) {
    object_.number("at", at_.ms);
    object_.number("lease_expires_at", event.lease_expires_at.ms);
    object_.word("step", event.step.text);
    object_.number("token", static_cast<std::int64_t>(event.token));
    object_.word("type", type_);
    object_.number("v", event_format_version);
    object_.text("worker", event.worker.text);
    if (event.writes) object_.flag("writes", true);
    object_.close();
  }

  void operator()(const StepCompleted& event) {
    object_.number("at", at_.ms);
    object_.money_unless_zero("cost_usd", event.cost);
    object_.json("output", event.output);
    object_.word("step", event.step.text);
    end();
  }

  void operator()(const StepFailed& event) {
    object_.number("at", at_.ms);
    object_.money_unless_zero("cost_usd", event.cost);
    object_.diagnostic("diagnostic", *event.diagnostic);
    if (event.next_eligible_at.ms != 0) object_.number("next_eligible_at", event.next_eligible_at.ms);
    object_.word("step", event.step.text);
    end();
  }

  void operator()(const StepAsked& event) {
    object_.number("at", at_.ms);
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
    object_.word("approval", event.approval.str());
    object_.number("at", at_.ms);
    object_.number("expires_at", event.expires_at.ms);
    object_.text_unless_empty("prompt", event.terms.prompt);
    object_.number("quorum", event.terms.quorum);
    object_.word("step", event.step.text);
    object_.word("tier", to_string(event.terms.tier));
    if (event.terms.two_person) object_.flag("two_person", true);
    end();
  }

  void operator()(const ApprovalVoted& event) {
    object_.word("approval", event.approval.str());
    object_.number("at", at_.ms);
    object_.text("by", event.by.text);
    end();
  }

  void operator()(const ApprovalMoved& event) {
    object_.word("approval", event.approval.str());
    object_.number("at", at_.ms);
    object_.text_unless_empty("by", event.by.text);
    object_.text_unless_empty("reason", event.reason);
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

  ObjectWriter object_;
  Instant at_;
  std::string_view type_;
};

constexpr std::array run_event_names{
    std::string_view("run.started"),   std::string_view("run.paused"), std::string_view("run.resumed"),
    std::string_view("run.succeeded"), std::string_view("run.failed"), std::string_view("run.denied"),
    std::string_view("run.timed_out"), std::string_view("run.canceled")};

constexpr std::array step_event_names{std::string_view("step.unblocked"),
                                      std::string_view("step.gate_opened"),
                                      std::string_view("step.claimed"),
                                      std::string_view("step.reclaimed"),
                                      std::string_view("step.released"),
                                      std::string_view("step.completed"),
                                      std::string_view("step.gated"),
                                      std::string_view("step.asked"),
                                      std::string_view("step.failed_retryable"),
                                      std::string_view("step.failed_terminal"),
                                      std::string_view("step.due"),
                                      std::string_view("step.action_approved"),
                                      std::string_view("step.gate_approved"),
                                      std::string_view("step.refused"),
                                      std::string_view("step.answered"),
                                      std::string_view("step.given_up"),
                                      std::string_view("step.canceled")};

constexpr std::array approval_event_names{std::string_view("approval.approved"), std::string_view("approval.rejected"),
                                          std::string_view("approval.expired"), std::string_view("approval.canceled")};

static_assert(run_event_names.size() == enum_count<RunTrigger>);
static_assert(step_event_names.size() == enum_count<StepTrigger>);
static_assert(approval_event_names.size() == enum_count<ApprovalTrigger>);

template <class Trigger, std::size_t N>
std::optional<Trigger> trigger_named(const std::array<std::string_view, N>& names, std::string_view type) {
  for (std::size_t i = 0; i < N; ++i)
    if (names[i] == type) return static_cast<Trigger>(i);
  return std::nullopt;
}

struct TypeOf {
  std::string_view operator()(const RunCreated&) const { return "run.created"; }
  std::string_view operator()(const RunMoved& event) const { return event_name(event.trigger); }
  std::string_view operator()(const StepMoved& event) const { return event_name(event.trigger); }
  std::string_view operator()(const StepClaimed& event) const { return event_name(event.trigger); }
  std::string_view operator()(const StepCompleted&) const { return event_name(StepTrigger::complete); }
  std::string_view operator()(const StepFailed& event) const { return event_name(event.trigger); }
  std::string_view operator()(const StepAsked&) const { return event_name(StepTrigger::ask); }
  std::string_view operator()(const StepAnswered&) const { return event_name(StepTrigger::answer); }
  std::string_view operator()(const ApprovalRequested&) const { return "approval.requested"; }
  std::string_view operator()(const ApprovalVoted&) const { return "approval.voted"; }
  std::string_view operator()(const ApprovalMoved& event) const { return event_name(event.trigger); }
  std::string_view operator()(const TransitionRefused&) const { return "transition.refused"; }
};

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
  template <class AnyId>
  AnyId id(std::string_view key) const {
    auto value = AnyId::parse(text(key));
    if (!value) throw BadEvent{"\"" + std::string(key) + "\" is not an id"};
    return *value;
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
  return out;
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
                         in.flag("writes")};
    case StepTrigger::complete:
      return StepCompleted{step, in.text("output"), in.money("cost_usd")};
    case StepTrigger::fail_retryable:
    case StepTrigger::fail_terminal:
    case StepTrigger::refuse:
    case StepTrigger::give_up:
      in.at("diagnostic");  // always there
      return StepFailed{step, trigger, in.diagnostic("diagnostic"),
                        in.has("next_eligible_at") ? in.instant("next_eligible_at") : Instant{}, in.money("cost_usd")};
    case StepTrigger::ask:
      return StepAsked{step, in.text("question")};
    case StepTrigger::answer:
      return StepAnswered{step, in.text("answer"), Actor{in.text_or_empty("by")}, in.flag("early")};
    case StepTrigger::unblock:
    case StepTrigger::open_gate:
    case StepTrigger::release:
    case StepTrigger::gate:
    case StepTrigger::due:
    case StepTrigger::approve_action:
    case StepTrigger::approve_gate:
    case StepTrigger::cancel:
      return StepMoved{step, trigger};
  }
  throw BadEvent{"unknown step trigger"};
}

RunPayload read_payload(const ObjectReader& in) {
  std::string type = in.text("type");
  if (auto trigger = trigger_named<StepTrigger>(step_event_names, type)) return read_step(in, *trigger);
  if (auto trigger = trigger_named<RunTrigger>(run_event_names, type))
    return RunMoved{*trigger, Actor{in.text_or_empty("by")}, in.text_or_empty("reason"), in.diagnostic("diagnostic")};
  if (auto trigger = trigger_named<ApprovalTrigger>(approval_event_names, type))
    return ApprovalMoved{in.id<ApprovalId>("approval"), *trigger, Actor{in.text_or_empty("by")},
                         in.text_or_empty("reason")};
  if (type == "run.created") return read_created(in);
  if (type == "approval.requested") {
    ApprovalTerms terms;
    terms.tier = in.word<Tier>("tier");
    terms.two_person = in.flag("two_person");
    terms.quorum = in.small_number("quorum");
    terms.prompt = in.text_or_empty("prompt");
    Instant expires_at = in.instant("expires_at");
    terms.expires = expires_at - in.instant("at");
    return ApprovalRequested{in.id<ApprovalId>("approval"), in.step(), std::move(terms), expires_at};
  }
  if (type == "approval.voted") return ApprovalVoted{in.id<ApprovalId>("approval"), Actor{in.text("by")}};
  if (type == "transition.refused")
    return TransitionRefused{in.text("requested"), in.text("state"), in.text("code"), Actor{in.text_or_empty("by")}};
  throw BadEvent{"unknown type \"" + type + "\""};
}

}  // namespace

std::string_view event_name(RunTrigger trigger) { return run_event_names[static_cast<std::size_t>(trigger)]; }
std::string_view event_name(StepTrigger trigger) { return step_event_names[static_cast<std::size_t>(trigger)]; }
std::string_view event_name(ApprovalTrigger trigger) { return approval_event_names[static_cast<std::size_t>(trigger)]; }
std::string_view type_of(const RunPayload& payload) { return std::visit(TypeOf{}, payload); }

void append_event(std::string& out, const RunEvent& event) {
  TextWriter text(out);
  std::visit(EventWriter(text, event), event.payload);
}

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
