"""A person at a terminal, played through a pty."""
import re
import signal
import termios
import unittest

from pawl_case import ESCAPE, GATED, SOURCE, PawlCase, without_escapes
from terminal import Terminal


class AtTheTerminal(PawlCase):
    def tearDown(self):
        self.verify_clean()

    def terminal(self, *args, columns=100, rows=30, **env):
        terminal = Terminal([*args, "--data", self.data], self.environment(**env), self.folder, columns, rows)
        self.addCleanup(terminal.close)
        return terminal

    def test_yes(self):
        terminal = self.terminal("run", self.workflow(GATED))
        terminal.expect(r"gate asks for approval +tier med, expires in")
        terminal.expect(r"Ship gated\?")
        terminal.expect(r"approve\?")
        terminal.type("y")
        self.assertEqual(terminal.finish(), 0)
        self.assertIn(ESCAPE + "[32m", terminal.seen)
        self.assertIn("success", terminal.seen)
        self.assertEqual(self.only_run()["status"], "success")
        # The terminal is left as it was: echo, line mode, a cursor.
        self.assertEqual(termios.tcgetattr(terminal.theirs), terminal.settings)
        self.assertTrue(terminal.seen.rstrip().endswith(ESCAPE + "[?25h") or ESCAPE + "[?25h" in terminal.seen[-40:])

    def test_no_with_a_reason(self):
        terminal = self.terminal("run", self.workflow(GATED))
        terminal.expect(r"approve\?")
        terminal.type("n")
        terminal.expect("reason")
        terminal.type("too earlz\x7fy, näh\r")
        self.assertEqual(terminal.finish(), 3)
        run = self.show(self.only_run()["id"])
        self.assertEqual(run["approvals"][0]["reason"], "too early, näh")
        self.assertIn("APPROVAL_REJECTED", terminal.seen)

    def test_later(self):
        terminal = self.terminal("run", self.workflow(GATED))
        terminal.expect(r"approve\?")
        terminal.type("q")
        self.assertEqual(terminal.finish(), 5)
        self.assertIn("pawl resume run_", terminal.seen)
        terminal = self.terminal("resume")
        terminal.expect(r"approve\?")
        terminal.type("xyz")  # neither x nor z means anything
        self.assertEqual(terminal.finish(), 0)

    def test_what_was_typed_before_the_question_does_not_answer_it(self):
        go = self.folder / "go"
        waits = f"tool: shell, with: {{argv: [sh, -c, 'while [ ! -e {go} ]; do sleep 0.02; done']}}}}"
        terminal = self.terminal("run", self.workflow(GATED.replace("tool: noop}", waits, 1)))
        terminal.expect(r"before +shell +running")
        terminal.type("y")
        go.touch()
        terminal.expect(r"approve\?")
        # Keys are read in their order: it would have been approved before it is left.
        terminal.type("q")
        self.assertEqual(terminal.finish(), 5)
        self.assertEqual(self.only_run()["status"], "waiting")

    def test_ctrl_c(self):
        terminal = self.terminal("run", self.workflow("workflow: s\nsteps:\n  - {id: a, tool: sleep, with: {duration: "
                                                      "300s}}\n"))
        terminal.expect(r"a +sleep +waiting_event")
        terminal.type("\x03")
        self.assertEqual(terminal.finish(), 130)
        self.assertIn("interrupted; go on with", without_escapes(terminal.seen))
        self.assertEqual(termios.tcgetattr(terminal.theirs), terminal.settings)

    def test_ctrl_c_while_asked(self):
        terminal = self.terminal("run", self.workflow(GATED))
        terminal.expect(r"approve\?")
        terminal.type("\x03")
        self.assertEqual(terminal.finish(), 130)
        self.assertEqual(self.only_run()["status"], "waiting")

    def test_the_retry_counts_down_in_place(self):
        terminal = self.terminal("run", self.workflow("""
workflow: flaky
retry: {max_attempts: 4, base: 2s, max: 2s, jitter: 0}
steps: [{id: judge, tool: noop, with: {fail_times: 1, cost_usd: "0.02"}}]
"""))
        self.assertEqual(terminal.finish(), 0)
        self.assertRegex(without_escapes(terminal.seen),
                         r"judge +noop +failed_retryable +1/4 +\$0\.02 +retry in \d\.\ds")
        self.assertRegex(terminal.seen, r"\x1b\[\d+A")

    def test_no_colour_still_draws_in_place(self):
        for flags, env in (([], {"NO_COLOR": "1"}), (["--no-color"], {})):
            terminal = self.terminal("run", self.workflow(GATED), "--approve", *flags, **env)
            self.assertEqual(terminal.finish(), 0)
            self.assertNotRegex(terminal.seen, r"\x1b\[[0-9;]*m")
            self.assertIn(ESCAPE + "[K", terminal.seen)

    def test_a_dumb_terminal_gets_lines_and_is_asked_in_lines(self):
        terminal = self.terminal("run", self.workflow(GATED), TERM="dumb")
        terminal.expect(r"approve\?")
        terminal.type("y\n")
        self.assertEqual(terminal.finish(), 0)
        self.assertNotIn(ESCAPE, terminal.seen)
        self.assertEqual(len(re.findall(r"approve\?", terminal.seen)), 1)

    def test_without_unicode_the_signs_are_ascii(self):
        terminal = self.terminal("run", self.workflow(GATED), "--approve", LANG="C")
        self.assertEqual(terminal.finish(), 0)
        self.assertTrue(terminal.seen.isascii())

    def test_a_narrow_terminal_cuts_lines_instead_of_wrapping_them(self):
        terminal = self.terminal("run", SOURCE / "examples/first-run.yaml", columns=40)
        terminal.expect(r"approve\?")
        drawn = without_escapes(terminal.seen).replace("\r", "\n").split("\n")
        self.assertLessEqual(max(map(len, drawn)), 40)
        terminal.type("y")
        self.assertEqual(terminal.finish(), 0)

    def test_more_steps_than_rows(self):
        before = "".join(f"  - {{id: a{i}, tool: noop}}\n" for i in range(40))
        after = "".join(f"  - {{id: b{i}, tool: noop}}\n" for i in range(40))
        gate = "  - {id: gate, tool: approval}\n"
        terminal = self.terminal("run", self.workflow("workflow: tall\nsteps:\n" + before + gate + after), rows=14)
        terminal.expect(r"approve\?")
        self.assertRegex(without_escapes(terminal.seen), r"\d+ above")
        self.assertRegex(without_escapes(terminal.seen), r"\d+ more")
        # Never further up than the window is high.
        self.assertLess(max(int(n) for n in re.findall(r"\x1b\[(\d+)A", terminal.seen)), 14)
        terminal.type("y")
        self.assertEqual(terminal.finish(), 0)

    def test_a_question_higher_than_the_screen_is_shown_whole_before_it_is_asked(self):
        body = ", ".join(f"f{i:02}: {i}" for i in range(18))
        url = "https://shop.example/" + "o" * 60 + "/17"
        asks = ("workflow: tall\nsteps:\n  - {id: before, tool: noop}\n  - {id: pay, tool: http.request, risk: med, "
                f"with: {{method: PUT, url: '{url}', body: {{{body}}}}}}}\n")
        for rows in (24, 5):
            terminal = self.terminal("run", self.workflow(asks), columns=80, rows=rows)
            terminal.expect(r"approve\?")
            shown = without_escapes(terminal.seen)
            last = shown[:shown.index("approve?")].rindex("pay asks for approval")
            shown = shown[last:].replace("\r", "")
            fields = [f"body.f{i:02} = {i}\n" for i in range(18)]
            for part in ("tier med, expires in", "\n    action ", "http request", *fields, "\n    rule ", "\n    risk ",
                         "requested by"):
                self.assertEqual(shown.count(part), 1, (part, shown))
            self.assertEqual(re.sub(r"\s", "", shown).count(url), 2, "as target and as field, each to its end")
            self.assertLess(max(map(len, shown.split("\n"))), 80)
            # Only the line for the answer is drawn again.
            terminal.type("n")
            terminal.expect("reason")
            terminal.type("nope")
            terminal.expect(r"reason \(Enter for none\): nope")
            self.assertEqual(without_escapes(terminal.seen).count("body.f17 = 17"), 1)
            self.assertNotIn(ESCAPE + "[1A", terminal.seen[terminal.seen.rindex("approve?"):])
            terminal.type("\r")
            self.assertEqual(terminal.finish(), 3)

    def test_a_wrapped_line_keeps_its_end(self):
        words = "-".join(f"w{i:02}" for i in range(60))
        gate = ("workflow: w\nsteps:\n  - {id: gate, tool: approval, tier: high, two_person: true, "
                f"prompt: '{words}'}}\n")
        for columns in (30, 80):
            terminal = self.terminal("run", self.workflow(gate), columns=columns)
            terminal.expect(r"approve\?")
            shown = re.sub(r"[\s▌]", "", without_escapes(terminal.seen))
            self.assertIn(words, shown)
            self.assertRegex(shown, r"twopeopleotherthantherequesters,expiresin[0-9dhms.]+")
            terminal.type("q")
            self.assertEqual(terminal.finish(), 5)

    def test_resizing_redraws(self):
        terminal = self.terminal("run", self.workflow(GATED))
        terminal.expect(r"approve\?")
        before = terminal.seen.count("gate")
        terminal.resize(50, 20)
        terminal.process.send_signal(signal.SIGWINCH)
        self.wait_until(lambda: terminal.read(0.05) or terminal.seen.count("gate") > before, "another picture")
        terminal.type("y")
        self.assertEqual(terminal.finish(), 0)

    def test_show_and_runs_are_coloured_here(self):
        self.terminal("run", self.workflow(GATED), "--approve").finish()
        for args in (["runs"], ["show", self.only_run()["id"]], ["verify"]):
            terminal = self.terminal(*args)
            self.assertEqual(terminal.finish(), 0)
            self.assertIn(ESCAPE + "[32m", terminal.seen)


if __name__ == "__main__":
    unittest.main()
