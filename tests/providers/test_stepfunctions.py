"""Runs that Step Functions carries: against an emulator that others wrote, where it is good enough, and against a
server that says what AWS was recorded to say (recorded_stepfunctions.py), where it is not. The names of the classes say
which.
"""
import http.client
import json
import os
import pathlib
import shutil
import tempfile
import time
import unittest

from provider_case import HANG_S, PARTS, Process, ProviderCase, came_up, fetched, free_port
from recorded_stepfunctions import ACCESS, SECRET, RecordedStepFunctions, Refused

MACHINE = "arn:aws:states:eu-west-1:123456789012:stateMachine:ship"


def ship(machine=MACHINE, more=""):
    return f"workflow: ship\nprovider: stepfunctions\ntarget: {{state_machine: \"{machine}\"}}\n{more}\n"


class WithRecordedServer(ProviderCase):
    """Against the recorded protocol."""

    def setUp(self):
        self.aws = RecordedStepFunctions()
        self.addCleanup(self.aws.close)
        self.flags = ["--stepfunctions", f"http://127.0.0.1:{self.aws.port}", "--provider-interval", "100ms"]
        for name, value in (("AWS_ACCESS_KEY_ID", ACCESS), ("AWS_SECRET_ACCESS_KEY", SECRET)):
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name)
        super().setUp()

    def begin(self, **body):
        """A run, and its execution's ARN."""
        run = self.start(ship(), **body)["id"]
        self.seen(run, lambda r: r["foreign"]["id"], "accepted")
        return run, self.aws.arn_of(run)


