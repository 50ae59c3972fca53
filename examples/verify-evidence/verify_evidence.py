"""Checks an evidence bundle of pawl, or a consistency proof, with the standard library and openssl only.

Written from docs/evidence.md. Usage: verify_evidence.py FILE --key KEY, where KEY is what you trust: ed25519: and a
fingerprint, or a public key in hex.
"""
import argparse
import calendar
import hashlib
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time
import zipfile

PARTS = ["manifest.json", "signature.json", "run.json", "steps.json", "events.jsonl", "decisions.json",
         "approvals.json", "receipts.json", "cost.json", "checkpoint.json", "keys.json", "workflow.yaml"]

PROPOSAL = {"action.fields", "before"}
OUTCOME = {"response", "undo.fields"}
REDACTABLE = {"run.created": {"input"}, "step.completed": {"output"}, "run.observed": {"output"},
              "step.asked": {"question"}, "step.answered": {"answer"}, "approval.requested": PROPOSAL,
              "receipt.intended": PROPOSAL, "receipt.repeated": PROPOSAL, "action.denied": PROPOSAL,
              "action.found": PROPOSAL, "receipt.succeeded": OUTCOME, "receipt.failed": OUTCOME,
              "receipt.doubted": OUTCOME, "receipt.reversed": OUTCOME}

# Of an ordinary file with mode 0644.
PART_ATTRIBUTES = 0o100644 << 16

DEPTH_MAX = 64

# The DER of an Ed25519 public key, before its 32 bytes.
PUBLIC_KEY_PREFIX = bytes.fromhex("302a300506032b6570032100")


def sha256(*parts):
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
    return digest.digest()


# ---- Canonical JSON

def refuse_twice(pairs):
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError("a name comes twice in an object")
    return dict(pairs)


def read_number(text):
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError("a number is beyond the doubles")
    return number


def read_whole(text):
    read_number(text)
    return int(text)


def refuse_constant(text):
    raise ValueError(f"{text} is not JSON")


def refuse_strange(value, depth=0):
    """What the format does not have: lone surrogates, and nesting deeper than 64."""
    if isinstance(value, str):
        value.encode()  # a lone surrogate is refused with a ValueError
    if isinstance(value, (list, dict)):
        if depth == DEPTH_MAX:
            raise ValueError(f"it is nested deeper than {DEPTH_MAX}")
        for each in value:
            refuse_strange(each, depth + 1)
    if isinstance(value, dict):
        for each in value.values():
            refuse_strange(each, depth + 1)


def parse(text):
    try:
        value = json.loads(text, object_pairs_hook=refuse_twice, parse_float=read_number, parse_int=read_whole,
                           parse_constant=refuse_constant)
    except RecursionError:
        raise ValueError(f"it is nested deeper than {DEPTH_MAX}") from None
    refuse_strange(value)
    return value


def print_double(number):
    """As ECMAScript prints it. repr() has the shortest digits too, in another form."""
    if number == 0:
        return "0"
    sign = "-" if number < 0 else ""
    mantissa, _, exponent = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))  # digits before the decimal point
    digits = digits.rstrip("0")
    if 0 < point <= 21:
        if len(digits) <= point:
            return sign + digits.ljust(point, "0")
        return sign + digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    power = f"e{point - 1:+d}"
    return sign + digits[0] + ("." + digits[1:] if len(digits) > 1 else "") + power


def canonical(value):
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        return str(value) if -2**63 <= value < 2**64 else print_double(float(value))
    if isinstance(value, float):
        return print_double(value)
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    names = sorted(value, key=lambda name: name.encode("utf-16-be"))
    return "{" + ",".join(canonical(name) + ":" + canonical(value[name]) for name in names) + "}"


# ---- Signatures

