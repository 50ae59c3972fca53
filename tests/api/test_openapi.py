"""The document at /openapi.json against the server that gives it."""
import json
import re
import unittest

from json_schema import Schemas
from served_case import ServedCase
from waiting import until

NOBODY = {"TaskId": "task_00000000000000000000000000", "RunId": "run_01kaw3v9m8f2hr4x6q0t7c5ezy",
          "ApprovalId": "apr_01kaw3v9m8f2hr4x6q0t7c5ezy",
          "KeyId": "key_01kaw3v9m8f2hr4x6q0t7c5ezy", "ReceiptId": "rcp_01kaw3v9m8f2hr4x6q0t7c5ezy",
          "LeaseId": "run_01kaw3v9m8f2hr4x6q0t7c5ezy:nobody", "Name": "nobody"}


class OpenApiCase(ServedCase):
    flags = ("--restate", "http://127.0.0.1:9", "--restate-admin", "http://127.0.0.1:9")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.document = cls.ask("GET", "/openapi.json").body
        cls.schemas = Schemas(cls.document)
        cls.operations = {operation["operationId"]: (method.upper(), path, operation)
                          for path, item in cls.document["paths"].items() for method, operation in item.items()}

    def expect_fit(self, schema, value, what):
        self.assertEqual(self.schemas.problems(schema, value), [], what)

    def example(self, name):
        return self.document["components"]["examples"][name]["value"]


class Document(OpenApiCase):
    def test_is_the_same_with_the_optional_prefix(self):
        self.assertEqual(self.ask("GET", "/api/openapi.json").body, self.document)

    def test_every_operation_leads_to_a_route(self):
        for name, (method, path, operation) in self.operations.items():
            with self.subTest(name):
                kinds = {p["name"]: p["schema"]["$ref"].rpartition("/")[2]
                         for p in operation.get("parameters", []) if p["in"] == "path"}
                path = re.sub(r"{(\w+)}", lambda match: NOBODY[kinds[match[1]]], path)
                # A path that nobody has is a 404 before keys are looked at, so this tells routes from other paths.
                answer = self.ask(method, path)
                if name == "receive_slack_action":
                    self.assertEqual(answer.status, 401)  # signed, instead of a key
                elif operation.get("security") == []:
                    self.assertEqual(answer.status, 200)
                else:
                    self.assertEqual((answer.status, answer.body["code"]), (401, "UNAUTHORIZED"))
                    self.assertEqual(answer.headers["www-authenticate"], "Bearer")

    def test_every_example_fits_its_schema(self):
        for name, (_, _, operation) in self.operations.items():
            for described in [operation.get("requestBody", {}), *operation["responses"].values()]:
                for media in described.get("content", {}).values():
                    for label, example in media.get("examples", {}).items():
                        value = self.schemas.resolve(example["$ref"])["value"]
                        self.expect_fit(media["schema"], value, f"{name} {label}")

    def test_problems_are_shown_with_the_status_they_stand_under(self):
        for name, (_, _, operation) in self.operations.items():
            for status, response in operation["responses"].items():
                for example in response.get("content", {}).get("application/problem+json", {}).get("examples",
                                                                                                   {}).values():
                    self.assertEqual(self.schemas.resolve(example["$ref"])["value"]["status"], int(status), name)