class RecordedScenarios(WithRecordedServer):
    """The scenarios of the contract for providers, on what AWS was recorded to say."""

    def test_recorded_an_execution_is_started_once_under_the_runs_id_with_signed_requests(self):
        run, arn = self.begin(input={"order": 17})
        self.assertEqual(arn, f"arn:aws:states:eu-west-1:123456789012:execution:ship:{run}")
        self.assertEqual(json.loads(self.aws.executions[arn]["input"]), {"order": 17})
        seen = self.seen(run, lambda r: r["provider_state"] == "RUNNING", "seen to run")
        self.assertEqual((seen["status"], seen["sub_state"], seen["retry_count"]), ("running", "running", 0))

    def test_recorded_every_end_is_mapped(self):
        for status, ended, more in (("SUCCEEDED", "success", {"output": '{"boxes": 2}'}),
                                    ("FAILED", "failed", {"error": "Broken", "cause": "the belt"}),
                                    ("TIMED_OUT", "timeout", {}), ("ABORTED", "canceled", {"cause": "by hand"})):
            with self.subTest(status=status):
                run, arn = self.begin()
                self.aws.end(arn, status, **more)
                seen = self.terminal(run)
                self.assertEqual((seen["status"], seen["provider_state"]), (ended, status))
                self.assertEqual(seen["sub_state"], "succeeded" if status == "SUCCEEDED" else "failed")
                if status == "SUCCEEDED":
                    self.assertEqual(seen["foreign"]["output"], {"boxes": 2})
                if status == "FAILED":
                    self.assertEqual((seen["error_code"], seen["diagnostic"]["message"]),
                                     ("PROVIDER_RUN_FAILED", "Broken: the belt"))
                if status == "TIMED_OUT":
                    self.assertEqual(seen["error_code"], "RUN_TIMEOUT")
                if status == "ABORTED":
                    self.assertEqual(self.events(run)[-1]["event"]["reason"], "by hand")
                    self.assertEqual(seen["foreign"]["last_failure"], "by hand")

    def test_recorded_pending_redrive_is_waiting(self):
        run, arn = self.begin()
        self.aws.end(arn, "PENDING_REDRIVE")
        self.assertEqual(self.sub_state(run, "waiting")["status"], "waiting")
        self.aws.end(arn, "RUNNING")
        self.sub_state(run, "running")

    def test_recorded_retries_are_counted_from_the_history_and_between_them_it_is_backing_off(self):
        run, arn = self.begin()
        self.aws.add(arn, "TaskStateEntered", 0)
        self.aws.add(arn, "TaskScheduled")
        self.aws.add(arn, "TaskStarted")
        self.aws.add(arn, "TaskFailed", taskFailedEventDetails={"error": "Busy", "cause": "503"})
        seen = self.sub_state(run, "backing-off")
        self.assertEqual((seen["status"], seen["retry_count"], seen["foreign"]["last_failure"]),
                         ("running", 0, "Busy: 503"))
        self.aws.add(arn, "TaskScheduled")
        self.aws.add(arn, "TaskStarted")
        self.assertEqual(self.sub_state(run, "error")["retry_count"], 1)
        self.aws.add(arn, "TaskFailed", taskFailedEventDetails={"error": "Busy"})
        self.sub_state(run, "backing-off")
        self.aws.add(arn, "TaskScheduled")
        self.aws.add(arn, "TaskSucceeded")
        self.aws.add(arn, "TaskStateExited")
        self.aws.end(arn, "SUCCEEDED", output="{}")
        self.assertEqual(self.terminal(run)["retry_count"], 2)

    def test_recorded_after_a_restart_what_is_not_known_yet_changes_nothing(self):
        runs = [self.begin() for _ in range(12)]
        for _, arn in runs:
            self.aws.add(arn, "TaskStateEntered", 0)
            self.aws.add(arn, "TaskScheduled")
            self.aws.add(arn, "TaskFailed", taskFailedEventDetails={"error": "Busy"})
        before = {run: self.sub_state(run, "backing-off")["seq"] for run, _ in runs}
        # Nobody gets to see a history.
        self.aws.faults += [("GetExecutionHistory", Refused("InvalidArn", "no history"))] * 10_000
        calls = len(self.aws.calls)
        self.restart()
        self.until(lambda: [name for name, _ in self.aws.calls[calls:]].count("ListExecutions"),
                   lambda looks: looks >= 3, "it has looked")
        for run, seq in before.items():
            seen = self.ok(self.admin.get(f"/runs/{run}")).json
            self.assertEqual((seen["sub_state"], seen["seq"]), ("backing-off", seq))

    def test_recorded_a_target_that_is_not_there_is_refused_when_it_is_published(self):
        missing = ship(MACHINE.rpartition(":")[0] + ":missing")
        answer = self.refused(self.admin.put("/workflows/ship", missing), 422, "INVALID_WORKFLOW")
        self.assertIn(":missing", answer.json["detail"])
        # Whoever does not say is believed to know it.
        self.aws.faults.append(("DescribeStateMachine", Refused("AccessDeniedException", "not allowed")))
        self.publish(missing)

    def test_recorded_a_history_of_many_pages_is_read_to_its_end(self):
        self.aws.history_page = 7
        run, arn = self.begin()
        self.aws.add(arn, "TaskStateEntered", 0)
        self.aws.add(arn, "TaskScheduled")
        for _ in range(20):
            self.aws.add(arn, "TaskFailed", taskFailedEventDetails={"error": "Busy"})
            self.aws.add(arn, "TaskScheduled")
        self.seen(run, lambda r: r["retry_count"] == 20, "retried twenty times")

    def test_recorded_no_retry_metadata_is_running_and_none(self):
        self.aws.faults += [("GetExecutionHistory", Refused("InvalidArn", "no history"))] * 1000
        run, _ = self.begin()
        seen = self.seen(run, lambda r: r["provider_state"] == "RUNNING", "seen")
        self.assertEqual((seen["sub_state"], seen["retry_count"]), ("running", 0))

    def test_recorded_a_task_that_waits_for_its_token_is_waiting(self):
        run, arn = self.begin()
        for previous, kind in ((0, "TaskStateEntered"), (None, "TaskScheduled"), (None, "TaskStarted"),
                               (None, "TaskSubmitted")):
            self.aws.add(arn, kind, previous)
        self.assertEqual(self.sub_state(run, "waiting")["provider_state"], "RUNNING")

    def test_recorded_an_unknown_state_is_running_with_one_warning_and_a_metric(self):
        run, arn = self.begin()
        other, other_arn = self.begin()
        for each in (arn, other_arn):
            self.aws.end(each, "DREAMING")
        for each in (run, other):
            seen = self.seen(each, lambda r: r["provider_state"] == "DREAMING", "seen")
            self.assertEqual((seen["status"], seen["sub_state"]), ("running", "running"))
        metrics = self.ok(self.admin.get("/metrics")).body.decode()
        self.assertIn('pawl_provider_unknown_states_total{provider="stepfunctions",state="DREAMING"} 2', metrics)
        self.assertEqual(self.server.output().count("DREAMING"), 1)
        self.aws.end(arn, "SUCCEEDED", output="1")
        self.run_status(run, "success")

    def test_recorded_a_canceled_run_is_stopped_there(self):
        run, arn = self.begin()
        self.ok(self.admin.post(f"/runs/{run}/cancel"))
        self.until(lambda: self.aws.executions[arn]["status"], lambda s: s == "ABORTED", "stopped")

    def test_recorded_more_than_a_few_are_looked_at_by_lists(self):
        self.publish(ship())
        items = [{"workflow": "ship", "input": {"n": n}} for n in range(40)]
        runs = [item["id"] for item in self.ok(self.admin.post("/runs/batch", {"items": items})).json["items"]]
        for run in runs:
            self.seen(run, lambda r: r["provider_state"] == "RUNNING", "seen")
        described = self.aws.count("DescribeExecution")
        lists = self.aws.count("ListExecutions")
        self.until(lambda: self.aws.count("ListExecutions"), lambda n: n > lists + 5, "looked at")
        self.assertEqual(self.aws.count("DescribeExecution"), described)
        for run in runs:
            self.aws.end(self.aws.arn_of(run), "SUCCEEDED", output="{}")
        for run in runs:
            self.run_status(run, "success")

    def test_recorded_lists_of_many_pages_are_read_while_executions_begin_and_end(self):
        self.aws.list_page = 7
        self.publish(ship())
        running, ended = [], []
        for size in (60, 25, 1):
            items = [{"workflow": "ship"}] * size
            running += [item["id"] for item in self.ok(self.admin.post("/runs/batch", {"items": items})).json["items"]]
            for run in running:
                self.seen(run, lambda r: r["provider_state"] == "RUNNING", "seen")
            for run in running[::5]:
                self.aws.end(self.aws.arn_of(run), "SUCCEEDED", output="{}")
                ended.append(run)
            running = [run for run in running if run not in ended]
            for run in ended:
                self.run_status(run, "success")
            with self.aws.lock:
                self.aws.tokens_gone = self.aws.tokens
        self.assertEqual({self.get_run(run)["status"] for run in running}, {"running"})
        # What is listed is not asked for by itself, and there is no more of that than there were ends and beginnings.
        self.assertGreater(self.aws.count("ListExecutions"), 10)
        described = self.aws.count("DescribeExecution")
        lists = self.aws.count("ListExecutions")
        self.until(lambda: self.aws.count("ListExecutions"), lambda n: n > lists + 25, "looked at")
        self.assertEqual(self.aws.count("DescribeExecution"), described)

    def test_recorded_those_that_no_list_has_take_turns(self):
        self.publish(ship())
        items = [{"workflow": "ship"}] * 150
        runs = [item["id"] for item in self.ok(self.admin.post("/runs/batch", {"items": items})).json["items"]]
        for run in runs:
            self.seen(run, lambda r: r["provider_state"] == "RUNNING", "seen")
        for run in runs:
            self.aws.end(self.aws.arn_of(run), "PENDING_REDRIVE")
        for run in runs:
            self.sub_state(run, "waiting")


