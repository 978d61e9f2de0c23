"""`Subscription`: a bounded queue of committed entries for one stream, so that a slow reader costs
only itself."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeAlias

from msgspec import Struct, field

from trunkline.model.errors import TrunklineError
from trunkline.model.events import ARTIFACT, SUBMITTED, TASK, Entry
from trunkline.model.values import SETTLED, TERMINAL, TaskArtifactUpdateEvent, TaskState
from trunkline.runtime.wakeups import Wakeups

# A reader with more unread bytes than this is cut off, whatever the number of entries. The limit is
# a few seconds of a fast stream; a reader that is further behind does better by resuming from the
# journal.
MAX_PENDING_BYTES = 8 * 1024 * 1024


class Opening(Struct, frozen=True, gc=False):
    """The task as of `seq`; the entries that follow continue right after it."""

    seq: int
    task: bytes


class Reply(Struct, frozen=True):
    """A direct answer: the stream's only item."""

    message: bytes


class NoReply(Struct, frozen=True):
    """The error of a run that ended with neither an answer nor a task: the stream's only item."""

    error: TrunklineError


class Gap(Struct, frozen=True):
    """The journal no longer has the entries after `after`; it resumes at `resumes_at`."""

    after: int
    resumes_at: int


class CutOff(Struct, frozen=True):
    """The stream ends early; the reader can resume after `seq`."""

    reason: str
    seq: int


class Beat(Struct, frozen=True):
    """A heartbeat: nothing happened, and the stream is alive."""


class Framed(Struct, frozen=True):
    """Whole frames that another gateway wrote for this client."""

    data: bytes


Item: TypeAlias = Entry | Opening | Reply | NoReply | Gap | CutOff | Beat | Framed

_BEAT = Beat()


class Subscription(Struct, kw_only=True, eq=False):
    """The items that one reader has not received yet. The journal pushes them, and one asyncio task
    reads them."""

    closes_on: frozenset[TaskState]
    # The maximum number of pending items of a slow reader.
    limit: int
    # Limits how many readers wake up at once; all readers share it.
    wakeups: Wakeups = field(default_factory=Wakeups)
    # Whether the stream accepts no more items; pending ones may still be read.
    is_ended: bool = False
    _items: list[Item] = []
    _bytes: int = 0
    _waiter: asyncio.Future[None] | None = None
    # Whether `wakeups` has the waiter already.
    _is_called: bool = False
    _on_close: "Callable[[Subscription], None] | None" = None
    _catch_up: Callable[[], Awaitable[None]] | None = None
    _opening: Opening | None = None
    _replayed: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the stream has ended and the reader has read its last item."""
        return self.is_ended and not self._items

    def on_close(self, callback: Callable[["Subscription"], None]) -> None:
        """Call `callback` when the reader leaves."""
        self._on_close = callback

    def push(self, entries: Sequence[Entry], shares: "Shares | None" = None) -> bool:
        """Take entries that were just committed. Returns whether the reader takes more.

        `shares` has the shares of these entries, when several readers take them.
        """
        if self.is_ended:
            return False
        if self._catch_up is not None:
            # The reader still replays the journal, and finds these entries there.
            return True
        # A waiting reader has taken everything so far, so it is not slow, however much comes now.
        is_behind = self._waiter is None
        if self._opening is not None:
            entries, shares = self._open(self._opening, entries), None
        self._take(entries, self.closes_on, shares)
        if is_behind and (len(self._items) > self.limit or self._bytes > MAX_PENDING_BYTES):
            self._cut_off("slow reader")
        self._wake(entries)
        return not self.is_ended

    def open_with(self, opening: Opening) -> None:
        """Begin with this snapshot, which holds all earlier entries, once its own entry is
        committed."""
        self._opening = opening

    def begin_again(self) -> None:
        """Begin with the first entry of the task, because that of the opening is not committed."""
        self._opening = None

    def catch_up(self, step: Callable[[], Awaitable[None]], *, after: int) -> None:
        """Begin with the entries of the journal after entry `after`.

        The reader awaits `step` whenever it wants more. A step calls `replay` with a few entries,
        or `caught_up`. So a reader holds one step in memory, however long the journal is.
        """
        self._catch_up = step
        self._replayed = after

    def replay(self, entries: Sequence[Entry]) -> None:
        # A replayed question may have been answered; `Replay` ends the stream if it was not.
        self._take(entries, self.closes_on & TERMINAL)
        self._replayed = entries[-1].seq

    def caught_up(self) -> None:
        """Take pushed entries from here on; they follow the replayed ones."""
        self._catch_up = None

    def _take(
        self,
        entries: Sequence[Entry],
        closes_on: frozenset[TaskState],
        shares: "Shares | None" = None,
    ) -> None:
        if self.is_ended:
            return
        share = _share(entries, closes_on) if shares is None else shares.of(closes_on)
        self._items += share.entries
        self._bytes += share.size
        self.is_ended = share.is_last

    def _open(self, opening: Opening, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Take the opening if the entries reach it. Returns the entries that follow it."""
        if entries[-1].seq >= opening.seq:
            self._opening = None
            self._items.append(opening)
            self._bytes += len(opening.task)
        return [entry for entry in entries if entry.seq > opening.seq]

    def fail(self) -> None:
        """End the stream of a reader whose `push` raised an error."""
        self._cut_off("the stream failed")
        self._wake(self)

    def put(self, item: Item) -> None:
        if not self.is_ended:
            self._items.append(item)
            self._wake(item)

    def finish(self, item: Item) -> None:
        """End the stream with this item."""
        self.put(item)
        self.end()

    def end(self, reason: str = "") -> None:
        self.is_ended = True
        self._wake(reason)

    def beat(self) -> None:
        # A reader that has items to read needs no heartbeat.
        if not self._items and not self.is_ended:
            self._items.append(_BEAT)
            self._wake(_BEAT)

    def stop(self, reason: str, seq: int) -> None:
        """End the stream early; pending items still go out."""
        if not self.is_ended:
            at = seq if self._catch_up is None else self._replayed
            self._items.append(CutOff(reason, at))
            self.end(reason)

    async def next(self) -> list[Item]:
        """All pending items; waits while there are none. Empty when the stream is over."""
        if not self._items:
            await self.begun()
        items, self._items = self._items, []
        self._bytes = 0
        return items

    async def begun(self) -> None:
        """Return when there is something to read, or when the stream is over."""
        while not self._items and not self.is_ended:
            if self._catch_up is not None:
                await self._catch_up()
                continue
            waiter = self._waiter = asyncio.get_running_loop().create_future()
            try:
                await waiter
            finally:
                self._waiter = None
                self._is_called = False
                if waiter.done() and not waiter.cancelled():
                    self.wakeups.went_on()

    def close(self) -> None:
        """End the stream because its client has left."""
        self.is_ended = True
        self._items = []
        if self._on_close is not None:
            self._on_close(self)
            self._on_close = None

    def _cut_off(self, reason: str) -> None:
        # The reader resumes right before the first entry that it did not get. A reader that did not
        # get its opening has nothing to resume.
        first = next((item for item in self._items if isinstance(item, Entry | Opening)), None)
        seq = first.seq - 1 if isinstance(first, Entry) else 0
        self._items = [CutOff(reason, seq)]
        self._bytes = 0
        self.is_ended = True

    def _wake(self, news: object) -> None:
        waiter = self._waiter
        if waiter is not None and not self._is_called and not waiter.done():
            self._is_called = True
            self.wakeups.wake(waiter, news)


