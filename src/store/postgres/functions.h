// What the servers ask of the database in one round trip. Each function is a whole transaction by itself, needs no
// session state and no prepared statement, so it works through a pooler; its plans are cached where it runs.
//
// Arguments are arrays of rows (the types below), encoded by batch.cc. A row names a run or tenant of the same commit
// by its place, counted from 1.
//
// Locks are taken in this order, rows of a table in the order of their keys, which the arguments already have:
//   servers, the counting lock, meters, effects, runs, requests, new runs, tenants
// The plans walk the arguments in that order and look each row up by its key, whatever the tables' statistics say: they
// are made when tables are empty, and kept. The settings leave no other kind of join. `tenant = ANY(ARRAY[...])` says
// the same as `=`, but is no condition that a walk through the whole index in the order of tenants would be good for,
// so the table cannot come first either.
#pragma once

namespace pawl::postgres {

inline constexpr const char* drop_functions = R"sql(
DROP FUNCTION IF EXISTS pawl.commit, pawl.take_ready, pawl.set_meter, pawl.now_ms;
DROP TYPE IF EXISTS pawl.run_write, pawl.ready_write, pawl.request_write, pawl.approval_write, pawl.receipt_write,
  pawl.start_write, pawl.tenant_write, pawl.workflow_write, pawl.meter_key;
)sql";

inline constexpr const char* create_types = R"sql(
CREATE TYPE pawl.run_write AS (
  tenant uuid, id uuid,
  follows_seq bigint, follows bytea, follows_revision bigint,
  seq bigint, head bytea, revision bigint, snapshot bytea,
  status smallint, due_at bigint, leased boolean, leases integer, leases_before integer, claims integer,
  created_at bigint, updated_at bigint, version integer, workflow text, workspace text, error_code text, phase smallint,
  first_seq bigint, lines bytea,
  was_ready boolean, ready_steps integer[],
  wants_latest boolean, starts integer,
  tenant_meter integer, workflow_meter integer);
CREATE TYPE pawl.ready_write AS (
  place integer, tenant uuid, run uuid, step integer, fresh boolean, held boolean, tool text, workspace text,
  workflow text);
CREATE TYPE pawl.request_write AS (place integer, tenant uuid, key bytea, run uuid);
CREATE TYPE pawl.approval_write AS (
  place integer, tenant uuid, id uuid, run uuid, requested_at bigint, expires_at bigint, status smallint, tier smallint,
  step text);
CREATE TYPE pawl.receipt_write AS (
  place integer, tenant uuid, hash bytea, id uuid, run uuid, status smallint, key text);
CREATE TYPE pawl.start_write AS (place integer, tenant uuid, at bigint, run uuid, workflow text);
CREATE TYPE pawl.tenant_write AS (
  tenant uuid, follows_seq bigint, follows bytea, seq bigint, head bytea, name text, state bytea,
  first_seq bigint, lines bytea, max_concurrency integer, max_runs_per_min integer);
CREATE TYPE pawl.workflow_write AS (
  place integer, tenant uuid, name text, version integer, digest text, source bytea,
  max_concurrency integer, max_runs_per_min integer);
CREATE TYPE pawl.meter_key AS (tenant uuid, workflow text);

CREATE FUNCTION pawl.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS
  $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;
)sql";

