"""Agents in a real server: what becomes of a run, logs that are read live, nothing left behind."""
import json
import os
import pathlib
import shutil
import subprocess
import unittest

from agent_case import PAWL, AgentCase, is_alive, until


class Runs(AgentCase):
    def test_an_agents_result_is_the_steps_output(self):
        output = self.output(self.begin("work on this"))
        self.assertEqual(output["result"], "did: on this")
        self.assertEqual(output["cost_usd"], "0.25")

    def test_a_question_waits_for_a_person_and_the_answer_resumes_the_session(self):
        run = self.begin("ask")
        step = self.waits(run)
        self.assertEqual(step["question"]["text"], "Which way?")
        self.assertEqual(self.run_of(run)["status"], "waiting")
        self.ask("POST", f"/runs/{run}/answer", {"step": "work", "answer": "echo left"})
        seen = json.loads(self.output(run)["result"])
        self.assertEqual(seen["message"], "echo left")
        self.assertEqual(len(seen["messages"]), 2)
        # Both turns are paid, once.
        self.assertEqual(self.step_of(run)["cost_usd"], "0.50")

    def test_a_budget_is_the_end(self):
        done = self.ended(self.begin("overspend", max_budget_usd="2.00", step={"retry": {"max_attempts": 3}}))
        self.assertEqual((done["status"], done["error_code"]), ("failed", "AGENT_BUDGET_EXCEEDED"))
        self.assertEqual(done["steps"][0]["attempts"], 1)

    def test_what_it_costs_is_journaled_while_it_runs_and_told_once(self):
        for timeout in ("2s", "10s", "50s"):
            run = self.begin("spend", step={"timeout": timeout, "retry": {"max_attempts": 2, "schedule": ["10ms"]}})
            self.until(lambda: self.charges_of(run) or self.attempts_of(run) == 2)
            types = [item["event"]["type"] for item in self.ask("GET", f"/runs/{run}/events")["items"]]
            if "step.charged" in types[:(types + ["step.failed_retryable"]).index("step.failed_retryable")]:
                break  # otherwise the machine was too busy for an agent to begin in this time
        self.assertEqual(self.charges_of(run)[0]["event"]["cost_usd"], "1.00")
        # The first attempt was out of time and could not report; the second, which goes on with its session, does.
        self.output(run)
        self.assertEqual(self.run_of(run)["cost_usd"], "1.25")

    def test_a_runs_budget_ends_it_while_it_runs(self):
        given = {"prompt": "spend", "folder": str(self.work), "pass_env": ["FAKE_AGENT_HOME"]}
        self.publish([{"id": "work", "tool": "agent.claude", "with": given, "timeout": "1h"}], budget_usd="0.50")
        done = self.ended(self.ask("POST", "/runs", {"workflow": "agents"})["id"])
        self.assertEqual((done["error_code"], done["cost_usd"]), ("BUDGET_EXCEEDED", "1.00"))

    def test_what_a_question_has_cost_is_told_before_it_is_answered(self):
        run = self.begin("ask")
        self.waits(run)
        self.assertEqual(self.run_of(run)["cost_usd"], "0.25")

    def attempts_of(self, run):
        return self.step_of(run)["attempts"]

    def charges_of(self, run):
        return [item for item in self.ask("GET", f"/runs/{run}/events")["items"]
                if item["event"]["type"] == "step.charged"]

    def test_a_time_out_ends_it_and_is_retryable(self):
        done = self.ended(self.begin("hang", step={"timeout": "1s", "retry": {"max_attempts": 1}}))
        self.assertEqual((done["error_code"], done["retryable"]), ("TOOL_TIMEOUT", True))

    def test_a_failed_attempt_is_resumed_by_the_next(self):
        run = self.begin("fail_once", step={"retry": {"max_attempts": 2, "schedule": ["10ms"]}})
        self.assertTrue(self.output(run)["result"].startswith("heard: You were interrupted"))

    def test_cancel_ends_the_whole_group(self):
        pids = self.work / "pids"
        run = self.begin(f"fork {pids}")
        self.until(pids.exists)
        children = [int(pid) for pid in pids.read_text().split()]
        self.assertTrue(all(is_alive(pid) for pid in children))
        self.ask("POST", f"/runs/{run}/cancel", {"reason": "enough"})
        self.assertEqual(self.ended(run)["status"], "canceled")
        for pid in children:
            self.until(lambda: not is_alive(pid))

    def test_a_policy_can_forbid_agents(self):
        self.ask("PUT", "/policy", "policy: p\nrules:\n  - {id: no-agents, when: \"connector = 'agent'\", effect: "
                                   "deny}\n")
        done = self.ended(self.begin("work"))
        self.assertEqual((done["status"], done["error_code"]), ("denied", "POLICY_DENIED"))


