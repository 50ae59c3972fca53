"""The sandbox, attacked from within; and what happens where there is none."""
import json
import os
import pathlib
import socket
import subprocess
import threading
import unittest

from agent_case import PAWL, AgentCase, is_alive


def works():
    return subprocess.run(["bwrap", "--unshare-all", "--unshare-user", "--ro-bind", "/", "/", "true"],
                          capture_output=True).returncode == 0 if any(
        os.access(os.path.join(folder, "bwrap"), os.X_OK) for folder in os.environ["PATH"].split(":")) else False


class SandboxCase(AgentCase):
    sandbox = "required"

    def setUp(self):
        if not works():
            self.skipTest("bubblewrap does not work on this machine")
        super().setUp()

    def sh(self, script, **given):
        """What a script says that runs as an agent in the sandbox."""
        sandbox = given.pop("sandbox", None)
        if sandbox is not None:
            given["sandbox"] = sandbox
        given.setdefault("step", {"retry": {"max_attempts": 1}, "timeout": "10m"})
        given.setdefault("pass_env", [])
        result = "import json,subprocess,sys\n" \
                 "d=subprocess.run(['bash','-c',sys.argv[1]],stdout=subprocess.PIPE,stderr=subprocess.STDOUT," \
                 "text=True,errors='replace')\n" \
                 "print(json.dumps({'type':'result','result':d.stdout[-20000:],'output':d.returncode}))\n"
        run = self.begin("x", tool="agent.command", command=["python3", "-c", result, script], **given)
        output = self.output(run)
        return output["output"], output["result"]


