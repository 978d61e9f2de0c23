"""`SignInCodes`: the codes that are exchanged for a session, as records.

A code counts once, and only with the PKCE verifier that belongs to it. The record holds its digest.
It stays for a while after it was used: a second use tells that the code has leaked, and revokes
what the first one was given (RFC 6749, 4.1.2).
"""

import hashlib
import hmac
from collections.abc import Callable
from typing import Final, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trunkline.hub.sign_in_flow import VERIFIER, challenge_of
from trunkline.model.errors import InvalidParams, RecordConflict
from trunkline.ports.clock import Clock
from trunkline.ports.records import Key, Put
from trunkline.ports.store import Store

CODE: Final = "sign-in-code.1"
# RFC 6749, 4.1.2 allows 10 minutes. A program sends its code at once.
CODE_S: Final = 120
_KEPT_MS: Final = 3600 * 1000

# `program`: given to a program, for a session. `passwords`: of the gateway's own provider, for the
# callback.
Purpose: TypeAlias = Literal["program", "passwords"]


class CodeRefused(InvalidParams):
    """RFC 6749, 5.2: `invalid_grant`. The text is the same whatever is wrong."""


class _Code(Struct, frozen=True, kw_only=True, omit_defaults=True):
    purpose: Purpose
    login: str
    challenge: str
    expires_ms: int
    is_used: bool = False
    # The id of the credential that it was exchanged for.
    token: str = ""


class Redeemed(Struct, frozen=True):
    login: str
    key: Key
    version: int
    body: bytes


class Revoking(Protocol):
    async def revoke(self, token: str) -> None:
        """Revoke a credential by its id. Without one of this id it does nothing."""
        ...


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Code).decode


class SignInCodes:
    def __init__(
        self,
        store: Callable[[], Store],
        *,
        sessions: Revoking,
        clock: Clock,
        new_secret: Callable[[], str],
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._clock = clock
        self._new_secret = new_secret

    async def issue(self, login: str, *, challenge: str, purpose: Purpose) -> str:
        """Raises StoreError."""
        code = self._new_secret()
        body = _Code(
            purpose=purpose,
            login=login,
            challenge=challenge,
            expires_ms=self._clock.now_ms() + CODE_S * 1000,
        )
        await self._store().change(
            Put(key=_key(code), body=_encode(body), due_in_ms=_KEPT_MS, expected=0)
        )
        return code

    async def redeem(self, code: str, verifier: str, *, purpose: Purpose) -> Redeemed:
        """Use a code, for the only time. Raises CodeRefused and StoreError."""
        key = _key(code)
        record = await self._store().record(key)
        if record is None:
            raise refused()
        found = _decode(record.body)
        if found.purpose != purpose:
            raise refused()
        if found.is_used:
            await self._revoke(found, record.version, key)
            raise refused()
        # A code with a wrong verifier has leaked, so it is used up as well.
        fits = VERIFIER.fullmatch(verifier) is not None and hmac.compare_digest(
            challenge_of(verifier).encode(), found.challenge.encode()
        )
        used = _encode(replace(found, is_used=True))
        try:
            await self._store().change(
                Put(key=key, body=used, due_in_ms=_KEPT_MS, expected=record.version)
            )
        except RecordConflict:
            raise refused() from None
        if not fits or self._clock.now_ms() >= found.expires_ms:
            raise refused()
        return Redeemed(found.login, key, record.version + 1, used)

    async def exchanged(self, redeemed: Redeemed, *, token: str) -> None:
        """Remember what a code was exchanged for. Raises CodeRefused, after it has revoked the
        credential, when the code came again meanwhile."""
        body = _encode(replace(_decode(redeemed.body), token=token))
        try:
            await self._store().change(
                Put(key=redeemed.key, body=body, due_in_ms=_KEPT_MS, expected=redeemed.version)
            )
        except RecordConflict:
            await self._sessions.revoke(token)
            raise refused() from None

    async def _revoke(self, found: _Code, version: int, key: Key) -> None:
        if found.token:
            await self._sessions.revoke(found.token)
            return
        # The first use is not at its end: its `exchanged` meets another version, and revokes.
        try:
            await self._store().change(
                Put(key=key, body=_encode(found), due_in_ms=_KEPT_MS, expected=version)
            )
        except RecordConflict:
            record = await self._store().record(key)
            if record is not None and (token := _decode(record.body).token):
                await self._sessions.revoke(token)


def _key(code: str) -> Key:
    digest = hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()
    return Key(CODE, "", digest)


def refused() -> CodeRefused:
    return CodeRefused(
        "The code is not valid any more, or does not fit the code_verifier; sign in again"
    )
