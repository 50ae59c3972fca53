// What requests and answers look like: one order on its way through a small workflow, as a server gave it.
#include "api/openapi_parts.h"
#include "core/invariant.h"
#include "core/json.h"

namespace pawl::api::openapi {
namespace {

using boost::json::object;

std::vector<ExampleDoc> run_examples() {
  return {
      {"RunStarted",
       R"({
  "id": "run_01m7hm5kk9e00a16va1g5nvbxh", "tenant_id": "ten_01m7hm5hw6f0a8f126pnfvmmbp",
  "workflow": "ship-order", "version": 1, "workspace": "default",
  "provider": "native", "status": "created", "sub_state": null, "provider_state": "created",
  "retry_count": 0, "error_code": null, "retryable": null,
  "input": {"order": 17}, "created_by": "key:01m7hm5hw6f0a8f126pnfvmmbp",
  "requesters": [{
    "actor": "key:01m7hm5hw6f0a8f126pnfvmmbp", "person": null, "key_name": "orders", "text": "ada's key orders"
  }],
  "trigger_type": "api",
  "trigger_ref": "", "retry_of": null, "budget_usd": "2.50", "timeout": "4h",
  "created_at": "2026-11-16T07:29:28.681Z", "started_at": null, "finished_at": null, "cost_usd": "0.00", "cost_is_known": true,
  "seq": 2,
  "steps": [
    {
      "id": "pack", "index": 0, "idempotency_key": "run_01m7hm5kk9e00a16va1g5nvbxh:pack",
      "tool": "warehouse.pack", "needs": [], "status": "ready", "attempts": 0, "max_attempts": 3,
      "started_at": null, "finished_at": null, "next_eligible_at": null, "due_at": null,
      "lease_owner": null,
      "lease_expires_at": null,
      "cost_usd": "0.00", "cost_is_known": true, "output": null, "question": null, "answer": null, "last_error": null
    },
    {
      "id": "sign-off", "index": 1, "idempotency_key": "run_01m7hm5kk9e00a16va1g5nvbxh:sign-off",
      "tool": "approval", "needs": ["pack"], "status": "pending", "attempts": 0,
      "max_attempts": 3, "started_at": null, "finished_at": null, "next_eligible_at": null, "due_at": null,
      "lease_owner": null,
      "lease_expires_at": null,
      "cost_usd": "0.00", "cost_is_known": true, "output": null, "question": null, "answer": null, "last_error": null
    }
  ],
  "approvals": [], "foreign": null, "diagnostic": null
})"},
      {"Run",
       R"({
  "id": "run_01m7hm5kk9e00a16va1g5nvbxh", "tenant_id": "ten_01m7hm5hw6f0a8f126pnfvmmbp",
  "workflow": "ship-order", "version": 1, "workspace": "default",
  "provider": "native", "status": "waiting", "sub_state": "waiting", "provider_state": "waiting",
  "retry_count": 0, "error_code": null, "retryable": null,
  "input": {"order": 17}, "created_by": "key:01m7hm5hw6f0a8f126pnfvmmbp",
  "requesters": [{
    "actor": "key:01m7hm5hw6f0a8f126pnfvmmbp", "person": null, "key_name": "orders", "text": "ada's key orders"
  }],
  "trigger_type": "api",
  "trigger_ref": "", "retry_of": null, "budget_usd": "2.50", "timeout": "4h",
  "created_at": "2026-11-16T07:29:28.681Z", "started_at": "2026-11-16T07:29:29.885Z", "finished_at": null,
  "cost_usd": "0.10", "cost_is_known": true, "seq": 8,
  "steps": [
    {
      "id": "pack", "index": 0, "idempotency_key": "run_01m7hm5kk9e00a16va1g5nvbxh:pack",
      "tool": "warehouse.pack", "needs": [], "status": "succeeded", "attempts": 1,
      "max_attempts": 3, "started_at": "2026-11-16T07:29:29.885Z", "finished_at": "2026-11-16T07:29:31.989Z",
      "next_eligible_at": null, "due_at": null, "lease_owner": "packer-1",
      "lease_expires_at": null, "cost_usd": "0.10", "cost_is_known": true, "output": {"boxes": 2},
      "question": null, "answer": null, "last_error": null
    },
    {
      "id": "sign-off", "index": 1, "idempotency_key": "run_01m7hm5kk9e00a16va1g5nvbxh:sign-off",
      "tool": "approval", "needs": ["pack"], "status": "waiting_approval", "attempts": 0,
      "max_attempts": 3, "started_at": null, "finished_at": null, "next_eligible_at": null, "due_at": null,
      "lease_owner": null,
      "lease_expires_at": null,
      "cost_usd": "0.00", "cost_is_known": true, "output": null, "question": null, "answer": null, "last_error": null
    }
  ],
  "approvals": [
    {
      "id": "apr_01m7hm5kk9e00atssh0jsk99j4", "step": "sign-off", "status": "requested", "tier": "med",
      "two_person": false, "quorum": 1, "prompt": "Ship order 17?", "requested_at": "2026-11-16T07:29:31.989Z",
      "expires_at": "2026-11-16T08:29:31.989Z", "resolved_at": null, "resolved_by": null, "reason": "",
      "votes": []
    }
  ],
  "foreign": null, "diagnostic": null
})"},
      {"RunEnded",
       R"({
  "id": "run_01m7hm5kk9e00a16va1g5nvbxh", "tenant_id": "ten_01m7hm5hw6f0a8f126pnfvmmbp",
  "workflow": "ship-order", "version": 1, "workspace": "default",
  "provider": "native", "status": "success", "sub_state": "succeeded", "provider_state": "success",
  "retry_count": 0, "error_code": null, "retryable": null,
  "input": {"order": 17}, "created_by": "key:01m7hm5hw6f0a8f126pnfvmmbp",
  "requesters": [{
    "actor": "key:01m7hm5hw6f0a8f126pnfvmmbp", "person": null, "key_name": "orders", "text": "ada's key orders"
  }],
  "trigger_type": "api",
  "trigger_ref": "", "retry_of": null, "budget_usd": "2.50", "timeout": "4h",
  "created_at": "2026-11-16T07:29:28.681Z", "started_at": "2026-11-16T07:29:29.885Z",
  "finished_at": "2026-11-16T07:29:33.398Z", "cost_usd": "0.10", "cost_is_known": true, "seq": 12,
  "steps": [
    {
      "id": "pack", "index": 0, "idempotency_key": "run_01m7hm5kk9e00a16va1g5nvbxh:pack",
      "tool": "warehouse.pack", "needs": [], "status": "succeeded", "attempts": 1,
      "max_attempts": 3, "started_at": "2026-11-16T07:29:29.885Z", "finished_at": "2026-11-16T07:29:31.989Z",
      "next_eligible_at": null, "due_at": null, "lease_owner": "packer-1",
      "lease_expires_at": null, "cost_usd": "0.10", "cost_is_known": true, "output": {"boxes": 2},
      "question": null, "answer": null, "last_error": null
    },
    {
      "id": "sign-off", "index": 1, "idempotency_key": "run_01m7hm5kk9e00a16va1g5nvbxh:sign-off",
      "tool": "approval", "needs": ["pack"], "status": "succeeded", "attempts": 0,
      "max_attempts": 3, "started_at": null, "finished_at": "2026-11-16T07:29:33.398Z",
      "next_eligible_at": null, "due_at": null,
      "lease_owner": null,
      "lease_expires_at": null, "cost_usd": "0.00", "cost_is_known": true, "output": null, "question": null,
      "answer": null, "last_error": null
    }
  ],
  "approvals": [
    {
      "id": "apr_01m7hm5kk9e00atssh0jsk99j4", "step": "sign-off", "status": "approved", "tier": "med",
      "two_person": false, "quorum": 1, "prompt": "Ship order 17?", "requested_at": "2026-11-16T07:29:31.989Z",
      "expires_at": "2026-11-16T08:29:31.989Z", "resolved_at": "2026-11-16T07:29:33.398Z",
      "resolved_by": "key:01m7hm5hw6f0a8f126pnfvmmbp", "reason": "address checked",
      "votes": [{"by": "key:01m7hm5hw6f0a8f126pnfvmmbp", "at": "2026-11-16T07:29:33.398Z"}]
    }
  ],
  "foreign": null, "diagnostic": null
})"},
      {"RunDenied",
       R"({
  "id": "run_01m7hm5r6ye008df4ffwm630dx", "tenant_id": "ten_01m7hm5hw6f0a8f126pnfvmmbp",
  "workflow": "ship-order", "version": 1, "workspace": "default",
  "provider": "native", "status": "denied", "sub_state": "failed", "provider_state": "denied",
  "retry_count": 0, "error_code": "APPROVAL_REJECTED",
  "retryable": false, "input": {"order": 18}, "created_by": "key:01m7hm5hw6f0a8f126pnfvmmbp",
  "requesters": [{
    "actor": "key:01m7hm5hw6f0a8f126pnfvmmbp", "person": null, "key_name": "orders", "text": "ada's key orders"
  }],
  "trigger_type": "api", "trigger_ref": "", "retry_of": null, "budget_usd": "2.50", "timeout": "4h",
  "created_at": "2026-11-16T07:29:33.406Z", "started_at": "2026-11-16T07:29:33.408Z",
  "finished_at": "2026-11-16T07:29:34.530Z", "cost_usd": "0.10", "cost_is_known": true, "seq": 12,
  "steps": [
    {
      "id": "pack", "index": 0, "idempotency_key": "run_01m7hm5r6ye008df4ffwm630dx:pack",
      "tool": "warehouse.pack", "needs": [], "status": "succeeded", "attempts": 1,
      "max_attempts": 3, "started_at": "2026-11-16T07:29:33.408Z", "finished_at": "2026-11-16T07:29:33.814Z",
      "next_eligible_at": null, "due_at": null, "lease_owner": "packer-1",
      "lease_expires_at": null, "cost_usd": "0.10", "cost_is_known": true, "output": {"boxes": 2},
      "question": null, "answer": null, "last_error": null
    },
    {
      "id": "sign-off", "index": 1, "idempotency_key": "run_01m7hm5r6ye008df4ffwm630dx:sign-off",
      "tool": "approval", "needs": ["pack"], "status": "failed_terminal", "attempts": 0,
      "max_attempts": 3, "started_at": null, "finished_at": "2026-11-16T07:29:34.530Z",
      "next_eligible_at": null, "due_at": null,
      "lease_owner": null,
      "lease_expires_at": null, "cost_usd": "0.00", "cost_is_known": true, "output": null, "question": null,
      "answer": null,
      "last_error": {
        "error_code": "APPROVAL_REJECTED", "category": "approval",
        "message": "rejected by key:01m7hm5hw6f0a8f126pnfvmmbp: no such address",
        "likely_cause": "a person said no", "suggested_fix": "read the reason; change what is asked for",
        "retryable": false, "severity": "medium", "step_id": "sign-off", "attempt": null,
        "occurred_at": "2026-11-16T07:29:34.530Z", "cause": null
      }
    }
  ],
  "approvals": [
    {
      "id": "apr_01m7hm5r6ye00b7ry18xa559p2", "step": "sign-off", "status": "rejected", "tier": "med",
      "two_person": false, "quorum": 1, "prompt": "Ship order 18?", "requested_at": "2026-11-16T07:29:33.814Z",
      "expires_at": "2026-11-16T08:29:33.814Z", "resolved_at": "2026-11-16T07:29:34.530Z",
      "resolved_by": "key:01m7hm5hw6f0a8f126pnfvmmbp", "reason": "no such address", "votes": []
    }
  ],
  "foreign": null, "diagnostic": {
    "error_code": "APPROVAL_REJECTED", "category": "approval",
    "message": "step sign-off: rejected by key:01m7hm5hw6f0a8f126pnfvmmbp: no such address",
    "likely_cause": "a person said no", "suggested_fix": "read the reason; change what is asked for",
    "retryable": false, "severity": "medium", "step_id": "sign-off", "attempt": null,
    "occurred_at": "2026-11-16T07:29:34.530Z",
    "cause": {
      "error_code": "APPROVAL_REJECTED", "category": "approval",
      "message": "rejected by key:01m7hm5hw6f0a8f126pnfvmmbp: no such address",
      "likely_cause": "a person said no", "suggested_fix": "read the reason; change what is asked for",
      "retryable": false, "severity": "medium", "step_id": "sign-off", "attempt": null,
      "occurred_at": "2026-11-16T07:29:34.530Z", "cause": null
    }
  }
})"},
      {"RunCanceled",
       R"({
  "id": "run_01m7hm5sa4e00brfm1qkqcte6d", "tenant_id": "ten_01m7hm5hw6f0a8f126pnfvmmbp",
  "workflow": "ship-order", "version": 1, "workspace": "default",
  "provider": "native", "status": "canceled", "sub_state": "failed", "provider_state": "canceled",
  "retry_count": 0, "error_code": null, "retryable": null,
  "input": {"order": 19}, "created_by": "key:01m7hm5hw6f0a8f126pnfvmmbp",
  "requesters": [{
    "actor": "key:01m7hm5hw6f0a8f126pnfvmmbp", "person": null, "key_name": "orders", "text": "ada's key orders"
  }],
  "trigger_type": "api",
  "trigger_ref": "", "retry_of": null, "budget_usd": "2.50", "timeout": "4h",
  "created_at": "2026-11-16T07:29:34.532Z", "started_at": "2026-11-16T07:29:35.041Z",
  "finished_at": "2026-11-16T07:29:35.041Z", "cost_usd": "0.00", "cost_is_known": true, "seq": 6,
  "steps": [
    {
      "id": "pack", "index": 0, "idempotency_key": "run_01m7hm5sa4e00brfm1qkqcte6d:pack",
      "tool": "warehouse.pack", "needs": [], "status": "canceled", "attempts": 0,
      "max_attempts": 3, "started_at": null, "finished_at": "2026-11-16T07:29:35.041Z",
      "next_eligible_at": null, "due_at": null,
      "lease_owner": null,
      "lease_expires_at": null, "cost_usd": "0.00", "cost_is_known": true, "output": null, "question": null,
      "answer": null, "last_error": null
    },
    {
      "id": "sign-off", "index": 1, "idempotency_key": "run_01m7hm5sa4e00brfm1qkqcte6d:sign-off",
      "tool": "approval", "needs": ["pack"], "status": "canceled", "attempts": 0,
      "max_attempts": 3, "started_at": null, "finished_at": "2026-11-16T07:29:35.041Z",
      "next_eligible_at": null, "due_at": null,
      "lease_owner": null,
      "lease_expires_at": null, "cost_usd": "0.00", "cost_is_known": true, "output": null, "question": null,
      "answer": null, "last_error": null
    }
  ],
  "approvals": [], "foreign": null, "diagnostic": null
})"},
      {"RunForeign",
       R"({
  "id": "run_01m7hm5st4e00aj4np4nz5r5s6", "tenant_id": "ten_01m7hm5hw6f0a8f126pnfvmmbp",
  "workflow": "bill-order", "version": 1, "workspace": "default",
  "provider": "restate", "status": "waiting", "sub_state": "waiting", "provider_state": "suspended",
  "retry_count": 1, "error_code": null, "retryable": null, "input": {"order": 17},
  "created_by": "key:01m7hm5hw6f0a8f126pnfvmmbp",
  "requesters": [{
    "actor": "key:01m7hm5hw6f0a8f126pnfvmmbp", "person": null, "key_name": "orders", "text": "ada's key orders"
  }],
  "trigger_type": "api", "trigger_ref": "", "retry_of": null,
  "budget_usd": null, "timeout": "4h", "created_at": "2026-11-16T07:29:35.044Z",
  "started_at": "2026-11-16T07:29:35.044Z", "finished_at": null, "cost_usd": "0.00", "cost_is_known": true,
  "seq": 6, "steps": [],
  "approvals": [
    {
      "id": "apr_01m7hm5st4e00atssh0jsk99j4", "step": "sign-off", "status": "requested", "tier": "med",
      "two_person": false, "quorum": 1, "prompt": "", "requested_at": "2026-11-16T07:29:36.989Z",
      "expires_at": "2026-11-17T07:29:36.989Z", "resolved_at": null, "resolved_by": null, "reason": "", "votes": [],
      "action": null
    }
  ],
  "foreign": {
    "id": "inv_162NYVd30J4S0a3Mf03XBZEfGFmFA3NeEK", "next_retry_at": null, "last_failure": null, "output": null,
    "approvals": [
      {"approval": "apr_01m7hm5st4e00atssh0jsk99j4", "callback": "awakeable", "told": false, "problem": null}
    ]
  },
  "diagnostic": null
})"},
      {"RunExternal",
       R"({
  "id": "run_01m7hm5st4e00aj4np4nz5r5s5", "tenant_id": "ten_01m7hm5hw6f0a8f126pnfvmmbp",
  "workflow": "ship-order", "version": 1, "workspace": "default",
  "provider": "external", "status": "failed", "sub_state": "failed", "provider_state": "failed",
  "retry_count": 0, "error_code": "TOOL_DEPENDENCY_DOWN",
  "retryable": true, "input": {}, "created_by": "key:01m7hm5hw6f0a8f126pnfvmmbp",
  "requesters": [{
    "actor": "key:01m7hm5hw6f0a8f126pnfvmmbp", "person": null, "key_name": "orders", "text": "ada's key orders"
  }],
  "trigger_type": "api",
  "trigger_ref": "", "retry_of": null, "budget_usd": null, "timeout": "4h",
  "created_at": "2026-11-16T07:29:35.044Z", "started_at": "2026-11-16T07:29:35.147Z",
  "finished_at": "2026-11-16T07:29:35.956Z", "cost_usd": "0.00", "cost_is_known": true, "seq": 3, "steps": [], "approvals": [],
  "foreign": null, "diagnostic": {
    "error_code": "TOOL_DEPENDENCY_DOWN", "category": "dependency", "message": "the carrier does not answer",
    "likely_cause": "what the tool calls is unreachable or failing",
    "suggested_fix": "check the dependency's health, then retry", "retryable": true, "severity": "medium",
    "step_id": null, "attempt": null, "occurred_at": "2026-11-16T07:29:35.956Z", "cause": null
  }
})"},
  };
}

