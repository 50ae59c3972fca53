"""Workflows and runs through the API: made, found, read."""
import hashlib
import itertools
import json
import pathlib
import threading
import time
import unittest

from api_case import GATED, INSTANT, REMOTE, ApiCase, retrying


class Workflows(ApiCase):
    def test_a_new_definition_is_a_new_version_and_the_same_content_the_same_version(self):
        first = self.ok(self.admin.put("/workflows/instant", INSTANT), 201)
        self.assertEqual(first.json, {"name": "instant", "version": 1})
        again = self.ok(self.admin.put("/workflows/instant", INSTANT), 200)
        self.assertEqual(again.json, first.json)
        second = self.ok(self.admin.put("/workflows/instant", INSTANT + "# changed\n"), 201)
        self.assertEqual(second.json["version"], 2)

    def test_a_version_can_be_read_back_as_it_was_written(self):
        self.publish(INSTANT)
        self.publish(INSTANT + "# changed\n")
        old = self.ok(self.admin.get("/workflows/instant", version=1)).json
        self.assertEqual(old["source"], INSTANT)
        self.assertEqual(old["digest"], hashlib.sha256(INSTANT.encode()).hexdigest())
        self.assertEqual(self.ok(self.admin.get("/workflows/instant")).json["version"], 2)
        listed = self.ok(self.admin.get("/workflows")).json["items"]
        self.assertEqual([(w["name"], w["version"]) for w in listed], [("instant", 2)])

    def test_json_is_as_good_as_yaml(self):
        source = json.dumps({"workflow": "j", "steps": [{"id": "a", "tool": "noop", "with": {"output": "ü😀"}}]})
        self.ok(self.admin.put("/workflows/j", source), 201)
        run = self.create("j")
        self.assertEqual(self.run_status(run["id"], "success")["steps"][0]["output"], "ü😀")

    def test_an_invalid_definition_is_refused_with_file_line_and_reason(self):
        answer = self.admin.put("/workflows/bad",
                                "workflow: bad\nsteps:\n  - {id: a, tool: noop}\n  - {id: a, tool: noop}\n")
        self.refused(answer, 422, "INVALID_WORKFLOW")
        self.assertRegex(answer.json["detail"], r"^bad:4:\d+: step `a` is already defined in line 3")
        self.refused(self.admin.get("/workflows/bad"), 404, "NOT_FOUND")

    def test_every_error_of_a_definition_is_named(self):
        source = "workflow: bad\nsteps:\n  - {id: a, tool: noop, wiht: {}}\n  - {id: b, tool: noop, timeout: soon}\n"
        detail = self.refused(self.admin.put("/workflows/bad", source), 422, "INVALID_WORKFLOW").json["detail"]
        self.assertEqual([line.split(":")[:2] for line in detail.splitlines()], [["bad", "3"], ["bad", "4"]])

    def test_a_definition_of_another_name_is_refused(self):
        answer = self.refused(self.admin.put("/workflows/other", INSTANT), 422, "INVALID_WORKFLOW")
        self.assertIn("instant", answer.json["detail"])
        self.assertIn("other", answer.json["detail"])

    def test_an_empty_definition_and_an_impossible_name_are_refused(self):
        self.refused(self.admin.put("/workflows/instant", ""), 400, "INVALID_REQUEST")
        self.refused(self.admin.put("/workflows/-x", INSTANT), 400, "INVALID_REQUEST")

    def test_a_version_that_never_was_is_not_found(self):
        self.publish(INSTANT)
        self.refused(self.admin.get("/workflows/instant", version=2), 404, "NOT_FOUND")
        self.refused(self.admin.get("/workflows/instant", version=0), 400, "INVALID_REQUEST")


