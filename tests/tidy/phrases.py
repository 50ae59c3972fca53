"""Phrases that are not used any more: banned_phrases.txt, which only ever grows."""

import re

from tree import line_of

LIST = "tests/tidy/banned_phrases.txt"
# Between two words: spaces, also over the end of a line of comment or of a string that goes on.
BETWEEN = r"(?:\s|//|[\"#*>])+"


def parse(text):
    """Phrase to what to write instead, which may be empty."""
    found = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            phrase, _, instead = line.partition(" -> ")
            found[phrase.strip()] = instead.strip()
    return found


def pattern(phrase):
    words = BETWEEN.join(re.escape(word) for word in phrase.split())
    before = r"(?<!\w)" if re.match(r"\w", phrase) else ""
    after = r"(?!\w)" if re.search(r"\w$", phrase) else ""
    return re.compile(before + words + after, re.I if phrase == phrase.lower() else 0)


def longest_word(phrase):
    return max(phrase.split(), key=len).lower()


def check_removed(tree, banned):
    """Every phrase that a commit added is still there."""
    added = tree.git("log", "-m", "-p", "--no-ext-diff", "--no-color", "--format=", "--", LIST)
    lines = [line[1:] for line in added.splitlines() if line.startswith("+") and not line.startswith("+++")]
    return [(LIST, 1, f"`{phrase}` was removed; the list only ever grows, put it back")
            for phrase in parse("\n".join(lines)) if phrase not in banned]


def check(tree):
    if LIST not in tree.modes:
        return []
    banned = parse(tree.text(LIST))
    findings = check_removed(tree, banned)
    patterns = [(phrase, longest_word(phrase), pattern(phrase)) for phrase in banned]
    for path in tree.texts():
        if path == LIST:
            continue
        text = tree.text(path)
        lower = text.lower()
        for phrase, word, regex in patterns:
            if word in lower:
                for match in regex.finditer(text):
                    instead = f"write `{banned[phrase]}`" if banned[phrase] else "say it in plain words"
                    findings.append((path, line_of(text, match.start()), f"`{phrase}` is banned; {instead}"))
        for phrase, word, regex in patterns:
            if word in path.lower() and regex.search(path.replace("/", " ").replace(".", " ")):
                findings.append((path, 1, f"`{phrase}` is banned in names of files; rename it"))
    return findings
