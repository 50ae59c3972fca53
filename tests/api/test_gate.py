"""The gate for remote workers: what they may do outside, what people say to it, what is undone."""
import http.server
import sys
import threading
import unittest

from api_case import REMOTE, ApiCase

RESERVE = {"connector": "warehouse", "operation": "reserve", "target": "shelf/17", "fields": {"boxes": 2}}
UNDO = {"connector": "warehouse", "operation": "release", "target": "shelf/17", "fields": {"reservation": "R-${{ 9 }}"}}
TWO = """
workflow: two
steps:
  - {id: first, tool: test.work}
  - {id: second, tool: test.work}
"""


# SPAN is how long a lease lasts.
BRIEF = "workflow: brief\nsteps: [{id: a, tool: test.work, lease: SPAN}]"


class GateCase(ApiCase):
    def try_to_propose(self, lease, **more):
        return self.admin.post(f"/leases/{lease['lease_id']}/actions", {"token": lease["token"], **RESERVE, **more})

    def propose(self, lease, status=200, **more):
        return self.ok(self.try_to_propose(lease, **more), status).json

    def canceled_as_too_late(self, lease):
        """For `growing`: a lease that was lost has run out."""
        self.assertTrue(self.is_past(lease["expires_at"]), lease)
        self.ok(self.admin.post(f"/runs/{lease['run_id']}/cancel"))

    def outcome(self, lease, receipt, status=200, **more):
        body = {"token": lease["token"], "succeeded": True, **more}
        return self.ok(self.admin.post(f"/leases/{lease['lease_id']}/actions/{receipt}/outcome", body), status).json

    def effect(self, lease, undo=None, **more):
        """Has an effect and completes the step; gives the receipt's id."""
        decision = self.propose(lease, **more)
        self.assertEqual(decision["decision"], "allow", decision)
        self.outcome(lease, decision["receipt_id"], **({"undo": undo} if undo else {}))
        self.complete(lease)
        return decision["receipt_id"]

    def receipt(self, receipt):
        return self.ok(self.admin.get(f"/receipts/{receipt}")).json


