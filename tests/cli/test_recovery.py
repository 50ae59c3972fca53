"""Killed at any moment and started again, pawl goes on where it was, and nothing that it knows was done is done
twice."""
import collections
import json
import os
import pathlib
import random
import signal
import time
import unittest

from pawl_case import GATED, TIMEOUT_S, TWO_STEPS, PawlCase, interrupt


UNTAKEN_S = 2  # untaken_after in src/cli/describe.h


def is_alive(pid):
    """Whether it still does something; it does not when it only waits for its parent to take note of its end."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def appending(path, steps, seconds):
    lines = "".join(
        f"""  - id: s{i}
    tool: shell
    retry: {{max_attempts: 20, base: 1ms, max: 5ms}}
    with: {{idempotent: true, argv: [sh, -c, 'echo $PAWL_STEP_ID >> {path}; sleep {seconds}']}}
""" for i in range(steps))
    return f"workflow: appending\nsteps:\n{lines}"


class Recovery(PawlCase):
    def setUp(self):
        super().setUp()
        self.done = self.folder / "done.txt"

    def tearDown(self):
        self.verify_clean()

    def counts(self):
        return collections.Counter(self.done.read_text().split()) if self.done.exists() else collections.Counter()

    def succeeded(self, run):
        return {name for name, step in self.steps(run).items() if step["status"] == "succeeded"}

    def test_killed_again_and_again_it_still_ends_and_repeats_nothing_known(self):
        seed = int(os.environ.get("PAWL_SEED", random.randrange(1 << 30)))
        chance = random.Random(seed)
        workflow = self.workflow(appending(self.done, 6, 0.08))
        process = self.start("run", workflow)
        run = None
        for _ in range(6):
            time.sleep(chance.uniform(0.02, 0.35))
            process.kill()
            process.communicate()
            if self.pawl("runs").returncode == 4:  # it died before there was a journal
                process = self.start("run", workflow)
                continue
            self.verify_clean()
            if run is None:
                runs = self.runs()
                if not runs:
                    process = self.start("run", workflow)
                    continue
                run = runs[0]["id"]
            known, before = self.succeeded(run), self.counts()
            process = self.start("resume", run)
            if len(known) == 6:
                break
            # Whatever was known to be done when it died is not done again.
            self.wait_until(lambda: process.poll() is not None or self.counts() != before, "progress")
            for step in known:
                self.assertEqual(self.counts()[step], before[step], f"PAWL_SEED={seed}")
        process.communicate(timeout=TIMEOUT_S)
        self.expect(self.pawl("resume"), 0)
        run = run or self.only_run()["id"]
        events = map(json.loads, self.expect(self.pawl("events", run), 0).stdout.splitlines())
        claims = collections.Counter(each["step"] for each in events if each["type"] == "step.claimed")
        for name, step in self.steps(run).items():
            self.assertEqual(step["status"], "succeeded")
            self.assertGreaterEqual(self.counts()[name], 1)
            self.assertLessEqual(self.counts()[name], claims[name], f"PAWL_SEED={seed}")
            self.assertEqual(step["attempts"], 1, "the death of the process costs no attempt")

    def test_one_kill_between_steps_leaves_every_line_once(self):
        # The second step waits for us, so that the first is surely known and the second surely has not written yet.
        go, pid = self.folder / "go", self.folder / "pid"
        waits = f"echo $$ > {pid}; while [ ! -e {go} ]; do sleep 0.02; done; echo second >> {self.done}"
        text = f"""
workflow: once
steps:
  - {{id: first, tool: shell, with: {{idempotent: true, argv: [sh, -c, 'echo first >> {self.done}']}}}}
  - {{id: second, tool: shell, with: {{idempotent: true, argv: [sh, -c, '{waits}']}}}}
"""
        process = self.start("run", self.workflow(text))
        self.wait_until(lambda: self.counts()["first"] == 1 and self.data.exists() and self.runs() and
                        self.steps(self.only_run()["id"])["second"]["status"] == "running" and
                        pid.exists() and pid.read_text().strip(), "the second step")
        process.kill()
        process.communicate()
        self.verify_clean()
        self.wait_until(lambda: not is_alive(int(pid.read_text())), "the end of what the killed process had started")
        go.touch()
        self.assertEqual(self.counts()["second"], 0)
        result = self.expect(self.pawl("resume"), 0)
        self.assertIn("attempt 1/3", result.stdout)
        self.assertEqual(self.counts(), {"first": 1, "second": 1})

    def test_ctrl_c_leaves_the_run_resumable_and_no_child_behind(self):
        pid, go = self.folder / "pid", self.folder / "go"
        text = f"""
