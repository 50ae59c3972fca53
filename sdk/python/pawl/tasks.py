"""Tasks: what people ask agents to do."""
from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Tuple

from .model import Duration, Event, Json, Money, print_duration, print_money
from .transport import Transport, segment

PAGE_ITEMS = 100
EVENTS_PAGE_ITEMS = 1000
POLL_FIRST_S = 0.2
POLL_MAX_S = 5.0
# What change() leaves as it is: None takes a value away.
_AS_IT_IS: Any = object()
# States in which nothing moves until somebody does something, or ever.
RESTING_STATES = frozenset(
    {"PENDING", "BLOCKED", "READY", "COMPLETED", "FAILED", "TIMED_OUT", "CANCELLED", "BUDGET_EXCEEDED"}
)


@dataclass(frozen=True)
class Task:
    """A task as it was when the server answered."""

    id: str
    title: str
    state: str
    question: Json
    result: Json
    """What its latest execution came to: text, output, permission_denials. Of a list the beginning of the text only."""
    run_id: Optional[str]
    error_code: Optional[str]
    cost_usd: Decimal
    subtasks: Tuple[str, ...]
    possible: Tuple[str, ...]
    """What can be asked of it now: run, cancel, accept, ..."""
    data: Mapping[str, Any] = field(repr=False)

    @property
    def rests(self) -> bool:
        """Whether it waits for a person, or is over."""
        return self.state in RESTING_STATES

    @staticmethod
    def of(data: Mapping[str, Any]) -> "Task":
        return Task(
            id=data["id"],
            title=data["title"],
            state=data["state"],
            question=data["question"],
            result=data.get("result"),
            run_id=data["run_id"],
            error_code=data["error_code"],
            cost_usd=Decimal(data["cost_usd"]),
            subtasks=tuple(data["subtasks"]),
            possible=tuple(data["possible"]),
            data=data,
        )


class Tasks:
    """What Client.tasks is."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(
        self,
        prompt: Optional[str] = None,
        *,
        run: bool = False,
        max_budget_usd: Optional[Money] = None,
        timeout: Optional[Duration] = None,
        tags: Sequence[str] = (),
        depends_on: Sequence[str] = (),
        idempotency_key: Optional[str] = None,
        **more: Any,
    ) -> Task:
        """Asks for something to be done, by an agent (`prompt`) or by a workflow (`workflow`, `input`).

        `run`: at once. `more`: title, agent, model, parent_task_id, priority, workspace and whatever else
        POST /tasks takes. Repeats are safe, as with Client.start().
        """
        body = {
            "prompt": prompt,
            "run": run or None,
            "max_budget_usd": None if max_budget_usd is None else print_money(max_budget_usd),
            "timeout": None if timeout is None else print_duration(timeout),
            "tags": list(tags) or None,
            "depends_on": list(depends_on) or None,
            **more,
        }
        given = {name: value for name, value in body.items() if value is not None}
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        return Task.of(self._transport.call("POST", "/tasks", body=given, headers=headers, safe=True).body)

    def get(self, task_id: str) -> Task:
        return Task.of(self._transport.call("GET", f"/tasks/{segment(task_id)}").body)

    def list(
        self, *, state: Optional[str] = None, tag: Optional[str] = None, parent: Optional[str] = None
    ) -> Iterator[Task]:
        """Newest first, fetched page by page as you go on."""
        cursor: Optional[str] = None
        while True:
            query = {"state": state, "tag": tag, "parent": parent, "limit": PAGE_ITEMS, "cursor": cursor}
            page = self._transport.call("GET", "/tasks", query=query).body
            for row in page["items"]:
                yield Task.of(row)
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def events(self, task_id: str, *, after: int = 0) -> Iterator[Event]:
        """The task's events so far, those after number `after`."""
        cursor: Optional[str] = str(after)
        while cursor is not None:
            query = {"after": cursor, "limit": EVENTS_PAGE_ITEMS}
            page = self._transport.call("GET", f"/tasks/{segment(task_id)}/events", query=query).body
            for line in page["items"]:
                yield Event(line["event"]["type"], None, line["seq"], None, line["event"])
            cursor = page["next_cursor"]

    def run(self, task_id: str) -> Task:
        """Has it done, or tried again after it failed."""
        return self._post(task_id, "run", {})

    def change(
        self,
        task_id: str,
        *,
        prompt: Optional[str] = None,
        timeout: Optional[Duration] = _AS_IT_IS,
        max_budget_usd: Optional[Money] = _AS_IT_IS,
        priority: Optional[str] = None,
        tags: Optional[Sequence[str]] = None,
    ) -> Task:
        """Changes a task that is neither queued nor running nor over, from its next run on. `timeout` and
        `max_budget_usd` of None take these away."""
        body: Dict[str, Any] = {"prompt": prompt, "priority": priority, "tags": None if tags is None else list(tags)}
        body = {name: value for name, value in body.items() if value is not None}
        if timeout is not _AS_IT_IS:
            body["timeout"] = None if timeout is None else print_duration(timeout)
        if max_budget_usd is not _AS_IT_IS:
            body["max_budget_usd"] = None if max_budget_usd is None else print_money(max_budget_usd)
        return Task.of(self._transport.call("PATCH", f"/tasks/{segment(task_id)}", body=body).body)

    def cancel(self, task_id: str, *, reason: Optional[str] = None, subtasks: bool = False) -> Task:
        """Ends it, with `subtasks` together with all tasks beneath it."""
        return self._post(task_id, "cancel", {"reason": reason}, subtasks)

    def accept(self, task_id: str) -> Task:
        """Accepts the result of a task that is READY."""
        return self._post(task_id, "accept", {})

    def reject(self, task_id: str, *, comment: Optional[str] = None) -> Task:
        """Rejects the result; the comment is what the agent reads."""
        return self._post(task_id, "reject", {"comment": comment})

    def resume(self, task_id: str) -> Task:
        """Goes on with a task that timed out."""
        return self._post(task_id, "resume", {})

    def answer(self, task_id: str, answer: Json) -> Task:
        """Answers its question."""
        return self._post(task_id, "answer", {"answer": answer})

    def delete(self, task_id: str, *, subtasks: bool = False) -> None:
        """Deletes a task that is neither queued nor running, with `subtasks` together with all tasks beneath it."""
        self._transport.call("DELETE", f"/tasks/{segment(task_id)}", query=_with(subtasks))

    def wait(self, task_id: str, timeout: Optional[float] = None) -> Task:
        """The task once it waits for a person or is over (Task.rests). Raises TimeoutError after `timeout` seconds."""
        ends = None if timeout is None else time.monotonic() + timeout
        pause = POLL_FIRST_S
        while True:
            task = self.get(task_id)
            if task.rests:
                return task
            left = pause if ends is None else ends - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{task_id} is {task.state} after {timeout} s")
            time.sleep(min(pause, left))
            pause = min(POLL_MAX_S, pause * 1.5)

    def _post(self, task_id: str, verb: str, body: Mapping[str, Any], subtasks: bool = False) -> Task:
        given = {name: value for name, value in body.items() if value is not None}
        path = f"/tasks/{segment(task_id)}/{verb}"
        return Task.of(self._transport.call("POST", path, query=_with(subtasks), body=given).body)


def _with(subtasks: bool) -> Dict[str, Optional[str]]:
    return {"subtasks": "true" if subtasks else None}
