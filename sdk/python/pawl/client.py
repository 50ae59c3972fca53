"""The client: everything a program may ask of a server."""
from __future__ import annotations

import datetime
import json
import ssl
import time
import uuid
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional

from .backoff import backoff
from .errors import PawlError
from .leases import Leases
from .locate import Locator
from .model import (
    Approval,
    Duration,
    Event,
    Json,
    Money,
    Receipt,
    Run,
    RunSummary,
    Started,
    Undoing,
    Workflow,
    print_duration,
    print_money,
)
from .tasks import Tasks
from .transport import Message, Transport, segment

TIMEOUT_S = 30.0
PATIENCE_S = 30.0
PAGE_ITEMS = 200
EVENTS_PAGE_ITEMS = 1000
BATCH_ITEMS_MAX = 10_000
# What one request of wait() waits for.
WAIT_WINDOW_S = 30.0


class Client:
    """Speaks with a pawl server. Any thread may use it; each has a connection of its own.

    Found by argument, else by PAWL_SERVER and PAWL_KEY, else the local server of the data folder (PAWL_DATA,
    $XDG_DATA_HOME/pawl, ~/.local/share/pawl).

    `timeout`: seconds to wait for one answer. `patience`: seconds to keep trying when the server is away or overloaded.
    A request is repeated only if doing it twice is the same as doing it once, or if it cannot have been begun.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        key: Optional[str] = None,
        *,
        timeout: float = TIMEOUT_S,
        patience: float = PATIENCE_S,
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        self._transport = Transport(Locator(url, key), timeout, patience, tls)
        self._timeout = timeout
        self.leases = Leases(self._transport)
        self.tasks = Tasks(self._transport)

    def close(self) -> None:
        """Closes the kept connections. A later call opens new ones."""
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- Workflows

    def publish(self, name: str, source: str) -> Workflow:
        """Publishes a definition (YAML or JSON text): a new version, or the one there is with the same content."""
        body = self._transport.call(
            "PUT",
            f"/workflows/{segment(name)}",
            body=source.encode("utf-8"),
            headers={"Content-Type": "application/yaml"},
        ).body
        return Workflow(body["name"], body["version"])

    # ---- Starting

    def start(
        self,
        workflow: str,
        input: Json = None,
        *,
        version: Optional[int] = None,
        workspace: Optional[str] = None,
        trigger_type: Optional[str] = None,
        trigger_ref: Optional[str] = None,
        budget_usd: Optional[Money] = None,
        timeout: Optional[Duration] = None,
        provider: Optional[str] = None,
        idempotency_key: Optional[str] = None,
    ) -> Run:
        """Starts a run.

        With an `idempotency_key` of your own, calling again with the same arguments gives the run there is, from
        whatever process. Without one a fresh key is made, so that a repeat after a lost answer cannot start two.
        """
        body = new_run(
            workflow,
            input,
            version=version,
            workspace=workspace,
            trigger_type=trigger_type,
            trigger_ref=trigger_ref,
            budget_usd=budget_usd,
            timeout=timeout,
            provider=provider,
        )
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        return Run.of(self._transport.call("POST", "/runs", body=body, headers=headers, safe=True).body)

    def start_many(
        self, items: Iterable[Mapping[str, Any]], *, idempotency_key: Optional[str] = None
    ) -> List[Started]:
        """Starts up to 10,000 runs in one request; one result an item, in their order.

        An item has the arguments of start() as keys: {"workflow": "orders", "input": {"id": 7}}, its own
        `idempotency_key` included. A bad item harms no other. An item without a key gets one of `idempotency_key` and
        its number, so the same batch sent again gives the same runs; without one a fresh key is made, so that a repeat
        after a lost answer starts nothing twice.
        """
        bodies = [new_run(**item) for item in items]
        if len(bodies) > BATCH_ITEMS_MAX:
            raise ValueError(f"a batch holds {BATCH_ITEMS_MAX} runs at most, this one {len(bodies)}")
        if not bodies:
            return []
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        answer = self._transport.call("POST", "/runs/batch", body={"items": bodies}, headers=headers, safe=True)
        return [Started.of(result) for result in answer.body["items"]]

    def retry(self, run_id: str) -> Run:
        """Starts a run anew that ended badly; gives the new run."""
        return self._post_run(run_id, "retry", {})

    # ---- Looking

    def run(self, run_id: str, *, at: Optional[int] = None) -> Run:
        """The run as it is, or as it was after its event number `at`."""
        return Run.of(self._transport.call("GET", f"/runs/{segment(run_id)}", query={"at": at}).body)

    def runs(
        self,
        *,
        status: Optional[str] = None,
        workflow: Optional[str] = None,
        workspace: Optional[str] = None,
        since: Optional[datetime.datetime] = None,
        until: Optional[datetime.datetime] = None,
        sub_state: Optional[str] = None,
        error_code: Optional[str] = None,
        q: Optional[str] = None,
    ) -> Iterator[RunSummary]:
        """Runs, newest first, fetched page by page as you go on. `q`: part of an id, a workflow or an error code."""
        cursor: Optional[str] = None
        while True:
            page = self._transport.call(
                "GET",
                "/runs",
                query={
                    "status": status,
                    "workflow": workflow,
                    "workspace": workspace,
                    "since": None if since is None else print_time(since),
                    "until": None if until is None else print_time(until),
                    "sub_state": sub_state,
                    "error_code": error_code,
                    "q": q,
                    "limit": PAGE_ITEMS,
                    "cursor": cursor,
                },
            ).body
            for row in page["items"]:
                yield RunSummary.of(row)
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def events(self, run_id: str, *, after: int = 0) -> Iterator[Event]:
        """The run's events so far, those after number `after`."""
        cursor: Optional[str] = str(after)
        while cursor is not None:
            page = self._transport.call(
                "GET", f"/runs/{segment(run_id)}/events", query={"after": cursor, "limit": EVENTS_PAGE_ITEMS}
            ).body
            for line in page["items"]:
                yield Event(line["event"]["type"], run_id, line["seq"], None, line["event"])
            cursor = page["next_cursor"]

    def approvals(self, *, status: str = "requested", limit: int = 50) -> List[Approval]:
        """What waits for a decision, or was decided."""
        page = self._transport.call("GET", "/approvals", query={"status": status, "limit": limit}).body
        return [Approval.of(row, row["run_id"]) for row in page["items"]]

    # ---- Deciding

    def approve(self, run_id: str, *, approval_id: Optional[str] = None, reason: Optional[str] = None) -> Run:
        """Approves what the run waits for; `approval_id` when it waits for several."""
        return self._decide(run_id, "approve", approval_id, reason)

    def reject(self, run_id: str, *, approval_id: Optional[str] = None, reason: Optional[str] = None) -> Run:
        """Rejects what the run waits for, which ends it as denied."""
        return self._decide(run_id, "reject", approval_id, reason)

    def answer(self, run_id: str, step: str, answer: Json) -> Run:
        """Answers a step's question."""
        return self._post_run(run_id, "answer", {"step": step, "answer": answer})

    def cancel(self, run_id: str, *, reason: Optional[str] = None) -> Run:
        """Ends a run for good. Workers hear of it with their next heartbeat."""
        return self._post_run(run_id, "cancel", {"reason": reason}, safe=True)

    def report_status(
        self, run_id: str, status: str, *, diagnostic: Optional[Mapping[str, Any]] = None, reason: Optional[str] = None
    ) -> Run:
        """Reports the status of a run that was started with provider="external"."""
        return self._post_run(run_id, "status", {"status": status, "diagnostic": diagnostic, "reason": reason})

    def _decide(self, run_id: str, what: str, approval_id: Optional[str], reason: Optional[str]) -> Run:
        # Without the approval's id a repeat could decide the run's next approval, which nobody has read.
        body = {"approval_id": approval_id, "reason": reason}
        return self._post_run(run_id, what, body, safe=approval_id is not None)

    def _post_run(self, run_id: str, verb: str, body: Mapping[str, Any], safe: bool = False) -> Run:
        given = {name: value for name, value in body.items() if value is not None}
        return Run.of(self._transport.call("POST", f"/runs/{segment(run_id)}/{verb}", body=given, safe=safe).body)

    # ---- Effects, and what proves them

    def receipts(self, *, status: Optional[str] = None) -> Iterator[Receipt]:
        """What was done outside, newest first, fetched page by page as you go on."""
        cursor: Optional[str] = None
        while True:
            query = {"status": status, "limit": PAGE_ITEMS, "cursor": cursor}
            page = self._transport.call("GET", "/receipts", query=query).body
            for row in page["items"]:
                yield Receipt.of(row)
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def receipt(self, receipt_id: str) -> Receipt:
        """All of it: what was allowed, done and answered."""
        return Receipt.of(self._transport.call("GET", f"/receipts/{segment(receipt_id)}").body)

    def resolve(self, receipt_id: str, *, happened: bool) -> Receipt:
        """Says whether an effect that is in doubt happened."""
        body = {"happened": happened}
        return Receipt.of(self._transport.call("POST", f"/receipts/{segment(receipt_id)}/settle", body=body).body)

    def reverse(self, receipt_id: str) -> Undoing:
        """Undoes one effect, as a run of its own; wait() for that run."""
        return Undoing.of(self._transport.call("POST", f"/receipts/{segment(receipt_id)}/reverse", body={}).body)

    def undo(self, run_id: str) -> Undoing:
        """Undoes what a run did, latest effect first, as a run of its own; wait() for that run."""
        return Undoing.of(self._transport.call("POST", f"/runs/{segment(run_id)}/undo", body={}).body)

    def evidence(self, run_id: str, *, partial: bool = False) -> bytes:
        """The run's evidence bundle, a zip. `partial`: also of a run that has not ended."""
        query = {"partial": "true" if partial else None}
        body = self._transport.call("GET", f"/runs/{segment(run_id)}/evidence", query=query, raw=True).body
        assert isinstance(body, bytes)
        return body

    # ---- Following

    def wait(self, run_id: str, timeout: Optional[float] = None) -> Run:
        """Waits until the run has ended and gives it. Raises TimeoutError after `timeout` seconds.

        The server answers when it has ended, so nothing is polled. A run that waits for an approval has not ended: give
        a timeout, or follow() it, if that may happen.
        """
        ends = None if timeout is None else time.monotonic() + timeout
        while True:
            left = WAIT_WINDOW_S if ends is None else max(0.0, ends - time.monotonic())
            window = min(WAIT_WINDOW_S, left)
            body = self._transport.call(
                "GET",
                f"/runs/{segment(run_id)}",
                query={"wait": f"{round(window * 1000)}ms" if window > 0 else None},
                timeout=window + self._timeout,
                patience=None if ends is None else left,
            ).body
            run = Run.of(body)
            if run.ended:
                return run
            if ends is not None and time.monotonic() >= ends:
                raise TimeoutError(f"{run_id} is {run.status} after {timeout} s")

    def follow(self, after: Optional[str] = None, *, run_id: Optional[str] = None) -> Iterator[Event]:
        """The tenant's events as they happen, or one run's; never ends by itself.

        Begins now, or after a position (an Event's `position`; "0": all that is kept), and reconnects by itself from
        where it was, without gap or repeat. Raises PawlError with the code FEED_POSITION_GONE when what follows the
        position is not kept any more.
        """
        position = after
        failures = 0
        while True:
            try:
                with self._transport.open_stream("/events", {"after": position, "run": run_id}) as stream:
                    while True:
                        for message in stream.read():
                            # The first message has nothing but where it begins.
                            position = message.id or position
                            event = _event_of(message)
                            if event is not None:
                                failures = 0
                                yield event
            except PawlError as error:
                if not error.passing:
                    raise
                failures += 1
                pause = backoff(failures, error.retry_after)
            time.sleep(pause)


