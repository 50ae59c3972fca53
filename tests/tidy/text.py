"""Lines and files: length, white space, line ends, size, executable bits, places on somebody's machine."""

import re

from tree import CPP_NOISE, DATA, line_of

COLUMNS = 120
BYTES = 1 << 20
LIMITED = ("cpp", "python", "shell", "cmake", "markdown", "yaml", "sql", "javascript", "toml")

URL = re.compile(r"(?:https?|wss?|postgres(?:ql)?)://[^\s\"'`)>\]]+")
EXPRESSION = re.compile(r"\$\{\{.*?\}\}")  # of a workflow
LINK = re.compile(r"\]\([^)\s]+\)")
# Folders of one machine, and registries and mirrors that only some network knows.
MACHINE = re.compile(r"(?<![\w.}/$-])/(?:work|root|workspace)/[\w.-]|(?<![\w.}/$-])/home/(?!you\b|user\b|me\b)\w+/")
REGISTRY = re.compile(r"\b(?:registry|artifactory|nexus|mirror|proxy)[\w-]*(?:\.[\w-]+)+(?::\d+)?/|"
                      r"\bindex-url\b|\bregistry\s*=\s*https?:", re.I)


def unlimited_lines(tree, path):
    """The lines that cannot be broken: rows of tables, code blocks, recorded JSON in raw strings."""
    text, kind, found = tree.text(path), tree.kind(path), set()
    if kind == "markdown":
        inside = False
        for number, line in enumerate(text.split("\n"), 1):
            fence = line.lstrip().startswith("```")
            if fence or inside or line.lstrip().startswith("|"):
                found.add(number)
            inside ^= fence
        # What a program writes and a test compares: <!-- pawl errors --> ... <!-- end -->
        for block in re.finditer(r"^<!-- pawl [\w ]+ -->\n.*?^<!-- end -->$", text, re.M | re.S):
            first = line_of(text, block.start())
            found.update(range(first, first + block.group().count("\n") + 1))
    if kind == "cpp":
        for noise in CPP_NOISE.finditer(text):
            content = noise.group("content")
            if content is not None and content.lstrip()[:1] in ("{", "[", '"'):
                first = line_of(text, noise.start())
                found.update(range(first, first + noise.group().count("\n") + 1))
        # Tables whose columns are aligned by hand.
        for table in re.finditer(r"// clang-format off\n.*?// clang-format on\n", text, re.S):
            first = line_of(text, table.start())
            found.update(range(first, first + table.group().count("\n")))
    return found


def check_lines(tree, path):
    unlimited = unlimited_lines(tree, path)
    limited = tree.kind(path) in LIMITED
    tabs = not re.search(r"(^|/)(GNU)?[Mm]akefile|\.mk$", path)
    for number, line in enumerate(tree.text(path).split("\n"), 1):
        if line.endswith("\r"):
            yield path, number, "line ends with CR LF; end it with LF"
        elif line != line.rstrip():
            yield path, number, "spaces at the end of the line; remove them"
        if tabs and "\t" in line:
            yield path, number, "tab; use spaces"
        if limited and number not in unlimited and len(line) > COLUMNS:
            if len(LINK.sub("]()", URL.sub("", EXPRESSION.sub("", line)))) > COLUMNS:
                yield path, number, f"{len(line)} columns; break the line at {COLUMNS}"
        if MACHINE.search(line):
            yield path, number, "absolute path of one machine; use a relative path, a variable or /tmp"
        if REGISTRY.search(line):
            yield path, number, "host of a package registry; leave it to the configuration of whoever runs this"


def check_file(tree, path):
    content = tree.bytes(path)
    if len(content) > BYTES:
        yield path, 1, f"{len(content)} bytes; files have at most {BYTES}"
    if DATA.match(path):
        return
    if tree.text(path) is None:
        yield path, 1, "not UTF-8 text; make it when it is needed, or put recorded data where tree.py says"
        return
    lines = content.count(b"\n")
    if content and not content.endswith(b"\n"):
        yield path, lines + 1, "no newline at the end of the file; add one"
    if content.endswith(b"\n\n") or content == b"\n":
        yield path, lines, "empty line at the end of the file; remove it"
    executable, script = tree.modes[path] == "100755", content.startswith(b"#!")
    if executable and not script:
        yield path, 1, "executable without #!; remove the bit with chmod -x, or name the interpreter"
    if script and not executable:
        yield path, 1, "#! but not executable; add the bit with chmod +x, or remove the line"
    yield from check_lines(tree, path)


def check(tree):
    return [finding for path in tree.paths for finding in check_file(tree, path)]
