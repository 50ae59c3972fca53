"""Tenants, their keys, what each role may do, and that nobody sees or learns anything of another tenant."""
import http.client
import pathlib
import re
import stat
import time
import unittest

from api_case import GATED, REMOTE, TIMEOUT_S, ApiCase

SOURCE = pathlib.Path(__file__).parents[2] / "src/api"

ROLES = ("admin", "operator", "approver", "worker", "viewer", "metrics")
ALL, WORK, DECIDE, OPERATE, ADMIN = (
    set(ROLES) - {"metrics"}, {"admin", "operator", "worker"}, {"admin", "operator", "approver"},
    {"admin", "operator"}, {"admin"})

NO_RUN = "run_01kaw3v9m8f2hr4x6q0t7c5ezy"
NO_APPROVAL = "apr_01kaw3v9m8f2hr4x6q0t7c5ezy"
NO_KEY = "key_01kaw3v9m8f2hr4x6q0t7c5ezy"
NO_RECEIPT = "rcp_01kaw3v9m8f2hr4x6q0t7c5ezy"
NO_TASK = "task_01kaw3v9m8f2hr4x6q0t7c5ezy"

# Every route, and who may use it. None: it is open to whoever asks.
ROUTES = {
    ("GET", "/healthz"): None,
    ("GET", "/readyz"): None,
    ("GET", "/openapi.json"): None,
    ("GET", "/metrics"): {"admin", "metrics"},
    ("POST", "/runs"): OPERATE,
    ("POST", "/runs/batch"): OPERATE,
    ("GET", "/runs"): ALL,
    ("GET", "/runs/{id}"): ALL,
    ("GET", "/runs/{id}/events"): ALL,
    ("POST", "/runs/{id}/approve"): DECIDE,
    ("POST", "/runs/{id}/reject"): DECIDE,
    ("POST", "/runs/{id}/answer"): DECIDE,
    ("POST", "/runs/{id}/cancel"): OPERATE,
    ("POST", "/runs/{id}/retry"): OPERATE,
    ("POST", "/runs/{id}/status"): OPERATE,
    ("POST", "/runs/{id}/approvals"): WORK,
    ("PUT", "/workflows/{name}"): OPERATE,
    ("GET", "/workflows"): ALL,
    ("GET", "/workflows/{name}"): ALL,
    ("PUT", "/policy"): ADMIN,
    ("GET", "/policy"): ALL,
    ("GET", "/policy/history"): ALL,
    ("POST", "/policy/test"): OPERATE,
    ("GET", "/approvals"): ALL,
    ("GET", "/approvals/{id}"): ALL,
    ("GET", "/audit"): ADMIN,
    ("GET", "/workers"): ALL,
    ("POST", "/approvals/{id}/approve"): DECIDE,
    ("POST", "/approvals/{id}/reject"): DECIDE,
    ("POST", "/leases"): WORK,
    ("POST", "/leases/complete"): WORK,
    ("POST", "/leases/fail"): WORK,
    ("POST", "/leases/heartbeat"): WORK,
    ("POST", "/leases/release"): WORK,
    ("GET", "/events"): ALL,
    ("GET", "/tenant"): ALL,
    ("GET", "/tenant/caps"): ALL,
    ("PUT", "/tenant/caps"): ADMIN,
    ("PATCH", "/tenant/caps"): ADMIN,
    ("GET", "/workspaces"): ALL,
    ("PUT", "/workspaces/{name}"): ADMIN,
    ("GET", "/tenants"): ADMIN,
    ("POST", "/tenants"): ADMIN,
    ("GET", "/tenants/{name}"): ADMIN,
    ("PATCH", "/tenants/{name}"): ADMIN,
    ("POST", "/tenants/{name}/suspend"): ADMIN,
    ("POST", "/tenants/{name}/resume"): ADMIN,
    ("GET", "/freezes"): ALL,
    ("POST", "/freeze"): ADMIN,
    ("POST", "/unfreeze"): ADMIN,
    ("GET", "/keys"): ADMIN,
    ("POST", "/keys"): ADMIN,
    ("POST", "/keys/{id}/rotate"): ADMIN,
    ("DELETE", "/keys/{id}"): ADMIN,
    ("POST", "/leases/{id}/actions"): WORK,
    ("POST", "/leases/{id}/actions/{receipt}/outcome"): WORK,
    ("POST", "/leases/{id}/ask"): WORK,
    ("GET", "/receipts"): ALL,
    ("GET", "/receipts/{id}"): ALL,
    ("POST", "/receipts/{id}/settle"): DECIDE,
    ("POST", "/receipts/{id}/reverse"): OPERATE,
    ("POST", "/runs/{id}/undo"): OPERATE,
    ("GET", "/people"): ALL,
    ("PUT", "/people/{name}"): ADMIN,
    ("DELETE", "/people/{name}"): ADMIN,
    ("GET", "/runs/{id}/evidence"): ALL,
    ("GET", "/runs/{id}/logs"): ALL,
    ("GET", "/runs/{id}/steps/{step}/logs"): ALL,
    ("GET", "/tasks/{id}/logs"): ALL,
    ("POST", "/mcp"): ALL,  # its tools are requests to other routes, by the same key
    ("GET", "/checkpoints"): ALL,
    ("POST", "/checkpoints"): OPERATE,
    ("GET", "/checkpoints/consistency"): ALL,
    ("GET", "/signing-keys"): ALL,
    ("POST", "/signing-keys/rotate"): ADMIN,
    ("POST", "/tasks"): OPERATE,
    ("GET", "/tasks"): ALL,
    ("GET", "/tasks/{id}"): ALL,
    ("GET", "/tasks/{id}/events"): ALL,
    ("PATCH", "/tasks/{id}"): OPERATE,
    ("DELETE", "/tasks/{id}"): OPERATE,
    ("POST", "/tasks/{id}/run"): OPERATE,
    ("POST", "/tasks/{id}/cancel"): OPERATE,
    ("POST", "/tasks/{id}/accept"): DECIDE,
    ("POST", "/tasks/{id}/reject"): DECIDE,
    ("POST", "/tasks/{id}/resume"): OPERATE,
    ("POST", "/tasks/{id}/answer"): DECIDE,
    ("GET", "/webhooks"): ALL,
    ("GET", "/webhooks/{name}"): ALL,
    ("PUT", "/webhooks/{name}"): ADMIN,
    ("DELETE", "/webhooks/{name}"): ADMIN,
    ("GET", "/webhooks/{name}/deliveries"): ALL,
    ("POST", "/webhooks/{name}/replay"): OPERATE,
    ("POST", "/webhooks/{name}/deliveries/{id}/replay"): OPERATE,
    ("GET", "/tenant/slack"): ALL,
    ("PUT", "/tenant/slack"): ADMIN,
    ("DELETE", "/tenant/slack"): ADMIN,
}
# Signed by its sender, which is another matter (tests/notify).
SIGNED = {("POST", "/slack/actions")}


