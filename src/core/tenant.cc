#include "core/tenant.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "core/invariant.h"

namespace pawl {
namespace {

using Object = boost::json::object;

void put_limits(Object& out, const Limits& limits) {
  for (std::size_t i = 0; i < enum_count<Limit>; ++i)
    if (const auto& value = limits[static_cast<Limit>(i)]) out[enum_names<Limit>[i]] = *value;
}

// Rare events: written through the generic canonical writer, no need for speed.
struct ToObject {
  Object operator()(const TenantCreated& event) const { return {{"name", event.name}, {"type", "tenant.created"}}; }
  Object operator()(const LimitsSet& event) const {
    Object out{{"weight", event.weight}, {"type", "tenant.limits_set"}};
    put_limits(out, event.limits);
    return out;
  }
  Object operator()(const CeilingSet& event) const {
    Object out{{"type", "tenant.ceiling_set"}};
    if (event.weight) out["weight"] = *event.weight;
    put_limits(out, event.limits);
    return out;
  }
  Object operator()(const StorageCounted& event) const {
    return {{"grown_bytes", event.grown_bytes}, {"type", "storage.counted"}};
  }
  Object operator()(const TenantSuspended& event) const {
    return {{"reason", event.reason}, {"type", "tenant.suspended"}};
  }
  Object operator()(const TenantResumed&) const { return {{"type", "tenant.resumed"}}; }
  Object operator()(const EffectsFrozen& event) const {
    Object out{{"scope", to_string(event.scope)}, {"reason", event.reason}, {"type", "effects.frozen"}};
    if (!event.connector.empty()) out["connector"] = event.connector;
    return out;
  }
  Object operator()(const EffectsUnfrozen& event) const {
    Object out{{"scope", to_string(event.scope)}, {"type", "effects.unfrozen"}};
    if (!event.connector.empty()) out["connector"] = event.connector;
    return out;
  }
  Object operator()(const WorkspaceSet& event) const {
    return {{"workspace", event.workspace.text}, {"weight", event.weight}, {"type", "workspace.set"}};
  }
  Object operator()(const WorkflowPublished& event) const {
    return {{"workflow", event.workflow.text},
            {"version", event.version},
            {"digest", event.digest},
            {"source", event.source},
            {"type", "workflow.published"}};
  }
  Object operator()(const RequestRefused& event) const {
    return {{"run", event.run.str()},
            {"requested", event.refused.requested},
            {"state", event.refused.state},
            {"code", event.refused.code},
            {"type", "transition.refused"}};
  }
  Object operator()(const KeyCreated& event) const {
    Object out{{"key", event.key.str()},
               {"name", event.name},
               {"role", to_string(event.role)},
               {"secret_hash", event.secret_hash},
               {"type", "key.created"}};
    if (event.expires_at != end_of_time) out["expires_at"] = event.expires_at.ms;
    if (!event.secret_id.empty()) out["secret_id"] = event.secret_id;
    return out;
  }
  Object operator()(const KeyRevoked& event) const {
    return {{"key", event.key.str()}, {"from", event.from.ms}, {"type", "key.revoked"}};
  }
  Object operator()(const PersonSet& event) const {
    boost::json::array keys, accounts;
    for (KeyId key : event.keys) keys.emplace_back(key.str());
    for (const std::string& account : event.accounts) accounts.emplace_back(account);
    Object out{
        {"name", event.name}, {"keys", std::move(keys)}, {"accounts", std::move(accounts)}, {"type", "person.set"}};
    if (!event.groups.empty()) out["groups"] = boost::json::array(event.groups.begin(), event.groups.end());
    return out;
  }
  Object operator()(const PersonRemoved& event) const { return {{"name", event.name}, {"type", "person.removed"}}; }
  Object operator()(const PolicyPublished& event) const {
    return {
        {"version", event.version}, {"digest", event.digest}, {"source", event.source}, {"type", "policy.published"}};
  }
  Object operator()(const SigningKeySet& event) const {
    Object out{{"key", event.key}, {"public_key", event.public_key}, {"type", "signing_key.set"}};
    if (!event.previous.empty()) out["previous"] = event.previous;
    if (!event.previous.empty()) out["signature"] = event.signature;
    return out;
  }
  Object operator()(const CheckpointMade& event) const {
    boost::json::array peaks, entries;
    for (const Hash& peak : event.peaks) peaks.emplace_back(peak.hex());
    for (const std::string& entry : event.entries) entries.emplace_back(entry);
    return {{"number", event.checkpoint.number},
            {"size", event.checkpoint.size},
            {"root", event.checkpoint.root.hex()},
            {"previous", event.checkpoint.previous.hex()},
            {"made_at", event.checkpoint.made_at.ms},
            {"key", event.checkpoint.key},
            {"hash", event.hash.hex()},
            {"signature", event.signature},
            {"peaks", std::move(peaks)},
            {"entries", std::move(entries)},
            {"type", "checkpoint.made"}};
  }
  Object operator()(const BundleStored& event) const {
    return {{"run", event.run.str()}, {"seq", event.seq},     {"sha256", event.sha256.hex()},
            {"bytes", event.bytes},   {"where", event.where}, {"type", "bundle.stored"}};
  }
  Object operator()(const WebhookSet& event) const {
    boost::json::array events;
    for (const std::string& pattern : event.events) events.emplace_back(pattern);
    return {{"name", event.name},
            {"url", event.url},
            {"events", std::move(events)},
            {"secret", event.secret},
            {"type", "webhook.set"}};
  }
  Object operator()(const WebhookRemoved& event) const { return {{"name", event.name}, {"type", "webhook.removed"}}; }
  Object operator()(const WebhookDisabled& event) const {
    return {{"name", event.name}, {"reason", event.reason}, {"type", "webhook.disabled"}};
  }
  Object operator()(const SlackSet& event) const {
    return {{"team", event.team},         {"channel", event.channel},
            {"token", event.token},       {"signing_secret", event.signing_secret},
            {"api_base", event.api_base}, {"type", "slack.set"}};
  }
  Object operator()(const SlackRemoved&) const { return {{"type", "slack.removed"}}; }
};

struct Bad {
  std::string reason;
};

std::string text(const Object& in, std::string_view key) {
  const Json* value = in.if_contains(key);
  if (!value || !value->is_string()) throw Bad{"\"" + std::string(key) + "\" must be a string"};
  return std::string(value->get_string());
}

std::optional<int> optional_number(const Object& in, std::string_view key) {
  const Json* value = in.if_contains(key);
  if (!value) return std::nullopt;
  if (!value->is_int64()) throw Bad{"\"" + std::string(key) + "\" must be a whole number"};
  auto number = static_cast<int>(value->get_int64());
  if (number != value->get_int64()) throw Bad{"\"" + std::string(key) + "\" is out of range"};
  return number;
}

int number(const Object& in, std::string_view key) {
  auto value = optional_number(in, key);
  if (!value) throw Bad{"\"" + std::string(key) + "\" is missing"};
  return *value;
}

Instant moment(const Object& in, std::string_view key) {
  const Json* value = in.if_contains(key);
  if (!value || !value->is_int64()) throw Bad{"\"" + std::string(key) + "\" must be a whole number"};
  if (!is_possible_time(value->get_int64())) throw Bad{"\"" + std::string(key) + "\" is out of range"};
  return {value->get_int64()};
}

template <class AnyId>
AnyId id(const Object& in, std::string_view key) {
  auto value = AnyId::parse(text(in, key));
  if (!value) throw Bad{"\"" + std::string(key) + "\" is not an id"};
  return *value;
}

std::vector<std::string> texts(const Object& in, std::string_view key) {
  const Json* value = in.if_contains(key);
  if (!value || !value->is_array()) throw Bad{"\"" + std::string(key) + "\" must be a list"};
  std::vector<std::string> out;
  for (const Json& each : value->get_array()) {
    if (!each.is_string()) throw Bad{"\"" + std::string(key) + "\" must be a list of strings"};
    out.emplace_back(each.get_string());
  }
  return out;
}

std::uint64_t count(const Object& in, std::string_view key) {
  const Json* value = in.if_contains(key);
  if (!value || !value->is_int64() || value->get_int64() < 0)
    throw Bad{"\"" + std::string(key) + "\" must be a whole number, not negative"};
  return static_cast<std::uint64_t>(value->get_int64());
}

Hash read_hash(std::string_view text, std::string_view key) {
  auto value = Hash::parse(text);
  if (!value) throw Bad{"\"" + std::string(key) + "\" is not a hash"};
  return *value;
}
Hash hash(const Object& in, std::string_view key) { return read_hash(text(in, key), key); }

CheckpointMade read_checkpoint(const Object& in) {
  CheckpointMade out{.checkpoint = {count(in, "number"), count(in, "size"), hash(in, "root"), hash(in, "previous"),
                                    moment(in, "made_at"), text(in, "key")},
                     .hash = hash(in, "hash"),
                     .signature = text(in, "signature"),
                     .peaks = {},
                     .entries = texts(in, "entries")};
  for (const std::string& peak : texts(in, "peaks")) out.peaks.push_back(read_hash(peak, "peaks"));
  return out;
}

SigningKeySet read_signing_key(const Object& in) {
  SigningKeySet out{text(in, "key"), text(in, "public_key"), {}, {}};
  if (!in.contains("previous")) return out;
  out.previous = text(in, "previous");
  out.signature = text(in, "signature");
  if (out.previous.empty()) throw Bad{"\"previous\" is empty"};
  return out;
}

PersonSet read_person(const Object& in) {
  PersonSet out{.name = text(in, "name"), .keys = {}, .accounts = {}};
  for (const std::string& each : texts(in, "keys")) {
    auto key = KeyId::parse(each);
    if (!key) throw Bad{"\"keys\" has one that is not an id"};
    out.keys.insert(*key);
  }
  for (std::string& each : texts(in, "accounts")) out.accounts.insert(std::move(each));
  if (in.contains("groups"))
    for (std::string& each : texts(in, "groups")) out.groups.insert(std::move(each));
  return out;
}

// Older events have fewer of them, and values that would not be taken today.
Limits read_limits(const Object& in) {
  Limits out;
  for (std::size_t i = 0; i < enum_count<Limit>; ++i) {
    const std::string name(enum_names<Limit>[i]);
    const Json* value = in.if_contains(name);
    if (!value) continue;
    if (!value->is_int64()) throw Bad{"\"" + name + "\" must be a whole number"};
    if (value->get_int64() < 0 || value->get_int64() > most(static_cast<Limit>(i)))
      throw Bad{"\"" + name + "\" is out of range"};
    out[static_cast<Limit>(i)] = value->get_int64();
  }
  return out;
}

FreezeScope freeze_scope(const Object& in) {
  auto scope = parse_enum<FreezeScope>(text(in, "scope"));
  if (!scope) throw Bad{"\"scope\" has no known word"};
  return *scope;
}

std::string connector(const Object& in) { return in.contains("connector") ? text(in, "connector") : std::string(); }

TenantPayload read_payload(const Object& in) {
  std::string type = text(in, "type");
  if (type == "tenant.created") return TenantCreated{text(in, "name")};
  if (type == "tenant.limits_set") return LimitsSet{number(in, "weight"), read_limits(in)};
  if (type == "tenant.ceiling_set") return CeilingSet{optional_number(in, "weight"), read_limits(in)};
  if (type == "tenant.suspended") return TenantSuspended{text(in, "reason")};
  if (type == "storage.counted") return StorageCounted{static_cast<std::int64_t>(count(in, "grown_bytes"))};
  if (type == "tenant.resumed") return TenantResumed{};
  if (type == "effects.frozen") return EffectsFrozen{freeze_scope(in), connector(in), text(in, "reason")};
  if (type == "effects.unfrozen") return EffectsUnfrozen{freeze_scope(in), connector(in)};
  if (type == "workspace.set") return WorkspaceSet{WorkspaceName{text(in, "workspace")}, number(in, "weight")};
  if (type == "workflow.published")
    return WorkflowPublished{WorkflowName{text(in, "workflow")}, number(in, "version"), text(in, "digest"),
                             text(in, "source")};
  if (type == "transition.refused") {
    return RequestRefused{id<RunId>(in, "run"), {text(in, "requested"), text(in, "state"), text(in, "code"), {}}};
  }
  if (type == "key.created") {
    auto role = parse_enum<Role>(text(in, "role"));
    if (!role) throw Bad{"\"role\" has no known word"};
    return KeyCreated{id<KeyId>(in, "key"),
                      text(in, "name"),
                      *role,
                      text(in, "secret_hash"),
                      in.contains("expires_at") ? moment(in, "expires_at") : end_of_time,
                      in.contains("secret_id") ? text(in, "secret_id") : std::string()};
  }
  if (type == "key.revoked") return KeyRevoked{id<KeyId>(in, "key"), moment(in, "from")};
  if (type == "person.set") return read_person(in);
  if (type == "person.removed") return PersonRemoved{text(in, "name")};
  if (type == "webhook.set")
    return WebhookSet{text(in, "name"), text(in, "url"), texts(in, "events"), text(in, "secret")};
  if (type == "webhook.removed") return WebhookRemoved{text(in, "name")};
  if (type == "webhook.disabled") return WebhookDisabled{text(in, "name"), text(in, "reason")};
  if (type == "slack.set")
    return SlackSet{text(in, "team"), text(in, "channel"), text(in, "token"), text(in, "signing_secret"),
                    text(in, "api_base")};
  if (type == "slack.removed") return SlackRemoved{};
  if (type == "policy.published") return PolicyPublished{number(in, "version"), text(in, "digest"), text(in, "source")};
  if (type == "signing_key.set") return read_signing_key(in);
  if (type == "checkpoint.made") return read_checkpoint(in);
  if (type == "bundle.stored")
    return BundleStored{id<RunId>(in, "run"), count(in, "seq"), hash(in, "sha256"), count(in, "bytes"),
                        text(in, "where")};
  throw Bad{"unknown type \"" + type + "\""};
}

using Checked = std::expected<void, std::string>;

struct TenantFold {
  Tenant& tenant;
  const TenantEvent& whole;

