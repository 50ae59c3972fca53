"""Runs that the real Restate carries, with a small real service (service.mjs)."""
import json
import time
import unittest

from provider_case import Mangler, ProviderCase, RestateCase, call, free_port


def demo(handler, more=""):
    return f"""
workflow: {handler}
provider: restate
target: {{service: Demo, handler: {handler}}}
{more}
"""


class Scenarios(RestateCase):
    """The scenarios of the contract for providers, each on the real thing."""

    def test_a_run_is_started_once_under_its_id_and_its_output_is_fetched(self):
        run = self.start(demo("double"), input={"n": 21})
        self.assertEqual((run["provider"], run["status"], run["sub_state"]), ("restate", "running", "running"))
        done = self.run_status(run["id"], "success")
        self.assertEqual(done["foreign"]["output"], {"doubled": 42, "run": run["id"], "starts": 1})
        self.assertEqual((done["sub_state"], done["provider_state"], done["retry_count"]),
                         ("succeeded", "completed", 0))
        rows = self.restate.query(f"select id from sys_invocation where idempotency_key = '{run['id']}'")
        self.assertEqual([row["id"] for row in rows], [done["foreign"]["id"]])

    def test_an_active_one_is_running(self):
        run = self.start(demo("hangs"), input={"works_first": True})["id"]
        seen = self.seen(run, lambda r: r["provider_state"] == "running", "seen to run")
        self.assertEqual((seen["status"], seen["sub_state"], seen["retry_count"]), ("running", "running", 0))

    def test_a_suspended_one_is_waiting_and_each_change_is_an_event(self):
        run = self.start(demo("hangs"), input={"works_first": True})["id"]
        self.seen(run, lambda r: r["provider_state"] == "running", "seen to run")
        self.restate.release(run)
        seen = self.sub_state(run, "waiting")
        self.assertEqual((seen["status"], seen["provider_state"]), ("waiting", "suspended"))
        self.assertEqual(self.sub_states(run)[-2:], ["running", "waiting"])
        self.assertIn("run.paused", self.types(run))

    def test_one_that_sleeps_waits_and_then_succeeds(self):
        run = self.start(demo("sleeps"))["id"]
        self.sub_state(run, "waiting")
        self.restate.release(run)
        self.assertEqual(self.run_status(run, "success")["foreign"]["output"], "slept")
        types = self.types(run)
        self.assertLess(types.index("run.paused"), types.index("run.resumed"))

    def test_retries_are_counted_and_between_them_it_is_backing_off(self):
        run = self.start(demo("retries"))["id"]
        seen = self.sub_state(run, "backing-off")
        self.assertEqual((seen["status"], seen["provider_state"]), ("running", "backing-off"))
        self.assertIn("not yet", seen["foreign"]["last_failure"])
        self.assertIsNotNone(seen["foreign"]["next_retry_at"])
        self.until(lambda: self.ok(self.admin.get("/runs", sub_state="backing-off")).json["items"],
                   lambda rows: [row["id"] for row in rows] == [run], "found")
        self.seen(run, lambda r: r["retry_count"] >= 2, "retried")
        self.restate.release(run)
        done = self.run_status(run, "success")
        self.assertGreaterEqual(done["foreign"]["output"]["attempts"], 3)
        # What Restate itself forgets when it ends stays here.
        self.assertGreaterEqual(done["retry_count"], 2)
        self.assertEqual([r["id"] for r in self.ok(self.admin.get("/runs", retry_count_min=1)).json["items"]], [run])

    def test_an_attempt_after_one_that_failed_is_error_and_may_still_succeed(self):
        run = self.start(demo("retriesSlowly").replace("workflow: retriesSlowly", "workflow: retries-slowly"))["id"]
        seen = self.sub_state(run, "error")
        self.assertEqual((seen["status"], seen["provider_state"], seen["retry_count"]), ("running", "running", 1))
        self.assertIn("not yet", seen["foreign"]["last_failure"])
        self.restate.release(run)
        self.assertEqual(self.run_status(run, "success")["foreign"]["output"], "at last")

    def test_one_that_failed_for_good_has_failed_with_its_own_words(self):
        run = self.start(demo("fails"))["id"]
        ended = self.terminal(run)
        self.assertEqual((ended["status"], ended["sub_state"], ended["provider_state"]), ("failed", "failed", "failed"))
        self.assertEqual(ended["error_code"], "PROVIDER_RUN_FAILED")
        self.assertIn("payload rejected", ended["diagnostic"]["message"])

    def test_a_paused_one_waits_for_an_operator(self):
        run = self.start(demo("never"))["id"]
        seen = self.seen(run, lambda r: r["provider_state"] == "paused", "paused")
        # Restate forgets how often it tried when it pauses, so the count may never have been seen.
        self.assertEqual((seen["status"], seen["sub_state"]), ("waiting", "waiting"))

    def test_one_behind_another_of_its_key_is_waiting(self):
        source = """
workflow: hold
provider: restate
target: {service: Lock, handler: hold, key: "${{ input.key }}"}
"""
        first = self.start(source, input={"key": "a"})["id"]
        self.sub_state(first, "waiting")
        second = self.start(source, input={"key": "a"})["id"]
        seen = self.seen(second, lambda r: r["provider_state"] == "pending", "pending")
        self.assertEqual(seen["sub_state"], "waiting")
        for run in (first, second):
            self.restate.resolve(run, "go on")
            self.assertEqual(self.run_status(run, "success")["foreign"]["output"], "a")

    def test_a_canceled_run_is_canceled_there(self):
        run = self.start(demo("hangs"))["id"]
        there = self.seen(run, lambda r: r["foreign"]["id"], "accepted")["foreign"]["id"]
        ended = self.ok(self.admin.post(f"/runs/{run}/cancel", {"reason": "changed my mind"})).json
        self.assertEqual((ended["status"], ended["sub_state"]), ("canceled", "failed"))
        self.until(lambda: self.restate.query(f"select status, completion_failure from sys_invocation where id = "
                                              f"'{there}'"),
                   lambda rows: rows and rows[0]["status"] == "completed", "canceled at Restate")

    def test_one_that_is_canceled_there_is_canceled_here(self):
        run = self.start(demo("hangs"))["id"]
        there = self.seen(run, lambda r: r["foreign"]["id"], "accepted")["foreign"]["id"]
        self.assertEqual(call(self.restate.admin, "PATCH", f"/invocations/{there}/cancel")[0], 202)
        ended = self.terminal(run)
        self.assertEqual((ended["status"], ended["sub_state"], ended["provider_state"]),
                         ("canceled", "failed", "cancelled"))

    def test_one_that_is_killed_there_is_canceled_here(self):
        run = self.start(demo("hangs"))["id"]
        there = self.seen(run, lambda r: r["foreign"]["id"], "accepted")["foreign"]["id"]
        call(self.restate.admin, "PATCH", f"/invocations/{there}/kill")
        self.assertEqual(self.terminal(run)["provider_state"], "killed")

    def test_the_deadline_ends_the_run_here_and_there(self):
        run = self.start_with_deadline(demo("hangs", "timeout: DEADLINE"), lambda r: r["provider_state"])
        ended = self.terminal(run)
        self.assertEqual((ended["status"], ended["error_code"], ended["sub_state"]),
                         ("timeout", "RUN_TIMEOUT", "failed"))
        there = ended["foreign"]["id"]
        self.until(lambda: self.restate.query(f"select status from sys_invocation where id = '{there}'"),
                   lambda rows: rows and rows[0]["status"] == "completed", "canceled at Restate")

    def test_a_workflow_has_the_runs_id_as_its_key_unless_told(self):
        run = self.start("""
workflow: order
provider: restate
target: {service: Order, handler: run}
approvals: [{id: sign-off}]
""", input={"pawl": f"http://127.0.0.1:{self.server.address[1]}", "key": self.admin.key})["id"]
        self.seen(run, lambda r: r["approvals"], "asking")
        rows = self.restate.query(f"select target_service_key from sys_invocation where target_service_key = '{run}'")
        self.assertTrue(rows)

    def test_a_service_or_handler_that_is_not_there_is_refused_when_it_is_published(self):
        for target, why in (("{service: Nope, handler: x}", "Nope"), ("{service: Demo, handler: nope}", "nope")):
            with self.subTest(target=target):
                answer = self.refused(self.admin.put("/workflows/wrong",
                                                     f"workflow: wrong\nprovider: restate\ntarget: {target}\n"),
                                      422, "INVALID_WORKFLOW")
                self.assertIn(why, answer.json["detail"])

    def test_a_target_that_does_not_fit_its_service_is_refused_with_the_reason(self):
        for target, why in (("{service: Lock, handler: hold}", "key"),
                            ("{service: Demo, handler: double, key: a}", "key")):
            with self.subTest(target=target):
                run = self.start(f"workflow: wrong\nprovider: restate\ntarget: {target}\n")["id"]
                ended = self.terminal(run)
                self.assertEqual((ended["status"], ended["error_code"]), ("failed", "PROVIDER_REFUSED"))
                self.assertIn(why, ended["diagnostic"]["message"])

    def test_many_are_observed_in_batches(self):
        self.publish(demo("double"))
        items = [{"workflow": "double", "input": {"n": n}} for n in range(300)]
        made = self.ok(self.admin.post("/runs/batch", {"items": items})).json["items"]
        for n, item in enumerate(made):
            self.assertEqual(self.run_status(item["id"], "success")["foreign"]["output"]["doubled"], 2 * n)

    def test_filters_find_runs_by_provider_and_its_word(self):
        run = self.start(demo("fails"))["id"]
        self.terminal(run)
        for query in ({"provider": "restate"}, {"provider_state": "failed"},
                      {"provider": "restate", "status": "failed"},
                      {"sub_state": "failed"}):
            rows = self.ok(self.admin.get("/runs", **query)).json["items"]
            self.assertEqual([(r["id"], r["provider"], r["provider_state"], r["retry_count"]) for r in rows],
                             [(run, "restate", "failed", 0)], query)
        for query in ({"provider": "native"}, {"provider_state": "completed"}, {"retry_count_min": 1}):
            self.assertEqual(self.ok(self.admin.get("/runs", **query)).json["items"], [], query)
        self.refused(self.admin.get("/runs", provider="nobody"), 400, "INVALID_REQUEST")
        named = ["--server", "http://127.0.0.1:%d" % self.server.address[1]]
        for server in ([named] if self.server.store else [[], named]):
            for flags, found in ((["--provider", "restate"], [run]),
                                 (["--provider", "restate", "--sub-state", "failed"], [run]),
                                 (["--provider", "native"], []), (["--sub-state", "running"], []),
                                 (["--retries", "1"], [])):
                listed = self.pawl("runs", "--json", *flags, *server)
                rows = [json.loads(line) for line in listed.stdout.splitlines()]
                self.assertEqual([row["id"] for row in rows], found, (flags, listed.stderr))
                self.assertLessEqual({(r["provider_state"], r["retry_count"]) for r in rows}, {("failed", 0)})

    def test_nobody_else_reports_on_it(self):
        run = self.start(demo("hangs"))["id"]
        self.refused(self.admin.post(f"/runs/{run}/status", {"status": "success"}), 409, "NOT_EXTERNAL")

    def test_the_command_line_starts_follows_and_shows_it(self):
        file = self.folder / "double.yaml"
        file.write_text(demo("double"))
        ran = self.pawl("run", str(file), "--input", '{"n": 21}')
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn('"doubled": 42', ran.stdout + ran.stderr)
        run = self.ok(self.admin.get("/runs")).json["items"][0]["id"]
        shown = self.pawl("show", run, "--events").stdout
        self.assertIn(f"restate, as {self.get_run(run)['foreign']['id']}: completed", shown)

    def test_a_retry_is_a_new_run_with_an_invocation_of_its_own(self):
        run = self.start(demo("fails"))["id"]
        first = self.terminal(run)
        again = self.ok(self.admin.post(f"/runs/{run}/retry"), 201).json
        second = self.terminal(again["id"])
        self.assertEqual(second["retry_of"], run)
        self.assertNotEqual(first["foreign"]["id"], second["foreign"]["id"])