class RecordedFaults(WithRecordedServer):
    """Throttled, slow, away, talking nonsense or of the past."""

    def test_recorded_throttling_is_honoured_and_loses_nothing(self):
        self.aws.throttle("StartExecution", 1)
        run, arn = self.begin()
        began = time.monotonic()
        before = self.aws.count("DescribeExecution")
        self.aws.throttle("DescribeExecution", 2)
        self.until(lambda: self.aws.count("DescribeExecution"), lambda n: n >= before + 3, "asked again")
        self.assertGreater(time.monotonic() - began, 2.5)  # one second, then two
        self.aws.end(arn, "SUCCEEDED", output="{}")
        self.run_status(run, "success")
        self.assertEqual(len(self.aws.executions), 1)

    def test_recorded_a_start_whose_answer_was_lost_is_adopted(self):
        self.aws.faults.append(("StartExecution", b""))
        run, arn = self.begin()
        self.aws.end(arn, "SUCCEEDED", output="7")
        self.assertEqual(self.run_status(run, "success")["foreign"]["output"], 7)

    def test_recorded_a_canceled_run_whose_start_was_never_answered_is_stopped_all_the_same(self):
        self.publish(ship())
        real = self.aws.StartExecution

        def start_silently(request):
            real(request)
            raise Refused("InternalFailure", status=500)
        self.aws.StartExecution = start_silently
        run = self.create("ship")["id"]
        self.until(lambda: self.aws.arn_of(run), bool, "started")
        self.ok(self.admin.post(f"/runs/{run}/cancel"))
        self.until(lambda: self.aws.executions[self.aws.arn_of(run)]["status"], lambda s: s == "ABORTED", "stopped")

    def test_recorded_a_start_that_is_over_already_is_adopted_by_its_name(self):
        self.publish(ship())
        real = self.aws.StartExecution

        def start_and_end(request):
            arn = real(request)["executionArn"]
            self.aws.end(arn, "SUCCEEDED", output="1")
            self.aws.StartExecution = real
            raise Refused("InternalFailure", status=500)
        self.aws.StartExecution = start_and_end
        run = self.create("ship")["id"]
        self.assertEqual(self.run_status(run, "success")["foreign"]["output"], 1)
        self.assertEqual(len(self.aws.executions), 1)

    def test_recorded_what_aws_refuses_fails_the_run_with_its_words(self):
        self.aws.faults.append(("DescribeStateMachine", Refused("AccessDeniedException", "not allowed")))
        run = self.start(ship("arn:aws:states:eu-west-1:123456789012:stateMachine:missing"))["id"]
        ended = self.terminal(run)
        self.assertEqual((ended["status"], ended["error_code"]), ("failed", "PROVIDER_REFUSED"))
        self.assertIn("StateMachineDoesNotExist", ended["diagnostic"]["message"])

    def test_recorded_nonsense_changes_nothing_and_the_deadline_ends_the_run(self):
        run = self.start_with_deadline(ship(more="timeout: DEADLINE"), lambda r: r["provider_state"])
        nonsense = [b"", b"<html>", b"[]", b"{}", b'{"status": 7}', b'{"status": null, "events": 1}', b"null"]
        self.aws.faults += [("*", text) for text in nonsense * 2000]
        ended = self.terminal(run)
        self.assertEqual((ended["status"], ended["error_code"]), ("timeout", "RUN_TIMEOUT"))

    def test_recorded_the_past_changes_nothing(self):
        run, arn = self.begin()
        self.aws.end(arn, "SUCCEEDED", output="1")
        self.run_status(run, "success")
        self.aws.end(arn, "RUNNING")
        self.restart()
        other, _ = self.begin()
        self.seen(other, lambda r: r["provider_state"], "seen")
        self.assertEqual(self.get_run(run)["status"], "success")

    def test_recorded_a_killed_pawl_goes_on_with_what_it_carried(self):
        run, arn = self.begin()
        self.server.kill()
        self.aws.end(arn, "SUCCEEDED", output='"late"')
        self.start_server()
        self.assertEqual(self.run_status(run, "success")["foreign"]["output"], "late")

    def test_recorded_one_that_aws_does_not_know_any_more_has_failed_as_lost(self):
        self.server.flags += ["--provider-lost-after", "1s"]
        self.restart()
        run, arn = self.begin()
        self.seen(run, lambda r: r["provider_state"], "seen")
        with self.aws.lock:
            del self.aws.executions[arn]
        self.assertEqual(self.terminal(run)["error_code"], "PROVIDER_RUN_LOST")


