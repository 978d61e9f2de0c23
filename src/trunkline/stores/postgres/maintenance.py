"""`Maintenance`: deletes what the store no longer needs, and adds the tables of the next months.

Every node does this, and two at once do no harm: each step locks what it changes, and skips what
another one has locked.
"""

import asyncio
import logging
from importlib.resources import files

from trunkline.background import BackgroundTasks
from trunkline.model.errors import StoreError
from trunkline.ports.clock import Clock
from trunkline.stores.postgres.connection import Connection, ConnectionLost, DatabaseError, Row
from trunkline.stores.postgres.database import Database
from trunkline.stores.postgres.packing import int4, int8, searched, text
from trunkline.stores.postgres.rows import EventRow, entries_after, event_rows
from trunkline.stores.sqlite.rows import PACKED
from trunkline.stores.statements import Statements

SQL = Statements(files(__package__).joinpath("maintenance.sql").read_text("utf-8"))

_log = logging.getLogger("trunkline.store")

_EVERY_S = 3600.0
# Many entries may go with a task.
_STEP_S = 120.0
# A connection that nothing used for this time is closed; the next step opens one.
_IDLE_S = 30.0
# How many slices one step of the sweep deletes: 4 MB.
_SWEEP_SLICES = 16
# No row of a journal has this sequence.
_NO_ROW: EventRow = (0, PACKED, b"")


class Maintenance:
    """Its statements go through a connection of their own, so that no append and no read waits
    behind them."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._connection: Connection | None = None
        # One step at a time.
        self._lock = asyncio.Lock()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._tasks = BackgroundTasks("store maintenance")

    async def start(self) -> None:
        """Add the tables of the next months, and do the rest in the background. Raises
        StoreUnusable."""
        await self.add_months()
        self._tasks.spawn(self._repeat(), name="maintenance")

    async def close(self) -> None:
        await self._tasks.close()
        self._disconnect()

    async def prune(self, agent: str, *, limit: int, before_ms: int | None) -> int:
        """As `Store.prune`."""
        before = None if before_ms is None else int8(before_ms)
        rows = await self._run("prune", searched(agent), before, int4(min(limit, 1000)))
        count: int = rows[0][0]
        return count

    async def prune_journal(self, task_id: str, *, up_to: int) -> None:
        """As `Store.prune_journal`."""
        for key, folded in await self._run("get_folded", searched(task_id)):
            last = min(up_to, folded)
            kept = _NO_ROW
            # The row behind may begin with entries that are to go.
            for row in await self._run("get_next_row", int8(key), int4(last)):
                if row[1] == PACKED:
                    (kept,) = event_rows(entries_after([(*row, None)], last, -1), {})
            seq, kind, body = kept
            await self._run(
                "prune_journal", int8(key), int4(last), int4(seq), text(kind), bytes(body)
            )

    async def add_months(self) -> None:
        await self._run("add_months")

    async def drop_months(self) -> None:
        """Drop the tables of past months that have no task any more."""
        await self._run("drop_months")

    async def sweep_values(self) -> None:
        """Delete the slices of values that no task has."""
        while True:
            began = self._clock.monotonic()
            ((has_more,),) = await self._run("sweep_values", int4(_SWEEP_SLICES))
            if not has_more:
                return
            # The disk is for others half of the time.
            await self._clock.sleep(self._clock.monotonic() - began)

    async def fold_counts(self) -> None:
        while (await self._run("fold_counts"))[0][0]:
            pass
        await self._run("delete_empty_counts")
        await self._run("delete_old_writers")

    async def _repeat(self) -> None:
        while True:
            for work in (self.add_months, self.drop_months, self.fold_counts, self.sweep_values):
                try:
                    await work()
                except StoreError as error:
                    _log.warning(
                        "maintenance of the store failed",
                        extra={"work": work.__name__, "reason": error.message},
                    )
            await self._clock.sleep(_EVERY_S)

    async def _run(self, name: str, *params: bytes | None) -> list[Row]:
        async with self._lock:
            if self._idle_timer is not None:
                self._idle_timer.cancel()
            try:
                if self._connection is None or self._connection.closed is not None:
                    self._connection = await self._database.connect("maintain", statement_s=_STEP_S)
                return await self._connection.run(SQL[name], params)
            except ConnectionLost as error:
                raise self._database.unreachable(error) from error
            except DatabaseError as error:
                raise self._database.refused(error) from error
            finally:
                loop = asyncio.get_running_loop()
                self._idle_timer = loop.call_later(_IDLE_S, self._disconnect)

    def _disconnect(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
