"""What monitoring reads: who may, what it counts, and that rules and dashboards ask for what there is."""
import json
import os
import pathlib
import re
import unittest

from api_case import ApiCase

MONITORING = pathlib.Path(__file__).parents[2] / "packaging/monitoring"
WORK = "workflow: {name}\nretry: {{max_attempts: 2, base: 1ms, max: 1ms}}\nsteps: [{{id: a, tool: test.work}}]\n"


class Metrics(ApiCase):
    flags = ("--no-workers",)

    def text(self, who=None):
        return self.ok((who or self.admin).get("/metrics")).body.decode()

    def value(self, name, **labels):
        """0 when it is not there: nothing was counted yet."""
        for line in self.text().splitlines():
            found = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if found and found[1] == name:
                seen = dict(re.findall(r'(\w+)="([^"]*)"', found[2] or ""))
                if labels.items() <= seen.items():
                    return float(found[3])
        return 0

    def test_only_the_installations_tenant_has_keys_for_metrics(self):
        other = self.make_tenant("other")
        for who, asked in ((self.admin, {"role": "metrics", "tenant": "other"}), (other, {"role": "metrics"})):
            refused = self.refused(who.post("/keys", asked), 400, "INVALID_REQUEST")
            self.assertEqual(refused.json["detail"],
                             '`role` must not be metrics: only the tenant "default" has keys for metrics, which are '
                             "figures of the whole server.")
        self.ok(self.admin.post("/keys", {"role": "metrics", "tenant": "default"}), 201)

    def test_a_key_for_metrics_reads_them_and_nothing_else(self):
        key = self.as_role("metrics")
        self.assertIn("pawl_runs_created_total", self.text(key))
        for path in ("/runs", "/events", "/tenant", "/workflows", "/approvals", "/tasks", "/keys"):
            self.refused(key.get(path), 403, "FORBIDDEN")

    def test_outcomes_are_counted_by_workflow_and_attempts_by_tool(self):
        self.publish(WORK.format(name="work"))
        good, bad = (self.create("work")["id"] for _ in range(2))
        for lease in self.lease_count(2):
            if lease["run_id"] == good:
                self.complete(lease)
            else:
                self.report("fail", lease, retryable=True)
        self.report("fail", self.lease_one(), retryable=False)
        self.until(lambda: self.value("pawl_runs_ended_total", workflow="work", status="failed"), lambda n: n == 1,
                   "the failure is counted")
        self.assertEqual(self.value("pawl_runs_ended_total", workflow="work", status="success"), 1)
        self.assertEqual(self.value("pawl_attempts_total", tool="test.work"), 3)
        for result in ("succeeded", "failed_retryable", "failed_terminal"):
            self.assertEqual(self.value("pawl_attempts_ended_total", tool="test.work", result=result), 1, result)
        self.assertEqual(self.ok(self.admin.get(f"/runs/{bad}")).json["status"], "failed")

    def test_what_waits_is_counted_with_its_age(self):
        self.publish("workflow: gate\nsteps: [{id: ok, tool: approval}]\n")
        run = self.create("gate")["id"]
        self.until(lambda: self.value("pawl_approvals_waiting"), lambda n: n == 1, "the approval waits")
        self.until(lambda: self.value("pawl_oldest_approval_seconds"), lambda age: age > 0, "it grows older")
        self.ok(self.admin.post(f"/runs/{run}/approve", {}))
        self.until(lambda: self.value("pawl_approvals_waiting"), lambda n: n == 0, "it waits no more")
        self.assertEqual(self.value("pawl_oldest_approval_seconds"), 0)

    def test_the_queue_grows_older_until_a_worker_comes(self):
        if "PAWL_PG_PORT" in os.environ:
            self.skipTest("what nobody here can do waits in the database, for any server")
        self.publish(WORK.format(name="work"))
        self.create("work")
        self.until(lambda: self.value("pawl_oldest_queued_seconds"), lambda age: age > 0, "it grows older")
        self.complete(self.lease_one())
        self.assertEqual(self.value("pawl_oldest_queued_seconds"), 0)

    def test_alert_rules_and_the_dashboard_ask_for_what_there_is(self):
        self.publish(WORK.format(name="work"))
        self.create("work")
        self.complete(self.lease_one())
        self.until(lambda: self.value("pawl_runs_ended_total", workflow="work"), bool, "the run is counted")
        known = set(re.findall(r"^# TYPE (\w+)", self.text(), re.M))
        rules = (MONITORING / "alerts.yml").read_text()
        dashboard = json.loads((MONITORING / "grafana.json").read_text())
        asked = rules + " ".join(t["expr"] for panel in dashboard["panels"] for t in panel["targets"])
        for name in set(re.findall(r"\bpawl_\w+", asked)):
            self.assertIn(name.removesuffix("_bucket"), known)


if __name__ == "__main__":
    unittest.main()
