"""pawl serve, and the verbs that talk to it."""
import json
import signal
import time
import unittest

from server_case import ServerCase


class Serve(ServerCase):
    def test_the_first_start_makes_an_admins_key_for_the_owner_only(self):
        self.serve()
        for name in ("admin.key", "secret", "server.json"):
            self.assertEqual((self.data / name).stat().st_mode & 0o777, 0o600, name)
        self.assertEqual(self.request("GET", "/tenant")["name"], "default")

    def test_a_second_start_keeps_the_key_and_the_runs(self):
        server = self.serve()
        run = self.started()
        key = (self.data / "admin.key").read_text()
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(30), 0)
        self.assertFalse((self.data / "server.json").exists())
        self.serve()
        self.assertEqual((self.data / "admin.key").read_text(), key)
        self.wait_until(lambda: self.status(run) == "waiting", "the gate")

    def test_a_folder_has_one_server(self):
        self.serve()
        second = self.pawl("serve", "--listen", "127.0.0.1:0")
        self.expect(second, 75)
        self.assertIn("pawl", second.stderr)

    def test_an_address_that_cannot_be_had_is_named(self):
        self.serve()
        taken = self.url().removeprefix("http://")
        other = self.pawl("serve", "--listen", taken, "--data", self.folder / "other", data=False)
        self.expect(other, 2)
        self.assertIn(taken.split(":")[1], other.stderr)
        self.expect(self.pawl("serve", "--listen", "nonsense"), 2)

    def test_a_lost_secret_is_said_and_not_made_anew(self):
        server = self.serve()
        server.send_signal(signal.SIGTERM)
        server.wait(30)
        (self.data / "secret").write_text("short")
        result = self.expect(self.pawl("serve", "--listen", "127.0.0.1:0"), 74)
        self.assertIn("secret", result.stderr)


