"""Whatever comes in, the server answers it, lives, stays quick for everyone else, and stays small."""
import contextlib
import json
import random
import re
import socket
import struct
import threading
import time
import unittest

from api_case import DEEP, GATED, REMOTE, SLACK, TIMEOUT_S, ApiCase, until

# Processor time of the server between a request for its health and the answer. It tells a server that does something
# else first from a machine that does.
ANSWER_CPU_S_MAX = 1 * SLACK
RSS_MIB_MAX = 300 * SLACK

# Where a JSON body goes. {run} is a run that waits, {approval} its approval, {key} somebody's key.
JSON_ROUTES = ["POST /runs", "POST /runs/batch", "POST /runs/{run}/approve", "POST /runs/{run}/reject",
               "POST /runs/{run}/answer", "POST /runs/{run}/cancel", "POST /runs/{run}/retry",
               "POST /runs/{run}/status",
               "POST /approvals/{approval}/approve", "POST /approvals/{approval}/reject", "POST /leases",
               "POST /leases/complete", "POST /leases/fail", "POST /leases/heartbeat", "PUT /tenant/caps",
               "PATCH /tenant/caps",
               "PUT /workspaces/lab", "POST /tenants", "POST /keys", "POST /keys/{key}/rotate"]

OTHER_ROUTES = ["GET /runs", "GET /runs/{run}", "GET /runs/{run}/events", "GET /approvals", "GET /workflows",
                "GET /workflows/gated", "GET /tenant", "GET /workspaces", "GET /tenants", "GET /keys", "GET /events",
                "PUT /workflows/gated", "DELETE /keys/{key}"]


class BadInputCase(ApiCase):
    # What a busy client sends and reads late is waited for.
    flags = ("--header-timeout", "10m", "--body-timeout", "10m", "--write-timeout", "10m")

    def setUp(self):
        super().setUp()
        self.watching = threading.Event()
        self.rounds = 0
        self.slowest_cpu_s = 0
        self.largest_mib = 0
        self.failure = None
        self.watch = threading.Thread(target=self.keep_watch)
        self.watch.start()
        self.addCleanup(self.end_watch)

    def keep_watch(self):
        """Asks for the server's health as long as the test lasts, on a fresh connection each time."""
        while not self.watching.wait(0.02):
            begin = self.server.cpu_seconds()
            try:
                with contextlib.closing(self.server.connect()) as sock:
                    sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    answer = sock.recv(4096)
                    self.slowest_cpu_s = max(self.slowest_cpu_s, self.server.cpu_seconds() - begin)
                self.largest_mib = max(self.largest_mib, self.server.rss_mib())
            except OSError as error:
                answer = repr(error).encode()
            if not answer.startswith(b"HTTP/1.1 200"):
                self.failure = self.failure or answer
            self.rounds += 1

    def until_watched(self):
        """Until the watch has asked once more from its beginning."""
        before = self.rounds
        until(lambda: self.rounds, lambda rounds: rounds >= before + 2, "the watch sees it")

    def end_watch(self):
        self.watching.set()
        self.watch.join()

    def tearDown(self):
        self.end_watch()
        super().tearDown()
        self.assertTrue(self.server.is_alive(), f"the server ended with {self.server.process.returncode}")
        self.assertIsNone(self.failure, "while this was going on, /healthz did not answer")
        self.assertLess(self.slowest_cpu_s, ANSWER_CPU_S_MAX)
        self.assertLess(self.largest_mib, RSS_MIB_MAX)

    def things(self):
        run = self.run_status(self.start(GATED)["id"], "waiting")
        key = self.ok(self.admin.post("/keys", {"role": "viewer"}), 201).json["id"]
        return {"run": run["id"], "approval": run["approvals"][0]["id"], "key": key}

    def unharmed(self, things):
        self.assertEqual(self.get_run(things["run"])["status"], "waiting")

    def head(self, line, *headers):
        lines = [line, "Host: localhost", "Authorization: Bearer " + self.admin.key, *headers]
        return b"\r\n".join(part if isinstance(part, bytes) else part.encode() for part in lines) + b"\r\n\r\n"

    def exchange(self, data, timeout=TIMEOUT_S):
        """Sends the bytes and reads until the other side ends; gives all that came."""
        with contextlib.closing(self.server.connect(timeout)) as sock:
            with contextlib.suppress(ConnectionError):
                sock.sendall(data)
            received = b""
            with contextlib.suppress(ConnectionError, TimeoutError):
                while more := sock.recv(1 << 16):
                    received += more
            return received

    def status_of(self, received):
        self.assertTrue(received.startswith(b"HTTP/1.1 "), received[:200])
        return int(received.split()[1])


