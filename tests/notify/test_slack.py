"""Approvals in Slack: the real server and a small Slack that is as strict as the real one."""
import concurrent.futures
import http.client
import json
import pathlib
import sys
import time
import unittest
import urllib.parse
import zipfile

from fake_slack import FakeSlack, send_raw
from notice_case import NoticeCase

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "connectors"))
from fakes import ServiceNow  # noqa: E402

TOKEN, SIGNING = "xoxb-test-token", "8f742231b10e8888abcd99yyyzzz85a5"
NASTY = "<!channel> & *bold* <https://evil.example|click> ```"

GATED = """
workflow: gated
steps:
  - {id: text, tool: noop, with: {output: "${{ input.text }}"}}
  - {id: gate, tool: approval, tier: high, expires: 1h, prompt: "Ship it? ${{ steps.text.output }}"}
"""
TWO_PEOPLE = """
workflow: two-people
steps:
  - {id: gate, tool: approval, two_person: true, expires: 1h}
"""
SOON_OVER = """
workflow: soon-over
steps:
  - {id: gate, tool: approval, expires: EXPIRES}
"""


class SlackCase(NoticeCase):
    SECRETS = {"BOT": TOKEN, "SIGNING": SIGNING}

    def setUp(self):
        super().setUp()
        self.slack = FakeSlack(TOKEN, SIGNING)
        self.addCleanup(self.slack.close)

    def begin(self, people=("ada", "bob")):
        server = self.serve()
        self.expect(self.pawl("slack", "set", "--team", self.slack.team, "--channel", self.slack.channel, "--token",
                              "BOT",
                              "--signing-secret", "SIGNING", "--api-base", self.slack.api_base), 0)
        for name in people:
            self.request("PUT", "/people/" + name,
                         {"keys": [], "accounts": [f"slack:{self.slack.team}:U{name.upper()}"]})
        for number, text in enumerate((GATED, TWO_PEOPLE)):
            self.publish(text, f"w{number}.yaml")
        return server

    def start_run(self, workflow="gated", text="please"):
        return self.request("POST", "/runs", {"workflow": workflow, "input": {"text": text}})["id"]

    def card(self, number=1):
        self.wait_until(lambda: len(self.slack.cards()) >= number, "the card")
        self.assertFalse(self.slack.problems)
        return self.slack.cards()[number - 1]

    def wait_for_outcome(self, words, number=0):
        self.wait_until(lambda: words in json.dumps(self.slack.cards()[number]["blocks"]), f"a card that says: {words}")
        self.assertFalse(FakeSlack.buttons(self.slack.cards()[number]))
        self.assertFalse(self.slack.problems)

    def click(self, card, action, user, **how):
        return self.slack.send(self.url(), self.slack.click(card, action, user), **how)

    def events(self, run, kind):
        return [e for e in self.request("GET", f"/runs/{run}/events?limit=500")["items"] if e["event"]["type"] == kind]


class Secrets(SlackCase):
    def test_that_take_long_to_find_hold_up_only_the_clicks_of_their_tenant(self):
        begun, go_on = self.folder / "begun", self.folder / "go-on"
        program = self.folder / "vault"
        program.write_text(f"#!/bin/sh\n[ $1 = slow ] || exit 1\n: > {begun}\n"
                           f"while [ ! -e {go_on} ]; do sleep 0.05; done\nprintf other-secret\n")
        program.chmod(0o755)
        serve, self.serve = self.serve, lambda: serve("--secrets-command", program)
        self.begin()
        self.request("POST", "/tenants", {"name": "slow"})
        key = self.request("POST", "/keys", {"role": "admin", "tenant": "slow"})["key"]
        self.request("PUT", "/tenant/slack", {"team": self.slack.team, "channel": self.slack.channel, "token": "BOT",
                                              "signing_secret": "SIGNING", "api_base": self.slack.api_base},
                     key=key)
        run = self.start_run()
        card = self.card()
        with concurrent.futures.ThreadPoolExecutor() as threads:
            try:
                slow = [threads.submit(self.click, card, "approval.approve", "UADA", tenant="slow") for _ in range(4)]
                self.wait_until(begun.exists, "the secret is being looked for")
                self.assertEqual(self.click(card, "approval.approve", "UADA", tenant="default")[0], 200)
                self.assertEqual(self.request("GET", f"/runs/{run}")["status"], "success")
                self.assertEqual(len(self.request("GET", "/runs")["items"]), 1)
                self.assertFalse(any(each.done() for each in slow))
            finally:
                go_on.touch()
        self.assertEqual({each.result()[0] for each in slow}, {401})


