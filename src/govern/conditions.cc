#include "govern/conditions.h"

#include <sqlite3.h>
#include <time.h>

#include <algorithm>
#include <array>

#include "core/invariant.h"
#include "core/source_reader.h"
#include "govern/condition_functions.h"

namespace pawl {
namespace {

constexpr std::array<std::string_view, 9> columns{"connector", "operation", "target", "risk",      "tenant",
                                                  "workspace", "workflow",  "fields", "risk_level"};
// The row is a query of its own that is run first, so that each column is a register to all conditions: without OFFSET
// SQLite would put the parameters themselves into every one of them.
constexpr std::string_view from_row =
    " FROM (SELECT ?1 AS connector, ?2 AS operation, ?3 AS target, ?4 AS risk, ?5 AS tenant, ?6 AS workspace, "
    "?7 AS workflow, ?8 AS fields, ?9 AS risk_level LIMIT 1 OFFSET 0) AS action";
constexpr int from_index = 10;  // the parameter after those of the row: where a resumed question begins
static_assert(from_index == columns.size() + 1);
constexpr const char* pause_function = "pawl_pause";

constexpr std::array<std::string_view, 2> readable_tables{"json_each", "json_tree"};

constexpr int steps_between_looks = 50;
// SQLite looks up from its work only where a program jumps back. Between conditions it is made to, so often that what
// functions can do in between stays small.
constexpr std::size_t functions_between_looks = 20;

struct SqliteLimit {
  int id;
  int value;
};
constexpr std::array limits{
    SqliteLimit{SQLITE_LIMIT_LENGTH, value_bytes_max},
    SqliteLimit{SQLITE_LIMIT_SQL_LENGTH, 2 << 20},
    SqliteLimit{SQLITE_LIMIT_COLUMN, 100},
    SqliteLimit{SQLITE_LIMIT_EXPR_DEPTH, 500},
    SqliteLimit{SQLITE_LIMIT_COMPOUND_SELECT, 4},
    SqliteLimit{SQLITE_LIMIT_VDBE_OP, 250'000},
    SqliteLimit{SQLITE_LIMIT_FUNCTION_ARG, 20},
    SqliteLimit{SQLITE_LIMIT_ATTACHED, 0},
    SqliteLimit{SQLITE_LIMIT_VARIABLE_NUMBER, from_index},
    SqliteLimit{SQLITE_LIMIT_TRIGGER_DEPTH, 1},
    SqliteLimit{SQLITE_LIMIT_WORKER_THREADS, 0},
};

struct Setting {
  int id;
  int value;
};
constexpr std::array settings{
    Setting{SQLITE_DBCONFIG_DEFENSIVE, 1},
    Setting{SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
    Setting{SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
    Setting{SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
    Setting{SQLITE_DBCONFIG_ENABLE_VIEW, 0},
    Setting{SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0},
    // "prod" is then the column of this name, which there is not, and never the text 'prod'.
    Setting{SQLITE_DBCONFIG_DQS_DML, 0},
    Setting{SQLITE_DBCONFIG_DQS_DDL, 0},
};

bool contains(auto& words, std::string_view word) { return std::ranges::find(words, word) != std::end(words); }

enum class Value { no, yes, null, other };

}  // namespace

struct Conditions::Machine {
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

  struct Close {
    void operator()(sqlite3* connection) const { sqlite3_close(connection); }
  };

  struct Condition {
    std::string text;  // empty: always met
    bool speaks_on_null = false;
    std::size_t functions = 0;
    Statement value;  // of this one alone; prepared when it is first asked for
  };
  enum class Stopped { no, by_steps, by_time };

  std::unique_ptr<sqlite3, Close> connection;
  std::vector<Condition> conditions;
  Statement all;
  bool is_resumable = false;

  // Of the statement that is being prepared.
  bool is_own = false;
  std::size_t functions = 0;
  std::string refused;

  // Of the decision that is being made.
  ComparisonBudget compared;
  int looks = 0;
  std::chrono::steady_clock::time_point deadline;
  std::optional<std::chrono::nanoseconds> overtime_end;  // by the thread's own clock
  Stopped stopped = Stopped::no;

  Machine() {
    sqlite3* opened = nullptr;
    const int code =
        sqlite3_open_v2(":memory:", &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX, nullptr);
    connection.reset(opened);
    if (code != SQLITE_OK) throw std::bad_alloc();
    for (const SqliteLimit& limit : limits) {
      sqlite3_limit(opened, limit.id, limit.value);
      // SQLite takes the lower one of this and what it was built with.
      invariant(sqlite3_limit(opened, limit.id, -1) == limit.value, "SQLite takes a limit");
    }
    for (const Setting& setting : settings) {
      int now = -1;
      invariant(sqlite3_db_config(opened, setting.id, setting.value, &now) == SQLITE_OK && now == setting.value,
                "SQLite takes a setting");
    }
    use_bounded_functions(opened, compared);
    invariant(sqlite3_create_function_v2(opened, pause_function, 0, SQLITE_UTF8, this, pause, nullptr, nullptr,
                                         nullptr) == SQLITE_OK,
              "SQLite takes a function");
    // Using a table function for the first time declares its columns, which the authorizer would refuse.
    invariant(
        sqlite3_exec(opened, "SELECT 1 FROM json_each('[]'), json_tree('[]')", nullptr, nullptr, nullptr) == SQLITE_OK,
        "SQLite has the tables of JSON");
    invariant(sqlite3_set_authorizer(opened, authorize, this) == SQLITE_OK, "SQLite takes an authorizer");
    sqlite3_progress_handler(opened, steps_between_looks, look, this);
  }

  static int authorize(void* self, int what, const char* first, const char* second, const char*, const char*) {
    return static_cast<Machine*>(self)->permit(what, first ? first : "", second ? second : "");
  }

  int permit(int what, std::string_view first, std::string_view second) {
    if (what == SQLITE_SELECT) return SQLITE_OK;
    if (what == SQLITE_READ && contains(readable_tables, first)) return SQLITE_OK;
    if (what == SQLITE_FUNCTION && (contains(condition_functions, second) || (is_own && second == pause_function))) {
      functions += 1;
      return SQLITE_OK;
    }
    if (!refused.empty()) return SQLITE_DENY;
    if (what == SQLITE_FUNCTION)
      refused = "the function " + quote(second) + " is not one that a condition may call" +
                suggest(second, condition_functions);
    else if (what == SQLITE_READ)
      refused = "the table " + quote(first) + " cannot be read; a condition sees the action, json_each and json_tree";
    else if (what == SQLITE_RECURSIVE)
      refused = "a condition cannot be recursive";
    else
      refused = "a condition can only look at the action";
    return SQLITE_DENY;
  }

  static int look(void* self) {
    Machine& machine = *static_cast<Machine*>(self);
    machine.looks += 1;
    if (machine.looks * steps_between_looks > decision_steps_max) machine.stopped = Stopped::by_steps;
    machine.check_time();
    return machine.stopped == Stopped::no ? 0 : 1;
  }

  static void pause(sqlite3_context* context, int, sqlite3_value**) {
    Machine& machine = *static_cast<Machine*>(sqlite3_user_data(context));
    machine.check_time();
    if (machine.stopped == Stopped::no) return sqlite3_result_int(context, 0);
    sqlite3_result_error(context, "out of time", -1);
  }

  // The wall's clock goes on while others have the processor, and an action must not be denied for that. It is cheap to
  // look at; only when it says that time is up, as much again is given by the thread's own.
  void check_time() {
    if (stopped != Stopped::no || std::chrono::steady_clock::now() <= deadline) return;
    timespec used{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    const auto worked = std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
    if (!overtime_end)
      overtime_end = worked + decision_time_max;
    else if (worked > *overtime_end)
      stopped = Stopped::by_time;
  }

  Statement prepare(const std::string& sql, bool own) {
    is_own = own;
    functions = 0;
    refused.clear();
    sqlite3_stmt* made = nullptr;
    sqlite3_prepare_v3(connection.get(), sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &made,
                       nullptr);
    return Statement(made);
  }

  std::string error() const { return refused.empty() ? sqlite3_errmsg(connection.get()) : refused; }

  void begin() {
    looks = 0;
    compared = {.left = decision_compared_max};
    deadline = std::chrono::steady_clock::now() + decision_time_max;
    overtime_end.reset();
    stopped = Stopped::no;
  }

  // A value that cannot be bound would be NULL to the conditions, and a rule that limits it would not speak.
  static int bind(sqlite3_stmt* statement, const ActionRow& row) {
    int index = 0;
    for (const std::string_view text :
         {row.connector, row.operation, row.target, row.risk, row.tenant, row.workspace, row.workflow, row.fields}) {
      const int code = sqlite3_bind_text64(statement, ++index, text.data() ? text.data() : "", text.size(),
                                           SQLITE_STATIC, SQLITE_UTF8);
      if (code != SQLITE_OK) return code;
    }
    return sqlite3_bind_int(statement, ++index, row.risk_level);
  }

  std::string why(int code) const {
    if (stopped == Stopped::by_steps)
      return "its conditions take more than " + std::to_string(decision_steps_max) + " steps";
    if (stopped == Stopped::by_time)
      return "its conditions take longer than " + std::to_string(decision_time_max.count()) + " ms";
    if (compared.exceeded)
      return "LIKE, GLOB and instr() compare more than " + std::to_string(decision_compared_max) + " characters";
    if (code == SQLITE_TOOBIG)
      return "it has or makes a value of more than " + std::to_string(value_bytes_max) + " bytes";
    return sqlite3_errmsg(connection.get());
  }

  // Calls `read` with the row; gives why there is none.
  template <class Read>
  std::optional<std::string> run(sqlite3_stmt* statement, const ActionRow& row, Read read,
                                 std::optional<std::size_t> from = {}) {
    int code = bind(statement, row);
    if (code == SQLITE_OK && from) code = sqlite3_bind_int64(statement, from_index, static_cast<std::int64_t>(*from));
    if (code == SQLITE_OK) code = sqlite3_step(statement);
    std::optional<std::string> failure;
    if (code == SQLITE_ROW)
      read();
    else
      failure = why(code);
    sqlite3_reset(statement);
    return failure;
  }

  std::expected<Value, std::string> value_of(std::size_t which, const ActionRow& row) {
    Condition& condition = conditions[which];
    if (condition.text.empty()) return Value::yes;
    if (!condition.value) condition.value = prepare("SELECT (" + condition.text + "\n)" + std::string(from_row), false);
    sqlite3_stmt* statement = condition.value.get();
    if (!statement) return std::unexpected(error());
    Value value = Value::other;
    auto failure = run(statement, row, [&] {
      const int type = sqlite3_column_type(statement, 0);
      const bool is_number = type == SQLITE_INTEGER || type == SQLITE_FLOAT;
      const double number = is_number ? sqlite3_column_double(statement, 0) : -1;
      value = type == SQLITE_NULL ? Value::null : number == 0 ? Value::no : number == 1 ? Value::yes : Value::other;
    });
    if (failure) return std::unexpected(std::move(*failure));
    return value;
  }

  static Failure neither(std::size_t which) {
    return {which, "its condition gives something that is neither true nor false; compare it with what it should be"};
  }

  // One condition after the other, to learn which of them it was that failed.
  Failure find_failure(const ActionRow& row, std::size_t from, std::string reason) {
    begin();
    for (std::size_t i = from; i < conditions.size(); ++i) {
      auto value = value_of(i, row);
      if (!value) return {i, std::move(value.error())};
      if (*value == Value::other) return neither(i);
      if (*value == Value::yes || (*value == Value::null && conditions[i].speaks_on_null)) break;
    }
    return {std::nullopt, std::move(reason)};
  }
};

Conditions::Conditions() : machine_(std::make_unique<Machine>()) {}
Conditions::~Conditions() = default;
Conditions::Conditions(Conditions&&) noexcept = default;
Conditions& Conditions::operator=(Conditions&&) noexcept = default;

std::expected<void, ConditionError> Conditions::add(std::string_view condition, bool speaks_on_null) {
  if (auto checked = check_condition_text(condition); !checked) return checked;
  // In WHERE, SQLite refuses what makes one value of many rows; there is only the one.
  std::string sql = "SELECT 1";
  sql += from_row;
  sql += " WHERE (";
  const std::size_t begin = sql.size();
  sql += condition;
  sql += "\n)";
  if (!machine_->prepare(sql, false)) {
    const int at = sqlite3_error_offset(machine_->connection.get());
    const std::size_t offset =
        at < static_cast<int>(begin) ? 0 : std::min(static_cast<std::size_t>(at) - begin, condition.size());
    std::string reason = machine_->error();
    constexpr std::string_view no_column = "no such column: ";
    if (reason.starts_with(no_column)) {
      const std::string hint = suggest(std::string_view(reason).substr(no_column.size()), columns);
      reason += hint.empty() ? "; there are " + list_words(columns, "and") : hint;
    }
    return std::unexpected(ConditionError{offset, std::move(reason)});
  }
  if (machine_->functions > condition_functions_max)
    return std::unexpected(ConditionError{0, "a condition calls at most " + std::to_string(condition_functions_max) +
                                                 " functions; this one calls " + std::to_string(machine_->functions)});
  machine_->conditions.push_back({std::string(condition), speaks_on_null, machine_->functions, nullptr});
  return {};
}

void Conditions::add_always() { machine_->conditions.emplace_back(); }

std::expected<void, std::string> Conditions::seal(bool resumable) {
  machine_->is_resumable = resumable;
  std::string sql = "SELECT CASE";
  std::size_t functions = 0;
  for (std::size_t i = 0; i < machine_->conditions.size(); ++i) {
    const auto& condition = machine_->conditions[i];
    const std::string guard = resumable ? "?" + std::to_string(from_index) + " <= " + std::to_string(i) + " AND " : "";
    if (condition.text.empty()) {
      sql += " WHEN " + guard + "1";
    } else {
      functions += condition.functions;
      if (functions >= functions_between_looks) {
        sql += " WHEN ";
        sql += pause_function;
        sql += "() THEN NULL";
        functions = 0;
      }
      // Not 0 is 1, or NULL, or something that is no answer: first_met() looks which.
      sql += " WHEN " + guard;
      sql += condition.speaks_on_null ? "(" : "ifnull((";
      sql += condition.text;
      sql += condition.speaks_on_null ? "\n) IS NOT 0" : "\n), 0) IS NOT 0";
    }
    sql += " THEN " + std::to_string(i);
  }
  sql += " ELSE -1 END";
  sql += from_row;
  machine_->all = machine_->prepare(sql, true);
  if (!machine_->all) return std::unexpected("all conditions together are too much: " + machine_->error());
  return {};
}

std::expected<Conditions::Met, Conditions::Failure> Conditions::first_met(const ActionRow& row, std::size_t from) {
  invariant(machine_->all != nullptr, "conditions are sealed before they are asked");
  invariant(from == 0 || machine_->is_resumable, "conditions are resumed only if that was said");
  if (from == 0) machine_->begin();
  std::int64_t found = -1;
  auto failure = machine_->run(
      machine_->all.get(), row, [&] { found = sqlite3_column_int64(machine_->all.get(), 0); },
      machine_->is_resumable ? std::optional(from) : std::nullopt);
  if (failure) return std::unexpected(machine_->find_failure(row, from, std::move(*failure)));
  if (found < 0) return Met{};
  const auto which = static_cast<std::size_t>(found);
  auto value = machine_->value_of(which, row);
  if (!value) return std::unexpected(Failure{which, std::move(value.error())});
  if (*value == Value::yes) return Met{which, false};
  if (*value == Value::null && machine_->conditions[which].speaks_on_null) return Met{which, true};
  return std::unexpected(Machine::neither(which));
}

}  // namespace pawl
