"""Programs of tenants: who may run them, and what those of one tenant can see of the server and of the others."""
import json
import os
import pathlib
import shutil
import subprocess
import unittest

from agent_case import AgentCase
from test_sandbox import works

CANARY = "canary-of-the-server-4711"


class TenantCase(AgentCase):
    """`acme` has a folder and a variable, `other` nothing but the right to run programs, `stranger` not even that."""
    sandbox = "auto"

    def setUp(self):
        if not works():
            self.skipTest("bubblewrap does not work on this machine")
        for name in ("GREETING", "HIDDEN"):
            os.environ[name] = f"{CANARY}-{name}"
            self.addCleanup(os.environ.pop, name, None)
        super().setUp()

    def start(self):
        self.data.mkdir(exist_ok=True)
        for name in ("acme", "unlisted"):
            (self.base / name).mkdir(exist_ok=True)
        (self.data / "pawl.yaml").write_text(json.dumps(self.rules()))
        super().start()
        self.keys = {name: self.key_of(name) for name in ("acme", "other", "stranger")}

    def rules(self):
        return {"programs": {"tenants": {"acme": {"folders": [str(self.base / "acme")], "env": ["GREETING"]},
                                         "other": {}}}}

    def key_of(self, tenant):
        self.ask("POST", "/tenants", {"name": tenant})
        return self.ask("POST", "/keys", {"role": "operator", "tenant": tenant})["key"]

    def shell(self, tenant, script, **given):
        """The run of a shell step of this tenant, when it has ended."""
        return self.step(tenant, {"tool": "shell", "with": {"argv": ["bash", "-c", script], **given}})

    def step(self, tenant, step):
        key = self.keys.get(tenant)
        self.ask("PUT", "/workflows/w", json.dumps({"workflow": "w", "steps": [
            {"id": "s", "retry": {"max_attempts": 1}, **step}]}), key=key)
        run = self.ask("POST", "/runs", {"workflow": "w"}, key=key)["id"]
        return self.ended_of(tenant, run)

    def ended_of(self, tenant, run):
        ended = {"success", "failed", "denied", "timeout", "canceled"}
        return self.until(lambda: (lambda r: r if r["status"] in ended else None)(
            self.ask("GET", "/runs/" + run, key=self.keys.get(tenant))))

    def said(self, tenant, script, **given):
        done = self.shell(tenant, script, **given)
        self.assertEqual(done["status"], "success", done["diagnostic"])
        return done["steps"][0]["output"]["stdout"]

    def assert_refused(self, done, code, *words):
        status = "denied" if code == "PROGRAMS_NOT_ALLOWED" else "failed"
        self.assertEqual((done["status"], done["error_code"]), (status, code), done["diagnostic"])
        for word in words:
            self.assertIn(word, done["diagnostic"]["message"])
        self.assertEqual(done["receipts"], [])


