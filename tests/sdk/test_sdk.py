"""The Python SDK against a real server: tools, failures, cancellation, crashes of either side, the feed."""
import datetime
import http.client
import http.server
import io
import json
import pathlib
import signal
import sys
import threading
import time
import unittest
import unittest.mock
import urllib.request
import zipfile
from decimal import Decimal

from sdk_case import SOURCE, TIMEOUT_S, Follower, SdkCase, wait_until  # finds the SDK, so it comes first
import pawl
from ports import stable_port
from pawl.failure_text import MESSAGE_BYTES_MAX, describe, redact
from pawl.leases import Lease, server_now
from pawl.locate import Locator
from pawl.model import parse_duration, print_duration
from pawl.tool import takes_context


class Tools(SdkCase):
    def test_a_decorated_function_completes_steps(self):
        self.publish(["{id: double, tool: test.double, with: {n: '${{ input.n }}'}}",
                      "{id: again, tool: double_it, with: {n: '${{ steps.double.output.n }}'}}"])
        worker = self.worker(concurrency=4)
        seen = []

        @worker.tool("test.double")
        def double(value, context):
            seen.append(context)
            context.cost("0.25")
            return {"n": value["n"] * 2}

        @worker.tool
        def double_it(value):
            return {"n": value["n"] * 2}

        worker.start()
        runs = [self.client.start("work", {"n": n}) for n in range(20)]
        for n, run in enumerate(runs):
            run = self.finish(run)
            self.assertEqual(run.step("again").output, {"n": n * 4})
            self.assertEqual(run.cost_usd, Decimal("0.25"))
        self.assertEqual({context.run_id for context in seen}, {run.id for run in runs})
        self.assertEqual({(c.step_id, c.attempt, c.tool) for c in seen}, {("double", 1, "test.double")})
        self.assertTrue(all(c.idempotency_key == f"{c.run_id}:double" and 600 - TIMEOUT_S < c.remaining() <= 600
                            for c in seen))
        self.assertEqual(worker.stop(), 0)

    def test_a_retryable_failure_is_tried_again(self):
        self.publish(["{id: flaky, tool: test.flaky}"])
        attempts = []

        def flaky(_, context):
            attempts.append((context.attempt, time.monotonic()))
            if context.attempt == 1:
                raise pawl.Retryable("not now", code="SHOP_CLOSED", after="300ms")
            if context.attempt == 2:
                raise KeyError("missing")
            return "done"

        self.start_worker({"test.flaky": flaky})
        run = self.finish(self.client.start("work"))
        self.assertEqual([number for number, _ in attempts], [1, 2, 3])
        self.assertGreater(attempts[1][1] - attempts[0][1], 0.29)
        failures = [event.data["diagnostic"] for event in self.client.events(run.id)
                    if event.type == "step.failed_retryable"]
        self.assertEqual([(f["error_code"], f["message"].splitlines()[0]) for f in failures],
                         [("SHOP_CLOSED", "not now"), ("TOOL_FAILED", "KeyError: 'missing'")])

    def test_a_terminal_failure_fails_the_run_with_its_code(self):
        self.publish(["{id: hopeless, tool: test.hopeless}"])

        def hopeless(_, context):
            context.cost(2)
            raise pawl.Terminal("no such part", code="UNKNOWN_PART")

        self.start_worker({"test.hopeless": hopeless})
        run = self.finish(self.client.start("work"), "failed")
        self.assertEqual((run.error_code, run.step("hopeless").attempts, run.cost_usd), ("UNKNOWN_PART", 1, Decimal(2)))
        self.assertFalse(run.succeeded)

    def test_an_output_that_cannot_be_reported_fails_its_step_alone(self):
        outputs = {"nan": float("nan"), "object": object(), "surrogate": "\ud800", "large": "x" * (1 << 20),
                   "deep": json.loads("[" * 500 + "]" * 500), "fine": {"ü": [1, None, True]}}
        codes = {"large": "TOOL_OUTPUT_TOO_LARGE", "fine": None}
        self.publish(["{id: give, tool: test.give, with: {what: '${{ input.what }}'}}"])
        together = threading.Barrier(len(outputs))

        def give(value):
            together.wait(TIMEOUT_S)  # so that they are reported in one batch
            return outputs[value["what"]]

        self.start_worker({"test.give": give})
        runs = {what: self.client.start("work", {"what": what}) for what in outputs}
        for what, run in runs.items():
            run = self.client.wait(run.id, timeout=TIMEOUT_S)
            self.assertEqual(run.error_code, codes.get(what, "TOOL_INTERNAL_ERROR"), what)
            self.assertEqual(run.step("give").attempts, 1)
        self.assertEqual(self.client.run(runs["fine"].id).step("give").output, outputs["fine"])

    def test_an_item_that_is_not_understood_has_its_own_result(self):
        self.publish(["{id: one, tool: test.one}"])
        run = self.client.start("work")
        lease, = self.client.leases.take(worker="w", tools=["test.one"], max=1, wait=30)
        good = {"lease_id": lease.lease_id, "token": lease.token, "output": 1}
        bad, fine = self.client.leases.complete([{**good, "cost_usd": 5}, good])
        self.assertEqual((bad.ok, bad.code, bad.cancel), (False, "INVALID_REQUEST", False))
        self.assertIn("cost_usd", bad.detail)
        self.assertTrue(fine.ok)
        self.finish(run)

    def test_a_cancel_reaches_a_running_tool_through_the_heartbeat(self):
        self.publish(["{id: long, tool: test.long, lease: 1s}"])
        begun, ended = threading.Event(), threading.Event()

        def long(_, context):
            begun.set()
            try:
                while True:
                    context.canceled.wait(TIMEOUT_S)
                    context.check()
            finally:
                ended.set()

        worker = self.start_worker({"test.long": long})
        run = self.client.start("work")
        self.assertTrue(begun.wait(TIMEOUT_S))
        self.client.cancel(run.id, reason="changed our mind")
        self.assertTrue(ended.wait(TIMEOUT_S))
        run = self.finish(run, "canceled")
        self.assertEqual(worker.stop(), 0)
        self.assertEqual(self.client.run(run.id).seq, run.seq, "what a canceled tool says changes nothing")

    def test_heartbeats_keep_a_lease_that_is_shorter_than_the_work(self):
        for lease_s in (1, 5, 25):
            name = f"test.slow{lease_s}"
            self.publish([f"{{id: slow, tool: {name}, lease: {lease_s}s}}"])
            worker = self.worker()
            worker.add(name, lambda _: time.sleep(2.5 * lease_s))
            beats = [time.monotonic()]
            heartbeat = worker._client.leases.heartbeat

            def beat(*given, **more):
                results = heartbeat(*given, **more)
                beats.append(time.monotonic())
                return results

            worker._client.leases.heartbeat = beat
            worker.start()
            run = self.finish(self.client.start("work"))
            gaps = [later - earlier for earlier, later in zip(beats, [*beats[1:], time.monotonic()])]
            if max(gaps) < lease_s:
                break  # otherwise the machine was too busy for so short a lease
        self.assertGreater(len(beats), 2)
        self.assertEqual(run.step("slow").attempts, 1)


