"""`task_faults`: whether a stored task is complete and matches its journal."""

from collections.abc import Iterable, Iterator

import msgspec

from trunkline.engine.task_fold import TaskFold
from trunkline.model.errors import GatewayBug
from trunkline.model.events import Entry
from trunkline.model.values import TERMINAL, Task
from trunkline.ports.store import StoredTask

# Errors of decoding: bytes that are not JSON, JSON of another shape, or an unknown kind of entry.
_UNREADABLE = (msgspec.DecodeError, GatewayBug, LookupError, ValueError)


def task_faults(stored: StoredTask, journal: Iterable[Entry]) -> Iterator[str]:
    """A sentence for each fault of the task; none when the task is sound.

    The journal is folded as it comes, so memory holds one task and no journal. The journal may lack
    entries that the snapshot holds, because retention deletes those.
    """
    kept: TaskFold | None = None
    kept_seq = 0
    if stored.snapshot is not None:
        kept_seq = stored.snapshot.seq
        try:
            kept = TaskFold.of(stored.snapshot, ())
        except _UNREADABLE as error:
            yield f"the snapshot cannot be read: {error}"
    fold = kept
    last = 0
    for entry in journal:
        if not last and entry.seq > kept_seq + 1:
            yield f"the journal begins at entry {entry.seq}"
        elif last and entry.seq != last + 1:
            yield f"the journal has a hole: entry {entry.seq} follows {last}"
            fold = None
        try:
            if entry.seq == 1:
                fold = TaskFold.begin(entry)
            elif fold is not None and fold.seq < entry.seq:
                fold.apply(entry)
            else:
                # The snapshot holds the entry already, but the entry must still be readable.
                _ = entry.event
        except _UNREADABLE as error:
            yield f"entry {entry.seq} cannot be read: {error!r}"
            fold = None
        last = entry.seq
        if entry.seq == kept_seq and kept is not None:
            if fold is not None and fold is not kept and fold.whole() != kept.whole():
                yield f"the snapshot of entry {kept_seq} is not what the journal gives"
            fold = fold or kept
    yield from _end_faults(stored, last, kept_seq, fold)


def _end_faults(
    stored: StoredTask, last: int, kept_seq: int, fold: TaskFold | None
) -> Iterator[str]:
    if not last and not kept_seq:
        yield "there is neither a journal nor a snapshot"
    elif last and last < kept_seq:
        yield f"the journal ends at entry {last}, but the snapshot holds entry {kept_seq}"
    elif stored.state in TERMINAL and last > kept_seq:
        yield f"the task has ended, but its snapshot holds {kept_seq} of {last} entries"
    if fold is not None and fold.seq == max(last, kept_seq):
        yield from _head_faults(stored, fold.whole())


def _head_faults(stored: StoredTask, task: Task) -> Iterator[str]:
    if task.id != stored.task_id:
        yield f"it holds another task, {task.id}"
    if task.context_id != stored.context_id:
        yield f"it is listed in context {stored.context_id} and says {task.context_id}"
    if task.status.state is not stored.state:
        yield f"it is listed as {stored.state} and says {task.status.state}"
