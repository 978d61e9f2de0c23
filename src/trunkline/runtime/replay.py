"""`Replay`: gives a reader that resumes the entries it missed, from the journal."""

from collections.abc import Callable, Sequence

from trunkline.model.events import Entry
from trunkline.ports.store import Store
from trunkline.runtime.fanout import Gap, Subscription
from trunkline.runtime.live_task import LiveTask
from trunkline.runtime.wakeups import Wakeups

# The entries of one step: about half a millisecond of work in A2A 1.0, and two in
# 0.3, for small entries. A step has one entry at least.
STEP_ENTRIES = 64
STEP_BYTES = 64 * 1024
# Maximum number of replays that take a step in one pass of the loop.
MAX_STEPS = 4


class Replay:
    """Reads the journal for one reader, up to where the task is by then."""

    def __init__(
        self,
        store: Store,
        live: LiveTask,
        reader: Subscription,
        last_seq: int,
        *,
        chunk: int,
        turns: Wakeups,
        rejoin: Callable[[Subscription, LiveTask], None],
    ) -> None:
        self._store = store
        self._live = live
        self._reader = reader
        self._seen = last_seq
        self._chunk = chunk
        self._turns = turns
        self._rejoin = rejoin
        # Was read, and is not with the reader yet.
        self._read: Sequence[Entry] = ()

    async def step(self) -> None:
        """Hand over the next few entries, in a later pass of the loop than the last ones."""
        live, reader = self._live, self._reader
        await self._turns.turn()
        if self._seen < live.committed_seq:
            entries = await self._next_few()
            if entries and entries[0].seq == self._seen + 1:
                reader.replay(entries)
                self._seen = entries[-1].seq
                # At once, so that a reader of the last entry knows that it is the last one.
                if self._seen == live.committed_seq and self._is_over:
                    reader.end()
                return
        # No await beyond this point: what is committed from here on reaches the reader.
        reader.caught_up()
        if self._seen != live.committed_seq:
            # Pruned, or a sequence from another life of this database.
            reader.put(Gap(self._seen, live.committed_seq))
            self._rejoin(reader, live)
        elif self._is_over:
            reader.end()

    async def _next_few(self) -> Sequence[Entry]:
        live = self._live
        if not self._read:
            found = await self._store.entries(live.task_id, after=self._seen, limit=self._chunk)
            # The store may be ahead of the journal; those entries are pushed later.
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
        live = self._live
        return live.committed_state in self._reader.closes_on or live.is_orphan
