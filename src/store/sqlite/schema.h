// The tables, whole, and every statement that touches them. Tenants lead every key; ids are 16 bytes, big-endian,
// so that they sort by time and new rows land at the right edge.
//
// What keeps writing cheap: a run that begins and ends within one fold costs one row of `history`, appended at the
// end of a plain table, and one row of `runs`. It enters no index: those are partial, and concern runs that are
// alive or ended otherwise than in success.
#pragma once

#include "core/receipt_lifecycle.h"
#include "core/run_lifecycle.h"
#include "core/vocabulary.h"

namespace pawl::sqlite {

inline constexpr int application_id = 0x7061776c;  // "pawl"
inline constexpr int schema_version = 6;
// Looking needs no migration from here on: versions 2 and 4 only add tables that are empty until then, of version 3
// there are statements without the column that it adds, version 5 changes an index, and what version 6 adds is read
// from the history where it is not there.
inline constexpr int schema_version_readable = 1;

// Statuses are stored as their numbers, and indexes name them.
static_assert(static_cast<int>(RunStatus::success) == 3);

inline constexpr const char* create_version_1 = R"sql(
-- The journal. folded_before is as of this frame; the newest frame's holds, and that frame is always kept.
CREATE TABLE frames(
  position      INTEGER PRIMARY KEY,
  folded_before INTEGER NOT NULL,
  parts         BLOB NOT NULL
);

-- Folded events. The pieces of a stream are a list: its run or tenant names the newest, each names the one before.
CREATE TABLE history(
  number    INTEGER PRIMARY KEY,
  previous  INTEGER,
  first_seq INTEGER NOT NULL,
  lines     BLOB NOT NULL
);

CREATE TABLE runs(
  tenant     BLOB NOT NULL,
  id         BLOB NOT NULL,
  status     INTEGER NOT NULL,
  due_at     INTEGER,
  leased     INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  version    INTEGER NOT NULL,
  workflow   TEXT NOT NULL,
  workspace  TEXT NOT NULL,
  error_code TEXT NOT NULL,
  seq        INTEGER NOT NULL,
  history    INTEGER NOT NULL,
  head       BLOB NOT NULL,
  snapshot   BLOB NOT NULL,
  ready      BLOB,  -- the steps that wait for a worker (ready_steps.h); NULL = none
  PRIMARY KEY(tenant, id)
) WITHOUT ROWID;
-- Most runs succeed, so successes are found by walking the runs themselves.
CREATE INDEX runs_by_status ON runs(tenant, status, id) WHERE status <> 3;
CREATE INDEX runs_due ON runs(due_at, tenant, id) WHERE due_at IS NOT NULL;
CREATE INDEX runs_leased ON runs(tenant, id) WHERE leased = 1;

CREATE TABLE approvals(
  tenant       BLOB NOT NULL,
  id           BLOB NOT NULL,
  run          BLOB NOT NULL,
  step         TEXT NOT NULL,
  status       INTEGER NOT NULL,
  tier         INTEGER NOT NULL,
  requested_at INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL,
  PRIMARY KEY(tenant, id)
) WITHOUT ROWID;
CREATE INDEX approvals_by_status ON approvals(tenant, status, requested_at, id);

CREATE TABLE tenants(
  tenant  BLOB PRIMARY KEY,
  seq     INTEGER NOT NULL,
  history INTEGER,
  head    BLOB NOT NULL,
  state   BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE workflows(
  tenant  BLOB NOT NULL,
  name    TEXT NOT NULL,
  version INTEGER NOT NULL,
  digest  TEXT NOT NULL,
  source  TEXT NOT NULL,
  PRIMARY KEY(tenant, name, version)
);

-- By time, because only the last minute of it is kept. The frame and the place in it tell equal moments apart.
CREATE TABLE starts(
  at       INTEGER NOT NULL,
  position INTEGER NOT NULL,
  ordinal  INTEGER NOT NULL,
  tenant   BLOB NOT NULL,
  workflow TEXT NOT NULL,
  PRIMARY KEY(at, position, ordinal)
) WITHOUT ROWID;

PRAGMA application_id = 0x7061776c;
PRAGMA user_version = 1;
)sql";

inline constexpr const char* create_version_2 = R"sql(
-- What a repeated request to create a run finds it by.
CREATE TABLE requests(
  tenant BLOB NOT NULL,
  name   TEXT NOT NULL,
  run    BLOB NOT NULL,
  PRIMARY KEY(tenant, name)
) WITHOUT ROWID;

PRAGMA user_version = 2;
)sql";

