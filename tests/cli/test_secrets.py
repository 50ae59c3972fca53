"""Secrets reach the world and nothing else: a value is looked for in every place where somebody could see it."""
import base64
import http.server
import json
import os
import pathlib
import subprocess
import threading
import unittest
import urllib.error
import urllib.parse
import urllib.request

from pawl_case import PAWL, TIMEOUT_S
from server_case import ServerCase

CANARY = "canary/7f3a \"q\" wert+5"
PLAIN = "canary-for-urls-42"
OTHER = "another-tenants-value-91"


def spellings(value):
    """What someone who greps for the value would look for."""
    raw = value.encode()
    out = {raw, json.dumps(value)[1:-1].encode(), urllib.parse.quote(value, safe="").encode(),
           urllib.parse.quote_plus(value).encode(), raw.hex().encode()}
    for before in range(3):
        text = base64.b64encode(b"x" * before + raw).decode()
        out.add(text[[0, 2, 3][before]:len(text) - 4].encode())
    return out


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers with all that it was sent, in several spellings; /fail/... with that status."""
    protocol_version = "HTTP/1.1"

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        seen = {"path": self.path, "token": self.headers.get("X-Token"), "auth": self.headers.get("Authorization"),
                "body": body}
        self.server.seen.append(seen)
        token = seen["token"] or ""
        answer = dict(seen, b64=base64.b64encode(("user:" + token).encode()).decode(),
                      quoted=urllib.parse.quote(token), hex=token.encode().hex())
        text = json.dumps(answer).encode()
        self.send_response(int(self.path.split("/")[2].split("?")[0]) if self.path.startswith("/fail/") else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Echo", urllib.parse.quote(token))
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = handle_any

    def log_message(self, *args):
        pass


class SecretsCase(ServerCase):
    def setUp(self):
        super().setUp()
        self.echo = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
        self.echo.seen = []
        threading.Thread(target=self.echo.serve_forever, daemon=True).start()
        self.addCleanup(self.echo.server_close)
        self.addCleanup(self.echo.shutdown)
        self.address = f"http://127.0.0.1:{self.echo.server_port}"
        self.secrets = self.folder / "secrets"
        self.put("default", "TOKEN", CANARY + "\n")
        self.put("default", "PLAIN", PLAIN)

    def put(self, tenant, name, value):
        (self.secrets / tenant).mkdir(parents=True, exist_ok=True)
        (self.secrets / tenant / name).write_text(value)

    def flags(self):
        return ["--secrets-folder", str(self.secrets), "--http-allow", "127.0.0.1"]

    def assert_unseen(self, *texts):
        """Neither in what was said nor in any file of the data folder."""
        found = [(where, spelling) for where, text in self.places(*texts) for value in (CANARY, PLAIN, OTHER)
                 for spelling in spellings(value) if spelling in text]
        self.assertEqual(found, [])

    def places(self, *texts):
        for text in texts:
            yield "said", text.encode() if isinstance(text, str) else text
        for path in self.data.rglob("*"):
            if path.is_file():
                yield str(path), path.read_bytes()

    def workflow_text(self, steps):
        return "workflow: w\nretry: {max_attempts: 1}\nsteps:\n" + steps


class InALocalRun(SecretsCase):
    def run_it(self, steps, *flags, code=0, **more):
        path = self.workflow(self.workflow_text(steps))
        result = self.expect(self.pawl("run", path, "--json", *self.flags(), *flags, **more), code)
        self.assert_unseen(result.stdout, result.stderr)
        return json.loads(result.stdout.splitlines()[-1]), result

    def test_a_write_is_sent_the_value_and_everything_else_the_name(self):
        last, result = self.run_it(f"""
  - id: send
    tool: http.request
    with: {{method: POST, url: "{self.address}/x?k=${{{{ secrets.PLAIN }}}}", headers: {{X-Token: "${{{{ secrets.TOKEN }}}}"}},
           body: {{deep: ["a ${{{{ secrets.TOKEN }}}} b"]}}}}
""")
        seen = self.echo.seen[0]
        self.assertEqual(seen["token"], CANARY)
        self.assertEqual(seen["path"], "/x?k=" + PLAIN)
        self.assertEqual(json.loads(seen["body"]), {"deep": [f"a {CANARY} b"]})
        events = [json.loads(line) for line in result.stdout.splitlines()[:-1]]
        intended = next(e for e in events if e["type"] == "receipt.intended")
        fields = json.dumps(intended)
        self.assertIn("${{ secrets.TOKEN }}", fields)
        output = self.steps(last["run"]["id"])["send"]["output"]
        self.assertEqual(output["body"]["token"], "[secret TOKEN]")
        shown = self.pawl("show", self.only_run()["id"], "--json", "--events")
        self.assert_unseen(shown.stdout)
        self.verify_clean()

    def test_a_failure_tells_nothing_either(self):
        self.run_it(f"""
  - id: ask
    tool: http.request
    with: {{method: GET, url: "{self.address}/fail/400?k=${{{{ secrets.PLAIN }}}}", headers: {{X-Token: "${{{{ secrets.TOKEN }}}}"}}}}