def new_run(
    workflow: str,
    input: Json = None,
    *,
    version: Optional[int] = None,
    workspace: Optional[str] = None,
    trigger_type: Optional[str] = None,
    trigger_ref: Optional[str] = None,
    budget_usd: Optional[Money] = None,
    timeout: Optional[Duration] = None,
    provider: Optional[str] = None,
    idempotency_key: Optional[str] = None,
) -> Dict[str, Any]:
    """The body of a request for a run, without what was not given. The key is for items of a batch."""
    body = {
        "workflow": workflow,
        "input": input,
        "version": version,
        "workspace": workspace,
        "trigger_type": trigger_type,
        "trigger_ref": trigger_ref,
        "budget_usd": None if budget_usd is None else print_money(budget_usd),
        "timeout": None if timeout is None else print_duration(timeout),
        "provider": provider,
        "idempotency_key": idempotency_key,
    }
    return {name: value for name, value in body.items() if value is not None}


def print_time(at: datetime.datetime) -> str:
    """RFC 3339 in UTC. A time without a zone is local time, as everywhere in Python."""
    utc = at.astimezone(datetime.timezone.utc)
    return utc.strftime("%Y-%m-%dT%H:%M:%S.") + f"{utc.microsecond // 1000:03d}Z"


def _event_of(message: Message) -> Optional[Event]:
    if message.event != "message" or not message.data:
        return None
    data = json.loads(message.data)
    return Event(data["event"]["type"], data.get("run_id"), data["seq"], data["position"], data["event"])
