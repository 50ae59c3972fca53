"""What the tests of providers share: pawl's own server beside engines that others wrote, all on loopback and in folders of
their own.
"""
import http.client
import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "api"))
from api_case import PAWL, TIMEOUT_S, ApiCase, Client, Server  # noqa: E402, F401

SOURCES = pathlib.Path(__file__).parent
PARTS = SOURCES.parents[1] / "build" / "provider-parts"


def fetched():
    """Fetched once for each version that package.json pins; false when that is not possible here."""
    wanted = (SOURCES / "package.json").read_text()
    mark = PARTS / "fetched.json"
    if mark.is_file() and mark.read_text() == wanted:
        return True
    shutil.rmtree(PARTS, ignore_errors=True)
    PARTS.mkdir(parents=True)
    (PARTS / "package.json").write_text(wanted)
    try:
        subprocess.run(["npm", "install", "--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund"],
                       cwd=PARTS, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        shutil.rmtree(PARTS, ignore_errors=True)
        return False
    mark.write_text(wanted)
    return True


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def wait_for(what, holds, seconds=TIMEOUT_S):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"never came: {what}")
        time.sleep(0.02)


def call(port, method, path, body=None):
    """Status and body of one request to loopback; 0 when nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
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
    """A program whose output goes into a file."""

    def __init__(self, command, log, env=None, cwd=None):
        self.command, self.log, self.env, self.cwd = command, log, env, cwd
        self.process = None

    def start(self):
        with open(self.log, "ab") as out:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            env={**os.environ, **(self.env or {})}, cwd=self.cwd)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)


class Restate:
    """Restate's own server with the service of service.mjs. Its data outlives a kill."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.ingress, self.admin, self.node, self.service_port = free_port(), free_port(), free_port(), free_port()
        binary = next((PARTS / "node_modules/@restatedev").glob("restate-server-*/bin/restate-server"))
        self.server = Process([binary], self.folder / "restate.log", {
            "RESTATE_NODE_NAME": "n1", "RESTATE_CLUSTER_NAME": "c1", "RESTATE_BASE_DIR": str(self.folder / "restate"),
            "RESTATE_BIND_IP": "127.0.0.1", "RESTATE_BIND_PORT": str(self.node), "RESTATE_LISTEN_MODE": "tcp",
            "RESTATE_ADMIN__BIND_PORT": str(self.admin), "RESTATE_ADMIN__DISABLE_WEB_UI": "true",
            "RESTATE_INGRESS__BIND_PORT": str(self.ingress), "RESTATE_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1",
            "RESTATE_DEFAULT_NUM_PARTITIONS": "2", "RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE": "128MiB",
            "RESTATE_WORKER__INVOKER__INACTIVITY_TIMEOUT": "1s",
            "RESTATE_DEFAULT_RETRY_POLICY__INITIAL_INTERVAL": "500ms",
            "RESTATE_DEFAULT_RETRY_POLICY__EXPONENTIATION_FACTOR": "2.0",
            "RESTATE_DEFAULT_RETRY_POLICY__MAX_INTERVAL": "3s", "RESTATE_DEFAULT_RETRY_POLICY__MAX_ATTEMPTS": "6",
        })
        shutil.copy(SOURCES / "service.mjs", PARTS / "service.mjs")
        self.service = Process(["node", "service.mjs", str(self.service_port)], self.folder / "service.log", cwd=PARTS)

    def start(self):
        self.server.start()
        self.service.start()
        wait_for("Restate", lambda: call(self.admin, "GET", "/health")[0] == 200)
        wait_for("its ingress", lambda: call(self.ingress, "GET", "/restate/health")[0] == 200)
        wait_for("the service", lambda: call(self.admin, "POST", "/deployments",
                                             {"uri": f"http://127.0.0.1:{self.service_port}"})[0] in (200, 201))
        return self

    def restart_server(self):
        self.server.start()
        wait_for("Restate", lambda: call(self.ingress, "GET", "/restate/health")[0] == 200)

    def stop(self):
        self.server.kill()
        self.service.kill()

    def query(self, sql):
        return json.loads(call(self.admin, "POST", "/query", {"query": sql})[1])["rows"]

    def flags(self):
        return ["--restate", f"http://127.0.0.1:{self.ingress}", "--restate-admin", f"http://127.0.0.1:{self.admin}",
                "--provider-interval", "100ms"]


class Mangler:
    """Stands before a server on loopback and passes everything on, until it is told what to say instead."""

    def __init__(self, port):
        self.instead = None  # status and body
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if outer.instead:
                    status, text = outer.instead
                else:
                    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
                    connection.request(self.command, self.path, body, dict(self.headers))
                    response = connection.getresponse()
                    status, text = response.status, response.read()
                    connection.close()
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
        return subprocess.run([PAWL, *arguments, "--data", self.data], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=TIMEOUT_S)

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


class RestateCase(ProviderCase):
    """One Restate for all tests of a class, a pawl for each."""

    @classmethod
    def setUpClass(cls):
        if not fetched():
            raise unittest.SkipTest("Restate could not be fetched: it needs npm and the network, once")
        cls.restate_folder = tempfile.mkdtemp(prefix="pawl-restate-")
        cls.addClassCleanup(shutil.rmtree, cls.restate_folder, ignore_errors=True)
        cls.restate = Restate(cls.restate_folder)
        cls.addClassCleanup(cls.restate.stop)
        cls.restate.start()
        cls.flags = cls.restate.flags()
