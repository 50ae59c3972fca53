#include "evidence/redaction.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "crypto/sha256.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

constexpr std::size_t usage_records_max = 100;
constexpr std::size_t usage_text_chars_max = 128;

// Only figures and names leave: whatever else an output calls "usage" stays at home.
Json figures_of(const object& in) {
  object out;
  for (std::string_view name : {"provider", "model", "price_version", "cost_basis"}) {
    const Json* value = in.if_contains(name);
    if (value && value->is_string() && value->get_string().size() <= usage_text_chars_max) out[name] = *value;
  }
  if (const Json* cost = in.if_contains("cost_usd"); cost && cost->is_string() && parse_money(cost->get_string()))
    out["cost_usd"] = *cost;
  for (const auto& [name, value] : in)
    if (std::string_view(name).ends_with("_tokens") && value.is_int64() && value.get_int64() >= 0) out[name] = value;
  return out;
}

bool is_usage(const Json& value) {
  if (!value.is_object()) return false;
  for (std::string_view name : {"provider", "model"}) {
    const Json* text = value.get_object().if_contains(name);
    if (!text || !text->is_string()) return false;
  }
  return true;
}

JsonText digest_of(const JsonText& text, bool with_usage) {
  object out{{"bytes", text.size()}, {"sha256", sha256(text).hex()}};
  if (with_usage)
    if (auto usage = usage_in(text); !usage.empty()) out["usage"] = array(usage.begin(), usage.end());
  return canonical(out);
}

class Redaction {
 public:
  explicit Redaction(std::vector<std::string>& names) : names_(names) {}

  void operator()(RunCreated& event) { replace("input", event.input); }
  void operator()(StepCompleted& event) { replace("output", event.output, true); }
  void operator()(StepAsked& event) { replace("question", event.question); }
  void operator()(StepAnswered& event) { replace("answer", event.answer); }
  void operator()(ApprovalRequested& event) { replace(event.proposal); }
  void operator()(ReceiptIntended& event) { replace(event.proposal); }
  void operator()(ReceiptRepeated& event) {
    if (event.proposal) replace(event.proposal);
  }
  void operator()(ActionDenied& event) { replace(event.proposal); }
  void operator()(ActionFound& event) { replace(event.proposal); }
  void operator()(ReceiptMoved& event) {
    replace("response", event.response);
    if (!event.undo) return;
    Undo undo = *event.undo;
    replace("undo.fields", undo.action.fields);
    event.undo = std::make_shared<const Undo>(std::move(undo));
  }
  void operator()(RunObserved& event) { replace("output", event.output, true); }
  void operator()(ApprovalTold&) {}
  void operator()(ApprovalReminded&) {}
  void operator()(RunMoved&) {}
  void operator()(StepMoved&) {}
  void operator()(StepWaitOpened&) {}
  void operator()(StepArrived& event) { replace("output", event.output); }
  void operator()(StepReleased&) {}
  void operator()(StepClaimed&) {}
  void operator()(StepFailed&) {}
  void operator()(StepCharged&) {}
  void operator()(ApprovalVoted&) {}
  void operator()(ApprovalMoved&) {}
  // Bundles are made of runs, so none of these is ever in one.
  void operator()(TaskMoved&) {}
  void operator()(TaskAsked&) {}
  void operator()(TaskSubtask&) {}
  void operator()(TaskChanged&) {}
  void operator()(TaskDeleted&) {}
  void operator()(TransitionRefused&) {}

 private:
  void replace(std::string_view name, JsonText& text, bool with_usage = false) {
    if (text.empty()) return;
    text = digest_of(text, with_usage);
    names_.emplace_back(name);
  }
  void replace(std::shared_ptr<const Proposal>& proposal) {
    if (!proposal) return;
    Proposal changed = *proposal;
    replace("action.fields", changed.action.fields);
    replace("before", changed.before);
    proposal = std::make_shared<const Proposal>(std::move(changed));
  }

  std::vector<std::string>& names_;
};

}  // namespace

std::vector<Json> usage_in(const JsonText& output) {
  std::vector<Json> out;
  if (output.find("\"usage\"") == output.npos) return out;
  auto value = parse_json(output);
  const Json* usage = value && value->is_object() ? value->get_object().if_contains("usage") : nullptr;
  if (!usage) return out;
  if (is_usage(*usage)) out.push_back(figures_of(usage->get_object()));
  if (!usage->is_array()) return out;
  for (const Json& each : usage->get_array())
    if (is_usage(each) && out.size() < usage_records_max) out.push_back(figures_of(each.get_object()));
  return out;
}

Redacted redact(const RunEvent& event) {
  Redacted out{event, {}};
  std::visit(Redaction(out.names), out.event.payload);
  return out;
}

}  // namespace pawl
