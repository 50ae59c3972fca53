"""pawl serve, and the commands that talk to it."""
import json
import os
import signal
import subprocess
import time
import unittest
import urllib.request

from pawl_case import TIMEOUT_S
from server_case import ServerCase


class Serve(ServerCase):
    def test_the_first_start_makes_an_admins_key_for_the_owner_only(self):
        self.serve()
        for name in ("admin.key", "secret", "server.json"):
            self.assertEqual((self.data / name).stat().st_mode & 0o777, 0o600, name)
        self.assertEqual(self.request("GET", "/tenant")["name"], "default")

    def test_nothing_in_the_folder_is_open_to_others_whatever_the_umask_and_whoever_copied_it(self):
        def open_to_others():
            inside = [path for path in self.data.rglob("*") if "workspaces" not in path.parts[:-1]]
            return [str(path) for path in [self.data, *inside] if path.lstat().st_mode & 0o077]
        self.addCleanup(os.umask, os.umask(0))
        server = self.serve("--bundles", "all", "--checkpoint-interval", "50ms")
        run = self.started("workflow: writes\nsteps: [{id: one, tool: shell, with: {argv: ['true']}}]\n",
                           "writes")
        self.wait_until(lambda: self.status(run) == "success", "the run")
        self.wait_until(lambda: any((self.data / "evidence").rglob("*.zip")), "its bundle")
        self.assertEqual(open_to_others(), [])
        self.kill(server)
        for path in [*self.data.rglob("*"), self.data]:
            if path.name != "signing-key.json" and path.exists():
                path.chmod(path.stat().st_mode | 0o055)
        server = self.serve("--bundles", "all", "--checkpoint-interval", "50ms")
        self.assertEqual(open_to_others(), [])
        server.send_signal(signal.SIGTERM)
        self.assertIn("other users could use files of the data folder", server.communicate(timeout=TIMEOUT_S)[1])

    def test_a_second_start_keeps_the_key_and_the_runs(self):
        server = self.serve()
        run = self.started()
        key = (self.data / "admin.key").read_text()
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(TIMEOUT_S), 0)
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
        server.wait(TIMEOUT_S)
        (self.data / "secret").write_text("short")
        result = self.expect(self.pawl("serve", "--listen", "127.0.0.1:0"), 4)
        self.assertIn(f"{self.data / 'secret'} is not the one", result.stderr)


