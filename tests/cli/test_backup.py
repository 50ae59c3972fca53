"""pawl backup and restore, beside a server under load; and servers whose data and keys do not belong together. Runs on
a data folder, and beside a PostgreSQL on a database."""
import hashlib
import io
import json
import stat
import subprocess
import tarfile
import threading
import unittest

from pawl_case import PAWL, TIMEOUT_S
from server_case import ServerCase

from database import new_database  # noqa: E402: server_case knows the way to it

GOVERNED = """
workflow: governed
steps:
  - {id: gate, tool: approval}
  - {id: work, tool: noop, with: {output: {n: "${{ input.n }}"}}}
"""
WAITING = "workflow: waiting\nsteps: [{id: only, tool: test.work}]\n"


class BackupCase(ServerCase):
    in_folder = False  # also beside a PostgreSQL

    def serve(self, *flags):
        if not self.in_folder:
            return super().serve(*flags)
        server = self.start("serve", "--listen", "127.0.0.1:0", *flags)
        self.wait_until((self.data / "server.json").exists, "the server")
        return server

    def setUp(self):
        super().setUp()
        self.archive = self.folder / "backup.tar"

    def flags(self):
        return ("--store", self.store) if self.store else ()

    def backup(self, code=0):
        return self.expect(self.pawl("backup", "-o", self.archive, *self.flags()), code)

    def verified(self):
        """The summary of pawl verify, which must be clean."""
        done = self.pawl("verify", "--json", *self.flags(), data=False) if self.store else self.pawl("verify", "--json")
        return json.loads(self.expect(done, 0).stdout.splitlines()[-1])

    def fill(self):
        """A server with ended runs and their bundles, a run that waits for a worker, a task, and a second tenant."""
        server = self.serve("--checkpoint-interval", "50ms", "--bundles", "all")
        for text in (GOVERNED, WAITING):
            self.expect(self.pawl("workflows", "--publish", self.workflow(text)), 0)
        self.ended = [self.request("POST", "/runs", {"workflow": "governed", "input": {"n": n}})["id"]
                      for n in range(3)]
        for run in self.ended:
            self.request("POST", f"/runs/{run}/approve", {})
        self.waiting = self.request("POST", "/runs", {"workflow": "waiting"})["id"]
        self.task = self.request("POST", "/tasks", {"title": "look around", "prompt": "look around"})["id"]
        self.request("POST", "/tenants", {"name": "acme"})
        self.worker_key = self.request("POST", "/keys", {"role": "worker", "name": "w"})["key"]
        self.wait_until(lambda: self.verified()["bundles"] == 3, "three bundles that the journal knows")
        self.signing_key = json.loads(self.expect(self.pawl("keys", "signing", "--json"), 0).stdout.splitlines()[-1])
        return server

    def stop(self, server):
        server.terminate()
        server.communicate(timeout=TIMEOUT_S)
        self.assertEqual(server.returncode, 0)

    def check_restored(self):
        """What was there is there, and work goes on with the keys of before."""
        server = self.serve("--checkpoint-interval", "50ms")
        for run in self.ended:
            self.assertEqual(self.request("GET", f"/runs/{run}")["status"], "success")
            bundle = self.folder / f"{run}.zip"
            self.expect(self.pawl("evidence", run, "-o", bundle), 0)
            self.expect(self.pawl("verify", bundle, "--key", self.signing_key["id"], data=False), 0)
        self.assertEqual(self.request("GET", f"/tasks/{self.task}")["title"], "look around")
        ask = {"worker": "w", "tools": ["test.work"], "max": 1, "wait": "5s"}
        (lease,) = self.request("POST", "/leases", ask, key=self.worker_key)["leases"]
        self.assertEqual(lease["run_id"], self.waiting)
        done = {"items": [{"lease_id": lease["lease_id"], "token": lease["token"], "output": 1}]}
        self.assertTrue(self.request("POST", "/leases/complete", done, key=self.worker_key)["items"][0]["ok"])
        self.wait_until(lambda: self.status(self.waiting) == "success", "the run to end")
        self.stop(server)
        self.verified()


