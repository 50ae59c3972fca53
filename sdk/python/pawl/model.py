"""What the server tells about, as values. `data` is the whole object as it came, for what has no field here."""
from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Mapping, Optional, Tuple, Union

Json = Any
"""A JSON value: None, bool, int, float, str, a list of these, or a dict from str to these."""

Duration = Union[str, datetime.timedelta]
"""Like "90s", "15m", "1h30m", or a timedelta."""

Money = Union[str, int, Decimal]
"""US dollars with at most six decimals. No float: 0.1 is not 0.1 there."""

TERMINAL_STATUSES = frozenset({"success", "failed", "denied", "timeout", "canceled"})

_Object = Mapping[str, Any]


@dataclass(frozen=True)
class Diagnostic:
    """Why a step or a run ended badly."""

    error_code: str
    category: str
    message: str
    retryable: bool
    data: _Object = field(repr=False)

    @staticmethod
    def of(data: Optional[_Object]) -> Optional["Diagnostic"]:
        if data is None:
            return None
        return Diagnostic(data["error_code"], data["category"], data["message"], data["retryable"], data)


@dataclass(frozen=True)
class Step:
    """One step of a run."""

    id: str
    tool: str
    status: str
    attempts: int
    output: Json
    cost_usd: Decimal
    last_error: Optional[Diagnostic]
    data: _Object = field(repr=False)

    @staticmethod
    def of(data: _Object) -> "Step":
        return Step(
            id=data["id"],
            tool=data["tool"],
            status=data["status"],
            attempts=data["attempts"],
            output=data["output"],
            cost_usd=Decimal(data["cost_usd"]),
            last_error=Diagnostic.of(data["last_error"]),
            data=data,
        )


@dataclass(frozen=True)
class Approval:
    """A decision that people make. In a list of all that wait it has no prompt: look at its run for that."""

    id: str
    run_id: str
    step: str
    status: str
    tier: str
    prompt: Optional[str]
    expires_at: Optional[str]
    data: _Object = field(repr=False)

    @staticmethod
    def of(data: _Object, run_id: str) -> "Approval":
        return Approval(
            id=data["id"],
            run_id=run_id,
            step=data["step"],
            status=data["status"],
            tier=data["tier"],
            prompt=data.get("prompt"),
            expires_at=data.get("expires_at"),
            data=data,
        )


@dataclass(frozen=True)
class Run:
    """A run with its steps, as it was when the server answered."""

    id: str
    workflow: str
    version: int
    workspace: str
    status: str
    error_code: Optional[str]
    input: Json
    cost_usd: Decimal
    retry_of: Optional[str]
    seq: int
    steps: Tuple[Step, ...]
    approvals: Tuple[Approval, ...]
    diagnostic: Optional[Diagnostic]
    data: _Object = field(repr=False)

    @property
    def ended(self) -> bool:
        return self.status in TERMINAL_STATUSES

    @property
    def succeeded(self) -> bool:
        return self.status == "success"

    def step(self, step_id: str) -> Step:
        """Raises KeyError when there is none of that name."""
        for step in self.steps:
            if step.id == step_id:
                return step
        raise KeyError(step_id)

    @staticmethod
    def of(data: _Object) -> "Run":
        return Run(
            id=data["id"],
            workflow=data["workflow"],
            version=data["version"],
            workspace=data["workspace"],
            status=data["status"],
            error_code=data["error_code"],
            input=data["input"],
            cost_usd=Decimal(data["cost_usd"]),
            retry_of=data["retry_of"],
            seq=data["seq"],
            steps=tuple(Step.of(step) for step in data["steps"]),
            approvals=tuple(Approval.of(approval, data["id"]) for approval in data["approvals"]),
            diagnostic=Diagnostic.of(data["diagnostic"]),
            data=data,
        )


@dataclass(frozen=True)
class RunSummary:
    """A run in a list."""

    id: str
    workflow: str
    version: int
    workspace: str
    status: str
    error_code: Optional[str]
    retryable: Optional[bool]
    created_at: str
    updated_at: str
    seq: int
    finished_at: Optional[str] = None

    @staticmethod
    def of(data: _Object) -> "RunSummary":
        return RunSummary(
            id=data["id"],
            workflow=data["workflow"],
            version=data["version"],
            workspace=data["workspace"],
            status=data["status"],
            error_code=data["error_code"],
            retryable=data.get("retryable"),
            created_at=data["created_at"],
            updated_at=data["updated_at"],
            seq=data["seq"],
            finished_at=data.get("finished_at"),
        )


@dataclass(frozen=True)
class Started:
    """What became of one item of start_many(): a run's id, or why there is none."""

    status: int
    id: Optional[str]
    code: Optional[str]
    detail: Optional[str]

    @staticmethod
    def of(data: _Object) -> "Started":
        return Started(data["status"], data.get("id"), data.get("code"), data.get("detail"))


@dataclass(frozen=True)
class Event:
    """One event of a run's stream, or of the feed: there it has a position, and is the tenant's if it has no run."""

    type: str
    run_id: Optional[str]
    seq: int
    position: Optional[str]
    data: _Object


@dataclass(frozen=True)
class Receipt:
    """An effect outside: what was allowed, done and answered. In a list it has the first four fields only."""

    id: str
    run_id: str
    status: str
    idempotency_key: str
    action: Optional[_Object]
    response: Json
    reversible: Optional[bool]
    data: _Object = field(repr=False)

    @staticmethod
    def of(data: _Object) -> "Receipt":
        action = data.get("action")
        return Receipt(
            id=data["id"],
            run_id=data["run_id"] if "run_id" in data else data["run"],
            status=data["status"],
            idempotency_key=data["idempotency_key"] if action is None else action["idempotency_key"],
            action=action,
            response=data.get("response"),
            reversible=data.get("reversible"),
            data=data,
        )


@dataclass(frozen=True)
class Undoing:
    """The run that undoes effects: which ones, and which are left, with why."""

    run_id: str
    status: str
    undoing: Tuple[str, ...]
    left: Tuple[_Object, ...]

    @staticmethod
    def of(data: _Object) -> "Undoing":
        return Undoing(data["run_id"], data["status"], tuple(data["undoing"]), tuple(data["left"]))


@dataclass(frozen=True)
class Workflow:
    """A published version."""

    name: str
    version: int


_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?")
_UNIT_SECONDS = (86_400.0, 3600.0, 60.0, 1.0, 0.001)


def parse_duration(text: str) -> float:
    """Seconds of a duration like 250ms, 90s or 1h30m. Raises ValueError for anything else."""
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        raise ValueError(f"not a duration like 90s, 15m or 1h30m: {text!r}")
    return sum(int(number) * unit for number, unit in zip(match.groups("0"), _UNIT_SECONDS))


def print_duration(value: Duration) -> str:
    if isinstance(value, str):
        parse_duration(value)
        return value
    if value < datetime.timedelta(0):
        raise ValueError(f"a duration cannot be negative: {value}")
    return f"{round(value / datetime.timedelta(milliseconds=1))}ms"


def print_money(value: Money) -> str:
    if isinstance(value, float):
        raise TypeError("money is a str, an int or a Decimal, not a float")
    return value if isinstance(value, str) else format(Decimal(value), "f")