class Cards(SlackCase):
    def test_are_posted_approved_and_changed(self):
        self.begin()
        run = self.start_run(text=NASTY)
        card = self.card()
        text = json.dumps(card["blocks"])
        for said in ("gated", run, "high", "Expires", "models included", NASTY[:10]):
            self.assertIn(said, text)
        self.assertNotIn("<!channel>", card["text"])
        self.assertIn("&lt;!channel&gt;", card["text"])
        quotes = [b for b in card["blocks"] if b["type"] == "rich_text"]
        self.assertIn(NASTY, quotes[0]["elements"][0]["elements"][0]["text"], "literal, where nothing has a meaning")
        for block in card["blocks"]:
            if block["type"] != "rich_text":
                self.assertNotIn("<!channel>", json.dumps(block))
        # Slack wants its answer within 3 s: it does not wait until the card is changed.
        self.slack.updating.clear()
        self.assertEqual(self.click(card, "approval.approve", "UADA"), (200, ""))
        self.assertEqual(self.status(run), "success")
        self.slack.updating.set()
        approved, = self.events(run, "approval.approved")
        self.assertEqual((approved["event"]["by"], approved["event"]["via"]),
                         ("person:ada", f"slack:{self.slack.team}:UADA"))
        self.wait_for_outcome("approved by ada")

    def test_are_rejected_with_a_reason(self):
        self.begin()
        run = self.start_run()
        card = self.card()
        self.assertEqual(self.click(card, "approval.reject", "UBOB"), (200, ""))
        self.wait_until(lambda: self.slack.views, "the window")
        self.assertFalse(self.slack.problems)
        view = self.slack.views[0]
        status, said = self.slack.send(self.url(), self.slack.submission(view, "  ", "UBOB"))
        self.assertEqual((status, json.loads(said)["response_action"]), (200, "errors"))
        self.assertEqual(self.status(run), "waiting")
        self.assertEqual(self.slack.send(self.url(), self.slack.submission(view, "too <risky>", "UBOB")), (200, ""))
        self.assertEqual(self.status(run), "denied")
        rejected, = self.events(run, "approval.rejected")
        self.assertEqual((rejected["event"]["by"], rejected["event"]["reason"]), ("person:bob", "too <risky>"))
        self.wait_for_outcome("rejected by bob: too &lt;risky&gt;")
        status, said = self.slack.send(self.url(), self.slack.submission(view, "again", "UADA"))
        self.assertIn("already decided: rejected by bob", said)

    def test_say_when_it_is_too_late(self):
        self.begin()
        over = self.expiring_run()
        self.wait_for_outcome("expired")
        canceled = self.start_run()
        card = self.card(2)
        self.request("POST", f"/runs/{canceled}/cancel", {})
        self.wait_for_outcome("canceled", 1)
        self.assertEqual(self.status(over), "denied")
        self.assertEqual(self.click(card, "approval.approve", "UADA")[0], 200)
        self.wait_until(lambda: any("already decided" in told["text"] for told in self.slack.told), "an answer")
        self.assertEqual({told["response_type"] for told in self.slack.told}, {"ephemeral"})

    def expiring_run(self):
        """One that has a card before it expires. A busy machine may take longer for that than it has time."""
        for seconds in (1, 5, 25):
            self.publish(SOON_OVER.replace("EXPIRES", f"{seconds}s"), "soon-over.yaml")
            run = self.start_run("soon-over")
            self.wait_until(lambda: self.slack.cards() or self.status(run) == "denied", "the card")
            if self.slack.cards():
                return run
        self.fail("no time is long enough")

    def test_know_nobody_but_people(self):
        self.begin()
        run = self.start_run()
        card = self.card()
        for action in ("approval.approve", "approval.reject"):
            self.assertEqual(self.click(card, action, "UEVE"), (200, ""))
        self.wait_until(lambda: len(self.slack.told) == 2, "an answer")
        self.assertIn("not known here", self.slack.told[0]["text"])
        self.assertFalse(self.slack.views)
        self.assertEqual((self.status(run), self.events(run, "transition.refused")), ("waiting", []))
        other = self.slack.click(card, "approval.approve", "UADA")
        other["user"]["team_id"] = "TOTHER"  # another company's user who bears the same id
        self.assertEqual(self.slack.send(self.url(), other), (200, ""))
        self.wait_until(lambda: len(self.slack.told) == 3, "an answer")
        self.assertEqual(self.status(run), "waiting")

    def test_need_two_people_where_two_must_decide(self):
        self.begin()
        run = self.start_run("two-people")
        card = self.card()
        for _ in range(3):
            self.assertEqual(self.click(card, "approval.approve", "UADA"), (200, ""))
        self.assertEqual(self.status(run), "waiting")
        self.wait_until(lambda: any(told["text"] == "Your approval counts: 1 of 2 have approved: ada."
                                    for told in self.slack.told), "an answer")
        self.wait_until(lambda: "1 of 2" in json.dumps(self.slack.cards()[0]["blocks"]), "the card")
        self.assertTrue(FakeSlack.buttons(self.slack.cards()[0]))
        self.assertEqual(self.click(card, "approval.approve", "UBOB"), (200, ""))
        self.assertEqual(self.status(run), "success")
        self.wait_for_outcome("approved by ada, bob")

    def test_decide_once_whatever_comes(self):
        self.begin()
        run = self.start_run()
        card = self.card()
        body, headers = self.slack.signed(self.slack.click(card, "approval.approve", "UADA"))
        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            answers = list(pool.map(lambda _: send_raw(self.url(), body, headers), range(1000)))
        self.assertEqual(set(answers), {(200, "")})
        self.assertEqual(len(self.events(run, "approval.approved")), 1)
        self.assertEqual(self.events(run, "transition.refused"), [])
        self.assertEqual(self.status(run), "success")
        self.click(card, "approval.approve", "UBOB")
        self.wait_until(lambda: any("already decided: approved by ada" in told["text"] for told in self.slack.told),
                        "the loser")

    def test_survive_rate_limits_and_a_kill(self):
        server = self.begin()
        self.slack.refusals = [(429, {"Retry-After": "3"}, ""), self.slack.say({"ok": False, "error": "ratelimited"})]
        began = time.monotonic()
        self.start_run()
        self.card()
        self.assertGreater(self.slack.at[0] - began, 2.9)
        run = self.start_run()
        self.kill(server)
        self.serve()
        self.wait_until(lambda: any(run in json.dumps(card["blocks"]) for card in self.slack.cards()),
                        "the second card")
        self.assertEqual(len([c for c in self.slack.cards() if run in json.dumps(c["blocks"])]), 1)

    def test_come_one_a_second(self):
        self.begin()
        began = time.monotonic()
        for _ in range(4):
            self.start_run()
        self.card(4)
        # One may arrive late, and the next be close behind; none is early.
        for number, at in enumerate(self.slack.at):
            self.assertGreater(at - began, number)


