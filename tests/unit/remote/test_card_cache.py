"""A card that has gone stale, of a peer that does not give another one."""

import asyncio
from collections.abc import Mapping

import pytest

from trunkline.model.card import AgentCard
from trunkline.protocol import card_reading
from trunkline.remote.card_cache import CardCache, freshness_s
from trunkline.remote.errors import PeerTimeout
from trunkline.remote.http import Answer
from trunkline.remote.responses import ResponseReader
from trunkline.testing import FakeClock

BODY = b"""{"name": "Agent", "description": "Answers.", "version": "1", "capabilities": {},
    "defaultInputModes": [], "defaultOutputModes": [], "skills": [], "supportedInterfaces":
    [{"url": "http://127.0.0.1:9", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]}"""


class Peer:
    """Serves its card once; then it says nothing, or that it takes too long."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_silent = False

    async def fetch(self, headers: Mapping[str, str]) -> Answer:
        self.asked += 1
        if self.asked == 1:
            return Answer(200, {}, BODY)
        if self.is_silent:
            await asyncio.Event().wait()
        raise PeerTimeout("the agent took too long")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def cards(clock: FakeClock) -> CardCache:
    def read(body: bytes) -> AgentCard:
        return card_reading.decode(body)

    return CardCache(clock, ResponseReader(clock, lambda: ()), read)


async def test_not_every_call_waits_for_a_card_that_does_not_come(
    cards: CardCache, clock: FakeClock
) -> None:
    peer = Peer()
    known = await cards.for_call(peer.fetch)
    await clock.advance(1000)
    found = await asyncio.gather(*[cards.for_call(peer.fetch) for _ in range(5)])
    assert {one.card.name for one in found} == {known.card.name}
    assert peer.asked == 2
    # A while later it is worth another question.
    await clock.advance(61)
    await cards.for_call(peer.fetch)
    assert peer.asked == 3


async def test_a_call_that_gave_up_on_the_card_spares_the_next_one(
    cards: CardCache, clock: FakeClock
) -> None:
    peer = Peer()
    await cards.for_call(peer.fetch)
    await clock.advance(1000)
    peer.is_silent = True
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await cards.for_call(peer.fetch)
    assert (await cards.for_call(peer.fetch)).card.name == "Agent"
    assert peer.asked == 2


async def test_who_wants_a_fresh_card_learns_that_there_is_none(
    cards: CardCache, clock: FakeClock
) -> None:
    peer = Peer()
    await cards.for_call(peer.fetch)
    await clock.advance(1000)
    await cards.for_call(peer.fetch)
    with pytest.raises(PeerTimeout):
        await cards.card(peer.fetch, fresh=True)


async def test_all_who_wait_for_a_card_learn_at_once_that_it_does_not_come(
    cards: CardCache, clock: FakeClock
) -> None:
    asked = 0

    async def fetch(headers: Mapping[str, str]) -> Answer:
        nonlocal asked
        asked += 1
        await clock.sleep(15)
        raise PeerTimeout("the agent took too long")

    waiting = asyncio.gather(*[cards.for_call(fetch) for _ in range(5)], return_exceptions=True)
    await clock.advance(15)
    errors = await waiting
    assert [str(error) for error in errors] == ["the agent took too long"] * 5
    # For the circuit of the peer it is one failure.
    assert [getattr(error, "is_noted", None) for error in errors] == [False] + [True] * 4
    assert asked == 1
    # The next one to ask asks the peer again.
    later = asyncio.gather(cards.for_call(fetch), return_exceptions=True)
    await clock.advance(15)
    assert await later
    assert asked == 2


@pytest.mark.parametrize(
    ("control", "expected"),
    [
        ("", 300.0),
        ("public, max-age=60", 60.0),
        ("MAX-AGE = 5", 5.0),
        ("no-store", 0.0),
        ("no-cache, max-age=60", 0.0),
        ("max-age=x", 300.0),
    ],
)
def test_freshness(control: str, expected: float) -> None:
    assert freshness_s({"cache-control": control}) == expected