class Creation(ApiCase):
    def test_a_run_says_all_that_it_was_asked_for(self):
        self.publish(REMOTE)
        answer = self.ok(self.admin.post("/runs", {
            "workflow": "remote", "version": 1, "input": {"a": [1, None, "ü"]}, "workspace": "lab",
            "trigger_type": "webhook", "trigger_ref": "delivery-1", "budget_usd": "2.50", "timeout": "15m"}), 201)
        run = answer.json
        self.assertEqual(answer.headers["Location"], "/runs/" + run["id"])
        self.assertRegex(run["id"], r"^run_[0-9a-z]{26}$")
        wanted = {"workflow": "remote", "version": 1, "input": {"a": [1, None, "ü"]}, "workspace": "lab",
                  "trigger_type": "webhook", "trigger_ref": "delivery-1", "budget_usd": "2.50", "timeout": "15m",
                  "provider": "native", "status": "created", "sub_state": None, "retry_of": None, "error_code": None,
                  "retryable": None, "started_at": None, "finished_at": None, "diagnostic": None, "cost_usd": "0.00"}
        self.assertEqual({key: run[key] for key in wanted}, wanted)
        self.assertTrue(run["created_by"].startswith("key:"))
        self.assertEqual(self.get_run(run["id"]), run)

    def test_a_run_and_its_steps_say_whose_they_are_where_they_stand_and_until_when_they_are_leased(self):
        tenant = self.ok(self.admin.get("/tenant")).json["id"]
        run = self.start("""
workflow: keyed
steps:
  - {id: one, tool: test.work}
  - {id: two, tool: test.work, idempotency_key: "order:${{ steps.one.output.order }}"}
""")
        self.assertEqual(run["tenant_id"], tenant)
        self.assertEqual([(s["index"], s["idempotency_key"], s["lease_expires_at"]) for s in run["steps"]],
                         [(0, run["id"] + ":one", None), (1, None, None)])
        lease = self.lease_one()
        one = self.get_run(run["id"])["steps"][0]
        self.assertEqual((one["lease_expires_at"], one["idempotency_key"]),
                         (lease["expires_at"], lease["idempotency_key"]))
        self.complete(lease, output={"order": 7})
        lease = self.lease_one()
        steps = self.get_run(run["id"])["steps"]
        self.assertEqual([(s["idempotency_key"], s["lease_expires_at"]) for s in steps],
                         [(run["id"] + ":one", None), ("order:7", lease["expires_at"])])
        self.assertEqual(lease["idempotency_key"], "order:7")

    def test_a_list_says_what_the_run_says(self):
        once = REMOTE.replace("lease: 1h", "retry: {max_attempts: 1}")
        runs = [self.start(once)["id"] for _ in range(3)]
        for retryable in (True, False):
            self.report("fail", self.lease_one(), error_code="TOO_BAD", retryable=retryable)
        self.until(lambda: [self.get_run(run)["status"] for run in runs], lambda all: all.count("failed") == 2, "ends")
        listed = self.ok(self.admin.get("/runs")).json["items"]
        self.assertEqual(sorted(str(row["retryable"]) for row in listed), ["False", "None", "True"])
        for row in listed:
            shown = self.get_run(row["id"])
            self.assertEqual(row, {key: shown.get(key, row[key]) for key in row})

    def test_a_run_takes_the_latest_version_unless_it_names_one(self):
        self.publish(INSTANT)
        self.publish(INSTANT + "# changed\n")
        self.assertEqual(self.create("instant")["version"], 2)
        self.assertEqual(self.create("instant", version=1)["version"], 1)

    def test_a_run_keeps_its_version_when_a_newer_one_is_published(self):
        run = self.start(REMOTE)
        self.publish(REMOTE.replace("only", "renamed"))
        self.complete(self.lease_one())
        self.assertEqual([s["id"] for s in self.run_status(run["id"], "success")["steps"]], ["only"])

    def test_a_workflow_or_version_that_is_not_there_is_refused(self):
        self.publish(INSTANT)
        for body in ({"workflow": "nope"}, {"workflow": "instant", "version": 2}):
            self.refused(self.admin.post("/runs", body), 422, "UNKNOWN_WORKFLOW")

    def test_what_is_wrong_in_a_request_is_named_with_its_place(self):
        self.publish(INSTANT)
        for key, value in [("workflow", 7), ("version", 0), ("version", "1"), ("workspace", "a b"), ("timeout", "soon"),
                           ("budget_usd", 2.5), ("budget_usd", "-1"), ("provider", "restate"), ("provider", "x"),
                           ("trigger_type", "retry"), ("trigger_ref", "x" * 513), ("unheard_of", 1)]:
            with self.subTest(key=key, value=value):
                answer = self.refused(self.admin.post("/runs", {"workflow": "instant", key: value}), 400,
                                      "INVALID_REQUEST")
                self.assertEqual(answer.json["where"], "/" + key)
        self.assertEqual(self.ok(self.admin.get("/runs")).json["items"], [])

    def test_the_prefix_api_is_optional(self):
        self.ok(self.admin.put("/api/workflows/instant", INSTANT), 201)
        run = self.ok(self.admin.post("/api/runs", {"workflow": "instant"}), 201).json
        self.assertEqual(self.ok(self.admin.get("/api/runs/" + run["id"])).json["id"], run["id"])
        self.ok(self.client().get("/api/healthz"))

    def test_steps_pass_their_outputs_on(self):
        run = self.start("""
workflow: chain
steps:
  - {id: first, tool: noop, with: {output: {n: "${{ input.n }}"}}}
  - {id: second, tool: noop, with: {output: "got ${{ steps.first.output.n }}"}}
""", input={"n": 42})
        steps = self.run_status(run["id"], "success")["steps"]
        self.assertEqual([s["output"] for s in steps], [{"n": 42}, "got 42"])


