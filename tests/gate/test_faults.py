"""A fault at every boundary of the gate, with kill -9: the other side counts, and no effect happens twice.

GATE_CHILD names the program that is killed (gate_child.cc), FAILING_DISK the library that kills a program at a certain
call to its disk, PAWL the real binary.
"""
import collections
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from killing import KILLED, KILLING, PAWL, STRIDE, TIMEOUT_S

CHILD = os.environ["GATE_CHILD"]


class Faults(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pawl-gate-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.begin("first")

    def begin(self, name):
        self.data, self.target = self.folder / name / "data", self.folder / name / "target"
        self.target.mkdir(parents=True)

    def child(self, *args, **environment):
        done = subprocess.run([CHILD, *map(str, args)], capture_output=True, text=True, timeout=TIMEOUT_S,
                              env={**os.environ, **environment})
        self.assertIn(done.returncode, (0, KILLED), done.stderr)
        return done.returncode

    def work(self, kind, **environment):
        return self.child("work", self.data, self.target, kind, **environment)

    def count(self, what):
        file = self.target / what
        return len(file.read_text().splitlines()) if file.exists() else 0

    def pawl(self, *args):
        done = subprocess.run([PAWL, *args, "--data", self.data], capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def run_object(self):
        runs = self.pawl("runs", "--json").splitlines()
        self.assertLessEqual(len(runs), 1)
        return json.loads(self.pawl("show", json.loads(runs[0])["id"], "--json")) if runs else None

    def boundary(self, run):
        """Where it was killed, as journal and target have it."""
        receipts = run["receipts"] if run else []
        if not receipts:
            return "before the intent"
        if receipts[-1]["status"] == "succeeded":
            return "after the outcome"
        return "after the call" if self.count("calls") else "after the intent"

    def go_on_to_the_end(self, kind):
        """Carries it on, answering as somebody does who has looked at the other side."""
        asked = 0
        self.work(kind)
        while self.run_object()["status"] == "waiting":
            run = self.run_object()
            self.assertEqual(self.question(run)["kind"], "effect_in_doubt")
            self.assertEqual(run["receipts"][-1]["status"], "in_doubt")
            asked += 1
            self.assertLess(asked, 3)
            self.child("answer", self.data, "true" if self.count("effects") else "false")
            self.work(kind)
        self.pawl("verify")
        return asked

    @staticmethod
    def question(run):
        return run["steps"][0]["question"]

    def check_end(self, kind, boundary, asked):
        run = self.run_object()
        self.assertEqual(run["status"], "success", boundary)
        self.assertEqual(self.count("effects"), 1, boundary)
        succeeded = [receipt for receipt in run["receipts"] if receipt["status"] == "succeeded"]
        self.assertEqual(len(succeeded), 1, boundary)
        # No call but what receipts account for.
        self.assertLessEqual(self.count("calls"), sum(receipt["calls"] for receipt in run["receipts"]))
        in_doubt = boundary in ("after the intent", "after the call")
        if kind == "each":
            self.assertEqual(asked, 1 if in_doubt else 0, boundary)
            self.assertEqual(self.count("calls"), 1, boundary)
            self.assertEqual(len(run["receipts"]), 2 if boundary == "after the intent" else 1)
        else:
            self.assertEqual(asked, 0, "it is called again instead")
            self.assertEqual(len(run["receipts"]), 1)
            self.assertEqual(run["receipts"][0]["calls"], 2 if in_doubt else 1)

    def test_a_fault_at_every_point(self):
        points = {"before_intent": "before the intent", "after_intent": "after the intent",
                  "after_call": "after the call", "before_outcome": "after the call",
                  "after_outcome": "after the outcome"}
        for kind in ("each", "once"):
            for point, expected in points.items():
                with self.subTest(kind=kind, point=point):
                    self.begin(f"{kind}-{point}")
                    self.assertEqual(self.work(kind, DIE_AT=point), KILLED)
                    boundary = self.boundary(self.run_object())
                    self.assertEqual(boundary, expected)
                    self.check_end(kind, boundary, self.go_on_to_the_end(kind))

    def test_a_second_fault_where_the_first_is_being_mended(self):
        for kind in ("each", "once"):
            for point in ("before_intent", "after_intent", "after_call", "before_outcome"):
                with self.subTest(kind=kind, point=point):
                    self.begin(f"twice-{kind}-{point}")
                    self.assertEqual(self.work(kind, DIE_AT="after_call"), KILLED)
                    again = self.work(kind, DIE_AT=point)
                    # What is not idempotent is not called again, so only the way to the gate is gone a second time.
                    self.assertEqual(again, KILLED if kind == "once" or point == "before_intent" else 0)
                    self.go_on_to_the_end(kind)
                    self.assertEqual(self.run_object()["status"], "success")
                    self.assertEqual(self.count("effects"), 1)
                    self.assertEqual(self.count("calls"), 1 if kind == "each" else
                                     2 if point in ("before_intent", "after_intent") else 3)

    def test_killed_before_every_call_to_the_disk(self):
        for kind in ("each", "once"):
            seen = collections.Counter()
            for call in range(1, 2000, STRIDE):
                with self.subTest(kind=kind, KILL_AT=call):
                    self.begin(f"disk-{kind}-{call}")
                    killed = self.work(kind, **KILLING, KILL_AT=str(call)) == KILLED
                    run = self.run_object() if (self.data / "pawl.db").exists() and self.opens() else None
                    boundary = self.boundary(run)
                    seen[boundary] += 1
                    self.assertLessEqual(self.count("effects"), 1)
                    if self.count("calls"):
                        self.assertTrue(run and run["receipts"], "a call without a durable intent")
                    self.check_end(kind, boundary, self.go_on_to_the_end(kind))
                    shutil.rmtree(self.folder / f"disk-{kind}-{call}")
                if not killed:
                    break
            self.assertFalse(killed, "it never came to its end")
            self.assertLessEqual({"before the intent", "after the call", "after the outcome"}, set(seen), seen)

    def opens(self):
        """Killed early there may be no journal yet."""
        done = subprocess.run([PAWL, "runs", "--data", self.data], capture_output=True, timeout=TIMEOUT_S)
        return done.returncode == 0


class RealBinary(Faults):
    """The same of `pawl run`, with the shell as the connector: it is not idempotent, and nobody can look."""
    test_a_fault_at_every_point = test_a_second_fault_where_the_first_is_being_mended = None
    test_killed_before_every_call_to_the_disk = None

    def start(self, **environment):
        script = f"echo call >> {self.target}/calls; echo effect >> {self.target}/effects; " \
                 f"touch {self.target}/called; while [ -e {self.target}/hold ]; do sleep 0.01; done"
        (self.target / "workflow.yaml").write_text(json.dumps({"workflow": "effect", "steps": [
            {"id": "effect", "tool": "shell", "retry": {"max_attempts": 5, "base": "1ms", "max": "1ms"},
             "with": {"argv": ["sh", "-c", script]}}]}))
        return subprocess.Popen([PAWL, "run", self.target / "workflow.yaml", "--data", self.data],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env={**os.environ, **environment})

    def resume(self):
        done = subprocess.run([PAWL, "resume", "--data", self.data], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True,
                              timeout=TIMEOUT_S)
        return done.stdout + done.stderr

    def check_after_resuming(self, boundary):
        said = self.resume()
        run = self.run_object()
        self.assertLessEqual(self.count("effects"), 1, boundary)
        if boundary in ("after the intent", "after the call"):
            self.assertEqual(run["status"], "waiting", said)
            self.assertEqual(run["receipts"][-1]["status"], "in_doubt")
            self.assertIsNotNone(self.question(run))
            before = self.count("calls")
            self.resume()
            self.assertEqual(self.count("calls"), before, "it is not tried again while nobody knows")
        elif run:
            self.assertEqual(run["status"], "success", said)
            self.assertEqual(self.count("effects"), 1, boundary)
        self.pawl("verify")

    def test_killed_while_the_other_side_has_it(self):
        (self.target / "hold").touch()
        process = self.start()
        while not (self.target / "called").exists():
            self.assertIsNone(process.poll())
        process.kill()
        process.communicate(timeout=TIMEOUT_S)
        (self.target / "hold").unlink()
        self.assertEqual(self.boundary(self.run_object()), "after the call")
        self.check_after_resuming("after the call")

    def test_pawl_killed_before_every_call_to_the_disk(self):
        seen = collections.Counter()
        for call in range(1, 2000, STRIDE):
            with self.subTest(KILL_AT=call):
                self.begin(f"disk-{call}")
                process = self.start(**KILLING, KILL_AT=str(call))
                process.communicate(timeout=TIMEOUT_S)
                if not ((self.data / "pawl.db").exists() and self.opens()):
                    self.assertEqual(self.count("calls"), 0)
                    continue
                boundary = self.boundary(self.run_object())
                seen[boundary] += 1
                if self.count("calls"):
                    self.assertNotEqual(boundary, "before the intent", "a call without a durable intent")
                if self.run_object():
                    self.check_after_resuming(boundary)
                shutil.rmtree(self.folder / f"disk-{call}")
            if process.returncode != KILLED:
                break
        self.assertEqual(process.returncode, 0, "it never came to its end")
        self.assertLessEqual({"before the intent", "after the call", "after the outcome"}, set(seen), seen)


if __name__ == "__main__":
    unittest.main()
