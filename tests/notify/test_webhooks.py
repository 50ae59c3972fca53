"""Outgoing webhooks: the real server, a receiver on loopback, and the libraries that receivers use."""
import json
import os
import sqlite3
import time
import unittest
import urllib.request

from notice_case import HANG_S, NoticeCase
from cluster import free_port  # noqa: E402: server_case knows the way

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
OTHER = "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="

ORDER = """
workflow: order
steps:
  - {id: first, tool: noop, with: {output: {card: "4111 1111 1111 1111"}}}
  - {id: second, tool: noop}
"""

GATED = """
workflow: gated
steps:
  - {id: gate, tool: approval, prompt: "Ship it?"}
"""


class WebhookCase(NoticeCase):
    SECRETS = {"HOOK": SECRET, "BOTH": SECRET + "\n" + OTHER}

    def hook(self, receiver, *events, name="orders", secret="HOOK"):
        flags = [flag for event in events for flag in ("--event", event)]
        return self.expect(self.pawl("webhooks", "set", name, "--url", receiver.url + "/in", "--secret", secret,
                                     *flags), 0)

    def start_run(self, workflow="order"):
        return self.request("POST", "/runs", {"workflow": workflow})["id"]

    def events(self, receiver, run=None):
        """The CloudEvents that came, in the order of the run's own sequence, each once."""
        seen = {}
        for request in receiver.all():
            event = json.loads(request["body"])
            if run is None or event["subject"] == run:
                seen[event["id"]] = event
        return sorted(seen.values(), key=lambda event: (event["subject"], int(event["sequence"])))

    def deliveries(self, name="orders", **query):
        rest = "&".join(f"{key}={value}" for key, value in query.items())
        return self.request("GET", f"/webhooks/{name}/deliveries?{rest}")["items"]

    def wait_for(self, receiver, run, *types):
        wanted = ["pawl." + kind for kind in types]
        self.wait_until(lambda: [e["type"] for e in self.events(receiver, run)] == wanted, f"{wanted} of {run}")