TICKET = """
workflow: ticket
steps:
  - id: assign
    tool: servicenow.incident.update
    with:
      url: "${{ input.url }}"
      sys_id: 8a50
      fields: {assignment_group: network, short_description: "${{ input.text }}"}
      user: integration
      password: "${{ secrets.SN_PASSWORD }}"
"""
ASK_FIRST = """
policy: tickets
rules:
- {id: people-first, effect: needs_approval, when: connector = 'servicenow', reason: Somebody looks at every ticket}
"""


class GovernedActions(SlackCase):
    """From a governed action to its card, to a decision, to its receipt and its evidence: the whole way."""
    SECRETS = {**SlackCase.SECRETS, "SN_PASSWORD": ServiceNow.PASSWORD}

    def setUp(self):
        super().setUp()
        self.now = ServiceNow(self)

    def propose(self):
        self.begin()
        self.publish(TICKET, "ticket.yaml")
        policy = self.folder / "policy.yaml"
        policy.write_text(ASK_FIRST)
        self.expect(self.pawl("policy", "put", policy), 0)
        run = self.request("POST", "/runs", {"workflow": "ticket", "input": {"url": self.now.url, "text": NASTY}})["id"]
        return run, self.card()

    def show(self, run):
        return self.request("GET", "/runs/" + run)

    def test_are_shown_as_what_changes_approved_done_and_accounted_for(self):
        run, card = self.propose()
        text = json.dumps(card["blocks"])
        for said in ("assignment_group", "desk", "network", "Somebody looks at every ticket", "people-first"):
            self.assertIn(said, text)
        self.assertNotIn(ServiceNow.PASSWORD, text)
        self.assertEqual(self.now.calls("PATCH"), [], "nothing happens before somebody says yes")
        self.assertEqual(self.show(run)["receipts"], [])

        self.assertEqual(self.click(card, "approval.approve", "UADA"), (200, ""))
        self.wait_until(lambda: self.status(run) == "success", "the run")
        self.wait_for_outcome("approved by ada")
        self.assertEqual(len(self.now.calls("PATCH")), 1)
        self.assertEqual(self.now.incident["assignment_group"], "network")

        receipt, = self.show(run)["receipts"]
        requested, = self.events(run, "approval.requested")
        self.assertEqual((receipt["status"], receipt["calls"], receipt["reversible"]), ("succeeded", 1, True))
        self.assertEqual(receipt["approval"], requested["event"]["approval"])
        self.assertEqual(receipt["digest"], requested["event"]["digest"], "what was done is what was approved")
        self.assertEqual(self.request("GET", "/receipts/" + receipt["id"])["before"]["fields"]["assignment_group"],
                         "desk")
        self.check_evidence(run, receipt["id"])

    def check_evidence(self, run, receipt):
        bundle = self.folder / "run.zip"
        self.expect(self.pawl("evidence", run, "-o", bundle), 0)
        keys = self.expect(self.pawl("keys", "signing", "--json"), 0).stdout.splitlines()
        checked = self.expect(self.pawl("verify", bundle, "--key", json.loads(keys[-1])["id"], data=False), 0)
        self.assertIn("good", checked.stdout)
        with zipfile.ZipFile(bundle) as archive:
            approval, = json.loads(archive.read("approvals.json"))
            self.assertEqual([vote["by"] for vote in approval["votes"]], ["person:ada"])
            self.assertEqual([each["id"] for each in json.loads(archive.read("receipts.json"))], [receipt])
            self.assertFalse([name for name in archive.namelist()
                              if ServiceNow.PASSWORD.encode() in archive.read(name)])

    def test_are_rejected_and_never_happen(self):
        run, card = self.propose()
        self.assertEqual(self.click(card, "approval.reject", "UBOB"), (200, ""))
        self.wait_until(lambda: self.slack.views, "the window")
        self.slack.send(self.url(), self.slack.submission(self.slack.views[0], "not that group", "UBOB"))
        self.wait_until(lambda: self.status(run) == "denied", "the run")
        self.wait_for_outcome("rejected by bob: not that group")
        self.assertEqual(self.now.calls("PATCH"), [])
        shown = self.show(run)
        self.assertEqual((shown["receipts"], shown["error_code"]), ([], "APPROVAL_REJECTED"))


