"""`LargeValues`: values that are too large for one commit, in slices with a commit each.

These are the large texts of an append, and bodies of entries and snapshots that are large without
them. A value is *loose* from its first slice on, until the commit of its append takes it over. What
a crash or a refusal leaves loose is swept after a while (`Maintenance`).
"""

import asyncio
import logging
from collections.abc import Callable, Iterator

from trunkline.model.errors import StoreError, StoreUnusable
from trunkline.model.large_values import SLICE_BYTES
from trunkline.ports.clock import Clock
from trunkline.ports.store import Append
from trunkline.stores.large_appends import LargeAppends, Submit, large_bodies
from trunkline.stores.postgres.connection import ConnectionLost, Params, Row
from trunkline.stores.postgres.database import Database
from trunkline.stores.postgres.packing import int4, int8, int8s
from trunkline.stores.postgres.writer import SQL

_log = logging.getLogger("trunkline.store")

# How long a slice waits before it is sent again to a database that is away.
_RETRY_S = 0.2


class LargeValues(LargeAppends):
    def __init__(
        self,
        database: Database,
        clock: Clock,
        submit: Submit,
        explain: Callable[[BaseException], StoreError],
    ) -> None:
        super().__init__(submit, explain)
        self._database = database
        self._clock = clock
        # One slice at a time, so that readers find free connections.
        self._turn = asyncio.Lock()
        # How many slices were written.
        self.slices = 0
        # Number and size of the values whose slices are written: texts by the id of the value,
        # bodies by the identity of the object.
        self.written: dict[str | int, tuple[int, int]] = {}

    async def _write(self, append: Append) -> None:
        for value in append.values:
            self.written[value.id] = await self._write_value(value.slices(), append)
        for body in large_bodies(append.entries, append.snapshot):
            self.written[id(body)] = await self._write_value(_sliced(body), append)

    async def _write_value(self, slices: Iterator[bytes], append: Append) -> tuple[int, int]:
        """The number of the value, and its size."""
        first = next(slices, b"")
        ((number,),) = await self._run("add_value", (first,), append)
        size = len(first)
        for index, body in enumerate(slices, 1):
            if not await self._run("add_slice", (int8(number), int4(index), body), append):
                raise StoreUnusable("A large value was deleted before its task had it")
            size += len(body)
        return number, size

    async def _run(self, name: str, params: Params, append: Append) -> list[Row]:
        """Run a statement, and run it again where it is not known whether it took effect."""
        while True:
            try:
                async with self._turn:
                    rows = await self._database.execute(SQL[name], params)
                self.slices += 1
                return rows
            except StoreUnusable as error:
                # The progress of a task that exists waits for the database, a new task does not.
                if append.creation is not None or not isinstance(error.__cause__, ConnectionLost):
                    raise
            await self._clock.sleep(_RETRY_S)

    def _settled(self, append: Append, is_committed: bool) -> None:
        keys: list[str | int] = [value.id for value in append.values]
        keys += [id(body) for body in large_bodies(append.entries, append.snapshot)]
        numbers = [self.written.pop(key)[0] for key in keys if key in self.written]
        if numbers and not is_committed:
            self._tasks.spawn(self._give_up(numbers), name="give up large values")

    async def _give_up(self, numbers: list[int]) -> None:
        try:
            await self._database.execute(SQL["give_up_values"], (int8s(numbers),))
        except StoreError as error:
            # The sweep deletes them a little later.
            _log.info("large values stay loose", extra={"reason": error.message})

    async def close(self) -> None:
        await self._tasks.close()


def _sliced(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), SLICE_BYTES):
        yield body[start : start + SLICE_BYTES]
