// A tenant's own stream: what it is called, what it may use, which workflows and policies it has published.
// Configuration is journaled like everything else, so that "who allowed this, when" has an answer.
#pragma once

#include <expected>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>

#include "core/checkpoint.h"
#include "core/event.h"
#include "core/id.h"
#include "core/limits.h"
#include "core/notices.h"
#include "core/time.h"
#include "core/workflow.h"

namespace pawl {

inline constexpr int weight_max = 1000;
// The tenant of the installation's admins: they set what other tenants may use.
inline constexpr std::string_view installation_tenant = "default";

struct TenantCreated {
  std::string name;
};

struct WorkspaceSet {
  WorkspaceName workspace;
  int weight = 1;
};

struct WorkflowPublished {
  WorkflowName workflow;
  int version = 0;
  std::string digest;
  std::string source;
};

// Versions are the tenant's, whatever names its policies bear.
struct PolicyPublished {
  int version = 0;
  std::string digest;
  std::string source;
};

// What the holder of an API key may do.
enum class Role {
  admin,      // everything, keys and limits included
  operator_,  // publish workflows, start, cancel and retry runs, decide
  approver,   // decide what waits for a person
  worker,     // take leases and report on them
  viewer,     // look
  metrics     // read the installation's figures (GET /metrics), and nothing else
};
template <>
inline constexpr std::array enum_names<Role>{std::string_view("admin"),    std::string_view("operator"),
                                             std::string_view("approver"), std::string_view("worker"),
                                             std::string_view("viewer"),   std::string_view("metrics")};

// The secret itself is shown once, to whoever made the key; here is a keyed hash of it.
struct KeyCreated {
  KeyId key;
  std::string name;
  Role role = Role::viewer;
  std::string secret_hash;
  Instant expires_at = end_of_time;
  std::string secret_id = {};  // which secret of the installation the hash is made with; empty: an older pawl's
};

// From `from` on, which may lie ahead: until then the old key and its successor are both good.
struct KeyRevoked {
  KeyId key;
  Instant from;
};

// Somebody who decides: one person, by whatever keys and accounts they speak. Replaces what was said of them before.
struct PersonSet {
  std::string name;
  std::set<KeyId> keys;
  std::set<std::string> accounts;     // "slack:T0123:U0456"
  std::set<std::string> groups = {};  // that approvals can name: "finance"
};

struct PersonRemoved {
  std::string name;
};

// A request that met a finished run. That run's stream is sealed, so its audit lies here.
struct RequestRefused {
  RunId run;
  TransitionRefused refused;
};

using TenantPayload =
    std::variant<TenantCreated, LimitsSet, WorkspaceSet, WorkflowPublished, RequestRefused, KeyCreated, KeyRevoked,
                 PersonSet, PersonRemoved, PolicyPublished, SigningKeySet, CheckpointMade, BundleStored, WebhookSet,
                 WebhookRemoved, WebhookDisabled, SlackSet, SlackRemoved, CeilingSet, TenantSuspended, TenantResumed,
                 EffectsFrozen, EffectsUnfrozen, StorageCounted>;

struct TenantEvent {
  Instant at;
  Actor by;
  TenantPayload payload;
};

struct Tenant {
  TenantId id;
  std::string name;
  int weight = 1;
  Limits limits;                  // its own
  Limits ceiling;                 // the installation's
  std::optional<int> weight_max;  // the same for its weight
  std::optional<Restriction> suspended;
  Freezes freezes;
  std::int64_t stored_bytes = 0;            // of its streams, as counted so far
  std::map<WorkspaceName, int> workspaces;  // weights; a workspace that is not listed weighs 1
  struct Published {
    int version = 0;
    std::string digest;
    friend bool operator==(const Published&, const Published&) = default;
  };
  std::map<WorkflowName, Published> workflows;  // the latest version of each
  struct Key {
    std::string name;
    Role role = Role::viewer;
    std::string secret_hash;
    std::string secret_id;  // as in KeyCreated
    Instant created_at;
    Actor created_by;
    Instant expires_at = end_of_time;  // by its own term, or because it was revoked
    bool revoked = false;              // from expires_at on, which may lie ahead
    friend bool operator==(const Key&, const Key&) = default;
  };
  std::map<KeyId, Key> keys;
  struct Person {
    std::set<KeyId> keys;
    std::set<std::string> accounts;
    std::set<std::string> groups;
    friend bool operator==(const Person&, const Person&) = default;
  };
  std::map<std::string, Person> people;
  struct Policy {
    int version = 0;  // 0: none was published, and the one that pawl brings along holds
    std::string digest;
    std::string source;
    friend bool operator==(const Policy&, const Policy&) = default;
  };
  Policy policy;  // the latest version
  struct SigningKey {
    std::string public_key;
    Instant from;
    Instant until = end_of_time;  // when another one took over
    friend bool operator==(const SigningKey&, const SigningKey&) = default;
  };
  std::map<std::string, SigningKey> signing_keys;  // by id, all that ever signed here
  std::string signing_key;                         // the one that signs; empty before the first checkpoint
  struct LastCheckpoint {
    std::uint64_t number = 0;
    std::uint64_t size = 0;
    Hash hash;
    std::vector<Hash> peaks;
    friend bool operator==(const LastCheckpoint&, const LastCheckpoint&) = default;
  };
  LastCheckpoint checkpoint;
  std::map<std::string, Webhook> webhooks;
  std::optional<SlackPlace> slack;
  std::uint64_t seq = 0;

  friend bool operator==(const Tenant&, const Tenant&) = default;
};

// The limit that holds: the tenant's own or the installation's, whichever is lower. Nothing: there is none.
std::optional<std::int64_t> effective_limit(const Tenant& tenant, Limit limit);
// Those that the scheduler and the gate keep. A suspended tenant may run and start nothing.
Caps effective_caps(const Tenant& tenant);
// Why the tenant's own admins cannot set these limits: they would raise one above the ceiling.
std::optional<std::string> ceiling_problem(const Tenant& tenant, const LimitsSet& wanted);

// "key:..." as requests made with it are signed.
Actor actor_of(KeyId key);
// Which key acted; nothing when none did.
std::optional<KeyId> key_of(const Actor& actor);
// A program that works on a lease, through the key that pawl gave it for that.
Actor lease_actor(RunId run, const StepId& step);

// Who that is: "person:ada" for a key or an account of hers; otherwise the actor as it is.
Actor person_of(const Tenant& tenant, const Actor& actor);
inline bool is_person(const Actor& actor) { return actor.text.starts_with("person:"); }
// Who answers for what the actor did: the person; for a key that is nobody's, whoever made it.
Actor answerable_for(const Tenant& tenant, const Actor& actor);
// For people to read: "ada"; for a key that is nobody's "key ci", or "ada's key ci" when it is known who made it.
std::string describe_actor(const Tenant& tenant, const Actor& actor);
// The groups of a person, as an actor; of anybody else none.
std::vector<std::string> groups_of(const Tenant& tenant, const Actor& person);
// Why a person cannot be set so; nothing when it can.
std::optional<std::string> person_problem(const Tenant& tenant, const PersonSet& person);

void append_event(std::string& out, const TenantEvent& event);
std::expected<TenantEvent, std::string> parse_tenant_event(std::string_view text);

std::expected<void, std::string> evolve_checked(Tenant& tenant, const TenantEvent& event);
void evolve(Tenant& tenant, const TenantEvent& event);

}  // namespace pawl