inline constexpr const char* create_version_3 = R"sql(
-- What a run is up to beyond its status (RunPhase): lists in other vocabularies show it, without reading the run.
ALTER TABLE runs ADD COLUMN phase INTEGER NOT NULL DEFAULT 0;

PRAGMA user_version = 3;
)sql";
static_assert(static_cast<int>(RunPhase::plain) == 0);

inline constexpr const char* create_version_4 = R"sql(
-- Where a receipt is found by its id, and an effect by its idempotency key; what it says stands in its run.
CREATE TABLE receipts(
  tenant BLOB NOT NULL,
  id     BLOB NOT NULL,
  run    BLOB NOT NULL,
  status INTEGER NOT NULL,
  key    TEXT NOT NULL,
  PRIMARY KEY(tenant, id)
) WITHOUT ROWID;
-- Those that neither failed nor were undone: intended, succeeded, in doubt.
CREATE INDEX receipts_by_key ON receipts(tenant, key) WHERE status IN (0, 1, 3);
CREATE INDEX receipts_in_doubt ON receipts(tenant, id) WHERE status = 3;

-- Who follows the journal across restarts, and the last frame of which it wants nothing more.
CREATE TABLE followers(
  name     TEXT PRIMARY KEY,
  position INTEGER NOT NULL
) WITHOUT ROWID;

PRAGMA user_version = 4;
)sql";
static_assert(static_cast<int>(ReceiptStatus::intended) == 0 && static_cast<int>(ReceiptStatus::succeeded) == 1 &&
              static_cast<int>(ReceiptStatus::in_doubt) == 3 && enum_count<ReceiptStatus> == 5);

inline constexpr const char* create_version_5 = R"sql(
-- A key that is its run's own is stored as a BLOB, without the run's id that it begins with. Nobody looks for such a
-- key in other runs, so it enters no index.
DROP INDEX receipts_by_key;
CREATE INDEX receipts_by_key ON receipts(tenant, key) WHERE status IN (0, 1, 3) AND typeof(key) = 'text';

PRAGMA user_version = 5;
)sql";

inline constexpr const char* create_version_6 = R"sql(
-- The bundle that was stored last of each run: what the tenant's own stream says of it.
CREATE TABLE bundles(
  tenant    BLOB NOT NULL,
  run       BLOB NOT NULL,
  stored_at INTEGER NOT NULL,
  seq       INTEGER NOT NULL,
  bytes     INTEGER NOT NULL,
  sha256    BLOB NOT NULL,
  location  TEXT NOT NULL,
  PRIMARY KEY(tenant, run)
) WITHOUT ROWID;

PRAGMA user_version = 6;
)sql";

// Frames.
inline constexpr const char* insert_frame = "INSERT INTO frames(position, folded_before, parts) VALUES(?1, ?2, ?3)";
inline constexpr const char* prune_frames = "DELETE FROM frames WHERE position < ?1";
inline constexpr const char* first_frame = "SELECT position FROM frames ORDER BY position LIMIT 1";
inline constexpr const char* last_frame = "SELECT position, folded_before FROM frames ORDER BY position DESC LIMIT 1";
inline constexpr const char* frames_folded_ahead =
    "SELECT position, folded_before FROM (SELECT position, folded_before, lag(folded_before, 1, 0) OVER (ORDER BY "
    "position) AS earlier FROM frames) WHERE typeof(folded_before) <> 'integer' OR folded_before > position "
    "OR folded_before < earlier";
inline constexpr const char* frame_sizes = "SELECT length(parts) FROM frames ORDER BY position";
inline constexpr const char* next_frame =
    "SELECT position, parts FROM frames WHERE position >= ?1 ORDER BY position LIMIT 1";

// Followers.
inline constexpr const char* all_followers = "SELECT name, position FROM followers";
inline constexpr const char* followers_ahead =
    "SELECT name, position FROM followers WHERE typeof(position) <> 'integer' OR position < 0 "
    "OR position > (SELECT coalesce(max(position), 0) FROM frames)";