std::vector<ExampleDoc> answer_examples() {
  return {
      {"PublishedVersion", R"({"name": "ship-order", "version": 1})"},
      {"PolicyVersion",
       R"({"version": 1, "digest": "8d29a1b1eb9a13fec1dd1459cdfd0f004f04498644d533f268837dd4c63f4565"})"},
      {"Policy",
       R"({
  "version": 1, "digest": "8d29a1b1eb9a13fec1dd1459cdfd0f004f04498644d533f268837dd4c63f4565",
  "published_at": "2026-11-16T07:29:28.681Z", "published_by": "key:01m7hm5hw6f0a8f126pnfvmmbp",
  "source": "policy: production\nrules:\n- {id: low-risk, effect: allow, when: risk = 'low'}\n"
})"},
      {"PolicyPage",
       R"({
  "items": [
    {
      "version": 1, "digest": "8d29a1b1eb9a13fec1dd1459cdfd0f004f04498644d533f268837dd4c63f4565",
      "published_at": "2026-11-16T07:29:28.681Z", "published_by": "key:01m7hm5hw6f0a8f126pnfvmmbp"
    }
  ],
  "next_cursor": null
})"},
      {"PolicyTrialResult",
       R"({
  "items": [
    {
      "action": {
        "connector": "servicenow", "fields": {"state": "closed"}, "idempotency_key": "close-17",
        "operation": "incident.update", "risk": "med", "target": "acme/incident/17"
      },
      "workspace": "default", "workflow": "triage",
      "record": {
        "run_id": "run_01m7hm5kk9e00a16va1g5nvbxh", "seq": 7, "effect": "needs_approval", "policy_version": 0,
        "rule": "everything-else"
      },
      "now": {
        "effect": "needs_approval", "rule": "everything-else", "reason": "more than low risk needs approval",
        "approval": {"tier": "med", "two_person": false, "quorum": 1, "expires": "1d"}
      },
      "draft": {"effect": "deny", "rule": "", "reason": "no rule speaks about it"},
      "changes": true
    }
  ],
  "summary": {
    "policy_version": 0, "actions": 1, "changed": 1,
    "changes": [{"from": "needs_approval", "to": "deny", "actions": 1}]
  },
  "is_all": true
})"},
      {"WorkflowPage",
       R"({
  "items": [
    {
      "name": "ship-order", "version": 1,
      "digest": "8d29a1b1eb9a13fec1dd1459cdfd0f004f04498644d533f268837dd4c63f4565"
    }
  ],
  "next_cursor": null
})"},
      {"Workflow",
       R"({
  "name": "ship-order", "version": 1,
  "digest": "8d29a1b1eb9a13fec1dd1459cdfd0f004f04498644d533f268837dd4c63f4565",
  "source": "workflow: ship-order\nsteps:\n  - {id: pack, tool: warehouse.pack}\n"
})"},
      {"Leases",
       R"({
  "leases": [
    {
      "lease_id": "run_01m7hm5kk9e00a16va1g5nvbxh:pack", "token": "9f86d081884c7d659a2feaa0c55ad015", "run_id": "run_01m7hm5kk9e00a16va1g5nvbxh",
      "step_id": "pack", "tool": "warehouse.pack", "input": {"order": 17}, "attempt": 1,
      "idempotency_key": "run_01m7hm5kk9e00a16va1g5nvbxh:pack", "expires_at": "2026-11-16T07:29:59.885Z",
      "lease": "30s", "timeout": "10m"
    }
  ]
})"},
      {"RunPage",
       R"({
  "items": [
    {
      "id": "run_01m7hm5kk9e00a16va1g5nvbxh", "tenant_id": "ten_01m7hm5hw6f0a8f126pnfvmmbp",
  "workflow": "ship-order", "version": 1, "workspace": "default",
      "provider": "native", "status": "waiting", "sub_state": "waiting", "provider_state": "waiting", "retry_count": 0,
      "error_code": null, "retryable": null, "created_at": "2026-11-16T07:29:28.681Z",
      "updated_at": "2026-11-16T07:29:31.989Z", "finished_at": null, "seq": 8,
      "waits_for": {
        "kind": "approval", "text": "step sign-off waits for approval until 2026-11-16T08:29:31.989Z",
        "step": "sign-off", "until": "2026-11-16T08:29:31.989Z", "approval_id": "apr_01m7hm5kk9e00atssh0jsk99j4"
      }
    }
  ],
  "next_cursor": null
})"},
      {"WorkerPage",
       R"({
  "items": [
    {
      "name": "packer-1", "kind": "remote", "tools": ["warehouse.pack"], "key_id": "key_01m7hm5hw6f0a8f126pnfvmmbp",
      "since": "2026-11-16T07:29:28.681Z", "last_seen_at": "2026-11-16T07:29:31.989Z"
    }
  ],
  "next_cursor": null
})"},
      {"ApprovalSummary",
       R"({
  "id": "apr_01m7hm5kk9e00atssh0jsk99j4", "run_id": "run_01m7hm5kk9e00a16va1g5nvbxh", "step": "sign-off",
  "status": "requested", "tier": "med", "requested_at": "2026-11-16T07:29:31.989Z",
  "expires_at": "2026-11-16T08:29:31.989Z"
})"},
      {"ApprovalPage",
       R"({
  "items": [
    {
      "id": "apr_01m7hm5kk9e00atssh0jsk99j4", "run_id": "run_01m7hm5kk9e00a16va1g5nvbxh", "step": "sign-off",
      "status": "requested", "tier": "med", "requested_at": "2026-11-16T07:29:31.989Z",
      "expires_at": "2026-11-16T08:29:31.989Z"
    }
  ],
  "next_cursor": null
})"},
      {"RunEventPage",
       R"({
  "items": [
    {
      "seq": 1, "hash": "3d5458e7fd729af8f093c5314a8272f84268e3776cb65f7a3ccc79322f8af5a7",
      "event": {
        "at": 1794814168681, "budget_usd": "2.50", "by": "key:01m7hm5hw6f0a8f126pnfvmmbp",
        "input": {"order": 17}, "provider": "native", "timeout_ms": 14400000, "trigger_type": "api",
        "type": "run.created", "v": 1, "version": 1, "workflow": "ship-order",
        "workflow_digest": "8d29a1b1eb9a13fec1dd1459cdfd0f004f04498644d533f268837dd4c63f4565",
        "workspace": "default"
      }
    },
    {
      "seq": 2, "hash": "4464d2c9af8acab3fca93538f7cd041b0eca3931373847a3263da6b6687ed95d",
      "event": {"at": 1794814168681, "step": "pack", "type": "step.unblocked", "v": 1}
    },
    {
      "seq": 3, "hash": "ba2552d6f9f4b5cb9afe28231d53733abffaf71d01db920b1ab118e5b5f7fc0c",
      "event": {"at": 1794814169885, "type": "run.started", "v": 1}
    }
  ],
  "next_cursor": "3"
})"},
      {"BatchResults",
       R"({
  "items": [
    {"status": 201, "id": "run_01m7hm5tq9e009ajq168x6cecq", "run_status": "created"},
    {
      "status": 400, "code": "INVALID_REQUEST",
      "detail": "There is no such key here; there are: workflow, version, input, workspace, trigger_type, trigger_ref, budget_usd, timeout, provider.",
      "where": "/items/1/budget"
    }
  ]
})"},
      {"Tenant",
       R"({
  "id": "ten_01m7hm5hw0e00bfv2yb36eqv7g", "name": "default", "weight": 2,
  "caps": {"max_concurrency": 20, "max_runs_per_min": null, "max_writes_per_run": null, "max_stored_bytes": null,
    "max_connections": null, "max_feed_streams": null, "max_requests_per_min": null},
  "ceiling": {"max_concurrency": 50, "max_runs_per_min": null, "max_writes_per_run": null, "max_stored_bytes": 10737418240,
    "max_connections": null, "max_feed_streams": null, "max_requests_per_min": null},
  "limits": {"max_concurrency": 20, "max_runs_per_min": null, "max_writes_per_run": null, "max_stored_bytes": 10737418240,
    "max_connections": null, "max_feed_streams": null, "max_requests_per_min": null},
  "suspended": null, "frozen": false,
  "workspaces": [{"name": "europe", "weight": 3}]
})"},
      {"TenantLoad",
       R"({
  "weight": 2, "caps": {"max_concurrency": 20, "max_runs_per_min": null, "max_writes_per_run": null, "max_stored_bytes": null,
    "max_connections": null, "max_feed_streams": null, "max_requests_per_min": null},
  "ceiling": {"max_concurrency": 50, "max_runs_per_min": null, "max_writes_per_run": null, "max_stored_bytes": 10737418240,
    "max_connections": null, "max_feed_streams": null, "max_requests_per_min": null},
  "limits": {"max_concurrency": 20, "max_runs_per_min": null, "max_writes_per_run": null, "max_stored_bytes": 10737418240,
    "max_connections": null, "max_feed_streams": null, "max_requests_per_min": null},
  "suspended": null, "frozen": false,
  "workspaces": [{"name": "europe", "weight": 3}], "running": 20, "queued": 311,
  "held_back": {"max_concurrency": 1204, "max_runs_per_min": 0, "max_writes_per_run": 0}
})"},
      {"TenantPage",
       R"({
  "items": [
    {
      "id": "ten_01m7hm5hw0e00bfv2yb36eqv7g", "name": "default", "weight": 2,
      "caps": {"max_concurrency": 20, "max_runs_per_min": null, "max_writes_per_run": null, "max_stored_bytes": null,
    "max_connections": null, "max_feed_streams": null, "max_requests_per_min": null},
  "ceiling": {"max_concurrency": 50, "max_runs_per_min": null, "max_writes_per_run": null, "max_stored_bytes": 10737418240,
    "max_connections": null, "max_feed_streams": null, "max_requests_per_min": null},
  "limits": {"max_concurrency": 20, "max_runs_per_min": null, "max_writes_per_run": null, "max_stored_bytes": 10737418240,
    "max_connections": null, "max_feed_streams": null, "max_requests_per_min": null},
  "suspended": null, "frozen": false,
      "workspaces": [{"name": "europe", "weight": 3}]
    }
  ],
  "next_cursor": null
})"},
      {"WorkspacePage", R"({"items": [{"name": "europe", "weight": 3}], "next_cursor": null})"},
      {"MadeKey",
       R"({
  "id": "key_01m7hm5ts0f9qr9xzz1k3h8nr7",
  "key": "pawl_01m7hm5ts0f9qr9xzz1k3h8nr7_00000000000000000000000000000000000000", "name": "packer",
  "role": "worker", "expires_at": "2026-12-16T07:29:36.032Z"
})"},
      {"KeyMadeBefore",
       R"({
  "id": "key_01m7hm5ts0f9qr9xzz1k3h8nr7", "name": "packer", "role": "worker",
  "created_at": "2026-11-16T07:29:36.032Z", "created_by": "key:01m7hm5hw6f0a8f126pnfvmmbp",
  "expires_at": "2026-12-16T07:29:36.032Z", "active": true
})"},
      {"KeyPage",
       R"({
  "items": [
    {
      "id": "key_01m7hm5hw6f0a8f126pnfvmmbp", "name": "admin", "role": "admin",
      "created_at": "2026-11-16T07:29:26.918Z", "created_by": "engine", "expires_at": null, "active": true
    },
    {
      "id": "key_01m7hm5ts0f9qr9xzz1k3h8nr7", "name": "packer", "role": "worker",
      "created_at": "2026-11-16T07:29:36.032Z", "created_by": "key:01m7hm5hw6f0a8f126pnfvmmbp",
      "expires_at": "2026-12-16T07:29:36.032Z", "active": true
    }
  ],
  "next_cursor": null
})"},
      {"KeyRevoked",
       R"({
  "id": "key_01m7hm5ts0f9qr9xzz1k3h8nr7", "name": "packer", "role": "worker",
  "created_at": "2026-11-16T07:29:36.032Z", "created_by": "key:01m7hm5hw6f0a8f126pnfvmmbp",
  "expires_at": "2026-11-16T07:29:36.036Z", "active": false
})"},
      {"LeaseResults",
       R"({
  "items": [
    {"lease_id": "run_01m7hm5kk9e00a16va1g5nvbxh:pack", "ok": true, "expires_at": "2026-11-16T07:30:06.036Z"},
    {"lease_id": "run_01m7hm5sa4e00brfm1qkqcte6d:pack", "ok": false, "code": "LEASE_LOST", "cancel": true},
    {
      "lease_id": "run_01m7hm5sa4e00brfm1qkqcte6d:label", "ok": false, "code": "INVALID_REQUEST",
      "detail": "`token` is missing.", "where": "/items/2/token"
    }
  ]
})"},
      {"Health", R"({"status": "ok"})"},
      {"Ready", R"({"status": "ready"})"},
      {"FeedStream",
       R"("id: pos_7t3w8kqf5e9h2m0r6x1vbnzc4d\n\nid: pos_2g9m4xw1t8ka6e0q5rzv7hbn3c\ndata: {\"position\":\"pos_2g9m4xw1t8ka6e0q5rzv7hbn3c\",\"run_id\":\"run_01m7hm5kk9e00a16va1g5nvbxh\",\"seq\":3,\"event\":{\"at\":1794814169885,\"type\":\"run.started\",\"v\":1}}\n\n")"},
      {"Figures",
       R"("# HELP pawl_frames_total Journal frames committed\n# TYPE pawl_frames_total counter\npawl_frames_total 12\n")"},
      {"OpenApi", R"({"openapi": "3.1.0", "info": {"title": "pawl", "version": "0.1.0"}, "paths": {}})"},
  };
}

