"""Several real servers on one real PostgreSQL, spoken to over sockets: whatever is asked of one, the others know."""
import itertools
import json
import os
import pty
import random
import re
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

sys.path.insert(0, str(Path(__file__).parents[1] / "notify"))
sys.path.insert(1, str(Path(__file__).parents[1] / "cli"))
from notice_case import Receiver  # noqa: E402
from servers_case import GATE, LOCAL, PATIENCE_S, PAWL, REMOTE, Server, ServersCase
from waiting import until


class Together(ServersCase):
    def test_what_is_asked_of_one_the_others_know(self):
        a, b = self.serve(), self.serve()
        self.ask(a, "PUT", "/workflows/local", LOCAL.encode())
        run = self.ask(b, "POST", "/runs", {"workflow": "local"})["id"]
        self.wait_for("the run ends", lambda: self.status(a, run) == "success")
        self.assertEqual(self.status(b, run), "success")
        self.assertEqual([item["id"] for item in self.ask(a, "GET", "/runs")["items"]], [run])

    def test_who_waits_at_one_for_the_end_of_a_run_is_told_when_it_ends_at_the_other(self):
        a, b = self.serve("--no-workers"), self.serve("--no-workers")
        self.ask(a, "PUT", "/workflows/gate", GATE.encode())
        run = self.ask(a, "POST", "/runs", {"workflow": "gate"})["id"]
        answers, begun = [], time.monotonic()
        thread = threading.Thread(target=lambda: answers.append(self.ask(b, "GET", f"/runs/{run}?wait=60s")))
        thread.start()
        tasks = Path(f"/proc/{b.process.pid}/task")
        until(lambda: [(task / "comm").read_text().strip() for task in tasks.iterdir()],
              lambda names: "pawl-waits" in names, "a request waits at b")
        self.ask(a, "POST", f"/runs/{run}/approve", {})
        thread.join()
        self.assertEqual(answers[0]["status"], "success")
        self.assertLess(time.monotonic() - begun, 30)

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

    def test_a_key_that_is_revoked_at_one_ends_what_it_keeps_open_at_the_other(self):
        a, b = self.serve(), self.serve()
        made = self.ask(a, "POST", "/keys", {"name": "other", "role": "viewer"})
        request = urllib.request.Request(b.url + "/events", headers={"Authorization": "Bearer " + made["key"]})

        def opened():
            try:
                return urllib.request.urlopen(request, timeout=PATIENCE_S)
            except urllib.error.HTTPError as error:
                self.assertEqual(error.code, 401)
                return None

        with until(opened, bool, "the key is known") as feed:
            position = feed.readline().decode().removeprefix("id: ").strip()
            self.ask(a, "DELETE", "/keys/" + made["id"])
            text = feed.read().decode()
            self.assertIn("event: end\ndata: {\"code\":\"UNAUTHORIZED\"", text)
        again = urllib.request.Request(f"{a.url}/events?after={position}",
                                       headers={"Authorization": "Bearer " + self.key()})
        with urllib.request.urlopen(again, timeout=PATIENCE_S) as feed:
            self.assertRegex(feed.readline().decode(), "^id: pos_")

    def test_a_worker_may_take_from_one_and_report_to_another(self):
        a, b = self.serve(), self.serve()
        self.ask(a, "PUT", "/workflows/remote", REMOTE.encode())
        run = self.ask(a, "POST", "/runs", {"workflow": "remote"})["id"]
        for take, tell in ((a, b), (b, a)):
            lease = self.take(take)
            item = {"lease_id": lease["lease_id"], "token": lease["token"]}
            beat = self.ask(tell, "POST", "/leases/heartbeat", {"items": [item]})["items"][0]
            self.assertTrue(beat["ok"])
            done = self.ask(tell, "POST", "/leases/complete", {"items": [{**item, "output": 1}]})["items"][0]
            self.assertTrue(done["ok"], done)
        self.assertEqual(self.status(a, run), "success")

    def test_a_worker_may_pass_the_gate_at_any_of_them(self):
        servers = self.serve(), self.serve()
        self.ask(servers[0], "PUT", "/workflows/remote", REMOTE.encode())
        self.ask(servers[0], "PUT", "/policy",
                 b"policy: cluster\nrules:\n- {id: all, effect: allow, when: connector = 'target'}\n")
        action = {"connector": "target", "operation": "count", "target": "the target"}
        for create, take, propose, tell, complete in itertools.product(servers, repeat=5):
            run = self.ask(create, "POST", "/runs", {"workflow": "remote"})["id"]
            for server in servers:
                self.status(server, run)  # each has it in memory, as it was
            for _ in range(2):
                lease = self.take(take)
                self.assertEqual(lease["run_id"], run)
                token, path = lease["token"], f"/leases/{urllib.parse.quote(lease['lease_id'], safe='')}/actions"
                answer = self.ask(propose, "POST", path, {**action, "token": token})
                self.assertEqual(answer["decision"], "allow")
                self.ask(tell, "POST", f"{path}/{answer['receipt_id']}/outcome", {"token": token, "succeeded": True})
                item = {"lease_id": lease["lease_id"], "token": token, "output": 1}
                done = self.ask(complete, "POST", "/leases/complete", {"items": [item]})["items"][0]
                self.assertTrue(done["ok"], done)
            self.assertEqual(self.status(take, run), "success")

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

    def test_tasks_go_on_at_whichever_server_is_left(self):
        """Whatever one does is news to the others, and whoever follows them for all may be the one that dies."""
        servers = [self.serve() for _ in range(3)]
        dice = random.Random(3)
        self.ask(servers[0], "PUT", "/workflows/remote", REMOTE.replace("{id: b,", "{id: c,").encode())
        self.ask(servers[0], "PUT", "/workflows/local", LOCAL.encode())
        parent = self.ask(dice.choice(servers), "POST", "/tasks", {"title": "all", "workflow": "remote"})["id"]
        tasks = []
        for number in range(40):
            body = {"title": f"t{number}", "workflow": "local", "parent_task_id": parent,
                    "depends_on": dice.sample(tasks, min(len(tasks), 3))}
            tasks.append(self.ask(dice.choice(servers), "POST", "/tasks", body)["id"])
        seen = self.ask(servers[1], "GET", f"/tasks/{parent}")
        self.assertEqual(sorted(seen["subtasks"]), sorted(tasks),
                         "whoever was told of a subtask, its parent waits for it")
        self.ask(dice.choice(servers), "POST", f"/tasks/{parent}/run")
        for _ in range(2):
            lease = self.take(dice.choice(servers))
            item = {"lease_id": lease["lease_id"], "token": lease["token"]}
            self.ask(dice.choice(servers), "POST", "/leases/complete", {"items": [item]})

        def state(task, server=None):
            return self.ask(server or dice.choice(servers), "GET", f"/tasks/{task}")["state"]

        self.wait_for("the parent waits", lambda: state(parent) == "BLOCKED")
        for number, task in enumerate(reversed(tasks)):
            self.ask(dice.choice(servers), "POST", f"/tasks/{task}/run")
            if number in (15, 30):
                servers.pop(dice.randrange(len(servers))).kill()
        self.wait_for("all are done", lambda: all(state(task) == "COMPLETED" for task in tasks))
        self.wait_for("and so is their parent", lambda: state(parent) == "READY")
        runs = [run for task in tasks for run in self.ask(servers[0], "GET", f"/tasks/{task}")["runs"]]
        self.assertEqual(len(set(runs)), len(tasks), "each was done once")

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
            urllib.request.urlopen(request, timeout=PATIENCE_S).read()
            return True
        except (urllib.error.URLError, TimeoutError, OSError):
            return False


