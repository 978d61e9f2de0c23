"""`LargeValues`: values that are too large for one commit, in slices with a commit each.

These are the large texts of an append, and bodies of entries and snapshots that are large
without them, such as files. A value is *loose* from its first slice on, until the commit of its
append. So the store knows the half-written values of a crash, and deletes them after the next
start.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

from trunkline.model.errors import StoreError
from trunkline.model.large_values import SLICE_BYTES
from trunkline.ports.store import Append
from trunkline.stores.large_appends import LargeAppends, Submit, large_bodies
from trunkline.stores.sqlite.connections import Opened
from trunkline.stores.sqlite.rows import SEQ_BITS, Blob
from trunkline.stores.sqlite.statements import SQL

_log = logging.getLogger("trunkline.stores")

# How many slices one commit deletes: 4 MB, and SQLite reads every page of them.
_SWEEP_SLICES = 16
_SWEEP_VALUES = 100


class LargeValues(LargeAppends):
    def __init__(
        self,
        opened: Opened,
        enqueue: Callable[[Callable[[], Any]], Awaitable[Any]],
        submit: Submit,
        explain: Callable[[BaseException], StoreError],
    ) -> None:
        """`enqueue` runs a piece of work among the commits, in its turn."""
        super().__init__(submit, explain)
        self._opened = opened
        self._enqueue = enqueue
        (last,) = opened.writer.connection.execute(SQL["last_value"]).fetchone()
        self._last_number: int = last
        # The values of appends that are not settled: loose, but the sweep must spare them.
        self._in_use: dict[int, list[int]] = {}
        self._is_sweeping = False
        self._is_closing = False

    async def _write(self, append: Append) -> None:
        """Every slice waits for its turn among the commits of others."""
        written = self._opened.writer.written
        for value in append.values:
            written[value.id] = await self._write_value(append, value.slices())
        for body in large_bodies(append.entries, append.snapshot):
            written[id(body)] = await self._write_value(append, _sliced(body))

    async def _write_value(self, append: Append, slices: Iterator[bytes]) -> tuple[int, int]:
        """The number of the value, and its size."""
        self._last_number += 1
        number = self._last_number
        self._in_use.setdefault(id(append), []).append(number)
        size = count = 0
        while True:
            write = partial(self._write_next, number, count, slices)
            written = await self._enqueue(partial(self._opened.in_transaction, write))
            if not written:
                return number, size
            size += written
            count += 1

    def _write_next(self, number: int, index: int, slices: Iterator[bytes]) -> int:
        """The size of the slice; 0 when there is none left."""
        body = next(slices, b"")
        if body:
            db = self._opened.writer.connection
            if not index:
                db.execute(SQL["insert_loose_value"], (number,))
            db.execute(SQL["insert_slice"], (number << SEQ_BITS | index, Blob(body)))
        return len(body)

    def _settled(self, append: Append, is_committed: bool) -> None:
        written = self._opened.writer.written
        self._in_use.pop(id(append), None)
        for value in append.values:
            written.pop(value.id, None)
        for body in large_bodies(append.entries, append.snapshot):
            written.pop(id(body), None)
        if not is_committed or append.snapshot is not None:
            # No row refers to them, or to those of the replaced snapshot, from now on.
            self.sweep_soon()

    def sweep_soon(self) -> None:
        """Delete the slices of loose values, in the background."""
        if not self._is_sweeping and not self._is_closing:
            self._is_sweeping = True
            self._tasks.spawn(self._sweep(), name="sweep loose values")

    def stop_sweeping(self) -> None:
        """Stop for good. The next start sweeps the remaining values."""
        self._is_closing = True

    async def _sweep(self) -> None:
        try:
            while loose := await self._loose():
                for number in loose:
                    await self._sweep_value(number)
        except StoreError as error:
            # The next large value, or the next start, sweeps the remaining values.
            _log.warning("loose values could not be deleted", extra={"reason": error.message})
        finally:
            self._is_sweeping = False

    async def _sweep_value(self, number: int) -> None:
        step = partial(self._opened.in_transaction, partial(self._sweep_some, number))
        has_more = True
        while has_more and not self._is_closing:
            has_more = await self._enqueue(step)

    async def _loose(self) -> list[int]:
        opened = self._opened
        if self._is_closing:
            return []
        used = sum(map(len, self._in_use.values()))
        find = partial(opened.slow_reader.loose_values, used + _SWEEP_VALUES)
        found = await opened.loop.run_in_executor(opened.readers, find)
        in_use = {number for numbers in self._in_use.values() for number in numbers}
        return [number for number in found if number not in in_use]

    def _sweep_some(self, number: int) -> bool:
        """Whether there may be more of the value."""
        db = self._opened.writer.connection
        # A commit may have referred to it since the sweep found it.
        if not db.execute(SQL["is_loose"], (number,)).fetchall():
            return False
        where = {"value": number, "limit": _SWEEP_SLICES}
        if db.execute(SQL["delete_slices"], where).rowcount == _SWEEP_SLICES:
            return True
        db.execute(SQL["delete_loose_value"], (number,))
        return False


def _sliced(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), SLICE_BYTES):
        yield body[start : start + SLICE_BYTES]
