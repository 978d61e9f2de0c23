"""Codes that count once: with their verifier, in time, and never again."""

import asyncio
from typing import Any

import pytest

from trunkline.hub.sign_in_codes import CODE, CODE_S, CodeRefused, Purpose, Redeemed, SignInCodes
from trunkline.hub.sign_in_flow import challenge_of
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock

VERIFIER = "v" * 43
WRONG = "w" * 43


class Revoked:
    def __init__(self) -> None:
        self.tokens: list[str] = []

    async def revoke(self, token: str) -> None:
        self.tokens.append(token)


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(self.clock)
        self.revoked = Revoked()
        numbers = iter(range(1000))
        # Two nodes that share the store.
        self.here, self.there = (
            SignInCodes(
                lambda: self.store,
                sessions=self.revoked,
                clock=self.clock,
                new_secret=lambda: f"code-{next(numbers):040d}",
            )
            for _ in range(2)
        )

    async def code(self, purpose: Purpose = "program") -> str:
        return await self.here.issue("ada", challenge=challenge_of(VERIFIER), purpose=purpose)


@pytest.fixture
async def world() -> World:
    world = World()
    await world.store.open()
    return world


async def refused(codes: SignInCodes, code: str, verifier: str = VERIFIER, **more: Any) -> str:
    with pytest.raises(CodeRefused) as caught:
        await codes.redeem(code, verifier, **{"purpose": "program", **more})
    return caught.value.message


async def test_a_code_counts_once_at_any_node(world: World) -> None:
    code = await world.code()
    redeemed = await world.there.redeem(code, VERIFIER, purpose="program")
    assert redeemed.login == "ada"
    await world.there.exchanged(redeemed, token="tok_1")
    await refused(world.here, code)


async def test_every_refusal_reads_the_same(world: World) -> None:
    used, wrong, late, other = [await world.code() for _ in range(4)]
    await world.here.redeem(used, VERIFIER, purpose="program")
    said = {
        await refused(world.here, "unknown"),
        await refused(world.here, ""),
        await refused(world.here, "é" * 10_000),
        await refused(world.here, used),
        await refused(world.here, wrong, WRONG),
        await refused(world.here, other, purpose="passwords"),
    }
    await world.clock.advance(CODE_S)
    said.add(await refused(world.here, late))
    assert len(said) == 1


@pytest.mark.parametrize(
    "verifier", [WRONG, "", "v", "v" * 42, "v" * 129, "v" * 42 + " ", "é" * 43]
)
async def test_a_wrong_verifier_uses_the_code_up(world: World, verifier: str) -> None:
    code = await world.code()
    await refused(world.here, code, verifier)
    await refused(world.here, code, VERIFIER)


async def test_the_code_of_one_purpose_stays_good_for_its_own(world: World) -> None:
    code = await world.code("passwords")
    await refused(world.here, code)
    assert (await world.here.redeem(code, VERIFIER, purpose="passwords")).login == "ada"


async def test_a_replayed_code_revokes_what_it_gave(world: World) -> None:
    code = await world.code()
    redeemed = await world.here.redeem(code, VERIFIER, purpose="program")
    await world.here.exchanged(redeemed, token="tok_1")
    assert world.revoked.tokens == []
    # Whoever replays it need not know the verifier.
    await refused(world.there, code, WRONG)
    assert world.revoked.tokens == ["tok_1"]


async def test_a_replay_before_the_session_is_noted_revokes_it_too(world: World) -> None:
    code = await world.code()
    redeemed = await world.here.redeem(code, VERIFIER, purpose="program")
    await refused(world.there, code)
    assert world.revoked.tokens == []
    with pytest.raises(CodeRefused):
        await world.here.exchanged(redeemed, token="tok_1")
    assert world.revoked.tokens == ["tok_1"]


async def test_of_two_at_the_same_time_one_gets_it(world: World) -> None:
    code = await world.code()
    found = await asyncio.gather(
        *(
            codes.redeem(code, VERIFIER, purpose="program")
            for codes in (world.here, world.there) * 5
        ),
        return_exceptions=True,
    )
    assert sum(isinstance(each, Redeemed) for each in found) <= 1
    assert all(isinstance(each, Redeemed | CodeRefused) for each in found)


async def test_the_store_does_not_hold_the_code(world: World) -> None:
    code = await world.code()
    (record,) = await world.store.records(CODE, limit=10)
    assert code not in record.key.id
    assert code.encode() not in record.body
    assert VERIFIER.encode() not in record.body
    assert record.due_ms is not None
