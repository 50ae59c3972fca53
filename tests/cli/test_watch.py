"""pawl runs --watch: on a terminal, and as lines for programs."""
import json
import pathlib
import signal
import termios
import unittest

from pawl_case import ESCAPE, GATED, TIMEOUT_S, TWO_STEPS, without_escapes
from server_case import ServerCase
from terminal import Terminal

TO_ALTERNATE, FROM_ALTERNATE = ESCAPE + "[?1049h", ESCAPE + "[?1049l"


class Watching(ServerCase):
    def terminal(self, *args, columns=110, rows=30, **env):
        terminal = Terminal([*args, "--data", self.data], self.environment(**env), self.folder, columns, rows)
        self.addCleanup(terminal.close)
        return terminal

    def expect_restored(self, terminal):
        self.assertEqual(terminal.seen.count(TO_ALTERNATE), terminal.seen.count(FROM_ALTERNATE))
        self.assertGreater(terminal.seen.rindex(FROM_ALTERNATE), terminal.seen.rindex(TO_ALTERNATE))
        self.assertGreater(terminal.seen.rindex(ESCAPE + "[?25h"), terminal.seen.rindex(ESCAPE + "[?25l"))
        self.assertEqual(termios.tcgetattr(terminal.theirs), terminal.settings)

    def test_the_table_follows_what_happens(self):
        run = self.run_to_end(GATED, code=5)["run"]["id"]
        terminal = self.terminal("runs", "--watch=0.2")
        terminal.expect(rf"{run} +waiting +gated v1")
        self.expect(self.pawl("reject", run), 0)
        terminal.expect(rf"{run} +denied +gated v1")
        terminal.expect(r"every 0\.2 s; q or Ctrl-C ends")
        terminal.type("\x03")
        self.assertEqual(terminal.finish(), 130)
        self.expect_restored(terminal)

    def test_q_ends_it(self):
        self.run_to_end(TWO_STEPS)
        terminal = self.terminal("runs", "--watch")
        terminal.expect("1 success")
        terminal.type("q")
        self.assertEqual(terminal.finish(), 0)
        self.expect_restored(terminal)

    def test_it_fits_the_window_however_that_changes(self):
        for _ in range(12):
            self.run_to_end(TWO_STEPS)
        terminal = self.terminal("runs", "--watch=60", rows=10)
        terminal.expect("6 more below")
        terminal.read(0.5)  # the rest of the picture
        terminal.seen = ""
        terminal.resize(50, 14)
        terminal.process.send_signal(signal.SIGWINCH)
        terminal.expect("2 more below")
        drawn = without_escapes(terminal.seen).replace("\r", "\n").split("\n")
        self.assertLess(max(map(len, drawn)), 50)
        terminal.type("q")
        self.assertEqual(terminal.finish(), 0)

    def test_ctrl_z_gives_the_screen_back_for_a_while(self):
        self.run_to_end(TWO_STEPS)
        terminal = self.terminal("runs", "--watch=0.2")
        terminal.expect("1 success")
        terminal.process.send_signal(signal.SIGTSTP)
        terminal.expect("")
        self.wait_until(lambda: terminal.read(0.05) or FROM_ALTERNATE in terminal.seen, "the usual screen")
        # It stops a moment after it gave the screen back; told to go on before that, it would stay stopped.
        stat = pathlib.Path(f"/proc/{terminal.process.pid}/stat")
        self.wait_until(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T", "it stops")
        terminal.seen = TO_ALTERNATE
        terminal.process.send_signal(signal.SIGCONT)
        terminal.expect("1 success")
        terminal.type("q")
        self.assertEqual(terminal.finish(), 0)

    def test_a_pipe_gets_no_pictures(self):
        self.run_to_end(TWO_STEPS)
        result = self.expect(self.pawl("runs", "--watch"), 2)
        self.assertIn("--json", result.stderr)
        self.assertEqual(result.stdout, "")
        for seconds in ("soon", "0", "-1", "nan"):
            self.assertIn("--watch", self.expect(self.pawl("runs", f"--watch={seconds}", "--json"), 2).stderr)

    def test_programs_get_a_line_a_change(self):
        run = self.run_to_end(GATED, code=5)["run"]["id"]
        watch = self.start("runs", "--watch=0.1", "--json")
        self.assertEqual(json.loads(watch.stdout.readline())["status"], "waiting")
        self.expect(self.pawl("reject", run), 0)
        self.assertEqual(json.loads(watch.stdout.readline())["status"], "denied")
        second = self.run_to_end(TWO_STEPS)["run"]["id"]
        while json.loads(line := watch.stdout.readline())["status"] != "success":
            self.assertEqual(json.loads(line)["id"], second)
        watch.send_signal(signal.SIGINT)
        out, err = watch.communicate(timeout=TIMEOUT_S)
        self.assertEqual((watch.returncode, out, err), (130, "", ""))

    def test_a_server_that_is_away_is_waited_for(self):
        server = self.serve()
        self.run_to_end(TWO_STEPS)
        url = self.url()
        terminal = self.terminal("runs", "--watch=0.2", "--server", url)
        terminal.expect("1 success")
        self.kill(server)
        terminal.expect("does not answer")
        self.start("serve", "--listen", url.removeprefix("http://"))
        self.wait_until((self.data / "server.json").exists, "the server")
        terminal.seen = TO_ALTERNATE
        terminal.expect("q or Ctrl-C ends")
        terminal.type("q")
        self.assertEqual(terminal.finish(), 0)


if __name__ == "__main__":
    unittest.main()
