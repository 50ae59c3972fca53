"""pawl evidence, checkpoints, keys signing, and verify of what they make: in a folder, at a server, with an S3."""
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import unittest
import urllib.error
import urllib.request
import zipfile

from pawl_case import SOURCE
from server_case import ServerCase

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
        with self.database() as database:
            for table in ("runs", "approvals"):
                database.execute(f"DELETE FROM {table}")
        self.assertTrue(any(problem["subject"] == self.ended and "is gone" in problem["what"] for problem in self.problems()))

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
                previous, lines = database.execute("SELECT previous, lines FROM history WHERE number = ?", (number,)).fetchone()
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
        server = self.serve("--checkpoint-interval", "50ms")
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

    def test_a_bundle_is_not_lost_with_the_process(self):
        server = self.serve("--checkpoint-interval", "1h")
        self.expect(self.pawl("workflows", "--publish", self.workflow(GATED)), 0)
        first = self.ended()  # what is first is covered at once; the next one waits for its hour
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
        for path in (f"/runs/{run}/evidence?partial=true", f"/runs/{run[:-1]}{'0' if run[-1] != '0' else '1'}/evidence"):
            request = urllib.request.Request(self.url() + path, headers={"Authorization": "Bearer " + other})
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=30)
            self.assertEqual(refused.exception.code, 404)
            refused.exception.close()
        self.expect(self.pawl("keys", "signing", "rotate"), 0)
        self.expect(self.pawl("evidence", run, "-o", self.folder / "y.zip", "--partial"), 0)
        self.good(self.folder / "y.zip")

    def test_bundles_go_to_s3(self):
        folder = SOURCE / "build" / "s3"
        if not (folder / "node_modules" / "s3rver").exists():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / "tests/cli/s3/package.json", folder)
            try:
                subprocess.run(["npm", "install", "--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund"],
                               cwd=folder, check=True, capture_output=True, timeout=300)
            except (OSError, subprocess.SubprocessError):
                self.skipTest("the S3 could not be fetched: it needs npm and the network, once")
        port = 20000 + os.getpid() % 20000
        root = self.folder / "buckets"
        emulator = subprocess.Popen([folder / "node_modules/.bin/s3rver", "-a", "127.0.0.1", "-p", str(port), "-d", root,
                                     "--configure-bucket", "audit"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(lambda: (emulator.kill(), emulator.wait(), emulator.stdout.close()))
        emulator.stdout.readline()
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


if __name__ == "__main__":
    unittest.main()
