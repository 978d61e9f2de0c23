"""`StoreWaits`: refuses the requests that wait for a store which has a problem.

A store that is away or hangs answers when it is back, which may be in minutes. The caller of a
request hears within seconds that it has to try again. What the request has submitted is not undone:
it may still be committed later, as after any lost connection.
"""

import asyncio
from types import TracebackType
from typing import Any

from msgspec import Struct

from trunkline.model.errors import Unavailable
from trunkline.model.values import SETTLED
from trunkline.ports.store import Store
from trunkline.runtime.admitted import Admitted

# How often a node looks whether its store has a problem.
LOOK_S = 0.25
# A problem that is seen so often in a row is no hiccup.
_LOOKS = 2


class StoreWait(Struct, eq=False):
    """One request, for the time that it may wait for the store."""

    waiting: "dict[asyncio.Task[Any], StoreWait]"
    task: "asyncio.Task[Any]"
    # The outcome of accepting its message, once there is one.
    admitted: Admitted | None = None
    is_refused: bool = False

    def __enter__(self) -> "StoreWait":
        self.waiting[self.task] = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        del self.waiting[self.task]
        if self.is_refused and not self.task.uncancel() and kind is asyncio.CancelledError:
            raise _no_answer() from error

    def refuse(self) -> None:
        """End the request, if it is the store that it waits for."""
        if not self.is_refused and self._waits_for_store():
            self.is_refused = True
            self.task.cancel("the store does not answer")

    def _waits_for_store(self) -> bool:
        admitted = self.admitted
        if admitted is None:
            return True
        if (live := admitted.live) is not None:
            is_stored = live.committed_seq >= admitted.accepted_seq
            # Until the agent is done, its caller waits for the agent.
            has_news = bool(live.in_flight or live.unflushed)
            return has_news and (not is_stored or live.state in SETTLED)
        # A run with an outcome is only storing its answer.
        return admitted.run is not None and admitted.run.outcome is not None


class StoreWaits(Struct, eq=False):
    store: Store
    _waiting: dict[asyncio.Task[Any], StoreWait] = {}
    # How often in a row the store had a problem.
    _looks: int = 0

    def request(self) -> StoreWait:
        """The context of a request that is being carried out by this asyncio task."""
        task = asyncio.current_task()
        assert task is not None
        return StoreWait(self._waiting, task)

    def accepted(self, admitted: Admitted) -> None:
        """The message of the request that this asyncio task carries out was accepted."""
        task = asyncio.current_task()
        wait = None if task is None else self._waiting.get(task)
        if wait is not None:
            wait.admitted = admitted

    def look(self) -> None:
        """Refuse the requests that wait for the store, if it has had a problem for a moment."""
        self._looks = self._looks + 1 if self.store.problem is not None else 0
        if self._looks >= _LOOKS:
            for each in list(self._waiting.values()):
                each.refuse()


def _no_answer() -> Unavailable:
    return Unavailable(
        "The store does not answer; try again. Where a request has an Idempotency-Key, it counts "
        "once, whatever became of this attempt",
        retry_after_s=5,
    )
