"""Deciding at the command line: whoever decides sees what is decided, and afterwards everybody sees who did."""
import json
import unittest

from pawl_case import without_escapes
from server_case import ServerCase
from terminal import Terminal

WRITE = """
workflow: refund
steps:
  - id: pay
    tool: http.request
    risk: med
    with: {method: PUT, url: "https://shop.example/orders/17", body: {total: 120, note: late}}
"""

PAIR = """
workflow: pair
steps:
  - {id: gate, tool: approval, quorum: 2, approvers: [ada, group:finance], prompt: "Close the books?"}
"""


SEVERAL = """
workflow: several
steps:
  - {id: one, tool: approval, prompt: "Open the door?"}
  - {id: two, tool: approval, needs: [], prompt: "Close the window?"}
"""
HIGH = """
workflow: high
steps:
  - {id: gate, tool: approval, tier: high, two_person: true, prompt: "Launch?"}
"""


class Deciding(ServerCase):
    def setUp(self):
        super().setUp()
        self.serve()

    def waiting(self, text, name):
        run = self.started(text, name)
        self.wait_until(lambda: self.status(run) == "waiting", "the approval")
        return run

    def person(self, name, *groups):
        """Who they are, as the environment of their commands."""
        created = self.pawl("keys", "create", "--role", "approver", "--name", name, "--json")
        made = json.loads(self.expect(created, 0).stdout)
        flags = [flag for group in groups for flag in ("--group", group)]
        self.expect(self.pawl("people", "set", name, "--key", made["id"], *flags), 0)
        return {**self.away(), "PAWL_KEY": made["key"]}

    def assert_shows_the_action(self, text):
        for part in ("https://shop.example/orders/17", "body.total = 120", "requested by", "rule", "risk", "med",
                     "expires"):
            self.assertIn(part, text)

    def test_who_asked_is_shown_by_name_everywhere(self):
        created = self.pawl("keys", "create", "--role", "operator", "--name", "deployer", "--json")
        made = json.loads(self.expect(created, 0).stdout)
        self.waiting(PAIR, "pair")
        run = self.request("POST", "/runs", {"workflow": "pair"}, key=made["key"])["id"]
        self.wait_until(lambda: self.status(run) == "waiting", "the approval")
        actor = made["id"].removeprefix("key_")
        for name, known in (("key deployer", None), ("op", ["people", "set", "op", "--key", made["id"]])):
            if known:
                self.expect(self.pawl(*known), 0)
            shown = self.expect(self.pawl("show", run), 0).stdout
            self.assertIn(f" by {name}\n", shown)
            inbox = self.expect(self.pawl("inbox"), 5).stdout
            for text in (shown, inbox):
                self.assertRegex(text, rf"requested by +{name}\n")
                self.assertNotIn(actor, text)
        # Who decides sees it as well.
        decided = self.expect(self.pawl("approve", run, data=False, env=self.person("ada")), 0).stdout
        self.assertRegex(decided, r"requested by +op\n")

    def test_inbox_show_and_approve_show_what_would_be_written(self):
        run = self.waiting(WRITE, "refund")
        inbox = self.expect(self.pawl("inbox"), 5).stdout
        self.assert_shows_the_action(inbox)
        self.assertIn("refund v1, step pay", inbox)
        self.assertIn(f"pawl approve {run}", inbox)
        for line in inbox.splitlines():
            if "pawl approve" not in line:  # to be copied
                self.assertLessEqual(len(line), 80, line)
        self.assert_shows_the_action(self.expect(self.pawl("show", run), 0).stdout)
        rejected = self.expect(self.pawl("reject", run, "--reason", "not this one"), 0).stdout
        self.assert_shows_the_action(rejected)
        self.assertIn("rejected", rejected)

    def test_the_id_of_an_approval_is_enough(self):
        for command, status in (("approve", "approved"), ("reject", "rejected")):
            run = self.waiting(PAIR.replace("quorum: 2, approvers: [ada, group:finance], ", ""), "pair")
            approval = self.request("GET", "/runs/" + run)["approvals"][0]["id"]
            self.assertEqual(self.show(approval)["id"], run)
            self.expect(self.pawl(command, approval), 0)
            self.assertEqual(self.request("GET", "/approvals/" + approval)["status"], status)
            self.assertEqual(self.show(approval)["approvals"][0]["status"], status)

    def test_at_a_terminal_it_is_shown_before_it_is_asked_for(self):
        run = self.waiting(WRITE, "refund")
        for typed, code, status in (("n", 5, "waiting"), ("y", 0, None)):
            terminal = Terminal(["approve", run, "--data", self.data], self.environment(), self.folder, columns=80)
            self.addCleanup(terminal.close)
            terminal.expect(r"approve\? \[y/N\] ")
            self.assert_shows_the_action(without_escapes(terminal.seen))
            self.assertEqual(self.status(run), "waiting")
            terminal.type(typed + "\n")
            self.assertEqual(terminal.finish(), code)
            if status:
                self.assertEqual(self.status(run), status)
        self.assertEqual(self.request("GET", "/runs/" + run)["approvals"][0]["status"], "approved")

    def test_show_names_everybody_who_approved(self):
        run = self.waiting(PAIR, "pair")
        ada, bo, cy = self.person("ada"), self.person("bo"), self.person("cy", "finance")
        refused = self.expect(self.pawl("approve", run, data=False, env=bo), 3)
        self.assertIn("ada, group:finance", refused.stderr)
        voted = self.expect(self.pawl("approve", run, data=False, env=cy), 0).stdout
        self.assertRegex(voted, r"(?m)^apr_\w+: 1 of 2 people have approved; the run is waiting$")
        inbox = self.expect(self.pawl("inbox"), 5).stdout
        self.assertIn("Close the books?", inbox)
        self.assertRegex(inbox, r"may decide +ada, group:finance")
        self.assertRegex(inbox, r"approved by +cy as group:finance")
        self.expect(self.pawl("approve", run, data=False, env=ada), 0)
        shown = self.expect(self.pawl("show", run), 0).stdout
        self.assertRegex(shown, r"approved by +cy as group:finance, 20")
        self.assertRegex(shown, r"approved by +ada, 20")
        people = self.expect(self.pawl("people"), 0).stdout
        self.assertRegex(people, r"cy +finance")
        # What others decided is not said to be this one's decision, and refusals name people as people do.
        late = self.expect(self.pawl("approve", run, data=False, env=bo), 0).stdout
        self.assertRegex(late, r"^apr_\w+ was already approved by cy, ada; the run is success$")
        approval = self.request("GET", "/runs/" + run)["approvals"][0]["id"]
        self.assertEqual(self.expect(self.pawl("approve", run, "--approval", approval, data=False, env=bo), 0).stdout,
                         late)
        self.assertIn("was already approved by cy, ada", self.expect(self.pawl("reject", run), 3).stderr)
        self.assertIn("bo may not decide this", refused.stderr)
        self.assertNotIn("person:", refused.stderr)

    def test_an_escalation_that_has_happened_is_shown_as_such(self):
        later = "workflow: later\nsteps:\n  - {id: g, tool: approval, escalate: {after: AFTER, to: [group:heads]}}\n"
        for after, word in (("1h", "escalates"), ("1ms", "escalated")):
            run = self.waiting(later.replace("AFTER", after), "later")
            if word == "escalated":
                self.wait_until(lambda: "approval.escalated" in self.pawl("events", run).stdout, "the escalation")
            self.assertRegex(self.expect(self.pawl("show", run), 0).stdout, rf"(?m)^ +{word} +\S+Z to group:heads$")

    def test_the_inbox_says_how_many_must_approve_and_what_is_at_stake(self):
        run = self.waiting(HIGH, "high")
        inbox = self.expect(self.pawl("inbox"), 5).stdout
        self.assertRegex(inbox, r"(?m)^    needs +2 people, neither of them the requester \(0 so far\)$")
        self.assertRegex(inbox, r"(?m)^    tier +high$")
        self.expect(self.pawl("approve", run, data=False, env=self.person("ada")), 0)
        self.assertIn("2 people, neither of them the requester (1 so far)", self.expect(self.pawl("inbox"), 5).stdout)
        self.waiting(PAIR, "pair")
        self.waiting(WRITE, "refund")
        inbox = self.expect(self.pawl("inbox"), 5).stdout
        self.assertRegex(inbox, r"(?m)^    needs +2 people \(0 so far\)$")
        self.assertRegex(inbox, r"(?m)^    needs +1 person$")

    def test_nothing_is_decided_that_was_not_shown(self):
        run = self.started(SEVERAL, "several")
        self.wait_until(lambda: len(self.open_of(run)) == 2, "both approvals")
        refused = self.expect(self.pawl("approve", run), 2).stderr
        for part in ("name one with --approval", "Open the door?", "Close the window?", *self.open_of(run)):
            self.assertIn(part, refused)
        self.assertEqual(len(self.open_of(run)), 2)
        self.expect(self.pawl("approve", run, "--approval", self.open_of(run)[0]), 0)
        self.assertEqual(len(self.open_of(run)), 1)
        idle = self.started("workflow: idle\nsteps:\n  - {id: a, tool: wait, for: 1h}\n", "idle")
        self.assertIn("nothing waits for an approval", self.expect(self.pawl("approve", idle), 4).stderr)
        # Nothing was sent: a refused decision would be in the journal.
        for each in (run, idle):
            events = self.expect(self.pawl("show", each, "--events", "--json"), 0).stdout
            self.assertNotIn("transition.refused", events)

    def open_of(self, run):
        approvals = self.request("GET", "/runs/" + run)["approvals"]
        return [each["id"] for each in approvals if each["status"] == "requested"]

    def test_show_at_80_columns_cuts_neither_the_terms_nor_the_command(self):
        run = self.waiting(HIGH, "high")
        terminal = Terminal(["show", run, "--data", self.data], self.environment(), self.folder, columns=80)
        self.addCleanup(terminal.close)
        self.assertEqual(terminal.finish(), 0)
        shown = without_escapes(terminal.seen).replace("\r", "")
        self.assertIn(f"pawl approve {run} --approval {self.open_of(run)[0]}\n", shown)
        terms = shown[shown.index("waits for approval"):shown.index("Launch?")]
        self.assertRegex(" ".join(terms.split()), r"tier high, two people other than the requesters, expires in \w+")
        for line in shown.splitlines():
            if "pawl approve" not in line:  # to be copied
                self.assertLessEqual(len(line), 80, line)


if __name__ == "__main__":
    unittest.main()
