"""`pawl run` with http.request, killed at every point: before every call to its disk, and at every stage of the call
itself.

The other side counts. It either does whatever it is asked to, each time, or once a key, as it is declared to pawl.
Whatever is killed, no effect happens twice, and what nobody can know is told.
"""
import collections
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import unittest

from killing import KILLED, KILLING, PAWL, STRIDE, TIMEOUT_S

EXIT_WAITING = 5

# Where in a call the one who makes it is killed.
STAGES = ("asked", "done", "half answered", "answered")


class Target:
    """Counts calls and effects. `honours_keys`: the second call under a key has no effect of its own."""

    def __init__(self, honours_keys):
        self.honours_keys = honours_keys
        self.calls, self.effects = [], []
        self.stage, self.victim = None, None
        self.has_victim = threading.Event()
        target = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                target.answer(self)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):  # whoever asked was killed
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def answer(self, request):
        key = request.headers["Idempotency-Key"]
        self.calls.append(key)
        self.kill_at("asked")
        if not self.honours_keys or key not in self.effects:
            self.effects.append(key)
        self.kill_at("done")
        body = b'{"done":true}'
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body[:5])
        request.wfile.flush()
        self.kill_at("half answered")
        request.wfile.write(body[5:])
        request.wfile.flush()
        self.kill_at("answered")

    def kill_at(self, stage):
        if stage != self.stage:
            return
        self.has_victim.wait(TIMEOUT_S)
        self.stage = None
        self.victim.kill()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}/orders"


