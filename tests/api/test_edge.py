"""What clients can cost: those without a key almost nothing, those with one no more than their tenant's share."""
import contextlib
import socket
import threading
import unittest

from api_case import GATED, INSTANT, REMOTE, ApiCase, Feed
from test_feed import WebSocket

MIB = 1 << 20
PENDING = 8 * MIB - 1  # of a body of 8 MiB; 33 of them are more than bodies_max
BAD_KEY = "pawl_01kaw3v9m8f2hr4x6q0t7c5ezy_0123456789abcdefghjkmnpqrstvwxyz012345"


def head(key, length, path="/runs"):
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {length}"]
    if key:
        lines.append("Authorization: Bearer " + key)
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class EdgeCase(ApiCase):
    def open(self, *parts):
        """A connection on which this was sent, as far as the server took it."""
        sock = self.server.connect()
        self.addCleanup(sock.close)
        with contextlib.suppress(ConnectionError):
            for part in parts:
                sock.sendall(part)
        return sock

    def status_of(self, sock):
        """Of its answer, and whether the connection ended behind it."""
        text = b""
        with contextlib.suppress(ConnectionError):
            while more := sock.recv(1 << 16):
                text += more
        return int(text.split()[1]) if text else None

    def expect_others_at_ease(self, who, lease):
        """Creating runs, long inputs too, and keeping leases goes on."""
        for size in (10, 1_000_000):
            self.create("remote", who, input="x" * size)
            self.assertTrue(self.report("heartbeat", lease, who)["ok"])
        self.ok(who.get("/runs"))


class UnfinishedBodies(EdgeCase):
    def setUp(self):
        super().setUp()
        self.other = self.make_tenant("other")
        self.publish(REMOTE, self.other)
        self.create("remote", self.other)
        self.held = self.lease_one(self.other)

    def test_without_a_key_or_with_a_bad_one_none_is_read(self):
        for key in (None, BAD_KEY):
            for count, sent in ((33, PENDING), (500, 1000)):
                with self.subTest(key=key, count=count):
                    socks = [self.open(head(key, 8 * MIB), b"x" * sent) for _ in range(count)]
                    self.expect_others_at_ease(self.other, self.held)
                    # A client that goes on sending past its refusal may lose the answer, and is disconnected.
                    self.assertLessEqual({self.status_of(sock) for sock in socks}, {401, None})
                    for sock in socks:
                        sock.close()
        self.assertEqual(self.status_of(self.open(head(None, 8 * MIB))), 401)
        self.assertEqual(self.status_of(self.open(head(None, 10 ** 15))), 401)

    def test_of_one_tenant_leave_room_for_the_others(self):
        greedy = self.make_tenant("greedy")
        for count, sent in ((33, PENDING), (400, 100_000)):
            with self.subTest(count=count):
                socks = [self.open(head(greedy.key, 8 * MIB), b"x" * sent) for _ in range(count)]
                self.expect_others_at_ease(self.other, self.held)
                self.ok(greedy.get("/runs"))
                for sock in socks:
                    sock.close()

    def test_of_a_path_that_takes_none_are_not_read(self):
        for path, status in (("/healthz", 405), ("/nowhere", 404)):
            self.assertEqual(self.status_of(self.open(head(None, 8 * MIB, path))), status)
        get = head(None, 8 * MIB, "/healthz").replace(b"POST", b"GET")
        self.assertEqual(self.status_of(self.open(get)), 400)

    def test_of_signed_callbacks_have_a_small_limit(self):
        self.assertEqual(self.status_of(self.open(head(None, 8 * MIB, "/slack/actions"))), 413)
        slow = [self.open(head(None, 200_000, "/slack/actions"), b"x" * 199_999) for _ in range(200)]
        self.expect_others_at_ease(self.other, self.held)
        whole = self.open(head(None, 3, "/slack/actions").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\nabc"))
        self.assertEqual(self.status_of(whole), 401)
        slow[0].settimeout(10)
        self.assertIsNone(self.status_of(slow[0]), "the oldest made way")

    def test_are_refused_when_the_key_is_revoked_before_they_end(self):
        key = self.ok(self.admin.post("/keys", {"role": "operator"}), 201).json
        body = b'{"workflow": "remote"}'
        self.publish(REMOTE)
        sock = self.open(head(key["key"], len(body)).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), body[:5])
        # An answer on another connection shows that the server has read what was sent before.
        self.ok(self.client(key["key"]).get("/tenant"))
        self.ok(self.admin.delete("/keys/" + key["id"]))
        sock.sendall(body[5:])
        self.assertEqual(self.status_of(sock), 401)
        self.assertEqual(self.ok(self.admin.get("/runs")).json["items"], [])


