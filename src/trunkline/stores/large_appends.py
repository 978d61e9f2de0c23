"""`LargeAppends`: appends that wait until their large values are written.

Later appends of the same task wait behind them, so that a task's appends keep their order;
those of other tasks pass by.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from trunkline.background import BackgroundTasks
from trunkline.model.errors import StoreError
from trunkline.model.events import Entry
from trunkline.model.large_values import SLICE_BYTES
from trunkline.ports.store import Append, Result, Settled, Snapshot

_Item: TypeAlias = tuple[Append, Settled]
Submit: TypeAlias = Callable[[Sequence[_Item]], None]


def is_large(append: Append) -> bool:
    return bool(append.values or large_bodies(append.entries, append.snapshot))


def large_bodies(entries: Sequence[Entry], snapshot: Snapshot | None) -> list[bytes]:
    """Bodies that are larger than a slice even without their large texts."""
    bodies = [entry.body for entry in entries]
    if snapshot is not None:
        bodies += (snapshot.task, snapshot.artifacts)
    return [body for body in bodies if len(body) > SLICE_BYTES]


class LargeAppends(ABC):
    def __init__(self, submit: Submit, explain: Callable[[BaseException], StoreError]) -> None:
        """`submit` takes appends whose values are written."""
        self._submit = submit
        self._explain = explain
        # By task; empty while nothing waits.
        self.waiting: dict[str, deque[_Item]] = {}
        self._tasks = BackgroundTasks("large values")
        self._idle: list[Callable[[], object]] = []

    @abstractmethod
    async def _write(self, append: Append) -> None:
        """Make the values of an append durable, so that no reader sees them yet."""

    @abstractmethod
    def _settled(self, append: Append, is_committed: bool) -> None:
        """The append was committed or refused."""

    def sort_out(self, appends: Sequence[_Item]) -> list[_Item]:
        """Hold back the appends that have to wait. Returns the others."""
        ready: list[_Item] = []
        for item in appends:
            append = item[0]
            waiting = self.waiting.get(append.task_id)
            if waiting is not None:
                waiting.append(item)
            elif is_large(append):
                self.waiting[append.task_id] = deque([item])
                self._tasks.spawn(self._advance(append.task_id), name=f"values {append.task_id}")
            else:
                ready.append(item)
        return ready

    def when_idle(self, callback: Callable[[], object]) -> None:
        """Call back once nothing waits any more, at once if nothing does."""
        if self.waiting:
            self._idle.append(callback)
        else:
            callback()

    async def _advance(self, task_id: str) -> None:
        waiting = self.waiting[task_id]
        while waiting:
            append, settled = waiting[0]
            try:
                if is_large(append):
                    settled = partial(self._tell, append, settled)
                    await self._write(append)
            except Exception as error:  # noqa: BLE001 - goes to the submitter
                # In a pass of its own: the loop then handles an error of the submitter.
                asyncio.get_running_loop().call_soon(settled, self._explain(error))
            else:
                self._submit([(append, settled)])
            # Only now: appends that were submitted meanwhile come after it.
            waiting.popleft()
        del self.waiting[task_id]
        if not self.waiting:
            callbacks, self._idle = self._idle, []
            for callback in callbacks:
                callback()

    def _tell(self, append: Append, settled: Settled, result: Result) -> None:
        self._settled(append, not isinstance(result, StoreError))
        settled(result)