ASKING = """
workflow: asking
steps:
  - {id: choose, tool: test.ask, lease: 1h}
"""
REMINDED = """
workflow: reminded
steps:
  - {id: gate, tool: approval, approvers: [ada], expires: 1h, remind: 1ms, escalate: {after: 2ms, to: [group:heads]}}
"""


class Notices(SlackCase):
    def ask(self, question):
        taken = {"worker": "w", "tools": ["test.ask"], "max": 1, "wait": "30s"}
        lease = self.request("POST", "/leases", taken)["leases"][0]
        self.request("POST", f"/leases/{lease['lease_id']}/ask", {"token": lease["token"], "question": question})
        return lease

    def wait_for_message(self, *words):
        def found():
            return [card for card in self.slack.cards() if all(word in json.dumps(card) for word in words)]
        self.wait_until(found, f"a message with {words}")
        self.assertFalse(self.slack.problems)
        message, = found()
        return message

    def test_tell_of_a_runs_question_with_what_to_do(self):
        self.begin()
        self.publish(ASKING, "asking.yaml")
        run = self.start_run("asking")
        self.ask({"question": "Which <!channel>?", "options": ["left", "right"]})
        message = self.wait_for_message("Question: asking, step choose", f"pawl answer {run} --step choose ANSWER",
                                        "waiting", "- left")
        self.assertFalse(FakeSlack.buttons(message))
        self.assertNotIn("<!channel>", message["text"])

    def test_tell_of_a_tasks_question_once_and_of_its_review(self):
        self.begin()
        self.publish(ASKING, "asking.yaml")
        task = self.request("POST", "/tasks", {"title": "Tidy up", "workflow": "asking"})["id"]
        self.request("POST", f"/tasks/{task}/run")
        self.ask("Where to?")
        self.wait_for_message("Question: Tidy up", "BLOCKED", "Where to?", f"pawl task answer {task} TEXT")
        self.request("POST", f"/tasks/{task}/answer", {"answer": "home"})
        taken = {"worker": "w", "tools": ["test.ask"], "max": 1, "wait": "30s"}
        lease = self.request("POST", "/leases", taken)["leases"][0]
        done = {"lease_id": lease["lease_id"], "token": lease["token"], "output": {"tidied": 7}}
        self.assertTrue(self.request("POST", "/leases/complete", {"items": [done]})["items"][0]["ok"])
        review = self.wait_for_message("Ready for review: Tidy up", "READY", f"pawl task accept {task}",
                                       f"pawl task reject {task} COMMENT")
        self.assertIn(json.dumps('{"tidied":7}'), json.dumps(review["blocks"]))
        self.assertEqual(len([card for card in self.slack.cards() if "Where to?" in json.dumps(card)]), 1)

    def test_remind_of_an_approval_in_the_thread_of_its_card(self):
        self.begin()
        self.request("PUT", "/people/head", {"accounts": [f"slack:{self.slack.team}:UHEAD"], "groups": ["heads"]})
        self.publish(REMINDED, "reminded.yaml")
        self.start_run("reminded")
        card_ts = {message.get("thread_ts") for message in (
            self.wait_for_message("<@UADA>", "still waits for a decision"),
            self.wait_for_message("<@UHEAD>", "group:heads may decide it as well now"))}
        self.assertEqual(len(card_ts), 1)
        self.assertIn("May decide", json.dumps(self.slack.messages[card_ts.pop()]))


