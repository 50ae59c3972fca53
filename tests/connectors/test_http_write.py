import unittest

from connector_case import ConnectorCase
from fakes import Fake


class Things(Fake):
    def __init__(self, case):
        super().__init__(case)
        self.effects = []
        self.answer = {"ok": True}

    def route(self, method, path, query, headers, body):
        self.effects.append((method, path, headers.get("Idempotency-Key"), headers.get("X-Token"), body))
        return 200, self.answer


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

    def test_a_read_that_carries_something_is_a_write(self):
        for with_ in ({"body": {"query": "x"}}, {"headers": {"X-HTTP-Method-Override": "GET"}},
                      {"method": "get", "headers": {"x_method_override": "head"}}):
            self.ask(**with_)
            self.assertEqual(self.only_receipt("succeeded")["action"]["target"], self.things.url + "/thing")
        self.ask(headers={"Accept": "text/plain"})
        self.assertEqual(self.receipts, [])

    def test_a_request_without_a_method_is_the_get_that_it_is_sent_as(self):
        for method in ({}, {"method": "get"}):
            self.things.mood("GET", status=500)
            step = self.ask(attempts=2, **method)
            self.assertEqual((step["status"], step["attempts"], self.receipts), ("succeeded", 2, []), method)
        self.assertEqual({effect[0] for effect in self.things.effects}, {"GET"})
        self.ask(writes=True)
        self.assertEqual(self.only_receipt("succeeded")["action"]["fields"]["method"], "GET")

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

    def undo_made(self, answer, **undo):
        """The undo in the receipt of a call that was answered so."""
        self.things.answer = answer
        self.ask(method="POST", undo={"method": "delete", **undo})
        return self.only_receipt("succeeded")["undo"]

    def test_an_undo_uses_what_the_call_answered(self):
        base = self.things.url
        undo = self.undo_made({"id": "a/b ?&#é", "n": 7, "tags": ["x", "${{ secrets.TOKEN }}"]},
                              url=base + "/thing/${{ response.body.id }}?n=${{ response.body.n }}",
                              body={"n": "${{ response.body.n }}", "all": "${{ response.body.tags }}",
                                    "text": "of ${{ response.body.id }}", "status": "${{ response.status }}"})
        sent = f"{base}/thing/a%2Fb%20%3F%26%23%C3%A9"
        self.assertEqual((undo["fields"]["method"], undo["fields"]["url"]), ("DELETE", sent + "?n=7"))
        self.assertEqual(undo["target"], sent)
        self.run_step("http.request", undo["fields"], key=undo["idempotency_key"])
        method, path, _, _, body = self.things.effects[-1]
        self.assertEqual((method, path), ("DELETE", sent[len(base):]))
        self.assertEqual(body, {"n": 7, "all": ["x", "${{ secrets.TOKEN }}"], "text": "of a/b ?&#é", "status": 200})

    def test_a_response_does_not_lead_an_undo_elsewhere(self):
        url = self.things.url + "/thing/${{ response.body.id }}"
        for value in ("..", ".", "", "../admin", "..;x", "%2e%2e", "a\0", None, ["x"], {"y": 1}):
            self.assertIsNone(self.undo_made({"id": value}, url=url), value)
        self.assertIsNone(self.undo_made({"other": 1}, url=url))
        self.assertIsNone(self.undo_made({"id": 1}, url=url, body={"x": "${{ response.body.missing }}"}))
        self.assertEqual(self.undo_made({"id": "@evil"}, url=url)["fields"]["url"], self.things.url + "/thing/%40evil")

    def test_what_a_response_cannot_fill_is_refused_before_the_effect(self):
        base, named = self.things.url, "${{ response.body.id }}"
        for undo in ({"url": named}, {"url": f"http://{named}/x"}, {"url": f"http://h:{named}/"},
                     {"url": base, "headers": {"Authorization": named}}, {"url": base, "body": f"id={named}"},
                     {"url": base, "method": named}, {"url": base, "method": "GET"}):
            step = self.ask(method="POST", code=1, undo={"method": "DELETE", **undo})
            self.assertIn("`undo` has a", step["last_error"]["message"].replace("has `", "has a `"), undo)
        self.assertEqual(self.things.effects, [])

    def test_an_undo_that_is_none_is_refused(self):
        step = self.ask(method="POST", undo={"url": "http://x"}, code=1)
        self.assertIn("must be a map with `method` and `url`", step["last_error"]["message"])
        self.assertEqual(self.receipts, [])


POLICY = """
policy: public-only
rules:
  - {{id: large, effect: deny, when: "coalesce(fields ->> '$.body.amount', 0) > 1000"}}
  - {{id: public, effect: allow, when: "target GLOB '{base}/public/*'"}}
  - {{id: rest, effect: deny}}
"""