class Verbs(ServerCase):
    def test_deciding_goes_through_the_server_that_has_the_folder(self):
        self.serve()
        run = self.started()
        self.wait_until(lambda: self.status(run) == "waiting", "the gate")
        self.assertIn("approved", self.expect(self.pawl("approve", run[-6:], "--reason", "fine"), 0).stdout)
        self.assertEqual(self.status(run), "running")
        self.assertIn("canceled", self.expect(self.pawl("cancel", run), 0).stdout)
        self.assertEqual(self.status(run), "canceled")
        again = json.loads(self.expect(self.pawl("retry", run, "--json"), 0).stdout)
        self.assertNotEqual(again["run"], run)
        self.expect(self.pawl("reject", run), 3)
        self.expect(self.pawl("approve", "zzzzzz"), 4)

    def test_a_server_elsewhere_is_named_with_its_key(self):
        self.serve()
        run = self.started()
        self.wait_until(lambda: self.status(run) == "waiting", "the gate")
        away = self.away()
        listed = self.expect(self.pawl("runs", "--json", data=False, env=away), 0).stdout
        self.assertEqual([json.loads(line)["id"] for line in listed.splitlines()], [run])
        shown = json.loads(self.expect(self.pawl("show", run, "--json", data=False, env=away), 0).stdout)
        self.assertEqual(shown, self.show(run))
        self.expect(self.pawl("show", run, "--at", "2", data=False, env=away), 0)
        events = self.expect(self.pawl("events", run, data=False, env=away), 0).stdout
        self.assertEqual(events, self.expect(self.pawl("events", run), 0).stdout)
        self.expect(self.pawl("runs", data=False, env={**away, "PAWL_KEY": "pawl_wrong"}), 3)
        self.expect(self.pawl("runs", data=False, env={**away, "PAWL_SERVER": "http://127.0.0.1:1"}), 75)

    def test_without_a_server_it_is_said_how_to_get_one(self):
        for verb in (["keys"], ["tenants"], ["caps"], ["events", "--follow"]):
            result = self.expect(self.pawl(*verb), 2)
            self.assertIn("pawl serve", result.stderr)

    def test_keys_are_made_rotated_and_revoked(self):
        self.serve()
        made = json.loads(self.expect(self.pawl("keys", "create", "--role", "viewer", "--name", "eyes", "--json"), 0).stdout)
        next_one = json.loads(self.expect(self.pawl("keys", "rotate", made["id"], "--overlap", "1h", "--json"), 0).stdout)
        self.assertNotEqual(next_one["key"], made["key"])
        env = {"PAWL_KEY": made["key"]}
        url = self.url()
        self.expect(self.pawl("runs", "--server", url, env=env), 0)
        self.expect(self.pawl("keys", "revoke", made["id"]), 0)
        self.expect(self.pawl("runs", "--server", url, env=env), 3)
        listed = self.expect(self.pawl("keys"), 0).stdout
        self.assertIn("eyes", listed)
        self.assertNotIn(made["key"].split("_")[2], listed)
        self.expect(self.pawl("keys", "create"), 2)

    def test_caps_are_shown_and_changed(self):
        self.serve("--no-workers")
        self.expect(self.pawl("workflows", "--publish", self.workflow(
            "workflow: far\nsteps:\n  - {id: a, tool: far.away}\n  - {id: b, tool: far.away}\n")), 0)
        shown = self.expect(self.pawl("caps", "--max-concurrency", "1", "--max-writes-per-run", "0", "--weight", "3"), 0).stdout
        self.assertRegex(shown, r"max_concurrency +1 +0\n")
        self.assertRegex(shown, r"max_runs_per_min +- +0\n")
        self.assertRegex(shown, r"max_writes_per_run +0 +0\n")
        self.assertIn("weight 3, 0 running, 0 queued", shown)
        self.expect(self.pawl("caps", "--max-writes-per-run", "none", "--workspace", "europe", "--weight", "7"), 0)
        for _ in range(3):
            self.request("POST", "/runs", {"workflow": "far"})
        take = {"worker": "w", "tools": ["far.away"], "max": 10}
        self.assertEqual(len(self.request("POST", "/leases", take)["leases"]), 1)
        load = json.loads(self.expect(self.pawl("caps", "--json"), 0).stdout)
        self.assertEqual((load["weight"], load["running"], load["queued"]), (3, 1, 2))
        self.assertGreaterEqual(load["held_back"]["max_concurrency"], 1)
        self.assertEqual(load["held_back"]["max_runs_per_min"], 0)
        self.assertIn("workspace europe: weight 7", self.expect(self.pawl("caps", "--max-concurrency", "none"), 0).stdout)
        self.assertEqual(len(self.request("POST", "/leases", take)["leases"]), 2)

    def test_wrong_caps_are_refused_and_change_nothing(self):
        self.serve()
        self.expect(self.pawl("caps", "--max-concurrency", "5"), 0)
        for wrong in (["--max-concurrency", "0"], ["--max-concurrency", "-3"], ["--max-runs-per-min", "many"],
                      ["--max-concurrency", "99999999999"], ["--weight", "0"], ["--weight", "1001"],
                      ["--workspace", "europe"], ["--workspace", " ", "--weight", "2"], ["--max-concurency", "2"], ["5"]):
            self.expect(self.pawl("caps", *wrong), 2)
        viewer = self.expect(self.pawl("keys", "create", "--role", "viewer"), 0).stdout.strip()
        seen = {"PAWL_KEY": viewer}
        self.expect(self.pawl("caps", "--server", self.url(), "--max-concurrency", "9", env=seen), 3)
        load = json.loads(self.expect(self.pawl("caps", "--server", self.url(), "--json", env=seen), 0).stdout)
        self.assertEqual(load["caps"]["max_concurrency"], 5)
        self.assertEqual(load["workspaces"], [])

    def test_following_shows_each_event_once(self):
        self.serve()
        run = self.started()
        self.wait_until(lambda: self.status(run) == "waiting", "the gate")
        follower = self.start("events", run, "--follow")
        first = follower.stdout.readline()
        self.assertEqual(json.loads(first)["type"], "run.created")
        self.expect(self.pawl("cancel", run), 0)
        seen = [first]
        while json.loads(seen[-1])["type"] != "run.canceled":
            seen.append(follower.stdout.readline())
        self.assertEqual("".join(seen), self.expect(self.pawl("events", run), 0).stdout)

    def test_following_goes_on_when_the_server_is_back(self):
        server = self.serve()
        run = self.started()
        self.wait_until(lambda: self.status(run) == "waiting", "the gate")
        of_run = self.start("events", run, "--follow")
        of_all = self.start("events", "--follow", "--after", "0")
        for follower in (of_run, of_all):
            self.assertIn("run.created", self.line_with(follower, "run.created"))
        self.kill(server)
        self.serve()  # at another address
        self.expect(self.pawl("cancel", run), 0)
        for follower in (of_run, of_all):
            self.assertIn("run.canceled", self.line_with(follower, "run.canceled"))

    def line_with(self, process, words):
        for line in process.stdout:
            if words in line:
                return line
        self.fail(f"{words} never came: {process.stderr.read()}")


class Worker(ServerCase):
    def approved(self):
        run = self.started()
        self.wait_until(lambda: self.status(run) == "waiting", "the gate")
        self.request("POST", f"/runs/{run}/approve", {})
        return run

    def test_any_program_is_a_tool(self):
        self.serve()
        self.worker()
        run = self.approved()
        self.wait_until(lambda: self.status(run) == "success", "the end")
        output = self.steps(run)["work"]["output"]
        self.assertEqual(output, {"twice": 42, "run": run, "key": f"{run}:work"})

    def test_a_failure_says_whether_to_come_again(self):
        self.serve()
        later = self.worker("later")
        run = self.approved()
        self.wait_until(lambda: self.status(run) == "success", "the second attempt")
        self.assertEqual(self.steps(run)["work"]["attempts"], 2)
        later.send_signal(signal.SIGTERM)
        self.assertEqual(later.wait(30), 0)
        time.sleep(1)  # the server looks now and then whether those who wait are still there
        self.worker("never")
        run = self.approved()
        self.wait_until(lambda: self.status(run) == "failed", "the end")
        shown = self.show(run)
        self.assertEqual((shown["error_code"], self.steps(run)["work"]["attempts"]), ("NO_WAY", 1))

    def test_a_server_that_was_killed_is_waited_for(self):
        server = self.serve()
        url = self.url()
        self.worker()
        run = self.started()
        self.wait_until(lambda: self.status(run) == "waiting", "the gate")
        self.kill(server)
        self.start("serve", "--listen", url.removeprefix("http://"))
        self.wait_until((self.data / "server.json").exists, "the server")
        self.request("POST", f"/runs/{run}/approve", {})
        self.wait_until(lambda: self.status(run) == "success", "the end")
        self.verify_clean()


if __name__ == "__main__":
    unittest.main()
