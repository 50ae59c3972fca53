import json
import unittest

from connector_case import ConnectorCase
from fakes import ServiceNow

TOOL = "servicenow.incident.update"


class UpdateTest(ConnectorCase):
    secrets = {"SN_USER": ServiceNow.USER, "SN_PASSWORD": ServiceNow.PASSWORD}

    def setUp(self):
        super().setUp()
        self.now = ServiceNow(self)

    def with_(self, fields, **more):
        return {"url": self.now.url, "sys_id": "8a50", "fields": fields, "user": "${{ secrets.SN_USER }}",
                "password": "${{ secrets.SN_PASSWORD }}", **more}

    def test_fields_are_set_with_what_was_there_before_and_what_would_undo_it(self):
        step = self.run_step(TOOL, self.with_({"assignment_group": "network", "priority": 2}))
        self.assertEqual(self.now.incident["assignment_group"], "network")
        self.assertEqual(self.output(step)["fields"], {"assignment_group": "network", "priority": "2"})
        receipt = self.only_receipt("succeeded")
        self.assertEqual(receipt["before"], {"fields": {"assignment_group": "desk", "priority": "3"}})
        self.assertRegex(receipt["action"]["idempotency_key"],
                         r"^sn:incident:update:127\.0\.0\.1:\d+:8a50:[0-9a-f]{32}$")
        self.assertTrue(receipt["reversible"])
        tool, fields, _ = self.undo(receipt)
        self.assertEqual(tool, TOOL)
        self.assertEqual(fields["fields"], {"assignment_group": "desk", "priority": "3"})
        self.assertEqual(fields["expect"], {"assignment_group": "network", "priority": "2"})
        self.assertEqual(fields["password"], "${{ secrets.SN_PASSWORD }}")

    def test_records_and_fields_have_one_spelling(self):
        self.output(self.run_step(TOOL, dict(self.with_({"priority": "1"}), sys_id="8A50")))
        action = self.only_receipt("succeeded")["action"]
        self.assertEqual(action["target"], self.now.url + "/incident/8a50")
        self.assertEqual(action["fields"]["sys_id"], "8a50")
        step = self.run_step(TOOL, self.with_({"Priority": "1"}), code=1)
        self.assertIn("names of fields, in lower case", step["last_error"]["message"])

    def test_an_undo_puts_back_what_was_there(self):
        self.run_step(TOOL, self.with_({"assignment_group": "network"}))
        tool, fields, key = self.undo(self.only_receipt("succeeded"))
        self.run_step(tool, fields, key=key)
        self.assertEqual(self.now.incident["assignment_group"], "desk")

    def test_an_undo_fails_clearly_when_somebody_has_changed_it_since(self):
        self.run_step(TOOL, self.with_({"assignment_group": "network"}))
        tool, fields, key = self.undo(self.only_receipt("succeeded"))
        self.now.incident["assignment_group"] = "database"
        step = self.run_step(tool, fields, key=key, code=1)
        self.assertEqual(step["last_error"]["error_code"], "UNDO_CONFLICT")
        self.assertIn('is "database" and not "network" any more', step["last_error"]["message"])
        self.assertEqual(self.now.incident["assignment_group"], "database")

    def test_old_values_that_look_like_secrets_stay_text_when_they_are_put_back(self):
        trap = "${{ secrets.SN_PASSWORD }}"
        self.now.incident["short_description"] = trap
        self.run_step(TOOL, self.with_({"short_description": "mended"}))
        tool, fields, key = self.undo(self.only_receipt("succeeded"))
        self.run_step(tool, fields, key=key)
        self.assertEqual(self.now.incident["short_description"], trap)

    def test_a_note_carries_a_mark_and_cannot_be_undone(self):
        self.run_step(TOOL, self.with_({"work_notes": "looked at it"}))
        self.assertRegex(self.now.journal[0]["value"], r"^looked at it\n\[pawl:[0-9a-f]{20}\]$")
        receipt = self.only_receipt("succeeded")
        self.assertFalse(receipt["reversible"])
        self.assertFalse(receipt["idempotent"])

    def test_a_note_whose_answer_was_lost_is_found_and_not_written_twice(self):
        self.now.mood("PATCH", effect=True, status=502)
        step = self.run_step(TOOL, self.with_({"work_notes": "once"}), attempts=3)
        self.assertEqual(step["status"], "succeeded")
        self.assertEqual(len(self.now.journal), 1)
        self.assertEqual(len(self.now.calls("PATCH")), 1)
        self.only_receipt("succeeded")

    def test_a_note_that_was_not_written_is_written_again(self):
        self.now.mood("PATCH", status=502)
        step = self.run_step(TOOL, self.with_({"work_notes": "once"}), attempts=3)
        self.assertEqual(step["status"], "succeeded")
        self.assertEqual(len(self.now.journal), 1)

    def test_fields_are_set_again_when_the_time_was_up_after_the_effect(self):
        def run(timeout):
            self.now = ServiceNow(self)
            self.now.mood("PATCH", effect=True, hang=True)
            return self.run_step(TOOL, self.with_({"priority": "1"}, timeout=timeout), attempts=20)

        step = self.with_one_lost_answer(run)
        self.assertEqual(step["status"], "succeeded")
        self.assertEqual(len(self.now.calls("PATCH")), 2)
        receipt = self.only_receipt("succeeded")
        self.assertEqual(receipt["calls"], 2)
        # The second call found what the first had done. What was there before that is what an undo leads back to.
        self.assertEqual(self.output(step)["changed"], ["priority"])
        tool, fields, key = self.undo(receipt)
        self.assertEqual(fields["fields"], {"priority": "3"})
        self.output(self.run_step(tool, fields, key=key))
        self.assertEqual(self.now.incident["priority"], "3")

    def test_an_undo_whose_answer_was_lost_is_made_again(self):
        self.run_step(TOOL, self.with_({"priority": "1"}))
        tool, fields, key = self.undo(self.only_receipt("succeeded"))
        self.now.mood("PATCH", effect=True, status=502)
        step = self.run_step(tool, fields, key=key, attempts=3)
        self.assertEqual(step["status"], "succeeded", step)
        self.assertEqual(self.now.incident["priority"], "3")
        self.assertEqual(self.only_receipt("succeeded")["calls"], 2)

    def test_a_field_that_does_not_exist_is_refused_before_anything_is_written(self):
        step = self.run_step(TOOL, self.with_({"asignment_group": "x", "priority": "1"}), code=1)
        self.assertIn("has no field `asignment_group`", step["last_error"]["message"])
        self.assertEqual(self.now.calls("PATCH"), [])
        self.assertEqual(self.receipts, [])

    def test_a_value_that_was_silently_not_taken_fails_the_step(self):
        self.now.overruled["priority"] = "3"
        step = self.run_step(TOOL, self.with_({"priority": "1"}), code=1)
        self.assertIn('did not set everything: `priority` is "3"', step["last_error"]["message"])
        self.only_receipt("failed")  # nothing changed, for sure

    def test_a_value_that_was_taken_in_part_is_no_harmless_failure(self):
        self.now.overruled["priority"] = "3"
        self.run_step(TOOL, self.with_({"priority": "1", "assignment_group": "network"}), code=1)
        self.only_receipt("in_doubt")

    def test_a_rate_limit_is_waited_for(self):
        limited = {"error": {"message": "Rate limit exceeded", "detail": "10 requests per hour"}, "status": "failure"}
        self.now.mood("PATCH", status=429, body=limited, headers={"Retry-After": "1"})
        step = self.run_step(TOOL, self.with_({"priority": "1"}), attempts=2)
        self.assertEqual(step["attempts"], 2)
        self.assertEqual([receipt["status"] for receipt in self.receipts], ["failed", "succeeded"])
        self.assertEqual(self.receipts[0]["error_code"], "TOOL_RATE_LIMITED")

    def test_who_is_not_known_is_denied(self):
        step = self.run_step(TOOL, dict(self.with_({"priority": "1"}), password="wrong"), code=1)
        self.assertEqual(step["last_error"]["error_code"], "TOOL_FAILED")
        self.assertIn("User Not Authenticated", step["last_error"]["message"])

    def test_a_record_that_is_not_there_is_a_clear_failure(self):
        step = self.run_step(TOOL, dict(self.with_({"priority": "1"}), sys_id="nope"), code=1)
        self.assertIn("No Record found", step["last_error"]["message"])

    def test_one_way_to_log_in_is_needed_and_only_one(self):
        both, neither = self.with_({"priority": "1"}, token="x"), self.with_({"priority": "1"})
        for key in ("user", "password"):
            neither.pop(key)
        for with_ in (both, neither):
            step = self.run_step(TOOL, with_, code=1)
            self.assertIn("give exactly one", step["last_error"]["message"])

    def test_the_same_update_of_another_run_is_answered_by_the_first_ones_receipt(self):
        self.run_step(TOOL, self.with_({"priority": "1"}))
        step = self.run_step(TOOL, self.with_({"priority": "1"}))
        self.assertEqual(self.output(step)["fields"], {"priority": "1"})
        self.assertEqual(len(self.now.calls("PATCH")), 1)


if __name__ == "__main__":
    unittest.main()
