"""What is told of an exception: its type, its message, and where it came from. Whoever may read the run reads this, so
it holds no source lines, no values of variables, of paths only the last two parts, and nothing that looks like a
secret."""
from __future__ import annotations

import os
import re
import traceback
from typing import Callable, List, Mapping, Optional, Tuple

MESSAGE_BYTES_MAX = 1000
HIDDEN_CHARS_MAX = 20_000  # of a message: this much is searched for secrets
FRAMES_MAX = 12
CAUSES_MAX = 4
PARTS_MAX = 3  # of an ExceptionGroup
HIDDEN = "[redacted]"

# Values of environment variables with such names are never told, if they are long enough to be one.
SECRET_NAMES = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
SECRET_CHARS_MIN = 6
SECRET_TEXTS: Tuple[Tuple["re.Pattern[str]", str], ...] = (
    (re.compile(r"pawl_[0-9a-z~_]{26,}"), HIDDEN),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), r"\1 " + HIDDEN),
    (re.compile(r"(\w+://)[^/\s:@]+:[^/\s@]+@"), r"\1" + HIDDEN + "@"),
    # name=value, "name": "value"
    (
        re.compile(r"(?i)\b([\w-]*(?:key|token|secret|passw(?:or)?d))(['\"]?\s*[=:]\s*['\"]?)[^\s'\",;&]{4,}"),
        r"\1\2" + HIDDEN,
    ),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL), HIDDEN),
    # As AWS, GitHub, Slack and providers of models write them.
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_[0-9A-Za-z]{20,}"), HIDDEN),
    (re.compile(r"\bxox[abp]-[0-9A-Za-z-]{10,}|\bsk-[0-9A-Za-z_-]{16,}"), HIDDEN),
)


def redact(text: str, environment: Optional[Mapping[str, str]] = None) -> str:
    """The text without what looks like a secret, or is the value of a variable whose name says that it is one."""
    values = [
        value
        for name, value in (os.environ if environment is None else environment).items()
        if SECRET_NAMES.search(name) and len(value) >= SECRET_CHARS_MIN
    ]
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    for pattern, replacement in SECRET_TEXTS:
        text = pattern.sub(replacement, text)
    return text


def describe(error: BaseException, skipped: int = 0, hide: Callable[[str], str] = redact) -> str:
    """The exception, and those that led to it. `skipped`: so many of its outermost frames are not the tool's."""
    lines: List[str] = []
    seen: List[int] = []
    current: Optional[BaseException] = error
    while current is not None and len(seen) < CAUSES_MAX and id(current) not in seen:
        seen.append(id(current))
        lines.append(("caused by " if len(seen) > 1 else "") + headline(current, hide))
        lines.extend(frames_of(current, skipped if len(seen) == 1 else 0))
        for part in parts_of(current):
            lines.append("with " + headline(part, hide))
            lines.extend(frames_of(part, 0))
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return "\n".join(lines)


def headline(error: BaseException, hide: Callable[[str], str] = redact) -> str:
    try:
        message = str(error)
    except Exception:  # an exception whose own text fails
        message = ""
    # Secrets are taken out before the cut, which would otherwise leave half of one, and look like none.
    message = hide(message[:HIDDEN_CHARS_MAX])
    message = message.encode("utf-8", "replace")[:MESSAGE_BYTES_MAX].decode("utf-8", "ignore")
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def parts_of(error: BaseException) -> List[BaseException]:
    """The first ones of an ExceptionGroup, which Python 3.9 does not know."""
    parts = getattr(error, "exceptions", ())
    return [each for each in parts if isinstance(each, BaseException)][:PARTS_MAX] if isinstance(parts, tuple) else []


def frames_of(error: BaseException, skipped: int) -> List[str]:
    """One line a frame, the latest call last: file, line, function. Of a file only the last two parts of its path."""
    frames = traceback.extract_tb(error.__traceback__)[skipped:]
    left_out = len(frames) - FRAMES_MAX
    lines = [f"  ... {left_out} more calls"] if left_out > 0 else []
    for frame in frames[-FRAMES_MAX:]:
        name = "/".join(frame.filename.replace("\\", "/").split("/")[-2:])
        lines.append(f"  at {name}:{frame.lineno} in {frame.name}")
    return lines
