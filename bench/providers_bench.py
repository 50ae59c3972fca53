"""bench/run providers [--json] [--quick] [restate|stepfunctions]...: what it costs to poll runs of other engines.

The real server carries many runs that wait, in the real Restate, and in a server that speaks as Step Functions does.
Then nothing changes for a while, and the processor's time that pawl takes is read; then single runs end over there, and
how long it takes until that is seen here is measured.
"""
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests/providers"))
from provider_case import Client, Restate, Server, call, fetched  # noqa: E402
from recorded_stepfunctions import ACCESS, SECRET, RecordedStepFunctions  # noqa: E402

INTERVAL_S = 1.0
ALLOWED_S = 0.1
SHARE_MAX = 0.01
MACHINE = "arn:aws:states:eu-west-1:123456789012:stateMachine:ship"
WORKFLOWS = {
    "restate": "workflow: carried\nprovider: restate\ntarget: {service: Demo, handler: hangs}\n",
    "stepfunctions": f'workflow: carried\nprovider: stepfunctions\ntarget: {{state_machine: "{MACHINE}"}}\n',
}


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def until(holds, what, seconds=900):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"never came: {what}")
        time.sleep(0.02)  # this process is also the one that is looked at


class Bench:
    def __init__(self, provider, folder, quick):
        self.provider = provider
        self.runs = 1000 if quick else 10000
        self.quiet_s = 10 if quick else 60
        self.folder = pathlib.Path(folder)
        if provider == "restate":
            self.other = Restate(folder).start()
            flags = self.other.flags()[:4]
        else:
            os.environ.update(AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET)
            self.other = RecordedStepFunctions()
            flags = ["--stepfunctions", f"http://127.0.0.1:{self.other.port}"]
        data = self.folder / "data"
        data.mkdir(mode=0o700)
        self.server = Server(data, flags).start()
        self.admin = Client(self.server, (data / "admin.key").read_text().strip())

    def close(self):
        self.server.end()
        self.other.stop() if self.provider == "restate" else self.other.close()

    def metric(self, name):
        text = self.admin.get("/metrics").body.decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))

    def count(self, **query):
        found, cursor = 0, None
        while True:
            page = self.admin.get("/runs", limit=500, **query, **({"cursor": cursor} if cursor else {})).json
            found += len(page["items"])
            cursor = page["next_cursor"]
            if not cursor:
                return found

    def begin(self):
        """All of them are there, have been seen to wait or run, and nothing moves any more."""
        self.admin.put("/workflows/carried", WORKFLOWS[self.provider])
        ids = []
        for _ in range(self.runs // 500):
            answer = self.admin.post("/runs/batch", {"items": [{"workflow": "carried"}] * 500})
            ids += [item["id"] for item in answer.json["items"]]
        state = "suspended" if self.provider == "restate" else "RUNNING"
        while self.count(provider_state=state) < self.runs:
            time.sleep(2)
        events = -1.0
        while events != (events := self.metric("pawl_events_total")):
            time.sleep(5)
        return ids

    def end_one(self, run):
        """Over there; gives when it was."""
        there = self.admin.get(f"/runs/{run}").json["foreign"]["id"]
        if self.provider == "restate":
            call(self.other.admin, "PATCH", f"/invocations/{there}/kill")
        else:
            self.other.end(there, "SUCCEEDED", output="{}")
        return time.monotonic()

    def measure(self):
        ids = self.begin()
        pid = self.server.process.pid
        looks = self.metric("pawl_provider_looks_total")
        before, began = cpu_seconds(pid), time.monotonic()
        time.sleep(self.quiet_s)
        took = time.monotonic() - began
        share = (cpu_seconds(pid) - before) / took
        interval = took / max(1, self.metric("pawl_provider_looks_total") - looks)
        seen = []
        for run in ids[:: max(1, len(ids) // 10)][:10]:
            ended = self.end_one(run)
            until(lambda: self.admin.get(f"/runs/{run}").json["finished_at"], "its end")
            seen.append(time.monotonic() - ended)
        return {"provider": self.provider, "runs": self.runs, "core_share": round(share, 4),
                "interval_s": round(interval, 2),
                "seen_after_s": {"median": round(statistics.median(seen), 3), "max": round(max(seen), 3)},
                "is_cheap": share <= SHARE_MAX, "is_soon": max(seen) <= interval + ALLOWED_S}


def main(arguments):
    if not fetched():
        raise SystemExit("Restate could not be fetched: it needs npm and the network, once")
    names = [name for name in arguments if not name.startswith("--")] or list(WORKFLOWS)
    if unknown := set(names) - set(WORKFLOWS):
        raise SystemExit(f"there is no {', '.join(unknown)}; there are {', '.join(WORKFLOWS)}")
    figures = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix="pawl-bench-", ignore_cleanup_errors=True) as folder:
            bench = Bench(name, folder, "--quick" in arguments)
            try:
                figures.append(bench.measure())
            finally:
                bench.close()
    if "--json" in arguments:
        print(json.dumps(figures))
        return
    print(f"{'provider':<14} {'runs':>6}  {'of a core':>9}  {'a poll every':>12}  {'seen after, median':>18}  "
          f"{'longest':>8}")
    for each in figures:
        seen = each["seen_after_s"]
        print(f"{each['provider']:<14} {each['runs']:>6}  {each['core_share']:>9.2%}  {each['interval_s']:>10.2f} s  "
              f"{seen['median']:>16.2f} s  {seen['max']:>6.2f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
