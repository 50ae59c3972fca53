"""What people decide about runs: approvals, answers, cancellations, retries."""
import threading
import unittest

from api_case import GATED, INSTANT, REMOTE, ApiCase

TWO_GATES = """
workflow: gates
steps:
  - {id: left, tool: approval, needs: []}
  - {id: right, tool: approval, needs: []}
"""

TWO_PEOPLE = """
workflow: pair
steps:
  - {id: gate, tool: approval, two_person: true}
"""

QUICK_EXPIRY = """
workflow: hasty
steps:
  - {id: gate, tool: approval, expires: 30ms}
"""

NAMED = """
workflow: named
steps:
  - id: gate
    tool: approval
    approvers: [ada, group:finance]
    prompt: Refund ${{ input.order }}?
"""

REMINDED = """
workflow: reminded
steps:
  - id: gate
    tool: approval
    approvers: [ada]
    remind: 1ms
    escalate: {after: 2ms, to: [group:heads]}
"""

NEVER_WAS = "run_01kaw3v9m8f2hr4x6q0t7c5ezy"
NO_APPROVAL = "apr_01kaw3v9m8f2hr4x6q0t7c5ezy"


class Approvals(ApiCase):
    def waiting(self, source, who=None):
        run = self.start(source, who)["id"]
        return self.run_status(run, "waiting")

    def test_an_approval_lets_the_run_go_on(self):
        run = self.waiting(GATED)
        approval = run["approvals"][0]
        self.assertEqual((approval["status"], approval["tier"], approval["step"]), ("requested", "med", "gate"))
        done = self.ok(self.admin.post(f"/runs/{run['id']}/approve", {"reason": "fine"})).json
        self.assertEqual(done["status"], "success")
        self.assertEqual(done["approvals"][0]["status"], "approved")
        self.assertEqual(done["approvals"][0]["reason"], "fine")
        self.assertTrue(done["approvals"][0]["resolved_by"].startswith("key:"))

    def test_an_approval_that_names_people_and_groups_is_decided_by_those_and_nobody_else(self):
        run = self.waiting(NAMED)
        ada, bo, cy = (self.as_person(name) for name in ("ada", "bo", "cy"))
        self.ok(self.admin.put("/people/cy", {**self.person("cy"), "groups": ["finance"]}))
        for who in (self.admin, self.as_role("approver"), bo):
            for verb in ("approve", "reject"):
                refused = self.refused(who.post(f"/runs/{run['id']}/{verb}"), 403, "NOT_AN_APPROVER")
                self.assertIn("ada, group:finance", refused.json["detail"])
        done = self.ok(cy.post(f"/runs/{run['id']}/approve")).json
        self.assertEqual(done["status"], "success")
        vote = done["approvals"][0]["votes"][0]
        self.assertEqual((vote["by"], vote["as"]), ("person:cy", "group:finance"))
        self.assertTrue(vote["via"].startswith("key:"))
        other = self.create("named")["id"]
        self.run_status(other, "waiting")
        self.ok(self.admin.put("/people/cy", {**self.person("cy"), "groups": []}))
        self.refused(cy.post(f"/runs/{other}/approve"), 403, "NOT_AN_APPROVER")
        self.assertEqual(self.ok(ada.post(f"/runs/{other}/reject")).json["status"], "denied")

    def person(self, name):
        people = {p["name"]: p for p in self.ok(self.admin.get("/people")).json["items"]}
        return {key: value for key, value in people[name].items() if key != "name"}

    def test_nobody_decides_for_a_while_then_people_are_reminded_and_others_may_decide(self):
        self.publish(REMINDED)
        feed = self.feed()
        run = self.create("reminded")["id"]
        seen = feed.until(lambda m: m["event"]["type"] == "approval.escalated")
        self.assertEqual(seen[-1]["event"]["to"], ["group:heads"])
        if "approval.reminded" not in [m["event"]["type"] for m in seen]:
            feed.until(lambda m: m["event"]["type"] == "approval.reminded")
        self.assertEqual(self.get_run(run)["approvals"][0]["approvers"], ["ada", "group:heads"])
        # What was told is known after a crash, too.
        self.restart()
        self.assertEqual(self.get_run(run)["approvals"][0]["approvers"], ["ada", "group:heads"])
        head = self.as_person("head")
        self.ok(self.admin.put("/people/head", {**self.person("head"), "groups": ["heads"]}))
        self.assertEqual(self.ok(head.post(f"/runs/{run}/approve")).json["status"], "success")
        self.assertEqual(self.types(run).count("approval.reminded"), 1)
        self.assertEqual(self.types(run).count("approval.escalated"), 1)

    def test_the_inbox_shows_all_that_is_to_be_known_before_deciding(self):
        self.publish(NAMED)
        run = self.create("named", input={"order": 17})["id"]
        self.run_status(run, "waiting")
        item = self.ok(self.admin.get("/approvals")).json["items"][0]
        self.assertEqual((item["workflow"], item["workflow_version"], item["step"]), ("named", 1, "gate"))
        self.assertEqual((item["run_id"], item["prompt"]), (run, "Refund 17?"))
        self.assertEqual((item["approvers"], item["votes"], item["action"]), (["ada", "group:finance"], [], None))
        self.assertTrue(item["requested_by"].startswith("key:"))
        self.assertEqual([who["actor"] for who in item["requesters"]], [item["requested_by"]])

    def test_who_asked_is_named_by_person_or_key(self):
        key = self.ok(self.admin.post("/keys", {"role": "operator", "name": "deployer"}), 201).json
        op = self.client(key["key"])
        run = self.waiting(GATED, op)["id"]
        actor = "key:" + key["id"].removeprefix("key_")

        def shown():
            at = self.get_run(run)
            listed = {item["run_id"]: item for item in self.ok(self.admin.get("/approvals")).json["items"]}[run]
            self.assertEqual(at["requesters"], at["approvals"][0]["requesters"])
            self.assertEqual(at["requesters"], listed["requesters"])
            who, = at["requesters"]
            self.assertEqual((at["created_by"], listed["requested_by"], who["actor"]), (actor, actor, actor))
            return who["person"], who["key_name"], who["text"]

        self.assertEqual(shown(), (None, "deployer", "key deployer"))
        # Whose key made it is known, and then whose it is.
        root = self.get_run(self.start(INSTANT)["id"])["created_by"]
        self.ok(self.admin.put("/people/root", {"keys": ["key_" + root.removeprefix("key:")]}))
        self.assertEqual(shown(), (None, "deployer", "root's key deployer"))
        self.ok(self.admin.put("/people/op", {"keys": [key["id"]]}))
        self.assertEqual(shown(), ("person:op", "deployer", "op"))

    def test_approving_again_is_the_same_answer_and_appends_nothing(self):
        run = self.waiting(GATED)["id"]
        first = self.ok(self.admin.post(f"/runs/{run}/approve"))
        events = self.events(run)
        again = self.ok(self.admin.post(f"/runs/{run}/approve"))
        self.assertEqual(again.body, first.body)
        self.assertEqual(self.events(run), events)

    def test_a_rejection_denies_the_run_with_a_diagnostic(self):
        run = self.waiting(GATED)["id"]
        denied = self.ok(self.admin.post(f"/runs/{run}/reject", {"reason": "not today"})).json
        self.assertEqual((denied["status"], denied["error_code"], denied["retryable"]),
                         ("denied", "APPROVAL_REJECTED", False))
        for field in ("error_code", "category", "message", "likely_cause", "suggested_fix", "retryable", "severity"):
            self.assertIn(field, denied["diagnostic"])
        self.assertIn("not today", denied["diagnostic"]["message"])
        self.assertEqual(self.ok(self.admin.post(f"/runs/{run}/reject")).json["status"], "denied")

    def test_a_decided_approval_cannot_be_decided_otherwise(self):
        approved, rejected = self.waiting(GATED)["id"], self.waiting(GATED)["id"]
        self.ok(self.admin.post(f"/runs/{approved}/approve"))
        self.ok(self.admin.post(f"/runs/{rejected}/reject"))
        for run, verb in ((approved, "reject"), (rejected, "approve")):
            events = self.events(run)
            self.refused(self.admin.post(f"/runs/{run}/{verb}"), 409, "ALREADY_RESOLVED")
            self.assertEqual(self.events(run), events)

    def test_nothing_waiting_is_refused_and_moves_nothing(self):
        run = self.start(REMOTE)["id"]
        before = self.get_run(run)
        for verb in ("approve", "reject"):
            self.refused(self.admin.post(f"/runs/{run}/{verb}"), 409, "NOTHING_WAITING")
        after = self.get_run(run)
        self.assertEqual((after["status"], after["steps"]), (before["status"], before["steps"]))

    def test_a_canceled_run_cannot_be_approved(self):
        run = self.waiting(GATED)["id"]
        self.ok(self.admin.post(f"/runs/{run}/cancel"))
        self.refused(self.admin.post(f"/runs/{run}/approve"), 409, "ALREADY_RESOLVED")
        self.assertEqual(self.get_run(run)["status"], "canceled")

    def test_of_several_open_approvals_one_must_be_named(self):
        run = self.waiting(TWO_GATES)
        self.refused(self.admin.post(f"/runs/{run['id']}/approve"), 409, "AMBIGUOUS_APPROVAL")
        left, right = (a["id"] for a in run["approvals"])
        still = self.ok(self.admin.post(f"/runs/{run['id']}/approve", {"approval_id": left})).json
        self.assertEqual(still["status"], "waiting")
        done = self.ok(self.admin.post(f"/runs/{run['id']}/approve", {"approval_id": right})).json
        self.assertEqual(done["status"], "success")

    def test_an_approval_of_another_run_is_not_found_in_this_one(self):
        one, two = self.waiting(GATED), self.waiting(GATED)
        for approval in (two["approvals"][0]["id"], NO_APPROVAL):
            answer = self.admin.post(f"/runs/{one['id']}/approve", {"approval_id": approval})
            self.refused(answer, 404, "NOT_FOUND")
        self.refused(self.admin.post(f"/runs/{one['id']}/approve", {"approval_id": "x"}), 400, "INVALID_REQUEST")
        self.assertEqual([self.get_run(r["id"])["status"] for r in (one, two)], ["waiting", "waiting"])

    def test_two_people_are_two_keys_and_neither_is_the_one_who_asked(self):
        run = self.waiting(TWO_PEOPLE)["id"]
        ada, bob = self.as_person("ada"), self.as_person("bob")
        # A key that is nobody's answers for whoever made it, and here that is the one who asked.
        self.refused(self.as_role("approver").post(f"/runs/{run}/approve"), 403, "SELF_APPROVAL")
        self.refused(self.admin.post(f"/runs/{run}/approve"), 403, "SELF_APPROVAL")
        self.refused(self.admin.post(f"/runs/{run}/reject"), 403, "SELF_APPROVAL")
        for _ in range(2):
            once = self.ok(ada.post(f"/runs/{run}/approve")).json
            self.assertEqual((once["status"], len(once["approvals"][0]["votes"])), ("waiting", 1))
        self.assertEqual(self.ok(bob.post(f"/runs/{run}/approve")).json["status"], "success")

    def test_who_asked_for_a_run_decides_neither_on_it_nor_on_its_retries(self):
        op, op2, ada = (self.as_person(name, "operator") for name in ("op", "op2", "ada"))
        bob = self.as_person("bob")
        run = self.waiting(TWO_PEOPLE, op)["id"]
        self.refused(op.post(f"/runs/{run}/approve"), 403, "SELF_APPROVAL")
        for who in (op2, op2, ada):
            self.ok(self.admin.post(f"/runs/{run}/cancel"))
            run = self.ok(who.post(f"/runs/{run}/retry"), 201).json["id"]
            shown = self.run_status(run, "waiting")
            self.assertEqual({each["text"] for each in shown["requesters"]} - {"ada"}, {"op", "op2"})
            for asked in (op, op2):
                self.refused(asked.post(f"/runs/{run}/approve"), 403, "SELF_APPROVAL")
                self.refused(asked.post(f"/runs/{run}/reject"), 403, "SELF_APPROVAL")
        self.restart()
        for asked in (op, op2, ada):
            self.refused(asked.post(f"/runs/{run}/approve"), 403, "SELF_APPROVAL")
        self.ok(bob.post(f"/runs/{run}/approve"))
        self.assertEqual(self.ok(self.as_person("cy").post(f"/runs/{run}/approve")).json["status"], "success")

    def test_one_of_two_people_can_reject(self):
        run = self.waiting(TWO_PEOPLE)["id"]
        self.ok(self.as_person("ada").post(f"/runs/{run}/approve"))
        self.assertEqual(self.ok(self.as_person("bob").post(f"/runs/{run}/reject")).json["status"], "denied")

    def test_an_approval_that_nobody_gives_expires_and_denies_the_run(self):
        run = self.start(QUICK_EXPIRY)["id"]
        denied = self.run_status(run, "denied")
        self.assertEqual((denied["error_code"], denied["retryable"]), ("APPROVAL_EXPIRED", False))
        self.assertEqual(denied["approvals"][0]["status"], "expired")
        self.refused(self.admin.post(f"/runs/{run}/approve"), 409, "ALREADY_RESOLVED")
        self.assertEqual(self.types(run)[-2:], ["run.resumed", "run.denied"])

    def test_the_inbox_shows_what_waits_and_decides_it(self):
        run = self.waiting(GATED)
        items = self.ok(self.admin.get("/approvals")).json["items"]
        self.assertEqual([(i["run_id"], i["status"]) for i in items], [(run["id"], "requested")])
        done = self.ok(self.admin.post(f"/approvals/{items[0]['id']}/approve", {"reason": "ok"})).json
        self.assertEqual((done["id"], done["status"]), (run["id"], "success"))
        self.assertEqual(self.ok(self.admin.get("/approvals")).json["items"], [])
        approved = self.ok(self.admin.get("/approvals", status="approved")).json["items"]
        self.assertEqual([i["id"] for i in approved], [items[0]["id"]])
        self.ok(self.admin.post(f"/approvals/{items[0]['id']}/approve"))
        self.refused(self.admin.post(f"/approvals/{items[0]['id']}/reject"), 409, "ALREADY_RESOLVED")
        self.refused(self.admin.post(f"/approvals/{NO_APPROVAL}/approve"), 404, "NOT_FOUND")
        self.refused(self.admin.get("/approvals", status="open"), 400, "INVALID_REQUEST")

    def inbox(self, limit, decide=None):
        """Every page of it, in turn; `decide` is called with each before the next is asked for."""
        pages, more = [], {}
        while not pages or pages[-1]["next_cursor"]:
            pages.append(self.ok(self.admin.get("/approvals", limit=limit, **more)).json)
            self.assertLessEqual(len(pages[-1]["items"]), limit)
            if decide:
                decide(pages[-1]["items"])
            more = {"cursor": pages[-1]["next_cursor"]}
        return [item["id"] for page in pages for item in page["items"]]

    def test_the_inbox_has_pages(self):
        wanted = {a["id"] for _ in range(3) for a in self.waiting(TWO_GATES)["approvals"]}
        for limit in (1, 2, 4, 6, 7):
            seen = self.inbox(limit)
            self.assertEqual((len(seen), set(seen)), (6, wanted))

    def test_pages_of_the_inbox_stay_in_place_while_approvals_are_answered(self):
        wanted = [a["id"] for _ in range(4) for a in self.waiting(GATED)["approvals"]]
        seen = self.inbox(1, lambda items: [self.ok(self.admin.post(f"/approvals/{i['id']}/approve")) for i in items])
        self.assertEqual(seen, wanted[::-1])
        self.assertEqual(self.inbox(10), [])

    def test_a_cursor_is_one_of_this_list_and_this_tenant(self):
        other = self.make_tenant("elsewhere")
        approval = self.waiting(GATED)["approvals"][0]["id"]
        self.ok(self.admin.get("/approvals", cursor=approval))
        for who, cursor in ((self.admin, NEVER_WAS), (self.admin, "x"), (self.admin, ""), (self.admin, NO_APPROVAL),
                            (other, approval)):
            answer = self.refused(who.get("/approvals", cursor=cursor), 400, "INVALID_REQUEST")
            self.assertEqual(answer.json["where"], "cursor")

    def test_looking_decides_nothing(self):
        run = self.waiting(GATED)
        self.refused(self.admin.get(f"/runs/{run['id']}/approve"), 405, "METHOD_NOT_ALLOWED")
        self.refused(self.admin.get(f"/approvals/{run['approvals'][0]['id']}/approve"), 405, "METHOD_NOT_ALLOWED")
        self.assertEqual(self.get_run(run["id"])["status"], "waiting")


