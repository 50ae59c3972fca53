#include "core/workflow.h"

#include <algorithm>
#include <array>

#include "core/approval_terms.h"
#include "core/characters.h"
#include "core/expression.h"
#include "core/installation_rules.h"
#include "core/notices.h"
#include "core/workflow_advice.h"
#include "core/workflow_needs.h"
#include "core/workflow_with.h"

namespace pawl {
namespace {

constexpr std::array<std::string_view, 9> workflow_keys{"workflow", "description", "provider", "timeout", "budget_usd",
                                                        "retry",    "caps",        "evidence", "steps"};
// The same of one that another engine carries. It has its own retries and limits.
constexpr std::array<std::string_view, 7> foreign_keys{"workflow", "description", "provider", "timeout",
                                                       "evidence", "target",      "approvals"};
constexpr std::array<std::string_view, 3> restate_keys{"service", "handler", "key"};
constexpr std::array<std::string_view, 1> stepfunctions_keys{"state_machine"};
constexpr std::array<std::string_view, 10> bound_gate_keys{
    "id", "description", "tier", "two_person", "quorum", "expires", "prompt", "approvers", "remind", "escalate"};
constexpr std::array<std::string_view, 3> caps_keys{"max_concurrency", "max_runs_per_min", "max_writes_per_run"};
constexpr std::array<std::string_view, 5> retry_keys{"max_attempts", "base", "max", "jitter", "schedule"};
// Work is a step that a worker runs; a gate is one that people decide. The first four keys are common to both.
// The last key is for the steps with which pawl itself undoes (core/undo.h), and unknown to everybody else.
constexpr std::array<std::string_view, 11> undo_keys{
    "id", "tool", "description", "needs", "with", "retry", "timeout", "lease", "risk", "idempotency_key", "reverses"};
constexpr std::span<const std::string_view> work_keys{undo_keys.data(), undo_keys.size() - 1};
constexpr std::array<std::string_view, 12> gate_keys{"id",     "tool",       "description", "needs",
                                                     "tier",   "two_person", "quorum",      "expires",
                                                     "prompt", "approvers",  "remind",      "escalate"};
constexpr std::array<std::string_view, 6> wait_keys{"id", "tool", "description", "needs", "for", "until"};

// Of a step with `with` that is a timer.
constexpr std::array<std::string_view, 5> keys_without_worker{"retry", "timeout", "lease", "risk", "idempotency_key"};
constexpr std::string_view no_worker_runs_it =
    "has no meaning on a wait, which is a timer and no worker runs; remove it";

constexpr int cap_max = 1'000'000;
constexpr Duration shortest = Duration(1);

// A `retry` as written: what is absent is inherited.
struct RetryKeys {
  std::optional<int> max_attempts;
  std::optional<Duration> base;
  std::optional<Duration> max;
  std::optional<double> jitter;
  std::vector<Duration> schedule;
};

RetryPolicy resolve(const RetryKeys& keys) {
  RetryPolicy out;
  if (!keys.schedule.empty()) out.max_attempts = static_cast<int>(keys.schedule.size()) + 1;
  out.max_attempts = keys.max_attempts.value_or(out.max_attempts);
  out.base = keys.base.value_or(out.base);
  out.max = keys.max.value_or(out.max);
  out.jitter = keys.jitter.value_or(out.jitter);
  out.schedule = keys.schedule;
  return out;
}

class WorkflowReader {
 public:
  WorkflowReader(const SourceNode& document, const ToolCatalog* tools, const TenantRules* rules)
      : document_(document), tools_(tools), rules_(rules) {}

  std::expected<Workflow, std::vector<SourceError>> read() {
    if (document_.kind != SourceNode::Kind::map) {
      reader_.refuse_kind(document_, "workflow", "a map that begins with `workflow: <name>`");
    } else {
      read_provider();
      read_head();
      if (is_foreign(out_.provider)) {
        read_target();
        read_bound_gates();
      } else {
        read_steps();
      }
    }
    if (reader_.error_count() > 0) return std::unexpected(reader_.take_errors(source_errors_max));
    return std::move(out_);
  }

 private:
  void read_provider() {
    if (const auto* entry = find_entry(document_, "provider"))
      out_.provider = reader_.word<Provider>(entry->value, "provider").value_or(out_.provider);
  }

