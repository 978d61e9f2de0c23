"""Random changes, claims and restarts: a folder of JSON files and the databases have the same
records as a store in memory."""

import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.postgres.clock import DatabaseClock
from tests.unit.stores.jsonfiles import store_on

from trunkline.model.errors import StoreError
from trunkline.ports.clock import Clock
from trunkline.ports.records import Add, Change, Defer, Delete, Group, Put, Record
from trunkline.ports.store import Result, Store
from trunkline.stores.memory import MemoryStore
from trunkline.stores.postgres.store import PostgresStore
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing import FakeClock
from trunkline.testing.stores.kit import COMPLETED, change, create, key, put, with_groups

KIND = "check.1"
LEASE_MS = 3000
MAKERS: dict[str, Callable[[Path, Clock], Store]] = {
    "json-file": lambda path, clock: store_on(path / "tasks", clock=clock, log_bytes=3000),
    "sqlite": lambda path, clock: SqliteStore(path / "x.db", synchronous="normal", clock=clock),
}
SEEDS = [pytest.param(seed, marks=() if seed < 2 else pytest.mark.full) for seed in range(100)]


class Both:
    """The store and the model of it, which get the same calls."""

    def __init__(self, store: Store, model: MemoryStore, chance: random.Random) -> None:
        self.store = store
        self.model = model
        self._chance = chance
        self._tasks = 0
        # By id; a change refers to the version that somebody has read.
        self._seen: dict[str, Record] = {}

    def _change(self, name: str) -> Change:
        chance = self._chance
        place = key(name, scope=f"s{int(name) % 3}")
        seen = self._seen.get(name)
        expected = chance.choice([None, None, 0, seen.version if seen else 1])
        kind = chance.random()
        if kind < 0.5:
            return Put(
                key=place,
                body=b"%d" % chance.randrange(99),
                due_in_ms=chance.choice([None, 0, 500, 2500]),
                tags=tuple(chance.sample(["a", "b", "c"], chance.randrange(3))),
                goes_with_task=chance.random() < 0.5,
                expected=expected,
            )
        if kind < 0.7:
            return Delete(key=place, expected=expected)
        if kind < 0.85:
            return Add(key=place, amount=1, at_most=3)
        return Defer(key=place, in_ms=700, expected=seen.version if seen else 1)

    def _changes(self) -> tuple[Change, ...]:
        names = self._chance.sample("0123456789", self._chance.randrange(1, 4))
        return tuple([self._change(name) for name in names])

    async def change(self) -> None:
        changes = self._changes()
        results = [await change(store, *changes) for store in (self.store, self.model)]
        assert _same(results[0]) == _same(results[1])

    async def append(self) -> None:
        self._tasks += 1
        groups = [Group(self._changes(), is_required=number == 0) for number in range(2)]
        append = with_groups(create(f"t{self._tasks}", state=COMPLETED), *groups)
        results = [(await put(store, append))[0] for store in (self.store, self.model)]
        assert _same(results[0]) == _same(results[1])

    async def prune(self) -> None:
        gone = [await store.prune("agent", limit=2) for store in (self.store, self.model)]
        assert gone[0] == gone[1]

    async def claim(self) -> None:
        claims = [
            sorted(
                await store.claim_due({KIND: 9}, lease_ms=LEASE_MS), key=lambda each: each.key.id
            )
            for store in (self.store, self.model)
        ]
        assert claims[0] == claims[1]

    async def check(self) -> None:
        found = [await store.records(KIND, limit=99) for store in (self.store, self.model)]
        assert found[0] == found[1]
        for tag in "abc":
            tagged = [
                await store.records(KIND, tag=tag, limit=99) for store in (self.store, self.model)
            ]
            assert tagged[0] == tagged[1]
        self._seen = {record.key.id: record for record in found[0]}


def _same(result: Result) -> object:
    return result.message if isinstance(result, StoreError) else result


async def play(
    make: Callable[[Clock], Store],
    seed: int,
    *,
    set_time: Callable[[int], None] = lambda _: None,
    ends_claims: bool = True,
) -> None:
    """`set_time` is for a store whose clock is not that of the process."""
    chance, clock = random.Random(seed), FakeClock()
    both = Both(make(clock), MemoryStore(clock), chance)
    await both.store.open()
    await both.model.open()
    steps = [Both.change] * 8 + [Both.append] * 3 + [Both.claim] * 5 + [Both.prune]
    for _ in range(120):
        set_time(clock.now_ms())
        if chance.random() < 0.04:
            await both.store.close()
            both.store = make(clock)
            await both.store.open()
            if ends_claims:
                both.model._records.release_claims()
        await chance.choice(steps)(both)
        clock.jump(chance.choice([0, 0, 0.3, 2]))
        await both.check()
    await both.store.close()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", MAKERS)
async def test_records_are_those_of_the_model(tmp_path: Path, kind: str, seed: int) -> None:
    await play(lambda clock: MAKERS[kind](tmp_path, clock), seed)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", SEEDS[1:])
async def test_records_in_postgresql_are_those_of_the_model(postgres_url: str, seed: int) -> None:
    """A process that opens the store leaves the claims of others alone."""
    with closing(DatabaseClock(postgres_url)) as clock:
        await play(
            lambda _: PostgresStore(postgres_url, allow_unsafe=True),
            seed,
            set_time=clock.set,
            ends_claims=False,
        )
