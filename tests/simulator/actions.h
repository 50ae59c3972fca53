// The side effects of a simulation: what its workers want to do, what its policies say to it, and the place where it
// happens, which counts. Nobody here knows the journal; what the journal says of effects is held against this.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/action.h"
#include "engine/lease.h"
#include "govern/policies.h"
#include "simulator/dice.h"

namespace pawl::simulator {

// Three operations: `put` is done once under one key however often it is called; `post` is not, and nobody can find out
// whether it was done; `patch` is not either, but its connector can look.
bool is_idempotent(const Action& action);
bool can_look(const Action& action);

// What the attempt wants to do: mostly the same at every attempt, at times something else under the same key. Keys are
// the step's own, one of several of the step, or one that steps, runs and tenants share.
Action draw_action(Dice& dice, const Lease& lease);

// Policies that can be published, real ones; number 0 is the one that pawl brings along.
inline constexpr int policies_count = 6;
const PolicySource& policy_text(int number);  // 1 and up
int policy_number(std::string_view source);
// As pawl evaluates it.
Verdict judge(int number, int version, const Action& action);
// As its author meant it: a table of the checker's own.
Effect meant_by(int number, Tier risk);

// Where effects happen.
class Target {
 public:
  enum class Answer { done, refused };
  // Throws Broken when an effect happens a second time.
  void call(TenantId tenant, ReceiptId receipt, const Action& action, Answer answer);
  // Undoes what happened under the receipt.
  void undo(TenantId tenant, ReceiptId receipt, const Action& action);

  bool has_happened(ReceiptId receipt) const { return happened_.contains(receipt); }
  bool was_undone(ReceiptId receipt) const { return undone_.contains(receipt); }
  bool stands(TenantId tenant, const std::string& key) const {
    auto found = effects_.find({tenant, key});
    return found != effects_.end() && found->second > 0;
  }

 private:
  std::map<std::pair<TenantId, std::string>, int> effects_;  // effects under a key that were not undone
  std::set<ReceiptId> happened_;
  std::set<ReceiptId> undone_;
};

}  // namespace pawl::simulator
