"""pawl bench: figures of this machine, and nothing left behind."""
import json
import signal
import unittest

from pawl_case import PawlCase, interrupt


class Bench(PawlCase):
    def setUp(self):
        super().setUp()
        self.data.mkdir()

    def left(self):
        return sorted(path.name for path in self.data.iterdir())

    def test_figures_for_programs(self):
        figures = {line["name"]: line for line in map(json.loads,
                                                      self.expect(self.pawl("bench", "--json"), 0).stdout.splitlines())}
        self.assertEqual(set(figures), {"disk p50", "disk p99", "latency p50", "latency p99", "throughput"})
        self.assertEqual((figures["throughput"]["unit"], figures["latency p50"]["unit"]), ("steps/s", "ms"))
        self.assertLessEqual(figures["latency p50"]["value"], figures["latency p99"]["value"])
        self.assertGreater(figures["throughput"]["value"], 0)
        self.assertEqual(self.left(), [])

    def test_interrupted_it_leaves_nothing(self):
        bench = self.start("bench")
        self.wait_until(self.left, "its folder")
        interrupt(bench, signal.SIGINT)
        self.assertEqual(bench.returncode, 130)
        self.assertEqual(self.left(), [])

    def test_a_folder_that_is_not_there_yet_is_not_made(self):
        self.data = self.folder / "new" / "deep"
        bench = self.start("bench")
        self.wait_until(lambda: list(self.folder.glob("pawl-bench-*")), "its folder")
        interrupt(bench)
        self.assertEqual((list(self.folder.glob("pawl-bench-*")), (self.folder / "new").exists()), ([], False))


if __name__ == "__main__":
    unittest.main()
