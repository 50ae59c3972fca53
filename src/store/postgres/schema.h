// The tables, whole. Tenants lead every key; times are milliseconds since 1970; enumerators are stored as their
// numbers.
//
// Rows are written in the same transaction as the events they come from, so there is nothing to catch up with after a
// crash. What keeps writing cheap: an update that changes no indexed column stays on its page and touches no index,
// so `runs` has few indexes and room in its pages.
//
// A migration is a script that is run once, in one transaction with those that follow it. Functions and the types of
// their arguments are no part of the numbered scripts: they hold nothing, and are made anew by every migration.
#pragma once

#include <array>

#include "core/receipt_lifecycle.h"
#include "core/run_lifecycle.h"

namespace pawl::postgres {

// Statuses are stored as their numbers, and an index and a function name some.
static_assert(static_cast<int>(RunStatus::running) == 1 && static_cast<int>(RunStatus::success) == 3);

inline constexpr const char* migration_1 = R"sql(
-- Who has written, and what its last commit was: how a server whose connection broke finds out.
CREATE TABLE pawl.servers(
  number     integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  epoch      bigint NOT NULL DEFAULT 1,   -- each connection that commits has its own; older ones are refused
  commits    bigint NOT NULL DEFAULT 0,
  lost       integer[] NOT NULL DEFAULT '{}',  -- the last commit's result
  started_at bigint NOT NULL,
  seen_at    bigint NOT NULL
) WITH (fillfactor = 10);

-- A feed's position is the number of the transaction that wrote the event, plus this. Numbers start over when a
-- database is restored into another cluster; positions never do.
CREATE TABLE pawl.journal(origin bigint NOT NULL);
INSERT INTO pawl.journal VALUES(0);

CREATE TABLE pawl.tenants(
  tenant uuid PRIMARY KEY,
  seq    bigint NOT NULL,
  head   bytea NOT NULL,
  name   text NOT NULL UNIQUE,
  state  bytea NOT NULL
);

CREATE TABLE pawl.workflows(
  tenant  uuid NOT NULL,
  name    text NOT NULL,
  version integer NOT NULL,
  digest  text NOT NULL,
  source  bytea NOT NULL,
  PRIMARY KEY(tenant, name, version)
);

CREATE TABLE pawl.runs(
  tenant     uuid NOT NULL,
  id         uuid NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  due_at     bigint,
  check_at   bigint,  -- due_at, or up to 5 s earlier: a run that moves on quickly is indexed once, not at every step.
                      -- While a running one waits for a worker and nothing is due, what it was; see Committer::tidy
  seq        bigint NOT NULL,
  revision   bigint NOT NULL,
  version    integer NOT NULL,
  leases     integer NOT NULL,
  status     smallint NOT NULL,
  phase      smallint NOT NULL,
  leased     boolean NOT NULL,
  workflow   text NOT NULL,
  workspace  text NOT NULL,
  error_code text NOT NULL,
  head       bytea NOT NULL,
  snapshot   bytea NOT NULL,
  PRIMARY KEY(tenant, id)
) WITH (fillfactor = 60, toast_tuple_target = 4000, autovacuum_vacuum_scale_factor = 0.05,
        autovacuum_analyze_scale_factor = 0.05);
-- Most runs succeed, so successes are found by walking the runs themselves.
CREATE INDEX runs_by_status ON pawl.runs(tenant, status, id) WHERE status <> 3;
CREATE INDEX runs_due ON pawl.runs(check_at) WHERE check_at IS NOT NULL;

-- The journal: what each commit appended to each stream.
CREATE TABLE pawl.events(
  tenant    uuid NOT NULL,
  stream    uuid NOT NULL,
  first_seq bigint NOT NULL,
  last_seq  bigint NOT NULL,
  position  bigint NOT NULL,
  lines     bytea NOT NULL,
  PRIMARY KEY(tenant, stream, first_seq)
) WITH (toast_tuple_target = 4000);
CREATE INDEX events_by_position ON pawl.events(position);

-- Steps that wait for a worker. Rows come and go all the time.
CREATE TABLE pawl.ready(
  tenant      uuid NOT NULL,
  run         uuid NOT NULL,
  step        integer NOT NULL,
  taken_until bigint NOT NULL,
  fresh       boolean NOT NULL,
  tool        text NOT NULL,
  workspace   text NOT NULL,
  workflow    text NOT NULL,
  PRIMARY KEY(tenant, run, step)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX ready_queue ON pawl.ready(tool, tenant, workflow, fresh, run, step);

CREATE TABLE pawl.approvals(
  tenant       uuid NOT NULL,
  id           uuid NOT NULL,
  run          uuid NOT NULL,
  requested_at bigint NOT NULL,
  expires_at   bigint NOT NULL,
  status       smallint NOT NULL,
  tier         smallint NOT NULL,
  step         text NOT NULL,
  PRIMARY KEY(tenant, id)
);
CREATE INDEX approvals_by_status ON pawl.approvals(tenant, status, requested_at, id);

-- What a repeated request to create a run finds it by: the key's SHA-256, because keys are as long as callers like.
CREATE TABLE pawl.requests(
  tenant uuid NOT NULL,
  key    bytea NOT NULL,
  run    uuid NOT NULL,
  PRIMARY KEY(tenant, key)
);

-- Starts of the last minute, of tenants and workflows with max_runs_per_min.
CREATE TABLE pawl.starts(
  tenant   uuid NOT NULL,
  at       bigint NOT NULL,
  number   bigint GENERATED ALWAYS AS IDENTITY,
  run      uuid NOT NULL,
  workflow text NOT NULL,
  PRIMARY KEY(tenant, at, number)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- One row for each tenant (workflow '') and workflow with a cap. Whoever changes what it counts holds its lock, so
-- those without caps have none.
CREATE TABLE pawl.meters(
  tenant           uuid NOT NULL,
  workflow         text NOT NULL,
  max_concurrency  integer,
  max_runs_per_min integer,
  running          bigint NOT NULL,
  PRIMARY KEY(tenant, workflow)
) WITH (fillfactor = 20);

-- The second wall between tenants: a transaction sees one tenant, or all ('*') when it says so, or nothing.
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['tenants', 'workflows', 'runs', 'events', 'ready', 'approvals', 'requests', 'starts',
                              'meters'] LOOP
    EXECUTE format('ALTER TABLE pawl.%I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE pawl.%I FORCE ROW LEVEL SECURITY', name);
    -- As sub-selects they are asked for once a statement, not once a row.
    EXECUTE format('CREATE POLICY one_tenant ON pawl.%I USING ((SELECT current_setting(''pawl.tenant'', true)) = ''*'' '
                   'OR tenant::text = (SELECT current_setting(''pawl.tenant'', true)))', name);
  END LOOP;
END
$$;
)sql";

// Runs that were created together move together: there is room on a page for all of its rows once more.
inline constexpr const char* migration_2 = R"sql(
ALTER TABLE pawl.runs SET (fillfactor = 45);
)sql";

inline constexpr const char* migration_3 = R"sql(
-- Where a receipt is found by its id; what it says stands in its run.
CREATE TABLE pawl.receipts(
  tenant uuid NOT NULL,
  id     uuid NOT NULL,
  run    uuid NOT NULL,
  status smallint NOT NULL,
  key    text NOT NULL,
  PRIMARY KEY(tenant, id)
);
CREATE INDEX receipts_of_run ON pawl.receipts(tenant, run);
CREATE INDEX receipts_in_doubt ON pawl.receipts(tenant, id) WHERE status = 3;

-- Which run's receipt holds an idempotency key (its SHA-256). One effect under a key, whoever has it.
CREATE TABLE pawl.effects(
  tenant uuid NOT NULL,
  key    bytea NOT NULL,
  run    uuid NOT NULL,
  PRIMARY KEY(tenant, key)
);

-- Followers of the journal, which continue after a restart: the last position that each has handled, and the server
-- that runs it.
CREATE TABLE pawl.followers(
  name       text PRIMARY KEY,
  position   bigint NOT NULL,
  holder     integer NOT NULL,
  held_until bigint NOT NULL
) WITH (fillfactor = 10);

DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['receipts', 'effects'] LOOP
    EXECUTE format('ALTER TABLE pawl.%I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE pawl.%I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('CREATE POLICY one_tenant ON pawl.%I USING ((SELECT current_setting(''pawl.tenant'', true)) = ''*'' '
                   'OR tenant::text = (SELECT current_setting(''pawl.tenant'', true)))', name);
  END LOOP;
END
$$;
)sql";
static_assert(static_cast<int>(ReceiptStatus::intended) == 0 && static_cast<int>(ReceiptStatus::succeeded) == 1 &&
              static_cast<int>(ReceiptStatus::in_doubt) == 3 && enum_count<ReceiptStatus> == 5);

inline constexpr const char* migration_4 = "-- Functions only.\n";

inline constexpr const char* migration_5 = R"sql(
-- The bundle that was stored last of each run: what the tenant's own stream says of it. `run` is its id as text.
CREATE TABLE pawl.bundles(
  tenant    uuid NOT NULL,
  run       text NOT NULL,
  stored_at bigint NOT NULL,
  seq       bigint NOT NULL,
  bytes     bigint NOT NULL,
  sha256    text NOT NULL,
  location  text NOT NULL,
  PRIMARY KEY(tenant, run)
);
ALTER TABLE pawl.bundles ENABLE ROW LEVEL SECURITY;
ALTER TABLE pawl.bundles FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON pawl.bundles USING ((SELECT current_setting('pawl.tenant', true)) = '*'
  OR tenant::text = (SELECT current_setting('pawl.tenant', true)));

-- Takes up what lines of a tenant's stream say of stored bundles, in their order.
CREATE FUNCTION pawl.note_bundles(p_tenant uuid, p_lines bytea) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_line text;
  v_event json;
BEGIN
  IF position('"type":"bundle.stored"'::bytea IN p_lines) = 0 THEN
    RETURN;
  END IF;
  FOREACH v_line IN ARRAY string_to_array(convert_from(p_lines, 'UTF8'), E'\n') LOOP
    CONTINUE WHEN position('"type":"bundle.stored"' IN v_line) = 0;
    v_event := v_line::json;
    CONTINUE WHEN v_event ->> 'type' <> 'bundle.stored';
    INSERT INTO pawl.bundles(tenant, run, stored_at, seq, bytes, sha256, location)
      VALUES (p_tenant, v_event ->> 'run', (v_event ->> 'at')::bigint, (v_event ->> 'seq')::bigint,
              (v_event ->> 'bytes')::bigint, v_event ->> 'sha256', v_event ->> 'where')
      ON CONFLICT (tenant, run) DO UPDATE SET stored_at = excluded.stored_at, seq = excluded.seq,
        bytes = excluded.bytes, sha256 = excluded.sha256, location = excluded.location;
  END LOOP;
END
$$;

DO $$
DECLARE
  v_row record;
BEGIN
  PERFORM set_config('pawl.tenant', '*', true);
  FOR v_row IN SELECT e.tenant, e.lines FROM pawl.events e WHERE e.stream = e.tenant ORDER BY e.tenant, e.first_seq LOOP
    PERFORM pawl.note_bundles(v_row.tenant, v_row.lines);
  END LOOP;
END
$$;
)sql";

inline constexpr std::array migrations{migration_1, migration_2, migration_3, migration_4, migration_5};
inline constexpr int schema_version = static_cast<int>(migrations.size());

}  // namespace pawl::postgres
