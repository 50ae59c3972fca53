#include <algorithm>
#include <boost/json/array.hpp>
#include <charconv>
#include <string>

#include "api/lease_id.h"
#include "api/openapi_parts.h"
#include "core/action.h"
#include "core/event.h"
#include "core/invariant.h"
#include "core/tenant.h"
#include "core/vocabulary.h"

namespace pawl::api::openapi {
namespace {

using boost::json::array;
using boost::json::object;

// ---- Words

object text_schema(std::string_view pattern, std::string_view says) {
  return {{"type", "string"}, {"pattern", pattern}, {"description", says}};
}

template <class Tag>
object id_schema(Id<Tag>, std::string_view says) {
  return text_schema("^" + std::string(Tag::prefix) + "_[0-9a-hjkmnp-tv-z]{26}$", says);
}

template <class Words>
object words_schema(const Words& words, std::string_view says) {
  array values;
  for (std::string_view word : words)
    if (std::ranges::find(values, Json(word)) == values.end()) values.emplace_back(word);
  object out{{"type", "string"}, {"enum", std::move(values)}};
  if (!says.empty()) out["description"] = says;
  return out;
}

// The words of all vocabularies, those of the usual one first.
template <class Projections>
std::vector<std::string_view> all_words(const Projections& projections) {
  std::vector<std::string_view> out;
  for (std::size_t column = 0; column < enum_count<Vocabulary>; ++column)
    for (const auto& row : projections) out.push_back(row.words[column]);
  return out;
}

template <class Trigger>
void append_event_names(std::string& out) {
  for (std::size_t i = 0; i < enum_count<Trigger>; ++i) (out += ", ") += event_name(static_cast<Trigger>(i));
}

object event_type_schema() {
  std::string names = "run.created";
  append_event_names<RunTrigger>(names);
  append_event_names<StepTrigger>(names);
  names += ", step.charged, approval.requested, approval.voted, approval.reminded, approval.escalated";
  append_event_names<ApprovalTrigger>(names);
  names += ", action.denied, action.found, receipt.intended, receipt.repeated";
  append_event_names<ReceiptTrigger>(names);
  names +=
      ", task.created, task.asked, task.question_closed, task.subtask_added, task.subtask_dropped, task.deleted, "
      "task.refused";
  append_event_names<TaskTrigger>(names);
  return {{"type", "string"},
          {"description",
           "What kind of event: " + names +
               ", transition.refused; of the tenant itself tenant.*, workspace.*, workflow.*, policy.* and key.*. "
               "More may come in time."}};
}

void add_words(object& out) {
  out["RunStatus"] = words_schema(all_words(run_projections), "A run's status, in the vocabulary that was asked for.");
  out["StepStatus"] =
      words_schema(all_words(step_projections), "A step's status, in the vocabulary that was asked for.");
  out["ContractStatus"] = words_schema(enum_names<RunStatus>, "A run's status in the vocabulary contract-v1.");
  std::vector<std::string_view> sub_states;
  for (const RunProjection& row : run_projections)
    if (!row.sub_state.empty()) sub_states.push_back(row.sub_state);
  out["SubState"] = words_schema(sub_states, "");
  out["ReceiptStatus"] = words_schema(enum_names<ReceiptStatus>, "");
  out["UndoSource"] =
      words_schema(enum_names<UndoSource>, "unknown: recorded by an older pawl, which did not keep it.");
  out["ApprovalStatus"] = words_schema(enum_names<ApprovalStatus>, "");
  out["Tier"] = words_schema(enum_names<Tier>, "");
  out["Effect"] = words_schema(enum_names<Effect>, "What a policy says to an action.");
  out["Category"] = words_schema(enum_names<Category>, "");
  out["Severity"] = words_schema(enum_names<Severity>, "");
  out["Provider"] = words_schema(enum_names<Provider>, "");
  out["CallbackKind"] =
      words_schema(enum_names<CallbackKind>, "Where the answer to an approval goes; docs/providers.md.");
  out["TaskState"] =
      words_schema(enum_names<TaskState>, "Where a task stands; docs/lifecycles.md has the transitions.");
  out["TaskPriority"] = words_schema(enum_names<TaskPriority>, "");
  out["NewTaskAgent"] = words_schema(std::array{to_string(TaskAgent::claude), to_string(TaskAgent::command)}, "");
  out["Role"] = words_schema(enum_names<Role>, "");
  out["FreezeScope"] = words_schema(enum_names<FreezeScope>,
                                    "Who froze, and whose effects: a tenant its own, the installation one tenant's, or "
                                    "the installation everybody's.");
  out["Vocabulary"] = words_schema(enum_names<Vocabulary>, "");
  out["EventType"] = event_type_schema();
  constexpr std::array delivery_words{std::string_view("pending"), std::string_view("retrying"),
                                      std::string_view("delivered"), std::string_view("failed"),
                                      std::string_view("skipped")};
  out["DeliveryStatus"] =
      words_schema(delivery_words, "What became of a delivery; skipped: its webhook was removed or disabled before.");
  constexpr std::array delivery_filters{std::string_view("pending"), std::string_view("delivered"),
                                        std::string_view("failed")};
  out["DeliveryFilter"] = words_schema(delivery_filters, "");
}

void add_texts(object& out) {
  out["RunId"] = id_schema(RunId{}, "A run's id.");
  out["TaskId"] = id_schema(TaskId{}, "A task's id.");
  out["ApprovalId"] = id_schema(ApprovalId{}, "An approval's id.");
  out["TenantId"] = id_schema(TenantId{}, "A tenant's id.");
  out["ReceiptId"] = id_schema(ReceiptId{}, "A receipt's id.");
  out["KeyId"] = id_schema(KeyId{}, "An API key's id.");
  out["LeaseId"] = object{{"type", "string"}, {"maxLength", 256}, {"description", "A lease's id: <run id>:<step id>."}};
  out["LeaseToken"] = object{{"type", "string"},
                             {"maxLength", lease_token_chars_max},
                             {"description", "A lease's secret, for the API key that took the lease."}};
  out["Name"] = text_schema("^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", "A name that people gave.");
  out["Actor"] = object{{"type", "string"},
                        {"description",
                         "Who acted: key:<id>, person:<name>, worker:<name> (a worker of the server's own), "
                         "lease:<run>:<step> (an agent), timer, engine."}};
  out["EventPattern"] =
      text_schema("^(\\*|[a-z_]+\\.(\\*|[a-z_]+))$", "Kinds of events: run.succeeded, approval.*, *.");
  out["Hash"] = text_schema("^[0-9a-f]{64}$", "SHA-256 in hexadecimal.");
  out["Position"] =
      text_schema("^pos_[0-7][0-9a-hjkmnp-tv-z]{25}$",
                  "A place in the tenant's feed. Opaque: it can be given back, and not be compared or made.");
  out["KeyText"] = text_schema("^pawl_[0-9a-hjkmnp-tv-z]{26}_[0-9a-hjkmnp-tv-z]{38}$", "A key as it is sent.");
  out["Duration"] = text_schema("^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$",
                                "A duration: 250ms, 90s, 15m, 4h, 1h30m; a year at most.");
  out["Money"] = text_schema("^[0-9]+(\\.[0-9]{1,6})?$", "An amount in USD, a decimal in a string.");
  out["Time"] = object{{"type", "string"}, {"format", "date-time"}, {"description", "RFC 3339; answers are in UTC."}};
  out["Version"] =
      object{{"type", "integer"}, {"minimum", 1}, {"description", "A workflow's version, from 1 without gaps."}};
  out["Weight"] =
      object{{"type", "integer"}, {"minimum", 1}, {"maximum", weight_max}, {"description", "A share of turns."}};
  out["Definition"] =
      object{{"type", "string"}, {"description", "A workflow in YAML; the keys are those of WorkflowDefinition."}};
  out["Archive"] = object{{"type", "string"}, {"description", "A zip archive."}};
  out["PolicyText"] =
      object{{"type", "string"}, {"description", "A policy in YAML; the keys are those of PolicyDefinition."}};
  out["Figures"] = object{{"type", "string"}, {"description", "Prometheus's text format."}};
  out["OpenApi"] = object{{"type", "object"}, {"description", "An OpenAPI 3.1 document."}};
  out["FeedStream"] = object{{"type", "string"},
                             {"contentMediaType", "text/event-stream"},
                             {"contentSchema", schema_of("FeedMessage")},
                             {"description", "Server-sent events; the data of each is a FeedMessage."}};
}

enum class Unknown { allowed, refused };

object object_schema(const ObjectDoc& doc, Unknown unknown) {
  object properties;
  array required;
  for (const Field& field : doc.fields) {
    std::string_view name = field.name;
    if (name.ends_with('?'))
      name.remove_suffix(1);
    else
      required.emplace_back(name);
    object schema = schema_of(field.type);
    if (!field.says.empty()) schema["description"] = field.says;
    properties[name] = std::move(schema);
  }
  object out{{"type", "object"}, {"properties", std::move(properties)}};
  if (!doc.says.empty()) out["description"] = doc.says;
  if (!required.empty()) out["required"] = std::move(required);
  if (unknown == Unknown::refused) out["additionalProperties"] = false;
  return out;
}

object or_null(object schema) {
  if (schema.contains("$ref")) return {{"anyOf", array{std::move(schema), object{{"type", "null"}}}}};
  schema["type"] = array{schema["type"], "null"};
  return schema;
}

std::int64_t number_in(std::string_view text) {
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  invariant(error == std::errc() && end == text.data() + text.size(), "a bound in the OpenAPI tables is no number");
  return value;
}

}  // namespace

object schema_of(std::string_view type) {
  invariant(!type.empty(), "a field in the OpenAPI tables has no type");
  if (type.ends_with('?')) return or_null(schema_of(type.substr(0, type.size() - 1)));
  if (type.starts_with('[')) return {{"type", "array"}, {"items", schema_of(type.substr(1, type.size() - 2))}};
  if (type.starts_with("text/")) return {{"type", "string"}, {"maxLength", number_in(type.substr(5))}};
  if (auto dots = type.find(".."); dots != type.npos) {
    object out{{"type", "integer"}, {"minimum", number_in(type.substr(0, dots))}};
    if (dots + 2 < type.size()) out["maximum"] = number_in(type.substr(dots + 2));
    return out;
  }
  if (type == "text") return {{"type", "string"}};
  if (type == "count") return {{"type", "integer"}, {"minimum", 0}};
  if (type == "share") return {{"type", "number"}, {"minimum", 0}, {"maximum", 1}};
  if (type == "flag") return {{"type", "boolean"}};
  if (type == "map") return {{"type", "object"}};
  if (type == "json") return {};
  invariant(type.front() >= 'A' && type.front() <= 'Z', "a type in the OpenAPI tables is not known");
  return {{"$ref", "#/components/schemas/" + std::string(type)}};
}

object schemas() {
  object out;
  for (const ObjectDoc& doc : answer_objects()) out[doc.name] = object_schema(doc, Unknown::allowed);
  for (const ObjectDoc& doc : evidence_objects()) out[doc.name] = object_schema(doc, Unknown::allowed);
  for (const ObjectDoc& doc : agent_objects()) out[doc.name] = object_schema(doc, Unknown::allowed);
  for (const ObjectDoc& doc : agent_requests()) out[doc.name] = object_schema(doc, Unknown::allowed);
  for (const ObjectDoc& doc : notice_answers()) out[doc.name] = object_schema(doc, Unknown::allowed);
  for (const ObjectDoc& doc : task_answers()) out[doc.name] = object_schema(doc, Unknown::allowed);
  for (const ObjectDoc& doc : task_requests()) out[doc.name] = object_schema(doc, Unknown::refused);
  for (const ObjectDoc& doc : request_objects()) out[doc.name] = object_schema(doc, Unknown::refused);
  for (const ObjectDoc& doc : notice_requests()) out[doc.name] = object_schema(doc, Unknown::refused);
  out["Event"].as_object()["additionalProperties"] = true;  // said aloud: every type has fields of its own
  add_words(out);
  add_texts(out);
  return out;
}

}  // namespace pawl::api::openapi