class Off(TenantCase):
    """Tenants that the installation does not list."""

    def test_no_workflow_that_runs_programs_can_be_published(self):
        for tool, given in (("shell", {"argv": ["true"]}), ("agent.claude", {"prompt": "x"}),
                            ("agent.command", {"prompt": "x", "command": ["true"]})):
            refused = self.refused("PUT", "/workflows/w", f"workflow: w\nsteps:\n  - id: s\n    tool: {tool}\n"
                                   f"    with: {json.dumps(given)}\n", key=self.keys["stranger"])
            self.assertEqual((refused.status, refused.body["code"]), (422, "INVALID_WORKFLOW"))
            self.assertIn("w:4:11: ", refused.body["detail"])
            self.assertIn("tenant stranger may not do", refused.body["detail"])
            self.assertIn("`programs`", refused.body["detail"])

    def test_other_tools_can_be_used(self):
        done = self.step("stranger", {"tool": "transform", "with": {"jq": "1 + 1"}})
        self.assertEqual(done["steps"][0]["output"], 2)

    def test_transform_sees_neither_files_nor_environment(self):
        done = self.step("stranger", {"tool": "transform", "with": {"jq": "[env, $ENV]"}})
        self.assertEqual(done["steps"][0]["output"], [{}, {}])
        (self.base / "unlisted" / "x.json").write_text("[1]")
        done = self.step("stranger", {"tool": "transform", "with": {
            "jq": f'import "x" as $x {{search: "{self.base}/unlisted"}}; $x'}})
        self.assertEqual(done["status"], "failed")

    def test_a_version_from_before_fails_when_it_runs(self):
        self.assertEqual(self.said("other", "echo fine"), "fine\n")
        self.stop()
        self.rules = lambda: {}
        self.start()
        run = self.ask("POST", "/runs", {"workflow": "w"}, key=self.keys["other"])["id"]
        done = self.ended_of("other", run)
        self.assert_refused(done, "PROGRAMS_NOT_ALLOWED", "tenant other may not do")
        self.assertFalse(done["retryable"])
        again = self.ask("POST", f"/runs/{run}/retry", {}, key=self.keys["other"])["id"]
        self.assert_refused(self.ended_of("other", again), "PROGRAMS_NOT_ALLOWED")

    def test_an_agent_of_a_task_does_not_run(self):
        mark = self.base / "mark"
        task = self.ask("POST", "/tasks", {"title": "t", "prompt": "x", "agent": "command",
                                           "command": ["touch", str(mark)], "run": True}, key=self.keys["stranger"])
        done = self.until(lambda: (lambda t: t if t["state"] == "FAILED" else None)(
            self.ask("GET", "/tasks/" + task["id"], key=self.keys["stranger"])))
        self.assertIn("PROGRAMS_NOT_ALLOWED", json.dumps(done))
        self.assertFalse(mark.exists())