inline constexpr const char* put_follower =
    "INSERT INTO followers(name, position) VALUES(?1, ?2) ON CONFLICT(name) DO UPDATE SET position = excluded.position";

// Streams.
inline constexpr const char* insert_history = "INSERT INTO history(previous, first_seq, lines) VALUES(?1, ?2, ?3)";
// The next piece of a run's stream, which must have ended at ?3 - 1.
inline constexpr const char* append_history =
    "INSERT INTO history(previous, first_seq, lines) SELECT history, ?3, ?4 FROM runs WHERE tenant = ?1 AND id = ?2 "
    "AND seq = ?3 - 1";
inline constexpr const char* find_history = "SELECT previous, first_seq, lines FROM history WHERE number = ?1";
inline constexpr const char* find_run_stream = "SELECT seq, history, head FROM runs WHERE tenant = ?1 AND id = ?2";
inline constexpr const char* find_tenant_stream = "SELECT seq, history, head FROM tenants WHERE tenant = ?1";
inline constexpr const char* run_streams =
    "SELECT tenant, id FROM runs WHERE (tenant, id) > (?1, ?2) ORDER BY tenant, id LIMIT ?3";
inline constexpr const char* tenant_streams =
    "SELECT tenant FROM tenants WHERE tenant > ?1 AND seq > 0 ORDER BY tenant LIMIT ?2";

// Pieces that no stream has: of a run or tenant whose row is gone.
inline constexpr const char* history_of_nothing =
    "SELECT count(*), min(number) FROM history WHERE number NOT IN (SELECT history FROM runs UNION ALL "
    "SELECT history FROM tenants WHERE history IS NOT NULL UNION ALL "
    "SELECT previous FROM history WHERE previous IS NOT NULL)";

// Runs.
inline constexpr const char* insert_run =
    "INSERT INTO runs(tenant, id, status, due_at, leased, created_at, updated_at, version, workflow, workspace, "
    "error_code, seq, history, head, snapshot, ready, phase) "
    "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
inline constexpr const char* update_run =
    "UPDATE runs SET status = ?3, due_at = ?4, leased = ?5, updated_at = ?6, error_code = ?7, seq = ?8, "
    "history = ?9, head = ?10, snapshot = ?11, ready = ?12, phase = ?13 WHERE tenant = ?1 AND id = ?2";
inline constexpr const char* load_runs =
    "SELECT id, status, due_at, leased, created_at, updated_at, version, workflow, workspace, error_code, seq, head, "
    "phase, snapshot FROM runs WHERE tenant = ?1 AND id >= ?2 ORDER BY id LIMIT ?3";
// ?2 status, ?3 workflow, ?4 workspace: NULL = any, but of pawl's own workflows only those that undo are
// shown to those who name none; ?5
// since; ids between ?6 and before ?7; ?8 limit.
inline constexpr const char* list_runs =
    "SELECT id, status, due_at, leased, created_at, updated_at, version, workflow, workspace, error_code, seq, head, "
    "phase FROM runs WHERE tenant = ?1 AND id >= ?6 AND id < ?7 AND (?2 IS NULL OR status = ?2) "
    "AND (workflow = ?3 OR (?3 IS NULL AND (substr(workflow, 1, 5) <> 'pawl.' OR substr(workflow, 1, 10) = "
    "'pawl.undo.'))) AND (?4 IS NULL OR workspace = ?4) AND "
    "created_at >= ?5 "
    "ORDER BY id DESC LIMIT ?8";
// The same for one status that has an index.
inline constexpr const char* list_runs_by_status =
    "SELECT id, status, due_at, leased, created_at, updated_at, version, workflow, workspace, error_code, seq, head, "
    "phase FROM runs INDEXED BY runs_by_status WHERE tenant = ?1 AND status = ?2 AND status <> 3 "
    "AND id >= ?6 AND id < ?7 AND (workflow = ?3 OR (?3 IS NULL AND (substr(workflow, 1, 5) <> 'pawl.' OR "
    "substr(workflow, 1, 10) = 'pawl.undo.'))) AND (?4 IS NULL OR workspace = ?4) "
    "AND created_at >= ?5 ORDER BY id DESC LIMIT ?8";
