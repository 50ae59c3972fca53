// Holds a policy's verdicts against truth that is computed without SQL, and against memory that runs out: whatever the
// evaluator cannot do is a deny, never an allow. Any bytes are a test: they choose the form of the rule, the action and
// where memory ends. For tests/govern and for the fuzz target `policy`.
#pragma once

#include <sqlite3.h>

#include <array>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "govern/policy.h"

namespace pawl::test {

// SQLite's memory, which ends when it is told to.
class EndingMemory {
 public:
  // After so many allocations the next one fails, and all that follow unless `once`.
  static void end_after(int allocations, bool once) {
    left_ = allocations;
    once_ = once;
  }
  static void do_not_end() { left_ = -1; }
  // Before SQLite is used for the first time.
  static bool install() {
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &usual_) != SQLITE_OK) return false;
    sqlite3_mem_methods methods = usual_;
    methods.xMalloc = [](int bytes) -> void* { return is_over() ? nullptr : usual_.xMalloc(bytes); };
    methods.xRealloc = [](void* memory, int bytes) -> void* {
      return is_over() ? nullptr : usual_.xRealloc(memory, bytes);
    };
    return sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) == SQLITE_OK;
  }

 private:
  static bool is_over() {
    if (left_ < 0) return false;
    if (left_ > 0) {
      --left_;
      return false;
    }
    if (once_) left_ = -1;
    return true;
  }

  inline static sqlite3_mem_methods usual_{};
  inline static thread_local int left_ = -1;
  inline static thread_local bool once_ = false;
};
inline const bool ending_memory_is_installed = EndingMemory::install();

class PolicyOracle {
 public:
  // Empty, or what does not hold.
  static std::string check(std::string_view input) {
    PolicyOracle oracle(input);
    if (auto wrong = oracle.check_form(); !wrong.empty()) return wrong;
    return oracle.check_text(input);
  }

 private:
  using Truth = std::optional<bool>;  // absent: SQL's NULL

  explicit PolicyOracle(std::string_view input) : input_(input) {}

  unsigned next(unsigned count) {
    if (input_.empty()) return 0;
    unsigned byte = static_cast<unsigned char>(input_.front());
    input_.remove_prefix(1);
    return byte % count;
  }
  std::string word(std::string_view letters, unsigned length_max) {
    std::string out;
    for (unsigned left = next(length_max + 1); left > 0; --left)
      out += letters[next(static_cast<unsigned>(letters.size()))];
    return out;
  }

  // ---- The action. Members are sorted, as canonical text has them.

  struct Number {
    std::string text;             // as JSON; empty: there is none
    std::optional<double> value;  // absent: null, or a text
    bool is_text = false;
  };
  Number number() {
    switch (next(6)) {
      case 0:
        return {};
      case 1:
        return {"null", {}};
      case 2:
        return {"\"5\"", {}, true};
      case 3:
        return {"true", 1};
      default: {
        const int value = static_cast<int>(next(256)) - 100;
        return {std::to_string(value), value};
      }
    }
  }

  void make_action() {
    amount_ = number();
    limit_ = number();
    std::string fields;
    auto add = [&](std::string_view name, const std::string& value) {
      if (!value.empty()) fields += (fields.empty() ? "\"" : ",\"") + std::string(name) + "\":" + value;
    };
    add("amount", amount_.text);
    add("limit", limit_.text);
    constexpr std::array<std::size_t, 3> sizes{300 << 10, 700 << 10, 1000 << 10};
    if (next(16) == 15) add("note", '"' + std::string(sizes[next(3)], 'n') + '"');
    if (next(4) != 0) {
      std::string array;
      for (unsigned left = next(4); left > 0; --left) {
        tags_.push_back(word("ab", 2));
        array += (array.empty() ? "\"" : ",\"") + tags_.back() + '"';
      }
      add("tags", "[" + array + "]");
    }
    action_ = {.connector = "shop",
               .operation = next(2) == 0 ? "order.pay" : "order.read",
               .target = "t" + word("aB/%_.", 6),
               .fields = "{" + fields + "}",
               .risk = Tier::low,
               .idempotency_key = "k"};
  }

  // ---- The rule's forms, and what is true of them

