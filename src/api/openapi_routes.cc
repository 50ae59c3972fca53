// What is said about each route beyond its summary and its role, which stand in the router's own table.
#include "api/openapi_parts.h"

namespace pawl::api::openapi {
namespace {

using enum Method;

// ---- What many of them share

const Field vocabulary{"vocabulary", "Vocabulary",
                       "In which words statuses are said; contract-v1 unless told. Approvals and events have the same "
                       "words in all of them."};
const Field end_wait{"wait", "Duration",
                     "Answers when the run has ended, or with the run as it is when this time is over; 60s at most."};
const Field list_limit{"limit", "1..500", "How many at most; 500 unless told."};
const Field list_cursor{"cursor", "text", "The next_cursor of the page before."};
const Field run_id{"id", "RunId", "The run's id."};
const Field approval_id{"id", "ApprovalId", "The approval's id."};
const Field key_id{"id", "KeyId", "The key's id."};
const Field workflow_name{"name", "Name", "The workflow's name."};

Answer run_after(std::string_view says, std::string_view example) { return {200, says, {{"Run", example}}}; }

const Field idempotency_key_header{
    "Idempotency-Key", "text/255",
    "Makes a repeat safe: the same key with the same content makes nothing new, and is answered "
    "with what the first request made. Keys are the API key's own, and do not expire."};

// ---- By resource, in the router's order

std::vector<RouteDoc> runs() {
  return {
      {.method = post,
       .pattern = "/runs",
       .operation_id = "create_run",
       .tag = "runs",
       .says =
           "Answers once the run is durable. A repeat with the same Idempotency-Key, or with the same trigger_type and "
           "trigger_ref, answers with the run that the first request made. With `wait` it answers once the run has "
           "ended, with the ended run.",
       .query = {end_wait, vocabulary},
       .headers = {idempotency_key_header},
       .bodies = {{"NewRun"}},
       .answers = {{201, "The run was made.", {{"Run", "RunStarted"}}, {"Location"}},
                   {200,
                    "The run that an earlier request made.",
                    {{"Run", "RunStarted"}},
                    {"Location", "Idempotency-Replayed"}}},
       .problems = {"STORAGE_FULL", "UNKNOWN_WORKFLOW", "PROVIDER_NOT_CONFIGURED", "IDEMPOTENCY_KEY_REUSED",
                    "INPUT_TOO_LARGE"}},
      {.method = post,
       .pattern = "/runs/batch",
       .operation_id = "create_runs",
       .tag = "runs",
       .says = "One result an item, in their order; an item that is wrong harms no other. An Idempotency-Key makes "
               "repeating the batch safe: each item that has none of its own gets one of it and its number.",
       .query = {vocabulary},
       .headers = {idempotency_key_header},
       .bodies = {{"NewRuns"}},
       .answers = {{200, "What became of each.", {{"BatchResults"}}}}},
      {.method = get,
       .pattern = "/runs",
       .operation_id = "list_runs",
       .tag = "runs",
       .says = "A page may be short, or empty, and still have a next_cursor: a search looks at so many runs at a time.",
       .query = {{"status", "RunStatus", "Only those, in the vocabulary that is asked for."},
                 {"sub_state", "SubState", "Only those."},
                 {"provider", "Provider", "Only runs that it carries."},
                 {"provider_state", "text", "Only those that their provider says this of."},
                 {"retry_count_min", "1..", "Only those that were tried again so often, or more."},
                 {"workflow", "Name", "Only runs of this workflow."},
                 {"workspace", "Name", "Only runs of this workspace."},
                 {"since", "Time", "Only runs made at this time or later."},
                 {"until", "Time", "Only runs made at this time or earlier."},
                 {"error_code", "text", "Only runs that ended with this code."},
                 {"q", "text", "Only runs whose id, workflow or error code holds this text."},
                 {"limit", "1..500", "How many at most; 50 unless told."},
                 {"cursor", "RunId", "The next_cursor of the page before."},
                 vocabulary},
       .answers = {{200, "A page of runs.", {{"RunPage"}}}}},
      {.method = get,
       .pattern = "/runs/{id}",
       .operation_id = "get_run",
       .tag = "runs",
       .says = "With `wait` it answers once the run has ended: nobody needs to poll.",
       .path = {run_id},
       .query = {{"at", "1..", "The run as it was after so many of its events. Not beside `wait`."},
                 end_wait,
                 vocabulary},
       .answers = {run_after("The run.", "Run")},
       .problems = {"NOT_FOUND"}},
      {.method = get,
       .pattern = "/runs/{id}/events",
       .operation_id = "list_run_events",
       .tag = "runs",
       .says = "A page ends early when its events have more than 8 MiB.",
       .path = {run_id},
       .query = {{"after", "count", "Only events behind this one."},
                 {"cursor", "1..", "The next_cursor of the page before; instead of `after`."},
                 {"limit", "1..10000", "How many at most; 1000 unless told."},
                 {"at", "1..", "Only events up to this one."},
                 {"raw", "flag", "Events as they are stored and hashed, with JSON values as strings that hold JSON."},
                 vocabulary},
       .answers = {{200, "A page of events.", {{"RunEventPage"}}}},
       .problems = {"NOT_FOUND"}},
      {.method = post,
       .pattern = "/runs/{id}/approve",
       .operation_id = "approve_run",
       .tag = "runs",
       .says = "A repeat is answered as the first one was, and changes nothing.",
       .path = {run_id},
       .query = {vocabulary},
       .bodies = {{"Decision"}},
       .body_required = false,
       .answers = {run_after("The run after it.", "RunEnded")},
       .problems = {"NOT_FOUND", "SELF_APPROVAL", "NOTHING_WAITING", "ALREADY_RESOLVED", "AMBIGUOUS_APPROVAL"}},
      {.method = post,
       .pattern = "/runs/{id}/reject",
       .operation_id = "reject_run",
       .tag = "runs",
       .says = "The run ends as denied. A repeat is answered as the first one was, and changes nothing.",
       .path = {run_id},
       .query = {vocabulary},
       .bodies = {{"Decision"}},
       .body_required = false,
       .answers = {run_after("The run after it.", "RunDenied")},
       .problems = {"NOT_FOUND", "SELF_APPROVAL", "NOTHING_WAITING", "ALREADY_RESOLVED", "AMBIGUOUS_APPROVAL"}},
      {.method = post,
       .pattern = "/runs/{id}/answer",
       .operation_id = "answer_run",
       .tag = "runs",
       .says = "An answer that comes before the question is kept for it.",
       .path = {run_id},
       .query = {vocabulary},
       .bodies = {{"Answer"}},
       .answers = {run_after("The run after it.", "RunAnswered")},
       .problems = {"NOT_FOUND", "NOTHING_WAITING", "INPUT_TOO_LARGE"}},
      {.method = post,
       .pattern = "/runs/{id}/cancel",
       .operation_id = "cancel_run",
       .tag = "runs",
       .says = "Workers that hold its steps learn of it at their next heartbeat. A repeat changes nothing.",
       .path = {run_id},
       .query = {vocabulary},
       .bodies = {{"Reason"}},
       .body_required = false,
       .answers = {run_after("The run after it.", "RunCanceled")},
       .problems = {"NOT_FOUND", "RUN_ENDED"}},
      {.method = post,
       .pattern = "/runs/{id}/retry",
       .operation_id = "retry_run",
       .tag = "runs",
       .says =
           "Makes a new run with the same workflow, version and input, whose retry_of names this one. For runs that "
           "ended as failed, denied, timeout or canceled.",
       .path = {run_id},
       .query = {vocabulary},
       .headers = {idempotency_key_header},
       .answers = {{201, "The new run.", {{"Run", "RunRetried"}}, {"Location"}},
                   {200,
                    "The run that an earlier request made.",
                    {{"Run", "RunRetried"}},
                    {"Location", "Idempotency-Replayed"}}},
       .problems = {"STORAGE_FULL", "NOT_FOUND", "RUN_NOT_ENDED", "RUN_ENDED", "PROVIDER_NOT_CONFIGURED",
                    "IDEMPOTENCY_KEY_REUSED"}},
      {.method = post,
       .pattern = "/runs/{id}/status",
       .operation_id = "report_run_status",
       .tag = "runs",
       .says =
           "For runs that someone else carries (provider external). Contract v1 is enforced: a move that it does not "
           "have is refused, stands in the journal, and fails the run.",
       .path = {run_id},
       .query = {vocabulary},
       .bodies = {{"StatusReport"}},
       .answers = {run_after("The run after it.", "RunExternal")},
       .problems = {"NOT_FOUND", "NOT_EXTERNAL", "INVALID_STATE_TRANSITION", "RUN_ENDED"}},
  };
}

std::vector<RouteDoc> workflows() {
  return {
      {.method = put,
       .pattern = "/workflows/{name}",
       .operation_id = "publish_workflow",
       .tag = "workflows",
       .says =
           "The body is the definition, in YAML or JSON, whatever Content-Type says. The same text again is the same "
           "version. Runs keep the version that they were started with.",
       .path = {workflow_name},
       .bodies = {{"WorkflowDefinition"}, {"Definition", "Definition", "application/yaml"}},
       .answers = {{201, "A new version.", {{"PublishedVersion"}}},
                   {200, "The version that there is already.", {{"PublishedVersion"}}}},
       .problems = {"STORAGE_FULL", "INVALID_WORKFLOW"}},
      {.method = get,
       .pattern = "/workflows",
       .operation_id = "list_workflows",
       .tag = "workflows",
       .says = "",
       .query = {list_limit, list_cursor},
       .answers = {{200, "A page of them.", {{"WorkflowPage"}}}}},
      {.method = get,
       .pattern = "/workflows/{name}",
       .operation_id = "get_workflow",
       .tag = "workflows",
       .says = "",
       .path = {workflow_name},
       .query = {{"version", "Version", "The latest unless told."}},
       .answers = {{200, "The workflow.", {{"Workflow"}}}},
       .problems = {"NOT_FOUND"}},
  };
}

std::vector<RouteDoc> policies() {
  return {
      {.method = put,
       .pattern = "/policy",
       .operation_id = "publish_policy",
       .tag = "policy",
       .says =
           "The body is the policy, in YAML or JSON, whatever Content-Type says; docs/policy.md explains it. Every "
           "condition is compiled before it is taken. The same text again is the same version. It holds for what is "
           "proposed from now on.",
       .bodies = {{"PolicyDefinition"}, {"PolicyText", "PolicyText", "application/yaml"}},
       .answers = {{201, "A new version.", {{"PolicyVersion"}}},
                   {200, "The version that there is already.", {{"PolicyVersion"}}}},
       .problems = {"INVALID_POLICY"}},
      {.method = get,
       .pattern = "/policy",
       .operation_id = "get_policy",
       .tag = "policy",
       .says = "Version 0 is the one that pawl brings along, for tenants that have published none.",
       .query = {{"version", "count", "The one that holds unless told."}},
       .answers = {{200, "The policy.", {{"Policy"}}}},
       .problems = {"NOT_FOUND"}},
      {.method = get,
       .pattern = "/policy/history",
       .operation_id = "list_policy_versions",
       .tag = "policy",
       .says = "",
       .query = {{"limit", "1..500", "50 unless told."}, {"cursor", "1..", "The next_cursor of the page before."}},
       .answers = {{200, "A page of them.", {{"PolicyPage"}}}}},
      {.method = post,
       .pattern = "/policy/test",
       .operation_id = "test_policy",
       .tag = "policy",
       .says =
           "Nothing is changed and nobody is asked. Without `actions`, those are tried that the tenant's newest runs "
           "proposed, each once a run.",
       .bodies = {{"PolicyTrial"}},
       .answers = {{200, "What the policy that holds and the draft say to each.", {{"PolicyTrialResult"}}}},
       .problems = {"INVALID_POLICY"}},
  };
}

std::vector<RouteDoc> approvals() {
  return {
      {.method = get,
       .pattern = "/approvals",
       .operation_id = "list_approvals",
       .tag = "approvals",
       .says = "",
       .query = {{"status", "ApprovalStatus", "Only those; requested unless told."},
                 {"limit", "1..500", "How many at most; 50 unless told."},
                 {"cursor", "ApprovalId", "The next_cursor of the page before. Decisions meanwhile move nothing."},
                 vocabulary},
       .answers = {{200, "The inbox.", {{"ApprovalPage"}}}}},
      {.method = get,
       .pattern = "/approvals/{id}",
       .operation_id = "get_approval",
       .tag = "approvals",
       .says = "",
       .path = {approval_id},
       .query = {vocabulary},
       .answers = {{200, "The approval.", {{"ApprovalSummary"}}}},
       .problems = {"NOT_FOUND"}},
      {.method = post,
       .pattern = "/runs/{id}/approvals",
       .operation_id = "request_approval",
       .tag = "approvals",
       .says = "For runs that another engine carries: somebody waits there, and the answer is given to them. What "
               "people have to "
               "decide stands in the workflow. A repeat with the same callback changes nothing.",
       .path = {run_id},
       .query = {vocabulary},
       .bodies = {{"ApprovalRequest"}},
       .answers = {run_after("The run after it.", "RunForeign")},
       .problems = {"NOT_FOUND", "NOT_EXTERNAL", "RUN_ENDED"}},
      {.method = post,
       .pattern = "/approvals/{id}/approve",
       .operation_id = "approve",
       .tag = "approvals",
       .says = "A repeat is answered as the first one was, and changes nothing.",
       .path = {approval_id},
       .query = {vocabulary},
       .bodies = {{"Reason"}},
       .body_required = false,
       .answers = {run_after("The run after it.", "RunEnded")},
       .problems = {"NOT_FOUND", "SELF_APPROVAL", "ALREADY_RESOLVED"}},
      {.method = post,
       .pattern = "/approvals/{id}/reject",
       .operation_id = "reject",
       .tag = "approvals",
       .says = "The run ends as denied. A repeat is answered as the first one was, and changes nothing.",
       .path = {approval_id},
       .query = {vocabulary},
       .bodies = {{"Reason"}},
       .body_required = false,
       .answers = {run_after("The run after it.", "RunDenied")},
       .problems = {"NOT_FOUND", "SELF_APPROVAL", "ALREADY_RESOLVED"}},
  };
}

std::vector<RouteDoc> leases() {
  return {
      {.method = get,
       .pattern = "/workers",
       .operation_id = "list_workers",
       .tag = "leases",
       .says = "Those who asked for steps, or reported on one, in the last minutes, and the server's own. With several "
               "servers each lists those who ask it.",
       .answers = {{200, "The workers.", {{"WorkerPage"}}}}},
      {.method = post,
       .pattern = "/leases",
       .operation_id = "take_leases",
       .tag = "leases",
       .says =
           "Answers as soon as there is at least one, or when the wait is over. A step is leased only once all before "
           "it is durable.",
       .bodies = {{"LeaseRequest"}},
       .answers = {{200, "The leases.", {{"Leases"}}}}},
      {.method = post,
       .pattern = "/leases/complete",
       .operation_id = "complete_leases",
       .tag = "leases",
       .says = "One result an item, in their order. Answers once what was accepted is durable.",
       .bodies = {{"CompletedLeases"}},
       .answers = {{200, "What became of each.", {{"LeaseResults"}}}}},
      {.method = post,
       .pattern = "/leases/fail",
       .operation_id = "fail_leases",
       .tag = "leases",
       .says = "One result an item, in their order. A failure that is retryable is tried again while attempts remain.",
       .bodies = {{"FailedLeases"}},
       .answers = {{200, "What became of each.", {{"LeaseResults"}}}}},
      {.method = post,
       .pattern = "/leases/release",
       .operation_id = "release_leases",
       .tag = "leases",
       .says =
           "For a worker that stops in an orderly way and has ended its work on these steps. They are ready at once, "
           "and the attempts do not count. One result an item, in their order.",
       .bodies = {{"ReleasedLeases"}},
       .answers = {{200, "What became of each.", {{"LeaseResults"}}}}},
      {.method = post,
       .pattern = "/leases/heartbeat",
       .operation_id = "keep_leases",
       .tag = "leases",
       .says = "Send one at a third of the time until expires_at. An item that is ok says until when the lease is held "
               "now, "
               "which is durable; one that is not ok says cancel: drop that work.",
       .bodies = {{"KeptLeases"}},
       .answers = {{200, "Which are still held.", {{"LeaseResults"}}}}},
  };
}

std::vector<RouteDoc> tenants() {
  return {
      {.method = get,
       .pattern = "/tenant",
       .operation_id = "get_tenant",
       .tag = "tenants",
       .says = "",
       .answers = {{200, "The tenant.", {{"Tenant"}}}}},
      {.method = get,
       .pattern = "/tenant/caps",
       .operation_id = "get_caps",
       .tag = "tenants",
       .says = "With several servers on one database, what is counted is counted by the one that answers.",
       .answers = {{200, "The caps, and what they do.", {{"TenantLoad"}}}}},
      {.method = put,
       .pattern = "/tenant/caps",
       .operation_id = "set_caps",
       .tag = "tenants",
       .says = "As a whole: a cap that is left out is lifted. PATCH changes some and leaves the others.",
       .bodies = {{"Limits"}},
       .answers = {{200, "The tenant after it, with the caps in force.", {{"Tenant"}}}},
       .problems = {"ABOVE_CEILING"}},
      {.method = patch,
       .pattern = "/tenant/caps",
       .operation_id = "change_caps",
       .tag = "tenants",
       .says = "A cap that is left out stays as it is, and one that is null is lifted.",
       .bodies = {{"LimitsChange"}},
       .answers = {{200, "The tenant after it, with the caps in force.", {{"Tenant"}}}},
       .problems = {"ABOVE_CEILING"}},
      {.method = get,
       .pattern = "/workspaces",
       .operation_id = "list_workspaces",
       .tag = "tenants",
       .says = "",
       .query = {list_limit, list_cursor},
       .answers = {{200, "A page of them.", {{"WorkspacePage"}}}}},
      {.method = put,
       .pattern = "/workspaces/{name}",
       .operation_id = "set_workspace",
       .tag = "tenants",
       .says = "",
       .path = {{"name", "Name", "The workspace's name."}},
       .bodies = {{"WorkspaceWeight"}},
       .answers = {{200, "The tenant after it.", {{"Tenant"}}}}},
      {.method = get,
       .pattern = "/tenants",
       .operation_id = "list_tenants",
       .tag = "tenants",
       .says = "",
       .query = {list_limit, list_cursor},
       .answers = {{200, "A page of them.", {{"TenantPage"}}}}},
      {.method = post,
       .pattern = "/tenants",
       .operation_id = "create_tenant",
       .tag = "tenants",
       .says = "A name that is taken answers with the tenant that has it.",
       .bodies = {{"NewTenant"}},
       .answers = {{201, "The tenant was made.", {{"Tenant"}}},
                   {200, "The tenant that has this name already.", {{"Tenant"}}}}},
      {.method = get,
       .pattern = "/tenants/{name}",
       .operation_id = "get_tenant_by_name",
       .tag = "tenants",
       .says = "",
       .path = {{"name", "Name", "The tenant's name."}},
       .answers = {{200, "The tenant.", {{"Tenant"}}}},
       .problems = {"NOT_FOUND"}},
      {.method = patch,
       .pattern = "/tenants/{name}",
       .operation_id = "change_ceiling",
       .tag = "tenants",
       .says =
           "What the installation lets the tenant use. The tenant's own admins can set lower limits, not higher "
           "ones. A limit that is left out stays as it is, and one that is null is lifted. A weight is the tenant's "
           "from then on, and its highest.",
       .path = {{"name", "Name", "The tenant's name."}},
       .bodies = {{"LimitsChange"}},
       .answers = {{200, "The tenant after it.", {{"Tenant"}}}},
       .problems = {"NOT_FOUND"}},
      {.method = post,
       .pattern = "/tenants/{name}/suspend",
       .operation_id = "suspend_tenant",
       .tag = "tenants",
       .says =
           "At once: its keys are refused, nothing of it is leased or started, and workers are told to stop. Nothing "
           "is lost. Suspending again changes nothing.",
       .path = {{"name", "Name", "The tenant's name."}},
       .bodies = {{"NewSuspension"}},
       .answers = {{200, "The tenant after it.", {{"Tenant"}}}},
       .problems = {"NOT_FOUND"}},
      {.method = post,
       .pattern = "/tenants/{name}/resume",
       .operation_id = "resume_tenant",
       .tag = "tenants",
       .says = "Its work goes on where it stopped.",
       .path = {{"name", "Name", "The tenant's name."}},
       .answers = {{200, "The tenant after it.", {{"Tenant"}}}},
       .problems = {"NOT_FOUND"}},
      {.method = get,
       .pattern = "/freezes",
       .operation_id = "list_freezes",
       .tag = "tenants",
       .says = "Those that hold for this tenant; for the installation, those of all tenants.",
       .answers = {{200, "All of them.", {{"FreezeList"}}}}},
      {.method = post,
       .pattern = "/freeze",
       .operation_id = "freeze_effects",
       .tag = "tenants",
       .says = "From the answer on no effect begins: an action that is proposed is denied, and its run ends as denied "
               "with EFFECTS_FROZEN. An admin of the tenant `default` freezes everybody, or the tenant that is named; "
               "other admins freeze their own tenant.",
       .bodies = {{"NewFreeze"}},
       .answers = {{200, "What is frozen now.", {{"FreezeList"}}}},
       .problems = {"UNKNOWN_TENANT"}},
      {.method = post,
       .pattern = "/unfreeze",
       .operation_id = "unfreeze_effects",
       .tag = "tenants",
       .says = "Lifts exactly the freeze that was made with the same words. A tenant cannot lift the installation's.",
       .bodies = {{"LiftedFreeze"}},
       .answers = {{200, "What is frozen now.", {{"FreezeList"}}}},
       .problems = {"NOT_FOUND", "UNKNOWN_TENANT"}},
  };
}

std::vector<RouteDoc> keys() {
  return {
      {.method = get,
       .pattern = "/keys",
       .operation_id = "list_keys",
       .tag = "keys",
       .says = "",
       .query = {list_limit, list_cursor},
       .answers = {{200, "A page of them.", {{"KeyPage"}}}}},
      {.method = post,
       .pattern = "/keys",
       .operation_id = "create_key",
       .tag = "keys",
       .says = "A repeat with the same Idempotency-Key makes no second key, and is not shown the text again.",
       .headers = {idempotency_key_header},
       .bodies = {{"NewKey"}},
       .answers =
           {{201, "The key, with its text.", {{"MadeKey"}}},
            {200, "The key that an earlier request made.", {{"Key", "KeyMadeBefore"}}, {"Idempotency-Replayed"}}},
       .problems = {"UNKNOWN_TENANT", "IDEMPOTENCY_KEY_REUSED"}},
      {.method = post,
       .pattern = "/keys/{id}/rotate",
       .operation_id = "rotate_key",
       .tag = "keys",
       .says = "The new key has the old one's name and role, and its expiry unless another is given; the old one is "
               "good until "
               "the overlap is over. A key that was replaced already is not replaced again.",
       .path = {key_id},
       .headers = {idempotency_key_header},
       .bodies = {{"KeyRotation"}},
       .body_required = false,
       .answers =
           {{201, "The new key, with its text.", {{"MadeKey"}}},
            {200, "The key that an earlier request made.", {{"Key", "KeyMadeBefore"}}, {"Idempotency-Replayed"}}},
       .problems = {"NOT_FOUND", "KEY_NOT_ACTIVE", "IDEMPOTENCY_KEY_REUSED"}},
      {.method = delete_,
       .pattern = "/keys/{id}",
       .operation_id = "revoke_key",
       .tag = "keys",
       .says = "It stays in the list, as one that is not active.",
       .path = {key_id},
       .answers = {{200, "The key after it.", {{"Key", "KeyRevoked"}}}},
       .problems = {"NOT_FOUND"}},
  };
}

std::vector<RouteDoc> operations() {
  return {
      {.method = get,
       .pattern = "/events",
       .operation_id = "follow_events",
       .tag = "feed",
       .says =
           "Every event of the tenant's runs and tasks, in order and without gaps; for admins also those of the tenant "
           "itself. "
           "Server-sent events, or WebSocket text messages when the client asks for an upgrade (the key goes in the "
           "Authorization header there too). First comes the position at which it begins, and every ten seconds the "
           "one it has come to: in the stream an id without data, which clients remember and do not show; in a "
           "WebSocket a message with a `position` alone. A slow client is waited for. One that falls behind what is "
           "kept is told to resume and disconnected, as all are when the server stops: an event `resume`, or a close "
           "with 1013 (1012 when the server stops), names the last position it was sent. When the key is revoked or "
           "expires, or its tenant is suspended, it ends at once: with an event `end`, whose data is an object with "
           "`code` and `detail`, or a close with 1008. One key can follow a quarter of the server's "
           "connections_max.",
       .query = {{"after", "text", "Go on behind this position; 0 for all that is kept. From now on unless told."},
                 {"run", "RunId", "Only this run's events."},
                 {"task", "TaskId", "Only this task's events."},
                 {"raw", "flag", "Events as they are stored and hashed, with JSON values as strings that hold JSON."},
                 vocabulary},
       .headers = {{"Last-Event-ID", "text",
                    "As `after`, which goes before it; browsers send it when they reconnect."}},
       .answers = {{200, "The feed; it does not end by itself.", {{"FeedStream", "FeedStream", "text/event-stream"}}},
                   {101, "The feed as a WebSocket, one FeedMessage a text message, or a position alone.", {}}},
       .problems = {"NOT_FOUND", "FEED_POSITION_GONE"}},
      {.method = get,
       .pattern = "/healthz",
       .operation_id = "get_health",
       .tag = "operations",
       .says = "",
       .answers = {{200, "It lives.", {{"Health"}}}}},
      {.method = get,
       .pattern = "/readyz",
       .operation_id = "get_readiness",
       .tag = "operations",
       .says = "Answers once a turn of the engine has come back from the disk.",
       .answers = {{200, "It takes work.", {{"Health", "Ready"}}}},
       .problems = {"STOPPING", "STORE_AWAY"}},
      {.method = get,
       .pattern = "/metrics",
       .operation_id = "get_metrics",
       .tag = "operations",
       .says = "",
       .answers = {{200, "The figures.", {{"Figures", "Figures", "text/plain"}}}}},
      {.method = get,
       .pattern = "/openapi.json",
       .operation_id = "get_openapi",
       .tag = "operations",
       .says = "",
       .answers = {{200, "The document.", {{"OpenApi"}}}}},
  };
}

}  // namespace

std::vector<TagDoc> tag_docs() {
  return {{"runs", "Start runs, look at them, decide what they wait for."},
          {"tasks", "What people ask for: subtasks, questions, review."},
          {"workflows", "Publish definitions. Every version stays."},
          {"policy", "What actions may become of, and who is asked."},
          {"approvals", "The inbox of those who decide."},
          {"evidence", "What was done, provable to someone who does not trust the server."},
          {"leases", "For workers: take steps, pass the gate, report, ask."},
          {"agents", "What agents say, and the tools that they are given."},
          {"receipts", "What was done outside, and what became of it."},
          {"people", "Who stands behind which keys and accounts."},
          {"tenants", "Whom everything belongs to, and what they may use."},
          {"webhooks", "Be told of what happens."},
          {"slack", "Ask for approvals where people are."},
          {"keys", "Make, rotate and revoke API keys."},
          {"feed", "What happens, as it happens."},
          {"operations", "For those who run this server."}};
}

std::vector<RouteDoc> route_docs() {
  std::vector<RouteDoc> all;
  for (auto part : {runs(), workflows(), policies(), approvals(), leases(), governance_routes(), notice_routes(),
                    tenants(), keys(), operations(), evidence_route_docs(), task_route_docs(), agent_route_docs()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace pawl::api::openapi