std::vector<ExampleDoc> request_examples() {
  return {
      {"NewRun", R"({"workflow": "ship-order", "input": {"order": 17}, "budget_usd": "2.50"})"},
      {"NewRuns",
       R"({
  "items": [
    {"workflow": "ship-order", "input": {"order": 20}, "trigger_type": "order", "trigger_ref": "20"},
    {"workflow": "ship-order", "input": {"order": 21}, "trigger_type": "order", "trigger_ref": "21"}
  ]
})"},
      {"Decision", R"({"reason": "address checked"})"},
      {"ApprovalRequest",
       R"({"approval": "sign-off", "callback": {"kind": "awakeable", "address": "sign_1PePOqp_FZt0KJ"}})"},
      {"Reason", R"({"reason": "the customer withdrew"})"},
      {"Answer", R"({"step": "pack", "answer": "in one box"})"},
      {"StatusReport",
       R"({
  "status": "failed",
  "diagnostic": {"error_code": "TOOL_DEPENDENCY_DOWN", "message": "the carrier does not answer"}
})"},
      {"LeaseRequest", R"({"worker": "packer-1", "tools": ["warehouse.pack"], "max": 10, "wait": "30s"})"},
      {"CompletedLeases",
       R"({
  "items": [{"lease_id": "run_01m7hm5kk9e00a16va1g5nvbxh:pack", "token": "9f86d081884c7d659a2feaa0c55ad015", "output": {"boxes": 2}, "cost_usd": "0.10"}]
})"},
      {"FailedLeases",
       R"({
  "items": [
    {
      "lease_id": "run_01m7hm5kk9e00a16va1g5nvbxh:pack", "token": "9f86d081884c7d659a2feaa0c55ad015", "error_code": "TOOL_DEPENDENCY_DOWN",
      "message": "the warehouse does not answer", "retry_after": "2m"
    }
  ]
})"},
      {"KeptLeases",
       R"({"items": [{"lease_id": "run_01m7hm5kk9e00a16va1g5nvbxh:pack", "token": "9f86d081884c7d659a2feaa0c55ad015"}]})"},
      {"ReleasedLeases",
       R"({"items": [{"lease_id": "run_01m7hm5kk9e00a16va1g5nvbxh:pack", "token": "9f86d081884c7d659a2feaa0c55ad015"}]})"},
      {"WorkflowDefinition",
       R"({
  "workflow": "ship-order", "timeout": "4h",
  "steps": [
    {"id": "pack", "tool": "warehouse.pack", "with": {"order": "${{ input.order }}"}},
    {
      "id": "sign-off", "tool": "approval", "tier": "med", "expires": "1h",
      "prompt": "Ship order ${{ input.order }}?"
    }
  ]
})"},
      {"Definition",
       R"("workflow: ship-order\ntimeout: 4h\nsteps:\n  - id: pack\n    tool: warehouse.pack\n    with: {order: \"${{ input.order }}\"}\n  - id: sign-off\n    tool: approval\n    tier: med\n    expires: 1h\n    prompt: Ship order ${{ input.order }}?\n")"},
      {"PolicyDefinition",
       R"({
  "policy": "production",
  "rules": [
    {"id": "no-deletes", "effect": "deny", "when": "operation LIKE '%.delete'", "reason": "nothing is deleted by a run"},
    {"id": "low-risk", "effect": "allow", "when": "risk = 'low'"},
    {"id": "the-rest", "effect": "needs_approval", "two_person": true, "expires": "4h"}
  ]
})"},
      {"PolicyText", R"("policy: production\nrules:\n- {id: low-risk, effect: allow, when: risk = 'low'}\n")"},
      {"PolicyTrial",
       R"({
  "policy": "policy: production\nrules:\n- {id: low-risk, effect: allow, when: risk = 'low'}\n",
  "actions": [
    {
      "action": {
        "connector": "servicenow", "operation": "incident.update", "target": "acme/incident/17",
        "fields": {"state": "closed"}, "risk": "med", "idempotency_key": "close-17"
      },
      "workflow": "triage"
    }
  ]
})"},
      {"Limits", R"({"weight": 2, "max_concurrency": 20})"},
      {"LimitsChange", R"({"max_concurrency": 40, "max_runs_per_min": null})"},
      {"WorkspaceWeight", R"({"weight": 3})"},
      {"NewTenant", R"({"name": "acme"})"},
      {"NewSuspension", R"({"reason": "unpaid since October"})"},
      {"NewFreeze", R"({"connector": "github", "reason": "issues are opened in a loop"})"},
      {"LiftedFreeze", R"({"connector": "github"})"},
      {"FreezeList",
       R"({
  "items": [
    {
      "scope": "everywhere", "tenant": null, "connector": "github", "since": "2026-11-18T07:29:36.032Z",
      "by": "key:01m7hm5ts0f9qr9xzz1k3h8nr7", "reason": "issues are opened in a loop"
    }
  ],
  "warning": null
})"},
      {"NewKey", R"({"name": "packer", "role": "worker", "expires_in": "30d"})"},
      {"KeyRotation", R"({"overlap": "1h"})"},
  };
}

}  // namespace