class Batches(ApiCase):
    def test_a_bad_item_harms_no_other(self):
        self.publish(INSTANT)
        items = [{"workflow": "instant"}, {"workflow": "instant", "timeout": "soon"}, {"workflow": "nope"},
                 {"workflow": "instant", "input": {"n": 2}}, {"workfow": "instant"}]
        results = self.ok(self.admin.post("/runs/batch", {"items": items})).json["items"]
        self.assertEqual([r["status"] for r in results], [201, 400, 422, 201, 400])
        self.assertEqual(results[1]["where"], "/items/1/timeout")
        for index in (0, 3):
            self.run_status(results[index]["id"], "success")
        self.assertEqual(len(self.ok(self.admin.get("/runs")).json["items"]), 2)

    def test_an_item_is_refused_with_the_code_that_a_single_request_would_get(self):
        results = self.ok(self.admin.post("/runs/batch", {"items": [{"workflow": "nope"}]})).json["items"]
        self.assertEqual(results[0]["code"], "UNKNOWN_WORKFLOW")

    def test_an_item_that_is_no_object_harms_no_other(self):
        self.publish(INSTANT)
        answer = self.ok(self.admin.post("/runs/batch", {"items": [{"workflow": "instant"}, 7]}))
        self.assertEqual([r["status"] for r in answer.json["items"]], [201, 400])

    def test_items_with_the_same_trigger_are_one_run(self):
        self.publish(INSTANT)
        item = {"workflow": "instant", "trigger_type": "cron", "trigger_ref": "2026-01-01"}
        first, second = self.ok(self.admin.post("/runs/batch", {"items": [item, item]})).json["items"]
        self.assertEqual((first["status"], second["status"]), (201, 200))
        self.assertEqual(first["id"], second["id"])

    def test_a_batch_of_many_is_made_whole(self):
        self.publish(INSTANT)
        results = self.ok(self.admin.post("/runs/batch", {"items": [{"workflow": "instant"}] * 2000})).json["items"]
        self.assertEqual({r["status"] for r in results}, {201})
        self.assertEqual(len({r["id"] for r in results}), 2000)

    def test_a_batch_over_its_limit_is_refused_whole(self):
        self.publish(INSTANT)
        answer = self.admin.post("/runs/batch", {"items": [{"workflow": "instant"}] * 10_001})
        self.refused(answer, 400, "INVALID_REQUEST")
        self.assertEqual(self.ok(self.admin.get("/runs")).json["items"], [])


