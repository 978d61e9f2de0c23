from collections.abc import Callable
from pathlib import Path

import pytest

from trunkline.ports.store import Store
from trunkline.stores.memory import MemoryStore
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    """The time of all processes of the test."""
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite"])
def make_store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock
) -> Callable[[], Store]:
    """Makes the main store of the next process: it finds what the one before has left."""
    if request.param == "sqlite":
        return lambda: SqliteStore(tmp_path / "main.db", synchronous="normal", clock=clock)
    memory = MemoryStore(clock)
    return lambda: memory
