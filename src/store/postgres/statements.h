// What is read, statement by statement. Columns of a run are always those of `run_columns`, in that order.
#pragma once

namespace pawl::postgres {

#define PAWL_RUN_COLUMNS                                                                                           \
  "r.tenant, r.id, r.status, r.due_at, r.leased, r.created_at, r.updated_at, r.version, r.workflow, r.workspace, " \
  "r.error_code, r.seq, r.head, r.revision, r.phase"

// The journal's edge: every transaction before it is over, whichever way.
#define PAWL_EDGE "(SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint + origin FROM pawl.journal)"

inline constexpr const char* newest_position =
    "SELECT coalesce((SELECT position FROM pawl.events ORDER BY position DESC LIMIT 1), 0)";
inline constexpr const char* last_position =
    "SELECT coalesce((SELECT position FROM pawl.events WHERE position < " PAWL_EDGE
    " ORDER BY position DESC LIMIT 1), 0)";
inline constexpr const char* journal_end =
    "SELECT coalesce((SELECT position FROM pawl.events WHERE position < " PAWL_EDGE
    " ORDER BY position DESC LIMIT 1), 0), coalesce((SELECT position FROM pawl.events ORDER BY position DESC LIMIT 1), "
    "0)";
inline constexpr const char* events_after =
    "SELECT position, tenant, stream, first_seq, lines FROM pawl.events WHERE position > $1 AND position < " PAWL_EDGE
    " ORDER BY position, tenant, stream LIMIT $2";
inline constexpr const char* events_at =
    "SELECT position, tenant, stream, first_seq, lines FROM pawl.events WHERE position = $1 ORDER BY tenant, stream";
// Followers. A new one begins behind all that is over now; what is not over yet lies behind that.
inline constexpr const char* find_follower =
    "SELECT position, holder, held_until - pawl.now_ms() FROM pawl.followers WHERE name = $1";
inline constexpr const char* enter_follower =
    "INSERT INTO pawl.followers(name, position, holder, held_until) SELECT $1, coalesce((SELECT position FROM "
    "pawl.events "
    "WHERE position < " PAWL_EDGE " ORDER BY position DESC LIMIT 1), 0), 0, 0 ON CONFLICT(name) DO NOTHING";
inline constexpr const char* hold_follower =
    "UPDATE pawl.followers SET holder = $2, held_until = pawl.now_ms() + $3 "
    "WHERE name = $1 AND (holder = $2 OR held_until <= pawl.now_ms()) RETURNING position";
// By whoever has come that far: what is handled is handled.
inline constexpr const char* move_follower =
    "UPDATE pawl.followers SET position = $2 WHERE name = $1 AND position < $2";
inline constexpr const char* release_follower =
    "UPDATE pawl.followers SET held_until = 0 WHERE name = $1 AND holder = $2";
// A database that was restored into a cluster whose numbers are behind.
inline constexpr const char* move_origin =
    "UPDATE pawl.journal j SET origin = j.origin + behind.count FROM (SELECT k.origin, (SELECT coalesce(max(position), "
    "0) "
    "FROM pawl.events) - (pg_snapshot_xmax(pg_current_snapshot())::text::bigint + k.origin) + 1 AS count FROM "
    "pawl.journal k"
    ") behind WHERE j.origin = behind.origin AND behind.count > 0";

inline constexpr const char* clock = "SELECT pawl.now_ms()";
// All that a server looks at now and then, in one statement: server $1 lives, and keeps its followers for $2 more; a
// timer is overdue after $3; other servers are named that were seen within $4. Not worth a sync: the next one says the
// same. A commit that is under way says as well that the server lives, and is not waited for.
inline constexpr const char* pulse =
    "WITH moment AS MATERIALIZED (SELECT pawl.now_ms() AS now), "
    "seen AS (UPDATE pawl.servers SET seen_at = (SELECT now FROM moment) WHERE number = "
    "(SELECT number FROM pawl.servers WHERE number = $1 FOR UPDATE SKIP LOCKED)), "
    "kept AS (UPDATE pawl.followers SET held_until = (SELECT now FROM moment) + $2 "
    "WHERE holder = $1 AND held_until > 0 AND held_until < (SELECT now FROM moment) + $2 / 2) "
    "SELECT (SELECT now FROM moment), "
    "EXISTS (SELECT FROM pawl.ready WHERE taken_until <= (SELECT now FROM moment)), "
    "EXISTS (SELECT FROM pawl.runs WHERE check_at <= (SELECT now FROM moment) - $3 "
    "AND due_at <= (SELECT now FROM moment) - $3), "
    "(SELECT count(*) FROM pawl.tenants), (SELECT coalesce(sum(seq), 0)::bigint FROM pawl.tenants), "
    "coalesce((SELECT position FROM pawl.events ORDER BY position DESC LIMIT 1), 0), "
    "coalesce((SELECT position FROM pawl.events WHERE position < " PAWL_EDGE
    " ORDER BY position DESC LIMIT 1), 0), "
    "coalesce((SELECT string_agg(name, ' ' ORDER BY name) FROM pawl.followers "
    "WHERE held_until <= (SELECT now FROM moment) AND holder <> $1), ''), "
    "coalesce((SELECT string_agg(number || ':' || seen_at, ' ') FROM pawl.servers "
    "WHERE seen_at > (SELECT now FROM moment) - $4 AND number <> $1), ''), "
    "set_config('synchronous_commit', 'off', true)";
inline constexpr const char* bypasses_walls =
    "SELECT rolsuper OR rolbypassrls FROM pg_catalog.pg_roles WHERE rolname = current_user";
inline constexpr const char* has_page_checksums = "SELECT current_setting('data_checksums')";

// Tenants and their workflows.
inline constexpr const char* all_tenants = "SELECT tenant, seq, head, state FROM pawl.tenants ORDER BY tenant";
inline constexpr const char* one_tenant = "SELECT tenant, seq, head, state FROM pawl.tenants WHERE tenant = $1";
inline constexpr const char* tenant_heads = "SELECT tenant, seq FROM pawl.tenants ORDER BY tenant";
inline constexpr const char* workflows_after =
    "SELECT tenant, name, version, digest, source FROM pawl.workflows WHERE (tenant, name, version) > ($1, $2, $3) "
    "ORDER BY tenant, name, version LIMIT $4";
inline constexpr const char* workflows_of =
    "SELECT tenant, name, version, digest, source FROM pawl.workflows WHERE tenant = $1 ORDER BY name, version";
inline constexpr const char* find_workflow =
    "SELECT tenant, name, version, digest, source FROM pawl.workflows WHERE tenant = $1 AND name = $2 AND version = $3";

// Runs.
inline constexpr const char* load_runs = "SELECT " PAWL_RUN_COLUMNS
                                         ", r.snapshot FROM pawl.runs r WHERE r.tenant = $1 AND r.id >= $2 "
                                         "ORDER BY r.id LIMIT $3";
inline constexpr const char* load_all = "SELECT " PAWL_RUN_COLUMNS
                                        ", r.snapshot FROM unnest($1::uuid[], $2::uuid[]) k(tenant, id) JOIN pawl.runs "
                                        "r ON r.tenant = k.tenant AND r.id = k.id";
// $2 status, $3 workflow, $4 workspace: NULL = any, but of pawl's own workflows only those that undo are
// shown to those who name none; $5
// since; ids from $6 and before $7 (NULL = no end); $8 limit.
inline constexpr const char* list_runs =
    "SELECT " PAWL_RUN_COLUMNS
    " FROM pawl.runs r WHERE r.tenant = $1 AND ($2::smallint IS NULL OR r.status = $2) AND (r.workflow = $3 OR "
    "($3::text IS NULL AND (left(r.workflow, 5) <> 'pawl.' OR left(r.workflow, 10) = 'pawl.undo.'))) "
    "AND ($4::text IS NULL OR r.workspace = $4) AND "
    "r.created_at >= $5 AND r.id >= $6 AND "
    "($7::uuid IS NULL OR r.id < $7) ORDER BY r.id DESC LIMIT $8";
inline constexpr const char* leased_runs =
    "SELECT due_at, tenant, id FROM pawl.runs WHERE leased AND status <> 3 ORDER BY tenant, id";
// A snapshot has the names of workers as they are (core/snapshot.h), so those that cannot be meant are not loaded.
inline constexpr const char* leased_runs_of =
    "SELECT due_at, tenant, id FROM pawl.runs WHERE leased AND EXISTS (SELECT FROM unnest($1::text[]) worker "
    "WHERE position(convert_to(worker, 'UTF8') IN snapshot) > 0) ORDER BY tenant, id";
// In the order of due_at, which the index has only nearly: check_at is at most 5 s earlier ($6 is so much before $2).
// The first $5 by check_at are due by some moment, so the first $5 by due_at are, and are checked by then.
inline constexpr const char* due_runs =
    "WITH near AS (SELECT due_at FROM pawl.runs WHERE check_at BETWEEN $6 AND $1 AND due_at <= $1 "
    "AND (due_at, tenant, id) > ($2, $3, $4) ORDER BY check_at LIMIT $5) "
    "SELECT due_at, tenant, id FROM pawl.runs WHERE check_at BETWEEN $6 AND (SELECT max(due_at) FROM near) AND due_at "
    "<= $1 "
    "AND (due_at, tenant, id) > ($2, $3, $4) ORDER BY due_at, tenant, id LIMIT $5";
inline constexpr const char* find_request = "SELECT run FROM pawl.requests WHERE tenant = $1 AND key = $2";

// Ready steps.
inline constexpr const char* take_ready = "SELECT * FROM pawl.take_ready($1, $2, $3, $4, $5, $6, $7)";
inline constexpr const char* ready_after =
    "SELECT run, step, tool, workspace, workflow FROM pawl.ready WHERE tenant = $1 AND fresh = ($2 <> 0) "
    "AND (run, step) > ($3, $4) ORDER BY run, step LIMIT $5";

// Approvals.
inline constexpr const char* find_receipt =
    "SELECT id, run, status, key FROM pawl.receipts WHERE tenant = $1 AND id = $2";
inline constexpr const char* find_effects =
    "SELECT r.id, r.run, r.status, r.key FROM pawl.effects e JOIN pawl.receipts r ON r.tenant = e.tenant AND r.run = "
    "e.run "
    "WHERE e.tenant = $1 AND e.key = $2 AND r.key = $3 AND r.status = ANY('{0,1,3}')";
inline constexpr const char* list_receipts =
    "SELECT id, run, status, key FROM pawl.receipts WHERE tenant = $1 AND id < $2 AND ($3::smallint IS NULL OR status "
    "= $3) "
    "ORDER BY id DESC LIMIT $4";
inline constexpr const char* list_receipts_in_doubt =
    "SELECT id, run, status, key FROM pawl.receipts WHERE tenant = $1 AND id < $2 AND status = 3 ORDER BY id DESC "
    "LIMIT $3";
inline constexpr const char* find_approval =
    "SELECT id, run, step, status, tier, requested_at, expires_at FROM pawl.approvals WHERE tenant = $1 AND id = $2";
inline constexpr const char* list_approvals =
    "SELECT id, run, step, status, tier, requested_at, expires_at FROM pawl.approvals "
    "WHERE tenant = $1 AND status = $2 AND (requested_at, id) < ($3, $4) ORDER BY requested_at DESC, id DESC LIMIT $5";

// Stored bundles: of run $2, or of all that follow it.
inline constexpr const char* find_bundle =
    "SELECT run, stored_at, seq, bytes, sha256, location FROM pawl.bundles WHERE tenant = $1 AND run = $2";
inline constexpr const char* bundles_after =
    "SELECT run, stored_at, seq, bytes, sha256, location FROM pawl.bundles WHERE tenant = $1 AND run > $2 ORDER BY run "
    "LIMIT $3";

// Starts.
inline constexpr const char* starts_since =
    "SELECT tenant, workflow, at, run FROM pawl.starts WHERE at >= $1 ORDER BY at, number";

// What caps leave. A start becomes possible when the oldest of so many as the cap allows is a minute old.
inline constexpr const char* cap_use =
    "SELECT m.workflow, m.max_concurrency, m.running, m.max_runs_per_min, "
    "(SELECT s.at + 60000 FROM pawl.starts s WHERE s.tenant = m.tenant AND s.at > pawl.now_ms() - 60000 "
    "AND (m.workflow = '' OR s.workflow = m.workflow) "
    "ORDER BY s.at DESC OFFSET greatest(m.max_runs_per_min - 1, 0) LIMIT 1) "
    "FROM pawl.meters m WHERE m.tenant = $1";

// Streams. The row and its events are read by one statement, so that they fit.
inline constexpr const char* run_history =
    "SELECT r.seq, r.head, e.first_seq, e.lines FROM pawl.runs r LEFT JOIN pawl.events e ON e.tenant = r.tenant AND "
    "e.stream = r.id WHERE r.tenant = $1 AND r.id = $2 ORDER BY e.first_seq";
inline constexpr const char* tenant_history =
    "SELECT t.seq, t.head, e.first_seq, e.lines FROM pawl.tenants t LEFT JOIN pawl.events e ON e.tenant = t.tenant AND "
    "e.stream = t.tenant WHERE t.tenant = $1 ORDER BY e.first_seq";
inline constexpr const char* pieces_before =
    "SELECT first_seq, lines FROM pawl.events WHERE tenant = $1 AND stream = $2 AND first_seq < $3 "
    "ORDER BY first_seq DESC LIMIT $4";
inline constexpr const char* analyze =
    "ANALYZE pawl.tenants, pawl.workflows, pawl.runs, pawl.events, pawl.ready, pawl.approvals, pawl.requests, "
    "pawl.receipts, "
    "pawl.effects, pawl.starts, pawl.meters, pawl.bundles";
inline constexpr const char* run_streams =
    "SELECT tenant, id FROM pawl.runs WHERE (tenant, id) > ($1, $2) ORDER BY tenant, id LIMIT $3";
inline constexpr const char* tenant_streams =
    "SELECT tenant, tenant FROM pawl.tenants WHERE tenant > $1 AND seq > 0 ORDER BY tenant LIMIT $2";

inline constexpr const char* count_requests = "SELECT count(*) FROM pawl.requests";
inline constexpr const char* count_waiting =
    "SELECT count(*), coalesce(min(a.requested_at), 0), (SELECT count(*) FROM pawl.receipts WHERE status = 3) "
    "FROM pawl.tenants t JOIN pawl.approvals a ON a.tenant = t.tenant AND a.status = 0";

// What does not fit: nothing, when all is well.
inline constexpr const char* wrong_meters =
    "SELECT m.workflow, m.running, n.leases FROM pawl.meters m CROSS JOIN LATERAL (SELECT coalesce(sum(r.leases), "
    "0)::bigint "
    "AS leases FROM pawl.runs r WHERE r.tenant = m.tenant AND (m.workflow = '' OR r.workflow = m.workflow)) n "
    "WHERE m.running <> n.leases ORDER BY m.tenant, m.workflow";
inline constexpr const char* requests_for_nothing =
    "SELECT count(*) FROM pawl.requests q WHERE NOT EXISTS (SELECT FROM pawl.runs r WHERE r.tenant = q.tenant AND r.id "
    "= "
    "q.run)";

inline constexpr const char* events_of_nothing =
    "SELECT e.tenant, e.stream FROM pawl.events e WHERE e.first_seq = 1 AND NOT EXISTS (SELECT FROM pawl.runs r WHERE "
    "r.tenant = e.tenant AND r.id = e.stream) AND NOT EXISTS (SELECT FROM pawl.tenants t WHERE t.tenant = e.tenant AND "
    "t.tenant = e.stream) ORDER BY e.tenant, e.stream";

#undef PAWL_RUN_COLUMNS
#undef PAWL_EDGE

}  // namespace pawl::postgres
