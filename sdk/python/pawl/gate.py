"""Side effects that pawl has to allow first, as a tool asks for them: propose, do, tell the outcome."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional

from .model import Json


class LeaseOver(BaseException):
    """The step is not this worker's any more, and pawl knows why. The tool ends, and nothing is reported.

    Not an Exception, so that a tool's own `except Exception` does not keep it alive. Do not catch it.
    """


class Denied(LeaseOver):
    """The policy, a cap or a freeze said no: the run ends as denied."""


class ApprovalNeeded(LeaseOver):
    """People are asked first. When they approve, the step is leased again, and the same proposal is allowed."""


class Asked(LeaseOver):
    """A person was asked a question. The step is leased again with the answer: Context.answer."""


class NotDone(Exception):
    """Raised by what Context.perform() calls: the effect has certainly not happened, and the receipt says so."""

    def __init__(self, message: str, *, code: str = "TOOL_FAILED") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Allowed:
    """An action that may happen now, once. With `is_done` it has happened already, and `response` is what came back."""

    receipt_id: str
    digest: str
    is_done: bool
    response: Json
    before: Json
    data: Mapping[str, Any] = field(repr=False)

    @staticmethod
    def of(data: Mapping[str, Any]) -> "Allowed":
        return Allowed(
            receipt_id=data["receipt_id"],
            digest=data["digest"],
            is_done=data["is_done"],
            response=data.get("response"),
            before=data.get("before"),
            data=data,
        )


def action_of(
    connector: str,
    operation: str,
    target: str,
    fields: Optional[Mapping[str, Any]] = None,
    risk: Optional[str] = None,
    idempotency_key: Optional[str] = None,
) -> Dict[str, Any]:
    """An action as the API takes it, without what was not given. Also what `undo` is."""
    action = {
        "connector": connector,
        "operation": operation,
        "target": target,
        "fields": None if fields is None else dict(fields),
        "risk": risk,
        "idempotency_key": idempotency_key,
    }
    return {name: value for name, value in action.items() if value is not None}
