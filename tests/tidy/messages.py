"""Text is never protocol: code decides by codes, fields and types, and never by the words of a message.

Two things are found in src/: a comparison or a search of a `message` member or of `what()`, and a string such as
`"type":"run.`, which looks for the type of an event in its text. core/event_header.h reads the type.
"""

import re

from tree import CPP_NOISE, cpp_code, line_of

WORDS = r"(?:(?:\.|->)message\b(?:\(\))?|\bwhat\(\))"
SEARCHES = r"(?:find|rfind|starts_with|ends_with|contains|compare)"
SEARCHED = re.compile(rf"{WORDS}[\s)]*(?:\.|->)\s*{SEARCHES}\(")
# regex_search(error.message, ...), std::ranges::search(error.message, ...), contains(error.message, ...)
PASSED = re.compile(rf"\b(?:regex_search|regex_match|search|strstr|strcmp|{SEARCHES})"
                    rf"\((?:[^();]|\([^();]*\))*?(?:\w*\([^();]*?)?{WORDS}")
COMPARED = re.compile(rf"(?P<left>[\w.>()\[\]:\"-]+)\s*[!=]=\s*(?P<right>[\w.>()\[\]:\"-]+)")
IS_WORDS = re.compile(rf"{WORDS}$")
# A plain or a raw string that begins with a member of canonical JSON. Examples of whole objects begin with a brace.
TYPE_IN_TEXT = re.compile(r'(?:R"[^(]*\(|")\\?"type\\?":\\?"\w')

DECIDES = "decides by the words of a message; add a code or a field, and decide by that"


def check_code(path, text):
    code = cpp_code(text)
    for regex in (SEARCHED, PASSED):
        for match in regex.finditer(code):
            yield path, line_of(code, match.start()), DECIDES
    for match in COMPARED.finditer(code):
        sides = [bool(IS_WORDS.search(match.group(side))) for side in ("left", "right")]
        if sides[0] != sides[1]:  # two records are equal when their messages are, too
            yield path, line_of(code, match.start()), DECIDES


def check_strings(path, text):
    for noise in CPP_NOISE.finditer(text):
        if TYPE_IN_TEXT.match(noise.group()):
            yield path, line_of(text, noise.start()), \
                "looks for the type of an event in its text; use read_event_header (core/event_header.h)"


def check(tree):
    findings = []
    for path in tree.of_kind("cpp"):
        if path.startswith("src/"):
            findings += [*check_code(path, tree.text(path)), *check_strings(path, tree.text(path))]
    return findings