def example(pattern):
    """A path that fits the pattern and names nothing that is there."""
    ids = {"runs": NO_RUN, "approvals": NO_APPROVAL, "keys": NO_KEY, "workflows": "nope", "workspaces": "nope",
           "receipts": NO_RECEIPT, "tasks": NO_TASK, "leases": NO_RUN + ":nope"}
    return re.sub(r"\{\w+\}", ids.get(pattern.split("/")[1], "nope"), pattern)


class Roles(ApiCase):
    def ask(self, method, path, key):
        """The status alone: a feed has no end to read to."""
        connection = http.client.HTTPConnection(*self.server.address, timeout=TIMEOUT_S)
        connection.request(method, path, headers={"Authorization": "Bearer " + key} if key else {})
        response = connection.getresponse()
        body = response.read() if response.getheader("Content-Length") else b""
        connection.close()
        return response.status, body, response

    def test_the_table_has_every_route_there_is(self):
        if not SOURCE.exists():
            self.skipTest("without the source nobody knows the routes")
        found = set()
        for file in SOURCE.glob("routes_*.cc"):
            for method, pattern in re.findall(r'\{(?:Method::)?(\w+), "(/[^"]*)", (?:Access::)?\w+,', file.read_text()):
                found.add((method.upper().rstrip("_"), pattern))
        self.assertEqual(found, set(ROUTES) | SIGNED)

    def test_each_role_may_do_what_the_table_says_and_no_more(self):
        keys = {role: self.make_key(role) for role in ROLES}
        for (method, pattern), allowed in ROUTES.items():
            for role in ROLES:
                with self.subTest(route=f"{method} {pattern}", role=role):
                    status, body, _ = self.ask(method, example(pattern), keys[role])
                    if allowed is None or role in allowed:
                        self.assertNotIn(status, (401, 403, 405, 500, 503), body)
                    else:
                        self.assertEqual(status, 403, body)
                        self.assertIn(b'"FORBIDDEN"', body)

    def test_without_a_key_only_what_is_open_is_answered(self):
        for (method, pattern), allowed in ROUTES.items():
            with self.subTest(route=f"{method} {pattern}"):
                status, body, response = self.ask(method, example(pattern), None)
                self.assertEqual(status, 200 if allowed is None else 401, body)
                if allowed:
                    self.assertEqual(response.getheader("WWW-Authenticate"), "Bearer")

    def test_a_role_that_does_not_exist_cannot_be_given(self):
        for role in ("root", "Admin", "", None, 1):
            self.refused(self.admin.post("/keys", {"role": role}), 400, "INVALID_REQUEST")

    def test_what_is_forbidden_is_not_done(self):
        self.publish(GATED)
        run = self.create("gated")["id"]
        self.run_status(run, "waiting")
        for role in ("worker", "viewer"):
            who = self.as_role(role)
            self.refused(who.post(f"/runs/{run}/approve"), 403, "FORBIDDEN")
            self.refused(who.post("/runs", {"workflow": "gated"}), 403, "FORBIDDEN")
        self.assertEqual(self.get_run(run)["status"], "waiting")
        self.assertEqual(len(self.ok(self.admin.get("/runs")).json["items"]), 1)


