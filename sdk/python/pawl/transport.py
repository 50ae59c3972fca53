"""HTTP with kept connections, time-outs and retries. One connection a thread; any thread may call."""
from __future__ import annotations

import email.utils
import http.client
import itertools
import json
import select
import socket
import ssl
import threading
import time
import urllib.parse
import weakref
from dataclasses import dataclass
from typing import Any, List, Mapping, Optional, Union

from .backoff import backoff
from .errors import PawlError, Unreachable
from .locate import Locator, Target

# The server closes a connection that was idle for 75 s. Whoever sends at that very moment cannot know whether the
# request arrived, so idle connections are given up before.
IDLE_MAX_S = 60.0
# The server refuses with these before it looks at the request, so even what must not be done twice may be sent again.
NOT_LOOKED_AT = frozenset({"OVERLOADED", "TOO_MANY_CONNECTIONS", "TOO_MANY_BYTES"})
STREAM_READ_BYTES = 1 << 16
# The server says something at least every 15 s; three times that in silence, and the connection is dead.
STREAM_SILENCE_MAX_S = 45.0

Query = Mapping[str, Union[str, int, None]]


@dataclass(frozen=True)
class Answer:
    """A response that was not an error, with its body read and parsed."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def date(self) -> Optional[float]:
        """The server's clock, in seconds since 1970, cut to a whole second."""
        return date_of(self.headers)


@dataclass(frozen=True)
class Message:
    """One server-sent event."""

    id: Optional[str]
    event: str
    data: str


class Transport:
    """Speaks with one server on behalf of one key."""

    def __init__(self, locator: Locator, timeout: float, patience: float, tls: Optional[ssl.SSLContext]) -> None:
        self._locator = locator
        self._timeout = timeout
        self._patience = patience
        self._tls = tls
        self._local = threading.local()
        self._lock = threading.Lock()
        self._connections: weakref.WeakSet[_Connection] = weakref.WeakSet()

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Query] = None,
        body: Optional[Union[bytes, Mapping[str, Any]]] = None,
        headers: Optional[Mapping[str, str]] = None,
        safe: Optional[bool] = None,
        timeout: Optional[float] = None,
        patience: Optional[float] = None,
        raw: bool = False,
    ) -> Answer:
        """One request, repeated with backoff for `patience` seconds while that is sensible.

        `raw`: the answer's body is bytes, and not JSON.

        `safe`: doing it twice is the same as doing it once; by default that holds for GET and PUT. What is not safe is
        repeated only when the server cannot have begun with it.
        """
        safe = method in ("GET", "PUT") if safe is None else safe
        sent_body = body if body is None or isinstance(body, bytes) else encode_json(body)
        patience_ends = time.monotonic() + (self._patience if patience is None else patience)
        for failures in itertools.count(1):
            try:
                return self._once(method, path, query, sent_body, headers, timeout or self._timeout, raw)
            except PawlError as error:
                if not _may_repeat(error, safe):
                    raise
                wait = backoff(failures, error.retry_after)
                if time.monotonic() + wait > patience_ends:
                    raise
            time.sleep(wait)
        raise AssertionError("unreachable")

    def open_stream(self, path: str, query: Query, timeout: float = STREAM_SILENCE_MAX_S) -> "EventStream":
        """Server-sent events on a connection of their own. `timeout`: the longest silence between two reads."""
        target = self._locator.find()
        connection = _Connection(target, timeout, self._tls)
        try:
            response = connection.send("GET", _with_query(path, query), None, {"Accept": "text/event-stream"})
            if response.status != 200:
                raise _error_of(response.status, _headers_of(response), response.read())
            return EventStream(connection, response)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Unreachable(f"{target.url}: {_describe(error)}", sent=True) from error
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Closes the kept connections of all threads."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.close()

    def _once(
        self,
        method: str,
        path: str,
        query: Optional[Query],
        body: Optional[bytes],
        headers: Optional[Mapping[str, str]],
        timeout: float,
        raw: bool,
    ) -> Answer:
        connection = self._connection(timeout)
        try:
            response = connection.send(method, _with_query(path, query or {}), body, headers or {})
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            self._local.connection = None  # looked for anew: it may have come back on another port
            raise Unreachable(f"{connection.target.url}: {_describe(error)}", sent=connection.sent) from error
        except BaseException:
            # Something else broke in between, like KeyboardInterrupt: the answer must not be taken for the next one's.
            connection.close()
            raise
        connection.used_at = time.monotonic()
        answer_headers = _headers_of(response)
        if response.status >= 300:
            raise _error_of(response.status, answer_headers, text)
        if raw:
            return Answer(response.status, answer_headers, text)
        try:
            return Answer(response.status, answer_headers, json.loads(text) if text else None)
        except ValueError:
            what = f"{connection.target.url} answered with something else than JSON"
            raise PawlError(502, "NOT_JSON", what) from None

    def _connection(self, timeout: float) -> "_Connection":
        """This thread's."""
        connection: Optional[_Connection] = getattr(self._local, "connection", None)
        if connection is None:
            connection = _Connection(self._locator.find(), timeout, self._tls)
            self._local.connection = connection
            with self._lock:
                self._connections.add(connection)
        connection.set_timeout(timeout)
        return connection


