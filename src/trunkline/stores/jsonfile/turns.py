"""What waits for its commit: appends together, and every other change by itself."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from trunkline.model.errors import StoreError
from trunkline.ports.store import Append, Settled
from trunkline.stores.jsonfile.changes import Change
from trunkline.stores.jsonfile.state import State
from trunkline.stores.settling import settle


class Batch:
    """Appends of one commit."""

    def __init__(self, appends: Sequence[tuple[Append, Settled]]) -> None:
        self.appends = list(appends)
        self._results: list[StoreError | None] = []

    def stage(self, state: State) -> list[Change]:
        self._results, changes = state.stage(self.appends)
        return changes

    def done(self, error: StoreError | None) -> None:
        results = self._results if error is None else [error] * len(self.appends)
        told = [(item[1], result) for item, result in zip(self.appends, results, strict=True)]
        settle(asyncio.get_running_loop(), iter(told))


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
        if self._future.cancelled():
            return
        if error is None:
            self._future.set_result(self._result(self._changes))
        else:
            self._future.set_exception(error)