class Types(SlackCase):
    def test_cards_are_what_slack_says_they_are(self):
        self.begin()
        self.start_run(text="x" * 5000)
        long_card = self.card()
        self.assertIn("(cut)", json.dumps(long_card["blocks"]))
        self.click(long_card, "approval.reject", "UADA")
        self.wait_until(lambda: self.slack.views, "the window")
        self.assertNotIn("approval.approve", FakeSlack.buttons(long_card), "nobody approves what is not shown")
        self.slack.send(self.url(), self.slack.submission(self.slack.views[0], "too long", "UADA"))
        self.wait_for_outcome("rejected by ada: too long")
        checked = [("KnownBlock[]", long_card["blocks"]), ("KnownBlock[]", self.slack.cards()[0]["blocks"]),
                   ("ModalView", self.slack.views[0])]
        files = []
        for number, (kind, value) in enumerate(checked):
            files.append(self.folder / f"card{number}.mts")
            files[-1].write_text(f"import type {{ KnownBlock, ModalView }} from '@slack/types';\n"
                                 f"export const it: {kind} = {json.dumps(value)};\n")
        done = self.run_receivers("cards", *files)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        files[0].write_text(files[0].read_text().replace('"danger"', '"green"'))
        self.assertNotEqual(self.run_receivers("cards", *files).returncode, 0, "this would pass anything")


class Signatures(SlackCase):
    def test_come_before_everything(self):
        self.begin()
        run = self.start_run()
        payload = self.slack.click(self.card(), "approval.approve", "UADA")
        now = time.time()
        for how in ({"at": now - 301}, {"at": now + 310}, {"secret": "another"}):
            self.assertEqual(self.slack.send(self.url(), payload, **how)[0], 401, how)
        body, headers = self.slack.signed(payload)
        for change in ({"X-Slack-Signature": ""}, {"X-Slack-Signature": "v0=" + "0" * 64},
                       {"X-Slack-Request-Timestamp": "now"},
                       {"X-Slack-Request-Timestamp": headers["X-Slack-Request-Timestamp"] + "0"}):
            self.assertEqual(send_raw(self.url(), body, {**headers, **change})[0], 401, change)
        self.assertEqual(send_raw(self.url(), body + b"&x=1", headers)[0], 401)
        self.assertEqual(send_raw(self.url(), b"not a form \xff", {})[0], 401)
        self.assertEqual(self.status(run), "waiting")
        bad = self.slack.signed("no object")
        self.assertEqual(send_raw(self.url(), *bad)[0], 200)  # signed, and nothing that is known
        forged = json.loads(json.dumps(payload).replace("default", "other"))
        self.assertEqual(self.slack.send(self.url(), forged)[0], 400)
        self.assertEqual(self.status(run), "waiting")
        self.assertEqual(self.slack.send(self.url(), payload)[0], 200)
        self.assertEqual(self.status(run), "success")

    def test_bad_configuration_has_a_clear_error(self):
        self.serve()
        good = {"team": "T1", "channel": "C1", "token": "BOT", "signing_secret": "SIGNING"}
        for change, says in (({"team": "acme"}, "team"), ({"channel": "#ops"}, "channel"),
                             ({"token": "xoxb 1"}, "token"),
                             ({"api_base": "slack.com"}, "api_base"), ({"extra": 1}, "extra")):
            status, body = self.refused("PUT", "/tenant/slack", {**good, **change})
            self.assertIn(status, (400, 422), body)
            self.assertIn(says, json.dumps(body))
        self.assertEqual(self.refused("GET", "/tenant/slack")[0], 404)
        self.request("PUT", "/tenant/slack", good)
        self.assertIn("C1", self.expect(self.pawl("slack"), 0).stdout)
        self.expect(self.pawl("slack", "remove"), 0)
        self.assertEqual(self.refused("DELETE", "/tenant/slack")[0], 404)


if __name__ == "__main__":
    unittest.main()
