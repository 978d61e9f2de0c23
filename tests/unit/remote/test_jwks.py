"""The keys of an issuer: when they are asked for, and for how long they count."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from joserfc.jwk import ECKey
from tests.hub.jwt_issuer import Issuer, serving_keys

from trunkline.model.errors import Unavailable
from trunkline.protocol.jwt import is_signed, keys_in, read_jwt
from trunkline.remote.jwks import AGAIN_S, KEPT_S, TRUSTED_S, Jwks
from trunkline.testing import FakeClock


class World:
    def __init__(self, issuer: Issuer, clock: FakeClock) -> None:
        self.issuer, self.clock = issuer, clock
        self.jwks = Jwks("corp", url=issuer.url, clock=clock)

    async def accepts(self, key: str) -> bool:
        """Whether a token that this key signs is found to be signed."""
        return await self.verified(self.issuer.token({}, key=key))

    async def verified(self, text: str) -> bool:
        token = read_jwt(text.encode())
        assert token is not None
        return is_signed(token, await self.jwks.keys_for(token))


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    async with serving_keys() as issuer:
        it = World(issuer, FakeClock())
        yield it
        await it.jwks.close()


def new_key(name: str) -> ECKey:
    return ECKey.generate_key("P-256", {"kid": name})


async def test_known_keys_are_not_asked_for_again() -> None:
    async with world() as w:
        for _ in range(5):
            assert await w.accepts("ec")
        assert w.issuer.asked == 1


async def test_a_flood_of_unknown_keys_asks_once_in_a_while() -> None:
    async with world() as w:
        assert await w.accepts("ec")
        await w.clock.advance(AGAIN_S)
        stranger = Issuer()
        for number in range(20):
            stranger.keys[f"k{number}"] = new_key(f"k{number}")
            assert not await w.verified(stranger.token({}, key=f"k{number}"))
        assert w.issuer.asked == 2
        assert await w.accepts("ec")


async def test_a_withdrawn_key_does_not_count_for_long() -> None:
    async with world() as w:
        old = w.issuer.token({})
        assert await w.verified(old)
        w.issuer.keys = {"new": new_key("new")}
        await w.clock.advance(KEPT_S - 1)
        assert await w.verified(old)
        await w.clock.advance(1)
        assert not await w.verified(old)
        assert await w.accepts("new")


async def test_known_keys_count_for_an_hour_while_the_issuer_is_away() -> None:
    async with world() as w:
        assert await w.accepts("ec")
        w.issuer.status = 500
        await w.clock.advance(KEPT_S)
        assert await w.accepts("ec")
        await w.clock.advance(TRUSTED_S - KEPT_S)
        with pytest.raises(Unavailable):
            await w.accepts("ec")
        w.issuer.status = 200
        await w.clock.advance(AGAIN_S)
        assert await w.accepts("ec")


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"keys": 1}', b"x" * 600_000])
async def test_an_answer_that_is_no_key_set_changes_nothing(body: bytes) -> None:
    async with world() as w:
        assert await w.accepts("ec")
        w.issuer.body = body
        await w.clock.advance(KEPT_S)
        assert await w.accepts("ec")
        assert w.issuer.asked == 2


def test_only_strong_public_keys_for_signatures_are_taken() -> None:
    issuer = Issuer()
    assert len(keys_in(issuer.jwks())) == 3
    for text in (
        b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "ec"}]}',
        b'{"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB"}]}',
        b'{"keys": [7, {}, {"kty": "EC"}]}',
    ):
        assert keys_in(text) == []
