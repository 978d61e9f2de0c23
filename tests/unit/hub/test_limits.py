"""`AgentLimiter` on a store: what a message takes, and what comes back."""

import asyncio
from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest

from trunkline.hub import budgets
from trunkline.hub.agent_limits import AgentLimits
from trunkline.hub.limits import AgentLimiter, Place
from trunkline.hub.old_counts import OldCounts, delete_old
from trunkline.hub.rate_windows import RateWindows
from trunkline.hub.usage_figures import UsageFigures
from trunkline.model.calls import Refusal
from trunkline.model.errors import LimitReached, StoreUnusable, Unavailable
from trunkline.model.principal import Principal
from trunkline.model.values import Message, Part, Role, TaskState
from trunkline.ports.gate import Admission, Attempt, Usage
from trunkline.ports.records import Add, Key
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock

HANDLE = "a/b"
DAY_S = 24 * 3600
_numbers = count()


class Agents:
    def __init__(self, clock: FakeClock, *, is_shared: bool = False) -> None:
        self.store = MemoryStore(clock)
        self.limits: dict[str, AgentLimits] = {}
        self.place = Place(self.store, is_shared)
        self.is_away = False

    def limits_of(self, handle: str) -> AgentLimits | None:
        return self.limits.get(handle)

    def place_of(self, handle: str) -> Place:
        return self.place

    @property
    def is_fresh(self) -> bool:
        return not self.is_away

    async def renew(self) -> None:
        if self.is_away:
            raise StoreUnusable("/secret/path is gone")


class Bench:
    def __init__(self, *, is_shared: bool = False, **limits: Any) -> None:
        self.clock = FakeClock()
        self.agents = Agents(self.clock, is_shared=is_shared)
        self.agents.limits[HANDLE] = AgentLimits(**limits)
        self.limiter = AgentLimiter(clock=self.clock, agents=self.agents)
        self.last: Attempt
        self._is_open = False

    async def open(self) -> None:
        if not self._is_open:
            await self.agents.store.open()
        self._is_open = True

    async def ask(
        self, caller: str = "c", token: str = "", handle: str = HANDLE
    ) -> Admission | Refusal:
        await self.open()
        self.last = Attempt(
            id=str(next(_numbers)),
            at_ms=self.clock.now_ms(),
            principal=Principal(id=caller, token=token),
            tenant="",
            agent=handle,
            task_id="t",
            context_id="c",
            is_follow_up=False,
            message=Message(message_id="m", role=Role.USER, parts=(Part(text="hi"),)),
        )
        at_once = self.limiter.admit_at_once(self.last)
        return await self.limiter.admit(self.last) if at_once is None else at_once

    async def take(self, caller: str = "c", token: str = "", handle: str = HANDLE) -> str:
        """Commit what a message takes. Returns the reason of a refusal, or nothing."""
        admitted = await self.ask(caller, token, handle)
        if isinstance(admitted, Refusal):
            return f"{admitted.reason} at once"
        required = [each for group in admitted.also if group.is_required for each in group.changes]
        optional = [each for group in admitted.also for each in group.changes]
        try:
            await self.agents.store.change(*required)
        except LimitReached as error:
            refusal = admitted.refusal(error)
            self.limiter.settle(self.last, Usage(TaskState.REJECTED, None, refusal))
            return refusal.reason
        for change in optional[len(required) :]:
            await self.agents.store.change(change)
        return ""

    async def counts(self, kind: str = budgets.BUDGET) -> Mapping[str, int]:
        records = await self.agents.store.records(kind, limit=100)
        return {record.key.id: record.count for record in records}


async def test_a_count_that_is_too_high_is_read_before_the_next_message() -> None:
    bench = Bench(daily_budget_queries=1)
    assert [await bench.take() for _ in range(3)] == [
        "",
        "budget_exhausted",
        "budget_exhausted at once",
    ]
    bench.agents.limits[HANDLE] = AgentLimits(daily_budget_queries=2)
    assert await bench.take() == ""


async def test_what_comes_back_can_be_taken_again() -> None:
    bench = Bench(daily_budget_queries=1, daily_budget_per_caller=1, daily_budget_cost=4)
    admitted = await bench.ask()
    assert isinstance(admitted, Admission)
    await bench.agents.store.change(*admitted.also[0].changes)
    assert await bench.take() == "budget_exhausted"
    await bench.agents.store.change(*admitted.returns)
    assert set((await bench.counts()).values()) == {0}
    assert await bench.counts(budgets.COST) == {"a/b": 0}
    assert await bench.take() == ""


async def test_all_counts_are_taken_or_none() -> None:
    bench = Bench(daily_budget_per_caller=1)
    assert [await bench.take(caller) for caller in ("c", "c", "d")] == ["", "budget_exhausted", ""]
    assert await bench.counts() == {"a/b": 2, "a/b caller c": 1, "a/b caller d": 1}


@pytest.mark.parametrize("is_shared", [True, False])
async def test_a_rate_is_the_same_wherever_it_is_counted(is_shared: bool) -> None:
    bench = Bench(is_shared=is_shared, rate_per_caller=2, rate_window_s=60)
    took = [await bench.take(caller) for caller in ("c", "c", "d", "c", "c")]
    assert took[:3] == ["", "", ""]
    assert {each.removesuffix(" at once") for each in took[3:]} == {"rate_limited"}
    refusal = await bench.ask()
    assert isinstance(refusal, Refusal)
    bench.clock.jump(refusal.retry_after_s)
    assert await bench.take() == ""
    records = await bench.agents.store.records(budgets.RATE, limit=10)
    assert bool(records) == is_shared


