"""The state machine document, row by row and edge by edge, through the API and in its own words.

Every test reads with ?vocabulary=state-machine. What a run went through is read from its past, event by event, so that
a state that lasted a millisecond is seen as well as one that lasts.
"""
import itertools
import threading
import unittest

from api_case import ApiCase, retrying

WORDS = {"vocabulary": "state-machine"}
RUN_WORDS = {"PENDING", "RUNNING", "WAITING_APPROVAL", "SUCCEEDED", "FAILED", "CANCELED"}

# The document's own tables. That an approval can be refused, it does not know: such a step fails.
RUN_TABLE = {("PENDING", "RUNNING"), ("RUNNING", "WAITING_APPROVAL"), ("WAITING_APPROVAL", "RUNNING"),
             ("RUNNING", "SUCCEEDED"), ("WAITING_APPROVAL", "SUCCEEDED"), ("RUNNING", "FAILED"),
             ("WAITING_APPROVAL", "FAILED"), ("PENDING", "CANCELED"), ("RUNNING", "CANCELED"),
             ("WAITING_APPROVAL", "CANCELED")}
STEP_TABLE = {("PENDING", "RUNNING"), ("RUNNING", "SUCCEEDED"), ("RUNNING", "PENDING"), ("RUNNING", "FAILED"),
              ("PENDING", "WAITING_APPROVAL"), ("WAITING_APPROVAL", "SUCCEEDED"), ("WAITING_APPROVAL", "FAILED"),
              ("PENDING", "CANCELED"), ("RUNNING", "CANCELED"), ("WAITING_APPROVAL", "CANCELED")}

WORK = """
workflow: work
steps:
  - {id: first, tool: test.work, lease: 1h}
  - {id: second, tool: test.work, lease: 1h}
"""

WORK_GATE = """
workflow: work-gate
steps:
  - {id: first, tool: test.work}
  - {id: gate, tool: approval}
"""

GATE_WORK = """
workflow: gate-work
retry: {max_attempts: 1}
steps:
  - {id: gate, tool: approval}
  - {id: last, tool: test.work}
"""


class StateMachineCase(ApiCase):
    def seen(self, run):
        return self.get_run(run, **WORDS)

    def status(self, run):
        status = self.seen(run)["status"]
        self.assertIn(status, RUN_WORDS)
        return status

    def step_status(self, run, step):
        return self.step(run, step, **WORDS)["status"]

    def wait_for(self, run, status):
        return self.run_status(run, status, **WORDS)

    def check_legal(self, run):
        """Everything that this run went through, event by event, is a path in the document's tables."""
        views = [self.get_run(run, at=item["seq"], **WORDS) for item in self.events(run)]
        for before, after in itertools.pairwise(views):
            self.check_move(RUN_TABLE, before["status"], after["status"])
            for one, other in zip(before["steps"], after["steps"]):
                self.check_move(STEP_TABLE, one["status"], other["status"])

    def check_move(self, table, before, after):
        self.assertTrue(before == after or (before, after) in table, (before, after))


