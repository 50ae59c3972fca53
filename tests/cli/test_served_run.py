"""pawl run and pawl resume where a server executes the run: the same to see, to say and to script as without one."""
import http.server
import json
import re
import signal
import socket
import subprocess
import termios
import threading
import unittest
import urllib.error
import urllib.request

from pawl_case import ESCAPE, GATED, PAWL, TIMEOUT_S, TWO_STEPS, interrupt, without_escapes
from server_case import ServerCase
from terminal import Terminal

LONG = "workflow: long\nsteps:\n  - {id: a, tool: shell, with: {idempotent: true, argv: [sleep, '300']}}\n"
DOUBLED = "workflow: doubled\nsteps:\n  - {id: work, tool: double, with: {n: 4}}\n"


def types(lines):
    return [json.loads(line)["type"] for line in lines]


class Scripted(ServerCase):
    def test_the_same_lines_and_codes_as_without_a_server(self):
        self.serve()
        for text, flags, code in ((TWO_STEPS, [], 0), (GATED, ["--approve"], 0), (GATED, [], 5),
                                  (GATED, ["--reject", "--reason", "no"], 3),
                                  ("workflow: bad\nsteps: [{id: a, tool: noop, with: {fail_times: 9}, retry: "
                                   "{max_attempts: 1}}]", [], 1)):
            with self.subTest(text=text, flags=flags):
                path = self.workflow(text)
                served = self.expect(self.pawl("run", path, "--json", *flags), code).stdout.splitlines()
                alone = self.expect(self.pawl("run", path, "--json", *flags, "--data", self.folder / "alone",
                                              data=False),
                                    code).stdout.splitlines()
                self.assertEqual(types(served), types(alone))
                ended, expected = json.loads(served[-1]), json.loads(alone[-1])
                self.assertEqual((ended["outcome"], ended["result"], ended["run"]["status"]),
                                 (expected["outcome"], expected["result"], expected["run"]["status"]))
                # What was printed is what the journal has.
                events = self.expect(self.pawl("events", ended["run"]["id"]), 0).stdout.splitlines()
                self.assertEqual(served[:-1], events)

    def test_its_tenant_is_the_servers(self):
        self.serve()
        ended = self.run_to_end(TWO_STEPS)
        self.assertEqual(ended["run"]["tenant_id"], self.request("GET", "/tenant")["id"])

    def test_input_workspace_budget_and_timeout_arrive(self):
        self.serve()
        ended = self.run_to_end(TWO_STEPS, "--input", '{"order": 4711}', "--workspace", "shop", "--budget", "2.50",
                                "--timeout", "1h30m")
        run = ended["run"]
        self.assertEqual((run["input"], run["workspace"]), ({"order": 4711}, "shop"))
        self.assertEqual((run["budget_usd"], run["timeout"]), ("2.50", "1h30m"))

    def test_a_named_server_is_spoken_to_and_named_in_what_is_said(self):
        self.serve()
        result = self.expect(self.pawl("run", self.workflow(GATED), data=False, env=self.away()), 5)
        self.assertIn(f"--server {self.url()}", result.stdout)
        self.assertNotIn("--data", result.stdout)
        run = re.search(r"approve (run_\w+)", result.stdout)[1]
        self.expect(self.pawl("approve", run), 0)
        again = self.expect(self.pawl("resume", run, "--json", data=False, env=self.away()), 0)
        self.assertEqual(json.loads(again.stdout.splitlines()[-1])["server"], self.url())
        self.assertFalse((self.folder / "nowhere").exists())
        self.expect(self.pawl("run", self.workflow(GATED), "--server", "http://127.0.0.1:1", data=False,
                              env={"PAWL_KEY": "pawl_x"}), 75)

    def test_a_definition_that_does_not_validate_is_told_by_its_file(self):
        self.serve()
        bad = self.workflow("workflow: bad\nsteps:\n  - {id: a, tool: sleep, with: {duration: soon}}\n", "bad.yaml")
        result = self.expect(self.pawl("run", bad), 2)
        self.assertRegex(result.stderr, r"bad\.yaml:3:\d+: ")
        self.expect(self.pawl("run", self.workflow("workflow: bad\nsteps: 3\n")), 2)
        self.assertEqual(self.runs(), [])

    def expect_untaken_to_be_said(self, *flags):
        self.serve()
        run = self.start("run", self.workflow(DOUBLED), *flags)
        for line in run.stdout:
            if "no worker that offers double has taken it yet" in line:
                break
        else:
            self.fail("it was never said")
        self.worker()
        out, err = run.communicate(timeout=TIMEOUT_S)
        self.assertEqual(run.returncode, 0, err)
        self.assertRegex(out, r'"twice": ?8')

    def test_a_tool_that_nobody_offers_is_said_and_waited_for(self):
        self.expect_untaken_to_be_said()

    def test_programs_are_told_too(self):
        self.expect_untaken_to_be_said("--json")

    def test_resume_of_a_run_that_has_ended_ends_as_it_did(self):
        self.serve()
        run = self.run_to_end(GATED, "--reject", code=3)["run"]["id"]
        self.assertIn("has ended already", self.expect(self.pawl("resume", run), 3).stdout)
        self.assertIn("by itself", self.expect(self.pawl("resume"), 0).stdout)

    def test_interrupting_leaves_the_run_to_the_server(self):
        self.serve()
        run = self.start("run", self.workflow(LONG))
        self.wait_until(lambda: any(step["status"] == "running" for row in self.runs()
                                    for step in self.show(row["id"])["steps"]), "the step")
        out, _ = interrupt(run)
        self.assertEqual(run.returncode, 130)
        self.assertRegex(out, r"the server goes on with it\. Follow it again with: .*resume run_")
        self.assertEqual(self.status(self.only_run()["id"]), "running")
        self.expect(self.pawl("cancel", self.only_run()["id"]), 0)

    def test_a_server_that_was_killed_is_waited_for(self):
        server = self.serve()
        go = self.folder / "go"
        waits = f"shell, with: {{idempotent: true, argv: [sh, -c, 'while [ ! -e {go} ]; do sleep 0.02; done']}}}}"
        run = self.start("run", self.workflow(GATED.replace("noop}", waits, 1)), "--json", "--approve")
        lines = [run.stdout.readline()]
        self.assertEqual(types(lines), ["run.created"])
        self.kill(server)
        while "waiting for it to come back" not in lines[-1]:
            lines.append(run.stdout.readline())
            self.assertTrue(lines[-1], "it ended")
        go.touch()
        self.serve()  # at another address
        out, err = run.communicate(timeout=TIMEOUT_S)
        self.assertEqual(run.returncode, 0, err)
        lines += out.splitlines()
        self.assertIn("is back", out)
        events = [line.strip() for line in lines[:-1] if '"type":"notice"' not in line]
        self.assertEqual(events, self.expect(self.pawl("events", self.only_run()["id"]), 0).stdout.splitlines())
        self.verify_clean()

    def test_a_key_that_is_revoked_ends_it(self):
        server = self.serve()
        made = json.loads(self.expect(self.pawl("keys", "create", "--role", "operator", "--json"), 0).stdout)
        run = subprocess.Popen([PAWL, "run", self.workflow(LONG), "--json"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE,
                               text=True, env=self.environment(**{**self.away(), "PAWL_KEY": made["key"]}),
                               cwd=self.folder)
        self.addCleanup(self.end, run)
        run.stdout.readline()
        self.expect(self.pawl("keys", "revoke", made["id"]), 0)
        address = self.url().removeprefix("http://")
        self.kill(server)  # what is open shows a revoked key only after a while; a new connection at once
        self.start("serve", "--listen", address)
        _, err = run.communicate(timeout=TIMEOUT_S)
        self.assertEqual(run.returncode, 3, err)


class LosingAnswers(http.server.BaseHTTPRequestHandler):
    """Passes requests on, and loses the answer to the first creation of a run."""
    protocol_version = "HTTP/1.1"
    behind = ""
    keys = []

    def pass_on(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name: self.headers[name] for name in ("authorization", "content-type", "idempotency-key")
                   if name in self.headers}
        request = urllib.request.Request(self.behind + self.path, data=body or None, method=self.command,
                                         headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                if self.command == "POST" and self.path == "/runs":
                    self.keys.append(self.headers["idempotency-key"])
                    if len(self.keys) == 1:
                        self.close_connection = True
                        self.connection.shutdown(socket.SHUT_RDWR)
                        return
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.headers["content-type"])
                self.send_header("Connection", "close")
                self.end_headers()
                while data := answer.read1(65536):
                    self.wfile.write(data)
                    self.wfile.flush()
        except (OSError, urllib.error.URLError):
            pass
        self.close_connection = True

    do_GET = do_POST = do_PUT = pass_on

    def log_message(self, *_):
        pass


class LostAnswers(ServerCase):
    def test_an_answer_that_is_lost_makes_no_second_run(self):
        self.serve()
        LosingAnswers.behind, LosingAnswers.keys = self.url(), []
        proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), LosingAnswers)
        proxy.daemon_threads = True
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        self.addCleanup(proxy.server_close)
        self.addCleanup(proxy.shutdown)
        ended = self.run_to_end(TWO_STEPS, "--server", f"http://127.0.0.1:{proxy.server_port}")
        self.assertEqual(ended["run"]["id"], self.only_run()["id"])
        self.assertEqual(len(LosingAnswers.keys), 2)
        self.assertEqual(LosingAnswers.keys[0], LosingAnswers.keys[1])
        # Two calls of the same command are two runs.
        self.run_to_end(TWO_STEPS)
        self.assertEqual(len(self.runs()), 2)


