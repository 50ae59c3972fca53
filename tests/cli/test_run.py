import json
import unittest

from pawl_case import ESCAPE, GATED, SOURCE, TWO_STEPS, PawlCase


class Run(PawlCase):
    def tearDown(self):
        if self.data.exists():
            self.verify_clean()

    def test_a_run_prints_plain_lines_when_piped(self):
        result = self.expect(self.pawl("run", self.workflow(TWO_STEPS)), 0)
        self.assertNotIn(ESCAPE, result.stdout)
        self.assertNotIn("\r", result.stdout)
        self.assertRegex(result.stdout, r"\+\d+\.\d{3}s +second +succeeded")
        self.assertIn('{"n":1}', result.stdout)
        self.assertIn("pawl show run_", result.stdout)
        self.assertIn(str(self.data / "pawl.db"), result.stdout)
        self.assertEqual(result.stderr, "")

    def test_json_is_the_journals_own_lines_and_a_result(self):
        result = self.expect(self.pawl("run", self.workflow(TWO_STEPS), "--json"), 0)
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        end = lines.pop()
        self.assertEqual([line["type"] for line in lines][0], "run.created")
        self.assertEqual(end["type"], "result")
        self.assertEqual(end["run"]["status"], "success")
        self.assertEqual(end["result"], {"n": 1})
        journal = self.expect(self.pawl("show", end["run"]["id"], "--events", "--json"), 0).stdout
        self.assertEqual(journal.splitlines(), result.stdout.splitlines()[:-1])

    def test_the_examples_run(self):
        for name, flags in (("first-run", ["--approve"]), ("parallel", []),
                            ("orders", ["--input", f"@{SOURCE}/examples/orders.json"])):
            with self.subTest(name):
                result = self.expect(self.pawl("run", SOURCE / f"examples/{name}.yaml", "--json", *flags,
                                               env={"TMPDIR": str(self.folder)}), 0)
                end = json.loads(result.stdout.splitlines()[-1])
                self.assertEqual(end["run"]["status"], "success")
                if name == "first-run":
                    steps = {step["id"]: step for step in end["run"]["steps"]}
                    self.assertEqual(steps["judge"]["attempts"], 2)
                    self.assertEqual(end["run"]["cost_usd"], "0.04")
                    self.assertIn("Dear you", end["result"]["stdout"])
                    self.assertEqual(end["run"]["approvals"][0]["status"], "approved")
                if name == "parallel":
                    self.assertEqual(end["result"], {"regions": 3, "slept_ms": 1400})

    def test_input_comes_as_text_file_or_stdin(self):
        echo = self.workflow('workflow: echo\nsteps:\n  - {id: e, tool: noop, with: {output: "${{ input }}"}}\n')
        (self.folder / "in.json").write_text('{"a": [1, 2]}')
        for flag, stdin in (('{"a": [1, 2]}', ""), ("@in.json", ""), ("-", '{"a":[1,2]}')):
            with self.subTest(flag):
                result = self.expect(self.pawl("run", echo, "--json", "--input", flag, stdin=stdin), 0)
                self.assertEqual(json.loads(result.stdout.splitlines()[-1])["result"], {"a": [1, 2]})

    def test_input_that_is_not_json_is_refused(self):
        result = self.expect(self.pawl("run", self.workflow(TWO_STEPS), "--input", "{nope"), 2)
        self.assertIn("--input is not JSON", result.stderr)
        self.assertIn("offset", result.stderr)
        self.assertFalse(self.data.exists())
        self.expect(self.pawl("run", self.workflow(TWO_STEPS), "--input", "@missing.json"), 4)

    def test_a_broken_definition_names_file_line_and_column_and_leaves_no_trace(self):
        bad = self.workflow("workflow: bad\nsteps:\n  - {id: a, tool: nope}\n  - {id: a, tool: noop, with: {x: 1}}\n",
                            "bad.yaml")
        result = self.expect(self.pawl("run", bad), 2)
        self.assertRegex(result.stderr, r"bad\.yaml:3:\d+: ")
        self.assertRegex(result.stderr, r"bad\.yaml:4:\d+: ")
        self.assertFalse(self.data.exists())
        result = self.expect(self.pawl("run", self.workflow("workflow: [", "worse.yaml")), 2)
        self.assertRegex(result.stderr, r"worse\.yaml:\d+:\d+: ")
        self.expect(self.pawl("run", self.folder / "missing.yaml"), 4)

    def test_a_step_that_fails_for_good_fails_the_run_with_a_diagnostic(self):
        text = """
workflow: broken
steps:
  - id: boom
    tool: shell
    retry: {max_attempts: 2, base: 1ms, max: 5ms}
    with: {argv: [sh, -c, "echo sorry >&2; exit 3"]}
  - {id: never, tool: noop}
"""
        result = self.expect(self.pawl("run", self.workflow(text)), 1)
        for words in ("sorry", "TOOL_FAILED", "cause", "fix", "retryable", "canceled"):
            self.assertIn(words, result.stdout)
        end = self.run_to_end(text, code=1)
        self.assertEqual(end["run"]["status"], "failed")
        self.assertEqual(end["run"]["error_code"], "TOOL_FAILED")
        self.assertEqual(end["run"]["steps"][0]["attempts"], 2)

    def test_a_tool_cannot_send_escapes_to_the_terminal(self):
        text = r"""
workflow: hostile
steps:
  - {id: boom, tool: shell, retry: {max_attempts: 1}, with: {argv: [printf, '\033[2J\033]0;owned\007'], parse: json}}
"""
        result = self.expect(self.pawl("run", self.workflow(text)), 1)
        self.assertNotIn(ESCAPE, result.stdout)

    def test_budget_and_timeout_end_a_run(self):
        dear = "workflow: dear\nsteps:\n  - {id: a, tool: noop, with: {cost_usd: '0.50'}}\n"
        end = self.run_to_end(dear, "--budget", "0.40", code=1)
        self.assertEqual(end["run"]["error_code"], "BUDGET_EXCEEDED")
        slow = "workflow: slow\nsteps:\n  - {id: a, tool: sleep, with: {duration: 60s}}\n"
        end = self.run_to_end(slow, "--timeout", "200ms", code=1)
        self.assertEqual(end["run"]["status"], "timeout")

    def test_workspace_goes_into_the_run(self):
        end = self.run_to_end(TWO_STEPS, "--workspace", "blue")
        self.assertEqual(end["run"]["workspace"], "blue")
        self.expect(self.pawl("run", self.workflow(TWO_STEPS), "--workspace", "a b"), 2)

    def test_the_folder_comes_from_the_environment(self):
        where = self.folder / "elsewhere"
        self.expect(self.pawl("run", self.workflow(TWO_STEPS), data=False, env={"PAWL_DATA": str(where)}), 0)
        self.assertTrue((where / "pawl.db").exists())
        self.expect(self.pawl("run", self.workflow(TWO_STEPS), data=False, env={"XDG_DATA_HOME": str(where / "x")}), 0)
        self.assertTrue((where / "x/pawl/pawl.db").exists())
        self.expect(self.pawl("run", self.workflow(TWO_STEPS), data=False), 0)
        self.assertTrue((self.folder / ".local/share/pawl/pawl.db").exists())

    def test_the_same_definition_keeps_its_version(self):
        self.assertEqual(self.run_to_end(TWO_STEPS)["run"]["version"], 1)
        self.assertEqual(self.run_to_end(TWO_STEPS)["run"]["version"], 1)
        self.assertEqual(self.run_to_end(TWO_STEPS + "timeout: 1m\n")["run"]["version"], 2)


