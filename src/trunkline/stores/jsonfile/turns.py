"""What waits for its commit: appends, exchanges and notes together, all else by itself."""

import asyncio
from collections.abc import Callable
from typing import Any

from trunkline.model.errors import StoreError
from trunkline.ports.store import Append, Exchange, KeptNote, Settled
from trunkline.stores.jsonfile.changes import Change
from trunkline.stores.jsonfile.state import State
from trunkline.stores.settling import settle


class Batch:
    """Appends, exchanges and notes of one commit."""

    def __init__(self) -> None:
        self.appends: list[tuple[Append, Settled]] = []
        self.exchanges: list[tuple[Exchange, asyncio.Future[None]]] = []
        self.notes: list[tuple[KeptNote, asyncio.Future[None]]] = []
        self.size_bytes = 0
        self._results: list[StoreError | None] = []

    def __len__(self) -> int:
        return len(self.appends) + len(self.exchanges) + len(self.notes)

    def stage(self, state: State) -> list[Change]:
        self._results, changes = state.stage([append for append, _ in self.appends])
        changes += state.stage_exchanges(
            [exchange for exchange, _ in self.exchanges], after=len(changes)
        )
        return changes + state.stage_notes([note for note, _ in self.notes], after=len(changes))

    def done(self, error: StoreError | None) -> None:
        for _, future in [*self.exchanges, *self.notes]:
            answer(future, None, error)
        results = self._results if error is None else [error] * len(self.appends)
        told = [(item[1], result) for item, result in zip(self.appends, results, strict=True)]
        settle(asyncio.get_running_loop(), told)


class Job:
    """A change that is no append. `result` is made of it the moment it is committed."""

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


def answer(future: "asyncio.Future[Any]", result: object, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
