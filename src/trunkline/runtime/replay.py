"""`Replay`: gives a reader that resumes the entries it missed, from the journal."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from trunkline.model.events import Entry
from trunkline.ports.store import Store
from trunkline.runtime.fanout import Gap, Subscription
from trunkline.runtime.live_task import LiveTask
from trunkline.runtime.wakeups import Wakeups

# The maximum size of one step, which has at least one entry. A step of small entries is about half
# a millisecond of work in A2A 1.0, and two milliseconds in 0.3.
STEP_ENTRIES = 64
STEP_BYTES = 64 * 1024
# The maximum number of replays that take a step in one pass of the event loop.
MAX_STEPS = 4


class Replay(Struct, kw_only=True, eq=False):
    """Reads the journal for one reader, until the reader has every committed entry."""

    store: Store
    live: LiveTask
    reader: Subscription
    # The number of the last entry that the reader has.
    seen: int
    # The number of entries to read from the store at a time.
    chunk: int
    # Limits how many replays take a step at once; all replays share it.
    turns: Wakeups
    # Gives a reader that cannot resume a snapshot of the task.
    rejoin: Callable[[Subscription, LiveTask], None]
    # Entries that were read and that the reader does not have yet.
    _read: Sequence[Entry] = ()

    async def step(self) -> None:
        """Give the reader the next few entries, in a later pass of the event loop than the previous
        ones."""
        live, reader = self.live, self.reader
        await self.turns.turn()
        if self.seen < live.committed_seq:
            entries = await self._next_few()
            if entries and entries[0].seq == self.seen + 1:
                reader.replay(entries)
                self.seen = entries[-1].seq
                # End at once, so that the last entry is sent as the last one.
                if self.seen == live.committed_seq and self._is_over:
                    reader.end()
                return
        # No await beyond this point: what is committed from here on reaches the reader.
        reader.caught_up()
        if self.seen != live.committed_seq:
            # The entries were pruned, or the number comes from an earlier database.
            reader.put(Gap(self.seen, live.committed_seq))
            self.rejoin(reader, live)
        elif self._is_over:
            reader.end()

    async def _next_few(self) -> Sequence[Entry]:
        live = self.live
        if not self._read:
            found = await self.store.entries(live.task_id, after=self.seen, limit=self.chunk)
            # The store may have entries that the journal has not published; they are pushed later.
            self._read = [entry for entry in found if entry.seq <= live.committed_seq]
        count = size = 0
        for entry in self._read[:STEP_ENTRIES]:
            size += len(entry.body)
            if count and size > STEP_BYTES:
                break
            count += 1
        entries, self._read = self._read[:count], self._read[count:]
        return entries

    @property
    def _is_over(self) -> bool:
        live = self.live
        return live.committed_state in self.reader.closes_on or live.is_orphan
