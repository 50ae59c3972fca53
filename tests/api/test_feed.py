"""The live feed: server-sent events and WebSocket, both spoken by hand."""
import base64
import collections
import hashlib
import itertools
import json
import os
import resource
import struct
import threading
import unittest

from api_case import DEEP, GATED, INSTANT, REMOTE, SLACK, TIMEOUT_S, ApiCase, Feed, is_of_test, with_query


class FeedCase(ApiCase):
    # A reader that a test leaves alone for a while is not cut off.
    flags = ("--write-timeout", "10m")

    def check_whole(self, feed_events, runs, who=None):
        """The feed brought each of these runs' streams: all of it, once, in order."""
        streams = collections.defaultdict(list)
        for item in feed_events:
            if "run_id" in item:
                streams[item["run_id"]].append((item["seq"], item["event"]))
        for run in runs:
            self.assertEqual(streams[run], [(i["seq"], i["event"]) for i in self.events(run, who)])

    def finished(self, runs):
        """Says of an event whether it is the last of all these runs."""
        left = set(runs)

        def holds(item):
            if item["event"]["type"] == "run.succeeded":
                left.discard(item["run_id"])
            return not left

        return holds

    def batch(self, count, workflow="instant", who=None, **more):
        items = [{"workflow": workflow, **more}] * count
        return [i["id"] for i in self.ok((who or self.admin).post("/runs/batch", {"items": items})).json["items"]]

    def needs_a_journal_of_limited_length(self):
        if self.server.store:
            self.skipTest("PostgreSQL keeps every frame")