// Gives a tenant or workflow these caps. `counting`: the caller holds a lock that no writer of runs can be beside.
inline constexpr const char* create_set_meter = R"sql(
CREATE FUNCTION pawl.set_meter(p_tenant uuid, p_workflow text, p_max_concurrency integer, p_max_runs_per_min integer,
                               p_counting boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF p_max_concurrency IS NULL AND p_max_runs_per_min IS NULL THEN
    DELETE FROM pawl.meters WHERE tenant = p_tenant AND workflow = p_workflow;
    RETURN;
  END IF;
  UPDATE pawl.meters SET max_concurrency = p_max_concurrency, max_runs_per_min = p_max_runs_per_min
    WHERE tenant = p_tenant AND workflow = p_workflow;
  IF FOUND THEN
    RETURN;
  END IF;
  IF NOT p_counting THEN
    RAISE EXCEPTION 'a meter has gone meanwhile' USING ERRCODE = 'serialization_failure';
  END IF;
  INSERT INTO pawl.meters(tenant, workflow, max_concurrency, max_runs_per_min, running)
    SELECT p_tenant, p_workflow, p_max_concurrency, p_max_runs_per_min, coalesce(sum(r.leases), 0)
    FROM pawl.runs r WHERE r.tenant = p_tenant AND r.status = ANY('{0,1,2}') AND r.leases > 0
      AND (p_workflow = '' OR r.workflow = p_workflow);
END
$$;
)sql";

// Writes all of it, except what somebody else was faster with, and names that: 4 * place + kind, where kind is 0 for a
// run that somebody else has written, 1 for one that max_concurrency has no room for, 3 for one that max_runs_per_min
// has no room for, 2 for a tenant. The first p_existing of p_runs have a row, the others are new; both parts are
// ordered.
inline constexpr const char* create_commit = R"sql(
CREATE FUNCTION pawl.commit(
  p_server integer, p_epoch bigint, p_number bigint, p_existing integer, p_hold bigint,
  p_runs pawl.run_write[], p_ready pawl.ready_write[], p_requests pawl.request_write[],
  p_approvals pawl.approval_write[], p_receipts pawl.receipt_write[], p_starts pawl.start_write[],
  p_tenants pawl.tenant_write[],
  p_workflows pawl.workflow_write[], p_meters pawl.meter_key[]) RETURNS integer[]
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  v_now bigint := pawl.now_ms();
  v_xid xid;
  v_position bigint;
  v_counting boolean := false;
  v_metered boolean := false;
  v_room bigint[];    -- of each of p_meters; NULL: no end
  v_pace bigint[];
  v_growth bigint[];
  v_fits integer[];
  v_out integer[] := '{}';     -- places of runs of which nothing is written
  v_capped integer[] := '{}';  -- of these, the ones that a cap has no room for,
  v_paced integer[] := '{}';   -- and of these, the ones that may not start yet
  v_tenants_out integer[] := '{}';
  v_found integer[];
  v_count integer;
  v_before integer;
  v_row record;
  v_lost integer[];