class JudgedIsSentTest(ConnectorCase):
    secrets = {"UP": "../admin/delete", "TOKEN": "a/b"}

    def setUp(self):
        super().setUp()
        self.things = Things(self)
        text = self.workflow(POLICY.format(base=self.things.url), "policy.yaml")
        self.assertEqual(self.pawl("policy", "put", text).returncode, 0)

    def post(self, path, code=0, **with_):
        return self.run_step("http.request", {"url": self.things.url + path, **{"method": "POST", **with_}}, code=code)

    def paths(self):
        return [path for _, path, *_ in self.things.effects]

    def test_a_path_that_leaves_what_was_allowed_is_judged_as_where_it_leads(self):
        for path in ("/public/../admin/delete", "/public/%2e%2e/admin/delete", "/public/x/../../admin"):
            step = self.post(path, code=3)
            self.assertEqual(step["last_error"]["error_code"], "POLICY_DENIED", step)
        for path in ("/public/..%2fadmin", "/public/%252e%252e/admin", "/public/..;/admin"):
            step = self.post(path, code=1)
            self.assertEqual(step["last_error"]["error_code"], "TOOL_INVALID_ARGUMENTS", step)
        self.assertEqual(self.paths(), [])
        self.post("/public/./a/../thing")
        self.assertEqual(self.paths(), ["/public/thing"])
        receipt = self.only_receipt("succeeded")
        self.assertEqual(receipt["action"]["target"], self.things.url + "/public/thing")
        self.assertEqual(receipt["action"]["fields"]["url"], self.things.url + "/public/thing")

    def test_a_method_is_judged_as_it_is_sent(self):
        text = self.workflow("policy: p\nrules:\n"
                             "  - {id: no, effect: deny, when: \"fields ->> '$.method' = 'DELETE'\"}\n"
                             "  - {id: rest, effect: allow}\n", "policy.yaml")
        self.assertEqual(self.pawl("policy", "put", text).returncode, 0)
        self.assertEqual(self.post("/x", code=3, method="delete")["last_error"]["error_code"], "POLICY_DENIED")
        self.assertEqual(self.paths(), [])

    def test_no_header_leads_to_another_method_or_place(self):
        text = self.workflow("policy: p\nrules: [{id: all, effect: allow}]\n", "policy.yaml")
        self.assertEqual(self.pawl("policy", "put", text).returncode, 0)
        for name, value in (("X-HTTP-Method-Override", "DELETE"), ("x_http_method", "merge"), ("X-Method", " put "),
                            ("X-Sub-Method", "delete"), ("X-Original-URL", "/admin"), ("x_rewrite_url", "/admin"),
                            ("X-Forwarded-Host", "other.example"), ("Forwarded", "host=other.example"),
                            ("X-Host", "other.example"), ("transfer_encoding", "chunked"), ("content_length", "0")):
            for method in ("GET", "POST"):
                step = self.post("/public/x", code=1, method=method, headers={name: value})
                self.assertEqual(step["last_error"]["error_code"], "TOOL_INVALID_ARGUMENTS", step)
                self.assertIn(name, step["last_error"]["message"])
        self.assertEqual(self.paths(), [])
        # The same method, one that only reads, and what is no method are no more than what is judged.
        self.post("/public/x", headers={"X-HTTP-Method-Override": "post", "X-Method": "GET", "Payment-Method": "card"})
        self.assertEqual(self.paths(), ["/public/x"])

    def test_a_secret_does_not_lead_elsewhere(self):
        self.assertEqual(self.post("/public/${{ secrets.UP }}", code=1)["last_error"]["error_code"],
                         "TOOL_INVALID_ARGUMENTS")
        self.post("/public/${{ secrets.TOKEN }}/x")
        self.assertEqual(self.paths(), ["/public/a/b/x"])

    def test_an_undo_that_could_not_be_sent_is_refused_before_the_effect(self):
        for url in ("http://ada:word@host/", "http://127.1/", "/thing", "https://${{ secrets.TOKEN }}/x"):
            step = self.post("/public/x", code=1, undo={"method": "DELETE", "url": url})
            self.assertIn("`undo`", step["last_error"]["message"])
        for name, value in (("Host", "other.example"), ("X-Original-URL", "/admin"), ("X-Method", "PUT"), ("a b", "c")):
            step = self.post("/public/x", code=1, undo={"method": "DELETE", "url": self.things.url + "/public/x",
                                                        "headers": {name: value}})
            self.assertIn("`undo` has `headers` that cannot be sent", step["last_error"]["message"])
        self.assertEqual(self.paths(), [])

    def test_a_write_is_not_redirected(self):
        step = self.post("/public/x", code=1, follow_redirects=True)
        self.assertIn("follow_redirects", step["last_error"]["message"])
        self.assertEqual(self.paths(), [])

    def test_no_size_hides_an_amount(self):
        for size in (0, 200_000, 300_000, 900_000):
            step = self.post("/public/pay", code=3, body={"amount": 5000, "note": "n" * size})
            self.assertEqual(step["last_error"]["error_code"], "POLICY_DENIED", step)
        self.post("/public/pay", body={"amount": 5, "note": "n" * 900_000})
        self.assertEqual(self.paths(), ["/public/pay"])


if __name__ == "__main__":
    unittest.main()