  void read_head() {
    if (is_foreign(out_.provider))
      reader_.only_keys(document_,
                        {.owner = "a workflow that another engine carries",
                         .here = foreign_keys,
                         .elsewhere = workflow_keys,
                         .why_elsewhere = "is for workflows whose steps pawl carries out; this one's `provider` "
                                          "has that itself; remove one of the two"});
    else
      reader_.only_keys(document_, {.owner = "a workflow",
                                    .here = workflow_keys,
                                    .elsewhere = foreign_keys,
                                    .why_elsewhere = "belongs to a workflow with `provider: restate` or `provider: "
                                                     "stepfunctions`; add that, or remove it",
                                    .advice = workflow_advice});
    if (const auto* entry = reader_.required(document_, "workflow", "this document", "workflow: triage-incident"))
      out_.name.text = reader_.valid_name(entry->value, "workflow").value_or("");
    out_.description = read_description(document_);
    if (const auto* entry = find_entry(document_, "timeout"))
      out_.timeout = reader_.duration(entry->value, "timeout", shortest);
    if (const auto* entry = find_entry(document_, "budget_usd"))
      out_.budget = reader_.money(entry->value, "budget_usd");
    if (const auto* entry = find_entry(document_, "caps")) read_caps(entry->value);
    if (const auto* entry = find_entry(document_, "evidence"))
      out_.evidence = reader_.word<EvidenceDetail>(entry->value, "evidence").value_or(out_.evidence);
    if (const auto* entry = find_entry(document_, "retry")) {
      retry_ = read_retry(entry->value);
      check_backoff(retry_, entry->value.place);
    }
  }

  std::string read_description(const SourceNode& map) {
    const auto* entry = find_entry(map, "description");
    auto text = entry ? reader_.text(entry->value, "description") : std::nullopt;
    if (!text) return {};
    if (const std::size_t size = count_characters(*text); size > description_chars_max)
      reader_.refuse(entry->value.place, "`description` has at most " + std::to_string(description_chars_max) +
                                             " characters; this one has " + std::to_string(size));
    return std::move(*text);
  }

  void read_caps(const SourceNode& node) {
    if (!reader_.is_map(node, "caps")) return;
    reader_.only_keys(node, {.owner = "`caps`", .here = caps_keys});
    auto read = [&](std::string_view key, int min, std::optional<int>& cap) {
      if (const auto* entry = find_entry(node, key))
        cap = reader_.integer(entry->value, key, {.min = min, .max = cap_max});
    };
    read("max_concurrency", 1, out_.caps.max_concurrency);
    read("max_runs_per_min", 1, out_.caps.max_runs_per_min);
    // None at all is valid: a workflow that only reads.
    read("max_writes_per_run", 0, out_.caps.max_writes_per_run);
  }

  RetryKeys read_retry(const SourceNode& node) {
    RetryKeys out;
    if (!reader_.is_map(node, "retry")) return out;
    reader_.only_keys(node, {.owner = "`retry`", .here = retry_keys});
    if (const auto* entry = find_entry(node, "max_attempts"))
      out.max_attempts = reader_.integer(entry->value, "max_attempts", {.min = 1, .max = max_attempts_limit});
    if (const auto* entry = find_entry(node, "base"))
      out.base = reader_.duration(entry->value, "base", Duration::zero());
    if (const auto* entry = find_entry(node, "max")) out.max = reader_.duration(entry->value, "max", Duration::zero());
    if (const auto* entry = find_entry(node, "jitter")) out.jitter = reader_.fraction(entry->value, "jitter");
    if (const auto* entry = find_entry(node, "schedule")) {
      read_schedule(entry->value, out);
      for (const auto* other : {find_entry(node, "base"), find_entry(node, "max")})
        if (other)
          reader_.refuse(other->place, quote(other->key) + " has no meaning beside `schedule`; remove one of the two");
    }
    return out;
  }

  void read_schedule(const SourceNode& node, RetryKeys& out) {
    if (!reader_.is_list(node, "schedule")) return;
    constexpr auto waits_max = static_cast<std::size_t>(max_attempts_limit - 1);
    if (node.items.empty() || node.items.size() > waits_max) {
      reader_.refuse(node.place, "`schedule` must hold 1 to " + std::to_string(waits_max) +
                                     " durations, such as [5s, 30s, 2m, 10m]");
      return;
    }
    for (const auto& item : node.items)
      out.schedule.push_back(reader_.duration(item, "schedule", Duration::zero()).value_or(Duration::zero()));
  }

