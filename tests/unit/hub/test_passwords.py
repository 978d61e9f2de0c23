"""Hashes of passwords, beside the event loop and bounded."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from trunkline.hub.passwords import MAX_AT_ONCE, MAX_CHARS, MIN_CHARS, Passwords
from trunkline.model.errors import InvalidParams, Unavailable

PASSWORD = "correct horse"


@pytest.fixture
def passwords() -> Iterator[Passwords]:
    made = Passwords()
    yield made
    made.close()


async def test_only_the_password_fits_its_hash(passwords: Passwords) -> None:
    hashed = await passwords.hashed(PASSWORD)
    assert hashed.startswith("$argon2id$")
    assert PASSWORD not in hashed
    assert await passwords.fits(PASSWORD, hashed)
    assert not await passwords.fits(PASSWORD + "x", hashed)
    assert not await passwords.fits("", hashed)
    assert not await passwords.fits("\ud800", hashed)
    assert not await passwords.fits("x" * 10_000, hashed)
    # Each one is salted.
    assert await passwords.hashed(PASSWORD) != hashed


async def test_nothing_fits_a_user_without_a_password(passwords: Passwords) -> None:
    assert not await passwords.fits("", "")
    assert not await passwords.fits(PASSWORD, "")
    assert not await passwords.fits(PASSWORD, "not a hash")


async def test_an_unknown_user_costs_a_hash_as_well(
    passwords: Passwords, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified: list[str] = []
    hasher = passwords._hasher
    verify = hasher.verify

    def noted(_: object, hash: str, given: str) -> bool:
        verified.append(hash)
        return verify(hash, given)

    monkeypatch.setattr(type(hasher), "verify", noted)
    hashed = await passwords.hashed(PASSWORD)
    await passwords.fits("wrong wrong", hashed)
    await passwords.fits("wrong wrong", "")
    known, unknown = verified
    # The same parameters, so the same time.
    assert known.split("$")[:4] == unknown.split("$")[:4]


@pytest.mark.parametrize(
    "password", ["x" * (MIN_CHARS - 1), "x" * (MAX_CHARS + 1), "\ud800" * MIN_CHARS]
)
async def test_bad_passwords_are_refused_and_not_repeated(
    passwords: Passwords, password: str
) -> None:
    with pytest.raises(InvalidParams) as caught:
        await passwords.hashed(password)
    assert caught.value.violations[0].field == "password"
    assert password not in caught.value.message


async def test_a_flood_holds_neither_the_loop_nor_more_than_two_threads(
    passwords: Passwords,
) -> None:
    hashed = await passwords.hashed(PASSWORD)
    passes = 0

    async def count() -> None:
        nonlocal passes
        while True:
            passes += 1
            await asyncio.sleep(0)  # noqa: TID251 - one pass of the loop

    counting = asyncio.get_running_loop().create_task(count())
    flood = await asyncio.gather(
        *(passwords.fits("wrong wrong", hashed) for _ in range(MAX_AT_ONCE * 3)),
        return_exceptions=True,
    )
    counting.cancel()
    assert sum(each is False for each in flood) == MAX_AT_ONCE
    refused = [each for each in flood if isinstance(each, Unavailable)]
    assert len(refused) == MAX_AT_ONCE * 2
    assert refused[0].retry_after_s > 0
    # Each wrong password took a thread some milliseconds, and the loop went on meanwhile.
    assert passes > MAX_AT_ONCE
    working = [each for each in threading.enumerate() if each.name.startswith("passwords")]
    assert len(working) <= 2
    # Afterwards there is room again.
    assert await passwords.fits(PASSWORD, hashed)
