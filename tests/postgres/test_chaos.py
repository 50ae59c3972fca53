"""The proof: three servers, eight workers and clients under load, while everything under them breaks.

Servers are killed and frozen, workers are killed, PostgreSQL is restarted, and its primary is lost for good, after
which the standby takes over. Then it is quiet, and what was acknowledged is compared with what is there.

CHAOS_SECONDS says how long (25, and 180 in `./test deep`), CHAOS_SEED repeats what is drawn; moments remain those of
the machine.
"""
import collections
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from chaos_parts import Follower, Ledger, Target
from pair import Pair
from servers_case import HANG_S, PAWL, ServersCase

SECONDS = float(os.environ.get("CHAOS_SECONDS") or ("180" if os.environ.get("PAWL_TEST_DEEP") else "25"))
SEED = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(1 << 32))
SLACK = float(os.environ.get("API_SLACK", "1"))
LEASE_S = 3
GOVERNED_S = 5  # well within its lease
ANSWER_S = 4 * SLACK
RUNS_OPEN_MAX = 60
SETTLE_S = 2 * HANG_S
HERE = Path(__file__).parent

EFFECTS = """
workflow: effects
steps:
  - {id: first, tool: chaos.effect, lease: 3s, with: {takes_s: "${{ input.takes_s }}"}, retry: {max_attempts: 100, base: 10ms, max: 200ms}}
  - {id: middle, tool: noop}
  - {id: last, tool: chaos.effect, lease: 3s, with: {takes_s: 0}, retry: {max_attempts: 100, base: 10ms, max: 200ms}}
"""
# Its lease is longer than a server is frozen: whoever was allowed to call has time to.
GOVERNED = """
workflow: governed
steps:
  - {id: only, tool: chaos.governed, lease: 15s, retry: {max_attempts: 100, base: 10ms, max: 200ms}}
"""
POLICY = "policy: chaos\nrules:\n- {id: all, effect: allow, when: connector = 'target'}\n"
GATED = """
workflow: gated
steps:
  - {id: before, tool: noop}
  - {id: ok, tool: approval}
  - {id: after, tool: noop}
"""
# `pawl worker` runs this for each step: no more than a shell is needed to call something.
PROGRAM = """
exec 3<>/dev/tcp/127.0.0.1/{port}
printf 'POST / HTTP/1.0\\r\\nIdempotency-Key: %s\\r\\nContent-Length: 0\\r\\n\\r\\n' "$PAWL_IDEMPOTENCY_KEY" >&3
read -r -t 10 answer <&3 && case $answer in *200*) printf '{{"key": "%s"}}' "$PAWL_IDEMPOTENCY_KEY" ;; *) exit 1 ;; esac
"""


