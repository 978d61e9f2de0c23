"""`LeaseListener`: the leases that the relay tells its other parts of."""

from collections.abc import AsyncIterator

import pytest
from tests.relay.apps import Told
from tests.relay.world import AGENT, RelayWorld, newest, open_relay

from trunkline.testing import settle


class Heard:
    def __init__(self, world: RelayWorld) -> None:
        self.told: list[str] = []
        self._relay = world.relay
        world.relay.listen(self)

    def leased(self, agent: str) -> None:
        # A listener may ask for the session at once.
        assert self._relay.find(agent) is not None
        self.told.append(f"leased {agent}")

    def released(self, agent: str) -> None:
        assert self._relay.find(agent) is None
        self.told.append(f"released {agent}")


@pytest.fixture
async def world() -> AsyncIterator[RelayWorld]:
    async with open_relay() as world:
        yield world


async def test_a_host_that_comes_and_stops_is_told(world: RelayWorld) -> None:
    heard = Heard(world)
    host = await world.attach(Told())
    assert heard.told == [f"leased {AGENT}"]
    world.tasks.spawn(host.drain(grace_s=1), name="drain")
    await settle()
    assert heard.told == [f"leased {AGENT}", f"released {AGENT}"]


async def test_a_lost_connection_releases_the_agent_when_its_session_ends(
    world: RelayWorld,
) -> None:
    heard = Heard(world)
    await world.attach(Told())
    world.wire.is_down = True
    world.wire.cut()
    await world.clock.advance(29)
    assert heard.told == [f"leased {AGENT}"]
    await world.clock.advance(2)
    assert heard.told == [f"leased {AGENT}", f"released {AGENT}"]


async def test_a_resumed_session_keeps_its_lease(world: RelayWorld) -> None:
    heard = Heard(world)
    await world.attach(Told())
    world.wire.cut()
    await world.clock.advance(2)
    assert world.relay.attached_agents == 1
    assert heard.told == [f"leased {AGENT}"]


async def test_an_agent_that_goes_to_another_host_is_not_released(world: RelayWorld) -> None:
    heard = Heard(world)
    await world.attach(Told())
    await world.attach(Told(), token="other-host-token")
    assert heard.told == [f"leased {AGENT}"] * 2


async def test_an_agent_that_a_host_offers_no_more_is_released(world: RelayWorld) -> None:
    heard = Heard(world)
    host = await world.attach(Told(), agents={AGENT: "me/helper", "acme/other": "me/other"})
    newest(host).session.offer([AGENT])
    newest(host).carrier.flush()
    await settle()
    assert heard.told == [f"leased {AGENT}", "leased acme/other", "released acme/other"]
