"""A reader that comes back: what it missed, from the journal."""

from collections.abc import Callable

from trunkline.ports.store import Store
from trunkline.runtime.fanout import Gap, Subscription
from trunkline.runtime.live import LiveTask


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
        rejoin: Callable[[Subscription, LiveTask], None],
    ) -> None:
        self._store = store
        self._live = live
        self._reader = reader
        self._seen = last_seq
        self._chunk = chunk
        self._rejoin = rejoin

    async def step(self) -> None:
        live, reader = self._live, self._reader
        if self._seen < live.committed_seq:
            found = await self._store.entries(live.task_id, after=self._seen, limit=self._chunk)
            # The store may be ahead of what the journal was told; that is pushed later.
            entries = [entry for entry in found if entry.seq <= live.committed_seq]
            if entries and entries[0].seq == self._seen + 1:
                reader.replay(entries)
                self._seen = entries[-1].seq
                # At once: who reads the last entry is to know that it is the last one.
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

    @property
    def _is_over(self) -> bool:
        live = self._live
        return live.committed_state in self._reader.closes_on or live.is_orphan
