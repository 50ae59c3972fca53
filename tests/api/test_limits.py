"""What the installation decides about tenants: ceilings, suspension, freezes; and how they share the server."""
import http.server
import re
import threading
import unittest

from api_case import REMOTE, ApiCase

LIMITS = ("max_concurrency", "max_runs_per_min", "max_writes_per_run", "max_stored_bytes", "max_connections",
          "max_feed_streams", "max_requests_per_min")
RESERVE = {"connector": "warehouse", "operation": "reserve", "target": "shelf/17", "fields": {"boxes": 2}}


class LimitsCase(ApiCase):
    def setUp(self):
        super().setUp()
        self.acme = self.make_tenant("acme")

    def set_ceiling(self, **limits):
        return self.ok(self.admin.request("PATCH", "/tenants/acme", limits)).json

    def propose(self, lease, who, **more):
        return who.post(f"/leases/{lease['lease_id']}/actions", {"token": lease["token"], **RESERVE, **more})

    def tenant_events(self, feed, last):
        """The tenant's own events up to one of this type."""
        return [e["event"] for e in feed.until(lambda e: e["event"]["type"] == last) if "run_id" not in e]


class Ceilings(LimitsCase):
    def test_a_tenants_admin_can_lower_a_limit_and_never_raise_it(self):
        for name in LIMITS:
            with self.subTest(limit=name):
                self.assertEqual(self.set_ceiling(**{name: 10_000})["ceiling"][name], 10_000)
                for method in ("PUT", "PATCH"):
                    raised = self.acme.request(method, "/tenant/caps", {name: 10_001})
                    refused = self.refused(raised, 403, "ABOVE_CEILING")
                    self.assertIn(f"{name} cannot be 10001", refused.json["detail"])
                tenant = self.ok(self.acme.request("PATCH", "/tenant/caps", {name: 3_000})).json
                self.assertEqual((tenant["caps"][name], tenant["limits"][name]), (3_000, 3_000))
                tenant = self.ok(self.acme.request("PATCH", "/tenant/caps", {name: None})).json
                self.assertEqual((tenant["caps"][name], tenant["limits"][name]), (None, 10_000))
        self.restart(kill=True)
        self.assertEqual(self.ok(self.acme.get("/tenant")).json["limits"], {name: 10_000 for name in LIMITS})

    def test_the_weight_is_the_installations_to_raise(self):
        self.refused(self.acme.request("PATCH", "/tenant/caps", {"weight": 2}), 403, "ABOVE_CEILING")
        self.assertEqual(self.set_ceiling(weight=4)["weight"], 4)
        self.assertEqual(self.ok(self.acme.request("PATCH", "/tenant/caps", {"weight": 2})).json["weight"], 2)
        self.refused(self.acme.request("PATCH", "/tenant/caps", {"weight": 5}), 403, "ABOVE_CEILING")

    def test_only_the_installation_sets_ceilings_and_suspends_and_nobody_learns_which_tenants_there_are(self):
        for method, path, body in (("PATCH", "", {"max_concurrency": 1}), ("POST", "/suspend", {}),
                                   ("POST", "/resume", {}), ("GET", "", None)):
            answers = [self.acme.request(method, f"/tenants/{name}{path}", body) for name in ("acme", "default", "no")]
            for answer in answers:
                self.refused(answer, 403, "FORBIDDEN")
                self.assertEqual(answer.body, answers[0].body)
        self.refused(self.admin.request("PATCH", "/tenants/nobody", {}), 404, "NOT_FOUND")

    def test_every_change_stands_in_the_tenants_journal_with_who_made_it(self):
        feed = self.feed(self.acme)
        self.set_ceiling(max_concurrency=5, weight=3)
        events = self.tenant_events(feed, "tenant.ceiling_set")
        self.assertEqual((events[-1]["max_concurrency"], events[-1]["weight"]), (5, 3))
        self.assertTrue(events[-1]["by"].startswith("key:"), events[-1])

    def test_a_ceiling_holds_for_what_workers_take(self):
        self.publish(REMOTE, self.acme)
        self.ok(self.acme.put("/tenant/caps", {"max_concurrency": 4}))
        self.set_ceiling(max_concurrency=2)
        for _ in range(5):
            self.create("remote", self.acme)
        self.assertEqual(len(self.lease_count(2, self.acme)), 2)
        self.assertEqual(self.lease(self.acme, max=10), [])

    def test_a_ceiling_holds_for_requests_and_feeds(self):
        self.set_ceiling(max_feed_streams=1, max_requests_per_min=600)
        first = self.feed(self.acme)
        self.assertEqual(first.status, 200)
        self.assertEqual(self.feed(self.acme).status, 429)
        self.assertEqual(self.feed(self.admin).status, 200)
        self.set_ceiling(max_requests_per_min=6)
        # The whole minute at once, and then what comes back: one every ten seconds.
        answers = [self.acme.get("/tenant") for _ in range(60)]
        self.assertEqual([answer.status for answer in answers[:6]], [200] * 6)
        self.refused(answers[-1], 429, "TENANT_LIMIT")
        self.ok(self.admin.get("/tenant"))