  Checked operator()(const TenantCreated& event) const {
    if (tenant.seq != 0) return std::unexpected("a tenant is created once, first");
    tenant.name = event.name;
    return {};
  }
  Checked operator()(const LimitsSet& event) const {
    if (event.weight < 1 || event.weight > weight_max) return std::unexpected("a weight out of range");
    tenant.weight = event.weight;
    tenant.limits = event.limits;
    return {};
  }
  Checked operator()(const CeilingSet& event) const {
    if (event.weight && (*event.weight < 1 || *event.weight > weight_max))
      return std::unexpected("a weight out of range");
    tenant.ceiling = event.limits;
    if (event.weight) {
      tenant.weight_max = event.weight;
      tenant.weight = *event.weight;
    }
    return {};
  }
  Checked operator()(const TenantSuspended& event) const {
    if (tenant.suspended) return std::unexpected("a tenant was suspended that is suspended");
    tenant.suspended = {whole.at, whole.by, event.reason};
    return {};
  }
  Checked operator()(const StorageCounted& event) const {
    if (event.grown_bytes < 0 || event.grown_bytes > stored_bytes_limit_max)
      return std::unexpected("a count of bytes out of range");
    tenant.stored_bytes = std::min(tenant.stored_bytes + event.grown_bytes, stored_bytes_limit_max);
    return {};
  }
  Checked operator()(const TenantResumed&) const {
    if (!tenant.suspended) return std::unexpected("a tenant was resumed that is not suspended");
    tenant.suspended.reset();
    return {};
  }
  Checked operator()(const EffectsFrozen& event) const {
    if (tenant.freezes.size() >= freezes_max) return std::unexpected("too many freezes");
    Restriction freeze{whole.at, whole.by, event.reason};
    if (!tenant.freezes.try_emplace({event.scope, event.connector}, std::move(freeze)).second)
      return std::unexpected("effects were frozen that are frozen");
    return {};
  }
  Checked operator()(const EffectsUnfrozen& event) const {
    if (tenant.freezes.erase({event.scope, event.connector}) == 0)
      return std::unexpected("a freeze was lifted that is not there");
    return {};
  }
  Checked operator()(const WorkspaceSet& event) const {
    if (event.weight < 1 || event.weight > weight_max) return std::unexpected("a weight out of range");
    tenant.workspaces[event.workspace] = event.weight;
    return {};
  }
  Checked operator()(const WorkflowPublished& event) const {
    auto latest = tenant.workflows.find(event.workflow);
    if (event.version != (latest == tenant.workflows.end() ? 1 : latest->second.version + 1))
      return std::unexpected("a workflow's versions must grow by one");
    tenant.workflows[event.workflow] = {event.version, event.digest};
    return {};
  }
  Checked operator()(const RequestRefused&) const { return {}; }
  Checked operator()(const KeyCreated& event) const {
    if (tenant.keys.contains(event.key)) return std::unexpected("a key is created once");
    tenant.keys[event.key] = {event.name, event.role, event.secret_hash, event.secret_id,
                              whole.at,   whole.by,   event.expires_at,  false};
    return {};
  }
  Checked operator()(const KeyRevoked& event) const {
    auto found = tenant.keys.find(event.key);
    if (found == tenant.keys.end()) return std::unexpected("a key was revoked that is not there");
    found->second.expires_at = std::min(found->second.expires_at, event.from);
    found->second.revoked = true;
    return {};
  }
  Checked operator()(const PersonSet& event) const {
    if (auto problem = person_problem(tenant, event)) return std::unexpected(std::move(*problem));
    tenant.people[event.name] = {event.keys, event.accounts, event.groups};
    return {};
  }
  Checked operator()(const PersonRemoved& event) const {
    if (tenant.people.erase(event.name) == 0) return std::unexpected("a person was removed who is not there");
    return {};
  }
  Checked operator()(const PolicyPublished& event) const {
    if (event.version != tenant.policy.version + 1) return std::unexpected("a policy's versions must grow by one");
    tenant.policy = {event.version, event.digest, event.source};
    return {};
  }
  Checked operator()(const SigningKeySet& event) const {
    if (event.previous != tenant.signing_key)
      return std::unexpected("a signing key that does not follow the one before");
    if (tenant.signing_keys.contains(event.key)) return std::unexpected("a signing key is introduced once");
    if (!event.previous.empty()) tenant.signing_keys[event.previous].until = whole.at;
    tenant.signing_keys[event.key] = {event.public_key, whole.at, end_of_time};
    tenant.signing_key = event.key;
    return {};
  }
  Checked operator()(const CheckpointMade& event) const {
    const Checkpoint& made = event.checkpoint;
    if (made.number != tenant.checkpoint.number + 1)
      return std::unexpected("checkpoints must be numbered without gaps");
    if (made.previous != tenant.checkpoint.hash)
      return std::unexpected("a checkpoint that does not name the one before it");
    if (made.size != tenant.checkpoint.size + event.entries.size() || event.entries.empty())
      return std::unexpected("a checkpoint whose size is not the log's");
    if (made.key != tenant.signing_key) return std::unexpected("a checkpoint of a key that does not sign here");
    tenant.checkpoint = {made.number, made.size, event.hash, event.peaks};
    return {};
  }
  Checked operator()(const BundleStored&) const { return {}; }
  Checked operator()(const WebhookSet& event) const {
    if (auto problem = webhook_problem(event)) return std::unexpected(std::move(*problem));
    auto known = tenant.webhooks.find(event.name);
    if (known == tenant.webhooks.end() && tenant.webhooks.size() >= webhooks_max)
      return std::unexpected("a tenant has at most " + std::to_string(webhooks_max) + " webhooks");
    // What happens while it is disabled is not for it; when it only moves, nothing is left out.
    bool goes_on = known != tenant.webhooks.end() && known->second.is_enabled();
    Instant since = goes_on ? known->second.since : whole.at;
    tenant.webhooks[event.name] = {event.url, event.events, event.secret, since, ""};
    return {};
  }
  Checked operator()(const WebhookRemoved& event) const {
    if (tenant.webhooks.erase(event.name) == 0) return std::unexpected("a webhook was removed that is not there");
    return {};
  }
  Checked operator()(const WebhookDisabled& event) const {
    auto found = tenant.webhooks.find(event.name);
    if (found == tenant.webhooks.end() || event.reason.empty())
      return std::unexpected("a webhook was disabled that is not there, or for no reason");
    found->second.disabled = event.reason;
    return {};
  }
  Checked operator()(const SlackSet& event) const {
    if (auto problem = slack_problem(event)) return std::unexpected(std::move(*problem));
    Instant since = tenant.slack ? tenant.slack->since : whole.at;
    tenant.slack = {event.team, event.channel, event.token, event.signing_secret, event.api_base, since};
    return {};
  }
  Checked operator()(const SlackRemoved&) const {
    if (!tenant.slack) return std::unexpected("Slack was removed and is not there");
    tenant.slack.reset();
    return {};
  }
};

}  // namespace

std::optional<std::int64_t> effective_limit(const Tenant& tenant, Limit limit) {
  return lower_of(tenant.limits[limit], tenant.ceiling[limit]);
}

Caps effective_caps(const Tenant& tenant) {
  auto cap = [&](Limit limit) {
    auto value = effective_limit(tenant, limit);
    return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
  };
  Caps out{cap(Limit::max_concurrency), cap(Limit::max_runs_per_min), cap(Limit::max_writes_per_run)};
  if (tenant.suspended) out.max_concurrency = out.max_runs_per_min = 0;
  return out;
}

std::optional<std::string> ceiling_problem(const Tenant& tenant, const LimitsSet& wanted) {
  auto above = [](std::string_view what, std::int64_t value, std::int64_t ceiling) {
    return std::string(what) + " cannot be " + std::to_string(value) + ": the installation allows this tenant " +
           std::to_string(ceiling) + ". Set a lower value, or ask an admin of the tenant default.";
  };
  for (std::size_t i = 0; i < enum_count<Limit>; ++i) {
    const auto limit = static_cast<Limit>(i);
    const auto& value = wanted.limits[limit];
    const auto& ceiling = tenant.ceiling[limit];
    // One that was set before the ceiling came down stays, and does not count.
    if (value && ceiling && *value > *ceiling && value != tenant.limits[limit])
      return above(to_string(limit), *value, *ceiling);
  }
  const int highest = tenant.weight_max.value_or(tenant.weight);
  if (wanted.weight > highest) return above("the weight", wanted.weight, highest);
  return std::nullopt;
}

namespace {

constexpr std::string_view key_actor_prefix = "key:";

}  // namespace

Actor actor_of(KeyId key) { return {std::string(key_actor_prefix) + key.str().substr(KeyTag::prefix.size() + 1)}; }

std::optional<KeyId> key_of(const Actor& actor) {
  if (!actor.text.starts_with(key_actor_prefix)) return std::nullopt;
  return KeyId::parse(std::string(KeyTag::prefix) + "_" + actor.text.substr(key_actor_prefix.size()));
}

Actor lease_actor(RunId run, const StepId& step) { return {"lease:" + run.str() + ":" + step.text}; }

Actor person_of(const Tenant& tenant, const Actor& actor) {
  auto key = key_of(actor);
  for (const auto& [name, person] : tenant.people)
    if ((key && person.keys.contains(*key)) || person.accounts.contains(actor.text)) return {"person:" + name};
  return actor;
}

std::vector<std::string> groups_of(const Tenant& tenant, const Actor& person) {
  if (!is_person(person)) return {};
  auto found = tenant.people.find(person.text.substr(7));
  if (found == tenant.people.end()) return {};
  return {found->second.groups.begin(), found->second.groups.end()};
}

Actor answerable_for(const Tenant& tenant, const Actor& actor) {
  Actor who = person_of(tenant, actor);
  // A key is older than those that were made with it, so this ends; a journal that says otherwise must not hang us.
  for (std::size_t i = 0; i <= tenant.keys.size(); ++i) {
    auto key = key_of(who);
    auto made = key ? tenant.keys.find(*key) : tenant.keys.end();
    if (made == tenant.keys.end()) break;
    who = person_of(tenant, made->second.created_by);
  }
  return who;
}

std::string describe_actor(const Tenant& tenant, const Actor& actor) {
  auto name_of = [](const Actor& who) { return is_person(who) ? who.text.substr(7) : who.text; };
  const Actor who = person_of(tenant, actor);
  const auto key = key_of(who);
  if (!key) return name_of(who);
  auto found = tenant.keys.find(*key);
  if (found == tenant.keys.end()) return "an unknown key, " + key->str();
  const Actor maker = answerable_for(tenant, actor);
  return (is_person(maker) ? name_of(maker) + "'s key " : "key ") + found->second.name;
}

std::optional<std::string> person_problem(const Tenant& tenant, const PersonSet& person) {
  constexpr std::size_t identities_max = 100;
  constexpr std::size_t account_chars_max = 200;
  if (!is_valid_name(person.name)) return "a person's name is letters, digits, . _ and -";
  if (person.keys.size() + person.accounts.size() > identities_max)
    return "a person has at most " + std::to_string(identities_max) + " keys and accounts";
  if (person.groups.size() > identities_max || !std::ranges::all_of(person.groups, is_valid_name))
    return "a person is in at most " + std::to_string(identities_max) +
           " groups, whose names are letters, digits, . _ and -";
  for (KeyId key : person.keys)
    if (!tenant.keys.contains(key)) return "there is no such key: " + key.str();
  for (const std::string& account : person.accounts)
    if (account.empty() || account.size() > account_chars_max || account.starts_with(key_actor_prefix) ||
        account.starts_with("person:") || account.find(':') == account.npos)
      return "an account is written service:id, for example slack:T0123:U0456";
  for (const auto& [name, other] : tenant.people) {
    if (name == person.name) continue;
    for (KeyId key : person.keys)
      if (other.keys.contains(key)) return key.str() + " belongs to " + name;
    for (const std::string& account : person.accounts)
      if (other.accounts.contains(account)) return account + " belongs to " + name;
  }
  return std::nullopt;
}

void append_event(std::string& out, const TenantEvent& event) {
  Object object = std::visit(ToObject{}, event.payload);
  object["at"] = event.at.ms;
  object["v"] = event_format_version;
  if (!event.by.empty()) object["by"] = event.by.text;
  out += canonical(object);
}

std::expected<TenantEvent, std::string> parse_tenant_event(std::string_view line) {
  auto value = parse_json(line);
  if (!value) return std::unexpected(value.error());
  if (!value->is_object()) return std::unexpected("not an object");
  const Object& in = value->get_object();
  try {
    if (int version = number(in, "v"); version < 1 || version > event_format_version)
      return std::unexpected("event format " + std::to_string(version) + " is newer than this pawl; upgrade it");
    return TenantEvent{moment(in, "at"), Actor{in.contains("by") ? text(in, "by") : ""}, read_payload(in)};
  } catch (const Bad& bad) {
    return std::unexpected(bad.reason);
  }
}

Checked evolve_checked(Tenant& tenant, const TenantEvent& event) {
  if (tenant.seq == 0 && !std::holds_alternative<TenantCreated>(event.payload))
    return std::unexpected("the first event must create the tenant");
  auto folded = std::visit(TenantFold{tenant, event}, event.payload);
  if (folded) tenant.seq += 1;
  return folded;
}

void evolve(Tenant& tenant, const TenantEvent& event) {
  auto folded = evolve_checked(tenant, event);
  if (!folded) [[unlikely]]
    invariant(false, folded.error());
}

}  // namespace pawl