class Keys(ApiCase):
    def works(self, key):
        status = self.client(key).get("/tenant").status
        self.assertIn(status, (200, 401))
        return status == 200

    def test_a_keys_text_is_shown_once(self):
        made = self.ok(self.admin.post("/keys", {"role": "viewer", "name": "ci"}), 201).json
        self.assertRegex(made["key"], r"^pawl_[0-9a-z]{26}_[0-9a-z]{38}$")
        self.assertTrue(self.works(made["key"]))
        listed = self.ok(self.admin.get("/keys"))
        mine = next(k for k in listed.json["items"] if k["id"] == made["id"])
        self.assertEqual((mine["name"], mine["role"], mine["active"], mine["expires_at"]), ("ci", "viewer", True, None))
        self.assertNotIn(made["key"].split("_")[2][:32].encode(), listed.body)

    def test_a_secret_lies_nowhere_in_the_folder(self):
        texts = [self.make_key(role) for role in ROLES]
        made = self.ok(self.admin.post("/keys", {"role": "viewer"}), 201).json
        texts += [made["key"], self.ok(self.admin.post(f"/keys/{made['id']}/rotate"), 201).json["key"]]
        clients = [self.client(text) for text in texts]
        for client in clients:
            client.get("/tenant")
        self.publish(REMOTE)
        for client in clients:
            client.post("/runs", {"workflow": "remote"}, {"Idempotency-Key": "x"})
        secrets = [text.split("_")[2][:32].encode() for text in [*texts, self.admin.key]]

        def search():
            for file in self.folder.rglob("*"):
                if file.is_file() and file.name != "admin.key":
                    content = file.read_bytes()
                    for secret in secrets:
                        self.assertNotIn(secret, content, file)

        search()
        self.server.stop()
        search()

    def test_files_with_secrets_are_their_owners_alone(self):
        for name in ("admin.key", "secret", "server.json"):
            self.assertEqual(stat.S_IMODE((self.data / name).stat().st_mode), 0o600, name)

    def test_a_malformed_key_is_refused_like_any_other_wrong_one(self):
        good = self.make_key("viewer")
        other = self.make_key("viewer")
        prefix, id, secret = good.split("_")
        flipped = secret[:-1] + ("0" if secret[-1] != "0" else "1")
        answers = set()
        for header in ("", "Bearer", "Bearer ", "Bearer x", good, "Basic " + good, "Bearer  " + good, "Token " + good,
                       f"Bearer {good}x", f"Bearer {good[:-1]}", f"Bearer {prefix}_{id}_{flipped}",
                       f"Bearer {prefix}_{id}_{other.split('_')[2]}", f"Bearer {good.upper()}",
                       f"Bearer {prefix}-{id}_{secret}", "Bearer " + "a" * 8000, f"Bearer pawl_{'0' * 26}_{'0' * 38}",
                       b"Bearer pawl_\xff\xfe"):
            with self.subTest(header=header):
                answer = self.client().request("GET", "/tenant", headers={"Authorization": header})
                self.refused(answer, 401, "UNAUTHORIZED")
                answers.add(answer.body)
        self.assertEqual(len(answers), 1)
        self.assertTrue(self.works(good))

    def test_the_scheme_may_be_written_in_any_case(self):
        self.ok(self.client().request("GET", "/tenant", headers={"Authorization": "bearer " + self.admin.key}))

    def test_a_key_ends_when_its_time_is_over(self):
        def attempt(span):
            made = self.ok(self.admin.post("/keys", {"role": "viewer", "expires_in": span}), 201).json
            if not self.works(made["key"]):
                self.assertTrue(self.is_past(made["expires_at"]))
                return None
            self.wait_past(made["expires_at"])
            self.assertFalse(self.works(made["key"]))
            return made["id"]

        key = self.growing(attempt)
        items = self.ok(self.admin.get("/keys")).json["items"]
        self.assertEqual([k["active"] for k in items if k["id"] == key], [False])

    def test_an_expired_key_stays_so_after_a_restart(self):
        key = self.make_key("viewer", expires_in="1ms")
        self.until(lambda: self.works(key), lambda works: not works, "the key has expired")
        self.restart(kill=True)
        self.assertFalse(self.works(key))

    def test_rotation_leaves_both_keys_good_for_the_overlap(self):
        def attempt(span):
            old = self.ok(self.admin.post("/keys", {"role": "operator", "name": "ci"}), 201).json
            begin = time.monotonic()
            new = self.ok(self.admin.post(f"/keys/{old['id']}/rotate", {"overlap": span}), 201).json
            self.assertEqual((new["name"], new["role"]), ("ci", "operator"))
            self.assertNotEqual(new["id"], old["id"])
            if not self.works(old["key"]):
                self.assertGreaterEqual(time.monotonic() - begin, int(span.removesuffix("ms")) / 1000)
                return None
            self.assertTrue(self.works(new["key"]))
            self.until(lambda: self.works(old["key"]), lambda works: not works, "the old key has ended")
            return self.works(new["key"])

        self.assertTrue(self.growing(attempt))

    def test_rotation_without_overlap_ends_the_old_key_at_once(self):
        old = self.ok(self.admin.post("/keys", {"role": "viewer"}), 201).json
        new = self.ok(self.admin.post(f"/keys/{old['id']}/rotate", {"overlap": "0s"}), 201).json
        self.assertFalse(self.works(old["key"]))
        self.assertTrue(self.works(new["key"]))

    def test_rotation_keeps_the_expiry_unless_another_is_given(self):
        old = self.ok(self.admin.post("/keys", {"role": "viewer", "expires_in": "30d"}), 201).json
        new = self.ok(self.admin.post(f"/keys/{old['id']}/rotate"), 201).json
        self.assertEqual(new["expires_at"], old["expires_at"])
        other = self.ok(self.admin.post(f"/keys/{new['id']}/rotate", {"expires_in": "60d"}), 201).json
        self.assertGreater(other["expires_at"], new["expires_at"])
        never = self.ok(self.admin.post("/keys", {"role": "viewer"}), 201).json
        self.assertIsNone(self.ok(self.admin.post(f"/keys/{never['id']}/rotate"), 201).json["expires_at"])

    def test_a_key_that_was_replaced_or_revoked_or_is_past_its_time_is_not_rotated(self):
        replaced = self.ok(self.admin.post("/keys", {"role": "viewer"}), 201).json["id"]
        self.ok(self.admin.post(f"/keys/{replaced}/rotate"), 201)
        revoked = self.ok(self.admin.post("/keys", {"role": "viewer"}), 201).json["id"]
        self.ok(self.admin.delete(f"/keys/{revoked}"))
        over = self.ok(self.admin.post("/keys", {"role": "viewer", "expires_in": "1ms"}), 201).json
        self.until(lambda: self.works(over["key"]), lambda works: not works, "the key has expired")
        for _ in range(2):
            for key in (replaced, revoked, over["id"]):
                self.refused(self.admin.post(f"/keys/{key}/rotate", {"expires_in": "1h"}), 409, "KEY_NOT_ACTIVE")
            self.restart(kill=True)

    def test_a_key_lives_for_a_while(self):
        made = self.ok(self.admin.post("/keys", {"role": "viewer"}), 201).json["id"]
        for path in ("/keys", f"/keys/{made}/rotate"):
            for lifetime in ("0s", "0ms", "0h0m"):
                body = {"expires_in": lifetime, **({"role": "viewer"} if path == "/keys" else {})}
                answer = self.refused(self.admin.post(path, body), 400, "INVALID_REQUEST")
                self.assertEqual(answer.json["where"], "/expires_in")

    def test_a_revoked_key_is_refused_from_the_next_request_on(self):
        made = self.ok(self.admin.post("/keys", {"role": "viewer"}), 201).json
        kept_alive = self.client(made["key"])
        self.ok(kept_alive.get("/tenant"))
        self.assertFalse(self.ok(self.admin.delete("/keys/" + made["id"])).json["active"])
        self.refused(kept_alive.get("/tenant"), 401, "UNAUTHORIZED")
        self.ok(self.admin.delete("/keys/" + made["id"]))
        self.restart(kill=True)
        self.assertFalse(self.works(made["key"]))

    def test_an_admin_who_revoked_all_keys_finds_a_new_one_after_a_restart(self):
        own = self.ok(self.admin.get("/keys")).json["items"][0]["id"]
        self.ok(self.admin.delete("/keys/" + own))
        self.refused(self.admin.get("/tenant"), 401, "UNAUTHORIZED")
        self.restart(kill=False)
        self.assertTrue(self.works((self.data / "admin.key").read_text().strip()))
        self.assertFalse(self.works(self.admin.key))

    def test_keys_survive_a_kill(self):
        key = self.make_key("viewer")
        self.restart(kill=True)
        self.assertTrue(self.works(key))


