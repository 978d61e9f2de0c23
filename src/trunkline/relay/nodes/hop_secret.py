"""`HopSecret`: what relay nodes on one store know, and others do not.

It is a record of the store, made by the first node. A node replaces it every day; the one before
counts until the next time, for nodes that have not read the new one yet.
"""

import secrets
from typing import Final

import msgspec
from msgspec import Struct

from trunkline.model.errors import RecordConflict
from trunkline.ports.clock import Clock
from trunkline.ports.records import Key, Put
from trunkline.ports.store import Store

_KEY: Final = Key("relay-hop-secret.1", "", "")
_BYTES: Final = 32
REPLACED_AFTER_MS: Final = 24 * 3600 * 1000
# A connection with a credential that is not known has the record read again, at most this often.
_READ_AGAIN_S: Final = 1.0


class _Secrets(Struct, frozen=True, kw_only=True):
    current: str
    previous: str = ""
    made_ms: int

    def __repr__(self) -> str:
        return "_Secrets(…)"


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Secrets).decode


class HopSecret:
    """Its methods raise StoreError."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._read_at = 0.0
        self._known: tuple[bytes, ...] = ()

    async def current(self) -> bytes:
        """The secret for a new connection; of the store, because it may be new."""
        return (await self._read())[0]

    async def accepted(self, *, is_known: bool) -> tuple[bytes, ...]:
        """The secrets that count. With `is_known` false, one that came is none of those that this
        node has."""
        is_old = self._clock.monotonic() >= self._read_at + _READ_AGAIN_S
        if not self._known or (not is_known and is_old):
            await self._read()
        return self._known

    async def _read(self) -> tuple[bytes, ...]:
        began_at = self._clock.monotonic()
        record = await self._store.record(_KEY)
        found = None if record is None else _decode(record.body)
        version = 0 if record is None else record.version
        now_ms = self._clock.now_ms()
        if found is None or now_ms - found.made_ms >= REPLACED_AFTER_MS:
            previous = "" if found is None else found.current
            found = _Secrets(current=secrets.token_hex(_BYTES), previous=previous, made_ms=now_ms)
            try:
                await self._store.change(Put(key=_KEY, body=_encode(found), expected=version))
            except RecordConflict:
                # Another node was faster.
                return await self._read()
        self._read_at = began_at
        self._known = tuple(bytes.fromhex(each) for each in (found.current, found.previous) if each)
        return self._known