class Crashes(SdkCase):
    def test_a_worker_goes_on_over_a_killed_server_and_nothing_is_lost(self):
        self.publish(["{id: first, tool: test.first, lease: 2s}", "{id: second, tool: test.second, lease: 2s}"])
        gate, begun, done = threading.Event(), [], []

        def first(value, context):
            begun.append(context.run_id)
            gate.wait(TIMEOUT_S)
            done.append(context.run_id)
            return {"of": context.run_id}

        self.start_worker({"test.first": first, "test.second": lambda _: "done"}, concurrency=6)
        self.start_worker({"test.first": first, "test.second": lambda _: "done"}, concurrency=6)
        runs = [self.client.start("work") for _ in range(40)]
        wait_until(lambda: len(begun) >= 12, "all slots are taken")
        self.server.kill()
        gate.set()  # they finish while nobody is there to be told
        wait_until(lambda: len(done) >= 12, "all tools that were running have ended")
        self.server.start()
        for number, run in enumerate(runs):
            if number == 20:
                self.server.kill()  # and once more, in the middle of reports and polls
                self.server.start()
            run = self.finish(run)
            self.assertEqual(run.step("first").output, {"of": run.id})

    def test_a_stopped_worker_loses_its_step_and_its_answer_is_refused(self):
        self.publish(["{id: stall, tool: test.stall, lease: 3s}"])
        script = pathlib.Path(__file__).with_name("stalling_worker.py")
        first = self.python(script, "first", self.folder)
        run = self.client.start("work")
        wait_until((self.folder / "begun-first").exists, "the first worker's tool")
        first.send_signal(signal.SIGSTOP)
        second = self.python(script, "second", self.folder)
        wait_until((self.folder / "begun-second").exists, "the second worker's tool")
        self.assertEqual((self.folder / "begun-second").read_text(), "2")

        # The number in the journal is no credential either.
        stale = str(next(e.data["token"] for e in self.client.events(run.id) if e.data.get("worker") == "first"))
        item = {"lease_id": f"{run.id}:stall", "token": stale}
        before = self.client.run(run.id).seq
        for results in (self.client.leases.heartbeat([item]),
                        self.client.leases.complete([{**item, "output": "stale"}]),
                        self.client.leases.fail([{**item, "error_code": "STALE"}]),
                        self.client.leases.release([item])):
            self.assertEqual([(r.ok, r.code, r.cancel) for r in results], [(False, "LEASE_LOST", True)])
        self.assertEqual(self.client.run(run.id).seq, before, "a stale answer changes nothing")

        first.send_signal(signal.SIGCONT)
        (self.folder / "go").touch()
        run = self.finish(run)
        self.assertEqual(run.step("stall").output, {"by": "second"})
        wait_until((self.folder / "ended-first").exists, "the end of the first worker's tool")
        for process in (first, second):
            process.send_signal(signal.SIGTERM)
        for process in (first, second):
            self.assertEqual(process.communicate(timeout=TIMEOUT_S)[0], "left 0\n")
        self.assertEqual(self.client.run(run.id).seq, run.seq)

    def test_a_signal_that_another_thread_receives_stops_the_worker(self):
        self.publish(["{id: signal, tool: test.quit_by_signal}"])
        process = self.python(pathlib.Path(__file__).with_name("stalling_worker.py"), "only", self.folder)
        run = self.client.start("work")
        self.assertEqual(process.communicate(timeout=TIMEOUT_S)[0], "left 0\n")
        self.assertTrue(self.client.run(run.id).succeeded)

    def test_a_worker_told_to_stop_finishes_and_takes_nothing_more(self):
        self.publish(["{id: stall, tool: test.stall}"])
        process = self.python(pathlib.Path(__file__).with_name("stalling_worker.py"), "only", self.folder)
        run = self.client.start("work")
        wait_until((self.folder / "begun-only").exists, "the tool")
        process.send_signal(signal.SIGTERM)
        wait_until((self.folder / "stopping").exists, "the worker stops")
        self.assertIsNone(process.poll(), "it must not end with a step in hand")
        (self.folder / "go").touch()
        self.assertEqual(process.communicate(timeout=TIMEOUT_S)[0], "left 0\n")
        self.assertEqual(process.returncode, 0)
        self.assertTrue(self.client.run(run.id).succeeded)
        later = self.client.start("work")
        self.assertRaises(TimeoutError, self.client.wait, later.id, 0.5)
        self.assertEqual(self.client.run(later.id).step("stall").attempts, 0)

    def test_a_worker_leaves_what_does_not_end_in_time(self):
        self.publish(["{id: long, tool: test.long, lease: 1s}"])
        begun, never = threading.Event(), threading.Event()
        self.addCleanup(never.set)

        def long(_):
            begun.set()
            never.wait(TIMEOUT_S)

        worker = self.start_worker({"test.long": long}, concurrency=1)
        run = self.client.start("work")
        self.assertTrue(begun.wait(TIMEOUT_S))
        self.assertEqual(worker.stop(grace=0.2), 1)
        self.start_worker({"test.long": lambda _: "by another"})
        self.assertEqual(self.finish(run).step("long").attempts, 2)

    def test_a_worker_gives_back_what_it_was_made_to_leave(self):
        self.client.publish("work", "workflow: work\nretry: {max_attempts: 1}\nsteps:\n  - {id: long, tool: "
                                    "test.long}\n")
        self.set_of_worker(CANCEL_S=TIMEOUT_S, RELEASE_TIMEOUT_S=TIMEOUT_S)
        begun = threading.Event()

        def long(_, context):
            begun.set()
            context.canceled.wait(TIMEOUT_S)
            context.check()

        worker = self.start_worker({"test.long": long}, concurrency=1)
        run = self.client.start("work")
        self.assertTrue(begun.wait(TIMEOUT_S))
        self.assertEqual(worker.stop(grace=0.1), 1)
        step = self.client.run(run.id).step("long")
        self.assertEqual((step.status, step.attempts), ("ready", 0))
        self.start_worker({"test.long": lambda _: "by another"})
        self.assertEqual(self.finish(run).step("long").output, "by another")

    def test_a_tool_that_ends_well_though_it_was_canceled_is_believed(self):
        self.publish(["{id: long, tool: test.long}"])
        self.set_of_worker(CANCEL_S=TIMEOUT_S)
        begun = threading.Event()

        def long(_, context):
            begun.set()
            context.canceled.wait(TIMEOUT_S)
            return "done"

        worker = self.start_worker({"test.long": long}, concurrency=1)
        run = self.client.start("work")
        self.assertTrue(begun.wait(TIMEOUT_S))
        worker.stop(grace=0.1)
        self.assertEqual(self.finish(run).step("long").output, "done")

    def test_a_worker_with_a_bad_key_says_so(self):
        worker = pawl.Worker(pawl.Client(self.server.url, "pawl_0_0"))
        worker.add("test.any", lambda _: None)
        with self.assertRaises(pawl.PawlError) as raised:
            worker.run(signals=False)
        self.assertEqual((raised.exception.status, raised.exception.code), (401, "UNAUTHORIZED"))