class AtTheTerminal(ServerCase):
    def terminal(self, *args, columns=110, rows=30, **env):
        terminal = Terminal([*args, "--data", self.data], self.environment(**env), self.folder, columns, rows)
        self.addCleanup(terminal.close)
        return terminal

    def test_yes_is_sent_to_the_server(self):
        self.serve()
        terminal = self.terminal("run", self.workflow(GATED))
        terminal.expect(r"gate asks for approval +tier med, expires in")
        terminal.expect(r"Ship gated\?")
        terminal.type("y")
        self.assertEqual(terminal.finish(), 0)
        self.assertIn(ESCAPE + "[32m", terminal.seen)
        self.assertNotIn("people have said yes", terminal.seen)
        run = self.show(self.only_run()["id"])
        self.assertEqual((run["status"], run["approvals"][0]["status"]), ("success", "approved"))
        self.assertEqual(termios.tcgetattr(terminal.theirs), terminal.settings)

    def test_no_with_a_reason(self):
        self.serve()
        terminal = self.terminal("run", self.workflow(GATED))
        terminal.expect(r"approve\?")
        terminal.type("n")
        terminal.expect("reason")
        terminal.type("too early\r")
        self.assertEqual(terminal.finish(), 3)
        self.assertEqual(self.show(self.only_run()["id"])["approvals"][0]["reason"], "too early")

    def test_someone_else_decides(self):
        self.serve()
        terminal = self.terminal("run", self.workflow(GATED))
        terminal.expect(r"approve\?")
        self.expect(self.pawl("approve", self.only_run()["id"]), 0)
        self.assertEqual(terminal.finish(), 0)

    def test_a_question_outlives_the_server(self):
        server = self.serve()
        terminal = self.terminal("run", self.workflow(GATED))
        terminal.expect(r"approve\?")
        self.kill(server)
        terminal.expect("waiting for it to come back")
        terminal.type("y")
        terminal.expect("nothing is decided yet")
        self.serve()
        terminal.expect("is back")
        terminal.type("y")
        self.assertEqual(terminal.finish(), 0)

    def test_a_step_that_nobody_takes_says_so_in_its_line(self):
        self.serve()
        terminal = self.terminal("run", self.workflow(DOUBLED))
        terminal.expect(r"work +double +ready +no worker that offers double has taken it yet")
        terminal.type("\x03")
        self.assertEqual(terminal.finish(), 130)
        self.assertIn("the server goes on with it", without_escapes(terminal.seen))
        self.assertEqual(termios.tcgetattr(terminal.theirs), terminal.settings)


