import unittest

from connector_case import ConnectorCase
from fakes import GitHub


class IssueCase(ConnectorCase):
    secrets = {"GH": GitHub.TOKEN}

    def setUp(self):
        super().setUp()
        self.github = GitHub(self)

    def change(self, what, code=0, attempts=1, **more):
        with_ = {"url": self.github.url, "repo": "acme/shop", "issue": 7, "token": "${{ secrets.GH }}", **more}
        return self.run_step("github." + what, with_, code=code, attempts=attempts)


class LabelsTest(IssueCase):
    def test_are_added_and_removed_and_an_undo_leaves_what_was_there(self):
        step = self.change("labels", add=["Bug", "triage"], remove=["old label", "absent"])
        self.assertEqual(self.github.labels, ["bug", "triage"])
        output = self.output(step)
        self.assertEqual((output["added"], output["removed"], output["were_there"]),
                         (["triage"], ["old label"], ["Bug"]))
        receipt = self.only_receipt("succeeded")
        self.assertEqual(receipt["before"], {"labels": ["bug", "Old Label"]})
        tool, fields, key = self.undo(receipt)
        self.assertEqual((fields["add"], fields["remove"]), (["old label"], ["triage"]))
        self.run_step(tool, fields, key=key)
        self.assertEqual(sorted(self.github.labels), ["bug", "old label"])

    def test_repositories_are_one_in_any_case(self):
        self.output(self.change("labels", add=["bug"], repo="Acme/SHOP"))
        action = self.only_receipt("succeeded")["action"]
        self.assertEqual(action["target"], self.github.url + "/acme/shop#7")
        self.assertEqual(action["fields"]["repo"], "acme/shop")

    def test_that_are_all_there_already_change_nothing_and_leave_nothing_to_undo(self):
        self.change("labels", add=["bug"])
        self.assertEqual(self.github.calls("POST"), [])
        self.assertFalse(self.only_receipt("succeeded")["reversible"])

    def test_can_be_set_as_a_whole(self):
        self.change("labels", set=["bug", "new"])
        self.assertEqual(self.github.labels, ["bug", "new"])
        tool, fields, key = self.undo(self.only_receipt("succeeded"))
        self.assertNotIn("set", fields)
        self.run_step(tool, fields, key=key)
        self.assertEqual(self.github.labels, ["bug", "Old Label"])

    def test_are_added_again_when_the_answer_was_lost(self):
        self.github.mood("POST", effect=True, status=502)
        step = self.change("labels", add=["triage"], attempts=3)
        self.assertEqual(step["status"], "succeeded")
        self.assertEqual(self.github.labels.count("triage"), 1)
        self.assertEqual(self.output(step)["added"], ["triage"])
        _, fields, _ = self.undo(self.only_receipt("succeeded"))
        self.assertEqual(fields["remove"], ["triage"])

    def test_that_somebody_else_removed_meanwhile_are_gone(self):
        self.github.mood("DELETE", effect=True, status=404, body={"message": "Label does not exist"})
        self.output(self.change("labels", remove=["bug"]))

    def test_limits_of_both_kinds_are_waited_for(self):
        self.github.mood("POST", status=403, body={"message": "API rate limit exceeded"},
                         headers={"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1"})
        self.github.mood("POST", status=403, body={"message": "secondary rate limit"}, headers={"Retry-After": "1"})
        step = self.change("labels", add=["triage"], attempts=3)
        self.assertEqual(step["attempts"], 3)
        self.assertEqual([receipt["error_code"] for receipt in self.receipts], ["TOOL_RATE_LIMITED"] * 2 + [None])

    def test_of_an_issue_that_may_not_be_touched_are_left(self):
        self.github.mood("POST", status=403, body={"message": "Resource not accessible by integration"})
        step = self.change("labels", add=["triage"], code=1)
        self.assertEqual(step["last_error"]["error_code"], "TOOL_FAILED")
        self.only_receipt("failed")

    def test_that_make_no_sense_are_refused(self):
        for more, why in (({}, "is required"), ({"add": ["a"], "remove": ["A"]}, "must not name what `add` names"),
                          ({"set": ["a"], "add": ["b"]}, "cannot stand beside it"),
                          ({"add": ["a"], "repo": "acme/shop/../x"}, "must be owner/name")):
            step = self.change("labels", code=1, **more)
            self.assertIn(why, step["last_error"]["message"])
        self.assertEqual(self.github.asked, [])


class AssigneesTest(IssueCase):
    def test_are_added_and_removed_and_put_back(self):
        self.change("assignees", add=["hubot"], remove=["octocat"])
        self.assertEqual(self.github.assignees, ["hubot"])
        tool, fields, key = self.undo(self.only_receipt("succeeded"))
        self.run_step(tool, fields, key=key)
        self.assertEqual(self.github.assignees, ["octocat"])

    def test_that_github_drops_silently_fail_the_step(self):
        step = self.change("assignees", add=["stranger"], code=1)
        self.assertIn('not added: ["stranger"]', step["last_error"]["message"])
        self.assertEqual(self.only_receipt("failed")["action"]["fields"]["url"], self.github.url)
        step = self.change("assignees", add=["stranger", "hubot"], code=1)
        self.only_receipt("in_doubt")


if __name__ == "__main__":
    unittest.main()