class LosingProxy:
    """Between a client and the server: passes every request on, and swallows the answers while `lose` says so."""

    def __init__(self, server, lose):
        self.requests = []
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def pass_on(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                proxy.requests.append((self.command, self.path, self.headers.get("Idempotency-Key")))
                connection = http.client.HTTPConnection(server.listen, timeout=TIMEOUT_S)
                connection.request(self.command, self.path, body,
                                   {k: v for k, v in self.headers.items() if k != "Host"})
                answer = connection.getresponse()
                text = answer.read()
                connection.close()
                if lose(len(proxy.requests)):
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.headers["Content-Type"])
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = pass_on

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()


class Requests(SdkCase):
    def proxy(self, lose):
        proxy = LosingProxy(self.server, lose)
        self.addCleanup(proxy.close)
        return proxy

    def test_a_start_whose_answer_is_lost_makes_one_run(self):
        self.publish(["{id: only, tool: noop}"])
        proxy = self.proxy(lambda number: number <= 2)
        run = self.new_client(proxy.url).start("work", {"n": 1})
        self.assertEqual(len(proxy.requests), 3)
        self.assertEqual(len({key for _, _, key in proxy.requests}), 1)
        self.assertEqual([row.id for row in self.client.runs()], [run.id])

    def test_a_start_with_the_same_key_gives_the_same_run(self):
        self.publish(["{id: only, tool: noop}"])
        runs = {self.client.start("work", {"n": 1}, idempotency_key="order-7").id for _ in range(3)}
        self.assertEqual(len(runs), 1)
        with self.assertRaises(pawl.PawlError) as raised:
            self.client.start("work", {"n": 2}, idempotency_key="order-7")
        self.assertEqual((raised.exception.status, raised.exception.code), (422, "IDEMPOTENCY_KEY_REUSED"))

    def test_what_must_not_be_done_twice_is_sent_once(self):
        self.publish(["{id: gate, tool: approval}", "{id: other, tool: approval}"])
        run = self.client.start("work")
        proxy = self.proxy(lambda number: number == 1)
        with self.assertRaises(pawl.Unreachable) as raised:
            self.new_client(proxy.url).approve(run.id)
        self.assertTrue(raised.exception.sent)
        self.assertEqual(len(proxy.requests), 1)
        self.assertEqual([a.status for a in self.client.run(run.id).approvals], ["approved", "requested"])

    def test_an_approval_by_its_id_may_be_repeated(self):
        self.publish(["{id: gate, tool: approval}", "{id: other, tool: approval}"])
        run = self.client.start("work")
        approval = wait_until(lambda: self.client.approvals(), "the approval")[0]
        self.assertEqual((approval.run_id, approval.step), (run.id, "gate"))
        proxy = self.proxy(lambda number: number == 1)
        self.new_client(proxy.url).approve(run.id, approval_id=approval.id, reason="fine")
        self.assertEqual([a.status for a in self.client.run(run.id).approvals], ["approved", "requested"])
        self.assertEqual(self.client.reject(run.id, reason="enough").status, "denied")

    def test_a_client_waits_for_a_server_that_comes_back(self):
        self.publish(["{id: only, tool: noop}"])
        self.server.kill()
        threading.Timer(0.5, self.server.start).start()
        self.finish(self.client.start("work"))

    def test_a_client_gives_up_when_its_patience_ends(self):
        client = self.new_client(patience=0.3)
        self.server.kill()
        with self.assertRaises(pawl.Unreachable) as raised:
            client.run("run_00000000000000000000000000")
        self.assertEqual((raised.exception.status, raised.exception.code), (0, "UNREACHABLE"))

    def test_errors_say_what_and_where(self):
        for call, status, code in (
            (lambda: self.client.run("run_00000000000000000000000000"), 404, "NOT_FOUND"),
            (lambda: self.client.run("../keys"), 404, "NOT_FOUND"),
            (lambda: self.client.start("nothing"), 422, "UNKNOWN_WORKFLOW"),
            (lambda: self.client.publish("bad", "workflow: bad"), 422, "INVALID_WORKFLOW"),
            (lambda: next(self.client.runs(status="sideways")), 400, "INVALID_REQUEST"),
            (lambda: next(self.client.follow("nowhere")), 400, "INVALID_REQUEST"),
            (lambda: next(self.client.follow("999999999.1")), 410, "FEED_POSITION_GONE"),
        ):
            with self.assertRaises(pawl.PawlError) as raised:
                call()
            self.assertEqual((raised.exception.status, raised.exception.code), (status, code), raised.exception)
        with self.assertRaises(pawl.PawlError) as raised:
            self.client.start("nothing")
        self.assertEqual(raised.exception.where, "/workflow")

    def test_runs_and_events_come_page_by_page(self):
        self.publish(["{id: only, tool: noop}"])
        started = self.client.start_many([{"workflow": "work", "input": {"n": n}} for n in range(450)] +
                                         [{"workflow": "nothing"}])
        self.assertEqual((started[-1].status, started[-1].id, started[-1].code), (422, None, "UNKNOWN_WORKFLOW"))
        made = {item.id for item in started[:-1]}
        self.assertEqual(len(made), 450)
        for run_id in made:
            self.finish(self.client.run(run_id))
        rows = list(self.client.runs(workflow="work", status="success"))
        self.assertEqual(len(rows), 450)
        self.assertEqual({row.id for row in rows}, made)
        before = datetime.datetime(2000, 1, 1, tzinfo=datetime.timezone.utc)
        for none in ({"until": before}, {"error_code": "NOPE"}, {"sub_state": "backing-off"}):
            self.assertEqual(list(self.client.runs(**none)), [], none)
        events = list(self.client.events(rows[0].id))
        self.assertEqual([event.seq for event in events], list(range(1, len(events) + 1)))
        self.assertEqual([event.seq for event in self.client.events(rows[0].id, after=2)], [e.seq for e in events[2:]])
        self.assertEqual(self.client.run(rows[0].id, at=1).status, "created")

    def test_a_failed_run_is_retried_as_a_new_one(self):
        self.publish(["{id: only, tool: noop, retry: {max_attempts: 1}, with: {fail_times: 1}}"])
        run = self.finish(self.client.start("work"), "failed")
        again = self.client.retry(run.id)
        self.assertNotEqual(again.id, run.id)
        self.assertEqual(again.retry_of, run.id)

    def test_an_external_run_is_reported(self):
        self.publish(["{id: only, tool: noop}"])
        run = self.client.start("work", provider="external", budget_usd=Decimal("1.5"), timeout="1h")
        self.assertEqual((run.data["budget_usd"], run.data["timeout"]), ("1.50", "1h"))
        self.assertEqual(self.client.report_status(run.id, "running").status, "running")
        run = self.client.report_status(run.id, "failed", diagnostic={"error_code": "THEIRS", "message": "it broke"})
        self.assertEqual((run.status, run.error_code, run.diagnostic.message), ("failed", "THEIRS", "it broke"))

    def test_wait_ends_soon_after_the_run_and_with_its_time(self):
        self.publish(["{id: gate, tool: approval}"])
        run = self.client.start("work")
        self.assertRaises(TimeoutError, self.client.wait, run.id, 0.3)
        # One request waits until the run has ended: asking again and again would be more.
        client, waited = self.new_client(), []
        transport = client._transport
        with unittest.mock.patch.object(transport, "call", wraps=transport.call) as calls:
            waiting = threading.Thread(target=lambda: waited.append(client.wait(run.id)), daemon=True)
            waiting.start()
            wait_until(lambda: calls.call_count == 1, "the request that waits")
            self.client.approve(run.id)
            waiting.join(TIMEOUT_S)
            self.assertEqual(calls.call_count, 1)
        self.assertEqual([seen.status for seen in waited], ["success"])

    def test_many_threads_share_a_client(self):
        self.publish(["{id: only, tool: noop}"])
        runs, threads = [], []
        for _ in range(16):
            start_ten = lambda: runs.extend([self.client.start("work").id for _ in range(10)])
            threads.append(threading.Thread(target=start_ten))
            threads[-1].start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(runs)), 160)


    def test_a_batch_that_is_sent_again_starts_nothing_twice(self):
        self.publish(["{id: only, tool: noop}"])
        items = [{"workflow": "work", "input": 1}, {"workflow": "work", "input": 2, "idempotency_key": "own"}]
        first = self.client.start_many(items, idempotency_key="batch")
        again = self.client.start_many(items, idempotency_key="batch")
        self.assertEqual([(one.status, one.id) for one in again], [(200, one.id) for one in first])
        other = self.client.start_many(items)
        self.assertEqual([one.status for one in other], [201, 200], "a fresh key, and the item's own")
        proxy = self.proxy(lambda number: number <= 1)
        lost = self.new_client(proxy.url).start_many([{"workflow": "work", "input": 3}])
        self.assertEqual(lost[0].status, 200, "sent again after its answer was lost")
        self.assertEqual(len([run for run in self.client.runs()]), 4)


