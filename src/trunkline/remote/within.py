"""A limit in time for a call."""

import asyncio
from types import TracebackType

from trunkline.remote.errors import PeerTimeout


class within:
    """Its breach is PeerTimeout. A cancellation stays what it is.

    As `asyncio.timeout` does it, without the coroutines that it needs for that: every call
    goes through here.
    """

    __slots__ = ("_cancelling", "_is_late", "_seconds", "_task", "_timer")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_late = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        self._timer = task.get_loop().call_later(self._seconds, self._end)

    def _end(self) -> None:
        self._is_late = True
        self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        if not self._is_late:
            return
        # Whoever else cancelled the task meanwhile is not to be robbed of it.
        is_ours = self._task.uncancel() <= self._cancelling
        if is_ours and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise PeerTimeout(
                f"the agent did not answer within {self._seconds:g} s", reason="CALL_TIMEOUT"
            ) from None