class Attacks(SandboxCase):
    def test_the_database_is_not_there(self):
        code, said = self.sh(f"ls {self.data}; cat {self.data}/admin.key {self.data}/secret; find / '(' -path /proc -o "
                             f"-path /usr -o -path /sys ')' -prune -o "
                             f"-name '*.db' -print 2>/dev/null; ls {self.data}/logs {self.data}/processes")
        self.assertNotIn("pawl_", said.replace("pawl_key", ""))
        for name in ("admin.key\n", "server.json", "signing-key", "pawl.db"):
            self.assertNotIn("\n" + name, "\n" + said)

    def test_only_the_workspace_can_be_written(self):
        code, said = self.sh("for d in / /usr /etc /opt /bin /root /home /var /sys /proc/sys/kernel; do touch $d/x "
                             "2>/dev/null && echo wrote $d; done; "
                             "touch here && touch /tmp/there && echo mine")
        wrote = [line for line in said.splitlines() if line.startswith("wrote")]
        self.assertEqual(wrote, [], said)
        self.assertIn("mine", said)
        self.assertTrue((self.work / "here").exists())
        self.assertFalse(pathlib.Path("/tmp/there").exists())
        self.assertFalse(pathlib.Path("/x").exists())

    def test_other_processes_are_not_there(self):
        code, said = self.sh(f"ls -d /proc/[0-9]* | wc -l; cat /proc/*/cmdline | tr '\\0' ' '; kill -9 "
                             f"{self.process.pid}; true")
        self.assertNotIn("serve", said)
        self.assertIsNone(self.process.poll())
        self.assertLess(int(said.splitlines()[0]), 12)

    def test_there_is_no_network(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            attempt = f"(echo hi >/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo connected || echo refused; " \
                      "ls /sys/class/net 2>/dev/null; cat /proc/net/dev | tail -n +3 | cut -d: -f1"
            self.assertIn("refused", self.sh(attempt)[1])
            self.assertEqual(self.sh(attempt)[1].split()[1:], ["lo"])
            self.assertIn("connected", self.sh(attempt, sandbox={"network": True})[1])

    def test_the_environment_holds_only_what_was_allowed(self):
        os.environ["AGENT_TEST_HIDDEN"] = "x"
        self.addCleanup(os.environ.pop, "AGENT_TEST_HIDDEN")
        self.stop()
        self.start()
        code, said = self.sh("env", env={"OWN": "y"})
        names = {line.partition("=")[0] for line in said.splitlines()}
        self.assertIn("OWN", names)
        self.assertNotIn("AGENT_TEST_HIDDEN", names)
        self.assertNotIn("PAWL_LEASE_KEY", names)  # it could not be used without a network
        self.assertIn("PAWL_MCP_SOCKET", names)
        home = next(line.partition("=")[2] for line in said.splitlines() if line.startswith("HOME="))
        self.assertTrue(home.startswith(str(self.data / "agents")))

    def test_no_descriptor_leaks(self):
        code, said = self.sh("ls -l /proc/self/fd /proc/$PPID/fd 2>/dev/null")
        for word in ("socket", "pawl.db", ".db", "eventfd", "eventpoll", str(self.data)):
            self.assertNotIn(word, said)

    def test_a_fork_bomb_ends_at_its_limit(self):
        bomb = self.work / "bomb.py"
        bomb.write_text("import os, signal, time\n"
                        "children = []\n"
                        "try:\n"
                        "    while len(children) < 200:\n"
                        "        child = os.fork()\n"
                        "        if child == 0:\n"
                        "            time.sleep(1000)\n"
                        "        children.append(child)\n"
                        "except OSError as error:\n"
                        "    print(error)\n"
                        "print('count', sum(name.isdigit() for name in os.listdir('/proc')))\n"
                        "for child in children:\n"
                        "    os.kill(child, signal.SIGKILL)\n")
        code, said = self.sh(f"python3 {bomb}", sandbox={"processes": 40})
        self.assertIn("Resource temporarily unavailable", said)
        self.assertLessEqual(int(said.split("count ")[1]), 41, said)
        # And the server goes on.
        self.assertIn("fine", self.sh("echo fine")[1])

    def test_a_wild_fork_bomb_is_over_when_its_step_is(self):
        mark = self.work / "bomb"
        run = self.begin("x", tool="agent.command",
                         command=["bash", "-c", f"touch {mark}; b() {{ b | b & }}; b; sleep 100"], pass_env=[],
                         sandbox={"processes": 60}, step={"timeout": "2s", "retry": {"max_attempts": 1}})
        self.assertEqual(self.ended(run)["error_code"], "TOOL_TIMEOUT")
        self.until(lambda: not self.in_workspace())
        self.assertEqual(self.ask("GET", "/healthz")["status"], "ok")

    def in_workspace(self):
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "cwd") == str(self.work) and is_alive(int(entry.name)):
                    found.append(entry.name)
            except OSError:
                pass
        return found

    def test_memory_ends_at_its_limit(self):
        code, said = self.sh("python3 -c \"x=bytearray(600<<20)\" && echo had it", sandbox={"memory_mib": 200})
        self.assertNotIn("had it", said)

    def test_open_files_end_at_their_limit(self):
        code, said = self.sh("ulimit -n", sandbox={"files": 77})
        self.assertEqual(said.strip(), "77")

    def test_no_orphan_outlives_it(self):
        code, said = self.sh("(setsid sleep 987 & setsid env -i sleep 988 &) >/dev/null 2>&1; "
                             "while [ $(grep -lx sleep /proc/[0-9]*/comm | wc -l) -lt 2 ]; do :; done; echo left")
        self.assertIn("left", said)
        self.until(lambda: not self.in_workspace())

    def test_no_orphan_outlives_the_server(self):
        mark = self.work / "mark"
        script = f"(setsid env -i sleep 986 &); touch {mark}; sleep 985"
        self.begin("x", tool="agent.command", command=["bash", "-c", script], pass_env=[])
        self.until(mark.exists)
        self.assertTrue(self.in_workspace())
        self.kill()
        self.until(lambda: not self.in_workspace())
        self.start()  # the next server removes the control group

    def test_it_cannot_get_more_rights(self):
        code, said = self.sh("unshare -Ur true && echo nested; mount -t tmpfs x /mnt && echo mounted; grep CapEff "
                             "/proc/self/status")
        self.assertNotIn("nested", said)
        self.assertNotIn("mounted", said)
        self.assertIn("CapEff:\t0000000000000000", said)

    def test_a_link_in_place_of_a_question_leads_nowhere(self):
        script = f"ln -s {self.data}/admin.key $PAWL_QUESTION_FILE; echo '{{\"type\":\"result\",\"result\":\"ok\"}}'"
        run = self.begin("x", tool="agent.command", command=["bash", "-c", script], pass_env=[])
        self.assertEqual(self.output(run)["result"], "ok")

    def test_the_data_folder_cannot_be_its_workspace(self):
        for folder in (self.data, self.data / "logs", self.base, "/"):
            done = self.ended(self.begin("x", tool="agent.command", command=["true"], pass_env=[], folder=str(folder)))
            self.assertEqual(done["error_code"], "TOOL_INVALID_ARGUMENTS", folder)

    def test_told_to_stop_it_may_tidy_up(self):
        mark = self.work / "polite"
        run = self.begin(f"polite {mark}", step={"timeout": "10m"})
        self.until(mark.exists)
        self.ask("POST", f"/runs/{run}/cancel", {})
        self.until((self.work / "polite.bye").exists)


