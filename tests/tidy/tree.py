"""The files that git tracks, with their kinds and texts."""

import functools
import re
import subprocess

# Recorded data: bytes that tests read, as other programs or other versions wrote them. Only their size is checked.
DATA = re.compile(r"^tests/(fuzz/corpus|formats/\d+)/")

KINDS = {
    ".cc": "cpp", ".h": "cpp", ".py": "python", ".cmake": "cmake", ".md": "markdown", ".yaml": "yaml", ".yml": "yaml",
    ".sql": "sql", ".mjs": "javascript", ".cjs": "javascript", ".toml": "toml",
}


class Tree:
    def __init__(self, root, since):
        self.root = root
        self.since = since
        self.modes = {}
        for entry in self.git("ls-files", "-s", "-z").split("\0"):
            if entry:
                about, path = entry.split("\t", 1)
                if (root / path).is_file():
                    self.modes[path] = about.split()[0]
        self.paths = sorted(self.modes)

    def git(self, *arguments):
        done = subprocess.run(["git", "-C", self.root, *arguments], capture_output=True, check=True)
        return done.stdout.decode("utf-8", "replace")

    def knows(self, commit):
        """Whether the commit is in this repository's history, which a shallow clone or a tarball may not have."""
        return subprocess.run(["git", "-C", self.root, "merge-base", "--is-ancestor", commit, "HEAD"],
                              capture_output=True, check=False).returncode == 0

    @functools.cache
    def bytes(self, path):
        return (self.root / path).read_bytes()

    @functools.cache
    def text(self, path):
        """None for what is not UTF-8 text."""
        content = self.bytes(path)
        if b"\0" in content:
            return None
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            return None

    @functools.cache
    def kind(self, path):
        name = path.rsplit("/", 1)[-1]
        if name == "CMakeLists.txt":
            return "cmake"
        if name.endswith(".h.in"):
            return "cpp"
        for suffix, kind in KINDS.items():
            if name.endswith(suffix):
                return kind
        first = self.bytes(path).split(b"\n", 1)[0]
        if first.startswith(b"#!"):
            return "python" if b"python" in first else "shell" if b"sh" in first else "other"
        return "other"

    @functools.cache
    def texts(self):
        """What the project itself wrote: every text file that is not recorded data."""
        return [path for path in self.paths if not DATA.match(path) and self.text(path) is not None]

    def of_kind(self, *kinds):
        return [path for path in self.texts() if self.kind(path) in kinds]


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


# A comment, a string (raw ones too) or a character of C++. The apostrophe of 1'000 belongs to a number.
CPP_NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<raw>[^()\\\s]{0,16})\((?P<content>.*?)\)(?P=raw)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
    re.S)


def cpp_code(text):
    """The code alone: comments and the contents of strings become nothing, lines stay where they are."""
    return CPP_NOISE.sub(lambda noise: '""' + "\n" * noise.group().count("\n"), text)