class Answers(OpenApiCase):
    """Calls every operation, most of them with the document's own example, and holds the answer against the
    document."""

    def call(self, operation_id, body=None, key=None, expect=None, headers=None, query="", **path):
        method, pattern, operation = self.operations[operation_id]
        answer = self.ask(method, pattern.format(**path) + query, body, key or self.key, headers)
        self.assertIn(str(answer.status), operation["responses"], f"{operation_id}: {answer.text}")
        if expect:
            self.assertEqual(answer.status, expect, f"{operation_id}: {answer.text}")
        described = operation["responses"][str(answer.status)]
        self.assertIn(answer.content_type, described["content"], operation_id)
        value = answer.body if "json" in answer.content_type else answer.text
        self.expect_fit(described["content"][answer.content_type]["schema"], value, f"{operation_id}: {answer.text}")
        if answer.content_type == "application/problem+json":
            self.assertIn(answer.body["code"], described["description"], operation_id)
        for header in described.get("headers", {}):
            self.assertIn(header.lower(), answer.headers, operation_id)
        self.called.add(operation_id)
        return value

    def test_every_operation_answers_as_described(self):
        self.called = set()
        for part in (self.publish, self.carry_a_run, self.refuse_and_retry, self.pass_the_gate, self.prove, self.report,
                     self.make_many, self.govern, self.administer, self.know_people, self.tell_others,
                     self.ask_for_things,
                     self.operate, self.listen_to_agents, self.follow):
            part()
        self.assertEqual(set(self.operations), self.called)

    def publish(self):
        self.call("publish_workflow", self.example("Definition"), name="ship-order", expect=201)
        self.call("publish_workflow", self.example("WorkflowDefinition"), name="ship-order", expect=201)
        self.call("publish_workflow", self.example("WorkflowDefinition"), name="ship-order", expect=200)
        self.call("publish_workflow", "workflow: ship-order", name="ship-order", expect=422)
        self.call("list_workflows")
        self.call("get_workflow", name="ship-order", query="?version=1", expect=200)
        self.call("get_workflow", name="nobody", expect=404)

    def govern(self):
        self.call("get_policy", expect=200)
        self.call("publish_policy", self.example("PolicyText"), expect=201)
        self.call("publish_policy", self.example("PolicyDefinition"), expect=201)
        self.call("publish_policy", self.example("PolicyDefinition"), expect=200)
        self.call("publish_policy", "policy: p", expect=422)
        self.call("get_policy", query="?version=1", expect=200)
        self.call("get_policy", query="?version=9", expect=404)
        self.call("list_policy_versions", expect=200)
        self.call("test_policy", self.example("PolicyTrial"), expect=200)
        self.call("test_policy", {"policy": "policy: p"}, expect=422)

    def start(self, **more):
        return self.call("create_run", {**self.example("NewRun"), **more}, expect=201)["id"]

    def take_lease(self):
        lease = self.call("take_leases", self.example("LeaseRequest"), expect=200)["leases"][0]
        self.call("list_workers", expect=200)
        return {"lease_id": lease["lease_id"], "token": lease["token"]}

    def run_to_gate(self):
        run = self.start()
        done = {**self.take_lease(), "output": {"boxes": 2}, "cost_usd": "0.10"}
        self.call("complete_leases", {"items": [done, {**done, "token": "9"}]}, expect=200)
        return run

    def carry_a_run(self):
        twice = {"Idempotency-Key": "order-17"}
        self.call("create_run", self.example("NewRun"), headers=twice, expect=201)
        first = self.call("create_run", self.example("NewRun"), headers=twice, expect=200)["id"]
        self.call("create_run", {"workflow": "ship-order"}, headers=twice, expect=422)
        self.call("create_run", {"workflow": "nobody"}, expect=422)
        self.call("create_run", "{", expect=400)
        self.call("keep_leases", {"items": [self.take_lease(), {"lease_id": first + ":nobody", "token": "1"}]},
                  expect=200)
        self.call("release_leases", {"items": [{"lease_id": first + ":pack", "token": "1"},
                                               {"lease_id": first + ":pack", "token": "1"}]}, expect=200)
        self.call("answer_run", {"step": "pack", "answer": "in one box"}, id=first, expect=200)
        self.call("cancel_run", self.example("Reason"), id=first, expect=200)
        self.call("answer_run", {"step": "pack", "answer": "in one box"}, id=first, expect=409)

        run = self.run_to_gate()
        self.call("retry_run", id=run, expect=409)
        self.call("list_approvals", query="?limit=10", expect=200)
        self.call("list_approvals", query="?cursor=soon", expect=400)
        self.call("create_run", {"workflow": "ship-order", "input": "x" * (1 << 20)}, expect=413)
        for vocabulary in self.document["components"]["schemas"]["Vocabulary"]["enum"]:
            self.call("get_run", id=run, query="?vocabulary=" + vocabulary, expect=200)
        self.call("approve_run", self.example("Decision"), id=run, expect=200)
        self.call("approve_run", id=run, expect=200)
        self.call("reject_run", id=run, expect=409)
        self.call("cancel_run", id=run, expect=409)
        self.call("get_run", id=run, query="?at=3", expect=200)
        self.call("get_run", id=NOBODY["RunId"], expect=404)
        self.call("list_run_events", id=run, query="?limit=5", expect=200)
        self.call("list_runs", query="?status=success&limit=1", expect=200)
        self.call("list_runs", query="?status=nobody", expect=400)

    def refuse_and_retry(self):
        run = self.run_to_gate()
        denied = self.call("reject_run", {"reason": "no such address"}, id=run, expect=200)
        self.assertEqual(denied["status"], "denied")
        for status in (201, 200):
            self.call("retry_run", id=run, headers={"Idempotency-Key": "again"}, expect=status)
        failed = {**self.take_lease(), "message": "nobody there", "retryable": False}
        self.call("fail_leases", {"items": [failed, {**failed, "token": 7}, 7]}, expect=200)
        for decide in ("approve", "reject"):
            run = self.run_to_gate()
            approval = self.call("get_run", id=run)["approvals"][0]["id"]
            self.call("get_approval", id=approval)
            self.call(decide, {"reason": "looked at it"}, id=approval, expect=200)
        self.call("get_approval", id=NOBODY["ApprovalId"], expect=404)
        self.call("approve", id=NOBODY["ApprovalId"], expect=404)

    def propose(self, lease, expect=200, **more):
        action = {**self.example("ProposedAction"), "token": lease["token"], **more}
        return self.call("propose_action", action, id=lease["lease_id"], expect=expect)

    def pass_the_gate(self):
        self.start()
        lease = self.take_lease()
        allowed = self.propose(lease)
        self.assertEqual(allowed["decision"], "allow")
        self.propose(lease, expect=422, target="shelf/18")
        self.propose({**lease, "token": "9"}, expect=409)
        receipt = allowed["receipt_id"]
        outcome = {**self.example("EffectOutcome"), "token": lease["token"]}
        for _ in range(2):
            self.call("record_outcome", outcome, id=lease["lease_id"], receipt=receipt, expect=200)
        self.call("record_outcome", outcome, id=lease["lease_id"], receipt=NOBODY["ReceiptId"], expect=404)
        self.assertTrue(self.propose(lease)["is_done"])
        for status in (201, 200):
            self.call("reverse_receipt", id=receipt, expect=status)
        self.call("undo_run", id=lease["lease_id"].partition(":")[0], expect=200)
        self.call("undo_run", id=NOBODY["RunId"], expect=404)
        undoing = self.take_lease()
        self.call("cancel_run", id=undoing["lease_id"].partition(":")[0], expect=200)
        self.call("list_receipts", query="?status=succeeded&limit=1", expect=200)
        self.call("get_receipt", id=receipt, expect=200)
        self.call("settle_receipt", self.example("Settlement"), id=receipt, expect=409)
        question = {**self.example("Question"), "token": lease["token"]}
        self.call("ask", question, id=lease["lease_id"], expect=200)
        self.call("ask", self.example("Question"), id=lease["lease_id"], expect=409)

        self.start()
        lease = self.take_lease()
        asked = self.propose(lease, risk="med")
        self.assertEqual(asked["decision"], "needs_approval")
        self.call("approve", id=asked["approval_id"], expect=200)
        lease = self.take_lease()
        receipt = self.propose(lease, risk="med")["receipt_id"]
        self.call("record_outcome", {**outcome, "token": lease["token"]}, id=lease["lease_id"], receipt=receipt,
                  expect=200)
        self.call("complete_leases", {"items": [lease]}, expect=200)

        self.start()
        lease = self.take_lease()
        receipt = self.propose(lease, idempotent=False)["receipt_id"]
        self.call("fail_leases", {"items": [{**lease, "retryable": False}]}, expect=200)
        self.assertEqual(self.call("get_receipt", id=receipt, expect=200)["status"], "in_doubt")
        self.call("settle_receipt", self.example("Settlement"), id=receipt, expect=200)

    def know_people(self):
        self.call("set_person", self.example("PersonIdentities"), name="ada", expect=200)
        self.call("set_person", {"accounts": ["nowhere"]}, name="ada", expect=400)
        self.call("list_people", expect=200)
        self.call("remove_person", name="ada", expect=200)
        self.call("remove_person", name="ada", expect=404)

    def prove(self):
        run = self.run_to_gate()
        self.call("get_evidence", id=run, expect=409)
        self.call("get_evidence", id=run, query="?partial=true", expect=200)
        self.call("get_evidence", id=run, query="?partial=maybe", expect=400)
        self.call("get_evidence", id=NOBODY["RunId"], expect=404)
        # The server makes some by itself: the first may find nothing to cover.
        self.call("make_checkpoint")
        self.call("make_checkpoint", expect=200)
        self.call("list_checkpoints", query="?limit=1", expect=200)
        self.call("prove_consistency", query="?from=1", expect=200)
        self.call("prove_consistency", query="?from=99", expect=404)
        self.call("list_signing_keys", expect=200)
        self.call("rotate_signing_key", expect=201)
        self.call("cancel_run", id=run, expect=200)

    def listen_to_agents(self):
        step = {"id": "work", "tool": "agent.command",
                "with": {"prompt": "x", "command": ["sh", "-c", "echo '{\"type\":\"result\"}'"]}}
        self.call("publish_workflow", {"workflow": "said", "steps": [step]}, name="said", expect=201)
        run = self.call("create_run", {"workflow": "said"}, expect=201)["id"]
        part = self.call("get_log", id=run, step="work", query="?follow=true&limit=100", expect=200)
        self.assertIn("result", part["text"])
        self.call("get_log", id=run, step="work", query="?stream=neither", expect=400)
        self.call("get_log", id=run, step="nobody", expect=404)
        self.call("list_logs", id=run, expect=200)
        self.call("list_logs", id=NOBODY["RunId"], expect=404)
        task = self.call("create_task", {"title": "t", "agent": "command", **step["with"]}, expect=201)["id"]
        self.call("get_task_log", id=task, expect=404)
        self.call("run_task", id=task, expect=200)
        self.assertIn("result", self.call("get_task_log", id=task, query="?follow=true&execution=1",
                                          expect=200)["text"])
        self.call("get_task_log", id=task, query="?execution=2", expect=404)
        self.call("speak_mcp", self.example("McpMessage"), expect=200)

    def report(self):
        run = self.start(provider="external")
        self.call("report_run_status", {"status": "running"}, id=run, expect=200)
        self.call("report_run_status", self.example("StatusReport"), id=run, expect=200)
        self.call("report_run_status", {"status": "running"}, id=run, expect=409)
        # Nobody is there to carry it, which changes nothing about what is asked of people here.
        foreign = {"workflow": "bill-order", "provider": "restate", "target": {"service": "Billing", "handler": "bill"},
                   "approvals": [{"id": "sign-off"}]}
        self.call("publish_workflow", foreign, name="bill-order", expect=201)
        run = self.start(workflow="bill-order")
        self.call("request_approval", self.example("ApprovalRequest"), id=run, expect=200)
        self.call("request_approval", {"approval": "nobody"}, id=run, expect=400)
        self.call("cancel_run", id=run, expect=200)
        self.call("request_approval", self.example("ApprovalRequest"), id=run, expect=409)
        self.call("request_approval", self.example("ApprovalRequest"), id=NOBODY["RunId"], expect=404)
        self.call("list_runs", query="?provider=restate&provider_state=running&retry_count_min=1", expect=200)

    def make_many(self):
        items = self.example("NewRuns")["items"] + [{"workflow": "nobody"}, {"budget": "1.00"}]
        results = self.call("create_runs", {"items": items}, expect=200)["items"]
        self.assertEqual([result["status"] for result in results], [201, 201, 422, 400])

    def administer(self):
        self.call("get_tenant")
        self.call("set_caps", self.example("Limits"), expect=200)
        self.call("set_workspace", self.example("WorkspaceWeight"), name="europe", expect=200)
        self.call("set_workspace", {}, name="%20", expect=400)
        self.call("get_caps")
        self.call("change_caps", self.example("LimitsChange"), expect=200)
        self.call("list_workspaces")
        self.call("create_tenant", self.example("NewTenant"), expect=201)
        self.call("create_tenant", self.example("NewTenant"), expect=200)
        self.call("get_tenant_by_name", name="acme", expect=200)
        self.call("get_tenant_by_name", name="nobody", expect=404)
        self.call("change_ceiling", self.example("LimitsChange"), name="acme", expect=200)
        self.call("suspend_tenant", self.example("NewSuspension"), name="acme", expect=200)
        self.call("get_tenant_by_name", name="acme", expect=200)
        self.call("resume_tenant", name="acme", expect=200)
        self.call("freeze_effects", self.example("NewFreeze"), expect=200)
        self.call("list_freezes", expect=200)
        self.call("unfreeze_effects", self.example("LiftedFreeze"), expect=200)
        self.call("unfreeze_effects", self.example("LiftedFreeze"), expect=404)
        self.call("list_tenants")
        made = self.call("create_key", self.example("NewKey"), expect=201)
        viewer = self.call("create_key", {"role": "viewer"}, expect=201)["key"]
        self.call("list_keys")
        self.call("list_audit", query="?limit=1")
        self.call("list_keys", key=viewer, expect=403)
        once = {"Idempotency-Key": "once"}
        for status in (201, 200):
            self.call("create_key", {"role": "worker"}, headers=once, expect=status)
        self.call("create_key", {"role": "viewer"}, headers=once, expect=422)
        self.call("create_key", {"role": "viewer", "tenant": "nobody"}, expect=422)
        again = {"Idempotency-Key": "again"}
        for status in (201, 200):
            self.call("rotate_key", self.example("KeyRotation"), headers=again, id=made["id"], expect=status)
        self.call("rotate_key", id=made["id"], expect=409)
        self.call("revoke_key", id=made["id"], expect=200)
        self.call("revoke_key", id=NOBODY["KeyId"], expect=404)

    def tell_others(self):
        self.call("set_webhook", self.example("NewWebhook"), name="orders", expect=201)
        self.call("set_webhook", {**self.example("NewWebhook"), "events": ["*"]}, name="orders", expect=200)
        self.call("set_webhook", {"url": "x"}, name="orders", expect=400)
        self.call("list_webhooks", expect=200)
        self.call("get_webhook", name="orders", expect=200)
        self.start()
        page = until(lambda: self.call("list_deliveries", name="orders", query="?limit=1", expect=200),
                     lambda page: page["items"], "a delivery")
        delivery = page["items"][0]["id"]
        for status in (201, 200):
            self.call("replay_delivery", name="orders", id=delivery, headers={"Idempotency-Key": "replay"},
                      expect=status)
        self.call("replay_delivery", name="orders", id=NOBODY["RunId"], expect=404)
        self.call("replay_deliveries", self.example("ReplayRequest"), name="orders", expect=200)
        self.call("remove_webhook", name="orders", expect=200)
        self.call("remove_webhook", name="orders", expect=404)
        self.call("get_slack", expect=404)
        self.call("set_slack", self.example("NewSlackPlace"), expect=200)
        self.call("set_slack", {}, expect=400)
        self.call("get_slack", expect=200)
        self.call("receive_slack_action", "payload=%7B%7D", expect=401)
        self.call("remove_slack", expect=200)

    def task_in(self, task, state):
        return until(lambda: self.call("get_task", id=task, expect=200), lambda seen: seen["state"] == state,
                     f"{task} is {state}")

    def take_agent(self):
        body = {"worker": "w", "tools": ["test.sweep"], "max": 1, "wait": "30s"}
        taken = until(lambda: self.call("take_leases", body, expect=200)["leases"], bool, "a step to take")
        lease = taken[0]
        return {"lease_id": lease["lease_id"], "token": lease["token"]}

    def ask_for_things(self):
        once = {"Idempotency-Key": "task-17"}
        for status in (201, 200):
            self.call("create_task", self.example("NewTask"), headers=once, expect=status)
        self.call("create_task", {"title": "t", "workflow": "ship-order"}, headers=once, expect=422)
        self.call("create_task", {"title": "t", "workflow": "nobody"}, expect=422)
        self.call("create_task", {"title": "t", "workflow": "ship-order", "depends_on": [NOBODY["TaskId"]]}, expect=422)
        self.call("create_task", {"title": "t"}, expect=400)
        steps = [{"id": "sweep", "tool": "test.sweep", "retry": {"max_attempts": 1}}]
        self.call("publish_workflow", {"workflow": "swept", "steps": steps}, name="swept", expect=201)
        wanted = {"title": "t", "workflow": "swept"}
        task = self.call("create_task", wanted, expect=201)["id"]
        cycle = {**wanted, "parent_task_id": task, "depends_on": [task]}
        self.call("create_task", cycle, expect=409)
        self.call("create_task", {"title": "t", "prompt": "p" * 300_000}, expect=400)
        self.call("run_task", id=task, expect=200)
        self.call("run_task", id=task, expect=409)
        self.call("delete_task", id=task, expect=409)
        lease = self.take_agent()
        self.call("ask", {"token": lease["token"], "question": "why?"}, id=lease["lease_id"], expect=200)
        self.task_in(task, "BLOCKED")
        self.call("answer_task", self.example("TaskAnswer"), id=task, expect=200)
        self.call("answer_task", self.example("TaskAnswer"), id=task, expect=409)
        self.call("answer_task", id=task, expect=400)
        self.call("complete_leases", {"items": [self.take_agent()]}, expect=200)
        self.task_in(task, "READY")
        self.call("reject_task", self.example("TaskRejection"), id=task, expect=200)
        self.call("reject_task", id=task, expect=409)
        self.call("run_task", id=task, expect=200)
        self.call("complete_leases", {"items": [self.take_agent()]}, expect=200)
        self.task_in(task, "READY")
        self.call("accept_task", id=task, expect=200)
        self.call("accept_task", id=task, expect=409)
        self.call("list_task_events", id=task, query="?limit=3", expect=200)
        self.call("list_task_events", id=NOBODY["TaskId"], expect=404)
        late = self.call("create_task", {**wanted, "timeout": "50ms"}, expect=201)["id"]
        self.call("run_task", id=late, expect=200)
        self.take_agent()  # a run's time begins when it does
        self.assertIsNotNone(self.task_in(late, "TIMED_OUT")["diagnostic"])
        self.call("list_tasks", query="?state=TIMED_OUT&limit=1", expect=200)
        self.call("list_tasks", query="?state=nobody", expect=400)
        self.call("change_task", {"tags": ["late"], "timeout": "50ms", "max_budget_usd": None}, id=late, expect=200)
        self.call("change_task", {"max_budget_usd": "much"}, id=late, expect=400)
        self.call("change_task", {"tags": []}, id=NOBODY["TaskId"], expect=404)
        self.call("resume_task", id=late, expect=200)
        self.call("resume_task", id=late, expect=409)
        self.call("cancel_task", self.example("Reason"), id=late, expect=200)
        self.task_in(late, "CANCELLED")
        self.call("cancel_task", id=late, expect=409)
        self.call("change_task", {"tags": []}, id=late, expect=409)
        self.call("delete_task", id=late, expect=200)
        self.call("get_task", id=late, expect=404)

    def operate(self):
        for name in ("get_health", "get_readiness", "get_metrics", "get_openapi"):
            self.call(name, expect=200)

    def follow(self):
        described = self.operations["follow_events"][2]["responses"]["200"]["content"]["text/event-stream"]["schema"]
        message = self.schemas.resolve(described["$ref"])["contentSchema"]
        run = self.start()
        connection, response = self.open("GET", f"/events?after=0&run={run}", key=self.key)
        self.assertEqual(response.getheader("content-type").partition(";")[0], "text/event-stream")
        seen = []
        while len(seen) < 2:
            field, _, value = response.readline().decode().rstrip("\n").partition(": ")
            if field == "data":
                seen.append(json.loads(value))
                self.expect_fit(message, seen[-1], value)
        connection.close()
        self.assertEqual([m["event"]["type"] for m in seen], ["run.created", "step.unblocked"])
        self.call("follow_events", query="?after=999999999.1", expect=410)
        self.call("follow_events", query="?after=soon", expect=400)


if __name__ == "__main__":
    unittest.main()
