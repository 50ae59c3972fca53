"""Runs that another orchestrator carries: it reports, contract v1 is enforced."""
import itertools
import unittest

from api_case import REMOTE, TERMINAL, ApiCase


class ExternalRuns(ApiCase):
    """Some other orchestrator executes the run and reports; contract v1 is enforced on it."""

    STATUSES = ["created", "running", "waiting", "success", "failed", "denied", "timeout", "canceled"]
    LEGAL = {("created", "running"), ("running", "waiting"), ("waiting", "running"), ("running", "success"),
             ("running", "failed"), ("running", "denied"), ("running", "timeout"), ("running", "canceled"),
             ("waiting", "canceled")}
    DIAGNOSTIC = {"error_code": "SORRY", "category": "dependency", "message": "it broke", "likely_cause": "rust",
                  "suggested_fix": "oil", "retryable": True, "severity": "high"}

    def setUp(self):
        super().setUp()
        self.publish(REMOTE)

    def say(self, run, status, **more):
        if status in ("failed", "denied", "timeout"):
            more.setdefault("diagnostic", self.DIAGNOSTIC)
        return self.admin.post(f"/runs/{run}/status", {"status": status, **more})

    def run_in(self, status):
        run = self.create("remote", provider="external")["id"]
        path = {"created": [], "running": ["running"], "waiting": ["running", "waiting"]}.get(status,
                                                                                              ["running", status])
        for word in path:
            self.ok(self.say(run, word))
        return run

    def test_an_external_run_is_given_to_no_worker(self):
        self.run_in("created")
        self.run_in("running")
        self.assertEqual(self.lease(), [])

    def test_every_legal_transition_is_taken_and_is_one_event(self):
        for before, after in sorted(self.LEGAL):
            with self.subTest(before=before, after=after):
                run = self.run_in(before)
                events = len(self.events(run))
                moved = self.ok(self.say(run, after)).json
                self.assertEqual(moved["status"], after)
                self.assertEqual(len(self.events(run)), events + 1)
                if after in ("failed", "denied", "timeout"):
                    seen = {key: moved["diagnostic"][key] for key in self.DIAGNOSTIC}
                    self.assertEqual(seen, self.DIAGNOSTIC)
                    self.assertEqual((moved["error_code"], moved["retryable"]), ("SORRY", True))
                else:
                    self.assertIsNone(moved["error_code"])

    def check_illegal(self, before, after):
        run = self.run_in(before)
        answer = self.say(run, after)
        if before in TERMINAL:
            self.refused(answer, 409, "RUN_ENDED")
            self.assertEqual(self.get_run(run)["status"], before)
            return
        self.refused(answer, 409, "INVALID_STATE_TRANSITION")
        failed = self.get_run(run)
        self.assertEqual((failed["status"], failed["error_code"]), ("failed", "INVALID_STATE_TRANSITION"))
        refused = [e["event"] for e in self.events(run) if e["event"]["type"] == "transition.refused"]
        self.assertEqual([(e["state"], e["code"]) for e in refused], [(before, "INVALID_STATE_TRANSITION")])

    def test_every_illegal_transition_is_rejected_audited_and_fails_the_run(self):
        for before, after in itertools.product(self.STATUSES, self.STATUSES):
            if (before, after) in self.LEGAL or after == "created":
                continue
            with self.subTest(before=before, after=after):
                self.check_illegal(before, after)

    def test_a_run_that_is_reported_as_created_again_fails_too(self):
        for before in self.STATUSES:
            with self.subTest(before=before):
                self.check_illegal(before, "created")

    def test_a_failure_without_a_diagnostic_is_an_invalid_report(self):
        for status in ("failed", "denied", "timeout"):
            with self.subTest(status=status):
                run = self.run_in("running")
                answer = self.admin.post(f"/runs/{run}/status", {"status": status})
                self.refused(answer, 409, "INVALID_STATE_TRANSITION")
                self.assertEqual(self.get_run(run)["error_code"], "INVALID_STATE_TRANSITION")

    def test_a_diagnostic_that_is_incomplete_is_refused_and_harms_nothing(self):
        run = self.run_in("running")
        for diagnostic in ({"message": "x"}, {"error_code": "X"}, {**self.DIAGNOSTIC, "category": "weather"},
                           {**self.DIAGNOSTIC, "retryable": "yes"}, {**self.DIAGNOSTIC, "extra": 1}, "broken"):
            with self.subTest(diagnostic=diagnostic):
                self.refused(self.say(run, "failed", diagnostic=diagnostic), 400, "INVALID_REQUEST")
        self.assertEqual(self.get_run(run)["status"], "running")

    def test_a_status_that_is_no_word_is_refused_and_harms_nothing(self):
        run = self.run_in("running")
        for status in ("finished", "RUNNING", "", 7, None):
            self.refused(self.admin.post(f"/runs/{run}/status", {"status": status}), 400, "INVALID_REQUEST")
        self.assertEqual(self.get_run(run)["status"], "running")

    def test_nobody_reports_on_a_run_that_the_engine_carries(self):
        run = self.create("remote")["id"]
        self.refused(self.admin.post(f"/runs/{run}/status", {"status": "running"}), 409, "NOT_EXTERNAL")
        self.assertEqual(self.get_run(run)["status"], "created")

    def test_an_external_run_can_be_canceled_here(self):
        run = self.run_in("waiting")
        self.assertEqual(self.ok(self.admin.post(f"/runs/{run}/cancel")).json["status"], "canceled")
        self.refused(self.say(run, "success"), 409, "RUN_ENDED")


if __name__ == "__main__":
    unittest.main()