  // Key by key the step's own, then the workflow's, then what RetryPolicy says. A schedule and an exponential backoff
  // exclude each other, so whichever the step names wins.
  RetryKeys inherit(RetryKeys step) const {
    if (!step.max_attempts) step.max_attempts = retry_.max_attempts;
    if (!step.jitter) step.jitter = retry_.jitter;
    if (!step.schedule.empty()) return step;
    if (!step.base && !step.max) step.schedule = retry_.schedule;
    if (!step.base) step.base = retry_.base;
    if (!step.max) step.max = retry_.max;
    return step;
  }

  void check_backoff(const RetryKeys& keys, Place place) {
    const RetryPolicy policy = resolve(keys);
    if (policy.schedule.empty() && policy.base > policy.max)
      reader_.refuse(place, "`base` (" + print_duration(policy.base) + ") must not be longer than `max` (" +
                                print_duration(policy.max) + (keys.max ? ")" : ", the default)"));
  }

  // Plain text that ends up in an address: what would change where it leads is refused.
  std::string read_address_part(const SourceNode& node, std::string_view key, std::string_view example) {
    const auto* entry = reader_.required(node, key, "`target`", example);
    auto text = entry ? reader_.text(entry->value, key) : std::nullopt;
    if (!text) return {};
    auto is_plain = [](char c) {
      return c > ' ' && c < 0x7f && std::string_view("/?#%\\").find(c) == std::string_view::npos;
    };
    if (text->empty() || !std::ranges::all_of(*text, is_plain))
      reader_.refuse(entry->value.place,
                     quote(key) + " is a name, such as `" + std::string(example) + "`, not an address");
    return std::move(*text);
  }

  void read_target() {
    const bool is_restate = out_.provider == Provider::restate;
    const auto* entry = reader_.required(
        document_, "target", "this workflow",
        is_restate ? "target: {service: Shipping, handler: ship}"
                   : "target: {state_machine: \"arn:aws:states:eu-west-1:123456789012:stateMachine:ship\"}");
    if (!entry || !reader_.is_map(entry->value, "target")) return;
    const SourceNode& node = entry->value;
    if (!is_restate) {
      reader_.only_keys(node, {.owner = "a `target` in Step Functions", .here = stepfunctions_keys});
      read_state_machine(node);
      return;
    }
    reader_.only_keys(node, {.owner = "a `target` in Restate", .here = restate_keys});
    out_.target.service = read_address_part(node, "service", "service: Shipping");
    out_.target.handler = read_address_part(node, "handler", "handler: ship");
    const auto* key = find_entry(node, "key");
    if (!key) return;
    out_.target.key = reader_.text_template(key->value, "key").value_or("");
    check_foreign_expressions(key->value);
    if (key->value.kind == SourceNode::Kind::scalar && out_.target.key.empty())
      reader_.refuse(key->value.place,
                     "`key` is empty; remove it: a service has none, and a workflow gets the run's id");
  }

  void read_state_machine(const SourceNode& node) {
    const auto* entry = reader_.required(node, "state_machine", "`target`",
                                         "state_machine: \"arn:aws:states:eu-west-1:123456789012:stateMachine:ship\"");
    auto text = entry ? reader_.text(entry->value, "state_machine") : std::nullopt;
    if (!text) return;
    if (!find_state_machine(*text))
      reader_.refuse(entry->value.place,
                     "`state_machine` must be the ARN of a state machine, such as "
                     "arn:aws:states:eu-west-1:123456789012:stateMachine:ship");
    out_.target.state_machine = std::move(*text);
  }

  // Nothing has been done here that an expression could look at: only what the run was given.
  void check_foreign_expressions(const SourceNode& node) {
    Needs none;
    none.direct.resize(1);
    none.finished.resize(1);
    check_expressions(reader_, node, 0, {}, none);
    refuse_secrets(reader_, node, "it is kept in the journal, so no secret can stand in it");
  }

