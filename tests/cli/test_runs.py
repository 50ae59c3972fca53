"""Lists of runs and workers, starting by name, and answering: what operators do all day."""
import http.server
import json
import threading
import unittest

from pawl_case import without_escapes
from server_case import REMOTE, ServerCase
from terminal import Terminal

ASKING = "workflow: asking\nsteps:\n  - {id: choose, tool: test.ask, lease: 1h}\n"
WRITING = "workflow: writing\nsteps:\n  - {id: put, tool: http.request, with: {method: PUT, body: {n: 1}, " \
          "url: 'URL'}, retry: {max_attempts: 1}}\n"
NOWHERE = "http://127.0.0.1:1/orders/" + "x" * 60
HERE = ("--http-allow", "127.0.0.1")
FAILING = "workflow: failing-with-a-name-that-is-long\nsteps:\n  - {id: a, tool: noop, with: {fail_times: 9}, " \
          "retry: {max_attempts: 1}}\n"
BACKOFF = "workflow: backoff\nsteps:\n  - {id: a, tool: noop, with: {fail_times: 1}, " \
          "retry: {max_attempts: 2, base: 1h, max: 1h, jitter: 0}}\n"
TIMER = "workflow: timer\nsteps:\n  - {id: cool, tool: wait, for: 1h}\n"