class RunTransitions(StateMachineCase):
    def test_pending_to_running_when_a_worker_claims_the_first_step(self):
        run = self.start(WORK)["id"]
        self.assertEqual(self.status(run), "PENDING")
        self.lease_one()
        self.assertEqual(self.status(run), "RUNNING")
        self.check_legal(run)

    def test_running_to_waiting_approval_when_the_gate_is_reached(self):
        run = self.start(WORK_GATE)["id"]
        lease = self.lease_one()
        self.assertEqual(self.status(run), "RUNNING")
        self.complete(lease)
        self.assertEqual(self.status(run), "WAITING_APPROVAL")
        self.check_legal(run)

    def test_waiting_approval_to_running_when_it_is_approved(self):
        run = self.start(GATE_WORK)["id"]
        self.wait_for(run, "WAITING_APPROVAL")
        approved = self.ok(self.admin.post(f"/runs/{run}/approve", **WORDS)).json
        self.assertEqual(approved["status"], "RUNNING")
        self.check_legal(run)

    def test_running_to_succeeded_when_all_steps_have(self):
        run = self.start(WORK)["id"]
        self.complete(self.lease_one())
        self.assertEqual(self.status(run), "RUNNING")
        self.complete(self.lease_one())
        self.assertEqual(self.status(run), "SUCCEEDED")
        self.check_legal(run)

    def test_waiting_approval_to_succeeded_when_the_last_gate_is_approved(self):
        run = self.start(WORK_GATE)["id"]
        self.complete(self.lease_one())
        self.wait_for(run, "WAITING_APPROVAL")
        approved = self.ok(self.admin.post(f"/runs/{run}/approve", **WORDS)).json
        self.assertEqual(approved["status"], "SUCCEEDED")
        self.check_legal(run)

    def test_running_to_failed_when_a_step_exhausts_its_retries(self):
        run = self.start(retrying(base="1ms", attempts=2))["id"]
        for _ in range(2):
            self.report("fail", self.lease_one(), retryable=True)
        self.assertEqual(self.status(run), "FAILED")
        self.check_legal(run)

    def test_running_to_failed_at_a_terminal_failure(self):
        run = self.start(WORK)["id"]
        self.report("fail", self.lease_one(), retryable=False)
        self.assertEqual(self.status(run), "FAILED")
        self.assertEqual(self.step_status(run, "second"), "CANCELED")
        self.check_legal(run)

    def test_waiting_approval_to_failed_when_what_follows_the_approval_fails(self):
        run = self.start(GATE_WORK)["id"]
        self.wait_for(run, "WAITING_APPROVAL")
        self.ok(self.admin.post(f"/runs/{run}/approve"))
        self.report("fail", self.lease_one(), retryable=True)
        self.assertEqual(self.status(run), "FAILED")
        self.check_legal(run)

    def test_waiting_approval_to_failed_when_it_is_rejected(self):
        run = self.start(GATE_WORK)["id"]
        self.wait_for(run, "WAITING_APPROVAL")
        rejected = self.ok(self.admin.post(f"/runs/{run}/reject", **WORDS)).json
        self.assertEqual((rejected["status"], rejected["steps"][0]["status"]), ("FAILED", "FAILED"))
        self.check_legal(run)

    def test_pending_to_canceled(self):
        run = self.start(WORK)["id"]
        self.assertEqual(self.ok(self.admin.post(f"/runs/{run}/cancel", **WORDS)).json["status"], "CANCELED")
        self.check_legal(run)

    def test_running_to_canceled(self):
        run = self.start(WORK)["id"]
        self.lease_one()
        self.assertEqual(self.ok(self.admin.post(f"/runs/{run}/cancel", **WORDS)).json["status"], "CANCELED")
        self.check_legal(run)

    def test_waiting_approval_to_canceled(self):
        run = self.start(GATE_WORK)["id"]
        self.wait_for(run, "WAITING_APPROVAL")
        self.assertEqual(self.ok(self.admin.post(f"/runs/{run}/cancel", **WORDS)).json["status"], "CANCELED")
        self.check_legal(run)

    def test_what_is_terminal_stays_so(self):
        succeeded, failed, canceled = (self.start(WORK_GATE)["id"] for _ in range(3))
        for run in (succeeded, failed):
            lease = self.lease_one()
            self.assertEqual(lease["run_id"], run)
            self.complete(lease)
        self.ok(self.admin.post(f"/runs/{succeeded}/approve"))
        self.ok(self.admin.post(f"/runs/{failed}/reject"))
        late = self.lease_one()
        self.ok(self.admin.post(f"/runs/{canceled}/cancel"))
        before = {run: self.seen(run) for run in (succeeded, failed, canceled)}
        self.assertEqual([view["status"] for view in before.values()], ["SUCCEEDED", "FAILED", "CANCELED"])
        for run in before:
            for verb in ("approve", "reject", "cancel"):
                self.admin.post(f"/runs/{run}/{verb}")
            self.admin.post(f"/runs/{run}/answer", {"step": "first", "answer": 1})
            self.admin.post(f"/runs/{run}/status", {"status": "running"})
        self.report("complete", late)
        self.assertEqual({run: self.seen(run) for run in before}, before)


