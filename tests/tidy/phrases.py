"""Phrases that are not used any more: banned_phrases.txt, which only ever grows."""

import re

from tree import line_of

LIST = "tests/tidy/banned_phrases.txt"
# Between two words: spaces, also over the end of a line of comment or of a string that goes on.
BETWEEN = r"(?:\s|//|[\"#*>])+"
# A phrase of one folder only.
IN_FOLDER = re.compile(r"([\w/]+/): (.+)")


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
    patterns = []
    for line, instead in banned.items():
        folder, phrase = IN_FOLDER.fullmatch(line).groups() if IN_FOLDER.fullmatch(line) else ("", line)
        advice = f"write `{instead}`" if instead else "say it in plain words"
        where = f" in {folder}" if folder else ""
        patterns.append((folder, longest_word(phrase), pattern(phrase), f"`{phrase}` is banned{where}", advice))
    for path in tree.texts():
        if path == LIST:
            continue
        text = tree.text(path)
        lower = text.lower()
        name = path.lower()
        for folder, word, regex, finding, advice in patterns:
            if (word in lower or word in name) and path.startswith(folder):
                findings += [(path, line_of(text, match.start()), f"{finding}; {advice}")
                             for match in regex.finditer(text)]
                if regex.search(path.replace("/", " ").replace(".", " ")):
                    findings.append((path, 1, f"{finding} in names of files; rename it"))
    return findings
