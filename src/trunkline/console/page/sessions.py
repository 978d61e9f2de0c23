"""`ConsoleSessions`: the sessions of browsers that show the page, as records of the main store.

A session has an opaque random text, which is in a cookie of the browser; the record has its SHA-256
alone. It stands for an operator on the machine of the gateway, or for the holder of an API key. So
a session survives a restart, and ends with its key.
"""

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trunkline.model.principal import Principal
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change, Delete, Key, Put, Record
from trunkline.ports.store import Store
from trunkline.runtime.due_work import DueKind

SESSION: Final = "console-session.1"
SESSION_S: Final = 7 * 86_400
# How the names of sessions begin in `Principal.token`. No API key has a colon in its name.
TOKEN: Final = "console:"
# For how long memory counts without a look at the store, where other gateways share it: a session
# that one of them ended is refused here after this time.
TRUST_S: Final = 1.0
_MAX_HELD: Final = 1000


class StoredSession(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of a record."""

    created_ms: int
    ends_ms: int
    # The name of the API key that it stands for; empty for an operator.
    key: str = ""
    # Tells whether the key of that name is still the same one. It is made with the secret of the
    # session, so that a weak key cannot be guessed from the store.
    proof: str = ""


class _Held(Struct, frozen=True):
    # None for a session that is not there.
    session: StoredSession | None
    read_at: float


def is_console(principal: Principal) -> bool:
    """Whether the principal is that of a session of the page."""
    return principal.token.startswith(TOKEN)


class ConsoleSessions:
    def __init__(
        self,
        *,
        open_main: Callable[[], Awaitable[Store]],
        is_shared: Callable[[], bool],
        operator: Callable[[], Principal],
        keys: Callable[[], Mapping[str, Principal]],
        clock: Clock,
    ) -> None:
        """`operator` is the principal of sessions that began on the machine of the gateway, and
        `keys` has the principals of the API keys by the SHA-256 of each."""
        self._open_main = open_main
        self._is_shared = is_shared
        self._operator = operator
        self._keys = keys
        self._clock = clock
        # By the ids of the records; the one that was used last is at the end.
        self._held: OrderedDict[str, _Held] = OrderedDict()

    def due_kind(self) -> DueKind:
        """Due work deletes the sessions that are over."""
        return DueKind(name=SESSION, handle=_forget)

    async def begin(self, *, key: str = "") -> str:
        """The secret of a new session. `key` is the SHA-256 of an API key, in hex. Raises
        StoreError."""
        secret = secrets.token_urlsafe(32)
        now_ms = self._clock.now_ms()
        session = StoredSession(
            created_ms=now_ms,
            ends_ms=now_ms + SESSION_S * 1000,
            key=self._keys()[key].id if key else "",
            proof=_proof(secret, key) if key else "",
        )
        record = _key(secret)
        store = await self._open_main()
        await store.change(
            Put(
                key=record,
                body=msgspec.json.encode(session),
                due_in_ms=SESSION_S * 1000,
                expected=0,
            )
        )
        self._hold(record.id, session)
        return secret

    async def end(self, secret: str) -> None:
        """End the session, if there is one. Raises StoreError."""
        record = _key(secret)
        self._held.pop(record.id, None)
        store = await self._open_main()
        await store.change(Delete(key=record))
        self._hold(record.id, None)

    async def principal(self, secret: str) -> Principal | None:
        """Whom the session stands for; None if there is none any more. Raises StoreError."""
        record = _key(secret)
        held = self._held.get(record.id)
        if held is None or self._is_old(held):
            session = await self._read(record)
            newer = self._held.get(record.id)
            if newer is held:
                self._hold(record.id, session)
            elif newer is not None:
                # The session may have ended while it was read.
                session = newer.session
        else:
            session = held.session
            self._held.move_to_end(record.id)
        if session is None or self._clock.now_ms() >= session.ends_ms:
            return None
        principal = self._operator() if not session.key else self._of_key(session, secret)
        if principal is None:
            return None
        return replace(principal, token=f"{TOKEN}{record.id[:12]}", ends_ms=session.ends_ms)

    def _of_key(self, session: StoredSession, secret: str) -> Principal | None:
        for digest, principal in self._keys().items():
            if principal.id == session.key:
                is_same = hmac.compare_digest(_proof(secret, digest), session.proof)
                return principal if is_same else None
        return None

    async def _read(self, key: Key) -> StoredSession | None:
        store = await self._open_main()
        found = await store.record(key)
        return None if found is None else msgspec.json.decode(found.body, type=StoredSession)

    def _is_old(self, held: _Held) -> bool:
        return self._is_shared() and self._clock.monotonic() - held.read_at >= TRUST_S

    def _hold(self, record: str, session: StoredSession | None) -> None:
        self._held[record] = _Held(session, self._clock.monotonic())
        self._held.move_to_end(record)
        if len(self._held) > _MAX_HELD:
            self._held.popitem(last=False)


def _key(secret: str) -> Key:
    return Key(SESSION, "", hashlib.sha256(secret.encode()).hexdigest())


def _proof(secret: str, key: str) -> str:
    return hmac.new(secret.encode(), key.encode(), hashlib.sha256).hexdigest()


async def _forget(_: Record) -> Sequence[Change]:
    return ()
