"""Those who watch in test_chaos: what is called and counts, what clients were told, who follows the feed."""
import collections
import contextlib
import json
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Target:
    """Counts what reaches it."""

    def __init__(self):
        self.calls = collections.Counter()
        lock = threading.Lock()
        calls = self.calls

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                with lock:
                    calls[self.headers["Idempotency-Key"]] += 1
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def call(self, key):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/", method="POST", data=b"",
                                         headers={"Idempotency-Key": key})
        urllib.request.urlopen(request, timeout=120).read()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Ledger:
    """What clients were told, and may rely on."""

    def __init__(self):
        self.lock = threading.Lock()
        self.created = {}    # run -> workflow
        self.decided = {}    # run -> the status it was told to have
        self.completed = {}  # (run, step) -> the output that was taken
        self.keys = set()    # ids of API keys

    def note(self, what, key, value=None):
        with self.lock:
            getattr(self, what)[key] = value


class Follower(threading.Thread):
    """Follows the feed, at one server after the other, from where it was."""

    def __init__(self, chaos, dice):
        super().__init__(daemon=True)
        self.chaos, self.dice = chaos, dice
        self.seen = collections.defaultdict(list)  # run -> sequence numbers as they came
        self.position = "0"
        self.moves = 0
        self.over = False

    def run(self):
        while not self.over:
            server = self.dice.choice(self.chaos.servers)
            with contextlib.suppress(OSError, ValueError, urllib.error.URLError):
                request = urllib.request.Request(f"{server.url}/events?after={self.position}", headers={
                    "Authorization": "Bearer " + self.chaos.key(), "Accept": "text/event-stream"})
                with urllib.request.urlopen(request, timeout=self.chaos.answer_s) as feed:
                    self.follow(feed, until=time.monotonic() + self.dice.uniform(3, 10))
            self.moves += 1
            time.sleep(0.1)

    def follow(self, feed, until):
        """An event counts with the empty line behind it: what is cut off comes again."""
        data, position = None, None
        while time.monotonic() < until and not self.over:
            line = feed.readline()
            if not line:
                return
            line = line.decode().rstrip("\n")
            if line.startswith("data: "):
                data = line[6:]
            elif line.startswith("id: "):
                position = line[4:]
            elif line == "":
                if data and (message := json.loads(data)) and "seq" in message and "run_id" in message:
                    self.seen[message["run_id"]].append(message["seq"])
                self.position = position or self.position
                data, position = None, None