class Gate(SdkCase):
    """Tools that ask before they do something, and people whom they ask."""

    POLICY = """
policy: shop
rules:
- {id: no, effect: deny, when: operation = 'burn', reason: never}
- {id: ask, effect: needs_approval, when: operation = 'refund', reason: money leaves}
- {id: rest, effect: allow}
"""

    def put_policy(self):
        request = urllib.request.Request(self.server.url + "/policy", method="PUT", data=self.POLICY.encode(),
                                         headers={"Authorization": "Bearer " + self.server.key})
        urllib.request.urlopen(request, timeout=TIMEOUT_S).close()

    def test_an_effect_is_allowed_done_once_and_can_be_shown(self):
        self.put_policy()
        self.publish(["{id: pay, tool: test.pay}"])
        called = []

        def pay(_, context):
            def call():
                called.append(context.idempotency_key)
                return {"order": 7}
            response = context.perform("shop", "charge", "order/7", {"amount": "1.50"}, idempotent=True, call=call,
                                       undo=lambda made: pawl.action_of("shop", "void", f"order/{made['order']}"))
            if context.attempt == 1:
                raise pawl.Retryable("the answer got lost")
            return response

        self.start_worker({"test.pay": pay})
        run = self.finish(self.client.start("work"))
        self.assertEqual((len(called), run.step("pay").attempts, run.step("pay").output), (1, 2, {"order": 7}))
        listed, = self.client.receipts()
        receipt = self.client.receipt(listed.id)
        self.assertEqual((receipt.status, receipt.run_id, receipt.idempotency_key), ("succeeded", run.id, called[0]))
        self.assertEqual((receipt.response, receipt.reversible), ({"order": 7}, True))
        self.assertEqual((listed.id, listed.idempotency_key), (receipt.id, called[0]))
        bundle = self.client.evidence(run.id)
        with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
            self.assertIn("receipts.json", archive.namelist())
        undoing = self.client.reverse(receipt.id)
        self.assertEqual(undoing.undoing, (receipt.id,))

    def test_what_needs_an_approval_goes_on_after_it_and_what_is_denied_does_not(self):
        self.put_policy()
        self.publish(["{id: do, tool: test.do, with: {what: '${{ input }}'}}"])
        done, ended = [], []

        def do(given, context):
            try:
                context.perform("shop", given["what"], "order/7", call=lambda: done.append(given["what"]))
            except Exception:  # whatever a tool catches, this goes through
                ended.append("caught")
            return "done"

        self.start_worker({"test.do": do})
        denied = self.finish(self.client.start("work", "burn"), "denied")
        self.assertEqual(denied.step("do").attempts, 1)
        run = self.client.start("work", "refund")
        wait_until(lambda: self.client.run(run.id).status == "waiting", "the approval")
        self.assertEqual(done, [])
        self.client.approve(run.id)
        self.finish(run)
        self.assertEqual((done, ended), (["refund"], []))

    def test_an_effect_that_certainly_did_not_happen_is_recorded_as_failed(self):
        self.put_policy()
        self.publish(["{id: pay, tool: test.pay}"])

        def refuse():
            raise pawl.NotDone("out of stock", code="OUT_OF_STOCK")

        def pay(_, context):
            return context.perform("shop", "charge", "order/7", call=refuse if context.attempt == 1 else lambda: "paid")

        self.start_worker({"test.pay": pay})
        run = self.finish(self.client.start("work"))
        self.assertEqual(run.step("pay").output, "paid")
        self.assertEqual([receipt["status"] for receipt in run.data["receipts"]], ["failed", "succeeded"])
        self.assertEqual(run.data["receipts"][0]["error_code"], "OUT_OF_STOCK")

    def test_a_question_is_asked_once_and_its_answer_arrives(self):
        self.publish(["{id: ask, tool: test.ask}"])

        def ask(_, context):
            if context.question is None:
                context.ask({"how": "many?"})
            return [context.question, context.answer]

        self.start_worker({"test.ask": ask})
        run = self.client.start("work")
        wait_until(lambda: self.client.run(run.id).status == "waiting", "the question")
        self.client.answer(run.id, "ask", {"n": 3})
        run = self.finish(run)
        self.assertEqual((run.step("ask").output, run.step("ask").attempts), ([{"how": "many?"}, {"n": 3}], 1))

    def test_a_worker_whose_lease_is_over_takes_the_next_one(self):
        self.put_policy()
        self.publish(["{id: do, tool: test.do}"])
        self.start_worker({"test.do": lambda _, context: context.perform("shop", "burn", "x", call=list)},
                          concurrency=1)
        for run in [self.client.start("work") for _ in range(3)]:
            self.finish(run, "denied")


