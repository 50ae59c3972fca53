// servicenow.incident.update: sets fields of an incident, and adds notes to it.
//
// Fields are read before they are set: the old values make the undo, which is the same operation with `expect`, so that
// it fails when somebody has changed them since. ServiceNow takes no condition with an update, so that is look, then
// act. It ignores fields that it does not know, so what it says afterwards is compared with what was sent. Notes
// (work_notes, comments) can only be added. They carry a mark by which one that is in doubt is found again.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "core/characters.h"
#include "core/expression.h"
#include "crypto/base64.h"
#include "crypto/sha256.h"
#include "tools/connector.h"
#include "tools/outcome.h"
#include "tools/tools.h"

namespace pawl {
namespace {

using boost::json::object;

constexpr std::size_t fields_max = 100;
constexpr std::size_t mark_chars = 20;

bool is_word(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

// What ServiceNow calls its columns. It takes other cases for other ones, or for none.
bool is_column(std::string_view text) { return is_word(text) && lower_case(text) == text; }

bool is_note(std::string_view field) { return field == "work_notes" || field == "comments"; }

// ServiceNow's values are texts, also where they mean numbers or truth.
std::optional<std::string> value_text(const Json& value) {
  if (const auto* text = value.if_string()) return std::string(std::string_view(*text));
  if (value.is_null()) return std::string();
  if (value.is_number() || value.is_bool()) return canonical(value);
  return std::nullopt;
}

TextMap read_fields(Arguments& with, std::string_view key) {
  TextMap out;
  const Json* fields = with.any(key);
  if (!fields) return out;
  if (!fields->is_object() || fields->get_object().size() > fields_max) {
    with.refuse(key, fmt::format("must be a map of at most {} fields", fields_max));
    return out;
  }
  for (const auto& entry : fields->get_object()) {
    auto value = value_text(entry.value());
    if (!value || !is_column(entry.key()))
      with.refuse(key, "must map names of fields, in lower case, to texts, numbers or true and false");
    out.emplace_back(std::string_view(entry.key()), std::move(value).value_or(""));
  }
  return out;
}

struct Update {
  std::string base;
  std::string instance;  // what keys call it
  std::string target;    // what people and policies call the record
  std::string sys_id;
  TextMap fields;  // to be set
  TextMap notes;   // to be added
  TextMap expect;  // what must stand there
  HttpHeaders auth;
  Duration timeout{};
};

HttpHeaders read_auth(Arguments& with) {
  const auto user = with.text("user"), password = with.text("password"), token = with.text("token"),
             api_key = with.text("api_key");
  const int ways = (user || password ? 1 : 0) + (token ? 1 : 0) + (api_key ? 1 : 0);
  if (ways != 1 || user.has_value() != password.has_value())
    with.refuse("token",
                "is one of three ways to log in: `user` and `password`, `token`, or `api_key`; give exactly one");
  for (const auto* text : {&user, &password, &token, &api_key})
    if (*text && (*text)->find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos)
      with.refuse("token", "and whatever else logs in must be one line");
  if (user && password) return {{"Authorization", "Basic " + base64_encode(*user + ":" + *password)}};
  if (token) return {{"Authorization", "Bearer " + *token}};
  return {{"x-sn-apikey", api_key.value_or("")}};
}

std::string address_of_instance(std::string_view instance) {
  return fmt::format("https://{}.service-now.com", instance);
}

std::optional<std::string> instance_at(std::string_view base) {
  const auto name = base.substr(std::min(base.size(), base.find("://") + 3));
  const auto instance = name.substr(0, name.find('.'));
  if (!is_word(instance) || base != address_of_instance(instance)) return std::nullopt;
  return std::string(instance);
}

Update read_update(Arguments& with, const ToolLimits& limits) {
  Update update;
  auto instance = with.text("instance");
  if (instance.has_value() == with.text("url").has_value())
    with.refuse("instance", "or `url` is required, and not both");
  if (instance && !is_word(*instance)) with.refuse("instance", "must be the name before .service-now.com");
  if (instance) instance = lower_case(*instance);
  update.base = base_url(with, "url", address_of_instance(instance.value_or("x")));
  // An instance that is given by its address is the same instance.
  if (!instance) instance = instance_at(update.base);
  const auto origin = origin_of(update.base);
  update.instance = instance ? *instance : origin ? fmt::format("{}:{}", origin->server.host, origin->server.port) : "";
  update.sys_id = lower_case(with.required_text("sys_id"));
  update.target = fmt::format("{}/incident/{}", instance.value_or(update.base), update.sys_id);
  if (!is_word(update.sys_id)) with.refuse("sys_id", "must be the record's id: letters and digits");
  for (auto& [name, value] : read_fields(with, "fields"))
    (is_note(name) ? update.notes : update.fields).emplace_back(name, std::move(value));
  if (update.fields.empty() && update.notes.empty()) with.refuse("fields", "must name at least one field");
  update.expect = read_fields(with, "expect");
  update.auth = read_auth(with);
  update.timeout = timeout_of(with, limits.http_timeout);
  return update;
}

void explain_servicenow_error(const ApiAnswer& answer, Instant now, Failed& failed) {
  if (const Json* error = member(answer.body, "error")) {
    const auto message = text_member(*error, "message"), detail = text_member(*error, "detail");
    failed.message = fmt::format("ServiceNow answered {}: {}{}{}", answer.http.status, head_of(message, 300),
                                 detail.empty() ? "" : ": ", head_of(detail, 500));
  }
  if (failed.error_code == "TOOL_RATE_LIMITED" && !failed.retry_after)
    failed.retry_after = until_unix_time(answer.http, "x-ratelimit-reset", now);
}

// References come as {link, value} or as the value alone.
std::optional<std::string> field_of(const Json& record, std::string_view name) {
  const Json* value = member(record, name);
  if (!value) return std::nullopt;
  if (const Json* inner = member(*value, "value")) return value_text(*inner);
  return value_text(*value);
}

std::string path_of(const Update& update) {
  std::string names = "sys_id,number,sys_mod_count";
  for (const auto* list : {&update.fields, &update.notes, &update.expect})
    for (const auto& [name, value] : *list) names += "," + name;
  return fmt::format("/api/now/table/incident/{}?sysparm_fields={}&sysparm_exclude_reference_link=true", update.sys_id,
                     url_encoded(names));
}

std::expected<Json, Failed> record_in(std::expected<ApiAnswer, Failed> answer) {
  if (!answer) return std::unexpected(std::move(answer.error()));
  const Json* record = member(answer->body, "result");
  if (record && record->is_object()) return *record;
  auto failed = failure("TOOL_FAILED", "ServiceNow answered without a record");
  failed.retryable = false;
  return std::unexpected(std::move(failed));
}

std::string mark_of(const Lease& lease) { return "pawl:" + sha256(lease.idempotency_key).hex().substr(0, mark_chars); }

class IncidentUpdate final : public Tool {
 public:
  explicit IncidentUpdate(const ToolLimits& limits) : limits_(limits) {}
  const ToolSpec& spec() const override { return spec_; }
  bool can_look() const override { return true; }

  std::expected<Plan, Failed> plan(const Lease& lease, std::stop_token stop) override {
    Arguments with(lease.input);
    const Update update = read_update(with, limits_);
    if (with.refusal()) return std::unexpected(*with.refusal());
    const auto record = look(update, wall_clock(), stop);
    if (!record) return std::unexpected(record.error());
    auto plan = Tool::plan(lease, std::move(stop));
    if (!plan) return plan;
    const auto where = with.any("url") ? FieldText("url", update.base) : FieldText("instance", update.instance);
    plan->action.fields = with_fields(lease.shown, {{"sys_id", update.sys_id}, where});
    plan->action.target = update.target;
    plan->action.idempotency_key = default_key(update);
    plan->idempotent = update.notes.empty();
    object before;
    for (const auto& [name, value] : update.fields) before[name] = *field_of(*record, name);
    plan->before = canonical(object{{"fields", std::move(before)}});
    return plan;
  }

  std::optional<bool> has_happened(const Lease& lease, std::stop_token stop) override {
    Arguments with(lease.input);
    const Update update = read_update(with, limits_);
    if (with.refusal() || update.notes.empty()) return std::nullopt;
    const auto query =
        fmt::format("element_id={}^element={}^valueLIKE{}", update.sys_id, update.notes.front().first, mark_of(lease));
    const auto answer =
        client_for(update, std::move(stop))
            .get("/api/now/table/sys_journal_field?sysparm_fields=sys_id&sysparm_limit=1&sysparm_query=" +
                     url_encoded(query),
                 wall_clock());
    const Json* found = answer ? member(answer->body, "result") : nullptr;
    if (!found || !found->is_array()) return std::nullopt;
    return !found->get_array().empty();
  }

  ToolResult run(const Lease& lease, Instant now, std::stop_token stop) override {
    Arguments with(lease.input);
    const Update update = read_update(with, limits_);
    if (with.refusal()) return *with.refusal();
    // Once more: since it was planned, somebody may have been asked, and taken their time.
    const auto before = look(update, now, stop);
    if (!before) {
      Failed failed = before.error();
      failed.is_harmless = true;
      return failed;
    }
    object body;
    for (const auto& [name, value] : update.fields) body[name] = value;
    for (const auto& [name, value] : update.notes) body[name] = fmt::format("{}\n[{}]", value, mark_of(lease));
    const Json sent(std::move(body));
    auto after = record_in(client_for(update, stop).call("PATCH", path_of(update), &sent, now));
    if (!after) return after.error();
    return compare(lease, update, was(lease, update, *before), *after);
  }

 private:
  ApiClient client_for(const Update& update, std::stop_token stop) const {
    return ApiClient(
        limits_,
        {.base = update.base, .headers = update.auth, .timeout = update.timeout, .explain = explain_servicenow_error},
        std::move(stop));
  }

  static std::string default_key(const Update& update) {
    object fields, expect;
    for (const auto* list : {&update.fields, &update.notes})
      for (const auto& [name, value] : *list) fields[name] = value;
    for (const auto& [name, value] : update.expect) expect[name] = value;
    Json hashed = fields;
    if (!expect.empty()) hashed = object{{"fields", fields}, {"expect", expect}};
    return fmt::format("sn:incident:update:{}:{}:{}", update.instance, update.sys_id, short_hash(hashed));
  }

  // The record as it is; a failure when it is not what it should be.
  std::expected<Json, Failed> look(const Update& update, Instant now, const std::stop_token& stop) const {
    auto record = record_in(client_for(update, stop).get(path_of(update), now));
    if (!record) return record;
    for (const auto& [name, value] : update.fields)
      if (!field_of(*record, name))
        return std::unexpected(invalid_arguments(fmt::format(
            "the incident has no field `{}`, or none that may be read; ServiceNow would ignore it without a word",
            name)));
    for (const auto& [name, wanted] : update.expect) {
      const auto found = field_of(*record, name);
      const auto set_to = std::ranges::find(update.fields, name, &TextMap::value_type::first);
      const bool is_set = set_to != update.fields.end() && found == set_to->second;  // by a call that was in doubt, say
      if (found == wanted || is_set) continue;
      return std::unexpected(failure(
          "UNDO_CONFLICT", fmt::format("`{}` of {} is \"{}\" and not \"{}\" any more; nothing was changed", name,
                                       update.target, head_of(found.value_or(""), 200), head_of(wanted, 200))));
    }
    return record;
  }

  // What the fields were before this effect: of one that is called again, before its first call.
  static object was(const Lease& lease, const Update& update, const Json& record) {
    const auto first = parse_json(lease.before);
    const Json* fields = first ? member(*first, "fields") : nullptr;
    object out;
    for (const auto& [name, value] : update.fields)
      out[name] = (fields ? field_of(*fields, name) : std::nullopt).value_or(field_of(record, name).value_or(""));
    return out;
  }

  // What became of it, by what ServiceNow says that the record is now.
  static ToolResult compare(const Lease& lease, const Update& update, const object& before, const Json& after) {
    std::string ignored;
    object now, changed;
    for (const auto& [name, value] : update.fields) {
      const auto is = field_of(after, name);
      now[name] = is.value_or("");
      if (now.at(name) != before.at(name)) changed[name] = before.at(name);
      if (is != value)
        ignored += fmt::format("{}`{}` is \"{}\"", ignored.empty() ? "" : ", ", name, head_of(is.value_or(""), 100));
    }
    if (!ignored.empty()) {
      auto failed =
          failure("TOOL_FAILED", fmt::format("ServiceNow accepted the update and did not set everything: {}", ignored));
      failed.retryable = false;
      failed.is_harmless = changed.empty() && update.notes.empty();
      return failed;
    }
    boost::json::array names;
    for (const auto& [name, value] : changed) names.emplace_back(name);
    Completed done{.output = canonical(object{{"sys_id", update.sys_id},
                                              {"number", text_member(after, "number")},
                                              {"sys_mod_count", field_of(after, "sys_mod_count").value_or("")},
                                              {"fields", now},
                                              {"changed", names},
                                              {"notes", update.notes.size()}})};
    // A note stays, and what was there already was not our doing.
    if (update.notes.empty() && !changed.empty()) done.undo = undo_of(lease, update, changed, now);
    return done;
  }

  static std::shared_ptr<const Action> undo_of(const Lease& lease, const Update& update, const object& old,
                                               const object& now) {
    auto fields = parse_json(lease.shown).value_or(object{});
    if (!fields.is_object()) return nullptr;
    object expect;
    for (const auto& [name, value] : old) expect[name] = now.at(name);
    // Somebody else wrote the old values: what looks like an expression in them is text.
    fields.get_object()["fields"] = template_of_value(old);
    fields.get_object()["expect"] = template_of_value(expect);
    return std::make_shared<const Action>(Action{.connector = "servicenow",
                                                 .operation = "incident.update",
                                                 .target = update.target,
                                                 .fields = canonical(fields),
                                                 .risk = lease.risk,
                                                 .idempotency_key = undo_key(lease)});
  }

  using Kind = ToolKey::Kind;
  const ToolLimits limits_;
  const ToolSpec spec_{.name = {"servicenow.incident.update"},
                       .keys = {{.name = "instance", .kind = Kind::text},
                                {.name = "url", .kind = Kind::text},
                                {.name = "sys_id", .required = true, .kind = Kind::text},
                                {.name = "fields", .required = true, .kind = Kind::map},
                                {.name = "expect", .kind = Kind::map},
                                {.name = "user", .kind = Kind::text, .secrets = true},
                                {.name = "password", .kind = Kind::text, .secrets = true},
                                {.name = "token", .kind = Kind::text, .secrets = true},
                                {.name = "api_key", .kind = Kind::text, .secrets = true},
                                {.name = "timeout", .kind = Kind::duration}},
                       .writes = ToolSpec::Writes::always};
};

}  // namespace

std::unique_ptr<Tool> make_servicenow_incident(const ToolLimits& limits) {
  return std::make_unique<IncidentUpdate>(limits);
}

}  // namespace pawl
