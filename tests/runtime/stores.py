"""The stores that tests of the runtime run on, by name, and slow ones."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from trunkline.ports.store import Append, Result, Scope, Settled, Store, StoredTask
from trunkline.stores.jsonfile import JsonFileStore
from trunkline.stores.memory import MemoryStore
from trunkline.stores.postgres.store import PostgresStore
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing import FakeClock

# The file in a folder that leads to its database: see the conftest of these tests.
POSTGRES_URL = "postgres.url"

# Makes the store of a folder, and takes a clock as well; made anew, a durable one has what the
# one before left.
MakeStore = Callable[..., Store]


def _sqlite(folder: Path, clock: FakeClock | None = None) -> Store:
    return SqliteStore(folder / "store.db", synchronous="normal", clock=clock)


def _json_files(folder: Path, clock: FakeClock | None = None) -> Store:
    return JsonFileStore(folder / "tasks", clock=clock or FakeClock(), adopts=Scope("", "", ""))


def _postgres(folder: Path, clock: FakeClock | None = None) -> Store:
    # PostgreSQL goes by its own clock.
    return PostgresStore((folder / POSTGRES_URL).read_text(), allow_unsafe=True)


def _memory(_: Path, clock: FakeClock | None = None) -> Store:
    return MemoryStore(clock)


# Stores of this process, which go by the clock of the test.
LOCAL: dict[str, MakeStore] = {"memory": _memory, "sqlite": _sqlite, "json-file": _json_files}
STORES: dict[str, MakeStore] = {**LOCAL, "postgres": _postgres}
DURABLE: dict[str, MakeStore] = {name: make for name, make in STORES.items() if name != "memory"}


class SlowReads(MemoryStore):
    """Reads as of the moment it is asked, and hands some of it out when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[asyncio.Event] = []
        self.holds = 0

    async def get(self, scope: Scope, task_id: str) -> StoredTask | None:
        stored = await super().get(scope, task_id)
        if self.holds:
            self.holds -= 1
            go = asyncio.Event()
            self.held.append(go)
            await go.wait()
        return stored

    def hold(self, count: int) -> None:
        self.holds = count

    def let_go(self) -> None:
        for go in self.held:
            go.set()


class AheadStore(MemoryStore):
    """Commits at once and tells later, as a store with a thread of its own may."""

    def __init__(self) -> None:
        super().__init__()
        self.is_held = False
        self.held: list[tuple[Settled, Result]] = []

    def submit(self, appends: Sequence[tuple[Append, Settled]]) -> None:
        if not self.is_held:
            super().submit(appends)
            return
        self.held += [(settled, self._apply(append)) for append, settled in appends]

    def tell(self) -> None:
        held, self.held = self.held, []
        for settled, result in held:
            settled(result)
