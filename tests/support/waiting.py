"""How every test waits: for a condition, never for an amount of time."""
import time

# Only ends a hang. Nothing that works takes this long, not even under sanitizers on a busy machine.
HANG_S = 180


def until(look, holds, what):
    """Polls look() until holds(value); returns the value. `what` names the condition when it never holds."""
    end = time.monotonic() + HANG_S
    while True:
        value = look()
        if holds(value):
            return value
        if time.monotonic() > end:
            raise AssertionError(f"never happened: {what}; last value: {value!r}")
        time.sleep(0.005)
