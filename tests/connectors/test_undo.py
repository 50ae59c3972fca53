"""A run that acted on several systems is undone on a real server: each undo through the gate, with the secrets of the
server."""
import json
import unittest

from connector_case import ConnectorCase
from fakes import GitHub, ServiceNow, Slack


class UndoTest(ConnectorCase):
    secrets = {"SN_USER": ServiceNow.USER, "SN_PASSWORD": ServiceNow.PASSWORD, "GH": GitHub.TOKEN, "SLACK": Slack.TOKEN}

    def setUp(self):
        super().setUp()
        self.now, self.github, self.slack = ServiceNow(self), GitHub(self), Slack(self)
        self.now.incident["short_description"] = "${{ secrets.SN_PASSWORD }}"  # somebody tries
        self.serve(*self.flags())
        steps = [
            {"id": "assign", "tool": "servicenow.incident.update",
             "with": {"url": self.now.url, "sys_id": "8a50", "fields": {"priority": "1", "short_description": "mended"},
                      "user": "${{ secrets.SN_USER }}", "password": "${{ secrets.SN_PASSWORD }}"}},
            {"id": "label", "tool": "github.labels",
             "with": {"url": self.github.url, "repo": "acme/shop", "issue": 7, "add": ["bug", "triage"],
                      "token": "${{ secrets.GH }}"}},
            {"id": "tell", "tool": "slack.post",
             "with": {"url": self.slack.url, "channel": "C123", "text": "done", "token": "${{ secrets.SLACK }}"}}]
        self.run_id = self.started(json.dumps({"workflow": "w", "steps": steps}), "w")
        self.ended(self.run_id, "success")

    def ended(self, run, status):
        self.wait_until(lambda: self.status(run) in ("success", "failed", "denied", "waiting"), "the end of " + run)
        shown = self.request("GET", "/runs/" + run)
        self.assertEqual(shown["status"], status, shown.get("diagnostic"))
        return shown

    def undo(self):
        answer = self.request("POST", f"/runs/{self.run_id}/undo")
        return answer, answer["run_id"]

    def receipts(self):
        return {receipt["step"]: receipt["status"]
                for receipt in self.request("GET", "/runs/" + self.run_id)["receipts"]}

    def test_what_can_be_taken_back_is_and_what_cannot_is_named(self):
        answer, run = self.undo()
        self.ended(run, "success")
        self.assertEqual(self.now.incident["priority"], "3")
        self.assertEqual(self.now.incident["short_description"], "${{ secrets.SN_PASSWORD }}")
        self.assertEqual(self.github.labels, ["bug", "Old Label"])  # the label that was there stays
        self.assertEqual(len(self.slack.messages), 1)
        self.assertEqual([left["why"] for left in answer["left"]], ["nothing is known that would undo it"])
        expected = {"assign": "reversed", "label": "reversed", "tell": "succeeded"}
        self.wait_until(lambda: self.receipts() == expected, "the receipts to say so")

    def test_a_value_that_somebody_changed_since_is_left_and_the_undo_says_so(self):
        self.now.incident["priority"] = "2"
        _, run = self.undo()
        shown = self.ended(run, "failed")
        self.assertEqual(shown["error_code"], "UNDO_CONFLICT")
        self.assertEqual(self.now.incident["priority"], "2")
        self.assertEqual(self.now.incident["short_description"], "mended")
        self.assertEqual(self.github.labels, ["bug", "Old Label"])  # the latest effect is undone first


if __name__ == "__main__":
    unittest.main()