class Backup(BackupCase):
    def test_a_backup_beside_a_busy_server_is_one_moment_and_can_be_served(self):
        server = self.fill()
        enough = threading.Event()

        def work():
            while not enough.is_set():
                self.request("POST", "/runs/batch", {"items": [{"workflow": "governed"}] * 50})

        busy = threading.Thread(target=work)
        busy.start()
        try:
            said = self.backup().stdout
        finally:
            enough.set()
            busy.join()
        self.stop(server)
        self.assertIn("3 bundles", said)
        self.assertEqual(stat.S_IMODE(self.archive.stat().st_mode), 0o600)
        with tarfile.open(self.archive) as tar:
            names = tar.getnames()
            manifest = json.load(tar.extractfile("manifest.json"))
            for file in manifest["files"]:
                self.assertEqual(hashlib.sha256(tar.extractfile(file["name"]).read()).hexdigest(), file["sha256"])
        self.assertEqual(names[-1], "manifest.json")
        self.assertLessEqual({"pawl.db", "secret", "signing-key.json", "admin.key"}, set(names))
        self.assertEqual(sum(name.startswith("evidence/") for name in names), 3)
        self.assertEqual({tenant["name"] for tenant in manifest["tenants"]}, {"default", "acme"})
        restored = self.folder / "restored"
        self.expect(self.pawl("restore", self.archive, "--data", restored, data=False), 0)
        self.data, self.store, self.in_folder = restored, None, True
        verified = self.verified()
        self.assertEqual((verified["runs"], verified["events"]), (manifest["runs"], manifest["events"]))
        # Whatever the store was, the archive can be served from a folder.
        self.assertEqual(stat.S_IMODE(restored.stat().st_mode), 0o700)
        self.check_restored()

    def test_a_backup_can_be_restored_into_a_database(self):
        store = new_database()
        if not store:
            self.skipTest("there is no PostgreSQL beside this")
        self.stop(self.fill())
        self.backup()
        restored = self.folder / "restored"
        self.expect(self.pawl("restore", self.archive, "--data", restored, "--store", store, data=False), 0)
        self.assertFalse((restored / "pawl.db").exists())
        again = self.pawl("restore", self.archive, "--data", self.folder / "other", "--store", store, data=False)
        self.assertIn("already holds an installation", self.expect(again, 2).stderr)
        self.assertFalse((self.folder / "other").exists())
        self.data, self.store = restored, store
        self.verified()
        self.check_restored()

    def test_an_archive_that_is_not_whole_is_refused_and_leaves_nothing(self):
        self.stop(self.fill())
        self.backup()
        whole = self.archive.read_bytes()
        place = self.folder / "new"

        def refused(data, reason):
            self.archive.write_bytes(data)
            done = self.expect(self.pawl("restore", self.archive, "--data", place, data=False), 2)
            self.assertIn(reason, done.stderr)
            self.assertEqual([path.name for path in self.folder.iterdir() if path.name.startswith("new")], [])

        middle = len(whole) // 3
        refused(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1:], "is not the file that the manifest")
        for size in (0, 100, 512, 5000, len(whole) // 2, len(whole) - 2048):
            refused(whole[:size], "damaged one: it was cut short")
        refused(b"PK" + whole[2:], "it does not begin like one")
        for name in ("../evil", "/evil", "evidence/../../evil", "evidence/x", "server.json", "pawl.db"):
            with self.subTest(name):
                strange = io.BytesIO()
                with tarfile.open(fileobj=strange, mode="w", format=tarfile.USTAR_FORMAT) as tar:
                    info = tarfile.TarInfo(name)
                    info.size = 4
                    tar.addfile(info, io.BytesIO(b"evil"))
                reason = "it holds pawl.db twice" if name == "pawl.db" else "does not belong to a backup"
                refused(strange.getvalue()[:1024] + whole, reason)
        self.assertFalse((self.folder / "evil").exists())
        place.mkdir()
        (place / "mine").write_text("keep")
        self.archive.write_bytes(whole)
        self.assertIn("is not empty", self.expect(self.pawl("restore", self.archive, "--data", place, data=False),
                                                  2).stderr)
        self.assertEqual((place / "mine").read_text(), "keep")

    def test_an_archive_made_by_hand_is_refused_by_what_is_wrong_with_it(self):
        self.stop(self.fill())
        self.backup()
        with tarfile.open(self.archive) as tar:
            whole = [(member.name, tar.extractfile(member).read()) for member in tar]
        place = self.folder / "new"

        def refused(reason, code, change, files=None):
            members = dict(whole)
            members.update(files or {})
            manifest = json.loads(members.pop("manifest.json"))
            members = {name: data for name, data in members.items() if data is not None}
            manifest["files"] = [{"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
                                 for name, data in members.items()]
            change(manifest)
            members["manifest.json"] = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode() + b"\n"
            with tarfile.open(self.archive, "w", format=tarfile.USTAR_FORMAT) as tar:
                for name, data in members.items():
                    info = tarfile.TarInfo(name)
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
            done = self.pawl("restore", self.archive, "--data", place, data=False)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            self.assertIn(reason, done.stderr)
            self.assertNotIn(".restoring-", done.stderr)
            self.assertEqual([path.name for path in self.folder.iterdir() if path.name.startswith("new")], [])

        def as_it_is(_):
            pass

        refused("pawl.db is missing", 2, as_it_is, {"pawl.db": None})
        refused("secret is missing", 4, as_it_is, {"secret": None})
        other_end = "does not end where its manifest says"
        for member, value in (("head", "0" * 64), ("seq", 1), ("name", "other")):
            refused(other_end, 2, lambda manifest: manifest["tenants"][0].update({member: value}))
        refused(other_end, 2, lambda manifest: manifest.pop("tenants"))
        refused(other_end, 2, lambda manifest: manifest.update(tenants="all"))
        database = dict(whole)["pawl.db"]
        refused("pawl.db", 74, as_it_is, {"pawl.db": b"x" * len(database)})

        # What an older pawl counted wrong is no reason to refuse its backup.
        self.archive.unlink()
        self.backup()
        self.expect(self.pawl("restore", self.archive, "--data", place, data=False), 0)

    def test_a_folder_that_is_not_there_is_named(self):
        self.stop(self.fill())
        self.archive = self.folder / "nowhere" / "backup.tar"
        self.assertIn(f"cannot write {self.archive}: no such folder", self.backup(code=74).stderr)

    def test_a_file_that_is_there_is_not_replaced(self):
        self.stop(self.fill())
        self.archive.write_text("mine")
        self.assertIn("is there already", self.backup(code=2).stderr)
        self.assertEqual(self.archive.read_text(), "mine")

    def test_stdout_is_no_file(self):
        self.stop(self.fill())
        done = self.expect(self.pawl("backup", "-o", "-", *self.flags()), 2)
        self.assertIn("name a file", done.stderr)
        self.assertFalse((self.folder / "-").exists())


class Audit(BackupCase):
    in_folder = True

    def setUp(self):
        super().setUp()
        self.store = None

    def test_the_log_of_several_tenants_is_one_table_that_fits(self):
        self.stop(self.fill())
        lines = self.expect(self.pawl("audit", "--limit", "500"), 0).stdout.splitlines()
        self.assertEqual(lines[0].split(), ["tenant", "seq", "at", "by", "type", "about"])
        self.assertLessEqual(max(map(len, lines)), 80)
        entries = [json.loads(line) for line in
                   self.expect(self.pawl("audit", "--limit", "500", "--json"), 0).stdout.splitlines()]
        self.assertEqual(len(entries), len(lines) - 1)
        self.assertEqual({entry["tenant"] for entry in entries}, {"default", "acme"})
        times = [entry["event"]["at"] for entry in entries]
        self.assertEqual(times, sorted(times, reverse=True))
        quiet = self.pawl("audit", "--limit", "500", "--json", "--type", "!bundle.stored", "--type", "!checkpoint.made")
        self.assertEqual([json.loads(line) for line in self.expect(quiet, 0).stdout.splitlines()],
                         [each for each in entries if each["type"] not in ("bundle.stored", "checkpoint.made")])
        nothing = self.expect(self.pawl("audit", "--object", "nobody"), 0)
        self.assertEqual(nothing.stdout.strip(), "no entries match")
        self.assertEqual(self.expect(self.pawl("audit", "--since", "1h", "--limit", "500"), 0).stdout.splitlines(),
                         lines)
        for flag in ("--since", "--until"):
            self.assertIn("nor a duration", self.expect(self.pawl("audit", flag, "yesterday"), 2).stderr)

    def test_the_log_says_what_was_refused_and_which_checkpoint_was_made(self):
        server = self.fill()
        self.expect(self.pawl("cancel", self.ended[0]), 3)
        refused = self.expect(self.pawl("audit", "--type", "transition.refused", "--since", "1h"), 0).stdout
        self.assertTrue(refused.splitlines()[1].endswith(f"run_{self.ended[0][-6:]} cancel"), refused)
        made = self.expect(self.pawl("audit", "--type", "checkpoint.made"), 0).stdout
        self.assertTrue(made.splitlines()[-1].endswith("checkpoint 1"), made)
        self.assertIn("no entries match", self.expect(self.pawl("audit", "--until", "1d"), 0).stdout)
        self.stop(server)


class KeysAndData(BackupCase):
    def refused(self, *reasons):
        """The server does not start, says why, and makes nothing in place of what is missing."""
        before = {name: (self.data / name).exists() for name in ("secret", "signing-key.json")}
        done = self.pawl("serve", "--listen", "127.0.0.1:0", *self.flags())
        self.assertEqual(done.returncode, 4, done.stderr)
        for reason in reasons:
            self.assertIn(reason, done.stderr)
        self.assertEqual({name: (self.data / name).exists() for name in before}, before)
        self.assertIn(reasons[0], self.backup(code=4).stderr, "nor is a backup made of it")
        self.assertFalse(self.archive.exists())

    def other(self, name):
        """The same file of another installation."""
        other = self.folder / "elsewhere"
        if not other.exists():
            server = subprocess.Popen([PAWL, "serve", "--data", other, "--listen", "127.0.0.1:0"],
                                      stderr=subprocess.DEVNULL, env=self.environment())
            self.wait_until((other / "server.json").exists, "the other server")
            server.terminate()
            server.wait(timeout=TIMEOUT_S)
        return (other / name).read_bytes()

    def test_a_server_whose_keys_are_missing_or_foreign_does_not_start(self):
        self.stop(self.fill())
        for name, what in (("secret", "API keys of this journal were made with"),
                           ("signing-key.json", f"signed by {self.signing_key['id']}")):
            with self.subTest(name):
                path = self.data / name
                own = path.read_bytes()
                path.unlink()
                self.refused(f"{path} is missing", what)
                path.write_bytes(self.other(name))
                path.chmod(0o600)
                self.refused(str(path), what, "pawl restore")
                path.write_bytes(own)
        self.check_restored()

    def keys(self):
        return {name: (self.data / name).read_bytes() for name in ("secret", "signing-key.json", "admin.key")}

    def test_keys_without_their_journal_are_refused_and_nothing_is_made_beside_them(self):
        self.stop(self.fill())
        before = self.keys()

        def refused(reason, *flags):
            done = self.pawl("serve", "--listen", "127.0.0.1:0", *flags)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("has the keys of an installation, and ", done.stderr)
            self.assertIn(reason, done.stderr)
            self.assertEqual(self.keys(), before)

        journal = self.data / "pawl.db"
        if self.store:
            refused("its journal is missing")
            refused("is empty", "--store", new_database())
            self.assertFalse(journal.exists())
        else:
            kept = journal.read_bytes()
            for path in self.data.glob("pawl.db*"):
                path.unlink()
            refused("its journal is missing")
            refused("its journal is missing", "--accept-lost-keys")
            self.assertEqual(list(self.data.glob("pawl.db*")), [])
            journal.write_bytes(kept)
        self.check_restored()

    def test_a_first_start_that_was_cut_short_is_completed(self):
        self.data.mkdir(mode=0o700, exist_ok=True)
        (self.data / "secret").write_bytes(b"s" * 32)
        (self.data / "secret").chmod(0o600)
        self.stop(self.serve())
        self.assertTrue((self.data / "signing-key.json").exists())

    def test_an_admin_key_of_another_installation_is_kept_under_another_name(self):
        self.stop(self.fill())
        foreign = self.other("admin.key")
        (self.data / "admin.key").write_bytes(foreign)
        server = self.serve()
        self.assertEqual(self.request("GET", f"/runs/{self.waiting}")["status"], "created", "with a new admin key")
        self.assertEqual((self.data / "admin.key.old-1").read_bytes(), foreign)
        self.stop(server)

    def test_a_lost_secret_can_be_given_up_on_purpose(self):
        self.stop(self.fill())
        (self.data / "secret").unlink()
        self.stop(self.serve("--accept-lost-keys"))
        server = self.serve()
        self.assertEqual(self.request("GET", f"/runs/{self.waiting}")["status"], "created", "with a new admin key")
        self.stop(server)

    def test_evidence_of_a_folder_that_lost_its_signing_key_says_so(self):
        if new_database():
            self.skipTest("a database is served")
        self.stop(self.fill())
        (self.data / "signing-key.json").unlink()
        done = self.expect(self.pawl("evidence", self.ended[0], "-o", self.folder / "run.zip"), 4)
        self.assertIn("signing-key.json is missing", done.stderr)
        self.assertFalse((self.data / "signing-key.json").exists())

    def test_evidence_says_that_the_signing_key_was_given_up(self):
        self.stop(self.fill())
        (self.data / "signing-key.json").unlink()
        server = self.serve("--accept-lost-keys")
        self.check_nothing_is_signed()
        self.stop(server)

    def test_a_signing_key_that_goes_while_a_server_runs_is_not_replaced(self):
        server = self.fill()
        key = self.data / "signing-key.json"
        kept = key.read_bytes()
        key.unlink()
        self.check_nothing_is_signed()
        done = self.expect(self.pawl("keys", "signing"), 3)
        self.assertIn("restore signing-key.json", done.stderr)
        self.assertFalse(key.exists())
        key.write_bytes(kept)
        key.chmod(0o600)
        self.expect(self.pawl("checkpoints", "make"), 0)
        self.stop(server)

    def check_nothing_is_signed(self):
        self.request("POST", "/runs", {"workflow": "waiting"})  # which no checkpoint covers yet
        for command in (("evidence", self.ended[0], "-o", self.folder / "run.zip"), ("checkpoints", "make")):
            done = self.expect(self.pawl(*command), 3)
            self.assertIn("restore signing-key.json", done.stderr)


if __name__ == "__main__":
    unittest.main()
