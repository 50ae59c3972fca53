"""What the tests of providers share: pawl's own server beside engines that others wrote, all on loopback and in folders
of their own.
"""
import http.client
import http.server
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

for folder in ("support", "api", "postgres"):
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / folder))
import fetching  # noqa: E402
from waiting import HANG_S, until  # noqa: E402
from api_case import PAWL, ApiCase, Client, Server  # noqa: E402, F401
from cluster import free_port  # noqa: E402

SOURCES = pathlib.Path(__file__).parent
PARTS = fetching.BUILD / "provider-parts"


def fetched():
    return fetching.fetched(PARTS, SOURCES, ["service.mjs", "loopback.cjs"])


def call(port, method, path, body=None):
    """Status and body of one request to loopback; 0 when nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_S)
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None,
                           {"content-type": "application/json", "accept": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    except OSError:
        return 0, b""
    finally:
        connection.close()


class Process:
    """A program whose output goes into a file. It ends with all that it started."""

    def __init__(self, command, log, env=None, cwd=None):
        self.command, self.log, self.env, self.cwd = command, log, env, cwd
        self.process = None

    def start(self):
        with open(self.log, "ab") as out:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            cwd=self.cwd, env={**os.environ, **(self.env or {})},
                                            start_new_session=True)

    def kill(self):
        if self.process:
            # Its group is there as long as it was not waited for.
            if self.process.returncode is None:
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def has_ended(self):
        return self.process.poll() is not None

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)


def came_up(process, answers):
    """Whether it answers in the end; it does not when it has ended, which it does when somebody else has its port."""
    state = until(lambda: "up" if answers() else "over" if process.has_ended() else "", bool,
                  f"{process.command} answers")
    return state == "up"


class Restate:
    """Restate's own server with the service of service.mjs. Its data outlives a kill."""
    PORT_TRIES = 5

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.notes = self.folder / "notes"
        self.notes.mkdir()
        self.server = self.service = None

    def start(self):
        for _ in range(self.PORT_TRIES):
            self.make()
            self.server.start()
            if came_up(self.server, lambda: call(self.admin, "GET", "/health")[0] == 200) and self.has_ingress():
                break
            self.stop()
            shutil.rmtree(self.folder / "restate", ignore_errors=True)
        else:
            raise AssertionError("Restate does not start:\n" + (self.folder / "restate.log").read_text()[-3000:])
        self.start_service()
        return self

    def make(self):
        self.ingress, self.admin, self.node = free_port(), free_port(), free_port()
        binary = next((PARTS / "node_modules/@restatedev").glob("restate-server-*/bin/restate-server"))
        self.server = Process([binary], self.folder / "restate.log", {
            "RESTATE_NODE_NAME": "n1", "RESTATE_CLUSTER_NAME": "c1", "RESTATE_BASE_DIR": str(self.folder / "restate"),
            "RESTATE_BIND_IP": "127.0.0.1", "RESTATE_BIND_PORT": str(self.node), "RESTATE_LISTEN_MODE": "tcp",
            "RESTATE_ADMIN__BIND_PORT": str(self.admin), "RESTATE_ADMIN__DISABLE_WEB_UI": "true",
            "RESTATE_INGRESS__BIND_PORT": str(self.ingress), "RESTATE_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1",
            "RESTATE_DEFAULT_NUM_PARTITIONS": "2", "RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE": "128MiB",
            "RESTATE_WORKER__INVOKER__INACTIVITY_TIMEOUT": "200ms",
            "TMPDIR": str(self.folder),  # where it leaves files when it is killed
        })

    def start_service(self):
        for _ in range(self.PORT_TRIES):
            port = free_port()
            self.service = Process(["node", "service.mjs", str(port), str(self.notes)], self.folder / "service.log",
                                   cwd=PARTS)
            self.service.start()
            if came_up(self.service, lambda: call(self.admin, "POST", "/deployments",
                                                  {"uri": f"http://127.0.0.1:{port}"})[0] in (200, 201)):
                return
        raise AssertionError("the service does not start:\n" + (self.folder / "service.log").read_text()[-3000:])

    def has_ingress(self):
        return came_up(self.server, lambda: call(self.ingress, "GET", "/restate/health")[0] == 200)

    def restart_server(self):
        self.server.start()
        if not self.has_ingress():
            raise AssertionError("Restate does not start again:\n" + (self.folder / "restate.log").read_text()[-3000:])

    def stop(self):
        for process in (self.server, self.service):
            if process:
                process.kill()

    def release(self, run):
        """Ends the wait of a handler that works, or sleeps for a while again and again."""
        (self.notes / f"{run}.go").touch()

    def resolve(self, run, value):
        """Ends the wait of a handler that is suspended."""
        note = self.notes / f"{run}.awakeable"
        until(note.exists, bool, "the awakeable")
        assert call(self.ingress, "POST", f"/restate/awakeables/{note.read_text()}/resolve", value)[0] in (200, 202)

    def query(self, sql):
        return json.loads(call(self.admin, "POST", "/query", {"query": sql})[1])["rows"]

    def flags(self):
        return ["--restate", f"http://127.0.0.1:{self.ingress}", "--restate-admin", f"http://127.0.0.1:{self.admin}",
                "--provider-interval", "100ms"]


