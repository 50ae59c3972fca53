"""No suite leaves a process or a file behind, however it ends. A suite calls watch() once, before it starts anything.

- Temporary files of the suite go into one folder of its own.
- Every process that the suite starts inherits a mark in its environment.
- A second process waits for the end of the suite, a kill included. It then kills what carries the mark and removes the
  folder.
- A suite that ends by itself while something is left says what it is, and fails.

A process that must outlive the suite for a moment, to clean up after it, is started with unmarked().
"""
import atexit
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MARK = "PAWL_TEST_SUITES"  # of each suite around a process, the outermost first
# A process that was told to end, or whose parent was killed, takes a moment to be gone.
ENDING_S = 30

_watched = None


def marked(mark):
    """Ids of the processes that carry this mark. A process that has ended and was not waited for is not among them."""
    found = []
    for place in pathlib.Path("/proc").iterdir():
        if place.name.isdigit() and int(place.name) != os.getpid():
            try:
                if mark.encode() in (place / "environ").read_bytes():
                    found.append(int(place.name))
            except OSError:
                pass
    return found


def unmarked():
    """The environment for a process that is not this suite's to end."""
    return {name: value for name, value in os.environ.items() if name != MARK}


def watch(check=True):
    """Starts watching; does nothing the second time. check: the suite fails when something is left."""
    global _watched
    if _watched:
        return
    _watched = mark = f"{os.getpid()}.{secrets.token_hex(8)}"
    folder = tempfile.mkdtemp(prefix="pawl-tests-")
    os.chmod(folder, 0o711)  # PostgreSQL runs as another user
    ours, theirs = os.pipe()
    watcher = subprocess.Popen([sys.executable, "-S", __file__, folder, mark], stdin=ours, stdout=subprocess.DEVNULL,
                               start_new_session=True, env=unmarked())
    os.close(ours)
    tempfile.tempdir = os.environ["TMPDIR"] = folder
    os.environ[MARK] = f"{os.environ.get(MARK, '')} {mark}".strip()

    def finish():
        left = describe_left(folder, mark) if check else []
        os.close(theirs)
        watcher.wait()
        if left:
            print("the suite left behind:", *left, sep="\n  ", file=sys.stderr, flush=True)
            sys.stdout.flush()
            os._exit(1)

    atexit.register(finish)


def describe_left(folder, mark):
    end = time.monotonic() + ENDING_S
    while (processes := marked(mark)) and time.monotonic() < end:
        time.sleep(0.02)
    left = []
    for process in processes:
        try:
            command = pathlib.Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ")
            left.append(f"process {process}: {command.decode(errors='replace')[:500]}")
        except OSError:
            pass
    return left + [f"file {path}" for path in sorted(pathlib.Path(folder).iterdir())]


def clean(folder, mark):
    while processes := marked(mark):
        for process in processes:
            try:
                os.kill(process, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.01)
    mounts = [line.split()[1] for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((mount for mount in mounts if mount.startswith(folder + "/")), reverse=True):
        subprocess.run(["umount", "-l", mount], check=False)
    # A PostgreSQL that is being stopped at the same time still writes.
    end = time.monotonic() + ENDING_S
    while os.path.exists(folder) and time.monotonic() < end:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.01)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.read()
    clean(*sys.argv[1:])