class TwoTenants(ApiCase):
    """`self.admin` has things; `self.stranger` must not learn of them."""

    def setUp(self):
        super().setUp()
        self.stranger = self.make_tenant("elsewhere")

    def test_only_admins_of_the_default_tenant_make_tenants(self):
        self.refused(self.stranger.get("/tenants"), 403, "FORBIDDEN")
        self.refused(self.stranger.post("/tenants", {"name": "more"}), 403, "FORBIDDEN")
        names = [t["name"] for t in self.ok(self.admin.get("/tenants")).json["items"]]
        self.assertEqual(sorted(names), ["default", "elsewhere"])

    def test_a_tenant_is_made_once(self):
        again = self.ok(self.admin.post("/tenants", {"name": "elsewhere"}), 200).json
        self.assertEqual(again["id"], self.ok(self.stranger.get("/tenant")).json["id"])
        for name in ("", "a b", "-x", "x" * 65, None, 7):
            self.refused(self.admin.post("/tenants", {"name": name}), 400, "INVALID_REQUEST")

    def test_only_the_default_tenant_gives_keys_of_other_tenants_and_nobody_learns_which_there_are(self):
        real = self.stranger.post("/keys", {"role": "viewer", "tenant": "default"})
        none = self.stranger.post("/keys", {"role": "viewer", "tenant": "nope"})
        self.refused(real, 403, "FORBIDDEN")
        self.assertEqual((real.status, real.body), (none.status, none.body))
        self.ok(self.stranger.post("/keys", {"role": "viewer", "tenant": "elsewhere"}), 201)

    def things(self):
        """Ids of everything that the default tenant has; the run waits, so that each decision would fit it."""
        self.publish(GATED)
        self.publish(REMOTE)
        run = self.create("gated")["id"]
        waiting = self.run_status(run, "waiting")
        self.create("remote")
        lease = self.lease_one()
        ended = self.create("remote")["id"]
        self.ok(self.admin.post(f"/runs/{ended}/cancel"))
        external = self.create("remote", provider="external")["id"]
        key = self.ok(self.admin.post("/keys", {"role": "viewer"}), 201).json["id"]
        return {"run": run, "approval": waiting["approvals"][0]["id"], "lease": lease, "ended": ended,
                "external": external, "key": key}

    def same_for_all(self, ask, ids):
        """Asks with each id and compares all that can be seen of the answers; gives one of them."""
        answers = [ask(id) for id in ids]
        own = ("Date", "X-Request-Id")  # of each answer, whatever was asked
        seen = {(a.status, a.body, tuple((k, v) for k, v in a.headers.items() if k not in own)) for a in answers}
        self.assertEqual(len(seen), 1, seen)
        return answers[0]

    def test_anothers_object_is_the_same_as_one_that_never_was_and_as_garbage(self):
        things = self.things()
        run, garbage = things["run"], ["x", "run_", "run_" + "z" * 26, "%00", "%ff", "..",
                                       "run_01kaw3v9m8f2hr4x6q0t7c5ezy0"]
        own = self.start(GATED, self.stranger)["id"]
        self.run_status(own, "waiting", self.stranger)
        events = {r: self.events(r) for r in (run, things["ended"], things["external"], things["lease"]["run_id"])}
        approval = things["approval"]

        def post(path, body=None, **query):
            return lambda id: self.stranger.post(path.format(id), body, **query)

        on_runs = [("GET", lambda id: self.stranger.get(f"/runs/{id}")),
                   ("GET at", lambda id: self.stranger.get(f"/runs/{id}", at=1)),
                   ("GET words", lambda id: self.stranger.get(f"/runs/{id}", vocabulary="runtime")),
                   ("events", lambda id: self.stranger.get(f"/runs/{id}/events")),
                   ("HEAD", lambda id: self.stranger.request("HEAD", f"/runs/{id}")),
                   ("approve", post("/runs/{}/approve")),
                   ("approve one", post("/runs/{}/approve", {"approval_id": approval})),
                   ("reject", post("/runs/{}/reject", {"reason": "x"})), ("cancel", post("/runs/{}/cancel")),
                   ("retry", post("/runs/{}/retry")),
                   ("answer", post("/runs/{}/answer", {"step": "gate", "answer": 1})),
                   ("status", post("/runs/{}/status", {"status": "running"}))]
        for name, ask in on_runs:
            with self.subTest(name):
                answer = self.same_for_all(ask, [*events, NO_RUN, *garbage])
                self.assertEqual(answer.status, 404, answer)
        for verb in ("approve", "reject"):
            with self.subTest(f"approvals {verb}"):
                answer = self.same_for_all(post("/approvals/{}/" + verb), [approval, NO_APPROVAL, *garbage])
                self.refused(answer, 404, "NOT_FOUND")
            with self.subTest(f"an approval of another tenant in an own run, {verb}"):
                ask = lambda id: self.stranger.post(f"/runs/{own}/{verb}", {"approval_id": id})
                self.refused(self.same_for_all(ask, [approval, NO_APPROVAL]), 404, "NOT_FOUND")
        for name, ask in (("delete", lambda id: self.stranger.delete(f"/keys/{id}")),
                          ("rotate", post("/keys/{}/rotate"))):
            with self.subTest(f"keys {name}"):
                self.refused(self.same_for_all(ask, [things["key"], NO_KEY, *garbage]), 404, "NOT_FOUND")
        with self.subTest("workflows"):
            for query in ({}, {"version": 1}):
                ask = lambda id: self.stranger.get(f"/workflows/{id}", **query)
                self.refused(self.same_for_all(ask, ["remote", "nope", "%ff", ".."]), 404, "NOT_FOUND")
            ask = lambda id: self.stranger.post("/runs", {"workflow": id})
            self.refused(self.same_for_all(ask, ["remote", "nope"]), 422, "UNKNOWN_WORKFLOW")
        self.assertEqual({r: self.events(r) for r in events}, events)
        self.assertTrue(self.works_still(things["key"]))

    def works_still(self, key):
        return next(k["active"] for k in self.ok(self.admin.get("/keys")).json["items"] if k["id"] == key)

    def test_anothers_lease_is_the_same_as_one_that_never_was(self):
        lease = self.things()["lease"]
        for verb in ("complete", "fail", "release", "heartbeat"):
            results = []
            for id in (lease["lease_id"], f"{NO_RUN}:only", "garbage"):
                result = self.report(verb, {"lease_id": id, "token": lease["token"]}, self.stranger)
                del result["lease_id"]
                results.append(result)
            self.assertEqual(results, [{"ok": False, "code": "LEASE_LOST", "cancel": True}] * 3)
        self.complete(lease)

    def test_lists_show_nothing_of_another_tenant(self):
        things = self.things()
        self.ok(self.admin.put("/workspaces/lab", {"weight": 3}))
        own = self.ok(self.stranger.get("/keys")).json["items"]
        self.assertEqual(len(own), 1)
        for path in ("/runs", "/approvals", "/workflows", "/workspaces"):
            with self.subTest(path):
                self.assertEqual(self.ok(self.stranger.get(path)).json["items"], [])
        for query in ({"q": things["run"]}, {"q": "gated"}, {"workflow": "gated"}, {"status": "waiting"},
                      {"cursor": "run_7zzzzzzzzzzzzzzzzzzzzzzzzz"}, {"since": "2000-01-01T00:00:00Z"}):
            with self.subTest(query):
                self.assertEqual(self.ok(self.stranger.get("/runs", **query)).json, {"items": [], "next_cursor": None})
        self.assertEqual(self.ok(self.stranger.get("/tenant")).json["workspaces"], [])

    def test_a_worker_gets_nothing_of_another_tenant(self):
        self.things()
        self.create("remote")
        self.assertEqual(self.lease(self.stranger, max=100), [])

    def test_the_same_names_are_different_things(self):
        self.publish(REMOTE)
        self.publish(REMOTE + "# changed\n")
        self.assertEqual(self.publish(REMOTE, self.stranger), 1)
        run = self.create("remote", self.stranger)
        self.assertEqual(run["version"], 1)
        self.assertEqual(self.lease(max=10), [])
        self.assertEqual(self.lease_one(self.stranger)["run_id"], run["id"])


