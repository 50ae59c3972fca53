"""Tasks over HTTP: each row of the transition table, the invariants, the side effects and the known limitations of the
document that defines them, with workflows whose steps the test does itself as a remote worker."""
import itertools
import random
import threading
import time
import unittest
import uuid

from api_case import DEEP, ApiCase

# Two attempts would be two tries within one run, and these tests want to see the end of the first.
WORK = """
workflow: work
steps:
  - {id: do, tool: test.work, lease: 1h, retry: {max_attempts: 1}}
"""

STATES = ["PENDING", "QUEUED", "RUNNING", "READY", "COMPLETED", "FAILED", "TIMED_OUT", "CANCELLED", "BUDGET_EXCEEDED",
          "BLOCKED"]

# What each request leads to, from where; everywhere else it is refused.
REQUESTS = {
    "run": {"PENDING": "QUEUED", "FAILED": "QUEUED", "TIMED_OUT": "QUEUED"},
    "cancel": {"PENDING": "CANCELLED", "QUEUED": "CANCELLED", "RUNNING": "CANCELLED", "BLOCKED": "CANCELLED"},
    "accept": {"READY": "COMPLETED"},
    "reject": {"READY": "PENDING"},
    "resume": {"TIMED_OUT": "QUEUED"},
    "answer": {"BLOCKED": "QUEUED"},
}


class TaskCase(ApiCase):
    def setUp(self):
        super().setUp()
        self.publish(WORK)

    def add(self, who=None, **body):
        body = {"title": "Sweep the floor", "workflow": "work", **body}
        if "agent" in body or "prompt" in body:
            body.pop("workflow")
        return self.ok((who or self.admin).post("/tasks", body), 201).json

    def task(self, task, who=None):
        return self.ok((who or self.admin).get(f"/tasks/{task}")).json

    def ask(self, task, verb, who=None, **body):
        return (who or self.admin).post(f"/tasks/{task}/{verb}", body or None)

    def run_it(self, task):
        return self.ok(self.ask(task, "run")).json

    def state(self, task, state):
        """Waits until the task has this state, and gives the task."""
        return self.until(lambda: self.task(task), lambda t: t["state"] == state, f"{task} is {state}")

    def fail(self, message=None, lease=None, **more):
        if lease is None:
            return super().fail(message)
        return self.report("fail", lease,
                           **{"error_code": "TOOL_FAILED", "message": "it broke", "retryable": False, **more})

    def ask_person(self, lease, question):
        self.ok(self.admin.post(f"/leases/{lease['lease_id']}/ask", {"token": lease["token"], "question": question}))

    def begin(self, task):
        """Runs it, and takes its step."""
        self.run_it(task)
        lease = self.lease_one()
        self.state(task, "RUNNING")
        return lease

    def bring(self, state, **body):
        """A task in this state, and the lease of its step where there is one."""
        task = self.add(**body)["id"]
        if state == "PENDING":
            return task, None
        if state == "QUEUED":
            self.run_it(task)
            return task, None
        if state == "CANCELLED":
            self.ok(self.ask(task, "cancel"))
            return task, None
        self.run_it(task)
        lease = self.lease_one()
        self.state(task, "RUNNING")
        if state in ("READY", "COMPLETED"):
            self.complete(lease)
        if state == "COMPLETED" and not body.get("parent_task_id"):
            self.state(task, "READY")
            self.ok(self.ask(task, "accept"))
        if state == "FAILED":
            self.fail(lease=lease)
        if state == "TIMED_OUT":
            self.fail(lease=lease, error_code="TOOL_TIMEOUT")
        if state == "BUDGET_EXCEEDED":
            self.fail(lease=lease, error_code="BUDGET_EXCEEDED")
        if state == "BLOCKED":
            self.ask_person(lease, {"question": "why?"})
        self.state(task, state)
        return task, lease

    def run_of(self, task, status):
        """Waits until the run that the task names is made, and has this status; gives its id."""
        run = self.task(task)["run_id"]
        self.until(lambda: self.admin.get(f"/runs/{run}"), lambda a: a.status == 200 and a.json["status"] == status,
                   status)
        return run