class Lists(ApiCase):
    def listed(self, **query):
        return self.ok(self.admin.get("/runs", **query)).json["items"]

    def ids(self, **query):
        return [item["id"] for item in self.listed(**query)]

    def pages(self, **query):
        """Every item of every page."""
        items, cursor = [], None
        while True:
            page = self.ok(self.admin.get("/runs", **query, **({"cursor": cursor} if cursor else {}))).json
            items += page["items"]
            cursor = page["next_cursor"]
            if not cursor:
                return items

    def batch(self, count, **item):
        items = self.ok(self.admin.post("/runs/batch", {"items": [item] * count})).json["items"]
        return [i["id"] for i in items]

    def test_newest_come_first(self):
        self.publish(REMOTE)
        made = [self.create("remote")["id"] for _ in range(5)]
        self.assertEqual(self.ids(), made[::-1])

    def test_each_filter_shows_what_fits_and_nothing_else(self):
        self.publish(REMOTE)
        self.publish(GATED)
        self.publish(INSTANT)
        plain = self.create("remote")["id"]
        lab = self.create("remote", workspace="lab")["id"]
        waiting = self.run_status(self.create("gated")["id"], "waiting")["id"]
        done = self.run_status(self.create("instant")["id"], "success")["id"]
        canceled = self.create("remote")["id"]
        self.ok(self.admin.post(f"/runs/{canceled}/cancel"))
        failed = self.create("remote", provider="external")["id"]
        self.refused(self.admin.post(f"/runs/{failed}/status", {"status": "success"}), 409, "INVALID_STATE_TRANSITION")
        for query, wanted in [({"status": "created"}, {plain, lab}),
                              ({"status": "waiting"}, {waiting}),
                              ({"status": "success"}, {done}),
                              ({"status": "canceled"}, {canceled}),
                              ({"status": "failed"}, {failed}),
                              ({"status": "running"}, set()),
                              ({"workflow": "remote"}, {plain, lab, canceled, failed}),
                              ({"workflow": "nope"}, set()),
                              ({"workspace": "lab"}, {lab}),
                              ({"workspace": "default", "workflow": "remote", "status": "created"}, {plain}),
                              ({"q": "INVALID_STATE"}, {failed}),
                              ({"q": "gat"}, {waiting}),
                              ({"q": done}, {done}),
                              ({"q": "remote", "status": "canceled"}, {canceled}),
                              ({"vocabulary": "state-machine", "status": "PENDING"}, {plain, lab}),
                              ({"vocabulary": "state-machine", "status": "FAILED"}, {failed}),
                              ({"vocabulary": "runtime", "status": "waiting_approval"}, {waiting})]:
            with self.subTest(query=query):
                self.assertEqual(set(self.ids(**query)), wanted)

    def test_since_is_the_moment_of_creation(self):
        self.publish(REMOTE)
        before = self.create("remote")
        # Times have milliseconds: several may be created in the same one.
        after = self.until(lambda: self.create("remote"), lambda r: r["created_at"] > before["created_at"],
                           "a later one")
        self.assertEqual(self.ids(since=after["created_at"]), [after["id"]])
        everything = self.ids(since=before["created_at"])
        self.assertEqual((everything[0], everything[-1]), (after["id"], before["id"]))
        self.assertEqual(self.ids(since="2999-01-01T00:00:00Z"), [])

    def test_a_filter_that_is_misspelt_or_malformed_is_refused(self):
        for query in ({"stauts": "running"}, {"status": "RUNNING"}, {"status": ""}, {"since": "yesterday"},
                      {"limit": 0}, {"limit": 501}, {"limit": "x"}, {"limit": "-1"}, {"cursor": "x"},
                      {"cursor": "ten_01kaw3v9m8f2hr4x6q0t7c5ezy"}, {"vocabulary": "klingon"}):
            with self.subTest(query=query):
                self.refused(self.admin.get("/runs", **query), 400, "INVALID_REQUEST")
        self.refused(self.admin.get("/runs?limit=1&limit=2"), 400, "INVALID_REQUEST")

    def test_pages_have_no_gap_and_no_repeat_while_runs_are_being_added(self):
        self.publish(REMOTE)
        made = self.batch(200, workflow="remote")
        stop = threading.Event()
        adding = self.client(self.admin.key)

        def add():
            while not stop.is_set():
                adding.post("/runs", {"workflow": "remote"})

        thread = threading.Thread(target=add)
        thread.start()
        try:
            seen = [item["id"] for item in self.pages(limit=7)]
        finally:
            stop.set()
            thread.join()
        self.assertEqual(len(seen), len(set(seen)))
        self.assertEqual(seen, sorted(seen, reverse=True))
        self.assertEqual([id for id in seen if id in set(made)], made[::-1])

    def test_pages_of_a_filtered_list_are_whole_too(self):
        self.publish(REMOTE)
        self.publish(INSTANT)
        made = []
        for _ in range(6):
            made += self.batch(5, workflow="remote", workspace="lab")
            self.batch(3, workflow="remote")
        for query in ({"workspace": "lab"}, {"q": "remote", "workspace": "lab"},
                      {"status": "created", "workspace": "lab"},
                      {"status": "created", "q": "rem", "workspace": "lab"}):
            for limit in (1, 5, 7, 30, 100):
                with self.subTest(query=query, limit=limit):
                    self.assertEqual([i["id"] for i in self.pages(limit=limit, **query)], made[::-1])

    def test_a_last_page_says_that_it_is_the_last(self):
        self.publish(REMOTE)
        self.batch(4, workflow="remote")
        self.assertIsNone(self.ok(self.admin.get("/runs", limit=4)).json["next_cursor"])
        self.assertIsNotNone(self.ok(self.admin.get("/runs", limit=3)).json["next_cursor"])

    def test_a_list_shows_what_the_last_answer_said(self):
        self.publish(GATED)
        for _ in range(20):
            run = self.run_status(self.create("gated")["id"], "waiting")
            self.ok(self.admin.post(f"/runs/{run['id']}/approve"))
            self.assertIn(run["id"], self.ids(status="success", limit=5))

    def test_a_list_and_a_run_use_the_same_word(self):
        run = self.start(retrying(base="1h"))
        other = self.start(REMOTE)
        leases = self.lease_count(2)
        lease = next(lease for lease in leases if lease["run_id"] == run["id"])
        self.report("fail", lease, retryable=True)
        self.assertEqual(self.get_run(run["id"], vocabulary="runtime")["status"], "failed_retryable")
        words = {i["id"]: i["status"] for i in self.listed(vocabulary="runtime")}
        self.assertEqual(words, {run["id"]: "failed_retryable", other["id"]: "running"})
        self.assertEqual(self.ids(vocabulary="runtime", status="failed_retryable"), [run["id"]])
        self.assertEqual(self.ids(vocabulary="runtime", status="running"), [other["id"]])
        self.assertEqual(len(self.ids(status="running")), 2)

    def test_a_list_and_a_run_have_the_same_sub_state(self):
        backing_off = self.start(retrying(base="1h"))["id"]
        self.report("fail", self.lease_one(), retryable=True)
        waiting = self.run_status(self.start(GATED)["id"], "waiting")["id"]
        created = self.start(REMOTE)["id"]
        external = self.create("remote", provider="external")["id"]
        diagnostic = {"error_code": "SORRY", "message": "again?"}
        self.ok(self.admin.post(f"/runs/{external}/status", {"status": "running", "diagnostic": diagnostic}))
        states = {backing_off: "backing-off", waiting: "waiting", created: None, external: "error"}
        for _ in range(2):
            self.assertEqual({i["id"]: i["sub_state"] for i in self.listed()}, states)
            for run, state in states.items():
                self.assertEqual(self.get_run(run)["sub_state"], state)
                if state:
                    self.assertEqual(self.ids(sub_state=state), [run])
            self.restart(kill=True)
        self.assertEqual(self.ids(sub_state="error", status="waiting"), [])
        self.refused(self.admin.get("/runs", sub_state="tired"), 400, "INVALID_REQUEST")
        self.refused(self.admin.get("/runs", sub_state=""), 400, "INVALID_REQUEST")