def set_of(limits):
    """Those that are not null."""
    return {name: value for name, value in limits.items() if value is not None}


class Caps(ApiCase):
    def cap(self, who=None, **caps):
        return self.ok((who or self.admin).put("/tenant/caps", caps)).json

    def batch(self, count, workflow="remote", who=None):
        items = self.ok((who or self.admin).post("/runs/batch",
                                                 {"items": [{"workflow": workflow}] * count})).json["items"]
        return [item["id"] for item in items]

    def test_put_replaces_the_caps_and_patch_changes_some(self):
        def patch(**caps):
            return self.ok(self.admin.request("PATCH", "/tenant/caps", caps)).json

        self.cap(max_concurrency=2, max_runs_per_min=60, weight=3)
        tenant = patch(max_concurrency=5)
        self.assertEqual(set_of(tenant["caps"]), {"max_concurrency": 5, "max_runs_per_min": 60})
        self.assertEqual(patch(max_runs_per_min=None, weight=4)["caps"]["max_runs_per_min"], None)
        self.assertEqual(patch()["weight"], 4)
        self.restart(kill=True)
        tenant = self.ok(self.admin.get("/tenant")).json
        self.assertEqual((tenant["weight"], tenant["caps"]["max_concurrency"]), (4, 5))
        tenant = self.cap(max_writes_per_run=1)
        self.assertEqual(set_of(tenant["caps"]), {"max_writes_per_run": 1})
        self.assertEqual(tenant["weight"], 4)
        for caps in ({"max_concurrency": 0}, {"max_runs_per_min": "5"}, {"weight": 0}, {"unheard": 1}):
            self.refused(self.admin.request("PATCH", "/tenant/caps", caps), 400, "INVALID_REQUEST")

    def test_caps_are_shown_as_they_were_set(self):
        self.assertEqual(self.cap(weight=5, max_concurrency=2)["weight"], 5)
        tenant = self.ok(self.admin.get("/tenant")).json
        self.assertEqual(set_of(tenant["caps"]), {"max_concurrency": 2})
        for caps in ({"max_concurrency": 0}, {"max_concurrency": -1}, {"max_runs_per_min": "5"}, {"weight": 0},
                     {"weight": 1001}, {"max_concurency": 1}, {"max_concurrency": 2**40}):
            self.refused(self.admin.put("/tenant/caps", caps), 400, "INVALID_REQUEST")
        self.restart(kill=True)
        self.assertEqual(self.ok(self.admin.get("/tenant")).json, tenant)

    def test_no_more_steps_run_at_once_than_max_concurrency(self):
        self.publish(REMOTE)
        self.cap(max_concurrency=2)
        self.batch(5)
        leases = self.lease(max=10)
        self.assertEqual(len(leases), 2)
        self.assertEqual(self.lease(max=10), [])
        self.complete(leases[0])
        self.assertEqual(len(self.lease(max=10)), 1)

    def test_max_concurrency_counts_built_in_steps_too(self):
        self.publish("workflow: slow\nsteps:\n"
                     "  - {id: a, tool: shell, with: {idempotent: true, argv: [sleep, '300']}}\n")
        self.cap(max_concurrency=3)
        self.batch(6, "slow")
        running = lambda: len(self.ok(self.admin.get("/runs", status="running")).json["items"])
        self.until(running, lambda n: n == 3, "three run")
        self.restart(kill=True)
        self.until(running, lambda n: n == 3, "three run again")

    def test_max_concurrency_holds_over_a_kill(self):
        self.publish(REMOTE)
        self.cap(max_concurrency=2)
        self.batch(5)
        leases = self.lease(max=10)
        self.restart(kill=True)
        self.assertEqual(self.lease(max=10), [])
        self.complete(leases[1])
        self.assertEqual(len(self.lease(max=10)), 1)

    def test_no_more_runs_start_in_a_minute_than_max_runs_per_min_and_none_is_lost(self):
        self.publish(REMOTE)
        self.cap(max_runs_per_min=3)
        runs = self.batch(6)
        started = {lease["run_id"] for lease in self.lease(max=10)}
        self.assertEqual(len(started), 3)
        self.restart(kill=True)
        self.assertEqual(self.lease(max=10), [])
        self.assertEqual({self.get_run(run)["status"] for run in set(runs) - started}, {"created"})

    def test_a_pace_that_is_lifted_lets_go_at_once_what_it_held_back(self):
        self.publish(REMOTE)
        self.cap(max_runs_per_min=3)
        self.batch(6)
        self.assertEqual(len(self.lease(max=10)), 3)
        self.cap()
        self.lease_count(3)

    def test_a_concurrency_that_is_raised_lets_go_at_once_what_it_held_back(self):
        self.publish(REMOTE)
        self.cap(max_concurrency=1)
        self.batch(4)
        self.assertEqual(len(self.lease(max=10)), 1)
        self.cap(max_concurrency=3)
        self.assertEqual(len(self.lease(max=10)), 2)

    def test_runs_that_start_at_a_gate_are_paced_too(self):
        self.publish(GATED)
        self.cap(max_runs_per_min=2)
        self.batch(5, "gated")
        waiting = lambda: len(self.ok(self.admin.get("/runs", status="waiting")).json["items"])
        self.until(waiting, lambda n: n == 2, "two have started")
        # A third would have started before a run that another tenant creates now.
        other = self.make_tenant("elsewhere")
        self.run_status(self.start(GATED, other)["id"], "waiting", other)
        self.assertEqual(waiting(), 2)

    def test_a_run_writes_no_more_often_than_max_writes_per_run(self):
        self.cap(max_writes_per_run=1)
        run = self.start("workflow: twice\nsteps:\n  - {id: a, tool: test.work}\n  - {id: b, tool: test.work}\n")["id"]
        self.complete(self.lease_one())
        self.assertEqual(self.lease(max=10), [])
        ended = self.get_run(run)
        self.assertEqual((ended["status"], ended["error_code"]), ("denied", "WRITE_CAP_EXCEEDED"))

    def test_a_workflow_has_caps_of_its_own(self):
        self.publish("workflow: narrow\ncaps: {max_concurrency: 1}\nsteps:\n  - {id: a, tool: test.work}\n")
        self.publish(REMOTE)
        self.batch(3, "narrow")
        self.batch(3)
        leases = self.lease(max=10)
        self.assertEqual(len(leases), 4)

    def test_what_caps_held_back_is_counted_by_cap(self):
        def held(who=None):
            return self.ok((who or self.admin).get("/tenant/caps")).json["held_back"]

        stranger = self.make_tenant("elsewhere")
        self.publish(REMOTE)
        self.assertEqual(held(), {"max_concurrency": 0, "max_runs_per_min": 0, "max_writes_per_run": 0})
        self.cap(max_concurrency=1)
        self.batch(2)
        lease = self.lease_one()
        self.assertEqual(self.lease(max=10), [])
        first = held()
        self.assertGreaterEqual(first["max_concurrency"], 1)
        self.assertEqual((first["max_runs_per_min"], first["max_writes_per_run"]), (0, 0))
        self.complete(lease)
        self.cap(max_runs_per_min=1)
        self.lease(max=10)
        self.batch(2)
        self.lease(max=10)
        self.assertGreaterEqual(held()["max_runs_per_min"], 1)
        self.cap(max_writes_per_run=0)
        self.until(lambda: (self.lease(max=10), held())[1], lambda now: now["max_writes_per_run"] >= 1, "it is counted")
        self.assertEqual(held(stranger), {"max_concurrency": 0, "max_runs_per_min": 0, "max_writes_per_run": 0})
        figures = self.ok(self.admin.get("/metrics")).body.decode()
        tenant = self.ok(self.admin.get("/tenant")).json["id"]
        for cap, times in held().items():
            self.assertIn(f'pawl_held_back_total{{tenant="{tenant}",cap="{cap}"}} {times}', figures)

    def test_one_tenants_caps_hold_no_other_back(self):
        stranger = self.make_tenant("elsewhere")
        self.publish(REMOTE)
        self.publish(REMOTE, stranger)
        self.cap(max_concurrency=1)
        self.batch(3)
        self.batch(3, who=stranger)
        self.assertEqual(len(self.lease(max=10)), 1)
        self.assertEqual(len(self.lease(stranger, max=10)), 3)


if __name__ == "__main__":
    unittest.main()
