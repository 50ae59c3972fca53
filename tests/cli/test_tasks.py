"""pawl task and pawl inbox, against a real server."""
import json
import unittest

from pawl_case import TIMEOUT_S
from server_case import ServerCase

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
# An agent that asks once, says what it was told, and is done.
POET = """#!/usr/bin/env python3
import json, os, sys
print("told " + " ".join(sys.argv[1:]) + ": " + sys.stdin.read(), flush=True)
if os.environ["PAWL_RESUME"] == "0":
    with open(os.environ["PAWL_QUESTION_FILE"], "w") as out:
        json.dump({"question": "About what?"}, out)
print(json.dumps({"type": "result", "result": "done"}))
"""


class Tasks(ServerCase):
    def setUp(self):
        super().setUp()
        self.server = self.serve()
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

    def poet(self):
        program = self.folder / "home" / "poet"
        program.parent.mkdir()
        program.write_text(POET)
        program.chmod(0o755)
        return program

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
        self.assertIn("Allowed: delete.", refused.stderr)
        self.assertIn("nothing waits", self.pawl("inbox").stdout)
        self.assertIn(task, self.pawl("task", "list", "--state", "COMPLETED", "--tag", "house").stdout)
        self.expect(self.pawl("task", "delete", task), 0)
        self.expect(self.pawl("task", "show", task), 4)

    def test_questions_come_to_the_inbox_and_answers_go_back(self):
        poet = self.poet()
        task = self.add("Write", "Write a poem.", "--agent", "command", "--command", str(poet), "--command", "-v",
                        "--folder", str(poet.parent), "--budget", "1.50", "--timeout", "15m", "--mcp",
                        "--sandbox", '{"mode": "auto", "network": true}', "--run")
        self.state(task, "BLOCKED")
        self.assertIn("About what?", self.pawl("inbox").stdout)
        self.assertIn("? About what?", self.pawl("task", "board").stdout)
        self.expect(self.pawl("task", "answer", task), 2)
        self.expect(self.pawl("task", "answer", task, "the sea"), 0)
        self.state(task, "READY")
        self.assertIn("told -v: the sea", self.expect(self.pawl("task", "logs", task), 0).stdout)
        for name in (task, task[-6:]):
            self.assertIn("told -v: the sea", self.expect(self.pawl("logs", name, "--follow"), 0).stdout)
        self.assertIn("told -v: Write a poem.", self.expect(self.pawl("logs", task, "--attempt", "1"), 0).stdout)

    def test_logs_of_what_has_not_begun_are_waited_for(self):
        poet = self.poet()
        task = self.add("Write", "Write a poem.", "--agent", "command", "--command", str(poet), "--folder",
                        str(poet.parent))
        self.assertIn("has not begun", self.expect(self.pawl("task", "logs", task), 4).stderr)
        reader = self.start("task", "logs", task, "--follow")
        self.expect(self.pawl("task", "run", task), 0)
        self.state(task, "BLOCKED")
        self.expect(self.pawl("task", "answer", task, "the moon"), 0)
        self.state(task, "READY")
        self.assertEqual(reader.wait(TIMEOUT_S), 0)
        self.assertIn("no run and no task", self.expect(self.pawl("logs", "nowhere"), 4).stderr)

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

    def test_a_task_is_changed_and_cancelled_with_all_beneath_it(self):
        task = self.add("t", "--workflow", "slow", "--timeout", "5m", "--run")
        part = self.add("part", "--workflow", "slow", "--parent", task)
        self.expect(self.pawl("task", "change", part), 2)
        self.expect(self.pawl("task", "change", part, "--timeout", "none", "--budget", "2.50", "--tag", "a"), 0)
        changed = self.task(part)
        self.assertEqual((changed["timeout"], changed["max_budget_usd"], changed["tags"]), (None, "2.50", ["a"]))
        self.expect(self.pawl("task", "change", part, "--tag", "none"), 0)
        self.assertEqual(self.task(part)["tags"], [])
        self.expect(self.pawl("task", "change", task, "--timeout", "1h"), 3)  # it is queued
        self.expect(self.pawl("task", "cancel", task, "--subtasks"), 0)
        self.state(task, "CANCELLED")
        self.state(part, "CANCELLED")
        self.expect(self.pawl("task", "delete", task, "--subtasks"), 0)
        self.expect(self.pawl("task", "show", part), 4)

    def test_a_review_shows_what_was_done(self):
        poet = self.poet()
        task = self.add("Write", "Write a poem.", "--agent", "command", "--command", str(poet), "--folder",
                        str(poet.parent), "--run")
        self.state(task, "BLOCKED")
        self.expect(self.pawl("task", "answer", task, "the sea"), 0)
        self.state(task, "READY")
        self.assertIn("result\n    done\n", self.pawl("task", "show", task).stdout)
        inbox = self.pawl("inbox").stdout
        self.assertRegex(inbox, r"asked +Write a poem\.\n")
        self.assertRegex(inbox, r"result +done\n")
        for command in (f"pawl task accept {task}", f"pawl task reject {task} COMMENT"):
            self.assertIn(command, inbox)
        item, = [json.loads(line) for line in self.pawl("inbox", "--json").stdout.splitlines()]
        self.assertEqual((item["what"], item["task"]["result"]["text"]), ("Write: done", "done"))

    def test_a_review_shows_what_a_workflow_returned_and_where_the_rest_of_it_is(self):
        for name, output in (("short", "{total: 40}"), ("long", "'" + "word " * 600 + "'")):
            source = f"workflow: {name}\nsteps:\n  - {{id: one, tool: noop, with: {{output: {output}}}}}\n"
            self.expect(self.pawl("workflows", "--publish", self.workflow(source)), 0)
        short = self.add("short", "--workflow", "short", "--run")
        long = self.add("long", "--workflow", "long", "--run")
        for task in (short, long):
            self.state(task, "READY")
        inbox = self.pawl("inbox").stdout
        self.assertRegex(inbox, r'workflow +short\n +result +\{"total":40\}\n')
        self.assertIn(f"... all of it: pawl task show {long}", " ".join(inbox.split()))
        for line in inbox.splitlines():
            self.assertLessEqual(len(line), 80, line)

    def test_everything_that_was_given_and_done_is_shown_line_by_line(self):
        prompt = "\n".join(f"line {number}" for number in range(30))
        task = self.add("Write", prompt, "--folder", "/srv/site", "--model", "m", "--permission-mode", "plan",
                        "--allow", "Read", "--allow", "Bash(git *)", "--disallow", "WebFetch", "--no-mcp",
                        "--project-settings", "--priority", "high")
        shown = self.expect(self.pawl("task", "show", task), 0).stdout
        for line in ("folder      /srv/site", "model       m", "permission  plan", 'allowed     ["Read","Bash(git *)"]',
                     'disallowed  ["WebFetch"]', "mcp         false", "project settings true",
                     "priority    high",
                     "prompt\n    line 0\n    line 1\n", "... 10 lines more; --json shows all of it"):
            self.assertIn("  " + line, shown)
        self.assertEqual(self.pawl("task", "add", "t", "p", "--mcp", "--no-mcp").returncode, 2)
        flow = self.add("t", "--workflow", "slow", "--input", '{"day": "monday"}', "--run")
        shown = self.expect(self.pawl("task", "show", flow), 0).stdout
        self.assertIn('  input       {"day":"monday"}', shown)
        self.assertNotIn("session", shown, "agents in a workflow have their own")

    def test_a_result_of_several_lines_is_shown_as_such(self):
        poet = self.poet()
        poet.write_text(poet.read_text().replace('"result": "done"', '"result": "one\\ntwo\\tand\\u001b[31m"'))
        task = self.add("Write", "Write a poem.", "--agent", "command", "--command", str(poet), "--folder",
                        str(poet.parent), "--run")
        self.state(task, "BLOCKED")
        self.expect(self.pawl("task", "answer", task, "the sea"), 0)
        self.state(task, "READY")
        self.assertIn("result\n    one\n    two and [31m\n", self.pawl("task", "show", task).stdout)

    def test_a_tasks_streams_are_no_runs_and_every_id_that_is_printed_is_known(self):
        poet = self.poet()
        task = self.add("Write", "Write a poem.", "--agent", "command", "--command", str(poet), "--folder",
                        str(poet.parent), "--run")
        self.state(task, "BLOCKED")
        run = self.task(task)["run_id"]
        self.assertIn(run, self.pawl("task", "show", task).stdout)

        def check(names, **named):
            self.assertEqual(self.pawl("runs", "--json", **named).stdout, "", "a task is no run")
            for name in names:
                self.assertIn("About what?", self.expect(self.pawl("show", name, **named), 0).stdout)

        check([run, task], data=False, env=self.away())  # at the server
        if self.store:
            return
        self.kill(self.server)
        check([run, task])  # in its folder, of which a part is only in the journal

    def test_what_is_wrong_is_said(self):
        for args, code in ((["add"], 2), (["add", "title"], 2), (["add", "title", " "], 2),
                           (["show"], 2), (["show", "abc"], 2), (["show", "nowhere"], 4),
                           (["dance"], 2), (["add", "t", "--workflow", "nowhere"], 2), (["list", "--state", "busy"], 2),
                           (["add", "t", "--workflow", "work", "--input", "{"], 2)):
            with self.subTest(args=args):
                done = self.pawl("task", *args)
                self.assertNotEqual(done.stderr, "")
                self.assertEqual(done.returncode, code, done.stderr)


if __name__ == "__main__":
    unittest.main()
