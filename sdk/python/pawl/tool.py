"""A tool: a function that works on a step, what it may ask while it does, and how it may fail."""
from __future__ import annotations

import datetime
import inspect
import threading
import time
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Callable, Dict, Mapping, Optional, Union

from .failure_text import describe, redact
from .gate import Allowed, Asked, LeaseOver, NotDone, action_of
from .leases import Lease, Leases, Verb
from .model import Duration, Json, print_duration, print_money
from .transport import encode_json

OUTPUT_BYTES_MAX = 1 << 20
MESSAGE_BYTES_MAX = 2000
CODE_BYTES_MAX = 80
COST_STEP = Decimal("0.000001")
COST_MAX = Decimal(1_000_000_000)


class Retryable(Exception):
    """The attempt failed, another may succeed: the step is tried again while it has attempts left.

    `after`: not earlier than that, whatever the workflow's backoff says.
    """

    def __init__(self, message: str, *, code: str = "TOOL_FAILED", after: Optional[Duration] = None) -> None:
        super().__init__(message)
        self.code = code
        self.after = None if after is None else print_duration(after)


class Terminal(Exception):
    """Trying again is pointless: the step fails for good, and the run with it, with this code."""

    def __init__(self, message: str, *, code: str = "TOOL_FAILED") -> None:
        super().__init__(message)
        self.code = code


class Canceled(BaseException):
    """Raised by Context.check(): the step is not this worker's any more, or the worker stops. What the tool did is
    left.

    Not an Exception, so that a tool's own `except Exception` does not keep it alive.
    """


class Context:
    """What a tool may know about the step it works on. Any thread of the tool may use it."""

    def __init__(self, lease: Lease, leases: Optional[Leases] = None) -> None:
        self._lease = lease
        self._leases = leases
        self.run_id: str = lease.run_id
        self.step_id: str = lease.step_id
        self.tool: str = lease.tool
        self.attempt: int = lease.attempt
        """1 for the first. An earlier attempt may have done the work without being able to say so."""
        self.idempotency_key: str = lease.idempotency_key
        """The same for every attempt: hand it to whatever you call, so that it can tell a repeat."""
        self.question: Json = lease.question
        """What ask() asked, in an earlier attempt; None when nothing was asked."""
        self.answer: Json = lease.answer
        """The answer to it."""
        self.deadline: datetime.datetime = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(
            seconds=lease.timeout_s
        )
        """When the attempt times out, in UTC. What is reported later is refused."""
        self.canceled: threading.Event = threading.Event()
        """Set when the run was canceled, the attempt timed out, another worker has the step, or this one stops."""
        self._ends = time.monotonic() + lease.timeout_s
        self._lock = threading.Lock()
        self._cost = Decimal(0)

    def propose(
        self,
        connector: str,
        operation: str,
        target: str,
        fields: Optional[Mapping[str, Any]] = None,
        *,
        risk: Optional[str] = None,
        idempotency_key: Optional[str] = None,
        idempotent: bool = False,
        before: Json = None,
        can_look: bool = False,
        happened: Optional[bool] = None,
    ) -> Allowed:
        """Asks pawl whether a side effect may happen. Without an answer nothing may be done.

        Returns when it is allowed: do exactly this, then call outcome(). When it `is_done` already, do nothing. When
        the policy says no, or people have to approve first, it raises Denied or ApprovalNeeded: the lease is over, and
        the tool ends. After an approval the tool is called again from its beginning, and the same proposal is allowed.

        `idempotent`: the other side does it once under the same key, so an attempt whose outcome is unknown may be
        called again. `before`: what would be overwritten. `can_look`: the tool can find out whether an attempt whose
        outcome is unknown happened; it then proposes again with `happened`.
        """
        action = action_of(connector, operation, target, fields, risk, idempotency_key)
        if idempotent:
            action["idempotent"] = True
        if before is not None:
            action["before"] = before
        if can_look:
            action["can_look"] = True
        if happened is not None:
            action["happened"] = happened
        return self._gate().propose(self._lease, action)

    def outcome(
        self,
        allowed: Allowed,
        *,
        succeeded: bool = True,
        response: Json = None,
        undo: Optional[Mapping[str, Any]] = None,
        code: Optional[str] = None,
        message: Optional[str] = None,
    ) -> None:
        """Says what became of an allowed action. `undo`: the action that would undo it (pawl.action_of)."""
        told = {
            "succeeded": succeeded,
            "response": response,
            "undo": None if undo is None else dict(undo),
            "error_code": None if code is None else cut(code, CODE_BYTES_MAX),
            "message": None if message is None else cut(redact(message), MESSAGE_BYTES_MAX),
        }
        given = {name: value for name, value in told.items() if value is not None}
        self._gate().outcome(self._lease, allowed.receipt_id, given)

    def perform(
        self,
        connector: str,
        operation: str,
        target: str,
        fields: Optional[Mapping[str, Any]] = None,
        *,
        call: Callable[[], Json],
        undo: Optional[Callable[[Json], Optional[Mapping[str, Any]]]] = None,
        **proposal: Any,
    ) -> Json:
        """propose(), `call` and outcome() in one: the response, of this call or of the one that happened already.

        `call` raises NotDone when the effect has certainly not happened. With any other exception nobody knows: the
        receipt is in doubt, and pawl calls again if the action is idempotent, and asks a person otherwise.
        `undo` is given the response, and returns the action that would undo it.
        """
        allowed = self.propose(connector, operation, target, fields, **proposal)
        if allowed.is_done:
            return allowed.response
        try:
            response = call()
        except NotDone as error:
            self.outcome(allowed, succeeded=False, code=error.code, message=str(error))
            raise
        self.outcome(allowed, response=response, undo=None if undo is None else undo(response))
        return response

    def ask(self, question: Json) -> None:
        """Asks a person, and ends the tool: the step is leased again with `question` and `answer` set.

        Call it once for each question: `if context.question is None: context.ask("How many?")`.
        """
        self._gate().ask(self._lease, question)
        raise Asked(f"{self.run_id} {self.step_id} waits for an answer")

    def _gate(self) -> Leases:
        if self._leases is None:
            raise RuntimeError("this context belongs to no worker")
        return self._leases

    def check(self) -> None:
        """Raises Canceled when the tool is to end: `canceled` says when. Call it between pieces of long work."""
        if self.canceled.is_set():
            raise Canceled(f"{self.run_id} {self.step_id} is to be left")

    def remaining(self) -> float:
        """Seconds until the deadline, 0 when it has passed; good as a time-out for what the tool calls."""
        return max(0.0, self._ends - time.monotonic())

    def cost(self, usd: Union[str, int, Decimal]) -> None:
        """Adds to what this attempt cost, reported with its result whether it succeeds or fails."""
        amount = Decimal(print_money(usd))
        if not amount.is_finite() or amount < 0:
            raise ValueError(f"a cost cannot be {usd}")
        with self._lock:
            if self._cost + amount > COST_MAX:
                raise ValueError(f"a cost cannot be more than {COST_MAX}")
            self._cost += amount

    @property
    def cost_usd(self) -> Decimal:
        """What was added so far."""
        with self._lock:
            return self._cost