class Faults(RestateCase):
    """What is lost, slow or away."""

    def test_pawl_killed_at_any_moment_starts_nothing_twice_and_loses_no_end(self):
        self.publish(demo("double"))
        runs = []
        for n in range(8):
            runs.append(self.create("double", input={"n": n})["id"])
            time.sleep(0.03 * n)
            self.restart()
        for n, run in enumerate(runs):
            self.assertEqual(self.run_status(run, "success")["foreign"]["output"],
                             {"doubled": 2 * n, "run": run, "starts": 1})
        rows = self.restate.query("select idempotency_key from sys_invocation where target_handler_name = 'double'")
        keys = [row["idempotency_key"] for row in rows]
        self.assertEqual([keys.count(run) for run in runs], [1] * len(runs))

    def test_a_run_that_waited_before_pawl_was_killed_is_seen_to_end_after_it(self):
        run = self.start(demo("holds"))["id"]
        self.sub_state(run, "waiting")
        self.server.kill()
        self.restate.resolve(run, "held")
        self.start_server()
        self.assertEqual(self.run_status(run, "success")["foreign"]["output"], "held")

    def test_a_cancel_before_pawl_was_killed_arrives_after_it(self):
        run = self.start(demo("hangs"))["id"]
        there = self.seen(run, lambda r: r["foreign"]["id"], "accepted")["foreign"]["id"]
        self.ok(self.admin.post(f"/runs/{run}/cancel"))
        self.restart()
        self.until(lambda: self.restate.query(f"select status from sys_invocation where id = '{there}'"),
                   lambda rows: rows and rows[0]["status"] == "completed", "canceled at Restate")

    def test_restate_killed_and_started_again_loses_no_run(self):
        waiting = self.start(demo("holds"))["id"]
        self.sub_state(waiting, "waiting")
        self.restate.server.kill()
        meanwhile = self.start(demo("double"), input={"n": 5})["id"]
        seen = self.seen(meanwhile, lambda r: r["foreign"]["last_failure"], "known not to be reached")
        self.assertEqual((seen["status"], seen["provider_state"]), ("running", None))
        self.assertEqual(self.get_run(waiting)["status"], "waiting")
        self.restate.restart_server()
        self.restate.resolve(waiting, "held")
        self.assertEqual(self.run_status(waiting, "success")["foreign"]["output"], "held")
        self.assertEqual(self.run_status(meanwhile, "success")["foreign"]["output"]["doubled"], 10)

    def test_while_restate_is_away_the_deadline_ends_the_run(self):
        self.restate.server.kill()
        self.addCleanup(self.restate.restart_server)
        run = self.start_with_deadline(demo("double", "timeout: DEADLINE"), lambda r: r["foreign"]["last_failure"],
                                       input={"n": 5})
        ended = self.terminal(run)
        self.assertEqual((ended["status"], ended["error_code"]), ("timeout", "RUN_TIMEOUT"))
        self.assertIn("Restate", ended["diagnostic"]["cause"]["message"])

    def test_a_slow_restate_holds_up_nobody_else(self):
        run = self.start_with_deadline(demo("hangs", "timeout: DEADLINE"), lambda r: r["provider_state"])
        self.restate.server.pause()
        try:
            native = self.start("workflow: instant\nsteps: [{id: only, tool: noop}]\n")["id"]
            self.run_status(native, "success")
            self.assertEqual(self.terminal(run)["status"], "timeout")
            # All of this while pawl still waits for an answer of Restate's.
            self.assertNotIn("restate cannot be looked at", self.server.output())
        finally:
            self.restate.server.resume()

    def test_nonsense_changes_nothing_and_is_got_over(self):
        admin = Mangler(self.restate.admin)
        self.addCleanup(admin.close)
        own = f"http://127.0.0.1:{self.restate.admin}"
        self.server.flags = [f"http://127.0.0.1:{admin.port}" if flag == own else flag for flag in self.server.flags]
        self.restart()
        waiting = self.start(demo("holds"))["id"]
        self.sub_state(waiting, "waiting")
        there = self.get_run(waiting)["foreign"]["id"]
        rows = [{"id": there, "status": "completed"}, {"id": there, "status": 7}, {"id": there}, 7,
                {"status": "completed"},
                {"id": there, "status": "completed", "completion_result": "perhaps"}]
        # One of them a look, and good answers between them, or pawl would look less and less often.
        admin.once = [(200, b""), (200, b"<html>"), (200, b"[]"), (200, b'{"rows": 7}'), (500, b"{}"), (404, b""),
                      *((200, json.dumps({"rows": [row]}).encode()) for row in rows)]
        self.until(lambda: len(admin.once), lambda left: left == 0, "all of it said")
        admin.passed_on.clear()
        self.until(admin.passed_on.is_set, bool, "a good answer after it")
        self.assertIsNone(self.get_run(waiting)["finished_at"])
        ending = self.start_with_deadline(demo("hangs", "timeout: DEADLINE"), lambda r: r["sub_state"] == "waiting")
        admin.instead = (200, b"<html>")
        self.assertEqual(self.terminal(ending)["status"], "timeout")
        admin.instead = None
        self.restate.resolve(waiting, "held")
        self.assertEqual(self.run_status(waiting, "success")["foreign"]["output"], "held")

    def test_a_handler_that_never_notices_a_cancel_is_killed(self):
        self.server.flags += ["--restate-kill-after", "1s"]
        self.restart()
        run = self.start(demo("notSoon").replace("workflow: notSoon", "workflow: not-soon"))["id"]
        there = self.sub_state(run, "backing-off")["foreign"]["id"]
        self.ok(self.admin.post(f"/runs/{run}/cancel"))
        rows = self.until(lambda: self.restate.query(f"select status, completion_failure from sys_invocation where id "
                                                     f"= '{there}'"),
                          lambda rows: rows and rows[0]["status"] == "completed", "over at Restate")
        self.assertIn("[409]", rows[0]["completion_failure"])

    def test_one_that_does_not_heed_a_cancel_is_killed_also_by_a_pawl_that_was_started_after_it(self):
        own = list(self.server.flags)
        self.server.flags = [*own, "--restate-kill-after", "1h"]
        self.restart()
        run = self.start(demo("stubborn"))["id"]
        there = self.sub_state(run, "waiting")["foreign"]["id"]
        self.ok(self.admin.post(f"/runs/{run}/cancel"))
        noticed = f"select name from sys_journal where id = '{there}' and name = 'noticed'"
        self.until(lambda: self.restate.query(noticed), bool,
                   "the cancel there")
        self.server.flags = [*own, "--restate-kill-after", "1s"]
        self.restart()
        rows = self.until(lambda: self.restate.query(f"select status, completion_failure from sys_invocation where id "
                                                     f"= '{there}'"),
                          lambda rows: rows and rows[0]["status"] == "completed", "over at Restate")
        self.assertIn("[409] killed", rows[0]["completion_failure"])

    def test_one_that_restate_does_not_know_any_more_has_failed_as_lost_and_not_before_its_time(self):
        self.server.flags += ["--provider-lost-after", "1s"]
        self.restart()
        run = self.start("""
workflow: later
provider: restate
target: {service: Demo, handler: hangs}
""")["id"]
        there = self.seen(run, lambda r: r["provider_state"], "seen")["foreign"]["id"]
        # Stopped and purged by an operator between two looks.
        self.server.process.send_signal(19)
        call(self.restate.admin, "PATCH", f"/invocations/{there}/kill")
        self.until(lambda: call(self.restate.admin, "PATCH", f"/invocations/{there}/purge")[0],
                   lambda s: s in (200, 202, 404),
                   "purged")
        self.server.process.send_signal(18)
        ended = self.terminal(run)
        self.assertEqual((ended["status"], ended["error_code"]), ("failed", "PROVIDER_RUN_LOST"))


class Unset(ProviderCase):
    """Servers that were not told enough, and workflows that say too little."""

    def test_a_run_that_nobody_here_can_carry_is_refused_with_what_to_do(self):
        self.publish(demo("double"))
        answer = self.refused(self.admin.post("/runs", {"workflow": "double"}), 409, "PROVIDER_NOT_CONFIGURED")
        self.assertIn("--restate", answer.json["detail"])

    def test_the_provider_of_a_request_must_be_the_workflows(self):
        self.publish(demo("double"))
        self.publish("workflow: own\nsteps: [{id: a, tool: noop}]\n")
        for workflow, provider in (("double", "native"), ("double", "stepfunctions"), ("own", "restate")):
            answer = self.refused(self.admin.post("/runs", {"workflow": workflow, "provider": provider}), 400,
                                  "INVALID_REQUEST")
            self.assertIn("provider", answer.json["detail"])

    def test_settings_that_are_no_addresses_are_refused(self):
        self.server.stop()
        self.server.flags = ["--restate", f"127.0.0.1:{free_port()}"]
        with self.assertRaises(AssertionError):
            self.server.start()
        self.assertIn("must be an address", self.server.output())


if __name__ == "__main__":
    unittest.main()
