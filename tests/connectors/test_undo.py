"""A run that acted on several systems is undone on a real server: each undo through the gate, with the secrets of the
server."""
import json
import unittest
import urllib.parse

from connector_case import ConnectorCase
from fakes import Fake, GitHub, ServiceNow, Slack


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


class Orders(Fake):
    """POST /orders makes one and names it; DELETE /orders/ID removes it."""

    def __init__(self, case):
        super().__init__(case)
        self.orders = []
        self.fails_to_delete = False

    def route(self, method, path, query, headers, body):
        if method == "POST":
            self.orders.append(f"order {len(self.orders) + 1}")
            return 201, {"id": self.orders[-1]}
        if self.fails_to_delete:
            return 500, {"error": "it may have been done"}
        wanted = urllib.parse.unquote(path.removeprefix("/orders/"))
        if wanted not in self.orders:
            return 404, {"error": "no such order"}
        self.orders.remove(wanted)
        return 200, {"deleted": wanted}


class UndoCommandTest(ConnectorCase):
    """`pawl undo` waits, says what became of each effect, and goes on with what is left; on a folder and on a
    server."""
    POLICY = """
policy: careful
rules:
  - {{id: keep, effect: {undoing}, when: "fields ->> '$.method' = 'DELETE'"}}
  - {{id: rest, effect: allow}}
"""

    def setUp(self):
        super().setUp()
        self.orders = Orders(self)
        self.serving = ()

    def policy(self, undoing):
        text = self.workflow(self.POLICY.format(undoing=undoing), "policy.yaml")
        self.expect(self.pawl("policy", "put", text), 0)

    def act(self, *more):
        """A run of three effects, the second without an undo where `more` says so."""
        step = {"tool": "http.request", "with": {
            "method": "POST", "url": self.orders.url + "/orders",
            "undo": {"method": "DELETE", "url": self.orders.url + "/orders/${{ response.body.id }}"}}}
        steps = [{"id": name, **step} for name in ("first", "second")] + list(more)
        return self.run_steps(*steps)["id"]

    def undo(self, run, code, *flags):
        settings = () if (self.data / "server.json").exists() else self.flags()
        done = self.expect(self.pawl("undo", run, "--json", *settings, *flags), code)
        return json.loads(done.stdout.splitlines()[-1])

    def outcomes(self, answer):
        return [(effect["step"], effect["outcome"]) for effect in answer["effects"]]

    def undo_in_parts(self):
        run = self.act()
        self.assertEqual(self.orders.orders, ["order 1", "order 2"])
        self.policy("deny")
        denied = self.undo(run, 3)
        self.assertEqual((denied["status"], self.outcomes(denied)),
                         ("denied", [("second", "not_undone"), ("first", "not_undone")]))
        self.assertIn("POLICY_DENIED", denied["effects"][0]["why"])
        self.assertIn("not attempted", denied["effects"][1]["why"])
        self.assertEqual(self.orders.orders, ["order 1", "order 2"])
        self.policy("allow")
        self.orders.orders.remove("order 1")  # somebody else was faster
        failed = self.undo(run, 1)
        self.assertNotEqual(failed["run_id"], denied["run_id"])
        self.assertEqual((failed["status"], self.outcomes(failed)),
                         ("failed", [("second", "undone"), ("first", "not_undone")]))
        self.orders.orders.append("order 1")
        rest = self.undo(run, 0)
        self.assertEqual((rest["status"], self.outcomes(rest)), ("success", [("first", "undone")]))
        self.assertEqual(self.orders.orders, [])
        self.assertEqual(self.undo(run, 0)["effects"], [])
        self.assertEqual(len(self.orders.calls("DELETE")), 3)

    def test_a_folder_undoes_what_is_left_until_nothing_is(self):
        self.undo_in_parts()
        self.verify_clean()

    def test_a_server_undoes_what_is_left_until_nothing_is(self):
        self.serve(*self.flags())
        self.run_steps = self.run_served
        self.undo_in_parts()

    def run_served(self, *steps):
        text = json.dumps({"workflow": "w", "steps": list(steps)})
        done = self.expect(self.pawl("run", self.workflow(text), "--json"), 0)
        return json.loads(done.stdout.splitlines()[-1])["run"]

    def test_what_has_no_undo_stays_and_is_not_called_success(self):
        run = self.act({"id": "third", "tool": "http.request",
                        "with": {"method": "POST", "url": self.orders.url + "/orders"}})
        answer = self.undo(run, 1)
        self.assertEqual(self.outcomes(answer), [("second", "undone"), ("first", "undone"), ("third", "stays")])
        self.assertEqual(self.outcomes(self.undo(run, 1)), [("third", "stays")], "the same again")
        text = self.expect(self.pawl("undo", run, *self.flags()), 1).stdout
        self.assertRegex(text, r"^stays +rcp_\w+  third: http request on \S+\n +nothing is known that would undo it\n$")

    def test_every_effect_that_stays_is_named(self):
        steps = [{"id": name, "tool": "http.request", "with": {"method": "POST", "url": self.orders.url + "/orders"}}
                 for name in ("one", "two")]
        run = self.run_steps(*steps)["id"]
        self.assertEqual(self.outcomes(self.undo(run, 1)), [("two", "stays"), ("one", "stays")])
        self.serve(*self.flags())
        if self.store:
            return  # the server's runs are elsewhere
        self.assertEqual(self.outcomes(self.undo(run, 1)), [("two", "stays"), ("one", "stays")])

    def test_an_undo_in_doubt_asks_in_the_inbox_and_is_listed(self):
        self.serve(*self.flags())
        self.run_steps = self.run_served
        run = self.act()
        ended = self.request("GET", "/runs/" + run)["finished_at"]
        self.orders.fails_to_delete = True
        undoing = self.undo(run, 5)["run_id"]
        self.assertIn(undoing, [row["id"] for row in self.runs()])
        item, = [json.loads(line) for line in self.expect(self.pawl("inbox", "--json"), 5).stdout.splitlines()]
        self.assertEqual((item["kind"], item["id"]), ("question", undoing))
        self.assertRegex(item["what"], f"^undoes what {run} did: undoes rcp_\\w+ of step second: Did this happen?")
        self.assertIn("answered 500", item["what"])
        receipt, = [each for each in self.request("GET", "/runs/" + undoing)["receipts"]
                    if each["status"] == "in_doubt"]
        self.orders.fails_to_delete = False
        self.expect(self.pawl("receipts", receipt["id"], "--happened", "no"), 0)
        self.wait_until(lambda: self.status(undoing) == "success", "the undo")
        # What was done to its effects later is not a part of the run.
        row, = [row for row in self.runs() if row["id"] == run]
        self.assertEqual(row["finished_at"], ended)
        self.assertGreater(row["updated_at"], ended)

    def test_an_effect_whose_response_never_arrived_is_undone_by_hand(self):
        self.serve(*self.flags())
        self.orders.mood("POST", effect=True, status=502)
        step = {"id": "only", "tool": "http.request", "with": {
            "method": "POST", "url": self.orders.url + "/orders",
            "undo": {"method": "DELETE", "url": self.orders.url + "/orders/${{ response.body.id }}"}}}
        run = self.started(json.dumps({"workflow": "w", "steps": [step]}), "w")
        self.wait_until(lambda: self.status(run) == "waiting", "the question whether it happened")
        receipt, = self.request("GET", "/runs/" + run)["receipts"]
        self.expect(self.pawl("receipts", receipt["id"], "--happened", "yes"), 0)
        self.wait_until(lambda: self.status(run) == "success", "the run")
        effect, = self.undo(run, 1)["effects"]
        self.assertIn("its response never arrived", effect["why"])

    def test_ids_of_its_effects_mean_the_run(self):
        run = self.act()
        receipt = self.show(run)["receipts"][0]["id"]
        self.assertEqual(self.show(receipt)["id"], run)
        self.serve(*self.flags())
        if self.store:
            return  # the server's runs are elsewhere
        self.assertEqual(self.show(receipt)["id"], run)
        self.assertEqual(self.outcomes(self.undo(receipt, 0)), [("first", "undone")])

    def test_an_undo_waits_for_people_and_goes_on_when_they_agree(self):
        run = self.act()
        self.policy("needs_approval")
        waiting = self.undo(run, 5)
        self.assertEqual(self.outcomes(waiting), [("second", "not_undone"), ("first", "not_undone")])
        answer = self.undo(run, 0, "--approve")
        self.assertEqual(answer["run_id"], waiting["run_id"])
        self.assertEqual(self.orders.orders, [])

    def test_people_read_each_effect(self):
        run = self.act()
        done = self.expect(self.pawl("undo", run, *self.flags()), 0)
        self.assertRegex(done.stdout, r"undone +rcp_\w+  second: http request on \S+/orders\n")


if __name__ == "__main__":
    unittest.main()
