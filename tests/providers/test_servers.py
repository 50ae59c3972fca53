"""Several servers on one PostgreSQL, and the real Restate: one of them executes the runs, another takes over when it is
gone."""
import shutil
import time
import unittest

from provider_case import Client, RestateCase, Server
from test_restate import demo


class Together(RestateCase):
    def setUp(self):
        super().setUp()
        if not self.server.store:
            self.skipTest("it needs a PostgreSQL: tests/postgres/cluster")
        other = self.folder / "other" / "data"
        other.mkdir(mode=0o700, parents=True)
        # All servers of an installation share the secret that keys are hashed with, and the key that signs.
        for name in ("secret", "signing-key.json"):
            shutil.copy(self.data / name, other / name)
        self.other = Server(other, self.flags)
        self.other.flags = [*self.flags, "--store", self.server.store]
        self.addCleanup(self.other.end)
        self.other.start()
        self.there = Client(self.other, self.admin.key)
        self.clients.append(self.there)

    def runs_looked_at(self, client):
        text = self.ok(client.get("/metrics")).body.decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                   if line.startswith("pawl_provider_runs{"))

    def test_one_of_them_looks_at_each_run_and_the_other_takes_over_when_it_is_killed(self):
        run = self.start(demo("holds"))["id"]
        self.sub_state(run, "waiting")
        # Whose it is, is its own to say; nobody else looks.
        looked = self.until(lambda: [self.runs_looked_at(each) for each in (self.admin, self.there)],
                            lambda seen: sum(seen) == 1, "one of them looks")
        holder, left = (self.server, self.there) if looked[0] else (self.other, self.admin)
        holder.kill()
        self.until(lambda: self.runs_looked_at(left), lambda count: count == 1, "the other looks")
        self.restate.resolve(run, "held")
        double = self.ok(left.post("/runs", {"workflow": self.published(left), "input": {"n": 4}}), 201).json["id"]
        for each, output in ((double, {"doubled": 8, "run": double, "starts": 1}), (run, "held")):
            done = self.until(lambda: self.ok(left.get(f"/runs/{each}")).json, lambda r: r["finished_at"], "over")
            self.assertEqual((done["status"], done["foreign"]["output"]), ("success", output))

    def published(self, client):
        self.assertIn(client.put("/workflows/double", demo("double")).status, (200, 201))
        return "double"

    def test_a_start_is_made_once_whoever_dies_meanwhile(self):
        self.publish(demo("double"))
        runs = []
        for n in range(6):
            client = (self.admin, self.there)[n % 2]
            runs.append(self.ok(client.post("/runs", {"workflow": "double", "input": {"n": n}}), 201).json["id"])
            (self.server, self.other)[n % 2].kill()
            time.sleep(0.05 * n)
            (self.server, self.other)[n % 2].start()
        for n, run in enumerate(runs):
            done = self.run_status(run, "success")
            self.assertEqual(done["foreign"]["output"], {"doubled": 2 * n, "run": run, "starts": 1})


if __name__ == "__main__":
    unittest.main()