class Exceptions(SdkCase):
    def test_an_exception_is_reported_with_where_it_came_from_and_without_secrets(self):
        self.publish(["{id: break, tool: test.break, retry: {max_attempts: 1}}"])

        def find(part):
            raise LookupError(f"no {part} at postgres://shop:hunter2@db/parts, token=abcdef123456")

        def broken(_, context):
            try:
                find("gear")
            except LookupError as error:
                raise RuntimeError("x" * 5000) from error

        self.start_worker({"test.break": broken})
        run = self.finish(self.client.start("work"), "failed")
        message = next(event.data["diagnostic"]["message"] for event in self.client.events(run.id)
                       if event.type.startswith("step.failed"))
        self.assertLessEqual(len(message), 2000)
        lines = message.splitlines()
        self.assertTrue(lines[0].startswith("RuntimeError: xxx"))
        self.assertRegex(message, r"  at \w+/test_sdk.py:\d+ in broken\n")
        self.assertIn("caused by LookupError: no gear at postgres://[redacted]@db/parts, token=[redacted]", lines)
        self.assertRegex(lines[-1], r"^  at \w+/test_sdk.py:\d+ in find$")
        self.assertNotIn("hunter2", message)
        self.assertNotIn(str(SOURCE), message)

    def test_values_of_secret_variables_are_hidden_wherever_they_stand(self):
        self.assertEqual(redact("open sesame123, please", {"SHOP_PASSWORD": "sesame123", "PATH": "please"}),
                         "open [redacted], please")
        for text in ("Authorization: Bearer abcdefgh12345", "pawl_01m7hm5kk9e00a16va1g5nvbxh_0123456789",
                     "AKIAABCDEFGHIJKLMNOP", "-----BEGIN PRIVATE KEY-----\nMIIE", '{"api_key": "abcd1234"}'):
            self.assertIn("[redacted]", redact(text, {}), text)
        for text in ("KeyError: 'order'", "the token is missing", "https://shop.example/orders?page=2"):
            self.assertEqual(redact(text, {}), text)

    def test_a_secret_where_the_message_is_cut_is_hidden_whole(self):
        for before in range(MESSAGE_BYTES_MAX - 30, MESSAGE_BYTES_MAX + 1):
            text = describe(ValueError("x" * before + " xoxb-0123456789-abcdefghij"))
            self.assertNotIn("xoxb", text, before)

    @unittest.skipIf(sys.version_info < (3, 11), "there are no groups of exceptions")
    def test_a_group_of_exceptions_names_its_first_parts(self):
        def part(number):
            raise ValueError(f"part {number}")

        parts = []
        for number in range(5):
            try:
                part(number)
            except ValueError as error:
                parts.append(error)
        text = describe(ExceptionGroup("several", parts))  # noqa: F821
        self.assertRegex(text, r"^ExceptionGroup: several \(5 sub-exceptions\)\nwith ValueError: part 0\n  at ")
        self.assertIn("with ValueError: part 2", text)
        self.assertNotIn("part 3", text)

    def test_a_deep_traceback_keeps_its_inner_end(self):
        def deep(level):
            if level == 0:
                raise ValueError("bottom")
            deep(level - 1)
        try:
            deep(100)
        except ValueError as error:
            lines = describe(error).splitlines()
        self.assertEqual((lines[0], lines[1]), ("ValueError: bottom", "  ... 90 more calls"))
        self.assertEqual(len(lines), 14)