class Transitions(TaskCase):
    def test_every_request_in_every_state(self):
        for state in STATES:
            for verb, ways in REQUESTS.items():
                with self.subTest(state=state, request=verb):
                    task, _ = self.bring(state)
                    body = {"answer": {"answer": "because"}, "reject": {"comment": "dirty"}}.get(verb, {})
                    possible = self.task(task)["possible"]
                    self.assertEqual(verb in possible, state in ways)
                    answer = self.ask(task, verb, **body)
                    if state in ways:
                        self.ok(answer)
                        self.state(task, ways[state])
                    else:
                        self.refused(answer, 409, "INVALID_TASK_TRANSITION")
                        for word in possible:
                            self.assertIn(word, answer.json["detail"])
                        self.assertEqual(self.task(task)["state"], state)
                    if state == "QUEUED" and verb != "cancel":
                        self.ok(self.ask(task, "cancel"))
                    elif self.task(task)["state"] in ("QUEUED", "RUNNING"):
                        self.ask(task, "cancel")
                    self.until(lambda: self.lease(), lambda leases: not leases, "no work is left")

    def test_queued_becomes_running_when_a_worker_takes_it(self):
        task, _ = self.bring("QUEUED")
        self.run_of(task, "created")
        self.assertEqual(self.task(task)["state"], "QUEUED")
        self.lease_one()
        self.state(task, "RUNNING")

    def test_a_task_without_subtasks_is_ready_when_it_is_done(self):
        task, lease = self.bring("RUNNING")
        self.complete(lease, cost_usd="0.25")
        done = self.state(task, "READY")
        self.assertEqual(done["executions"][0]["outcome"], "READY")
        self.assertEqual(done["cost_usd"], "0.25")
        self.assertIsNotNone(done["executions"][0]["ended_at"])

    def test_a_subtask_is_completed_when_it_is_done(self):
        parent = self.add()["id"]
        child, lease = self.bring("RUNNING", parent_task_id=parent)
        self.complete(lease)
        self.state(child, "COMPLETED")
        self.refused(self.ask(child, "accept"), 409, "INVALID_TASK_TRANSITION")

    def test_a_parent_waits_for_its_subtasks(self):
        parent, lease = self.bring("RUNNING")
        children = [self.add(parent_task_id=parent, title=f"part {i}")["id"] for i in range(2)]
        self.complete(lease)
        blocked = self.state(parent, "BLOCKED")
        self.assertEqual(blocked["subtasks"], children)
        self.assertIsNone(blocked["question"])
        self.refused(self.ask(parent, "answer", answer="x"), 409, "NOTHING_WAITING")
        self.assertEqual(blocked["possible"], ["cancel", "change", "delete"])
        refused = self.refused(self.ask(parent, "accept"), 409, "INVALID_TASK_TRANSITION")
        self.assertIn("Allowed: cancel, change, delete.", refused.json["detail"])
        for child in children:
            self.assertEqual(self.task(parent)["state"], "BLOCKED")
            self.complete(self.begin(child))
            self.state(child, "COMPLETED")
        self.state(parent, "READY")

    def test_what_a_run_ends_with_is_what_its_task_is(self):
        for code, state in [("TOOL_FAILED", "FAILED"), ("TOOL_TIMEOUT", "TIMED_OUT"),
                            ("BUDGET_EXCEEDED", "BUDGET_EXCEEDED"),
                            ("AGENT_BUDGET_EXCEEDED", "BUDGET_EXCEEDED"), ("SOMETHING_ELSE", "FAILED")]:
            with self.subTest(code=code):
                task, lease = self.bring("RUNNING")
                self.fail(lease=lease, error_code=code)
                seen = self.state(task, state)
                self.assertEqual(seen["executions"][0]["outcome"], state)
                self.assertIsNotNone(seen["diagnostic"])

    def test_a_task_over_its_time_is_timed_out(self):
        task = self.add(timeout="50ms")["id"]
        self.run_it(task)
        self.lease_one()  # its time begins when its run does
        self.assertEqual(self.state(task, "TIMED_OUT")["executions"][0]["outcome"], "TIMED_OUT")

    def test_a_budget_that_the_run_spends_is_exceeded(self):
        task = self.add(max_budget_usd="1.00")["id"]
        self.fail(lease=self.begin(task), cost_usd="1.50", retryable=True)
        self.state(task, "BUDGET_EXCEEDED")

    def test_a_canceled_run_cancels_its_task(self):
        for state in ("QUEUED", "RUNNING"):
            task, _ = self.bring(state)
            run = self.run_of(task, "created" if state == "QUEUED" else "running")
            self.ok(self.admin.post(f"/runs/{run}/cancel"))
            self.state(task, "CANCELLED")


class Results(TaskCase):
    def test_what_a_run_came_to_is_part_of_its_task_and_of_the_execution(self):
        task, lease = self.bring("RUNNING")
        self.assertIsNone(self.task(task)["result"])
        self.complete(lease, output={"floor": "clean"})
        done = self.state(task, "READY")
        self.assertEqual(done["result"], {"step": "do", "text": None, "output": {"floor": "clean"},
                                          "permission_denials": [], "is_cut": False})
        self.assertEqual(done["executions"][0]["result"], done["result"])
        listed = self.ok(self.admin.get("/tasks?state=READY")).json["items"][0]
        self.assertEqual((listed["result"]["output"], listed["result"]["is_cut"]), (None, True))
        # What comes after does not change what was.
        self.ok(self.ask(task, "reject", comment="a corner is left"))
        self.complete(self.begin(task), output={"floor": "shining"})
        again = self.state(task, "READY")
        self.assertEqual([each["result"]["output"]["floor"] for each in again["executions"]], ["clean", "shining"])

    def test_a_result_that_is_long_is_cut(self):
        task, lease = self.bring("RUNNING")
        self.complete(lease, output={"text": "x" * 100_000})
        result = self.state(task, "READY")["result"]
        self.assertEqual((result["output"], result["is_cut"]), (None, True))

    def test_it_survives_a_restart(self):
        task, lease = self.bring("RUNNING")
        self.complete(lease, output={"floor": "clean"})
        done = self.state(task, "READY")
        self.ok(self.admin.request("PATCH", f"/tasks/{task}", {"tags": ["kept"], "timeout": "5m"}))
        self.restart()
        again = self.task(task)
        self.assertEqual((again["result"], again["tags"], again["timeout"]), (done["result"], ["kept"], "5m"))


