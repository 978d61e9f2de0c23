"""`Batch` and `Job`: changes that wait for their commit, together or alone."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from trunkline.model.errors import StoreError
from trunkline.ports.store import Append, Settled
from trunkline.stores.commits import Item, answer, settle
from trunkline.stores.jsonfile.changes import Change
from trunkline.stores.jsonfile.state import State

# Bounds the memory for the line of a commit, and the time for which later changes wait. An
# append that is larger has a commit of its own.
_MAX_ITEMS = 256
_MAX_BYTES = 4 * 1024 * 1024


class Batch:
    """Appends, exchanges and notes of one commit."""

    def __init__(self) -> None:
        self._items: list[tuple[Item, Settled]] = []
        self._size_bytes = 0
        self._results: Sequence[StoreError | None] = ()

    def add(self, item: Item, settled: Settled) -> bool:
        """False when the batch has no room for it."""
        size = item.size_bytes if isinstance(item, Append) else 0
        if self._items and (len(self._items) >= _MAX_ITEMS or self._size_bytes + size > _MAX_BYTES):
            return False
        self._items.append((item, settled))
        self._size_bytes += size
        return True

    def stage(self, state: State) -> list[Change]:
        self._results, changes = state.stage(self._items)
        return changes

    def done(self, error: StoreError | None) -> None:
        results = self._results if error is None else [error] * len(self._items)
        settle(asyncio.get_running_loop(), self._items, results)


class Job:
    """Any other change. `result` is called with the changes once they are committed."""

    def __init__(
        self,
        stage: Callable[[State], list[Change]],
        result: Callable[[list[Change]], Any],
        future: "asyncio.Future[Any]",
    ) -> None:
        self._stage = stage
        self._result = result
        self._future = future
        self._changes: list[Change] = []

    def stage(self, state: State) -> list[Change]:
        self._changes = self._stage(state)
        return self._changes

    def done(self, error: StoreError | None) -> None:
        answer(self._future, None if error else self._result(self._changes), error)
