"""What every test of the command line shares: the real binary (named by $PAWL) on a folder of its own."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from waiting import HANG_S, until  # noqa: E402

PAWL = os.environ.get("PAWL") or str(pathlib.Path(__file__).parents[2] / "build/release/pawl")
SOURCE = pathlib.Path(__file__).parents[2]
TIMEOUT_S = HANG_S
ESCAPE = "\x1b"

TWO_STEPS = """
workflow: two
steps:
  - {id: first, tool: noop, with: {output: {n: 1}}}
  - {id: second, tool: noop, with: {output: {n: "${{ steps.first.output.n }}"}}}
"""

GATED = """
workflow: gated
steps:
  - {id: before, tool: noop}
  - {id: gate, tool: approval, tier: med, expires: 1h, prompt: "Ship ${{ run.workflow }}?"}
  - {id: after, tool: noop, with: {output: shipped}}
"""


class PawlCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pawl-cli-"))
        self.data = self.folder / "data"
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def environment(self, **more):
        # Nothing of the caller's terminal, so that tests see the same everywhere.
        env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "LC_ALL", "LC_CTYPE", "PAWL_DATA")}
        env.update({"TERM": "xterm-256color", "LANG": "C.UTF-8", "HOME": str(self.folder)})
        env.update(more)
        return env

    def pawl(self, *args, stdin="", data=True, env=None):
        """Runs pawl to its end. `data`: on this test's own folder."""
        command = [PAWL, *map(str, args)] + (["--data", str(self.data)] if data else [])
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S,
                              env=self.environment(**(env or {})), cwd=self.folder)

    def start(self, *args):
        """Runs pawl and goes on; stdin is closed, output piped."""
        process = subprocess.Popen([PAWL, *map(str, args), "--data", str(self.data)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=self.environment(), cwd=self.folder)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def workflow(self, text, name="workflow.yaml"):
        path = self.folder / name
        path.write_text(text)
        return path

    def expect(self, result, code):
        self.assertEqual(result.returncode, code, f"stdout:\n{result.stdout}\nstderr:\n{result.stderr}")
        return result

    def run_to_end(self, text, *flags, code=0):
        """The final result object of a run of this workflow."""
        result = self.expect(self.pawl("run", self.workflow(text), "--json", *flags), code)
        return json.loads(result.stdout.splitlines()[-1])

    def runs(self, *flags):
        return [json.loads(line) for line in self.expect(self.pawl("runs", "--json", *flags), 0).stdout.splitlines()]

    def only_run(self):
        runs = self.runs()
        self.assertEqual(len(runs), 1, runs)
        return runs[0]

    def show(self, run, *flags):
        return json.loads(self.expect(self.pawl("show", run, "--json", *flags), 0).stdout)

    def steps(self, run):
        return {step["id"]: step for step in self.show(run)["steps"]}

    def verify_clean(self):
        result = self.expect(self.pawl("verify"), 0)
        self.assertIn("clean", result.stdout)

    def wait_until(self, holds, what):
        until(holds, bool, what)


def interrupt(process, how=signal.SIGINT):
    process.send_signal(how)
    out, err = process.communicate(timeout=TIMEOUT_S)
    return out, err


def without_escapes(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