class Changes(TaskCase):
    def change(self, task, **body):
        return self.admin.request("PATCH", f"/tasks/{task}", body)

    def test_a_task_that_nobody_works_on_can_be_changed(self):
        for state in STATES:
            with self.subTest(state=state):
                task, _ = self.bring(state)
                answer = self.change(task, timeout="9m", max_budget_usd="7.00", tags=["a", "b"], priority="high")
                if state in ("QUEUED", "RUNNING", "COMPLETED", "CANCELLED", "BUDGET_EXCEEDED"):
                    self.refused(answer, 409, "INVALID_TASK_TRANSITION")
                    self.assertNotIn("change", self.task(task)["possible"])
                else:
                    changed = self.ok(answer).json
                    self.assertEqual((changed["timeout"], changed["max_budget_usd"], changed["tags"],
                                      changed["priority"], changed["state"]), ("9m", "7.00", ["a", "b"], "high", state))
                self.ask(task, "cancel")
                self.until(lambda: self.lease(), lambda leases: not leases, "no work is left")

    def test_a_limit_can_be_taken_away_and_what_is_not_named_stays(self):
        task = self.add(timeout="5m", max_budget_usd="1.00", tags=["x"])["id"]
        changed = self.ok(self.change(task, timeout=None)).json
        self.assertEqual((changed["timeout"], changed["max_budget_usd"], changed["tags"]), (None, "1.00", ["x"]))

    def test_the_next_run_has_what_was_changed(self):
        task = self.add(max_budget_usd="1.00")["id"]
        self.ok(self.change(task, max_budget_usd="3.00"))
        lease = self.begin(task)
        self.assertEqual(self.ok(self.admin.get(f"/runs/{lease['run_id']}")).json["budget_usd"], "3.00")

    def test_a_prompt_is_an_agents(self):
        agent = self.add(prompt="sweep")["id"]
        self.assertEqual(self.ok(self.change(agent, prompt="mop")).json["prompt"], "mop")
        self.refused(self.change(self.add()["id"], prompt="mop"), 400, "INVALID_REQUEST")

    def test_a_prompt_says_something(self):
        agent = self.add(prompt="sweep")["id"]
        for prompt in ("", " \n\t"):
            added = self.admin.post("/tasks", {"title": "t", "prompt": prompt})
            for answer in (self.change(agent, prompt=prompt), added):
                self.refused(answer, 400, "INVALID_REQUEST")
                self.assertIn("say what the agent is to do", answer.json["detail"])
        self.assertEqual(self.task(agent)["prompt"], "sweep")

    def test_what_its_stream_holds_is_json(self):
        task, other = self.add()["id"], self.add()["id"]
        self.complete(self.begin(task), output={"n": 1})
        self.state(task, "READY")
        self.ok(self.change(other, tags=["a"]))
        def event(of, kind):
            items = self.ok(self.admin.get(f"/tasks/{of}/events")).json["items"]
            return next(item["event"] for item in items if item["event"]["type"] == kind)
        self.assertEqual(event(other, "task.changed")["changes"], {"tags": ["a"]})
        self.assertEqual(event(task, "task.finished")["result"], self.task(task)["result"])

    def test_what_cannot_be_changed_is_refused(self):
        task = self.add()["id"]
        for body in ({"title": "other"}, {"workflow": "other"}, {"timeout": "soon"}, {"priority": "urgent"},
                     {"max_budget_usd": "-1"}, {"tags": [1]}, {"prompt": None}, {"priority": None}, {"tags": None}):
            self.refused(self.change(task, **body), 400, "INVALID_REQUEST")

    def test_a_subtasks_budget_stays_within_its_parents(self):
        parent = self.add(max_budget_usd="5.00")["id"]
        child = self.add(parent_task_id=parent, max_budget_usd="1.00")["id"]
        self.add(parent_task_id=parent, max_budget_usd="2.00")
        self.refused(self.change(child, max_budget_usd="3.50"), 422, "TASK_LIMIT")
        self.refused(self.change(child, max_budget_usd=None), 422, "TASK_LIMIT")
        self.ok(self.change(child, max_budget_usd="3.00"))

    def test_a_budget_stays_above_what_the_subtasks_were_given(self):
        parent = self.add(max_budget_usd="5.00")["id"]
        child = self.add(parent_task_id=parent, max_budget_usd="3.00")["id"]
        self.refused(self.change(parent, max_budget_usd="2.99"), 422, "TASK_LIMIT")
        self.ok(self.change(parent, max_budget_usd="3.00"))
        self.ok(self.change(child, max_budget_usd="1.00"))
        self.ok(self.change(parent, max_budget_usd="1.00"))

    def test_a_budget_is_not_set_above_a_subtask_that_has_none(self):
        parent = self.add()["id"]
        child = self.add(parent_task_id=parent)["id"]
        self.assertIn(child, self.refused(self.change(parent, max_budget_usd="5.00"), 422, "TASK_LIMIT").json["detail"])
        self.ok(self.change(child, max_budget_usd="1.00"))
        self.ok(self.change(parent, max_budget_usd="5.00"))

    def test_run_after_a_time_out_starts_over_and_resume_goes_on(self):
        for verb, resumes in (("run", False), ("resume", True)):
            task, _ = self.bring("TIMED_OUT")
            before = self.task(task)["session_id"]
            self.ok(self.ask(task, verb))
            lease = self.lease_one()
            latest = self.state(task, "RUNNING")["executions"][-1]
            self.assertEqual((latest["resumes"], latest["session_id"] == before), (resumes, resumes))
            self.complete(lease)
            self.state(task, "READY")


class Trees(TaskCase):
    def tree(self):
        parent, lease = self.bring("RUNNING")
        children = [self.add(parent_task_id=parent)["id"] for _ in range(2)]
        grandchild = self.add(parent_task_id=children[0])["id"]
        self.complete(lease)
        self.state(parent, "BLOCKED")
        return parent, [*children, grandchild]

    def test_a_blocked_task_is_cancelled_at_once_and_its_subtasks_stay(self):
        parent, below = self.tree()
        self.assertEqual(self.ok(self.ask(parent, "cancel")).json["state"], "CANCELLED")
        types = [item["event"]["type"] for item in self.ok(self.admin.get(f"/tasks/{parent}/events")).json["items"]]
        self.assertEqual(types[-2:], ["task.answered", "task.cancelled"])
        self.assertEqual({self.task(each)["state"] for each in below}, {"PENDING"})

    def test_the_run_of_a_blocked_task_that_is_cancelled_ends(self):
        task, lease = self.bring("BLOCKED")
        self.ok(self.ask(task, "cancel"))
        self.run_status(lease["run_id"], "canceled")

    def test_cancel_takes_subtasks_along_when_told(self):
        parent, below = self.tree()
        running = self.begin(below[1])
        self.ok(self.admin.post(f"/tasks/{parent}/cancel?subtasks=true"))
        for each in below:
            self.state(each, "CANCELLED")
        self.run_status(running["run_id"], "canceled")
        self.assertEqual(self.state(parent, "CANCELLED")["question"], None)

    def test_delete_takes_subtasks_along_when_told_and_none_is_active(self):
        parent, below = self.tree()
        lease = self.begin(below[2])
        self.refused(self.admin.delete(f"/tasks/{parent}?subtasks=true"), 409, "TASK_ACTIVE")
        self.assertEqual(self.task(below[0])["id"], below[0], "nothing was deleted")
        self.complete(lease)
        self.state(below[2], "COMPLETED")
        self.ok(self.admin.delete(f"/tasks/{parent}?subtasks=true"))
        for each in (parent, *below):
            self.refused(self.admin.get(f"/tasks/{each}"), 404, "NOT_FOUND")

    def test_subtasks_is_true_or_false(self):
        task = self.add()["id"]
        self.refused(self.admin.post(f"/tasks/{task}/cancel?subtasks=maybe"), 400, "INVALID_REQUEST")


