"""Approvals that somebody in the real Restate waits for: an awakeable, and a promise behind a handler."""
import json
import subprocess
import unittest
import zipfile

from provider_case import PAWL, HANG_S, RestateCase

AWAKEABLE = """
workflow: waits
provider: restate
target: {service: Demo, handler: waits}
approvals:
  - {id: sign-off, tier: high, prompt: "Pay ${{ input.amount }}?"}
"""

PROMISE = """
workflow: order
provider: restate
target: {service: Order, handler: run}
approvals:
  - {id: sign-off, two_person: true}
"""


class Bound(RestateCase):
    def begin(self, source):
        self.publish(source)
        key = self.make_key("worker")
        run = self.create(source.split()[1], input={"pawl": "http://127.0.0.1:%d" % self.server.address[1], "key": key,
                                                    "amount": 12})["id"]
        self.seen(run, lambda r: r["approvals"], "asking")
        return run

    def test_an_approved_awakeable_is_resolved_with_the_decision(self):
        run = self.begin(AWAKEABLE)
        seen = self.get_run(run)
        self.assertEqual((seen["status"], seen["sub_state"]), ("waiting", "waiting"))
        self.assertEqual(seen["approvals"][0]["prompt"], "Pay 12?")
        inbox = self.ok(self.admin.get("/approvals")).json["items"]
        self.assertEqual([(row["run_id"], row["step"]) for row in inbox], [(run, "sign-off")])
        self.ok(self.admin.post(f"/approvals/{inbox[0]['id']}/approve", {"reason": "fine"}))
        done = self.run_status(run, "success")
        decided = done["foreign"]["output"]["decided"]
        self.assertEqual((decided["decision"], decided["gate"], decided["reason"]), ("approved", "sign-off", "fine"))

    def test_the_journal_verifies_and_a_bundle_proves_who_allowed_it_without_showing_the_output(self):
        run = self.begin(AWAKEABLE)
        self.ok(self.admin.post(f"/runs/{run}/approve", {"reason": "fine"}))
        self.run_status(run, "success")
        bundle = self.folder / "bundle.zip"
        bundle.write_bytes(self.ok(self.admin.get(f"/runs/{run}/evidence")).body)
        signing = subprocess.run([PAWL, "keys", "signing", "--json", "--data", self.data], capture_output=True,
                                 text=True,
                                 check=True, timeout=HANG_S).stdout.splitlines()
        key = json.loads(signing[-1])["id"]
        checked = subprocess.run([PAWL, "verify", bundle, "--key", key], capture_output=True, text=True, timeout=HANG_S)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        with zipfile.ZipFile(bundle) as parts:
            events = [json.loads(line) for line in parts.read("events.jsonl").decode().splitlines()]
        text = json.dumps(events)
        self.assertIn("approval.approved", text)
        self.assertNotIn('"decided"', text)
        if not self.server.store:
            self.server.stop()
            whole = subprocess.run([PAWL, "verify", "--data", self.data], capture_output=True, text=True,
                                   timeout=HANG_S)
            self.assertEqual(whole.returncode, 0, whole.stdout + whole.stderr)

    def test_a_rejected_awakeable_denies_the_run_that_ends_by_it(self):
        run = self.begin(AWAKEABLE)
        self.ok(self.admin.post(f"/runs/{run}/reject", {"reason": "too much"}))
        ended = self.terminal(run)
        self.assertEqual((ended["status"], ended["error_code"], ended["sub_state"]),
                         ("denied", "APPROVAL_REJECTED", "failed"))
        self.assertIn("too much", ended["diagnostic"]["cause"]["message"])

    def test_a_promise_behind_a_handler_is_resolved_by_two_people(self):
        run = self.begin(PROMISE)
        ada, bob = self.as_person("ada"), self.as_person("bob")
        self.ok(ada.post(f"/runs/{run}/approve"))
        self.assertEqual(self.get_run(run)["status"], "waiting")
        self.ok(bob.post(f"/runs/{run}/approve"))
        done = self.run_status(run, "success")
        self.assertEqual(done["foreign"]["output"], {"key": run, "by": "person:bob"})

    def test_a_rejected_promise_denies_the_run_that_ends_by_it(self):
        run = self.begin(PROMISE)
        self.ok(self.as_person("ada").post(f"/runs/{run}/reject", {"reason": "no"}))
        self.assertEqual(self.terminal(run)["status"], "denied")

    def test_a_decision_survives_a_kill_of_pawl_and_of_restate(self):
        run = self.begin(AWAKEABLE)
        # What it asked is durable there: it does not ask again, of a pawl that is to be found elsewhere then.
        self.seen(run, lambda r: r["provider_state"] == "suspended", "suspended")
        self.restate.server.kill()
        self.ok(self.admin.post(f"/runs/{run}/approve"))
        self.restart()
        self.restate.restart_server()
        self.assertEqual(self.run_status(run, "success")["foreign"]["output"]["decided"]["decision"], "approved")
        self.assertEqual(self.types(run).count("approval.told") <= 1, True)

    def test_what_is_asked_wrongly_is_refused_and_harms_nothing(self):
        run = self.begin(AWAKEABLE)
        ask = lambda **body: self.admin.post(f"/runs/{run}/approvals", body)  # noqa: E731
        good = {"kind": "awakeable", "address": "sign_2"}
        self.refused(ask(approval="nowhere", callback=good), 400, "INVALID_REQUEST")
        self.refused(ask(approval="sign-off", callback={"kind": "task_token", "address": "t"}), 400, "INVALID_REQUEST")
        self.refused(ask(approval="sign-off", callback={"kind": "carrier-pigeon", "address": "t"}), 400,
                     "INVALID_REQUEST")
        self.refused(ask(approval="sign-off"), 400, "INVALID_REQUEST")
        self.refused(ask(callback=good), 400, "INVALID_REQUEST")
        native = self.start("workflow: own\nsteps: [{id: a, tool: approval}]\n")["id"]
        self.refused(self.admin.post(f"/runs/{native}/approvals", {"approval": "a", "callback": good}), 409,
                     "NOT_EXTERNAL")
        self.assertEqual(len(self.get_run(run)["approvals"]), 1)
        self.assertEqual(self.as_role("viewer").post(f"/runs/{run}/approvals", {}).status, 403)


if __name__ == "__main__":
    unittest.main()