async def test_a_message_that_is_refused_elsewhere_does_not_count_for_the_rate() -> None:
    bench = Bench(rate_per_caller=1)
    await bench.ask()
    bench.limiter.settle(bench.last, Usage(TaskState.REJECTED, None))
    assert isinstance(await bench.ask(), Admission)
    bench.limiter.settle(bench.last, Usage(TaskState.CANCELED, None))
    assert isinstance(await bench.ask(), Refusal)


async def test_the_cost_of_a_turn_takes_the_place_of_its_estimate() -> None:
    bench = Bench(daily_budget_cost=10, cost_estimate=4)
    admitted = await bench.ask()
    assert isinstance(admitted, Admission)
    assert admitted.settles is not None
    assert await bench.take() == ""
    (change,) = admitted.settles({"usage": {"totalTokens": 9}})
    assert isinstance(change, Add)
    await bench.agents.store.change(change)
    assert await bench.counts(budgets.COST) == {"a/b": 9}
    assert await bench.take() == "budget_exhausted"
    assert admitted.settles({}) == ()
    assert admitted.settles({"usage": {"totalTokens": 4}}) == ()


async def test_the_last_query_is_stored_once_a_second() -> None:
    bench = Bench()
    puts = []
    for _ in range(3):
        admitted = await bench.ask()
        assert isinstance(admitted, Admission)
        puts.append(len(admitted.also))
        bench.clock.jump(0.6)
    assert puts == [2, 1, 2]


async def test_figures_come_from_the_store() -> None:
    bench = Bench()
    figures = UsageFigures(clock=bench.clock, place_of=bench.agents.place_of)
    for _ in range(2):
        await bench.take()
    found = await figures.of((HANDLE, "no/one"))
    assert (found[HANDLE].queries_today, found[HANDLE].queries_all_time) == (2, 2)
    assert found[HANDLE].last_query_ms == bench.clock.now_ms()
    assert (found["no/one"].queries_today, found["no/one"].last_query_ms) == (0, None)


async def test_a_store_that_is_away_refuses_without_naming_it() -> None:
    bench = Bench()
    bench.agents.is_away = True
    with pytest.raises(Unavailable) as refused:
        await bench.ask()
    assert "secret" not in refused.value.message


async def test_counts_of_days_that_are_over_are_deleted() -> None:
    bench = Bench(is_shared=True, rate_per_caller=5, daily_budget_cost=500)
    for _ in range(6):
        await bench.take()
        bench.clock.jump(DAY_S)
    await delete_old(bench.agents.store, bench.clock.now_ms())
    for kind, left in ((budgets.BUDGET, 3), (budgets.COST, 3), (budgets.RATE, 0)):
        assert len(await bench.agents.store.records(kind, limit=100)) == left, kind
    # All queries of the agent still count.
    figures = UsageFigures(clock=bench.clock, place_of=bench.agents.place_of)
    found = (await figures.of((HANDLE,)))[HANDLE]
    assert (found.queries_today, found.queries_all_time) == (0, 6)
    assert await bench.counts(budgets.EARLIER) == {"": 3}


async def test_two_nodes_that_delete_the_same_counts_count_them_once() -> None:
    bench = Bench()
    for _ in range(3):
        await bench.take()
    bench.clock.jump(10 * DAY_S)
    now_ms = bench.clock.now_ms()
    store = bench.agents.store
    await asyncio.gather(*(delete_old(store, now_ms) for _ in range(3)))
    assert await bench.counts(budgets.EARLIER) == {"": 3}
    assert not await bench.counts()


async def test_a_hundred_thousand_old_counts_are_deleted_in_steps() -> None:
    store, clock = MemoryStore(), FakeClock()
    await store.open()
    for start in range(0, 100_000, 10_000):
        await store.change(
            *[
                Add(key=Key(budgets.BUDGET, "2020-01-01", f"a/{number}"), amount=1, at_most=9)
                for number in range(start, start + 10_000)
            ]
        )
    today = Key(budgets.BUDGET, budgets.day_of(clock.now_ms()), "a/b")
    await store.change(Add(key=today, amount=1, at_most=9))
    await delete_old(store, clock.now_ms())
    (left,) = await store.records(budgets.BUDGET, limit=10)
    assert left.key == today


async def test_a_clock_that_jumped_deletes_nothing_for_an_hour() -> None:
    bench = Bench()
    await bench.take()
    old = OldCounts(clock=bench.clock, stores=lambda: [bench.agents.store])
    old.start()
    bench.clock.jump(30 * DAY_S)
    await bench.clock.advance(3600)
    assert await bench.counts()
    await bench.clock.advance(200)
    assert not await bench.counts()
    await old.close()


def test_windows_of_callers_that_left_are_forgotten() -> None:
    windows = RateWindows()
    for number in range(50_000):
        assert windows.count("a/b", f"c{number}", "1", ends_s=60 * (number // 1000), at_most=1)
    assert len(windows) < 25_000