class Invariants(TaskCase):
    def test_blocked_has_a_session_and_an_answer_resumes_it(self):
        task, lease = self.bring("BLOCKED")
        blocked = self.task(task)
        self.assertEqual(blocked["question"], {"question": "why?"})
        session = blocked["session_id"]
        self.assertEqual(uuid.UUID(session).version, 4)
        self.ok(self.ask(task, "answer", answer="because"))
        again = self.lease_one()
        self.assertEqual(again["run_id"], lease["run_id"], "the same run goes on")
        running = self.state(task, "RUNNING")
        self.assertIsNone(running["question"])
        self.assertEqual(running["answer"], "because")
        first, second = running["executions"]
        self.assertEqual((first["run_id"], first["session_id"]), (second["run_id"], second["session_id"]))
        self.assertEqual((first["resumes"], second["resumes"], second["message"]), (False, True, "because"))
        self.assertEqual(running["runs"], [lease["run_id"]])
        self.assertEqual(self.step(lease["run_id"], "do")["answer"], "because")
        self.complete(again)
        self.state(task, "READY")

    def test_it_can_ask_again_and_again(self):
        task, lease = self.bring("RUNNING")
        for number in range(5):
            self.ask_person(lease, {"number": number})
            self.until(lambda: self.task(task), lambda t: t["question"] == {"number": number}, "the question")
            self.ok(self.ask(task, "answer", answer=number))
            lease = self.lease_one()
            self.assertEqual(self.step(lease["run_id"], "do")["answer"], number)
        self.complete(lease)
        self.assertEqual(len(self.state(task, "READY")["executions"]), 6)

    def test_delete_is_refused_while_it_is_queued_or_running(self):
        for state in STATES:
            with self.subTest(state=state):
                task, _ = self.bring(state)
                answer = self.admin.delete(f"/tasks/{task}")
                if state in ("QUEUED", "RUNNING"):
                    self.refused(answer, 409, "TASK_ACTIVE")
                    self.assertEqual(self.task(task)["state"], state)
                    self.ok(self.ask(task, "cancel"))
                    self.state(task, "CANCELLED")
                else:
                    self.assertEqual(self.ok(answer).json["id"], task)
                    self.refused(self.admin.get(f"/tasks/{task}"), 404, "NOT_FOUND")
                    self.refused(self.ask(task, "run"), 404, "NOT_FOUND")
                self.until(lambda: self.lease(), lambda leases: not leases, "no work is left")

    def test_the_run_of_a_blocked_task_that_is_deleted_ends(self):
        task, lease = self.bring("BLOCKED")
        self.ok(self.admin.delete(f"/tasks/{task}"))
        self.run_status(lease["run_id"], "canceled")

    def test_a_queued_task_that_is_cancelled_takes_its_run_with_it(self):
        task, _ = self.bring("QUEUED")
        run = self.run_of(task, "created")
        self.assertEqual(self.ok(self.ask(task, "cancel")).json["state"], "CANCELLED")
        self.run_status(run, "canceled")

    def test_it_waits_in_queued_for_what_it_depends_on(self):
        first, second = self.add(title="first")["id"], self.add(title="second")["id"]
        task = self.add(depends_on=[first, second])["id"]
        self.run_it(task)
        for each in (first, second):
            self.assertEqual(self.task(task)["state"], "QUEUED")
            lease = self.begin(each)
            self.assertEqual(self.lease(), [])
            self.complete(lease)
            self.state(each, "READY")
            self.assertEqual(self.lease(), [], "READY is not COMPLETED")
            self.ok(self.ask(each, "accept"))
        lease = self.lease_one()
        self.assertEqual(self.state(task, "RUNNING")["run_id"], lease["run_id"])

    def test_a_dependency_that_fails_fails_it_and_is_named(self):
        for state in ("FAILED", "TIMED_OUT", "CANCELLED", "BUDGET_EXCEEDED"):
            with self.subTest(state=state):
                dependency = self.add(title="the culprit")["id"]
                task = self.add(depends_on=[dependency])["id"]
                chained = self.add(depends_on=[task])["id"]
                self.run_it(chained)
                self.run_it(task)
                if state == "CANCELLED":
                    self.ok(self.ask(dependency, "cancel"))
                else:
                    self.run_it(dependency)
                    codes = {"FAILED": "TOOL_FAILED", "TIMED_OUT": "TOOL_TIMEOUT", "BUDGET_EXCEEDED": "BUDGET_EXCEEDED"}
                    self.fail(lease=self.lease_one(), error_code=codes[state])
                self.state(dependency, state)
                failed = self.state(task, "FAILED")
                self.assertEqual(failed["error_code"], "DEPENDENCY_FAILED")
                self.assertIn(dependency, failed["diagnostic"]["message"])
                self.assertIn(task, self.state(chained, "FAILED")["diagnostic"]["message"])

    def test_a_dependency_that_is_deleted_fails_it(self):
        dependency = self.add()["id"]
        task = self.add(depends_on=[dependency])["id"]
        self.run_it(task)
        self.ok(self.admin.delete(f"/tasks/{dependency}"))
        self.assertIn(dependency, self.state(task, "FAILED")["diagnostic"]["message"])

    def test_it_can_be_run_again_once_its_dependency_is_seen_to(self):
        dependency, _ = self.bring("FAILED")
        task = self.add(depends_on=[dependency])["id"]
        self.run_it(task)
        self.state(task, "FAILED")
        self.complete(self.begin(dependency))
        self.state(dependency, "READY")
        self.ok(self.ask(dependency, "accept"))
        self.complete(self.begin(task))
        self.state(task, "READY")

    def test_cycles_are_refused(self):
        parent = self.add()["id"]
        body = {"title": "t", "workflow": "work"}
        self.refused(self.admin.post("/tasks", {**body, "parent_task_id": parent, "depends_on": [parent]}), 409,
                     "TASK_CYCLE")
        later = self.add(depends_on=[parent])["id"]
        latest = self.add(depends_on=[later])["id"]
        self.refused(self.admin.post("/tasks", {**body, "parent_task_id": parent, "depends_on": [latest]}), 409,
                     "TASK_CYCLE")
        # And by way of a subtask of somebody who waits for it.
        other = self.add()["id"]
        self.add(parent_task_id=other, depends_on=[parent])
        self.refused(self.admin.post("/tasks", {**body, "parent_task_id": parent, "depends_on": [other]}), 409,
                     "TASK_CYCLE")
        self.add(parent_task_id=parent)

    def test_a_retry_is_a_new_run_that_names_the_one_before(self):
        task, lease = self.bring("FAILED")
        sessions = [self.task(task)["session_id"]]
        for number in range(3):  # as often as somebody likes
            before = self.task(task)["run_id"]
            again = self.begin(task)
            self.assertNotEqual(again["run_id"], before)
            self.assertEqual(self.get_run(again["run_id"])["retry_of"], before)
            sessions.append(self.task(task)["session_id"])
            self.fail(lease=again)
            self.state(task, "FAILED")
        self.assertEqual(len(set(sessions)), 4, "each in a session of its own")
        self.assertEqual(len(self.task(task)["runs"]), 4)

    def test_a_resume_is_a_new_run_in_the_same_session(self):
        task, lease = self.bring("TIMED_OUT")
        session = self.task(task)["session_id"]
        self.ok(self.ask(task, "resume"))
        again = self.lease_one()
        self.assertEqual(self.get_run(again["run_id"])["retry_of"], lease["run_id"])
        resumed = self.task(task)
        self.assertEqual(resumed["session_id"], session)
        self.assertEqual(resumed["executions"][1]["message"],
                         "Your previous execution timed out. Please continue where you left off.")

    def test_a_rejection_is_kept_and_the_task_begins_anew(self):
        task, _ = self.bring("READY")
        rejected = self.ok(self.ask(task, "reject", comment="there is dust")).json
        self.assertEqual((rejected["state"], rejected["rejection_comment"]), ("PENDING", "there is dust"))
        self.complete(self.begin(task))
        self.state(task, "READY")
        self.ok(self.ask(task, "accept"))
        without_comment, _ = self.bring("READY")
        self.assertIsNone(self.ok(self.ask(without_comment, "reject")).json["rejection_comment"])

    def test_budget_exceeded_is_for_ever(self):
        task, _ = self.bring("BUDGET_EXCEEDED")
        self.assertEqual(self.task(task)["possible"], ["delete"])


