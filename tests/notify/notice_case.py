"""What the tests of webhooks and Slack share: the real server on a folder of its own, with secrets and a way to
loopback."""
import http.server
import json
import pathlib
import subprocess
import sys
import threading
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
from pawl_case import HANG_S  # noqa: E402
from server_case import ServerCase  # noqa: E402

RECEIVERS = pathlib.Path(__file__).parent / "receivers"
COULD_NOT_BE_FETCHED = 77


class Receiver:
    """An HTTP server on loopback that keeps what it is sent. `answer(request)` gives status, headers and body."""

    def __init__(self, answer, port=0):
        self.requests = []
        self.lock = threading.Lock()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                request = {"path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}, "body": body}
                with receiver.lock:
                    receiver.requests.append(request)
                status, headers, text = answer(request)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                data = text.encode()
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):  # whoever asked was killed meanwhile
                pass

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def all(self):
        with self.lock:
            return list(self.requests)

    def close(self):
        if not self.thread.is_alive():
            return
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class NoticeCase(ServerCase):
    SECRETS = {}

    def setUp(self):
        super().setUp()
        self.secrets = self.folder / "secrets"
        (self.secrets / "default").mkdir(parents=True)
        for name, value in self.SECRETS.items():
            (self.secrets / "default" / name).write_text(value)

    def serve(self, *flags):
        return super().serve("--http-allow", "127.0.0.1", "--secrets-folder", self.secrets, *flags)

    def receiver(self, answer=lambda request: (200, {}, ""), port=0):
        receiver = Receiver(answer, port)
        self.addCleanup(receiver.close)
        return receiver

    def refused(self, method, path, body=None, headers=None, raw=None):
        """Status and body of an answer that is no success."""
        key = (self.data / "admin.key").read_text().strip()
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url() + path, method=method, data=data,
                                         headers={"Authorization": "Bearer " + key, **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=HANG_S) as answer:
                self.fail(f"{method} {path} was not refused: {answer.status}")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or "null")

    def publish(self, text, name="workflow.yaml"):
        self.expect(self.pawl("workflows", "--publish", self.workflow(text, name)), 0)

    def run_receivers(self, *args, stdin=""):
        done = subprocess.run([RECEIVERS, *map(str, args)], input=stdin, capture_output=True, text=True, timeout=300)
        if done.returncode == COULD_NOT_BE_FETCHED:
            self.skipTest(done.stderr)
        return done
