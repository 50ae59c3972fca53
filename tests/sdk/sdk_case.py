"""What the tests of the Python SDK share: a real server (the binary named by $PAWL) on a folder of its own."""
import json
import logging
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import urllib.request

SOURCE = pathlib.Path(__file__).parents[2]
SDK = SOURCE / "sdk/python"
PAWL = os.environ.get("PAWL") or str(SOURCE / "build/release/pawl")

sys.path[:0] = [str(SDK), str(SOURCE / "tests/support")]
import pawl  # noqa: E402
from ports import stable_port  # noqa: E402
from waiting import HANG_S as TIMEOUT_S  # noqa: E402
from waiting import until  # noqa: E402

# A worker waits for its last poll when it stops.
POLL_WAIT_S = 0.3

# What the SDK has to say is of interest only to who looks for it.
logging.getLogger("pawl").addHandler(logging.NullHandler())


def wait_until(holds, what):
    return until(holds, bool, what)


class Server:
    """pawl serve. Started again after kill(), it listens where it did before."""

    def __init__(self, data):
        self.data = data
        self.listen = f"127.0.0.1:{stable_port()}"
        self.process = None

    def start(self):
        (self.data / "server.json").unlink(missing_ok=True)
        self.process = subprocess.Popen([PAWL, "serve", "--data", str(self.data), "--listen", self.listen],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(self.is_up, "the server's address")
        return self

    def is_up(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended with {self.process.returncode}")
        return (self.data / "server.json").exists()

    @property
    def url(self):
        return json.loads((self.data / "server.json").read_text())["url"]

    @property
    def key(self):
        return (self.data / "admin.key").read_text().strip()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()


class SdkCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pawl-sdk-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "data").mkdir()
        self.set_of_worker(POLL_WAIT_S=POLL_WAIT_S)
        self.server = Server(self.folder / "data").start()
        self.addCleanup(self.server.stop)
        self.client = self.new_client()

    def set_of_worker(self, **constants):
        """Changes constants of pawl.worker for this test."""
        patch = unittest.mock.patch.multiple("pawl.worker", **constants)
        patch.start()
        self.addCleanup(patch.stop)

    def new_client(self, url=None, **options):
        options.setdefault("patience", TIMEOUT_S)
        options.setdefault("timeout", TIMEOUT_S)
        client = pawl.Client(url or self.server.url, self.server.key, **options)
        self.addCleanup(client.close)
        return client

    def publish(self, steps, name="work"):
        """A workflow of these steps, given in YAML's flow style."""
        lines = "".join(f"  - {step}\n" for step in steps)
        retry = "{max_attempts: 5, base: 20ms, max: 100ms}"
        return self.client.publish(name, f"workflow: {name}\nretry: {retry}\nsteps:\n{lines}")

    def worker(self, **options):
        """Not started. Stopped with the test, without waiting for anything."""
        worker = pawl.Worker(self.new_client(), **options)
        self.addCleanup(self.end_worker, worker)
        return worker

    @staticmethod
    def end_worker(worker):
        worker.stop(grace=0)

    def start_worker(self, tools, **options):
        worker = self.worker(**options)
        for name, function in tools.items():
            worker.add(name, function)
        worker.start()
        return worker

    def metric(self, name):
        request = urllib.request.Request(self.server.url + "/metrics",
                                         headers={"Authorization": "Bearer " + self.server.key})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return float(re.search(rf"^{name} (\S+)$", answer.read().decode(), re.M)[1])

    def finish(self, run, status="success"):
        run = self.client.wait(run.id, timeout=TIMEOUT_S)
        self.assertEqual(run.status, status, run)
        return run

    def python(self, script, *args, **env):
        """A Python process that finds the SDK and the server. Killed with the test."""
        environment = {**os.environ, "PYTHONPATH": str(SDK), "PYTHONUNBUFFERED": "1", "PAWL_SERVER": self.server.url,
                       "PAWL_KEY": self.server.key, **env}
        process = subprocess.Popen([sys.executable, *map(str, [script, *args])], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()


class Follower:
    """Reads a feed in a thread of its own."""

    def __init__(self, client, **options):
        self.events = []
        threading.Thread(target=self.read, args=(client, options), daemon=True).start()

    def read(self, client, options):
        for event in client.follow(**options):
            self.events.append(event)