class Commands(ServerCase):
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
        for command in (["keys"], ["tenants"], ["caps"], ["events", "--follow"]):
            result = self.expect(self.pawl(*command), 2)
            self.assertIn("pawl serve", result.stderr)

    def test_keys_are_made_rotated_and_revoked(self):
        self.serve()
        made = json.loads(self.expect(self.pawl("keys", "create", "--role", "viewer", "--name", "eyes", "--json"),
                                      0).stdout)
        next_one = json.loads(self.expect(self.pawl("keys", "rotate", made["id"], "--overlap", "1h", "--json"),
                                          0).stdout)
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

    def test_what_an_action_on_keys_has_no_use_for_is_refused(self):
        self.serve()
        before = self.expect(self.pawl("keys"), 0).stdout
        some = "key_01kaw3v9m8f2hr4x6q0t7c5ezy"
        for line in (["revoke"], ["rotate"], ["create"], ["create", some, "--role", "viewer"], ["list", some],
                     ["list", "--role", "viewer"], ["create", "--role", "viewer", "--overlap", "5h"],
                     ["revoke", some, "--overlap", "5h"], ["rotate", some, "--role", "viewer"],
                     ["revoke", some, "--tenant", "default"], ["rotate", some, "--name", "n"]):
            self.assertRegex(self.expect(self.pawl("keys", *line), 2).stderr, "which key|takes no key|--")
        self.assertEqual(self.expect(self.pawl("keys"), 0).stdout, before)

    def test_a_run_is_found_behind_many_that_only_resemble_it(self):
        self.serve()
        run = self.started("workflow: other\nsteps:\n  - {id: a, tool: approval}\n", "other")
        self.expect(self.pawl("workflows", "--publish", self.workflow(
            f"workflow: w-{run[-6:]}\nsteps:\n  - {{id: a, tool: noop}}\n")), 0)
        self.request("POST", "/runs/batch", {"items": [{"workflow": "w-" + run[-6:]}] * 600})
        shown = json.loads(self.expect(self.pawl("cancel", run[-6:], "--json"), 0).stdout)
        self.assertEqual((shown["run"], shown["status"]), (run, "canceled"))

    def test_long_lists_are_shown_whole(self):
        self.serve()
        for i in range(600):
            self.request("POST", "/keys", {"role": "viewer", "name": f"k{i}"})
        self.assertEqual(len(self.expect(self.pawl("keys", "--json"), 0).stdout.splitlines()), 601)

    def test_caps_are_shown_and_changed(self):
        self.serve("--no-workers")
        self.expect(self.pawl("workflows", "--publish", self.workflow(
            "workflow: far\nsteps:\n  - {id: a, tool: far.away}\n  - {id: b, tool: far.away}\n")), 0)
        shown = self.expect(self.pawl("caps", "--max-concurrency", "1", "--max-writes-per-run", "0", "--weight", "3"),
                            0).stdout
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
        self.assertIn("workspace europe: weight 7",
                      self.expect(self.pawl("caps", "--max-concurrency", "none"), 0).stdout)
        self.assertEqual(len(self.request("POST", "/leases", take)["leases"]), 2)

    def test_tenants_are_limited_suspended_and_resumed(self):
        self.serve()
        self.expect(self.pawl("tenants", "--create", "acme"), 0)
        shown = self.expect(self.pawl("tenants", "acme", "--max-connections", "7", "--weight", "3"), 0).stdout
        self.assertRegex(shown, r"max_connections +7 +-\n")
        self.assertIn("weight 3", shown)
        shown = self.expect(self.pawl("tenants", "acme", "--suspend", "--reason", "unpaid"), 0).stdout
        self.assertRegex(shown, r"suspended since \S+: unpaid")
        self.assertRegex(self.expect(self.pawl("tenants"), 0).stdout, r"acme +3 +suspended")
        tenant = json.loads(self.expect(self.pawl("tenants", "acme", "--resume", "--json"), 0).stdout)
        self.assertEqual((tenant["suspended"], tenant["ceiling"]["max_connections"]), (None, 7))
        tenant = json.loads(self.expect(self.pawl("tenants", "acme", "--max-connections", "none", "--json"), 0).stdout)
        self.assertEqual(tenant["ceiling"]["max_connections"], None)
        for wrong in (["--suspend"], ["--max-connections", "3"], ["acme", "--reason", "x"],
                      ["acme", "--suspend", "--resume"], ["acme", "--create", "b"], ["acme", "--max-connections", "0"]):
            self.expect(self.pawl("tenants", *wrong), 2)

    def test_effects_are_frozen_and_unfrozen(self):
        self.serve()
        self.assertIn("nothing is frozen", self.expect(self.pawl("freeze", "--list"), 0).stdout)
        shown = self.expect(self.pawl("freeze", "--connector", "http", "--reason", "incident 42"), 0).stdout
        self.assertRegex(shown, r"everywhere +- +http +\S+ +key:\S+ +incident 42")
        self.expect(self.pawl("freeze"), 0)
        self.assertEqual(len(self.expect(self.pawl("freeze", "--list", "--json"), 0).stdout.splitlines()), 2)
        self.expect(self.pawl("unfreeze", "--connector", "http"), 0)
        self.assertIn("nothing is frozen", self.expect(self.pawl("freeze", "--lift"), 0).stdout)
        self.assertNotEqual(self.pawl("unfreeze").returncode, 0)

    def test_wrong_caps_are_refused_and_change_nothing(self):
        self.serve()
        self.expect(self.pawl("caps", "--max-concurrency", "5"), 0)
        for wrong in (["--max-concurrency", "0"], ["--max-concurrency", "-3"], ["--max-runs-per-min", "many"],
                      ["--max-concurrency", "99999999999"], ["--weight", "0"], ["--weight", "1001"],
                      ["--workspace", "europe"], ["--workspace", " ", "--weight", "2"], ["--max-concurency", "2"],
                      ["5"]):
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

    def feeds_open(self):
        key = (self.data / "admin.key").read_text().strip()
        asked = urllib.request.Request(self.url() + "/metrics", headers={"Authorization": "Bearer " + key})
        with urllib.request.urlopen(asked, timeout=TIMEOUT_S) as answer:
            return "pawl_feeds_open 1\n" in answer.read().decode()

    def test_following_a_quiet_server_goes_on_when_it_is_back(self):
        server = self.serve()
        follower = self.start("events", "--follow")
        self.wait_until(self.feeds_open, "it follows")
        self.kill(server)
        self.assertIn("waiting for it to come back", follower.stderr.readline())
        self.serve()  # at another address
        run = self.started()
        self.assertIn(run, self.line_with(follower, "run.created"))

    def line_with(self, process, words):
        for line in process.stdout:
            if words in line:
                return line
        self.fail(f"{words} never came: {process.stderr.read()}")