class Subtasks(TaskCase):
    def parent_with_failed_child(self):
        parent, lease = self.bring("RUNNING")
        child = self.add(parent_task_id=parent, title="the part")["id"]
        self.fail(lease=self.begin(child))
        self.state(child, "FAILED")
        self.complete(lease)
        self.until(lambda: self.task(parent), lambda t: t["question"], "the question")
        return parent, child

    def test_a_failed_subtask_is_asked_about_and_tried_again(self):
        parent, child = self.parent_with_failed_child()
        seen = self.task(parent)
        self.assertEqual((seen["state"], seen["question"]["subtask"]), ("BLOCKED", child))
        self.assertEqual(seen["question"]["choices"], ["retry", "drop", "cancel"])
        self.refused(self.ask(parent, "answer", answer="perhaps"), 400, "INVALID_REQUEST")
        self.ok(self.ask(parent, "answer", answer="retry"))
        self.complete(self.lease_one())
        self.state(child, "COMPLETED")
        self.state(parent, "READY")

    def test_or_dropped(self):
        parent, child = self.parent_with_failed_child()
        self.ok(self.ask(parent, "answer", answer="drop"))
        self.assertEqual(self.state(parent, "READY")["dropped"], [child])

    def test_or_the_parent_is_cancelled(self):
        parent, _ = self.parent_with_failed_child()
        self.assertEqual(self.ok(self.ask(parent, "answer", answer="cancel")).json["state"], "CANCELLED")

    def test_or_somebody_sees_to_it_without_being_asked(self):
        parent, child = self.parent_with_failed_child()
        lease = self.begin(child)
        self.until(lambda: self.task(parent), lambda t: t["question"] is None, "the question is gone")
        self.complete(lease)
        self.state(parent, "READY")

    def test_a_subtask_that_is_deleted_is_not_waited_for(self):
        parent, child = self.parent_with_failed_child()
        self.ok(self.admin.delete(f"/tasks/{child}"))
        self.state(parent, "READY")

    def test_several_failures_are_asked_about_one_by_one(self):
        parent, lease = self.bring("RUNNING")
        children = [self.add(parent_task_id=parent)["id"] for _ in range(3)]
        for child in children:
            self.ok(self.ask(child, "cancel"))
        self.complete(lease)
        for child in children:
            seen = self.until(lambda: self.task(parent), lambda t: t["question"] and t["question"]["subtask"] == child,
                              child)
            self.assertEqual(seen["question"]["choices"], ["drop", "cancel"], "what is cancelled cannot be tried again")
            self.ok(self.ask(parent, "answer", answer="drop"))
        self.state(parent, "READY")

    def test_one_who_is_done_takes_no_more_subtasks(self):
        for state in ("READY", "COMPLETED", "CANCELLED"):
            parent, _ = self.bring(state)
            answer = self.admin.post("/tasks", {"title": "t", "workflow": "work", "parent_task_id": parent})
            self.refused(answer, 409, "INVALID_TASK_TRANSITION")

    def test_a_blocked_parent_waits_for_those_that_come_later(self):
        parent, lease = self.bring("RUNNING")
        first = self.add(parent_task_id=parent)["id"]
        self.complete(lease)
        self.state(parent, "BLOCKED")
        second = self.add(parent_task_id=parent)["id"]
        for child in (first, second):
            self.assertEqual(self.task(parent)["state"], "BLOCKED")
            self.complete(self.begin(child))
            self.state(child, "COMPLETED")
        self.state(parent, "READY")


