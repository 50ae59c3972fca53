"""Shell completion: the words that pawl offers, and real shells that ask for them."""
import shutil
import subprocess
import unittest

from pawl_case import GATED, PAWL, SOURCE, TWO_STEPS, TIMEOUT_S, PawlCase
from server_case import ServerCase

COMMANDS = {"run", "resume", "serve", "runs", "show", "approve", "reject", "answer", "workers", "cancel", "retry",
            "events", "workflows", "policy", "keys", "tenants", "worker", "verify", "graph", "check", "bench",
            "completion", "version", "help"}


class Offers(ServerCase):
    def offered(self, *words, env=None):
        result = subprocess.run([PAWL, "__complete", *map(str, words)], capture_output=True, text=True,
                                timeout=TIMEOUT_S,
                                env=self.environment(PAWL_DATA=str(self.data), **(env or {})), cwd=self.folder)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return [line.split("\t")[0] for line in result.stdout.splitlines()]

    def assert_offers(self, expected, *words, env=None):
        """Offers it when the machine is not too busy to look it up in the time that a person waits for it."""
        self.wait_until(lambda: self.offered(*words, env=env) == expected, f"{words} offers {expected}")

    def test_commands(self):
        self.assertLessEqual(COMMANDS, set(self.offered("")))
        self.assertEqual(set(self.offered("re")), {"resume", "reject", "restore", "retry", "receipts"})
        self.assertEqual(self.offered(), self.offered(""))
        self.assertEqual(self.offered("--ver"), ["--version"])
        self.assertEqual(self.offered("nonsense", ""), [])

    def test_every_flag_of_every_command(self):
        for command in COMMANDS - {"help"}:
            text = self.expect(self.pawl(command, "--help", data=False), 0).stdout
            offered = self.offered(command, "-")
            self.assertIn("--help", offered, command)
            for flag in offered:
                self.assertIn(flag, text)
        self.assertNotIn("--status", self.offered("runs", "--status", "waiting", "-"))
        self.assertEqual(self.offered("runs", "--status", "waiting", "--st"), [])

    def test_words(self):
        self.assertEqual(self.offered("runs", "--status", "wa"), ["waiting"])
        self.assertEqual(self.offered("runs", "--status=wa"), ["--status=waiting"])
        self.assertEqual(self.offered("runs", "--status", "=", "wa"), ["waiting"])  # as bash splits it
        self.assertEqual(self.offered("runs", "--sub-state", "ba"), ["backing-off"])
        self.assertEqual(self.offered("runs", "--provider", ""), ["native", "external", "restate", "stepfunctions"])
        self.assertEqual(self.offered("show", "x", "--vocabulary", ""), ["contract-v1", "state-machine", "runtime"])
        self.assertEqual(self.offered("keys", "create", "--role", "w"), ["worker"])
        self.assertEqual(self.offered("keys", "ro"), ["rotate"])
        self.assertEqual(self.offered("policy", ""), ["show", "put", "test", "history", "check"])
        self.assertEqual(self.offered("policy", "put", "exam"), [":files"])
        self.assertEqual(self.offered("graph", "run", "--format", ""), ["mermaid", "dot"])
        self.assertEqual(self.offered("completion", ""), ["bash", "zsh", "fish"])
        self.assertEqual(self.offered("help", "exit"), ["exit-codes"])

    def test_files(self):
        self.assertEqual(self.offered("run", "exam"), [":files"])
        self.assertEqual(self.offered("check", "a.yaml", "b"), [":files"])
        self.assertEqual(self.offered("runs", "--data", ""), [":folders"])
        self.assertEqual(self.offered("worker", "--tool", "x", "--", "./"), [":files"])

    def test_runs_that_fit_the_command(self):
        waiting = self.run_to_end(GATED, code=5)["run"]["id"]
        done = self.run_to_end(TWO_STEPS)["run"]["id"]
        self.wait_until(lambda: set(self.offered("show", "")) == {waiting, done}, "both runs")
        self.assert_offers([waiting], "approve", "run_")
        self.assert_offers([waiting], "cancel", "")
        self.assertEqual(self.offered("retry", ""), [])
        self.assertEqual(self.offered("show", "--data", self.folder / "other", ""), [])
        for command in ("workflows", "graph"):
            self.wait_until(lambda command=command: "gated" in self.offered(command, ""), "the published workflow")

    def test_a_server_is_asked(self):
        self.serve()
        run = self.run_to_end(GATED, code=5)["run"]["id"]
        away = {**self.away()}
        away.pop("PAWL_DATA")
        self.assert_offers([run], "approve", "", env=away)
        self.wait_until(lambda: len(self.offered("keys", "revoke", "key_")) == 1, "the admin's key")

    def test_what_governance_has_names_for(self):
        self.serve("--http-allow", "127.0.0.1")
        run = self.run_to_end("workflow: w\nsteps: [{id: a, tool: shell, with: {argv: ['true']}}]")["run"]
        receipt = run["receipts"][0]["id"]
        self.assert_offers([receipt], "receipts", "")
        self.assert_offers([receipt], "undo", run["id"], "--receipt", "rcp_")
        self.expect(self.pawl("people", "set", "ada", "--account", "slack:T1:U1"), 0)
        self.assert_offers(["ada"], "people", "remove", "")
        self.expect(self.pawl("webhooks", "set", "orders", "--url", "http://127.0.0.1:1/", "--event", "run.succeeded",
                              "--secret", "KEY"), 0)
        self.assert_offers(["orders"], "webhooks", "remove", "")
        self.assertEqual(self.offered("webhooks", "set", "x", "--event", "run.succ"), ["run.succeeded"])
        self.assertIn("approval.*", self.offered("webhooks", "set", "x", "--event", ""))
        self.run_to_end("workflow: w\nsteps: [{id: a, tool: noop}]")
        self.wait_until(lambda: len(self.offered("webhooks", "replay", "orders", "run_")) == 1, "the delivery")

    def test_receipts_of_a_folder(self):
        run = self.run_to_end("workflow: w\nsteps: [{id: a, tool: shell, with: {argv: ['true']}}]")["run"]
        self.assert_offers([run["receipts"][0]["id"]], "receipts", "")

    def test_quick_and_silent_whatever_is_wrong(self):
        # A server that never answers: nobody who presses Tab shall wait for it.
        for server in ("http://192.0.2.1:9", "http://127.0.0.1:1", "nonsense://"):
            self.assertEqual(self.offered("show", "", env={"PAWL_SERVER": server, "PAWL_KEY": "k"}), [])
        self.assertEqual(self.offered("show", "", env={"PAWL_SERVER": "http://127.0.0.1:1"}), [])
        (self.data).mkdir()
        (self.data / "pawl.db").write_text("no database")
        self.assertEqual(self.offered("show", ""), [])


