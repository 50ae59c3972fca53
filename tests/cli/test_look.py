"""The commands that only look: runs, show, graph, check, version, help; and what is said to those who mistype."""
import json
import re
import unittest

from pawl_case import ESCAPE, GATED, SOURCE, TWO_STEPS, PawlCase


class Looking(PawlCase):
    def setUp(self):
        super().setUp()
        self.expect(self.pawl("run", self.workflow(TWO_STEPS)), 0)
        self.expect(self.pawl("run", self.workflow(GATED)), 5)
        self.gated, self.two = (run["id"] for run in self.runs())

    def test_runs_lists_newest_first_and_filters(self):
        result = self.expect(self.pawl("runs"), 0)
        self.assertNotIn(ESCAPE, result.stdout)
        self.assertLess(result.stdout.index(self.gated), result.stdout.index(self.two))
        self.assertEqual([run["id"] for run in self.runs("--status", "waiting")], [self.gated])
        self.assertEqual(len(self.runs("--limit", "1")), 1)
        self.assertIn("no run is failed", self.expect(self.pawl("runs", "--status", "failed"), 0).stdout)
        self.expect(self.pawl("runs", "--status", "sleepy"), 2)

    def test_runs_are_found_by_what_they_do_who_carries_them_and_their_retries(self):
        rows = {row["id"]: row for row in self.runs()}
        self.assertEqual([(rows[run]["provider"], rows[run]["sub_state"], rows[run]["provider_state"],
                           rows[run]["retry_count"])
                          for run in (self.gated, self.two)],
                         [("native", "waiting", "waiting", 0), ("native", "succeeded", "success", 0)])
        for flags, found in ((["--sub-state", "waiting"], [self.gated]), (["--sub-state", "succeeded"], [self.two]),
                             (["--sub-state", "backing-off"], []), (["--provider", "native"], [self.gated, self.two]),
                             (["--provider", "native", "--status", "waiting"], [self.gated]),
                             (["--provider", "restate"], []),
                             (["--retries", "1"], []), (["--sub-state", "waiting", "--status", "success"], [])):
            self.assertEqual([run["id"] for run in self.runs(*flags)], found, flags)
        none = self.expect(self.pawl("runs", "--provider", "restate", "--sub-state", "error", "--retries", "2"),
                           0).stdout
        self.assertIn("no run that restate carries with 2 retries or more is error in ", none)
        for flags in (["--sub-state", "sleepy"], ["--provider", "pigeons"], ["--retries", "0"], ["--retries", "often"]):
            self.expect(self.pawl("runs", *flags), 2)

    def test_show_takes_a_whole_id_its_beginning_or_its_end(self):
        for name in (self.gated, self.gated[:-1], self.gated[-6:], self.gated.removeprefix("run_")):
            with self.subTest(name):
                self.assertEqual(self.show(name)["id"], self.gated)

    def test_show_says_what_is_near_when_it_finds_nothing(self):
        wrong = self.gated[:-1] + ("0" if self.gated[-1] != "0" else "1")
        result = self.expect(self.pawl("show", wrong), 4)
        self.assertIn(self.gated, result.stderr)
        result = self.expect(self.pawl("show", "nonsense"), 4)
        self.assertIn("the newest are", result.stderr)
        result = self.expect(self.pawl("show", "run_"), 4)
        self.assertIn("more than one", result.stderr)

    def test_show_goes_back_in_time(self):
        now = self.show(self.gated)
        self.assertEqual(now["status"], "waiting")
        then = self.show(self.gated, "--at", "2")
        self.assertEqual((then["status"], then["seq"]), ("created", 2))
        self.assertEqual(then["approvals"], [])
        result = self.expect(self.pawl("show", self.gated, "--at", "2"), 0)
        self.assertIn(f"as it was after event 2 of {now['seq']}", result.stdout)
        self.expect(self.pawl("show", self.gated, "--at", "0"), 4)
        self.expect(self.pawl("show", self.gated, "--at", "999"), 4)

    def test_show_lists_events_with_their_hashes(self):
        result = self.expect(self.pawl("show", self.gated, "--events"), 0)
        head = self.show(self.gated)["head"]
        self.assertIn(head[:8], result.stdout.splitlines()[-1])
        events = self.expect(self.pawl("show", self.gated, "--events", "--json"), 0).stdout.splitlines()
        self.assertEqual(json.loads(events[0])["type"], "run.created")

    def test_show_speaks_other_vocabularies(self):
        self.assertEqual(self.show(self.gated, "--vocabulary", "state-machine")["status"], "WAITING_APPROVAL")
        self.assertEqual(self.show(self.two, "--vocabulary", "runtime")["status"], "succeeded")
        self.assertIn("WAITING_APPROVAL",
                      self.expect(self.pawl("show", self.gated, "--vocabulary", "state-machine"), 0).stdout)
        self.expect(self.pawl("show", self.two, "--vocabulary", "esperanto"), 2)

    def test_show_a_run_that_ended_badly_says_why(self):
        self.expect(self.pawl("reject", self.gated, "--reason", "not today"), 0)
        result = self.expect(self.pawl("show", self.gated), 0)
        for words in ("denied", "not today", "APPROVAL_REJECTED"):
            self.assertIn(words, result.stdout)


