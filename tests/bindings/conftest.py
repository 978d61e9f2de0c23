from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.bindings.clients import CLIENTS, Client
from tests.bindings.world import Database, World, open_world

from trunkline.stores.postgres.store import PostgresStore

# The dialects under which a database runs, where not under all of them.
_DIALECTS = {"sqlite": ("jsonrpc-1.0", "rest-0.3"), "postgres": ("jsonrpc-1.0",)}


@pytest.fixture(params=list(CLIENTS))
def dialect(request: pytest.FixtureRequest) -> str:
    """Every binding in every version, unless `over` names some."""
    name: str = request.param
    return name


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.full)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "postgres":
        url: str = request.getfixturevalue("cleared_postgres_url")
        request.getfixturevalue("monkeypatch").setitem(
            PostgresStore.__init__.__kwdefaults__, "allow_unsafe", True
        )
        return url
    return None if request.param == "memory" else tmp_path / "trunkline.db"


@pytest.fixture
async def world(database: Database) -> AsyncIterator[World]:
    async with open_world(database=database) as world:
        yield world


@pytest.fixture
def client(world: World, dialect: str) -> Client:
    return world.client(dialect)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The database runs under one dialect of each binding and version: which one makes no
    difference to it, and files take time."""
    dropped = [item for item in items if _is_one_too_many(item)]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in set(dropped)]


def _is_one_too_many(item: pytest.Item) -> bool:
    params = item.callspec.params if isinstance(item, pytest.Function) and _has(item) else {}
    runs_under = _DIALECTS.get(str(params.get("database")))
    return runs_under is not None and params.get("dialect", runs_under[0]) not in runs_under


def _has(item: pytest.Function) -> bool:
    return hasattr(item, "callspec")
