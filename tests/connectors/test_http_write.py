import unittest

from connector_case import ConnectorCase
from fakes import Fake


class Things(Fake):
    def __init__(self, case):
        super().__init__(case)
        self.effects = []

    def route(self, method, path, query, headers, body):
        self.effects.append((method, path, headers.get("Idempotency-Key"), headers.get("X-Token"), body))
        return 200, {"ok": True}


class DeclaredWriteTest(ConnectorCase):
    secrets = {"TOKEN": "canary-token-1"}

    def setUp(self):
        super().setUp()
        self.things = Things(self)

    def ask(self, code=0, attempts=1, **with_):
        return self.run_step("http.request", {"url": self.things.url + "/thing?q=1", **with_}, code=code,
                             attempts=attempts)

    def test_what_only_reads_has_no_receipt_unless_it_is_declared_to_write(self):
        self.ask(method="GET")
        self.assertEqual(self.receipts, [])
        self.ask(method="GET", writes=True)
        receipt = self.only_receipt("succeeded")
        self.assertEqual(receipt["action"]["target"], self.things.url + "/thing")

    def test_a_post_that_is_declared_to_read_is_seen_by_the_policy_and_may_be_repeated(self):
        self.ask(method="POST", writes=False)
        receipt = self.only_receipt("succeeded")
        self.assertEqual(receipt["action"]["fields"]["writes"], False)
        self.assertTrue(receipt["idempotent"])

    def test_a_declared_undo_is_kept_with_the_receipt_and_can_be_sent(self):
        self.ask(method="POST", headers={"X-Token": "${{ secrets.TOKEN }}"}, body={"n": 1},
                 undo={"method": "DELETE", "url": self.things.url + "/thing/1"})
        tool, fields, key = self.undo(self.only_receipt("succeeded"))
        self.assertEqual(fields["headers"], {"X-Token": "${{ secrets.TOKEN }}"})
        self.run_step(tool, fields, key=key)
        self.assertEqual(self.things.effects[-1], ("DELETE", "/thing/1", key, "canary-token-1", None))

    def test_one_in_doubt_is_repeated_when_the_target_honours_keys(self):
        self.things.mood("POST", effect=True, status=502)
        self.ask(method="POST", idempotent=True, attempts=2)
        keys = [effect[2] for effect in self.things.effects]
        self.assertEqual(len(keys), 2)
        self.assertEqual(keys[0], keys[1])

    def test_one_in_doubt_is_asked_about_when_it_does_not(self):
        self.things.mood("POST", effect=True, status=502)
        run = self.run_steps(self.step("http.request", with_={"url": self.things.url, "method": "POST"}, attempts=2),
                             code=self.exit_waiting)
        self.assertEqual(run["steps"][0]["status"], "waiting_input")
        self.assertEqual(len(self.things.effects), 1)

    exit_waiting = 5

    def test_refusals_and_connections_that_were_not_made_are_harmless(self):
        self.things.mood("POST", status=422)
        self.ask(method="POST", code=1)
        self.only_receipt("failed")
        self.things.server.shutdown()
        self.things.server.server_close()
        self.ask(method="POST", code=1)
        self.only_receipt("failed")

    def test_an_undo_that_is_none_is_refused(self):
        step = self.ask(method="POST", undo={"url": "http://x"}, code=1)
        self.assertIn("must be a map with `method` and `url`", step["last_error"]["message"])
        self.assertEqual(self.receipts, [])


if __name__ == "__main__":
    unittest.main()