  static Truth compare(const Number& number, int with) {
    if (number.is_text) return true;  // a text is greater than every number
    return number.value ? Truth(*number.value > with) : std::nullopt;
  }
  static bool is_like(std::string_view text, std::string_view pattern) {
    if (pattern.empty()) return text.empty();
    if (pattern[0] == '%') {
      for (std::size_t skip = 0; skip <= text.size(); ++skip)
        if (is_like(text.substr(skip), pattern.substr(1))) return true;
      return false;
    }
    auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    if (text.empty() || (pattern[0] != '_' && lower(pattern[0]) != lower(text[0]))) return false;
    return is_like(text.substr(1), pattern.substr(1));
  }

  Truth make_condition() {
    const int with = static_cast<int>(next(256)) - 100;
    switch (next(5)) {
      case 0:
        condition_ = "fields ->> 'amount' > " + std::to_string(with);
        return compare(amount_, with);
      case 1: {
        condition_ = "coalesce(fields ->> 'limit', 50) > " + std::to_string(with);
        const Number fifty{"50", 50};
        return compare(limit_.value || limit_.is_text ? limit_ : fifty, with);
      }
      case 2: {
        const std::string wanted = word("ab", 2);
        condition_ = "EXISTS (SELECT 1 FROM json_each(fields, '$.tags') WHERE value = '" + wanted + "')";
        for (const std::string& tag : tags_)
          if (tag == wanted) return true;
        return false;
      }
      case 3: {
        const std::string other = next(2) == 0 ? "order.pay" : "order.PAY";
        condition_ = "operation IN ('nothing', '" + other + "')";
        return action_.operation == other;
      }
      default: {
        const std::string pattern = "t" + word("Ab/%_", 4);
        condition_ = "target LIKE '" + pattern + "'";
        return is_like(action_.target, pattern);
      }
    }
  }

  static std::optional<Policy> compile(std::string_view effect, const std::string& condition, std::string_view rest) {
    auto policy =
        Policy::compile("{\"policy\": \"p\", \"rules\": [{\"id\": \"one\", \"effect\": \"" + std::string(effect) +
                            "\", \"when\": " + boost::json::serialize(boost::json::string(condition)) +
                            "}, {\"id\": \"rest\", \"effect\": \"" + std::string(rest) + "\"}]}",
                        "policy");
    if (!policy) return std::nullopt;
    return std::move(*policy);
  }
  Verdict judge(Policy& policy) const {
    return policy.evaluate(action_, {.tenant = "default", .workspace = "default", .workflow = "w"});
  }

  std::string check_form() {
    make_action();
    Truth truth = make_condition();
    if (next(3) == 0) {
      condition_ = "NOT (" + condition_ + ")";
      if (truth) truth = !*truth;
    }
    constexpr std::array<std::string_view, 3> effects{"deny", "allow", "needs_approval"};
    const Effect effect = static_cast<Effect>(next(3));
    const Effect rest = effect == Effect::allow ? Effect::deny : Effect::allow;
    auto policy =
        compile(effects[static_cast<std::size_t>(effect)], condition_, effects[static_cast<std::size_t>(rest)]);
    if (!policy) return "a condition of a usual form compiles: " + condition_;
    const bool is_met = truth.value_or(effect != Effect::allow);
    const Effect expected = is_met ? effect : rest;
    if (const Verdict verdict = judge(*policy); verdict.effect != expected)
      return "the verdict is the truth: " + condition_ + " of " + action_.target + " " + action_.operation + " " +
             action_.fields.substr(0, 200) + " gives " + std::string(to_string(verdict.effect)) + ": " + verdict.reason;
    return check_without_memory(*policy, expected);
  }

  // The whole input as a condition.
  std::string check_text(std::string_view input) {
    auto policy = compile("deny", std::string(input), "allow");
    if (!policy) return {};
    return check_without_memory(*policy, judge(*policy).effect);
  }

  std::string check_without_memory(Policy& policy, Effect expected) {
    for (const bool once : {false, true})
      for (int left : {0, 1, 2, 3, 5, 8, static_cast<int>(next(64))}) {
        EndingMemory::end_after(left, once);
        const Verdict verdict = judge(policy);
        EndingMemory::do_not_end();
        if (verdict.effect != expected && verdict.effect != Effect::deny)
          return "without memory it is the same or a deny: " + condition_ + " with " + std::to_string(left) +
                 " allocations gives " + std::string(to_string(verdict.effect));
      }
    if (judge(policy).effect != expected) return "with memory again it is as before: " + condition_;
    return {};
  }

  std::string_view input_;
  Action action_;
  Number amount_, limit_;
  std::vector<std::string> tags_;
  std::string condition_;
};

}  // namespace pawl::test
