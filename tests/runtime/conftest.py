from collections.abc import Callable
from pathlib import Path

import pytest

from trunkline.ports.store import Scope, Store
from trunkline.stores.jsonfile import JsonFileStore
from trunkline.stores.memory import MemoryStore
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing import FakeClock


@pytest.fixture(params=["memory", "sqlite", "json-file"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Makes the store of the next process: it finds what the one before has left."""
    if request.param == "sqlite":
        return lambda: SqliteStore(tmp_path / "tasks.db", synchronous="normal")
    if request.param == "json-file":
        adopts = Scope("", "", "")
        return lambda: JsonFileStore(tmp_path / "tasks", clock=FakeClock(), adopts=adopts)
    memory = MemoryStore()
    return lambda: memory