BEGIN
  PERFORM set_config('pawl.tenant', '*', true);
  UPDATE pawl.servers SET commits = p_number, lost = '{}', seen_at = v_now
    WHERE number = p_server AND epoch = p_epoch AND commits = p_number - 1;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'server % has moved on from epoch %', p_server, p_epoch USING ERRCODE = 'PAWL1';
  END IF;
  v_xid := pg_current_xact_id()::xid;
  SELECT pg_current_xact_id()::text::bigint + origin INTO v_position FROM pawl.journal;

  -- A cap that is new must count what is running, while nobody commits. Everybody else shares that lock, and looks at
  -- meters after taking it: so none is made behind their backs.
  IF cardinality(p_tenants) + cardinality(p_workflows) > 0 THEN
    v_counting := EXISTS (
      SELECT FROM (SELECT t.tenant, '' AS workflow, t.max_concurrency, t.max_runs_per_min FROM unnest(p_tenants) t
                   UNION ALL
                   SELECT f.tenant, f.name, f.max_concurrency, f.max_runs_per_min FROM unnest(p_workflows) f) k
      WHERE (k.max_concurrency IS NOT NULL OR k.max_runs_per_min IS NOT NULL)
        AND NOT EXISTS (SELECT FROM pawl.meters m WHERE m.tenant = k.tenant AND m.workflow = k.workflow));
  END IF;
  IF v_counting THEN
    PERFORM pg_advisory_xact_lock(1885435757);
  ELSE
    PERFORM pg_advisory_xact_lock_shared(1885435757);
  END IF;

  -- What caps leave room for.
  IF cardinality(p_meters) > 0 THEN
    FOR v_row IN
      SELECT k.ordinality AS place, m.tenant, m.workflow, m.max_concurrency, m.max_runs_per_min, m.running
      FROM unnest(p_meters) WITH ORDINALITY k
        JOIN pawl.meters m ON m.tenant = ANY(ARRAY[k.tenant]) AND m.workflow = k.workflow
      FOR UPDATE OF m
    LOOP
      IF NOT v_metered THEN
        v_metered := true;
        v_room := array_fill(NULL::bigint, ARRAY[cardinality(p_meters)]);
        v_pace := v_room;
        v_growth := array_fill(0::bigint, ARRAY[cardinality(p_meters)]);
      END IF;
      v_room[v_row.place] := v_row.max_concurrency - v_row.running;
      IF v_row.max_runs_per_min IS NOT NULL AND cardinality(p_starts) > 0 THEN
        v_pace[v_row.place] := v_row.max_runs_per_min - (
          SELECT count(*) FROM pawl.starts s WHERE s.tenant = v_row.tenant AND s.at > v_now - 60000
            AND (v_row.workflow = '' OR s.workflow = v_row.workflow));
      END IF;
    END LOOP;
  END IF;

  IF v_metered THEN
    SELECT coalesce(array_agg(place), '{}') INTO v_fits FROM (
      SELECT w.ordinality AS place
      FROM unnest(p_runs) WITH ORDINALITY w JOIN pawl.runs r ON r.tenant = ANY(ARRAY[w.tenant]) AND r.id = w.id
      WHERE w.ordinality <= p_existing AND r.seq = w.follows_seq AND r.head = w.follows
        AND (w.follows_revision = 0 OR r.revision = w.follows_revision)
      FOR UPDATE OF r) fitting;
    -- Those that give room back come first.
    FOR v_row IN
      SELECT w.ordinality AS place, w.leases - w.leases_before AS growth, w.claims, w.starts, w.tenant_meter,
        w.workflow_meter
      FROM unnest(p_runs) WITH ORDINALITY w
      WHERE (w.leases <> w.leases_before OR w.claims > 0 OR w.starts > 0)
        AND (w.ordinality > p_existing OR w.ordinality = ANY(v_fits))
      ORDER BY w.leases > w.leases_before, w.ordinality
    LOOP
      -- Also one that takes what it gives back: under a cap that was lowered there may be no room for it.
      IF ((v_row.growth > 0 OR v_row.claims > 0)
          AND (v_room[v_row.tenant_meter] < v_row.growth OR v_room[v_row.workflow_meter] < v_row.growth))
        OR (v_row.starts > 0 AND (v_pace[v_row.tenant_meter] < v_row.starts
          OR v_pace[v_row.workflow_meter] < v_row.starts))
      THEN
        v_capped := v_capped || v_row.place::integer;
        IF v_row.starts > 0 AND (v_pace[v_row.tenant_meter] < v_row.starts
            OR v_pace[v_row.workflow_meter] < v_row.starts) THEN
          v_paced := v_paced || v_row.place::integer;
        END IF;
      ELSE
        v_room[v_row.tenant_meter] := v_room[v_row.tenant_meter] - v_row.growth;
        v_room[v_row.workflow_meter] := v_room[v_row.workflow_meter] - v_row.growth;
        v_pace[v_row.tenant_meter] := v_pace[v_row.tenant_meter] - v_row.starts;
        v_pace[v_row.workflow_meter] := v_pace[v_row.workflow_meter] - v_row.starts;
      END IF;
    END LOOP;
    v_out := v_capped;
  END IF;

  -- A run that has an effect under a key that another run's receipt holds is left out.
  IF cardinality(p_receipts) > 0 THEN
    INSERT INTO pawl.effects(tenant, key, run)
      SELECT q.tenant, q.hash, q.run FROM unnest(p_receipts) q
      WHERE q.status = ANY('{0,1,3}') AND q.place <> ALL(v_out)
      ON CONFLICT DO NOTHING;
    v_out := v_out || ARRAY(
      SELECT DISTINCT q.place FROM unnest(p_receipts) q
        JOIN pawl.effects e ON e.tenant = ANY(ARRAY[q.tenant]) AND e.key = q.hash
      WHERE q.status = ANY('{0,1,3}') AND q.place <> ALL(v_out) AND e.run <> q.run);
  END IF;

  -- Runs that have a row.
  IF p_existing > 0 THEN
    WITH written AS (
      UPDATE pawl.runs r
      SET status = w.status, due_at = w.due_at, leased = w.leased, leases = w.leases, updated_at = w.updated_at,
        check_at = CASE WHEN w.due_at IS NULL AND w.status = 1 OR r.check_at BETWEEN w.due_at - 5000 AND w.due_at
          THEN r.check_at ELSE w.due_at END,
        error_code = w.error_code, phase = w.phase, seq = w.seq, head = w.head, revision = w.revision,
        snapshot = w.snapshot
      FROM unnest(p_runs) WITH ORDINALITY w
      WHERE w.ordinality <= p_existing AND w.ordinality <> ALL(v_out)
        AND r.tenant = ANY(ARRAY[w.tenant]) AND r.id = w.id
        AND r.seq = w.follows_seq AND r.head = w.follows
        AND (w.follows_revision = 0 OR r.revision = w.follows_revision)
      RETURNING w.ordinality)
    SELECT coalesce(array_agg(ordinality), '{}') INTO v_found FROM written;
    IF cardinality(v_found) < p_existing THEN
      v_out := v_out || ARRAY(
        SELECT place FROM generate_series(1, p_existing) place WHERE place <> ALL(v_found) AND place <> ALL(v_out));
    END IF;
  END IF;

  -- New runs, unless one of their keys is taken, or their workflow has a later version.
  IF p_existing < cardinality(p_runs) THEN
    v_out := v_out || ARRAY(
      SELECT w.ordinality::integer FROM unnest(p_runs) WITH ORDINALITY w
      WHERE w.ordinality > p_existing AND w.ordinality <> ALL(v_out) AND w.wants_latest
        AND EXISTS (SELECT FROM pawl.workflows f
                    WHERE f.tenant = w.tenant AND f.name = w.workflow AND f.version > w.version));
    v_before := cardinality(v_out);
    IF cardinality(p_requests) > 0 THEN
      INSERT INTO pawl.requests(tenant, key, run)
        SELECT q.tenant, q.key, q.run FROM unnest(p_requests) q WHERE q.place <> ALL(v_out)
        ON CONFLICT DO NOTHING;
      GET DIAGNOSTICS v_count = ROW_COUNT;
      IF v_count < cardinality(p_requests) THEN
        v_out := v_out || ARRAY(
          SELECT DISTINCT q.place FROM unnest(p_requests) q
          WHERE q.place <> ALL(v_out)
            AND NOT EXISTS (SELECT FROM pawl.requests r
                            WHERE r.tenant = q.tenant AND r.key = q.key AND r.run = q.run AND r.xmin = v_xid));
      END IF;
    END IF;
    INSERT INTO pawl.runs(tenant, id, created_at, updated_at, due_at, check_at, seq, revision, version, leases, status,
                          phase, leased, workflow, workspace, error_code, head, snapshot)
      SELECT w.tenant, w.id, w.created_at, w.updated_at, w.due_at, w.due_at, w.seq, w.revision, w.version, w.leases,
        w.status, w.phase, w.leased, w.workflow, w.workspace, w.error_code, w.head, w.snapshot
      FROM unnest(p_runs) WITH ORDINALITY w WHERE w.ordinality > p_existing AND w.ordinality <> ALL(v_out)
      ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count < cardinality(p_runs) - p_existing
        - (SELECT count(*) FROM unnest(v_out) place WHERE place > p_existing) THEN
      v_out := v_out || ARRAY(
        SELECT w.ordinality::integer FROM unnest(p_runs) WITH ORDINALITY w
        WHERE w.ordinality > p_existing AND w.ordinality <> ALL(v_out)
          AND NOT EXISTS (SELECT FROM pawl.runs r WHERE r.tenant = w.tenant AND r.id = w.id AND r.xmin = v_xid));
    END IF;
    -- A run that is left out gives back the keys that it did get.
    IF cardinality(v_out) > v_before AND cardinality(p_requests) > 0 THEN
      DELETE FROM pawl.requests r USING unnest(p_requests) q
        WHERE q.place = ANY(v_out) AND r.tenant = ANY(ARRAY[q.tenant])
          AND r.key = q.key AND r.run = q.run AND r.xmin = v_xid;
    END IF;
  END IF;

  IF cardinality(p_runs) > cardinality(v_out) THEN
    INSERT INTO pawl.events(tenant, stream, first_seq, last_seq, position, lines)
      SELECT w.tenant, w.id, w.first_seq, w.seq, v_position, w.lines FROM unnest(p_runs) WITH ORDINALITY w
      WHERE w.lines IS NOT NULL AND w.ordinality <> ALL(v_out);
    DELETE FROM pawl.ready r USING unnest(p_runs) WITH ORDINALITY w
      WHERE w.was_ready AND w.ordinality <> ALL(v_out) AND r.tenant = ANY(ARRAY[w.tenant]) AND r.run = w.id
        AND r.step <> ALL(w.ready_steps);
  END IF;
  IF cardinality(p_ready) > 0 THEN
    INSERT INTO pawl.ready AS r (tenant, run, step, taken_until, fresh, tool, workspace, workflow)
      SELECT n.tenant, n.run, n.step, CASE WHEN n.held THEN v_now + p_hold ELSE 0 END, n.fresh, n.tool, n.workspace,
        n.workflow
      FROM unnest(p_ready) n WHERE n.place <> ALL(v_out)
      ON CONFLICT (tenant, run, step) DO UPDATE SET fresh = excluded.fresh, taken_until = excluded.taken_until
        WHERE r.fresh <> excluded.fresh OR r.taken_until < excluded.taken_until;
  END IF;
  IF cardinality(p_approvals) > 0 THEN
    INSERT INTO pawl.approvals(tenant, id, run, requested_at, expires_at, status, tier, step)
      SELECT a.tenant, a.id, a.run, a.requested_at, a.expires_at, a.status, a.tier, a.step
      FROM unnest(p_approvals) a WHERE a.place <> ALL(v_out)
      ON CONFLICT (tenant, id) DO UPDATE
        SET status = excluded.status, tier = excluded.tier, expires_at = excluded.expires_at;
  END IF;
  IF cardinality(p_receipts) > 0 THEN
    -- Keys that a run got which is left out, and those that nothing stands under any more.
    DELETE FROM pawl.effects e USING unnest(p_receipts) q
      WHERE e.tenant = ANY(ARRAY[q.tenant]) AND e.key = q.hash AND e.run = q.run
        AND CASE WHEN q.place = ANY(v_out) THEN e.xmin = v_xid
                 ELSE q.status <> ALL('{0,1,3}')
                   AND NOT EXISTS (SELECT FROM unnest(p_receipts) o
                                   WHERE o.place = q.place AND o.hash = q.hash AND o.status = ANY('{0,1,3}')) END;
    INSERT INTO pawl.receipts(tenant, id, run, status, key)
      SELECT q.tenant, q.id, q.run, q.status, q.key FROM unnest(p_receipts) q WHERE q.place <> ALL(v_out)
      ON CONFLICT (tenant, id) DO UPDATE SET status = excluded.status;
  END IF;
  IF cardinality(p_starts) > 0 THEN
    INSERT INTO pawl.starts(tenant, at, run, workflow)
      SELECT s.tenant, s.at, s.run, s.workflow FROM unnest(p_starts) s WHERE s.place <> ALL(v_out);
  END IF;

  IF v_metered THEN
    FOR v_row IN
      SELECT w.leases - w.leases_before AS growth, w.tenant_meter, w.workflow_meter
      FROM unnest(p_runs) WITH ORDINALITY w WHERE w.leases <> w.leases_before AND w.ordinality <> ALL(v_out)
    LOOP
      v_growth[v_row.tenant_meter] := v_growth[v_row.tenant_meter] + v_row.growth;
      v_growth[v_row.workflow_meter] := v_growth[v_row.workflow_meter] + v_row.growth;
    END LOOP;
    UPDATE pawl.meters m SET running = m.running + v_growth[k.ordinality]
      FROM unnest(p_meters) WITH ORDINALITY k
      WHERE v_growth[k.ordinality] <> 0 AND m.tenant = ANY(ARRAY[k.tenant]) AND m.workflow = k.workflow;
  END IF;

  -- Tenants and what they publish: seldom, so one by one.
  IF cardinality(p_tenants) > 0 THEN
    FOR v_row IN SELECT * FROM unnest(p_tenants) WITH ORDINALITY LOOP
      IF v_row.follows_seq = 0 THEN
        INSERT INTO pawl.tenants(tenant, seq, head, name, state) VALUES
          (v_row.tenant, v_row.seq, v_row.head, v_row.name, v_row.state) ON CONFLICT DO NOTHING;
      ELSE
        UPDATE pawl.tenants SET seq = v_row.seq, head = v_row.head, state = v_row.state
          WHERE tenant = v_row.tenant AND seq = v_row.follows_seq AND head = v_row.follows;
      END IF;
      IF NOT FOUND THEN
        v_tenants_out := v_tenants_out || v_row.ordinality::integer;
        CONTINUE;
      END IF;
      IF v_row.lines IS NOT NULL THEN
        INSERT INTO pawl.events(tenant, stream, first_seq, last_seq, position, lines)
          VALUES (v_row.tenant, v_row.tenant, v_row.first_seq, v_row.seq, v_position, v_row.lines);
        PERFORM pawl.note_bundles(v_row.tenant, v_row.lines);
      END IF;
      PERFORM pawl.set_meter(v_row.tenant, '', v_row.max_concurrency, v_row.max_runs_per_min, v_counting);
    END LOOP;
  END IF;
  IF cardinality(p_workflows) > 0 THEN
    FOR v_row IN SELECT * FROM unnest(p_workflows) f WHERE f.place <> ALL(v_tenants_out) LOOP
      INSERT INTO pawl.workflows(tenant, name, version, digest, source)
        VALUES (v_row.tenant, v_row.name, v_row.version, v_row.digest, v_row.source)
        ON CONFLICT (tenant, name, version) DO UPDATE SET digest = excluded.digest, source = excluded.source;
      IF NOT EXISTS (SELECT FROM pawl.workflows f
                     WHERE f.tenant = v_row.tenant AND f.name = v_row.name AND f.version > v_row.version) THEN
        PERFORM pawl.set_meter(v_row.tenant, v_row.name, v_row.max_concurrency, v_row.max_runs_per_min, v_counting);
      END IF;
    END LOOP;
  END IF;
  v_lost := ARRAY(SELECT 4 * place + CASE WHEN place = ANY(v_paced) THEN 3 WHEN place = ANY(v_capped) THEN 1 ELSE 0 END
                  FROM unnest(v_out) place)
    || ARRAY(SELECT 4 * place + 2 FROM unnest(v_tenants_out) place);
  IF cardinality(v_lost) > 0 THEN
    UPDATE pawl.servers SET lost = v_lost WHERE number = p_server;
  END IF;
  RETURN v_lost;