class TaskCalls(SdkCase):
    def test_a_task_goes_its_way(self):
        self.publish(["{id: work, tool: noop, with: {output: '${{ input }}'}}"], name="doing")
        task = self.client.tasks.create(workflow="doing", input={"a": 1}, title="do it", tags=["x"], timeout="1h",
                                        max_budget_usd="1.50", idempotency_key="once")
        self.assertEqual((task.state, task.title), ("PENDING", "do it"))
        again = self.client.tasks.create(workflow="doing", input={"a": 1}, title="do it", tags=["x"], timeout="1h",
                                         max_budget_usd="1.50", idempotency_key="once")
        self.assertEqual(again.id, task.id)
        self.client.tasks.run(task.id)
        task = self.client.tasks.wait(task.id, timeout=TIMEOUT_S)
        self.assertEqual(task.state, "READY")
        self.client.tasks.reject(task.id, comment="once more")
        self.assertEqual(self.client.tasks.wait(task.id, timeout=TIMEOUT_S).rests, True)
        self.assertEqual([one.id for one in self.client.tasks.list(tag="x")], [task.id])
        types = [event.type for event in self.client.tasks.events(task.id)]
        self.assertEqual(types[0], "task.created")
        self.assertIn("task.rejected", types)
        other = self.client.tasks.create(workflow="doing", input={}, title="other", run=True)
        self.client.tasks.wait(other.id, timeout=TIMEOUT_S)
        self.assertEqual(self.client.tasks.accept(other.id).state, "COMPLETED")
        self.client.tasks.delete(other.id)
        self.assertRaises(pawl.PawlError, self.client.tasks.get, other.id)
        third = self.client.tasks.create(workflow="doing", input={}, title="third")
        self.assertEqual(self.client.tasks.cancel(third.id, reason="no").state, "CANCELLED")

    def test_a_task_is_changed_and_ended_with_all_beneath_it(self):
        self.publish(["{id: work, tool: noop, with: {output: {n: 7}}}"], name="doing")
        task = self.client.tasks.create(workflow="doing", title="t", timeout="1h", max_budget_usd="1.50")
        part = self.client.tasks.create(workflow="doing", title="p", parent_task_id=task.id, max_budget_usd="0.50")
        changed = self.client.tasks.change(task.id, timeout=None, priority="high", tags=["a"])
        self.assertEqual([changed.data[key] for key in ("timeout", "max_budget_usd", "priority", "tags")],
                         [None, "1.50", "high", ["a"]])
        self.assertEqual(self.client.tasks.change(part.id, max_budget_usd="1.25").data["max_budget_usd"], "1.25")
        self.client.tasks.run(part.id)
        self.assertEqual(self.client.tasks.wait(part.id, timeout=TIMEOUT_S).result["output"], {"n": 7})
        second = self.client.tasks.create(workflow="doing", title="p", parent_task_id=task.id, max_budget_usd="0.10")
        self.client.tasks.cancel(task.id, subtasks=True)
        self.assertEqual(self.client.tasks.get(second.id).state, "CANCELLED")
        self.client.tasks.delete(task.id, subtasks=True)
        self.assertRaises(pawl.PawlError, self.client.tasks.get, second.id)