class SlowClients(EdgeCase):
    flags = ("--connections-max", "64", "--requests-max", "48", "--header-timeout", "10m")

    def test_without_a_key_make_way(self):
        self.publish(REMOTE)
        kept = self.client(self.admin.key)
        self.ok(kept.get("/runs"))
        slow = []
        for number in range(200):
            slow.append(self.open(b"" if number % 2 else b"POST /runs HTTP/1.1\r\nHost: localhost\r\nX-Slow:"))
            if number % 20 == 0:
                self.ok(self.client(self.admin.key).get("/runs"))
                self.create("remote", kept)
        self.assertIsNone(self.status_of(slow[0]))


class OneKey(EdgeCase):
    flags = ("--connections-max", "32", "--requests-max", "24")

    def test_follows_so_many_feeds_and_no_more(self):
        viewer, other = self.as_role("viewer"), self.as_role("viewer")
        feeds = [self.feed(viewer) for _ in range(8)]
        self.assertEqual([feed.status for feed in feeds], [200] * 8)
        over = Feed(self.server, viewer.key)
        self.assertEqual(over.status, 429, over.head)
        self.assertEqual(over.problem()["code"], "TENANT_LIMIT")
        self.assertIn("Retry-After: 1", over.head)
        over.close()
        self.ok(viewer.get("/runs"))
        self.assertEqual(self.feed(other).status, 200)
        feeds[0].close()

        def status():
            feed = Feed(self.server, viewer.key)
            feed.close()
            return feed.status

        self.until(status, lambda seen: seen == 200, "a place is free again")

    def test_waits_so_often_and_no_more(self):
        worker = self.as_role("worker")
        body = b'{"worker": "w", "tools": ["test.work"], "wait": "60s"}'
        polls = [self.open(head(worker.key, len(body), "/leases") + body) for _ in range(16)]
        self.until_metric("pawl_polls_waiting", 16)
        over = worker.post("/leases", {"worker": "w", "tools": ["test.work"], "wait": "60s"})
        self.refused(over, 429, "TENANT_LIMIT")
        self.assertEqual(self.lease(worker), [], "without waiting it can still ask")
        for sock in polls:
            sock.close()


class KeysThatEnd(EdgeCase):
    def watch(self, key, is_over=lambda: False):
        """One of everything that stays open; None when the key was over before that."""
        feed = Feed(self.server, key)
        self.addCleanup(feed.close)
        websocket = WebSocket(self.server, key)
        self.addCleanup(websocket.sock.close)
        if is_over():
            return None
        self.assertEqual((feed.status, websocket.status), (200, 101))
        body = b'{"worker": "w", "tools": ["test.work"], "wait": "60s"}'
        poll = self.open(head(key, len(body), "/leases").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + body)
        self.until(lambda: is_over() or self.metric("pawl_polls_waiting") == 1, bool, "the poll waits")
        return None if is_over() else (feed, websocket, poll)

    def expect_ends(self, feed, websocket, poll):
        words = feed.take_until(b"event: end\n")
        self.assertIsNotNone(words)
        self.assertIn(b'data: {"code":"UNAUTHORIZED","detail":"The key', feed.take_until(b"\n\n"))
        self.assertIsNone(feed.take_until(b"never"), "the stream ends")
        self.assertEqual(websocket.rest(), [])
        self.assertEqual(websocket.close_code, 1008)
        self.assertRegex(websocket.close_reason, "^UNAUTHORIZED: The key")
        self.assertEqual(self.status_of(poll), 401)

    def test_by_revocation_end_what_they_keep_open(self):
        key = self.ok(self.admin.post("/keys", {"role": "operator"}), 201).json
        open_ones = self.watch(key["key"])
        others = self.feed()
        self.ok(self.admin.delete("/keys/" + key["id"]))
        # Nothing else happens that would make the server look.
        self.expect_ends(*open_ones)
        run = self.start(REMOTE)["id"]
        others.until(lambda event: event.get("run_id") == run)
        self.assertEqual(self.get_run(run)["steps"][0]["status"], "ready", "nobody took it for the ended poll")

    def test_by_their_time_end_what_they_keep_open(self):
        def attempt(span):
            key = self.ok(self.admin.post("/keys", {"role": "operator", "expires_in": span}), 201).json
            return self.watch(key["key"], lambda: self.is_past(key["expires_at"]))

        self.expect_ends(*self.growing(attempt, first_ms=2000))

    def test_by_replacement_end_with_the_overlap(self):
        key = self.ok(self.admin.post("/keys", {"role": "viewer"}), 201).json
        feed = self.feed(self.client(key["key"]))
        self.ok(self.admin.post(f"/keys/{key['id']}/rotate", {"overlap": "1s"}), 201)
        self.assertIsNotNone(feed.take_until(b"event: end\n"))


