"""verify is clean after ordinary life and finds whatever is changed behind the engine's back."""
import contextlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import unittest
import urllib.error
import urllib.request

from pawl_case import GATED, TIMEOUT_S, TWO_STEPS, PawlCase
from server_case import REMOTE, ServerCase


class Verify(PawlCase):
    def setUp(self):
        super().setUp()
        self.expect(self.pawl("run", self.workflow(TWO_STEPS)), 0)
        self.expect(self.pawl("run", self.workflow(GATED)), 5)
        self.gated, self.two = (run["id"] for run in self.runs())

    def change(self, *statements):
        with contextlib.closing(sqlite3.connect(self.data / "pawl.db")) as database, database:
            for statement in statements:
                changed = database.execute(*statement) if isinstance(statement, tuple) else database.execute(statement)
                self.assertNotEqual(changed.rowcount, 0, statement)

    def problems(self):
        result = self.expect(self.pawl("verify", "--json"), 1)
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual(lines[-1]["type"], "summary")
        self.assertEqual(lines[-1]["problems"], len(lines) - 1)
        return lines[:-1]

    def test_clean_with_counts(self):
        result = self.expect(self.pawl("verify"), 0)
        self.assertRegex(result.stdout, r"clean: 2 runs, \d+ events, 1 tenant, 1 approval, 0 receipts, 0 ready steps")
        summary = json.loads(self.expect(self.pawl("verify", "--json"), 0).stdout)
        self.assertEqual((summary["runs"], summary["problems"]), (2, 0))

    def test_a_definition_that_is_not_pawls(self):
        forged = ("UPDATE sqlite_schema SET sql = replace(sql, 'PRIMARY KEY(tenant, id)', "
                  "'PRIMARY KEY(tenant, id) ON CONFLICT IGNORE') WHERE name = 'receipts'")
        for name, statement in (("receipts", forged), ("receipts_by_key", "DROP INDEX receipts_by_key")):
            with self.subTest(name), contextlib.closing(sqlite3.connect(self.data / "pawl.db")) as database:
                before = database.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (name,)).fetchone()[0]
                database.executescript(f"PRAGMA writable_schema = ON; {statement}")
                for command in (["verify"], ["serve", "--listen", "127.0.0.1:0"]):
                    refused = self.expect(self.pawl(*command), 74)
                    self.assertIn(f"{name} is missing, or is not defined as pawl defines it", refused.stderr)
                if name == "receipts":
                    database.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (before, name))
                else:
                    database.execute(before)
                database.commit()
        self.verify_clean()

    def test_one_byte_of_history(self):
        # Every piece of history, one after the other: no event can be touched unseen.
        database = sqlite3.connect(self.data / "pawl.db")
        pieces = database.execute("SELECT number, lines FROM history").fetchall()
        database.close()
        for number, lines in pieces:
            with self.subTest(number):
                at = lines.index(b'"at":') + 6
                changed = lines[:at] + bytes([lines[at] ^ 1]) + lines[at + 1:]
                self.change(("UPDATE history SET lines = ? WHERE number = ?", (changed, number)))
                problems = self.problems()
                self.assertTrue(any("recomputed hash" in p["what"] for p in problems), problems)
                text = self.expect(self.pawl("verify"), 1).stdout
                self.assertIn(problems[0]["subject"], text)
                self.change(("UPDATE history SET lines = ? WHERE number = ?", (lines, number)))
        self.verify_clean()

    def test_frames_that_are_not_the_history(self):
        # They are kept for those who follow the feed, after their events are in the history.
        with contextlib.closing(sqlite3.connect(self.data / "pawl.db")) as database:
            frames = database.execute("SELECT position, folded_before, parts FROM frames ORDER BY position").fetchall()
        position, _, parts = next(frame for frame in frames if b'"at":' in frame[2])
        at = parts.index(b'"at":') + 6
        for what, statement in (
                ("history and journal frame differ",
                 ("UPDATE frames SET parts = ? WHERE position = ?",
                  (parts[:at] + bytes([parts[at] ^ 1]) + parts[at + 1:], position))),
                *(("in the frames of the journal", ("UPDATE frames SET parts = X'' WHERE position = ?", (frame[0],)))
                  for frame in frames[:-1] if frame[2]),
                *(("has no frame", ("DELETE FROM frames WHERE position = ?", (frame[0],))) for frame in frames[1:-1])):
            with self.subTest(what):
                self.change(statement)
                self.assertTrue(any(what in p["what"] for p in self.problems()), self.problems())
                self.change("DELETE FROM frames",
                            *(("INSERT INTO frames(position, folded_before, parts) VALUES(?, ?, ?)", frame)
                              for frame in frames))
                self.verify_clean()

    def test_an_event_that_vanished(self):
        database = sqlite3.connect(self.data / "pawl.db")
        number, lines = database.execute(
            "SELECT h.number, h.lines FROM history h JOIN runs r ON r.history = h.number LIMIT 1").fetchone()
        database.close()
        self.change(("UPDATE history SET lines = ? WHERE number = ?", (lines[:lines.rindex(b"\n", 0, -1) + 1], number)))
        self.assertTrue(any("events and its row says" in p["what"] for p in self.problems()))

    def test_rows_that_are_not_the_fold(self):
        for what, statement in (("status", "UPDATE runs SET status = 4 WHERE status = 3"),
                                ("due_at", "UPDATE runs SET due_at = due_at + 1 WHERE due_at IS NOT NULL"),
                                ("error_code", "UPDATE runs SET error_code = 'X' WHERE status = 2"),
                                ("snapshot", "UPDATE runs SET snapshot = (SELECT snapshot FROM runs WHERE status = 3) "
                                             "WHERE status = 2"),
                                ("approvals", "UPDATE approvals SET status = 1"),
                                ("source", "UPDATE workflows SET source = source || ' '")):
            with self.subTest(what):
                before = (self.data / "pawl.db").read_bytes()
                self.change(statement)
                self.assertTrue(any(what in p["what"] for p in self.problems()), what)
                (self.data / "pawl.db").write_bytes(before)
        self.verify_clean()

    def test_ready_steps_that_are_not_the_fold(self):
        self.expect(self.pawl("approve", self.gated), 0)  # what comes after the gate is ready, and nobody goes on
        self.verify_clean()
        self.change("UPDATE runs SET ready = NULL WHERE ready IS NOT NULL")
        self.assertTrue(any("ready steps" in p["what"] for p in self.problems()))

    def test_receipts_that_are_not_the_fold(self):
        # The key of one is its run's own, that of the other any run's.
        self.run_to_end("workflow: writes\nsteps:\n  - {id: own, tool: shell, with: {argv: ['true']}}\n"
                        "  - {id: shared, tool: shell, with: {argv: ['true']}, idempotency_key: k}\n")
        self.assertEqual(json.loads(self.expect(self.pawl("verify", "--json"), 0).stdout)["receipts"], 2)
        for what, statement in (("the row of rcp_", "UPDATE receipts SET status = 2 WHERE typeof(key) = 'text'"),
                                ("the row of rcp_", "UPDATE receipts SET key = X'3A78' WHERE typeof(key) = 'blob'"),
                                ("the row of rcp_", "UPDATE receipts SET key = 'other' WHERE key = 'k'"),
                                ("and has no row", "DELETE FROM receipts WHERE key = 'k'"),
                                ("of which the journal says nothing",
                                 "INSERT INTO receipts SELECT tenant, zeroblob(16), run, "
                                                                      "status, 'more' FROM receipts WHERE key = 'k'"),
                                ("rows of receipts and no such row of a run",
                                 "UPDATE receipts SET run = zeroblob(16)")):
            with self.subTest(what):
                before = (self.data / "pawl.db").read_bytes()
                self.change(statement)
                self.assertTrue(any(what in p["what"] for p in self.problems()), self.problems())
                (self.data / "pawl.db").write_bytes(before)
        self.verify_clean()

    def test_a_run_that_vanished(self):
        self.change("DELETE FROM runs WHERE status = 2")
        self.assertTrue(any("no such row of a run" in p["what"] for p in self.problems()))

    def test_a_damaged_file(self):
        path = self.data / "pawl.db"
        content = bytearray(path.read_bytes())
        for page in range(8192, len(content), 8192):
            content[page:page + 8] = b"\xff" * 8
        path.write_bytes(content)
        result = self.pawl("verify")
        self.assertIn(result.returncode, (1, 74))
        self.assertIn("pawl.db", result.stdout + result.stderr)

    def test_it_is_clean_beside_a_process_that_writes(self):
        steps = "".join(f"  - {{id: s{i}, tool: sleep, with: {{duration: 5ms}}}}\n" for i in range(300))
        process = self.start("run", self.workflow("workflow: busy\nsteps:\n" + steps, "busy.yaml"))
        looks = 0
        while process.poll() is None:
            self.verify_clean()
            self.expect(self.pawl("runs"), 0)
            looks += 1
        self.assertEqual(process.returncode, 0)
        self.assertGreater(looks, 0)

    def test_it_changes_nothing(self):
        before = (self.data / "pawl.db").read_bytes()
        self.verify_clean()
        self.assertEqual((self.data / "pawl.db").read_bytes(), before)


