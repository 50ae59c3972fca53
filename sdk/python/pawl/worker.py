"""A worker: takes leases for its tools, runs them in threads, keeps the leases, reports.

    poller    takes as many leases as there are free slots, in one long poll
    workers   one a slot, run the tools
    beater    keeps all leases in one request, at a third of the shortest lease; learns which ones are lost
    reporter  sends what finished, in batches, until the server has it

A lease is held from its answer until its report was answered, or until it is lost. All of it is guarded by one lock.
"""
from __future__ import annotations

import logging
import os
import queue
import re
import secrets
import signal
import socket
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, TypeVar, Union, overload

from .backoff import backoff
from .client import Client
from .errors import PawlError
from .leases import Lease, LeaseResult, Leases, Verb
from .tool import Context, Report, Tool, failure, release

log = logging.getLogger("pawl.worker")

CONCURRENCY_USUAL = 8
CONCURRENCY_MAX = 1000
GRACE_S = 30.0
# After that, tools that look at Context.canceled have this long to end, so that their steps can be given back.
CANCEL_S = 1.0
RELEASE_TIMEOUT_S = 5.0
# How long a signal may wait until its handler is called.
SIGNAL_WAKE_S = 0.5
# The server goes on giving leases to a poll whose client has gone. So the last poll is waited for when the worker
# stops, and a short one makes that short.
POLL_WAIT_S = 5.0
EMPTY_POLL_PAUSE_S = 0.05
# What finishes within this time goes out in one request.
GATHER_S = 0.003
REPORT_ITEMS_MAX = 1000
REPORT_BYTES_MAX = 4 << 20
# While so many results wait to be reported, nothing new is taken.
UNREPORTED_MAX = 1000
BEATS_PER_LEASE = 3.0
BEAT_TIMEOUT_MIN_S = 1.0
BEAT_TIMEOUT_MAX_S = 10.0
# The server could not read the request, and never will.
REFUSED = frozenset({400, 413, 422})

VERBS: Tuple[Verb, ...] = ("complete", "fail", "release")
Function = TypeVar("Function", bound=Callable[..., Any])
Key = Tuple[str, int]


