"""pawl serve as those see it who run it: its settings, its log, and how it stops."""
import fcntl
import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import unittest
import urllib.parse

from pawl_case import PAWL, TIMEOUT_S, PawlCase

# One attempt only: if stopping the server used it up, the run would fail.
SLOW = """
workflow: slow
retry: {max_attempts: 1}
steps:
  - id: wait
    tool: shell
    with: {idempotent: true, argv: [sh, -c, "touch BEGUN; while [ ! -e GO ]; do sleep 0.02; done; echo done >> DONE"]}
"""

TIMERS = """
workflow: timers
caps: {max_concurrency: 1}
steps:
  - {id: long, tool: wait, for: 30d, needs: []}
  - {id: older, tool: sleep, with: {duration: 30d}, needs: []}
  - {id: moment, tool: wait, until: "2100-01-01T00:00:00Z", needs: []}
  - {id: short, tool: wait, for: "${{ input.short }}", needs: []}
"""

REMOTE = """
workflow: remote
retry: {max_attempts: 1}
steps:
  - {id: only, tool: test.work, lease: 30s}
"""


class OperationsCase(PawlCase):
    def setUp(self):
        super().setUp()
        self.log_path = self.folder / "server.log"

    def serve(self, *flags, env=None, stderr=None):
        (self.data / "server.json").unlink(missing_ok=True)
        with open(self.log_path, "ab") as log:
            process = subprocess.Popen(
                [PAWL, "serve", "--data", str(self.data), "--listen", "127.0.0.1:0", *map(str, flags)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=stderr or log, env=self.environment(**(env or {})),
                cwd=self.folder)
        self.addCleanup(self.end, process)
        self.wait_until(lambda: (self.data / "server.json").exists() or process.poll() is not None, "the server")
        self.assertIsNone(process.poll(), self.log_path.read_text())
        return process

    @property
    def address(self):
        return urllib.parse.urlsplit(json.loads((self.data / "server.json").read_text())["url"]).netloc

    @property
    def key(self):
        return (self.data / "admin.key").read_text().strip()

    def ask(self, method, path, body=None, headers=None, key=None):
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT_S)
        self.addCleanup(connection.close)
        connection.request(method, path, None if body is None else body if isinstance(body, str) else json.dumps(body),
                           {"Authorization": "Bearer " + (key or self.key), **(headers or {})})
        answer = connection.getresponse()
        text = answer.read().decode()
        answer.json = json.loads(text) if text.startswith("{") else None
        return answer

    def start_run(self, source, input=None):
        source = source.replace("BEGUN", str(self.folder / "begun")).replace("GO", str(self.folder / "go"))
        source = source.replace("DONE", str(self.folder / "done"))
        name = source.split("workflow: ")[1].split()[0]
        published = self.ask("PUT", "/workflows/" + name, source)
        self.assertIn(published.status, (200, 201), published.json)
        answer = self.ask("POST", "/runs", {"workflow": name, "input": input or {}})
        self.assertEqual(answer.status, 201, answer.json)
        return answer.json["id"]

    def steps_served(self, run):
        return {step["id"]: step for step in self.ask("GET", "/runs/" + run).json["steps"]}

    def step_of(self, run):
        return self.ask("GET", "/runs/" + run).json["steps"][0]

    def lines(self):
        """What was logged, in JSON."""
        return [json.loads(line) for line in self.log_path.read_text().splitlines()]

    def logged(self, message):
        return [line for line in self.lines() if line["message"].startswith(message)]

    def wait_for_log(self, message):
        self.wait_until(lambda: self.logged(message), "the log line: " + message)
        return self.logged(message)

    def stop(self, process, code=0):
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(TIMEOUT_S), code, self.log_path.read_text())


