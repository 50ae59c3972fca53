"""The tenant's policy through the API: published, read, tried. What a policy decides is tested in tests/govern."""
import hashlib
import json
import unittest

from api_case import INSTANT, ApiCase

ALLOW_LOW = "policy: p\nrules:\n- {id: low, effect: allow, when: risk = 'low'}\n"
ASK = "policy: p\nrules:\n- {id: all, effect: needs_approval, two_person: true, expires: 2h}\n"


def action(**more):
    return {"connector": "servicenow", "operation": "incident.update", "target": "acme/incident/1", "fields": {"n": 1},
            "risk": "low", "idempotency_key": "k", **more}


class Versions(ApiCase):
    def test_without_one_the_one_that_pawl_brings_along_holds(self):
        policy = self.ok(self.admin.get("/policy")).json
        self.assertEqual((policy["version"], policy["published_at"], policy["published_by"]), (0, None, None))
        self.assertIn("policy: default", policy["source"])
        self.assertEqual(policy["digest"], hashlib.sha256(policy["source"].encode()).hexdigest())
        self.assertEqual(self.ok(self.admin.get("/policy/history")).json, {"items": [], "next_cursor": None})

    def test_a_new_text_is_a_new_version_and_the_same_text_the_same_version(self):
        digest = hashlib.sha256(ALLOW_LOW.encode()).hexdigest()
        self.assertEqual(self.ok(self.admin.put("/policy", ALLOW_LOW), 201).json, {"version": 1, "digest": digest})
        self.assertEqual(self.ok(self.admin.put("/policy", ALLOW_LOW), 200).json, {"version": 1, "digest": digest})
        self.assertEqual(self.ok(self.admin.put("/policy", ASK), 201).json["version"], 2)
        self.assertEqual(self.ok(self.admin.put("/policy", ALLOW_LOW), 201).json["version"], 3)
        self.restart()
        self.assertEqual(self.ok(self.admin.put("/policy", ALLOW_LOW), 200).json["version"], 3)
        self.assertEqual(self.ok(self.admin.get("/policy")).json["source"], ALLOW_LOW)
        self.assertEqual(self.ok(self.admin.get("/policy", version=2)).json["source"], ASK)
        self.assertEqual(self.ok(self.admin.get("/policy?version=0")).json["version"], 0)
        self.refused(self.admin.get("/policy", version=4), 404, "NOT_FOUND")
        self.refused(self.admin.get("/policy", version="x"), 400, "INVALID_REQUEST")
        items = self.ok(self.admin.get("/policy/history")).json["items"]
        self.assertEqual([item["version"] for item in items], [3, 2, 1])
        self.assertEqual(items[0]["digest"], items[2]["digest"])
        self.assertTrue(all(item["published_by"].startswith("key:") for item in items))

    def test_json_is_as_good_as_yaml(self):
        self.ok(self.admin.put("/policy", json.dumps({"policy": "j", "rules": [{"id": "a", "effect": "deny"}]})), 201)

    def test_an_invalid_one_is_refused_with_line_rule_and_reason_and_changes_nothing(self):
        for text, reason in (
                ("policy: p\nrules:\n- {id: a, effect: deny, when: conector = 'x'}",
                 "policy:3:31: the condition of rule `a`: no such column: conector; did you mean `connector`?"),
                ("policy: p\nrules:\n- {id: a, effect: deny, when: \"readfile('/etc/passwd') = ''\"}",
                 "policy:3:32: the condition of rule `a`: no such function: readfile"),
                ("policy: p\nrules:\n- {id: a, effect: maybe}",
                 "policy:3:19: `effect` must be deny, allow or needs_approval, not `maybe`")):
            answer = self.admin.put("/policy", text)
            self.refused(answer, 422, "INVALID_POLICY")
            self.assertEqual(answer.json["detail"], reason)
        self.refused(self.admin.put("/policy", ""), 400, "INVALID_REQUEST")
        self.refused(self.admin.put("/policy", "policy: p\ndescription: " + "x" * (300 << 10)), 422, "INVALID_POLICY")
        self.assertEqual(self.ok(self.admin.get("/policy")).json["version"], 0)

    def test_tenants_have_their_own(self):
        self.ok(self.admin.put("/policy", ASK), 201)
        other = self.make_tenant("other")
        self.assertEqual(self.ok(other.get("/policy")).json["version"], 0)
        self.refused(other.get("/policy", version=1), 404, "NOT_FOUND")
        self.assertEqual(self.ok(other.put("/policy", ALLOW_LOW), 201).json["version"], 1)
        self.assertEqual(self.ok(self.admin.get("/policy")).json["source"], ASK)


