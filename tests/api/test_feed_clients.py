"""The live feed, followed by clients that others wrote: npm's eventsource and ws."""
import json
import pathlib
import shutil
import subprocess

from api_case import INSTANT
from ports import stable_port
from test_feed import FeedCase

SOURCES = pathlib.Path(__file__).parent / "feed-clients"
CLIENTS = pathlib.Path(__file__).parents[2] / "build" / "feed-clients"


def fetched():
    """Fetched once for each version that package.json pins; false when that is not possible here."""
    wanted = (SOURCES / "package.json").read_text()
    if (CLIENTS / "node_modules" / "ws").is_dir() and (CLIENTS / "package.json").read_text() == wanted:
        return True
    shutil.rmtree(CLIENTS, ignore_errors=True)
    CLIENTS.mkdir(parents=True)
    (CLIENTS / "package.json").write_text(wanted)
    try:
        subprocess.run(["npm", "install", "--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund"],
                       cwd=CLIENTS, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        shutil.rmtree(CLIENTS, ignore_errors=True)
        return False
    return True


class Clients(FeedCase):
    def setUp(self):
        if not fetched():
            self.skipTest("the clients could not be fetched: they need npm and the network, once")
        super().setUp()
        self.publish(INSTANT)

    def follow(self, kind):
        shutil.copy(SOURCES / "follow.cjs", CLIENTS)
        url = json.loads((self.data / "server.json").read_text())["url"]
        process = subprocess.Popen(["node", CLIENTS / "follow.cjs", kind, url, self.admin.key], stdout=subprocess.PIPE,
                                   text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(self.line(process), "open")
        return process

    def line(self, process):
        line = process.stdout.readline()
        self.assertTrue(line, "the client ended")
        return line.strip()

    def until(self, process, is_last):
        events = []
        while not events or not is_last(events[-1]):
            line = self.line(process)
            message = json.loads(line) if line != "open" else {}
            if "event" in message:
                events.append(message)
        return events

    def test_a_websocket_brings_every_event_once_and_in_order(self):
        client = self.follow("websocket")
        runs = self.batch(100)
        self.check_whole(self.until(client, self.finished(runs)), runs)

    def test_an_event_source_brings_every_event_once_and_in_order(self):
        client = self.follow("sse")
        runs = self.batch(100)
        self.check_whole(self.until(client, self.finished(runs)), runs)

    def test_an_event_source_goes_on_by_itself_after_the_server_was_killed(self):
        self.server.flags += ["--listen", f"127.0.0.1:{stable_port()}"]
        self.restart()
        client = self.follow("sse")
        runs = self.batch(50)
        events = self.until(client, self.finished(runs))
        self.restart()  # where the client looks for it
        more = self.batch(50)
        events += self.until(client, self.finished(more))
        self.check_whole(events, runs + more)
