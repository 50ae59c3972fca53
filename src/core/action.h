// A side effect that someone wants to have, before it happens: what would be done, to what, and under which key it may
// happen once. Its digest is sha256 over its canonical text; every allow and every approval is for exactly one digest
// and one version of the policy.
#pragma once

#include <expected>
#include <optional>
#include <string>

#include "core/chain.h"
#include "core/id.h"
#include "core/json.h"
#include "core/names.h"
#include "core/workflow.h"

namespace pawl {

inline constexpr std::size_t action_name_chars_max = 128;  // connector, operation
inline constexpr std::size_t action_target_chars_max = 2048;
inline constexpr std::size_t action_key_chars_max = 512;
inline constexpr std::size_t action_fields_bytes_max = std::size_t{1} << 20;  // as canonical text

struct Action {
  std::string connector;   // "servicenow"
  std::string operation;   // "incident.update"
  std::string target;      // "acme/incident/8a5055c9c61122780043563ef53438e3"
  JsonText fields = "{}";  // what is to be written: the canonical text of an object
  Tier risk = Tier::low;
  std::string idempotency_key;

  friend bool operator==(const Action&, const Action&) = default;
};

// The canonical text of the whole action, {"connector":...,"fields":{...},...}: what is journaled and hashed.
JsonText print_action(const Action& action);
// Of an object that has these members and no others; `risk` may be missing and is then low. The reason names the
// member.
std::expected<Action, std::string> read_action(const Json& value);
// Whether it may be proposed: limits, one spelling of names (read_action takes older ones). The reason names the
// member.
std::expected<void, std::string> check_action(const Action& action);

// Whether both would do the same, whatever risk each is said to have.
bool is_same_effect(const Action& a, const Action& b);

inline Hash digest_of(Sha256 sha256, const Action& action) { return sha256(print_action(action), {}); }

// What a policy says to an action. A policy that cannot say anything says deny.
enum class Effect { deny, allow, needs_approval };
template <>
inline constexpr std::array enum_names<Effect>{std::string_view("deny"), std::string_view("allow"),
                                               std::string_view("needs_approval")};

struct Verdict {
  Effect effect = Effect::deny;
  int policy_version = 0;  // 0: the one that pawl brings along
  std::string rule;        // which one spoke; empty when none did
  std::string reason;      // for people
  Tier risk = Tier::low;   // the action has at least this one
  ApprovalTerms terms;     // needs_approval: what it demands

  friend bool operator==(const Verdict&, const Verdict&) = default;
};

// What an allow, a denial or a request for approval stands on: kept beside each of them.
struct PolicyReason {
  int policy_version = 0;
  std::string rule;
  std::string reason;

  friend bool operator==(const PolicyReason&, const PolicyReason&) = default;
};
inline PolicyReason policy_reason_of(const Verdict& verdict) {
  return {verdict.policy_version, verdict.rule, verdict.reason};
}

// An action as a worker proposes it, with what its connector knows about it.
struct Proposal {
  Action action;
  Hash digest;                        // of the action
  bool idempotent = false;            // may be called again under the same key: the other side does it once
  JsonText before;                    // what would be overwritten; empty when nobody looked
  std::optional<ReceiptId> reverses;  // the effect that this one undoes
  // Of a program that pawl runs: whether it is in a sandbox. Absent: it is no program, or was recorded before this was.
  std::optional<bool> sandboxed = {};

  friend bool operator==(const Proposal&, const Proposal&) = default;
};
// How an effect can be undone, and on whose word.
enum class UndoSource {
  unknown,  // recorded before this was kept
  tool,     // the tool in this process that had the effect: `fields` is its template, which names secrets at most
  worker,   // the remote worker that had the effect: data
  agent     // a program that pawl runs: data, for people to read
};
template <>
inline constexpr std::array enum_names<UndoSource>{std::string_view("unknown"), std::string_view("tool"),
                                                   std::string_view("worker"), std::string_view("agent")};

struct Undo {
  Action action;
  UndoSource source = UndoSource::unknown;

  friend bool operator==(const Undo&, const Undo&) = default;
};

inline constexpr std::size_t action_metadata_bytes_max = std::size_t{64} << 10;  // `before`, and a response

}  // namespace pawl