END
$$;
)sql";

// Takes ready steps tenant by tenant, the first one behind p_after. A row without a run, but with `fresh`, names a
// tenant of whom a cap held something back: max_runs_per_min when it is true, max_concurrency when not. A last row
// without either says where it stopped when there may be more. The columns of runs come in the order that statements.h
// gives them.
inline constexpr const char* create_take_ready = R"sql(
CREATE FUNCTION pawl.take_ready(p_tools text[], p_per_tenant integer, p_hold bigint, p_only uuid, p_after uuid,
                                p_tenants_max integer, p_steps_max integer)
RETURNS TABLE(tenant uuid, run uuid, status smallint, due_at bigint, leased boolean, created_at bigint,
              updated_at bigint, version integer, workflow text, workspace text, error_code text, seq bigint,
              head bytea, revision bigint, phase smallint, snapshot bytea, step integer, fresh boolean, tool text)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  v_now bigint := pawl.now_ms();
  v_tenant uuid := p_after;
  v_room integer;  -- steps that may be taken of this tenant,
  v_pace integer;  -- and of these, those of runs that have not started
  v_runs uuid[];
  v_steps integer[];
  v_taken integer := 0;
BEGIN
  PERFORM set_config('pawl.tenant', '*', true);
  FOR v_visited IN 1 .. p_tenants_max LOOP
    IF p_only IS NOT NULL THEN
      EXIT WHEN v_visited > 1;
      v_tenant := p_only;
    ELSE
      EXIT WHEN v_taken >= p_steps_max;
      v_tenant := (
        SELECT n.tenant FROM unnest(p_tools) t(tool) CROSS JOIN LATERAL (
          SELECT r.tenant FROM pawl.ready r WHERE r.tool = t.tool AND r.tenant > v_tenant ORDER BY r.tenant LIMIT 1) n
        ORDER BY n.tenant LIMIT 1);
      EXIT WHEN v_tenant IS NULL;
    END IF;

    SELECT least(p_per_tenant, m.max_concurrency - m.running), least(p_per_tenant, m.max_runs_per_min - CASE
        WHEN m.max_runs_per_min IS NULL THEN 0
        ELSE (SELECT count(*) FROM pawl.starts s WHERE s.tenant = v_tenant AND s.at > v_now - 60000) END)
      INTO v_room, v_pace FROM pawl.meters m WHERE m.tenant = v_tenant AND m.workflow = '';
    IF NOT FOUND THEN
      v_room := p_per_tenant;
      v_pace := p_per_tenant;
    END IF;

    v_runs := NULL;
    IF v_room > 0 THEN
      WITH RECURSIVE places AS (
        SELECT t.tool, (SELECT r.workflow FROM pawl.ready r WHERE r.tool = t.tool AND r.tenant = v_tenant
                        ORDER BY r.workflow LIMIT 1) AS workflow
        FROM unnest(p_tools) t(tool)
        UNION ALL
        SELECT p.tool, (SELECT r.workflow FROM pawl.ready r WHERE r.tool = p.tool AND r.tenant = v_tenant
                          AND r.workflow > p.workflow ORDER BY r.workflow LIMIT 1)
        FROM places p WHERE p.workflow IS NOT NULL
      ), rooms AS (
        SELECT p.tool, p.workflow, greatest(0, coalesce(m.max_concurrency - m.running, v_room)) AS room,
          coalesce(m.max_runs_per_min - CASE WHEN m.max_runs_per_min IS NULL THEN 0 ELSE (
            SELECT count(*) FROM pawl.starts s
            WHERE s.tenant = v_tenant AND s.at > v_now - 60000 AND s.workflow = p.workflow) END, v_pace) AS pace
        FROM places p LEFT JOIN pawl.meters m ON m.tenant = v_tenant AND m.workflow = p.workflow
        WHERE p.workflow IS NOT NULL
      ), candidates AS (
        SELECT s.run, s.step, s.fresh, k.room, k.pace,
          row_number() OVER one_workflow AS in_workflow,
          count(*) FILTER (WHERE s.fresh) OVER one_workflow AS starts_in_workflow,
          count(*) FILTER (WHERE s.fresh) OVER (ORDER BY s.fresh, s.run, s.step) AS starts
        FROM rooms k CROSS JOIN LATERAL (
          SELECT r.run, r.step, r.fresh FROM pawl.ready r
          WHERE r.tenant = v_tenant AND r.tool = k.tool AND r.workflow = k.workflow AND r.taken_until <= v_now
            AND r.fresh <= (least(k.pace, v_pace) > 0)
          ORDER BY r.fresh, r.run, r.step LIMIT least(k.room, v_room) FOR UPDATE SKIP LOCKED) s
        WINDOW one_workflow AS (PARTITION BY k.workflow ORDER BY s.fresh, s.run, s.step)
      ), chosen AS MATERIALIZED (
        SELECT v_tenant AS tenant, c.run, c.step FROM candidates c
        WHERE c.in_workflow <= c.room AND c.starts_in_workflow <= greatest(c.pace, 0)
          AND c.starts <= greatest(v_pace, 0)
        ORDER BY c.fresh, c.run, c.step LIMIT v_room
      ), taken AS (
        UPDATE pawl.ready r SET taken_until = v_now + p_hold FROM chosen c
        WHERE r.tenant = ANY(ARRAY[c.tenant]) AND r.run = c.run AND r.step = c.step RETURNING r.run, r.step, r.fresh
      )
      SELECT array_agg(t.run ORDER BY t.fresh, t.run, t.step), array_agg(t.step ORDER BY t.fresh, t.run, t.step)
        INTO v_runs, v_steps FROM taken t;
    END IF;

    -- Something waits all the same.
    IF coalesce(cardinality(v_runs), 0) < p_per_tenant
        AND EXISTS (SELECT FROM pawl.meters m WHERE m.tenant = v_tenant) THEN
      SELECT NOT (v_room <= 0 OR coalesce(m.max_concurrency <= m.running, false)) INTO fresh
        FROM unnest(p_tools) t(tool)
          JOIN pawl.ready r ON r.tool = t.tool AND r.tenant = v_tenant AND r.taken_until <= v_now
          LEFT JOIN pawl.meters m ON m.tenant = v_tenant AND m.workflow = r.workflow
        WHERE v_room <= 0 OR m.max_concurrency <= m.running
          OR r.fresh AND (v_pace <= 0 OR m.max_runs_per_min IS NOT NULL)
        LIMIT 1;
      IF FOUND THEN
        tenant := v_tenant;
        RETURN NEXT;
      END IF;
      fresh := NULL;
    END IF;
    CONTINUE WHEN v_runs IS NULL;

    v_taken := v_taken + cardinality(v_runs);
    RETURN QUERY
      SELECT u.tenant, u.id, u.status, u.due_at, u.leased, u.created_at, u.updated_at, u.version, u.workflow,
        u.workspace, u.error_code, u.seq, u.head, u.revision, u.phase, u.snapshot, r.step, r.fresh, r.tool
      FROM unnest(array_fill(v_tenant, ARRAY[cardinality(v_runs)]), v_runs, v_steps)
          WITH ORDINALITY k(tenant, run, step, place)
        JOIN pawl.ready r ON r.tenant = ANY(ARRAY[k.tenant]) AND r.run = k.run AND r.step = k.step
        JOIN pawl.runs u ON u.tenant = ANY(ARRAY[k.tenant]) AND u.id = k.run
      ORDER BY k.place;
  END LOOP;
  IF p_only IS NULL AND v_tenant IS NOT NULL THEN
    tenant := v_tenant;
    RETURN NEXT;
  END IF;
END
$$;
)sql";

}  // namespace pawl::postgres