class Stopping(OperationsCase):
    def test_a_step_that_cannot_end_in_time_is_given_back_and_costs_no_attempt(self):
        server = self.serve("--grace", "100ms")
        run = self.start_run(SLOW)
        self.wait_until((self.folder / "begun").exists, "the step")
        self.stop(server)
        (self.folder / "begun").unlink()
        self.assertEqual(self.steps(run)["wait"]["status"], "ready")
        self.assertEqual(self.steps(run)["wait"]["attempts"], 0)
        self.verify_clean()
        (self.folder / "go").touch()
        self.serve()
        self.wait_until(lambda: self.ask("GET", "/runs/" + run).json["status"] == "success", "the run's end")
        self.assertEqual((self.folder / "done").read_text(), "done\n")
        events = [item["event"]["type"] for item in self.ask("GET", f"/runs/{run}/events").json["items"]]
        self.assertEqual([each for each in events if each.startswith(("step.c", "step.r", "run.su"))],
                         ["step.claimed", "step.released", "step.claimed", "step.completed", "run.succeeded"])

    def test_a_step_that_ends_within_the_grace_is_kept(self):
        server = self.serve("--grace", "1m")
        run = self.start_run(SLOW)
        self.wait_until((self.folder / "begun").exists, "the step")
        server.send_signal(signal.SIGTERM)
        self.wait_for_log("stopping")
        (self.folder / "go").touch()
        self.assertEqual(server.wait(TIMEOUT_S), 0)
        self.assertEqual(self.show(run)["status"], "success")
        self.assertEqual(self.steps(run)["wait"]["attempts"], 1)

    def test_nobody_waits_for_a_timer(self):
        server = self.serve("--grace", "10m")
        run = self.start_run(TIMERS, input={"short": "30d"})
        self.wait_until(lambda: self.step_of(run)["status"] == "waiting_event", "the timers")
        self.stop(server)
        self.assertEqual(self.show(run)["status"], "waiting")

    def test_pawl_run_that_is_interrupted_gives_its_step_back_too(self):
        source = SLOW.replace("BEGUN", str(self.folder / "begun")).replace("GO", str(self.folder / "go"))
        process = self.start("run", self.workflow(source.replace("DONE", str(self.folder / "done"))))
        self.wait_until((self.folder / "begun").exists, "the step")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(self.steps(self.only_run()["id"])["wait"]["attempts"], 0)
        (self.folder / "go").touch()
        self.expect(self.pawl("resume"), 0)

    def test_a_second_signal_ends_it_at_once_with_130(self):
        server = self.serve("--grace", "10m")
        run = self.start_run(SLOW)
        self.wait_until((self.folder / "begun").exists, "the step")
        server.send_signal(signal.SIGTERM)
        self.wait_for_log("stopping")
        self.stop(server, code=130)
        self.assertEqual(self.steps(run)["wait"]["status"], "running")
        self.verify_clean()

    def test_polls_are_answered_empty_feeds_are_told_to_resume_and_nobody_new_is_let_in(self):
        server = self.serve("--grace", "10m")  # for which neither of them waits
        run = self.start_run(SLOW)  # so that there is time to look
        self.wait_until((self.folder / "begun").exists, "the step")
        address = self.address
        host, port = address.split(":")
        feed = http.client.HTTPConnection(address, timeout=TIMEOUT_S)
        self.addCleanup(feed.close)
        feed.request("GET", "/events", headers={"Authorization": "Bearer " + self.key})
        stream = feed.getresponse()
        polled = []

        def poll():
            answer = self.ask("POST", "/leases", {"worker": "w", "tools": ["test.work"], "wait": "60s"})
            polled.append((answer.status, answer.json))

        poller = threading.Thread(target=poll)
        poller.start()
        self.wait_until(lambda: "pawl_polls_waiting 1" in self.metrics(), "the poll")
        server.send_signal(signal.SIGTERM)
        poller.join(TIMEOUT_S)
        self.assertEqual(polled, [(200, {"leases": []})])
        self.assertIn(b"event: resume", stream.read())

        def is_closed():
            try:
                socket.create_connection((host, int(port)), timeout=TIMEOUT_S).close()
                return False
            except ConnectionRefusedError:
                return True

        self.wait_until(is_closed, "the end of listening")
        self.assertIsNone(server.poll(), "the step still has its time")
        (self.folder / "go").touch()
        self.assertEqual(server.wait(TIMEOUT_S), 0)
        self.assertFalse((self.data / "server.json").exists())
        self.assertEqual(self.show(run)["status"], "success")

    def metrics(self):
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT_S)
        connection.request("GET", "/metrics", headers={"Authorization": "Bearer " + self.key})
        text = connection.getresponse().read().decode()
        connection.close()
        return text

    def test_a_request_that_has_begun_is_answered(self):
        server = self.serve("--grace", "1m")
        body = json.dumps({"worker": "w", "tools": ["test.work"], "wait": "0s"})
        with socket.create_connection(self.address.split(":"), timeout=TIMEOUT_S) as sock:
            sock.sendall((f"POST /leases HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.key}\r\n"
                          f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n").encode())
            answer = b""
            while b"100 Continue" not in answer:  # its beginning has been read
                answer += sock.recv(4096)
            sock.sendall(body[:10].encode())
            server.send_signal(signal.SIGTERM)
            self.wait_for_log("stopping")
            sock.sendall(body[10:].encode())
            while more := sock.recv(4096):
                answer += more
        self.assertIn(b"HTTP/1.1 200", answer)
        self.assertIn(b"Connection: close", answer)
        self.assertEqual(server.wait(TIMEOUT_S), 0)


class Dying(OperationsCase):
    """The server is killed, again and again."""

    def test_timers_keep_their_time_and_need_neither_slot_nor_attempt(self):
        server = self.serve()
        run = self.start_run(TIMERS, input={"short": "2s"})
        other = self.start_run(TIMERS.replace("timers", "others"), input={"short": "30d"})
        due = {id: step["due_at"] for id, step in self.steps_served(run).items()}
        self.assertTrue(all(due.values()), due)
        for _ in range(4):
            server.kill()
            server.wait(TIMEOUT_S)
            server = self.serve()
        self.wait_until(lambda: self.steps_served(run)["short"]["status"] == "succeeded", "the short timer")
        short = self.steps_served(run)["short"]
        self.assertGreaterEqual(short["finished_at"], due["short"])
        self.assertEqual(short["output"], {"due_at": due["short"]})
        for id in ("long", "older", "moment"):
            step = self.steps_served(run)[id]
            self.assertEqual((step["status"], step["attempts"], step["due_at"]), ("waiting_event", 0, due[id]))
        self.assertEqual(self.ask("GET", "/runs/" + other).json["status"], "waiting")

    def test_the_death_of_the_server_costs_no_attempt(self):
        server = self.serve()
        run = self.start_run(SLOW)
        for _ in range(4):
            self.wait_until((self.folder / "begun").exists, "the step")
            server.kill()
            server.wait(TIMEOUT_S)
            (self.folder / "begun").unlink()
            server = self.serve()
        (self.folder / "go").touch()
        self.wait_until(lambda: self.ask("GET", "/runs/" + run).json["status"] == "success", "the run's end")
        self.assertEqual(self.step_of(run)["attempts"], 1)
        events = [item["event"] for item in self.ask("GET", f"/runs/{run}/events").json["items"]]
        self.assertEqual([each.get("cause") for each in events if each["type"] == "step.released"], ["server_lost"] * 4)

    def test_a_step_that_kills_the_server_ends(self):
        pid = self.folder / "pid"
        kills = f"while [ ! -s {pid} ]; do sleep 0.02; done; server=$(cat {pid}); rm {pid}; kill -9 $server"
        server = self.serve()
        run = self.start_run("workflow: killer\nretry: {max_attempts: 1}\nsteps:\n"
                             f"  - {{id: a, tool: shell, with: {{idempotent: true, argv: [sh, -c, '{kills}']}}}}\n")
        for _ in range(10):
            self.assertEqual(self.ask("GET", "/runs/" + run).json["status"], "running")
            (self.folder / "new").write_text(str(server.pid))
            (self.folder / "new").rename(pid)
            server.wait(TIMEOUT_S)
            server = self.serve()
        self.wait_until(lambda: self.ask("GET", "/runs/" + run).json["status"] == "failed", "the run's end")
        self.assertEqual(self.ask("GET", "/runs/" + run).json["error_code"], "SERVER_LOST")
        line = self.wait_for_log("the lease of a server that is gone was released")[-1]
        self.assertNotIn("waits", line["message"], "the step has ended")


class Releasing(OperationsCase):
    def lease(self, worker="w1"):
        return self.ask("POST", "/leases", {"worker": worker, "tools": ["test.work"], "wait": "30s"}).json["leases"][0]

    def release(self, *leases):
        items = [{"lease_id": lease["lease_id"], "token": lease["token"]} for lease in leases]
        answer = self.ask("POST", "/leases/release", {"items": items})
        self.assertEqual(answer.status, 200, answer.json)
        return [(item["ok"], item.get("code")) for item in answer.json["items"]]

    def test_a_remote_worker_can_give_a_lease_back(self):
        self.serve()
        run = self.start_run(REMOTE)
        lease = self.lease()
        self.assertEqual(self.release(lease, lease), [(True, None), (False, "LEASE_LOST")])
        again = self.lease("w2")
        self.assertEqual(again["attempt"], 1)
        self.assertNotEqual(again["token"], lease["token"])
        self.assertEqual(self.release(lease), [(False, "LEASE_LOST")], "a stale token changes nothing")
        self.assertEqual(self.step_of(run)["status"], "running")
        body = {"items": [{"lease_id": again["lease_id"], "token": again["token"], "output": 1}]}
        self.assertEqual(self.ask("POST", "/leases/complete", body).json["items"][0]["ok"], True)
        self.assertEqual(self.ask("GET", "/runs/" + run).json["status"], "success")

    def test_what_is_no_release_is_refused(self):
        self.serve()
        self.assertEqual(self.ask("POST", "/leases/release", {}).status, 400)
        for item in ({}, {"lease_id": "x", "token": 1}, {"lease_id": "x", "token": "t", "output": 1}):
            result = self.ask("POST", "/leases/release", {"items": [item]}).json["items"][0]
            self.assertEqual((result["ok"], result["code"]), (False, "INVALID_REQUEST"), item)
        body = {"items": [{"lease_id": "x", "token": "t"}]}
        self.assertEqual(self.ask("POST", "/leases/release", body).json["items"],
                         [{"lease_id": "x", "ok": False, "code": "LEASE_LOST", "cancel": True}])

    def worker(self, *flags):
        script = self.folder / "work.sh"
        script.write_text(f"#!/bin/sh\ntouch {self.folder}/begun\nwhile [ ! -e {self.folder}/go ]; do sleep 0.02; "
                          f"done\necho 1\n")
        script.chmod(0o755)
        process = subprocess.Popen([PAWL, "worker", "--tool", "test.work", "--data", self.data, *flags, "--", script],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=self.environment(), cwd=self.folder)
        self.addCleanup(self.end, process)
        self.wait_until((self.folder / "begun").exists, "the program")
        return process

    def test_pawl_worker_gives_back_what_it_cannot_finish(self):
        self.serve()
        run = self.start_run(REMOTE)
        worker = self.worker("--grace", "50ms")
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(worker.wait(TIMEOUT_S), 0)
        self.assertEqual((self.step_of(run)["status"], self.step_of(run)["attempts"]), ("ready", 0))
        self.assertEqual(self.lease()["attempt"], 1)

    def test_pawl_worker_finishes_what_it_can(self):
        self.serve()
        run = self.start_run(REMOTE)
        worker = self.worker()
        worker.send_signal(signal.SIGTERM)
        (self.folder / "go").touch()
        self.assertEqual(worker.wait(TIMEOUT_S), 0)
        self.assertEqual(self.ask("GET", "/runs/" + run).json["status"], "success")

    def test_pawl_worker_ends_at_once_when_told_twice(self):
        self.serve()
        self.start_run(REMOTE)
        worker = self.worker("--grace", "10m")
        worker.send_signal(signal.SIGTERM)
        worker.stderr.readline()
        self.assertIn("once more ends it at once", worker.stderr.readline())
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(worker.wait(TIMEOUT_S), 130)


class Logging(OperationsCase):
    CANARY = "canary-4711-do-not-print"

    def test_start_and_stop_are_said_with_what_matters(self):
        server = self.serve()
        (line,) = self.wait_for_log("serving")
        self.assertEqual(line["url"], "http://" + self.address)
        self.assertEqual(line["data"], str(self.data))
        for field in ("version", "position", "runs_recovered", "admin_key", "time", "level"):
            self.assertIn(field, line)
        self.stop(server)
        self.assertEqual(self.logged("stopping")[0]["signal"], "SIGTERM")
        self.assertEqual(self.lines()[-1]["message"], "stopped")

    def test_nothing_that_was_said_in_confidence_is_logged(self):
        server = self.serve("--access-log", "--log-level", "info")
        secret = self.CANARY
        source = REMOTE.replace("workflow: remote", f"workflow: remote\ndescription: {secret}")
        self.ask("PUT", "/workflows/remote", source)
        made = self.ask("POST", "/keys", {"role": "worker", "name": "builders"}).json
        self.ask("POST", "/runs", {"workflow": "remote", "input": {"secret": secret}}, {"Idempotency-Key": secret})
        lease = self.ask("POST", "/leases", {"worker": "w", "tools": ["test.work"]}, key=made["key"]).json["leases"][0]
        item = {"lease_id": lease["lease_id"], "token": lease["token"]}
        self.ask("POST", "/leases/complete", {"items": [{**item, "output": {"secret": secret}}]})
        self.ask("GET", f"/runs?q={secret}")
        self.ask("GET", f"/{secret}")
        self.ask("GET", f"/runs/{secret}")
        self.ask("POST", "/runs", "{" + secret)
        self.ask("GET", "/runs", key=f"pawl_{secret}_{secret}")
        self.ask("GET", "/runs", headers={"X-Request-Id": secret + " and more"})
        self.ask("GET", "/runs", headers={"Cookie": secret, "User-Agent": secret})
        self.stop(server)
        text = self.log_path.read_text()
        self.assertIn('"message":"request"', text)
        self.assertNotIn(secret, text)
        self.assertNotIn(made["key"].split("_")[2], text)
        self.assertNotIn(self.key.split("_")[2], text)

    def test_the_access_log_has_a_line_a_request(self):
        self.serve("--access-log")
        self.ask("GET", "/runs?limit=3", headers={"X-Request-Id": "mine-1"})
        self.ask("GET", "/runs/run_01kaw3v9m8f2hr4x6q0t7c5ezy", headers={"X-Request-Id": "mine-2"})
        self.ask("PUT", "/healthz", headers={"X-Request-Id": "mine-3"})
        self.wait_until(lambda: len(self.logged("request")) >= 3, "the lines")
        first, second, third = [line for line in self.logged("request") if line["request_id"].startswith("mine-")]
        self.assertEqual((first["method"], first["route"], first["status"], first["tenant"]),
                         ("GET", "/runs", 200, "default"))
        self.assertTrue(first["key"].startswith("key_"), first)
        self.assertGreater(first["bytes"], 0)
        self.assertGreater(first["microseconds"], 0)
        self.assertEqual((second["route"], second["status"]), ("/runs/{id}", 404))
        self.assertEqual((third["method"], third["status"]), ("PUT", 405))

    def test_without_being_asked_for_there_is_no_access_log(self):
        server = self.serve()
        self.ask("GET", "/runs")
        self.stop(server)
        self.assertEqual(self.logged("request"), [])

    def test_refused_keys_are_said_a_few_times_and_then_counted(self):
        server = self.serve()
        for _ in range(40):
            self.assertEqual(self.ask("GET", "/runs", key="pawl_no_body").status, 401)
        lines = self.wait_for_log("a key was refused")
        self.stop(server)
        lines = self.logged("a key was refused")
        self.assertLess(len(lines), 40)
        self.assertEqual(lines[0]["level"], "warning")
        self.assertEqual(lines[0]["peer"], "127.0.0.1")

    def test_every_answer_has_a_request_id(self):
        self.serve()
        mine = self.ask("GET", "/runs", headers={"X-Request-Id": "job:7/a_b-c.d"})
        self.assertEqual(mine.headers["X-Request-Id"], "job:7/a_b-c.d")
        made = {self.ask(method, path).headers["X-Request-Id"]
                for method, path in (("GET", "/runs"), ("GET", "/nowhere"), ("PUT", "/healthz"), ("GET", "/healthz"))}
        self.assertEqual(len(made), 4)
        for unfit in ("a b", "x" * 129, "ü".encode().decode("latin-1"), ""):
            answer = self.ask("GET", "/runs", headers={"X-Request-Id": unfit})
            self.assertNotEqual(answer.headers["X-Request-Id"], unfit)
        with socket.create_connection(self.address.split(":"), timeout=TIMEOUT_S) as sock:
            sock.sendall(b"NONSENSE\r\n\r\n")
            self.assertIn(b"X-Request-Id: ", sock.recv(4096))

    def test_a_lost_worker_is_said(self):
        self.serve()
        self.ask("PUT", "/workflows/remote", REMOTE.replace("lease: 30s", "lease: 100ms").replace("1}", "3}"))
        self.ask("POST", "/runs", {"workflow": "remote"})
        self.ask("POST", "/leases", {"worker": "lost-one", "tools": ["test.work"], "wait": "10s"})
        (line,) = self.wait_for_log("a worker was not heard of in time")
        self.assertEqual((line["worker"], line["step"]), ("lost-one", "only"))

    def test_a_log_that_nobody_reads_stops_nothing(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        server = self.serve("--access-log", stderr=writer)
        os.close(writer)
        for _ in range(3):
            for _ in range(100):
                self.assertEqual(self.ask("GET", "/healthz").status, 200)
        self.start_run(REMOTE)
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(TIMEOUT_S), 0)

    @unittest.skipUnless(os.environ.get("FAILING_DISK"), "needs the library of tests/crash")
    def test_a_store_that_fails_is_the_last_that_is_said(self):
        server = self.serve(env={"LD_PRELOAD": os.environ["FAILING_DISK"], "FAIL_SYNC": "40",
                                 # Under AddressSanitizer its runtime would like to be the first library.
                                 "ASAN_OPTIONS": "verify_asan_link_order=0:" + os.environ.get("ASAN_OPTIONS", "")})
        self.ask("PUT", "/workflows/remote", REMOTE)

        def is_over():
            try:
                self.ask("POST", "/runs", {"workflow": "remote"})
            except (http.client.HTTPException, OSError):
                pass
            return server.poll() is not None

        self.wait_until(is_over, "the end")
        self.assertEqual(server.returncode, 74)
        last = self.lines()[-1]
        self.assertEqual(last["level"], "error")
        self.assertTrue(last["message"].startswith("the store failed"), last)
        self.assertTrue(last["reason"], last)

    def test_text_is_for_people(self):
        server = self.serve("--log-format", "text")
        self.stop(server)
        self.assertRegex(self.log_path.read_text(), r"(?m)^\S+Z info    serving url=http://\S+ version=")


class Configuring(OperationsCase):
    def test_what_is_in_force_is_printed_with_where_it_comes_from(self):
        config = self.folder / "my.yaml"
        config.write_text("listen: 127.0.0.1:1\ngrace: 3s\n")
        printed = self.expect(self.pawl("serve", "--config", config, "--print-config", "--no-workers",
                                        env={"PAWL_BODY_MAX": "1MiB"}), 0).stdout
        self.assertRegex(printed, rf"listen: 127.0.0.1:1 +# {config}:1\n")
        self.assertRegex(printed, r"workers: false +# --workers\n")
        self.assertRegex(printed, r"body_max: 1MiB +# PAWL_BODY_MAX\n")
        self.assertRegex(printed, r"idle_timeout: 1m15s +# default\n")

    def test_a_wrong_file_stops_the_start_with_its_place(self):
        self.data.mkdir()
        (self.data / "pawl.yaml").write_text("# mine\nlissen: 127.0.0.1:1\n")
        result = self.expect(self.pawl("serve"), 2)
        self.assertIn(f"{self.data}/pawl.yaml:2:1: unknown setting `lissen`; did you mean `listen`?", result.stderr)

    def test_settings_are_heeded(self):
        self.serve("--body-max", "2KiB", "--no-workers", "--idle-timeout", "2s")
        self.assertEqual(self.ask("POST", "/runs", "x" * 3000).status, 413)
        run = self.start_run(SLOW)
        with socket.create_connection(self.address.split(":"), timeout=TIMEOUT_S) as sock:
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertIn(b"200 OK", sock.recv(4096))
            self.assertEqual(sock.recv(4096), b"", "the connection was idle for too long")
        self.assertEqual(self.step_of(run)["status"], "ready", "nobody works here")

    def test_requests_beyond_the_limit_are_told_so_and_workers_are_not(self):
        self.serve("--requests-max", "1", "--connections-max", "100")
        seen = {"/runs": set(), "/leases/heartbeat": set()}

        def ask(path, body):
            connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT_S)
            for asked in range(100_000):
                connection.request("POST" if body else "GET", path, body, {"Authorization": "Bearer " + self.key})
                answer = connection.getresponse()
                answer.read()
                seen[path].add(answer.status)
                if asked >= 100 and len(seen["/runs"]) > 1:
                    break
            connection.close()

        beat = json.dumps({"items": [{"lease_id": "x", "token": "t"}]})
        threads = [threading.Thread(target=ask, args=args) for args in [("/runs", None)] * 8
                   + [("/leases/heartbeat", beat)] * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT_S)
        self.assertEqual(seen, {"/runs": {200, 503}, "/leases/heartbeat": {200}})

    def test_the_file_in_the_data_folder_is_found(self):
        self.data.mkdir()
        (self.data / "pawl.yaml").write_text("log_format: text\naccess_log: true\n")
        server = self.serve()
        self.ask("GET", "/runs")
        self.stop(server)
        self.assertIn(f"config={self.data}/pawl.yaml", self.log_path.read_text())
        self.assertIn("route=/runs", self.log_path.read_text())


class UnderSystemd(OperationsCase):
    def test_the_service_manager_is_told(self):
        path = str(self.folder / "notify")
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.bind(path)
        manager.settimeout(TIMEOUT_S)
        server = self.serve(env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "300000"})
        heard = [manager.recv(100) for _ in range(4)]
        self.assertEqual(heard[0], b"READY=1")
        self.assertEqual(set(heard[1:]), {b"WATCHDOG=1"})
        server.send_signal(signal.SIGTERM)
        while (said := manager.recv(100)) == b"WATCHDOG=1":
            pass
        self.assertEqual(said, b"STOPPING=1")
        self.assertEqual(server.wait(TIMEOUT_S), 0)


if __name__ == "__main__":
    unittest.main()