class Shells(PawlCase):
    def script(self, shell):
        return self.expect(self.pawl("completion", shell, data=False), 0).stdout

    def replies(self, *words):
        """What bash would offer for the last of these words."""
        script = self.script("bash") + """
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _pawl; printf '%s\\n' "${COMPREPLY[@]}"
"""
        result = subprocess.run(["bash", "-c", script, "bash", PAWL, *map(str, words)], capture_output=True, text=True,
                                timeout=TIMEOUT_S, env=self.environment(PAWL_DATA=str(self.data)), cwd=self.folder)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return [line for line in result.stdout.splitlines() if line]

    def test_bash(self):
        run = self.run_to_end(GATED, code=5)["run"]["id"]
        self.assertEqual(self.replies("comp"), ["completion"])
        self.assertEqual(self.replies("runs", "--status", "=", "w"), ["waiting"])
        self.assertEqual(self.replies("runs", "--status", "=")[:2], ["created", "running"])
        self.wait_until(lambda: self.replies("approve", "run_") == [run], "the run")
        (self.folder / "my flow.yaml").write_text(TWO_STEPS)
        self.assertEqual(self.replies("run", "my"), ["my flow.yaml"])
        (self.folder / "a folder").mkdir()
        self.assertEqual(self.replies("runs", "--data", "a"), ["a folder"])

    def test_bash_takes_it_by_itself(self):
        script = self.script("bash") + "complete -p pawl"
        result = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual((result.stdout.strip(), result.stderr), ("complete -F _pawl pawl", ""))

    def test_the_other_shells_read_their_scripts(self):
        for shell in ("zsh", "fish"):
            with self.subTest(shell):
                path = self.folder / f"pawl.{shell}"
                path.write_text(self.script(shell))
                if not shutil.which(shell):
                    self.skipTest(f"{shell} is not installed")
                result = subprocess.run([shell, "-n", path], capture_output=True, text=True, timeout=TIMEOUT_S)
                self.assertEqual((result.returncode, result.stderr), (0, ""))

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish_offers(self):
        command = self.script("fish") + f"\nfunction pawl; {PAWL} $argv; end\ncomplete -C 'pawl runs --status w'"
        result = subprocess.run(["fish", "--no-config", "-c", command], capture_output=True, text=True,
                                timeout=TIMEOUT_S,
                                env=self.environment(), cwd=self.folder)
        self.assertIn("waiting", result.stdout, result.stderr)

    def test_a_shell_that_is_not_known(self):
        self.assertIn("bash, zsh, fish", self.expect(self.pawl("completion", "tcsh", data=False), 2).stderr)


if __name__ == "__main__":
    unittest.main()
