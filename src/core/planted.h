// Bugs on purpose, so that the simulator can show that it would find them. Only the simulator's own build of these
// sources knows how to switch one on (PAWL_PLANTED); in pawl itself planted() is a constant, and costs nothing.
#pragma once

namespace pawl {

enum class Bug {
  none,
  // decide
  drop_token_check,
  release_by_stale_token,
  trust_foreign_key,        // another key's lease token counts
  report_on_local_lease,    // a remote report on a lease of a worker in this process counts
  let_program_report,       // an agent ends its step itself
  lend_receipt_to_program,  // an agent records the outcome of what its step's tool does
  lend_foreign_receipt,     // a receipt answers a step of another tool, or one that others report on
  trust_undo_of_agent,      // what an agent or a worker says would undo its effect counts as the tool's own word
  undo_by_server_tool,      // a tool of this server executes the undo that somebody else gave
  undo_as_template,         // the undo that somebody else gave is rendered as a template
  undo_at_stated_risk,      // the risk of an undo is what its giver says
  believe_low_risk,         // a worker's statement lowers a risk
  forget_reporter,          // the journal does not say who reported
  skip_retry_limit,
  retry_at_once,
  forget_siblings,
  unblock_before_needs,
  gate_as_work,
  ignore_timers,
  fire_timer_early,
  count_lost_servers,  // the death of a server costs its steps an attempt
  count_one_person_twice,
  approve_after_expiry,
  approve_own_request,
  ignore_budget,
  count_key_as_person,
  skip_digest,
  skip_policy_version,
  allow_denied,
  ignore_write_cap,
  forget_receipts,
  forget_doubt,
  repeat_doubtful,
  complete_without_outcome,
  share_open_call,
  believe_failed_repeat,
  borrow_approval,
  lend_own_key,
  allow_on_expired_lease,
  reuse_decision,
  forget_maker_of_key,
  forget_earlier_requesters,  // a retry forgets who asked for the run before
  forget_dependencies,
  count_cost_twice,
  raise_own_ceiling,
  lease_while_suspended,
  allow_while_frozen,
  repeat_call_while_frozen,
  overdraw_parent_budget,
  // engine
  answer_before_commit,
  forget_tenant_check,
  forget_tenant_of_effect,
  forget_effects_in_replay,
  call_before_intent,
  trust_old_verdict,
  count_identity_as_person,
  retry_anothers_run,
  lose_ready_step_at_restart,
  forget_lease_at_restart,
  forget_starts_at_restart,
  no_timer_after_restart,
  lose_timer_of_evicted_run,
  skip_event_in_frame,
  fold_without_history,
  forget_approvals_in_replay,
  revive_lost_lease,
  grant_after_revoke,
  serve_stale_row,
  // several servers
  forget_lost_extension,
  // scheduler
  ignore_max_concurrency,
  // store
  commit_without_sync,
  prune_too_early,
  trust_unsynced_log,
  end
};

#ifdef PAWL_PLANTED
inline Bug planted_bug = Bug::none;
inline bool planted(Bug bug) { return planted_bug == bug; }
#else
constexpr bool planted(Bug) { return false; }
#endif

}  // namespace pawl
