"""pawl evidence, checkpoints, keys signing, and verify of what they make: in a folder, at a server, with an S3."""
import hashlib
import http.server
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import unittest
import urllib.error
import urllib.request
import zipfile

from pawl_case import SOURCE, TIMEOUT_S
from server_case import ServerCase

import fetching  # noqa: E402: pawl_case knows the way to tests/support, server_case that to tests/postgres
from cluster import free_port  # noqa: E402
sys.path.insert(0, str(SOURCE / "tests" / "connectors"))
from fakes import Fake, Model  # noqa: E402
sys.path.insert(0, str(SOURCE / "tests" / "providers"))
from aws_signature import ACCESS, SECRET, signature_problem  # noqa: E402

GATED = """
workflow: gated
steps:
  - {id: before, tool: noop}
  - {id: gate, tool: approval, prompt: "ship ${{ input.what }}?"}
"""
PLAIN = "workflow: plain\nsteps: [{id: a, tool: noop}]\n"
CANARY = "canary-5c1e"


class EvidenceCase(ServerCase):
    def key(self):
        lines = self.expect(self.pawl("keys", "signing", "--json"), 0).stdout.splitlines()
        return json.loads(lines[-1])["id"]

    def good(self, file, key=None):
        return self.expect(self.pawl("verify", file, "--key", key or self.key(), "--json", data=False), 0)

    def finish(self, flags=("--approve",), text=GATED):
        self.run_to_end(text, "--input", json.dumps({"what": CANARY}), *flags)
        return json.loads(self.expect(self.pawl("runs", "--json", "--limit", "1"), 0).stdout.splitlines()[0])["id"]

    def problems(self, *flags):
        result = self.expect(self.pawl("verify", "--json", *flags), 1)
        return [json.loads(line) for line in result.stdout.splitlines()][:-1]


class InFolder(EvidenceCase):
    def test_a_bundle_can_be_checked_by_someone_who_has_nothing_else(self):
        run = self.finish()
        bundle = self.folder / "run.zip"
        self.expect(self.pawl("evidence", run, "-o", bundle), 0)
        summary = json.loads(self.good(bundle).stdout)
        self.assertEqual((summary["run"], summary["status"], summary["problems"]), (run, "success", 0))
        self.assertNotIn(CANARY.encode(), bundle.read_bytes())
        again = self.folder / "again.zip"
        self.expect(self.pawl("evidence", run, "-o", again), 0)
        self.assertEqual(bundle.read_bytes(), again.read_bytes())
        with zipfile.ZipFile(bundle) as archive:
            manifest = json.loads(archive.read("manifest.json"))
            for part in manifest["parts"]:
                self.assertEqual(hashlib.sha256(archive.read(part["name"])).hexdigest(), part["sha256"])
        self.verify_clean()

    def test_verify_wants_a_key_and_the_right_one(self):
        run = self.finish()
        bundle = self.folder / "run.zip"
        self.expect(self.pawl("evidence", run, "-o", bundle), 0)
        self.assertRegex(self.expect(self.pawl("verify", bundle, data=False), 2).stderr, "signed by whom")
        self.expect(self.pawl("verify", bundle, "--key", "nobody", data=False), 2)
        wrong = self.expect(self.pawl("verify", bundle, "--key", "ed25519:" + "0" * 64, data=False), 1)
        self.assertRegex(wrong.stdout, "no key of the bundle is one that you trust")
        keys = self.folder / "keys.json"
        keys.write_text(self.expect(self.pawl("keys", "signing", "--json"), 0).stdout)
        self.good(bundle, keys)

    def test_what_was_tampered_with_is_found(self):
        run = self.finish()
        bundle = self.folder / "run.zip"
        self.expect(self.pawl("evidence", run, "-o", bundle), 0)
        key = self.key()
        with zipfile.ZipFile(bundle) as archive:
            parts = [(info, archive.read(info)) for info in archive.infolist()]
        for name in [info.filename for info, _ in parts]:
            for change in (lambda text: text + b" ", lambda text: text[:-2], lambda text: None):
                bad = self.folder / "bad.zip"
                with zipfile.ZipFile(bad, "w") as archive:
                    for info, text in parts:
                        text = change(text) if info.filename == name else text
                        if text is not None:
                            archive.writestr(info, text)
                self.expect(self.pawl("verify", bad, "--key", key, data=False), 1)
        bad.write_bytes(bundle.read_bytes()[:-30])
        self.expect(self.pawl("verify", bad, "--key", key, data=False), 1)

    def test_a_run_that_has_not_ended_is_asked_for_by_name(self):
        self.pawl("run", self.workflow(GATED), "--input", '{"what": 1}')
        run = self.only_run()["id"]
        bundle = self.folder / "run.zip"
        self.assertRegex(self.expect(self.pawl("evidence", run, "-o", bundle), 1).stderr, "--partial")
        self.expect(self.pawl("evidence", run, "-o", bundle, "--partial"), 0)
        self.good(bundle)

    def test_rotation_is_followed(self):
        first = self.finish()
        old = self.key()
        self.expect(self.pawl("evidence", first, "-o", self.folder / "old.zip"), 0)
        self.expect(self.pawl("keys", "signing", "rotate"), 0)
        self.assertNotEqual(self.key(), old)
        second = self.finish()
        self.expect(self.pawl("evidence", second, "-o", self.folder / "new.zip"), 0)
        self.good(self.folder / "new.zip", old)
        self.good(self.folder / "new.zip")
        self.good(self.folder / "old.zip", old)
        self.assertEqual((self.data / "signing-key.json").stat().st_mode & 0o777, 0o600)
        self.verify_clean()

    def test_consistency_between_checkpoints_is_proved(self):
        self.finish()
        self.expect(self.pawl("checkpoints", "make"), 0)
        held = self.folder / "held.json"
        held.write_text(self.expect(self.pawl("checkpoints", "make", "--json"), 0).stdout)
        self.finish()
        self.expect(self.pawl("checkpoints", "make"), 0)
        proof = self.folder / "proof.json"
        proof.write_text(self.expect(self.pawl("checkpoints", "prove", "--from", "1"), 0).stdout)
        self.good(proof)
        changed = json.loads(proof.read_text())
        changed["older"]["size"] += 1
        proof.write_text(json.dumps(changed))
        self.expect(self.pawl("verify", proof, "--key", self.key(), data=False), 1)
        self.expect(self.pawl("verify", "--checkpoint", held), 0)


