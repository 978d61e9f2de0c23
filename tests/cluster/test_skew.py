"""Two nodes on PostgreSQL whose clocks differ by minutes: what is due, and what is old."""

import asyncio
from collections.abc import Sequence
from contextlib import closing
from typing import cast

from tests.cluster.postgres import on_postgres, until
from tests.postgres.clock import DatabaseClock

from trunkline.clock import SystemClock
from trunkline.model.errors import TaskNotFound
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change, Key, Put, Record
from trunkline.runtime.due_work import LEASE_S, DueKind, DueWork
from trunkline.stores.postgres.store import PostgresStore
from trunkline.testing import FakeClock

TEN_MINUTES_S, HOUR_S = 600.0, 3600.0
REMINDER = "reminder.1"


class SkewedClock(SystemClock):
    def __init__(self, skew_s: float) -> None:
        self._skew_s = skew_s
        self._passed_s = 0.0

    def let_pass(self, seconds: float) -> None:
        """Both clocks go forward."""
        self._passed_s += seconds

    def now_ms(self) -> int:
        return super().now_ms() + round((self._skew_s + self._passed_s) * 1000)

    def monotonic(self) -> float:
        return SystemClock.monotonic() + self._passed_s


class Reminders:
    """The due work of one node."""

    def __init__(self, url: str, skew_s: float) -> None:
        self.store = PostgresStore(url, allow_unsafe=True)
        # Which reminders the handler was called for. It never ends for a first call with `slow`.
        self.begun: list[str] = []
        self.said: list[str] = []
        self._looks = f"look-{skew_s:g}.1"
        self._looked = 0
        kinds = [
            DueKind(name=REMINDER, handle=self._say),
            DueKind(name=self._looks, handle=self._look),
        ]
        self._due = DueWork(store=self.store, clock=SkewedClock(skew_s), kinds=kinds)

    async def open(self) -> None:
        await self.store.open()
        self._due.start()

    async def remind(self, name: str, in_s: float) -> None:
        due_in_ms = round(in_s * 1000)
        await self.store.change(Put(key=Key(REMINDER, name, ""), due_in_ms=due_in_ms, expected=0))

    async def look(self) -> None:
        """Return when the node has claimed all that is due now and free."""
        number = self._looked + 1
        await self.store.change(Put(key=Key(self._looks, str(number), ""), due_in_ms=0))
        self._due.wake()

        async def has_looked() -> bool:
            return self._looked == number

        await until(has_looked)

    async def _look(self, _: Record) -> Sequence[Change]:
        self._looked += 1
        return ()

    async def _say(self, record: Record) -> Sequence[Change]:
        name = record.key.scope
        self.begun.append(name)
        if name == "slow" and record.attempts == 1:
            await asyncio.Event().wait()
        self.said.append(name)
        return ()

    async def close(self) -> None:
        await self._due.close(grace_s=0)
        await self.store.close()


async def test_due_work_goes_by_the_clock_of_the_database(postgres_url: str) -> None:
    behind, ahead = Reminders(postgres_url, -TEN_MINUTES_S), Reminders(postgres_url, TEN_MINUTES_S)
    both = (behind, ahead)

    async def look() -> tuple[list[str], list[str]]:
        """What was begun and said anywhere, once both nodes have looked."""
        for node in both:
            await node.look()
        return sorted(behind.begun + ahead.begun), sorted(behind.said + ahead.said)

    with closing(DatabaseClock(postgres_url)) as clock:
        try:
            for node in both:
                await node.open()
            await behind.remind("later", TEN_MINUTES_S / 2)
            assert await look() == ([], [])
            clock.skip(TEN_MINUTES_S / 2)
            assert await look() == (["later"], ["later"])
            # A claim is that of one node until its lease is over, by the database's clock too.
            await behind.remind("slow", 0)
            for _ in range(2):
                assert await look() == (["later", "slow"], ["later"])
            clock.skip(LEASE_S)
            assert await look() == (["later", "slow", "slow"], ["later", "slow"])
        finally:
            for node in both:
                await node.close()


async def test_retention_is_early_by_the_difference_at_most(cleared_postgres_url: str) -> None:
    """Times of tasks are those of the node where they ran."""
    # After the hour for which a clock has to be steady, it is ten minutes ahead.
    ahead = SkewedClock(TEN_MINUTES_S - HOUR_S)
    clocks = (ahead, SkewedClock(-TEN_MINUTES_S), SkewedClock(-2 * HOUR_S))
    async with on_postgres(cleared_postgres_url, count=0, retention_s=HOUR_S) as cluster:
        sweeper, behind, old = [await cluster.add(clock=_fake(clock)) for clock in clocks]
        kept = await behind.send("say kept")
        forgotten = await old.send("say forgotten")
        ahead.let_pass(HOUR_S)
        await sweeper.sweep()
        assert (await sweeper.get(kept.id)).id == kept.id
        try:
            await behind.get(forgotten.id)
        except TaskNotFound:
            return
        raise AssertionError("a task of two hours ago was kept")


def _fake(clock: Clock) -> FakeClock:
    return cast("FakeClock", clock)
