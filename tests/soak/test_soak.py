"""A server under steady load for a long time neither grows nor slows down, and its journal verifies afterwards.

SOAK_SECONDS says how long (10; `./test deep` takes minutes).
"""
import os
import pathlib
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "api"))
from api_case import PAWL, ApiCase, Client  # noqa: E402

SECONDS = float(os.environ.get("SOAK_SECONDS", "10"))

WORK = """
workflow: soak
steps:
  - {id: read, tool: noop, with: {output: {n: "${{ input.n }}"}}}
  - {id: remote, tool: test.work, lease: 10m}
  - {id: gate, tool: approval, tier: low, expires: 1h}
  - {id: write, tool: noop, with: {output: "${{ steps.remote.output }}"}}
"""
BATCH = 20
# Of memory between the first half and the second: caches fill, and allocators keep what they once had.
GROWTH_MAX = 1.5


class Soak(ApiCase):
    def open_files(self):
        return len(os.listdir(f"/proc/{self.server.process.pid}/fd"))

    def work(self, stopping, completed):
        """A worker that leases and completes until it is told to stop."""
        client = Client(self.server, self.admin.key)
        while not stopping.is_set():
            leases = self.lease(client, max=BATCH, wait="1s")
            items = [{"lease_id": lease["lease_id"], "token": lease["token"], "output": lease["input"]}
                     for lease in leases]
            if items:
                self.ok(client.post("/leases/complete", {"items": items}))
                completed.append(len(items))
        client.close()

    def round(self, number):
        """Runs from their creation to their end."""
        bodies = [{"workflow": "soak", "input": {"n": number * BATCH + n}} for n in range(BATCH)]
        created = self.ok(self.admin.post("/runs/batch", {"items": bodies})).json["items"]
        for item in created:
            run = item["run"]["id"] if "run" in item else item["id"]
            self.run_status(run, "waiting")
            self.ok(self.admin.post(f"/runs/{run}/approve"))
            self.run_status(run, "success")

    def test_memory_and_descriptors_stay_where_they_are(self):
        self.publish(WORK)
        stopping, completed = threading.Event(), []
        worker = threading.Thread(target=self.work, args=(stopping, completed))
        worker.start()
        begin, rounds, memory, files = time.monotonic(), 0, [], []
        try:
            while time.monotonic() < begin + SECONDS or rounds < 8:
                self.round(rounds)
                rounds += 1
                memory.append(self.server.rss_mib())
                files.append(self.open_files())
        finally:
            stopping.set()
            worker.join()
        self.assertGreaterEqual(sum(completed), rounds * BATCH)
        half = len(memory) // 2
        first, second = max(memory[:half]), max(memory[half:])
        print(f"{rounds * BATCH} runs, {first:.0f} MiB and then {second:.0f} MiB, {max(files)} descriptors", flush=True)
        self.assertLess(second, first * GROWTH_MAX + 32)
        self.assertLessEqual(max(files[half:]), max(files[:half]) + 8)
        self.server.stop()
        verified = subprocess.run([PAWL, "verify", "--data", str(self.data)], capture_output=True, text=True)
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