class StepTransitions(StateMachineCase):
    def test_pending_to_running_when_a_worker_claims_it_and_attempts_grow(self):
        run = self.start(WORK)["id"]
        self.assertEqual((self.step_status(run, "first"), self.step(run, "first")["attempts"]), ("PENDING", 0))
        self.lease_one()
        self.assertEqual((self.step_status(run, "first"), self.step(run, "first")["attempts"]), ("RUNNING", 1))

    def test_running_to_succeeded_stores_output_and_cost(self):
        run = self.start(WORK)["id"]
        self.complete(self.lease_one(), output={"n": 1}, cost_usd="0.25")
        step = self.step(run, "first", **WORDS)
        self.assertEqual((step["status"], step["output"], step["cost_usd"]), ("SUCCEEDED", {"n": 1}, "0.25"))

    def test_running_to_pending_after_a_retryable_failure(self):
        run = self.start(retrying(base="1h"))["id"]
        self.report("fail", self.lease_one(), retryable=True)
        step = self.step(run, "only", **WORDS)
        self.assertEqual(step["status"], "PENDING")
        self.assertIsNotNone(step["next_eligible_at"])
        self.assertEqual(self.status(run), "RUNNING")

    def test_running_to_failed_when_attempts_are_exhausted(self):
        run = self.start(retrying(base="1ms", attempts=2))["id"]
        self.report("fail", self.lease_one(), retryable=True)
        self.report("fail", self.lease_one(), retryable=True)
        self.assertEqual(self.step_status(run, "only"), "FAILED")

    def test_pending_to_waiting_approval_when_what_is_before_the_gate_is_done(self):
        run = self.start(WORK_GATE)["id"]
        lease = self.lease_one()
        self.assertEqual(self.step_status(run, "gate"), "PENDING")
        self.complete(lease)
        self.assertEqual(self.step_status(run, "gate"), "WAITING_APPROVAL")

    def test_waiting_approval_to_succeeded_at_the_approve_endpoint(self):
        run = self.start(GATE_WORK)["id"]
        self.wait_for(run, "WAITING_APPROVAL")
        self.ok(self.admin.post(f"/runs/{run}/approve"))
        gate = self.step(run, "gate", **WORDS)
        self.assertEqual((gate["status"], gate["attempts"]), ("SUCCEEDED", 0))

    def test_pending_running_and_waiting_approval_to_canceled_with_the_run(self):
        run = self.start("""
workflow: wide
steps:
  - {id: gate, tool: approval, needs: []}
  - {id: working, tool: test.work, needs: []}
  - {id: later, tool: test.work, needs: [gate, working]}
""")["id"]
        self.lease_one()
        self.until(lambda: self.step_status(run, "gate"), lambda s: s == "WAITING_APPROVAL", "the gate is open")
        self.assertEqual([self.step_status(run, s) for s in ("gate", "working", "later")],
                         ["WAITING_APPROVAL", "RUNNING", "PENDING"])
        self.ok(self.admin.post(f"/runs/{run}/cancel"))
        self.assertEqual({s["status"] for s in self.seen(run)["steps"]}, {"CANCELED"})

    def test_running_to_running_when_a_stale_step_is_reclaimed(self):
        run = self.start(WORK.replace("lease: 1h", "lease: 50ms"))["id"]
        first = self.lease_one(worker="crashed")
        second = self.lease_one(worker="healthy")
        self.assertEqual((second["lease_id"], second["attempt"]), (first["lease_id"], 2))
        self.assertNotEqual(second["token"], first["token"])
        self.assertEqual(self.step_status(run, "first"), "RUNNING")
        self.assertIn("step.reclaimed", self.types(run))
        self.check_legal(run)


class Invariants(StateMachineCase):
    def test_an_approval_moves_only_what_waits_for_one(self):
        run = self.start(WORK_GATE)["id"]
        before = self.seen(run)
        self.refused(self.admin.post(f"/runs/{run}/approve"), 409, "NOTHING_WAITING")
        after = self.seen(run)
        self.assertEqual((after["status"], after["steps"]), (before["status"], before["steps"]))

    def test_approving_twice_advances_once(self):
        run = self.start("""
workflow: gate-gate
steps:
  - {id: one, tool: approval}
  - {id: work, tool: test.work}
  - {id: two, tool: approval}
""")["id"]
        self.wait_for(run, "WAITING_APPROVAL")
        for _ in range(2):
            self.ok(self.admin.post(f"/runs/{run}/approve"))
        self.assertEqual([s["status"] for s in self.seen(run)["steps"]], ["SUCCEEDED", "PENDING", "PENDING"])

    def test_a_worker_is_never_given_an_approval(self):
        run = self.start(GATE_WORK)["id"]
        self.wait_for(run, "WAITING_APPROVAL")
        self.assertEqual(self.lease(tools=["approval", "test.work"], wait="100ms", max=10), [])
        self.assertEqual(self.status(run), "WAITING_APPROVAL")
        stolen = {"lease_id": f"{run}:gate", "token": "0"}
        for verb in ("complete", "fail", "heartbeat"):
            for token in ("0", "1"):
                self.assertFalse(self.report(verb, {**stolen, "token": token})["ok"])
        self.assertEqual(self.step_status(run, "gate"), "WAITING_APPROVAL")

    def test_steps_stand_in_the_order_of_the_template(self):
        run = self.start(WORK)["id"]
        self.assertEqual([s["id"] for s in self.seen(run)["steps"]], ["first", "second"])

    def test_a_step_is_claimed_only_when_all_earlier_ones_succeeded(self):
        self.start(WORK)
        first = self.lease(max=10)
        self.assertEqual([lease["step_id"] for lease in first], ["first"])
        self.assertEqual(self.lease(max=10), [])
        self.complete(first[0])
        self.assertEqual([lease["step_id"] for lease in self.lease(max=10)], ["second"])


