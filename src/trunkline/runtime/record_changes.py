"""`RecordChanges`: changes of the records of a feature, and how soon every node follows them.

Nodes keep agents and credentials in memory. Each change of a feature, such as the hub, has a
number: the version of one record, the *head*, which every change raises in its own commit. A node
reads the head several times a second, and trusts its memory for `TRUST_S` after it began a look
that found all changes followed. So a change holds everywhere after that time, also at a node that
hears nothing; notices only make it quicker. A call that takes rights away returns when that time is
over.

In a store that belongs to one process, that process makes all changes itself, and trusts its memory
until a change cannot be followed.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.model.errors import LimitReached, RecordConflict, StoreError
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change, Key, Put, Record
from trunkline.ports.store import Store

_log = logging.getLogger("trunkline.records")

# For how long a node trusts its memory after a look at the head.
TRUST_S: Final = 1.0
LOOK_S: Final = 0.25
# For how long a change can be looked up. A node that missed more reads everything again.
_KEPT_MS: Final = 3600 * 1000
_MAX_READ: Final = 1000
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


class RecordChanges:
    def __init__(self, clock: Clock, *, feature: str) -> None:
        """`feature` is a part of the kinds of its records, so it never changes."""
        self._clock = clock
        self._feature = feature
        self.head: Final = Key(f"{feature}-head.1", "", "")
        # The kind of the records that say what a change was about.
        self.kind: Final = f"{feature}-change.1"
        # What the nodes tell each other.
        self.topic: Final = feature
        self._store: Store | None = None
        # The rows of the audit to commit with a change.
        self.note: Callable[[Sequence[Touched]], Sequence[Change]] = lambda _: ()
        self._follow: dict[str, Follow] = {}
        self._tell: Callable[[], None] = lambda: None
        self._is_shared = False
        # The number of the last change that this node has followed.
        self._seen = 0
        # By the monotonic clock.
        self._trusted_until = -math.inf
        # Looks are numbered, so that those who wait for one share the next.
        self._looking = asyncio.Lock()
        self._begun = 0
        self._done = 0
        # How many changes this node made, or may have made.
        self._changed = 0
        self._heard = asyncio.Event()
        self._is_away = False
        self._tasks = BackgroundTasks(f"{feature} changes")

    @property
    def store(self) -> Store:
        """The main store. The feature is open."""
        assert self._store is not None, f"the {self._feature} is not open"
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
        self._seen = _number(await store.record(self.head))
        for follow in self._follow.values():
            await follow(None)
        await self.look()
        self._tasks.spawn(self._look_when_heard(), name="hear of changes")
        if is_shared:
            self._tasks.spawn(self._look_again_and_again(), name="look at changes")

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
        changes += tuple(self.note(things))
        # In a task, because a caller that leaves must not keep the node from following the change.
        made = self._tasks.start(self._commit_and_follow(changes, things), name="change")
        error = await asyncio.shield(made)
        if error is not None:
            raise error
        if restricts and self._is_shared:
            await self._clock.sleep(TRUST_S)

    async def _commit_and_follow(
        self, changes: tuple[Change, ...], things: tuple[Touched, ...]
    ) -> StoreError | None:
        try:
            await self._commit(changes, things)
        except (RecordConflict, LimitReached) as error:
            return error
        except StoreError as error:
            # The answer may be lost, and the change made.
            self._distrust()
            return error
        self._distrust()
        self._tell()
        await self._try_to_look()
        return None

    def _distrust(self) -> None:
        """Trust memory no more until a look that begins from now on."""
        self._changed += 1
        self._trusted_until = -math.inf
        self._heard.set()

    async def _commit(self, changes: tuple[Change, ...], things: tuple[Touched, ...]) -> None:
        for attempt in range(_ATTEMPTS):
            head = await self.store.record(self.head)
            number = _number(head)
            noted = Put(
                key=Key(self.kind, "", _id(number + 1)),
                body=_encode(things),
                due_in_ms=_KEPT_MS,
                expected=0,
            )
            try:
                await self.store.change(Put(key=self.head, expected=number), noted, *changes)
                return
            except RecordConflict:
                # Another change came first, unless the conflict is one of the changes themselves.
                if (
                    _number(await self.store.record(self.head)) == number
                    or attempt == _ATTEMPTS - 1
                ):
                    raise

    async def look(self) -> None:
        """Follow all changes up to now, and trust memory again. Raises StoreError."""
        known = self._begun
        async with self._looking:
            # Another caller's look began after this call, so it saw all that this one asks for.
            if self._done > known:
                return
            self._begun += 1
            began_at, changed = self._clock.monotonic(), self._changed
            number = _number(await self.store.record(self.head))
            if number != self._seen:
                await self._catch_up(number)
                self._seen = number
            self._done = self._begun
            if self._changed == changed:
                self._trusted_until = began_at + TRUST_S if self._is_shared else math.inf

    async def _catch_up(self, number: int) -> None:
        touched = await self._touched_since(self._seen, number)
        for kind, follow in self._follow.items():
            if touched is None:
                await follow(None)
            elif kind in touched:
                await follow(touched[kind])

    async def _touched_since(self, seen: int, number: int) -> dict[str, list[str]] | None:
        """The ids that the changes after `seen` touched, by kind; None if they cannot be told."""
        missing = [_id(each) for each in range(seen + 1, min(number, seen + _MAX_READ) + 1)]
        if number < seen or number - seen > _MAX_READ:
            return None
        after = Key(self.kind, "", _id(seen))
        found = await self.store.records(self.kind, scope="", after=after, limit=len(missing))
        if [record.key.id for record in found] != missing:
            return None
        touched: dict[str, list[str]] = {}
        for record in found:
            for thing in _decode(record.body):
                ids = touched.setdefault(thing.kind, [])
                if thing.id not in ids:
                    ids.append(thing.id)
        return touched

    async def _look_again_and_again(self) -> None:
        while True:
            await self._clock.sleep(LOOK_S)
            await self._try_to_look()

    async def _look_when_heard(self) -> None:
        while True:
            await self._heard.wait()
            self._heard.clear()
            await self._try_to_look()
            while not self.is_fresh:
                await self._clock.sleep(LOOK_S)
                await self._try_to_look()

    async def _try_to_look(self) -> None:
        try:
            await self.look()
        except StoreError as error:
            if not self._is_away:
                _log.warning(
                    "changes cannot be read, so every request asks the store",
                    extra={"feature": self._feature, "reason": error.message},
                )
            self._is_away = True
        except Exception:  # noqa: BLE001 - logged; memory is not trusted until a look succeeds
            _log.exception("a change cannot be followed", extra={"feature": self._feature})
        else:
            self._is_away = False


def _number(head: Record | None) -> int:
    return 0 if head is None else head.version


def _id(number: int) -> str:
    return f"{number:016d}"
