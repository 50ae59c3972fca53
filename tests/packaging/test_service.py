"""The packaged unit, run by a real systemd in a root of its own: its restrictions leave programs their sandbox."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "support"))
from waiting import HANG_S, until  # noqa: E402

PAWL = os.environ.get("PAWL") or str(HERE.parents[1] / "build/release/pawl")
UNIT = HERE.parents[1] / "packaging/pawl.service"
SYSTEMD = pathlib.Path("/usr/lib/systemd/systemd")
ENDED = {"success", "failed", "denied", "timeout", "canceled"}


def unified_hierarchy():
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2" and os.access(place, os.W_OK):
            return pathlib.Path(place)
    return None


def missing():
    """What this machine lacks for the test; None when it lacks nothing."""
    if os.geteuid() != 0:
        return "only root can start a systemd"
    for program in ("unshare", "bwrap", "pivot_root"):
        if not shutil.which(program):
            return "needs " + program
    if not SYSTEMD.exists() or not unified_hierarchy():
        return "needs systemd and control groups of version 2"
    tried = subprocess.run(["unshare", "--mount", "--pid", "--ipc", "--uts", "--cgroup", "--fork", "true"],
                           capture_output=True, text=True)
    return tried.stderr.strip() if tried.returncode != 0 else None


@unittest.skipIf(missing(), missing())
class Service(unittest.TestCase):
    def start(self, unit):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="pawl-service-"))
        self.addCleanup(shutil.rmtree, folder)
        root = folder / "root"
        root.mkdir()
        self.group = unified_hierarchy() / f"pawl-test-{os.getpid()}"
        self.group.mkdir()
        self.log = folder / "systemd.log"
        with open(self.log, "w") as log:
            # Only its own group, of which systemd becomes the root: nothing else of the machine's is touched.
            self.process = subprocess.Popen(
                ["unshare", "--mount", "--pid", "--ipc", "--uts", "--cgroup", "--fork", "--kill-child=KILL",
                 HERE / "service_root", root, PAWL, unit], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=lambda: (self.group / "cgroup.procs").write_text("0"))
        self.addCleanup(self.end)
        self.root = until(self.root_of_systemd, bool, "systemd")
        self.data = self.root / "var/lib/private/pawl"
        until(lambda: (self.data / "server.json").exists() or self.process.poll() is not None, bool, "the service")
        self.assertIsNone(self.process.poll(), self.log.read_text())
        self.url = json.loads((self.data / "server.json").read_text())["url"]
        self.key = (self.data / "admin.key").read_text().strip()

    def root_of_systemd(self):
        self.assertIsNone(self.process.poll(), self.log.read_text())
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for child in children:
            if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                return pathlib.Path(f"/proc/{child}/root")
        return None

    def end(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(HANG_S)
        until(self.remove_group, bool, "the end of everything in the control group")

    def remove_group(self):
        try:
            for folder, _, _ in os.walk(self.group, topdown=False):
                os.rmdir(folder)
        except OSError:
            return False
        return True

    def ask(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method,
                                         data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": "Bearer " + self.key})
        with urllib.request.urlopen(request, timeout=HANG_S) as answer:
            return json.load(answer)

    def run_agent(self, script):
        self.ask("PUT", "/workflows/w", {"workflow": "w", "steps": [
            {"id": "s", "tool": "agent.command", "retry": {"max_attempts": 1},
             "with": {"prompt": "x", "command": ["bash", "-c", script]}}]})
        run = self.ask("POST", "/runs", {"workflow": "w"})["id"]
        return until(lambda: self.ask("GET", "/runs/" + run), lambda r: r["status"] in ENDED, "the end of the run")

    def server_status(self):
        pid = json.loads((self.data / "server.json").read_text())["pid"]
        text = (self.root / f"proc/{pid}/status").read_text()
        return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)

    def test_an_agent_is_sandboxed_under_the_units_restrictions(self):
        self.start(UNIT)
        status = self.server_status()
        self.assertEqual((status["Seccomp"], status["NoNewPrivs"], status["CapBnd"]), ("2", "1", "0" * 16))
        self.assertNotEqual(status["Uid"].split()[0], "0")
        script = "ls -d /proc/[0-9]* | wc -l >seen; cat /var/lib/pawl/admin.key /var/lib/private/pawl/secret >>seen; " \
                 "tail -n +3 /proc/net/dev | cut -d: -f1 >>seen; uname -n >>seen; " \
                 "unshare -Ur true && echo nested >>seen; cp seen $HOME; " \
                 "echo '{\"type\":\"result\",\"result\":\"done\"}'"
        done = self.run_agent(script)
        self.assertEqual((done["status"], done["diagnostic"]), ("success", None))
        self.assertEqual([receipt["sandboxed"] for receipt in done["receipts"]], [True])
        (seen,) = self.data.glob("agents/*/*/home/seen")
        processes, *rest = seen.read_text().split()
        self.assertLess(int(processes), 8)
        self.assertEqual(rest, ["lo", "sandbox"])

    def test_without_namespaces_it_is_told_and_nothing_runs(self):
        # As the unit was once: the test above would have failed.
        unit = pathlib.Path(tempfile.mkdtemp(prefix="pawl-unit-")) / "pawl.service"
        self.addCleanup(shutil.rmtree, unit.parent)
        lines = UNIT.read_text().splitlines()
        unit.write_text("\n".join("RestrictNamespaces=yes" if line.startswith("RestrictNamespaces=") else line
                                  for line in lines) + "\n")
        self.start(unit)
        done = self.run_agent("true")
        self.assertEqual((done["status"], done["error_code"]), ("failed", "SANDBOX_UNAVAILABLE"))
        self.assertIn("no sandbox works here", (self.root / "run/pawl.log").read_text())


if __name__ == "__main__":
    unittest.main()
