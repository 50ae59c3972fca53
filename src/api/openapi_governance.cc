// What the OpenAPI document says of the gate: actions of remote workers, receipts, people.
#include "api/openapi_parts.h"

namespace pawl::api::openapi {
namespace {

using enum Method;

const Field lease{"id", "LeaseId", "The lease's id."};
const Field receipt{"id", "ReceiptId", "The receipt's id."};
const Field person{"name", "Name", "The person's name."};

}  // namespace

std::vector<RouteDoc> governance_routes() {
  return {
      {.method = post,
       .pattern = "/leases/{id}/actions",
       .operation_id = "propose_action",
       .tag = "leases",
       .says =
           "Answers once the decision is durable. `allow`: execute exactly this, then record the outcome. `deny` and "
           "`needs_approval`: the lease is over; with an approval the step is leased again, and the same action "
           "proposed again is then allowed.",
       .path = {lease},
       .bodies = {{"ProposedAction"}},
       .answers = {{200, "The decision.", {{"GateDecision"}}}},
       .problems = {"LEASE_LOST", "EFFECTS_FROZEN", "EFFECT_IN_PROGRESS", "EFFECT_IN_DOUBT", "ACTION_KEY_REUSED"}},
      {.method = post,
       .pattern = "/leases/{id}/actions/{receipt}/outcome",
       .operation_id = "record_outcome",
       .tag = "leases",
       .says =
           "A repeat is answered as the first one was. A worker that does not know says nothing, and fails or releases "
           "the step: the effect is then in doubt.",
       .path = {lease, {"receipt", "ReceiptId", "The receipt that the decision named."}},
       .bodies = {{"EffectOutcome"}},
       .answers = {{200, "Recorded.", {{"RecordedOutcome"}}}},
       .problems = {"NOT_FOUND", "LEASE_LOST", "ALREADY_RESOLVED"}},
      {.method = post,
       .pattern = "/leases/{id}/ask",
       .operation_id = "ask",
       .tag = "leases",
       .says = "The lease is over. Once somebody has answered, the step is leased again with question and answer; the "
               "attempt "
               "does not count.",
       .path = {lease},
       .bodies = {{"Question"}},
       .answers = {{200, "Asked.", {{"Asked"}}}},
       .problems = {"LEASE_LOST"}},
      {.method = get,
       .pattern = "/receipts",
       .operation_id = "list_receipts",
       .tag = "receipts",
       .says = "",
       .query = {{"status", "ReceiptStatus", "Only those."},
                 {"limit", "1..500", "How many at most; 50 unless told."},
                 {"cursor", "ReceiptId", "The next_cursor of the page before."}},
       .answers = {{200, "Receipts, those of the newest runs first.", {{"ReceiptPage"}}}}},
      {.method = get,
       .pattern = "/receipts/{id}",
       .operation_id = "get_receipt",
       .tag = "receipts",
       .says = "",
       .path = {receipt},
       .answers = {{200, "The receipt.", {{"Receipt"}}}},
       .problems = {"NOT_FOUND"}},
      {.method = post,
       .pattern = "/receipts/{id}/settle",
       .operation_id = "settle_receipt",
       .tag = "receipts",
       .says = "For an effect whose worker was lost in the middle of it. A step that waits for this answer goes on.",
       .path = {receipt},
       .bodies = {{"Settlement"}},
       .answers = {{200, "The receipt after it.", {{"Receipt"}}}},
       .problems = {"NOT_FOUND", "ALREADY_RESOLVED", "EFFECT_IN_PROGRESS"}},
      {.method = post,
       .pattern = "/receipts/{id}/reverse",
       .operation_id = "reverse_receipt",
       .tag = "receipts",
       .says =
           "Starts a run of one step, with the tool that had the effect, on what its receipt says would undo it. The "
           "step passes the gate like any other.",
       .path = {receipt},
       .bodies = {{"Nothing"}},
       .body_required = false,
       .answers = {{201, "The run that undoes it.", {{"Undo"}}},
                   {200, "A run that was asked for before is still at it.", {{"Undo"}}}},
       .problems = {"NOT_FOUND", "NOT_REVERSIBLE"}},
      {.method = post,
       .pattern = "/runs/{id}/undo",
       .operation_id = "undo_run",
       .tag = "receipts",
       .says = "Starts a run with a step for every effect that can be undone. What is undone says so in its receipt, "
               "whatever "
               "becomes of the rest. Once that run has ended, asking again starts another one for the effects that are "
               "left.",
       .path = {{"id", "RunId", "The run's id."}},
       .bodies = {{"Nothing"}},
       .body_required = false,
       .answers = {{201, "The run that undoes it.", {{"Undo"}}},
                   {200, "A run that was asked for before is still at it.", {{"Undo"}}}},
       .problems = {"NOT_FOUND", "NOT_REVERSIBLE"}},
      {.method = get,
       .pattern = "/people",
       .operation_id = "list_people",
       .tag = "people",
       .says = "",
       .answers = {{200, "The people.", {{"PersonPage"}}}}},
      {.method = put,
       .pattern = "/people/{name}",
       .operation_id = "set_person",
       .tag = "people",
       .says = "Replaces what was said of them before. A key or an account is one person's at most.",
       .path = {person},
       .bodies = {{"PersonIdentities"}},
       .answers = {{200, "The person.", {{"Person"}}}}},
      {.method = delete_,
       .pattern = "/people/{name}",
       .operation_id = "remove_person",
       .tag = "people",
       .says = "",
       .path = {person},
       .answers = {{200, "Who they were.", {{"Person"}}}},
       .problems = {"NOT_FOUND"}},
  };
}

std::vector<ObjectDoc> governance_answers() {
  return {
      {"GateDecision",
       "What the gate says to a proposed action.",
       {{"decision", "Effect", ""},
        {"receipt_id?", "ReceiptId", "With allow: where the outcome belongs."},
        {"is_done?", "flag", "With allow: it has happened already, under this key; do not do it again."},
        {"response?", "json", "With is_done: what the other side said then."},
        {"before?", "json",
         "With allow, of a call that is in doubt and to be made again: what stood there before the first. An undo "
         "leads back "
         "to that; what stands there now may be the first call's doing."},
        {"approval_id?", "ApprovalId", "With needs_approval: what people are asked."},
        {"policy_version", "count", ""},
        {"rule", "text", "The rule that spoke; empty when none did."},
        {"reason", "text", "For people."},
        {"risk", "Tier", "Of the action: the highest that its worker, its step and the policy say."},
        {"digest", "Hash", "SHA-256 of the action's canonical text, as it was judged."}}},
      {"RecordedOutcome", "", {{"receipt_id", "ReceiptId", ""}, {"status", "ReceiptStatus", ""}}},
      {"Asked", "", {{"lease_id", "LeaseId", ""}, {"ok", "flag", ""}}},
      {"ReceiptSummary",
       "A receipt in a list.",
       {{"id", "ReceiptId", ""},
        {"run_id", "RunId", ""},
        {"status", "ReceiptStatus", ""},
        {"idempotency_key", "text", ""}}},
      {"ReceiptPage",
       "",
       {{"items", "[ReceiptSummary]", ""}, {"next_cursor", "ReceiptId?", "For `?cursor=`; null at the end."}}},
      {"Receipt",
       "What was done outside, or attempted: who allowed it, what came back, how it can be undone.",
       {{"id", "ReceiptId", ""},
        {"run", "RunId", ""},
        {"step", "Name", ""},
        {"status", "ReceiptStatus", ""},
        {"action", "Action", ""},
        {"digest", "Hash", "Of the action: what was allowed is exactly this."},
        {"idempotent", "flag", "The other side does it once, however often it is called under the key."},
        {"sandboxed", "flag?",
         "Whether the program that the server ran was in a sandbox; null for what is no program, and for receipts "
         "from before this was recorded."},
        {"before", "json", "What was overwritten; null when nobody looked."},
        {"policy_version", "count", ""},
        {"rule", "text", ""},
        {"reason", "text", ""},
        {"approval", "ApprovalId?", "When people allowed it."},
        {"proposed_by", "Actor?", "The worker, or the agent, that wanted it."},
        {"calls", "count", "How often it was, or may have been, called under its key."},
        {"intended_at", "Time", "Durable before the call."},
        {"resolved_at", "Time?", ""},
        {"resolved_by", "Actor?", "Who recorded the outcome, or resolved the doubt."},
        {"error_code", "text?", ""},
        {"message", "text", ""},
        {"response", "json", "What the other side said."},
        {"reversible", "flag", ""},
        {"undo", "Action?", "What would undo it."},
        {"undo_source", "UndoSource?", "Who said so: the server's own tool, a worker, or an agent."},
        {"reverses", "ReceiptId?", "The effect that this one undid."},
        {"reversed_by", "ReceiptId?", ""}}},
      {"Undo",
       "",
       {{"run_id", "RunId", "The run that undoes; its steps are in the order of `undoing`."},
        {"status", "ContractStatus", "Of that run."},
        {"undoing", "[ReceiptId]", "The latest effect first."},
        {"left", "[EffectLeft]", "What cannot be undone."}}},
      {"EffectLeft", "", {{"receipt_id", "ReceiptId", ""}, {"why", "text", ""}}},
      {"Person",
       "Somebody who decides: one person, by whatever keys and accounts they speak.",
       {{"name", "Name", ""},
        {"keys", "[KeyId]", ""},
        {"accounts", "[text]", "slack:TEAM:USER"},
        {"groups", "[Name]", "That approvals can name: group:NAME."}}},
      {"PersonPage", "", {{"items", "[Person]", ""}, {"next_cursor", "text?", "Always null."}}},
  };
}

std::vector<ObjectDoc> governance_requests() {
  return {
      {"ProposedAction",
       "",
       {{"token?", "LeaseToken", "Left out with a lease's own key."},
        {"connector", "text/128", ""},
        {"operation", "text/128", ""},
        {"target", "text/2048", ""},
        {"fields?", "map", "What would be written; 1 MiB at most."},
        {"risk?", "Tier",
         "What the worker says: it raises the risk that the step and the policy give it, and never lowers it."},
        {"idempotency_key?", "text/512", "The step's own unless told. Per tenant; another action under it is refused."},
        {"idempotent?", "flag", "The other side does it once, however often it is called under this key."},
        {"before?", "json", "What would be overwritten, for those who decide."},
        {"can_look?", "flag", "If an earlier call is in doubt, do not ask a person: I can look."},
        {"happened?", "flag", "I have looked: the call that is in doubt had its effect, or had not."}}},
      {"EffectOutcome",
       "",
       {{"token?", "LeaseToken", "Left out with a lease's own key."},
        {"succeeded", "flag", "False: it did not happen, for sure."},
        {"error_code?", "text/128", "Of a failure; TOOL_FAILED unless told."},
        {"message?", "text/2000", ""},
        {"response?", "json", "What the other side said: metadata, without secrets; 64 KiB at most."},
        {"undo?", "UndoAction", "What would undo it: the same tool is given it, as data."}}},
      {"UndoAction",
       "",
       {{"connector", "text/128", ""},
        {"operation", "text/128", ""},
        {"target", "text/2048", ""},
        {"fields?", "map", "The input of the step that undoes it: the same tool is given it."},
        {"risk?", "Tier", "At least that of the step and of what it undoes."},
        {"idempotency_key?", "text/512", ""}}},
      {"Question",
       "",
       {{"token?", "LeaseToken", "Left out with a lease's own key."}, {"question", "json", "For a person."}}},
      {"Nothing", "No keys.", {}},
      {"Settlement", "", {{"happened", "flag", "Whether it had its effect."}}},
      {"PersonIdentities",
       "",
       {{"keys?", "[KeyId]", "Ids of API keys of this tenant."},
        {"accounts?", "[text]", "slack:TEAM:USER"},
        {"groups?", "[Name]", "That approvals can name: group:NAME."}}},
  };
}

std::vector<ExampleDoc> governance_examples() {
  return {
      {"ProposedAction", R"({
  "token": "9f86d081884c7d659a2feaa0c55ad015", "connector": "warehouse", "operation": "reserve", "target": "shelf/17",
  "fields": {"order": 17, "boxes": 2}, "idempotent": true, "before": {"boxes": 0}
})"},
      {"GateDecision", R"({
  "decision": "allow", "policy_version": 3, "rule": "the-rest", "reason": "", "risk": "low",
  "digest": "8d29a1b1eb9a13fec1dd1459cdfd0f004f04498644d533f268837dd4c63f4565",
  "receipt_id": "rcp_01m7hm5kk9e00atssh0jsk99j4", "is_done": false
})"},
      {"EffectOutcome", R"({
  "token": "9f86d081884c7d659a2feaa0c55ad015", "succeeded": true, "response": {"reservation": "R-9"},
  "undo": {"connector": "warehouse", "operation": "release", "target": "shelf/17", "fields": {"reservation": "R-9"}}
})"},
      {"RecordedOutcome", R"({"receipt_id": "rcp_01m7hm5kk9e00atssh0jsk99j4", "status": "succeeded"})"},
      {"Question", R"({"token": "9f86d081884c7d659a2feaa0c55ad015", "question": {"text": "One box or two?"}})"},
      {"Asked", R"({"lease_id": "run_01m7hm5kk9e00a16va1g5nvbxh:pack", "ok": true})"},
      {"ReceiptPage", R"({
  "items": [
    {
      "id": "rcp_01m7hm5kk9e00atssh0jsk99j4", "run_id": "run_01m7hm5kk9e00a16va1g5nvbxh", "status": "succeeded",
      "idempotency_key": "run_01m7hm5kk9e00a16va1g5nvbxh:pack"
    }
  ],
  "next_cursor": null
})"},
      {"Receipt", R"({
  "id": "rcp_01m7hm5kk9e00atssh0jsk99j4", "run": "run_01m7hm5kk9e00a16va1g5nvbxh", "step": "pack",
  "status": "succeeded",
  "action": {
    "connector": "warehouse", "operation": "reserve", "target": "shelf/17", "fields": {"boxes": 2, "order": 17},
    "risk": "low", "idempotency_key": "run_01m7hm5kk9e00a16va1g5nvbxh:pack"
  },
  "digest": "8d29a1b1eb9a13fec1dd1459cdfd0f004f04498644d533f268837dd4c63f4565", "idempotent": true,
  "sandboxed": null, "before": {"boxes": 0}, "policy_version": 3, "rule": "the-rest", "reason": "", "approval": null,
  "proposed_by": "key:01m7hm5hw6f0a8f126pnfvmmbp", "calls": 1,
  "intended_at": "2026-11-16T07:29:29.885Z", "resolved_at": "2026-11-16T07:29:30.102Z",
  "resolved_by": "key:01m7hm5hw6f0a8f126pnfvmmbp",
  "error_code": null, "message": "", "response": {"reservation": "R-9"}, "reversible": true,
  "undo": {
    "connector": "warehouse", "operation": "release", "target": "shelf/17", "fields": {"reservation": "R-9"},
    "risk": "low", "idempotency_key": "undo:rcp_01m7hm5kk9e00atssh0jsk99j4"
  },
  "undo_source": "worker", "reverses": null, "reversed_by": null
})"},
      {"Nothing", "{}"},
      {"Undo", R"({
  "run_id": "run_01m7hm5kk9e00a16va1g5nvbxk", "status": "created",
  "undoing": ["rcp_01m7hm5kk9e00atssh0jsk99j4"], "left": []
})"},
      {"Settlement", R"({"happened": true})"},
      {"PersonIdentities", R"({"keys": [], "accounts": ["slack:T0123:U0456"], "groups": ["finance"]})"},
      {"Person", R"({"name": "ada", "keys": [], "accounts": ["slack:T0123:U0456"], "groups": ["finance"]})"},
      {"PersonPage",
       R"({"items": [{"name": "ada", "keys": [], "accounts": ["slack:T0123:U0456"], "groups": ["finance"]}],
  "next_cursor": null})"},
  };
}

}  // namespace pawl::api::openapi
