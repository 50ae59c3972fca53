"""What every test of the API shares: a real server (named by $PAWL) in a folder of its own, spoken to over real
sockets.

A test waits for a condition, never for an amount of time: see support/waiting.py. Leases and expiries are long, unless
the test waits for their end; a test that needs something done before a short one is over uses `growing`.
"""
import datetime
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse

sys.path[:0] = [str(pathlib.Path(__file__).parents[1] / folder) for folder in ("postgres", "support")]
from database import new_database  # noqa: E402
from waiting import HANG_S, until  # noqa: E402

PAWL = os.environ.get("PAWL") or str(pathlib.Path(__file__).parents[2] / "build/release/pawl")
TIMEOUT_S = HANG_S
# Long runs repeat more often: ./test deep sets it.
DEEP = bool(os.environ.get("PAWL_TEST_DEEP"))

# Sanitized servers are slower and larger than the limits that some tests check.
SLACK = float(os.environ.get("API_SLACK", "1"))

TERMINAL = {"success", "failed", "denied", "timeout", "canceled"}

# Steps that only a remote worker can do: no tool of the server has this name.
REMOTE = """
workflow: remote
steps:
  - {id: only, tool: test.work, lease: 1h}
"""

GATED = """
workflow: gated
steps:
  - {id: gate, tool: approval, tier: med, expires: 1h}
"""

INSTANT = """
workflow: instant
steps:
  - {id: only, tool: noop, with: {output: {n: 1}}}
"""