class Requests(TaskCase):
    def test_what_is_asked_for_is_shown(self):
        other = self.add()["id"]
        body = {"title": "All of it", "workflow": "work", "input": {"n": 1}, "parent_task_id": other,
                "max_budget_usd": "2.50",
                "timeout": "15m", "priority": "high", "tags": ["a", "b"], "workspace": "lab"}
        task = self.ok(self.admin.post("/api/tasks", body), 201).json
        for key, value in body.items():
            self.assertEqual(task[key], value, key)
        self.assertEqual((task["state"], task["executions"], task["possible"]),
                         ("PENDING", [], ["run", "cancel", "change", "delete"]))
        self.assertEqual(self.task(task["id"]), task)
        lease = self.begin(task["id"])
        run = self.get_run(lease["run_id"])
        self.assertEqual((run["input"], run["budget_usd"], run["timeout"], run["workspace"], run["trigger_type"]),
                         ({"n": 1}, "2.50", "15m", "lab", "task"))
        self.assertEqual(run["trigger_ref"], task["id"] + "/1")

    def test_it_can_run_at_once(self):
        once = {"Idempotency-Key": "at-once"}
        body = {"title": "t", "workflow": "work", "run": True}
        task = self.ok(self.admin.post("/tasks", body, headers=once), 201).json
        self.assertIn(task["state"], ("QUEUED", "RUNNING"))
        again = self.ok(self.admin.post("/tasks", body, headers=once), 200).json
        self.assertEqual((again["id"], len(again["executions"])), (task["id"], 1))

    def test_bad_requests(self):
        good = {"title": "t", "workflow": "work"}
        nobody = "task_00000000000000000000000000"
        for body, status, code in [
                ({}, 400, "INVALID_REQUEST"), ({"title": "t"}, 400, "INVALID_REQUEST"),
                ({**good, "title": ""}, 400, "INVALID_REQUEST"), ({**good, "agent": "claude"}, 400, "INVALID_REQUEST"),
                ({**good, "prompt": "p"}, 400, "INVALID_REQUEST"), ({**good, "unknown": 1}, 400, "INVALID_REQUEST"),
                ({"title": "t", "prompt": "p", "agent": "none"}, 400, "INVALID_REQUEST"),
                ({"title": "t", "prompt": "p", "agent": "command"}, 400, "INVALID_REQUEST"),
                ({**good, "priority": "urgent"}, 400, "INVALID_REQUEST"),
                ({**good, "timeout": "soon"}, 400, "INVALID_REQUEST"),
                ({**good, "depends_on": ["x"]}, 400, "INVALID_REQUEST"),
                ({**good, "tags": [1]}, 400, "INVALID_REQUEST"),
                ({**good, "depends_on": [nobody]}, 422, "UNKNOWN_TASK"),
                ({**good, "parent_task_id": nobody}, 422, "UNKNOWN_TASK"),
                ({"title": "t", "workflow": "nowhere"}, 422, "UNKNOWN_WORKFLOW"),
                ({"title": "t", "workflow": "pawl.task"}, 422, "UNKNOWN_WORKFLOW")]:
            with self.subTest(body=body):
                self.refused(self.admin.post("/tasks", body), status, code)
        for key, value, code in (("depends_on", [nobody], "UNKNOWN_TASK"), ("parent_task_id", nobody, "UNKNOWN_TASK"),
                                 ("workflow", "nowhere", "UNKNOWN_WORKFLOW")):
            with self.subTest(key=key):
                answer = self.refused(self.admin.post("/tasks", {**good, key: value}), 422, code)
                self.assertEqual(answer.json["where"], "/" + key)
        for path in ("/tasks/x", "/tasks/" + nobody, "/tasks/run_00000000000000000000000000"):
            self.refused(self.admin.get(path), 404, "NOT_FOUND")
        task = self.add()["id"]
        self.refused(self.ask(task, "run", force=True), 400, "INVALID_REQUEST")
        blocked, _ = self.bring("BLOCKED")
        self.refused(self.ask(blocked, "answer"), 400, "INVALID_REQUEST")
        self.refused(self.admin.post("/runs", {"workflow": "work", "trigger_type": "task", "trigger_ref": "x"}), 400,
                     "INVALID_REQUEST")
        self.refused(self.admin.post("/runs", {"workflow": "pawl.task"}), 422, "UNKNOWN_WORKFLOW")

    def test_a_task_is_no_run(self):
        task = self.add()["id"]
        run = task.replace("task_", "run_")
        self.refused(self.admin.get(f"/runs/{run}"), 404, "NOT_FOUND")
        for rest in ("/events", "/evidence?partial=true", "?at=1"):
            self.refused(self.admin.get(f"/runs/{run}{rest}"), 404, "NOT_FOUND")
        self.refused(self.admin.post(f"/runs/{run}/cancel"), 404, "NOT_FOUND")
        self.refused(self.admin.post(f"/runs/{run}/retry"), 404, "NOT_FOUND")
        self.refused(self.admin.post(f"/runs/{run}/status", {"status": "running"}), 404, "NOT_FOUND")
        self.assertEqual(self.ok(self.admin.get("/runs")).json["items"], [])

    def test_an_idempotency_key_makes_one_task(self):
        headers = {"Idempotency-Key": "k1"}
        body = {"title": "once", "workflow": "work"}
        first = self.ok(self.admin.post("/tasks", body, headers), 201)
        again = self.ok(self.admin.post("/tasks", body, headers))
        self.assertEqual((again.json["id"], again.headers["Idempotency-Replayed"]), (first.json["id"], "true"))
        self.refused(self.admin.post("/tasks", {**body, "title": "twice"}, headers), 422, "IDEMPOTENCY_KEY_REUSED")
        self.ok(self.admin.post("/runs", {"workflow": "work"}, headers), 201)

    def test_lists(self):
        tasks = [self.add(tags=["even" if i % 2 == 0 else "odd"], title=f"t{i}")["id"] for i in range(7)]
        child = self.add(parent_task_id=tasks[0], tags=["even"])["id"]
        self.ok(self.ask(tasks[3], "cancel"))
        self.ok(self.admin.delete(f"/tasks/{tasks[5]}"))

        def ids(**query):
            return [item["id"] for item in self.ok(self.admin.get("/tasks", **query)).json["items"]]

        self.assertEqual(ids(), [child, *(tasks[i] for i in (6, 4, 3, 2, 1, 0))])
        self.assertEqual(ids(state="CANCELLED"), [tasks[3]])
        self.assertEqual(ids(state="PENDING", tag="odd"), [tasks[1]])
        self.assertEqual(ids(parent=tasks[0]), [child])
        self.assertEqual(ids(parent=tasks[1]), [])
        seen, cursor = [], None
        while True:
            page = self.ok(self.admin.get("/tasks", limit=2, **({"cursor": cursor} if cursor else {}))).json
            seen += [item["id"] for item in page["items"]]
            cursor = page["next_cursor"]
            if not cursor:
                break
        self.assertEqual(seen, ids())
        for query in ({"state": "pending"}, {"parent": "x"}, {"cursor": "x"}, {"status": "READY"}):
            self.refused(self.admin.get("/tasks", **query), 400, "INVALID_REQUEST")

    def test_another_tenants_task_is_none(self):
        task, _ = self.bring("READY")
        other = self.make_tenant("other")
        nobody = other.get("/tasks/task_00000000000000000000000000")
        for answer in (other.get(f"/tasks/{task}"), other.delete(f"/tasks/{task}"), other.post(f"/tasks/{task}/accept"),
                       other.post(f"/tasks/{task}/answer", {"answer": 1})):
            self.assertEqual((answer.status, answer.body), (404, nobody.body))
        self.assertEqual(self.ok(other.get("/tasks")).json["items"], [])
        self.publish(WORK, other)
        for key in ("parent_task_id", "depends_on"):
            body = {"title": "t", "workflow": "work", key: task if key == "parent_task_id" else [task]}
            self.refused(other.post("/tasks", body), 422, "UNKNOWN_TASK")

    def test_roles(self):
        task, _ = self.bring("READY")
        viewer, approver, worker = (self.as_role(role) for role in ("viewer", "approver", "worker"))
        self.ok(viewer.get(f"/tasks/{task}"))
        for who in (viewer, worker):
            self.refused(who.post(f"/tasks/{task}/accept"), 403, "FORBIDDEN")
        self.refused(approver.post("/tasks", {"title": "t", "workflow": "work"}), 403, "FORBIDDEN")
        self.ok(approver.post(f"/tasks/{task}/accept"))