# Columns that may hold another value without anybody noticing, and why.
MEANINGLESS = {
    ("starts", "position"): "tells starts at the same moment apart",
    ("starts", "ordinal"): "tells starts at the same moment apart",
    ("followers", "name"): "nobody asks for a follower of another name; who is missing begins with the oldest frame",
}


class EveryColumn(ServerCase):
    """No table, and no column of one, can be rewritten unseen: a new one is part of this test by itself."""

    def create(self, workflow, **headers):
        key = (self.data / "admin.key").read_text().strip()
        request = urllib.request.Request(self.url() + "/runs", method="POST",
                                         data=json.dumps({"workflow": workflow}).encode(),
                                         headers={"Authorization": "Bearer " + key, **headers})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return json.load(answer)["id"]

    def fill(self):
        server = self.serve("--bundles", "all", "--checkpoint-interval", "50ms")
        self.expect(self.pawl("caps", "--max-runs-per-min", "1000"), 0)
        waiting = self.started(REMOTE)
        ready = self.started("workflow: ready\nsteps: [{id: work, tool: double, with: {n: 1}}]\n", "ready")
        self.started("workflow: writes\nsteps:\n  - {id: own, tool: shell, with: {argv: ['true']}}\n"
                     "  - {id: shared, tool: shell, with: {argv: ['true']}, idempotency_key: k}\n", "writes")
        failed = self.started("workflow: fails\nsteps: [{id: one, tool: shell, with: {argv: ['false']}}]\n", "fails")
        keyed = self.create("writes", **{"Idempotency-Key": "once"})
        self.wait_until(lambda: self.status(waiting) == "waiting" and self.status(failed) == "failed" and
                        self.status(keyed) in ("success", "failed", "denied"), "the runs")
        self.assertEqual(self.status(ready), "created")
        self.wait_until(lambda: len(list((self.data / "evidence").rglob("*.zip"))) >= 2, "their bundles")
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=TIMEOUT_S)
        self.assertEqual(server.returncode, 0)

    def database(self):
        return contextlib.closing(sqlite3.connect(self.data / "pawl.db", isolation_level=None))

    @staticmethod
    def changed(column, value):
        if value is None:
            return 1
        if isinstance(value, int):
            return value + (1 if column in ("status", "tier", "phase", "leased") else 1000)
        if isinstance(value, str):
            return value + "x"
        return value[:-1] + bytes([value[-1] ^ 1]) if value else b"x"

    def test_no_column_of_any_table_can_be_rewritten_unseen(self):
        self.fill()
        self.verify_clean()
        before = (self.data / "pawl.db").read_bytes()
        with self.database() as database:
            tables = [name for name, in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
            columns = [(table, *row) for table in tables for row in
                       database.execute(f"SELECT name, pk FROM pragma_table_info('{table}')").fetchall()]
        self.assertGreaterEqual(len(tables), 10)
        for table, column, _ in columns:
            key = [name for other, name, pk in columns if other == table and pk]
            with self.database() as database:
                rows = database.execute(f"SELECT {column}, {', '.join(key)} FROM {table} "
                                        f"ORDER BY {column} IS NULL, {', '.join(key)} DESC LIMIT 2").fetchall()
            self.assertTrue(rows, f"nothing in {table}: fill it, so that this test can rewrite it")
            if (table, column) in MEANINGLESS:
                continue
            for old, *place in rows:
                with self.subTest(table=table, column=column, old=old):
                    with self.database() as database:
                        database.execute(f"UPDATE {table} SET {column} = ? WHERE " +
                                         " AND ".join(f"{name} = ?" for name in key),
                                         (self.changed(column, old), *place))
                    self.expect(self.pawl("verify"), 1)
                    (self.data / "pawl.db").write_bytes(before)
        self.verify_clean()

    def test_rows_that_nobody_wrote_are_seen(self):
        self.fill()
        before = (self.data / "pawl.db").read_bytes()
        for statement in ("INSERT INTO requests SELECT tenant, 'forged', run FROM requests LIMIT 1",
                          "DELETE FROM requests", "DELETE FROM approvals", "DELETE FROM tenants", "DELETE FROM history",
                          "DELETE FROM workflows WHERE name = 'writes'",
                          "INSERT INTO starts SELECT at + 1, position, ordinal, tenant, workflow FROM starts LIMIT 1"):
            with self.subTest(statement):
                with self.database() as database:
                    self.assertGreater(database.execute(statement).rowcount, 0)
                self.expect(self.pawl("verify"), 1)
                (self.data / "pawl.db").write_bytes(before)

    def test_a_stored_bundle_that_was_changed_is_named(self):
        self.fill()
        bundle = next((self.data / "evidence").rglob("*.zip"))
        bundle.write_bytes(bundle.read_bytes()[:-1] + b"x")
        self.assertIn(f"its stored bundle {bundle} is not what was stored", self.expect(self.pawl("verify"), 1).stdout)


class SingleBits(ServerCase):
    """A bit that flips anywhere in the file either changes nothing that can be read, or is found."""
    CHANGES = 500 if os.environ.get("PAWL_TEST_DEEP") else 20

    # Beside those without meaning: how far something is, which no event says.
    UNKNOWABLE = {*MEANINGLESS, ("followers", "position"), ("frames", "folded_before")}

    def columns(self):
        with contextlib.closing(sqlite3.connect(self.data / "pawl.db")) as database:
            tables = [name for name, in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
            return {table: [name for name, in database.execute(f"SELECT name FROM pragma_table_info('{table}')")
                            if (table, name) not in self.UNKNOWABLE] for table in tables}

    def content(self, columns):
        """All that can be read in the file, or why it cannot."""
        try:
            with contextlib.closing(sqlite3.connect(f"file:{self.data / 'pawl.db'}?immutable=1", uri=True)) as database:
                return [database.execute("SELECT " + ", ".join(f"CAST({name} AS BLOB)" for name in names) +
                                         f" FROM {table}").fetchall() for table, names in columns.items()]
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # of damaged names in the schema, too
            return repr(error)

    def test_damage_of_one_bit_is_found_where_it_changes_the_content(self):
        EveryColumn.fill(self)
        path = self.data / "pawl.db"
        before = path.read_bytes()
        columns = self.columns()
        content = self.content(columns)
        seed = random.randrange(2**32)
        draw = random.Random(seed)
        changed = 0
        used = [at for at, byte in enumerate(before) if byte]  # most of a young file is zeros that nobody reads
        while changed < self.CHANGES:
            bit = draw.choice(used) * 8 + draw.randrange(8)
            damaged = bytearray(before)
            damaged[bit // 8] ^= 1 << bit % 8
            path.write_bytes(damaged)
            if self.content(columns) == content:
                continue
            changed += 1
            self.assertNotEqual(self.pawl("verify").returncode, 0, f"bit {bit} of {len(before) * 8}, seed {seed}")
        path.write_bytes(before)
        self.verify_clean()

    create = EveryColumn.create


class DamagedFolders(ServerCase):
    """A server refuses a folder that is damaged or forged, and finds by itself what is damaged later."""

    def database(self):
        return contextlib.closing(sqlite3.connect(self.data / "pawl.db", isolation_level=None))

    def left_by_a_server(self):
        server = self.serve()
        run = self.started("workflow: two\nsteps: [{id: one, tool: noop}, {id: two, tool: noop}]\n", "two")
        self.wait_until(lambda: self.status(run) == "success", "the run")
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=TIMEOUT_S)
        return run

    def forged(self, table, column, old, new):
        """The statement that changes the newest row with these bytes in this column."""
        with self.database() as database:
            rows = database.execute(f"SELECT rowid, {column} FROM {table} ORDER BY rowid DESC").fetchall()
        place, value = next(row for row in rows if old in row[1])
        return f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value.replace(old, new), place)

    def test_a_forged_or_damaged_folder_is_refused_with_what_is_wrong_and_what_to_do(self):
        run = self.left_by_a_server()
        before = (self.data / "pawl.db").read_bytes()
        with self.database() as database:
            state, = database.execute("SELECT state FROM tenants").fetchone()
        for what, *statement in (
                (run, *self.forged("frames", "parts", b"run.succeeded", b"run.forged   ")),
                (run, *self.forged("history", "lines", b"run.succeeded", b"run.forged   ")),
                ("row is not the fold", "UPDATE tenants SET state = ?", (state.replace(b"default", b"defaulT", 1),)),
                ("recomputed hash", "UPDATE tenants SET head = zeroblob(32)"),
                ("has no frame", "DELETE FROM frames WHERE position = (SELECT max(position) - 1 FROM frames)"),
                ("added bad", "CREATE TRIGGER bad AFTER INSERT ON runs BEGIN UPDATE runs SET status = 3; END")):
            with self.subTest(what, statement=statement[0]):
                with self.database() as database:
                    self.assertNotEqual(database.execute(*statement).rowcount, 0)
                for command in (("serve", "--listen", "127.0.0.1:0"), ("run", self.workflow(TWO_STEPS))):
                    refused = self.expect(self.pawl(*command), 74)
                    self.assertIn(what, refused.stderr)
                    self.assertIn("estore ", refused.stderr)
                    self.assertIn("backup", refused.stderr)
                (self.data / "pawl.db").write_bytes(before)
        self.verify_clean()

    def passes(self):
        key = (self.data / "admin.key").read_text().strip()
        request = urllib.request.Request(self.url() + "/metrics", headers={"Authorization": "Bearer " + key})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return int(float(re.search(r"^pawl_verify_passes_total (\S+)$", answer.read().decode(), re.M)[1]))

    def refused(self, path):
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.request("GET", path)
        return refused.exception.code

    def forget_frames(self):
        """Then nothing but its history tells of a run."""
        with self.database() as database:
            last, = database.execute("SELECT max(position) FROM frames").fetchone()
            database.execute("DELETE FROM frames WHERE position < ?", (last,))
            database.execute("UPDATE frames SET parts = X''")

    def test_a_run_whose_stream_is_damaged_is_not_served(self):
        run = self.left_by_a_server()
        self.forget_frames()
        statement = self.forged("history", "lines", b"run.succeeded", b"run.forged   ")
        with self.database() as database:
            database.execute(*statement)
        server = self.serve()
        self.assertEqual(self.refused("/runs/" + run), 404)
        self.assertEqual(self.request("GET", "/runs")["items"], [])
        self.assertEqual(self.request("GET", "/readyz"), {"status": "ready", "damage": 1})
        server.send_signal(signal.SIGTERM)
        self.assertIn(run, server.communicate(timeout=TIMEOUT_S)[1])

    def test_what_is_damaged_is_found_in_the_background(self):
        run = self.left_by_a_server()
        self.forget_frames()
        with self.database() as database:
            database.execute("UPDATE runs SET error_code = 'FORGED'")
        server = self.serve("--verify-interval", "50ms")
        self.wait_until(lambda: self.request("GET", "/readyz").get("damage") == 1, "the background check")
        self.assertEqual(self.request("GET", "/runs")["items"], [])
        server.send_signal(signal.SIGTERM)
        log = server.communicate(timeout=TIMEOUT_S)[1]
        self.assertIn(run, log)
        self.assertIn("error_code", log)

    def test_a_sound_folder_is_checked_in_the_background_and_nothing_is_said(self):
        run = self.left_by_a_server()
        server = self.serve("--verify-interval", "10ms")
        more = self.started("workflow: two\nsteps: [{id: one, tool: noop}, {id: two, tool: noop}]\n", "two")
        self.wait_until(lambda: self.status(more) == "success", "the run")
        self.assertEqual(self.status(run), "success")
        begun = self.passes()
        self.wait_until(lambda: self.passes() > begun + 1, "a pass that began after the run")
        self.assertEqual(self.request("GET", "/readyz"), {"status": "ready"})
        server.send_signal(signal.SIGTERM)
        self.assertNotIn("not what the journal says", server.communicate(timeout=TIMEOUT_S)[1])

    def test_a_database_file_with_a_second_name_is_refused(self):
        self.left_by_a_server()
        twin = self.folder / "twin"
        twin.mkdir(mode=0o700)
        os.link(self.data / "pawl.db", twin / "pawl.db")
        for folder in (self.data, twin):
            refused = self.expect(self.pawl("serve", "--listen", "127.0.0.1:0", "--data", folder, data=False), 74)
            self.assertIn("has 2 hard links", refused.stderr)
        (twin / "pawl.db").unlink()
        self.verify_clean()
        self.serve()

    def test_a_database_file_that_is_a_link_to_that_of_another_folder_is_refused(self):
        self.left_by_a_server()
        other = self.folder / "other"
        shutil.copytree(self.data, other)
        (other / "pawl.db").unlink()
        (other / "pawl.db").symlink_to(self.data / "pawl.db")
        refused = self.expect(self.pawl("serve", "--listen", "127.0.0.1:0", "--data", other, data=False), 74)
        self.assertIn("is a link to a file in another folder", refused.stderr)
        # The folder itself may be one: it has one lock, whatever it is called.
        (self.folder / "name").symlink_to(self.data)
        self.verify_clean()
        self.data = self.folder / "name"
        self.serve()

    def test_the_key_of_an_effect_whose_receipt_is_gone_is_held_once_that_is_found(self):
        made = self.folder / "made"
        pay = (f"workflow: pay\nsteps:\n- {{id: a, tool: shell, idempotency_key: order-1, "
               f"with: {{argv: [sh, -c, 'echo x >> {made}'], sandbox: {{mode: off}}}}}}\n")
        server = self.serve()
        run = self.started(pay, "pay")
        self.wait_until(lambda: self.status(run) == "success", "the run")
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=TIMEOUT_S)
        self.forget_frames()
        with self.database() as database:
            self.assertEqual(database.execute("DELETE FROM receipts").rowcount, 1)
        self.serve("--verify-interval", "50ms")
        self.wait_until(lambda: self.request("GET", "/readyz").get("damage"), "the background check")
        again = self.started(pay, "pay")
        self.wait_until(lambda: self.status(again) not in ("created", "running"), "the run")
        shown = self.request("GET", "/runs/" + again)
        self.assertEqual((shown["status"], shown["error_code"]), ("failed", "IDEMPOTENCY_KEY_REUSED"), shown)
        self.assertEqual(made.read_text(), "x\n")


