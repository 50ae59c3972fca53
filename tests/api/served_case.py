"""What every test of the API shares: the real binary (named by $PAWL), serving a folder of its own."""
import http.client
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from waiting import HANG_S, until  # noqa: E402

PAWL = os.environ.get("PAWL") or str(pathlib.Path(__file__).parents[2] / "build/release/pawl")
TIMEOUT_S = HANG_S


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.content_type = self.headers.get("content-type", "").partition(";")[0]
        self.text = response.read().decode(errors="replace")

    @property
    def body(self):
        return json.loads(self.text)


class ServedCase(unittest.TestCase):
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="pawl-api-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.process = subprocess.Popen([PAWL, "serve", "--data", str(cls.folder), "--listen", "127.0.0.1:0",
                                        *cls.flags],
                                       stdin=subprocess.DEVNULL)
        cls.addClassCleanup(cls.stop)
        until(cls.is_up, bool, "the server's address")
        cls.address = urllib.parse.urlsplit(json.loads((cls.folder / "server.json").read_text())["url"]).netloc
        cls.key = (cls.folder / "admin.key").read_text().strip()

    @classmethod
    def is_up(cls):
        if cls.process.poll() is not None:
            raise AssertionError(f"the server ended at its start with {cls.process.returncode}")
        return (cls.folder / "server.json").exists()

    @classmethod
    def stop(cls):
        cls.process.terminate()
        try:
            cls.process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            cls.process.kill()
            cls.process.wait()

    @classmethod
    def open(cls, method, path, body=None, key=None, headers=None):
        """Sends a request; the connection, to be closed, and the response, of which only the head was read."""
        connection = http.client.HTTPConnection(cls.address, timeout=TIMEOUT_S)
        headers = dict(headers or {})
        if key:
            headers["Authorization"] = "Bearer " + key
        if body is not None and not isinstance(body, str):
            body = json.dumps(body)
        connection.request(method, path, body, headers)
        return connection, connection.getresponse()

    @classmethod
    def ask(cls, method, path, body=None, key=None, headers=None):
        connection, response = cls.open(method, path, body, key, headers)
        answer = Answer(response)
        connection.close()
        return answer
