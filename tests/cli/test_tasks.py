"""pawl task and pawl inbox, against a real server; the steps are done by a worker, as people would have it."""
import json
import unittest

from server_case import ServerCase

# Asks once, and is done with what it is told; `noop` needs nobody.
WORK = """
workflow: work
steps:
  - {id: do, tool: noop}
"""
SLOW = """
workflow: slow
steps:
  - {id: do, tool: nobody.has, lease: 30s}
"""
GATED = """
workflow: gated
steps:
  - {id: gate, tool: approval, prompt: "Ship it?"}
"""


class Tasks(ServerCase):
    def setUp(self):
        super().setUp()
        self.serve()
        for text in (WORK, SLOW, GATED):
            self.expect(self.pawl("workflows", "--publish", self.workflow(text)), 0)

    def add(self, *args):
        done = self.pawl("task", "add", *args, "--json")
        self.expect(done, 0)
        return json.loads(done.stdout)["id"]

    def task(self, task):
        return json.loads(self.pawl("task", "show", task, "--json").stdout)

    def state(self, task, state):
        self.wait_until(lambda: self.task(task)["state"] == state, f"{task} is {state}")

    def lease(self, tool):
        leases = self.request("POST", "/leases", {"worker": "w", "tools": [tool], "max": 1, "wait": "30s"})["leases"]
        return leases[0]

    def test_a_task_from_the_wish_to_the_review(self):
        self.assertIn("no tasks", self.pawl("task").stdout)
        task = self.add("Sweep the floor", "--workflow", "work", "--tag", "house", "--run")
        self.state(task, "READY")
        shown = self.pawl("task", "show", task[-6:])
        self.expect(shown, 0)
        for word in (task, "READY", "Sweep the floor", "house", "accept"):
            self.assertIn(word, shown.stdout)
        inbox = self.pawl("inbox")
        self.expect(inbox, 5)
        self.assertIn("pawl task accept " + task, inbox.stdout)
        self.expect(self.pawl("task", "reject", task, "there is dust"), 0)
        self.assertEqual(self.task(task)["rejection_comment"], "there is dust")
        self.expect(self.pawl("task", "run", task), 0)
        self.state(task, "READY")
        self.expect(self.pawl("task", "accept", task), 0)
        refused = self.pawl("task", "accept", task)
        self.expect(refused, 3)
        self.assertIn("possible is delete", refused.stderr)
        self.assertIn("nothing waits", self.pawl("inbox").stdout)
        self.assertIn(task, self.pawl("task", "list", "--state", "COMPLETED", "--tag", "house").stdout)
        self.expect(self.pawl("task", "delete", task), 0)
        self.expect(self.pawl("task", "show", task), 4)

    def test_questions_come_to_the_inbox_and_answers_go_back(self):
        task = self.add("Write", "Write a poem.", "--agent", "command", "--command", "/bin/poet", "--command", "-v",
                        "--folder", "/srv", "--budget", "1.50", "--timeout", "15m", "--mcp", "--sandbox", '{"network": false}', "--run")
        lease = self.lease("agent.command")
        self.assertEqual(lease["input"]["command"], ["/bin/poet", "-v"])
        self.assertEqual(lease["input"]["sandbox"], {"network": False})
        self.request("POST", f"/leases/{lease['lease_id']}/ask", {"token": lease["token"], "question": {"question": "About what?"}})
        self.state(task, "BLOCKED")
        self.assertIn("About what?", self.pawl("inbox").stdout)
        self.assertIn("? About what?", self.pawl("task", "board").stdout)
        self.expect(self.pawl("task", "answer", task), 2)
        self.expect(self.pawl("task", "answer", task, "the sea"), 0)
        again = self.lease("agent.command")
        self.assertEqual(again["answer"], "the sea")
        done = {"lease_id": again["lease_id"], "token": again["token"]}
        self.request("POST", "/leases/complete", {"items": [done]})
        self.state(task, "READY")

    def test_approvals_and_parts_and_dependencies(self):
        first = self.add("first", "--workflow", "gated", "--run")
        part = self.add("part", "--workflow", "work", "--parent", first[-8:])
        later = self.add("later", "--workflow", "work", "--depends-on", first, "--priority", "high", "--run")
        self.wait_until(lambda: self.pawl("inbox").returncode == 5, "the approval")
        items = [json.loads(line) for line in self.pawl("inbox", "--json").stdout.splitlines()]
        self.assertEqual([item["kind"] for item in items], ["approval"])
        self.assertEqual(self.task(first)["subtasks"], [part])
        self.assertIn(part, self.pawl("task", "list", "--parent", first).stdout)
        self.assertEqual(self.task(later)["state"], "QUEUED")
        self.expect(self.pawl("task", "cancel", later, "not today"), 0)
        self.assertEqual(self.task(later)["state"], "CANCELLED")
        board = json.loads(self.pawl("task", "board", "--json").stdout)
        self.assertEqual([task["id"] for task in board["CANCELLED"]], [later])

    def test_what_is_wrong_is_said(self):
        for args, code in ((["add"], 2), (["add", "title"], 2), (["show"], 2), (["show", "abc"], 2), (["show", "nowhere"], 4),
                           (["dance"], 2), (["add", "t", "--workflow", "nowhere"], 2), (["list", "--state", "busy"], 2),
                           (["add", "t", "--workflow", "work", "--input", "{"], 2)):
            with self.subTest(args=args):
                done = self.pawl("task", *args)
                self.assertNotEqual(done.stderr, "")
                self.assertEqual(done.returncode, code, done.stderr)


if __name__ == "__main__":
    unittest.main()
