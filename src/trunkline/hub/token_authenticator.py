"""`TokenAuthenticator`: the principals of the tokens that the hub issued.

It holds the tokens that were used last, and those that were refused last. Both are bounded, and
apart from each other, so that a flood of wrong tokens displaces no right one.
"""

import asyncio
import hmac
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.hub.token_values import (
    cookie_name,
    digest_of,
    id_of,
    looks_like_token,
)
from trunkline.hub.tokens import REFUSED, Tokens
from trunkline.model.errors import StoreError, Unauthenticated
from trunkline.model.principal import Principal
from trunkline.ports.authenticator import Headers
from trunkline.ports.clock import Clock
from trunkline.runtime.record_changes import RecordChanges

_log = logging.getLogger("trunkline.hub")

MAX_HELD: Final = 20_000
MAX_REFUSED: Final = 20_000
NOTE_USED_S: Final = 60.0
# The longest look-up. A store that another machine has may not answer at all.
_LOOK_UP_S: Final = 3.0


class _Held(Struct):
    principal: Principal
    digest: str
    expires_ms: float
    # The tokens that it was given for.
    parents: frozenset[str]
    used_ms: int
    # The last use that the store has.
    noted_ms: int = 0


class TokenAuthenticator:
    def __init__(
        self,
        tokens: Tokens,
        changes: RecordChanges,
        *,
        clock: Clock,
        max_held: int = MAX_HELD,
        max_refused: int = MAX_REFUSED,
    ) -> None:
        self._tokens = tokens
        self._changes = changes
        self._clock = clock
        self._max_held = max_held
        self._max_refused = max_refused
        self._cookie = cookie_name(tokens.style).encode()
        # By the ids of the tokens; the one that was used last is at the end.
        self._held: OrderedDict[str, _Held] = OrderedDict()
        # Digests of tokens that are unknown or have ended, and so are never valid again.
        self._refused: OrderedDict[str, None] = OrderedDict()
        # The last uses of tokens that are not held any more.
        self._used: dict[str, int] = {}
        # Rises when memory may have become wrong, so that a look-up which began before is not
        # held.
        self._generation = 0
        self._tasks = BackgroundTasks("tokens")
        changes.follow("token", self._follow_tokens)
        tokens.grants.on_change(self._grants_changed)

    def start(self) -> None:
        self._tasks.spawn(self._keep_noting(), name="last use of tokens")

    async def close(self) -> None:
        await self._tasks.close()
        try:
            await self.note_used()
        except StoreError as error:
            _log.warning(
                "the last use of tokens could not be recorded", extra={"reason": error.message}
            )

    def known(self, headers: Headers) -> Principal | None:
        credential = self._credential(headers)
        if credential is None or not self._changes.is_fresh:
            return None
        return self._in_memory(digest_of(credential))

    async def identify(self, headers: Headers) -> Principal | None:
        credential = self._credential(headers)
        if credential is None:
            return None
        digest = digest_of(credential)
        if self._changes.is_fresh:
            if digest in self._refused:
                raise Unauthenticated(REFUSED, has_credential=True)
            # Another request may have looked it up meanwhile. A cookie comes only here.
            held = self._in_memory(digest)
            if held is not None:
                return held
        return await self._look_up(digest)

    def _credential(self, headers: Headers) -> bytes | None:
        """The token in the headers; None without anything that could be one. A token that is stated
        goes before the cookie, which a browser sends by itself."""
        value = headers.get(b"authorization")
        if value is None:
            value = headers.get(b"x-api-key")
            if value is None:
                return self._session_cookie(headers.get(b"cookie"))
        elif value[:7].lower() == b"bearer ":
            value = value[7:].strip()
        return value if looks_like_token(value) else None

    def _session_cookie(self, header: bytes | None) -> bytes | None:
        if header is None:
            return None
        pairs = (pair.strip().partition(b"=") for pair in header.replace(b",", b";").split(b";"))
        values = [value for name, _, value in pairs if name == self._cookie]
        # A page of a sibling domain can add a cookie of the same name, but not take one away.
        if len(values) != 1 or not looks_like_token(values[0]):
            return None
        return values[0]

    def _in_memory(self, digest: str) -> Principal | None:
        token_id = id_of(digest)
        held = self._held.get(token_id)
        if held is None or not hmac.compare_digest(held.digest, digest):
            return None
        now_ms = self._clock.now_ms()
        if now_ms >= held.expires_ms:
            return None
        held.used_ms = now_ms
        self._held.move_to_end(token_id)
        return held.principal

    async def _look_up(self, digest: str) -> Principal:
        generation = self._generation
        try:
            async with asyncio.timeout(_LOOK_UP_S):
                valid = await self._tokens.read(digest)
        except Unauthenticated:
            self._drop(id_of(digest))
            self._refused[digest] = None
            if len(self._refused) > self._max_refused:
                self._refused.popitem(last=False)
            raise
        if generation == self._generation:
            self._hold(
                valid.token.id,
                _Held(
                    principal=valid.principal,
                    digest=digest,
                    expires_ms=valid.expires_ms,
                    parents=valid.parents,
                    used_ms=self._clock.now_ms(),
                ),
            )
        return valid.principal

    def _hold(self, token_id: str, held: _Held) -> None:
        before = self._held.pop(token_id, None)
        if before is not None:
            held.noted_ms = before.noted_ms
        self._held[token_id] = held
        if len(self._held) > self._max_held:
            self._drop(next(iter(self._held)))

    def _drop(self, token_id: str) -> None:
        held = self._held.pop(token_id, None)
        if held is not None and held.used_ms > held.noted_ms:
            self._used[token_id] = held.used_ms
            # More than this within a minute are more than lists need.
            if len(self._used) > self._max_held:
                del self._used[next(iter(self._used))]

    async def _follow_tokens(self, ids: Sequence[str] | None) -> None:
        self._generation += 1
        if ids is None:
            self._refused.clear()
        changed = None if ids is None else frozenset(ids)
        for token_id, held in [*self._held.items()]:
            if changed is None or token_id in changed or not held.parents.isdisjoint(changed):
                self._drop(token_id)

    def _grants_changed(self, principals: Sequence[str] | None) -> None:
        self._generation += 1
        changed = None if principals is None else frozenset(principals)
        for token_id, held in [*self._held.items()]:
            if changed is None or held.principal.id in changed:
                self._drop(token_id)

    async def note_used(self) -> None:
        """Record the last uses that the store does not have. Raises StoreError."""
        used, self._used = self._used, {}
        for token_id, held in self._held.items():
            if held.used_ms > held.noted_ms:
                used[token_id] = held.used_ms
                held.noted_ms = held.used_ms
        await self._tokens.note_used(used)

    async def _keep_noting(self) -> None:
        while True:
            await self._clock.sleep(NOTE_USED_S)
            try:
                await self.note_used()
            except StoreError as error:
                _log.warning(
                    "the last use of tokens could not be recorded", extra={"reason": error.message}
                )