class SnapshotSubscription(Subscription, kw_only=True, eq=False):
    """Its reader gets the whole task when the task begins and whenever no turn runs, and nothing in
    between."""

    # Makes an item of the committed task. Set before the first push.
    opening: Callable[[], Opening] | None = None

    def _take(
        self,
        entries: Sequence[Entry],
        closes_on: frozenset[TaskState],
        shares: "Shares | None" = None,
    ) -> None:
        for entry in entries:
            if self.is_ended or entry.kind == ARTIFACT:
                continue
            state = state_of(entry)
            if entry.kind == TASK or entry.kind == SUBMITTED:
                super()._take((entry,), closes_on)
            elif state in SETTLED:
                assert self.opening is not None
                opening = self.opening()
                self._items.append(opening)
                self._bytes += len(opening.task)
                self.is_ended = state in closes_on


class Share(NamedTuple):
    """The entries of a commit that a reader takes: all of them, or those up to the end of its
    stream."""

    entries: Sequence[Entry]
    size: int
    is_last: bool


class Shares(Struct, eq=False):
    """The shares of one commit. Readers whose streams end in the same states have the same share,
    which is computed once."""

    entries: Sequence[Entry]
    _known: dict[frozenset[TaskState], Share] = {}

    def of(self, closes_on: frozenset[TaskState]) -> Share:
        share = self._known.get(closes_on)
        if share is None:
            share = self._known[closes_on] = _share(self.entries, closes_on)
        return share


def _share(entries: Sequence[Entry], closes_on: frozenset[TaskState]) -> Share:
    size = 0
    for count, entry in enumerate(entries, 1):
        size += len(entry.body)
        if entry.kind != ARTIFACT and state_of(entry) in closes_on:
            return Share(entries[:count], size, True)
    return Share(entries, size, False)


def state_of(entry: Entry) -> TaskState | None:
    event = entry.public
    return None if isinstance(event, TaskArtifactUpdateEvent) else event.status.state