workflow: long
retry: {{max_attempts: 1}}
steps:
  - {{id: quick, tool: shell, with: {{idempotent: true, argv: [sh, -c, 'echo quick >> {self.done}']}}}}
  - id: slow
    tool: shell
    with: {{idempotent: true, argv: [sh, -c, 'echo $$ > {pid}; [ -e {go} ] || exec sleep 300']}}
"""
        for how in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(how=how):
                process = self.start("run", self.workflow(text))
                self.wait_until(lambda: pid.exists() and pid.read_text().strip(), "the slow step")
                out, err = interrupt(process, how)
                self.assertEqual(process.returncode, 130, out + err)
                self.assertRegex(out, r"interrupted; go on with: \S*pawl resume run_\w+ --data ")
                with self.assertRaises(ProcessLookupError):
                    os.kill(int(pid.read_text()), 0)
                self.verify_clean()
                go.touch()
                if how == signal.SIGINT:
                    # A step that nobody takes for so long is told of, but here somebody has just come.
                    time.sleep(UNTAKEN_S + 0.2)
                began = time.monotonic()
                result = self.expect(self.pawl("resume"), 0)
                self.assertIn("attempt 1/1", result.stdout, "the attempt that was interrupted does not count")
                if time.monotonic() - began < UNTAKEN_S:
                    self.assertNotIn("no worker", result.stdout + result.stderr)
                pid.unlink()
                go.unlink()
        self.assertEqual(self.counts(), {"quick": 2})

    def test_resume_goes_on_with_all_that_is_unfinished(self):
        for _ in range(3):
            self.expect(self.pawl("run", self.workflow(GATED)), 5)
        self.run_to_end(TWO_STEPS)
        result = self.expect(self.pawl("resume", "--approve"), 0)
        self.assertIn("3 runs", result.stdout)
        self.assertEqual({run["status"] for run in self.runs()}, {"success"})
        result = self.expect(self.pawl("resume"), 0)
        self.assertIn("nothing to resume", result.stdout)

    def test_json_of_several_runs_names_the_run_on_each_line(self):
        for _ in range(2):
            self.expect(self.pawl("run", self.workflow(GATED)), 5)
        result = self.expect(self.pawl("resume", "--approve", "--json"), 0)
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual(len({line["run"] for line in lines if "event" in line}), 2)
        self.assertEqual(len([line for line in lines if line.get("type") == "result"]), 2)

    def test_a_new_run_leaves_interrupted_ones_alone(self):
        slow = "workflow: slow\nsteps:\n  - {id: s, tool: shell, with: {idempotent: true, argv: [sleep, '300']}}\n"
        process = self.start("run", self.workflow(slow, "slow.yaml"))
        self.wait_until(lambda: (self.data / "pawl.db").exists() and self.runs("--status", "running"), "the slow run")
        process.kill()
        process.communicate()
        slow_run = self.only_run()["id"]
        before = self.show(slow_run)
        self.run_to_end(TWO_STEPS)
        self.assertEqual(self.show(slow_run), before)

    def test_a_second_writer_is_told_who_holds_the_folder(self):
        slow = "workflow: slow\nsteps:\n  - {id: s, tool: sleep, with: {duration: 300s}}\n"
        process = self.start("run", self.workflow(slow, "slow.yaml"))
        self.wait_until(lambda: (self.data / "pawl.db").exists() and self.runs(), "the slow run")
        result = self.expect(self.pawl("run", self.workflow(TWO_STEPS)), 75)
        self.assertIn(str(process.pid), result.stderr)
        # Looking is always possible.
        self.assertEqual(self.only_run()["status"], "waiting")
        self.verify_clean()
        interrupt(process)


class NothingThere(PawlCase):
    def test_an_empty_folder_is_not_made_by_looking(self):
        for command in (["resume"], ["runs"], ["show", "run_1"], ["verify"], ["approve", "x"], ["cancel", "x"]):
            with self.subTest(command):
                self.expect(self.pawl(*command), 4)
                self.assertFalse(self.data.exists())

    def test_who_looks_at_the_first_start_sees_nothing_or_a_whole_journal(self):
        workflow = self.workflow(TWO_STEPS)
        for attempt in range(20):
            self.data = self.folder / f"data-{attempt}"
            process = self.start("run", workflow)
            while process.poll() is None:
                result = self.pawl("runs")
                self.assertIn(result.returncode, (0, 4), result.stderr)
            self.assertEqual(process.returncode, 0)
            self.verify_clean()


if __name__ == "__main__":
    unittest.main()