""", code=1)
        self.assertEqual(self.echo.seen[0]["token"], CANARY)

    def test_a_program_has_it_in_its_environment_or_on_stdin_and_not_among_its_arguments(self):
        look = "cat; echo; printf '%s' \"$T\" | base64 -w0; echo; printf '%s' \"$T\" > pattern; " \
               "cat /proc/*/cmdline /proc/$PPID/environ 2>/dev/null | tr '\\0' '\\n' | grep -cFf pattern"
        self.run_it(f"""
  - id: look
    tool: shell
    with:
      argv: [sh, -c, {json.dumps(look + "; true")}]
      env: {{T: "${{{{ secrets.TOKEN }}}}"}}
      stdin: "in: ${{{{ secrets.TOKEN }}}}"
      cwd: {self.folder}
""", env={"PAWL_SECRET_UNUSED": CANARY})
        self.assertEqual((self.folder / "pattern").read_text(), CANARY)
        lines = self.steps(self.only_run()["id"])["look"]["output"]["stdout"].splitlines()
        self.assertEqual(lines[0], "in: [secret TOKEN]")
        self.assertTrue(lines[1].startswith("[secret TOKEN]"), lines)
        self.assertEqual(lines[2], "0")

    def test_text_that_only_looks_like_a_secret_is_text(self):
        trap = "${{ secrets.TOKEN }}"
        self.run_it(f"""
  - id: first
    tool: noop
    with: {{output: {{text: "$${{{{ secrets.TOKEN }}}}"}}}}
  - id: send
    tool: http.request
    with: {{method: POST, url: "{self.address}/x", headers: {{X-Token: "${{{{ secrets.TOKEN }}}}"}},
           body: {{a: "${{{{ input.trap }}}}", b: "${{{{ steps.first.output.text }}}}", c: "${{{{ input.map }}}}"}}}}
  - id: without
    tool: http.request
    with: {{method: POST, url: "{self.address}/x", body: "${{{{ input.trap }}}}"}}
""", "--input", json.dumps({"trap": trap, "map": {"k": [trap]}}))
        body = json.loads(self.echo.seen[0]["body"])
        self.assertEqual(body, {"a": trap, "b": trap, "c": {"k": [trap]}})
        self.assertEqual(self.echo.seen[0]["token"], CANARY)
        self.assertEqual(self.echo.seen[1]["body"], trap)

    def test_one_that_is_not_there_fails_the_step_and_says_where_it_was_looked_for(self):
        last, result = self.run_it(f"""
  - id: send
    tool: http.request
    with: {{method: POST, url: "{self.address}/x", headers: {{X-Token: "${{{{ secrets.NOT_THERE }}}}"}}}}
""", code=1)
        self.assertIn("SECRET_UNAVAILABLE", result.stdout)
        self.assertIn("PAWL_SECRET_NOT_THERE", result.stdout)
        self.assertIn(str(self.secrets / "default" / "NOT_THERE"), result.stdout)
        self.assertEqual(self.echo.seen, [])

    def test_it_may_come_from_the_environment_or_a_program(self):
        program = self.folder / "vault"
        program.write_text("#!/bin/sh\n[ $2 = BY_PROGRAM ] && printf '%s\\n' 'by-program of '$1\n")
        program.chmod(0o755)
        steps = f"""
  - id: send
    tool: http.request
    with: {{method: POST, url: "{self.address}/x", body: "${{{{ secrets.BY_VARIABLE }}}},${{{{ secrets.BY_PROGRAM }}}}"}}
"""
        self.run_it(steps, "--secrets-command", program, env={"PAWL_SECRET_BY_VARIABLE": CANARY})
        self.assertEqual(self.echo.seen[0]["body"], CANARY + ",by-program of default")
        self.run_it(steps, env={"PAWL_SECRET_BY_VARIABLE": CANARY, "PAWL_SECRETS_COMMAND": str(program)})
        self.assertEqual(self.echo.seen[1]["body"], CANARY + ",by-program of default")

    def test_variables_that_hold_secrets_cannot_be_passed_on(self):
        _, result = self.run_it("""
  - id: look
    tool: shell
    with: {argv: [env], pass_env: [PAWL_SECRET_X]}