class Agents(SandboxCase):
    def test_claude_works_asks_and_is_resumed_in_one(self):
        run = self.begin("ask", pass_env=[])
        self.waits(run)
        self.ask("POST", f"/runs/{run}/answer", {"step": "work", "answer": "echo left"})
        seen = json.loads(self.output(run)["result"])
        self.assertEqual(seen["message"], "echo left")
        self.assertEqual(len(seen["messages"]), 2)
        self.assertEqual(seen["cwd"], str(self.work))

    def test_tools_of_the_server_are_reached_with_a_network(self):
        run = self.begin("sh python3 -c \"import os,urllib.request as "
                         "u;print(u.urlopen(u.Request(os.environ['PAWL_MCP_URL'],"
                         "b'{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":1,\\\"method\\\":\\\"ping\\\"}',"
                         "{'Authorization':'Bearer '+os.environ['PAWL_LEASE_KEY']})).read())\"", pass_env=[])
        self.assertIn("result", json.loads(self.output(run)["result"])["out"])

    def speak(self, *messages):
        """A script that says these to the server's tools, over the program that pawl gives an agent."""
        return "import json,subprocess,sys\n" \
               f"said=subprocess.run([{PAWL!r},'mcp'],input={chr(10).join(map(json.dumps, messages))!r}+'\\n'," \
               "capture_output=True,text=True)\n" \
               "print(json.dumps({'type':'result','result':said.stdout+said.stderr}))\n"

    def test_tools_of_the_server_are_reached_without_a_network(self):
        script = self.speak({"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
                            {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
                             "params": {"name": "get_status", "arguments": {}}})
        run = self.begin("x", tool="agent.command", command=["python3", "-c", script], pass_env=[],
                         sandbox={"network": False})
        listed, status = map(json.loads, self.output(run)["result"].splitlines())
        self.assertIn("propose_action", [tool["name"] for tool in listed["result"]["tools"]])
        self.assertEqual(status["result"]["structuredContent"]["id"], run)

    def test_a_question_is_asked_without_a_network(self):
        script = self.speak({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                             "params": {"name": "ask_human", "arguments": {"question": "How deep?"}}})
        run = self.begin("x", tool="agent.command", command=["python3", "-c", script], pass_env=[])
        self.assertEqual(self.waits(run)["question"], {"text": "How deep?"})
        self.assertEqual([receipt["status"] for receipt in self.run_of(run)["receipts"]], ["failed"])

    def test_who_does_not_want_the_tools_has_no_socket(self):
        _, said = self.sh("env; ls $PAWL_LOG_FOLDER", mcp=False)
        self.assertNotIn("MCP", said)
        self.assertNotIn("mcp.sock", said)

    def test_the_socket_is_gone_with_the_attempt(self):
        _, said = self.sh("echo $PAWL_MCP_SOCKET")
        self.assertTrue(said.strip().endswith("mcp.sock"))
        self.assertFalse(pathlib.Path(said.strip()).exists())

    def test_a_step_cannot_leave_it_where_the_server_demands_it(self):
        done = self.ended(self.begin("work", sandbox="off"))
        self.assertEqual(done["error_code"], "TOOL_INVALID_ARGUMENTS")
        self.assertIn("demands", done["diagnostic"]["message"])

    def test_shell_steps_are_in_it_too(self):
        self.publish([{"id": "s", "tool": "shell",
                       "with": {"argv": ["sh", "-c", f"ls {self.data}; touch in; id -u; cat"], "cwd": str(self.work),
                                "stdin": "told"}}])
        done = self.ended(self.ask("POST", "/runs", {"workflow": "agents"})["id"])
        output = done["steps"][0]["output"]
        self.assertIn("No such file", output["stderr"])
        self.assertIn("told", output["stdout"])
        self.assertTrue((self.work / "in").exists())
        self.publish([{"id": "s", "tool": "shell", "with": {"argv": ["sh", "-c", "exit 3"]},
                       "retry": {"max_attempts": 1}}])
        done = self.ended(self.ask("POST", "/runs", {"workflow": "agents"})["id"])
        self.assertIn("exited with 3", done["diagnostic"]["message"])


class Without(AgentCase):
    """Where bubblewrap cannot be had."""
    sandbox = "auto"
    settings = ["--bwrap", "/nowhere/bwrap"]

    def test_who_does_not_demand_one_runs_without(self):
        self.assertEqual(self.output(self.begin("work"))["result"], "did: ")

    def test_who_demands_one_is_refused_and_told_why(self):
        for tool, given in (("agent.claude", {}), ("agent.command", {"command": ["true"]})):
            done = self.ended(self.begin("work", tool=tool, sandbox="required", **given))
            self.assertEqual((done["status"], done["error_code"]), ("failed", "SANDBOX_UNAVAILABLE"))
            self.assertIn("/nowhere/bwrap", done["diagnostic"]["message"])
        self.publish([{"id": "s", "tool": "shell", "with": {"argv": ["true"], "sandbox": "required"}}])
        done = self.ended(self.ask("POST", "/runs", {"workflow": "agents"})["id"])
        self.assertEqual(done["error_code"], "SANDBOX_UNAVAILABLE")
        self.assertEqual(done["steps"][0]["attempts"], 1)

    def test_a_server_that_demands_one_runs_nothing(self):
        self.stop()
        self.sandbox = "required"
        self.start()
        done = self.ended(self.begin("work"))
        self.assertEqual(done["error_code"], "SANDBOX_UNAVAILABLE")


if __name__ == "__main__":
    unittest.main()
