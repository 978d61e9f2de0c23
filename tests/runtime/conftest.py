from collections.abc import Callable
from pathlib import Path

import pytest
from tests.runtime.stores import POSTGRES_URL

from trunkline.ports.store import Scope, Store
from trunkline.stores.jsonfile import JsonFileStore
from trunkline.stores.memory import MemoryStore
from trunkline.stores.postgres.store import PostgresStore
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing import FakeClock


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A database takes time, and what an agent may answer does not depend on it."""
    for item in items:
        if item.path.stem == "test_output_modes" and "[postgres" in item.name:
            item.add_marker(pytest.mark.full)


@pytest.fixture(params=["memory", "sqlite", "json-file", "postgres"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Makes the store of the next process: it finds what the one before has left."""
    if request.param == "sqlite":
        return lambda: SqliteStore(tmp_path / "tasks.db", synchronous="normal")
    if request.param == "json-file":
        adopts = Scope("", "", "")
        return lambda: JsonFileStore(tmp_path / "tasks", clock=FakeClock(), adopts=adopts)
    if request.param == "postgres":
        url: str = request.getfixturevalue("cleared_postgres_url")
        return lambda: PostgresStore(url, allow_unsafe=True)
    memory = MemoryStore()
    return lambda: memory


@pytest.fixture(autouse=True)
def database_of_folder(request: pytest.FixtureRequest) -> None:
    """Gives a test on PostgreSQL a database, which `tests.runtime.stores` finds by its folder."""
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    if "postgres" in params.values():
        folder: Path = request.getfixturevalue("tmp_path")
        (folder / POSTGRES_URL).write_text(request.getfixturevalue("cleared_postgres_url"))
