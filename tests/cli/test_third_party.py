"""Evidence as someone checks it who has docs/evidence.md, Python and openssl: examples/verify-evidence, on bundles and
proofs of the real binary."""
import ast
import itertools
import json
import subprocess
import sys
import unittest
import zipfile

from pawl_case import SOURCE, PawlCase

VERIFIER = SOURCE / "examples" / "verify-evidence" / "verify_evidence.py"
sys.path.insert(0, str(VERIFIER.parent))
import verify_evidence  # noqa: E402

GOVERNED = """
workflow: governed
evidence: MODE
steps:
  - {id: note, tool: shell, risk: high, with: {argv: ["true"], idempotent: true}}
  - {id: last, tool: noop, with: {output: "${{ input }}"}}
"""
POLICY = """
policy: careful
rules:
- {id: ask, effect: needs_approval, when: connector = 'shell', reason: programs can do anything}
- {id: rest, effect: allow}
"""
# Whole numbers that a double cannot hold, and characters that end lines elsewhere than in JSON.
INPUT = {"order": 9007199254740993, "limits": [-2**63, 2**64 - 1], "text": "\u2028\x85é😀\u0001", "half": 0.5}


class Vectors(unittest.TestCase):
    def test_the_vectors_of_the_page_hold(self):
        page = (SOURCE / "docs" / "evidence.md").read_text()
        pairs = page.split("```canonical-json\n")[1].split("```")[0].strip().split("\n\n")
        self.assertGreater(len(pairs), 5)
        for pair in pairs:
            given, wanted = pair.split("\n")
            self.assertEqual(verify_evidence.canonical(verify_evidence.parse(given)), wanted)

    def test_what_the_page_refuses_is_refused(self):
        page = (SOURCE / "docs" / "evidence.md").read_text()
        texts = page.split("```refused-json\n")[1].split("```")[0].strip().split("\n")
        self.assertGreater(len(texts), 7)
        for text in texts:
            with self.assertRaises(ValueError, msg=text):
                verify_evidence.canonical(verify_evidence.parse(text))
        verify_evidence.parse("[" * 64 + "1" + "]" * 64)

    def test_the_verifier_uses_nothing_but_the_standard_library(self):
        imports = {name.name.split(".")[0] for node in ast.walk(ast.parse(VERIFIER.read_text()))
                   if isinstance(node, (ast.Import, ast.ImportFrom)) for name in node.names}
        self.assertLessEqual(imports, set(sys.stdlib_module_names))


