"""Subjects of commits: `area: summary`, imperative, at most 72 characters."""

import re
import sys

# The subjects of this commit and of those before it are older than the rule.
BASE = "213158e48044cf41718cda6e76689b59a83d7f04"

COLUMNS = 72
SUBJECT = re.compile(r"(?P<area>[a-z][a-z0-9_./-]*): (?P<summary>\S.*)")
# As far as a machine can tell: an imperative has no ending, and a sentence that begins with one of these has a subject.
ENDING = re.compile(r"\w+(?:ed|ing|[^suia]s)$")
IMPERATIVE = {"embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "bring", "string", "ping", "ring"}
NO_VERB = {"a", "all", "an", "and", "are", "every", "how", "is", "it", "its", "more", "new", "no", "not", "one", "some",
           "that", "the", "there", "they", "this", "what", "whatever", "when", "where", "who", "whoever"}


def problem(subject):
    if len(subject) > COLUMNS:
        return f"{len(subject)} characters; at most {COLUMNS}, the rest belongs in the body"
    match = SUBJECT.fullmatch(subject)
    if not match:
        return "not `area: summary` with a lower-case area; name the part that changes"
    if "; " in subject:
        return "names two changes; make two commits"
    if subject.endswith("."):
        return "ends with a period; remove it"
    word = match["summary"].split()[0].lower()
    if word in NO_VERB or (ENDING.fullmatch(word) and word not in IMPERATIVE):
        return f"`{word}` is not an imperative; say what the commit does: add, fix, remove"
    return None


def check(tree):
    if not tree.knows(tree.since):
        print("tidy: subjects of commits are not checked: no history since the commit that they are checked from",
              file=sys.stderr)
        return []
    findings = []
    for line in tree.git("log", "--no-merges", "--format=%h %s", f"{tree.since}..HEAD").splitlines():
        name, _, subject = line.partition(" ")
        wrong = problem(subject)
        if wrong:
            findings.append((f"commit {name}", 1, f"subject `{subject}`: {wrong}"))
    return findings
