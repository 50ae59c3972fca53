import json
import unittest

from connector_case import ConnectorCase
from fakes import Model


class ChatTest(ConnectorCase):
    secrets = {"MODEL_KEY": Model.KEY}

    def setUp(self):
        super().setUp()
        self.model = Model(self)

    def chat(self, provider, model, code=0, attempts=1, flags=(), **more):
        with_ = {"provider": provider, "base_url": self.model.url, "model": model, "max_tokens": 100,
                 "messages": [{"role": "user", "content": "hello"}], "api_key": "${{ secrets.MODEL_KEY }}", **more}
        run = self.run_steps(self.step("model.chat", with_=with_, attempts=attempts), code=code, flags=flags)
        self.receipts = run["receipts"]
        return run["steps"][0]

    def test_a_server_of_ones_own_is_asked_only_when_the_policy_allows_it(self):
        self.output(self.chat("openai", "gpt-4.1"))
        action = self.only_receipt("succeeded")["action"]
        self.assertEqual((action["connector"], action["operation"], action["target"]),
                         ("model", "chat", self.model.url))
        self.assertEqual(action["fields"]["base_url"], self.model.url)
        self.assertEqual(action["fields"]["api_key"], "${{ secrets.MODEL_KEY }}")
        asked = len(self.model.asked)
        policy = self.workflow("policy: p\nrules:\n- {id: ours, effect: allow, when: target = 'https://models.example'}\n",
                               "policy.yaml")
        self.expect(self.pawl("policy", "put", policy), 0)
        for base in (self.model.url, self.model.url + "/v1"):
            step = self.chat("openai", "gpt-4.1", code=3, base_url=base)
            self.assertEqual(step["last_error"]["error_code"], "POLICY_DENIED")
        self.assertEqual(len(self.model.asked), asked)

    def test_what_the_provider_is_to_execute_passes_the_gate(self):
        policy = self.workflow("policy: p\nrules: [{id: none, effect: deny}]\n", "policy.yaml")
        self.expect(self.pawl("policy", "put", policy), 0)
        for more in ({"options": {"mcp_servers": [{"url": "https://x.example"}]}},
                     {"tools": [{"type": "web_fetch_20250910", "name": "f"}]}):
            step = self.chat("anthropic", "claude-sonnet-4-5", code=3, base_url="https://api.anthropic.com/v1",
                             **more)
            self.assertEqual(step["last_error"]["error_code"], "POLICY_DENIED")

    def test_anthropics_dialect_with_cost(self):
        step = self.chat("anthropic", "claude-sonnet-4-5-20250929", system="be brief", temperature=0)
        output = self.output(step)
        self.assertEqual(output["text"], "Hello there")
        self.assertEqual(output["tool_calls"], [{"id": "toolu_1", "name": "propose", "input": {"a": 1}}])
        usage = output["usage"]
        self.assertEqual(usage["input_uncached_tokens"], 1000)
        self.assertEqual((usage["input_cache_write_5m_tokens"], usage["input_cache_write_1h_tokens"]), (100, 200))
        # 1000 x 3 + 2000 x 0.30 + 100 x 3.75 + 200 x 6 + 500 x 15, each for a million
        self.assertEqual(usage["cost_usd"], "0.012675")
        self.assertEqual((step["cost_usd"], step["cost_is_known"]), ("0.012675", True))
        self.assertEqual((usage["cost_basis"], usage["price_version"]), ("computed", "2025-11"))
        self.assertEqual(usage["request_id"], "req_1")
        body = self.model.asked[0][4]
        self.assertEqual(body, {"model": "claude-sonnet-4-5-20250929", "max_tokens": 100, "system": "be brief",
                                "temperature": 0,
                                "messages": [{"role": "user", "content": "hello"}]})

    def test_openais_dialect_with_cost(self):
        step = self.chat("openai", "gpt-4.1-2025-04-14", system="be brief")
        output = self.output(step)
        self.assertEqual(output["tool_calls"], [{"id": "call_1", "name": "f", "input": {"x": 2}},
                                                {"id": "call_2", "name": "f", "arguments": "{oops"}])
        # 200 x 2 + 800 x 0.50 + 100 x 8
        self.assertEqual(output["usage"]["cost_usd"], "0.0016")
        self.assertEqual(output["usage"]["input_uncached_tokens"], 200)
        self.assertEqual(output["usage"]["reasoning_tokens"], 40)
        self.assertEqual(self.model.asked[0][4]["messages"][0], {"role": "system", "content": "be brief"})
        self.assertEqual(self.model.asked[0][4]["max_tokens"], 100)

    def test_a_model_without_a_price_has_an_unknown_cost(self):
        for model in ("gpt-4", "llama-9"):  # of gpt-4.1 and gpt-4o there are prices
            step = self.chat("openai", model)
            usage = self.output(step)["usage"]
            self.assertEqual((usage["cost_basis"], usage["cost_usd"], usage["price_version"]), ("unknown", None, None))
            self.assertFalse(step["cost_is_known"], "nought is what it is not")
            run = json.loads(self.expect(self.pawl("runs", "--json", "--limit", "1"), 0).stdout)["id"]
            self.assertFalse(json.loads(self.expect(self.pawl("show", run, "--json"), 0).stdout)["cost_is_known"])
            self.assertIn("cost unknown", self.expect(self.pawl("show", run), 0).stdout)

    def test_an_answer_without_usage_has_an_unknown_cost(self):
        self.model.with_usage = False
        usage = self.output(self.chat("openai", "gpt-4.1"))["usage"]
        self.assertEqual((usage["cost_basis"], usage["output_tokens"]), ("unknown", None))

    def test_prices_may_be_the_operators_own(self):
        table = self.folder / "prices.json"
        table.write_text(json.dumps({"version": "ours-1", "models": [
            {"provider": "openai", "model": "llama", "input": "1.00", "cache_read": "0.00", "output": "2.00"}]}))
        usage = self.output(self.chat("openai", "llama-9", flags=("--prices", str(table))))["usage"]
        self.assertEqual((usage["cost_usd"], usage["price_version"]), ("0.0004", "ours-1"))
        table.write_text('{"version": "x", "models": [{"provider": "openai", "model": "m", "input": 1}]}')
        result = self.pawl("run", self.workflow('{"workflow": "w", "steps": [{"id": "a", "tool": "noop"}]}'),
                           "--prices", table)
        self.expect(result, 2)
        self.assertIn("must be an amount in quotes", result.stderr)

    def test_what_may_pass_is_tried_again_and_what_may_not_is_not(self):
        error = lambda kind, code=None: {"error": {"type": kind, "message": "m", "code": code}}
        rows = (("openai", 429, error("insufficient_quota", "insufficient_quota"), {}, "TOOL_FAILED", False),
                ("openai", 429, error("rate_limit_exceeded"), {"retry-after-ms": "20"}, "TOOL_RATE_LIMITED", True),
                ("anthropic", 529, error("overloaded_error"), {}, "TOOL_DEPENDENCY_DOWN", True),
                ("anthropic", 400, error("invalid_request_error"), {}, "TOOL_INVALID_ARGUMENTS", False),
                ("anthropic", 413, error("request_too_large"), {}, "TOOL_INVALID_ARGUMENTS", False),
                ("anthropic", 401, error("authentication_error"), {}, "TOOL_FAILED", False),
                ("openai", 500, error("server_error"), {"x-should-retry": "false"}, "TOOL_DEPENDENCY_DOWN", False))
        for provider, status, body, headers, code, again in rows:
            self.model.mood("POST", status=status, body=body, headers=headers)
            step = self.chat(provider, "gpt-4.1", attempts=2, code=0 if again else 1)
            self.assertEqual(step["attempts"], 2 if again else 1, body)
            if not again:
                self.assertEqual(step["last_error"]["error_code"], code)
            self.model.moods.clear()

    def test_bad_questions_are_refused(self):
        for more, why in (({"messages": []}, "at least one"), ({"max_tokens": 0}, "above nought"),
                          ({"options": {"stream": True}}, "must not hold stream"),
                          ({"provider": "acme"}, "anthropic or openai")):
            provider = more.pop("provider", "openai")
            step = self.chat(provider, "m", code=1, **more)
            self.assertIn(why, step["last_error"]["message"])


if __name__ == "__main__":
    unittest.main()
