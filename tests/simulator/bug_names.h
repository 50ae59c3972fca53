// The bugs that can be planted (core/planted.h), by name, for the command lines of the simulators.
#pragma once

#include <array>
#include <string_view>

#include "core/planted.h"

namespace pawl::simulator {

inline constexpr std::array bug_names = std::to_array<std::string_view>({
    "none",
    "drop_token_check",
    "release_by_stale_token",
    "trust_foreign_key",
    "report_on_local_lease",
    "let_program_report",
    "lend_receipt_to_program",
    "lend_foreign_receipt",
    "trust_undo_of_agent",
    "undo_by_server_tool",
    "undo_as_template",
    "undo_at_stated_risk",
    "believe_low_risk",
    "forget_reporter",
    "skip_retry_limit",
    "retry_at_once",
    "forget_siblings",
    "unblock_before_needs",
    "gate_as_work",
    "ignore_timers",
    "fire_timer_early",
    "count_lost_servers",
    "count_one_person_twice",
    "approve_after_expiry",
    "approve_own_request",
    "ignore_budget",
    "count_key_as_person",
    "skip_digest",
    "skip_policy_version",
    "allow_denied",
    "ignore_write_cap",
    "forget_receipts",
    "forget_doubt",
    "repeat_doubtful",
    "complete_without_outcome",
    "share_open_call",
    "believe_failed_repeat",
    "borrow_approval",
    "lend_own_key",
    "allow_on_expired_lease",
    "reuse_decision",
    "forget_maker_of_key",
    "forget_earlier_requesters",
    "forget_dependencies",
    "count_cost_twice",
    "raise_own_ceiling",
    "lease_while_suspended",
    "allow_while_frozen",
    "repeat_call_while_frozen",
    "overdraw_parent_budget",
    "answer_before_commit",
    "forget_tenant_check",
    "forget_tenant_of_effect",
    "forget_effects_in_replay",
    "call_before_intent",
    "trust_old_verdict",
    "count_identity_as_person",
    "retry_anothers_run",
    "lose_ready_step_at_restart",
    "forget_lease_at_restart",
    "forget_starts_at_restart",
    "no_timer_after_restart",
    "lose_timer_of_evicted_run",
    "skip_event_in_frame",
    "fold_without_history",
    "forget_approvals_in_replay",
    "revive_lost_lease",
    "grant_after_revoke",
    "serve_stale_row",
    "forget_lost_extension",
    "ignore_max_concurrency",
    "commit_without_sync",
    "prune_too_early",
    "trust_unsynced_log",
});
static_assert(bug_names.size() == static_cast<std::size_t>(Bug::end));

inline std::string_view name_of(Bug bug) { return bug_names[static_cast<std::size_t>(bug)]; }

// Bug::none when there is no such bug.
inline Bug find_bug(std::string_view name) {
  for (std::size_t bug = 1; bug < bug_names.size(); ++bug)
    if (bug_names[bug] == name) return static_cast<Bug>(bug);
  return Bug::none;
}

// Only the simulation of several servers can find it (tests/cluster).
constexpr bool needs_servers(Bug bug) { return bug == Bug::forget_lost_extension; }

}  // namespace pawl::simulator