class Confined(TenantCase):
    """Tenants that the installation lists."""

    def test_it_is_always_sandboxed_and_its_receipt_says_so(self):
        done = self.shell("other", "ls -d /proc/[0-9]* | wc -l")
        self.assertLess(int(done["steps"][0]["output"]["stdout"]), 8)
        self.assertEqual([receipt["sandboxed"] for receipt in done["receipts"]], [True])
        done = self.shell("other", "true", sandbox="off")
        self.assert_refused(done, "TOOL_INVALID_ARGUMENTS", "cannot be off for programs of tenant other")
        self.assertEqual(self.said("other", "ls -d /proc/[0-9]* | wc -l; true", sandbox="auto").strip().isdigit(), True)

    def test_without_a_sandbox_nothing_runs(self):
        self.stop()
        self.settings = ["--bwrap", "/nowhere/bwrap"]
        self.start()
        for sandbox in ({}, {"sandbox": "auto"}):
            self.assert_refused(self.shell("acme", "true", **sandbox), "SANDBOX_UNAVAILABLE", "/nowhere/bwrap")
        self.assertEqual(self.shell(None, "true")["status"], "success")

    def test_no_tenant_sees_anothers_workspace(self):
        mine = self.said("acme", f"echo {CANARY} >secret; pwd").strip()
        self.assertTrue((pathlib.Path(mine) / "secret").exists())
        everywhere = f"cat {mine}/secret {mine}/../*/secret; find / -xdev -name secret 2>/dev/null; " \
                     f"ls {self.data} {self.data}/workspaces {self.base}; true"
        for tenant in ("other", None):
            said = self.said(tenant, everywhere, **({"sandbox": "required"} if tenant is None else {}))
            self.assertNotIn(CANARY, said)
            self.assertNotIn("/secret", said)
        # What a workspace is for: the tenant's own later runs find it.
        self.assertIn(CANARY, self.said("acme", f"cat {mine}/secret"))

    def test_no_folder_of_others_can_be_named(self):
        theirs = self.said("acme", "pwd").strip()
        os.symlink(self.data, self.base / "acme" / "link")
        os.symlink("/", self.base / "acme" / "root")
        folders = [self.data, self.data / "workspaces", theirs, self.base, self.base / "unlisted", self.base / "none",
                   "/", "/proc", "/proc/self/root", "/proc/1/cwd", f"/proc/{self.process.pid}/root{self.data}", "/sys",
                   "/dev", "/tmp", "/etc", f"{self.base}/acme", "relative", ".."]
        for folder in map(str, folders):
            done = self.shell("other", "true", cwd=folder)
            self.assert_refused_folder(done, folder)
            done = self.step("other", {"tool": "agent.command", "with": {
                "prompt": "x", "command": ["true"], "folder": folder}})
            self.assert_refused_folder(done, folder)
        theirs = self.said("other", "pwd").strip()
        for folder in ("acme/link", "acme/root", "acme/root/proc", "acme/..", "acme/../unlisted", f"acme/root{theirs}"):
            self.assert_refused_folder(self.shell("acme", "true", cwd=f"{self.base}/{folder}"), folder)

    def assert_refused_folder(self, done, folder):
        self.assertEqual((done["status"], done["error_code"]), ("failed", "TOOL_INVALID_ARGUMENTS"), folder)
        self.assertRegex(done["diagnostic"]["message"], "is no folder of tenant|must be an absolute path", folder)

    def test_its_own_folders_can_be_named_and_written(self):
        inner = self.base / "acme" / "inner"
        inner.mkdir()
        self.assertEqual(self.said("acme", "pwd; echo x >made", cwd=str(inner)), f"{inner}\n")
        self.assertEqual((inner / "made").read_text(), "x\n")
        # A link that it makes leads nowhere, inside or as the folder of the next step.
        self.assertEqual(self.said("acme", f"ln -s {self.data} data; ls data/", cwd=str(inner)), "workspaces\n")
        self.assert_refused_folder(self.shell("acme", "ls", cwd=f"{inner}/data"), "a link of its own")

    def test_the_server_cannot_be_seen(self):
        said = self.said("acme", "cat /proc/*/environ | tr '\\0' '\\n'; cat /proc/*/cmdline | tr '\\0' ' '; "
                         "ls -l /proc/*/fd; ls -A /run /var/tmp; ss -xl 2>/dev/null; env; true")
        self.assertNotIn(CANARY + "-HIDDEN", said)
        self.assertNotIn("serve", said)
        self.assertNotIn("pawl.db", said)
        self.assertNotIn("HOME=" + os.environ.get("HOME", "/root") + "\n", said)

    def test_variables_of_a_program_do_not_reach_what_starts_its_sandbox(self):
        # The loader of any program that is started with these writes a file, or runs code.
        debug = self.base / "unlisted" / "debug"
        hostile = {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(debug), "LD_LIBRARY_PATH": str(self.base / "acme")}
        if shutil.which("gcc"):
            mark = self.base / "unlisted" / "escaped"
            library = self.base / "acme" / "hostile.so"
            source = f'__attribute__((constructor)) static void f(void) {{ fopen("{mark}", "w"); }}'
            subprocess.run(["gcc", "-shared", "-fPIC", "-include", "stdio.h", "-x", "c", "-", "-o", library],
                           input=source, text=True, check=True)
            hostile |= {"LD_PRELOAD": str(library), "LD_AUDIT": str(library)}
        for name in hostile:
            one = {"LD_DEBUG": "libs", name: hostile[name]} if name == "LD_DEBUG_OUTPUT" else {name: hostile[name]}
            done = self.step("acme", {"tool": "shell", "with": {"argv": ["true"], "env": one,
                                                                "cwd": str(self.base / "acme")}})
            self.assertIn(done["status"], ("success", "failed"))
            done = self.step("acme", {"tool": "agent.command", "with": {
                "prompt": "x", "command": ["bash", "-c", "echo '{\"type\":\"result\",\"result\":\"ok\"}'"],
                "env": one}})
            self.assertIn(done["status"], ("success", "failed"))
            self.assertEqual(list((self.base / "unlisted").iterdir()), [], name)
        self.assertEqual(self.said_with({"A": "1 = 2", "B": ""}, "echo [$A][$B]"), "[1 = 2][]\n")
        many = self.step("acme", {"tool": "shell", "with": {"argv": ["true"],
                                                            "env": {f"V{n}": "" for n in range(2000)}}})
        self.assert_refused_variables(many)

    def said_with(self, env, script):
        done = self.step("acme", {"tool": "shell", "with": {"argv": ["bash", "-c", script], "env": env}})
        self.assertEqual(done["status"], "success", done["diagnostic"])
        return done["steps"][0]["output"]["stdout"]

    def assert_refused_variables(self, done):
        self.assertEqual((done["status"], done["error_code"]), ("failed", "TOOL_INVALID_ARGUMENTS"), done["diagnostic"])
        self.assertIn("a program in a sandbox can have 2000", done["diagnostic"]["message"])

    def test_only_listed_variables_are_passed_on(self):
        self.assertEqual(self.said("acme", "echo $GREETING$HIDDEN", pass_env=["GREETING"]), f"{CANARY}-GREETING\n")
        for tenant, name in (("acme", "HIDDEN"), ("other", "GREETING"), ("acme", "PAWL_DATA")):
            done = self.shell(tenant, "true", pass_env=[name])
            self.assert_refused(done, "TOOL_INVALID_ARGUMENTS", f"cannot pass {name} on")

    def test_there_is_no_network_unless_the_installation_gives_one(self):
        done = self.shell("acme", "true", sandbox={"network": True})
        self.assert_refused(done, "TOOL_INVALID_ARGUMENTS", "cannot have a network")
        self.assertEqual(self.said("acme", "tail -n +3 /proc/net/dev | cut -d: -f1").split(), ["lo"])
        # Claude Code cannot work without one, so it has to be said.
        done = self.step("acme", {"tool": "agent.claude", "with": {"prompt": "x"}})
        self.assert_refused(done, "TOOL_INVALID_ARGUMENTS", "cannot have a network")
        self.stop()
        self.rules = lambda: {"programs": {"tenants": {"acme": {"network": True}}}}
        self.start()
        done = self.shell("acme", "true", sandbox={"network": True})
        self.assertEqual(done["status"], "success", done["diagnostic"])

    def test_a_program_elsewhere_is_not_shown(self):
        program = self.base / "unlisted" / "program"
        program.write_text("#!/bin/sh\necho ran\n")
        program.chmod(0o755)
        done = self.step("acme", {"tool": "shell", "with": {"argv": [str(program)]}})
        self.assertEqual(done["status"], "failed")
        done = self.step(None, {"tool": "shell", "with": {"argv": [str(program)], "sandbox": "required"}})
        self.assertEqual(done["steps"][0]["output"]["stdout"], "ran\n")

    def test_agents_are_confined_too(self):
        script = f"ls {self.data} {self.base}; pwd; env; echo '{{\"type\":\"result\",\"result\":\"ok\"}}'"
        done = self.step("acme", {"tool": "agent.command", "with": {"prompt": "x", "command": ["bash", "-c", script]}})
        self.assertEqual(done["status"], "success", done["diagnostic"])
        self.assertEqual([receipt["sandboxed"] for receipt in done["receipts"]], [True])

    def test_tenant_default_is_confined_when_it_is_listed(self):
        self.stop()
        self.rules = lambda: {"programs": {"tenants": {"default": {}}}}
        self.start()
        self.assert_refused(self.shell(None, "true", sandbox="off"), "TOOL_INVALID_ARGUMENTS", "cannot be off")
        self.assert_refused_folder(self.shell(None, "true", cwd=str(self.base)), self.base)