class RecordedApprovals(WithRecordedServer):
    """Approvals that are bound to a task token."""

    def begin_asking(self, token="token-1"):
        self.publish(ship(more="approvals: [{id: sign-off, tier: high}]"))
        run = self.create("ship")["id"]
        self.seen(run, lambda r: r["foreign"]["id"], "accepted")
        asked = self.as_role("worker").post(f"/runs/{run}/approvals", {
            "approval": "sign-off", "callback": {"kind": "task_token", "address": token}})
        self.assertEqual(self.ok(asked).json["status"], "waiting")
        return run

    def test_recorded_an_approval_is_a_task_success(self):
        run = self.begin_asking()
        self.ok(self.admin.post(f"/runs/{run}/approve", {"reason": "fine"}))
        told = self.until(lambda: list(self.aws.told), len, "told")
        self.assertEqual((told[0][0], told[0][1]["taskToken"]), ("success", "token-1"))
        self.assertEqual(json.loads(told[0][1]["output"])["decision"], "approved")
        self.seen(run, lambda r: r["foreign"]["approvals"][0]["told"], "told")
        self.assertEqual(len(self.aws.told), 1)

    def test_recorded_a_rejection_is_a_task_failure_and_the_run_is_denied_when_it_ends_by_it(self):
        run = self.begin_asking()
        self.ok(self.admin.post(f"/runs/{run}/reject", {"reason": "no"}))
        kind, request = self.until(lambda: list(self.aws.told), len, "told")[0]
        self.assertEqual((kind, request["error"]), ("failure", "ApprovalRejected"))
        self.aws.end(self.aws.arn_of(run), "FAILED", error=request["error"], cause=request["cause"])
        ended = self.terminal(run)
        self.assertEqual((ended["status"], ended["error_code"]), ("denied", "APPROVAL_REJECTED"))

    def test_recorded_a_token_that_is_gone_is_said_and_harms_nothing(self):
        self.aws.gone_tokens.add("token-1")
        run = self.begin_asking()
        self.ok(self.admin.post(f"/runs/{run}/approve"))
        seen = self.seen(run, lambda r: r["foreign"]["approvals"][0]["told"], "told")
        self.assertIn("TaskTimedOut", seen["foreign"]["approvals"][0]["problem"])
        self.assertEqual(seen["status"], "running")

    def test_recorded_a_decision_survives_a_kill_and_an_outage(self):
        run = self.begin_asking()
        self.aws.faults += [("SendTaskSuccess", Refused("InternalFailure", status=500))] * 3
        self.ok(self.admin.post(f"/runs/{run}/approve"))
        self.restart()
        self.seen(run, lambda r: r["foreign"]["approvals"][0]["told"], "told")
        self.assertEqual(len(self.aws.told), 1)