class Bodies(BadInputCase):
    def test_what_is_not_json_is_refused_with_its_place(self):
        things = self.things()
        for route in JSON_ROUTES:
            method, path = route.format(**things).split()
            for body in (b"{", b"}", b'{"a":}', b"{'a':1}", b"{a:1}", b'{"a":1,}', b"nope", b"\xef\xbb\xbf{}", b"{}{}",
                         b'{"a":1,"a":2}', b'"\n"', b"\x00", b"[1", b"{}x", b'{"a":01}', b'{"a":+1}', b'{"a":.5}',
                         b" "):
                with self.subTest(route=route, body=body):
                    answer = self.refused(self.admin.request(method, path, body), 400, "INVALID_JSON")
                    self.assertRegex(answer.json["detail"], r"offset \d+|incomplete")
        self.unharmed(things)

    def test_what_is_not_an_object_is_refused(self):
        things = self.things()
        for route in JSON_ROUTES:
            method, path = route.format(**things).split()
            for body in (b"[]", b"7", b'"x"', b"null", b"true", b"[{}]"):
                with self.subTest(route=route, body=body):
                    self.refused(self.admin.request(method, path, body), 400, "INVALID_REQUEST")
        self.unharmed(things)

    def test_unknown_keys_are_refused_with_their_place(self):
        things = self.things()
        for route in JSON_ROUTES:
            method, path = route.format(**things).split()
            with self.subTest(route=route):
                answer = self.refused(self.admin.request(method, path, {"unheard_of": 1}), 400, "INVALID_REQUEST")
                self.assertEqual(answer.json["where"], "/unheard_of")
        self.unharmed(things)

    def test_unknown_parameters_are_refused(self):
        things = self.things()
        for route in JSON_ROUTES + OTHER_ROUTES:
            method, path = route.format(**things).split()
            with self.subTest(route=route):
                answer = self.refused(self.admin.request(method, path + "?unheard_of=1"), 400, "INVALID_REQUEST")
                self.assertEqual(answer.json["where"], "unheard_of")
        self.unharmed(things)

    def test_a_hundred_thousand_brackets_are_refused(self):
        things = self.things()
        for route in ("POST /runs", "POST /runs/batch", "POST /leases", "POST /leases/complete", "POST /keys",
                      "POST /runs/{run}/answer"):
            method, path = route.format(**things).split()
            for body in ("[" * 100_000, '{"a":' * 100_000, '{"input":' + "[" * 50_000 + "]" * 50_000 + "}"):
                with self.subTest(route=route, body=body[:12]):
                    self.refused(self.admin.request(method, path, body), 400, "INVALID_JSON")
        for body in ("[" * 100_000, "{a: " * 50_000, "- " * 100_000, "? " * 100_000, "&a " * 100_000, "!" * 100_000):
            with self.subTest(yaml=body[:4]):
                self.refused(self.admin.put("/workflows/deep", body), 422, "INVALID_WORKFLOW")
        self.unharmed(things)

    def test_a_definition_that_multiplies_itself_is_refused(self):
        bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n"
        bomb += "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9))
        self.refused(self.admin.put("/workflows/bomb", bomb), 422, "INVALID_WORKFLOW")
        self.refused(self.admin.put("/workflows/bomb", "x" * 2_000_000), 422, "INVALID_WORKFLOW")
        steps = ", ".join(f"{{id: s{n}, tool: noop}}" for n in range(1001))
        self.refused(self.admin.put("/workflows/bomb", f"{{workflow: bomb, steps: [{steps}]}}"), 422,
                     "INVALID_WORKFLOW")

    def test_values_of_the_wrong_kind_are_refused_with_their_place(self):
        things = self.things()
        cases = [("POST /runs", "workflow"), ("POST /runs", "workspace"), ("POST /runs", "timeout"),
                 ("POST /runs", "budget_usd"), ("POST /runs", "trigger_type"), ("POST /runs", "trigger_ref"),
                 ("POST /runs", "provider"), ("POST /runs/batch", "items"), ("POST /runs/{run}/approve", "reason"),
                 ("POST /runs/{run}/approve", "approval_id"), ("POST /runs/{run}/cancel", "reason"),
                 ("POST /runs/{run}/answer", "step"), ("POST /runs/{run}/status", "status"), ("POST /leases", "worker"),
                 ("POST /leases/complete", "items"), ("POST /leases/fail", "items"),
                 ("POST /leases/heartbeat", "items"),
                 ("POST /tenants", "name"), ("POST /keys", "role"), ("POST /keys/{key}/rotate", "overlap")]
        rest = {"workflow": "gated"}
        for route, key in cases:
            method, path = route.format(**things).split()
            for value in (7, -1, 1.5, True, [], {}, [7], {"a": 1}):
                with self.subTest(route=route, key=key, value=value):
                    if key == "items" and value in ([], [7]):
                        continue  # nothing to do; or wrong in one item, which harms no other
                    body = {**(rest if path == "/runs" else {}), key: value}
                    answer = self.refused(self.admin.request(method, path, body), 400, "INVALID_REQUEST")
                    self.assertTrue(answer.json["where"].startswith("/" + key), answer)
        for key in ("weight", "max_concurrency", "max_runs_per_min", "max_writes_per_run"):
            for value in ("7", 0, -1, 1.5, True, [], {}, 2**63, 2**64, 1e300):
                if (key, value) == ("max_writes_per_run", 0):
                    continue  # who may write nothing can still look
                with self.subTest(key=key, value=value):
                    self.refused(self.admin.put("/tenant/caps", {key: value}), 400, "INVALID_REQUEST")
        self.unharmed(things)
        self.assertEqual(self.ok(self.admin.get("/tenant")).json["caps"]["max_concurrency"], None)

    def test_texts_that_are_too_long_are_refused(self):
        things = self.things()
        run = things["run"]
        for path, body in ((f"/runs/{run}/approve", {"reason": "x" * 2001}),
                           (f"/runs/{run}/cancel", {"reason": "x" * 2001}),
                           ("/runs", {"workflow": "x" * 65}), ("/runs", {"workflow": "gated", "workspace": "x" * 65}),
                           ("/runs", {"workflow": "gated", "trigger_type": "x" * 65}),
                           ("/runs", {"workflow": "gated", "trigger_ref": "x" * 513}),
                           ("/leases", {"worker": "x" * 65, "tools": ["a"]}), ("/tenants", {"name": "x" * 65}),
                           ("/keys", {"role": "viewer", "name": "x" * 65}), ("/runs", {"workflow": "x" * 1_000_000})):
            with self.subTest(path=path, body=str(body)[:60]):
                self.refused(self.admin.post(path, body), 400, "INVALID_REQUEST")
        for more in ({"message": "x" * 2001}, {"error_code": "x" * 81}):
            result, = self.ok(self.admin.post("/leases/fail",
                                              {"items": [{"lease_id": "x", "token": "x", **more}]})).json["items"]
            self.assertEqual((result["code"], result["where"]), ("INVALID_REQUEST", "/items/0/" + next(iter(more))))
        self.unharmed(things)

    def test_numbers_at_and_over_the_edge(self):
        self.publish(REMOTE)
        for text, value in (("9007199254740993", 9007199254740993), ("-9223372036854775808", -2**63),
                            ("1e308", 1e308), ("5e-324", 5e-324), ("0.1", 0.1), ("1E+2", 100), ("-0.0", 0)):
            with self.subTest(text=text):
                run = self.ok(self.admin.post("/runs", '{"workflow":"remote","input":%s}' % text), 201).json
                self.assertEqual(run["input"], value)
        for text in ("1e309", "-1e309", "1" * 400, "NaN", "Infinity", "0x10", "1e", "1e99999999999"):
            with self.subTest(text=text[:20]):
                self.refused(self.admin.post("/runs", '{"workflow":"remote","input":%s}' % text), 400, "INVALID_JSON")
        for version in ("0", "-1", "2147483648", "9223372036854775808", "1.5", "1e3"):
            with self.subTest(version=version):
                answer = self.admin.post("/runs", '{"workflow":"remote","version":%s}' % version)
                self.refused(answer, 400, "INVALID_REQUEST")
        for query in ("limit=18446744073709551616", "limit=1e3", "limit=+1", "limit= 1", "limit=-1", "limit="):
            with self.subTest(query=query):
                self.refused(self.admin.get("/runs?" + query.replace(" ", "%20")), 400, "INVALID_REQUEST")
        for duration in ("99999999999999999999h", "9223372036854775807ms", "-1s", "1", "1y", "s", "1.5s", "", "0s",
                         "0h0ms"):
            with self.subTest(duration=duration):
                answer = self.admin.post("/runs", {"workflow": "remote", "timeout": duration})
                self.assertEqual(self.refused(answer, 400, "INVALID_REQUEST").json["where"], "/timeout")
        for money in ("1000000000.000001", "1e3", "0.0000001", "-1", ".5", "1.", "", "9" * 100):
            with self.subTest(money=money):
                self.refused(self.admin.post("/runs", {"workflow": "remote", "budget_usd": money}), 400,
                             "INVALID_REQUEST")

    def test_costs_at_the_edge_add_up_without_going_round(self):
        run = self.start("""
workflow: rich
retry: {max_attempts: 20, base: 0s, jitter: 0}
steps:
  - {id: a, tool: test.work}
""")["id"]
        for _ in range(12):
            self.report("fail", self.lease_one(), retryable=True, cost_usd="1000000000")
        self.assertEqual(self.get_run(run)["cost_usd"], "12000000000.00")