@dataclass(frozen=True)
class Report:
    """The end of an attempt, as it goes to the server.

    Text already: what the tool returned may go on changing under its hands.
    """

    verb: Verb
    text: bytes


class Tool:
    """A function under a tool's name, with what its signature says about how to call it."""

    def __init__(self, name: str, function: Callable[..., Json]) -> None:
        self.name = name
        self._function = function
        self._takes_context = takes_context(function)

    def run(self, lease: Lease, context: Context) -> Optional[Report]:
        """Never raises: whatever the function does becomes a report. None when the lease is over already."""
        try:
            output = self._function(lease.input, context) if self._takes_context else self._function(lease.input)
        except LeaseOver:
            return None
        except Retryable as error:
            return failure(lease, context, error.code, str(error), retryable=True, after=error.after)
        except (Terminal, NotDone) as error:
            return failure(lease, context, error.code, str(error), retryable=isinstance(error, NotDone))
        except BaseException as error:  # SystemExit too: a tool must not end the worker's thread
            return failure(lease, context, "TOOL_FAILED", describe(error, skipped=1), retryable=True)
        return success(lease, context, output)


def takes_context(function: Callable[..., Any]) -> bool:
    """Whether the function wants a Context as its second argument. Raises TypeError if it cannot be a tool."""
    name = getattr(function, "__name__", repr(function))
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"{name} is a coroutine; tools run in threads: write a plain function")
    positional = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            positional.append(parameter)
        elif parameter.kind == parameter.VAR_POSITIONAL:
            raise TypeError(f"{name} takes *{parameter.name}; a tool takes its input, and a Context if it wants one")
        elif parameter.kind == parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            raise TypeError(f"{name} needs {parameter.name}=, which a worker does not give")
    required = sum(parameter.default is parameter.empty for parameter in positional)
    if not positional or required > 2:
        what = "a tool takes its input, and a Context if it wants one"
        raise TypeError(f"{name} takes {len(positional)} arguments; {what}")
    if len(positional) == 1:
        return False
    second = positional[1]
    annotation = second.annotation if isinstance(second.annotation, str) else getattr(second.annotation, "__name__", "")
    # A second argument with a default is the function's own business, unless it says what it is.
    return second.default is second.empty or "Context" in annotation


def success(lease: Lease, context: Context, output: Json) -> Report:
    """The report of a result; of a failure, if JSON cannot say it or the server would not take it."""
    try:
        text = encode_json({**_begin(lease, context), "output": output})
    except (TypeError, ValueError, RecursionError, RuntimeError) as error:
        what = f"the tool's output is not JSON: {type(error).__name__}: {error}"
        return failure(lease, context, "TOOL_INTERNAL_ERROR", what, retryable=False)
    if len(text) > OUTPUT_BYTES_MAX:
        what = f"the output is larger than the {OUTPUT_BYTES_MAX} bytes that a step's may have"
        return failure(lease, context, "TOOL_OUTPUT_TOO_LARGE", what, retryable=False)
    return Report("complete", text)


def failure(
    lease: Lease, context: Context, code: str, message: str, *, retryable: bool, after: Optional[str] = None
) -> Report:
    """The report of an attempt that failed."""
    item = {
        **_begin(lease, context),
        "error_code": cut(code, CODE_BYTES_MAX) or "TOOL_FAILED",
        "message": cut(redact(message), MESSAGE_BYTES_MAX),
        "retryable": retryable,
    }
    if after is not None:
        item["retry_after"] = after
    return Report("fail", encode_json(item))


def release(lease: Lease) -> Report:
    """The report of an attempt that was given up because the worker stops."""
    return Report("release", encode_json({"lease_id": lease.lease_id, "token": lease.token}))


def cut(text: str, bytes_max: int) -> str:
    """Valid Unicode of at most so many bytes in UTF-8; the server refuses a whole batch for one text that is not."""
    return text.encode("utf-8", "replace")[:bytes_max].decode("utf-8", "ignore")


def _begin(lease: Lease, context: Context) -> Dict[str, Any]:
    begin: Dict[str, Any] = {"lease_id": lease.lease_id, "token": lease.token}
    cost = context.cost_usd.quantize(COST_STEP)
    if cost:
        begin["cost_usd"] = format(cost, "f")
    return begin
