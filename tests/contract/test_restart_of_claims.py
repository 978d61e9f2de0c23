"""A store of one process ends the claims of the process before it when it is opened."""

from collections.abc import Callable
from pathlib import Path

import pytest

from trunkline.ports.clock import Clock
from trunkline.ports.records import Defer, Put
from trunkline.ports.store import Scope, Store
from trunkline.stores.jsonfile import JsonFileStore
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing import FakeClock
from trunkline.testing.stores.kit import key, must_change, opened

MakeStore = Callable[[Path, Clock], Store]


def json_files(folder: Path, clock: Clock) -> Store:
    return JsonFileStore(folder / "tasks", clock=clock, adopts=Scope("", "", ""))


def sqlite(folder: Path, clock: Clock) -> Store:
    return SqliteStore(folder / "tasks.db", clock=clock)


both = pytest.mark.parametrize("make", [sqlite, json_files])


@both
async def test_a_claim_ends_with_its_process(make: MakeStore, tmp_path: Path) -> None:
    clock = FakeClock()
    async with opened(lambda _: make(tmp_path, clock), "") as store:
        for name in ("a", "b"):
            await must_change(store, Put(key=key(name), due_in_ms=0))
        (first,) = await store.claim_due({"check.1": 9}, lease_ms=3_600_000)
        assert await store.claim_due({"check.1": 9}, lease_ms=3_600_000) == ()
    async with opened(lambda _: make(tmp_path, clock), "") as store:
        (again,) = await store.claim_due({"check.1": 9}, lease_ms=3_600_000)
    assert again.key == first.key == key("a")
    assert (again.version, again.attempts) == (first.version + 1, 2)


@both
async def test_a_deferred_record_still_waits(make: MakeStore, tmp_path: Path) -> None:
    """A gateway that restarts again and again must not use up the attempts."""
    clock = FakeClock()
    async with opened(lambda _: make(tmp_path, clock), "") as store:
        await must_change(store, Put(key=key("a"), due_in_ms=0))
        (claimed,) = await store.claim_due({"check.1": 9}, lease_ms=60_000)
        await must_change(store, Defer(key=key("a"), in_ms=5000, expected=claimed.version))
        await must_change(store, Put(key=key("b"), due_in_ms=0))
    for _ in range(3):
        async with opened(lambda _: make(tmp_path, clock), "") as store:
            assert await store.claim_due({"check.1": 9}, lease_ms=60_000) == ()
    await clock.advance(5.1)
    async with opened(lambda _: make(tmp_path, clock), "") as store:
        (again,) = await store.claim_due({"check.1": 9}, lease_ms=60_000)
    assert (again.key, again.attempts) == (key("a"), 2)