class ServerSentEvents(FeedCase):
    def test_the_feed_is_a_stream_of_events(self):
        feed = self.feed()
        self.assertEqual(feed.status, 200)
        self.assertIn("Content-Type: text/event-stream", feed.head)
        self.assertIn("Cache-Control: no-store", feed.head)

    def test_every_event_of_every_run_comes_once_and_in_order(self):
        self.publish(INSTANT)
        feed = self.feed()
        runs = self.batch(200)
        events = feed.until(self.finished(runs))
        self.check_whole(events, runs)
        self.assertEqual(len({e["position"] for e in events}), len(events))

    def test_json_values_are_json_and_raw_ones_what_was_hashed(self):
        """Also of messages that are so large that one is made for all who follow."""
        self.publish(REMOTE)
        for size in (1, 5000):
            with self.subTest(size=size):
                shown, raw = self.feed(), self.feed(raw="true")
                text = '{"a":' + "[" * 60 + "]" * 60 + ',"n":9007199254740993,"x":"' + "ü" * size + '"}'
                value = json.loads(text)
                run = self.create("remote", input=value)["id"]
                self.assertEqual(shown.next()["event"]["input"], value)
                self.assertEqual(raw.next()["event"]["input"], text)
                self.assertEqual(self.events(run)[0]["event"]["input"], value)

    def test_without_a_position_it_begins_now(self):
        old = self.start(INSTANT)["id"]
        self.run_status(old, "success")
        feed = self.feed()
        new = self.create("instant")["id"]
        events = feed.until(self.finished([new]))
        self.assertEqual({e["run_id"] for e in events}, {new})

    def test_from_zero_it_brings_all_that_is_kept(self):
        runs = [self.start(INSTANT)["id"] for _ in range(3)]
        for run in runs:
            self.run_status(run, "success")
        events = self.feed(after="0").until(self.finished(runs))
        self.check_whole(events, runs)
        self.assertEqual(events[0]["event"]["type"], "tenant.created")

    def test_each_message_carries_its_position_as_its_id(self):
        self.start(INSTANT)
        feed = self.feed(after="0")
        for _ in range(5):
            event = feed.next()
            self.assertEqual(feed.last_id, event["position"])

    def test_after_any_event_the_feed_goes_on_with_the_next(self):
        run = self.start(INSTANT)["id"]
        self.run_status(run, "success")
        whole = self.feed(after="0").until(self.finished([run]))
        for n, event in enumerate(whole[:-1]):
            by_query = self.feed(after=event["position"])
            self.assertEqual(by_query.next(), whole[n + 1])
            by_header = self.feed(headers={"Last-Event-ID": event["position"]})
            self.assertEqual(by_header.next(), whole[n + 1])
            by_query.close()
            by_header.close()

    def test_the_query_goes_before_the_header(self):
        run = self.start(INSTANT)["id"]
        self.run_status(run, "success")
        whole = self.feed(after="0").until(self.finished([run]))
        feed = self.feed(after=whole[0]["position"], headers={"Last-Event-ID": whole[3]["position"]})
        self.assertEqual(feed.next(), whole[1])

    def test_reconnects_under_load_leave_no_gap_and_no_repeat(self):
        self.publish(INSTANT)
        runs = []
        adding = self.client(self.admin.key)

        def add():
            for _ in range(150):
                runs.append(adding.post("/runs", {"workflow": "instant"}).json["id"])

        # What happens to the tenant itself, checkpoints among it, is not shown to everybody.
        viewer = self.as_role("viewer")
        feed = self.feed(viewer)
        thread = threading.Thread(target=add)
        thread.start()
        events, sizes = [], itertools.cycle((3, 1, 2, 30, 7))
        while len(events) < 150 * 6:  # that many events has a run of this workflow
            events += feed.take(min(next(sizes), 150 * 6 - len(events)))
            feed.close()
            feed = self.feed(viewer, after=events[-1]["position"]) if len(events) % 2 else \
                self.feed(viewer, headers={"Last-Event-ID": events[-1]["position"]})
        thread.join()
        last = self.create("instant")["id"]
        self.assertEqual({event["run_id"] for event in feed.until(self.finished([last]))}, {last})
        self.check_whole(events, runs)

    def follow_over_restarts(self, kill):
        self.publish(INSTANT)
        runs, events = [], []
        feed = self.feed()
        for _ in range(4 if kill else 2):
            made = self.batch(20)
            runs += made
            events += feed.take(13)
            self.restart(kill=kill)
            feed.close()
            feed = self.feed(headers={"Last-Event-ID": events[-1]["position"]})
            self.assertEqual(feed.status, 200, feed.head)
        for run in runs:
            self.run_status(run, "success")
        left = {(run, i["seq"]) for run in runs for i in self.events(run)}
        left -= {(e.get("run_id"), e["seq"]) for e in events}
        while left:
            events.append(feed.next())
            left.discard((events[-1].get("run_id"), events[-1]["seq"]))
        self.check_whole(events, runs)

    def test_a_feed_goes_on_over_kills_without_gap_or_repeat(self):
        self.follow_over_restarts(kill=True)

    def test_a_feed_goes_on_over_restarts_without_gap_or_repeat(self):
        self.follow_over_restarts(kill=False)

    def test_a_server_that_stops_says_where_to_resume(self):
        self.publish(INSTANT)
        feed = self.feed()
        runs = self.batch(3)
        feed.until(self.finished(runs))
        self.server.process.terminate()
        feed.rest()
        feed.close()
        self.assertEqual(self.server.process.wait(TIMEOUT_S), 0)
        self.assertEqual(feed.resume_at, feed.last_id)

    def test_a_position_that_is_not_of_this_journal_is_gone(self):
        for position in ("999999.1", "18446744073709551614.1", "pos_01kaw3v9m8f2hr4x6q0t7c5ezy"):
            feed = self.feed(after=position)
            self.assertEqual(feed.status, 410)
            self.assertIn("application/problem+json", feed.head)
            self.assertEqual(feed.problem()["code"], "FEED_POSITION_GONE")

    def test_what_is_not_kept_any_more_is_gone_and_what_is_kept_can_be_had(self):
        self.needs_a_journal_of_limited_length()
        self.publish(REMOTE)
        big = "x" * 1_000_000
        for _ in range(30):
            self.create("remote", input=big)
        self.ok(self.admin.get("/runs"))

        def first():
            feed = self.feed(after="0")
            feed.close()
            return feed.status

        self.until(first, lambda status: status == 410, "the beginning is not kept")
        tail = self.feed()
        run = self.create("remote")["id"]
        event = tail.next()
        self.assertEqual(event["run_id"], run)
        later = self.create("remote")["id"]
        self.assertEqual(self.feed(after=event["position"]).until(lambda e: e["run_id"] == later)[0]["seq"], 2)

    def test_a_malformed_position_is_refused(self):
        for position in ("x", "1", "1.x", "-1.1", "1 .1", "pos_", "pos_01kaw3v9m8f2hr4x6q0t7c5ez",
                         "run_01kaw3v9m8f2hr4x6q0t7c5ezy", "POS_01kaw3v9m8f2hr4x6q0t7c5ezy"):
            with self.subTest(position=position):
                feed = self.feed(after=position)
                self.assertEqual(feed.status, 400, feed.head)
        self.assertEqual(self.feed(afetr="0").status, 400)

    def test_a_feed_of_one_run_brings_only_that_run(self):
        self.publish(INSTANT)
        first = self.start(GATED)["id"]
        feed = self.feed(run=first, after="0")
        for other in self.batch(5):
            self.run_status(other, "success")
        self.run_status(first, "waiting")
        self.ok(self.admin.post(f"/runs/{first}/approve"))
        events = feed.until(self.finished([first]))
        self.assertEqual({e["run_id"] for e in events}, {first})
        self.check_whole(events, [first])

    def test_a_run_that_is_not_there_or_not_ours_has_no_feed(self):
        stranger = self.make_tenant("elsewhere")
        theirs = self.start(REMOTE, stranger)["id"]
        foreign, unknown = (self.admin.get("/events", run=run) for run in (theirs, "run_01kaw3v9m8f2hr4x6q0t7c5ezy"))
        self.refused(foreign, 404, "NOT_FOUND")
        self.assertEqual(foreign.body, unknown.body)
        for run in ("garbage", "", "run_", theirs + "x", "apr_01kaw3v9m8f2hr4x6q0t7c5ezy"):
            answer = self.refused(self.admin.get("/events", run=run), 400, "INVALID_REQUEST")
            self.assertEqual(answer.json["where"], "run")

    def test_what_happens_to_the_tenant_is_for_its_admins(self):
        self.publish(REMOTE)
        admins, viewers = self.feed(), self.feed(self.as_role("viewer"))
        # Making the viewer's key was heard before both feeds were open, or not at all: only what follows counts.
        self.ok(self.admin.put("/tenant/caps", {"max_concurrency": 5}))
        key = self.ok(self.admin.post("/keys", {"role": "viewer", "name": "seen"}), 201).json
        run = self.create("remote")["id"]
        self.ok(self.admin.post(f"/runs/{run}/cancel"))
        self.refused(self.admin.post(f"/runs/{run}/answer", {"step": "only", "answer": 1}), 409, "NOTHING_WAITING")
        self.ok(self.admin.post("/keys", {"role": "viewer", "name": "last"}), 201)
        seen = admins.until(lambda e: e["event"].get("name") == "last")
        types = [e["event"]["type"] for e in seen if "run_id" not in e]
        self.assertEqual(types[-4:], ["tenant.limits_set", "key.created", "transition.refused", "key.created"])
        self.assertNotIn(key["key"].split("_")[2][:32], json.dumps(seen))
        for_viewers = viewers.until(lambda e: e["event"]["type"] == "run.canceled")
        self.assertEqual({e.get("run_id") for e in for_viewers}, {run})
        later = self.create("remote")["id"]
        self.assertEqual(viewers.next().get("run_id"), later)

    def test_a_feed_shows_nothing_of_another_tenant(self):
        stranger = self.make_tenant("elsewhere")
        self.publish(INSTANT)
        self.publish(INSTANT, stranger)
        feed = self.feed(stranger, after="0")
        mine = self.batch(20)
        theirs = self.batch(5, who=stranger)
        for run in mine:
            self.run_status(run, "success")
        theirs += self.batch(1, who=stranger)
        events = feed.until(self.finished(theirs))
        self.assertEqual({e["run_id"] for e in events if "run_id" in e}, set(theirs))
        self.check_whole(events, theirs, stranger)
        text = json.dumps(events)
        for run in mine:
            self.assertNotIn(run, text)

    def test_many_followers_see_the_same(self):
        self.publish(INSTANT)
        feeds = [self.feed() for _ in range(30)]
        runs = self.batch(20)
        seen = [feed.until(self.finished(runs)) for feed in feeds]
        self.assertTrue(all(events == seen[0] for events in seen))
        self.check_whole(seen[0], runs)

    def test_a_slow_reader_is_waited_for(self):
        self.publish(REMOTE)
        slow, quick = self.feed(receive_bytes=4096), self.feed()
        whole = []
        reading = threading.Thread(target=lambda: whole.extend(quick.take(10)))
        reading.start()
        for _ in range(5):
            self.create("remote", input="x" * 1_000_000)
        reading.join()
        self.assertTrue(slow.take(10) == whole)

    def test_a_reader_who_keeps_up_gets_a_long_past_in_one_go(self):
        self.publish(REMOTE)
        for _ in range(7):
            self.batch(100, "remote", input="x" * 20_000)
        for _ in range(5):
            feed = self.feed(after="0")
            created = 0
            while created < 700:
                event = feed.next()
                self.assertIsNotNone(event, f"cut off after {created} runs")
                created += event["event"]["type"] == "run.created"
            feed.close()

    def test_who_falls_behind_what_is_kept_is_told_to_resume_and_then_that_it_is_gone(self):
        self.needs_a_journal_of_limited_length()
        self.publish(REMOTE)
        slow = self.feed(receive_bytes=4096)
        for _ in range(80):
            self.create("remote", input="x" * 1_000_000)
        events = slow.rest()
        self.assertLess(len(events), 160)
        self.assertEqual([e["seq"] for e in events], list(itertools.islice(itertools.cycle((1, 2)), len(events))))
        self.assertEqual(slow.resume_at, slow.last_id)
        self.assertEqual(self.feed(after=slow.resume_at).status, 410)

    SLOW_READERS = 1000 if DEEP else 250

    def test_many_slow_readers_cost_little_and_hold_up_nobody(self):
        self.publish(REMOTE)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
        resource.prlimit(self.server.process.pid, resource.RLIMIT_NOFILE, (min(4096, hard), hard))
        slow = [self.feed(receive_bytes=4096) for _ in range(self.SLOW_READERS)]
        quick = self.feed()
        before = self.server.rss_mib()
        for n in range(40):
            run = self.batch(25, "remote", input=f"{n}" + "x" * 10_000)[-1] if n % 8 else \
                self.create("remote", input="x" * 1_000_000)["id"]
            quick.until(lambda event: event.get("run_id") == run)
        # Each has a queue of 64 KiB and as much that is being written; large messages are there once for all.
        self.assertLess(self.server.rss_mib() - before, (100 + 0.3 * self.SLOW_READERS) * SLACK)
        self.assertEqual({feed.next()["seq"] for feed in slow[::50]}, {1})

    def test_an_idle_feed_says_where_to_resume(self):
        self.publish(REMOTE)
        idle = self.feed()
        self.assertRegex(idle.begins_at, r"^pos_\w{26}$")
        idle.close()
        missed = self.create("remote")["id"]
        for again in (self.feed(headers={"Last-Event-ID": idle.begins_at}), self.feed(after=idle.begins_at)):
            event = again.next()
            self.assertEqual((event["run_id"], event["seq"]), (missed, 1))
        self.restart(kill=True)
        self.assertEqual(self.feed(after=idle.begins_at).next()["run_id"], missed)

    def test_a_feed_on_which_nothing_happens_says_how_far_the_journal_is(self):
        self.publish(REMOTE)
        quiet = self.create("remote")["id"]
        feed = self.feed(run=quiet)
        self.create("remote")
        self.assertRegex(feed.take_until(b"\n\n").decode(), r"^id: pos_\w{26}$")

    def test_a_slow_consumer_holds_up_nobody(self):
        self.publish(INSTANT)
        for _ in range(5):
            self.feed(receive_bytes=4096)
        quick = self.feed()
        for _ in range(3):
            run = self.create("instant", input="x" * 1_000_000)["id"]
            quick.until(self.finished([run]))

    def test_without_a_key_there_is_no_feed(self):
        feed = Feed(self.server, None)
        feed.close()
        self.assertEqual(feed.status, 401)

    def test_a_feed_ends_when_its_key_is_revoked(self):
        self.publish(REMOTE)
        key = self.ok(self.admin.post("/keys", {"role": "viewer"}), 201).json
        feed = self.feed(self.client(key["key"]))
        self.ok(self.admin.delete("/keys/" + key["id"]))
        self.create("remote")
        self.assertEqual(feed.rest(), [])
        self.assertEqual(feed.ended_with["code"], "UNAUTHORIZED")