class Doubtful(http.server.BaseHTTPRequestHandler):
    """Takes what it is sent, and does not say whether it did anything with it."""
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(502)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Lists(ServerCase):
    def setUp(self):
        super().setUp()
        self.serve(*HERE)

    def reason(self, run):
        rows = [json.loads(line) for line in self.expect(self.pawl("runs", "--json"), 0).stdout.splitlines()]
        return next(row["waits_for"] for row in rows if row["id"] == run)

    def wait_for_reason(self, run, words):
        self.wait_until(lambda: words in (self.reason(run) or ""), f"{run}: {words}")

    def test_a_run_that_does_not_move_says_why(self):
        asking = self.started(ASKING, "asking")
        self.wait_for_reason(asking, "step choose waits for a worker with the tool test.ask; none is connected")
        self.request("POST", "/leases", {"worker": "w1", "tools": ["other"], "max": 1, "wait": "0s"})
        self.wait_for_reason(asking, "none is connected")
        gate = self.started(REMOTE)
        self.wait_for_reason(gate, "step gate waits for approval until 20")
        self.wait_for_reason(self.started(BACKOFF, "backoff"), "step a is tried again at 20")
        # A cap of one step, which is taken; whoever is connected has the tool.
        taken = {"worker": "w1", "tools": ["test.ask"], "max": 1, "wait": "30s"}
        lease, = self.request("POST", "/leases", taken)["leases"]
        self.expect(self.pawl("caps", "--max-concurrency", "1"), 0)
        second = self.request("POST", "/runs", {"workflow": "asking"})["id"]
        self.wait_for_reason(second, "step choose is held back by the cap max_concurrency")
        self.assertIsNone(self.reason(asking))
        self.request("POST", f"/leases/{lease['lease_id']}/ask", {"token": lease["token"], "question": "which?"})
        self.wait_for_reason(asking, "step choose waits for an answer")
        # From the folder the same, without the server's knowledge of workers.
        self.assertEqual(self.pawl("runs").stdout.count("waits for approval"), 1)

    def test_a_run_that_a_cap_holds_back_says_which_and_until_when(self):
        ask = "steps: [{id: a, tool: test.ask, lease: 1h}]\n"
        poll = {"worker": "w1", "tools": ["test.ask"], "max": 9, "wait": "30s"}

        def waits_for(run):
            return next(row["waits_for"] for row in self.request("GET", "/runs")["items"] if row["id"] == run)

        # Of the workflow: so many steps at once, so many starts a minute.
        for name, cap, until in (("narrow", "max_concurrency", ""),
                                 ("paced", "max_runs_per_min", "; the next run can start at 20")):
            self.started(f"workflow: {name}\ncaps: {{{cap}: 1}}\n{ask}", name)
            self.assertEqual(len(self.request("POST", "/leases", poll)["leases"]), 1)
            second = self.request("POST", "/runs", {"workflow": name})["id"]
            self.wait_for_reason(second, f"step a is held back by the cap {cap} (1) of the workflow{until}")
            reason = waits_for(second)
            self.assertEqual((reason["kind"], reason["cap"], reason["cap_of"]), ("worker", cap, "workflow"))
            self.assertEqual("until" in reason, bool(until), reason)
        # Of the tenant; also of runs that need no worker to start.
        self.expect(self.pawl("caps", "--max-runs-per-min", "1"), 0)
        nap = "workflow: NAME\nsteps: [{id: nap, tool: wait, for: 1h}]\n"
        self.wait_for_reason(self.started(nap.replace("NAME", "nap"), "nap"), "step nap waits until 20")
        gate = "workflow: gate\nsteps: [{id: ok, tool: approval}]\n"
        held = "the run is held back by the cap max_runs_per_min (1) of the tenant; the next run can start at 20"
        for run in (self.request("POST", "/runs", {"workflow": "nap"})["id"], self.started(gate, "gate")):
            self.wait_for_reason(run, held)
            self.assertEqual(waits_for(run)["kind"], "start")
        plain = self.started(f"workflow: plain\n{ask}", "plain")
        self.wait_for_reason(plain, "step a is held back by the cap max_runs_per_min (1) of the tenant; the next run")
        self.expect(self.pawl("caps", "--max-runs-per-min", "none", "--max-concurrency", "1"), 0)
        self.wait_for_reason(plain, "step a is held back by the cap max_concurrency (1) of the tenant")

    def test_filters_are_those_of_the_api(self):
        runs = {name: self.started(text, name) for text, name in
                ((REMOTE, "remote"), (FAILING, "failing-with-a-name-that-is-long"))}
        self.wait_until(lambda: self.status(runs["failing-with-a-name-that-is-long"]) == "failed", "the failure")
        code = self.request("GET", "/runs/" + runs["failing-with-a-name-that-is-long"])["error_code"]
        away = self.away()
        for env in (None, away):
            for flags, name in ((("--workflow", "remote"), "remote"),
                                (("--error-code", code), "failing-with-a-name-that-is-long"),
                                (("--search", "failing"), "failing-with-a-name-that-is-long"),
                                (("--workspace", "default", "--since", "1h", "--workflow", "remote"), "remote")):
                listed = self.pawl("runs", "--json", *flags, data=env is None, env=env)
                ids = [json.loads(line)["id"] for line in self.expect(listed, 0).stdout.splitlines()]
                self.assertEqual(ids, [runs[name]], flags)
            for flags in (("--until", "1h"), ("--since", "2999-01-01T00:00:00Z"), ("--workspace", "nobody"),
                          ("--error-code", "NOPE")):
                listed = self.expect(self.pawl("runs", *flags, data=env is None, env=env), 0).stdout
                self.assertIn("no run", listed, flags)
        self.assertIn("neither a time", self.expect(self.pawl("runs", "--since", "soon"), 2).stderr)

    def test_tables_fit_a_terminal_of_80_columns(self):
        self.started(FAILING, "failing-with-a-name-that-is-long")
        self.started(REMOTE)
        self.wait_for_reason(self.started(ASKING, "asking"), "none is connected")
        self.wait_for_reason(self.started(BACKOFF, "backoff"), "step a is tried again at 20")
        self.wait_for_reason(self.started(TIMER, "timer"), "step cool waits until 20")
        policy = self.workflow("policy: p\nrules:\n- {id: all, effect: allow}\n", "policy.yaml")
        self.expect(self.pawl("policy", "put", policy), 0)
        written = self.started(WRITING.replace("URL", NOWHERE), "writing")
        self.wait_until(lambda: self.status(written) == "failed", "the receipt")
        self.request("PUT", "/webhooks/orders", {"url": "https://example.org/" + "x" * 100, "events": ["run.*"],
                                                 "secret": "S"})
        for command in (["runs"], ["workers"], ["workflows"], ["keys"], ["webhooks"], ["receipts"], ["people"],
                        ["tenants"], ["caps"], ["policy", "history"]):
            terminal = Terminal([*command, "--data", self.data], self.environment(), self.folder, columns=80)
            self.addCleanup(terminal.close)
            self.assertEqual(terminal.finish(), 0, (command, terminal.seen))
            for line in without_escapes(terminal.seen).splitlines():
                self.assertLessEqual(len(line), 80, (command, line))
            if command == ["runs"]:
                self.assertIn("none is connected", without_escapes(terminal.seen))
                self.assertNotIn("waiting, retries", without_escapes(terminal.seen))
                self.assertRegex(" ".join(without_escapes(terminal.seen).split()), r"step a is tried again at \S+Z\b")
            if command == ["workers"]:
                self.assertIn("http.request", without_escapes(terminal.seen))
                self.assertIn("transform", without_escapes(terminal.seen))
            if command == ["keys"]:
                self.assertNotIn("…", without_escapes(terminal.seen))
            if command == ["policy", "history"]:
                self.assertRegex(without_escapes(terminal.seen), r" \d{4}-\d\d-\d\d \d\d:\d\d:\d\d ")
            if command == ["receipts"]:
                receipt = self.request("GET", "/runs/" + written)["receipts"][0]["id"]
                self.assertRegex(without_escapes(terminal.seen),
                                 rf"{receipt} +failed +http request +http://127\.0\.0\.1:1/")
        # A program that reads it gets all of it.
        listed = self.expect(self.pawl("receipts"), 0).stdout
        self.assertIn("http request  " + NOWHERE, listed)

    def test_show_prints_a_message_line_by_line_and_cuts_neither_reasons_nor_places(self):
        run = self.started(ASKING, "asking")
        taken = {"worker": "w1", "tools": ["test.ask"], "max": 1, "wait": "30s"}
        lease, = self.request("POST", "/leases", taken)["leases"]
        message = "KeyError: 'order'\n  at shop/pack.py:12 in pack\n  at shop/stock.py:7 in take"
        self.request("POST", "/leases/fail", {"items": [{"lease_id": lease["lease_id"], "token": lease["token"],
                                                         "error_code": "X", "message": message, "retryable": False}]})
        self.wait_until(lambda: self.request("GET", "/runs/" + run)["bundle"], "the bundle")
        terminal = Terminal(["show", run, "--data", self.data], self.environment(), self.folder, columns=80)
        self.addCleanup(terminal.close)
        self.assertEqual(terminal.finish(), 0)
        shown = [line.rstrip() for line in without_escapes(terminal.seen).replace("\r", "").split("\n")]
        at = shown.index("  what      step choose: KeyError: 'order'")
        self.assertEqual([line.strip() for line in shown[at + 1:at + 3]],
                         ["at shop/pack.py:12 in pack", "at shop/stock.py:7 in take"])
        place = self.request("GET", "/runs/" + run)["bundle"]["location"]
        self.assertIn("  evidence   " + place, shown)

    def test_workers_are_listed_with_their_tools(self):
        self.assertRegex(self.expect(self.pawl("workers"), 0).stdout, r"local\S* +server .*http\.request")
        self.request("POST", "/leases", {"worker": "w1", "tools": ["a.b", "c"], "max": 1, "wait": "0s"})
        workers = [json.loads(line) for line in self.expect(self.pawl("workers", "--json"), 0).stdout.splitlines()]
        remote, = [worker for worker in workers if worker["kind"] == "remote"]
        self.assertEqual((remote["name"], remote["tools"]), ("w1", ["a.b", "c"]))
        self.assertTrue(remote["key_id"].startswith("key_"))
        other = json.loads(self.expect(self.pawl("tenants", "--create", "other", "--json"), 0).stdout)
        self.assertTrue(other)

    def test_a_published_workflow_runs_by_its_name(self):
        source = "workflow: shown\nsteps:\n  - {id: a, tool: noop, with: {output: N}}\n"
        for n in ("1", "2"):
            self.expect(self.pawl("workflows", "--publish", self.workflow(source.replace("N", n))), 0)
        for flags, version in (((), 2), (("--version", "1"), 1)):
            self.expect(self.pawl("run", "shown", *flags), 0)
            newest = json.loads(self.expect(self.pawl("runs", "--json", "--limit", "1"), 0).stdout)
            self.assertEqual((newest["workflow"], newest["version"], newest["status"]), ("shown", version, "success"))
        self.assertIn("no workflow nosuch", self.expect(self.pawl("run", "nosuch"), 4).stderr)
        self.assertIn("did you mean shown?", self.expect(self.pawl("run", "show"), 4).stderr)
        self.assertIn("nosuch.yaml", self.expect(self.pawl("run", "nosuch.yaml"), 4).stderr)

    def test_a_question_is_shown_and_answered(self):
        run = self.started(ASKING, "asking")
        taken = {"worker": "w1", "tools": ["test.ask"], "max": 1, "wait": "30s"}
        lease, = self.request("POST", "/leases", taken)["leases"]
        self.assertIn("asks nothing", self.expect(self.pawl("answer", run, "x"), 4).stderr)
        self.request("POST", f"/leases/{lease['lease_id']}/ask", {"token": lease["token"], "question": "which?"})
        self.assertIn("choose asks: which?", self.expect(self.pawl("answer", run), 5).stdout)
        self.assertIn(f"pawl answer {run} --step choose", self.pawl("inbox").stdout)
        self.expect(self.pawl("answer", run[-6:], '{"n": 1}', "--step", "choose"), 0)
        step = self.request("GET", "/runs/" + run)["steps"][0]
        self.assertEqual((step["status"], step["answer"]), ("ready", {"n": 1}))


    def test_an_effect_in_doubt_is_resolved_by_its_receipt_wherever_it_is_asked_about(self):
        target = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Doubtful)
        self.addCleanup(target.server_close)
        threading.Thread(target=target.serve_forever, daemon=True).start()
        self.addCleanup(target.shutdown)
        url = f"http://127.0.0.1:{target.server_port}/orders"
        posting = WRITING.replace("URL", url).replace("PUT", "POST").replace("max_attempts: 1", "max_attempts: 2")
        run = self.started(posting, "writing")
        self.wait_until(lambda: self.status(run) == "waiting", "the question")
        command = f"pawl receipts {self.request('GET', '/runs/' + run)['receipts'][0]['id']} --happened yes|no"
        for shown in (self.expect(self.pawl("inbox"), 5).stdout, self.expect(self.pawl("answer", run), 5).stdout,
                      self.expect(self.pawl("show", run), 0).stdout):
            self.assertIn(command, shown)
            self.assertIn("Did this happen? http request", shown)
            self.assertNotIn("pawl answer", shown)
            self.assertNotIn("effect_in_doubt", shown)
        self.expect(self.pawl(*command.split()[1:-1], "yes"), 0)
        self.wait_until(lambda: self.status(run) == "success", "the run")

    def test_the_inbox_has_a_question_behind_any_number_of_timers(self):
        run = self.started(ASKING, "asking")
        taken = {"worker": "w1", "tools": ["test.ask"], "max": 1, "wait": "30s"}
        lease, = self.request("POST", "/leases", taken)["leases"]
        self.request("POST", f"/leases/{lease['lease_id']}/ask", {"token": lease["token"], "question": "which?"})
        self.expect(self.pawl("workflows", "--publish",
                              self.workflow("workflow: slow\nsteps: [{id: a, tool: wait, for: 10m}]\n")), 0)
        timers = [{"workflow": "slow"}] * 501
        self.request("POST", "/runs/batch", {"items": timers})
        self.wait_until(lambda: len(self.runs("--status", "waiting", "--limit", "1000")) == 502, "the timers")
        item, = [json.loads(line) for line in self.expect(self.pawl("inbox", "--json"), 5).stdout.splitlines()]
        self.assertEqual((item["kind"], item["id"]), ("question", run))


class InAFolder(ServerCase):
    def test_receipts_name_action_and_target(self):
        run = self.run_to_end(WRITING.replace("URL", NOWHERE), *HERE, code=1)["run"]
        listed = self.expect(self.pawl("receipts"), 0).stdout
        self.assertRegex(listed, rf"{run['receipts'][0]['id']} +failed +http request +{NOWHERE}\n")

    def test_a_published_workflow_runs_by_its_name(self):
        self.expect(self.pawl("workflows", "--publish",
                              self.workflow("workflow: shown\nsteps:\n  - {id: a, tool: noop}\n")), 0)
        self.expect(self.pawl("run", "shown"), 0)
        self.assertEqual(self.only_run()["version"], 1)


if __name__ == "__main__":
    unittest.main()