class Installation(TenantCase):
    """Tenant `default`, which is not listed."""

    def test_pawls_own_variables_are_never_passed_on(self):
        for name in ("PAWL_STORE", "PAWL_SECRET_X", "PAWL_KEY", "PAWL_ANYTHING"):
            self.assert_refused(self.shell(None, "true", pass_env=[name]), "TOOL_INVALID_ARGUMENTS", "pawl's own")
        self.assertEqual(self.said(None, "echo $HIDDEN", pass_env=["HIDDEN"]), f"{CANARY}-HIDDEN\n")

    def test_credentials_for_aws_are_pawls_own_when_it_uses_them(self):
        os.environ["AWS_SECRET_ACCESS_KEY"] = CANARY
        os.environ["AWS_ACCESS_KEY_ID"] = "AKIA"
        for name in ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"):
            self.addCleanup(os.environ.pop, name, None)
        self.stop()
        self.settings = ["--stepfunctions", "http://127.0.0.1:9"]
        self.start()
        done = self.shell(None, "true", pass_env=["AWS_SECRET_ACCESS_KEY"])
        self.assert_refused(done, "TOOL_INVALID_ARGUMENTS", "pawl's own")

    def test_a_sandbox_never_shows_the_server(self):
        theirs = pathlib.Path(self.said("acme", "pwd").strip())
        for folder in ("/proc", "/sys", "/dev", "/proc/self/fd", theirs, theirs.parent, theirs.parent.parent):
            done = self.shell(None, "true", cwd=str(folder), sandbox="required")
            self.assertEqual(done["error_code"], "TOOL_INVALID_ARGUMENTS", folder)

    def test_a_sandbox_never_shows_files_of_the_server(self):
        secrets = self.base / "secrets"
        (secrets / "default").mkdir(parents=True)
        (secrets / "default" / "TOKEN").write_text(CANARY)
        self.stop()
        self.settings = ["--secrets-folder", str(secrets), "--sandbox-readable", str(self.base)]
        self.start()
        for folder in (secrets, secrets / "default", self.base):
            done = self.shell(None, "true", cwd=str(folder), sandbox="required")
            self.assertEqual(done["error_code"], "TOOL_INVALID_ARGUMENTS", folder)
        # Nor when they lie in a folder that every sandbox can read.
        look = f"ls -A {self.base}/*/; cat {secrets}/default/TOKEN {self.data}/admin.key {self.data}/pawl.yaml; true"
        for tenant in (None, "acme"):
            done = self.shell(tenant, look, sandbox="required")
            output = done["steps"][0]["output"]
            self.assertEqual(done["status"], "success")
            self.assertIn(f"{self.base}/unlisted/", output["stdout"])
            for hidden in (CANARY, "pawl.db", "pawl_", "default"):
                self.assertNotIn(hidden, output["stdout"])

    def test_a_run_that_began_in_an_earlier_version_goes_on_in_its_folder(self):
        self.publish([{"id": "s", "tool": "approval"},
                      {"id": "t", "tool": "shell", "with": {"argv": ["cat", "left"], "sandbox": "required"}}])
        run = self.ask("POST", "/runs", {"workflow": "agents"})["id"]
        earlier = self.data / "workspaces" / run
        earlier.mkdir(parents=True)
        (earlier / "left").write_text("here")
        self.ask("POST", f"/runs/{run}/approve", {})
        self.assertEqual(self.ended(run)["steps"][1]["output"]["stdout"], "here")


