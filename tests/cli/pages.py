"""Runs the code blocks of a page as its reader would: in order, in one shell, in a folder of their own.

The first word behind the three backquotes says what a block is:

    sh          typed by the reader, and run by the test. Every command must succeed.
                sh exits=5       one command exits with 5, as the page says
                sh listens=7295  starts a server: the next block waits until this port takes connections
    text        what the `sh` block before it prints, all of it. Names of runs and the like, times and durations may
                differ; `...` stands for anything within a line, and on a line of its own for any number of lines.
    console     typed by the reader, and not run: it installs or builds something. The test lists each of them.
    others      (yaml, json, http, python, sql, mermaid) are there to be read

A page may name the ports 7295 (the server's default) and 8080. The test replaces them by free ones.
"""
import os
import pathlib
import re
import signal
import socket
import subprocess

from pawl_case import HANG_S, PAWL, SOURCE, until
from ports import stable_port

FENCE = re.compile(r"^```(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
READ = {"yaml", "json", "http", "python", "sql", "mermaid"}
# What differs from run to run, and what is compared instead.
VARYING = [
    (re.compile(r"\b(run|task|key|apr|rcp|ten|evt)_[0-9a-z]{26}\b"), r"\1_ID"),
    (re.compile(r"\bpawl_[0-9a-z]{20,}_[0-9a-z]+\b"), "KEY"),
    (re.compile(r"\b[0-9a-f]{32,}\b"), "HASH"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"(?<![\w.])(\d+(\.\d+)?(d|h|ms|m|s))+\b"), "DURATION"),
    (re.compile(r"[ \t]+"), " "),
]


class Block:
    def __init__(self, page, number, info, text):
        self.where = f"{page}, line {number}"
        words = info.split()
        self.kind = words[0] if words else ""
        self.options = dict(word.split("=", 1) for word in words[1:])
        self.text = text


def blocks_of(path):
    page = path.read_text()
    return [Block(path.relative_to(SOURCE), page.count("\n", 0, match.start()) + 1, match[1], match[2])
            for match in FENCE.finditer(page)]


def plain(text):
    for regex, instead in VARYING:
        text = regex.sub(instead, text)
    return [line.strip() for line in text.strip().splitlines()]


def fits(wanted, printed):
    """Whether lines are those that a page shows."""
    if not wanted:
        return not printed
    if wanted[0] == "...":
        return any(fits(wanted[1:], printed[skipped:]) for skipped in range(len(printed) + 1))
    if not printed:
        return False
    line = ".*".join(re.escape(part) for part in wanted[0].split("..."))
    return re.fullmatch(line, printed[0]) is not None and fits(wanted[1:], printed[1:])


class Shell:
    """A shell of its own, in a folder that looks like a built clone."""

    def __init__(self, folder, settings):
        self.folder = folder
        clone = folder / "pawl"
        (clone / "build" / "release").mkdir(parents=True)
        (clone / "build" / "release" / "pawl").symlink_to(pathlib.Path(PAWL).resolve(strict=True))
        for entry in SOURCE.iterdir():
            if entry.name != "build" and not entry.name.startswith("."):
                (clone / entry.name).symlink_to(entry)
        self.ports = {7295: stable_port(), 8080: stable_port()}
        environment = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        environment.update(HOME=str(folder), LANG="C.UTF-8", PYTHONDONTWRITEBYTECODE="1",
                           PAWL_LISTEN=f"127.0.0.1:{self.ports[7295]}", **settings)
        answers, told = os.pipe()
        self.process = subprocess.Popen(["bash", "--norc"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, cwd=clone, env=environment, pass_fds=[told],
                                        start_new_session=True, text=True)
        os.close(told)
        self.answers = os.fdopen(answers)
        self.number = 0
        # A page works in a folder that it makes, here one with a short name: sockets lie in it.
        self.tell(f"mktemp() {{ mkdir {folder}/w; echo {folder}/w; }}")
        self.tell(f"set -E; trap 'echo $? >> {folder}/failed' ERR; exec {told}>&{told}")
        self.done = f"echo done >&{told}"

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def run(self, text):
        """What it prints on both streams, and the exit codes of the commands that failed."""
        self.number += 1
        for port, free in self.ports.items():
            text = re.sub(rf"\b{port}\b", str(free), text)
        block, output, failed = (self.folder / f"{name}-{self.number}" for name in ("block", "output", "failed-in"))
        block.write_text(text + "\n:\n")  # otherwise the code of the last command is counted twice
        self.tell(f"source {block} < /dev/null > {output} 2>&1; {self.done}")
        with Alarm(f"a block does not end:\n{text}"):
            ended = self.answers.readline()
        codes = self.folder / "failed"
        if codes.exists():
            codes.rename(failed)
        printed = output.read_text(errors="replace") if output.exists() else ""
        for port, free in self.ports.items():
            printed = re.sub(rf"\b{free}\b", str(port), printed)
        if not ended:
            raise AssertionError(f"the shell ended in\n{text}\n{printed}")
        return printed, [int(code) for code in failed.read_text().split()] if failed.exists() else []

    def wait_for(self, port, is_pawl):
        """Until somebody listens there; of pawl also until its commands find it."""
        free = self.ports[port]

        def listens():
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", free)) != 0:
                    return False
            return not is_pawl or any(f":{free}\"" in path.read_text() for path in self.folder.glob("w/*/server.json"))
        until(listens, bool, f"port {port} takes connections")

    def jobs(self):
        """What still runs in the background."""
        return self.run("jobs -r")[0].strip()

    def end(self):
        self.answers.close()
        self.process.stdin.close()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class Alarm:
    """Ends a hang."""

    def __init__(self, what):
        self.what = what

    def __enter__(self):
        def ring(*_):
            raise AssertionError(self.what)
        self.before = signal.signal(signal.SIGALRM, ring)
        signal.alarm(HANG_S)

    def __exit__(self, *_):
        signal.alarm(0)
        signal.signal(signal.SIGALRM, self.before)