class Proposing(GateCase):
    def test_a_step_completes_only_when_its_outcome_is_recorded(self):
        self.start(REMOTE)
        lease = self.lease_one()
        receipt = self.propose(lease)["receipt_id"]
        result = self.report("complete", lease)
        self.assertEqual((result["ok"], result["code"]), (False, "OUTCOME_MISSING"))
        self.outcome(lease, receipt)
        self.complete(lease)
        self.assertEqual(self.receipt(receipt)["status"], "succeeded")

    def test_a_denied_action_ends_the_run_and_the_lease(self):
        self.ok(self.admin.request("PUT", "/policy", "policy: p\nrules: [{id: no, effect: deny, reason: never}]"), 201)
        run = self.start(REMOTE)["id"]
        lease = self.lease_one()
        decision = self.propose(lease)
        self.assertEqual((decision["decision"], decision["rule"], decision["reason"]), ("deny", "no", "never"))
        self.run_status(run, "denied")
        self.refused(self.admin.post(f"/leases/{lease['lease_id']}/actions", {"token": lease["token"], **RESERVE}), 409,
                     "LEASE_LOST")

    def test_a_lease_that_has_run_out_allows_nothing_though_nobody_else_has_the_step(self):
        def attempt(span):
            run = self.start(BRIEF.replace("SPAN", span))["id"]
            late = self.lease_one()
            self.wait_past(late["expires_at"])
            self.refused(self.try_to_propose(late), 409, "LEASE_LOST")
            self.assertEqual(self.get_run(run)["receipts"], [])
            again = self.lease_one()
            self.assertNotEqual(again["token"], late["token"])
            proposed = self.try_to_propose(again)
            if proposed.status == 409:
                return self.canceled_as_too_late(again)
            self.outcome(again, self.ok(proposed).json["receipt_id"])
            self.complete(again)
            return self.run_status(run, "success")

        self.growing(attempt)

    def test_a_key_that_begins_with_another_runs_id_is_not_for_this_one(self):
        first, second = self.start(TWO)["id"], self.start(TWO)["id"]
        leases = {lease["run_id"]: lease for lease in (self.lease_one(), self.lease_one())}
        key = leases[first]["idempotency_key"]
        self.assertTrue(key.startswith(first + ":"))
        body = {"token": leases[second]["token"], **RESERVE, "idempotency_key": key}
        self.refused(self.admin.post(f"/leases/{leases[second]['lease_id']}/actions", body), 422,
                     "IDEMPOTENCY_KEY_REUSED")
        self.assertEqual(self.propose(leases[first])["decision"], "allow")

    def test_what_is_called_again_is_told_what_was_there_before_the_first_call(self):
        def attempt(span):
            self.start(BRIEF.replace("SPAN", span))
            answers = []
            for boxes in (9, 2):
                lease = self.lease_one()
                answers.append(self.try_to_propose(lease, idempotent=True, before={"boxes": boxes}))
                if answers[-1].status == 409:
                    return self.canceled_as_too_late(lease)
            return [self.ok(answer).json for answer in answers]

        first, again = self.growing(attempt)
        self.assertNotIn("before", first)
        self.assertEqual((again["receipt_id"], again["before"]), (first["receipt_id"], {"boxes": 9}))

    def test_an_approved_action_is_allowed_once_exactly_as_it_was_approved(self):
        run = self.start(REMOTE)["id"]
        asked = self.propose(self.lease_one(), risk="med")
        self.assertEqual(asked["decision"], "needs_approval")
        approval = self.get_run(run)["approvals"][0]
        self.assertEqual((approval["id"], approval["action"]["fields"]), (asked["approval_id"], RESERVE["fields"]))
        self.ok(self.admin.post(f"/approvals/{approval['id']}/approve"))
        lease = self.lease_one()
        self.effect(lease, risk="med")
        self.run_status(run, "success")

    def test_what_was_changed_after_the_approval_is_denied(self):
        run = self.start(REMOTE)["id"]
        self.ok(self.admin.post(f"/approvals/{self.propose(self.lease_one(), risk='med')['approval_id']}/approve"))
        changed = self.propose(self.lease_one(), risk="med", fields={"boxes": 3})
        self.assertEqual((changed["decision"], changed["rule"]), ("deny", "approved_digest"))
        self.assertEqual(self.get_run(run)["error_code"], "ACTION_CHANGED")

    def test_a_target_that_is_a_url_has_one_spelling(self):
        self.ok(self.admin.request("PUT", "/policy", "policy: p\nrules:\n- {id: public, effect: allow, "
                                   "when: \"target LIKE 'https://host/public/%'\"}"), 201)
        self.start(REMOTE)
        lease = self.lease_one()
        for target, hint in (("https://host/public/../admin", "write it as https://host/admin"),
                             ("https://host/public/%2e%2e/admin", "write it as https://host/admin"),
                             ("HTTPS://Host:443/public/x", "write it as https://host/public/x"),
                             ("https://host/public/..%2fadmin", "hidden by its encoding"),
                             ("https://me@host/public/x", "must not have a user name"),
                             ("https://host/public/x y", "write it as https://host/public/x%20y")):
            for connector in ("http", "test"):
                refused = self.try_to_propose(lease, connector=connector, target=target)
                self.assertIn(hint, self.refused(refused, 400, "INVALID_REQUEST").json["detail"])
        self.refused(self.try_to_propose(lease, connector="http", target="https://host/public/x#y"), 400,
                     "INVALID_REQUEST")
        self.assertEqual(self.propose(lease, connector="test", target="https://host/public/x#7")["decision"], "allow")

    def test_the_risk_is_at_least_the_steps_own(self):
        self.start("workflow: risky\nsteps: [{id: only, tool: test.work, risk: med}]")
        self.assertEqual(self.propose(self.lease_one(), risk="low")["decision"], "needs_approval")

    def test_a_question_comes_back_with_its_answer(self):
        run = self.start(REMOTE)["id"]
        lease = self.lease_one()
        self.ok(self.admin.post(f"/leases/{lease['lease_id']}/ask",
                                {"token": lease["token"], "question": {"text": "which?"}}))
        self.run_status(run, "waiting")
        self.ok(self.admin.post(f"/runs/{run}/answer", {"step": lease["step_id"], "answer": "this one"}))
        again = self.lease_one()
        self.assertEqual((again["question"], again["answer"], again["attempt"]), ({"text": "which?"}, "this one", 1))

    def test_another_tenant_sees_nothing_of_it(self):
        self.start(REMOTE)
        lease = self.lease_one()
        receipt = self.effect(lease)
        stranger = self.make_tenant("stranger")
        for method, path in (("GET", f"/receipts/{receipt}"), ("POST", f"/receipts/{receipt}/reverse"),
                             ("POST", f"/runs/{lease['run_id']}/undo")):
            self.refused(stranger.request(method, path), 404, "NOT_FOUND")
        self.refused(stranger.post(f"/receipts/{receipt}/settle", {"happened": True}), 404, "NOT_FOUND")
        self.assertEqual(self.ok(stranger.get("/receipts")).json["items"], [])


