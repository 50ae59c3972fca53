"""How the suites of this folder kill pawl: at a call to the disk that they choose."""
import os
import signal

PAWL = os.environ["PAWL"]
FAILING_DISK = os.environ["FAILING_DISK"]
# Under AddressSanitizer its runtime would like to be the first library.
KILLING = {"LD_PRELOAD": FAILING_DISK,
           "ASAN_OPTIONS": "verify_asan_link_order=0:" + os.environ.get("ASAN_OPTIONS", "")}
TIMEOUT_S = 120
KILLED = -signal.SIGKILL
# Killed before every call to the disk, unless told otherwise: every so many.
STRIDE = int(os.environ.get("GATE_STRIDE", 1))
