"""`HubChanges`: changes of the hub's records, and how soon every node follows them.

Nodes keep agents and credentials in memory. Each change of the hub has a number: the version of one
record, the *head*, which every change raises in its own commit. A node reads the head several times
a second, and trusts its memory for `TRUST_S` after it found that it has seen all changes. So a
change holds everywhere after that time, also at a node that hears nothing; notices only make it
quicker. A call that takes rights away returns when that time is over.

In a store that belongs to one process, that process makes all changes itself.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.model.errors import RecordConflict, StoreError
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change, Key, Put, Record
from trunkline.ports.store import Store

_log = logging.getLogger("trunkline.hub")

HEAD: Final = Key("hub-head.1", "", "")
CHANGE: Final = "hub-change.1"
TOPIC: Final = "hub"

# For how long a node trusts its memory after a look at the head.
TRUST_S: Final = 1.0
_LOOK_S: Final = 0.25
# For how long a change can be looked up. A node that missed more reads everything again.
_KEPT_MS: Final = 3600 * 1000
# Changes at other nodes may come first again and again; each attempt reads the head anew.
_ATTEMPTS: Final = 50


class Touched(Struct, frozen=True, array_like=True):
    """A thing that a change is about."""

    kind: str
    id: str


# Told which ids of a kind have changed; None means any of them. Awaited before memory is trusted.
Follow: TypeAlias = Callable[[Sequence[str] | None], Awaitable[None]]
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[Touched, ...]).decode


class HubChanges:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._store: Store | None = None
        self._follow: dict[str, Follow] = {}
        self._tell: Callable[[], None] = lambda: None
        self._is_shared = False
        # The number of the last change that this node has followed.
        self._seen = 0
        # By the monotonic clock. For ever where no other process changes the store.
        self._trusted_until = -math.inf
        self._reading = asyncio.Lock()
        self._heard = asyncio.Event()
        self._tasks = BackgroundTasks("hub")

    @property
    def store(self) -> Store:
        """The main store. The hub is open."""
        assert self._store is not None, "the hub is not open"
        return self._store

    @property
    def is_fresh(self) -> bool:
        """Whether memory says what the store says, or said so less than `TRUST_S` ago."""
        return self._clock.monotonic() < self._trusted_until

    def follow(self, kind: str, follow: Follow) -> None:
        """Call `follow` with the ids of this kind that a change touched, at every node."""
        assert kind not in self._follow, f"two parts follow {kind}"
        self._follow[kind] = follow

    async def open(self, store: Store, *, is_shared: bool, tell: Callable[[], None]) -> None:
        """Read everything. `tell` tells the other nodes that there is a change. Raises
        StoreError."""
        self._store, self._is_shared, self._tell = store, is_shared, tell
        head = await store.record(HEAD)
        self._seen = _number(head)
        for follow in self._follow.values():
            await follow(None)
        if not is_shared:
            self._trusted_until = math.inf
            return
        await self.look()
        self._tasks.spawn(self._keep_looking(), name="hub changes")

    async def close(self) -> None:
        await self._tasks.close()

    def hear(self) -> None:
        """Another node has changed something."""
        self._heard.set()

    async def commit(
        self, *changes: Change, touched: Iterable[Touched], restricts: bool = False
    ) -> None:
        """Commit changes of records, and follow them here. With `restricts` it returns when no node
        trusts an older memory any more.

        Raises RecordConflict when a change itself expects another version, LimitReached, and
        StoreError.
        """
        things = tuple(touched)
        await self._commit(changes, things)
        self._tell()
        # Also for a caller that leaves: the change is made.
        await asyncio.shield(self._tasks.start(self.look(), name="follow own change"))
        if restricts and self._is_shared:
            await self._clock.sleep(TRUST_S)

    async def _commit(self, changes: tuple[Change, ...], things: tuple[Touched, ...]) -> None:
        for attempt in range(_ATTEMPTS):
            head = await self.store.record(HEAD)
            number = _number(head)
            noted = Put(
                key=Key(CHANGE, "", _id(number + 1)),
                body=_encode(things),
                due_in_ms=_KEPT_MS,
                expected=0,
            )
            try:
                await self.store.change(Put(key=HEAD, expected=number), noted, *changes)
                return
            except RecordConflict:
                # Another change came first, unless the conflict is one of the changes themselves.
                if _number(await self.store.record(HEAD)) == number or attempt == _ATTEMPTS - 1:
                    raise

    async def look(self) -> None:
        """Follow all changes up to now, and trust memory again. Raises StoreError."""
        asked = self._clock.monotonic()
        async with self._reading:
            number = _number(await self.store.record(HEAD))
            if number != self._seen:
                await self._catch_up(number)
                self._seen = number
            if self._is_shared:
                self._trusted_until = max(self._trusted_until, asked + TRUST_S)

    async def _catch_up(self, number: int) -> None:
        touched: dict[str, list[str]] | None = {}
        missing = range(self._seen + 1, number + 1)
        if not 0 < len(missing) <= 1000:
            touched = None
        else:
            after = Key(CHANGE, "", _id(self._seen))
            found = await self.store.records(CHANGE, scope="", after=after, limit=len(missing))
            if [record.key.id for record in found] != [_id(each) for each in missing]:
                touched = None
            for record in found if touched is not None else ():
                for thing in _decode(record.body):
                    assert touched is not None
                    touched.setdefault(thing.kind, []).append(thing.id)
        for kind, follow in self._follow.items():
            if touched is None or kind in touched:
                await follow(None if touched is None else touched[kind])

    async def _keep_looking(self) -> None:
        is_away = False
        while True:
            try:
                async with asyncio.timeout(_LOOK_S):
                    await self._heard.wait()
            except TimeoutError:
                pass
            self._heard.clear()
            try:
                await self.look()
                is_away = False
            except StoreError as error:
                if not is_away:
                    _log.warning(
                        "the hub cannot read its changes, so every request asks the store",
                        extra={"reason": error.message},
                    )
                is_away = True
            except Exception:  # noqa: BLE001 - logged; memory is not trusted until it succeeds
                _log.exception("the hub cannot follow a change")


def _number(head: Record | None) -> int:
    return 0 if head is None else head.version


def _id(number: int) -> str:
    return f"{number:016d}"
