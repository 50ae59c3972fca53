"""verify is clean after ordinary life and finds whatever is changed behind the engine's back."""
import contextlib
import json
import sqlite3
import unittest

from pawl_case import GATED, TWO_STEPS, PawlCase


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


if __name__ == "__main__":
    unittest.main()