class Undoing(GateCase):
    def test_a_run_is_undone_backwards_and_its_receipts_say_so(self):
        run = self.start(TWO)["id"]
        first = self.effect(self.lease_one(), undo=UNDO)
        second = self.effect(self.lease_one(), undo=UNDO, target="shelf/18")
        made = self.ok(self.admin.post(f"/runs/{run}/undo"), 201).json
        self.assertEqual((made["undoing"], made["left"]), ([second, first], []))
        self.assertEqual(self.ok(self.admin.post(f"/runs/{run}/undo")).json["run_id"], made["run_id"])
        for receipt in (second, first):
            lease = self.lease_one()
            # What a worker gave as data stays data, whatever it looks like.
            self.assertEqual((lease["run_id"], lease["input"], lease["idempotency_key"]),
                             (made["run_id"], UNDO["fields"], f"undo:{receipt}"))
            undoing = self.effect(lease, target=receipt)
            self.assertEqual(self.receipt(undoing)["reverses"], receipt)
            undone = self.receipt(receipt)
            self.assertEqual((undone["status"], undone["reversed_by"]), ("reversed", undoing))
        self.run_status(made["run_id"], "success")
        self.refused(self.admin.post(f"/runs/{run}/undo"), 409, "NOT_REVERSIBLE")

    def test_who_asked_for_a_run_does_not_decide_on_its_undo(self):
        op, op2 = self.as_person("op", "operator"), self.as_person("op2", "operator")
        run = self.start(REMOTE, op)["id"]
        receipt = self.effect(self.lease_one(), undo=UNDO)
        two = "policy: p\nrules: [{id: two, effect: needs_approval, two_person: true}]"
        self.ok(self.admin.request("PUT", "/policy", two), 201)
        undo = self.ok(op2.post(f"/runs/{run}/undo"), 201).json["run_id"]
        self.assertEqual(self.propose(self.lease_one(), target=receipt)["decision"], "needs_approval")
        self.assertEqual([who["text"] for who in self.get_run(undo)["requesters"]], ["op2", "op"])
        for asked in (op, op2):
            self.refused(asked.post(f"/runs/{undo}/approve"), 403, "SELF_APPROVAL")
        for other in ("ada", "bob"):
            self.ok(self.as_person(other).post(f"/runs/{undo}/approve"))
        self.assertEqual(self.get_run(undo)["approvals"][0]["status"], "approved")

    def test_one_effect_is_undone_and_the_others_stay(self):
        run = self.start(TWO)["id"]
        first = self.effect(self.lease_one(), undo=UNDO)
        second = self.effect(self.lease_one(), target="shelf/18")
        self.refused(self.admin.post(f"/receipts/{second}/reverse"), 409, "NOT_REVERSIBLE")
        self.assertEqual(self.ok(self.admin.post(f"/receipts/{first}/reverse"), 201).json["undoing"], [first])
        self.effect(self.lease_one(), target="shelf/17")
        self.assertEqual([self.receipt(each)["status"] for each in (first, second)], ["reversed", "succeeded"])
        self.assertEqual(self.refused(self.admin.post(f"/runs/{run}/undo"), 409, "NOT_REVERSIBLE").status, 409)

    def test_a_part_that_fails_leaves_a_clear_account(self):
        run = self.start(TWO)["id"]
        first = self.effect(self.lease_one(), undo=UNDO)
        second = self.effect(self.lease_one(), undo=UNDO, target="shelf/18")
        made = self.ok(self.admin.post(f"/runs/{run}/undo"), 201).json
        self.effect(self.lease_one(), target="shelf/18")
        self.report("fail", self.lease_one(), message="the shelf is gone", retryable=False)
        self.run_status(made["run_id"], "failed")
        self.assertEqual([self.receipt(each)["status"] for each in (second, first)], ["reversed", "succeeded"])
        rest = self.ok(self.admin.post(f"/runs/{run}/undo"), 201).json
        self.assertEqual(rest["undoing"], [first])

    def test_an_undo_passes_the_gate_and_survives_a_kill(self):
        run = self.start(REMOTE)["id"]
        receipt = self.effect(self.lease_one(), undo={**UNDO, "risk": "med"})
        made = self.ok(self.admin.post(f"/receipts/{receipt}/reverse"), 201).json
        asked = self.propose(self.lease_one())
        self.assertEqual(asked["decision"], "needs_approval")
        self.restart()
        self.ok(self.admin.post(f"/approvals/{asked['approval_id']}/approve"))
        lease = self.lease_one()
        decision = self.propose(lease)
        self.outcome(lease, decision["receipt_id"])
        self.restart()
        self.assertEqual(self.receipt(receipt)["status"], "reversed")
        self.assertNotEqual(self.get_run(made["run_id"])["status"], "denied")
        self.assertEqual(self.types(run)[-1], "receipt.reversed")

    def test_an_undo_is_at_least_as_risky_as_what_it_undoes_and_its_step(self):
        self.ok(self.admin.request("PUT", "/policy", """
policy: p
rules:
- {id: undoing, effect: needs_approval, when: risk = 'high' AND workflow LIKE 'pawl.undo.%'}
- {id: rest, effect: allow}
"""), 201)
        for step, stated in (("high", "low"), ("low", "high")):
            self.start(f"workflow: w-{step}\nsteps: [{{id: a, tool: test.work, risk: {step}}}]")
            receipt = self.effect(self.lease_one(), undo={**UNDO, "risk": "low"}, risk=stated)
            self.ok(self.admin.post(f"/receipts/{receipt}/reverse"), 201)
            lease = self.lease_one()
            asked = self.propose(lease, risk="low")
            self.assertEqual((asked["decision"], asked["risk"]), ("needs_approval", "high"), (step, stated))
            self.ok(self.admin.post(f"/runs/{lease['run_id']}/cancel"))

    def test_a_workers_undo_is_data_and_never_reaches_a_tool_of_the_server(self):
        fields = {"run": "touch ${{ secrets.KEY }}", "note": "$${{ input.x }}"}
        self.start(REMOTE)
        receipt = self.effect(self.lease_one(), undo={**UNDO, "connector": "shell", "fields": fields})
        self.assertEqual(self.receipt(receipt)["undo_source"], "worker")
        made = self.ok(self.admin.post(f"/receipts/{receipt}/reverse"), 201).json
        lease = self.lease_one()
        self.assertEqual((lease["run_id"], lease["tool"], lease["input"]), (made["run_id"], "test.work", fields))


