"""A data folder that an older pawl wrote is read, and gone on with, by this one. Each folder here is one format."""
import calendar
import contextlib
import functools
import json
import os
import pathlib
import shutil
import sqlite3
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
from pawl_case import PawlCase  # noqa: E402

HERE = pathlib.Path(__file__).parent
FORMATS = sorted((path for path in HERE.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))


def for_each_format(test):
    @functools.wraps(test)
    def run(self):
        for fixture in FORMATS:
            with self.subTest(format=fixture.name):
                test(self, self.open(fixture))
    return run


class Formats(PawlCase):
    shift_s = 0

    def open(self, fixture):
        """Copies the fixture into this test's data folder; what is expected of it."""
        expected = json.loads((fixture / "expected.json").read_text())
        # A moment after it was made: approvals that wait in it must not have expired.
        made_at = calendar.timegm(time.strptime(expected["made_at"], "%Y-%m-%dT%H:%M:%SZ"))
        self.shift_s = made_at + 60 - int(time.time())
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.mkdir()
        shutil.copy(fixture / "pawl.db", self.data)
        if fixture.name == "0":
            self.migrate(expected)
        return expected

    def migrate(self, expected):
        """0 is 1 as it was first, with the ready steps in a table of their own: looking needs a migration there."""
        looked = self.expect(self.pawl("runs"), 74)
        self.assertIn("older pawl", looked.stderr)
        self.run_to_end("workflow: migration\nsteps: [{id: only, tool: noop}]\n")
        expected["runs"].insert(0, self.runs()[0])

    def environment(self, **more):
        return super().environment(LD_PRELOAD=os.environ["OTHER_CLOCK"], CLOCK_SHIFT_S=str(self.shift_s),
                                   # The sanitizer would rather be loaded first; nothing here needs it to be.
                                   ASAN_OPTIONS="verify_asan_link_order=0:" + os.environ.get("ASAN_OPTIONS", ""),
                                   **more)

    def assert_says(self, actual, expected, where):
        """A newer pawl may say more than the one that made the fixture, never less and nothing else."""
        if isinstance(expected, dict):
            self.assertIsInstance(actual, dict, where)
            for key, value in expected.items():
                self.assertIn(key, actual, where)
                self.assert_says(actual[key], value, f"{where}.{key}")
        elif isinstance(expected, list):
            self.assertIsInstance(actual, list, where)
            self.assertEqual(len(actual), len(expected), where)
            for i, value in enumerate(expected):
                self.assert_says(actual[i], value, f"{where}[{i}]")
        else:
            self.assertEqual(actual, expected, where)

    def assert_as_expected(self, expected, runs):
        for run in runs:
            self.assert_says(self.show(run), expected["show"][run], run)
            # The journal is what was hashed: of that, not a byte.
            events = self.expect(self.pawl("events", run, "--raw"), 0).stdout.splitlines()
            self.assertEqual(events, expected["events"][run])

    @for_each_format
    def test_reads_as_it_was_written(self, expected):
        self.verify_clean()
        self.assert_says(self.runs(), expected["runs"], "runs")
        self.assert_as_expected(expected, expected["show"])

    @for_each_format
    def test_can_be_gone_on_with(self, expected):
        id_of = {run["workflow"]: run["id"] for run in expected["runs"]}
        waiting, killed = id_of["waiting"], id_of["killed"]
        # The killed step sleeps in its first attempt, and the death of the process costs none.
        programs = self.folder / "programs"
        programs.mkdir(exist_ok=True)
        (programs / "sleep").write_text("#!/bin/sh\n")
        (programs / "sleep").chmod(0o755)
        path = {"PATH": f"{programs}:{os.environ['PATH']}"}
        self.expect(self.pawl("approve", waiting), 0)
        self.verify_clean()
        for run, steps in ((waiting, 3), (killed, 2)):
            self.expect(self.pawl("resume", run, env=path), 0)
            self.assertEqual(self.show(run)["status"], "success")
            self.assertEqual([step["status"] for step in self.show(run)["steps"]], ["succeeded"] * steps)
        self.verify_clean()
        self.assertEqual(self.steps(waiting)["after"]["output"], "shipped 7")
        self.assertEqual(self.steps(killed)["second"]["attempts"], 1)
        # The others are where they were.
        self.assert_as_expected(expected, set(expected["show"]) - {waiting, killed})

    def test_what_was_ready_in_the_first_layout_is_found(self):
        expected = self.open(HERE / "0")
        with contextlib.closing(sqlite3.connect(self.data / "pawl.db")) as database:
            ready = database.execute("SELECT workflow FROM runs WHERE ready IS NOT NULL").fetchall()
        self.assertEqual(ready, [("queued",)])
        steps = {step["id"]: step["status"] for run, shown in expected["show"].items()
                 if shown["workflow"] == "queued" for step in shown["steps"]}
        self.assertEqual((steps["behind"], steps["last"]), ("ready", "ready"))
        self.verify_clean()  # which compares what is ready with the journal

    @for_each_format
    def test_a_new_run_finds_its_place_beside_the_old_ones(self, expected):
        self.run_to_end("workflow: finished\nsteps: [{id: only, tool: noop}]\n")
        newest, *others = self.runs()
        self.assertEqual((newest["version"], newest["status"]), (2, "success"))
        self.assertEqual([run["id"] for run in others], [run["id"] for run in expected["runs"]])
        self.verify_clean()

    def test_every_format_up_to_todays_has_its_fixture(self):
        self.run_to_end("workflow: any\nsteps: [{id: only, tool: noop}]\n")
        with contextlib.closing(sqlite3.connect(self.data / "pawl.db")) as database:
            today, = database.execute("PRAGMA user_version").fetchone()
        self.assertEqual([int(fixture.name) for fixture in FORMATS], list(range(today + 1)),
                         "tests/formats/make NUMBER makes what is missing")


if __name__ == "__main__":
    unittest.main()