def is_signed(public_key, message, signature):
    """Whether this Ed25519 signature (hex) is over the message, by the key (hex)."""
    if not re.fullmatch("[0-9a-f]{64}", public_key) or not re.fullmatch("[0-9a-f]{128}", signature or ""):
        return False
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "key").write_bytes(PUBLIC_KEY_PREFIX + bytes.fromhex(public_key))
        (folder / "signature").write_bytes(bytes.fromhex(signature))
        (folder / "message").write_bytes(message)
        done = subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", folder / "key", "-keyform", "DER",
                               "-rawin", "-in", folder / "message", "-sigfile", folder / "signature"],
                              capture_output=True)
        return done.returncode == 0


def key_id(public_key):
    return "ed25519:" + sha256(bytes.fromhex(public_key)).hex()


# ---- Merkle trees

def node(left, right):
    return sha256(b"\x01", left, right)


def root_by_inclusion(entry, index, size, path):
    """RFC 9162, section 2.1.3.2: the root that the proof leads to; None when its length is wrong."""
    if not 0 <= index < size:
        return None
    last, found = size - 1, sha256(b"\x00", entry)
    for sibling in path:
        if last == 0:
            return None
        if index % 2 == 1 or index == last:
            found = node(sibling, found)
            while index % 2 == 0 and index != 0:
                index, last = index // 2, last // 2
        else:
            found = node(found, sibling)
        index, last = index // 2, last // 2
    return found if last == 0 else None


def is_consistent(older, newer, path):
    """RFC 9162, section 2.1.4.2: whether the older tree, (size, root), is the beginning of the newer one."""
    (first, old_root), (second, new_root) = older, newer
    if not 0 < first <= second:
        return False
    if first == second:
        return not path and old_root == new_root
    path = ([old_root] if first & (first - 1) == 0 else []) + path
    if not path:
        return False
    index, last = first - 1, second - 1
    while index % 2 == 1:
        index, last = index // 2, last // 2
    old, new = path[0], path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if index % 2 == 1 or index == last:
            old, new = node(sibling, old), node(sibling, new)
            while index % 2 == 0 and index != 0:
                index, last = index // 2, last // 2
        else:
            new = node(new, sibling)
        index, last = index // 2, last // 2
    return old == old_root and new == new_root and last == 0


def milliseconds(text):
    whole, _, fraction = text.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) * 1000 + int(fraction.ljust(3, "0") or 0)


# ---- What is checked