class Suspension(LimitsCase):
    def test_a_suspended_tenant_is_refused_and_loses_nothing(self):
        run = self.start(REMOTE, self.acme)["id"]
        lease = self.lease_one(self.acme)
        feed = self.feed(self.acme)
        tenant = self.ok(self.admin.post("/tenants/acme/suspend", {"reason": "unpaid"})).json
        self.assertEqual(tenant["suspended"]["reason"], "unpaid")
        self.assertEqual(self.ok(self.admin.post("/tenants/acme/suspend", {"reason": "again"})).json["suspended"],
                         tenant["suspended"])
        for answer in (self.acme.get("/tenant"), self.acme.post("/runs", {"workflow": "remote"}),
                       self.acme.post("/leases/heartbeat", {"items": [lease]}), self.acme.get("/events")):
            self.refused(answer, 403, "TENANT_SUSPENDED")
        feed.rest()  # and it ends
        self.restart(kill=True)
        self.refused(self.acme.get("/tenant"), 403, "TENANT_SUSPENDED")
        self.assertEqual(self.ok(self.admin.post("/tenants/acme/resume")).json["suspended"], None)
        self.complete(lease, self.acme)  # its lease has not ended meanwhile
        self.run_status(run, "success", self.acme)

    def test_the_installation_cannot_suspend_itself(self):
        self.refused(self.admin.post("/tenants/default/suspend"), 400, "INVALID_REQUEST")


class Freezes(LimitsCase):
    def denied(self, who):
        """What a worker of theirs is told that asks for an effect, and its run."""
        run = self.start(REMOTE, who)["id"]
        decision = self.ok(self.propose(self.lease_one(who), who)).json
        self.assertEqual(decision["decision"], "deny", decision)
        run = self.run_status(run, "denied", who)
        self.assertEqual((run["error_code"], run["retryable"]), ("EFFECTS_FROZEN", False))
        return run["diagnostic"]["message"]

    def allowed(self, who):
        self.start(REMOTE, who)
        decision = self.ok(self.propose(self.lease_one(who), who)).json
        self.assertEqual(decision["decision"], "allow", decision)

    def test_the_installation_freezes_everybody_until_it_lifts_that(self):
        feed = self.feed()
        self.assertEqual(self.ok(self.admin.get("/freezes")).json["items"], [])
        (frozen,) = self.ok(self.admin.post("/freeze", {"reason": "incident 42"})).json["items"]
        self.assertEqual((frozen["scope"], frozen["tenant"], frozen["connector"], frozen["reason"]),
                         ("everywhere", None, None, "incident 42"))
        for who in (self.admin, self.acme):
            self.assertIn("frozen by the installation since " + frozen["since"][:19], self.denied(who))
        (seen,) = self.ok(self.acme.get("/freezes")).json["items"]
        self.assertEqual((seen["by"], seen["reason"]), ("the installation", "incident 42"))
        self.refused(self.acme.post("/unfreeze"), 404, "NOT_FOUND")
        self.restart(kill=True)
        self.assertIn("incident 42", self.denied(self.acme))
        self.assertEqual(self.ok(self.admin.post("/unfreeze")).json["items"], [])
        self.allowed(self.acme)
        feed.close()
        feed = self.feed(after=feed.begins_at)
        events = self.tenant_events(feed, "effects.unfrozen")
        self.assertIn({"type": "effects.frozen", "scope": "everywhere", "reason": "incident 42"},
                      [{k: e[k] for k in ("type", "scope", "reason") if k in e} for e in events])

    def test_a_tenants_admin_freezes_its_own_and_no_other(self):
        self.ok(self.acme.post("/freeze", {"connector": "warehouse"}))
        self.assertIn("no reason was given", self.denied(self.acme))
        self.allowed(self.admin)
        self.refused(self.acme.post("/freeze", {"tenant": "default"}), 403, "FORBIDDEN")
        self.refused(self.acme.post("/freeze", {"tenant": "nobody"}), 403, "FORBIDDEN")
        self.ok(self.acme.post("/unfreeze", {"connector": "warehouse"}))
        self.allowed(self.acme)

    def test_a_connector_that_no_tool_has_is_frozen_with_a_warning(self):
        for connector in ("github", "http", "model", "github.labels"):
            self.assertIsNone(self.ok(self.acme.post("/freeze", {"connector": connector})).json["warning"], connector)
        warning = self.ok(self.acme.post("/freeze", {"connector": "githbu"})).json["warning"]
        self.assertIn("No tool of this server has the connector `githbu`", warning)
        self.assertIn("github, http, model", warning)
        self.assertNotIn("pawl", warning)
        self.refused(self.acme.post("/freeze", {"connector": "GitHub"}), 400, "INVALID_REQUEST")

    def test_no_spelling_gets_around_a_freeze(self):
        self.ok(self.acme.post("/freeze", {"connector": "warehouse"}))
        self.start(REMOTE, self.acme)
        lease = self.lease_one(self.acme)
        for connector in ("Warehouse", "warehouse ", "wareh\u043euse", "warehouse\u200b", "warehouse\n"):
            refused = self.propose(lease, self.acme, connector=connector)
            self.assertEqual((refused.status, refused.json["code"]), (400, "INVALID_REQUEST"), connector)
            self.assertIn("`connector` may only have the letters a-z", refused.json["detail"])
        decision = self.ok(self.propose(lease, self.acme, connector="warehouse.stock")).json
        self.assertEqual(decision["decision"], "deny")

    def test_a_tenant_cannot_lift_what_the_installation_froze(self):
        self.ok(self.admin.post("/freeze", {"tenant": "acme", "connector": "warehouse", "reason": "a loop"}))
        for body in ({}, {"connector": "warehouse"}, {"tenant": "acme", "connector": "warehouse"}):
            self.refused(self.acme.post("/unfreeze", body), 404, "NOT_FOUND")
        self.assertIn("a loop", self.denied(self.acme))
        self.allowed(self.admin)
        self.assertEqual([t["frozen"] for t in self.ok(self.admin.get("/tenants")).json["items"]], [False, True])
        self.ok(self.admin.post("/unfreeze", {"tenant": "acme", "connector": "warehouse"}))
        self.allowed(self.acme)

    def test_a_call_that_was_allowed_and_has_not_begun_must_not_begin(self):
        self.start(REMOTE, self.acme)
        lease = self.lease_one(self.acme)
        receipt = self.ok(self.propose(lease, self.acme)).json["receipt_id"]
        self.ok(self.acme.post("/freeze"))
        self.refused(self.propose(lease, self.acme), 409, "EFFECTS_FROZEN")
        self.ok(self.acme.post(f"/leases/{lease['lease_id']}/actions/{receipt}/outcome",
                               {"token": lease["token"], "succeeded": False, "error_code": "NOT_CALLED"}))