class Logs(AgentCase):
    def test_are_read_in_parts_and_from_the_end(self):
        run = self.begin("flood 300")
        self.output(run)
        whole, after = "", 0
        while True:
            part = self.log(run, after=after, limit=100000)
            self.assertEqual(part["from"], after)
            whole += part["text"]
            after = part["next"]
            if part["ended"]:
                break
        self.assertEqual(whole.count("\n"), 302)
        self.assertTrue(whole.endswith(self.log(run, tail=1000)["text"]))
        self.assertEqual(self.log(run, stream="stderr")["text"], "")

    def test_are_read_while_they_are_written(self):
        run = self.begin("hang")
        part = until(lambda: self.log(run, follow="true"), lambda part: '"init"' in part["text"],
                     "the agent's first words")
        self.assertFalse(part["ended"])
        self.ask("POST", f"/runs/{run}/cancel", {})
        until(lambda: self.log(run, after=part["next"], follow="true"), lambda part: part["ended"],
              "the end of the log")

    def test_of_another_tenant_are_not_there(self):
        run = self.begin("work")
        self.output(run)
        self.ask("POST", "/tenants", {"name": "other"})
        key = self.ask("POST", "/keys", {"name": "k", "role": "admin", "tenant": "other"})["key"]
        never = "run_01m7hm5kk9e00a16va1g5nvbxh"
        theirs = self.refused("GET", f"/runs/{run}/steps/work/logs", key=key)
        nobodys = self.refused("GET", f"/runs/{never}/steps/work/logs", key=key)
        self.assertEqual((theirs.status, theirs.body), (nobodys.status, nobodys.body))

    def test_cannot_be_asked_for_by_a_path(self):
        run = self.begin("work")
        self.output(run)
        for step in ("..", "%2e%2e", "..%2f..%2fadmin.key", "nosuch"):
            self.assertEqual(self.refused("GET", f"/runs/{run}/steps/{step}/logs").status, 404)

    def test_are_kept_within_their_limits_with_both_ends(self):
        self.stop()
        self.settings = ["--log-max", "1MiB"]
        self.start()
        run = self.begin("flood 1500")
        self.output(run)
        folder = self.data / "logs" / run / "work" / "1"
        self.assertLess(sum(file.stat().st_size for file in folder.iterdir()), 1 << 20)
        self.assertIn('"init"', self.log(run, limit=1000)["text"])
        self.assertIn("flooded", self.log(run, tail=2000)["text"])
        gap = self.log(run, after=600000, limit=1000)
        self.assertGreater(gap["from"], 600000)

    def test_are_printed_by_pawl_logs(self):
        run = self.begin("work")
        self.output(run)
        shown = self.pawl("logs", run)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn('"did: "', shown.stdout)
        self.stop()
        self.assertEqual(self.pawl("logs", run).stdout, shown.stdout)

    def test_are_followed_over_attempts_until_the_step_ends(self):
        run = self.begin("fail_once", step={"retry": {"max_attempts": 2, "schedule": ["300ms"]}})
        shown = self.pawl("logs", run, "--step", "work", "--follow")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("begun", shown.stdout)
        self.assertIn("heard: You were interrupted", shown.stdout)


class Orphans(AgentCase):
    def test_a_killed_server_leaves_none_once_the_next_one_has_started(self):
        pids = self.work / "pids"
        run = self.begin(f"fork {pids}", step={"retry": {"max_attempts": 1}})
        self.until(pids.exists)
        children = [int(pid) for pid in pids.read_text().split()]
        self.assertEqual(len(children), 4)
        self.assertTrue(all(is_alive(pid) for pid in children))
        self.kill()
        self.until(lambda: not is_alive(children[-1]))  # the agent dies with the server
        self.log_file = self.base / "log"
        self.start()
        for pid in children:
            self.until(lambda: not is_alive(pid))
        self.assertEqual(self.ended(run)["status"], "success", "the death of the server costs no attempt")
        self.assertEqual(list((self.data / "processes").iterdir()), [])
        said = self.log_file.read_text()
        self.assertIn("the lease of a server that is gone was released", said)
        self.assertNotIn("a worker was not heard of", said)

    def test_a_session_that_another_server_began_is_resumed_where_it_is_found(self):
        mark = self.work / "mark"
        for is_shared in (True, False):
            with self.subTest(is_shared=is_shared):
                run = self.begin(f"stay {mark}", step={"retry": {"max_attempts": 1}})
                self.until(mark.exists)
                mark.unlink()
                self.kill()
                # As on another server: its folder knows nothing of the session.
                for folder in ("logs", "agents"):
                    shutil.rmtree(self.data / folder)
                if not is_shared:
                    shutil.rmtree(self.sessions)
                self.start()
                if is_shared:
                    self.assertEqual(self.ended(run)["status"], "success")
                    self.assertIn("You were interrupted", self.run_of(run)["steps"][0]["output"]["result"])
                else:
                    self.until(mark.exists, "the agent to begin anew")


if __name__ == "__main__":
    unittest.main()