class Honest(AgentCase):
    """What is said where no sandbox works."""
    sandbox = "auto"
    settings = ["--bwrap", "/nowhere/bwrap"]

    def test_the_log_says_at_the_start_that_there_is_no_sandbox(self):
        self.stop()
        self.log_file = self.base / "log"
        self.start()
        lines = [json.loads(line) for line in self.log_file.read_text().splitlines()]
        (line,) = [line for line in lines if "no sandbox works here" in line["message"]]
        self.assertEqual(line["level"], "warning")
        self.assertIn("/nowhere/bwrap", line["why"])

    def test_receipt_and_show_say_that_a_step_ran_without_one(self):
        run = self.begin("work")
        done = self.ended(run)
        self.assertEqual(done["status"], "success")
        self.assertEqual([receipt["sandboxed"] for receipt in done["receipts"]], [False])
        (intended,) = [item["event"] for item in self.ask("GET", f"/runs/{run}/events")["items"]
                       if item["event"]["type"] == "receipt.intended"]
        self.assertIs(intended["sandboxed"], False)
        self.assertIn("work ran without a sandbox", self.pawl("show", run).stdout)

    def test_show_says_that_a_step_ran_in_one(self):
        if not works():
            self.skipTest("bubblewrap does not work on this machine")
        self.stop()
        self.settings = []
        self.start()
        run = self.begin("work")
        self.assertEqual([receipt["sandboxed"] for receipt in self.ended(run)["receipts"]], [True])
        self.assertIn("work ran in a sandbox", self.pawl("show", run).stdout)


if __name__ == "__main__":
    unittest.main()
