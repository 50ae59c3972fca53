"""What the tests share that have a server: the real one, on the test's own folder."""
import json
import pathlib
import subprocess
import sys
import urllib.request

from pawl_case import PAWL, TIMEOUT_S, PawlCase

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "postgres"))
from database import new_database  # noqa: E402

REMOTE = """
workflow: remote
steps:
  - {id: before, tool: noop}
  - {id: gate, tool: approval}
  - {id: work, tool: double, with: {n: 21}, retry: {max_attempts: 2, base: 1ms, max: 1ms}}
"""

# Reads {"n": ...}, prints it doubled; fails as its first argument says.
DOUBLE = """#!/usr/bin/env python3
import json, os, sys
n = json.load(sys.stdin)["n"]
if sys.argv[1:] == ["later"] and os.environ["PAWL_ATTEMPT"] == "1":
    print(json.dumps({"error_code": "NOT_YET", "message": "come again", "retryable": True}))
    sys.exit(1)
if sys.argv[1:] == ["never"]:
    print(json.dumps({"error_code": "NO_WAY", "message": "it will not be", "retryable": False}))
    sys.exit(7)
print(json.dumps({"twice": 2 * n, "run": os.environ["PAWL_RUN_ID"], "key": os.environ["PAWL_IDEMPOTENCY_KEY"]}))
"""


class ServerCase(PawlCase):
    store = None  # beside a PostgreSQL: the database that its server keeps its runs in

    def serve(self, *flags):
        self.store = self.store or new_database()
        store = ("--store", self.store) if self.store else ()
        server = self.start("serve", "--listen", "127.0.0.1:0", *store, *flags)
        self.wait_until((self.data / "server.json").exists, "the server")
        return server

    def verify_clean(self):
        if not self.store:
            return super().verify_clean()
        done = subprocess.run([PAWL, "verify", "--store", self.store], capture_output=True, text=True)
        self.assertIn("clean", self.expect(done, 0).stdout)

    def url(self):
        return json.loads((self.data / "server.json").read_text())["url"]

    def away(self):
        """The environment of someone who has the server's address and a key, and not its folder."""
        key = (self.data / "admin.key").read_text().strip()
        return {"PAWL_SERVER": self.url(), "PAWL_KEY": key, "PAWL_DATA": str(self.folder / "nowhere")}

    def kill(self, server):
        server.kill()
        server.wait()
        (self.data / "server.json").unlink()

    def request(self, method, path, body=None, key=None):
        key = key or (self.data / "admin.key").read_text().strip()
        request = urllib.request.Request(self.url() + path, method=method,
                                         data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": "Bearer " + key})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return json.load(answer)

    def started(self, text=REMOTE, name="remote"):
        self.expect(self.pawl("workflows", "--publish", self.workflow(text)), 0)
        return self.request("POST", "/runs", {"workflow": name})["id"]

    def status(self, run):
        return self.request("GET", "/runs/" + run)["status"]

    def worker(self, *args):
        program = self.folder / "double.py"
        program.write_text(DOUBLE)
        program.chmod(0o755)
        return self.start_command("worker", "--tool", "double", "--concurrency", "2", "--data", self.data, "--",
                                  program,
                                  *args)

    def start_command(self, *args):
        process = subprocess.Popen([PAWL, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=self.environment(), cwd=self.folder)
        self.addCleanup(self.end, process)
        return process