class WebSocket:
    """RFC 6455, the client's side, as much of it as a feed needs."""

    def __init__(self, server, key, headers=None, websocket_key=None, version="13", **query):
        self.sock = server.connect()
        self.buffer = b""
        self.close_code = None
        self.close_reason = None
        self.pongs = []
        self.positions = []
        nonce = websocket_key or base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET {with_query('/events', query)} HTTP/1.1", "Host: localhost", "Connection: Upgrade",
                 "Upgrade: websocket",
                 f"Sec-WebSocket-Version: {version}", f"Sec-WebSocket-Key: {nonce}", f"Authorization: Bearer {key}",
                 *(f"{name}: {value}" for name, value in (headers or {}).items())]
        self.sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        while b"\r\n\r\n" not in self.buffer:
            self.fill()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        self.head = head.decode()
        self.status = int(self.head.split()[1])
        accept = base64.b64encode(hashlib.sha1((nonce
                                                + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        self.accepted = f"Sec-WebSocket-Accept: {accept}" in self.head

    def fill(self):
        more = self.sock.recv(1 << 16)
        if not more:
            raise EOFError
        self.buffer += more

    def exactly(self, count):
        while len(self.buffer) < count:
            self.fill()
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def send(self, opcode, payload=b"", mask=True, final=True):
        head = bytes([(0x80 if final else 0) | opcode])
        size = len(payload)
        bit = 0x80 if mask else 0
        head += bytes([bit | size]) if size < 126 else bytes([bit | 126]) + struct.pack(">H", size)
        if mask:
            key = os.urandom(4)
            head += key
            payload = bytes(b ^ key[i % 4] for i, b in enumerate(payload))
        self.sock.sendall(head + payload)

    def next(self):
        """The next event; None when the other side has closed."""
        while (message := self.next_message()) is not None:
            if "event" in message and is_of_test(message):  # otherwise it only says how far the journal is
                return message

    def next_message(self):
        while True:
            try:
                first, second = self.exactly(2)
            except EOFError:
                return None
            size = second & 0x7F
            if size >= 126:
                size = int.from_bytes(self.exactly(2 if size == 126 else 8), "big")
            assert not second & 0x80, "a server's frames are not masked"
            payload = self.exactly(size)
            opcode = first & 0x0F
            if opcode == 0x1:
                message = json.loads(payload)
                self.positions.append(message["position"])
                return message
            if opcode == 0x8:
                self.close_code = int.from_bytes(payload[:2], "big")
                self.close_reason = payload[2:].decode()
            elif opcode == 0xA:
                self.pongs.append(payload)
            elif opcode == 0x9:
                self.send(0xA, payload)

    def until(self, holds):
        events = []
        while not events or not holds(events[-1]):
            events.append(self.next())
            assert events[-1] is not None, f"closed: {self.close_code} {self.close_reason}"
        return events

    def rest(self):
        events = []
        while (event := self.next()) is not None:
            events.append(event)
        return events


class WebSockets(FeedCase):
    def open(self, who=None, **more):
        socket = WebSocket(self.server, (who or self.admin).key, **more)
        self.addCleanup(socket.sock.close)
        return socket

    def test_the_handshake_proves_that_it_was_understood(self):
        socket = self.open()
        self.assertEqual(socket.status, 101, socket.head)
        self.assertTrue(socket.accepted, socket.head)

    def test_the_same_events_come_as_in_the_stream(self):
        self.publish(INSTANT)
        socket, feed = self.open(), self.feed()
        runs = self.batch(50)
        events = socket.until(self.finished(runs))
        self.assertEqual(events, feed.until(self.finished(runs)))
        self.check_whole(events, runs)

    def test_first_of_all_it_says_where_it_begins(self):
        self.publish(REMOTE)
        idle = self.open()
        idle.next_message()
        missed = self.create("remote")["id"]
        self.assertEqual(self.open(after=idle.positions[0]).next()["run_id"], missed)

    def test_large_messages_come_whole(self):
        self.publish(REMOTE)
        socket = self.open()
        for size in (10, 100, 40_000, 500_000):
            self.create("remote", input="ü" * size)
            event = socket.until(lambda e: e["event"]["type"] == "run.created")[-1]
            self.assertEqual(event["event"]["input"], "ü" * size)

    def test_after_any_event_it_goes_on_with_the_next_even_over_a_kill(self):
        self.publish(INSTANT)
        runs = self.batch(10)
        for run in runs:
            self.run_status(run, "success")
        events = []
        position = "0"
        holds = self.finished(runs)
        for size in itertools.cycle((1, 4, 9)):
            socket = self.open(after=position)
            for _ in range(size):
                events.append(socket.next())
                if holds(events[-1]):
                    self.check_whole(events, runs)
                    return
            position = events[-1]["position"]
            socket.sock.close()
            if size == 9:
                self.restart(kill=True)

    def test_a_ping_is_answered(self):
        self.publish(INSTANT)
        socket = self.open()
        socket.send(0x9, b"are you there")
        run = self.create("instant")["id"]
        socket.until(self.finished([run]))
        self.assertEqual(socket.pongs, [b"are you there"])

    def test_a_close_is_answered_and_the_connection_ends(self):
        socket = self.open()
        socket.send(0x8, struct.pack(">H", 1000) + b"bye")
        self.assertEqual(socket.rest(), [])
        self.assertEqual(socket.close_code, 1000)

    def test_what_a_client_says_is_not_heard(self):
        self.publish(INSTANT)
        socket = self.open()
        socket.send(0x1, b'{"approve": "everything"}')
        socket.send(0x2, b"\x00\xff")
        run = self.create("instant")["id"]
        self.check_whole(socket.until(self.finished([run])), [run])

    def test_what_breaks_the_protocol_closes_the_connection(self):
        for name, frame, code in (("unmasked", b"\x81\x01a", 1002), ("reserved bits", b"\xf1\x80\0\0\0\0", 1002),
                                  ("unknown opcode", b"\x83\x80\0\0\0\0", 1002),
                                  ("long control frame", b"\x89\xfe\x01\x00\0\0\0\0", 1002),
                                  ("continuation of nothing", b"\x80\x80\0\0\0\0", 1002),
                                  ("huge message", b"\x81\xff" + b"\x7f" + b"\xff" * 7 + b"\0\0\0\0", 1009)):
            with self.subTest(name):
                socket = self.open()
                socket.sock.sendall(frame)
                socket.rest()
                self.assertEqual(socket.close_code, code)
        self.ok(self.client().get("/healthz"))

    def test_a_server_that_stops_says_where_to_resume(self):
        self.publish(INSTANT)
        socket = self.open()
        run = self.create("instant")["id"]
        socket.until(self.finished([run]))
        self.server.process.terminate()
        socket.rest()  # a checkpoint may be among it
        self.assertEqual(socket.close_code, 1012)
        self.assertTrue(socket.close_reason.endswith(" " + socket.positions[-1]), socket.close_reason)
        socket.sock.close()
        self.assertEqual(self.server.process.wait(TIMEOUT_S), 0)

    def test_a_handshake_that_is_wrong_is_refused(self):
        self.assertEqual(self.open(version="8").status, 426)
        self.assertEqual(self.open(websocket_key="short").status, 400)
        self.assertEqual(self.open(headers={"Origin": "https://evil.example"}).status, 403)
        self.assertEqual(self.open(headers={"Origin": "http://localhost"}).status, 101)
        self.assertEqual(self.open(self.client("nonsense")).status, 401)
        self.assertEqual(self.open(after="999999.1").status, 410)

    def test_tenants_are_kept_apart_here_too(self):
        stranger = self.make_tenant("elsewhere")
        self.publish(GATED)
        self.publish(INSTANT, stranger)
        socket = self.open(stranger, after="0")
        self.create("gated")
        run = self.create("instant", stranger)["id"]
        self.assertEqual({e["run_id"] for e in socket.until(self.finished([run])) if "run_id" in e}, {run})


if __name__ == "__main__":
    unittest.main()