class Text(BadInputCase):
    def test_bytes_that_are_not_utf_8_are_refused_in_a_body(self):
        self.publish(REMOTE)
        for bad in (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"\x80"):
            with self.subTest(bad=bad):
                answer = self.admin.post("/runs", b'{"workflow":"remote","input":"' + bad + b'"}')
                self.refused(answer, 400, "INVALID_JSON")
                source = b"workflow: x\ndescription: '" + bad + b"'\nsteps:\n  - {id: a, tool: noop}\n"
                answer = self.refused(self.admin.put("/workflows/x", source), 422, "INVALID_WORKFLOW")
                self.assertIn("x:2:", answer.json["detail"])
        for bad in ('"\\ud800"', '"\\udc00\\ud800"', '"\\ud83d"'):
            self.refused(self.admin.post("/runs", '{"workflow":"remote","input":%s}' % bad), 400, "INVALID_JSON")

    def test_every_character_there_is_comes_back_as_it_went_in(self):
        text = "".join(map(chr, range(0x20))) + '"\\/\x7f\x80ü€\u2028\u2029\ufeff\uffff😀\U0010ffff'
        run = self.start(REMOTE, input={text: text}, trigger_ref=text)
        self.assertEqual((run["input"], run["trigger_ref"]), ({text: text}, text))
        self.complete(self.lease_one(), output=text)
        self.end_watch()
        self.restart(kill=True)
        seen = self.get_run(run["id"], at=2)
        self.assertEqual((seen["input"], seen["trigger_ref"]), ({text: text}, text))
        self.assertEqual(self.step(run["id"], "only")["output"], text)

    def test_bytes_that_are_not_utf_8_are_refused_in_a_path(self):
        for path in (b"/runs/\xff", b"/runs/%ff", b"/runs/%00", b"/runs/%", b"/runs/%f", b"/runs/%zz",
                     b"/workflows/%ff%fe",
                     b"/approvals/%c0%af/approve", b"/\xff\xfe", b"/%2e%2e/runs", b"/runs/../keys", b"//runs",
                     b"/runs//"):
            for method in (b"GET", b"POST", b"PUT", b"DELETE"):
                with self.subTest(method=method, path=path):
                    received = self.exchange(self.head(method + b" " + path + b" HTTP/1.1", "Connection: close"))
                    self.assertIn(self.status_of(received), (400, 404, 405))
                    self.readable(received)

    def test_a_workspace_has_a_name_that_can_be_read(self):
        for name in ("%ff", "%00", "a%20b", "%2e", "x" * 65, "%c3%bc"):
            self.refused(self.admin.put(f"/workspaces/{name}", {}), 400, "INVALID_REQUEST")
        self.assertEqual(self.ok(self.admin.get("/workspaces")).json["items"], [])

    def readable(self, received):
        body = received.split(b"\r\n\r\n", 1)[1]
        return json.loads(body.decode()) if body else None

    def test_a_query_of_any_bytes_gets_an_answer(self):
        for query in (b"status=%ff", b"workflow=%ff", b"q=%ff%00", b"cursor=%ff", b"since=%ff", b"%", b"a=%", b"=",
                      b"&&&",
                      b"q=" + b"x" * 10_000, b"q=a&q=b", b"vocabulary=%ff", b"limit=%31"):
            with self.subTest(query=query[:30]):
                received = self.exchange(self.head(b"GET /runs?" + query + b" HTTP/1.1", "Connection: close"))
                self.assertIn(self.status_of(received), (200, 400))
                self.readable(received)

    def test_a_parameter_whose_name_is_not_utf_8_is_refused_in_readable_words(self):
        for query in (b"%ff=1", b"%ff=1&%ff=2"):
            received = self.exchange(self.head(b"GET /runs?" + query + b" HTTP/1.1", "Connection: close"))
            self.assertEqual(self.status_of(received), 400)
            self.readable(received)