class Webhooks(WebhookCase):
    def test_tell_of_what_was_asked_for_and_of_nothing_else(self):
        self.serve()
        self.publish(ORDER)
        before = self.start_run()
        self.wait_until(lambda: self.status(before) == "success", "the run")
        receiver = self.receiver()
        self.hook(receiver, "run.*")
        run = self.start_run()
        self.wait_for(receiver, run, "run.created", "run.started", "run.succeeded")
        self.assertEqual({e["subject"] for e in self.events(receiver)}, {run}, "neither earlier runs, nor pawl's own")
        created, _, succeeded = self.events(receiver, run)
        self.assertEqual(created["source"], f"/tenants/default/runs/{run}")
        self.assertEqual((succeeded["data"]["status"], succeeded["data"]["workflow"]), ("success", "order"))
        self.assertEqual(set(created["data"]["event"]["input"]), {"bytes", "sha256"})

    def test_tell_of_tasks_and_not_of_what_is_said_in_them(self):
        self.serve()
        self.publish(ORDER)
        receiver = self.receiver()
        self.hook(receiver, "task.*")
        task = self.request("POST", "/tasks", {"title": "t", "workflow": "order", "input": {"card": "4111"}})["id"]
        self.request("POST", f"/tasks/{task}/run")
        self.wait_for(receiver, task, "task.created", "task.queued", "task.started", "task.finished")
        self.request("POST", f"/tasks/{task}/reject", {"comment": "there is dust"})
        self.wait_for(receiver, task, "task.created", "task.queued", "task.started", "task.finished", "task.rejected")
        created, *_, rejected = self.events(receiver, task)
        self.assertEqual((created["source"], created["data"]["task_id"]), (f"/tenants/default/tasks/{task}", task))
        self.assertEqual(set(created["data"]["event"]["input"]), {"bytes", "sha256"})
        self.assertEqual(set(rejected["data"]["event"]["message"]), {"bytes", "sha256"})
        self.assertEqual([(e["data"]["title"], e["data"]["state"]) for e in self.events(receiver, task)],
                         [("t", state) for state in ("PENDING", "QUEUED", "RUNNING", "READY", "PENDING")])
        self.assertEqual([e["data"]["requests"][:2] for e in self.events(receiver, task)],
                         [["run", "cancel"], ["cancel"], ["cancel"], ["accept", "reject"], ["run", "cancel"]])
        self.assertEqual({item["status"] for item in self.deliveries()}, {"delivered"})

    def test_ask_for_no_answer_of_a_task_that_waits_for_its_subtasks(self):
        self.serve()
        self.publish(ORDER)
        receiver = self.receiver()
        self.hook(receiver, "task.subtasks_awaited")
        body = {"title": "t", "workflow": "order", "input": {"card": "4111"}}
        task = self.request("POST", "/tasks", body)["id"]
        self.request("POST", "/tasks", {**body, "parent_task_id": task})
        self.request("POST", f"/tasks/{task}/run")
        self.wait_for(receiver, task, "task.subtasks_awaited")
        awaited, = self.events(receiver, task)
        self.assertEqual((awaited["data"]["state"], awaited["data"]["requests"]),
                         ("BLOCKED", ["cancel", "change", "delete"]))

    def test_fit_what_receivers_check_them_with(self):
        self.serve()
        self.publish(ORDER)
        receiver = self.receiver()
        self.hook(receiver, "*", secret="BOTH")
        run = self.start_run()
        self.wait_until(lambda: any(e["type"] == "pawl.run.succeeded" for e in self.events(receiver, run)), "the end")
        requests = receiver.all()
        self.assertFalse([r for r in requests if "4111" in r["body"]], "content went out")
        lines = [json.dumps({"secret": secret, "headers": r["headers"], "body": r["body"]})
                 for secret in (SECRET, OTHER) for r in requests]
        done = self.run_receivers("verify", stdin="\n".join(lines) + "\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        results = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(results), len(lines))
        for request, result in zip(requests + requests, results):
            self.assertEqual(result["signature"], "good")
            self.assertEqual(result["event"]["id"], request["headers"]["webhook-id"])
        wrong = dict(requests[0], body=requests[0]["body"].replace(run, run[::-1]))
        done = self.run_receivers("verify", stdin=json.dumps({"secret": SECRET, "headers": wrong["headers"],
                                                              "body": wrong["body"]}) + "\n")
        self.assertNotEqual(json.loads(done.stdout)["signature"], "good")

    def test_are_repeated_when_the_receiver_was_down(self):
        self.serve()
        self.publish(ORDER)
        port = free_port()  # not one that the system may give to others meanwhile
        receiver = self.receiver(port=port)
        self.hook(receiver, "run.succeeded")
        receiver.close()
        run = self.start_run()
        self.wait_until(lambda: any(d["status"] == "retrying" for d in self.deliveries()), "a delivery that failed")
        back = self.receiver(port=port)
        self.wait_for(back, run, "run.succeeded")
        self.wait_until(lambda: [d["status"] for d in self.deliveries()] == ["delivered"], "the log")
        self.assertGreater(self.deliveries()[0]["attempts"], 1)
        self.assertIn('pawl_deliveries_total{channel="webhook",outcome="delivered"} 1', self.metrics())

    def metrics(self):
        key = (self.data / "admin.key").read_text().strip()
        request = urllib.request.Request(self.url() + "/metrics", headers={"Authorization": "Bearer " + key})
        with urllib.request.urlopen(request, timeout=HANG_S) as answer:
            return answer.read().decode()

    def test_lose_nothing_when_the_server_is_killed_between_event_and_delivery(self):
        server = self.serve()
        self.publish(ORDER)
        receiver = self.receiver()
        self.hook(receiver, "run.succeeded")
        runs = set()
        for _ in range(4):
            for _ in range(10):
                runs.add(self.start_run())
            self.kill(server)
            server = self.serve()
        self.wait_until(lambda: {e["subject"] for e in self.events(receiver)} == runs, "every run's end")
        self.wait_until(lambda: all(d["status"] == "delivered" for d in self.deliveries(limit=200)), "the log")
        ids = [d["event_id"] for d in self.deliveries(limit=200)]
        self.assertEqual(sorted(ids), sorted(set(ids)), "one delivery an event, whatever was killed")
        self.verify_clean_server(server)

    def verify_clean_server(self, server):
        server.terminate()
        server.wait(HANG_S)
        self.verify_clean()

    def test_stop_for_one_that_is_gone_and_go_on_when_it_is_set_again(self):
        self.serve()
        self.publish(ORDER)
        answers = [(410, {}, "")]
        receiver = self.receiver(lambda request: answers[0])
        self.hook(receiver, "run.succeeded")
        self.start_run()
        self.wait_until(lambda: self.request("GET", "/webhooks/orders")["disabled"], "that it is disabled")
        self.wait_until(lambda: [d["status"] for d in self.deliveries()] == ["failed"], "the log")
        lost = self.start_run()
        self.wait_until(lambda: self.status(lost) == "success", "the run")
        answers[0] = (204, {}, "")
        self.hook(receiver, "run.succeeded")
        run = self.start_run()
        self.wait_until(lambda: any(e["subject"] == run for e in self.events(receiver)), "the event")
        self.assertFalse(self.events(receiver, lost))
        done = self.expect(self.pawl("webhooks", "replay", "orders"), 0)
        self.assertIn("1 deliver", done.stdout)
        self.wait_until(lambda: len(receiver.all()) == 3, "the replay")
        self.assertEqual(receiver.all()[0]["headers"]["webhook-id"], receiver.all()[2]["headers"]["webhook-id"])
        self.assertIn("0 deliver", self.expect(self.pawl("webhooks", "replay", "orders"), 0).stdout)

    def test_are_replayed_one_by_one(self):
        self.serve()
        self.publish(ORDER)
        receiver = self.receiver()
        self.hook(receiver, "run.succeeded")
        self.start_run()
        self.wait_until(lambda: [d["status"] for d in self.deliveries()] == ["delivered"], "the delivery")
        self.expect(self.pawl("webhooks", "replay", "orders", self.deliveries()[0]["id"]), 0)
        self.wait_until(lambda: len(receiver.all()) == 2, "the replay")
        first, second = receiver.all()
        self.assertEqual(first["body"], second["body"])
        self.assertIn("delivered", self.expect(self.pawl("webhooks", "deliveries", "orders"), 0).stdout)

    def test_honour_what_a_receiver_asks_for(self):
        self.serve()
        self.publish(ORDER)
        answers = [(429, {"Retry-After": "7"}, ""), (302, {"Location": "/elsewhere"}, ""), (200, {}, "")]
        at = []

        def answer(request):
            at.append(time.monotonic())
            return answers[min(len(at), 3) - 1]
        receiver = self.receiver(answer)
        self.hook(receiver, "run.succeeded")
        self.start_run()
        self.wait_until(lambda: len(at) == 2, "the second attempt")
        self.assertGreater(at[1] - at[0], 6.9)  # by itself it would wait for 6 at most
        self.wait_until(lambda: "302" in (self.deliveries()[0]["last_error"] or ""), "the redirect")
        self.assertEqual({r["path"] for r in receiver.all()}, {"/in"}, "redirects are not followed")

    def test_do_not_reach_what_steps_may_not(self):
        self.start("serve", "--listen", "127.0.0.1:0", "--secrets-folder", self.secrets)
        self.wait_until((self.data / "server.json").exists, "the server")
        self.publish(ORDER)
        receiver = self.receiver()
        self.hook(receiver, "run.succeeded")
        self.start_run()
        self.wait_until(lambda: [d["status"] for d in self.deliveries()] == ["failed"], "that it is refused")
        self.assertIn("may not be reached", self.deliveries()[0]["last_error"])
        self.assertFalse(receiver.all())


class InternalRuns(WebhookCase):
    def test_is_nobody_elses(self):
        self.serve()
        self.publish(ORDER)
        receiver = self.receiver()
        self.hook(receiver, "*")
        run = self.start_run()
        self.wait_until(lambda: len(self.deliveries()) > 5, "deliveries")
        sneaky = "workflow: sneaky\nsteps: [{id: one, tool: pawl.webhook, with: {webhook: orders, event: {id: x}}}]\n"
        for text in (ORDER.replace("order", "pawl.order"), sneaky):
            refused = self.pawl("workflows", "--publish", self.workflow(text))
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("pawl's own", refused.stderr)
        status, body = self.refused("POST", "/leases", {"worker": "w", "tools": ["pawl.webhook"], "max": 1})
        self.assertEqual(status, 400, body)
        status, body = self.refused("POST", "/runs", {"workflow": "pawl.webhook.orders", "input": {}})
        self.assertEqual((status, body["code"]), (422, "UNKNOWN_WORKFLOW"))
        self.assertEqual([r["id"] for r in self.request("GET", "/runs")["items"]], [run])
        self.assertTrue(self.request("GET", "/runs?workflow=pawl.webhook.orders")["items"])
        self.assertEqual([w["name"] for w in self.request("GET", "/workflows")["items"]], ["order"])

    def test_bad_input_has_a_clear_error(self):
        self.serve()
        good = {"url": "https://example.com/x", "events": ["run.*"], "secret": "HOOK"}
        for change, says in (({"url": "ftp://x"}, "https://"), ({"events": ["run.done"]}, "run.done"),
                             ({"events": []}, "between 1"),
                             ({"secret": "a b"}, "secret"), ({"extra": 1}, "extra"), ({"url": "http://u:p@x/"}, "user"),
                             ({"url": "https://x/a/..%2fb"}, "hidden"), ({"url": "http://127.1/"}, "four decimal")):
            status, body = self.refused("PUT", "/webhooks/one", {**good, **change})
            self.assertIn(status, (400, 422), body)
            self.assertIn(says, json.dumps(body))
        self.assertEqual(self.refused("GET", "/webhooks/one")[0], 404)
        self.assertEqual(self.refused("DELETE", "/webhooks/one")[0], 404)
        self.assertEqual(self.refused("GET", "/webhooks/one/deliveries")[0], 404)
        made = self.request("PUT", "/webhooks/one", {**good, "url": "https://Example.com:443/a/../x"})
        self.assertEqual(made["url"], good["url"])
        self.assertIn("one", self.expect(self.pawl("webhooks"), 0).stdout)
        self.expect(self.pawl("webhooks", "remove", "one"), 0)
        self.assertIn("no webhooks", self.expect(self.pawl("webhooks", "list"), 0).stdout)


class Days(WebhookCase):
    """Days pass between one attempt and the next: the server is started again, and lives later."""
    ATTEMPTS = 10
    shift_s = 0

    def environment(self, **more):
        clock = {"LD_PRELOAD": os.environ.get("OTHER_CLOCK", ""), "CLOCK_SHIFT_S": str(self.shift_s),
                 "ASAN_OPTIONS": "verify_asan_link_order=0:" + os.environ.get("ASAN_OPTIONS", "")}
        return super().environment(**clock, **more)

    def begin(self, answer):
        self.server = self.serve()
        if self.store:
            self.skipTest("PostgreSQL's clock cannot be moved from here")
        self.publish(ORDER)
        receiver = self.receiver(answer)
        self.hook(receiver, "run.succeeded")
        self.failing = self.start_run()
        self.wait_for_attempt(1)
        return receiver

    def delivery(self, run=None):
        return next((d for d in self.deliveries() if d["run_id"] == (run or self.failing)), None)

    def wait_for_attempt(self, number, run=None):
        def is_made():
            delivery = self.delivery(run)
            return delivery and delivery["attempts"] == number and delivery["status"] in ("retrying", "failed")
        self.wait_until(is_made, f"attempt {number}")

    def days_later(self):
        self.server.terminate()
        self.server.wait(HANG_S)
        self.shift_s += 30 * 3600  # longer than any wait between two attempts
        self.server = self.serve()

    def disabled(self):
        return self.request("GET", "/webhooks/orders")["disabled"]

    def test_without_an_answer_disable_a_webhook(self):
        self.begin(lambda request: (503, {}, ""))
        for attempt in range(2, self.ATTEMPTS + 1):
            self.assertIsNone(self.disabled(), f"before attempt {attempt}")
            self.days_later()
            self.wait_for_attempt(attempt)
        self.wait_until(self.disabled, "that it is disabled")
        self.assertRegex(self.disabled(), "nothing could be delivered for .*503")
        self.assertEqual(self.delivery()["status"], "failed")
        self.verify_clean_after(self.server)
        database = sqlite3.connect(self.data / "pawl.db")
        journal = b"".join(lines for lines, in database.execute("SELECT lines FROM history"))
        database.close()
        self.assertEqual(journal.count(b'"type":"webhook.disabled"'), 1)

    def test_before_it_was_set_again_do_not_count(self):
        receiver = self.begin(lambda request: (503, {}, ""))
        self.days_later()
        self.wait_for_attempt(2)
        later = self.start_run()
        self.wait_for_attempt(1, later)
        for attempt in range(3, self.ATTEMPTS + 1):
            self.days_later()
            self.wait_for_attempt(attempt)
            self.wait_for_attempt(attempt - 1, later)
        self.wait_until(self.disabled, "that it is disabled")
        self.hook(receiver, "run.succeeded")
        self.days_later()
        self.wait_for_attempt(self.ATTEMPTS, later)
        self.assertEqual(self.delivery(later)["status"], "failed")
        self.assertIsNone(self.disabled(), "its days are before it")

    def test_with_one_answer_among_them_keep_it(self):
        self.begin(lambda request: (503 if self.failing_event(request) else 204, {}, ""))
        for attempt in range(2, self.ATTEMPTS + 1):
            self.days_later()
            self.wait_for_attempt(attempt)
            if attempt == 5:
                other = self.start_run()
                self.wait_until(lambda: any(d["run_id"] == other and d["status"] == "delivered"
                                            for d in self.deliveries()),
                                "a delivery that succeeds")
        self.wait_until(lambda: self.delivery()["status"] == "failed", "the end of its attempts")
        self.assertIsNone(self.disabled())

    def failing_event(self, request):
        first = json.loads(request["body"])["subject"]
        return not hasattr(self, "failing") or first == self.failing

    def verify_clean_after(self, server):
        server.terminate()
        server.wait(HANG_S)
        self.verify_clean()


if __name__ == "__main__":
    unittest.main()