class TheFeed(SdkCase):
    def test_following_over_restarts_sees_every_event_once(self):
        self.publish(["{id: one, tool: noop}", "{id: two, tool: noop}"])
        self.finish(self.client.start("work"))
        from_start, from_now = Follower(self.client, after="0"), Follower(self.client)
        wait_until(lambda: from_start.events, "the first events")
        # Nothing has been heard by the second follower yet: it has no position to go on from.
        wait_until(lambda: self.metric("pawl_feeds_open") == 2, "both follow")
        runs = []
        for restart in (self.server.kill, self.server.stop, self.server.kill):
            restart()
            self.server.start()
            runs += [self.client.start("work") for _ in range(25)]
            for run in runs:
                self.finish(run)
        expected = {(run.id, event.seq) for run in runs for event in self.client.events(run.id)}

        def seen(follower):
            ids = {run.id for run in runs}
            return [(event.run_id, event.seq) for event in list(follower.events) if event.run_id in ids]

        for follower in (from_start, from_now):
            wait_until(lambda: len(seen(follower)) >= len(expected), "all events")
            self.assertEqual(set(seen(follower)), expected)
            self.assertEqual(len(seen(follower)), len(expected), "an event came twice")
        whole = [(event.run_id, event.seq) for event in list(from_start.events)]
        self.assertEqual(len(whole), len(set(whole)))

    def test_following_one_run_shows_no_other(self):
        self.publish(["{id: gate, tool: approval}"])
        run, other = self.client.start("work"), self.client.start("work")
        follower = Follower(self.client, after="0", run_id=run.id)
        self.client.approve(other.id)
        self.client.approve(run.id)
        wait_until(lambda: any(event.type == "run.succeeded" for event in follower.events), "the end")
        self.assertEqual({event.run_id for event in follower.events}, {run.id})