class Streams(TaskCase):
    def test_every_transition_and_every_refusal_is_in_the_stream(self):
        task, lease = self.bring("RUNNING")
        self.refused(self.ask(task, "accept"), 409, "INVALID_TASK_TRANSITION")
        self.complete(lease)
        self.state(task, "READY")
        items = self.ok(self.admin.get(f"/api/tasks/{task}/events")).json["items"]
        self.assertEqual([item["event"]["type"] for item in items],
                         ["task.created", "task.queued", "task.started", "task.refused", "task.finished"])
        self.assertEqual([item["seq"] for item in items], [1, 2, 3, 4, 5])
        run = lease["run_id"].replace("run_", "task_")
        self.refused(self.admin.get(f"/tasks/{run}/events"), 404, "NOT_FOUND")
        self.ok(self.admin.delete(f"/tasks/{task}"))
        self.refused(self.admin.get(f"/tasks/{task}/events"), 404, "NOT_FOUND")


class Feeds(TaskCase):
    def test_what_is_news_is_told_by_its_name(self):
        feed = self.feed()
        parent, lease = self.bring("RUNNING")
        self.ask_person(lease, {"question": "why?"})
        self.state(parent, "BLOCKED")
        self.ok(self.ask(parent, "answer", answer="so"))
        self.complete(self.lease_one())
        self.state(parent, "READY")
        self.ok(self.ask(parent, "accept"))
        news = feed.until(lambda m: m["event"]["type"] == "task.accepted")
        of_task = [m for m in news if m.get("task_id") == parent]
        self.assertEqual([(m["event"]["type"], m.get("type")) for m in of_task],
                         [("task.created", None), ("task.queued", None), ("task.started", None),
                          ("task.blocked", "task_completed"), ("task.asked", "task_question"), ("task.answered", None),
                          ("task.started", None), ("task.finished", "task_completed"),
                          ("task.accepted", "task_completed")])
        self.assertTrue(all("run_id" not in m for m in of_task))
        # Resumable like everything: the last two again.
        again = self.feed(after=of_task[-3]["position"], task=parent)
        self.assertEqual([m["event"]["type"] for m in again.take(2)], ["task.finished", "task.accepted"])
        self.make_tenant("other")
        admin = self.as_role("admin", "other")
        self.publish(WORK, admin)
        other = self.feed(self.as_role("viewer", "other"), after="0")
        theirs = self.add(admin)["id"]
        self.assertEqual(other.next()["task_id"], theirs)

    def test_every_end_is_news(self):
        feed = self.feed()
        ends = {state: self.bring(state)[0]
                for state in ("FAILED", "TIMED_OUT", "CANCELLED", "BUDGET_EXCEEDED", "READY")}
        waiting = set(ends.values())
        while waiting:
            message = feed.next()
            if message.get("type") == "task_completed":
                waiting.discard(message["task_id"])


class Restarts(TaskCase):
    deaths = 0

    def die(self):
        """Kills the server and starts the next. On PostgreSQL that one waits ten seconds for the dead one's tasks: only
        ./test deep kills it every time there."""
        self.deaths += 1
        if not self.server.store or DEEP or self.deaths % 3 == 1:
            self.restart()

    def test_a_kill_at_any_moment_loses_nothing(self):
        chosen = random.Random(7)
        tasks = []
        for number in range(12):
            depends_on = chosen.sample(tasks, min(len(tasks), 2))
            tasks.append(self.add(title=f"t{number}", depends_on=depends_on)["id"])
        for task in tasks:
            self.run_it(task)
        done = set()
        rounds = 0
        while len(done) < len(tasks):
            rounds += 1
            self.assertLess(rounds, 200)
            for lease in self.lease(wait="1s", max=2):
                self.complete(lease)
            if rounds % 3 == 0:
                self.die()
            for task in tasks:
                if task not in done and self.task(task)["state"] == "READY":
                    self.ok(self.ask(task, "accept"))
                    done.add(task)
        runs = [run for task in tasks for run in self.task(task)["runs"]]
        self.assertEqual(len(runs), len(tasks), "each was done once")

    def test_right_behind_each_request(self):
        """The server dies when it has just answered: what follows from the answer is done after the restart."""
        parent = self.add()["id"]
        child = self.add(parent_task_id=parent)["id"]
        self.die()
        self.run_it(parent)
        self.die()
        lease = self.lease_one()
        self.ask_person(lease, {"question": "?"})
        self.die()
        self.until(lambda: self.task(parent), lambda t: t["question"], "the question")
        self.ok(self.ask(parent, "answer", answer="yes"))
        self.die()
        lease = self.lease_one()
        self.complete(lease)
        self.die()
        self.assertEqual(self.state(parent, "BLOCKED")["subtasks"], [child])
        self.run_it(child)
        self.die()
        self.fail(lease=self.lease_one())
        self.die()
        self.until(lambda: self.task(parent), lambda t: t["question"], "the question about the subtask")
        self.ok(self.ask(parent, "answer", answer="retry"))
        self.die()
        self.complete(self.lease_one())
        self.die()
        self.state(parent, "READY")


