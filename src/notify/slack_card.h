// An approval as a message in Slack: what is asked for, what would be written, why somebody must say yes, and the
// buttons. Pure: from a run to JSON, within Slack's limits; what is too long is cut, and says so. A card that does not
// show all of the action has no button that approves it, but the command that shows all of it and asks.
//
// Text that workflows, tools and models made stands in rich text as it is, where nothing in it is taken for a link, a
// mention or formatting; in the one-line fallback it is escaped.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/run.h"

namespace pawl::notify {

struct CardSubject {
  std::string_view tenant;  // its name
  const Run& run;
  const Approval& approval;
  std::vector<std::string> requesters = {};  // as describe_actor() names them
};

// What chat.postMessage and chat.update take, beside the channel: `text` and `blocks`, for the approval as it is: with
// buttons while it is open, with its outcome afterwards.
boost::json::object card_of(const CardSubject& subject);

// What a button carries: which approval, of which run and tenant.
struct CardButton {
  std::string tenant;
  RunId run;
  ApprovalId approval;
};
std::string print_button(const CardButton& button);
std::optional<CardButton> read_button(std::string_view text);

inline constexpr std::string_view approve_action = "approval.approve";
inline constexpr std::string_view reject_action = "approval.reject";
inline constexpr std::string_view reject_view = "approval.reject.submit";
inline constexpr std::string_view reason_block = "reason";
inline constexpr std::string_view reason_input = "text";
inline constexpr std::size_t reason_chars_max = 1000;

// The window that asks why it is rejected.
boost::json::object reject_modal(const CardButton& button);

// One line: how it stands, "approved by ada", "1 of 2 have approved: bo". Escaped.
std::string outcome_line(const Approval& approval);
// & < > as Slack wants them.
std::string escaped(std::string_view text);

}  // namespace pawl::notify