""", code=1, env={"PAWL_SECRET_X": CANARY})
        self.assertIn("cannot pass PAWL_SECRET_X on", result.stdout)

    def test_places_where_it_would_be_seen_are_refused_before_anything_happens(self):
        for step in ('{id: a, tool: noop, with: {output: "${{ secrets.TOKEN }}"}}',
                     '{id: a, tool: transform, with: {jq: ., input: "${{ secrets.TOKEN }}"}}',
                     '{id: a, tool: shell, with: {argv: [echo, "${{ secrets.TOKEN }}"]}}',
                     '{id: a, tool: noop, idempotency_key: "${{ secrets.TOKEN }}"}',
                     '{id: a, tool: approval, prompt: "${{ secrets.TOKEN }}"}'):
            result = self.expect(self.pawl("run", self.workflow(self.workflow_text("  - " + step + "\n"))), 2)
            self.assertRegex(result.stderr, "no secret can stand")
        self.assertFalse(self.data.exists())


class OnAServer(SecretsCase):
    def test_nothing_that_the_server_says_or_keeps_holds_a_value(self):
        log = self.folder / "log"
        with open(log, "wb") as file:
            server = subprocess.Popen([PAWL, "serve", "--listen", "127.0.0.1:0", "--access-log", "--data",
                                       str(self.data),
                                       *self.flags()], stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                      env=self.environment(PAWL_SECRET_BY_VARIABLE=CANARY), cwd=self.folder)
        self.addCleanup(self.end, server)
        self.wait_until((self.data / "server.json").exists, "the server")
        run = self.started(self.workflow_text(f"""
  - id: good
    tool: http.request
    with: {{method: POST, url: "{self.address}/x", headers: {{X-Token: "${{{{ secrets.TOKEN }}}}"}}}}
  - id: bad
    tool: http.request
    with: {{method: PUT, url: "{self.address}/fail/422", headers: {{X-Token: "${{{{ secrets.BY_VARIABLE }}}}"}}}}
"""), "w")
        self.wait_until(lambda: self.status(run) == "failed", "the end")
        self.assertEqual([seen["token"] for seen in self.echo.seen], [CANARY, CANARY])
        answers = []
        key = (self.data / "admin.key").read_text().strip()
        for path in (f"/runs/{run}", f"/runs/{run}/events", "/runs", "/approvals", "/metrics", "/workflows/w",
                     "/openapi.json"):
            request = urllib.request.Request(self.url() + path, headers={"Authorization": "Bearer " + key})
            answers.append(urllib.request.urlopen(request, timeout=TIMEOUT_S).read())
        seen_by_others = []
        for place in pathlib.Path("/proc").glob("[0-9]*"):
            for name in ("cmdline", "environ"):
                try:
                    if int(place.name) != os.getpid():
                        seen_by_others.append((place / name).read_bytes())
                except OSError:
                    pass
        self.assert_unseen(*answers, *seen_by_others, log.read_bytes())
        server.terminate()
        server.wait(TIMEOUT_S)
        self.assert_unseen(log.read_bytes())
        self.verify_clean()

    def test_a_tenant_is_given_its_own(self):
        self.put("acme", "TOKEN", OTHER)
        self.serve(*self.flags())
        self.expect(self.pawl("tenants", "--create", "acme"), 0)
        key = json.loads(self.expect(self.pawl("keys", "create", "--tenant", "acme", "--role", "admin", "--json"),
                                     0).stdout)
        text = self.workflow_text(f"""
  - id: send
    tool: http.request
    with: {{method: POST, url: "{self.address}/x", headers: {{X-Token: "${{{{ secrets.TOKEN }}}}"}}}}
""")
        path = self.workflow(text)
        env = {"PAWL_SERVER": self.url(), "PAWL_KEY": key["key"], "PAWL_DATA": str(self.folder / "nowhere")}
        self.expect(self.pawl("run", path, data=False, env=env), 0)
        self.expect(self.pawl("run", path), 0)
        self.assertEqual([seen["token"] for seen in self.echo.seen], [OTHER, CANARY])
        self.assert_unseen()

    def sender(self, secret, more="", name="w"):
        return f"""workflow: {name}
retry: {{max_attempts: 1}}
steps:
  - id: send
    tool: http.request
    with: {{method: POST, url: "{self.address}/x{more}", headers: {{X-Token: "${{{{ secrets.{secret} }}}}"}}}}
