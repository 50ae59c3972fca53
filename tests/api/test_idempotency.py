"""A request to create a run that comes twice makes one run, whatever happens in between."""
import collections
import json
import threading
import unittest

from api_case import GATED, INSTANT, REMOTE, ApiCase


class IdempotencyKeys(ApiCase):
    def setUp(self):
        super().setUp()
        self.publish(REMOTE)

    def post(self, key, who=None, **body):
        return (who or self.admin).post("/runs", {"workflow": "remote", **body}, {"Idempotency-Key": key})

    def count(self):
        return len(self.ok(self.admin.get("/runs", limit=500)).json["items"])

    def test_a_repeat_is_answered_with_the_run_that_the_first_one_made(self):
        first = self.ok(self.post("k1", input={"n": 1}), 201)
        self.assertNotIn("Idempotency-Replayed", first.headers)
        again = self.ok(self.post("k1", input={"n": 1}), 200)
        self.assertEqual(again.headers["Idempotency-Replayed"], "true")
        self.assertEqual(again.headers["Location"], first.headers["Location"])
        self.assertEqual(again.body, first.body)
        self.assertEqual(self.count(), 1)

    def test_a_repeat_shows_the_run_as_it_is_by_then(self):
        first = self.ok(self.post("k1"), 201).json
        self.complete(self.lease_one())
        again = self.ok(self.post("k1"), 200).json
        self.assertEqual((again["id"], again["status"]), (first["id"], "success"))

    def test_another_body_under_the_same_key_is_refused_and_makes_nothing(self):
        first = self.ok(self.post("k1", input={"n": 1}), 201).json
        answer = self.refused(self.post("k1", input={"n": 2}), 422, "IDEMPOTENCY_KEY_REUSED")
        self.assertIn(first["id"], answer.json["detail"])
        self.assertEqual(self.count(), 1)

    def test_the_same_content_in_another_spelling_is_the_same_request(self):
        headers = {"Idempotency-Key": "k1"}
        first = self.ok(self.admin.post("/runs", '{"workflow":"remote","input":{"a":1,"b":2.50}}', headers), 201).json
        again = self.ok(self.admin.post("/runs", '{ "input": {"b": 2.5, "a": 1},\n "workflow": "remote" }', headers),
                        200).json
        self.assertEqual(again["id"], first["id"])

    def test_a_request_that_was_refused_leaves_its_key_free(self):
        headers = {"Idempotency-Key": "k1"}
        self.refused(self.admin.post("/runs", {"workflow": "nope"}, headers), 422, "UNKNOWN_WORKFLOW")
        self.refused(self.admin.post("/runs", {"workflow": "remote", "timeout": "x"}, headers), 400, "INVALID_REQUEST")
        self.ok(self.post("k1"), 201)

    def test_keys_are_each_api_keys_own(self):
        mine = self.ok(self.post("k1"), 201).json
        other = self.as_role("operator")
        theirs = self.ok(self.post("k1", other), 201).json
        self.assertNotEqual(mine["id"], theirs["id"])
        self.assertEqual(self.ok(self.post("k1", other), 200).json["id"], theirs["id"])
        self.assertEqual(self.ok(self.post("k1"), 200).json["id"], mine["id"])

    def test_keys_are_each_tenants_own(self):
        mine = self.ok(self.post("k1"), 201).json
        stranger = self.make_tenant("elsewhere")
        self.publish(REMOTE, stranger)
        theirs = self.ok(self.post("k1", stranger, input={"n": 9}), 201).json
        self.assertNotEqual(mine["id"], theirs["id"])

    def test_a_key_is_remembered_when_a_newer_version_is_published(self):
        first = self.ok(self.post("k1"), 201).json
        self.publish(REMOTE + "# changed\n")
        again = self.ok(self.post("k1"), 200).json
        self.assertEqual((again["id"], again["version"]), (first["id"], 1))

    def test_a_key_is_remembered_after_a_kill_at_once(self):
        first = self.ok(self.post("k1"), 201).json
        self.restart(kill=True)
        self.assertEqual(self.ok(self.post("k1"), 200).json["id"], first["id"])
        self.refused(self.post("k1", input=1), 422, "IDEMPOTENCY_KEY_REUSED")

    def test_a_key_is_remembered_after_the_run_ended_and_two_restarts(self):
        first = self.ok(self.post("k1"), 201).json
        self.complete(self.lease_one())
        self.restart(kill=False)
        self.restart(kill=True)
        again = self.ok(self.post("k1"), 200).json
        self.assertEqual((again["id"], again["status"]), (first["id"], "success"))

    def test_a_key_that_is_too_long_is_refused(self):
        self.ok(self.post("x" * 255), 201)
        self.refused(self.post("x" * 256), 400, "INVALID_REQUEST")

    def test_a_key_that_is_empty_is_refused_and_makes_nothing(self):
        for key in ("", "  "):
            self.refused(self.post(key), 400, "INVALID_REQUEST")
        self.assertEqual(self.ok(self.admin.get("/runs")).json["items"], [])

    def test_any_visible_character_may_stand_in_a_key(self):
        for key in ("a b", 'quo"te', "back\\slash", "per%cent", "{json}", "colon:1:2", "~" * 80):
            with self.subTest(key=key):
                first = self.ok(self.post(key), 201).json
                self.assertEqual(self.ok(self.post(key), 200).json["id"], first["id"])
                self.assertEqual(self.events(first["id"])[0]["event"]["idempotency_key"], key)

    def test_a_key_that_is_not_utf_8_is_refused_or_kept_readable(self):
        answer = self.post(b"a\xff\xfeb")
        if answer.status == 400:
            return
        run = self.ok(answer, 201).json["id"]
        self.restart(kill=True)
        self.ok(self.admin.get(f"/runs/{run}", at=1))

    def test_a_thousand_duplicates_at_once_make_one_run(self):
        threads_count, each = 20, 50
        answers = collections.deque()
        together = threading.Barrier(threads_count)

        def ask(client):
            together.wait()
            for _ in range(each):
                answers.append(self.post("k1", client, input={"n": 1}))

        threads = [threading.Thread(target=ask, args=(self.client(self.admin.key),)) for _ in range(threads_count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(answers), threads_count * each)
        self.assertEqual(collections.Counter(a.status for a in answers), {201: 1, 200: threads_count * each - 1})
        self.assertEqual(len({json.loads(a.body)["id"] for a in answers}), 1)
        self.assertTrue(all((a.status == 200) == (a.headers["Idempotency-Replayed"] == "true") for a in answers))
        self.assertEqual(self.count(), 1)

    def test_a_kill_in_a_crowd_of_requests_loses_no_answer_and_makes_no_run_twice(self):
        made = {}

        def ask(client, name):
            try:
                for n in range(10_000):
                    answer = self.post(f"{name}-{n}", client)
                    made[f"{name}-{n}"] = answer.json["id"]
            except OSError:
                pass

        clients = [self.client(self.admin.key) for _ in range(4)]
        threads = [threading.Thread(target=ask, args=(c, f"t{n}")) for n, c in enumerate(clients)]
        for thread in threads:
            thread.start()
        self.until(lambda: len(made), lambda n: n > 200, "some runs are made")
        self.server.kill()
        for thread in threads:
            thread.join()
        self.start_server()
        for key, run in list(made.items()):
            again = self.ok(self.post(key), 200).json
            self.assertEqual(again["id"], run)


class Triggers(ApiCase):
    def setUp(self):
        super().setUp()
        self.publish(REMOTE)

    def post(self, workflow="remote", headers=None, **body):
        return self.admin.post("/runs", {"workflow": workflow, **body}, headers)

    def test_the_same_workflow_type_and_reference_are_one_run(self):
        first = self.ok(self.post(trigger_type="webhook", trigger_ref="d-1"), 201).json
        again = self.ok(self.post(trigger_type="webhook", trigger_ref="d-1"), 200)
        self.assertEqual(again.json["id"], first["id"])
        self.assertEqual(again.headers["Idempotency-Replayed"], "true")

    def test_another_type_reference_or_workflow_is_another_run(self):
        self.publish(GATED)
        made = [self.ok(self.post(**body), 201).json["id"] for body in (
            {"trigger_type": "webhook", "trigger_ref": "1"}, {"trigger_type": "cron", "trigger_ref": "1"},
            {"trigger_type": "webhook", "trigger_ref": "2"}, {"trigger_ref": "1"},
            {"workflow": "gated", "trigger_type": "webhook", "trigger_ref": "1"},
            {"trigger_type": "webhook1", "trigger_ref": ":1"}, {"trigger_type": "webhoo", "trigger_ref": "k1"})]
        self.assertEqual(len(set(made)), len(made))

    def test_a_trigger_without_a_reference_may_come_often(self):
        first, second = (self.ok(self.post(trigger_type="manual"), 201).json for _ in range(2))
        self.assertNotEqual(first["id"], second["id"])

    def test_triggers_are_each_tenants_own(self):
        first = self.ok(self.post(trigger_type="webhook", trigger_ref="d-1"), 201).json
        stranger = self.make_tenant("elsewhere")
        self.publish(REMOTE, stranger)
        theirs = self.create("remote", stranger, trigger_type="webhook", trigger_ref="d-1")
        self.assertNotEqual(theirs["id"], first["id"])

    def test_another_key_of_the_tenant_finds_the_same_run(self):
        first = self.ok(self.post(trigger_type="webhook", trigger_ref="d-1"), 201).json
        answer = self.as_role("operator").post("/runs",
                                               {"workflow": "remote", "trigger_type": "webhook", "trigger_ref": "d-1"})
        self.assertEqual(self.ok(answer, 200).json["id"], first["id"])

    def test_a_trigger_is_remembered_after_a_kill(self):
        first = self.ok(self.post(trigger_type="webhook", trigger_ref="d-1"), 201).json
        self.restart(kill=True)
        self.assertEqual(self.ok(self.post(trigger_type="webhook", trigger_ref="d-1"), 200).json["id"], first["id"])

    def test_a_retry_is_no_repeat_of_its_trigger(self):
        first = self.ok(self.post(trigger_type="webhook", trigger_ref="d-1"), 201).json["id"]
        self.ok(self.admin.post(f"/runs/{first}/cancel"))
        retried = self.ok(self.admin.post(f"/runs/{first}/retry"), 201).json["id"]
        self.assertNotEqual(retried, first)
        self.assertEqual(self.ok(self.post(trigger_type="webhook", trigger_ref="d-1"), 200).json["id"], first)

    def test_duplicates_at_once_make_one_run(self):
        self.publish(INSTANT)
        answers = collections.deque()

        def ask(client):
            for n in range(30):
                answers.append((n, client.post("/runs",
                                               {"workflow": "instant", "trigger_type": "cron", "trigger_ref": str(n)})))

        threads = [threading.Thread(target=ask, args=(self.client(self.admin.key),)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ids = collections.defaultdict(set)
        for n, answer in answers:
            ids[n].add(answer.json["id"])
        self.assertEqual({len(runs) for runs in ids.values()}, {1})
        self.assertEqual(sum(answer.status == 201 for _, answer in answers), 30)


class OtherRequests(ApiCase):
    """Whatever makes something new honours the key in the same way."""

    def replayed(self, answer):
        self.assertEqual(self.ok(answer, 200).headers["Idempotency-Replayed"], "true")
        return answer.json

    def failed_run(self):
        run = self.start(REMOTE)["id"]
        self.ok(self.admin.post(f"/runs/{run}/cancel"))
        return run

    def retry(self, run, key, who=None):
        return (who or self.admin).post(f"/runs/{run}/retry", None, {"Idempotency-Key": key})

    def test_a_retry_that_comes_twice_makes_one_run(self):
        run = self.failed_run()
        first = self.ok(self.retry(run, "k1"), 201)
        again = self.replayed(self.retry(run, "k1"))
        self.assertEqual((again["id"], again["retry_of"]), (first.json["id"], run))
        self.restart(kill=True)
        self.assertEqual(self.replayed(self.retry(run, "k1"))["id"], first.json["id"])
        self.assertNotEqual(self.ok(self.retry(run, "k2"), 201).json["id"], first.json["id"])
        self.assertNotEqual(self.ok(self.retry(run, "k1", self.as_role("operator")), 201).json["id"], first.json["id"])

    def test_a_key_of_one_request_is_none_for_another(self):
        run, other = self.failed_run(), self.failed_run()
        made = self.ok(self.retry(run, "k1"), 201).json["id"]
        answer = self.refused(self.retry(other, "k1"), 422, "IDEMPOTENCY_KEY_REUSED")
        self.assertIn(made, answer.json["detail"])
        answer = self.admin.post("/runs", {"workflow": "remote"}, {"Idempotency-Key": "k1"})
        self.refused(answer, 422, "IDEMPOTENCY_KEY_REUSED")
        self.ok(self.admin.post("/runs", {"workflow": "remote"}, {"Idempotency-Key": "k2"}), 201)
        self.refused(self.retry(run, "k2"), 422, "IDEMPOTENCY_KEY_REUSED")

    def test_a_retry_that_was_refused_leaves_its_key_free(self):
        run = self.start(REMOTE)["id"]
        self.refused(self.retry(run, "k1"), 409, "RUN_NOT_ENDED")
        self.ok(self.admin.post(f"/runs/{run}/cancel"))
        self.ok(self.retry(run, "k1"), 201)

    def test_a_batch_that_comes_twice_makes_each_run_once(self):
        self.publish(REMOTE)
        items = [{"workflow": "remote"}, {"workflow": "remote"}, {"workflow": "nope"},
                 {"workflow": "remote", "idempotency_key": "own"}]
        headers = {"Idempotency-Key": "k1"}
        first = self.ok(self.admin.post("/runs/batch", {"items": items}, headers)).json["items"]
        self.assertEqual([i["status"] for i in first], [201, 201, 422, 201])
        again = self.ok(self.admin.post("/runs/batch", {"items": items}, headers)).json["items"]
        self.assertEqual([i["status"] for i in again], [200, 200, 422, 200])
        self.assertEqual([i.get("id") for i in again], [i.get("id") for i in first])
        items[0] = {"workflow": "remote", "input": 1}
        changed = self.ok(self.admin.post("/runs/batch", {"items": items}, headers)).json["items"]
        self.assertEqual([i["status"] for i in changed], [422, 200, 422, 200])
        self.assertEqual(changed[0]["code"], "IDEMPOTENCY_KEY_REUSED")

    def test_a_key_that_is_made_twice_is_one_and_is_shown_once(self):
        body, headers = {"role": "viewer", "name": "ci", "expires_in": "1h"}, {"Idempotency-Key": "k1"}
        made = self.ok(self.admin.post("/keys", body, headers), 201).json
        again = self.replayed(self.admin.post("/keys", body, headers))
        self.assertEqual((again["id"], again["name"], again["active"]), (made["id"], "ci", True))
        self.assertNotIn("key", again)
        self.restart(kill=True)
        self.assertEqual(self.replayed(self.admin.post("/keys", body, headers))["id"], made["id"])
        self.refused(self.admin.post("/keys", {**body, "role": "admin"}, headers), 422, "IDEMPOTENCY_KEY_REUSED")
        self.assertEqual(len([k for k in self.admin.get("/keys").json["items"] if k["name"] == "ci"]), 1)
        self.ok(self.client(made["key"]).get("/tenant"))

    def test_keys_at_once_are_one(self):
        answers = []

        def ask():
            answers.append(self.client(self.admin.key).post("/keys", {"role": "viewer"}, {"Idempotency-Key": "k1"}))

        threads = [threading.Thread(target=ask) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(collections.Counter(a.status for a in answers), {201: 1, 200: 19})
        self.assertEqual(len({a.json["id"] for a in answers}), 1)

    def test_a_rotation_that_comes_twice_makes_one_key(self):
        old = self.ok(self.admin.post("/keys", {"role": "viewer"}), 201).json
        path, headers = f"/keys/{old['id']}/rotate", {"Idempotency-Key": "k1"}
        new = self.ok(self.admin.post(path, {"overlap": "1h"}, headers), 201).json
        self.assertEqual(self.replayed(self.admin.post(path, {"overlap": "1h"}, headers))["id"], new["id"])
        self.refused(self.admin.post(path, {"overlap": "2h"}, headers), 422, "IDEMPOTENCY_KEY_REUSED")
        self.refused(self.admin.post(path), 409, "KEY_NOT_ACTIVE")

    def test_a_key_that_is_malformed_is_refused_everywhere(self):
        run = self.failed_run()
        for path, body in ((f"/runs/{run}/retry", None), ("/runs/batch", {"items": []}), ("/keys", {"role": "viewer"})):
            for key in ("x" * 256, "tab\there"):
                answer = self.refused(self.admin.post(path, body, {"Idempotency-Key": key}), 400, "INVALID_REQUEST")
                self.assertEqual(answer.json["where"], "idempotency-key")


if __name__ == "__main__":
    unittest.main()