POLICY = """
policy: shop
rules:
- {id: ask, effect: needs_approval, when: connector = 'http' AND target LIKE '%/order', reason: orders cost money}
- {id: rest, effect: allow}
"""
GOVERNED = """
workflow: governed
steps:
  - id: think
    tool: model.chat
    with:
      provider: anthropic
      base_url: "${{ input.model }}"
      model: claude-sonnet-4-5-20250929
      max_tokens: 100
      messages: [{role: user, content: "${{ input.secret }}"}]
      api_key: "${{ secrets.MODEL_KEY }}"
  - {id: guess, tool: model.chat, with: {provider: openai, base_url: "${{ input.model }}", model: llama-9, max_tokens: 9,
     messages: [{role: user, content: hi}], api_key: "${{ secrets.MODEL_KEY }}"}}
  - {id: note, tool: shell, with: {argv: ["true"]}}
  - {id: order, tool: http.request, with: {method: POST, url: "${{ input.shop }}/order", body: {item: "${{ input.secret }}"}}}
"""


class Shop(Fake):
    def route(self, method, path, query, headers, body):
        return 200, {"order": 7}


class Governed(EvidenceCase):
    """A run with decisions, people, receipts and models, as somebody sees it who has nothing but its bundle."""

    def setUp(self):
        super().setUp()
        secrets = self.folder / "secrets" / "default"
        secrets.mkdir(parents=True)
        (secrets / "MODEL_KEY").write_text(Model.KEY)
        self.expect(self.pawl("run", self.workflow(PLAIN, "plain.yaml")), 0)
        policy = self.folder / "policy.yaml"
        policy.write_text(POLICY)
        self.expect(self.pawl("policy", "put", policy), 0)
        where = json.dumps({"model": Model(self).url, "shop": Shop(self).url, "secret": CANARY})
        result = self.pawl("run", self.workflow(GOVERNED, "governed.yaml"), "--input", where, "--approve", "--json",
                           "--secrets-folder", self.folder / "secrets", "--http-allow", "127.0.0.1")
        self.assertEqual(result.returncode, 0, result.stdout[-2000:] + result.stderr)
        self.run_id = json.loads(result.stdout.splitlines()[-1])["run"]["id"]
        self.bundle = self.folder / "run.zip"
        self.expect(self.pawl("evidence", self.run_id, "-o", self.bundle), 0)
        with zipfile.ZipFile(self.bundle) as archive:
            self.parts = [(info, archive.read(info)) for info in archive.infolist()]

    def part(self, name):
        return json.loads(next(text for info, text in self.parts if info.filename == name))

    def problems_of(self, change):
        bad = self.folder / "bad.zip"
        with zipfile.ZipFile(bad, "w") as archive:
            for info, text in self.parts:
                archive.writestr(info, change(info.filename, text))
        return self.problems_in(bad)

    def problems_in(self, file):
        result = self.expect(self.pawl("verify", file, "--key", self.key(), "--json", data=False), 1)
        return [(line["subject"], line["what"]) for line in map(json.loads, result.stdout.splitlines())
                if line["type"] == "problem"]

    def assert_named(self, problems, subject, words):
        self.assertTrue(any(found.startswith(subject) and words in what for found, what in problems), problems)

    def test_its_bundle_has_decisions_people_receipts_and_usage_and_is_good(self):
        summary = json.loads(self.good(self.bundle).stdout)
        self.assertEqual((summary["run"], summary["status"], summary["problems"]), (self.run_id, "success", 0))
        decisions = self.part("decisions.json")
        self.assertEqual([(d["step"], d["decision"], d["rule"]) for d in decisions["decisions"]],
                         [("think", "allow", "rest"), ("guess", "allow", "rest"), ("note", "allow", "rest"),
                          ("order", "needs_approval", "ask"), ("order", "allow", "ask")])
        self.assertEqual([(p["version"], p["source"]) for p in decisions["policies"]], [(1, POLICY)])
        approval, = self.part("approvals.json")
        self.assertEqual((approval["status"], approval["step"], len(approval["votes"])), ("approved", "order", 1))
        receipts = self.part("receipts.json")
        self.assertEqual([(r["step"], r["status"], r["approval"]) for r in receipts],
                         [("think", "succeeded", None), ("guess", "succeeded", None), ("note", "succeeded", None),
                          ("order", "succeeded", approval["id"])])
        cost = self.part("cost.json")
        models = {account["model"]: account for account in cost["models"]}
        self.assertEqual(models["claude-sonnet-4-5-20250929"]["cost_usd"], "0.012675")
        self.assertEqual(models["llama-9"]["calls_of_unknown_cost"], 1)
        self.assertEqual((cost["total_usd"], cost["calls_of_unknown_cost"]), ("0.012675", 1))
        for canary in (CANARY, Model.KEY):
            self.assertFalse([info.filename for info, text in self.parts if canary.encode() in text])

    def test_a_stream_that_was_cut_is_named(self):
        def cut(name, text):
            return text[:text.rindex(b"\n", 0, -1) + 1] if name == "events.jsonl" else text
        problems = self.problems_of(cut)
        self.assert_named(problems, "events.jsonl", "it ends at event")
        self.assert_named(problems, "events.jsonl", "the chain does not end at the head that the manifest names")

    def test_a_bundle_that_was_cut_is_named(self):
        whole = self.bundle.read_bytes()
        for size in (len(whole) - 30, len(whole) // 2, 100):
            cut = self.folder / "cut.zip"
            cut.write_bytes(whole[:size])
            self.assertEqual(self.problems_in(cut),
                             [("bundle", f"it was cut off: {size} bytes of a zip archive are here, and its end is "
                                         f"missing")])
        cut.write_bytes(b"")
        self.assertEqual(self.problems_in(cut), [("bundle", "the file is empty")])

    def test_a_changed_receipt_is_named(self):
        for old, new, where in ((b'"status":"succeeded"', b'"status":"failed"', "/0/status"),
                                (b'"calls":1', b'"calls":2', "/0/calls"),
                                (b'"policy_version":1', b'"policy_version":0', "/0/policy_version")):
            def change(name, text):
                self.assertTrue(name != "receipts.json" or old in text)
                return text.replace(old, new, 1) if name == "receipts.json" else text
            problems = self.problems_of(change)
            self.assert_named(problems, "receipts.json", "it is not what the manifest has the sum of")
            self.assert_named(problems, "receipts.json", "it is not the fold of the events: " + where)

    def test_a_folder_whose_stream_was_cut_or_receipt_changed_is_named(self):
        def with_change(statement, *arguments):
            before = (self.data / "pawl.db").read_bytes()
            with sqlite3.connect(self.data / "pawl.db") as database:
                self.assertEqual(database.execute(statement, arguments).rowcount, 1)
            database.close()
            found = [(p["subject"], p["what"]) for p in self.problems()]
            (self.data / "pawl.db").write_bytes(before)
            return found
        database = sqlite3.connect(self.data / "pawl.db")
        rows = database.execute("SELECT number, lines FROM history ORDER BY number").fetchall()
        database.close()
        number, lines = [row for row in rows if b"run.succeeded" in row[1]][-1]
        problems = with_change("UPDATE history SET lines = ? WHERE number = ?", lines[:lines.rindex(b"\n", 0, -1) + 1],
                               number)
        self.assert_named(problems, self.run_id, "events and its row says")
        problems = with_change("UPDATE receipts SET status = 2 "
                               "WHERE id = (SELECT id FROM receipts ORDER BY id LIMIT 1)")
        self.assert_named(problems, self.run_id, "is not the fold of the journal")
        self.verify_clean()


class Tampering(EvidenceCase):
    """With the journal's file, by someone who keeps every chain and table in order."""

    def setUp(self):
        super().setUp()
        self.ended = self.finish()
        self.expect(self.pawl("checkpoints", "make"), 0)
        self.held = self.folder / "held.json"
        self.held.write_text(self.expect(self.pawl("checkpoints", "--json", "--limit", "1"), 0).stdout)

    def database(self):
        return sqlite3.connect(self.data / "pawl.db", isolation_level=None)

    def test_a_deleted_run_is_missed(self):
        def is_reported(text):
            return any(problem["subject"] == self.ended and text in problem["what"] for problem in self.problems())
        with self.database() as database:
            for table in ("runs", "approvals"):
                database.execute(f"DELETE FROM {table}")
            self.assertTrue(is_reported("is folded, and not in the history"))
            database.execute("DELETE FROM frames")
        self.assertTrue(is_reported("is gone"))

    def test_a_checkpoint_that_is_held_elsewhere_shows_a_journal_that_was_cut(self):
        self.expect(self.pawl("verify", "--checkpoint", self.held), 0)
        held = json.loads(self.held.read_text())
        held["number"] += 7
        self.held.write_text(json.dumps(held))
        self.assertRegex(self.problems("--checkpoint", self.held)[0]["what"], "ends before checkpoint")
        held["number"] -= 7
        held["root"] = "0" * 64
        self.held.write_text(json.dumps(held))
        self.assertRegex(self.problems("--checkpoint", self.held)[0]["what"], "the journal was rewritten since")

    def test_a_stream_that_was_chained_anew_is_found(self):
        """The text of one event is changed, and the head that the row has with it."""
        tenant_text = json.loads(self.held.read_text())["tenant"]
        with self.database() as database:
            (number,) = database.execute("SELECT history FROM runs").fetchone()
            pieces = []
            while number is not None:
                previous, lines = database.execute("SELECT previous, lines FROM history WHERE number = ?",
                                                   (number,)).fetchone()
                pieces.insert(0, (number, bytes(lines)))
                number = previous
            head = hashlib.sha256(f"pawl stream v1\n{tenant_text}\n{self.ended}".encode()).digest()
            for number, lines in pieces:
                changed = lines.replace(b'"trigger_type":"cli"', b'"trigger_type":"api"')
                database.execute("UPDATE history SET lines = ? WHERE number = ?", (changed, number))
                for line in changed.splitlines():
                    head = hashlib.sha256(head + line).digest()
            database.execute("UPDATE runs SET head = ?", (head,))
        found = self.problems()
        self.assertTrue(any("the stream was rewritten" in problem["what"] for problem in found), found)
        self.assertFalse(any("recomputed hash" in problem["what"] for problem in found), found)


class AtServer(EvidenceCase):
    def ended(self, what=None):
        run = self.request("POST", "/runs", {"workflow": "gated", "input": {"what": CANARY}})["id"]
        self.wait_until(lambda: self.status(run) == "waiting", "the gate")
        self.request("POST", f"/runs/{run}/approve", {})
        self.wait_until(lambda: self.status(run) == "success", "the end")
        return run

    def tenant(self):
        return self.request("GET", "/tenant")["id"]

    def stored(self, run):
        return self.data / "evidence" / self.tenant() / f"{run}.zip"

    def test_a_bundle_is_stored_when_a_governed_run_ends(self):
        server = self.serve("--checkpoint-interval", "50ms", "--bundles", "governed")
        self.expect(self.pawl("workflows", "--publish", self.workflow(GATED)), 0)
        self.expect(self.pawl("workflows", "--publish", self.workflow(PLAIN, "plain.yaml")), 0)
        plain = self.request("POST", "/runs", {"workflow": "plain"})["id"]
        run = self.ended()
        self.wait_until(self.stored(run).exists, "the bundle")
        self.good(self.stored(run))
        asked = self.folder / "asked.zip"
        self.expect(self.pawl("evidence", run, "-o", asked), 0)
        self.assertEqual(asked.read_bytes(), self.stored(run).read_bytes())
        self.assertFalse(self.stored(plain).exists())
        made = self.request("GET", "/checkpoints")["items"]
        self.assertGreaterEqual(len(made), 1)
        self.end(server)
        self.verify_clean()
        if self.store:
            return
        with sqlite3.connect(self.data / "pawl.db") as database:
            lines = b"".join(bytes(row[0]) for row in database.execute("SELECT lines FROM history"))
        stored = [json.loads(line) for line in lines.splitlines() if b'"bundle.stored"' in line]
        self.assertEqual([(each["run"], each["sha256"]) for each in stored],
                         [(run, hashlib.sha256(asked.read_bytes()).hexdigest())])

    def metric(self, name):
        key = (self.data / "admin.key").read_text().strip()
        request = urllib.request.Request(self.url() + "/metrics", headers={"Authorization": "Bearer " + key})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(name + " "))

    def test_every_run_has_a_bundle_soon_after_its_end_whatever_the_interval(self):
        server = self.serve("--checkpoint-interval", "1h")
        self.expect(self.pawl("workflows", "--publish", self.workflow(GATED)), 0)
        self.expect(self.pawl("workflows", "--publish", self.workflow(PLAIN, "plain.yaml")), 0)
        first = self.ended()  # a tenant's first checkpoint covers all that it has
        self.wait_until(self.stored(first).exists, "the first bundle")
        plain = self.request("POST", "/runs", {"workflow": "plain"})["id"]
        governed = self.ended()
        for run in (plain, governed):
            self.wait_until(self.stored(run).exists, "its bundle")
            self.good(self.stored(run))
        self.wait_until(lambda: self.metric("pawl_evidence_backlog") == 0, "an empty backlog")
        recorded = self.request("GET", "/audit?type=bundle.stored")["items"]
        self.assertEqual({each["event"]["run"] for each in recorded}, {first, plain, governed})
        for each in recorded:
            digest = hashlib.sha256(self.stored(each["event"]["run"]).read_bytes()).hexdigest()
            self.assertEqual(each["event"]["sha256"], digest)
        self.end(server)
        self.verify_clean()

    def test_no_bundle_is_left_out_when_the_server_is_killed_behind(self):
        server = self.serve()
        self.expect(self.pawl("workflows", "--publish", self.workflow(PLAIN, "plain.yaml")), 0)
        runs = {self.request("POST", "/runs", {"workflow": "plain"})["id"] for _ in range(20)}
        self.kill(server)
        server = self.serve()
        runs |= {self.request("POST", "/runs", {"workflow": "plain"})["id"] for _ in range(20)}
        self.wait_until(lambda: all(self.stored(run).exists() for run in runs), "all bundles")
        self.wait_until(lambda: self.metric("pawl_evidence_backlog") == 0, "an empty backlog")
        self.end(server)
        self.verify_clean()

    def test_a_bundle_is_not_lost_with_the_process(self):
        server = self.serve("--checkpoint-interval", "1h")
        self.expect(self.pawl("workflows", "--publish", self.workflow(GATED)), 0)
        first = self.ended()
        second = self.ended()
        self.kill(server)
        self.serve("--checkpoint-interval", "50ms")
        for run in (first, second):
            self.wait_until(self.stored(run).exists, "the bundle")
            self.good(self.stored(run))

    def test_another_tenant_sees_nothing_and_an_unended_run_is_refused(self):
        self.serve()
        self.expect(self.pawl("workflows", "--publish", self.workflow(GATED)), 0)
        run = self.request("POST", "/runs", {"workflow": "gated", "input": {"what": 1}})["id"]
        self.wait_until(lambda: self.status(run) == "waiting", "the gate")
        self.assertRegex(self.pawl("evidence", run, "-o", self.folder / "x.zip").stderr, "has not ended")
        self.expect(self.pawl("evidence", run, "-o", self.folder / "x.zip", "--partial"), 0)
        self.good(self.folder / "x.zip")
        self.expect(self.pawl("tenants", "--create", "other"), 0)
        other = self.expect(self.pawl("keys", "create", "--tenant", "other", "--role", "admin"), 0).stdout.strip()
        for path in (f"/runs/{run}/evidence?partial=true",
                     f"/runs/{run[:-1]}{'0' if run[-1] != '0' else '1'}/evidence"):
            request = urllib.request.Request(self.url() + path, headers={"Authorization": "Bearer " + other})
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=TIMEOUT_S)
            self.assertEqual(refused.exception.code, 404)
            refused.exception.close()
        self.expect(self.pawl("keys", "signing", "rotate"), 0)
        self.expect(self.pawl("evidence", run, "-o", self.folder / "y.zip", "--partial"), 0)
        self.good(self.folder / "y.zip")

    def start_s3(self, folder, root):
        """Its port. Somebody may take that one before it does."""
        for _ in range(5):
            port = free_port()
            emulator = subprocess.Popen([folder / "node_modules/.bin/s3rver", "-a", "127.0.0.1", "-p", str(port),
                                         "-d", root, "--configure-bucket", "audit"],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.addCleanup(lambda process=emulator: (process.kill(), process.wait(), process.stdout.close()))
            for line in emulator.stdout:
                if b"listening" in line:
                    return port
        self.fail("the S3 does not start")

    def test_bundles_go_to_s3(self):
        folder = fetching.BUILD / "s3"
        if not fetching.fetched(folder, SOURCE / "tests/cli/s3"):
            self.skipTest("the S3 could not be fetched: it needs npm and the network, once")
        root = self.folder / "buckets"
        port = self.start_s3(folder, root)
        os.environ.update(AWS_ACCESS_KEY_ID="S3RVER", AWS_SECRET_ACCESS_KEY="S3RVER")
        self.addCleanup(lambda: [os.environ.pop(name) for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")])
        server = self.serve("--checkpoint-interval", "50ms", "--artifacts", "s3://audit/pawl",
                            "--artifacts-endpoint", f"http://127.0.0.1:{port}")
        self.expect(self.pawl("workflows", "--publish", self.workflow(GATED)), 0)
        run = self.ended()
        found = lambda: [path for path in root.rglob(f"*{run}.zip*") if path.stat().st_size > 5000]
        self.wait_until(found, "the object")
        copy = self.folder / "copy.zip"
        shutil.copy(found()[0], copy)
        self.good(copy)
        self.end(server)
        self.verify_clean()

    def test_what_goes_to_s3_is_signed_as_it_is_sent(self):
        seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PUT(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                seen.append((self.path, signature_problem(self.headers, body, "s3", "PUT", self.path)))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        bucket = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=bucket.serve_forever, daemon=True).start()
        self.addCleanup(lambda: (bucket.shutdown(), bucket.server_close()))
        names = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": "for-an-hour"}
        os.environ.update(names)
        self.addCleanup(lambda: [os.environ.pop(name) for name in names])
        server = self.serve("--checkpoint-interval", "50ms", "--artifacts", "s3://audit/pawl",
                            "--artifacts-endpoint", f"http://127.0.0.1:{bucket.server_address[1]}")
        self.expect(self.pawl("workflows", "--publish", self.workflow(GATED)), 0)
        run = self.ended()
        self.wait_until(lambda: [path for path, _ in seen if run in path], "the object")
        self.assertEqual({problem for _, problem in seen}, {None})
        self.end(server)


if __name__ == "__main__":
    unittest.main()