class EdgeCases(StateMachineCase):
    def test_a_crashed_worker_does_not_stall_its_run_forever(self):
        run = self.start(WORK.replace("lease: 1h", "lease: 50ms"))["id"]
        self.lease_one(worker="crashed")
        while self.status(run) != "SUCCEEDED":
            self.complete(self.lease_one(worker="healthy"))
        self.check_legal(run)

    def test_the_delay_before_a_retry_doubles_with_every_attempt(self):
        run = self.start(retrying(base="40ms", attempts=4))["id"]
        for _ in range(3):
            self.report("fail", self.lease_one(), retryable=True)
        waits = [e["event"]["next_eligible_at"] - e["event"]["at"] for e in self.events(run)
                 if e["event"]["type"] == "step.failed_retryable"]
        self.assertEqual(waits, [40 * 2**attempts for attempts in (1, 2, 3)])

    def test_no_claim_comes_before_its_time(self):
        run = self.start(retrying(base="60ms", attempts=2))["id"]
        self.report("fail", self.lease_one(), retryable=True)
        self.until(self.lease, bool, "the second attempt")
        events = [e["event"] for e in self.events(run)]
        due = next(e["next_eligible_at"] for e in events if e["type"] == "step.failed_retryable")
        claimed = [e["at"] for e in events if e["type"] == "step.claimed"][-1]
        self.assertGreaterEqual(claimed, due)

    def test_when_attempts_exceed_the_maximum_step_and_run_fail(self):
        run = self.start(retrying(base="1ms", attempts=3))["id"]
        for attempt in (1, 2, 3):
            lease = self.lease_one()
            self.assertEqual(lease["attempt"], attempt)
            self.report("fail", lease, retryable=True)
        self.assertEqual((self.status(run), self.step_status(run, "only")), ("FAILED", "FAILED"))
        self.assertEqual(self.lease(), [])
        self.check_legal(run)

    def test_the_same_request_maps_to_one_durable_run(self):
        self.publish(WORK)
        key = {"Idempotency-Key": "once"}
        first = self.ok(self.admin.post("/runs", {"workflow": "work"}, key, **WORDS), 201).json
        self.restart(kill=True)
        again = self.ok(self.admin.post("/runs", {"workflow": "work"}, key, **WORDS), 200).json
        self.assertEqual(again["id"], first["id"])

    def test_two_keys_with_the_same_idempotency_key_are_two_requests(self):
        self.publish(WORK)
        key = {"Idempotency-Key": "once"}
        mine = self.ok(self.admin.post("/runs", {"workflow": "work"}, key), 201).json
        theirs = self.ok(self.as_role("operator").post("/runs", {"workflow": "work"}, key), 201).json
        self.assertNotEqual(mine["id"], theirs["id"])

    def test_get_list_cancel_and_approve_are_the_tenants_own(self):
        run = self.start(GATE_WORK)["id"]
        self.wait_for(run, "WAITING_APPROVAL")
        stranger = self.make_tenant("elsewhere")
        for answer in (stranger.get(f"/runs/{run}", **WORDS), stranger.post(f"/runs/{run}/cancel", **WORDS),
                       stranger.post(f"/runs/{run}/approve", **WORDS)):
            self.refused(answer, 404, "NOT_FOUND")
        self.assertEqual(self.ok(stranger.get("/runs", **WORDS)).json["items"], [])
        self.assertEqual(self.status(run), "WAITING_APPROVAL")


class Crowds(StateMachineCase):
    def test_whatever_many_do_at_once_every_run_goes_a_legal_way(self):
        self.publish("""
workflow: mix
retry: {max_attempts: 2, base: 1ms, jitter: 0}
steps:
  - {id: a, tool: test.work}
  - {id: gate, tool: approval}
  - {id: b, tool: test.work}
""")
        runs = [i["id"] for i in self.ok(self.admin.post("/runs/batch",
                                                         {"items": [{"workflow": "mix"}] * 24})).json["items"]]

        def work(who):
            for turn in range(25):
                leases = who.post("/leases", {"worker": "w", "tools": ["test.work"], "max": 3,
                                              "wait": "20ms"}).json["leases"]
                for n, lease in enumerate(leases):
                    verb = "fail" if (turn + n) % 4 == 0 else "complete"
                    who.post(f"/leases/{verb}", {"items": [{"lease_id": lease["lease_id"], "token": lease["token"]}]})

        def decide(who, offset):
            for turn in range(4):
                for n, run in enumerate(runs):
                    verb = {0: "reject", 1: "cancel"}.get((n + offset + turn) % 9, "approve")
                    who.post(f"/runs/{run}/{verb}")

        threads = [threading.Thread(target=work, args=(self.client(self.admin.key),)) for _ in range(2)]
        threads += [threading.Thread(target=decide, args=(self.client(self.admin.key), n)) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for run in runs:
            self.check_legal(run)


if __name__ == "__main__":
    unittest.main()