class Drawing(PawlCase):
    def test_every_lifecycle_in_both_languages(self):
        for what in ("run", "step", "approval", "receipt"):
            self.assertIn("stateDiagram", self.expect(self.pawl("graph", what, data=False), 0).stdout)
            self.assertIn("digraph", self.expect(self.pawl("graph", what, "--format", "dot", data=False), 0).stdout)

    def test_a_workflows_steps(self):
        path = SOURCE / "examples/parallel.yaml"
        mermaid = self.expect(self.pawl("graph", path, data=False), 0).stdout
        self.assertIn("flowchart", mermaid)
        self.assertEqual(mermaid.count("-->"), 6)
        dot = self.expect(self.pawl("graph", path, "--format", "dot", data=False), 0).stdout
        self.assertIn('"east" -> "join"', dot)

    def test_what_is_neither(self):
        self.assertIn("run, step", self.expect(self.pawl("graph", "nothing", data=False), 4).stderr)
        self.expect(self.pawl("graph", self.workflow("workflow: x\n"), data=False), 2)


class Checking(PawlCase):
    def test_good_files(self):
        files = sorted(SOURCE.glob("examples/*.yaml"))
        result = self.expect(self.pawl("check", *files, data=False), 0)
        self.assertEqual(result.stdout.count("no errors"), len(files))
        self.assertIn("\n  Collects facts, ", result.stdout)

    def test_all_errors_of_all_files_with_their_places(self):
        bad = self.workflow("workflow: bad\ntimeout: soon\nsteps:\n  - {id: a, tool: http.requst}\n", "bad.yaml")
        good = self.workflow(TWO_STEPS, "good.yaml")
        result = self.expect(self.pawl("check", bad, good, data=False), 2)
        self.assertRegex(result.stderr, r"bad\.yaml:2:\d+: ")
        self.assertRegex(result.stderr, r"bad\.yaml:4:\d+: ")
        self.assertIn("good.yaml", result.stdout)

    def test_tools_of_remote_workers_are_taken_and_a_list_of_them_makes_it_strict(self):
        file = self.workflow("workflow: w\nsteps:\n  - {id: a, tool: warehouse.pack}\n  - {id: b, tool: noop}\n")
        result = self.expect(self.pawl("check", file, data=False), 0)
        self.assertIn("tools of remote workers: warehouse.pack", result.stdout)
        tools = self.folder / "tools.txt"
        tools.write_text("# ours\nwarehouse.pack\n")
        self.expect(self.pawl("check", file, "--tools", tools, data=False), 0)
        tools.write_text('["warehouse.ship", "warehouse.pick"]\n')
        result = self.expect(self.pawl("check", file, "--tools", tools, data=False), 2)
        self.assertRegex(result.stderr, r":3:\d+: there is no tool `warehouse.pack`; did you mean `warehouse.pick`")

    def test_a_remote_tool_with_nearly_a_built_in_name_is_pointed_out(self):
        file = self.workflow("workflow: w\nsteps:\n  - {id: a, tool: transfrom}\n  - {id: b, tool: warehouse.pack}\n")
        result = self.expect(self.pawl("check", file, data=False), 0)
        self.assertIn("remote workers: transfrom (did you mean `transform`?), warehouse.pack", result.stdout)

    def test_every_tool_is_listed_once_where_a_name_is_like_none(self):
        file = self.workflow("workflow: w\nsteps:\n  - {id: a, tool: quite.another}\n")
        tools = self.folder / "tools.txt"
        tools.write_text("warehouse.pack shell noop\n")
        refused = self.expect(self.pawl("check", file, "--tools", tools, data=False), 2).stderr
        listed = refused[refused.index("there are ") + 10:].replace(" and ", ", ").strip().split(", ")
        self.assertEqual(len(listed), len(set(listed)), listed)
        self.assertIn("warehouse.pack", listed)

    def test_jq_programs_that_read_modules_are_refused_as_they_are_when_they_run(self):
        file = self.workflow("workflow: w\nsteps:\n  - {id: a, tool: transform, with: {jq: 'import \"x\" as x; .'}}\n")
        refused = self.expect(self.pawl("check", file, data=False), 2).stderr
        self.assertRegex(refused, r":3:\d+: `jq` must not use import, include, module or modulemeta")

    def test_jq_programs_are_compiled_and_not_run(self):
        file = self.workflow("workflow: w\nsteps:\n"
                             "  - {id: good, tool: transform, with: {jq: 'def f: .a; f | error', input: 1}}\n"
                             "  - {id: later, tool: transform, with: {jq: '${{ input.program }}'}}\n")
        self.expect(self.pawl("check", file, data=False), 0)
        bad = self.workflow("workflow: w\nsteps:\n  - {id: bad, tool: transform, with: {jq: '.a | nosuch'}}\n",
                            "b.yaml")
        result = self.expect(self.pawl("check", bad, data=False), 2)
        self.assertRegex(result.stderr, r"b\.yaml:3:43: `jq` does not compile: nosuch/0 is not defined")

    def test_jq_errors_have_their_place_beside_other_errors_and_are_about_the_program_as_it_stands(self):
        file = self.workflow("workflow: w\ntimeout: soon\nsteps:\n"
                             "  - {id: a, tool: transform, with: {jq: '.) | (.'}}\n"
                             "  - id: b\n    tool: transform\n    with:\n      jq: |\n        .a\n        | }\n"
                             "  - {id: c, tool: transform, with: {jq: '.a # all of it', input: 1}}\n")
        errors = self.expect(self.pawl("check", file, data=False), 2).stderr
        self.assertRegex(errors, r":2:\d+: `timeout`")
        self.assertRegex(errors, r":4:\d+: `jq` does not compile: syntax error.* line 1")
        self.assertRegex(errors, r":8:\d+: `jq` does not compile: syntax error.* line 2")
        self.assertEqual(errors.count("does not compile"), 2, errors)
        for ours in ("checked", "empty end", "shell quoting", "step a"):
            self.assertNotIn(ours, errors)

    def test_every_duration_that_is_refused_says_how_long_one_may_be(self):
        file = self.workflow("workflow: w\ntimeout: 400d\nsteps:\n"
                             "  - {id: a, tool: sleep, with: {duration: 400d}}\n"
                             "  - {id: b, tool: http.request, with: {url: 'https://example.org/', timeout: 400d}}\n"
                             "  - {id: c, tool: wait, for: 400d}\n")
        errors = self.expect(self.pawl("check", file, data=False), 2).stderr
        for line in (2, 4, 5, 6):
            self.assertRegex(errors, rf":{line}:\d+: .* of at most 366d")

    def test_time_outs_that_never_come_and_keys_of_other_systems_are_explained(self):
        url = "https://example.org/"
        file = self.workflow("workflow: w\nname: w\nsteps:\n"
                             f"  - {{id: a, tool: http.request, timeout: 1m, with: {{url: '{url}', timeout: 2m}}}}\n"
                             "  - {id: b, tool: noop, if: '${{ input.x }}'}\n"
                             "  - {id: c, tool: noop, depends_on: [a], timeout: 2000000d}\n")
        errors = self.expect(self.pawl("check", file, data=False), 2).stderr
        self.assertRegex(errors, r":2:1: unknown key `name`: write `workflow: NAME`")
        self.assertRegex(errors, r":4:\d+: `timeout` of 2m is longer than the step may take, 1m; make it shorter")
        self.assertRegex(errors, r":5:\d+: unknown key `if`: steps have no conditions; decide inside ")
        self.assertRegex(errors, r":6:\d+: unknown key `depends_on`: write `needs: \[fetch\]`")
        self.assertRegex(errors, r":6:\d+: `timeout` must be a duration such as .* of at most ")


