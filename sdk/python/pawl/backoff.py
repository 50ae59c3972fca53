"""How long to wait before another try."""
from __future__ import annotations

import random
from typing import Optional

FIRST_S = 0.1
LONGEST_S = 5.0


def backoff(failures: int, retry_after: Optional[float] = None) -> float:
    """Seconds to wait after this many failures in a row (from 1), never less than the server asked for.

    Half of it is chance: workers that lost the same server at the same moment must not come back at the same moment.
    """
    longest = min(LONGEST_S, FIRST_S * 2.0 ** min(failures - 1, 16))
    wait = longest * random.uniform(0.5, 1.0)
    if retry_after is None:
        return wait
    return max(wait, retry_after * random.uniform(1.0, 1.25))
