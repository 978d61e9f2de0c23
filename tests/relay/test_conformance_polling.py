"""The cases of `tests/bindings` with a relay that the gateway of the agent reaches by long poll."""

from collections.abc import AsyncIterator

import pytest
import tests.relay.test_conformance as conformance
from tests.relay.gateways import RelayedWorld, open_relayed_world

pytestmark = pytest.mark.full


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RelayedWorld]:
    async with open_relayed_world(monkeypatch, transport="long-poll") as world:
        yield world
        assert len(world.wire.ends) == 0


for name, case in vars(conformance).items():
    if name.startswith("test_") and "__" in name:
        globals()[name] = case