class WithEmulator(ProviderCase):
    """Against stepfunctions-local: the wire, states that wait, succeed and fail, activities with their task tokens. It
    knows no retries, no idempotent starts and no time-outs, which is why the rest is tested with the recorded protocol.
    """

    @classmethod
    def setUpClass(cls):
        if not fetched():
            raise unittest.SkipTest("the emulator could not be fetched: it needs npm and the network, once")
        folder = tempfile.mkdtemp(prefix="pawl-stepfunctions-")
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.start_emulator(pathlib.Path(folder) / "emulator.log")
        cls.flags = ["--stepfunctions", f"http://127.0.0.1:{cls.port}", "--provider-interval", "100ms"]
        for name, value in (("AWS_ACCESS_KEY_ID", ACCESS), ("AWS_SECRET_ACCESS_KEY", SECRET)):
            os.environ[name] = value
            cls.addClassCleanup(os.environ.pop, name)

    @classmethod
    def start_emulator(cls, log):
        for _ in range(5):  # somebody may take the port meanwhile
            cls.port = free_port()
            # Not by the program's own command `start`, which has it run in another process.
            program = "node_modules/stepfunctions-local/bin/stepfunctions-local-start"
            emulator = Process(["node", "-r", "./loopback.cjs", program, "--port", str(cls.port)], log, cwd=PARTS)
            emulator.start()
            cls.addClassCleanup(emulator.kill)
            if came_up(emulator, lambda: cls.aws("ListStateMachines", {})[0] == 200):
                return
        raise AssertionError("the emulator does not start:\n" + log.read_text()[-3000:])

    @classmethod
    def aws(cls, operation, body):
        connection = http.client.HTTPConnection("127.0.0.1", cls.port, timeout=HANG_S)
        try:
            connection.request("POST", "/", json.dumps(body), {"content-type": "application/x-amz-json-1.0",
                                                               "x-amz-target": "AWSStepFunctions." + operation})
            response = connection.getresponse()
            return response.status, json.loads(response.read() or b"{}")
        except (OSError, json.JSONDecodeError):
            return 0, {}
        finally:
            connection.close()

    def machine(self, name, states, first):
        status, made = self.aws("CreateStateMachine", {"name": name, "roleArn": "arn:aws:iam::123456789012:role/pawl",
                                                       "definition": json.dumps({"StartAt": first, "States": states})})
        self.assertEqual(status, 200, made)
        return made["stateMachineArn"]

    def test_emulated_an_execution_succeeds_with_its_output(self):
        arn = self.machine("passes", {"A": {"Type": "Pass", "Result": {"boxes": 2}, "End": True}}, "A")
        run = self.start(ship(arn))["id"]
        done = self.run_status(run, "success")
        self.assertEqual((done["foreign"]["output"], done["provider_state"]), ({"boxes": 2}, "SUCCEEDED"))
        self.assertTrue(done["foreign"]["id"].endswith(run))

    def test_emulated_an_execution_fails_with_its_cause(self):
        # A state of the type Fail succeeds there, so an activity has to fail.
        activity = self.aws("CreateActivity", {"name": "breaks"})[1]["activityArn"]
        arn = self.machine("fails", {"A": {"Type": "Task", "Resource": activity, "End": True}}, "A")
        run = self.start(ship(arn))["id"]
        self.sub_state(run, "waiting")
        token = self.aws("GetActivityTask", {"activityArn": activity, "workerName": "breaker"})[1]["taskToken"]
        self.aws("SendTaskFailure", {"taskToken": token, "error": "Broken", "cause": "the belt"})
        ended = self.terminal(run)
        self.assertEqual((ended["status"], ended["sub_state"], ended["provider_state"]), ("failed", "failed", "FAILED"))

    def test_emulated_a_canceled_run_is_stopped(self):
        arn = self.machine("waits", {"A": {"Type": "Wait", "Seconds": 60, "End": True}}, "A")
        run = self.start(ship(arn))["id"]
        there = self.seen(run, lambda r: r["provider_state"] == "RUNNING", "running")["foreign"]["id"]
        self.ok(self.admin.post(f"/runs/{run}/cancel"))
        self.until(lambda: self.aws("DescribeExecution", {"executionArn": there})[1].get("status"),
                   lambda s: s == "ABORTED",
                   "stopped")

    def test_emulated_an_activity_waits_for_an_approval_and_goes_on_with_it(self):
        activity = self.aws("CreateActivity", {"name": "ask"})[1]["activityArn"]
        arn = self.machine("asks", {"A": {"Type": "Task", "Resource": activity, "End": True}}, "A")
        self.publish(ship(arn, "approvals: [{id: sign-off}]"))
        run = self.create("ship")["id"]
        self.sub_state(run, "waiting")
        token = self.aws("GetActivityTask", {"activityArn": activity, "workerName": "asker"})[1]["taskToken"]
        self.ok(self.admin.post(f"/runs/{run}/approvals", {"approval": "sign-off",
                                                           "callback": {"kind": "task_token", "address": token}}))
        self.ok(self.admin.post(f"/runs/{run}/approve"))
        self.assertEqual(self.run_status(run, "success")["foreign"]["output"]["decision"], "approved")


if __name__ == "__main__":
    unittest.main()
