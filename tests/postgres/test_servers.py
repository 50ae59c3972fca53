"""Several real servers on one real PostgreSQL, spoken to over sockets: whatever is asked of one, the others know."""
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from cluster import Cluster

PAWL = os.environ["PAWL"]
PATIENCE_S = 60

REMOTE = """
workflow: remote
steps:
  - {id: a, tool: test.work, lease: 3s, retry: {max_attempts: 50, base: 10ms, max: 50ms}}
  - {id: b, tool: test.work, lease: 3s, retry: {max_attempts: 50, base: 10ms, max: 50ms}}
"""
LOCAL = "workflow: local\nsteps: [{id: a, tool: noop}, {id: b, tool: noop}, {id: c, tool: noop}]\n"
GATE = "workflow: gate\nsteps: [{id: ok, tool: approval}]\n"


class Server:
    """One server; its key opens all of them, since they have the same secret."""

    def __init__(self, folder, store, *flags):
        self.folder = Path(folder)
        self.log = self.folder.with_name(self.folder.name + ".log")
        self.store, self.flags = store, flags
        self.process = None

    def start(self):
        (self.folder / "server.json").unlink(missing_ok=True)
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                [PAWL, "serve", "--data", self.folder, "--store", self.store, "--listen", "127.0.0.1:0", *self.flags],
                stderr=log, stdin=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE_S
        while not (self.folder / "server.json").exists():
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError("the server did not start:\n" + self.log.read_text()[-3000:])
            time.sleep(0.02)
        self.url = json.loads((self.folder / "server.json").read_text())["url"]
        return self

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(number)
        self.process.wait(PATIENCE_S)


class Town(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__)

    def setUp(self):
        self.place = Path(tempfile.mkdtemp(prefix="pawl_town_"))
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.name = "town_" + self.place.name.lower().replace("pawl_town_", "")
        self.cluster.create_database(self.name)
        self.servers = []

    def serve(self, *flags, store=None):
        folder = self.place / str(len(self.servers))
        if self.servers:
            folder.mkdir()
            shutil.copy(self.place / "0" / "secret", folder / "secret")
        server = Server(folder, store or self.cluster.url(self.name), *flags)
        self.servers.append(server)
        self.addCleanup(lambda: server.process.poll() is None and server.kill())
        return server.start()

    def key(self):
        return (self.place / "0" / "admin.key").read_text().strip()

    def ask(self, server, method, path, body=None, headers=()):
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        request = urllib.request.Request(server.url + path, method=method, data=data,
                                         headers={"Authorization": "Bearer " + self.key(), **dict(headers)})
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def wait_for(self, what, condition):
        end = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.02)

    def status(self, server, run):
        return self.ask(server, "GET", "/runs/" + run)["status"]