class _Connection:
    """One keep-alive connection. `sent`: the last request may have reached the server."""

    def __init__(self, target: Target, timeout: float, tls: Optional[ssl.SSLContext]) -> None:
        parts = urllib.parse.urlsplit(target.url)
        assert parts.hostname is not None, "the locator has checked the address"
        self.target = target
        self.sent = False
        self.used_at = time.monotonic()
        self._prefix = parts.path.rstrip("/")
        self._http: http.client.HTTPConnection
        if parts.scheme == "https":
            self._http = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=timeout, context=tls or ssl.create_default_context()
            )
        else:
            self._http = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)

    def send(
        self, method: str, path: str, body: Optional[bytes], headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        self.sent = False
        if self._http.sock is not None and self._is_stale(self._http.sock):
            self.close()
        if self._http.sock is None:
            self._http.connect()
        self.sent = True
        whole = {"Authorization": f"Bearer {self.target.key}", "User-Agent": "pawl-python", **headers}
        if body is not None:
            whole.setdefault("Content-Type", "application/json")
        self._http.request(method, self._prefix + path, body=body, headers=whole)
        return self._http.getresponse()

    def set_timeout(self, seconds: float) -> None:
        self._http.timeout = seconds
        if self._http.sock is not None:
            self._http.sock.settimeout(seconds)

    def close(self) -> None:
        self._http.close()

    def __del__(self) -> None:
        # A thread that ends lets go of its connection.
        self.close()

    def _is_stale(self, sock: socket.socket) -> bool:
        if time.monotonic() - self.used_at > IDLE_MAX_S:
            return True
        # Nothing is due from the server: that there is something to read means that it has closed.
        try:
            if hasattr(select, "poll"):
                poll = select.poll()
                poll.register(sock, select.POLLIN)
                return bool(poll.poll(0))
            return bool(select.select([sock], [], [], 0)[0])
        except (OSError, ValueError):
            return True


class EventStream:
    """An open stream of server-sent events. For one thread; close() it."""

    def __init__(self, connection: _Connection, response: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._response = response
        self._rest = b""
        self._id: Optional[str] = None
        self._event = ""
        self._data: List[str] = []

    def read(self) -> List[Message]:
        """What has come since, perhaps nothing yet; waits for something. Raises Unreachable at the end."""
        try:
            text = self._response.read1(STREAM_READ_BYTES)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unreachable(f"{self._connection.target.url}: {_describe(error)}", sent=True) from error
        if not text:
            raise Unreachable(f"{self._connection.target.url}: the stream ended", sent=True)
        *lines, self._rest = (self._rest + text).split(b"\n")
        out: List[Message] = []
        for line in lines:
            self._take_line(line.rstrip(b"\r").decode("utf-8", "replace"), out)
        return out

    def close(self) -> None:
        self._response.close()
        self._connection.close()

    def __enter__(self) -> "EventStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_line(self, line: str, out: List[Message]) -> None:
        if not line:
            # Without data it is no event, but its id counts: that is how a position is told before anything happened.
            if self._data or self._id is not None:
                out.append(Message(self._id, self._event or "message", "\n".join(self._data)))
            self._id, self._event, self._data = None, "", []
            return
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id":
            self._id = value


def encode_json(value: Any) -> bytes:
    """Raises ValueError or TypeError for what JSON cannot say: NaN, objects, text that is not Unicode."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def segment(text: str) -> str:
    """A part of a path, made safe to stand between two slashes."""
    if not text:
        raise ValueError("an id or a name is empty")
    return urllib.parse.quote(text, safe="")


def date_of(headers: Mapping[str, str]) -> Optional[float]:
    try:
        return email.utils.parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, TypeError, ValueError, IndexError):
        return None


def _may_repeat(error: PawlError, safe: bool) -> bool:
    if isinstance(error, Unreachable):
        return safe or not error.sent
    return error.code in NOT_LOOKED_AT or error.status == 429 or (safe and error.passing)


def _with_query(path: str, query: Query) -> str:
    given = {name: str(value) for name, value in query.items() if value is not None}
    return f"{path}?{urllib.parse.urlencode(given)}" if given else path


def _headers_of(response: http.client.HTTPResponse) -> Mapping[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def _error_of(status: int, headers: Mapping[str, str], text: bytes) -> PawlError:
    try:
        retry_after: Optional[float] = max(0.0, float(headers["retry-after"]))
    except (KeyError, ValueError):
        retry_after = None
    try:
        problem = json.loads(text)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):  # a proxy's, or no pawl at all
        return PawlError(status, "UNKNOWN", "the answer is no problem document", None, retry_after)
    where = problem.get("where")
    return PawlError(
        status,
        str(problem.get("code", "UNKNOWN")),
        str(problem.get("detail", "")),
        None if where is None else str(where),
        retry_after,
    )


def _describe(error: BaseException) -> str:
    return str(error) or type(error).__name__
