"""`Sessions`: which MCP sessions are open, whose they are, and whether there may be more."""

from collections.abc import Callable

from msgspec import Struct

from trunkline.model.errors import TooManyRequests, Unavailable

RETRY_AFTER_S = 60


class _Session(Struct):
    principal: str
    used_at: float
    # Requests under way, an open stream among them.
    requests: int = 0


class Sessions:
    """A session ends when it is deleted or was not used for `idle_s`."""

    def __init__(
        self, *, limit: int, limit_per_caller: int, idle_s: float, now: Callable[[], float]
    ) -> None:
        self._limit = limit
        self._limit_per_caller = limit_per_caller
        self._idle_s = idle_s
        self._now = now
        self._open: dict[str, _Session] = {}
        # Requests for a new session that are not answered yet, by caller.
        self._opening: dict[str, int] = {}

    def begin_opening(self, principal: str) -> None:
        """Raises TooManyRequests or Unavailable. To be followed by `end_opening`."""
        own = self._opening.get(principal, 0)
        if self._is_too_much(own, principal, self._limit_per_caller):
            raise TooManyRequests(
                f"You have {self._limit_per_caller} MCP sessions open, which is the limit "
                "(remote.max_mcp_sessions_per_caller); end one with DELETE, or let it expire",
                retry_after_s=RETRY_AFTER_S,
            )
        if self._is_too_much(sum(self._opening.values()), None, self._limit):
            raise Unavailable(
                f"{self._limit} MCP sessions are open, which is the limit "
                "(remote.max_mcp_sessions); try again later",
                retry_after_s=RETRY_AFTER_S,
            )
        self._opening[principal] = own + 1

    def end_opening(self, principal: str, session_id: str | None) -> None:
        """`session_id` is None where no session came of it."""
        left = self._opening.pop(principal) - 1
        if left:
            self._opening[principal] = left
        if session_id is not None:
            self._open[session_id] = _Session(principal, self._now())

    def enter(self, session_id: str) -> None:
        """A request of the session, if there is one."""
        session = self._open.get(session_id)
        if session is not None:
            session.requests += 1

    def leave(self, session_id: str) -> None:
        session = self._open.get(session_id)
        if session is not None:
            session.requests -= 1
            session.used_at = self._now()

    def end(self, session_id: str) -> None:
        self._open.pop(session_id, None)

    def _is_too_much(self, opening: int, principal: str | None, limit: int) -> bool:
        """Looks for expired sessions only when it would be too much with them."""
        if opening + self._count(principal) < limit:
            return False
        before = self._now() - self._idle_s
        self._open = {
            id: each for id, each in self._open.items() if each.requests or each.used_at > before
        }
        return opening + self._count(principal) >= limit

    def _count(self, principal: str | None) -> int:
        if principal is None:
            return len(self._open)
        return sum(each.principal == principal for each in self._open.values())