class Answer:
    """One response, whole."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        return self.json.get("code")

    def __repr__(self):
        return f"{self.status} {self.body[:2000]!r}"


class Client:
    """One key on one kept-alive connection. Not for two threads at once."""

    def __init__(self, server, key=None):
        self.server = server
        self.key = key
        self.connection = None
        self.address = None

    def request(self, method, path, body=None, headers=None):
        headers = dict(headers or {})
        if self.key and "Authorization" not in headers:
            headers["Authorization"] = "Bearer " + self.key
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        if isinstance(body, str):
            body = body.encode()
        for last_try in (False, True):
            if self.connection is None or self.address != self.server.address:
                self.close()
                self.address = self.server.address
                self.connection = http.client.HTTPConnection(*self.address, timeout=TIMEOUT_S)
            fresh = self.connection.sock is None
            try:
                self.connection.request(method, path, body, headers)
                response = self.connection.getresponse()
                answer = Answer(response.status, response.headers, response.read())
                if response.will_close:
                    self.close()
                return answer
            except (http.client.RemoteDisconnected, ConnectionError):
                self.close()
                # A kept connection may have been closed while it was idle; a fresh one has no such excuse.
                if fresh or last_try:
                    raise
        raise AssertionError("unreachable")

    def get(self, path, **query):
        return self.request("GET", with_query(path, query))

    def post(self, path, body=None, headers=None, **query):
        return self.request("POST", with_query(path, query), body, headers)

    def put(self, path, body=None):
        return self.request("PUT", path, body)

    def delete(self, path):
        return self.request("DELETE", path)

    def close(self):
        if self.connection:
            self.connection.close()
            self.connection = None


def with_query(path, query):
    return path + ("?" + urllib.parse.urlencode(query) if query else "")


def is_of_test(message):
    """Checkpoints are made, and before the first of them their key is, whenever their time has come; what a tenant
    stores is counted in between."""
    return message.get("event", {}).get("type") not in ("checkpoint.made", "signing_key.set", "storage.counted")


class Feed:
    """Server-sent events, read by hand."""

    def __init__(self, server, key, headers=None, receive_bytes=None, **query):
        self.last_id = None
        self.resume_at = None  # what the server's last words were, when it ended the stream itself
        self.ended_with = None  # the same, when the client may have nothing more
        self.buffer = b""
        self.sock = server.connect(receive_bytes=receive_bytes)
        lines = [f"GET {with_query('/events', query)} HTTP/1.1", "Host: localhost", "Accept: text/event-stream",
                 *(f"{name}: {value}" for name, value in (headers or {}).items())]
        if key:
            lines.append("Authorization: Bearer " + key)
        self.sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        head = self.take_until(b"\r\n\r\n").decode()
        self.status = int(head.split()[1])
        self.head = head
        # First of all it says where it begins: an id, and no event.
        self.begins_at = self.take_until(b"\n\n").decode().removeprefix("id: ") if self.status == 200 else None
        self.last_id = self.begins_at

    def take_until(self, mark):
        """None when the stream ended before the mark came."""
        while mark not in self.buffer:
            more = self.sock.recv(1 << 16)
            if not more:
                return None
            self.buffer += more
        taken, self.buffer = self.buffer.split(mark, 1)
        return taken

    def next(self):
        """The next event; None at the end of the stream."""
        end = time.monotonic() + TIMEOUT_S
        while True:
            # An idle feed still says now and then how far the journal is.
            if time.monotonic() > end:
                raise AssertionError("neither an event nor the end of the stream came")
            block = self.take_until(b"\n\n")
            if block is None:
                return None
            fields = dict(line.split(": ", 1) for line in block.decode().split("\n") if not line.startswith(":"))
            if fields.get("event") == "resume":
                self.resume_at = fields["data"]
                continue
            if fields.get("event") == "end":
                self.ended_with = json.loads(fields["data"])
                continue
            self.last_id = fields.get("id", self.last_id)
            if "data" in fields and is_of_test(message := json.loads(fields["data"])):
                return message

    def take(self, count):
        return [self.next() for _ in range(count)]

    def until(self, holds):
        """All events up to the first for which this holds."""
        events = []
        while not events or not holds(events[-1]):
            event = self.next()
            if event is None:
                raise AssertionError(f"the feed ended after {events}")
            events.append(event)
        return events

    def rest(self):
        events = []
        while (event := self.next()) is not None:
            events.append(event)
        return events

    def problem(self):
        """The body of a refusal."""
        size = int(re.search(r"(?i)content-length: (\d+)", self.head)[1])
        while len(self.buffer) < size:
            more = self.sock.recv(1 << 16)
            if not more:
                break
            self.buffer += more
        return json.loads(self.buffer[:size])

    def close(self):
        self.sock.close()


class Server:
    """pawl serve on a data folder, or on a database. Can be killed and started again on the same one."""

    def __init__(self, data, flags=()):
        self.data = pathlib.Path(data)
        self.flags = list(flags)
        self.store = new_database()
        if self.store:
            self.flags += ["--store", self.store]
        self.process = None
        self.address = None
        self.log = open(self.data.parent / "server.log", "ab")

    def start(self):
        # A file of an earlier process, left behind by a kill, would be mistaken for this one's.
        (self.data / "server.json").unlink(missing_ok=True)
        env = {k: v for k, v in os.environ.items() if k != "PAWL_DATA"}
        self.process = subprocess.Popen(
            [PAWL, "serve", "--data", str(self.data), "--listen", "127.0.0.1:0", *self.flags],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=env)
        url = urllib.parse.urlsplit(until(self.about, bool, "the server's address")["url"])
        self.address = (url.hostname, url.port)
        return self

    def about(self):
        """The content of server.json; None before it is there."""
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended at its start with {self.process.returncode}")
        try:
            return json.loads((self.data / "server.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def kill(self):
        """As the power failing would, as far as a process can tell."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Politely; gives the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=TIMEOUT_S)

    def is_alive(self):
        return self.process.poll() is None

    def rss_mib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1024

    def cpu_seconds(self):
        """Processor time that it has used so far. Other programs make a server slower, but not this any larger."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def output(self):
        return (self.data.parent / "server.log").read_text(errors="replace")

    def connect(self, timeout=TIMEOUT_S, receive_bytes=None):
        """A bare socket to it."""
        sock = socket.socket()
        if receive_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.settimeout(timeout)
        sock.connect(self.address)
        return sock


class ApiCase(unittest.TestCase):
    """A server and its first admin for each test."""

    flags = ()
    maxDiff = 4000

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pawl-api-"))
        self.data = self.folder / "data"
        self.data.mkdir(mode=0o700)
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.server = Server(self.data, self.flags)
        self.addCleanup(self.server.end)
        self.clients = []
        self.addCleanup(lambda: [client.close() for client in self.clients])
        self.start_server()
        self.admin = self.client((self.data / "admin.key").read_text().strip())

    def start_server(self):
        try:
            self.server.start()
        except AssertionError:
            print(f"\n--- the server's output in {self.id()}:\n{self.server.output()}---", flush=True)
            raise

    def restart(self, kill=True):
        self.server.kill() if kill else self.server.stop()
        self.start_server()

    def run(self, result=None):
        result = super().run(result)
        failed = result and any(test is self for test, _ in result.failures + result.errors)
        if failed and hasattr(self, "server_output"):
            print(f"\n--- the server's output in {self.id()}:\n{self.server_output}---", flush=True)
        return result

    def tearDown(self):
        self.server_output = self.server.output()

    # ---- Who asks

    def client(self, key=None):
        client = Client(self.server, key)
        self.clients.append(client)
        return client

    def feed(self, who=None, **more):
        feed = Feed(self.server, (who or self.admin).key, **more)
        self.addCleanup(feed.close)
        return feed

    def make_key(self, role, tenant=None, **more):
        """The text of a new key."""
        body = {"role": role, **more}
        if tenant:
            body["tenant"] = tenant
        return self.ok(self.admin.post("/keys", body), 201).json["key"]

    def as_role(self, role, tenant=None):
        return self.client(self.make_key(role, tenant))

    def as_person(self, name, role="approver"):
        """A new key that the tenant knows to be this person's."""
        made = self.ok(self.admin.post("/keys", {"role": role}), 201).json
        self.ok(self.admin.put(f"/people/{name}", {"keys": [made["id"]]}))
        return self.client(made["key"])

    def make_tenant(self, name):
        """Its admin."""
        self.assertIn(self.admin.post("/tenants", {"name": name}).status, (200, 201))
        return self.as_role("admin", name)

    # ---- What is asked for, over and over

    def ok(self, answer, status=200):
        self.assertEqual(answer.status, status, answer)
        return answer

    def refused(self, answer, status, code):
        """A problem as RFC 9457 has it, with this code."""
        self.assertEqual(answer.status, status, answer)
        self.assertEqual(answer.headers["Content-Type"], "application/problem+json")
        self.assertEqual(answer.code, code, answer)
        self.assertEqual(answer.json["status"], status)
        self.assertTrue(answer.json["title"] and answer.json["detail"], answer)
        return answer

    def publish(self, source, who=None):
        name = re.search(r"workflow: (\S+)", source)[1]
        answer = (who or self.admin).put("/workflows/" + name, source)
        self.assertIn(answer.status, (200, 201), answer)
        return answer.json["version"]

    def create(self, workflow, who=None, **body):
        return self.ok((who or self.admin).post("/runs", {"workflow": workflow, **body}), 201).json

    def start(self, source, who=None, **body):
        """Publishes the workflow and starts a run of it."""
        self.publish(source, who)
        return self.create(re.search(r"workflow: (\S+)", source)[1], who, **body)

    def get_run(self, run, who=None, **query):
        return self.ok((who or self.admin).get(f"/runs/{run}", **query)).json

    def step(self, run, step, who=None, **query):
        return next(s for s in self.get_run(run, who, **query)["steps"] if s["id"] == step)

    def events(self, run, who=None):
        """The whole stream, over as many pages as it takes."""
        items, after = [], "0"
        while after:
            page = self.ok((who or self.admin).get(f"/runs/{run}/events", after=after)).json
            items += page["items"]
            after = page["next_cursor"]
        return items

    def types(self, run, who=None):
        return [item["event"]["type"] for item in self.events(run, who)]

    def run_status(self, run, status, who=None, **query):
        """Waits until the run has this status, and gives the run."""
        return self.until(lambda: self.get_run(run, who, **query), lambda r: r["status"] == status,
                          f"{run} is {status}")

    def lease(self, who=None, tools=("test.work",), max=1, wait="0s", worker="w1"):
        answer = (who or self.admin).post("/leases", {"worker": worker, "tools": list(tools), "max": max, "wait": wait})
        return self.ok(answer).json["leases"]

    def lease_one(self, who=None, **more):
        leases = self.until(lambda: self.lease(who, wait="30s", **more), bool, "a step to take")
        self.assertEqual(len(leases), 1, leases)
        return leases[0]

    def lease_count(self, count, who=None, **more):
        """Takes this many. One request may bring fewer than there are: a server among others leaves some to them."""
        leases = []
        while len(leases) < count:
            leases += self.until(lambda: self.lease(who, wait="30s", max=count - len(leases), **more), bool,
                                 "steps to take")
        return leases

    def report(self, verb, lease, who=None, **more):
        """One item of a batch; gives its result."""
        item = {"lease_id": lease["lease_id"], "token": lease["token"], **more}
        items = self.ok((who or self.admin).post(f"/leases/{verb}", {"items": [item]})).json["items"]
        self.assertEqual([i["lease_id"] for i in items], [lease["lease_id"]])
        return items[0]

    def complete(self, lease, who=None, **more):
        result = self.report("complete", lease, who, **more)
        self.assertTrue(result["ok"], result)

    # ---- Time

    def until(self, look, holds, what):
        """Polls until the value holds, and returns it."""
        return until(look, holds, what)

    def is_past(self, moment):
        """Whether a time that the server gave, which has the same clock, is over."""
        end = datetime.datetime.fromisoformat(moment.replace("Z", "+00:00"))
        return datetime.datetime.now(datetime.timezone.utc) > end + datetime.timedelta(milliseconds=1)

    def wait_past(self, moment):
        self.until(lambda: self.is_past(moment), bool, f"{moment} is over")

    def growing(self, attempt, first_ms=200):
        """For what must be done before a short span is over: attempt(span) returns None when that was visibly
        impossible because the machine was busy. Then it is called with a span five times as long."""
        for span_ms in (first_ms, first_ms * 5, first_ms * 25, first_ms * 125):
            result = attempt(f"{span_ms}ms")
            if result is not None:
                return result
        self.fail(f"even {span_ms} ms were too short")

    def metric(self, name):
        """The value of a metric without labels."""
        return float(re.search(rf"^{name} (\S+)$", self.ok(self.admin.get("/metrics")).body.decode(), re.M)[1])

    def until_metric(self, name, value):
        self.until(lambda: self.metric(name), lambda seen: seen == value, f"{name} is {value}")


def retrying(base="10ms", attempts=3):
    """A workflow of one remote step that may fail and be tried again."""
    return f"""
workflow: retrying
retry: {{max_attempts: {attempts}, base: {base}, max: 1h, jitter: 0}}
steps:
  - {{id: only, tool: test.work, lease: 1h}}
"""