class Together(Town):
    def test_what_is_asked_of_one_the_others_know(self):
        a, b = self.serve(), self.serve()
        self.ask(a, "PUT", "/workflows/local", LOCAL.encode())
        run = self.ask(b, "POST", "/runs", {"workflow": "local"})["id"]
        self.wait_for("the run ends", lambda: self.status(a, run) == "success")
        self.assertEqual(self.status(b, run), "success")
        self.assertEqual([item["id"] for item in self.ask(a, "GET", "/runs")["items"]], [run])

    def test_a_key_of_one_is_good_at_the_other_and_so_is_its_end(self):
        a, b = self.serve(), self.serve()
        made = self.ask(a, "POST", "/keys", {"name": "other", "role": "viewer"})
        headers = {"Authorization": "Bearer " + made["key"]}

        def answered():
            try:
                self.ask(b, "GET", "/runs", headers=headers)
                return True
            except urllib.error.HTTPError as error:
                self.assertEqual(error.code, 401)
                return False

        self.wait_for("the key is known", answered)
        self.ask(a, "DELETE", "/keys/" + made["id"])
        self.wait_for("the key is over", lambda: not answered())

    def test_a_worker_may_take_from_one_and_report_to_another(self):
        a, b = self.serve(), self.serve()
        self.ask(a, "PUT", "/workflows/remote", REMOTE.encode())
        run = self.ask(a, "POST", "/runs", {"workflow": "remote"})["id"]
        for take, tell in ((a, b), (b, a)):
            lease = self.ask(take, "POST", "/leases", {"worker": "w", "tools": ["test.work"], "wait": "20s"})["leases"][0]
            item = {"lease_id": lease["lease_id"], "token": lease["token"]}
            beat = self.ask(tell, "POST", "/leases/heartbeat", {"items": [item]})["items"][0]
            self.assertTrue(beat["ok"])
            done = self.ask(tell, "POST", "/leases/complete", {"items": [{**item, "output": 1}]})["items"][0]
            self.assertTrue(done["ok"], done)
        self.assertEqual(self.status(a, run), "success")

    def test_one_approval_asked_of_both_at_once_is_decided_once(self):
        a, b = self.serve(), self.serve()
        self.ask(a, "PUT", "/workflows/gate", GATE.encode())
        for _ in range(20):
            run = self.ask(a, "POST", "/runs", {"workflow": "gate"})["id"]
            self.wait_for("it waits", lambda: self.status(b, run) == "waiting")
            outcomes = []

            def decide(server, verb):
                try:
                    outcomes.append((verb, self.ask(server, "POST", f"/runs/{run}/{verb}", {})["status"]))
                except urllib.error.HTTPError as error:
                    self.assertEqual(error.code, 409)

            threads = [threading.Thread(target=decide, args=pair) for pair in ((a, "approve"), (b, "reject"))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(len(outcomes), 1, outcomes)
            ended = {"approve": "success", "reject": "denied"}[outcomes[0][0]]
            self.assertEqual((self.status(a, run), self.status(b, run)), (ended, ended))

    def test_one_idempotency_key_is_one_run(self):
        servers = [self.serve("--no-workers") for _ in range(3)]
        self.ask(servers[0], "PUT", "/workflows/local", LOCAL.encode())
        runs = []

        def create(server):
            runs.append(self.ask(server, "POST", "/runs", {"workflow": "local"}, {"Idempotency-Key": "once"})["id"])

        threads = [threading.Thread(target=create, args=(servers[i % 3],)) for i in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(runs), 30)
        self.assertEqual(len(set(runs)), 1)
        self.assertEqual(len(self.ask(servers[1], "GET", "/runs")["items"]), 1)

    def test_the_feed_of_one_shows_what_happens_at_the_other(self):
        a, b = self.serve(), self.serve()
        self.ask(a, "PUT", "/workflows/local", LOCAL.encode())
        request = urllib.request.Request(b.url + "/events", headers={
            "Authorization": "Bearer " + self.key(), "Accept": "text/event-stream"})
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as feed:
            runs = [self.ask(a, "POST", "/runs", {"workflow": "local"})["id"] for _ in range(10)]
            seen, ended = {run: [] for run in runs}, set()
            while len(ended) < len(runs):
                line = feed.readline().decode()
                if not line.startswith("data: "):
                    continue
                message = json.loads(line[6:])
                if message.get("run_id") in seen:
                    seen[message["run_id"]].append(message["seq"])
                    if message["event"]["type"] == "run.succeeded":
                        ended.add(message["run_id"])
        for run, numbers in seen.items():
            self.assertEqual(numbers, list(range(1, len(numbers) + 1)), run)

    def test_it_works_through_a_pooler(self):
        pooled = self.cluster.pooled_url(self.name)
        a, b = self.serve(store=pooled), self.serve(store=pooled)
        self.ask(a, "PUT", "/workflows/local", LOCAL.encode())
        runs = [self.ask(server, "POST", "/runs", {"workflow": "local"})["id"] for server in (a, b) * 5]
        self.wait_for("all end", lambda: all(self.status(a, run) == "success" for run in runs))

    def test_a_server_without_its_database_lives_and_comes_back(self):
        a = self.serve()
        self.ask(a, "PUT", "/workflows/local", LOCAL.encode())
        self.cluster.stop()
        try:
            self.wait_for("it is not ready", lambda: not self.is_ready(a))
            self.assertEqual(self.ask(a, "GET", "/healthz")["status"], "ok")
        finally:
            self.cluster.start()
        self.wait_for("it is ready again", lambda: self.is_ready(a))
        run = self.ask(a, "POST", "/runs", {"workflow": "local"})["id"]
        self.wait_for("the run ends", lambda: self.status(a, run) == "success")

    def is_ready(self, server):
        try:
            request = urllib.request.Request(server.url + "/readyz")
            urllib.request.urlopen(request, timeout=2).read()
            return True
        except (urllib.error.URLError, TimeoutError, OSError):
            return False


class Moving(Town):
    def test_a_folder_moves_with_its_runs_chains_and_keys(self):
        folder = self.place / "0"
        folder.mkdir()
        workflow = self.place / "gate.yaml"
        workflow.write_text(GATE)

        def pawl(*arguments, code=0):
            done = subprocess.run([PAWL, *map(str, arguments)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            return done.stdout

        for _ in range(3):
            pawl("run", workflow, "--data", folder, "--approve")
        pawl("run", workflow, "--data", folder, code=5)
        url = self.cluster.url(self.name)
        self.assertIn("4 runs", pawl("migrate", "--from", f"sqlite:{folder}", "--to", url))
        self.assertIn("4 runs were there already", pawl("migrate", "--from", f"sqlite:{folder}", "--to", url))
        server = Server(folder, url)
        self.servers.append(server)
        self.addCleanup(lambda: server.process.poll() is None and server.kill())
        server.start()
        waiting = [item["id"] for item in self.ask(server, "GET", "/runs?status=waiting")["items"]]
        self.assertEqual(len(waiting), 1)
        self.assertEqual(self.ask(server, "POST", f"/runs/{waiting[0]}/approve", {})["status"], "success")
        self.assertEqual(len(self.ask(server, "GET", "/runs")["items"]), 4)
        pawl("migrate", "--from", f"sqlite:{self.place}/nowhere", "--to", url, code=2)
        pawl("migrate", "--from", f"sqlite:{folder}", "--to", "mysql://x", code=2)


class Storm(Town):
    """Servers that die, freeze and come back, and a database that is restarted, under load."""

    def test_nothing_is_lost_and_nothing_is_done_twice(self):
        for _ in range(3):
            self.serve()
        first = self.servers[0]
        self.ask(first, "PUT", "/workflows/remote", REMOTE.encode())
        stop, accepted, lock = threading.Event(), [], threading.Lock()
        done = {}  # (run, step) -> tokens whose completion was acknowledged

        def insist(method, path, body, headers=()):
            while True:
                try:
                    return self.ask(random.choice(self.servers), method, path, body, headers)
                except urllib.error.HTTPError as error:
                    if error.code < 500:
                        raise
                except (urllib.error.URLError, OSError, json.JSONDecodeError, ValueError):
                    pass
                time.sleep(0.05)

        def create(number):
            for i in range(15):
                if stop.is_set():
                    return
                run = insist("POST", "/runs", {"workflow": "remote"}, {"Idempotency-Key": f"{number}-{i}"})["id"]
                with lock:
                    accepted.append(run)

        def work(name):
            while not stop.is_set():
                leases = insist("POST", "/leases", {"worker": name, "tools": ["test.work"], "max": 4, "wait": "1s"})["leases"]
                for lease in leases:
                    item = {"lease_id": lease["lease_id"], "token": lease["token"], "output": lease["token"]}
                    result = insist("POST", "/leases/complete", {"items": [item]})["items"][0]
                    if result["ok"]:
                        with lock:
                            done.setdefault((lease["run_id"], lease["step_id"]), []).append(lease["token"])

        threads = [threading.Thread(target=create, args=(i,), daemon=True) for i in range(4)]
        threads += [threading.Thread(target=work, args=(f"w{i}",), daemon=True) for i in range(8)]
        for thread in threads:
            thread.start()
        dice = random.Random(7)
        for turn in range(10):
            time.sleep(dice.uniform(0.5, 1.5))
            server = dice.choice(self.servers)
            if turn % 5 == 3:
                self.cluster.stop()
                time.sleep(0.5)
                self.cluster.start()
            elif turn % 5 == 1:
                server.process.send_signal(signal.SIGSTOP)
                time.sleep(4)  # past its leases
                server.process.send_signal(signal.SIGCONT)
            else:
                server.kill()
                server.start()
        for thread in threads[:4]:
            thread.join(PATIENCE_S)
            self.assertFalse(thread.is_alive(), "every creation was answered")
        self.wait_for("every run ends", lambda: all(self.status(self.servers[0], run) == "success" for run in accepted))
        stop.set()
        self.assertEqual(len(set(accepted)), 60)
        listed = self.ask(self.servers[1], "GET", "/runs?limit=200")["items"]
        self.assertEqual({item["id"] for item in listed}, set(accepted), "no run that nobody asked for")
        for run in accepted:
            steps = self.ask(self.servers[2], "GET", "/runs/" + run)["steps"]
            for step in steps:
                tokens = done.get((run, step["id"]), [])
                self.assertLessEqual(len(tokens), 1, "a step that was completed twice")
                if tokens:
                    self.assertEqual(step["output"], tokens[0], "an acknowledged result is the one that stands")
        verified = subprocess.run([PAWL, "verify", "--server", self.servers[0].url], capture_output=True, text=True,
                                  env={**os.environ, "PAWL_KEY": self.key()})
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)


if __name__ == "__main__":
    unittest.main()