class Apart(ServersCase):
    """As docs/operating.md has it: the tenant leads every key, so the tables may be partitioned by it."""

    PARTITION = """
        DO $$
        DECLARE name text;
        BEGIN
          FOREACH name IN ARRAY ARRAY['workflows', 'runs', 'events', 'ready', 'approvals', 'requests', 'receipts',
                                      'effects', 'starts', 'meters'] LOOP
            EXECUTE format('ALTER TABLE pawl.%1$I RENAME TO %1$s_whole', name);
            EXECUTE format('CREATE TABLE pawl.%1$I (LIKE pawl.%1$s_whole INCLUDING ALL) '
                           'PARTITION BY HASH (tenant)', name);
            FOR part IN 0..3 LOOP
              EXECUTE format('CREATE TABLE pawl.%1$s_%2$s PARTITION OF pawl.%1$I '
                             'FOR VALUES WITH (MODULUS 4, REMAINDER %2$s)', name, part);
            END LOOP;
            EXECUTE format('INSERT INTO pawl.%1$I OVERRIDING SYSTEM VALUE SELECT * FROM pawl.%1$s_whole', name);
            EXECUTE format('DROP TABLE pawl.%1$s_whole', name);
            EXECUTE format('ALTER TABLE pawl.%1$I OWNER TO pawl', name);
            EXECUTE format('ALTER TABLE pawl.%I ENABLE ROW LEVEL SECURITY', name);
            EXECUTE format('ALTER TABLE pawl.%I FORCE ROW LEVEL SECURITY', name);
            EXECUTE format('CREATE POLICY one_tenant ON pawl.%I '
                           'USING ((SELECT current_setting(''pawl.tenant'', true)) = ''*'' '
                           'OR tenant::text = (SELECT current_setting(''pawl.tenant'', true)))', name);
          END LOOP;
        END $$"""

    def test_tables_may_be_partitioned_by_tenant(self):
        a = self.serve()
        self.ask(a, "PUT", "/workflows/local", LOCAL.encode())
        first = self.ask(a, "POST", "/runs", {"workflow": "local"}, {"Idempotency-Key": "first"})["id"]
        self.wait_for("the run ends", lambda: self.status(a, first) == "success")
        a.kill()
        self.cluster.sql(self.PARTITION, self.name)
        a.start()
        b = self.serve()
        again = self.ask(b, "POST", "/runs", {"workflow": "local"}, {"Idempotency-Key": "first"})["id"]
        self.assertEqual(again, first)
        runs = [self.ask(server, "POST", "/runs", {"workflow": "local"}, {"Idempotency-Key": str(n)})["id"]
                for n in range(10) for server in (a, b)]
        self.assertEqual(len(set(runs)), 10)
        self.wait_for("all end", lambda: all(self.status(a, run) == "success" for run in runs))
        done = subprocess.run([PAWL, "verify", "--store", self.cluster.url(self.name)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Forged(ServersCase):
    FORGERIES = (("workflows", "UPDATE pawl.workflows SET source = convert_to(replace(convert_from(source, 'UTF8'), "
                               "'noop', 'fail'), 'UTF8')"),
                 ("workflows", "DELETE FROM pawl.workflows"),
                 ("runs", "UPDATE pawl.runs SET version = version + 1"),
                 ("requests", "DELETE FROM pawl.requests"),
                 ("tenants", "DELETE FROM pawl.tenants WHERE name = 'other'"))

    def test_a_server_does_not_start_on_tables_that_are_not_what_the_journal_says(self):
        a = self.serve()
        self.ask(a, "POST", "/tenants", {"name": "other"})
        self.ask(a, "PUT", "/workflows/local", LOCAL.encode())
        run = self.ask(a, "POST", "/runs", {"workflow": "local"}, {"Idempotency-Key": "first"})["id"]
        self.wait_for("the run ends", lambda: self.status(a, run) == "success")
        a.kill(signal.SIGTERM)
        for table, forgery in self.FORGERIES:
            with self.subTest(forgery):
                self.cluster.sql(f"CREATE TABLE public.kept AS TABLE pawl.{table}", self.name)
                self.cluster.sql(forgery, self.name)
                done = subprocess.run([PAWL, "verify", "--store", self.cluster.url(self.name)], capture_output=True)
                self.assertEqual(done.returncode, 1)
                if table != "tenants":  # of one that has done nothing, only the whole journal tells
                    a.launch()
                    self.assertEqual(a.process.wait(PATIENCE_S), 74, a.log.read_text()[-2000:])
                self.cluster.sql(f"DELETE FROM pawl.{table}; INSERT INTO pawl.{table} SELECT * FROM public.kept; "
                                 "DROP TABLE public.kept", self.name)
        a.start()
        self.assertEqual(self.status(a, run), "success")


class Notices(ServersCase):
    def test_webhooks_go_on_when_the_server_that_sent_them_is_gone(self):
        receiver = Receiver(lambda request: (200, {}, ""))
        self.addCleanup(receiver.close)
        (self.place / "secrets" / "default").mkdir(parents=True)
        (self.place / "secrets" / "default" / "HOOK").write_text("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
        flags = ("--http-allow", "127.0.0.1", "--secrets-folder", str(self.place / "secrets"))
        servers = [self.serve(*flags) for _ in range(3)]
        self.ask(servers[0], "PUT", "/workflows/local", LOCAL.encode())
        self.ask(servers[0], "PUT", "/webhooks/ended",
                 {"url": receiver.url, "secret": "HOOK", "events": ["run.succeeded"]})
        runs = []
        # Each is killed in turn, so whoever sends is among them.
        for server in servers[:2]:
            runs += [self.ask(server, "POST", "/runs", {"workflow": "local"})["id"] for _ in range(20)]
            server.kill()
        runs += [self.ask(servers[2], "POST", "/runs", {"workflow": "local"})["id"] for _ in range(20)]
        told = {}

        def all_told():
            for request in receiver.all():
                told.setdefault(json.loads(request["body"])["subject"], set()).add(request["headers"]["webhook-id"])
            return set(runs) <= set(told)

        self.wait_for("every run's end was told", all_told)
        self.assertEqual({run: len(told[run]) for run in runs}, dict.fromkeys(runs, 1),
                         "each under one id, however often")


class Fairness(ServersCase):
    SLOW = "workflow: slow\nsteps: [{id: a, tool: transform, with: {input: 1, jq: '[range(150000)] | add'}}]\n"

    def test_a_tenant_with_little_to_do_does_not_wait_for_one_with_much_whatever_servers_they_ask(self):
        a, b = self.serve("--worker-slots", "2"), self.serve("--worker-slots", "2")
        self.ask(a, "POST", "/tenants", {"name": "small"})
        made = self.ask(a, "POST", "/keys", {"name": "theirs", "role": "admin", "tenant": "small"})
        small = {"Authorization": "Bearer " + made["key"]}
        for headers in ((), small):
            self.ask(a, "PUT", "/workflows/slow", self.SLOW.encode(), headers)
        self.wait_for("the key is known", lambda: self.knows(b, small))
        self.ask(a, "POST", "/runs/batch", {"items": [{"workflow": "slow"}] * 400})
        self.ask(b, "POST", "/runs/batch", {"items": [{"workflow": "slow"}] * 10}, small)
        self.wait_for("the small one's runs end", lambda: len(
            self.ask(a, "GET", "/runs?status=success", headers=small)["items"]) == 10)
        last = max(run["updated_at"] for run in self.ask(a, "GET", "/runs", headers=small)["items"])
        # Of the other's four hundred, as they were then.
        done = self.ask(a, "GET", "/runs?limit=500&status=success")["items"]
        self.assertLess(len([run for run in done if run["updated_at"] <= last]), 200,
                        "its ten were done among the first of the other's four hundred")

    def knows(self, server, headers):
        try:
            return bool(self.ask(server, "GET", "/tenant", headers=headers))
        except urllib.error.HTTPError:
            return False


class Moving(ServersCase):
    def test_a_move_that_is_killed_goes_on_where_it_was_and_shows_how_far_it_is(self):
        server = self.make()
        server.folder.mkdir()
        served = subprocess.Popen([PAWL, "serve", "--data", server.folder, "--listen", server.listen],
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(served.kill)
        self.wait_for("it serves", server.has_started)
        self.ask(server, "PUT", "/workflows/remote", REMOTE.encode())
        for _ in range(20):
            self.ask(server, "POST", "/runs/batch", {"items": [{"workflow": "remote"}] * 500})
        served.terminate()
        served.wait(PATIENCE_S)
        url = self.cluster.url(self.name)
        command = [PAWL, "migrate", "--from", f"sqlite:{server.folder}", "--to", url]

        def moved():
            return int(self.cluster.sql("SELECT count(*) FROM pawl.runs", self.name))

        shown = b""
        master, slave = pty.openpty()
        first = subprocess.Popen(command, stderr=slave, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        os.close(slave)
        # It stands still while it is looked at, or it could be done meanwhile.
        while b"%" not in shown or moved() == 0:
            first.send_signal(signal.SIGCONT)
            shown += os.read(master, 4096)
            first.send_signal(signal.SIGSTOP)
        first.kill()
        first.wait()
        os.close(master)
        self.assertRegex(shown.decode(), r"\[#* *\] +\d+ %  \d+ of 10000 runs, \d+ events")
        before = moved()
        self.assertTrue(0 < before < 10_000, before)
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        # Its last commit may have arrived after it was gone.
        there = re.search(r"([\d,]+) runs were there already", done.stdout)[1]
        self.assertGreaterEqual(int(there.replace(",", "")), before)
        self.assertEqual(moved(), 10_000)
        counted = self.cluster.sql("SELECT reltuples FROM pg_class WHERE oid = 'pawl.runs'::regclass", self.name)
        self.assertGreater(float(counted), 0, "the database knows how much there is, and plans accordingly")
        done = subprocess.run([PAWL, "verify", "--store", url], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_folder_moves_with_its_runs_chains_and_keys(self):
        folder = self.place / "0"
        folder.mkdir()
        workflow = self.place / "gate.yaml"
        workflow.write_text(GATE)

        def pawl(*arguments, code=0):
            done = subprocess.run([PAWL, *map(str, arguments)], capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL)
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
        self.assertIn("clean", pawl("verify", "--store", url))
        pawl("migrate", "--from", f"sqlite:{self.place}/nowhere", "--to", url, code=2)
        pawl("migrate", "--from", f"sqlite:{folder}", "--to", "mysql://x", code=2)

    def test_the_keys_and_the_bundles_move_too(self):
        old = self.make()
        old.folder.mkdir()
        served = subprocess.Popen([PAWL, "serve", "--data", old.folder, "--listen", old.listen, "--bundles", "all",
                                   "--checkpoint-interval", "50ms"], stderr=subprocess.DEVNULL)
        self.addCleanup(served.kill)
        self.wait_for("it serves", old.has_started)
        self.ask(old, "PUT", "/workflows/gate", GATE.encode())
        run = self.ask(old, "POST", "/runs", {"workflow": "gate"})["id"]
        self.ask(old, "POST", f"/runs/{run}/approve", {})
        self.wait_for("its bundle", lambda: list((old.folder / "evidence").rglob("*.zip")))
        served.terminate()
        served.wait(PATIENCE_S)
        url, folder = self.cluster.url(self.name), self.place / "moved"
        command = [PAWL, "migrate", "--from", f"sqlite:{old.folder}", "--to", url, "--data", folder]
        key = (old.folder / "signing-key.json").rename(self.place / "key")
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 4, "without its keys it could not be served there")
        self.assertIn("signing-key.json is missing", done.stderr)
        key.rename(old.folder / "signing-key.json")
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("secret", "signing-key.json", "admin.key"):
            self.assertEqual((folder / name).read_bytes(), (old.folder / name).read_bytes())
            self.assertEqual((folder / name).stat().st_mode & 0o777, 0o600)
        self.assertEqual(len(list((folder / "evidence").rglob("*.zip"))), 1)
        server = Server(folder, url)
        self.servers.append(server)
        self.addCleanup(lambda: server.process.poll() is None and server.kill())
        server.start()
        self.assertEqual(self.ask(server, "GET", f"/runs/{run}")["status"], "success")
        bundle = self.place / "run.zip"
        signer = json.loads((old.folder / "signing-key.json").read_text())["keys"][-1]["id"]
        for arguments in (["evidence", run, "-o", bundle, "--data", folder], ["verify", bundle, "--key", signer]):
            done = subprocess.run([PAWL, *map(str, arguments)], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
