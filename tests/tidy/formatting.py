"""Formatting: what clang-format 14 would change."""

import concurrent.futures
import hashlib
import os
import re
import shutil
import subprocess

VERSION = "14"


def find_formatter():
    for name in (f"clang-format-{VERSION}", "clang-format"):
        program = shutil.which(name)
        if program:
            said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
            if re.search(rf"version {VERSION}\.", said):
                return program
    return None


def formatted_paths(tree):
    return [path for path in tree.of_kind("cpp") if not path.endswith(".in")]


def in_parallel(run, paths):
    """Runs on parts of the paths, as many at a time as there are processors."""
    jobs = os.cpu_count() or 1
    size = max(1, min(40, -(-len(paths) // jobs)))
    parts = [paths[start:start + size] for start in range(0, len(paths), size)]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(run, parts))


def check(tree):
    program = find_formatter()
    if not program:
        return [(".clang-format", 1, f"clang-format {VERSION} is not installed; "
                                     "apt-get install clang-format (Debian 12's is this version)")]
    style = tree.bytes(".clang-format") if ".clang-format" in tree.modes else b""
    digests = {path: hashlib.sha256(style + b"\0" + tree.bytes(path)).hexdigest() for path in formatted_paths(tree)}
    cache = tree.root / "build" / "tidy" / f"formatted-{VERSION}"
    known = set(cache.read_text().split()) if cache.exists() else set()
    wanted = [path for path, digest in digests.items() if digest not in known]

    def run(part):
        return subprocess.run([program, "--dry-run", "--Werror", *part], cwd=tree.root, capture_output=True, text=True,
                              check=False).stderr

    first = {}
    for said in in_parallel(run, wanted):
        for path, line in re.findall(r"^(\S+?):(\d+):\d+: error:", said, re.M):
            first.setdefault(path, int(line))
    # Only what is here now, so that the cache does not grow.
    good = sorted(digest for path, digest in digests.items() if path not in first)
    if set(good) != known:
        cache.parent.mkdir(parents=True, exist_ok=True)
        partial = cache.with_name(f"{cache.name}.{os.getpid()}")
        partial.write_text("\n".join(good) + "\n")
        partial.replace(cache)
    return [(path, line, f"not formatted as clang-format {VERSION} does; run tests/tidy/tidy --fix")
            for path, line in first.items()]


def fix(tree):
    program = find_formatter()
    if program:
        paths = sorted({path for path, _, _ in check(tree)})
        in_parallel(lambda part: subprocess.run([program, "-i", *part], cwd=tree.root, check=True), paths)
