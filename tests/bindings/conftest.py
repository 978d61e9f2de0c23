from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.bindings.clients import CLIENTS, Client
from tests.bindings.world import World, open_world


@pytest.fixture(params=list(CLIENTS))
def dialect(request: pytest.FixtureRequest) -> str:
    """Every binding in every version, unless `over` names some."""
    name: str = request.param
    return name


@pytest.fixture(params=["memory", "sqlite"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """None stands for the store in memory."""
    return None if request.param == "memory" else tmp_path / "trunkline.db"


@pytest.fixture
async def world(database: Path | None) -> AsyncIterator[World]:
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
    return params.get("database") == "sqlite" and params.get("dialect") in (
        "rest-1.0",
        "jsonrpc-0.3",
    )


def _has(item: pytest.Function) -> bool:
    return hasattr(item, "callspec")
