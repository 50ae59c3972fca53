"""A network that is cut, with real interfaces in network namespaces made for it. Nobody is told: packets stop arriving.

Two servers stand in namespaces of their own. Each has one wire to the database, which is cut, and another to those who
ask.
"""
import os
import subprocess
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request

from cluster import Cluster
from servers_case import GATE, PATIENCE_S, PAWL, REMOTE, ServersCase

INSIDE = "PAWL_NETWORK_TEST"
UNANSWERED_S = 3  # after which a connection is given up; 12 where nothing else is said


def command(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


def why_not():
    """Why there can be no namespaces here; nothing when there can."""
    try:
        command("unshare", "--net", "sh", "-c", "ip link set lo up && ip link add wire0 type veth peer name wire1")
    except (OSError, RuntimeError) as error:
        return f"network namespaces are not permitted here: {error}"
    return None


class Wire:
    """From this namespace to that of a process: addresses 10.77.NUMBER.1 here, 10.77.NUMBER.2 there."""

    def __init__(self, number, holder):
        self.here, self.there = f"10.77.{number}.1", f"10.77.{number}.2"
        self.name = f"pawl{number}"
        inside = ("nsenter", "--net", "--target", str(holder.pid))
        # The kernel takes its time over the namespace of the test before, which holds the other end of a wire of this
        # name.
        subprocess.run(("ip", "link", "delete", self.name), capture_output=True)
        command("ip", "link", "add", self.name, "type", "veth", "peer", "name", "far", "netns", str(holder.pid))
        command("ip", "address", "add", self.here + "/24", "dev", self.name)
        command("ip", "link", "set", self.name, "up")
        command(*inside, "ip", "link", "set", "far", "name", f"far{number}")
        command(*inside, "ip", "address", "add", self.there + "/24", "dev", f"far{number}")
        command(*inside, "ip", "link", "set", f"far{number}", "up")

    def cut(self):
        # Behind a silent neighbour packets vanish; an interface that is down would be noticed at once.
        command("ip", "address", "del", self.here + "/24", "dev", self.name)

    def mend(self):
        command("ip", "address", "add", self.here + "/24", "dev", self.name)


class Cuts(ServersCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(settings=["listen_addresses = '*'"], pooler=False)
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__)
        with open(cls.cluster.folder + "/data/pg_hba.conf", "a") as file:
            file.write("host all all 10.77.0.0/16 trust\n")
        cls.cluster.control("reload")

    def serve_apart(self):
        """A server in a namespace of its own."""
        number = 2 * len(self.servers) + 1
        holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self.addCleanup(lambda: (holder.kill(), holder.wait()))
        here = os.stat("/proc/self/ns/net").st_ino
        self.wait_for("the namespace", lambda: os.stat(f"/proc/{holder.pid}/ns/net").st_ino != here)
        to_database, to_askers = Wire(number, holder), Wire(number + 1, holder)
        server = self.make(store=f"postgres://pawl@{to_database.here}:{self.cluster.port}/{self.name}"
                           f"?tcp_user_timeout={UNANSWERED_S * 1000}")
        server.listen = f"{to_askers.there}:7295"
        server.under = ("nsenter", "--net", "--target", str(holder.pid))
        server.start()
        server.to_database = to_database
        return server

    def is_ready(self, server):
        try:
            urllib.request.urlopen(server.url + "/readyz", timeout=2).read()
            return True
        except OSError:
            return False

    def test_a_server_that_is_cut_off_from_its_database_says_so_and_comes_back(self):
        a, b = self.serve_apart(), self.serve_apart()
        self.ask(a, "PUT", "/workflows/gate", GATE.encode())
        runs = [self.ask(a, "POST", "/runs", {"workflow": "gate"})["id"] for _ in range(3)]
        for run in runs:
            self.wait_for("it waits", lambda: self.status(b, run) == "waiting")
        a.to_database.cut()
        answers = []

        def approve():
            try:
                answers.append(self.ask(a, "POST", f"/runs/{runs[0]}/approve", {}))
            except urllib.error.HTTPError as error:
                answers.append(error.code)

        asking = threading.Thread(target=approve)
        asking.start()
        self.wait_for("it says that it is not ready", lambda: not self.is_ready(a))
        self.assertEqual(self.ask(a, "GET", "/healthz")["status"], "ok")
        # The other goes on, with what both have.
        self.assertEqual(self.ask(b, "POST", f"/runs/{runs[1]}/approve", {})["status"], "success")
        self.assertEqual(self.ask(b, "POST", f"/runs/{runs[0]}/reject", {})["status"], "denied")
        a.to_database.mend()
        self.wait_for("it is ready again", lambda: self.is_ready(a))
        asking.join(PATIENCE_S)
        self.assertFalse(asking.is_alive())
        self.assertEqual(answers, [409], "one decision stands, and it was the other's")
        for server in (a, b):
            self.assertEqual([self.status(server, run) for run in runs], ["denied", "success", "waiting"])

    def test_leases_of_a_server_that_nobody_reaches_are_given_to_others(self):
        a, b = self.serve_apart(), self.serve_apart()
        self.ask(a, "PUT", "/workflows/remote", REMOTE.replace("lease: 10m", "lease: 4s").encode())
        run = self.ask(a, "POST", "/runs", {"workflow": "remote"})["id"]
        lease = self.take(a)
        a.to_database.cut()
        again = self.take(b, "v")
        self.assertEqual((again["run_id"], again["step_id"]), (run, lease["step_id"]))
        self.assertNotEqual(again["token"], lease["token"])
        a.to_database.mend()
        held = {"lease_id": again["lease_id"], "token": again["token"]}

        def beat():
            return self.ask(b, "POST", "/leases/heartbeat", {"items": [held]})["items"][0]["ok"]

        self.wait_for("it is ready again", lambda: beat() and self.is_ready(a))
        item = {"lease_id": lease["lease_id"], "token": lease["token"], "output": "late"}
        self.assertEqual(self.ask(a, "POST", "/leases/complete", {"items": [item]})["items"][0]["code"], "LEASE_LOST")
        self.assertTrue(beat())
        item = {**held, "output": "in time"}
        self.assertTrue(self.ask(a, "POST", "/leases/complete", {"items": [item]})["items"][0]["ok"])

    def test_a_commit_whose_answer_never_arrives_happens_once(self):
        a, b = self.serve_apart(), self.serve_apart()
        self.ask(a, "PUT", "/workflows/gate", GATE.encode())
        stop, made = threading.Event(), []

        def create():
            number = 0
            while not stop.is_set() or number < 10:
                number += 1
                made.append(self.ask(a, "POST", "/runs", {"workflow": "gate"}, {"Idempotency-Key": str(number)})["id"])

        creating = threading.Thread(target=create)
        creating.start()
        # Within what TCP mends by itself, and past what pawl waits for.
        for is_long in (False, True, False):
            before = len(made)
            self.wait_for("it works", lambda: len(made) > before)
            a.to_database.cut()
            if is_long:
                self.wait_for("it says that it is not ready", lambda: not self.is_ready(a))
            else:
                time.sleep(0.5)
            a.to_database.mend()
            self.wait_for("it is ready again", lambda: self.is_ready(a))
        stop.set()
        creating.join(PATIENCE_S)
        self.assertFalse(creating.is_alive(), "every request was answered")
        self.assertGreater(len(made), 3)
        self.assertEqual(len(set(made)), len(made))
        self.assertEqual(int(self.cluster.sql("SELECT count(*) FROM pawl.runs", self.name)), len(made))
        url = self.cluster.url(self.name)
        done = subprocess.run([PAWL, "verify", "--store", url], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


del ServersCase
# All of it happens in a namespace of its own, so that no address or route of the machine is touched.
if INSIDE not in os.environ:
    del Cuts
    REASON = why_not()

    class Network(unittest.TestCase):
        @unittest.skipIf(REASON, REASON)
        def test_cuts(self):
            done = subprocess.run(
                ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, "-m",
                 "unittest", "-v",
                 "test_network"], env={**os.environ, INSIDE: "1"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                 text=True)
            print(done.stdout, flush=True)
            self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
