"""kill -9 under load, a full disk, a sync that fails: nothing acknowledged is lost, and the journal verifies.

CRASH_CHILD names the program that is killed (crash_child.cc), FAILING_DISK the library that makes its disk fail,
CRASH_KILLS how often it is killed under load (30, and 300 in `./test deep`).
"""
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from waiting import HANG_S, until  # noqa: E402

CHILD = os.environ["CRASH_CHILD"]
KILLS = int(os.environ.get("CRASH_KILLS") or (300 if os.environ.get("PAWL_TEST_DEEP") else 30))
STRIDE = 1 if os.environ.get("PAWL_TEST_DEEP") else 3  # every so many moments of a start
EX_IOERR = 74
A_WHILE_BYTES = 4000  # acknowledgements of about fifty runs


class Crash(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pawl-crash-"))
        self.data = self.folder / "data"
        self.acknowledged = self.folder / "acknowledged"
        self.seed = int(os.environ.get("PAWL_SEED", random.randrange(1 << 30)))
        self.chance = random.Random(self.seed)

    def tearDown(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, **environment):
        with self.acknowledged.open("ab") as told:
            return subprocess.Popen([CHILD, "work", self.data], stdout=told, stderr=subprocess.PIPE,
                                    env={**os.environ, **environment}, text=True)

    def check(self):
        """The folder verifies and has everything that was acknowledged."""
        with self.acknowledged.open() as told:
            done = subprocess.run([CHILD, "check", self.data], stdin=told, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"PAWL_SEED={self.seed}\n{done.stdout}{done.stderr[-4000:]}")
        return done.stdout

    def size(self):
        return self.acknowledged.stat().st_size if self.acknowledged.exists() else 0

    def wait_for_work(self, child, size=1):
        """Until the child has acknowledged something new."""
        enough = self.size() + size
        until(lambda: self.size() >= enough or child.poll() is not None, bool, "acknowledgements")
        self.assertIsNone(child.poll(), "it ended before it was killed")

    def test_killed_again_and_again(self):
        for kill in range(KILLS):
            child = self.start()
            # Most are killed at work; some while they start, which is when they recover.
            if kill == 0 or self.chance.random() < 0.8:
                self.wait_for_work(child)
            time.sleep(self.chance.uniform(0.02, 0.3))
            self.assertIsNone(child.poll(), "it ended before it was killed")
            child.kill()
            child.communicate()
            # Verifying takes longer the more there is; the journal is verified after each kill all the same.
            self.check()
        print(f"{KILLS} kills: {self.check().strip()}")

    def test_killed_at_every_moment_of_its_first_start(self):
        for moment in range(1, 10_000, STRIDE):
            shutil.rmtree(self.data, ignore_errors=True)
            self.acknowledged.unlink(missing_ok=True)
            child = self.with_failing_disk(KILL_AT=str(moment))
            _, message = child.communicate(timeout=HANG_S)
            self.assertEqual(child.returncode, -signal.SIGKILL, message)
            was_working = self.size() > 0
            # There is no database yet, or a whole one; either way the next start goes on from here.
            if (self.data / "pawl.db").exists():
                self.check()
            self.work_for_a_while()
            self.check()
            self.assertFalse(list(self.data.glob("*.new*")), f"after a kill at {moment}")
            if was_working:
                break
        self.assertGreater(moment, 20, "a start changes more than that")
        print(f"killed at {len(range(1, moment + 1, STRIDE))} moments")

    def assert_stopped(self, child, *words):
        _, message = child.communicate(timeout=HANG_S)
        self.assertEqual(child.returncode, EX_IOERR, message)
        for word in words:
            self.assertIn(word, message)

    def work_for_a_while(self):
        child = self.start()
        self.wait_for_work(child, A_WHILE_BYTES)
        child.kill()
        child.communicate()

    def with_failing_disk(self, **environment):
        return self.start(LD_PRELOAD=os.environ["FAILING_DISK"],
                          # The sanitizer would rather be loaded first; nothing here needs it to be.
                          ASAN_OPTIONS="verify_asan_link_order=0:" + os.environ.get("ASAN_OPTIONS", ""), **environment)

    def test_a_sync_that_fails(self):
        self.work_for_a_while()
        for _ in range(5):
            child = self.with_failing_disk(FAIL_SYNC=str(self.chance.randint(1, 60)))
            self.assert_stopped(child, "pawl: ", "disk did not confirm a write")
            self.check()
        self.work_for_a_while()
        self.check()

    def test_a_disk_that_is_full(self):
        self.work_for_a_while()
        for _ in range(5):
            child = self.with_failing_disk(FAIL_SPACE=str(self.chance.randint(1, 400)))
            self.assert_stopped(child, "pawl: ", "full")
            self.check()
        # Also while it starts, when the log's shared memory is made.
        for moment in range(1, 30):
            self.assert_stopped(self.with_failing_disk(FAIL_SPACE=str(moment)), "pawl: ", "full")
        self.check()
        self.work_for_a_while()
        self.check()

    @unittest.skipIf(os.geteuid() != 0, "mounting takes root")
    def test_a_small_file_system_that_is_full(self):
        self.data.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", self.data],
                          capture_output=True).returncode:
            self.skipTest("mounting is not allowed here")
        try:
            child = self.start()
            self.assert_stopped(child, "pawl: ", "full")
            self.check()
            # With room again, it goes on.
            subprocess.run(["mount", "-o", "remount,size=64m", self.data], check=True)
            self.work_for_a_while()
            self.check()
        finally:
            subprocess.run(["umount", "-l", self.data], check=True)


if __name__ == "__main__":
    unittest.main()
