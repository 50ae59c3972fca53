"""The routes for workers, as they are. Worker does all this for you; use them to write another kind of worker."""
from __future__ import annotations

import datetime
import time
from dataclasses import dataclass
from typing import Any, List, Literal, Mapping, Optional, Sequence

from .gate import Allowed, ApprovalNeeded, Denied
from .model import Json, parse_duration
from .transport import Transport, encode_json, segment

# A clock that is further off than this is corrected by the server's Date, which is cut to a whole second.
CLOCK_SKEW_MIN_S = 2.0
LEASE_SECONDS_MIN = 0.05
# Beyond what the poll itself may take.
POLL_SLACK_S = 10.0


Verb = Literal["complete", "fail", "release"]
"""How an attempt may end."""


@dataclass(frozen=True)
class Lease:
    """The right to work on one attempt of a step, until it runs out or is lost. The token is a secret: it counts only
    beside the API key that took the lease, and fences all others off."""

    lease_id: str
    token: str
    run_id: str
    step_id: str
    tool: str
    input: Json
    attempt: int
    idempotency_key: str
    timeout_s: float
    lease_s: float  # how long it lasts without a heartbeat
    question: Json = None  # what an earlier attempt asked,
    answer: Json = None  # and what was answered


@dataclass(frozen=True)
class LeaseResult:
    """What became of one item of a batch. `code` is LEASE_LOST when the work is not this worker's any more.

    Without `cancel` it was not understood, `detail` says why, and the lease is as it was.
    """

    lease_id: str
    ok: bool
    code: Optional[str]
    cancel: bool
    detail: Optional[str] = None


class Leases:
    """Takes leases, keeps them, reports their outcomes. Nothing here is repeated: that is for the worker to say."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def take(self, *, worker: str, tools: Sequence[str], max: int, wait: float) -> List[Lease]:
        """Up to `max` steps to work on, at once or as soon as there is one; none after `wait` seconds (60 at most)."""
        body = {"worker": worker, "tools": list(tools), "max": max, "wait": f"{round(wait * 1000)}ms"}
        answer = self._transport.call("POST", "/leases", body=body, timeout=wait + POLL_SLACK_S, patience=0)
        now = server_now(time.time(), answer.date)
        return [_lease_of(item, now) for item in answer.body["leases"]]

    def heartbeat(self, items: Sequence[Mapping[str, Any]], *, timeout: Optional[float] = None) -> List[LeaseResult]:
        """Keeps leases. Items have `lease_id` and `token`."""
        return self._batch("heartbeat", [encode_json(item) for item in items], timeout)

    def complete(self, items: Sequence[Mapping[str, Any]]) -> List[LeaseResult]:
        """Reports results. Items have `lease_id`, `token`, `output`, and `cost_usd` if there was a cost."""
        return self.report("complete", [encode_json(item) for item in items])

    def fail(self, items: Sequence[Mapping[str, Any]]) -> List[LeaseResult]:
        """Reports failures: `lease_id`, `token`, `error_code`, `message`, `retryable`, `retry_after`, `cost_usd`."""
        return self.report("fail", [encode_json(item) for item in items])

    def release(self, items: Sequence[Mapping[str, Any]], *, timeout: Optional[float] = None) -> List[LeaseResult]:
        """Gives leases back: the steps are ready at once, and the attempts do not count. Items have `lease_id` and
        `token`.

        Only for work that has ended: another worker may have the step before this returns.
        """
        return self._batch("release", [encode_json(item) for item in items], timeout)

    def propose(self, lease: Lease, action: Mapping[str, Any]) -> Allowed:
        """Asks whether the action may happen. Raises Denied or ApprovalNeeded, with which the lease is over.

        `action`: connector, operation, target, fields, risk, idempotency_key, idempotent, before, can_look, happened.
        """
        answer = self._post(lease, "actions", dict(action))
        if answer["decision"] == "allow":
            return Allowed.of(answer)
        kind = Denied if answer["decision"] == "deny" else ApprovalNeeded
        raise kind(f"{answer['decision']}: {answer['reason'] or answer['rule']}")

    def outcome(self, lease: Lease, receipt_id: str, outcome: Mapping[str, Any]) -> None:
        """Says what became of an allowed action: succeeded, response, undo; or error_code and message."""
        self._post(lease, f"actions/{segment(receipt_id)}/outcome", dict(outcome))

    def ask(self, lease: Lease, question: Json) -> None:
        """Asks a person. The lease is over; the step is leased again with the answer."""
        self._post(lease, "ask", {"question": question})

    def _post(self, lease: Lease, what: str, body: Mapping[str, Any]) -> Any:
        path = f"/leases/{segment(lease.lease_id)}/{what}"
        return self._transport.call("POST", path, body={"token": lease.token, **body}).body

    def report(self, verb: Verb, texts: Sequence[bytes]) -> List[LeaseResult]:
        """complete(), fail() or release() with items that are JSON already."""
        return self._batch(verb, texts, None)

    def _batch(self, verb: str, texts: Sequence[bytes], timeout: Optional[float]) -> List[LeaseResult]:
        body = b'{"items":[' + b",".join(texts) + b"]}"
        answer = self._transport.call("POST", f"/leases/{verb}", body=body, timeout=timeout, patience=0)
        return [
            LeaseResult(item["lease_id"], item["ok"], item.get("code"), item.get("cancel", False), item.get("detail"))
            for item in answer.body["items"]
        ]


def server_now(here: float, date: Optional[float]) -> float:
    """The server's clock, as well as it can be known: ours, unless that is clearly wrong."""
    if date is None or abs(here - date - 0.5) < CLOCK_SKEW_MIN_S:
        return here
    # At the end of the second that Date names, so that a lease is thought shorter than it is and never longer.
    return date + 1.0


def parse_time(text: str) -> float:
    """Seconds since 1970 of a time like 2026-11-16T02:21:57.123Z."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _lease_of(item: Mapping[str, Any], now: float) -> Lease:
    return Lease(
        lease_id=item["lease_id"],
        token=item["token"],
        run_id=item["run_id"],
        step_id=item["step_id"],
        tool=item["tool"],
        input=item["input"],
        attempt=item["attempt"],
        idempotency_key=item["idempotency_key"],
        timeout_s=parse_duration(item["timeout"]),
        lease_s=max(LEASE_SECONDS_MIN, parse_time(item["expires_at"]) - now),
        question=item.get("question"),
        answer=item.get("answer"),
    )