"""

    def run_latest(self, name="w"):
        run = self.request("POST", "/runs", {"workflow": name})["id"]
        self.wait_until(lambda: self.status(run) in ("success", "failed", "denied"), "the end")
        return self.request("GET", "/runs/" + run)

    def publish(self, text, code=0):
        return self.expect(self.pawl("workflows", "--publish", self.workflow(text)), code)

    def assert_not_allowed(self, done, *words):
        self.assertEqual((done["status"], done["error_code"], done["retryable"]),
                         ("denied", "SECRET_NOT_ALLOWED", False))
        for word in words:
            self.assertIn(word, done["diagnostic"]["message"])
        self.assertEqual(done["receipts"], [])

    def test_secrets_that_pawl_itself_uses_reach_no_step(self):
        uses = {"SLACK_TOKEN": "token of the Slack bot", "SLACK_SIGNING": "Slack signs its requests with it",
                "HOOK": "deliveries of the webhook orders are signed with it"}
        for name in uses:
            self.put("default", name, PLAIN)
        self.serve(*self.flags())
        for name in uses:
            self.publish(self.sender(name, name="w-" + name.lower()))
            self.assertEqual(self.run_latest("w-" + name.lower())["status"], "success")
        self.assertEqual(len(self.echo.seen), 3)
        self.request("PUT", "/tenant/slack", {"team": "T0123ABCD", "channel": "C0123ABCD", "token": "SLACK_TOKEN",
                                              "signing_secret": "SLACK_SIGNING"})
        self.request("PUT", "/webhooks/orders", {"url": self.address + "/hook", "events": ["task.created"],
                                                 "secret": "HOOK"})
        for name, why in uses.items():
            # Neither in a new version, wherever it stands,
            for text in (self.sender(name, more="?again"), self.sender("TOKEN", more="${{ secrets." + name + " }}"),
                         self.sender(name).replace("http.request", "slack.post").replace("method: POST, url", "token")):
                refused = self.publish(text, code=2)
                self.assertIn(f"the secret {name} is pawl's own, and no workflow can use it", refused.stderr)
                self.assertIn(why, refused.stderr)
                self.assertRegex(refused.stderr, r":6:\d+: ")
            # nor in one that was published before.
            self.assert_not_allowed(self.run_latest("w-" + name.lower()), f"the secret {name} is pawl's own", why)
        self.assertEqual(len(self.echo.seen), 3)

    def test_a_secret_can_be_limited_to_tenants_tools_and_workflows(self):
        server = self.serve(*self.flags())
        self.publish(self.sender("TOKEN"))
        self.assertEqual(self.run_latest()["status"], "success")
        for limit, word in (({"tools": ["slack.post"]}, "the tool http.request"),
                            ({"workflows": ["v"]}, "the workflow w"), ({"tenants": ["acme"]}, "tenant default"),
                            ({"tools": ["http.request"], "workflows": ["w"], "tenants": ["acme"]}, "tenant default")):
            server.terminate()
            server.wait(TIMEOUT_S)
            (self.data / "pawl.yaml").write_text(json.dumps({"secrets": {"limits": {"TOKEN": limit}}}))
            server = self.serve(*self.flags())
            self.assert_not_allowed(self.run_latest(), "the secret TOKEN cannot be used by " + word)
            refused = self.publish(self.sender("TOKEN", more="?" + word[-1]), code=2)
            self.assertIn("the secret TOKEN cannot be used by " + word, refused.stderr)
            self.publish(self.sender("PLAIN", name="free"))
        self.assertEqual(len(self.echo.seen), 1)
        server.terminate()
        server.wait(TIMEOUT_S)
        limit = {"tools": ["http.request"], "workflows": ["w"], "tenants": ["acme", "default"]}
        (self.data / "pawl.yaml").write_text(json.dumps({"secrets": {"limits": {"TOKEN": limit}}}))
        self.serve(*self.flags())
        self.assertEqual(self.run_latest()["status"], "success")

    def test_no_tenant_is_given_anothers(self):
        self.serve(*self.flags())
        self.expect(self.pawl("tenants", "--create", "acme"), 0)
        key = json.loads(self.expect(self.pawl("keys", "create", "--tenant", "acme", "--role", "admin", "--json"),
                                     0).stdout)
        env = {"PAWL_SERVER": self.url(), "PAWL_KEY": key["key"], "PAWL_DATA": str(self.folder / "nowhere")}
        result = self.expect(self.pawl("run", self.workflow(self.sender("TOKEN")), data=False, env=env), 1)
        self.assertIn("there is no secret TOKEN of tenant acme", result.stdout + result.stderr)
        self.assertEqual(self.echo.seen, [])

    def test_a_tool_of_others_is_given_none(self):
        self.serve(*self.flags())
        path = self.workflow(self.workflow_text('  - {id: a, tool: double, with: {n: "${{ secrets.TOKEN }}"}}\n'))
        result = self.expect(self.pawl("run", path), 2)
        self.assertIn("only built-in tools are given secrets", result.stderr)

    def test_flags_that_a_server_would_not_heed_are_refused(self):
        self.serve()
        result = self.expect(self.pawl("run", self.workflow(self.workflow_text("  - {id: a, tool: noop}\n")),
                                       "--secrets-folder", self.secrets), 2)
        self.assertIn("--secrets-folder: a server carries the steps out", result.stderr)


if __name__ == "__main__":
    unittest.main()
