"""Small servers that speak as ServiceNow, Slack, GitHub and the model APIs do, as far as the connectors use them. Each
has moods: what the next requests that match are answered with instead."""
import base64
import http.server
import json
import pathlib
import re
import sys
import threading
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from waiting import HANG_S  # noqa: E402


class Mood:
    """Answers the next `times` requests of this method. `status`: with that; `effect`: after having done it; `hang`:
    never."""

    def __init__(self, method, status=500, body=None, headers=None, times=1, effect=False, hang=False, path=""):
        self.__dict__.update(locals())


class Fake:
    """The state and what it was asked. Subclasses answer: route(method, path, query, headers, body) -> (status, body[,
    headers])."""

    def __init__(self, case):
        fake = self
        self.asked = []
        self.moods = []
        self.lock = threading.Lock()
        self.closing = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                url = urllib.parse.urlsplit(self.path)
                query = dict(urllib.parse.parse_qsl(url.query))
                body = json.loads(raw) if raw else None
                result = fake.handle(self.command, url.path, query, self.headers, body)
                if result is None:
                    fake.closing.wait(HANG_S)
                    return
                status, content, *more = result
                text = b"" if content is None else content.encode() if isinstance(content,
                                                                                  str) else json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                for name, value in (more[0] if more else {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        case.addCleanup(self.server.server_close)
        case.addCleanup(self.server.shutdown)
        case.addCleanup(self.closing.set)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def mood(self, *args, **more):
        self.moods.append(Mood(*args, **more))

    def handle(self, method, path, query, headers, body):
        with self.lock:
            self.asked.append((method, path, query, dict(headers), body))
            for mood in self.moods:
                if mood.method == method and mood.path in path and mood.times > 0:
                    mood.times -= 1
                    if mood.effect:
                        self.route(method, path, query, headers, body)
                    if mood.hang:
                        return None
                    return mood.status, mood.body if mood.body is not None else {}, mood.headers or {}
            return self.route(method, path, query, headers, body)

    def calls(self, method, path=""):
        return [asked for asked in self.asked if asked[0] == method and path in asked[1]]


class ServiceNow(Fake):
    """The Table API on incidents. References are {link, value} unless their links are excluded; notes read as
    nothing."""
    USER, PASSWORD = "integration", "pässword:1"

    def __init__(self, case):
        super().__init__(case)
        self.incident = {"sys_id": "8a50", "number": "INC0010023", "assignment_group": "desk", "priority": "3",
                         "short_description": "printer", "sys_mod_count": "6"}
        self.references = {"assignment_group"}
        self.overruled = {}  # what a business rule sets a field to
        self.journal = []

    def route(self, method, path, query, headers, body):
        expected = "Basic " + base64.b64encode(f"{self.USER}:{self.PASSWORD}".encode()).decode()
        if headers.get("Authorization") != expected and headers.get("x-sn-apikey") != "key":
            return 401, {"error": {"message": "User Not Authenticated", "detail": "Required"}, "status": "failure"}
        if path == "/api/now/table/sys_journal_field":
            wanted = dict(re.match(r"(\w+?)(?:=|LIKE)(.*)", part).groups()
                          for part in query["sysparm_query"].split("^"))
            found = [{"sys_id": str(n)} for n, entry in enumerate(self.journal)
                     if entry["element"] == wanted["element"] and wanted["value"] in entry["value"]
                     and wanted["element_id"] == self.incident["sys_id"]]
            return 200, {"result": found[:1]}
        if path != "/api/now/table/incident/" + self.incident["sys_id"]:
            return 404, {"error": {"message": "No Record found", "detail": "Record doesn't exist"}, "status": "failure"}
        if method == "PATCH":
            for name, value in body.items():
                assert isinstance(value, str), "values are strings"
                if name in ("work_notes", "comments"):
                    self.journal.append({"element": name, "value": value})
                elif name in self.incident:
                    self.incident[name] = self.overruled.get(name, value)
            self.incident["sys_mod_count"] = str(int(self.incident["sys_mod_count"]) + 1)
        record = {}
        for name in query["sysparm_fields"].split(","):
            if name in ("work_notes", "comments"):
                record[name] = ""
            elif name in self.incident:
                value = self.incident[name]
                linked = name in self.references and query.get("sysparm_exclude_reference_link") != "true"
                record[name] = {"link": self.url, "value": value} if linked else value
        return 200, {"result": record}


class Slack(Fake):
    TOKEN = "xoxb-canary-token"

    def __init__(self, case):
        super().__init__(case)
        self.messages = []

    def route(self, method, path, query, headers, body):
        if headers.get("Authorization") != "Bearer " + self.TOKEN:
            return 200, {"ok": False, "error": "invalid_auth"}
        if path == "/chat.postMessage" and method == "POST":
            if body["channel"] != "C123":
                return 200, {"ok": False, "error": "channel_not_found"}
            ts = f"1731715200.{len(self.messages):06}"
            self.messages.append(dict(body, ts=ts))
            return 200, {"ok": True, "channel": body["channel"], "ts": ts, "message": {"text": body["text"]}}
        if path in ("/conversations.history", "/conversations.replies"):
            assert query["include_all_metadata"] == "true"
            begin = int(query.get("cursor") or 0)
            page = list(reversed(self.messages))[begin:begin + int(query["limit"])]
            more = begin + len(page) < len(self.messages)
            return 200, {"ok": True, "messages": page,
                         "response_metadata": {"next_cursor": str(begin + len(page)) if more else ""}}
        return 404, {"ok": False, "error": "unknown_method"}


class GitHub(Fake):
    TOKEN = "ghp_canary_token"

    def __init__(self, case):
        super().__init__(case)
        self.labels = ["bug", "Old Label"]
        self.assignees = ["octocat"]
        self.without_access = {"stranger"}

    def issue(self):
        return {"number": 7, "labels": [{"name": name} for name in self.labels],
                "assignees": [{"login": name} for name in self.assignees]}

    def route(self, method, path, query, headers, body):
        if headers.get("Authorization") != "Bearer " + self.TOKEN:
            return 401, {"message": "Bad credentials", "status": "401"}
        if not headers.get("User-Agent"):
            return 403, {"message": "Request forbidden by administrative rules"}
        root = "/repos/acme/shop/issues/7"
        lower = [name.lower() for name in self.labels]
        if path == root and method == "GET":
            return 200, self.issue()
        if path == root + "/labels" and method == "POST":
            self.labels += [name for name in body["labels"] if name.lower() not in lower]
            return 200, self.issue()["labels"]
        if path == root + "/labels" and method == "PUT":
            self.labels = list(body["labels"])
            return 200, self.issue()["labels"]
        if path.startswith(root + "/labels/") and method == "DELETE":
            name = urllib.parse.unquote(path[len(root + "/labels/"):]).lower()
            if name not in lower:
                return 404, {"message": "Label does not exist"}
            self.labels = [each for each in self.labels if each.lower() != name]
            return 200, self.issue()["labels"]
        if path == root + "/assignees" and method == "POST":
            self.assignees += [name for name in body["assignees"]
                               if name not in self.assignees and name not in self.without_access]
            return 201, self.issue()
        if path == root + "/assignees" and method == "DELETE":
            self.assignees = [name for name in self.assignees if name not in body["assignees"]]
            return 200, self.issue()
        return 404, {"message": "Not Found"}


class Model(Fake):
    """Both dialects."""
    KEY = "sk-canary-model-key"

    def __init__(self, case):
        super().__init__(case)
        self.with_usage = True

    def route(self, method, path, query, headers, body):
        if path == "/v1/messages":
            if headers.get("x-api-key") != self.KEY or headers.get("anthropic-version") != "2023-06-01":
                return 401, {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}
            return 200, {"id": "msg_01", "type": "message", "role": "assistant", "model": body["model"],
                         "content": [{"type": "text", "text": "Hello "}, {"type": "text", "text": "there"},
                                     {"type": "tool_use", "id": "toolu_1", "name": "propose", "input": {"a": 1}}],
                         "stop_reason": "tool_use", "stop_sequence": None,
                         "usage": {"input_tokens": 1000, "output_tokens": 500, "cache_creation_input_tokens": 300,
                                   "cache_read_input_tokens": 2000,
                                   "cache_creation": {"ephemeral_5m_input_tokens": 100,
                                                      "ephemeral_1h_input_tokens": 200},
                                   "service_tier": "standard"}}, {"request-id": "req_1"}
        if path == "/v1/chat/completions":
            if headers.get("Authorization") != "Bearer " + self.KEY:
                return 401, {"error": {"message": "Incorrect API key", "type": "invalid_request_error",
                                       "code": "invalid_api_key"}}
            answer = {"id": "chatcmpl-1", "object": "chat.completion", "model": body["model"],
                      "choices": [{"index": 0, "finish_reason": "stop", "message": {
                          "role": "assistant", "content": "Hi", "tool_calls": [
                              {"id": "call_1", "type": "function",
                               "function": {"name": "f", "arguments": "{\"x\": 2}"}},
                              {"id": "call_2", "type": "function", "function": {"name": "f", "arguments": "{oops"}}]}}]}
            if self.with_usage:
                answer["usage"] = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100,
                                   "prompt_tokens_details": {"cached_tokens": 800},
                                   "completion_tokens_details": {"reasoning_tokens": 40}}
            return 200, answer, {"x-request-id": "req_2"}
        return 404, {"error": {"message": "no such path", "type": "not_found_error"}}