class ThirdParty(PawlCase):
    def key(self):
        return json.loads(self.expect(self.pawl("keys", "signing", "--json"), 0).stdout.splitlines()[-1])["id"]

    def verify(self, file, key):
        """What the verifier says of it, by itself; it must agree with pawl."""
        done = subprocess.run([sys.executable, "-I", VERIFIER, file, "--key", key], capture_output=True, text=True,
                              env={"PATH": "/usr/bin:/bin"})
        self.assertEqual(done.stderr, "")
        ours = self.pawl("verify", file, "--key", key, data=False)
        self.assertEqual(done.returncode, ours.returncode, done.stdout + ours.stdout)
        return done.stdout.splitlines()[:-1]

    def bundle(self, mode, name="run.zip"):
        policy = self.folder / "policy.yaml"
        policy.write_text(POLICY)
        self.expect(self.pawl("run", self.workflow("workflow: first\nsteps: [{id: a, tool: noop}]\n")), 0)
        self.expect(self.pawl("policy", "put", policy), 0)
        done = self.expect(self.pawl("run", self.workflow(GOVERNED.replace("MODE", mode)), "--json", "--approve",
                                     "--input", json.dumps(INPUT)), 0)
        run = json.loads(done.stdout.rstrip("\n").split("\n")[-1])["run"]["id"]
        bundle = self.folder / name
        self.expect(self.pawl("evidence", run, "-o", bundle), 0)
        return bundle

    def parts(self, bundle):
        with zipfile.ZipFile(bundle) as archive:
            return [(info, archive.read(info)) for info in archive.infolist()]

    def repacked(self, parts):
        bad = self.folder / "bad.zip"
        with zipfile.ZipFile(bad, "w") as archive:
            for info, data in parts:
                archive.writestr(info, data)
        return bad

    def test_bundles_of_both_modes_are_good(self):
        for mode in ("full", "metadata"):
            with self.subTest(mode):
                bundle = self.bundle(mode)
                self.assertEqual(self.verify(bundle, self.key()), [])
                events = dict((info.filename, data) for info, data in self.parts(bundle))["events.jsonl"].decode()
                self.assertEqual("9007199254740993" in events, mode == "full")
                self.assertEqual('"redacted"' in events, mode == "metadata")
                self.assertIn("receipt.intended", events)

    def test_whatever_was_changed_is_found(self):
        bundle = self.bundle("metadata")
        key, parts = self.key(), self.parts(bundle)
        changes = itertools.cycle([lambda data: data + b" ", lambda data: data[:-2],
                                   lambda data: data.replace(b"1", b"2", 1).replace(b"e", b"f", 1)])
        for number, ((info, data), change) in enumerate(zip(parts, changes)):
            changed = [*parts[:number], (info, change(data)), *parts[number + 1:]]
            self.assertTrue(self.verify(self.repacked(changed), key), info.filename)
        self.assertTrue(self.verify(self.repacked([*parts[1:], parts[0]]), key))
        bad = self.folder / "bad.zip"
        bad.write_bytes(b"x" + bundle.read_bytes())
        self.assertTrue(self.verify(bad, key))

    def test_every_bit_of_the_zip_itself_counts(self):
        bundle = self.bundle("metadata")
        key, whole = self.key(), bundle.read_bytes()
        with zipfile.ZipFile(bundle) as archive:
            first = archive.infolist()[0]
            directory = archive.start_dir
        bad = self.folder / "bad.zip"
        # Fields of the first part's header, and of its entry in the directory, by their places.
        for place in (4, 6, 8, 10, 12, 14, 18, 22, 26, 28, 30):
            at = first.header_offset + place
            bad.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
            self.assertTrue(self.verify(bad, key), f"header, {place}")
        for place in (6, 8, 10, 12, 14, 16, 20, 24, 28, 30, 32, 34, 36, 38, 41, 42, 46):
            at = directory + place
            bad.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
            self.assertTrue(self.verify(bad, key), f"directory, {place}")

    def test_a_file_that_is_neither_a_bundle_nor_a_proof_is_called_so(self):
        self.bundle("metadata")
        other = self.folder / "other"
        for text in (b"hello", b"\x00\x01", b'{"a":1}', b"[1]"):
            other.write_bytes(text)
            self.assertEqual(self.verify(other, self.key()), ["this is neither a bundle nor a proof"])
            ours = self.pawl("verify", other, "--key", self.key(), data=False)
            self.assertIn("this is neither a bundle nor a proof", ours.stdout + ours.stderr)

    def test_each_check_finds_what_it_is_for(self):
        """Changes that keep the manifest's sums right: what is left is the signature, and the check itself."""
        bundle = self.bundle("full")
        key, parts = self.key(), self.parts(bundle)

        def problems(name, change):
            changed = [(info, change(data) if info.filename == name else data) for info, data in parts]
            manifest = json.loads(changed[0][1])
            for part, (_, data) in zip(manifest["parts"], changed[2:]):
                part["bytes"], part["sha256"] = len(data), verify_evidence.sha256(data).hex()
            changed[0] = (changed[0][0], (verify_evidence.canonical(manifest) + "\n").encode())
            return self.verify(self.repacked(changed), key)

        signature = "signature: the signature does not fit"
        self.assertEqual(problems("run.json", lambda data: data + b" "), [signature])
        self.assertIn("event 1: it does not have its hash",
                      problems("events.jsonl", lambda data: data.replace(b"9007199254740993", b"9007199254740992", 1)))
        self.assertTrue(any("is marked as redacted" in line for line in problems(
            "events.jsonl", lambda data: data.replace(b',"seq":2}', b',"redacted":["input"],"seq":2}', 1))))
        self.assertIn("checkpoint: the proof does not lead to the signed root",
                      problems("checkpoint.json", lambda data: data.replace(b'"index":', b'"index":1', 1)))
        self.assertIn("workflow: it is not the one that the run was created with",
                      problems("workflow.yaml", lambda data: data + b"# more\n"))
        self.assertIn("decisions: the text of policy 1 has another digest",
                      problems("decisions.json", lambda data: data.replace(b"id: rest", b"id: rise", 1)))

    def test_rotated_keys_are_followed_forwards_only(self):
        old_bundle, old = self.bundle("metadata", "old.zip"), self.key()
        self.expect(self.pawl("keys", "signing", "rotate"), 0)
        new_bundle, new = self.bundle("metadata", "new.zip"), self.key()
        self.assertEqual(self.verify(old_bundle, old), [])
        self.assertEqual(self.verify(new_bundle, old), [])
        self.assertEqual(self.verify(new_bundle, new), [])
        self.assertTrue(self.verify(old_bundle, new))
        self.assertTrue(self.verify(new_bundle, "ed25519:" + "0" * 64))

    def test_a_consistency_proof_is_checked(self):
        for _ in range(3):
            self.bundle("metadata")
            self.expect(self.pawl("checkpoints", "make"), 0)
        proof = self.folder / "proof.json"
        proof.write_text(self.expect(self.pawl("checkpoints", "prove", "--from", "2"), 0).stdout)
        self.assertEqual(self.verify(proof, self.key()), [])
        whole = json.loads(proof.read_text())
        for change in ({"path": whole["path"][:-1]}, {"path": whole["path"][::-1] + ["00" * 32]},
                       {"older": {**whole["older"], "root": whole["newer"]["root"]}}):
            proof.write_text(json.dumps({**whole, **change}))
            self.assertTrue(self.verify(proof, self.key()))


if __name__ == "__main__":
    unittest.main()
