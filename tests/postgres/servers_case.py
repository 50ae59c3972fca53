"""What the tests of several servers share: several `pawl serve` processes on one PostgreSQL."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest
import urllib.request
from pathlib import Path

from cluster import HANG_S, Cluster, free_port, until

PAWL = os.environ.get("PAWL") or str(Path(__file__).parents[2] / "build/release/pawl")
PATIENCE_S = HANG_S

REMOTE = """
workflow: remote
steps:
  - {id: a, tool: test.work, lease: 10m, retry: {max_attempts: 50, base: 10ms, max: 50ms}}
  - {id: b, tool: test.work, lease: 10m, retry: {max_attempts: 50, base: 10ms, max: 50ms}}
"""
LOCAL = "workflow: local\nsteps: [{id: a, tool: noop}, {id: b, tool: noop}, {id: c, tool: noop}]\n"
GATE = "workflow: gate\nsteps: [{id: ok, tool: approval}]\n"


class Server:
    """One server; its key opens all of them, since they have the same secret. Started again, it listens where it
    did."""

    def __init__(self, folder, store, *flags):
        self.folder = Path(folder)
        self.listen = f"127.0.0.1:{free_port()}"
        self.under = ()  # the command that starts it
        self.log = self.folder.with_name(self.folder.name + ".log")
        self.store, self.flags = store, flags
        self.process = None

    def launch(self):
        """Starts the process; whether it serves shows in has_started."""
        (self.folder / "server.json").unlink(missing_ok=True)
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                [*self.under, PAWL, "serve", "--data", self.folder, "--store", self.store, "--listen", self.listen,
                 *self.flags], stderr=log, stdin=subprocess.DEVNULL)

    def has_started(self):
        return (self.folder / "server.json").exists()

    def start(self):
        self.launch()
        until(lambda: self.has_started() or self.process.poll() is not None, bool, "the server")
        if not self.has_started():
            raise AssertionError("the server did not start:\n" + self.log.read_text()[-3000:])
        return self

    @property
    def url(self):
        return "http://" + self.listen

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(number)
        self.process.wait(PATIENCE_S)


class ServersCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__)

    def setUp(self):
        self.place = Path(tempfile.mkdtemp(prefix="pawl_servers_"))
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.name = "servers_" + self.place.name.lower().replace("pawl_servers_", "")
        self.cluster.create_database(self.name)
        self.servers = []

    def make(self, *flags, store=None):
        """One that is not started yet."""
        folder = self.place / str(len(self.servers))
        if self.servers:
            folder.mkdir()
            for name in ("secret", "signing-key.json"):
                shutil.copy(self.place / "0" / name, folder / name)
        server = Server(folder, store or self.cluster.url(self.name), *flags)
        self.servers.append(server)
        self.addCleanup(lambda: server.process and server.process.poll() is None and server.kill())
        return server

    def serve(self, *flags, store=None):
        return self.make(*flags, store=store).start()

    def key(self):
        return (self.place / "0" / "admin.key").read_text().strip()

    def ask(self, server, method, path, body=None, headers=()):
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        request = urllib.request.Request(server.url + path, method=method, data=data,
                                         headers={"Authorization": "Bearer " + self.key(), **dict(headers)})
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def wait_for(self, what, condition):
        until(condition, bool, what)

    def take(self, server, worker="w"):
        """A lease, once there is one."""
        wanted = {"worker": worker, "tools": ["test.work"], "wait": "20s"}
        return until(lambda: self.ask(server, "POST", "/leases", wanted)["leases"], bool, "a lease")[0]

    def status(self, server, run):
        return self.ask(server, "GET", "/runs/" + run)["status"]