// The same for one who looks at an older database.
inline constexpr const char* load_runs_before_3 =
    "SELECT id, status, due_at, leased, created_at, updated_at, version, workflow, workspace, error_code, seq, head, "
    "NULL, snapshot FROM runs WHERE tenant = ?1 AND id >= ?2 ORDER BY id LIMIT ?3";
inline constexpr const char* list_runs_before_3 =
    "SELECT id, status, due_at, leased, created_at, updated_at, version, workflow, workspace, error_code, seq, head, "
    "NULL FROM runs WHERE tenant = ?1 AND id >= ?6 AND id < ?7 AND (?2 IS NULL OR status = ?2) "
    "AND (workflow = ?3 OR (?3 IS NULL AND (substr(workflow, 1, 5) <> 'pawl.' OR substr(workflow, 1, 10) = "
    "'pawl.undo.'))) AND (?4 IS NULL OR workspace = ?4) AND "
    "created_at >= ?5 "
    "ORDER BY id DESC LIMIT ?8";
inline constexpr const char* list_runs_by_status_before_3 =
    "SELECT id, status, due_at, leased, created_at, updated_at, version, workflow, workspace, error_code, seq, head, "
    "NULL FROM runs INDEXED BY runs_by_status WHERE tenant = ?1 AND status = ?2 AND status <> 3 "
    "AND id >= ?6 AND id < ?7 AND (workflow = ?3 OR (?3 IS NULL AND (substr(workflow, 1, 5) <> 'pawl.' OR "
    "substr(workflow, 1, 10) = 'pawl.undo.'))) AND (?4 IS NULL OR workspace = ?4) "
    "AND created_at >= ?5 ORDER BY id DESC LIMIT ?8";
inline constexpr const char* leased_runs = "SELECT tenant, id, due_at FROM runs WHERE leased = 1 ORDER BY tenant, id";
inline constexpr const char* due_runs =
    "SELECT due_at, tenant, id FROM runs WHERE due_at IS NOT NULL AND due_at <= ?1 "
    "AND (due_at, tenant, id) > (?2, ?3, ?4) ORDER BY due_at, tenant, id LIMIT ?5";

// Ready steps: of one tenant's runs with one status.
inline constexpr const char* idle_runs_with_ready =
    "SELECT count(*) FROM runs WHERE ready IS NOT NULL AND status NOT IN (0, 1)";
static_assert(static_cast<int>(RunStatus::created) == 0 && static_cast<int>(RunStatus::running) == 1);
inline constexpr const char* ready_after =
    "SELECT id, workspace, workflow, ready FROM runs INDEXED BY runs_by_status WHERE tenant = ?1 AND status = ?2 "
    "AND status <> 3 AND id > ?3 AND ready IS NOT NULL ORDER BY id LIMIT ?4";

// Requests.
inline constexpr const char* insert_request = "INSERT INTO requests(tenant, name, run) VALUES(?1, ?2, ?3)";
inline constexpr const char* find_request = "SELECT run FROM requests WHERE tenant = ?1 AND name = ?2";
inline constexpr const char* count_requests = "SELECT count(*) FROM requests";
inline constexpr const char* count_waiting_approvals =
    "SELECT count(*), min(a.requested_at) FROM tenants t JOIN approvals a INDEXED BY approvals_by_status "
    "ON a.tenant = t.tenant AND a.status = 0";
inline constexpr const char* count_receipts_in_doubt =
    "SELECT count(*) FROM receipts INDEXED BY receipts_in_doubt WHERE status = 3";

// Approvals.
inline constexpr const char* put_approval =
    "INSERT INTO approvals(tenant, id, run, step, status, tier, requested_at, expires_at) "
    "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT(tenant, id) DO UPDATE SET "
    "status = excluded.status, tier = excluded.tier, expires_at = excluded.expires_at";
inline constexpr const char* find_approval =
    "SELECT id, run, step, status, tier, requested_at, expires_at FROM approvals WHERE tenant = ?1 AND id = ?2";