class Risk(GateCase):
    POLICY = """
policy: p
rules:
- {id: shelves, risk: high, when: target LIKE 'shelf/1%'}
- {id: some, effect: allow, risk: med, when: target = 'shelf/2'}
- {id: two, effect: needs_approval, two_person: true, when: risk = 'high'}
- {id: rest, effect: allow}
"""

    def test_a_statement_raises_it_and_never_lowers_it(self):
        self.ok(self.admin.request("PUT", "/policy", "policy: p\nrules: [{id: all, effect: allow}]"), 201)
        order = ["low", "med", "high"]
        for step in order:
            for stated in order + [None]:
                self.start(f"workflow: w-{step}\nsteps: [{{id: a, tool: test.work, risk: {step}}}]")
                lease = self.lease_one()
                decision = self.propose(lease, **({"risk": stated} if stated else {}))
                wanted = max(step, stated or "low", key=order.index)
                self.assertEqual(decision["risk"], wanted)
                receipt = self.receipt(decision["receipt_id"])
                self.assertEqual((receipt["action"]["risk"], receipt["digest"]), (wanted, decision["digest"]))
                self.outcome(lease, decision["receipt_id"])
                self.complete(lease)

    def test_a_policy_raises_it_for_the_rules_that_follow(self):
        self.ok(self.admin.request("PUT", "/policy", self.POLICY), 201)
        run = self.start(REMOTE)["id"]
        asked = self.propose(self.lease_one(), target="shelf/17", risk="low")
        self.assertEqual((asked["decision"], asked["rule"], asked["risk"]), ("needs_approval", "two", "high"))
        shown, = self.get_run(run)["approvals"]
        self.assertEqual((shown["tier"], shown["action"]["risk"]), ("high", "high"))
        for target, risk in (("shelf/2", "med"), ("shelf/3", "low")):
            self.start(REMOTE)
            allowed = self.propose(self.lease_one(), target=target, risk="low")
            self.assertEqual((allowed["decision"], allowed["risk"]), ("allow", risk))