  void read_bound_gates() {
    const auto* entry = find_entry(document_, "approvals");
    if (!entry || !reader_.is_list(entry->value, "approvals")) return;
    if (entry->value.items.size() > steps_max) {
      reader_.refuse(entry->value.place, "a workflow has at most " + std::to_string(steps_max) + " approvals");
      return;
    }
    std::vector<const SourceNode*> nodes;
    for (const auto& item : entry->value.items) {
      if (!reader_.is_map(item, "approvals")) return;
      nodes.push_back(&item);
      reader_.only_keys(item, {.owner = "an approval", .here = bound_gate_keys});
      StepDefinition gate;
      gate.tool = approval_tool;
      if (const auto* id = reader_.required(item, "id", "this approval", "id: sign-off"))
        gate.id.text = reader_.valid_name(id->value, "id").value_or("");
      gate.description = read_description(item);
      read_approval_terms(reader_, item, gate.approval);
      if (const auto* prompt = find_entry(item, "prompt")) {
        gate.approval.prompt = reader_.text_template(prompt->value, "prompt").value_or("");
        check_foreign_expressions(prompt->value);
      }
      out_.steps.push_back(std::move(gate));
    }
    read_ids(nodes);
  }

  void read_steps() {
    const auto* entry = reader_.required(document_, "steps", "this workflow", "steps: [{id: first, tool: ...}]");
    if (!entry || !reader_.is_list(entry->value, "steps")) return;
    const auto& items = entry->value.items;
    if (items.empty()) reader_.refuse(entry->value.place, "`steps` is empty; a workflow has at least one step");
    if (items.size() > steps_max) {
      reader_.refuse(items[steps_max].place, "a workflow has at most " + std::to_string(steps_max) +
                                                 " steps; this one has " + std::to_string(items.size()));
      return;
    }
    std::vector<const SourceNode*> nodes;
    for (const auto& item : items) {
      if (item.kind == SourceNode::Kind::map)
        nodes.push_back(&item);
      else
        reader_.refuse_kind(item, "steps", "a list of maps");
    }
    // A step that is no map has no id; the positions of the others would be wrong, and so would every further error.
    if (nodes.size() != items.size()) return;

    for (const auto* node : nodes) out_.steps.push_back(read_step(*node));
    const StepNames names = read_ids(nodes);
    const Needs needs = read_needs(reader_, nodes, names);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      out_.steps[i].needs = needs.direct[i];
      for (const auto key : {"with", "idempotency_key", "prompt", "for", "until"})
        if (const auto* value = find_entry(*nodes[i], key))
          check_expressions(reader_, value->value, static_cast<StepIndex>(i), names, needs);
      if (tools_) check_secrets(*nodes[i], out_.steps[i].tool);
      if (tools_) check_responses(*nodes[i], tools_->find(out_.steps[i].tool));
    }
  }

  // A secret may stand only where it does not end up in the journal: which keys that are, the built-in tools know.
  void check_secrets(const SourceNode& node, const ToolName& tool) {
    for (const auto key : {"idempotency_key", "prompt", "for", "until"})
      if (const auto* entry = find_entry(node, key))
        refuse_secrets(reader_, entry->value, quote(key) + " is kept in the journal, so no secret can stand in it");
    const auto* with = find_entry(node, "with");
    if (!with) return;
    if (const ToolSpec* spec = tools_->find(tool)) {
      check_secret_keys(reader_, with->value, *spec);
      if (rules_) check_secret_rules(with->value, tool);
    } else {
      refuse_secrets(reader_, with->value,
                     "only built-in tools are given secrets; " + quote(tool.str()) +
                         " is worked on elsewhere and has to bring its own");
    }
  }

  // What a call answered is known to its undo only.
  void check_responses(const SourceNode& node, const ToolSpec* spec) {
    for (const auto key : {"idempotency_key", "prompt"})
      if (const auto* entry = find_entry(node, key)) refuse_response(reader_, entry->value);
    const auto* with = find_entry(node, "with");
    if (!with) return;
    for (const auto& entry : with->value.entries)
      if (!spec ||
          !std::ranges::any_of(spec->keys, [&](const ToolKey& key) { return key.response && key.name == entry.key; }))
        refuse_response(reader_, entry.value);
  }

  void check_secret_rules(const SourceNode& node, const ToolName& tool) {
    for_each_secret(node, [&](const std::string& secret, Place place) {
      auto problem = rules_->secret_problem({secret, out_.name.text, tool.str()});
      if (problem) reader_.refuse(place, std::move(*problem));
    });
  }