inline constexpr const char* list_approvals =
    "SELECT id, run, step, status, tier, requested_at, expires_at FROM approvals "
    "WHERE tenant = ?1 AND status = ?2 AND (requested_at, id) < (?3, ?4) ORDER BY requested_at DESC, id DESC LIMIT ?5";

// Receipts.
inline constexpr const char* put_receipt =
    "INSERT INTO receipts(tenant, id, run, status, key) VALUES(?1, ?2, ?3, ?4, ?5) "
    "ON CONFLICT(tenant, id) DO UPDATE SET status = excluded.status";
inline constexpr const char* find_receipt = "SELECT id, run, status, key FROM receipts WHERE tenant = ?1 AND id = ?2";
// By name: without figures about the tables SQLite takes the primary key, and walks all receipts of the tenant.
inline constexpr const char* find_effects =
    "SELECT id, run, status, key FROM receipts INDEXED BY receipts_by_key "
    "WHERE tenant = ?1 AND key = ?2 AND status IN (0, 1, 3) AND typeof(key) = 'text'";
inline constexpr const char* list_receipts =
    "SELECT id, run, status, key FROM receipts WHERE tenant = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3";
inline constexpr const char* list_receipts_by_status =
    "SELECT id, run, status, key FROM receipts WHERE tenant = ?1 AND id < ?2 AND status = ?4 ORDER BY id DESC LIMIT ?3";
inline constexpr const char* list_receipts_in_doubt =
    "SELECT id, run, status, key FROM receipts INDEXED BY receipts_in_doubt WHERE tenant = ?1 AND id < ?2 AND status = "
    "3 ORDER BY id DESC LIMIT ?3";

// Stored bundles.
inline constexpr const char* put_bundle =
    "INSERT INTO bundles(tenant, run, stored_at, seq, bytes, sha256, location) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7) "
    "ON CONFLICT(tenant, run) DO UPDATE SET stored_at = excluded.stored_at, seq = excluded.seq, "
    "bytes = excluded.bytes, sha256 = excluded.sha256, location = excluded.location";
// From ?2 on: a run's own, or all.
inline constexpr const char* bundles_from =
    "SELECT run, stored_at, seq, bytes, sha256, location FROM bundles WHERE tenant = ?1 AND run >= ?2 "
    "ORDER BY run LIMIT ?3";

// Tenants and their workflows.
inline constexpr const char* put_tenant =
    "INSERT INTO tenants(tenant, seq, history, head, state) VALUES(?1, ?2, ?3, ?4, ?5) ON CONFLICT(tenant) DO UPDATE "
    "SET seq = excluded.seq, history = excluded.history, head = excluded.head, state = excluded.state";
inline constexpr const char* all_tenants = "SELECT tenant, state FROM tenants ORDER BY tenant";
inline constexpr const char* put_workflow =
    "INSERT INTO workflows(tenant, name, version, digest, source) VALUES(?1, ?2, ?3, ?4, ?5) "
    "ON CONFLICT(tenant, name, version) DO UPDATE SET digest = excluded.digest, source = excluded.source";
inline constexpr const char* find_workflow =
    "SELECT digest, source FROM workflows WHERE tenant = ?1 AND name = ?2 AND version = ?3";
inline constexpr const char* workflows_after =
    "SELECT tenant, name, version, digest, source FROM workflows WHERE (tenant, name, version) > (?1, ?2, ?3) "
    "ORDER BY tenant, name, version LIMIT ?4";

// Starts.
inline constexpr const char* insert_start =
    "INSERT INTO starts(at, position, ordinal, tenant, workflow) VALUES(?1, ?2, ?3, ?4, ?5)";
inline constexpr const char* newest_start = "SELECT at FROM starts ORDER BY at DESC LIMIT 1";
inline constexpr const char* prune_starts =
    "DELETE FROM starts WHERE (at, position, ordinal) IN "
    "(SELECT at, position, ordinal FROM starts WHERE at < ?1 ORDER BY at, position, ordinal LIMIT ?2)";
inline constexpr const char* starts_after =
    "SELECT at, position, ordinal, tenant, workflow FROM starts WHERE (at, position, ordinal) > (?1, ?2, ?3) "
    "ORDER BY at, position, ordinal LIMIT ?4";

}  // namespace pawl::sqlite