class Http(BadInputCase):
    def test_what_is_no_request_is_refused_and_the_connection_ends(self):
        ok = b"GET /healthz HTTP/1.1\r\n"
        for name, data in (("words", b"hello there\r\n\r\n"), ("no version", b"GET /healthz\r\n\r\n"),
                           ("http/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
                           ("tls", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
                           ("no host", ok + b"\r\n"), ("two hosts", ok + b"Host: localhost\r\nHost: b\r\n\r\n"),
                           ("space in a name", ok + b"Host : a\r\n\r\n"),
                           ("no colon", ok + b"Host: localhost\r\nnonsense\r\n\r\n"),
                           ("control in a header", ok + b"Host: localhost\r\nX: \x01\r\n\r\n"),
                           ("NUL in a header", ok + b"Host: localhost\r\nX: a\x00b\r\n\r\n"),
                           ("unknown method", b"FROB /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"),
                           ("a long method", b"G" * 9000 + b" / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
                           ("no path", b"GET  HTTP/1.1\r\nHost: localhost\r\n\r\n"),
                           ("relative", b"GET healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")):
            with self.subTest(name):
                status = self.status_of(self.exchange(data))
                self.assertIn(status, (400, 404, 501, 505))

    def test_bodies_whose_length_is_doubtful_are_refused(self):
        """Two readers of such a request could see two different ones."""
        for name, headers in (("negative", ["Content-Length: -1"]), ("words", ["Content-Length: many"]),
                              ("two", ["Content-Length: 2", "Content-Length: 3"]),
                              ("huge", ["Content-Length: 99999999999999999999"]),
                              ("both", ["Content-Length: 2", "Transfer-Encoding: chunked"]),
                              ("gzip", ["Transfer-Encoding: gzip"]),
                              ("chunked twice", ["Transfer-Encoding: chunked, chunked"]),
                              ("odd case", ["Transfer-Encoding: xchunked"]), ("plus", ["Content-Length: +2"])):
            with self.subTest(name):
                received = self.exchange(self.head("POST /runs HTTP/1.1", *headers) + b"{}\r\n0\r\n\r\n")
                self.assertIn(self.status_of(received), (400, 413, 501))
                self.assertEqual(len(re.findall(rb"HTTP/1\.1 \d\d\d ", received)), 1)

    def test_chunks_that_are_wrong_are_refused(self):
        head = self.head("POST /runs HTTP/1.1", "Transfer-Encoding: chunked")
        for chunks in (b"zz\r\n{}\r\n0\r\n\r\n", b"-1\r\n", b"ffffffffffffffffff\r\n", b"2\r\n{}x\r\n0\r\n\r\n",
                       b"2;" + b"x" * 100_000 + b"\r\n{}\r\n0\r\n\r\n"):
            with self.subTest(chunks=chunks[:20]):
                self.assertIn(self.status_of(self.exchange(head + chunks)), (400, 413))

    def test_headers_over_the_limit_are_refused(self):
        for headers in (["X: " + "a" * 20_000], [f"X{n}: a" for n in range(500)], ["X: " + "a" * 1_000_000]):
            with self.subTest(headers=headers[0][:20]):
                self.assertEqual(self.status_of(self.exchange(self.head("GET /tenant HTTP/1.1", *headers))), 431)
        self.assertEqual(self.status_of(self.exchange(self.head("GET /runs?q=" + "a" * 20_000 + " HTTP/1.1"))), 431)

    def test_requests_in_one_piece_are_answered_one_by_one(self):
        request = self.head("GET /tenant HTTP/1.1")
        last = self.head("GET /tenant HTTP/1.1", "Connection: close")
        received = self.exchange(request * 200 + last)
        self.assertEqual(received.count(b"HTTP/1.1 200"), 201)

    def test_a_request_that_comes_byte_by_byte_is_understood(self):
        self.publish(REMOTE)
        body = b'{"workflow":"remote"}'
        with contextlib.closing(self.server.connect()) as sock:
            for byte in self.head("POST /runs HTTP/1.1", f"Content-Length: {len(body)}") + body:
                sock.sendall(bytes([byte]))
            self.assertTrue(sock.recv(4096).startswith(b"HTTP/1.1 201"))

    def test_a_method_that_a_path_does_not_have_is_refused(self):
        for method, path, allowed in (("DELETE", "/runs", "POST, GET, HEAD, OPTIONS"),
                                      ("PATCH", "/tenant", "GET, HEAD, OPTIONS"),
                                      ("PUT", "/api/runs", "POST, GET, HEAD, OPTIONS"),
                                      ("POST", "/healthz", "GET, HEAD, OPTIONS"),
                                      ("HEAD", "/leases", "POST, OPTIONS"),
                                      ("GET", "/leases/complete/", "POST, OPTIONS")):
            answer = self.admin.request(method, path)
            self.assertEqual((answer.status, answer.headers["Allow"]), (405, allowed), (method, path))
            if method != "HEAD":
                self.refused(answer, 405, "METHOD_NOT_ALLOWED")

    def test_options_say_which_methods_there_are(self):
        for path, allowed in (("/runs", "POST, GET, HEAD, OPTIONS"),
                              ("/api/tenant/caps", "GET, HEAD, PUT, PATCH, OPTIONS"),
                              (f"/runs/{'x' * 30}", "GET, HEAD, OPTIONS")):
            answer = self.ok(self.client().request("OPTIONS", path), 204)
            self.assertEqual((answer.headers["Allow"], answer.body), (allowed, b""))
            self.assertNotIn("Access-Control-Allow-Origin", answer.headers)
        self.refused(self.client().request("OPTIONS", "/nowhere"), 404, "NOT_FOUND")
        self.assertEqual(self.status_of(self.exchange(b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: "
                                                      b"close\r\n\r\n")), 204)

    def test_a_path_may_end_with_a_slash_and_begin_with_api(self):
        run = self.start(REMOTE)["id"]
        for path in ("/runs", f"/runs/{run}", "/tenant", "/healthz", "/openapi.json", "/workflows/remote"):
            whole = self.ok(self.admin.get(path)).body
            for other in (path + "/", "/api" + path, "/api" + path + "/"):
                self.assertEqual(self.ok(self.admin.get(other)).body, whole, other)
        for path in ("/", "//", "/api", "/api/", "/api/api/runs", "/runs//", "//runs", f"/runs//{run}", "/Runs"):
            self.refused(self.admin.get(path), 404, "NOT_FOUND")

    def test_a_request_that_takes_no_body_is_given_none(self):
        things = self.things()
        for route in OTHER_ROUTES:
            method, path = route.format(**things).split()
            if method in ("GET", "DELETE"):
                self.refused(self.admin.request(method, path, b'{"limit": 1}'), 400, "INVALID_REQUEST")
        self.unharmed(things)

    def test_no_content_type_is_needed_and_none_is_in_the_way(self):
        self.publish(REMOTE)
        for kind in (None, "application/json", "application/x-www-form-urlencoded", "text/plain; charset=utf-8",
                     "nonsense"):
            self.ok(self.admin.post("/runs", b'{"workflow":"remote"}', {"Content-Type": kind} if kind else {}), 201)

    def test_lists_have_pages_of_some_size(self):
        run = self.start(REMOTE)["id"]
        for path in ("/runs", "/approvals", f"/runs/{run}/events"):
            for limit in ("0", "-1", "", "1.0", "501" if path != f"/runs/{run}/events" else "10001", "x", "９"):
                answer = self.refused(self.admin.get(path, limit=limit), 400, "INVALID_REQUEST")
                self.assertEqual(answer.json["where"], "limit")
        for cursor in ("", "x", "apr_01kaw3v9m8f2hr4x6q0t7c5ezy", run[:-1], run.upper()):
            answer = self.refused(self.admin.get("/runs", cursor=cursor), 400, "INVALID_REQUEST")
            self.assertEqual(answer.json["where"], "cursor")

    def test_lists_that_are_in_memory_have_pages_too(self):
        for i in range(4):
            self.publish(REMOTE.replace("workflow: remote", f"workflow: remote-{i}"))
            self.ok(self.admin.put(f"/workspaces/space-{i}", {"weight": 2}))
            self.ok(self.admin.post("/keys", {"role": "viewer"}), 201)
            self.ok(self.admin.post("/tenants", {"name": f"tenant-{i}"}), 201)
        for path in ("/workflows", "/workspaces", "/keys", "/tenants"):
            with self.subTest(path):
                whole = self.ok(self.admin.get(path)).json
                self.assertEqual(whole["next_cursor"], None)
                pages, cursor = [], {}
                while cursor is not None:
                    page = self.ok(self.admin.get(path, limit=2, **cursor)).json
                    self.assertLessEqual(len(page["items"]), 2)
                    pages += page["items"]
                    cursor = {"cursor": page["next_cursor"]} if page["next_cursor"] else None
                self.assertEqual(pages, whole["items"])
                self.assertGreaterEqual(len(pages), 4)
                for query, where in (({"limit": 501}, "limit"), ({"limit": 0}, "limit"), ({"cursor": ""}, "cursor"),
                                     ({"cursor": "/"}, "cursor"), ({"curser": "x"}, "curser")):
                    answer = self.refused(self.admin.get(path, **query), 400, "INVALID_REQUEST")
                    self.assertEqual(answer.json["where"], where)

    def test_events_go_on_by_cursor_or_after_and_not_by_both(self):
        run = self.start(REMOTE)["id"]
        self.ok(self.admin.post(f"/runs/{run}/cancel"))
        whole = self.ok(self.admin.get(f"/runs/{run}/events")).json["items"]
        first = self.ok(self.admin.get(f"/runs/{run}/events", limit=1)).json
        rest = self.ok(self.admin.get(f"/runs/{run}/events", cursor=first["next_cursor"])).json
        self.assertEqual(first["items"] + rest["items"], whole)
        self.refused(self.admin.get(f"/runs/{run}/events", cursor=1, after=1), 400, "INVALID_REQUEST")

    def test_a_target_with_a_host_is_understood(self):
        for target, status in ((b"http://localhost/tenant", 200), (b"http://LOCALHOST:80/api/tenant", 200),
                               (b"https://localhost/tenant?", 200), (b"http://127.0.0.1/tenant", 400),
                               (b"http://evil.example/tenant", 400)):
            received = self.exchange(self.head(b"GET " + target + b" HTTP/1.1", "Connection: close"))
            self.assertEqual(self.status_of(received), status, target)

    def test_a_name_that_is_not_this_machines_is_refused(self):
        """DNS rebinding: a page's own name leads here, and the browser thinks that it talks to the page's server."""
        for host in ("evil.example", "evil.example:7295", "127.0.0.1.evil.example", ""):
            with self.subTest(host):
                answer = self.refused(self.admin.request("GET", "/tenant", headers={"Host": host}), 421,
                                      "HOST_NOT_ALLOWED")
                self.assertIn("--host", answer.json["detail"])
        for host in ("localhost", "127.0.0.1:80", "[::1]:7295", "LocalHost:7295"):
            self.ok(self.admin.request("GET", "/tenant", headers={"Host": host}))

    def test_head_is_get_without_a_body(self):
        run = self.start(REMOTE)["id"]
        for path in (f"/runs/{run}", "/runs", "/tenant", "/healthz"):
            answer = self.ok(self.admin.request("HEAD", path))
            self.assertEqual(answer.body, b"")
            self.assertEqual(int(answer.headers["Content-Length"]), len(self.admin.get(path).body))
        self.refused(self.admin.get("/nowhere"), 404, "NOT_FOUND")

    def test_random_bytes_and_broken_requests_do_no_harm(self):
        things = self.things()
        seed = random.randrange(2**32)
        dice = random.Random(seed)
        requests = [self.head("POST /runs HTTP/1.1", "Content-Length: 20") + b'{"workflow":"gated"}',
                    self.head(f"GET /runs/{things['run']}?at=1&vocabulary=runtime HTTP/1.1"),
                    self.head("POST /leases HTTP/1.1",
                              "Transfer-Encoding: chunked") + b"5\r\n{\"a\":\r\n1\r\n}\r\n0\r\n\r\n",
                    self.head("PUT /workflows/gated HTTP/1.1", f"Content-Length: {len(GATED)}") + GATED.encode(),
                    self.head("GET /events?after=0 HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket",
                              "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + "A" * 22 + "==") + b"\x81\x80abcd"]
        with self.subTest(seed=seed):
            for _ in range(400):
                data = bytearray(dice.choice(requests) if dice.random() < 0.9 else dice.randbytes(200))
                for _ in range(dice.randrange(1, 6)):
                    at = dice.randrange(len(data))
                    how = dice.randrange(3)
                    if how == 0:
                        data[at] = dice.randrange(256)
                    elif how == 1:
                        del data[at:at + dice.randrange(1, 20)]
                    else:
                        data[at:at] = dice.randbytes(dice.randrange(1, 20))
                    if not data:
                        break
                with contextlib.closing(self.server.connect()) as sock, contextlib.suppress(OSError):
                    sock.sendall(data)
                    if dice.random() < 0.3:
                        sock.settimeout(0.02)
                        sock.recv(4096)
            self.assertIn(self.get_run(things["run"])["status"], ("waiting", "success", "denied", "canceled"))


class Masses(BadInputCase):
    def test_a_hundred_megabytes_are_refused_without_being_held(self):
        received = self.exchange(self.head("POST /runs HTTP/1.1", "Content-Length: 104857600") + b"{")
        self.assertEqual(self.status_of(received), 413)
        piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        for head, part in ((self.head("POST /runs HTTP/1.1", "Content-Length: 104857600"), b"x" * 65536),
                           (self.head("POST /runs HTTP/1.1", "Transfer-Encoding: chunked"), piece)):
            with contextlib.closing(self.server.connect()) as sock:
                received = b""
                with contextlib.suppress(ConnectionError):
                    sock.sendall(head)
                    for _ in range(1600):
                        sock.sendall(part)
                with contextlib.suppress(ConnectionError):
                    received = sock.recv(4096)
                # Who goes on sending after the refusal may find the connection gone before having read it.
                if received:
                    self.assertEqual(self.status_of(received), 413)

    def test_a_hundred_megabytes_are_refused_before_they_are_sent(self):
        head = self.head("POST /runs HTTP/1.1", "Content-Length: 104857600", "Expect: 100-continue")
        self.assertEqual(self.status_of(self.exchange(head)), 413)

    def test_bodies_that_never_end_are_held_only_so_far(self):
        """Thirty clients that each send most of a large body and then nothing."""
        socks = []
        for _ in range(30):
            sock = self.server.connect()
            self.addCleanup(sock.close)
            with contextlib.suppress(ConnectionError):  # when the tenant has its share
                sock.sendall(self.head("POST /runs HTTP/1.1", "Content-Length: 6000000") + b"{" + b" " * 5_000_000)
            socks.append(sock)
        self.publish(REMOTE)
        self.create("remote")
        self.until_watched()

    def test_large_values_are_taken_and_given_back(self):
        self.publish(REMOTE)
        big = {"text": "x" * 500_000, "list": list(range(70_000))}
        run = self.create("remote", input=big)["id"]
        self.assertEqual(self.get_run(run)["input"], big)
        lease = self.lease_one()
        self.complete(lease, output="y" * 1_000_000)
        self.assertEqual(len(self.step(run, "only")["output"]), 1_000_000)

    def test_an_input_has_a_limit(self):
        self.publish(REMOTE)
        self.ok(self.admin.post("/runs", {"workflow": "remote", "input": "x" * ((1 << 20) - 2)}), 201)
        answer = self.admin.post("/runs", {"workflow": "remote", "input": "x" * ((1 << 20) - 1)})
        self.refused(answer, 413, "INPUT_TOO_LARGE")
        self.assertEqual(answer.json["where"], "/input")
        items = [{"workflow": "remote", "input": "x" * (1 << 20)}, {"workflow": "remote"}]
        results = self.ok(self.admin.post("/runs/batch", {"items": items})).json["items"]
        self.assertEqual([(r["status"], r.get("code")) for r in results], [(413, "INPUT_TOO_LARGE"), (201, None)])
        self.assertEqual(len(self.ok(self.admin.get("/runs")).json["items"]), 2)

    def test_bodies_that_take_long_to_read_hold_up_nobody(self):
        """Eight megabytes of JSON in small pieces, from several clients at once."""
        things = self.things()
        items = b",".join([b'{"lease_id":"x","token":"x","output":{"a":[1,2,3]}}'] * 10_001)
        many = b'{"items":[' + items + b'],"more":[' + b",".join([b"[1,2]"] * 1_200_000) + b"]}"
        large = b'{"workflow":"gated","input":[' + b",".join([b'{"a":1}'] * 900_000) + b"]}"
        self.assertLess(max(len(many), len(large)), 8 << 20)
        turns = 3 if DEEP else 1

        def send(path, body):
            who = self.client(self.admin.key)
            for _ in range(turns):
                self.assertIn(who.post(path, body).status, (400, 413))

        threads = [threading.Thread(target=send, args=one)
                   for one in (("/leases/complete", many), ("/runs", large)) * 2]
        for thread in threads:
            thread.start()
        answers, asking = 0, self.client()
        while any(thread.is_alive() for thread in threads):
            self.ok(asking.get("/healthz"))
            answers += 1
        # If each waited for a body before it, there would be about one for each of the bodies.
        self.assertGreater(answers, 10 * turns * len(threads))
        self.unharmed(things)

    def test_many_idle_connections_are_no_burden(self):
        for _ in range(600):
            sock = self.server.connect()
            self.addCleanup(sock.close)
        keeping = [self.client(self.admin.key) for _ in range(100)]
        for client in keeping:
            self.ok(client.get("/tenant"))
        self.publish(REMOTE)
        begin = self.server.cpu_seconds()
        for client in keeping:
            self.ok(client.post("/runs", {"workflow": "remote"}), 201)
        self.assertLess(self.server.cpu_seconds() - begin, 2 * SLACK)


class SlowSenders(BadInputCase):
    flags = ("--header-timeout", "1s")

    def test_who_sends_a_byte_now_and_then_is_cut_off(self):
        request = self.head("GET /runs?" + "q" * 2000 + "=1 HTTP/1.1")
        socks = [self.server.connect() for _ in range(50)]
        for sock in socks:
            self.addCleanup(sock.close)
        open_socks, cut_off, sent = set(socks), 0, 0
        while open_socks:
            self.assertLess(sent, len(request), f"{len(open_socks)} are still held")
            for sock in list(open_socks):
                try:
                    sock.settimeout(TIMEOUT_S)
                    sock.sendall(request[sent:sent + 1])
                    sock.setblocking(False)
                    answer = sock.recv(4096)
                    if answer:
                        self.assertEqual(self.status_of(answer), 408)
                        cut_off += 1
                    open_socks.discard(sock)
                except BlockingIOError:
                    pass
                except ConnectionError:
                    open_socks.discard(sock)
            sent += 1
            time.sleep(0.05)  # the pace of the slow senders
        self.assertGreater(cut_off, 0)


class Connections(BadInputCase):
    def test_connections_that_are_half_open_or_cut_are_let_go(self):
        self.publish(REMOTE)
        body = b'{"workflow":"remote"}'
        whole = self.head("POST /runs HTTP/1.1", f"Content-Length: {len(body)}") + body
        for turn in range(60):
            sock = self.server.connect()
            sock.sendall(whole[:turn * len(whole) // 60])
            if turn % 3 == 0:
                sock.shutdown(socket.SHUT_WR)
                self.addCleanup(sock.close)
            else:
                if turn % 3 == 1:  # a reset instead of a goodbye
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.close()
        self.assertEqual(self.ok(self.admin.get("/runs")).json["items"], [])

    def test_who_says_all_there_is_to_say_still_gets_an_answer(self):
        with contextlib.closing(self.server.connect()) as sock:
            sock.sendall(self.head("GET /tenant HTTP/1.1"))
            sock.shutdown(socket.SHUT_WR)
            self.assertTrue(sock.recv(4096).startswith(b"HTTP/1.1 200"))

    def test_who_never_reads_the_answers_holds_up_nobody(self):
        self.publish(REMOTE)
        run = self.create("remote", input="x" * 1_000_000)["id"]
        for _ in range(20):
            sock = self.server.connect(receive_bytes=4096)
            self.addCleanup(sock.close)
            sock.sendall(self.head(f"GET /runs/{run} HTTP/1.1") * 20)
        for _ in range(20):
            self.ok(self.admin.get("/tenant"))
        self.until_watched()

    def test_polls_that_are_given_up_are_no_burden(self):
        body = b'{"worker":"w","tools":["nobody.has"],"wait":"60s"}'
        for _ in range(300):
            sock = self.server.connect()
            sock.sendall(self.head("POST /leases HTTP/1.1", f"Content-Length: {len(body)}") + body)
            sock.close()
        self.publish(REMOTE)
        self.create("remote")
        self.lease_one()


class Pages(ApiCase):
    """What a browser's page may do: those of the origins that the server was told, and no others."""

    flags = ("--origin", "https://ops.example", "--host", "pawl.example")

    def preflight(self, origin, method="POST", path="/runs"):
        headers = {"Origin": origin, "Access-Control-Request-Method": method,
                   "Access-Control-Request-Headers": "authorization, content-type, idempotency-key"}
        return self.client().request("OPTIONS", path, headers=headers)

    def test_a_page_of_an_allowed_origin_may_ask_and_read(self):
        answer = self.ok(self.preflight("https://ops.example"), 204)
        self.assertEqual(answer.headers["Access-Control-Allow-Origin"], "https://ops.example")
        self.assertIn("POST", answer.headers["Access-Control-Allow-Methods"].split(", "))
        allowed = answer.headers["Access-Control-Allow-Headers"].lower().split(", ")
        self.assertLessEqual({"authorization", "content-type", "idempotency-key", "last-event-id"}, set(allowed))
        self.publish(REMOTE)
        for answer in (self.admin.request("POST", "/runs", {"workflow": "remote"}, {"Origin": "https://ops.example"}),
                       self.admin.request("GET", "/nowhere", headers={"Origin": "https://ops.example"}),
                       self.client().request("GET", "/runs", headers={"Origin": "https://ops.example"})):
            self.assertEqual(answer.headers["Access-Control-Allow-Origin"], "https://ops.example")
            self.assertEqual(answer.headers["Vary"], "Origin")
            self.assertIn("Location", answer.headers["Access-Control-Expose-Headers"])
        feed = self.feed(headers={"Origin": "https://ops.example"})
        self.assertIn("Access-Control-Allow-Origin: https://ops.example", feed.head)

    def test_a_page_of_another_origin_may_not(self):
        for origin in ("https://evil.example", "http://ops.example", "https://ops.example.evil.example", "null"):
            for answer in (self.preflight(origin), self.admin.request("GET", "/tenant", headers={"Origin": origin})):
                self.refused(answer, 403, "ORIGIN_NOT_ALLOWED")
                self.assertNotIn("Access-Control-Allow-Origin", answer.headers)

    def test_the_server_is_called_by_the_names_it_was_told(self):
        self.ok(self.admin.request("GET", "/tenant", headers={"Host": "pawl.example"}))
        self.ok(self.admin.request("GET", "/tenant", headers={"Host": "localhost"}))
        self.refused(self.admin.request("GET", "/tenant", headers={"Host": "ops.example"}), 421, "HOST_NOT_ALLOWED")


if __name__ == "__main__":
    unittest.main()