class Verifier:
    def __init__(self, trusted):
        self.trusted = trusted
        self.problems = []
        self.keys = []

    def expect(self, holds, problem):
        if not holds:
            self.problems.append(problem)
        return holds

    def check_keys(self, keys):
        self.keys = keys
        for number, key in enumerate(keys):
            self.expect(key["id"] == key_id(key["public_key"]), f"keys: {key['id']} is not the key's fingerprint")
            if number == 0:
                self.expect(key["previous"] is None, "keys: the first one follows a key that is not listed")
                continue
            before = keys[number - 1]
            statement = canonical({"previous": before["id"], "public_key": key["public_key"],
                                   "type": "pawl signing key", "v": 1})
            self.expect(key["previous"] == before["id"] and
                        is_signed(before["public_key"], statement.encode(), key["signature"]),
                        f"keys: {key['id']} is not signed by the key before it")
        self.good = {key["id"] for number, key in enumerate(keys)
                     if any(earlier["id"] in self.trusted for earlier in keys[:number + 1])}
        self.expect(self.good, "keys: none is one that you trust")

    def check_signature(self, what, name, message, signature):
        key = next((key for key in self.keys if key["id"] == name), None)
        if not self.expect(key, f"{what}: it is signed by a key that is not listed"):
            return
        self.expect(is_signed(key["public_key"], message, signature), f"{what}: the signature does not fit")
        self.expect(name in self.good, f"{what}: the key that signed it is not one that you trust, and follows none")

    def check_checkpoint(self, made):
        statement = canonical({"key": made["key"], "made_at": milliseconds(made["made_at"]), "number": made["number"],
                               "previous": made["previous"], "root": made["root"], "size": made["size"],
                               "tenant": made["tenant"], "type": "pawl checkpoint", "v": 1})
        self.check_signature(f"checkpoint {made['number']}", made["key"], statement.encode(), made["signature"])

    def check_proof(self, document):
        """What `pawl checkpoints prove` wrote."""
        self.check_keys(document["keys"])
        older, newer = document["older"], document["newer"]
        self.check_checkpoint(older)
        self.check_checkpoint(newer)
        self.expect(older["tenant"] == newer["tenant"], "the checkpoints are of different tenants")
        path = [bytes.fromhex(each) for each in document["path"]]
        trees = [(made["size"], bytes.fromhex(made["root"])) for made in (older, newer)]
        self.expect(is_consistent(*trees, path), "the newer checkpoint does not continue the older one")

    def check_bundle(self, file):
        parts = self.read_archive(file)
        if self.problems:
            return
        manifest = parse(parts["manifest.json"])
        self.expect((manifest["format"], manifest["version"]) == ("pawl-evidence", 1), "manifest: unknown format")
        self.expect(parts["manifest.json"].decode() == canonical(manifest) + "\n", "manifest: it is not canonical")
        self.expect([part["name"] for part in manifest["parts"]] == PARTS[2:], "manifest: it lists other parts")
        for part in manifest["parts"]:
            data = parts[part["name"]]
            self.expect(len(data) == part["bytes"] and sha256(data).hex() == part["sha256"],
                        f"{part['name']}: it is not what the manifest has the sum of")
        self.check_keys(parse(parts["keys.json"]))
        signature = parse(parts["signature.json"])
        self.expect(parts["signature.json"].decode() == canonical({"key": signature["key"],
                                                                   "signature": signature["signature"]}) + "\n",
                    "signature: it holds more than a key and its signature")
        self.check_signature("signature", signature["key"], b"pawl evidence manifest v1\n" + parts["manifest.json"],
                             signature["signature"])
        events = self.check_events(manifest, parts["events.jsonl"])
        self.check_inclusion(manifest, parse(parts["checkpoint.json"]))
        self.expect(events and events[0]["workflow_digest"] == sha256(parts["workflow.yaml"]).hex(),
                    "workflow: it is not the one that the run was created with")
        for policy in parse(parts["decisions.json"])["policies"]:
            self.expect(sha256(policy["source"]).hex() == policy["digest"],
                        f"decisions: the text of policy {policy['version']} has another digest")

    def read_archive(self, file):
        size = pathlib.Path(file).stat().st_size
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            self.expect([entry.filename for entry in entries] == PARTS, "archive: it does not have a bundle's parts")
            self.expect(all(entry.compress_type == zipfile.ZIP_STORED for entry in entries),
                        "archive: a part is compressed")
            self.expect(all(self.is_header_twice(file, entry) for entry in entries),
                        "archive: the two headers of a part do not agree")
            self.expect(all((entry.volume, entry.internal_attr, entry.external_attr) == (0, 0, PART_ATTRIBUTES)
                            for entry in entries), "archive: a part has other attributes than an ordinary file")
            expected = 22 + sum(76 + 2 * len(entry.filename.encode()) + entry.file_size for entry in entries)
            self.expect(size == expected, "archive: it holds bytes that belong to no part")
            return {entry.filename: archive.read(entry) for entry in entries}

    def is_header_twice(self, file, entry):
        """Whether what stands before a part is what the directory at the end says of it."""
        with open(file, "rb") as archive:
            archive.seek(entry.header_offset)
            header = archive.read(30)
            name = archive.read(len(entry.orig_filename.encode()))
        (mark, needed, flags, method, when, day, sum_of, packed, size, name_bytes,
         extra_bytes) = struct.unpack("<4s5H3L2H", header)
        year, month, date, hour, minute, second = entry.date_time
        return (mark == b"PK\x03\x04" and (needed, flags, method) ==
                (entry.extract_version, entry.flag_bits, entry.compress_type) and
                (when, day) == (hour << 11 | minute << 5 | second // 2, year - 1980 << 9 | month << 5 | date) and
                (sum_of, packed, size) == (entry.CRC, entry.compress_size, entry.file_size) and
                name == entry.orig_filename.encode() and (name_bytes, extra_bytes) == (len(name), 0) and
                entry.extra == b"" and entry.comment == b"")

    def check_events(self, manifest, lines):
        head = sha256("pawl stream v1\n", manifest["tenant"], "\n", manifest["run"])
        events, approved = [], {}
        self.expect(lines.endswith(b"\n"), "events: the last line has no end")
        for number, line in enumerate(lines.decode().split("\n")[:-1], 1):
            text, found, rest = line.rpartition(',"hash":"')
            if not self.expect(found and text.startswith('{"event":'), f"event {number}: this is not an event's line"):
                return events
            text = text.removeprefix('{"event":')
            event, around = parse(text), parse('{"hash":"' + rest)
            self.expect(around["seq"] == number, f"event {number}: here stands event {around['seq']}")
            if "redacted" in around:
                self.check_redacted(number, event, around["redacted"])
                head = bytes.fromhex(around["hash"])
            else:
                head = sha256(head, text)
                self.expect(head.hex() == around["hash"], f"event {number}: it does not have its hash")
                if "action" in event:
                    self.expect(sha256(canonical(event["action"])).hex() == event["digest"],
                                f"event {number}: the digest is not that of the action")
            if event["type"] == "approval.requested" and "digest" in event:
                approved[event["approval"]] = event["digest"]
            if event["type"] == "receipt.intended" and "approval" in event:
                self.expect(approved.get(event["approval"]) == event["digest"],
                            f"event {number}: what was done is not what was approved")
            events.append(event)
        self.expect(len(events) == manifest["seq"], "events: there are more or fewer than the manifest says")
        self.expect(head.hex() == manifest["head"], "events: the chain does not end at the head of the manifest")
        return events

    def check_redacted(self, number, event, names):
        self.expect(names and set(names) <= REDACTABLE.get(event["type"], set()),
                    f"event {number}: it is marked as redacted, and carries nothing that can be")
        for name in names:
            where, _, field = name.rpartition(".")
            value = (event.get(where, {}) if where else event).get(field)
            digest = value if where else parse(value) if isinstance(value, str) else None
            self.expect(isinstance(digest, dict) and re.fullmatch("[0-9a-f]{64}", digest.get("sha256", "")) and
                        isinstance(digest.get("bytes"), int) and set(digest) <= {"bytes", "sha256", "usage"},
                        f"event {number}: {name} is marked as redacted and is not a digest")

    def check_inclusion(self, manifest, proof):
        made = proof["checkpoint"]
        self.check_checkpoint(made)
        self.expect(made["tenant"] == manifest["tenant"], "checkpoint: it is of another tenant")
        self.expect(proof["entry"] == f"{manifest['run']} {manifest['seq']} {manifest['head']}",
                    "checkpoint: it is not about this run's last event")
        path = [bytes.fromhex(each) for each in proof["path"]]
        self.expect(root_by_inclusion(proof["entry"], proof["index"], made["size"], path) ==
                    bytes.fromhex(made["root"]), "checkpoint: the proof does not lead to the signed root")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("file", help="a bundle (zip), or a consistency proof (JSON)")
    arguments.add_argument("--key", action="append", required=True, help="a key that you trust; may be given again")
    given = arguments.parse_args()
    verifier = Verifier({key if key.startswith("ed25519:") else key_id(key) for key in given.key})
    try:
        start = pathlib.Path(given.file).read_bytes()[:2]
        if zipfile.is_zipfile(given.file) or start == b"PK":
            verifier.check_bundle(given.file)
        elif start[:1] == b"{" and "newer" in (proof := parse(pathlib.Path(given.file).read_text())):
            verifier.check_proof(proof)
        else:
            verifier.problems.append("this is neither a bundle nor a proof")
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, EOFError, struct.error,
            zipfile.BadZipFile) as error:
        verifier.problems.append(f"it cannot be read: {error!r}")
    for problem in verifier.problems:
        print(problem)
    print(f"{given.file}: {len(verifier.problems)} problems" if verifier.problems else f"{given.file}: good")
    return 1 if verifier.problems else 0


if __name__ == "__main__":
    sys.exit(main())