AGENT = """
import json, os, urllib.request
base = os.environ["PAWL_MCP_URL"].rsplit("/mcp", 1)[0]
lease = os.environ["PAWL_RUN_ID"] + ":" + os.environ["PAWL_STEP_ID"]
def call(path, body):
    request = urllib.request.Request(base + "/leases/" + lease + path, method="POST", data=json.dumps(body).encode(),
                                     headers={"Authorization": "Bearer " + os.environ["PAWL_LEASE_KEY"]})
    return json.load(urllib.request.urlopen(request, timeout=60))
proposed = call("/actions", ACTION)
done = call("/actions/" + proposed["receipt_id"] + "/outcome", {"succeeded": True, "response": {"status": 200}})
print(json.dumps({"type": "result", "result": done["status"]}))
"""


class Forging(GateCase):
    """Somebody names the effect of another step's tool and says that it happened: that step's effect happens all the
    same, or the step is refused. It is never taken for done."""
    flags = ("--http-allow", "127.0.0.1")

    def setUp(self):
        super().setUp()
        sent = self.sent = []

        class Shop(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                sent.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        shop = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shop)
        threading.Thread(target=shop.serve_forever, daemon=True).start()
        self.addCleanup(shop.server_close)
        self.addCleanup(shop.shutdown)
        self.url = f"http://127.0.0.1:{shop.server_port}/pay"
        self.ok(self.admin.request("PUT", "/policy", "policy: p\nrules: [{id: all, effect: allow}]"), 201)

    def pay(self, key):
        """A run of the step that is to be answered by a forged receipt."""
        run = self.start(f"workflow: pay\nsteps:\n- {{id: a, tool: http.request, idempotency_key: {key}, "
                         f"with: {{method: POST, url: '{self.url}', body: {{amount: 1}}}}}}\n")
        return self.until_ended(run["id"])

    def until_ended(self, run):
        return self.ok(self.admin.get(f"/runs/{run}", wait="60s")).json

    def receipts_under(self, key):
        receipts = [self.receipt(each["id"]) for each in self.ok(self.admin.get("/receipts")).json["items"]]
        return [each for each in receipts if each["action"]["idempotency_key"] == key]

    def action(self, key):
        """What that step proposes, word for word."""
        if not self.sent:
            self.assertEqual(self.pay("FIRST")["status"], "success")
        receipt, = self.receipts_under("FIRST")
        return {**{name: receipt["action"][name] for name in ("connector", "operation", "target", "fields", "risk")},
                "idempotency_key": key}

    def expect_refused(self, key):
        before = len(self.sent)
        ended = self.pay(key)
        self.assertEqual((ended["status"], ended["error_code"]), ("failed", "IDEMPOTENCY_KEY_REUSED"), ended)
        self.assertEqual(len(self.sent), before)

    def test_a_worker_does_not_answer_for_the_steps_of_another_tool(self):
        action = self.action("ORDER-1")
        self.start(REMOTE)
        self.effect(self.lease_one(), **action)
        self.expect_refused("ORDER-1")

    def test_an_agent_does_not_answer_for_the_steps_of_another_tool(self):
        program = self.data.parent / "agent.py"
        program.write_text(AGENT.replace("ACTION", repr(self.action("ORDER-2"))))
        run = self.start("workflow: agent\nsteps:\n- {id: a, tool: agent.command, retry: {max_attempts: 1}, with: "
                         f"{{prompt: x, command: ['{sys.executable}', '{program}'], sandbox: {{mode: off}}}}}}\n")
        self.assertEqual(self.until_ended(run["id"])["status"], "success")
        self.assertEqual([each["status"] for each in self.receipts_under("ORDER-2")], ["succeeded"])
        self.expect_refused("ORDER-2")

    def test_the_same_step_of_another_run_is_still_answered(self):
        for _ in range(2):
            self.assertEqual(self.pay("ORDER-3")["status"], "success")
        self.assertEqual(len(self.sent), 1)


if __name__ == "__main__":
    unittest.main()