class Decisions(ApiCase):
    def test_a_created_run_can_be_canceled_along_legal_transitions(self):
        run = self.start(REMOTE)["id"]
        canceled = self.ok(self.admin.post(f"/runs/{run}/cancel", {"reason": "a mistake"})).json
        self.assertEqual((canceled["status"], canceled["steps"][0]["status"]), ("canceled", "canceled"))
        self.assertEqual(self.types(run)[-2:], ["run.started", "run.canceled"])
        self.assertEqual(self.events(run)[-1]["event"]["reason"], "a mistake")
        self.assertEqual(self.lease(), [])

    def test_canceling_again_is_the_same_answer(self):
        run = self.start(REMOTE)["id"]
        first = self.ok(self.admin.post(f"/runs/{run}/cancel"))
        self.assertEqual(self.ok(self.admin.post(f"/runs/{run}/cancel")).body, first.body)

    def test_a_finished_run_cannot_be_canceled(self):
        run = self.run_status(self.start(INSTANT)["id"], "success")
        self.refused(self.admin.post(f"/runs/{run['id']}/cancel"), 409, "RUN_ENDED")
        self.assertEqual(self.get_run(run["id"]), run)

    def test_cancel_against_completion_has_one_winner_and_both_see_it(self):
        self.publish(REMOTE)
        canceler, worker = self.client(self.admin.key), self.client(self.admin.key)
        for _ in range(30):
            run = self.create("remote")["id"]
            lease = self.lease_one()
            answers = {}
            threads = [
                threading.Thread(target=lambda: answers.update(cancel=canceler.post(f"/runs/{run}/cancel"))),
                threading.Thread(target=lambda: answers.update(done=worker.post(
                    "/leases/complete", {"items": [{"lease_id": lease["lease_id"], "token": lease["token"]}]})))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            ended = self.get_run(run)["status"]
            completed = answers["done"].json["items"][0]["ok"]
            self.assertEqual((ended, answers["cancel"].status), ("success", 409) if completed else ("canceled", 200))

    def test_a_retry_is_a_new_run_that_names_its_predecessor(self):
        run = self.start(GATED, input={"n": 1}, workspace="lab", timeout="1h")["id"]
        self.run_status(run, "waiting")
        self.ok(self.admin.post(f"/runs/{run}/reject"))
        answer = self.ok(self.admin.post(f"/runs/{run}/retry"), 201)
        again = answer.json
        self.assertEqual(answer.headers["Location"], "/runs/" + again["id"])
        self.assertNotEqual(again["id"], run)
        wanted = {"retry_of": run, "input": {"n": 1}, "workspace": "lab", "timeout": "1h", "trigger_type": "retry",
                  "version": 1, "status": "created"}
        self.assertEqual({key: again[key] for key in wanted}, wanted)
        self.assertEqual(self.get_run(run)["status"], "denied")
        self.assertNotEqual(self.ok(self.admin.post(f"/runs/{run}/retry"), 201).json["id"], again["id"])

    def test_only_a_run_that_ended_badly_can_be_retried(self):
        live = self.start(REMOTE)["id"]
        self.refused(self.admin.post(f"/runs/{live}/retry"), 409, "RUN_NOT_ENDED")
        done = self.start(INSTANT)["id"]
        self.run_status(done, "success")
        self.refused(self.admin.post(f"/runs/{done}/retry"), 409, "RUN_ENDED")
        self.ok(self.admin.post(f"/runs/{live}/cancel"))
        self.ok(self.admin.post(f"/runs/{live}/retry"), 201)

    def test_an_answer_before_its_question_is_kept(self):
        run = self.start(REMOTE)["id"]
        answered = self.ok(self.admin.post(f"/runs/{run}/answer", {"step": "only", "answer": {"yes": True}})).json
        self.assertEqual((answered["status"], answered["steps"][0]["answer"]), ("created", {"yes": True}))
        self.assertTrue(self.events(run)[-1]["event"]["early"])

    def test_an_answer_that_fits_nowhere_is_refused(self):
        run = self.start(GATED)["id"]
        self.run_status(run, "waiting")
        self.refused(self.admin.post(f"/runs/{run}/answer", {"step": "gate", "answer": 1}), 409, "NOTHING_WAITING")
        self.refused(self.admin.post(f"/runs/{run}/answer", {"step": "nope", "answer": 1}), 404, "NOT_FOUND")
        self.refused(self.admin.post(f"/runs/{run}/answer", {"step": "gate"}), 400, "INVALID_REQUEST")
        self.refused(self.admin.post(f"/runs/{run}/answer", {"answer": 1}), 400, "INVALID_REQUEST")
        done = self.start(INSTANT)["id"]
        self.run_status(done, "success")
        self.refused(self.admin.post(f"/runs/{done}/answer", {"step": "only", "answer": 1}), 409, "NOTHING_WAITING")

    def test_what_never_was_cannot_be_decided(self):
        for verb, body in (("approve", None), ("reject", None), ("cancel", None), ("retry", None),
                           ("answer", {"step": "a", "answer": 1}), ("status", {"status": "running"})):
            for run in (NEVER_WAS, "garbage"):
                self.refused(self.admin.post(f"/runs/{run}/{verb}", body), 404, "NOT_FOUND")

    def test_unknown_keys_are_refused(self):
        run = self.start(GATED)["id"]
        self.run_status(run, "waiting")
        for verb in ("approve", "reject", "cancel", "retry"):
            self.refused(self.admin.post(f"/runs/{run}/{verb}", {"resaon": "x"}), 400, "INVALID_REQUEST")
        self.assertEqual(self.get_run(run)["status"], "waiting")

    def test_a_run_over_its_time_ends_as_timeout_with_a_diagnostic(self):
        def attempt(span):
            run = self.start(GATED, timeout=span)["id"]
            ended = self.run_status(run, "timeout")
            self.assertEqual((ended["error_code"], ended["retryable"]), ("RUN_TIMEOUT", True))
            types = self.types(run)
            return types if "run.paused" in types else None  # its time was over before it came to the gate

        self.assertEqual(self.growing(attempt, 50)[-2:], ["run.resumed", "run.timed_out"])


if __name__ == "__main__":
    unittest.main()