class Streams(ApiCase):
    def a_run_with_a_past(self):
        run = self.start("""
workflow: past
retry: {max_attempts: 3, base: 1ms, jitter: 0}
steps:
  - {id: work, tool: test.work}
  - {id: gate, tool: approval, prompt: "Größe “ok”? 😀"}
  - {id: end, tool: noop, with: {output: {"z": 1.5, "a": "ü\\n\\u0001", "é": [true, null]}}}
""", input={"b": "ü😀", "a": 1e21})["id"]
        self.report("fail", self.lease_one(), message="first\nnot this time", retryable=True, cost_usd="0.01")
        self.complete(self.lease_one(), output={"ok": "ß"}, cost_usd="0.02")
        self.run_status(run, "waiting")
        self.ok(self.admin.post(f"/runs/{run}/approve", {"reason": "looks “fine”"}))
        self.run_status(run, "success")
        return run

    def test_every_event_is_chained_to_the_one_before(self):
        run = self.a_run_with_a_past()
        tenant = self.ok(self.admin.get("/tenant")).json["id"]
        items = self.ok(self.admin.get(f"/runs/{run}/events", raw="true")).json["items"]
        self.assertEqual([i["seq"] for i in items], list(range(1, len(items) + 1)))
        head = hashlib.sha256(f"pawl stream v1\n{tenant}\n{run}".encode()).digest()
        for item in items:
            text = json.dumps(item["event"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            head = hashlib.sha256(head + text.encode()).digest()
            self.assertEqual(item["hash"], head.hex(), item)

    def test_json_values_of_events_are_json(self):
        run = self.a_run_with_a_past()
        shown, raw = self.events(run), self.ok(self.admin.get(f"/runs/{run}/events", raw="true")).json["items"]
        self.assertEqual(shown[0]["event"]["input"], {"b": "ü😀", "a": 1e21})
        self.assertEqual(raw[0]["event"]["input"], '{"a":1e+21,"b":"ü😀"}')
        outputs = [item["event"]["output"] for item in shown if "output" in item["event"]]
        self.assertEqual(outputs, [{"ok": "ß"}, {"z": 1.5, "a": "ü\n\x01", "é": [True, None]}])
        self.assertEqual([item["hash"] for item in shown], [item["hash"] for item in raw])
        self.refused(self.admin.get(f"/runs/{run}/events", raw="yes"), 400, "INVALID_REQUEST")

    def test_a_stream_can_be_read_in_pieces(self):
        run = self.a_run_with_a_past()
        whole = self.events(run)
        pieces, after = [], 0
        while True:
            page = self.ok(self.admin.get(f"/runs/{run}/events", after=after, limit=3)).json
            self.assertLessEqual(len(page["items"]), 3)
            pieces += page["items"]
            if not page["next_cursor"]:
                break
            after = page["next_cursor"]
        self.assertEqual(pieces, whole)
        self.assertEqual(self.ok(self.admin.get(f"/runs/{run}/events", after=len(whole))).json["items"], [])
        self.assertEqual(self.ok(self.admin.get(f"/runs/{run}/events", at=4)).json["items"], whole[:4])

    def test_a_run_can_be_seen_as_it_was_after_every_event(self):
        run = self.a_run_with_a_past()
        events = self.events(run)
        statuses = []
        for item in events:
            then = self.get_run(run, at=item["seq"])
            self.assertEqual(then["seq"], item["seq"])
            self.assertEqual(then.pop("head"), item["hash"])
            statuses.append(then["status"])
        self.assertEqual([s for s, _ in itertools.groupby(statuses)],
                         ["created", "running", "waiting", "running", "success"])
        self.assertEqual(then, self.get_run(run))

    def test_the_past_does_not_change_when_the_run_goes_on(self):
        run = self.start(GATED)["id"]
        waiting = self.run_status(run, "waiting")
        self.ok(self.admin.post(f"/runs/{run}/approve"))
        then = self.get_run(run, at=waiting["seq"])
        del then["head"]
        self.assertEqual(then, waiting)

    def test_a_moment_that_never_was_is_refused(self):
        run = self.start(GATED)["id"]
        self.run_status(run, "waiting")
        last = len(self.events(run))
        for at in (0, last + 1, -1, "x", 2**64):
            with self.subTest(at=at):
                self.refused(self.admin.get(f"/runs/{run}", at=at), 400, "INVALID_REQUEST")

    def test_streams_and_the_past_survive_a_kill(self):
        run = self.a_run_with_a_past()

        def known():
            now = self.get_run(run)
            now.pop("bundle", None)  # stored some time after the end
            return self.events(run), now, self.get_run(run, at=5)

        before = known()
        self.restart(kill=True)
        self.assertEqual(known(), before)

    def test_an_invalid_report_is_audited_in_the_stream(self):
        run = self.start(REMOTE)["id"]
        self.refused(self.admin.post(f"/runs/{run}/approve"), 409, "NOTHING_WAITING")
        last = self.events(run)[-1]["event"]
        self.assertEqual((last["type"], last["requested"], last["code"]),
                         ("transition.refused", "approve", "NOTHING_WAITING"))


class Vocabularies(ApiCase):
    WORDS = {"created": ("PENDING", "queued"), "running": ("RUNNING", "running"),
             "waiting": ("WAITING_APPROVAL", "waiting_approval"), "success": ("SUCCEEDED", "succeeded"),
             "failed": ("FAILED", "failed_terminal"), "denied": ("FAILED", "failed_terminal"),
             "timeout": ("FAILED", "failed_terminal"), "canceled": ("CANCELED", "canceled")}

    def check(self, run, status):
        machine, runtime = self.WORDS[status]
        for words, wanted in (("contract-v1", status), ("state-machine", machine), ("runtime", runtime)):
            self.assertEqual(self.get_run(run, vocabulary=words)["status"], wanted)
            listed = self.ok(self.admin.get("/runs", vocabulary=words)).json["items"]
            self.assertEqual([i["status"] for i in listed if i["id"] == run], [wanted])
            found = self.ok(self.admin.get("/runs", vocabulary=words, status=wanted)).json["items"]
            self.assertIn(run, [i["id"] for i in found])
        self.assertEqual(self.get_run(run)["status"], status)

    def test_every_status_has_its_words(self):
        self.publish(REMOTE)
        paths = {"created": [], "running": ["running"], "waiting": ["running", "waiting"],
                 **{end: ["running", end] for end in ("success", "failed", "denied", "timeout", "canceled")}}
        for status, path in paths.items():
            with self.subTest(status=status):
                run = self.create("remote", provider="external")["id"]
                for word in path:
                    body = {"status": word}
                    if word in ("failed", "denied", "timeout"):
                        body["diagnostic"] = {"error_code": "X", "message": "y"}
                    self.ok(self.admin.post(f"/runs/{run}/status", body))
                self.check(run, status)

    def test_every_answer_with_a_run_takes_a_vocabulary(self):
        self.publish(GATED)
        self.publish(REMOTE)
        words = {"vocabulary": "state-machine"}
        run = self.ok(self.admin.post("/runs", {"workflow": "gated"}, **words), 201).json
        self.assertEqual(run["status"], "PENDING")
        waiting = self.run_status(run["id"], "WAITING_APPROVAL", **words)
        self.assertEqual(waiting["steps"][0]["status"], "WAITING_APPROVAL")
        self.assertEqual(self.get_run(run["id"], at=1, **words)["status"], "PENDING")
        done = self.ok(self.admin.post(f"/runs/{run['id']}/approve", **words)).json
        self.assertEqual((done["status"], done["steps"][0]["status"]), ("SUCCEEDED", "SUCCEEDED"))
        other = self.create("remote")["id"]
        self.assertEqual(self.ok(self.admin.post(f"/runs/{other}/cancel", **words)).json["status"], "CANCELED")
        self.assertEqual(self.ok(self.admin.post(f"/runs/{other}/retry", **words), 201).json["status"], "PENDING")
        item = {"workflow": "gated", "idempotency_key": "one"}
        for wanted in ("PENDING", "WAITING_APPROVAL"):
            made = self.ok(self.admin.post("/runs/batch", {"items": [item]}, **words)).json["items"][0]
            self.assertEqual(made["run_status"], wanted)
            self.run_status(made["id"], "waiting")
        self.ok(self.admin.get(f"/runs/{other}/events", **words))
        self.ok(self.admin.get("/approvals", **words))

    def test_a_step_that_backs_off_has_its_words(self):
        run = self.start(retrying(base="1h"))["id"]
        self.report("fail", self.lease_one(), retryable=True)
        self.assertEqual([(self.get_run(run, vocabulary=v)["status"], self.step(run, "only", vocabulary=v)["status"])
                          for v in ("contract-v1", "state-machine", "runtime")],
                         [("running", "failed_retryable"), ("RUNNING", "PENDING"),
                          ("failed_retryable", "failed_retryable")])
        self.assertEqual(self.get_run(run)["sub_state"], "backing-off")

    def test_a_batch_that_is_repeated_has_the_words_of_what_it_finds(self):
        self.publish(retrying(base="1h"))
        items = {"items": [{"workflow": "retrying", "idempotency_key": "one"}]}
        self.ok(self.admin.post("/runs/batch", items))
        self.report("fail", self.lease_one(), retryable=True)
        self.assertEqual([self.ok(self.admin.post("/runs/batch", items, vocabulary=v)).json["items"][0]["run_status"]
                          for v in ("contract-v1", "state-machine", "runtime")],
                         ["running", "RUNNING", "failed_retryable"])
        self.refused(self.admin.post("/runs/batch", items, vocabulary="klingon"), 400, "INVALID_REQUEST")

    def test_an_unknown_vocabulary_is_refused_before_anything_is_done(self):
        self.publish(GATED)
        run = self.create("gated")["id"]
        self.run_status(run, "waiting")
        odd = {"vocabulary": "klingon"}
        for answer in (self.admin.get("/runs", **odd), self.admin.get(f"/runs/{run}", **odd),
                       self.admin.get(f"/runs/{run}", at=1, **odd),
                       self.admin.post("/runs", {"workflow": "gated"}, **odd),
                       self.admin.post(f"/runs/{run}/approve", **odd), self.admin.post(f"/runs/{run}/reject", **odd),
                       self.admin.post(f"/runs/{run}/cancel", **odd), self.admin.post(f"/runs/{run}/retry", **odd),
                       self.admin.post(f"/runs/{run}/status", {"status": "running"}, **odd)):
            self.refused(answer, 400, "INVALID_REQUEST")
        self.assertEqual(self.get_run(run)["status"], "waiting")
        self.assertEqual(len(self.ok(self.admin.get("/runs")).json["items"]), 1)

    def test_an_unknown_vocabulary_is_refused_where_it_changes_nothing(self):
        run = self.start(GATED)["id"]
        for path in (f"/runs/{run}/events", "/approvals"):
            with self.subTest(path=path):
                self.refused(self.admin.get(path, vocabulary="klingon"), 400, "INVALID_REQUEST")

    def test_an_answer_in_an_unknown_vocabulary_is_refused_and_the_server_lives(self):
        run = self.start(REMOTE)["id"]
        try:
            answer = self.admin.post(f"/runs/{run}/answer", {"step": "only", "answer": 1}, vocabulary="klingon")
        except ConnectionError:
            answer = None
        self.assertTrue(answer and answer.status == 400 and self.server.is_alive(), answer)



class WaitingForTheEnd(ApiCase):
    """`wait` on POST /runs and GET /runs/{id}."""

    def begin(self, ask):
        """Asks on a thread of its own; gives a function that waits for the answer and how long it took."""
        answers, begun = [], time.monotonic()
        thread = threading.Thread(target=lambda: answers.append((ask(), time.monotonic() - begun)))
        thread.start()
        self.addCleanup(thread.join)

        def end():
            thread.join()
            return answers[0]
        return end

    def until_waiting(self):
        """Until the server has a request that waits: for the first of them it makes a thread."""
        tasks = pathlib.Path(f"/proc/{self.server.process.pid}/task")
        self.until(lambda: [(task / "comm").read_text().strip() for task in tasks.iterdir()],
                   lambda names: "pawl-waits" in names, "a request waits")

    def test_a_run_that_is_created_with_wait_is_answered_when_it_has_ended(self):
        self.publish(INSTANT)
        answer = self.ok(self.admin.post("/runs", {"workflow": "instant"}, wait="60s"), 201)
        self.assertEqual(answer.json["status"], "success")
        self.assertEqual(answer.json["steps"][0]["output"], {"n": 1})
        self.assertEqual(answer.headers["Location"], "/runs/" + answer.json["id"])

    def test_a_repeat_with_wait_waits_for_the_run_of_the_first_request(self):
        self.publish(INSTANT)
        key = {"Idempotency-Key": "k"}
        first = self.ok(self.admin.post("/runs", {"workflow": "instant"}, headers=key), 201).json
        again = self.ok(self.admin.post("/runs", {"workflow": "instant"}, headers=key, wait="60s"), 200)
        self.assertEqual((again.json["id"], again.json["status"]), (first["id"], "success"))
        self.assertEqual(again.headers["Idempotency-Replayed"], "true")

    def test_those_who_wait_are_told_of_the_end_at_once_each_of_the_own_run(self):
        runs = [self.start(REMOTE)["id"] for _ in range(2)]
        ends = {run: [self.begin(lambda run=run, who=self.client(self.admin.key): who.get(f"/runs/{run}", wait="60s"))
                      for _ in range(3)] for run in runs}
        self.until_waiting()
        for lease in self.lease_count(2):
            self.complete(lease, output=lease["run_id"])
        for run in runs:
            for end in ends[run]:
                answer, took = end()
                self.assertEqual(self.ok(answer).json["steps"][0]["output"], run)
                self.assertLess(took, 30)

    def test_when_the_time_is_up_the_run_is_answered_as_it_is(self):
        run = self.start(REMOTE)["id"]
        for wait in ("1ms", "300ms", "0s"):
            self.assertEqual(self.ok(self.admin.get(f"/runs/{run}", wait=wait)).json["status"], "created")
        made = self.ok(self.admin.post("/runs", {"workflow": "remote"}, wait="1ms"), 201).json
        self.assertEqual(made["status"], "created")

    def test_a_server_that_stops_answers_those_who_wait(self):
        run = self.start(REMOTE)["id"]
        end = self.begin(lambda: self.client(self.admin.key).get(f"/runs/{run}", wait="60s"))
        self.until_waiting()
        self.server.stop()
        answer, took = end()
        self.assertEqual(self.ok(answer).json["status"], "created")
        self.assertLess(took, 30)

    def test_a_key_that_is_revoked_waits_no_more(self):
        run = self.start(REMOTE)["id"]
        made = self.ok(self.admin.post("/keys", {"role": "viewer"}), 201).json
        end = self.begin(lambda: self.client(made["key"]).get(f"/runs/{run}", wait="60s"))
        self.until_waiting()
        self.ok(self.admin.delete("/keys/" + made["id"]))
        answer, took = end()
        self.refused(answer, 401, "UNAUTHORIZED")
        self.assertLess(took, 30)

    def test_what_is_not_there_and_what_is_no_wait_is_refused_at_once(self):
        run = self.start(REMOTE)["id"]
        other = self.make_tenant("other")
        self.refused(other.get(f"/runs/{run}", wait="60s"), 404, "NOT_FOUND")
        self.refused(self.admin.get("/runs/" + run[:-4] + "0000", wait="60s"), 404, "NOT_FOUND")
        for wait in ("61s", "soon", "-1s", ""):
            self.refused(self.admin.get(f"/runs/{run}", wait=wait), 400, "INVALID_REQUEST")
            self.refused(self.admin.post("/runs", {"workflow": "remote"}, wait=wait), 400, "INVALID_REQUEST")
        self.refused(self.admin.get(f"/runs/{run}", wait="1s", at=1), 400, "INVALID_REQUEST")
        self.refused(self.admin.post("/runs", {"workflow": "nope"}, wait="60s"), 422, "UNKNOWN_WORKFLOW")


if __name__ == "__main__":
    unittest.main()
