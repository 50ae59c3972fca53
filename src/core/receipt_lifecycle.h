// The receipt of one side effect: intended is durable before the call, the outcome after it.
// An intent whose worker died is in doubt until a repeat under the same key, or a person, resolves it.
#pragma once

#include "core/lifecycle.h"

namespace pawl {

enum class ReceiptStatus { intended, succeeded, failed, in_doubt, reversed };
enum class ReceiptTrigger { succeed, fail, doubt, reverse };

template <>
inline constexpr std::array enum_names<ReceiptStatus>{std::string_view("intended"), std::string_view("succeeded"),
                                                      std::string_view("failed"), std::string_view("in_doubt"),
                                                      std::string_view("reversed")};

template <>
inline constexpr std::array enum_names<ReceiptTrigger>{std::string_view("succeed"), std::string_view("fail"),
                                                       std::string_view("doubt"), std::string_view("reverse")};

inline constexpr auto receipt_table = [] {
  using enum ReceiptStatus;
  using enum ReceiptTrigger;
  using Row = Transition<ReceiptStatus, ReceiptTrigger>;
  return std::array{
      Row{intended, succeed, succeeded}, Row{intended, fail, failed}, Row{intended, doubt, in_doubt},
      Row{in_doubt, succeed, succeeded}, Row{in_doubt, fail, failed}, Row{succeeded, reverse, reversed},
  };
}();

static_assert(proven(receipt_table, ReceiptStatus::intended));

constexpr bool is_terminal(ReceiptStatus status) { return is_terminal(receipt_table, status); }

}  // namespace pawl
