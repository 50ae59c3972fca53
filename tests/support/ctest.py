"""The suites that ctest knows, and running one of them."""
import json
import pathlib
import subprocess
import time

TOP = pathlib.Path(__file__).parents[2]


def suites(preset, *selection):
    """Names of a preset's suites; `selection` as ctest's flags."""
    shown = subprocess.run(["ctest", "--test-dir", f"build/{preset}", "--show-only=json-v1", *selection], cwd=TOP,
                           check=True, capture_output=True, text=True)
    return [test["name"] for test in json.loads(shown.stdout)["tests"]]


def run_suite(preset, name, log, environment=None):
    """Whether it passed, and how many seconds it took. Its output is in the file `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    with open(log, "wb") as file:
        done = subprocess.run(["ctest", "--test-dir", f"build/{preset}", "-V", "--no-tests=error", "-R", f"^{name}$"],
                              cwd=TOP, stdout=file, stderr=file, env=environment)
    return done.returncode == 0, time.monotonic() - begin


def repeat_command(preset, name):
    return f"ctest --test-dir build/{preset} -V -R '^{name}$'"