class Stuck(http.server.BaseHTTPRequestHandler):
    """Answers when the test says so."""

    def do_GET(self):
        self.server.arrived.release()
        self.server.go_on.wait()
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Slots(LimitsCase):
    flags = ("--worker-slots", "8", "--http-allow", "127.0.0.1")

    def test_long_steps_of_one_tenant_do_not_keep_another_from_working(self):
        target = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stuck)
        target.arrived, target.go_on = threading.Semaphore(0), threading.Event()
        thread = threading.Thread(target=target.serve_forever)
        thread.start()
        try:
            self.publish("workflow: long\nsteps: [{id: a, tool: http.request, with: {url: 'http://127.0.0.1:"
                         f"{target.server_port}/'}}}}]")
            runs = [self.create("long")["id"] for _ in range(20)]
            for _ in range(7):
                target.arrived.acquire()
            self.publish("workflow: quick\nsteps: [{id: a, tool: noop}, {id: b, tool: transform, with: "
                         "{jq: '1'}}]", self.acme)
            for _ in range(10):
                run = self.create("quick", self.acme)["id"]
                self.run_status(run, "success", self.acme)
            target.go_on.set()
            for run in runs:
                self.run_status(run, "success")
        finally:
            target.go_on.set()
            target.shutdown()
            thread.join()
            target.server_close()


class WorkingSet(ApiCase):
    flags = ("--no-workers", "--working-set", "16MiB")

    def metric(self, name):
        text = self.ok(self.admin.get("/metrics")).body.decode()
        return float(re.search(rf"^{name} (\S+)$", text, re.M)[1])

    def test_runs_that_wait_leave_memory_by_their_size_and_come_back_whole(self):
        self.publish("workflow: big\nsteps: [{id: only, tool: test.work, with: {text: '${{ input.text }}'}}]")
        text = "x" * 900_000
        runs = [self.create("big", input={"text": text})["id"] for _ in range(60)]
        self.until(lambda: self.metric("pawl_working_set_bytes"), lambda size: size <= 20 << 20,
                   "the working set is within its bound")
        self.assertLess(self.metric("pawl_runs_in_memory"), 30)
        for _ in range(3):
            lease = self.lease_one()
            self.assertEqual(lease["input"]["text"], text)
            self.complete(lease)
        self.assertEqual(sum(self.get_run(run)["status"] == "success" for run in runs), 3)


if __name__ == "__main__":
    unittest.main()