class Tls(ServerCase):
    def certificate(self, name):
        files = [str(self.folder / f"{name}-{part}.pem") for part in ("cert", "key")]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes",
                        "-days", "2", "-subj", "/CN=" + name, "-addext", "subjectAltName=" + name, "-out", files[0],
                        "-keyout", files[1]], check=True, capture_output=True)
        return files

    def test_the_server_of_the_folder_is_known_by_its_key_whatever_its_name(self):
        cert, key = self.certificate("DNS:pawl.example")
        server = self.serve("--tls-cert", cert, "--tls-key", key)
        self.assertTrue(self.url().startswith("https://"))
        self.expect(self.pawl("keys"), 0)
        # Somebody else at that address is not believed, though the address is the one that was written down.
        self.kill(server)
        cert, key = self.certificate("DNS:pawl.example")
        server = self.serve("--tls-cert", cert, "--tls-key", key)
        file = self.data / "server.json"
        said = json.loads(file.read_text())
        file.write_text(json.dumps({**said, "public_key": "sha256//" + "A" * 43 + "="}) + "\n")
        self.assertIn("does not answer", self.expect(self.pawl("keys"), 75).stderr)
        file.write_text(json.dumps(said) + "\n")
        self.expect(self.pawl("keys"), 0)

    def test_of_a_server_that_is_named_the_certificate_is_checked(self):
        cert, key = self.certificate("IP:127.0.0.1")
        self.serve("--tls-cert", cert, "--tls-key", key)
        env = self.away()
        refused = self.expect(self.pawl("runs", env=env), 2)
        self.assertIn("PAWL_CA", refused.stderr)
        self.expect(self.pawl("runs", env={**env, "PAWL_CA": cert}), 0)
        other, _ = self.certificate("IP:127.0.0.2")
        self.expect(self.pawl("runs", env={**env, "PAWL_CA": other}), 2)
        self.assertIn("PAWL_CA", self.expect(self.pawl("runs", env={**env, "PAWL_CA": key}), 2).stderr)
        self.assertIn("PAWL_CA", self.expect(self.pawl("runs", env={**env, "PAWL_CA": "/nowhere"}), 2).stderr)

    def test_what_is_no_address_is_said_to_be_none(self):
        for address in ("ftp://127.0.0.1", "http://a b", "https://[::1"):
            result = self.expect(self.pawl("runs", "--server", address, env={"PAWL_KEY": "k"}), 2)
            self.assertIn("is not a server's address", result.stderr)


class Worker(ServerCase):
    def metrics(self):
        key = (self.data / "admin.key").read_text().strip()
        request = urllib.request.Request(self.url() + "/metrics", headers={"Authorization": "Bearer " + key})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return answer.read().decode()

    def wait_for_event(self, run, kind):
        def find():
            return [item["event"] for item in self.request("GET", f"/runs/{run}/events")["items"]
                    if item["event"]["type"] == kind]
        self.wait_until(find, kind)
        return find()[0]

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
        self.assertEqual(later.wait(TIMEOUT_S), 0)
        self.wait_until(lambda: "pawl_polls_waiting 0\n" in self.metrics(), "that the server knows it to be gone")
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

    def test_a_server_that_comes_back_elsewhere_is_found(self):
        server = self.serve()
        self.worker()
        run = self.started()
        self.wait_until(lambda: self.status(run) == "waiting", "the gate")
        self.kill(server)
        self.serve()  # at another address
        self.request("POST", f"/runs/{run}/approve", {})
        self.wait_until(lambda: self.status(run) == "success", "the end")

    def test_a_lease_that_is_shorter_than_the_work_is_kept(self):
        self.serve()
        go = self.folder / "go"
        self.start_command("worker", "--tool", "slow", "--data", self.data, "--", "sh", "-c",
                           f"while [ ! -e {go} ]; do sleep 0.02; done; echo 1")
        run = self.started("workflow: slow\n"
                           "steps: [{id: a, tool: slow, lease: 4s, retry: {max_attempts: 5, base: 1ms}}]\n", "slow")
        claimed = self.wait_for_event(run, "step.claimed")
        # As it was first given, the lease is over by then.
        self.wait_until(lambda: time.time() * 1000 > claimed["lease_expires_at"] + 500, "the first lease's end")
        go.touch()
        self.wait_until(lambda: self.status(run) == "success", "the end")
        self.assertEqual(self.request("GET", "/runs/" + run)["steps"][0]["attempts"], 1)

    def test_a_long_failure_is_cut_between_characters_and_ends_no_worker(self):
        self.serve()
        program = self.folder / "fail.py"
        program.write_text("import json\nprint(json.dumps({'error_code': 'E' * 200, 'message': 'x' + 'é' * 3000, "
                           "'retryable': False}))\nraise SystemExit(1)\n")
        self.start_command("worker", "--tool", "slow", "--data", self.data, "--", "python3", program)
        for _ in range(2):
            run = self.started("workflow: slow\nsteps:\n  - {id: a, tool: slow}\n", "slow")
            self.wait_until(lambda: self.status(run) == "failed", "the end")
            ended = self.request("GET", "/runs/" + run)
            self.assertIn("xéé", ended["diagnostic"]["message"])


if __name__ == "__main__":
    unittest.main()
