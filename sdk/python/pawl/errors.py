"""What can go wrong with a request."""
from __future__ import annotations

from typing import Optional


class PawlError(Exception):
    """The server refused a request, or failed to carry it out.

    `code` is stable and meant for programs (RUN_ENDED, NOT_FOUND, ...), `detail` for people; `where` is the part of the
    request that is meant, when there is one, like "/items/3/output".
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        where: Optional[str] = None,
        retry_after: Optional[float] = None,
    ) -> None:
        place = f" ({where})" if where else ""
        super().__init__(f"{status} {code}: {detail}{place}" if status else f"{code}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail
        self.where = where
        self.retry_after = retry_after

    @property
    def passing(self) -> bool:
        """Whether the same request may well succeed a little later."""
        return self.status in (0, 408, 429) or self.status >= 500


class Unreachable(PawlError):
    """There was no answer. `sent`: the request may have reached the server all the same, and may have been done."""

    def __init__(self, detail: str, sent: bool) -> None:
        super().__init__(0, "UNREACHABLE", detail)
        self.sent = sent
