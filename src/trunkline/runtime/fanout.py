"""Readers of committed entries: bounded, so that a slow one costs only itself."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from trunkline.model.events import ARTIFACT, Entry
from trunkline.model.values import TaskArtifactUpdateEvent, TaskState

# One reader may hold this much before it is cut off, whatever the number of entries.
# It is a few seconds of a fast stream; a reader that is further behind does better by
# resuming from the journal.
MAX_PENDING_BYTES = 8 * 1024 * 1024


class Opening(Struct, frozen=True):
    """The task as of `seq`; what follows continues right after it."""

    seq: int
    task: bytes


class Reply(Struct, frozen=True):
    """A direct answer: the stream's only item."""

    message: bytes


class Gap(Struct, frozen=True):
    """The journal no longer has what comes after `after`; it resumes at `resumes_at`."""

    after: int
    resumes_at: int


class CutOff(Struct, frozen=True):
    """The stream ends early; the reader can resume after `seq`."""

    reason: str
    seq: int


class Beat(Struct, frozen=True):
    """Nothing happened, and the stream is alive."""


Item: TypeAlias = Entry | Opening | Reply | Gap | CutOff | Beat

_BEAT = Beat()


class Subscription:
    """What one reader has not been sent yet. Pushed to by the journal, read by one task."""

    __slots__ = (
        "_bytes",
        "_closes_on",
        "_is_ended",
        "_items",
        "_limit",
        "_on_close",
        "_replay",
        "_waiter",
    )

    def __init__(self, *, closes_on: frozenset[TaskState], limit: int) -> None:
        self._closes_on = closes_on
        self._limit = limit
        self._items: list[Item] = []
        self._bytes = 0
        self._is_ended = False
        self._waiter: asyncio.Future[None] | None = None
        self._on_close: Callable[[Subscription], None] | None = None
        self._replay: Callable[[], Awaitable[None]] | None = None

    def opened_by(self, on_close: Callable[["Subscription"], None]) -> None:
        """Who is told when the reader leaves."""
        self._on_close = on_close

    def replay_by(self, replay: Callable[[], Awaitable[None]] | None) -> None:
        """Ask it for more whenever nothing is pending, until it is None again.

        So a long journal is read as fast as the reader takes it, and never piles up.
        """
        self._replay = replay

    def feed(self, entries: Sequence[Entry]) -> None:
        """Entries that the reader asked for: no reason to call it slow."""
        for entry in entries:
            if self._is_ended:
                return
            self._items.append(entry)
            self._bytes += len(entry.body)
            if entry.kind != ARTIFACT and _state_of(entry) in self._closes_on:
                self._is_ended = True

    def push(self, entries: Sequence[Entry]) -> None:
        if self._is_ended:
            return
        # One that waits has taken all there was, however much comes now.
        is_behind = self._waiter is None
        self.feed(entries)
        if is_behind and (len(self._items) > self._limit or self._bytes > MAX_PENDING_BYTES):
            self._cut_off("slow reader")
        self._wake()

    def put(self, item: Item) -> None:
        if not self._is_ended:
            self._items.append(item)
            self._wake()

    def end(self) -> None:
        self._is_ended = True
        self._wake()

    def beat(self) -> None:
        # A reader with something to read needs no sign of life.
        if not self._items and not self._is_ended:
            self._items.append(_BEAT)
            self._wake()

    def stop(self, reason: str, seq: int) -> None:
        """End the stream early; what is pending still goes out."""
        if not self._is_ended:
            self._items.append(CutOff(reason, seq))
            self.end()

    async def next(self) -> list[Item]:
        """All that is pending, waiting for something; empty when the stream is over."""
        while not self._items:
            if self._is_ended:
                return []
            if self._replay is not None:
                await self._replay()
                continue
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        items, self._items = self._items, []
        self._bytes = 0
        return items

    def close(self) -> None:
        """The reader leaves."""
        self._is_ended = True
        self._items = []
        if self._on_close is not None:
            self._on_close(self)
            self._on_close = None

    def _cut_off(self, reason: str) -> None:
        # The reader resumes before the first entry it never got; a sign of life is none.
        first = next(item for item in self._items if not isinstance(item, Beat))
        seq = first.seq - 1 if isinstance(first, Entry) else 0
        self._items = [CutOff(reason, seq)]
        self._is_ended = True

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _state_of(entry: Entry) -> TaskState | None:
    event = entry.public
    return None if isinstance(event, TaskArtifactUpdateEvent) else event.status.state
