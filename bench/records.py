"""What a record costs beside many others of its kind: CPU and time of put, get, page and claim.

PYTHONPATH=src:. python -m bench.records                 # in the environment of ./check, 60 s
PYTHONPATH=src:. python -m bench.records --size 10000    # the same size for every store

Fills one store with 1,000 records and one with many, then measures both in turns and takes the
mean: a store writes its log back only every few hundred puts, which a median would leave out.
Every record is due, so that a claim chooses among all of them. Put, get and page go to 1,000
records: with `--use spread` to those that lie evenly among all others, with `--use latest` to the
newest. With `--use any` they go to all records, and then most pages of a large database come from
the disk cache of the operating system. The CPU of PostgreSQL is that of its own processes.
"""

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.database import BenchDatabase
from trunkline.clock import SystemClock
from trunkline.ports.records import Delete, Key, Put
from trunkline.ports.store import Scope, Store
from trunkline.stores.jsonfile import JsonFileStore
from trunkline.stores.memory import MemoryStore
from trunkline.stores.postgres.store import PostgresStore
from trunkline.stores.sqlite import SqliteStore

SMALL = 1000
LIMITS = {"memory": 100_000, "sqlite": 1_000_000, "json-file": 10_000, "postgres": 1_000_000}
KIND = "bench.1"
BODY = b'{"text":"%s"}' % (b"x" * 200)
PER_SCOPE = 10
FILL_AT_ONCE = 500
PAGE = 50


def make(kind: str, folder: Path, database: BenchDatabase) -> Store:
    match kind:
        case "postgres":
            return PostgresStore(database.new_url())
        case "memory":
            return MemoryStore()
        case "sqlite":
            return SqliteStore(folder / "store.db")
        case _:
            return JsonFileStore(folder, clock=SystemClock(), adopts=Scope("", "", ""))


def put(number: int) -> Put:
    scope, tag = f"scope-{number // PER_SCOPE:07}", f"tag-{number // PAGE}"
    key = Key(KIND, scope, f"record-{number:08}")
    return Put(key=key, body=BODY, tags=(tag,), due_in_ms=0, expected=0)


class Filled:
    """An open store with records, and the four things that are measured on it."""

    def __init__(self, store: Store, size: int, use: str) -> None:
        self._store = store
        self._size = size
        # The records to use. A page of others comes behind each of them.
        first = size - SMALL if use == "latest" else 0
        self._used = range(first, size - PAGE, size // SMALL if use == "spread" else 1)
        self._next = size
        self._chance = random.Random(1)

    async def fill(self) -> None:
        for start in range(0, self._size, FILL_AT_ONCE):
            puts = [put(number) for number in range(start, min(start + FILL_AT_ONCE, self._size))]
            await self._store.change(*puts)

    def _some(self) -> Key:
        return put(self._chance.choice(self._used)).key

    async def put(self) -> None:
        """In the middle of the others: new records of scopes that exist."""
        self._next += 1
        key = Key(KIND, self._some().scope, f"new-{self._next}")
        await self._store.change(Put(key=key, body=BODY, tags=("new",), due_in_ms=0, expected=0))

    async def get(self) -> None:
        assert await self._store.record(self._some())

    async def page(self) -> None:
        assert len(await self._store.records(KIND, after=self._some(), limit=PAGE)) == PAGE

    async def claim(self) -> None:
        """Claim a record and put it back at the end of the line."""
        (record,) = await self._store.claim_due({KIND: 1}, lease_ms=60_000)
        await self._store.change(
            Delete(key=record.key, expected=record.version),
            Put(
                key=Key(KIND, record.key.scope, f"{record.key.id}~"),
                body=BODY,
                tags=record.tags,
                due_in_ms=0,
            ),
        )


Operation = Callable[[Filled], Awaitable[None]]
# What is measured, and how many at a time: a store commits puts that arrive together in one go.
OPERATIONS: dict[str, tuple[Operation, int]] = {
    "put, 1 at a time": (Filled.put, 1),
    "put": (Filled.put, 16),
    "get": (Filled.get, 16),
    "page": (Filled.page, 16),
    "claim": (Filled.claim, 16),
}
# Rounds that are not counted: the first time, a page comes from the file.
WARM_UP = 10
# Of each operation in a round; all numbers of operations at a time divide it.
COUNT = 320


async def cost_us(
    filled: Filled, operation: Operation, at_once: int, database: BenchDatabase
) -> tuple[float, float, float]:
    """CPU of the process, time that passes, and CPU of the database, for one operation."""

    async def several() -> None:
        for _ in range(COUNT // at_once):
            await operation(filled)

    cpu, passed, there = time.process_time(), time.perf_counter(), database.cpu_s()
    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(several())
    cpu, passed = time.process_time() - cpu, time.perf_counter() - passed
    there = database.cpu_s() - there
    return cpu / COUNT * 1e6, passed / COUNT * 1e6, there / COUNT * 1e6


async def measure(kind: str, size: int, rounds: int, use: str) -> None:
    with TemporaryDirectory(prefix="trunkline-records-") as folder, closing(BenchDatabase()) as db:
        stores = {number: make(kind, Path(folder, str(number)), db) for number in (SMALL, size)}
        filled: dict[int, Filled] = {}
        for number, store in stores.items():
            await store.open()
            filled[number] = Filled(store, number, use)
            await filled[number].fill()
        for name, (operation, at_once) in OPERATIONS.items():
            found: dict[int, list[tuple[float, float, float]]] = {number: [] for number in stores}
            for round_number in range(-WARM_UP, rounds):
                for number in stores:
                    cost = await cost_us(filled[number], operation, at_once, db)
                    if round_number >= 0:
                        found[number].append(cost)
            means = {
                number: [statistics.fmean(column) for column in zip(*costs, strict=True)]
                for number, costs in found.items()
            }
            (cpu, passed, there), (large_cpu, large_passed, large_there) = means[SMALL], means[size]
            print(
                f"| {kind} | {name} | {size:,} | {cpu:.0f} | {large_cpu:.0f} "
                f"| {large_cpu / cpu:.2f}× | {large_passed / passed:.2f}× "
                f"| {there:.0f} | {large_there:.0f} |",
                flush=True,
            )
        for store in stores.values():
            await store.close()


async def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.records")
    parser.add_argument("--size", type=int, help="records of the large store")
    parser.add_argument("--stores", default=",".join(LIMITS), help=f"of {', '.join(LIMITS)}")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--use", choices=("spread", "latest", "any"), default="spread")
    options = parser.parse_args()
    print(
        "| store | operation | records | µs of CPU at 1,000 | µs there | CPU | time "
        "| database at 1,000 | database there |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for kind in options.stores.split(","):
        await measure(kind, options.size or LIMITS[kind], options.rounds, options.use)


if __name__ == "__main__":
    asyncio.run(main())
