// The conditions of one policy: SQL boolean expressions over the one row that an action is, prepared in a connection to
// nothing (SQLite in memory, no tables) that can do nothing else.
//
// What holds it in, from the outside to the inside:
//   - check_condition_text: a condition stays the expression that it is put in as;
//   - the authorizer: only functions of the list in condition_functions.h, only the tables json_each and json_tree, no
//     recursion; every other thing SQL can do is refused when the condition is added;
//   - sqlite3_limit: lengths, depth, number of operations;
//   - budgets of one decision: operations, characters compared by LIKE, GLOB and instr, and as the last resort time.
//
// All conditions are one statement, SELECT CASE WHEN ... END: values are bound once, and it ends at the first condition
// that is not false. Values are only ever bound, never part of SQL's text.
//
// Not thread-safe, and cheap enough to have one a thread: about 200 KiB.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/action.h"
#include "govern/condition_text.h"

struct sqlite3;
struct sqlite3_stmt;

namespace pawl {

inline constexpr std::size_t condition_functions_max = 50;  // calls in one condition
inline constexpr int decision_steps_max = 500'000;          // of SQLite's machine
inline constexpr std::uint64_t decision_compared_max = 16 << 20;
inline constexpr auto decision_time_max = std::chrono::milliseconds(50);
// Of the action's own texts, and of every value that a condition makes of them.
inline constexpr int value_bytes_max = 4 << 20;
static_assert(value_bytes_max >= 2 * action_fields_bytes_max, "a condition sees every action whole");

// The one row. Columns have these names.
struct ActionRow {
  std::string_view connector, operation, target, risk, tenant, workspace, workflow, fields;
  int risk_level = 0;  // low 0, med 1, high 2
};

class Conditions {
 public:
  Conditions();
  ~Conditions();
  Conditions(Conditions&&) noexcept;
  Conditions& operator=(Conditions&&) noexcept;

  // `speaks_on_null`: whether a condition that SQL can say neither true nor false of counts as met.
  std::expected<void, ConditionError> add(std::string_view condition, bool speaks_on_null);
  // Without a condition: always met.
  void add_always();
  // After the last one; the reason is not about any one of them. `resumable`: first_met() is asked to begin elsewhere.
  std::expected<void, std::string> seal(bool resumable = false);

  // The first condition from `from` on that is met, if none before it failed. The budgets are those of all calls since
  // the last that began with the first condition.
  struct Met {
    std::optional<std::size_t> which;  // absent: none
    bool by_null = false;
  };
  struct Failure {
    std::optional<std::size_t> which;
    std::string reason;
  };
  std::expected<Met, Failure> first_met(const ActionRow& row, std::size_t from = 0);

 private:
  struct Machine;  // at an address of its own: SQLite's callbacks know it
  std::unique_ptr<Machine> machine_;
};

}  // namespace pawl