class ForgedTables(ServerCase):
    """Each table against the journal: what a server would act on, it compares before it serves anything. It says what
    is wrong, and never takes what is stored for a fault of its own."""

    STATEMENTS = (
        "UPDATE workflows SET source = replace(source, 'true', 'false')",
        "UPDATE workflows SET source = source || ' '",
        "UPDATE workflows SET digest = digest || 'x' WHERE name = 'writes'",
        "UPDATE workflows SET version = version + 1 WHERE name = 'writes'",
        "UPDATE workflows SET tenant = zeroblob(16) WHERE name = 'writes'",
        "UPDATE workflows SET name = 'other' WHERE name = 'writes'",
        "INSERT INTO workflows SELECT tenant, 'evil', version, digest, source FROM workflows LIMIT 1",
        "DELETE FROM workflows WHERE name = 'writes'",
        "DELETE FROM workflows",
        "UPDATE runs SET version = version + 1",
        "UPDATE runs SET workflow = 'other'",
        "UPDATE runs SET status = 4 WHERE status = 3",
        "DELETE FROM receipts WHERE key = 'k'",
        "UPDATE receipts SET status = 2",
        "UPDATE receipts SET run = zeroblob(16)",
        "UPDATE approvals SET status = 1",
        "UPDATE approvals SET tier = tier + 1",
        "UPDATE approvals SET step = 'work'",
        "DELETE FROM approvals",
        "DELETE FROM requests",
        "UPDATE requests SET run = (SELECT id FROM runs WHERE id <> requests.run LIMIT 1)",
        "DELETE FROM tenants WHERE seq = (SELECT min(seq) FROM tenants)",
        "DELETE FROM tenants",
    )

    def database(self):
        return contextlib.closing(sqlite3.connect(self.data / "pawl.db", isolation_level=None))

    def fill(self):
        EveryColumn.fill(self)
        server = self.serve()
        self.request("POST", "/tenants", {"name": "other"})
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=TIMEOUT_S)

    def test_a_server_refuses_to_start_and_says_what_is_wrong(self):
        self.fill()
        self.verify_clean()
        before = (self.data / "pawl.db").read_bytes()
        for statement in self.STATEMENTS:
            with self.subTest(statement):
                with self.database() as database:
                    self.assertGreater(database.execute(statement).rowcount, 0)
                self.expect(self.pawl("verify"), 1)
                refused = self.expect(self.pawl("serve", "--listen", "127.0.0.1:0"), 74)
                self.assertIn("is damaged, or another program changed it", refused.stderr)
                self.assertNotIn("this is a bug", refused.stderr)
                (self.data / "pawl.db").write_bytes(before)
        self.verify_clean()

    def test_a_tenant_or_run_whose_row_is_gone_is_missed_though_no_frame_tells_of_it(self):
        self.fill()
        DamagedFolders.forget_frames(self)
        self.verify_clean()
        before = (self.data / "pawl.db").read_bytes()
        for statement in ("DELETE FROM tenants WHERE seq = (SELECT min(seq) FROM tenants)",
                          "DELETE FROM runs WHERE workflow = 'ready'"):
            with self.subTest(statement):
                with self.database() as database:
                    self.assertEqual(database.execute(statement).rowcount, 1)
                self.expect(self.pawl("verify"), 1)
                (self.data / "pawl.db").write_bytes(before)
        self.verify_clean()

    create = EveryColumn.create


if __name__ == "__main__":
    unittest.main()
