import unittest

from connector_case import ConnectorCase
from fakes import Slack


class PostTest(ConnectorCase):
    secrets = {"SLACK_TOKEN": Slack.TOKEN}

    def setUp(self):
        super().setUp()
        self.slack = Slack(self)

    def post(self, code=0, attempts=1, key=None, **more):
        with_ = {"url": self.slack.url, "channel": "C123", "text": "hello", "token": "${{ secrets.SLACK_TOKEN }}", **more}
        return self.run_step("slack.post", with_, code=code, attempts=attempts, key=key)

    def test_a_message_is_posted_with_its_key(self):
        step = self.post(blocks=[{"type": "divider"}], thread_ts="1.2")
        self.assertEqual(self.output(step), {"channel": "C123", "ts": "1731715200.000000"})
        message = self.slack.messages[0]
        key = self.only_receipt("succeeded")["action"]["idempotency_key"]
        self.assertRegex(key, r"^slack:post:C123:1\.2:[0-9a-f]{32}$")
        self.assertEqual(self.receipts[0]["action"]["target"], self.slack.url + "/C123/1.2")
        self.assertEqual(message["metadata"], {"event_type": "pawl_post", "event_payload": {"key": key}})
        self.assertEqual(message["blocks"], [{"type": "divider"}])

    def test_a_channel_has_one_spelling(self):
        for channel in ("c123", "C123 ", "general", "#General", "#", "C", "C12/3", "\u0421123", "#gen\u200beral",
                        "C123\n"):
            step = self.post(code=1, channel=channel)
            self.assertIn("`channel` must be a channel's id", step["last_error"]["message"], channel)
            self.assertEqual(self.receipts, [])
        self.assertIn("`thread_ts` must be", self.post(code=1, thread_ts="1.2/x")["last_error"]["message"])
        self.assertIn("Slack refused", self.post(code=1, channel="#general-2")["last_error"]["message"])

    def test_what_is_allowed_at_slack_is_not_allowed_elsewhere(self):
        policy = self.workflow("policy: p\nrules: [{id: ours, effect: allow, when: target = 'C123'}]\n", "policy.yaml")
        self.expect(self.pawl("policy", "put", policy), 0)
        self.assertEqual(self.post(code=3)["last_error"]["error_code"], "POLICY_DENIED")
        self.assertEqual(self.slack.asked, [])

    def post_lost(self, timeout, effect=True, prepare=lambda: None):
        self.slack = Slack(self)
        self.slack.mood("POST", effect=effect, hang=True)
        prepare()
        return self.post(attempts=20, timeout=timeout, text=f"within {timeout}")

    def test_one_whose_answer_was_lost_is_found_and_not_posted_twice(self):
        step = self.with_one_lost_answer(self.post_lost)
        self.assertEqual(step["status"], "succeeded")
        self.assertEqual(len(self.slack.messages), 1)
        self.assertEqual(len(self.slack.calls("POST")), 1)

    def test_one_that_was_not_posted_is_posted_again(self):
        step = self.with_one_lost_answer(lambda timeout: self.post_lost(timeout, effect=False))
        self.assertEqual(step["status"], "succeeded")
        self.assertEqual(len(self.slack.messages), 1)

    def test_it_is_looked_for_on_later_pages_too(self):
        def prepare():
            for n in range(450):
                self.slack.messages.append({"ts": f"1731715100.{n:06}", "text": "noise"})
            original = self.slack.route

            def bury(method, path, query, headers, body):
                result = original(method, path, query, headers, body)
                if method == "POST":
                    self.slack.messages.insert(0, self.slack.messages.pop())
                return result
            self.slack.route = bury

        self.with_one_lost_answer(lambda timeout: self.post_lost(timeout, prepare=prepare))
        self.assertEqual(len(self.slack.calls("POST")), 1)
        self.assertEqual(len(self.slack.calls("GET")), 3)

    def test_refusals_are_told_apart(self):
        for error, code, status in (("channel_not_found", "TOOL_INVALID_ARGUMENTS", "failed"),
                                    ("token_revoked", "TOOL_FAILED", "failed"),
                                    ("ratelimited", "TOOL_RATE_LIMITED", "failed"),
                                    ("fatal_error", "TOOL_DEPENDENCY_DOWN", "in_doubt")):
            self.slack.mood("POST", status=200, body={"ok": False, "error": error})
            step = self.post(code=1, key="key-" + error)
            self.assertEqual(step["last_error"]["error_code"], code, error)
            self.only_receipt(status)

    def test_a_rate_limit_is_waited_for(self):
        self.slack.mood("POST", status=429, body={"ok": False, "error": "ratelimited"}, headers={"Retry-After": "1"})
        step = self.post(attempts=2)
        self.assertEqual(step["attempts"], 2)
        self.assertEqual(len(self.slack.messages), 1)

    def test_a_server_that_is_not_there_has_done_nothing(self):
        self.slack.server.shutdown()
        self.slack.server.server_close()
        step = self.post(code=1)
        self.assertEqual(step["last_error"]["error_code"], "TOOL_DEPENDENCY_DOWN")
        self.only_receipt("failed")


if __name__ == "__main__":
    unittest.main()
