"""Where the server is, and the key for it."""
from __future__ import annotations

import json
import os
import pathlib
import urllib.parse
from dataclasses import dataclass, field
from typing import Mapping, Optional

from .errors import Unreachable


@dataclass(frozen=True)
class Target:
    """A server and a key for it. The key stays out of what is printed."""

    url: str
    key: str = field(repr=False)


def data_folder(environ: Mapping[str, str]) -> pathlib.Path:
    """The folder that `pawl serve` uses when it is not told another one."""
    if environ.get("PAWL_DATA"):
        return pathlib.Path(environ["PAWL_DATA"])
    share = environ.get("XDG_DATA_HOME")
    return (pathlib.Path(share) if share else pathlib.Path.home() / ".local" / "share") / "pawl"


def is_address(url: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        return False


class Locator:
    """Finds the target by argument, else by PAWL_SERVER and PAWL_KEY, else in the local data folder.

    What came from the folder is read anew by every find(): a server that was restarted may listen on another port.
    """

    def __init__(
        self, url: Optional[str] = None, key: Optional[str] = None, environ: Optional[Mapping[str, str]] = None
    ) -> None:
        environ = os.environ if environ is None else environ
        self._url = url or environ.get("PAWL_SERVER") or None
        self._key = key or environ.get("PAWL_KEY") or None
        self._folder = data_folder(environ)
        if self._url is not None and not is_address(self._url):
            raise ValueError(f"not a server's address like http://127.0.0.1:7295: {self._url}")
        if self._url is not None and self._key is None and self._url.rstrip("/") != self._local_url():
            # The local admin's key is for the local server: it must never be shown to another one.
            raise ValueError(f"a key is needed for {self._url}: pass key=... or set PAWL_KEY")

    def find(self) -> Target:
        """Raises Unreachable when there is no server in the local folder (yet, or any more)."""
        url = self._url or self._local_url()
        if url is None:
            what = f"no server is running in {self._folder}: start `pawl serve`, or set PAWL_SERVER"
            raise Unreachable(what, sent=False)
        return Target(url.rstrip("/"), self._key or self._local_key())

    def _local_url(self) -> Optional[str]:
        try:
            url = json.loads((self._folder / "server.json").read_text(encoding="utf-8"))["url"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return url.rstrip("/") if isinstance(url, str) and is_address(url) else None

    def _local_key(self) -> str:
        try:
            return (self._folder / "admin.key").read_text(encoding="utf-8").strip()
        except OSError as error:
            raise Unreachable(f"cannot read the key in {self._folder}: {error.strerror}", sent=False) from None
