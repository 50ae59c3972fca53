"""Remote workers: how they get steps, keep them, report on them, and what happens when they do not."""
import hashlib
import threading
import time
import unittest

from api_case import GATED, INSTANT, REMOTE, ApiCase, retrying

# For tests that wait for the end of a lease.
BRIEF = """
workflow: brief
steps:
  - {id: only, tool: test.work, lease: 20ms}
"""
# The longest that a poll may wait. One that ends earlier was woken.
WAIT_MAX_S = 60


class LeaseCase(ApiCase):
    def batch(self, count, workflow="remote", who=None):
        items = self.ok((who or self.admin).post("/runs/batch",
                                                 {"items": [{"workflow": workflow}] * count})).json["items"]
        return [item["id"] for item in items]

    def lost(self, result):
        self.assertEqual((result["ok"], result["code"], result["cancel"]), (False, "LEASE_LOST", True))


class LongPolls(LeaseCase):
    def poll(self, wait, **more):
        """Asks on a thread of its own; gives what will hold the answer and the seconds it took."""
        result = {}
        client = self.client(self.admin.key)

        def ask():
            begin = time.monotonic()
            body = {"worker": "w1", "tools": ["test.work"], "wait": wait, **more}
            result["leases"] = client.post("/leases", body).json["leases"]
            result["seconds"] = time.monotonic() - begin

        thread = threading.Thread(target=ask)
        thread.start()
        self.addCleanup(thread.join)
        return thread, result

    def test_a_lease_says_all_that_a_worker_needs(self):
        run = self.start("""
workflow: telling
steps:
  - {id: only, tool: test.work, timeout: 90s, with: {a: "${{ input.n }}", b: "x-${{ input.n }}"}, idempotency_key: "order-${{ input.n }}"}
""", input={"n": 7})["id"]
        lease = self.lease_one()
        expires = lease.pop("expires_at")
        self.assertRegex(expires, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertRegex(lease.pop("token"), "^[0-9a-f]{32}$")
        self.assertEqual(lease, {"lease_id": f"{run}:only", "run_id": run, "step_id": "only",
                                 "tool": "test.work", "input": {"a": 7, "b": "x-7"}, "attempt": 1,
                                 "idempotency_key": "order-7", "lease": "30s", "timeout": "1m30s"})
        step = self.step(run, "only")
        self.assertEqual((step["status"], step["lease_owner"]), ("running", "w1"))

    def woken(self, thread, result):
        """What a poll brought that did not wait to its end."""
        thread.join()
        self.assertLess(result["seconds"], WAIT_MAX_S)
        return result["leases"]

    def test_without_a_wait_a_poll_ends_before_one_that_waits(self):
        thread, _ = self.poll("60s")
        self.until_metric("pawl_polls_waiting", 1)
        self.assertEqual(self.lease(), [])
        self.assertTrue(thread.is_alive())
        self.server.stop()

    def test_a_poll_waits_and_ends_empty(self):
        begin = time.monotonic()
        self.assertEqual(self.lease(wait="300ms"), [])
        self.assertGreaterEqual(time.monotonic() - begin, 0.3)

    def test_a_poll_wakes_when_a_step_becomes_ready(self):
        self.publish(REMOTE)
        poll = self.poll("60s")
        self.until_metric("pawl_polls_waiting", 1)
        run = self.create("remote")["id"]
        self.assertEqual([lease["run_id"] for lease in self.woken(*poll)], [run])

    def test_a_poll_wakes_when_a_gate_is_approved(self):
        run = self.start("workflow: g\nsteps:\n  - {id: gate, tool: approval}\n  - {id: work, tool: test.work}\n")["id"]
        self.run_status(run, "waiting")
        poll = self.poll("60s")
        self.until_metric("pawl_polls_waiting", 1)
        self.ok(self.admin.post(f"/runs/{run}/approve"))
        self.assertEqual([lease["step_id"] for lease in self.woken(*poll)], ["work"])

    def test_a_poll_wakes_when_a_retry_falls_due(self):
        run = self.start(retrying(base="100ms"))["id"]
        self.report("fail", self.lease_one(), retryable=True)
        (lease,) = self.woken(*self.poll("60s"))
        self.assertEqual(lease["attempt"], 2)
        events = [item["event"] for item in self.events(run)]
        due = next(event["next_eligible_at"] for event in events if event["type"] == "step.failed_retryable")
        self.assertGreaterEqual(events[-1]["at"], due)

    def test_a_poll_wakes_when_a_lease_is_lost(self):
        self.start(BRIEF)
        self.lease_one(worker="dead")
        self.assertEqual(self.lease_one(worker="alive")["attempt"], 2)

    def test_of_many_polls_each_step_goes_to_one(self):
        self.publish(REMOTE)
        polls = [self.poll("60s", worker=f"w{n}") for n in range(10)]
        runs = self.batch(10)
        taken = [lease["run_id"] for poll in polls for lease in self.woken(*poll)]
        self.assertEqual(sorted(taken), sorted(runs))

    def test_polls_end_when_the_server_stops(self):
        poll = self.poll("60s")
        self.until_metric("pawl_polls_waiting", 1)
        self.assertEqual(self.server.stop(), 0)
        self.assertEqual(self.woken(*poll), [])

    def test_a_worker_gets_only_what_its_tools_can_do(self):
        self.publish(REMOTE)
        run = self.create("remote")["id"]
        self.assertEqual(self.lease(tools=["other.work"]), [])
        self.assertEqual(self.lease(tools=["other.work", "test.work"])[0]["run_id"], run)

    def test_no_more_come_than_were_asked_for_and_the_oldest_first(self):
        self.publish(REMOTE)
        runs = self.batch(12)
        self.assertEqual([lease["run_id"] for lease in self.lease(max=5)], runs[:5])
        self.assertEqual([lease["run_id"] for lease in self.lease(max=1000)], runs[5:])

    def test_a_poll_that_makes_no_sense_is_refused(self):
        for body in ({}, {"worker": "w"}, {"tools": ["a"]}, {"worker": "w", "tools": []}, {"worker": "w", "tools": "a"},
                     {"worker": "w", "tools": [1]}, {"worker": "w", "tools": ["a b"]}, {"worker": "", "tools": ["a"]},
                     {"worker": "local/1", "tools": ["a"]}, {"worker": "w", "tools": ["a"] * 201},
                     {"worker": "w", "tools": ["a"], "max": 0}, {"worker": "w", "tools": ["a"], "max": 1001},
                     {"worker": "w", "tools": ["a"], "max": 1.5}, {"worker": "w", "tools": ["a"], "wait": "61s"},
                     {"worker": "w", "tools": ["a"], "wait": 5}, {"worker": "w", "tools": ["a"], "tool": "b"}):
            with self.subTest(body=body):
                self.refused(self.admin.post("/leases", body), 400, "INVALID_REQUEST")

    def test_a_poll_whose_worker_went_away_takes_nothing(self):
        self.publish(REMOTE)
        gone = self.server.connect()
        body = b'{"worker":"gone","tools":["test.work"],"wait":"60s"}'
        gone.sendall(b"POST /leases HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + self.admin.key.encode() +
                     b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        self.until_metric("pawl_polls_waiting", 1)
        gone.close()
        begun = time.monotonic()
        self.until_metric("pawl_polls_waiting", 0)
        self.assertLess(time.monotonic() - begun, 50)  # not by the end of its wait
        run = self.create("remote")["id"]
        self.assertEqual(self.lease_one()["run_id"], run)


class Reports(LeaseCase):
    def test_a_completed_step_keeps_its_output_and_its_cost(self):
        run = self.start(REMOTE)["id"]
        self.complete(self.lease_one(), output={"b": [1, "ü"], "a": None}, cost_usd="0.000001")
        done = self.get_run(run)
        self.assertEqual((done["status"], done["cost_usd"]), ("success", "0.000001"))
        self.assertEqual(done["steps"][0]["output"], {"a": None, "b": [1, "ü"]})

    def test_each_item_of_a_batch_has_its_own_result(self):
        self.publish(REMOTE)
        self.batch(4)
        leases = self.lease(max=4)
        items = [{"lease_id": lease["lease_id"], "token": lease["token"], "output": n} for n,
                 lease in enumerate(leases)]
        items[1]["token"] = items[0]["token"]
        items[2]["lease_id"] = "garbage"
        results = self.ok(self.admin.post("/leases/complete", {"items": items})).json["items"]
        self.assertEqual([r["lease_id"] for r in results], [i["lease_id"] for i in items])
        self.assertEqual([r["ok"] for r in results], [True, False, False, True])
        self.assertEqual([r.get("code") for r in results], [None, "LEASE_LOST", "LEASE_LOST", None])
        statuses = [self.get_run(lease["run_id"])["status"] for lease in leases]
        self.assertEqual(statuses, ["success", "running", "running", "success"])

    def test_a_large_batch_is_reported_in_one_request(self):
        self.publish(REMOTE)
        runs = self.batch(1000)
        leases = self.lease_count(1000)
        items = [{"lease_id": lease["lease_id"], "token": lease["token"]} for lease in leases]
        results = self.ok(self.admin.post("/leases/complete", {"items": items})).json["items"]
        self.assertEqual({r["ok"] for r in results}, {True})
        self.assertEqual({self.get_run(run)["status"] for run in runs[::100]}, {"success"})

    def test_the_same_lease_twice_in_a_batch_counts_once(self):
        run = self.start(REMOTE)["id"]
        lease = self.lease_one()
        item = {"lease_id": lease["lease_id"], "token": lease["token"]}
        results = self.ok(self.admin.post("/leases/complete",
                                          {"items": [{**item, "output": 1}, {**item, "output": 2}]})).json["items"]
        self.assertEqual([r["ok"] for r in results], [True, False])
        self.assertEqual(self.step(run, "only")["output"], 1)

    MALFORMED = [(7, ""), (None, ""), ([], ""), ({}, "/lease_id"), ({"lease_id": 7, "token": "x"}, "/lease_id"),
                 ({"lease_id": "x" * 257, "token": "x"}, "/lease_id"), ({"lease_id": "x"}, "/token"),
                 ({"lease_id": "x", "token": 1}, "/token"), ({"lease_id": "x", "token": None}, "/token"),
                 ({"lease_id": "x", "token": ["x"]}, "/token"), ({"lease_id": "x", "token": "x" * 129}, "/token"),
                 ({"lease_id": "x", "token": "x", "spelling": 1}, "/spelling")]

    def test_a_malformed_item_has_its_own_result_and_the_others_are_carried_out(self):
        self.publish(REMOTE)
        for verb, more, status in (("heartbeat", {}, "running"), ("complete", {"output": 1}, "success"),
                                   ("fail", {"retryable": False}, "failed")):
            run = self.create("remote")["id"]
            lease = self.lease_one()
            good = {"lease_id": lease["lease_id"], "token": lease["token"], **more}
            bad = [*self.MALFORMED, *([({**good, "cost_usd": 5}, "/cost_usd")] if verb != "heartbeat" else [])]
            answer = self.ok(self.admin.post(f"/leases/{verb}", {"items": [item for item, _ in bad] + [good]})).json
            *results, last = answer["items"]
            self.assertEqual((last["lease_id"], last["ok"]), (lease["lease_id"], True))
            for n, ((item, where), result) in enumerate(zip(bad, results)):
                with self.subTest(verb=verb, item=str(item)[:60]):
                    self.assertEqual((result["ok"], result["code"], result["where"]),
                                     (False, "INVALID_REQUEST", f"/items/{n}{where}"))
                    self.assertTrue(result["detail"])
                    self.assertNotIn("cancel", result)
                    said = item.get("lease_id") if isinstance(item, dict) else None
                    self.assertEqual(result["lease_id"], said if isinstance(said, str) and len(said) < 257 else "")
            self.assertEqual(self.get_run(run)["status"], status)
            if verb == "heartbeat":
                self.complete(lease)

    def test_an_output_that_is_too_large_is_refused_and_the_lease_stays(self):
        self.start(REMOTE)
        lease = self.lease_one()
        result = self.report("complete", lease, output="x" * (1 << 20))
        self.assertEqual((result["ok"], result["code"], result["where"]),
                         (False, "OUTPUT_TOO_LARGE", "/items/0/output"))
        self.assertNotIn("cancel", result)
        self.complete(lease, output="x" * ((1 << 20) - 2))

    def test_a_retryable_failure_is_tried_again_and_a_terminal_one_is_not(self):
        self.publish(retrying(base="1ms"))
        again, never = self.batch(2, "retrying")
        leases = {lease["run_id"]: lease for lease in self.lease(max=2)}
        self.report("fail", leases[again], error_code="MINE", message="oops", retryable=True)
        self.report("fail", leases[never], error_code="MINE", message="oops", retryable=False)
        self.assertEqual(self.lease_one()["run_id"], again)
        failed = self.get_run(never)
        self.assertEqual((failed["status"], failed["error_code"], failed["retryable"]), ("failed", "MINE", False))
        self.assertEqual(failed["diagnostic"]["cause"]["step_id"], "only")
        last = self.step(again, "only")["last_error"]
        self.assertEqual((last["error_code"], last["message"], last["retryable"], last["attempt"]),
                         ("MINE", "oops", True, 1))

    def test_a_known_code_says_by_itself_whether_it_can_be_tried_again(self):
        self.publish(retrying(base="1h"))
        for code, status in (("TOOL_RATE_LIMITED", "running"), ("TOOL_DEPENDENCY_DOWN", "running"),
                             ("TOOL_INVALID_ARGUMENTS", "failed"), ("TOOL_DENIED", "denied"), ("MY_OWN", "failed")):
            with self.subTest(code=code):
                run = self.create("retrying")["id"]
                self.report("fail", self.lease_one(), error_code=code)
                self.assertEqual(self.get_run(run)["status"], status)

    def test_retry_after_puts_the_retry_off_but_never_forward(self):
        self.publish(retrying(base="1s"))
        for wait, least in (("1h", 3_600_000), ("1ms", 2_000)):
            run = self.create("retrying")["id"]
            self.report("fail", self.lease_one(), retryable=True, retry_after=wait)
            event = self.events(run)[-1]["event"]
            self.assertEqual(event["next_eligible_at"] - event["at"], least)

    def test_a_retry_is_never_put_off_past_the_runs_deadline(self):
        self.publish(retrying(base="1h"))

        def attempt(span):
            run = self.create("retrying", timeout=span)["id"]
            is_taken = self.report("fail", self.lease_one(), error_code="MINE", retryable=True)["ok"]
            ended = self.run_status(run, "timeout")
            self.assertEqual(ended["error_code"], "RUN_TIMEOUT")
            return ended if is_taken else None

        self.assertEqual(self.growing(attempt)["diagnostic"]["cause"]["error_code"], "MINE")

    def test_costs_of_all_attempts_add_up(self):
        run = self.start(retrying(base="1ms"))["id"]
        self.report("fail", self.lease_one(), retryable=True, cost_usd="0.10")
        self.complete(self.lease_one(), cost_usd="0.25")
        done = self.get_run(run)
        self.assertEqual((done["cost_usd"], done["steps"][0]["cost_usd"]), ("0.35", "0.35"))

    def test_a_run_over_its_budget_fails(self):
        self.publish(REMOTE)
        within = self.create("remote", budget_usd="1.00")["id"]
        self.complete(self.lease_one(), cost_usd="1.00")
        over = self.create("remote", budget_usd="1.00")["id"]
        self.complete(self.lease_one(), cost_usd="1.000001")
        self.assertEqual(self.get_run(within)["status"], "success")
        failed = self.get_run(over)
        self.assertEqual((failed["status"], failed["error_code"], failed["retryable"]),
                         ("failed", "BUDGET_EXCEEDED", False))
        self.assertEqual(failed["cost_usd"], "1.000001")

    def test_a_failure_that_spends_the_budget_is_not_tried_again(self):
        self.publish(retrying(base="1ms"))
        run = self.create("retrying", budget_usd="0.01")["id"]
        self.report("fail", self.lease_one(), error_code="MINE", retryable=True, cost_usd="0.02")
        failed = self.get_run(run)
        self.assertEqual((failed["status"], failed["error_code"]), ("failed", "BUDGET_EXCEEDED"))


class Fencing(LeaseCase):
    def first_event(self, run, type):
        return next(item["event"] for item in self.events(run) if item["event"]["type"] == type)

    def unchanged(self, run, verb, lease, **more):
        before = self.events(run)
        self.lost(self.report(verb, lease, **more))
        self.assertEqual(self.events(run), before)

    def test_a_stale_token_changes_nothing(self):
        run = self.start(BRIEF)["id"]
        stale = self.lease_one(worker="slow")
        fresh = self.lease_one(worker="fast")
        self.assertNotEqual(fresh["token"], stale["token"])
        self.unchanged(run, "complete", stale, output="stale")
        self.unchanged(run, "fail", stale, retryable=False)
        self.unchanged(run, "heartbeat", stale)

    def test_a_token_that_was_guessed_changes_nothing(self):
        run = self.start(REMOTE)["id"]
        lease = self.lease_one()
        digest = self.first_event(run, "step.claimed")["token_sha256"]
        self.assertEqual(digest, hashlib.sha256(lease["token"].encode()).hexdigest())
        for token in ("0", "1", "2", digest, lease["token"][:-1], lease["token"].upper() + " "):
            for verb in ("complete", "fail", "release", "heartbeat"):
                self.unchanged(run, verb, {**lease, "token": token})
        self.complete(lease)

    def test_a_token_is_good_for_the_key_that_took_the_lease_only(self):
        run = self.start(REMOTE)["id"]
        lease = self.lease_one()
        for thief in (self.client(self.make_key("worker")), self.client(self.make_key("admin"))):
            before = self.events(run)
            stale = self.report("complete", {**lease, "token": "stale"})
            for verb in ("complete", "fail", "release", "heartbeat"):
                self.assertEqual(self.report(verb, lease, thief), stale, "a foreign token is answered like a stale one")
            for path, body in ((f"/leases/{lease['lease_id']}/ask", {"question": "?"}),
                               (f"/leases/{lease['lease_id']}/actions",
                                {"connector": "c", "operation": "o", "target": "t"}),
                               (f"/leases/{lease['lease_id']}/actions/rcp_01m7hm5kk9e00atssh0jsk99j4/outcome",
                                {"succeeded": True})):
                self.refused(thief.post(path, {"token": lease["token"], **body}), 409, "LEASE_LOST")
            self.assertEqual(self.events(run), before)
        self.complete(lease)

    def test_the_token_is_kept_nowhere(self):
        self.start(REMOTE)
        lease = self.lease_one()
        self.ok(self.admin.get("/runs"))  # everything is written by now
        for file in self.data.rglob("*"):
            if file.is_file():
                self.assertNotIn(lease["token"].encode(), file.read_bytes(), file)
        self.complete(lease)

    def test_events_name_the_key_that_reported(self):
        run = self.start(retrying(base="1ms", attempts=2))["id"]
        self.report("fail", self.lease_one(), retryable=True)
        self.report("release", self.lease_one())
        self.complete(self.lease_one())
        me = self.first_event(run, "run.created")["by"]
        for type in ("step.claimed", "step.failed_retryable", "step.released", "step.completed"):
            self.assertEqual(self.first_event(run, type).get("by"), me, type)

    def test_a_lease_that_was_reported_is_over(self):
        run = self.start(REMOTE)["id"]
        lease = self.lease_one()
        self.complete(lease, output=1)
        for verb in ("complete", "fail", "heartbeat"):
            self.unchanged(run, verb, lease)
        self.assertEqual(self.step(run, "only")["output"], 1)

    def test_every_claim_has_a_token_of_its_own(self):
        self.start(retrying(base="1ms", attempts=4))
        tokens = []
        for _ in range(4):
            lease = self.lease_one()
            tokens.append(lease["token"])
            self.report("fail", lease, retryable=True)
        self.assertEqual(len(tokens), len(set(tokens)))

    def test_one_of_two_reports_at_once_is_taken(self):
        self.publish(REMOTE)
        clients = [self.client(self.admin.key) for _ in range(4)]
        for _ in range(20):
            run = self.create("remote")["id"]
            lease = self.lease_one()
            results = []

            def say(client, verb):
                item = {"lease_id": lease["lease_id"], "token": lease["token"]}
                results.append((verb, client.post(f"/leases/{verb}", {"items": [item]}).json["items"][0]["ok"]))

            threads = [threading.Thread(target=say, args=(c, v)) for c, v in zip(clients, ("complete", "fail") * 2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            taken = [verb for verb, ok in results if ok]
            self.assertEqual(len(taken), 1, results)
            self.assertEqual(self.get_run(run)["status"], "success" if taken == ["complete"] else "running")
            if taken == ["fail"]:
                self.ok(self.admin.post(f"/runs/{run}/cancel"))


class Heartbeats(LeaseCase):
    def test_heartbeats_keep_a_lease_well_past_its_length(self):
        def attempt(span):
            run = self.start(BRIEF.replace("20ms", span))["id"]
            begin = last = time.monotonic()
            lease = self.lease_one()
            length = int(span.removesuffix("ms")) / 1000
            while time.monotonic() < begin + 2.5 * length:
                result = self.report("heartbeat", lease)
                if time.monotonic() - last >= length:  # too long after the one before
                    self.ok(self.admin.post(f"/runs/{run}/cancel"))
                    return None
                last = time.monotonic()
                self.assertEqual((result["lease_id"], result["ok"]), (lease["lease_id"], True))
                self.assertEqual(self.lease(worker="other"), [])
            self.complete(lease)
            return self.step(run, "only")["attempts"]

        self.assertEqual(self.growing(attempt, 400), 1)

    def test_a_lease_without_heartbeats_is_taken_by_another_worker(self):
        run = self.start(BRIEF.replace("20ms", "200ms"))["id"]
        begin = time.monotonic()
        first = self.lease_one(worker="silent")
        second = self.lease_one(worker="other")
        self.assertGreaterEqual(time.monotonic() - begin, 0.19)
        claims = [item["event"] for item in self.events(run) if item["event"].get("worker")]
        self.assertEqual((second["attempt"], [claim["worker"] for claim in claims]), (2, ["silent", "other"]))
        self.lost(self.report("heartbeat", first))
        self.complete(second)

    def test_a_lost_lease_that_nobody_took_can_still_be_reported_but_not_extended(self):
        self.start(BRIEF)
        lease = self.lease_one()
        self.wait_past(lease["expires_at"])
        self.lost(self.report("heartbeat", lease))
        self.complete(lease)

    def test_a_worker_that_never_reports_uses_up_the_attempts(self):
        run = self.start(BRIEF.replace("steps:", "retry: {max_attempts: 2}\nsteps:"))["id"]
        for attempt in (1, 2):
            self.assertEqual(self.lease_one()["attempt"], attempt)
        failed = self.run_status(run, "failed")
        self.assertEqual(failed["error_code"], "LEASE_EXPIRED")

    def test_a_heartbeat_does_not_keep_a_step_past_its_own_timeout(self):
        run = self.start(REMOTE.replace("lease: 1h", "lease: 1h, timeout: 300ms, retry: {max_attempts: 1}"))["id"]
        lease = self.lease_one()
        self.until(lambda: self.report("heartbeat", lease), lambda r: not r["ok"], "the step has timed out")
        self.assertEqual(self.run_status(run, "failed")["error_code"], "TOOL_TIMEOUT")

    def test_the_heartbeats_answer_says_that_the_run_was_canceled(self):
        run = self.start(REMOTE)["id"]
        lease = self.lease_one()
        self.assertNotIn("cancel", self.report("heartbeat", lease))
        self.ok(self.admin.post(f"/runs/{run}/cancel"))
        self.lost(self.report("heartbeat", lease))

    def test_a_batch_of_heartbeats_has_a_result_for_each(self):
        self.publish(REMOTE)
        runs = self.batch(3)
        leases = self.lease(max=3)
        self.ok(self.admin.post(f"/runs/{runs[1]}/cancel"))
        items = [{"lease_id": lease["lease_id"], "token": lease["token"]} for lease in leases]
        results = self.ok(self.admin.post("/leases/heartbeat", {"items": items})).json["items"]
        self.assertEqual([r["ok"] for r in results], [True, False, True])


class Restarts(LeaseCase):
    def test_leases_that_were_out_when_the_server_was_killed_can_be_reported(self):
        self.publish(REMOTE)
        runs = self.batch(3)
        leases = self.lease(max=3)
        self.restart(kill=True)
        self.assertEqual(self.lease(max=3), [])
        self.assertTrue(self.report("heartbeat", leases[0])["ok"])
        self.complete(leases[0], output="kept")
        self.report("fail", leases[1], retryable=False)
        self.restart(kill=True)
        self.complete(leases[2])
        self.assertEqual([self.get_run(run)["status"] for run in runs], ["success", "failed", "success"])
        self.assertEqual(self.step(runs[0], "only")["output"], "kept")

    def test_a_short_lease_gets_its_whole_time_again_after_a_restart(self):
        def attempt(span):
            run = self.start(BRIEF.replace("20ms", span))["id"]
            begin = time.monotonic()
            lease = self.lease_one()
            self.server.kill()
            if not self.server.store:  # where servers share a store, another one would have seen the lease expire
                self.wait_past(lease["expires_at"])
                begin = time.monotonic()
            self.start_server()
            result = self.report("heartbeat", lease)
            if time.monotonic() - begin >= int(span.removesuffix("ms")) / 1000:  # it may be over again
                self.ok(self.admin.post(f"/runs/{run}/cancel"))
                return None
            self.assertTrue(result["ok"], result)
            self.complete(lease)
            return True

        self.growing(attempt, 500)

    def test_a_lease_whose_worker_died_with_the_server_is_lost_in_time(self):
        self.start(BRIEF.replace("20ms", "200ms"))
        self.lease_one(worker="dead")
        self.restart(kill=True)
        self.assertEqual(self.lease_one(worker="alive")["attempt"], 2)

    def test_no_answered_report_is_lost_by_a_kill_under_load(self):
        self.publish(REMOTE)
        runs = self.batch(1500)
        reported = {}

        def work(client, name):
            try:
                while True:  # until the server is killed
                    body = {"worker": name, "tools": ["test.work"], "max": 20, "wait": "60s"}
                    leases = client.post("/leases", body).json["leases"]
                    items = [{"lease_id": lease["lease_id"], "token": lease["token"], "output": name}
                             for lease in leases]
                    results = client.post("/leases/complete", {"items": items}).json["items"]
                    reported.update({r["lease_id"].split(":")[0]: name for r in results if r["ok"]})
            except OSError:
                pass

        workers = [threading.Thread(target=work, args=(self.client(self.admin.key), f"w{n}")) for n in range(3)]
        for worker in workers:
            worker.start()
        self.until(lambda: len(reported), lambda n: n > 300, "some are reported")
        self.server.kill()
        for worker in workers:
            worker.join()
        self.start_server()
        for run, name in list(reported.items())[::7]:
            self.assertEqual(self.step(run, "only")["output"], name)
        done = {i["id"] for i in self.all_runs(status="success")}
        self.assertLessEqual(set(reported), done)
        self.assertLessEqual(done, set(runs))

    def all_runs(self, **query):
        items, cursor = [], {}
        while True:
            page = self.ok(self.admin.get("/runs", limit=500, **query, **cursor)).json
            items += page["items"]
            if not page["next_cursor"]:
                return items
            cursor = {"cursor": page["next_cursor"]}


class WhoseSteps(LeaseCase):
    def test_a_worker_only_gets_its_own_tenants_steps(self):
        stranger = self.make_tenant("elsewhere")
        self.publish(REMOTE)
        self.publish(REMOTE, stranger)
        mine, theirs = set(self.batch(3)), set(self.batch(3, who=stranger))
        worker, their_worker = self.as_role("worker"), self.as_role("worker", "elsewhere")
        self.assertEqual({lease["run_id"] for lease in self.lease(worker, max=100)}, mine)
        self.assertEqual({lease["run_id"] for lease in self.lease(their_worker, max=100)}, theirs)

    def test_a_waiting_poll_is_not_woken_by_another_tenants_step(self):
        stranger = self.make_tenant("elsewhere")
        self.publish(REMOTE)
        self.publish(REMOTE, stranger)
        result = {}
        client = self.client(self.admin.key)
        thread = threading.Thread(target=lambda: result.update(leases=self.lease(client, wait="60s", max=10)))
        thread.start()
        self.until_metric("pawl_polls_waiting", 1)
        theirs = self.create("remote", stranger)["id"]
        mine = self.create("remote")["id"]
        thread.join()
        self.assertEqual([lease["run_id"] for lease in result["leases"]], [mine])
        self.assertEqual(self.get_run(theirs, stranger)["status"], "created")

    def test_a_gate_is_no_work(self):
        run = self.start(GATED)["id"]
        self.run_status(run, "waiting")
        self.assertEqual(self.lease(tools=["approval"], wait="100ms"), [])


class BusyServer(LeaseCase):
    flags = ("--worker-slots", "1")

    def test_what_the_server_executes_itself_is_left_to_nobody_while_it_is_busy(self):
        self.start("workflow: busy\nsteps:\n- {id: a, tool: shell, with: {argv: [sleep, '1000'], sandbox: 'off'}}\n")
        self.until_metric("pawl_leases_open", 1)
        run = self.start(INSTANT)["id"]
        self.start(REMOTE)
        leases = self.lease(tools=["noop", "shell", "http.request", "test.work"], max=10, wait="10s")
        self.assertEqual([lease["tool"] for lease in leases], ["test.work"])
        self.assertEqual(self.lease(tools=["noop"]), [])
        self.assertEqual(self.step(run, "only")["status"], "ready")


class WithoutWorkers(LeaseCase):
    flags = ("--no-workers",)

    def test_a_server_without_workers_leaves_the_built_in_tools_to_others(self):
        run = self.start(INSTANT)["id"]
        lease = self.lease_one(tools=["noop"])
        self.assertEqual(lease["input"], {"output": {"n": 1}})
        self.complete(lease)
        self.assertEqual(self.get_run(run)["status"], "success")


if __name__ == "__main__":
    unittest.main()