class Worker:
    """Works on steps whose tools are its functions, as many at a time as `concurrency` says.

    `grace`: seconds that running tools are given to finish when it is told to stop. Those that have not finished then,
    and end when their Context is canceled, are given back: the attempt does not count.
    """

    def __init__(
        self,
        client: Client,
        name: Optional[str] = None,
        concurrency: int = CONCURRENCY_USUAL,
        *,
        grace: float = GRACE_S,
    ) -> None:
        if not 1 <= concurrency <= CONCURRENCY_MAX:
            raise ValueError(f"concurrency must be 1 to {CONCURRENCY_MAX}")
        self.name = name or own_name()
        self._client = client
        self._concurrency = concurrency
        self._grace = grace
        self._tools: Dict[str, Tool] = {}
        self._changed = threading.Condition()
        self._held: Dict[Key, _Held] = {}
        self._running = 0
        self._unreported = 0
        self._stopping = False
        self._ended = False
        self._failure: Optional[Exception] = None
        self._todo: "queue.SimpleQueue[Optional[_Held]]" = queue.SimpleQueue()
        self._done: "queue.SimpleQueue[Optional[_Held]]" = queue.SimpleQueue()
        # A SimpleQueue may be put to from a signal handler, whatever the interrupted thread holds.
        self._asked: "queue.SimpleQueue[None]" = queue.SimpleQueue()
        self._poller: Optional[threading.Thread] = None
        self._threads = 0

    # ---- Tools

    @overload
    def tool(self, name: str) -> Callable[[Function], Function]: ...

    @overload
    def tool(self, name: Function) -> Function: ...

    def tool(self, name: Union[str, Function]) -> Union[Function, Callable[[Function], Function]]:
        """Makes a function a tool: `@worker.tool("orders.price")`, or `@worker.tool` for the function's own name.

        It gets the step's input, and a Context if it has a second parameter, and returns a JSON value. It fails by
        raising: Retryable and Terminal decide, anything else is a TOOL_FAILED that is tried again.
        """
        if not isinstance(name, str):
            self.add(str(getattr(name, "__name__")), name)
            return name
        named = name

        def register(function: Function) -> Function:
            self.add(named, function)
            return function

        return register

    def add(self, name: str, function: Callable[..., Any]) -> None:
        """The same without a decorator."""
        if self._poller is not None:
            raise RuntimeError("the worker runs already")
        if name in self._tools:
            raise ValueError(f"there are two tools with the name {name}")
        self._tools[name] = Tool(name, function)

    # ---- Life

    def run(self, *, signals: bool = True) -> int:
        """Works until SIGTERM, SIGINT or request_stop(), then stops; gives how many steps it had to leave.

        A second signal ends the process at once. Without `signals`, or outside the main thread, they are not touched.
        Raises PawlError when the server will not have this worker, for example because of its key.
        """
        handlers: Dict[int, Any] = {}
        if signals and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                handlers[number] = signal.signal(number, lambda *_: self.request_stop())
        try:
            self.start()
            self._wait_for_stop()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
        return self.stop()

    def start(self) -> None:
        """Begins to work, in threads of its own, and returns."""
        if self._poller is not None:
            raise RuntimeError("the worker runs already")
        if not self._tools:
            raise RuntimeError("the worker has no tools")
        self._poller = self._spawn("poll", self._poll)
        self._spawn("beat", self._beat)
        self._spawn("report", self._report)
        log.info("%s works on %s", self.name, ", ".join(sorted(self._tools)))

    def request_stop(self) -> None:
        """Lets run() stop, and returns at once. May be called from any thread, and from a signal handler."""
        self._asked.put(None)

    def _wait_for_stop(self) -> None:
        # The system may deliver a signal to any thread, but Python calls its handler in this one, and only once this
        # one wakes up. So it must not sleep for long.
        while True:
            try:
                return self._asked.get(timeout=SIGNAL_WAKE_S)
            except queue.Empty:
                pass

    def stop(self, grace: Optional[float] = None) -> int:
        """Takes nothing more, lets what runs finish and be reported for `grace` seconds; gives how many were left.

        Then every Context is canceled. Steps whose tools end by that are given back; what goes on all the same does so
        in daemon threads that end with the process, its leases run out, and others take the steps.
        """
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            self._wait_for_rest(self._grace if grace is None else grace)
            left = len(self._held)
            for held in self._held.values():
                held.context.canceled.set()
            self._wait_for_rest(CANCEL_S)
            self._ended = True
            self._changed.notify_all()
            for _ in range(self._threads):
                self._todo.put(None)
        self._done.put(None)
        if left:
            log.warning("%s leaves %d steps to others", self.name, left)
        if self._failure is not None:
            raise self._failure
        return left

    def _wait_for_rest(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while (self._held or self._polls()) and time.monotonic() < ends:
            self._changed.wait(min(0.1, max(0.0, ends - time.monotonic())))

    def __enter__(self) -> "Worker":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _polls(self) -> bool:
        return self._poller is not None and self._poller.is_alive()

    def _spawn(self, role: str, target: Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                target()
            except Exception as error:  # a bug here: better a worker that ends than one that hangs
                self._give_up(error)

        thread = threading.Thread(target=guarded, name=f"pawl-{role}", daemon=True)
        thread.start()
        return thread

    # ---- Taking

    def _poll(self) -> None:
        failures = 0
        while True:
            free = self._wait_for_room()
            if free == 0:
                return
            asked_at = time.monotonic()
            try:
                leases = self._client.leases.take(
                    worker=self.name, tools=sorted(self._tools), max=free, wait=POLL_WAIT_S
                )
            except PawlError as error:
                if not error.passing:
                    return self._give_up(error)
                failures += 1
                self._say_away(failures, error)
                self._pause(backoff(failures, error.retry_after), lambda: self._stopping)
                continue
            if failures:
                log.info("%s reaches the server again", self.name)
            failures = 0
            if self._stopping:
                return self._give_back(leases)
            for lease in leases:
                self._accept(lease)
            # A server that stops answers every poll at once.
            if not leases and time.monotonic() - asked_at < EMPTY_POLL_PAUSE_S:
                self._pause(EMPTY_POLL_PAUSE_S, lambda: self._stopping)

    def _wait_for_room(self) -> int:
        """How many leases may be taken; 0 when the worker stops."""
        with self._changed:
            while not self._stopping:
                free = self._concurrency - self._running
                if free > 0 and self._unreported < UNREPORTED_MAX:
                    return free
                self._changed.wait()
            return 0

    def _give_back(self, leases: List[Lease]) -> None:
        """What came too late to be begun."""
        if not leases:
            return
        items = [_Held(lease, self._client.leases).names() for lease in leases]
        try:
            self._client.leases.release(items, timeout=RELEASE_TIMEOUT_S)
        except PawlError as error:
            log.warning("%s could not give back %d steps, their leases run out: %s", self.name, len(items), error)

    def _accept(self, lease: Lease) -> None:
        held = _Held(lease, self._client.leases)
        with self._changed:
            self._held[held.key] = held
            self._running += 1
            if self._running > self._threads:
                self._threads += 1
                self._spawn(f"tool-{self._threads}", self._work)
            self._changed.notify_all()
        self._todo.put(held)

    def _give_up(self, error: Exception) -> None:
        log.error("%s cannot work: %s", self.name, error, exc_info=None if isinstance(error, PawlError) else error)
        self._failure = error
        self.request_stop()

    def _say_away(self, failures: int, error: PawlError) -> None:
        # Once when it goes, and then seldom: a night without a server must not fill a disk.
        if failures & (failures - 1) == 0:
            log.warning("%s cannot reach the server, keeps trying: %s", self.name, error)

    # ---- Working

    def _work(self) -> None:
        while True:
            held = self._todo.get()
            if held is None:
                return
            report = self._tools[held.lease.tool].run(held.lease, held.context)
            with self._changed:
                self._running -= 1
                if report is None:  # the lease is over, and the server knows why
                    self._held.pop(held.key, None)
                elif not held.lost:
                    if self._stopping and held.context.canceled.is_set() and report.verb != "complete":
                        report = release(held.lease)
                    held.report = report
                    self._unreported += 1
                    self._done.put(held)
                self._changed.notify_all()

    # ---- Keeping

    def _beat(self) -> None:
        failures = 0
        while True:
            due = self._wait_for_beat()
            if not due:
                return
            shortest = min(held.lease.lease_s for held in due)
            began = time.monotonic()
            try:
                results = self._client.leases.heartbeat(
                    [held.names() for held in due],
                    timeout=min(BEAT_TIMEOUT_MAX_S, max(BEAT_TIMEOUT_MIN_S, shortest)),
                )
                failures = 0
            except PawlError as error:
                failures += 1
                self._say_away(failures, error)
                # Whether the leases are lost the server alone can say: while it is away, it gives them to nobody.
                again = time.monotonic() + min(backoff(failures, error.retry_after), shortest / BEATS_PER_LEASE)
                with self._changed:
                    for held in due:
                        held.beat_at = again
                continue
            with self._changed:
                for held, result in zip(due, results):
                    held.beat_at = began + held.lease.lease_s / BEATS_PER_LEASE
                    if not result.ok:
                        self._lose(held, result)

    def _wait_for_beat(self) -> List["_Held"]:
        """Everything held, once the first of them needs it; nothing when the worker has ended."""
        with self._changed:
            while not self._ended:
                if not self._held:
                    self._changed.wait()
                    continue
                wait = min(held.beat_at for held in self._held.values()) - time.monotonic()
                if wait <= 0:
                    return list(self._held.values())
                self._changed.wait(wait)
            return []

    def _lose(self, held: "_Held", result: LeaseResult) -> None:
        # What has finished is the reporter's: its lease is over because the report arrived, or the report will be
        # refused. Until someone else has taken the step it may even be taken.
        if held.report is not None or held.key not in self._held:
            return
        log.info("%s lost %s: %s", self.name, held.lease.lease_id, result.code)
        held.lost = True
        held.context.canceled.set()
        del self._held[held.key]
        self._changed.notify_all()

    # ---- Reporting

    def _report(self) -> None:
        while True:
            first = self._done.get()
            if first is None:
                return
            batch, is_last = self._gather(first)
            for verb in VERBS:
                self._deliver([held for held in batch if held.ended_with().verb == verb], verb)
            if is_last:
                return

    def _gather(self, first: "_Held") -> Tuple[List["_Held"], bool]:
        """A batch, and whether it is the last one."""
        batch, size = [first], len(first.ended_with().text)
        ends = time.monotonic() + GATHER_S
        while len(batch) < REPORT_ITEMS_MAX and size < REPORT_BYTES_MAX:
            try:
                held = self._done.get(timeout=max(0.0, ends - time.monotonic()))
            except queue.Empty:
                break
            if held is None:
                return batch, True
            batch.append(held)
            size += len(held.ended_with().text)
        return batch, False

    def _deliver(self, batch: List["_Held"], verb: Verb) -> None:
        """Returns when the server has answered for each, or when the worker has ended."""
        if not batch:
            return
        failures = 0
        while not self._ended:
            try:
                # A repeat after a lost answer is harmless: the token is used up, and the server says LEASE_LOST.
                texts = [held.ended_with().text for held in batch]
                return self._settle(batch, self._client.leases.report(verb, texts), verb)
            except PawlError as error:
                if error.status in REFUSED:
                    return self._deliver_one_by_one(batch, verb, error)
                failures += 1
                self._say_away(failures, error)
                self._pause(backoff(failures, error.retry_after), lambda: self._ended)

    def _deliver_one_by_one(self, batch: List["_Held"], verb: Verb, error: PawlError) -> None:
        """For a body that could not even be read: an output that is nested too deeply, say, makes it no JSON at all."""
        if len(batch) > 1:
            for held in batch:
                self._deliver([held], verb)
            return
        lease_id = batch[0].lease.lease_id
        self._settle(batch, [LeaseResult(lease_id, ok=False, code=error.code, cancel=False, detail=str(error))], verb)

    def _settle(self, batch: Sequence["_Held"], results: Sequence[LeaseResult], verb: Verb) -> None:
        """What was lost or taken is over. A result that is not understood lets its step fail."""
        refused: List[_Held] = []
        for held, result in zip(batch, results):
            if result.ok:
                continue
            if result.cancel:
                log.info("%s: the report of %s came too late: %s", self.name, result.lease_id, result.code)
                continue
            log.error("%s: the report of %s was refused: %s", self.name, held.lease.lease_id, result.detail)
            if verb == "complete":
                what = f"the server refused the tool's output: {result.detail}"
                held.report = failure(held.lease, held.context, "TOOL_INTERNAL_ERROR", what, retryable=False)
                refused.append(held)
        again = {held.key for held in refused}
        with self._changed:
            for held in batch:
                if held.key not in again:
                    self._unreported -= 1
                    self._held.pop(held.key, None)
            self._changed.notify_all()
        self._deliver(refused, "fail")

    def _pause(self, seconds: float, enough: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(enough, seconds)


class _Held:
    """A lease and how far the work on it is. Guarded by the worker's lock, once it is in `_held`."""

    def __init__(self, lease: Lease, leases: Leases) -> None:
        self.lease = lease
        self.context = Context(lease, leases)
        self.key: Key = (lease.lease_id, lease.token)
        self.beat_at = time.monotonic() + lease.lease_s / BEATS_PER_LEASE
        self.report: Optional[Report] = None
        self.lost = False

    def names(self) -> Dict[str, Any]:
        return {"lease_id": self.lease.lease_id, "token": self.lease.token}

    def ended_with(self) -> Report:
        assert self.report is not None, "only what has ended is reported"
        return self.report


def own_name() -> str:
    """Says which machine and process it is; chance keeps two containers with the same of both apart."""
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:40].lstrip("._-") or "worker"
    return f"{host}-{os.getpid()}-{secrets.token_hex(2)}"