class Finding(SdkCase):
    def test_the_local_server_is_found_in_its_folder_even_after_it_moved(self):
        environ = {"PAWL_DATA": str(self.server.data)}
        locator = Locator(environ=environ)
        self.assertEqual((locator.find().url, locator.find().key), (self.server.url, self.server.key))
        self.assertNotIn(self.server.key, repr(locator.find()))
        self.server.stop()
        self.assertRaises(pawl.Unreachable, locator.find)
        self.server.listen = f"127.0.0.1:{stable_port()}"
        self.server.start()
        self.assertEqual(locator.find().url, self.server.url)

    def test_arguments_go_before_the_environment(self):
        environ = {"PAWL_SERVER": "http://there:1/", "PAWL_KEY": "theirs"}
        self.assertEqual(Locator(environ=environ).find().url, "http://there:1")
        self.assertEqual(Locator("http://here:2", environ=environ).find().key, "theirs")
        self.assertEqual(Locator("http://here:2", "mine", environ=environ).find().key, "mine")

    def test_the_local_key_is_for_the_local_server_only(self):
        environ = {"PAWL_DATA": str(self.server.data)}
        self.assertRaises(ValueError, Locator, "http://elsewhere:1", environ=environ)
        self.assertEqual(Locator(self.server.url + "/", environ=environ).find().key, self.server.key)
        self.assertRaises(ValueError, Locator, "elsewhere:1", "key", environ=environ)


class Pieces(unittest.TestCase):
    def test_signatures_say_how_a_tool_is_called(self):
        def annotated(value, where: pawl.Context = None):
            pass

        async def coroutine(value):
            pass

        self.assertFalse(takes_context(lambda value: None))
        self.assertTrue(takes_context(lambda value, context: None))
        self.assertFalse(takes_context(lambda value, retries=3: None))
        self.assertTrue(takes_context(annotated))
        for wrong in (lambda: None, lambda a, b, c: None, lambda *a: None, lambda a, *, b: None, coroutine):
            self.assertRaises(TypeError, takes_context, wrong)

    def test_a_wrong_clock_is_corrected_by_the_servers(self):
        self.assertEqual(server_now(1000.4, 1000.0), 1000.4)
        self.assertEqual(server_now(1000.4, None), 1000.4)
        self.assertEqual(server_now(5000.0, 1000.0), 1001.0)

    def test_durations_are_read_and_written_as_the_server_does(self):
        for text, seconds in (("250ms", 0.25), ("90s", 90), ("1h30m", 5400), ("2d", 172_800), ("0s", 0)):
            self.assertAlmostEqual(parse_duration(text), seconds)
            self.assertEqual(print_duration(text), text)
        for wrong in ("", "soon", "-1s", "1.5s", "30m1h", "10"):
            self.assertRaises(ValueError, print_duration, wrong)
        self.assertEqual(print_duration(datetime.timedelta(minutes=1.5)), "90000ms")

    def test_a_cost_is_a_sum_of_exact_amounts(self):
        context = pawl.Context(Lease("run:step", 1, "run", "step", "tool", None, 1, "key", 60, 30))
        for amount in ("0.1", 2, Decimal("0.000001")):
            context.cost(amount)
        self.assertEqual(context.cost_usd, Decimal("2.100001"))
        self.assertRaises(TypeError, context.cost, 0.1)
        for wrong in ("-1", "NaN", "1e30"):
            self.assertRaises(ValueError, context.cost, wrong)


class TheExample(SdkCase):
    def test_the_example_works_end_to_end(self):
        example = SOURCE / "examples/python-worker"
        found = {"PAWL_SERVER": "", "PAWL_KEY": "", "PAWL_DATA": str(self.server.data)}
        # As it is, but for the length of its last poll, which it waits for when it ends.
        run = "import runpy, sys, pawl.worker; pawl.worker.POLL_WAIT_S = 0.3; " \
              "runpy.run_path(sys.argv[1], run_name='__main__')"
        worker = self.python("-c", run, example / "worker.py", **found)
        start = self.python(example / "start.py", "gear", "3", **found)
        out = start.communicate(timeout=TIMEOUT_S)[0]
        self.assertEqual(start.returncode, 0, out)
        run = next(self.client.runs())
        run = self.client.run(run.id)
        self.assertEqual(run.step("price").output, {"total": "13.50"})
        self.assertEqual(run.step("charge").attempts, 2)
        self.assertEqual(run.step("charge").output, {"charged": "13.50", "reference": f"{run.id}:charge"})
        self.assertEqual(run.cost_usd, Decimal("0.02"))
        start = self.python(example / "start.py", "spring", "1", **found)
        out = start.communicate(timeout=TIMEOUT_S)[0]
        self.assertEqual(start.returncode, 1, out)
        self.assertIn("UNKNOWN_PART", out)
        worker.send_signal(signal.SIGINT)
        out = worker.communicate(timeout=TIMEOUT_S)[0]
        self.assertEqual(worker.returncode, 0, out)


if __name__ == "__main__":
    unittest.main()
