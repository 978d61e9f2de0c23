"""The stores that tests of the runtime run on, by name."""

from collections.abc import Callable
from pathlib import Path

from trunkline.ports.store import Scope, Store
from trunkline.stores.jsonfile import JsonFileStore
from trunkline.stores.memory import MemoryStore
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing import FakeClock

# Makes the store of a folder; made anew, a durable one has what the one before left.
MakeStore = Callable[[Path], Store]

DURABLE: dict[str, MakeStore] = {
    "sqlite": lambda folder: SqliteStore(folder / "store.db", synchronous="normal"),
    "json-file": lambda folder: JsonFileStore(
        folder / "tasks", clock=FakeClock(), adopts=Scope("", "", "")
    ),
}
STORES: dict[str, MakeStore] = {"memory": lambda _: MemoryStore(), **DURABLE}