class Mangler:
    """Stands before a server on loopback and passes everything on, until it is told what to say instead."""

    def __init__(self, port):
        self.instead = None  # status and body
        self.once = []       # the same, for one request each; between two of them one is passed on
        self.passed_on = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if outer.instead or (outer.once and outer.passed_on.is_set()):
                    status, text = outer.instead or outer.once.pop(0)
                    outer.passed_on.clear()
                else:
                    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_S)
                    connection.request(self.command, self.path, body, dict(self.headers))
                    response = connection.getresponse()
                    status, text = response.status, response.read()
                    connection.close()
                    outer.passed_on.set()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PATCH = handle_any

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class ProviderCase(ApiCase):
    """A test of foreign runs."""

    def pawl(self, *arguments):
        """The command line, in the server's folder."""
        return subprocess.run([PAWL, *arguments, "--data", self.data], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True,
                              timeout=HANG_S)

    def sub_states(self, run):
        """What the run was seen to do, in order, each once in a row."""
        out = []
        for item in self.events(run):
            if item["event"]["type"] == "run.observed" and item["event"]["sub_state"] not in out[-1:]:
                out.append(item["event"]["sub_state"])
        return out

    def seen(self, run, holds, what="as expected"):
        return self.until(lambda: self.get_run(run), holds, f"{run} is {what}")

    def sub_state(self, run, word):
        return self.seen(run, lambda r: r["sub_state"] == word, word)

    def terminal(self, run):
        return self.seen(run, lambda r: r["finished_at"], "over")

    def start_with_deadline(self, source, holds, **body):
        """A run of a workflow whose `timeout: DEADLINE` leaves it the time to come to where this holds. A busy machine
        may need a longer one."""
        for seconds in (2, 6, 20, 60):
            run = self.start(source.replace("DEADLINE", f"{seconds}s"), **body)["id"]
            if not self.seen(run, lambda r: r["finished_at"] or holds(r), "there before its deadline")["finished_at"]:
                return run
        self.fail("no deadline is long enough")


class RestateCase(ProviderCase):
    """One Restate for all tests of a module, a pawl for each."""
    restate = None

    @classmethod
    def setUpClass(cls):
        if not RestateCase.restate:
            if not fetched():
                raise unittest.SkipTest("Restate could not be fetched: it needs npm and the network, once")
            folder = tempfile.mkdtemp(prefix="pawl-restate-")
            unittest.addModuleCleanup(shutil.rmtree, folder)
            restate = Restate(folder)
            unittest.addModuleCleanup(restate.stop)
            RestateCase.restate = restate.start()
        cls.flags = cls.restate.flags()