class Approval(PawlCase):
    def tearDown(self):
        self.verify_clean()

    def test_the_first_of_two_who_must_approve_is_told_so(self):
        text = "workflow: pair\nsteps:\n  - {id: gate, tool: approval, quorum: 2}\n"
        self.expect(self.pawl("run", self.workflow(text)), 5)
        run = self.only_run()["id"]
        voted = self.expect(self.pawl("approve", run), 0).stdout
        self.assertRegex(voted, r"(?m)^apr_\w+: 1 of 2 people have approved; the run is waiting$")
        self.assertNotIn("go on with", voted)

    def test_flags_answer_it(self):
        end = self.run_to_end(GATED, "--approve", "--reason", "looked at it")
        self.assertEqual(end["run"]["status"], "success")
        self.assertEqual(end["run"]["approvals"][0]["reason"], "looked at it")
        end = self.run_to_end(GATED, "--reject", "--reason", "too late", code=3)
        self.assertEqual(end["run"]["status"], "denied")
        self.assertIn("too late", end["run"]["diagnostic"]["message"])

    def test_without_terminal_and_flag_the_run_is_left_waiting_and_can_go_on(self):
        result = self.expect(self.pawl("run", self.workflow(GATED)), 5)
        self.assertIn("Ship gated?", result.stdout)
        self.assertIn("pawl approve run_", result.stdout)
        self.assertIn("pawl resume run_", result.stdout)
        run = self.only_run()
        self.assertEqual(run["status"], "waiting")
        self.expect(self.pawl("resume", run["id"]), 5)
        result = self.expect(self.pawl("approve", run["id"][-6:], "--reason", "fine"), 0)
        self.assertIn("pawl resume", result.stdout)
        self.assertEqual(self.only_run()["status"], "running")
        self.expect(self.pawl("approve", run["id"]), 0)  # a repeat is the same answer
        self.expect(self.pawl("reject", run["id"]), 3)
        self.expect(self.pawl("resume", run["id"]), 0)
        self.assertEqual(self.only_run()["status"], "success")

    def test_reject_denies_at_once(self):
        self.expect(self.pawl("run", self.workflow(GATED)), 5)
        run = self.only_run()
        self.expect(self.pawl("reject", run["id"], "--reason", "no"), 0)
        self.assertEqual(self.only_run()["status"], "denied")
        self.expect(self.pawl("resume", run["id"]), 3)

    def test_resume_takes_the_flags_too(self):
        self.expect(self.pawl("run", self.workflow(GATED)), 5)
        self.expect(self.pawl("resume", "--approve"), 0)
        self.assertEqual(self.only_run()["status"], "success")

    def test_who_asked_cannot_approve_for_two(self):
        text = "workflow: strict\nsteps:\n  - {id: gate, tool: approval, two_person: true}\n"
        result = self.expect(self.pawl("run", self.workflow(text), "--approve"), 5)
        self.assertIn("two people", result.stdout)
        self.expect(self.pawl("approve", self.only_run()["id"]), 3)
        self.assertEqual(self.only_run()["status"], "waiting")

    def test_nothing_to_decide(self):
        self.run_to_end(TWO_STEPS)
        self.expect(self.pawl("approve", self.only_run()["id"]), 4)

    def test_cancel_is_for_good(self):
        self.expect(self.pawl("run", self.workflow(GATED)), 5)
        run = self.only_run()
        self.expect(self.pawl("cancel", run["id"], "--reason", "changed my mind"), 0)
        self.assertEqual(self.only_run()["status"], "canceled")
        self.expect(self.pawl("cancel", run["id"]), 0)
        self.expect(self.pawl("resume", run["id"]), 1)
        self.expect(self.pawl("approve", run["id"]), 3)


if __name__ == "__main__":
    unittest.main()