  StepNames read_ids(const std::vector<const SourceNode*>& nodes) {
    StepNames names;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const auto* id = find_entry(*nodes[i], "id");
      const std::string_view text = id ? std::string_view(id->value.scalar) : "";
      names.in_order.push_back(text);
      if (text.empty()) continue;
      const auto [first, is_new] = names.index.emplace(text, static_cast<StepIndex>(i));
      if (!is_new)
        reader_.refuse(id->value.place, "step " + quote(text) + " is already defined in line " +
                                            std::to_string(find_entry(*nodes[first->second], "id")->value.place.line) +
                                            "; choose another id");
    }
    return names;
  }

  StepDefinition read_step(const SourceNode& node) {
    StepDefinition out;
    if (const auto* entry = reader_.required(node, "id", "this step", "id: fetch"))
      out.id.text = reader_.valid_name(entry->value, "id").value_or("");
    out.description = read_description(node);
    if (!find_entry(node, "tool") && reader_.refuse_advised(node, step_advice)) return out;
    const auto* tool = reader_.required(node, "tool", "this step", "tool: http.request");
    const auto word = tool ? reader_.text(tool->value, "tool", "the name of a tool") : std::nullopt;
    if (!word) return out;
    out.tool.text = *word;
    if (out.is_gate()) {
      read_gate(node, out);
      return out;
    }
    if (is_timer(node, out.tool)) {
      read_wait(node, out);
      return out;
    }
    const ToolSpec* spec = tools_ ? tools_->find(out.tool) : nullptr;
    if (tools_ && !spec && !tools_->may_be_remote(out.tool))
      reader_.refuse(tool->value.place, "there is no tool " + quote(*word) + suggest_tool(*word));
    if (rules_ && spec)
      if (auto problem = rules_->tool_problem(*spec)) reader_.refuse(tool->value.place, std::move(*problem));
    read_work(node, spec, out);
    if (out.tool == sleep_tool) out.wait = {WaitTerms::Kind::span, text_in(out.with, "duration")};
    if (out.tool == sleep_tool && tools_) refuse_keys_of_work(node);
    return out;
  }

  // A workflow that was published before still loads: what it says of the worker is not used.
  void refuse_keys_of_work(const SourceNode& node) {
    for (const auto& entry : node.entries)
      if (std::ranges::find(keys_without_worker, entry.key) != keys_without_worker.end())
        reader_.refuse(entry.place, quote(entry.key) + " " + std::string(no_worker_runs_it));
  }

  // A workflow that was published before there were timers may have a worker's tool of this name.
  bool is_timer(const SourceNode& node, const ToolName& tool) const {
    return tool == wait_tool && (tools_ || find_entry(node, "for") || find_entry(node, "until"));
  }

  static std::string text_in(const Json& with, std::string_view key) {
    const Json* value = with.is_object() ? with.get_object().if_contains(key) : nullptr;
    return value && value->is_string() ? std::string(value->get_string()) : std::string();
  }

  void read_wait(const SourceNode& node, StepDefinition& out) {
    reader_.only_keys(node, {.owner = "a wait",
                             .here = wait_keys,
                             .elsewhere = work_keys,
                             .why_elsewhere = no_worker_runs_it,
                             .advice = step_advice});
    const auto* span = find_entry(node, "for");
    const auto* moment = find_entry(node, "until");
    if (!span == !moment)
      return reader_.refuse(node.place,
                            "a wait has either `for`, a duration such as 3d, or `until`, a time such as "
                            "2030-01-31T09:00:00Z");
    const auto& value = span ? span->value : moment->value;
    const std::string_view key = span ? "for" : "until";
    auto text = reader_.text_template(value, key);
    if (!text) return;
    out.wait = {span ? WaitTerms::Kind::span : WaitTerms::Kind::moment, std::move(*text)};
    if (is_template(out.wait->text)) return;
    if (span)
      reader_.duration(value, key, Duration{});
    else if (!parse_time(out.wait->text))
      reader_.refuse(value.place, "`until` must be a time such as 2030-01-31T09:00:00Z");
  }

  std::string suggest_tool(std::string_view word) const {
    std::vector<std::string_view> known;
    const auto add = [&](std::string_view name) {
      if (!is_reserved_name(name) && std::ranges::find(known, name) == known.end()) known.push_back(name);
    };
    add(approval_tool.str());
    add(wait_tool.str());
    for (const auto& spec : tools_->all()) add(spec.name.str());
    for (const ToolName& tool : tools_->remote_tools()) add(tool.str());
    std::string hint = suggest(word, known);
    return hint.empty() ? "; there are " + list_words(known, "and") : hint;
  }

