"""GET /audit: who changed what in a tenant, with filters, a cursor and the hashes of the chain."""
import hashlib
import json
import unittest

from api_case import GATED, INSTANT, ApiCase
from waiting import until  # noqa: E402: api_case knows the way to it


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


class Audit(ApiCase):
    def audit(self, **query):
        return self.ok(self.admin.get("/audit", **query)).json["items"]

    def all_pages(self, limit, **query):
        items, cursor = [], None
        while True:
            place = {"cursor": cursor} if cursor else {}
            page = self.ok(self.admin.get("/audit", limit=limit, **query, **place)).json
            self.assertLessEqual(len(page["items"]), limit)
            items += page["items"]
            cursor = page["next_cursor"]
            if not cursor:
                return items

    def test_the_pages_are_one_chain_from_the_newest_event_to_the_first(self):
        self.publish(INSTANT)
        self.publish(GATED)
        self.assertIn(self.admin.post("/checkpoints").status, (200, 201))
        self.publish(INSTANT + "# changed\n")
        whole = self.all_pages(500)
        for limit in (1, 3):
            self.assertEqual(self.all_pages(limit)[-len(whole):], whole)
        self.assertEqual([each["seq"] for each in whole], list(range(len(whole), 0, -1)))
        for newer, older in zip(whole, whole[1:]):
            self.assertEqual(newer["previous_hash"], older["hash"])
        for each in whole:
            digest = hashlib.sha256(bytes.fromhex(each["previous_hash"]) + canonical(each["event"])).hexdigest()
            self.assertEqual(each["hash"], digest, each)
            self.assertEqual(each["type"], each["event"]["type"])

    def test_filters_choose_by_actor_type_object_and_time(self):
        self.publish(INSTANT)
        self.publish(GATED)
        key = self.ok(self.admin.post("/keys", {"role": "viewer", "name": "wall"}), 201).json
        self.assertEqual([each["event"]["name"] for each in self.audit(type="key.created", object=key["id"])], ["wall"])
        self.assertEqual({each["type"] for each in self.audit(type="workflow.*")}, {"workflow.published"})
        gated = self.audit(type="workflow.*", object="gated")
        self.assertEqual([each["event"]["workflow"] for each in gated], ["gated"])
        mine = self.audit(object=key["id"])[0]
        self.assertIn(mine, self.audit(actor=mine["by"]))
        self.assertEqual(self.audit(actor="key:nobody"), [])
        bare = mine["by"].removeprefix("key:")
        for actor in (f"key_{bare}", f"key:key_{bare}"):
            self.assertEqual(self.audit(actor=actor), self.audit(actor=mine["by"]), actor)
        self.assertIn(mine, self.audit(since=mine["at"]))
        self.assertNotIn(mine, self.audit(until=mine["at"]))
        self.refused(self.admin.get("/audit", since="yesterday"), 400, "INVALID_REQUEST")
        self.refused(self.admin.get("/audit", color="red"), 400, "INVALID_REQUEST")

    def test_types_can_be_left_out_and_several_be_asked_for(self):
        self.publish(INSTANT)
        self.ok(self.admin.post("/keys", {"role": "viewer", "name": "wall"}), 201)
        all_types = {each["type"] for each in self.audit(limit=500)}
        self.assertLess({"key.created", "workflow.published"}, all_types)
        self.assertEqual({each["type"] for each in self.audit(type="!key.created,!checkpoint.*", limit=500)},
                         {each for each in all_types if each != "key.created" and not each.startswith("checkpoint.")})
        self.assertEqual({each["type"] for each in self.audit(type="key.created,workflow.*", limit=500)},
                         {each for each in all_types if each == "key.created" or each.startswith("workflow.")})
        self.assertEqual(self.audit(type="key.*,!key.created", limit=500), [])

    def test_an_object_is_found_in_lists_too(self):
        key = self.ok(self.admin.post("/keys", {"role": "approver", "name": "eves"}), 201).json
        self.ok(self.admin.put("/people/eve", {"keys": [key["id"]], "groups": ["release-managers"]}))
        for thing in ("eve", key["id"], "release-managers"):
            found = [each["event"] for each in self.audit(type="person.set", object=thing)]
            self.assertEqual([event["name"] for event in found], ["eve"], thing)
        self.assertEqual(self.audit(type="person.set", object="release"), [])

    def test_a_run_shows_where_its_bundle_is(self):
        run = self.start(INSTANT)["id"]
        self.assertIn("bundle", self.ok(self.admin.get(f"/runs/{run}")).json)
        bundle = until(lambda: self.ok(self.admin.get(f"/runs/{run}")).json["bundle"], bool, "its bundle is stored")
        (stored,) = self.audit(type="bundle.stored", object=run)
        self.assertEqual(bundle, {"sha256": stored["event"]["sha256"], "location": stored["event"]["where"],
                                  "stored_at": stored["at"]})

    def test_a_refused_request_on_an_ended_run_is_found_by_the_run(self):
        run = self.start(INSTANT)
        self.run_status(run["id"], "success")
        self.assertEqual(self.admin.post(f"/runs/{run['id']}/cancel", {}).status, 409)
        refused = self.audit(type="transition.refused", object=run["id"])
        self.assertEqual([each["event"]["state"] for each in refused], ["success"])
        self.assertTrue(refused[0]["by"].startswith("key:"))

    def test_it_is_the_tenants_own_and_for_its_admins(self):
        self.publish(INSTANT)
        self.assertEqual(self.as_role("operator").get("/audit").status, 403)
        other = self.make_tenant("other")
        self.assertNotIn("instant", json.dumps(self.ok(other.get("/audit")).json))


if __name__ == "__main__":
    unittest.main()