class Mistyping(PawlCase):
    def commands(self):
        """Those that the help lists."""
        listed = self.expect(self.pawl("--help", data=False), 0).stdout.split("Subcommands:")[1].split("\n\n")[0]
        return re.findall(r"^  (\w+) ", listed, re.MULTILINE)

    def test_every_command_has_examples(self):
        commands = self.commands()
        self.assertGreater(len(commands), 15)
        for command in commands:
            with self.subTest(command):
                text = self.expect(self.pawl("help", command, data=False), 0).stdout
                self.assertLessEqual(max(map(len, text.splitlines())), 130)
                self.assertRegex(text, rf"Examples:\n  (source <\()?pawl {command}")
                self.assertEqual(text, self.expect(self.pawl(command, "--help", data=False), 0).stdout)

    def test_every_command_and_flag_of_the_docs_exists(self):
        text = (SOURCE / "docs/cli.md").read_text()
        listed = {command for line in text.splitlines() if line.startswith("| `pawl")
                  for command in re.findall(r"`pawl (\w+)", line)}
        self.assertEqual(listed, set(self.commands()))
        for line in text.splitlines():
            if not line.startswith("| `pawl"):
                continue
            command = re.match(r"\| `pawl (\w+)", line)[1]
            known = self.expect(self.pawl(command, "--help", data=False), 0).stdout
            for flag in re.findall(r"`[^`]*?(--[a-z-]+)", line):
                self.assertIn(flag, known, line)

    def test_exit_codes_are_the_same_in_help_and_docs(self):
        told = self.expect(self.pawl("help", "exit-codes", data=False), 0).stdout
        codes = dict(re.findall(r"^ +(\d+)  (.*)$", told, re.MULTILINE))
        docs = (SOURCE / "docs/cli.md").read_text().split("## Exit codes")[1].split("## ")[0]
        self.assertEqual(codes, dict(re.findall(r"^\| (\d+) \| (.*) \|$", docs, re.MULTILINE)))
        self.assertIn(told, self.expect(self.pawl("help", data=False), 0).stdout)

    def test_versions(self):
        text = self.expect(self.pawl("version", data=False), 0).stdout
        self.assertRegex(text, r"^pawl \d+\.\d+\.\d+( \([0-9a-f]{12}(\+changes)?\))?\n")
        self.assertEqual(self.expect(self.pawl("--version", data=False), 0).stdout, text)
        told = json.loads(self.expect(self.pawl("version", "--json", data=False), 0).stdout)
        self.assertIn(f"pawl {told['version']}", text)
        for library in ("sqlite", "boost", "curl", "openssl"):
            self.assertRegex(told["libraries"][library], r"^\d+\.\d+")
        self.assertGreaterEqual(told["event_format"], 1)

    def test_a_wrong_line_is_explained_on_stderr_and_ends_with_two(self):
        for args, words in ((["rum", "x.yaml"], "did you mean run?"),
                            (["run", "x.yaml", "--aprove"], "did you mean --approve?"),
                            (["run", "x.yaml", "--nonsense"], "--nonsense"),
                            (["run"], "FILE"),
                            (["show"], "RUN"),
                            (["show", "a", "b"], "b"),
                            (["run", "x.yaml", "--approve", "--reject"], "--reject"),
                            (["run", "x.yaml", "--timeout", "soon"], "soon"),
                            (["run", "x.yaml", "--budget", "much"], "much"),
                            (["runs", "--limit", "0"], "--limit"),
                            (["show", "x", "--at", "first"], "--at"),
                            (["help", "nothing"], "nothing"),
                            (["help", "vresion"], "did you mean version?"),
                            (["runs", "--sttus", "x"], "(see pawl runs --help)"),
                            ([], "Usage")):
            with self.subTest(args):
                result = self.expect(self.pawl(*args, data=False), 2)
                self.assertIn(words, result.stderr)
                self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    unittest.main()