  bool is_undo() const { return out_.name.text.starts_with(undo_workflow_prefix); }

  void read_work(const SourceNode& node, const ToolSpec* spec, StepDefinition& out) {
    reader_.only_keys(node, {.owner = "a step",
                             .here = is_undo() ? std::span<const std::string_view>(undo_keys) : work_keys,
                             .elsewhere = gate_keys,
                             .why_elsewhere = "belongs to a step with `tool: approval`; remove it",
                             .advice = step_advice});
    out.with = read_with(reader_, node, spec);
    out.with_is_constant = !has_template_inside(out.with);
    out.with_text = canonical(out.with);
    out.keeps_expressions = !out.with_is_constant && keeps_expressions(out.with);
    RetryKeys retry = retry_;
    if (const auto* entry = find_entry(node, "retry")) {
      retry = inherit(read_retry(entry->value));
      check_backoff(retry, entry->value.place);
    }
    out.retry = resolve(retry);
    if (const auto* entry = find_entry(node, "timeout"))
      out.timeout = reader_.duration(entry->value, "timeout", shortest).value_or(out.timeout);
    if (const auto* entry = find_entry(node, "lease"))
      out.lease = reader_.duration(entry->value, "lease", shortest).value_or(out.lease);
    if (spec) check_timeouts(node, *spec, out.timeout);
    if (const auto* entry = find_entry(node, "risk"))
      out.risk = reader_.word<Tier>(entry->value, "risk").value_or(out.risk);
    if (const auto* entry = find_entry(node, "reverses"); entry && is_undo()) {
      auto word = reader_.text(entry->value, "reverses");
      if (word) out.reverses = ReceiptId::parse(*word);
      if (word && !out.reverses) reader_.refuse(entry->value.place, "`reverses` must be the id of a receipt");
    }
    if (const auto* entry = find_entry(node, "idempotency_key")) {
      out.idempotency_key = reader_.text_template(entry->value, "idempotency_key").value_or("");
      if (entry->value.kind == SourceNode::Kind::scalar && out.idempotency_key.empty())
        reader_.refuse(entry->value.place, "`idempotency_key` is empty; remove it to get one made of run and step");
    }
  }

  // A tool's own time-out that is longer than the attempt may take never comes.
  void check_timeouts(const SourceNode& node, const ToolSpec& spec, Duration of_attempt) {
    const auto* with = find_entry(node, "with");
    if (!with) return;
    for (const ToolKey& key : spec.keys) {
      const auto* entry = key.kind == ToolKey::Kind::duration && key.name.ends_with("timeout")
                              ? find_entry(with->value, key.name)
                              : nullptr;
      const auto span = entry ? parse_duration(entry->value.scalar) : std::nullopt;
      if (span && *span > of_attempt)
        reader_.refuse(entry->value.place, quote(key.name) + " of " + print_duration(*span) +
                                               " is longer than the step may take, " + print_duration(of_attempt) +
                                               "; make it shorter, or give the step a longer `timeout`");
    }
  }

  void read_gate(const SourceNode& node, StepDefinition& out) {
    reader_.only_keys(node, {.owner = "an approval",
                             .here = gate_keys,
                             .elsewhere = work_keys,
                             .why_elsewhere = "has no meaning on an approval, which people decide and no worker runs; "
                                              "remove it",
                             .advice = step_advice});
    ApprovalTerms& terms = out.approval;
    read_approval_terms(reader_, node, terms);
    if (const auto* entry = find_entry(node, "prompt"))
      terms.prompt = reader_.text_template(entry->value, "prompt").value_or("");
  }

  const SourceNode& document_;
  const ToolCatalog* tools_;
  const TenantRules* rules_;
  SourceReader reader_;
  RetryKeys retry_;
  Workflow out_;
};

}  // namespace

std::optional<StepIndex> Workflow::find(const StepId& id) const {
  const auto at = std::find_if(steps.begin(), steps.end(), [&](const StepDefinition& step) { return step.id == id; });
  if (at == steps.end()) return std::nullopt;
  return static_cast<StepIndex>(at - steps.begin());
}

std::expected<Workflow, std::vector<SourceError>> read_workflow(const SourceNode& document, const ToolCatalog* tools,
                                                                const TenantRules* rules) {
  return WorkflowReader(document, tools, rules).read();
}

}  // namespace pawl
