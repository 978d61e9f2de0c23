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