class Positions(EdgeCase):
    def test_are_of_one_tenant_and_say_nothing_of_others(self):
        stranger = self.make_tenant("elsewhere")
        self.publish(GATED)
        first, second = self.feed(stranger).begins_at, self.feed(stranger).begins_at
        self.assertRegex(first, r"^pos_[0-7][0-9a-hjkmnp-tv-z]{25}$")
        self.assertNotEqual(first, second, "the same place reads differently each time")
        mine = self.feed(after="0")
        self.create("gated")
        theirs = mine.until(lambda event: event["event"]["type"] == "run.created")[-1]["position"]
        # Another tenant cannot use it, nor make one.
        for position in (theirs, "pos_" + "0" * 26, first[:-1] + ("0" if first[-1] != "0" else "1")):
            self.refused(stranger.get("/events", after=position), 410, "FEED_POSITION_GONE")
        for position in (first, second):
            self.assertEqual(self.feed(stranger, after=position).status, 200)

    def test_of_earlier_versions_are_refused_with_the_reason(self):
        answer = self.refused(self.admin.get("/events", after="12.3"), 410, "FEED_POSITION_GONE")
        self.assertIn("earlier version", answer.json["detail"])


class Answers(EdgeCase):
    def test_are_kept_by_nobody(self):
        run = self.start(INSTANT)["id"]
        for who in (self.admin, self.client(), self.client(BAD_KEY)):
            for path in ("/runs", f"/runs/{run}", "/keys", "/tenant", "/policy", "/nowhere", f"/runs/{run}/evidence"):
                self.assertEqual(who.get(path).headers["Cache-Control"], "no-store", path)


class HeavyRequests(EdgeCase):
    # Every action is held against every rule, and takes its time.
    RULES = "\n".join(
        f"- {{id: r{n}, effect: deny, "
        f"when: \"EXISTS (SELECT 1 FROM json_each(fields) a, json_each(fields) b, json_each(fields) c "
        f"WHERE a.value || b.value || c.value LIKE '%{n}x%')\"}}" for n in range(10))

    def draft(self):
        action = {"connector": "c", "operation": "o", "target": "t", "idempotency_key": "k",
                  "fields": {f"f{n}": "abcdefgh" for n in range(12)}}
        return {"policy": f"policy: draft\nrules:\n{self.RULES}\n", "actions": [{"action": action}] * 100}

    def test_of_one_tenant_wait_for_each_other_and_nobody_else_does(self):
        other = self.make_tenant("other")
        draft, answers = self.draft(), []

        def ask():
            client = self.client(self.admin.key)
            answers.append(client.post("/policy/test", draft))

        threads = [threading.Thread(target=ask) for _ in range(24)]
        for thread in threads:
            thread.start()
        self.until(lambda: len(answers), bool, "the first of them is answered")
        # Some of the crowd still wait when the other tenant has its answer.
        self.ok(other.post("/policy/test", draft))
        self.ok(other.get("/runs"))
        done_before = [answer.status for answer in list(answers)]
        for thread in threads:
            thread.join()
        statuses = [answer.status for answer in answers]
        self.assertLess(done_before.count(200), statuses.count(200))
        self.assertEqual(set(statuses), {200, 429})
        refusal = next(answer for answer in answers if answer.status == 429)
        self.refused(refusal, 429, "TENANT_LIMIT")
        self.assertEqual(refusal.headers["Retry-After"], "1")


class Requests(EdgeCase):
    def ask(self, text):
        sock = self.open(text.encode())
        sock.shutdown(socket.SHUT_WR)
        return self.status_of(sock)

    def test_with_folded_headers_are_refused(self):
        for gap, status in ((" ", 200), ("\r\n ", 400), ("\r\n\t", 400)):
            self.assertEqual(self.ask("GET /runs HTTP/1.1\r\nHost: localhost\r\n"
                                      f"Authorization: Bearer{gap}{self.admin.key}\r\n\r\n"), status)

    def test_for_other_hosts_are_refused_in_every_version(self):
        self.assertEqual(self.ask("GET http://evil.example/healthz HTTP/1.0\r\n\r\n"), 421)
        self.assertEqual(self.ask("GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"), 400)
        self.assertEqual(self.ask("GET http://localhost/healthz HTTP/1.0\r\n\r\n"), 200)


if __name__ == "__main__":
    unittest.main()
