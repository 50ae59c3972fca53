"""A terminal with the real binary in it, and a person's hands."""
import fcntl
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import termios
import time

from pawl_case import PAWL, TIMEOUT_S, without_escapes


class Terminal:
    def __init__(self, args, env, cwd, columns=100, rows=30):
        self.ours, theirs = pty.openpty()
        self.resize(columns, rows)
        self.settings = termios.tcgetattr(theirs)

        def lead():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen([PAWL, *map(str, args)], stdin=theirs, stdout=theirs, stderr=theirs, env=env,
                                        cwd=cwd, preexec_fn=lead)
        self.theirs = theirs
        self.seen = ""

    def resize(self, columns, rows):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        ready, _, _ = select.select([self.ours], [], [], seconds)
        if ready:
            self.seen += os.read(self.ours, 65536).decode(errors="replace")

    def expect(self, pattern):
        end = time.monotonic() + TIMEOUT_S
        while not re.search(pattern, without_escapes(self.seen)):
            if time.monotonic() > end:
                raise AssertionError(f"{pattern!r} never came; seen:\n{self.seen}")
            self.read(0.1)

    def type(self, keys):
        os.write(self.ours, keys.encode())

    def is_stopped(self):
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def finish(self):
        end = time.monotonic() + TIMEOUT_S
        while self.process.poll() is None:
            if time.monotonic() > end:
                raise AssertionError(f"it never ended; seen:\n{self.seen}")
            self.read(0.05)
        # All that it wrote is there by now.
        while select.select([self.ours], [], [], 0)[0]:
            self.read(0)
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)
