"""What tests need of npm is fetched once into build/. Suites that need the same thing may run side by side."""
import contextlib
import fcntl
import os
import pathlib
import shutil
import subprocess

BUILD = pathlib.Path(__file__).parents[2] / "build"


@contextlib.contextmanager
def locked(folder):
    """One process at a time changes the folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fetched(folder, sources, files=()):
    """Has npm install what sources/package.json pins into the folder, and copies these files of sources beside it.
    False when that is not possible here."""
    wanted = (sources / "package.json").read_text()
    mark = folder / "fetched.json"
    with locked(folder):
        if not mark.is_file() or mark.read_text() != wanted:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            (folder / "package.json").write_text(wanted)
            try:
                subprocess.run(["npm", "install", "--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund"],
                               cwd=folder, check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError):
                shutil.rmtree(folder, ignore_errors=True)
                return False
            mark.write_text(wanted)
        for name in files:
            replace(folder / name, (sources / name).read_bytes())
    return True


def replace(path, content):
    """At once, so that nobody reads half of it."""
    if path.exists() and path.read_bytes() == content:
        return
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_bytes(content)
    new.rename(path)
