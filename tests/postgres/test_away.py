"""A database that is idle, away, or comes back; and servers that die beside it."""
import signal
import time
import unittest
import urllib.error
import urllib.request

from servers_case import GATE, LOCAL, PATIENCE_S, ServersCase
from waiting import until

# What operating.md promises of a request while the database is away, and what a busy machine may add to it.
ANSWERED_S, SLACK_S = 5, 15


class Away(ServersCase):
    def tearDown(self):
        try:
            self.cluster.start()
        except RuntimeError:
            pass  # it runs

    def refused(self, server, method, path, body=None):
        """The answer to a request that is refused, and after how long it came."""
        begin = time.monotonic()
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.ask(server, method, path, body)
        return refused.exception, time.monotonic() - begin

    def test_requests_are_answered_503_in_time_and_served_again_when_it_is_back(self):
        server = self.serve()
        self.ask(server, "PUT", "/workflows/local", LOCAL.encode())
        self.cluster.stop("immediate")
        for method, path, body in (("POST", "/runs", {"workflow": "local"}), ("GET", "/runs", None),
                                   ("POST", "/leases", {"worker": "w", "tools": ["test.work"], "wait": "50s"})):
            answer, took = self.refused(server, method, path, body)
            self.assertEqual(answer.code, 503, path)
            self.assertEqual(answer.headers["Retry-After"], "1", path)
            self.assertLess(took, ANSWERED_S + SLACK_S, path)
        for _ in range(3):
            self.assertEqual(self.refused(server, "GET", "/readyz")[0].code, 503)
        figures = self.metrics(server)
        self.assertIn("pawl_http_requests_total", figures, "what needs no database is told while it is away")
        self.assertNotIn("pawl_approvals_waiting", figures)
        self.cluster.start()
        self.wait_for("it is ready", lambda: self.is_ready(server))
        run = self.ask(server, "POST", "/runs", {"workflow": "local"})["id"]
        self.wait_for("the run ends", lambda: self.status(server, run) == "success")
        log = server.log.read_text()
        self.assertNotIn('"level":"error"', log)
        self.assertEqual([line for line in log.splitlines() if "/readyz" in line and '"status":503' in line], [])

    def metrics(self, server):
        request = urllib.request.Request(server.url + "/metrics", headers={"Authorization": "Bearer " + self.key()})
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.read().decode()

    def is_ready(self, server):
        try:
            return self.ask(server, "GET", "/readyz")["status"] == "ready"
        except urllib.error.HTTPError:
            return False

    def test_sigterm_ends_a_server_whose_database_is_down(self):
        server = self.serve("--grace", "4s")
        self.ask(server, "PUT", "/workflows/gate", GATE.encode())
        self.cluster.stop("immediate")
        begin = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(PATIENCE_S), 0)
        self.assertLess(time.monotonic() - begin, 4 + SLACK_S)
        self.assertNotIn('"level":"error"', server.log.read_text())
        self.assertFalse(server.has_started(), "its address is gone")

        # The same while it starts.
        server.launch()
        begin = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        self.assertIn(server.process.wait(PATIENCE_S), (0, -signal.SIGTERM))
        self.assertLess(time.monotonic() - begin, SLACK_S)

    def holders(self):
        rows = self.cluster.sql("SELECT holder, held_until - pawl.now_ms() FROM pawl.followers", self.name).split()
        return [tuple(map(int, row.split("|"))) for row in rows]

    def test_what_a_dead_server_followed_is_taken_over_within_seconds(self):
        first = self.serve()
        held = until(self.holders, lambda rows: rows and all(left > 0 for _, left in rows), "it follows the journal")
        dead = held[0][0]
        other = self.serve()
        self.ask(other, "PUT", "/workflows/local", LOCAL.encode())
        for _, left in self.holders():
            self.assertLessEqual(left, 5000, "so long the others wait for a server that is gone")
        first.kill()
        begin = time.monotonic()
        self.wait_for("another one follows", lambda: all(h not in (0, dead) and left > 0 for h, left in self.holders()))
        self.assertLess(time.monotonic() - begin, 7 + SLACK_S)

    def test_an_idle_server_makes_at_most_one_commit_a_second(self):
        server = self.serve()
        self.ask(server, "PUT", "/workflows/local", LOCAL.encode())
        run = self.ask(server, "POST", "/runs", {"workflow": "local"})["id"]
        self.wait_for("the run ends", lambda: self.status(server, run) == "success")

        def commits():
            return int(self.cluster.sql(
                f"SELECT xact_commit FROM pg_stat_database WHERE datname = '{self.name}'", "postgres"))

        def rate():
            """Over some seconds: it is a rate."""
            before, begin = commits(), time.monotonic()
            time.sleep(5)
            return (commits() - before) / (time.monotonic() - begin)

        # What follows a run (evidence, checkpoints) is done within moments.
        self.wait_for("it is idle", lambda: rate() <= 1.0)


if __name__ == "__main__":
    unittest.main()
