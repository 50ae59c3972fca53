"""How the suites of this folder kill pawl: at a call to the disk that they choose."""
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from waiting import HANG_S  # noqa: E402

PAWL = os.environ["PAWL"]
FAILING_DISK = os.environ["FAILING_DISK"]
# Under AddressSanitizer its runtime would like to be the first library.
KILLING = {"LD_PRELOAD": FAILING_DISK,
           "ASAN_OPTIONS": "verify_asan_link_order=0:" + os.environ.get("ASAN_OPTIONS", "")}
TIMEOUT_S = HANG_S
KILLED = -signal.SIGKILL
# Killed before every third call to the disk, and before each in `./test deep`.
STRIDE = int(os.environ.get("GATE_STRIDE") or (1 if os.environ.get("PAWL_TEST_DEEP") else 3))