class Chaos(ServersCase):
    answer_s = ANSWER_S

    @classmethod
    def setUpClass(cls):
        cls.cluster = Pair()
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__)

    def setUp(self):
        super().setUp()
        print(f"CHAOS_SEED={SEED} CHAOS_SECONDS={SECONDS:g}", flush=True)
        self.ledger, self.target = Ledger(), Target()
        self.addCleanup(self.target.close)
        self.quiet, self.closed, self.over = threading.Event(), threading.Event(), threading.Event()
        self.broken = []   # what must not happen even meanwhile
        self.done = collections.Counter()
        self.workers = {}
        self.addCleanup(self.end_workers)
        self.database = threading.Lock()

    # ---- Those who ask

    def insist(self, dice, method, path, body=None, headers=()):
        """The answer of some server; only a refusal (4xx) is told."""
        while not self.over.is_set():
            server = dice.choice(self.servers)
            try:
                data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
                request = urllib.request.Request(server.url + path, method=method, data=data, headers={
                    "Authorization": "Bearer " + self.key(), **dict(headers)})
                with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code < 500:
                    raise
                if error.code != 503:
                    self.broken.append(f"{method} {path}: {error.code} {error.read()[:300]}")
            except (OSError, ValueError):
                pass
            time.sleep(0.05)
        raise TimeoutError

    def guarded(self, call, *arguments):
        try:
            call(*arguments)
        except TimeoutError:
            pass
        except Exception as error:
            self.broken.append(f"{call.__name__}: {type(error).__name__} {error}")

    def client(self, number):
        """Asks for things, and writes down what it was told."""
        dice = random.Random(f"{SEED} client {number}")
        while not self.closed.is_set():
            kind = dice.choices(("effects", "governed", "gated", "key"), (50, 20, 25, 5))[0]
            if kind == "key":
                self.ledger.keys.add(self.insist(dice, "POST", "/keys", {"name": "some", "role": "viewer"})["id"])
                continue
            if len(self.ledger.created) - self.done["ended"] > RUNS_OPEN_MAX:
                time.sleep(0.1)
                continue
            body = {"workflow": kind, "input": {"takes_s": dice.choice((0, 0, 0.05, 0.5))}}
            run = self.insist(dice, "POST", "/runs", body, {"Idempotency-Key": f"{number}-{dice.random()}"})["id"]
            self.ledger.note("created", run, kind)
            if kind == "gated":
                self.decide(dice, run)
            elif kind == "effects" and dice.random() < 0.05:
                self.cancel(dice, run)
            time.sleep(dice.uniform(0, 0.2))

    def decide(self, dice, run):
        """Approves or rejects. When the answer got lost and is asked for again, it is the same, or the run has ended
        so."""
        verb, status = dice.choice((("approve", "success"), ("reject", "denied")))
        while True:
            try:
                self.insist(dice, "POST", f"/runs/{run}/{verb}", {})
                break
            except urllib.error.HTTPError as error:
                shown = self.insist(dice, "GET", "/runs/" + run)
                if shown["status"] == status:
                    break
                if error.code != 409 or shown["status"] in ("success", "denied", "failed", "canceled"):
                    self.broken.append(f"{verb} of {run}: {error.code}, and it is {shown['status']}")
                    return
                time.sleep(0.05)  # it does not wait yet
        self.ledger.note("decided", run, status)

    def cancel(self, dice, run):
        try:
            status = self.insist(dice, "POST", f"/runs/{run}/cancel", {})["status"]
        except urllib.error.HTTPError:
            return  # it has ended before
        self.ledger.note("decided", run, status)

    def wandering_worker(self, number):
        """Takes work from one server and reports it to another, and knows what was acknowledged."""
        dice = random.Random(f"{SEED} worker {number}")
        while not self.over.is_set():
            asked_at = time.monotonic()
            body = {"worker": f"wanderer-{number}", "tools": ["chaos.effect", "chaos.governed"], "max": 4, "wait": "1s"}
            for lease in self.insist(dice, "POST", "/leases", body)["leases"]:
                key = lease["idempotency_key"]
                if lease["tool"] == "chaos.effect":
                    self.target.call(key)
                elif not self.pass_gate(dice, lease, asked_at + GOVERNED_S):
                    continue
                output = {"key": key, "token": lease["token"]}
                item = {"lease_id": lease["lease_id"], "token": lease["token"], "output": output}
                if self.insist(dice, "POST", "/leases/complete", {"items": [item]})["items"][0]["ok"]:
                    self.ledger.note("completed", (lease["run_id"], lease["step_id"]), output)

    def pass_gate(self, dice, lease, deadline):
        """Has its effect at a target that does not know repeats: proposes, calls once it may, reports the outcome. What
        is in doubt it finds out by looking. False when it must not go on."""
        path = f"/leases/{urllib.parse.quote(lease['lease_id'], safe='')}/actions"
        action = {"token": lease["token"], "connector": "target", "operation": "count", "target": "the target",
                  "can_look": True}
        try:
            try:
                answer = self.insist(dice, "POST", path, action)
            except urllib.error.HTTPError as error:
                if json.load(error)["code"] != "EFFECT_IN_DOUBT":
                    return False
                self.done["in_doubt"] += 1
                happened = lease["idempotency_key"] in self.target.calls
                answer = self.insist(dice, "POST", path, {**action, "happened": happened})
            if answer["decision"] != "allow":
                self.broken.append(f"the policy allows everything, and the gate says {answer}")
                return False
            if answer["is_done"]:
                return True
            if time.monotonic() > deadline or dice.random() < 0.05:
                return False  # too late, or as if it had died just before,
            self.target.call(lease["idempotency_key"])
            if dice.random() < 0.05:
                return False  # or just after the call
            self.insist(dice, "POST", f"{path}/{answer['receipt_id']}/outcome",
                        {"token": lease["token"], "succeeded": True})
            return True
        except urllib.error.HTTPError:
            return False  # the lease is over

    def start_worker(self, number):
        """Six in processes of their own, each at one server: four of the SDK, two of `pawl worker`."""
        environment = {**os.environ, "PAWL_SERVER": self.servers[number % 3].url, "PAWL_KEY": self.key()}
        target = f"http://127.0.0.1:{self.target.port}/"
        command = [sys.executable, "-B", HERE / "chaos_worker.py", f"sdk-{number}", target]
        if number >= 4:
            command = [PAWL, "worker", "--tool", "chaos.effect", "--name", f"program-{number}", "--", "bash", "-c",
                       PROGRAM.format(port=self.target.port)]
        with open(self.place / f"worker-{number}.log", "a") as log:
            self.workers[number] = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                                                    stderr=log)

    def end_workers(self):
        for process in self.workers.values():
            process.kill()
            process.wait()

    # ---- What breaks

    def revive(self, server):
        """Starts a server as its service manager would: again, when the database was away for too long at its start."""
        while not self.over.is_set():
            server.launch()
            while not server.has_started():
                if server.process.poll() is not None:
                    break
                time.sleep(0.02)
            else:
                return
            if server.process.returncode != 74:
                self.broken.append(f"a server ended at its start with {server.process.returncode}")
                return

    def break_servers(self):
        dice = random.Random(f"{SEED} servers")
        while not self.quiet.wait(dice.uniform(1, 3)):
            server = dice.choice(self.servers)
            if (code := server.process.poll()) is not None:
                self.broken.append(f"a server ended by itself with {code}:\n{server.log.read_text()[-2000:]}")
                return
            what = dice.choices(("kill", "freeze", "worker"), (5, 2, 2))[0]
            self.done[what] += 1
            if what == "kill":
                server.kill()
                self.quiet.wait(dice.uniform(0, 1.5))
                self.revive(server)
            elif what == "freeze":
                server.process.send_signal(signal.SIGSTOP)
                time.sleep(LEASE_S + dice.uniform(0.5, 2))  # past the leases that it gave
                server.process.send_signal(signal.SIGCONT)
            else:
                self.replace_worker(dice.choice(range(6)))

    def replace_worker(self, number):
        code = self.workers[number].poll()
        if code is not None:
            log = (self.place / f"worker-{number}.log").read_text()[-1000:]
            self.broken.append(f"worker {number} ended by itself with {code}: {log}")
        self.workers[number].kill()
        self.workers[number].wait()
        self.start_worker(number)

    def break_database(self):
        """Every 5 to 20 s it is restarted, or its primary is lost: the first time, and then now and then."""
        dice = random.Random(f"{SEED} database")
        longest = min(20, 5 + SECONDS / 6)
        while not self.quiet.wait(dice.uniform(5, longest)):
            with self.database:
                if self.done["fail_over"] == 0 or dice.random() < 0.3:
                    self.done["fail_over"] += 1
                    self.cluster.fail_over()
                    self.cluster.rebuild()
                else:
                    self.done["restart"] += 1
                    self.cluster.primary.stop(dice.choice(("fast", "immediate")))
                    time.sleep(dice.uniform(0, 2))
                    self.cluster.primary.start()

    # ---- The whole

    def spawn(self, call, *arguments):
        thread = threading.Thread(target=self.guarded, args=(call, *arguments), daemon=True)
        thread.start()
        return thread

    def test_nothing_is_lost_and_nothing_is_done_twice(self):
        for _ in range(3):
            self.serve()
        for name, source in (("effects", EFFECTS), ("gated", GATED), ("governed", GOVERNED)):
            self.ask(self.servers[0], "PUT", "/workflows/" + name, source.encode())
        self.ask(self.servers[0], "PUT", "/policy", POLICY.encode())
        for number in range(6):
            self.start_worker(number)
        follower = Follower(self, random.Random(f"{SEED} follower"))
        follower.start()
        clients = [self.spawn(self.client, number) for number in range(4)]
        for number in range(2):
            self.spawn(self.wandering_worker, number)
        breakers = [self.spawn(self.break_servers), self.spawn(self.break_database)]
        counter = self.spawn(self.count_ended)
        time.sleep(SECONDS)
        self.quiet.set()
        for thread in breakers:
            thread.join(SETTLE_S)
        self.closed.set()
        for thread in clients:
            thread.join(SETTLE_S)
            self.assertFalse(thread.is_alive(), "every request was answered in the end")
        try:
            self.wait_until_all_ended()
        finally:
            print(dict(self.done), f"{len(self.ledger.created)} runs, {len(self.target.calls)} effects by "
                  f"{sum(self.target.calls.values())} calls, the feed at {follower.moves} places", flush=True)
            for server in self.servers:
                if (code := server.process.poll()) is not None:
                    self.broken.append(f"a server ended by itself with {code}:\n{server.log.read_text()[-2000:]}")
            if self.broken:
                print("broken:", *self.broken, sep="\n", flush=True)
        self.assertEqual(self.broken, [])
        self.assertGreater(self.done["fail_over"], 0)
        self.compare_with_ledger()
        self.compare_with_target()
        self.compare_with_receipts()
        self.compare_with_feed(follower)
        self.over.set()
        counter.join()
        self.verify()

    def listed(self):
        """Every run there is, by id."""
        found, cursor = {}, ""
        while cursor is not None:
            page = self.ask(self.servers[0], "GET", f"/runs?limit=500&cursor={cursor}" if cursor else "/runs?limit=500")
            found.update((item["id"], item) for item in page["items"])
            cursor = page["next_cursor"]
        return found

    def count_ended(self):
        dice = random.Random(0)
        while not self.over.wait(1):
            open_runs = 0
            for status in ("created", "running", "waiting"):
                open_runs += len(self.insist(dice, "GET", f"/runs?limit=500&status={status}")["items"])
            self.done["ended"] = max(0, len(self.ledger.created) - open_runs)

    def wait_until_all_ended(self):
        end = time.monotonic() + SETTLE_S
        while True:
            left = {run: item["status"] for run, item in self.listed().items()
                    if item["status"] in ("created", "running", "waiting")}
            if not left:
                return
            if time.monotonic() > end:
                self.fail("every accepted run ends; these did not:" + "".join(map(self.describe, left)))
            time.sleep(0.2)

    def describe(self, run):
        shown = self.ask(self.servers[0], "GET", "/runs/" + run)
        events = self.ask(self.servers[0], "GET", f"/runs/{run}/events?limit=500")["items"]
        return f"\n{json.dumps(shown)}\n" + "\n".join(json.dumps(event) for event in events[-40:])

    def compare_with_ledger(self):
        """What was acknowledged is there, and nothing that nobody asked for."""
        self.runs = self.listed()
        self.assertEqual(set(self.runs), set(self.ledger.created))
        for run, status in self.ledger.decided.items():
            self.assertEqual(self.runs[run]["status"], status, run)
        for run, kind in self.ledger.created.items():
            expected = {self.ledger.decided.get(run, "success")}
            self.assertIn(self.runs[run]["status"], expected | ({"canceled"} if kind == "effects" else set()), run)
        self.shown = {run: self.ask(self.servers[number % 3], "GET", "/runs/" + run) for number,
                      run in enumerate(self.runs)}
        for (run, step), output in self.ledger.completed.items():
            self.assertEqual(next(each["output"] for each in self.shown[run]["steps"] if each["id"] == step), output,
                             run)
        self.assertLessEqual(self.ledger.keys,
                             {item["id"] for item in self.ask(self.servers[2], "GET", "/keys")["items"]})

    def compare_with_target(self):
        """Every step that succeeded had its effect, under its one key; no other effect but of steps that were
        canceled."""
        expected, possible = set(), set()
        for run, kind in self.ledger.created.items():
            if kind == "gated":
                continue
            for step in self.shown[run]["steps"]:
                if step["id"] == "middle":
                    continue
                if step["status"] == "succeeded":
                    expected.add(step["output"]["key"])
                else:
                    possible.add(f"{run}:{step['id']}")
        called = set(self.target.calls)
        self.assertLessEqual(expected, called)
        others = {key for key in called - expected
                  if not any(all(part in key for part in each.split(":")) for each in possible)}
        self.assertEqual(others, set(), "an effect that no step accounts for")

    def compare_with_receipts(self):
        """A target that knows no repeats was called exactly as often as receipts say."""
        receipts, cursor = collections.Counter(), ""
        while cursor is not None:
            page = self.ask(self.servers[1], "GET",
                            "/receipts?status=succeeded&limit=500" + (f"&cursor={cursor}" if cursor else ""))
            receipts.update(item["idempotency_key"] for item in page["items"])
            cursor = page["next_cursor"]
        governed = [run for run, kind in self.ledger.created.items() if kind == "governed"]
        self.assertEqual(len(receipts), len(governed))
        self.assertEqual({key: self.target.calls[key] for key in receipts}, dict(receipts))

    def compare_with_feed(self, follower):
        """Every event of every run came once, in order, none left out, wherever the feed was followed."""
        wanted = {run: shown["seq"] for run, shown in self.shown.items()}
        self.wait_for("the feed has shown the last event", lambda: all(
            follower.seen[run] and follower.seen[run][-1] >= seq for run, seq in wanted.items()))
        follower.over = True
        for run, seq in wanted.items():
            self.assertEqual(follower.seen[run], list(range(1, seq + 1)), run)

    def verify(self):
        self.end_workers()
        for where in (("--store", self.cluster.url(self.name)), ("--server", self.servers[0].url)):
            done = subprocess.run([PAWL, "verify", *where], capture_output=True, text=True,
                                  env={**os.environ, "PAWL_KEY": self.key()})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


del ServersCase  # no test of this file's own
if __name__ == "__main__":
    unittest.main()