class HttpFaults(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pawl-http-gate-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def begin(self, name, kind):
        self.target = Target(honours_keys=kind == "once")
        self.addCleanup(self.target.close)
        self.data = self.folder / name
        self.file = self.folder / f"{name}.json"
        self.file.write_text(json.dumps({"workflow": "order", "steps": [
            {"id": "order", "tool": "http.request", "retry": {"max_attempts": 6, "base": "1ms", "max": "1ms"},
             "with": {"method": "POST", "url": self.target.url, "body": {"item": 7}, "idempotent": kind == "once",
                      "undo": {"method": "DELETE", "url": self.target.url}}}]}))

    def start(self, *args, **environment):
        return subprocess.Popen([PAWL, *map(str, args), "--http-allow", "127.0.0.1", "--data", self.data],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env={**os.environ, **environment})

    def run_to_its_end(self, *args, **environment):
        process = self.start(*args, **environment)
        said, _ = process.communicate(timeout=TIMEOUT_S)
        return process.returncode, said

    def pawl(self, *args, code=0):
        done = subprocess.run([PAWL, *args, "--data", self.data], capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def run_object(self):
        done = subprocess.run([PAWL, "runs", "--json", "--data", self.data], capture_output=True, text=True,
                              timeout=TIMEOUT_S)
        if done.returncode != 0 or not done.stdout:  # killed before there was a journal, or a run in it
            return None
        run = json.loads(done.stdout.splitlines()[0])["id"]
        return json.loads(self.pawl("show", run, "--json"))

    def boundary(self):
        """Where it was killed, as the journal has it."""
        run = self.run_object()
        if not run or not run["receipts"]:
            self.assertEqual(self.target.calls, [], "a call without a durable intent")
            return "before the intent"
        return "after the outcome" if run["receipts"][-1]["status"] == "succeeded" else "after the intent"

    def go_on(self, kind, boundary):
        """Carries it on to its end, answering as somebody does who has looked at the other side."""
        calls = len(self.target.calls)
        code, said = self.run_to_its_end("resume")
        run = self.run_object()
        if run is None:
            return
        if kind == "each" and boundary == "after the intent":
            self.assertEqual(code, EXIT_WAITING, said)
            self.assertEqual(run["steps"][0]["question"]["kind"], "effect_in_doubt")
            receipt = run["receipts"][-1]
            self.assertEqual(receipt["status"], "in_doubt")
            self.assertEqual(len(self.target.calls), calls, "it is not called again while nobody knows")
            self.pawl("receipts", receipt["id"], "--happened", "yes" if self.target.effects else "no")
            code, said = self.run_to_its_end("resume")
            run = self.run_object()
        self.assertEqual((code, run["status"]), (0, "success"), said)
        self.check_end(kind, boundary, run)

    def check_end(self, kind, boundary, run):
        self.assertEqual(len(self.target.effects), 1, boundary)
        self.assertEqual(len(set(self.target.calls)), 1, "one key for all calls of one effect")
        succeeded = [receipt for receipt in run["receipts"] if receipt["status"] == "succeeded"]
        self.assertEqual(len(succeeded), 1)
        # No call but what receipts account for.
        self.assertLessEqual(len(self.target.calls), sum(receipt["calls"] for receipt in run["receipts"]))
        if kind == "once":
            self.assertEqual(len(run["receipts"]), 1, "it is called again instead of somebody being asked")
            self.assertEqual(succeeded[0]["calls"], 2 if boundary == "after the intent" else 1)
            self.assertTrue(succeeded[0]["reversible"], "what was repeated after a doubt keeps its undo")
        else:
            self.assertEqual(len(self.target.calls), 1, boundary)
        self.pawl("verify")

    def test_killed_at_every_stage_of_the_call(self):
        for kind in ("each", "once"):
            for stage in STAGES:
                with self.subTest(kind=kind, stage=stage):
                    self.begin(f"{kind}-{stage.replace(' ', '-')}", kind)
                    self.target.stage = stage
                    process = self.start("run", self.file)
                    self.target.victim = process
                    self.target.has_victim.set()
                    process.communicate(timeout=TIMEOUT_S)
                    boundary = self.boundary()
                    if process.returncode == 0:  # it was faster than the one who kills
                        self.assertEqual((stage, boundary), ("answered", "after the outcome"))
                    else:
                        self.assertEqual(process.returncode, KILLED)
                    if stage != "answered":
                        self.assertEqual(boundary, "after the intent")
                    self.go_on(kind, boundary)

    def test_killed_again_while_it_is_called_again(self):
        self.begin("again", "once")
        for command in (("run", self.file), ("resume",), ("resume",)):
            self.target.stage = "done"
            self.target.has_victim.clear()
            process = self.start(*command)
            self.target.victim = process
            self.target.has_victim.set()
            process.communicate(timeout=TIMEOUT_S)
            self.assertEqual(process.returncode, KILLED)
            self.assertEqual(self.run_object()["receipts"][-1]["status"],
                             "intended" if command[0] == "run" else "in_doubt")
        code, said = self.run_to_its_end("resume")
        self.assertEqual(code, 0, said)
        self.assertEqual((len(self.target.effects), len(self.target.calls)), (1, 4))
        self.assertEqual(self.run_object()["receipts"][0]["calls"], 4)
        self.pawl("verify")

    def test_killed_before_every_call_to_the_disk(self):
        for kind in ("each", "once"):
            seen = collections.Counter()
            for call in range(1, 2000, STRIDE):
                with self.subTest(kind=kind, KILL_AT=call):
                    self.begin(f"disk-{kind}-{call}", kind)
                    code, said = self.run_to_its_end("run", self.file, **KILLING, KILL_AT=str(call))
                    self.assertIn(code, (0, KILLED), said)
                    boundary = self.boundary()
                    seen[boundary] += 1
                    if self.run_object():
                        self.go_on(kind, boundary)
                    self.target.close()
                    shutil.rmtree(self.data, ignore_errors=True)
                if code != KILLED:
                    break
            self.assertEqual(code, 0, "it never came to its end")
            self.assertLessEqual({"before the intent", "after the intent", "after the outcome"}, set(seen), seen)


if __name__ == "__main__":
    unittest.main()
