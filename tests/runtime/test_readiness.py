"""When a runtime says that it should get no traffic, and why."""

import pytest
from tests.runtime.world import world

from trunkline.model.errors import StoreUnusable
from trunkline.stores.memory import MemoryStore


class Ailing(MemoryStore):
    """Has a problem until the next look finds it gone."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.ails: str | None = None
        self.fails = False

    @property
    def problem(self) -> str | None:
        return self.ails

    async def check(self) -> None:
        self.looks += 1
        if self.fails:
            raise StoreUnusable("no use")
        self.ails = None


async def test_a_runtime_is_ready_between_open_and_drain() -> None:
    async with world() as w:
        assert w.runtime.problems() == []
        w.runtime.stop_admitting()
        assert w.runtime.problems() == ["starting or shutting down"]


async def test_a_problem_of_the_store_shows_until_a_look_finds_it_gone() -> None:
    store = Ailing()
    async with world(store=store) as w:
        store.ails = "The store is full. Free some space."
        assert w.runtime.problems() == ["The store is full. Free some space."]
        assert store.looks == 0
        await w.clock.advance(5)
        assert store.looks == 1
        assert w.runtime.problems() == []


async def test_a_look_that_fails_is_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    store = Ailing()
    async with world(store=store) as w:
        store.fails = True
        await w.clock.advance(10)
        assert store.looks == 2
        assert [record.__dict__["reason"] for record in caplog.records] == ["no use"] * 2