class Trials(ApiCase):
    def test_a_draft_is_tried_on_given_actions_beside_what_holds(self):
        actions = [{"action": action()}, {"action": action(risk="med"), "workspace": "ops", "workflow": "triage"},
                   {"action": action(risk="high")}]
        result = self.ok(self.admin.post("/policy/test", {"policy": ASK, "actions": actions})).json
        self.assertEqual([item["now"]["effect"] for item in result["items"]],
                         ["allow", "needs_approval", "needs_approval"])
        self.assertEqual([item["draft"]["effect"] for item in result["items"]], ["needs_approval"] * 3)
        self.assertEqual([item["changes"] for item in result["items"]], [True, True, True])
        self.assertEqual(result["items"][2]["now"]["approval"],
                         {"tier": "high", "two_person": True, "quorum": 2, "expires": "1d"})
        self.assertEqual(result["items"][2]["draft"]["approval"],
                         {"tier": "high", "two_person": True, "quorum": 2, "expires": "2h"})
        self.assertEqual(result["items"][1]["workflow"], "triage")
        self.assertEqual(result["items"][0]["action"], action())
        self.assertEqual(result["summary"], {
            "policy_version": 0, "actions": 3, "changed": 3,
            "changes": [{"from": "allow", "to": "needs_approval", "actions": 1},
                        {"from": "needs_approval", "to": "needs_approval", "actions": 2}]})
        self.assertEqual(self.ok(self.admin.get("/policy")).json["version"], 0)

    def test_what_would_not_change_is_told_too(self):
        self.ok(self.admin.put("/policy", ALLOW_LOW), 201)
        result = self.ok(self.admin.post("/policy/test", {"policy": ALLOW_LOW, "actions": [{"action": action()}]})).json
        self.assertFalse(result["items"][0]["changes"])
        self.assertEqual(result["summary"], {"policy_version": 1, "actions": 1, "changed": 0, "changes": []})

    def test_without_runs_that_proposed_something_there_is_nothing_to_try(self):
        self.publish(INSTANT)
        run = self.create("instant")
        self.run_status(run["id"], "success")
        result = self.ok(self.admin.post("/policy/test", {"policy": ASK})).json
        self.assertEqual((result["items"], result["is_all"]), ([], True))

    def test_bad_requests(self):
        for body, where in (({}, "/policy"), ({"policy": 1}, "/policy"), ({"policy": ASK, "actions": {}}, "/actions"),
                            ({"policy": ASK, "actions": [1]}, "/actions/0"),
                            ({"policy": ASK, "actions": [{}]}, "/actions/0/action"),
                            ({"policy": ASK, "actions": [{"action": {"connector": "x"}}]}, "/actions/0/action"),
                            ({"policy": ASK, "actions": [{"action": action(colour="red")}]}, "/actions/0/action"),
                            ({"policy": ASK, "limit": 0}, "/limit"), ({"policy": ASK, "colour": 1}, "/colour")):
            answer = self.admin.post("/policy/test", body)
            self.refused(answer, 400, "INVALID_REQUEST")
            self.assertEqual(answer.json["where"], where)
        answer = self.admin.post("/policy/test", {"policy": "policy: p", "actions": []})
        self.refused(answer, 422, "INVALID_POLICY")
        self.assertEqual(answer.json["where"], "/policy")


if __name__ == "__main__":
    unittest.main()
