from collections.abc import AsyncIterator

import pytest
from tests.bindings.clients import CLIENTS, Client
from tests.relay.gateways import RelayedWorld, open_relayed_world

# The relay reads no A2A, so what passes in one version passes in the other.
_ALWAYS = ("jsonrpc-1.0", "rest-0.3")


@pytest.fixture(
    params=[
        name if name in _ALWAYS else pytest.param(name, marks=pytest.mark.full) for name in CLIENTS
    ]
)
def dialect(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RelayedWorld]:
    async with open_relayed_world(monkeypatch) as world:
        yield world


@pytest.fixture
def client(world: RelayedWorld, dialect: str) -> Client:
    return world.client(dialect)
