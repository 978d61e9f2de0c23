"""Relays that fail, stop and come back in any order: the host always ends up at the first one."""

import random
from typing import Any

import pytest
from tests.relay.apps import Scripted
from tests.relay.relays import Relays, open_relays
from tests.relay.world import AGENT, Get, RelayWorld

from trunkline.relay.hosts.host import Host, HostState
from trunkline.testing import settle

# Runs long, over lines that other tests cover.
pytestmark = pytest.mark.no_cover

# A relay is dialed again after a minute at most, an attempt may take 15 seconds, and a connection
# counts as stable after ten.
_ALL_IS_WELL_S = 100


def seeds(few: int, all_of_them: int) -> list[Any]:
    return [
        seed if seed < few else pytest.param(seed, marks=pytest.mark.full)
        for seed in range(all_of_them)
    ]


class Trouble:
    def __init__(self, relays: Relays, chance: random.Random) -> None:
        self._relays = relays
        self._chance = chance

    def happen(self) -> None:
        relays, name = self._relays, self._chance.choice([*self._relays.at])
        match self._chance.choice(("cut", "cut", "down", "up", "up", "silent")):
            case "cut":
                self._cut(name)
            case "down":
                relays.down.add(name)
                self._cut(name)
            case "silent":
                relays.silent.add(name)
            case _:
                relays.down.discard(name)
                relays.silent.discard(name)

    def end(self) -> None:
        self._relays.down.clear()
        self._relays.silent.clear()

    def _cut(self, name: str) -> None:
        for end in self._relays.open_ends(name):
            end.cut()


def is_attached(world: RelayWorld) -> bool:
    attached = world.relay.find(AGENT)
    return attached is not None and attached.session.is_connected


@pytest.mark.parametrize("seed", seeds(1, 25))
@pytest.mark.parametrize("is_one", [False, True], ids=["apart", "one"])
async def test_whatever_happens_the_host_returns_to_the_first_relay(
    seed: int, is_one: bool
) -> None:
    """The addresses are of relays that know nothing of each other, or all of the same one."""
    chance = random.Random(seed)
    async with open_relays(3) as relays:
        if is_one:
            relays.at = dict.fromkeys(relays.at, relays.worlds[0])
        app = Scripted()
        host = await relays.attach(app, relays=3, chance=chance.random)
        trouble = Trouble(relays, chance)
        for _ in range(30):
            trouble.happen()
            await settle()
            check(host, relays)
            await relays.clock.advance(chance.choice((0.1, 0.7, 3, 12, 40)))
            check(host, relays)
        trouble.end()
        await relays.clock.advance(_ALL_IS_WELL_S)
        assert [is_attached(world) for world in relays.worlds] == [True, False, False]
        assert [len(relays.open_ends(name)) for name in relays.at] == [1, 0, 0]
        assert host.status.relay == "one.example"
        assert len(host._attachments) == 1
        relays.dialed.clear()
        await relays.clock.advance(70)
        assert relays.dialed == []


def check(host: Host, relays: Relays) -> None:
    """What the host says is so at the relays, as far as they know it."""
    status = host.status
    if status.state is HostState.ATTACHED:
        assert is_attached(relays.at[status.relay])
    # At most one connection to each relay that is used, and one that is left.
    assert len(host._attachments) <= 2 * len(relays.worlds)


@pytest.mark.parametrize("seed", seeds(1, 10))
async def test_relays_that_restart_one_after_the_other_drop_no_stream(seed: int) -> None:
    """Each relay of a balanced address stops in turn; a stream that has begun goes on."""
    chance = random.Random(seed)
    async with open_relays(3) as relays:
        app = Scripted()
        await relays.attach(app, relays=1, chance=chance.random)
        one, two, three = relays.worlds
        for now, following in ((one, two), (two, three)):
            async with now.http.open(Get().http) as response:
                await settle()
                relays.at["one.example"] = following
                stopping = now.tasks.start(now.relay.drain(grace_s=30), name="drain")
                await relays.clock.advance(chance.random() * 3)
                app.requests[-1].say(b"data: 1\n\n", is_last=True)
                chunks = [chunk async for chunk in response.chunks()]
                assert b"".join(chunks) == b"data: 1\n\n"
            await relays.clock.advance(3)
            assert stopping.done()
            assert is_attached(following)
