"""The tools for agents: by hand in both eras, by the official clients, over both transports, and within a lease."""
import http.server
import json
import os
import pathlib
import subprocess
import threading
import unittest
import urllib.error
import urllib.request

from agent_case import HERE, PAWL, TIMEOUT_S, AgentCase

NAMES = ["propose_action", "record_outcome", "ask_human", "create_subtask", "create_task", "list_tasks", "get_status"]
TASKLESS = ["propose_action", "record_outcome", "ask_human", "get_status"]  # of an agent that works for no task
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}}
REMOTE = [{"id": "only", "tool": "test.work", "lease": "1h"}]


class KeyProxy:
    """Passes requests on with a key that whoever sends them does not have."""

    def __init__(self, url, key):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def pass_on(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                request = urllib.request.Request(url + self.path, data=body or None, method=self.command)
                for name, value in self.headers.items():
                    if name.lower() not in ("host", "content-length", "connection", "origin", "accept-encoding"):
                        request.add_header(name, value)
                request.add_header("Authorization", "Bearer " + key)
                try:
                    answer = urllib.request.urlopen(request, timeout=TIMEOUT_S)
                except urllib.error.HTTPError as error:
                    answer = error
                with answer:
                    text = answer.read()
                    self.send_response(answer.status)
                    self.send_header("Content-Type", answer.headers.get("Content-Type") or "application/json")
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)

            do_GET = do_POST = do_DELETE = pass_on

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class McpCase(AgentCase):
    def message(self, method, params=None, key=None, headers=None, number=1):
        body = {"jsonrpc": "2.0", "id": number, "method": method}
        if params is not None:
            body["params"] = params
        return self.ask("POST", "/mcp", body, key=key, headers=headers)

    def call(self, name, arguments, key=None):
        return self.message("tools/call", {"name": name, "arguments": arguments}, key=key)["result"]

    def lease(self):
        """A step that a remote worker holds: its run, and what names the lease."""
        self.publish(REMOTE, name="remote")
        run = self.ask("POST", "/runs", {"workflow": "remote"})["id"]
        lease = self.ask("POST", "/leases", {"worker": "w", "tools": ["test.work"], "wait": "30s"})["leases"][0]
        return run, {"lease_id": lease["lease_id"], "token": lease["token"]}


