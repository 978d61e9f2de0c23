"""`Pool`: processes that wait for the next turn, and the names and locks of sessions."""

import asyncio
import json
import uuid
from asyncio import Lock
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from trunkline.background import BackgroundTasks
from trunkline.ports.backend import TurnRequest
from trunkline.ports.clock import Clock

Kept = TypeVar("Kept")


class Pool(Generic[Kept]):
    """Processes that wait, by session or task. Each ends after `idle_s`, or earlier to make room
    for another one: the one that was used longest ago goes first. A process in use is not here.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        tasks: BackgroundTasks,
        idle_s: float,
        end: Callable[[Kept], Coroutine[Any, Any, None]],
    ) -> None:
        self._clock = clock
        self._tasks = tasks
        self._idle_s = idle_s
        self._end = end
        # In the order of their last use.
        self._idle: dict[str, tuple[Kept, asyncio.Task[None]]] = {}

    def __iter__(self) -> Iterator[Kept]:
        return iter([kept for kept, _ in self._idle.values()])

    def take(self, key: str) -> Kept | None:
        """The process that waits there, which belongs to the caller from now on."""
        found = self._idle.pop(key, None)
        if found is None:
            return None
        kept, timer = found
        timer.cancel()
        return kept

    def put(self, key: str, kept: Kept) -> None:
        """Let a process wait. It replaces another one, which ends."""
        if (other := self.take(key)) is not None:
            self._tasks.spawn(self._end(other), name=f"end {key}")
        timer = self._tasks.start(self._expire(key, kept), name=f"idle {key}")
        self._idle[key] = (kept, timer)

    async def retire_one(self) -> bool:
        """End the process that was used longest ago; False when there is none."""
        key = next(iter(self._idle), None)
        if key is not None:
            await self._retire(key)
        return key is not None

    async def close(self) -> None:
        """End all idle processes."""
        await asyncio.gather(*(self._retire(key) for key in list(self._idle)))

    async def _expire(self, key: str, kept: Kept) -> None:
        await self._clock.sleep(self._idle_s)
        found = self._idle.get(key)
        if found is not None and found[0] is kept:
            del self._idle[key]
            await self._end(kept)

    async def _retire(self, key: str) -> None:
        if (kept := self.take(key)) is not None:
            await self._end(kept)


# A fixed value that makes our names differ from those that other programs derive.
NAMESPACE = uuid.UUID("5f2b7c1e-95a0-5d0c-9a35-6f0d0e8f6a11")


def session_id(turn: TurnRequest) -> str:
    """The name of the session, the same for every turn and after every restart. It depends on
    the principal, so a caller cannot enter the session of another by naming its context."""
    scope = [turn.agent, turn.tenant, turn.principal, turn.context_id]
    return str(uuid.uuid5(NAMESPACE, json.dumps(scope)))


class Sessions:
    """Locks that admit one turn of a session at a time, also where the profile lets tasks run
    side by side."""

    def __init__(self) -> None:
        # Weak: a lock exists as long as a turn holds it or waits for it.
        self._locks: WeakValueDictionary[str, Lock] = WeakValueDictionary()

    def lock(self, session: str) -> Lock:
        lock = self._locks.get(session)
        if lock is None:
            lock = self._locks[session] = Lock()
        return lock