class Reading(ServerCase):
    """The reading commands, by a folder and by a server."""

    def both(self, *args, code=0):
        here = self.expect(self.pawl(*args), code).stdout
        there = self.expect(self.pawl(*args, data=False, env=self.away()), code).stdout
        return here, there

    def test_workflows_and_graphs(self):
        self.serve()
        self.run_to_end(TWO_STEPS)
        self.run_to_end(TWO_STEPS.replace("n: 1", "n: 2"))
        for args in (["workflows"], ["workflows", "--json"], ["workflows", "two"],
                     ["workflows", "two", "--version", "1"],
                     ["workflows", "two", "--json"], ["graph", "two"],
                     ["graph", "two", "--version", "1", "--format", "dot"]):
            with self.subTest(args):
                here, there = self.both(*args)
                self.assertEqual(here, there)
                self.assertIn("two", here)
        self.assertIn("n: 2", self.both("workflows", "two")[0])
        self.assertIn("n: 1", self.both("workflows", "two", "--version", "1")[0])
        self.both("workflows", "three", code=4)
        self.both("workflows", "two", "--version", "9", code=4)
        self.both("graph", "three", code=4)

    def test_a_folder_alone_has_workflows_too(self):
        self.assertIn("two v1", self.expect(self.pawl("workflows", "--publish", self.workflow(TWO_STEPS)), 0).stdout)
        self.assertRegex(self.expect(self.pawl("workflows"), 0).stdout, r"two +1 ")
        self.assertIn("flowchart", self.expect(self.pawl("graph", "two"), 0).stdout)
        result = self.expect(self.pawl("graph", "twoo"), 4)
        self.assertIn("did you mean two?", result.stderr)
        self.expect(self.pawl("workflows", "--publish", self.workflow("workflow: two\nsteps: 1\n")), 2)

    def test_verify_believes_no_server(self):
        self.serve()
        self.run_to_end(TWO_STEPS)
        self.run_to_end(GATED, "--approve")
        self.run_to_end(GATED, code=5)
        here, there = self.both("verify", "--json")
        self.assertEqual(json.loads(here)["events"] - self.tenant_events(), json.loads(there)["events"])
        self.assertEqual((json.loads(there)["runs"], json.loads(there)["problems"]), (3, 0))

    def tenant_events(self):
        out = self.expect(self.pawl("verify", "--json"), 0).stdout
        return json.loads(out)["events"] - sum(run["seq"] for run in self.runs())

    def test_verify_finds_what_a_server_made_up(self):
        self.serve()
        self.run_to_end(TWO_STEPS)
        Lying.behind = self.url()
        proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Lying)
        proxy.daemon_threads = True
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        self.addCleanup(proxy.server_close)
        self.addCleanup(proxy.shutdown)
        for lie, words in ((b'\\"n\\":1', "recomputed hash"), (b'"status":"success"', "not what its stream says")):
            Lying.lie = (lie, lie.replace(b"1", b"7").replace(b"success", b"failed"))
            result = self.expect(self.pawl("verify", "--server", f"http://127.0.0.1:{proxy.server_port}"), 1)
            self.assertIn(words, result.stdout)


class Lying(LosingAnswers):
    lie = (b"", b"")

    def pass_on(self):
        request = urllib.request.Request(self.behind + self.path,
                                         headers={"authorization": self.headers["authorization"]})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            body = answer.read().replace(*self.lie)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = pass_on


if __name__ == "__main__":
    unittest.main()