class ByHand(McpCase):
    def test_a_legacy_client_shakes_hands_first(self):
        got = self.message("initialize",
                           {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}})["result"]
        self.assertEqual(got["protocolVersion"], "2025-11-25")
        self.assertEqual(got["serverInfo"]["name"], "pawl")
        self.assertNotIn("resultType", got)
        self.assertIsNone(self.ask("POST", "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}))
        older = self.message("initialize", {"protocolVersion": "1999-01-01"})["result"]
        self.assertEqual(older["protocolVersion"], "2025-11-25")
        self.assertEqual([tool["name"] for tool in self.message("tools/list")["result"]["tools"]], NAMES)
        self.assertEqual(self.message("no/such")["error"]["code"], -32601)
        self.assertEqual(self.message("tools/call", {"name": "no_such"})["error"]["code"], -32602)

    def test_a_modern_client_says_who_it_is_every_time(self):
        def headers(method, name=None):
            out = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
            return {**out, "Mcp-Name": name} if name else out
        found = self.message("server/discover", {"_meta": META}, headers=headers("server/discover"))["result"]
        self.assertEqual((found["resultType"], found["supportedVersions"]), ("complete", ["2026-07-28"]))
        listed = self.message("tools/list", {"_meta": META}, headers=headers("tools/list"), number="a")["result"]
        self.assertEqual([tool["name"] for tool in listed["tools"]], NAMES)
        self.assertIn("ttlMs", listed)
        self.assertEqual(listed["cacheScope"], "private")
        run, _ = self.lease()
        arguments = {"name": "get_status", "arguments": {"run_id": run}, "_meta": META}
        got = self.message("tools/call", arguments, headers=headers("tools/call", "get_status"))["result"]
        self.assertEqual((got["resultType"], got["structuredContent"]["status"]), ("complete", "running"))

        def error(*args, **named):
            refused = self.refused("POST", "/mcp", *args, **named)
            return refused.status, refused.body["error"]["code"]
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
        self.assertEqual(error(body), (400, -32020))
        self.assertEqual(error(body, headers=headers("tools/call")), (400, -32020))
        unknown = dict(body, method="resources/list")
        self.assertEqual(error(unknown, headers=headers("resources/list")), (404, -32601))
        newer = dict(META, **{"io.modelcontextprotocol/protocolVersion": "2031-01-01"})
        self.assertEqual(error(dict(body, params={"_meta": newer}), headers=headers("tools/list")), (400, -32022))

    def test_what_is_no_message_is_refused(self):
        for text, code in (("{", -32700), ("[]", -32600), ("{}", -32600),
                           ('{"jsonrpc":"2.0","id":null,"method":"x"}', -32600)):
            refused = self.refused("POST", "/mcp", text)
            self.assertEqual((refused.status, refused.body["error"]["code"]), (400, code), text)
        self.assertEqual(self.refused("GET", "/mcp").status, 405)
        self.assertEqual(self.refused("POST", "/mcp", {}, key="pawl_no").status, 401)

    def test_every_tool_has_a_schema_and_says_what_it_does_to_the_world(self):
        for tool in self.message("tools/list")["result"]["tools"]:
            self.assertEqual(tool["inputSchema"]["type"], "object")
            self.assertEqual(set(tool["annotations"]),
                             {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"})

    def test_an_action_passes_the_gate_once(self):
        run, lease = self.lease()
        action = {"connector": "mail", "operation": "send", "target": "a@b.c", "fields": {"n": 1}, **lease}
        first = self.call("propose_action", action)["structuredContent"]
        self.assertEqual(first["decision"], "allow")
        again = self.call("propose_action", action)["structuredContent"]
        self.assertEqual(again["receipt_id"], first["receipt_id"])
        done = self.call("record_outcome",
                         {"receipt_id": first["receipt_id"], "succeeded": True, "response": {"ok": 1}, **lease})
        self.assertEqual(done["structuredContent"]["status"], "succeeded")
        after = self.call("propose_action", action)["structuredContent"]
        self.assertTrue(after["is_done"])

    def test_a_refusal_is_something_that_a_model_can_read(self):
        _, lease = self.lease()
        got = self.call("record_outcome", {"receipt_id": "rcp_01m7hm5kk9e00a16va1g5nvbxh", "succeeded": True, **lease})
        self.assertTrue(got["isError"])
        self.assertIn("code", got["structuredContent"])
        self.assertTrue(got["content"][0]["text"])

    def test_wrong_arguments_are_errors_of_the_tool(self):
        _, lease = self.lease()
        for name, arguments in (("propose_action", {}), ("propose_action", lease), ("propose_action", []),
                                ("record_outcome", {"receipt_id": 7, **lease}), ("record_outcome", lease),
                                ("ask_human", lease), ("ask_human", {"question": 7, **lease}),
                                ("create_subtask", {}), ("create_subtask", {"prompt": 7}), ("create_task", {}),
                                ("create_task", {"prompt": "p", "nonsense": 1}), ("list_tasks", {"limit": "all"}),
                                ("list_tasks", {"state": "LAZY"}), ("get_status", {"run_id": "?"}),
                                ("get_status", {"task_id": 7})):
            got = self.call(name, arguments)
            self.assertTrue(got["isError"], (name, arguments))
            self.assertIn("code", got["structuredContent"], (name, arguments))
            self.assertTrue(got["content"][0]["text"], (name, arguments))

    def test_a_wrong_argument_is_named(self):
        _, lease = self.lease()
        action = {"connector": "mail", "operation": "send", "target": "a@b.c", **lease}
        for name, arguments, said in (
                ("list_tasks", {"bogus": 1}, "bogus is not an argument of list_tasks, which has state, tag"),
                ("get_status", {"task": "t"}, "task is not an argument of get_status"),
                ("get_status", {}, "name a run with run_id, or a task with task_id"),
                ("ask_human", {"question": "?", "bogus": 1, **lease}, "bogus is not an argument"),
                ("ask_human", {"question": "?", "options": ["a", 1], **lease}, "options must be a list of text"),
                ("ask_human", {"question": " ", **lease}, "question must say something"),
                ("create_task", {"prompt": 5}, "prompt must be text"),
                ("create_task", {"prompt": "  \n"}, "prompt must say something"),
                ("create_task", {"title": "t"}, "prompt is missing"),
                ("create_task", {"prompt": "p", "run": "yes"}, "run must be true or false"),
                ("create_task", {"prompt": "p", "max_budget_usd": 0.5}, "max_budget_usd must be text"),
                ("list_tasks", {"limit": 51}, "limit must be a number from 1 to 50"),
                ("list_tasks", {"limit": 0}, "limit must be"), ("list_tasks", {"limit": 1.5}, "limit must be"),
                ("list_tasks", {"state": "LAZY"}, "state must be one of PENDING, QUEUED"),
                ("propose_action", {**action, "fields": "all"}, "fields must be an object"),
                ("propose_action", {**action, "risk": "enormous"}, "risk must be one of low, med, high"),
                ("record_outcome", {"receipt_id": "r", **lease}, "succeeded is missing"),
                ("record_outcome", {"receipt_id": None, "succeeded": True, **lease}, "receipt_id is missing")):
            got = self.call(name, arguments)
            self.assertTrue(got["isError"], (name, arguments))
            self.assertIn(said, got["content"][0]["text"])
        self.assertFalse(self.call("list_tasks", {"limit": None, "tag": None})["isError"], "null is left out")
        titled = self.call("create_task", {"prompt": "\n\n  first\nsecond", "run": False})["structuredContent"]
        self.assertEqual(titled["title"], "first")

    def test_tasks_are_created_and_listed(self):
        got = self.call("create_task", {"prompt": "work hard\nand well", "folder": str(self.work), "tags": ["mcp"]})
        self.assertFalse(got["isError"], got)
        task = got["structuredContent"]["id"]
        self.until(lambda: self.ask("GET", "/tasks/" + task)["state"] == "READY")
        listed = self.call("list_tasks", {"tag": "mcp", "state": "READY"})["structuredContent"]["items"]
        self.assertEqual([(item["id"], item["title"]) for item in listed], [(task, "work hard")])
        self.assertEqual(listed[0]["result"]["text"], "did: hard\nand well")
        self.assertEqual(self.call("list_tasks", {"tag": "other"})["structuredContent"]["items"], [])
        viewer = self.ask("POST", "/keys", {"role": "viewer"})["key"]
        self.assertTrue(self.call("create_task", {"prompt": "p"}, key=viewer)["isError"])

    def test_a_question_gives_the_step_back(self):
        run, lease = self.lease()
        got = self.call("ask_human", {"question": "Sure?", "options": ["yes", "no"], **lease})
        self.assertFalse(got["isError"], got)
        step = self.waits(run)
        self.assertEqual(step["question"], {"text": "Sure?", "options": ["yes", "no"]})

    def test_a_subtask_is_delegated_and_begins_at_once(self):
        task = self.ask("POST", "/tasks", {"title": "t", "agent": "command", "prompt": "p", "folder": str(self.work),
                                           "command": ["sh", "-c", "sleep 100"], "run": True})
        got = self.call("create_subtask", {"prompt": "one\ntwo", "parent_task_id": task["id"]})
        self.assertFalse(got["isError"], got)
        subtask = self.ask("GET", "/tasks/" + got["structuredContent"]["id"])
        self.assertEqual((subtask["title"], subtask["prompt"], subtask["parent_task_id"], subtask["agent"],
                          subtask["settings"]),
                         ("one", "one\ntwo", task["id"], "command", task["settings"]))
        self.assertNotEqual(subtask["state"], "PENDING")
        status = self.call("get_status", {"task_id": subtask["id"]})["structuredContent"]
        self.assertEqual(status["id"], subtask["id"])
        for arguments, why in (({"prompt": "x"}, "parent_task_id is missing"),
                               ({"parent_task_id": task["id"]}, "prompt is missing")):
            refused = self.message("tools/call", {"name": "create_subtask", "arguments": arguments})
            self.assertIn(why, json.dumps(refused))


class LeaseKeys(McpCase):
    """What an agent is given opens its own lease's doors, and none else, while the lease lasts."""

    def held(self, prompt="stay", **given):
        """A running agent, and its key."""
        there = self.work / "there"
        run = self.begin(f"{prompt} {there}", **given)
        self.until(there.exists)
        for entry in pathlib.Path("/proc").iterdir():
            try:
                environment = (entry / "environ").read_bytes().split(b"\0") if entry.name.isdigit() else []
            except OSError:
                continue
            if f"PAWL_RUN_ID={run}".encode() in environment:
                return run, next(v.split(b"=", 1)[1].decode() for v in environment if v.startswith(b"PAWL_LEASE_KEY="))
        self.fail("there is no such agent")

    def test_propose_and_ask_without_naming_the_lease(self):
        run, key = self.held()
        action = {"connector": "mail", "operation": "send", "target": "a@b.c"}
        allowed = self.call("propose_action", action, key=key)["structuredContent"]
        self.assertEqual(allowed["decision"], "allow", allowed)
        done = self.call("record_outcome", {"receipt_id": allowed["receipt_id"], "succeeded": True}, key=key)
        self.assertFalse(done["isError"], done)
        self.assertEqual(self.call("get_status", {}, key=key)["structuredContent"]["id"], run)
        self.assertFalse(self.call("ask_human", {"question": "Go on?"}, key=key)["isError"])
        self.assertEqual(self.waits(run)["question"]["text"], "Go on?")
        # The lease is over, and so is its key, for every door.
        self.assertEqual(self.refused("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
                                      key=key).status, 409)
        self.assertEqual(self.refused("GET", "/runs/" + run, key=key).status, 409)
        # The answer resumes the session.
        self.ask("POST", f"/runs/{run}/answer", {"step": "work", "answer": "work it"})
        self.assertEqual(self.output(run)["result"], "did: it")

    def test_open_nothing_else(self):
        run, key = self.held()
        other, lease = self.lease()
        for method, path in (("GET", "/runs"), ("GET", "/runs/" + other), ("POST", "/runs"), ("GET", "/keys"),
                             ("POST", "/leases"),
                             ("POST", f"/runs/{run}/cancel"), ("GET", f"/runs/{run}/steps/work/logs"),
                             ("GET", "/approvals"),
                             ("POST", f"/leases/{lease['lease_id']}/ask"), ("POST", "/leases/complete")):
            body = {} if method == "POST" else None
            self.assertEqual(self.refused(method, path, body, key=key).status, 403, path)
        self.assertNotIn("lease's", self.refused("GET", "/runs", key=key).body["detail"])
        # It needs no token, and must not be confused with a key that does.
        refused = self.refused("POST", f"/leases/{run}:work/ask", {"token": "99", "question": "x"}, key=key)
        self.assertEqual((refused.status, refused.body["where"]), (400, "/token"))
        # Nothing in it can be changed, and nothing of it is stored.
        for wrong in (key[:-1] + ("0" if key[-1] != "0" else "1"), key.replace("~work~", "~other~"),
                      key.rpartition("~")[0]):
            self.assertEqual(self.refused("GET", "/runs/" + run, key=wrong).status, 401)
        secret = key.rpartition("~")[2].encode()
        for file in self.data.rglob("*"):
            if file.is_file():
                self.assertNotIn(secret, file.read_bytes(), file)
        self.ask("POST", f"/runs/{run}/cancel", {})
        self.until(lambda: self.refused("GET", "/runs/" + run, key=key).status == 409)

    def test_read_only_their_own_task_and_what_is_beneath_it(self):
        def task(**given):
            return self.ask("POST", "/tasks", {"title": "t", "prompt": "p", **given})["id"]
        top = task()
        own = task(parent_task_id=top)
        part = task(parent_task_id=own)
        deepest = task(parent_task_id=part)
        foreign = (top, task(parent_task_id=top), task(), "task_01m7hm5kk9e00a16va1g5nvbxh", "nonsense")
        _, key = self.held(task_id=own)
        for each in (own, part, deepest):
            self.assertEqual(self.ask("GET", "/tasks/" + each, key=key)["id"], each)
            self.assertEqual(self.call("get_status", {"task_id": each}, key=key)["structuredContent"]["id"], each)
        said = set()
        for each in foreign:
            refused = self.refused("GET", "/tasks/" + each, key=key)
            said.add((refused.status, refused.body["code"], refused.body["detail"]))
            self.assertIn("FORBIDDEN", self.call("get_status", {"task_id": each}, key=key)["content"][0]["text"])
        self.assertEqual(len(said), 1, "what is there is refused as what is not")
        self.assertEqual(said.pop()[:2], (403, "FORBIDDEN"))

    def test_offer_only_what_they_can_do(self):
        def offered(key):
            return [tool["name"] for tool in self.message("tools/list", key=key)["result"]["tools"]]
        _, key = self.held()
        self.assertEqual(offered(key), TASKLESS)
        self.assertTrue(self.call("create_subtask", {"prompt": "p"}, key=key)["isError"])
        for name in ("create_task", "list_tasks"):
            arguments = {"prompt": "p"} if name == "create_task" else {}
            self.assertIn("FORBIDDEN", self.call(name, arguments, key=key)["content"][0]["text"])

    def test_take_no_name_of_anybody_else(self):
        own, other = (self.ask("POST", "/tasks", {"title": "t", "prompt": "p"})["id"] for _ in range(2))
        run, key = self.held(task_id=own)
        action = {"connector": "mail", "operation": "send", "target": "a@b.c"}
        for name, arguments, wrong in (("propose_action", {**action, "lease_id": f"{run}:other"}, "lease_id"),
                                       ("propose_action", {**action, "token": "1"}, "token"),
                                       ("ask_human", {"question": "?", "lease_id": f"{run}:other"}, "lease_id"),
                                       ("create_subtask", {"prompt": "p", "parent_task_id": other}, "parent_task_id")):
            got = self.call(name, arguments, key=key)
            self.assertTrue(got["isError"], arguments)
            self.assertIn(wrong, got["content"][0]["text"])
        self.assertFalse(self.call("propose_action", {**action, "lease_id": f"{run}:work"}, key=key)["isError"])
        self.assertFalse(self.call("create_subtask", {"prompt": "p", "parent_task_id": own}, key=key)["isError"])
        self.assertEqual(self.ask("GET", "/tasks/" + other)["subtasks"], [])

    def test_record_only_what_the_agent_proposed_itself(self):
        run, key = self.held()
        events = [e["event"] if "event" in e else e for e in self.ask("GET", f"/runs/{run}/events")["items"]]
        of_tool = next(e for e in events if e["type"] == "receipt.intended")["receipt"]
        forged = {"succeeded": True, "undo": {"connector": "shell", "operation": "run", "target": "/",
                                              "fields": {"command": ["sh", "-c", "id"], "sandbox": False}}}
        refused = self.refused("POST", f"/leases/{run}:work/actions/{of_tool}/outcome", forged, key=key)
        self.assertEqual(refused.status, 404)
        for worker in (self.ask("POST", "/keys", {"role": "worker"})["key"], None):
            # Not through a lease's key: nobody outside can report on a lease of the server's own.
            for token in ("1", "2"):
                item = {"lease_id": f"{run}:work", "token": token}
                for verb in ("complete", "fail", "release", "heartbeat"):
                    said = self.ask("POST", f"/leases/{verb}", {"items": [item]}, key=worker)["items"][0]
                    self.assertEqual((said["ok"], said["code"]), (False, "LEASE_LOST"))
                refused = self.refused("POST", f"/leases/{run}:work/actions/{of_tool}/outcome",
                                       {"token": token, **forged}, key=worker)
                self.assertEqual(refused.body["code"], "LEASE_LOST")
        self.assertEqual(self.ask("GET", f"/receipts/{of_tool}")["status"], "intended")
        # Of its own: recorded with its name, and what it says about undoing is for people.
        action = {"connector": "desk", "operation": "close", "target": "desk/1", "idempotency_key": f"{run}:desk"}
        decision = self.ask("POST", f"/leases/{run}:work/actions", action, key=key)
        self.ask("POST", f"/leases/{run}:work/actions/{decision['receipt_id']}/outcome", forged, key=key)
        receipt = self.ask("GET", f"/receipts/{decision['receipt_id']}")
        agent = f"lease:{run}:work"
        self.assertEqual((receipt["proposed_by"], receipt["resolved_by"]), (agent, agent))
        self.assertEqual((receipt["undo_source"], receipt["reversible"]), ("agent", False))
        refused = self.refused("POST", f"/receipts/{decision['receipt_id']}/reverse", {})
        self.assertEqual((refused.status, refused.body["code"]), (409, "NOT_REVERSIBLE"))

    def test_an_agent_delegates_beneath_its_own_task_and_waits_for_it(self):
        script = ("import json,os,sys,urllib.request as u\n"
                  "prompt=sys.stdin.read()\n"
                  "def post(url,body,key=os.environ['PAWL_LEASE_KEY']):\n"
                  "  q=u.Request(url,json.dumps(body).encode(),{'Authorization':'Bearer "
                  "'+key,'Content-Type':'application/json'})\n"
                  "  try: return json.load(u.urlopen(q))\n"
                  "  except u.HTTPError as e: return e.code\n"
                  "mcp=os.environ['PAWL_MCP_URL']\n"
                  "said=''\n"
                  "if prompt=='the whole':\n"
                  "  call={'jsonrpc':'2.0','id':1,'method':'tools/call',"
                  "'params':{'name':'create_subtask','arguments':{'prompt':'a part'}}}\n"
                  "  said=post(mcp,call)['result']['isError']\n"
                  "  escape={'title':'e','prompt':'p','parent_task_id':os.environ['PAWL_TASK_ID'],"
                  "'agent':'command','command':['true']}\n"
                  "  said=[said,post(mcp[:-3]+'tasks',escape)]\n"
                  "print(json.dumps({'type':'result','result':'done','output':{'said':said}}))\n")
        task = self.ask("POST", "/tasks",
                        {"title": "t", "agent": "command", "prompt": "the whole", "folder": str(self.work),
                                           "command": ["python3", "-c", script], "run": True})["id"]
        self.until(lambda: self.ask("GET", "/tasks/" + task)["state"] == "READY")
        done = self.ask("GET", "/tasks/" + task)
        run = self.ask("GET", "/runs/" + done["run_id"])
        self.assertEqual(run["steps"][0]["output"]["output"], {"said": [False, 400]},
                         "it cannot choose a program for its part")
        (part,) = done["subtasks"]
        part = self.ask("GET", "/tasks/" + part)
        self.assertEqual((part["state"], part["prompt"], part["agent"]), ("COMPLETED", "a part", "command"))
        self.assertEqual(part["settings"], done["settings"])

    def test_an_effect_whose_outcome_an_agent_never_tells_is_in_doubt(self):
        script = ("import json,os,urllib.request as u\n"
                  "body={'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':'propose_action','arguments':"
                  "{'connector':'mail','operation':'send','target':'x'}}}\n"
                  "q=u.Request(os.environ['PAWL_MCP_URL'],json.dumps(body).encode(),{'Authorization':'Bearer "
                  "'+os.environ['PAWL_LEASE_KEY']})\n"
                  "u.urlopen(q).read()\n"
                  "print(json.dumps({'type':'result','result':'done'}))\n")
        run = self.begin("x", tool="agent.command", command=["python3", "-c", script],
                         step={"retry": {"max_attempts": 1}})
        done = self.ended(run)
        self.assertEqual((done["status"], done["error_code"]), ("failed", "EFFECT_UNKNOWN"))


class OfficialClients(McpCase):
    def clients(self, *command, stdin="", **environment):
        done = subprocess.run([str(HERE / "mcp-clients"), *command], input=stdin, capture_output=True, text=True,
                              timeout=600, env={**os.environ, **environment})
        if done.returncode == 77:
            self.skipTest("npm cannot be reached: " + done.stderr.strip()[-200:])
        return done

    def check(self, line, era, transport, **environment):
        run, lease = self.lease()
        calls = [["propose_action", {"connector": "mail", "operation": "send", "target": "t", **lease}],
                 ["get_status", {"run_id": run}], ["no_such", {}]]
        done = self.clients("node", "mcp_client.mjs", line, era, transport, stdin=json.dumps(calls), KEY=self.key,
                            **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        got = json.loads(done.stdout)
        self.assertEqual([tool["name"] for tool in got["tools"]], NAMES)
        self.assertEqual(got["results"][0]["structuredContent"]["decision"], "allow")
        self.assertEqual(got["results"][1]["structuredContent"]["status"], "running")
        self.assertEqual(got["results"][2]["error"]["code"], -32602, got["results"][2])

    def stdio(self):
        return json.dumps([PAWL, "mcp", "--data", str(self.data)])

    def test_v1_over_http(self):
        self.check("v1", "legacy", self.url + "/mcp")

    def test_v1_over_stdio(self):
        self.check("v1", "legacy", self.stdio())

    def test_v2_over_http_in_both_eras(self):
        self.check("v2", "legacy", self.url + "/mcp")
        self.check("v2", "modern", self.url + "/mcp")

    def test_v2_over_stdio_in_both_eras(self):
        self.check("v2", "legacy", self.stdio())
        self.check("v2", "modern", self.stdio())

    def test_the_inspector_over_both_transports(self):
        run, _ = self.lease()
        # This version of it knows no headers: a proxy adds the key.
        proxy = KeyProxy(self.url, self.key)
        self.addCleanup(proxy.stop)
        ways = ([proxy.url + "/mcp", "--transport", "http"], ["-e", f"PAWL_DATA={self.data}", PAWL, "mcp"])
        for way in ways:
            inspector = ["node_modules/.bin/mcp-inspector", "--cli", *way]
            listed = self.clients(*inspector, "--method", "tools/list")
            self.assertEqual(listed.returncode, 0, listed.stderr)
            self.assertEqual([tool["name"] for tool in json.loads(listed.stdout)["tools"]], NAMES)
            called = self.clients(*inspector, "--method", "tools/call", "--tool-name", "get_status", "--tool-arg",
                                  "run_id=" + run)
            self.assertEqual(called.returncode, 0, called.stderr)
            self.assertEqual(json.loads(called.stdout)["structuredContent"]["status"], "running")


class TooLong(McpCase):
    """A message that is longer than the transport takes is answered all the same."""

    def too_long(self, **more):
        arguments = {"connector": "c", "operation": "o", "target": "t", "fields": {"id": 7, "x": "x" * (2 << 20)}}
        return json.dumps({"method": "tools/call", "params": {"name": "propose_action", "arguments": arguments},
                           "jsonrpc": "2.0", **more})

    def test_over_the_socket_of_an_agent(self):
        there = self.work / "there"
        self.begin(f"stay {there}")
        self.until(there.exists)
        self.until(lambda: list(self.data.rglob("mcp.sock")))
        socket, = self.data.rglob("mcp.sock")
        ping = json.dumps({"jsonrpc": "2.0", "id": "after", "method": "ping"})
        lines = [self.too_long(id=17), self.too_long(id="a\"b"), self.too_long(), "x" * (2 << 20), ping]
        done = self.pawl("mcp", "--socket", str(socket), input="\n".join(lines) + "\n")
        got = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([answer["id"] for answer in got], [17, 'a"b', None, None, "after"])
        for answer in got[:-1]:
            self.assertEqual(answer["error"]["code"], -32600)
            self.assertIn("longer than 1048576 bytes", answer["error"]["message"])
        self.assertIn("result", got[-1])

    def test_over_stdio(self):
        _, lease = self.lease()
        lines = [self.too_long(id=17), json.dumps({"jsonrpc": "2.0", "id": 18, "method": "ping"}),
                 json.dumps({"jsonrpc": "2.0", "id": 19, "method": "ping", "params": {"x": "x" * (9 << 20)}}),
                 json.dumps({"jsonrpc": "2.0", "id": 20, "method": "ping"})]
        done = self.pawl("mcp", input="\n".join(lines) + "\n")
        got = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([answer["id"] for answer in got], [17, 18, 19, 20])
        self.assertTrue(got[0]["result"]["isError"])
        self.assertIn("error", got[2])


class Stdio(McpCase):
    def test_is_the_same_server_line_by_line(self):
        lines = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}},
                 {"jsonrpc": "2.0", "method": "notifications/initialized"},
                 {"jsonrpc": "2.0", "id": "two", "method": "tools/list"},
                 {"jsonrpc": "2.0", "id": 3, "method": "server/discover", "params": {"_meta": META}}]
        done = self.pawl("mcp", input="\n".join(map(json.dumps, lines)) + "\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        got = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([answer["id"] for answer in got], [0, "two", 3])
        self.assertEqual(got[2]["result"]["resultType"], "complete")

    def test_a_server_that_goes_away_is_an_error_and_no_end(self):
        bridge = subprocess.Popen([PAWL, "mcp", "--data", str(self.data)], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(bridge.stdout.close)
        self.addCleanup(bridge.wait)
        self.addCleanup(bridge.kill)
        def say(number):
            bridge.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}) + "\n")
            bridge.stdin.flush()
            return json.loads(bridge.stdout.readline())
        self.assertIn("result", say(1))
        self.stop()
        self.assertEqual(say(2)["error"]["code"], -32000)
        bridge.stdin.close()
        self.assertEqual(bridge.wait(TIMEOUT_S), 0)


if __name__ == "__main__":
    unittest.main()