class Races(TaskCase):
    """Two at once; one outcome, and both hear of the same."""

    def both(self, *calls):
        results = [None] * len(calls)

        def call(index):
            results[index] = calls[index](self.client(self.admin.key))

        threads = [threading.Thread(target=call, args=(index,)) for index in range(len(calls))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    def test_accept_against_reject(self):
        for _ in range(30):
            task, _ = self.bring("READY")
            accepted, rejected = self.both(lambda c: c.post(f"/tasks/{task}/accept"),
                                           lambda c: c.post(f"/tasks/{task}/reject"))
            self.assertEqual(sorted([accepted.status, rejected.status]), [200, 409])
            self.assertEqual(self.task(task)["state"], "COMPLETED" if accepted.status == 200 else "PENDING")

    def test_cancel_against_completion(self):
        for _ in range(30):
            task, lease = self.bring("RUNNING")
            item = {"lease_id": lease["lease_id"], "token": lease["token"]}
            _, completed = self.both(lambda c: c.post(f"/tasks/{task}/cancel"),
                                     lambda c: c.post("/leases/complete", {"items": [item]}))
            run = self.until(lambda: self.get_run(lease["run_id"]), lambda r: r["status"] in ("success", "canceled"),
                             "it ended")
            self.assertEqual(completed.json["items"][0]["ok"], run["status"] == "success")
            self.state(task, "READY" if run["status"] == "success" else "CANCELLED")

    def test_two_answers(self):
        for _ in range(20):
            task, lease = self.bring("BLOCKED")
            answers = self.both(*(lambda c, n=n: c.post(f"/tasks/{task}/answer", {"answer": n}) for n in range(2)))
            self.assertEqual(sorted(answer.status for answer in answers), [200, 409])
            taken = next(n for n in range(2) if answers[n].status == 200)
            again = self.lease_one()
            self.assertEqual(self.step(again["run_id"], "do")["answer"], taken)
            self.complete(again)

    def test_answer_against_time_out(self):
        answered = 0
        for number in itertools.count():
            if number >= (15 if DEEP else 4) and answered:
                break
            self.assertLess(number, 200)
            task = self.add(timeout="200ms")["id"]
            self.run_it(task)
            lease = self.lease_one()
            # On a busy machine its time may be over before it can ask, or before anybody sees the question.
            asked = self.admin.post(f"/leases/{lease['lease_id']}/ask", {"token": lease["token"], "question": "?"})
            if asked.status == 409:
                continue
            self.ok(asked)
            seen = self.until(lambda: self.task(task), lambda t: t["question"] or t["state"] == "TIMED_OUT",
                              "the question")
            if seen["state"] == "TIMED_OUT":
                continue
            answered += 1
            time.sleep(random.uniform(0, 0.25))  # so that the two meet in any order
            self.ok(self.ask(task, "answer", answer="now"))
            # Either the run that asked goes on, or it was over: then a new one has its session; or it timed out with
            # the answer.
            self.until(lambda: self.task(task), lambda t: t["state"] in ("TIMED_OUT", "RUNNING") or self.lease(),
                       "it moved")
            self.until(lambda: self.task(task), lambda t: t["state"] in ("TIMED_OUT",), "it ran out of time")
            self.assertEqual(len({e["session_id"] for e in self.task(task)["executions"]}), 1)


class Many(TaskCase):
    COUNT = 1000 if DEEP else 200

    def test_many_with_five_times_as_many_edges_are_scheduled_without_polling(self):
        self.publish("workflow: quick\nsteps: [{id: only, tool: noop}]")
        chosen = random.Random(5)
        parent = self.add(title="all of it")["id"]
        tasks, edges = [], 0
        for number in range(self.COUNT):
            # Towards five times as many: the first ones have fewer to choose from.
            wanted = 4 + (number % 8 < 4) + (number % 2) + (number % 8 == 0) - (number % 16 == 3)
            depends_on = chosen.sample(tasks, min(len(tasks), wanted))
            edges += len(depends_on)
            tasks.append(self.add(title=f"t{number}", workflow="quick", parent_task_id=parent,
                                  depends_on=depends_on)["id"])
        self.assertGreaterEqual(edges, 4.9 * self.COUNT)
        for task in reversed(tasks):  # whoever is waited for comes last
            self.run_it(task)
        self.until(lambda: self.ok(self.admin.get("/tasks", state="QUEUED", limit=1)).json["items"],
                   lambda items: not items, "all began")
        self.until(lambda: len(self.ok(self.admin.get("/tasks", state="COMPLETED", limit=200)).json["items"]),
                   lambda n: n == 200, "done")
        for task in tasks:
            self.assertEqual(self.task(task)["state"], "COMPLETED")
        # Now nothing changes, and so, once the server has tidied up, nothing is done.
        self.until(self.cpu_share, lambda share: share < 0.05, "the server is idle")

    def cpu_share(self):
        """The part of a processor that the server uses, over at least half a second."""
        begin, before = time.monotonic(), self.server.cpu_seconds()
        time.sleep(0.5)
        return (self.server.cpu_seconds() - before) / (time.monotonic() - begin)

    def test_a_graph_of_tasks_is_carried_out_in_order(self):
        chosen = random.Random(11)
        tasks, edges = [], {}
        for number in range(60):
            depends_on = chosen.sample(tasks, min(len(tasks), chosen.randrange(6)))
            task = self.add(title=f"t{number}", depends_on=depends_on)["id"]
            edges[task] = depends_on
            tasks.append(task)
        for task in chosen.sample(tasks, len(tasks)):
            self.run_it(task)
        done = set()
        while len(done) < len(tasks):
            for lease in self.lease(wait="30s", max=100):
                task = self.get_run(lease["run_id"])["trigger_ref"].split("/")[0]
                self.assertTrue(set(edges[task]) <= done, "it waited for all that it depends on")
                self.complete(lease)
                self.state(task, "READY")
                self.ok(self.ask(task, "accept"))
                done.add(task)


class AgentsOfOthers(TaskCase):
    flags = ("--no-workers",)

    def test_what_an_agent_is_given(self):
        task = self.add(agent="command", prompt="Sweep.", command=["/bin/sweep"], model="m", folder="/srv", mcp=True,
                        sandbox={"network": False}, max_budget_usd="1.00")["id"]
        self.run_it(task)
        lease = self.lease_one(tools=["agent.command"])
        session = self.task(task)["session_id"]
        self.assertEqual(lease["input"], {"prompt": "Sweep.", "session_id": session, "resume": False, "answer": None,
                                          "max_budget_usd": "1.00", "task_id": task, "folder": "/srv", "model": "m",
                                          "command": ["/bin/sweep"], "mcp": True, "sandbox": {"network": False}})
        self.complete(lease)
        self.state(task, "READY")
        self.ok(self.ask(task, "reject", comment="dusty"))
        self.run_it(task)
        lease = self.lease_one(tools=["agent.command"])
        self.assertIn("dusty", lease["input"]["prompt"])
        self.assertEqual(self.ok(self.admin.get("/runs")).json["items"], [],
                         "what carries an agent's task is in no list")


if __name__ == "__main__":
    unittest.main()
