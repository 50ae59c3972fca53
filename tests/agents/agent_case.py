"""What the tests of agents share: a real server whose `claude` is the stand-in, and a run of one agent step."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

PAWL = os.environ.get("PAWL") or str(pathlib.Path(__file__).parents[2] / "build/release/pawl")
HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "support"))
from waiting import HANG_S as TIMEOUT_S  # noqa: E402
from waiting import until  # noqa: E402

FAKE = HERE / "fake_agent.py"
TERMINAL = {"success", "failed", "denied", "timeout", "canceled"}


class Refused(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status} {body}")
        self.status = status
        self.body = body


def is_alive(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


class AgentCase(unittest.TestCase):
    sandbox = "off"
    settings = []
    environment = {}  # of the server, beside ours
    log_file = None  # where the server's log goes; None: nowhere
    grace = "100ms"  # no test waits for an agent that does not end by itself

    def setUp(self):
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="pawl-agents-"))
        self.addCleanup(shutil.rmtree, self.base, ignore_errors=True)
        self.data = self.base / "data"
        self.work = self.base / "work"
        self.work.mkdir()
        self.sessions = self.base / "sessions"
        self.process = None
        self.addCleanup(self.stop)
        self.start()

    def start(self, program=PAWL):
        (self.data / "server.json").unlink(missing_ok=True)
        environment = dict(os.environ, FAKE_AGENT_HOME=str(self.sessions), **self.environment)
        environment.pop("PAWL_SERVER", None)
        log = open(self.log_file or os.devnull, "w")
        self.process = subprocess.Popen(
            [str(program), "serve", "--data", str(self.data), "--listen", "127.0.0.1:0", "--sandbox", self.sandbox,
             "--grace", self.grace,
             *(["--claude", str(FAKE)] if "--claude" not in self.settings else []), *self.settings],
            stdin=subprocess.DEVNULL, stderr=log, env=environment)
        log.close()
        until(lambda: (self.data / "server.json").exists() or self.process.poll() is not None, bool,
              "the server's address")
        self.url = json.loads((self.data / "server.json").read_text())["url"]
        self.key = (self.data / "admin.key").read_text().strip()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def until(self, holds, what="the condition of the test"):
        return until(holds, bool, what)

    def ask(self, method, path, body=None, key=None, headers=None):
        request = urllib.request.Request(self.url + path, method=method,
                                         data=None if body is None else body.encode() if isinstance(body, str)
                                         else json.dumps(body).encode())
        request.add_header("Authorization", "Bearer " + (key or self.key))
        request.add_header("Content-Type", "application/json")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            raise Refused(error.code, json.loads(text) if text.startswith("{") else text) from None

    def refused(self, *args, **named):
        with self.assertRaises(Refused) as caught:
            self.ask(*args, **named)
        return caught.exception

    def publish(self, steps, name="agents", **more):
        self.ask("PUT", "/workflows/" + name, json.dumps({"workflow": name, "steps": steps, **more}))

    def begin(self, prompt, tool="agent.claude", step=None, **given):
        """A run of one agent step; its id."""
        given = {"prompt": prompt, "folder": str(self.work), "pass_env": ["FAKE_AGENT_HOME"], **given}
        self.publish([{"id": "work", "tool": tool, "with": given, **(step or {})}])
        return self.ask("POST", "/runs", {"workflow": "agents"})["id"]

    def run_of(self, run):
        return self.ask("GET", "/runs/" + run)

    def step_of(self, run):
        return self.run_of(run)["steps"][0]

    def ended(self, run):
        return self.until(lambda: (lambda r: r if r["status"] in TERMINAL else None)(self.run_of(run)))

    def output(self, run):
        done = self.ended(run)
        self.assertEqual(done["status"], "success", done)
        return done["steps"][0]["output"]

    def waits(self, run, status="waiting_input"):
        return self.until(lambda: (lambda s: s if s["status"] == status else None)(self.step_of(run)))

    def log(self, run, stream="stdout", **query):
        more = "".join(f"&{key}={value}" for key, value in query.items())
        return self.ask("GET", f"/runs/{run}/steps/work/logs?stream={stream}{more}")

    def pawl(self, *arguments, **named):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PAWL_")}
        return subprocess.run([PAWL, *arguments, "--data", str(self.data)], capture_output=True, text=True,
                              env=environment, timeout=TIMEOUT_S, **named)
