#!/usr/bin/env python3
"""Stands in for the Claude Code CLI: takes its flags, reads a prompt on stdin, and speaks its stream in every mood.

The first word of the prompt is the mood; what follows is for it. A resumed session does what its message says. Sessions
are files in $FAKE_AGENT_HOME: each turn adds to what the session has cost, and a resumed one reports the whole.
"""
import argparse, json, os, signal, subprocess, sys, time

TURN_COST = 0.25


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("-p", "--print", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--strict-mcp-config", action="store_true")
    for flag in ("--output-format", "--session-id", "--resume", "--max-budget-usd", "--model", "--permission-mode",
                 "--mcp-config", "--allowedTools", "--disallowedTools", "--append-system-prompt", "--max-turns",
                 "--setting-sources"):
        parser.add_argument(flag)
    return parser.parse_args()


class Session:
    def __init__(self, given):
        self.folder = os.environ.get("FAKE_AGENT_HOME") or os.path.join(os.environ["HOME"], "fake-agent")
        os.makedirs(self.folder, exist_ok=True)
        self.id = given.resume or given.session_id
        self.path = os.path.join(self.folder, self.id)
        if given.resume and not os.path.exists(self.path):
            print("No conversation found with session ID: " + self.id, file=sys.stderr)
            say({"type": "result", "subtype": "error_during_execution", "is_error": True, "num_turns": 0,
                 "session_id": self.id, "total_cost_usd": 0, "errors": ["No conversation found"]})
            sys.exit(1)
        if not given.resume and os.path.exists(self.path):
            print("Session ID is already in use", file=sys.stderr)
            sys.exit(1)
        self.state = {"cost": 0.0, "messages": []}
        if given.resume:
            with open(self.path) as file:
                self.state = json.load(file)

    def spend(self, amount=TURN_COST):
        self.state["cost"] = round(self.state["cost"] + amount, 6)
        self.save()

    def save(self):
        with open(self.path, "w") as file:
            json.dump(self.state, file)


def say(line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


class Agent:
    def __init__(self):
        self.given = options()
        self.session = Session(self.given)
        self.message = sys.stdin.read()
        self.session.state["messages"].append(self.message)
        self.session.save()

    def init(self):
        say({"type": "system", "subtype": "init", "session_id": self.session.id, "uuid": "u1", "model": "fake",
             "cwd": os.getcwd(), "tools": ["Bash"], "mcp_servers": [], "permissionMode": self.given.permission_mode})

    def talk(self, text):
        say({"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": text}],
             "usage": {"input_tokens": 1, "output_tokens": 2}}, "session_id": self.session.id})

    def result(self, text, **more):
        line = {"type": "result", "subtype": "success", "is_error": False, "duration_ms": 12, "num_turns": 3,
                "result": text, "stop_reason": "end_turn", "total_cost_usd": self.session.state["cost"],
                "usage": {"input_tokens": 10, "output_tokens": 20}, "permission_denials": [],
                "terminal_reason": "completed", "session_id": self.session.id, "uuid": "u2"}
        line.update(more)
        say(line)

    def fork_children(self):
        """Children in the group, one in a session of its own, one that has left everything but its environment."""
        pids = []
        pids.append(subprocess.Popen(["sleep", "1000"]).pid)
        pids.append(subprocess.Popen(["sleep", "1000"], start_new_session=True).pid)
        script = "import os,time,sys\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n" \
                 "print(os.getpid(), flush=True)\nos.close(1)\nos.close(2)\ntime.sleep(1000)"
        done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        pids.append(int(done.stdout))
        return pids

    def run(self):
        mood, _, rest = self.message.partition(" ")
        self.init()
        self.session.spend()
        getattr(self, "do_" + mood.strip().replace("-", "_"), self.do_other)(rest)

    def do_work(self, rest):
        self.talk("working")
        self.result("did: " + rest)

    def do_denied(self, rest):
        self.result("could not", permission_denials=[
            {"tool_name": "Bash", "tool_use_id": "toolu_1", "tool_input": {"command": "git push"}}] * int(rest or "1"))

    def do_ask_after_denial(self, rest):
        with open(os.environ["PAWL_QUESTION_FILE"], "w") as file:
            json.dump({"text": "May I?"}, file)
        self.do_denied("1")

    def do_die_after_denial(self, rest):
        say({"type": "system", "subtype": "permission_denied", "tool_name": "Write", "tool_use_id": "toolu_2",
             "session_id": self.session.id})
        sys.exit(1)

    def do_other(self, rest):
        self.result("heard: " + self.message)

    def do_echo(self, rest):
        """Everything that it was given."""
        given = vars(self.given)
        self.result(json.dumps({"flags": given, "env": dict(os.environ), "cwd": os.getcwd(), "message": self.message,
                                "messages": self.session.state["messages"]}))

    def do_toolless(self, rest):
        """Works on although it could not connect to the server's tools."""
        say({"type": "system", "subtype": "init", "session_id": self.session.id,
             "mcp_servers": [{"name": "other", "status": "connected"}, {"name": "pawl", "status": "failed"}]})
        self.result("worked without")

    def do_ask(self, rest):
        self.talk("I need to know")
        with open(os.environ["PAWL_QUESTION_FILE"], "w") as file:
            file.write(rest or json.dumps({"text": "Which way?", "options": ["left", "right"]}))
        self.result("asked")

    def do_overspend(self, rest):
        """Says what it costs as it goes, and does not stop by itself."""
        for _ in range(1000):
            self.session.spend(1)
            say({"type": "system", "subtype": "status", "session_id": self.session.id,
                 "total_cost_usd": self.session.state["cost"]})
            time.sleep(0.02)
        self.result("spent it all")

    def do_spend(self, rest):
        """A dollar with what a turn costs, of which it tells, and then nothing more."""
        self.session.spend(0.75)
        say({"type": "system", "subtype": "status", "session_id": self.session.id,
             "total_cost_usd": self.session.state["cost"]})
        time.sleep(1000)

    def do_budget(self, rest):
        self.session.spend(5)
        self.result("", subtype="error_max_budget_usd", is_error=True, errors=["over"],
                    terminal_reason="budget_exhausted")
        sys.exit(1)

    def do_hang(self, rest):
        time.sleep(1000)

    def do_stubborn(self, rest):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if rest:
            open(rest, "w").close()
        while True:
            time.sleep(1)

    def do_stay(self, rest):
        open(rest, "w").close()
        time.sleep(1000)

    def do_polite(self, rest):
        def bye(*_):
            with open(rest + ".bye", "w") as file:
                file.write("tidied up")
            sys.exit(0)
        signal.signal(signal.SIGTERM, bye)
        open(rest, "w").close()
        while True:
            time.sleep(1)

    def do_fork(self, rest):
        pids = self.fork_children()
        with open(rest + ".new", "w") as file:
            file.write(" ".join(map(str, pids + [os.getpid()])))
        os.rename(rest + ".new", rest)
        time.sleep(1000)

    def do_fork_and_leave(self, rest):
        pids = self.fork_children()
        with open(rest, "w") as file:
            file.write(" ".join(map(str, pids)))
        self.result("left children behind")

    def do_flood(self, rest):
        count = int(rest or "2000")
        text = "x" * 4000
        for _ in range(count):
            self.talk(text)
        self.result("flooded")

    def do_huge_line(self, rest):
        size = int(rest or str(6 << 20))
        sys.stdout.write('{"type":"user","message":"')
        for _ in range(size // 65536):
            sys.stdout.write("y" * 65536)
        sys.stdout.write('"}\n')
        self.result("after the huge line")

    def do_broken_json(self, rest):
        sys.stdout.write('{"type":"assistant", oops\nnot json at all\n\x00\x01\x02\n[1,2]\n{"type":17}\n{}\n')
        sys.stdout.flush()
        os.write(1, b'\xff\xfe{"type":"result"\n')
        self.result("still here")

    def do_slow_pieces(self, rest):
        line = json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "p\u00ebces",
                           "total_cost_usd": 0.5, "session_id": self.session.id}, ensure_ascii=False).encode()
        for byte in line:
            os.write(1, bytes([byte]))
            time.sleep(0.0005)
        os.write(1, b"\n")

    def do_die_mid_line(self, rest):
        os.write(1, b'{"type":"result","subtype":"success","is_error":false,"resu')
        os.kill(os.getpid(), signal.SIGKILL)

    def do_no_result(self, rest):
        self.talk("I leave without a word")
        sys.exit(int(rest or "0"))

    def do_error_exit_0(self, rest):
        say({"type": "assistant", "message": {"role": "assistant", "content": []}, "error": "overloaded",
             "session_id": self.session.id})
        self.result("API Error: 529 overloaded", is_error=True, api_error_status=int(rest or "529"),
                    terminal_reason="api_error")

    def do_max_turns(self, rest):
        self.result("", subtype="error_max_turns", is_error=True, errors=[])
        sys.exit(1)

    def do_linger(self, rest):
        self.result("done, but I stay")
        time.sleep(1000)

    def do_fail_once(self, rest):
        """Fails unless it is resumed."""
        self.talk("begun")
        sys.exit(1)

    def do_defer(self, rest):
        self.result("", stop_reason="tool_deferred", terminal_reason="tool_deferred",
                    deferred_tool_use={"id": "toolu_1", "name": "Bash", "input": {"command": "rm -rf /"}})

    def do_exit_3(self, rest):
        self.result("said fine")
        sys.exit(3)

    def do_leak(self, rest):
        print("the secret is " + os.environ.get("TOKEN", ""), file=sys.stderr)
        self.talk("the secret is " + os.environ.get("TOKEN", ""))
        self.result("token " + os.environ.get("TOKEN", ""))

    def do_sh(self, rest):
        """Runs a command, and prints the outcome."""
        done = subprocess.run(["sh", "-c", rest], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=600)
        self.result(json.dumps({"code": done.returncode, "out": done.stdout[-20000:]}))


if __name__ == "__main__":
    Agent().run()