std::vector<ProblemDoc> problem_docs() {
  const Headers soon{{"Retry-After", "1"}};
  return {
      {"INVALID_REQUEST", {400, "INVALID_REQUEST", "`workflow` is missing.", "/workflow", {}}},
      {"INVALID_JSON", {400, "INVALID_JSON", "The body is not JSON: unexpected character at offset 17.", "", {}}},
      {"UNAUTHORIZED",
       {401,
        "UNAUTHORIZED",
        "Send a key that is known here and has not expired: Authorization: Bearer pawl_...",
        "authorization",
        {{"WWW-Authenticate", "Bearer"}}}},
      {"FORBIDDEN", {403, "FORBIDDEN", "A key with the role viewer may not do this.", "", {}}},
      {"SELF_APPROVAL",
       problem_of({RefusalCode::self_approval,
                   "two people other than those who asked for the run, or for a run that it retries or undoes, must "
                   "decide this; ask somebody else"})},
      {"NOT_FOUND", not_found()},
      {"LEASE_LOST", problem_of(lease_lost_refusal())},
      {"EFFECT_IN_PROGRESS",
       problem_of({RefusalCode::effect_in_progress, "step pack of this run is at it; propose it again later"})},
      {"EFFECT_IN_DOUBT",
       problem_of({RefusalCode::effect_in_doubt,
                   "nobody knows whether this happened, and it cannot be repeated safely: a person is asked"})},
      {"NOT_REVERSIBLE",
       problem_of({RefusalCode::not_reversible,
                   "rcp_01m7hm5kk9e00atssh0jsk99j4 cannot be undone: nothing is known that would undo it"})},
      {"ACTION_KEY_REUSED", problem_of({RefusalCode::idempotency_conflict,
                                        "the idempotency key \"order-17\" was used for another action, "
                                        "rcp_01m7hm5kk9e00atssh0jsk99j4 of this run"})},
      {"NOTHING_WAITING", problem_of({RefusalCode::nothing_waiting, "nothing waits for an approval in this run"})},
      {"ALREADY_RESOLVED", problem_of({RefusalCode::already_resolved, "the approval is already rejected"})},
      {"AMBIGUOUS_APPROVAL",
       problem_of({RefusalCode::ambiguous_approval,
                   "several approvals are open: name one (apr_01m7hm5kk9e00atssh0jsk99j4, ...)"})},
      {"RUN_ENDED", problem_of({RefusalCode::run_ended, "the run has ended: success"})},
      {"INVALID_TASK_TRANSITION", problem_of({RefusalCode::task_transition,
                                              "the task is READY: it cannot run. Allowed: accept, reject, delete."})},
      {"TASK_ACTIVE", problem_of({RefusalCode::task_active, "the task is RUNNING; cancel it first"})},
      {"TASK_LIMIT", problem_of({RefusalCode::task_limit, "it asks for 100.00 USD, and its parent has 0.40 USD left",
                                 "/max_budget_usd"})},
      {"EFFECTS_FROZEN",
       problem_of({RefusalCode::effects_frozen,
                   "effects are frozen by the installation since 2026-11-18T07:29:36.032Z: incident 42"})},
      {"ABOVE_CEILING",
       problem_of({RefusalCode::above_ceiling,
                   "max_concurrency cannot be 100: the installation allows this tenant 50. Set a lower "
                   "value, or ask an admin of the tenant default."})},
      {"STORAGE_FULL", problem_of({RefusalCode::storage_full,
                                   "the tenant's journal has reached max_stored_bytes (10737418240): nothing new "
                                   "begins, and what has begun goes on"})},
      {"TASK_CYCLE",
       problem_of({RefusalCode::task_cycle, "it would wait for its parent, which waits for it", "/depends_on"})},
      {"UNKNOWN_TASK",
       problem_of({RefusalCode::unknown_task,
                   "it depends on task_01m7hm5kk9e00a16va1g5nvbxh, and there is no such task", "/depends_on"})},
      {"RUN_NOT_ENDED", problem_of({RefusalCode::run_not_ended, "the run is still running"})},
      {"NOT_EXTERNAL", problem_of({RefusalCode::not_external,
                                   "this run is executed by pawl itself; nobody else may report its status"})},
      {"PROVIDER_NOT_CONFIGURED",
       problem_of({RefusalCode::provider_unset,
                   "workflow bill-order is executed by restate, which this server was not told how "
                   "to reach: start it with --restate (docs/providers.md)"})},
      {"INVALID_STATE_TRANSITION",
       problem_of({RefusalCode::invalid_transition, "reported succeed while the run is created"})},
      {"SIGNING_KEY_LOST",
       {409,
        "SIGNING_KEY_LOST",
        "This server does not have the key that signs the tenant's evidence, and the journal accepts no other. Those "
        "who run the server must restore signing-key.json from a backup.",
        "",
        {}}},
      {"FEED_POSITION_GONE",
       {410,
        "FEED_POSITION_GONE",
        "What follows this position is not kept any more. Read the runs, then follow without it.",
        "after",
        {}}},
      {"KEY_NOT_ACTIVE",
       {409,
        "KEY_NOT_ACTIVE",
        "This key was replaced or revoked, or its time is over. Rotate its successor, or make a new key.",
        "",
        {}}},
      {"INPUT_TOO_LARGE",
       {413,
        "INPUT_TOO_LARGE",
        "`input` has 1400327 bytes and may have 1048576. Store it elsewhere, and say here where it lies.",
        "/input",
        {}}},
      {"UNKNOWN_TENANT", {422, "UNKNOWN_TENANT", "There is no tenant of this name.", "/tenant", {}}},
      {"BODY_TOO_LARGE", {413, "BODY_TOO_LARGE", "the request's body is too large", "", {}}},
      {"UNKNOWN_WORKFLOW",
       {422, "UNKNOWN_WORKFLOW", "There is no such workflow, or not that version of it.", "/workflow", {}}},
      {"INVALID_WORKFLOW",
       {422,
        "INVALID_WORKFLOW",
        "ship-order:3:5: this step has no `tool`; add one, such as `tool: http.request`",
        "",
        {}}},
      {"INVALID_POLICY",
       {422,
        "INVALID_POLICY",
        "policy:5:9: the condition of rule `no-deletes`: no such column: opertion; did you mean `operation`?",
        "",
        {}}},
      {"IDEMPOTENCY_KEY_REUSED",
       problem_of({RefusalCode::idempotency_conflict,
                   "this Idempotency-Key was used for another request, which made run_01m7hm5kk9e00a16va1g5nvbxh"})},
      {"TENANT_LIMIT", tenant_limit("Too many requests of this tenant wait for their turn. Send fewer at a time.")},
      {"OVERLOADED",
       {503, "OVERLOADED", "More requests are waiting than can be served soon. Try again in a moment.", "", soon}},
      {"STORE_AWAY", {503, "STORE_AWAY", "The database cannot be reached just now.", "", soon}},
      {"STOPPING", {503, "STOPPING", "This server is stopping.", "", soon}},
  };
}

object examples() {
  object out;
  for (const auto& docs : {run_examples(), answer_examples(), request_examples(), governance_examples(),
                           notice_examples(), evidence_examples(), task_examples(), agent_examples()})
    for (const ExampleDoc& doc : docs) {
      auto value = parse_json(doc.text);
      invariant(value.has_value(), "an example in openapi_examples.cc is not JSON");
      out[doc.name] = object{{"value", std::move(*value)}};
    }

  object retried = out.at("RunStarted").as_object();
  object& again = retried.at("value").as_object();
  again["trigger_type"] = "retry";
  again["retry_of"] = out.at("RunDenied").at("value").at("id");
  out["RunRetried"] = std::move(retried);

  object answered = out.at("RunStarted").as_object();
  answered.at("value").at("steps").at(0).as_object()["answer"] = out.at("Answer").at("value").at("answer");
  out["RunAnswered"] = std::move(answered);
  return out;
}

}  // namespace pawl::api::openapi
