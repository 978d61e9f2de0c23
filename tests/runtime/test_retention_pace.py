"""The sweep rests after each step, and longer while others commit."""

import itertools

import pytest
from tests.runtime.world import World, world

from trunkline.engine.retention import BUSY_REST, LONG_STEP_S, QUIET_REST
from trunkline.runtime.retention import MIN_STEP, STEP
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock

# Long runs of lines that other tests cover: traced, they take more than twice as long.
pytestmark = pytest.mark.no_cover

MANY = 2 * STEP
STEP_S = 0.01


class TimedStore(MemoryStore):
    """Takes its time to prune, and notes when it was asked, and for how much."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self._clock = clock
        self.step_s = STEP_S
        self.asked: list[tuple[float, int]] = []

    async def prune(self, agent: str, *, limit: int, before_ms: int | None = None) -> int:
        self.asked.append((round(self._clock.monotonic(), 6), limit))
        await self._clock.sleep(self.step_s)
        return await super().prune(agent, limit=limit, before_ms=before_ms)

    @property
    def pauses(self) -> list[float]:
        """Between the end of a step and the next one."""
        moments = [moment for moment, _ in self.asked]
        return [
            round(later - earlier - self.step_s, 6)
            for earlier, later in itertools.pairwise(moments)
        ]


async def filled(w: World) -> None:
    for _ in range(MANY):
        await w.send("say x")


async def sweep(w: World, *, sends: bool = False) -> None:
    """One sweep, with a send beside every step if so wanted."""
    sweeping = w.soon(w.sweep())
    while not sweeping.done():
        await w.clock.advance(STEP_S)
        if sends:
            await w.send("ask beside?")
    await sweeping


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def test_a_quiet_gateway_gives_half_of_its_time(clock: FakeClock) -> None:
    store = TimedStore(clock)
    async with world(store=store, clock=clock, retention_s=0.0, retention_max_tasks=1) as w:
        await filled(w)
        await sweep(w)
        assert len(await w.listed()) == 1
        assert len(store.pauses) > 3
        assert set(store.pauses) == {round(STEP_S * QUIET_REST, 6)}


async def test_a_busy_gateway_gives_a_fifth_of_its_time(clock: FakeClock) -> None:
    store = TimedStore(clock)
    async with world(store=store, clock=clock, retention_s=0.0, retention_max_tasks=1) as w:
        await filled(w)
        await sweep(w, sends=True)
        assert len(store.pauses) > 3
        assert set(store.pauses[1:-1]) == {round(STEP_S * BUSY_REST, 6)}


async def test_steps_that_take_long_become_smaller(clock: FakeClock) -> None:
    store = TimedStore(clock)
    store.step_s = 2 * LONG_STEP_S
    async with world(store=store, clock=clock, retention_s=0.0, retention_max_tasks=1) as w:
        await filled(w)
        await sweep(w)
        assert len(await w.listed()) == 1
        sizes = [limit for _, limit in store.asked]
        assert sizes[:4] == [STEP // 4, STEP // 8, STEP // 16, MIN_STEP]
        assert max(sizes) == STEP // 4


async def test_a_stop_does_not_wait_for_the_sweep(clock: FakeClock) -> None:
    store = TimedStore(clock)
    store.step_s = 1.0
    async with world(store=store, clock=clock, retention_s=10.0) as w:
        await filled(w)
        await clock.advance(61.5)
        assert len(store.asked) == 1
    assert len(store.asked) == 1
