// The approval: resolves once, and only from requested.
#pragma once

#include "core/lifecycle.h"

namespace pawl {

enum class ApprovalStatus { requested, approved, rejected, expired, canceled };
enum class ApprovalTrigger { approve, reject, expire, cancel };

template <>
inline constexpr std::array enum_names<ApprovalStatus>{std::string_view("requested"), std::string_view("approved"),
                                                       std::string_view("rejected"), std::string_view("expired"),
                                                       std::string_view("canceled")};

template <>
inline constexpr std::array enum_names<ApprovalTrigger>{std::string_view("approve"), std::string_view("reject"),
                                                        std::string_view("expire"), std::string_view("cancel")};

inline constexpr auto approval_table = [] {
  using enum ApprovalStatus;
  using enum ApprovalTrigger;
  using Row = Transition<ApprovalStatus, ApprovalTrigger>;
  return std::array{
      Row{requested, approve, approved},
      Row{requested, reject, rejected},
      Row{requested, expire, expired},
      Row{requested, cancel, canceled},
  };
}();

static_assert(proven(approval_table, ApprovalStatus::requested));

constexpr bool is_terminal(ApprovalStatus status) { return is_terminal(approval_table, status); }

}  // namespace pawl
