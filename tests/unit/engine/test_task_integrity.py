"""A stored task is compared with its journal."""

from collections.abc import Sequence

from trunkline.engine.task_fold import TaskFold
from trunkline.engine.task_integrity import task_faults
from trunkline.model.events import Entry
from trunkline.model.values import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.ports.store import Scope, Snapshot, StoredTask

COMPLETED, WORKING = TaskState.COMPLETED, TaskState.WORKING


def status(seq: int, state: TaskState) -> Entry:
    event = TaskStatusUpdateEvent(task_id="t", context_id="c", status=TaskStatus(state=state))
    return Entry.of(seq, event)


def chunk(seq: int, text: str, *, append: bool) -> Entry:
    artifact = Artifact(artifact_id="a", parts=(Part(text=text),))
    event = TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=artifact, append=append)
    return Entry.of(seq, event)


MESSAGE = Message(message_id="m", role=Role.USER, parts=(Part(text="hello"),))
BEGIN = Entry.of(
    1,
    Task(
        id="t",
        context_id="c",
        status=TaskStatus(state=TaskState.SUBMITTED),
        history=(MESSAGE,),
    ),
)
JOURNAL = (
    BEGIN,
    status(2, WORKING),
    chunk(3, "one", append=False),
    chunk(4, "two", append=True),
    status(5, COMPLETED),
)
SNAPSHOT = TaskFold.of(None, JOURNAL).snapshot()


def faults(
    journal: Sequence[Entry] = JOURNAL,
    snapshot: Snapshot | None = SNAPSHOT,
    *,
    state: TaskState = COMPLETED,
    task_id: str = "t",
    context_id: str = "c",
) -> list[str]:
    stored = StoredTask(
        task_id=task_id,
        scope=Scope("agent", "", "alice"),
        context_id=context_id,
        state=state,
        status_ms=0,
        created_ms=0,
        last_seq=journal[-1].seq if journal else 0,
        snapshot=snapshot,
        tail=(),
    )
    return list(task_faults(stored, iter(journal)))


def as_read(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """The entries as they come from a store, with nothing decoded yet."""
    return tuple(Entry(entry.seq, entry.kind, entry.body) for entry in entries)


def test_a_task_as_it_is_written_is_sound() -> None:
    assert faults() == []
    assert faults(as_read(JOURNAL)) == []
    # A task that runs has no snapshot, or one of some entries ago.
    assert faults(as_read(JOURNAL[:4]), None, state=WORKING) == []
    earlier = TaskFold.of(None, as_read(JOURNAL[:3])).snapshot()
    assert faults(as_read(JOURNAL[:4]), earlier, state=WORKING) == []


def test_a_journal_may_lack_what_the_snapshot_holds() -> None:
    for start in range(1, 6):
        assert faults(as_read(JOURNAL[start:])) == []


def test_a_hole_is_found() -> None:
    [found] = faults((*JOURNAL[:2], *JOURNAL[3:]))
    assert found == "the journal has a hole: entry 4 follows 2"
    assert faults(JOURNAL[2:], None, state=WORKING)[0] == "the journal begins at entry 3"
    [found] = faults(JOURNAL[:4])
    assert found == "the journal ends at entry 4, but the snapshot holds entry 5"


def test_an_entry_that_cannot_be_read_is_found() -> None:
    for broken in (
        Entry(3, JOURNAL[2].kind, b"\0\0\0"),
        Entry(3, JOURNAL[2].kind, b'{"artifact": 7}'),
        Entry(3, "artifact.99", JOURNAL[2].body),
        Entry(3, "task.1", BEGIN.body),
    ):
        [found] = faults((*JOURNAL[:2], broken, *JOURNAL[3:]))
        assert found.startswith("entry 3 cannot be read: ")


def test_a_snapshot_that_cannot_be_read_is_found() -> None:
    for task, artifacts in ((b"\0\0", SNAPSHOT.artifacts), (SNAPSHOT.task, b"[{]")):
        [found] = faults(as_read(JOURNAL), Snapshot(5, task, artifacts))
        assert found.startswith("the snapshot cannot be read: ")


def test_a_snapshot_that_says_something_else_is_found() -> None:
    other = SNAPSHOT.artifacts.replace(b"one", b"ONE")
    [found] = faults(snapshot=Snapshot(5, SNAPSHOT.task, other))
    assert found == "the snapshot of entry 5 is not what the journal gives"


def test_an_ended_task_has_all_in_its_snapshot() -> None:
    earlier = TaskFold.of(None, as_read(JOURNAL[:3])).snapshot()
    [found] = faults(as_read(JOURNAL), earlier)
    assert found == "the task has ended, but its snapshot holds 3 of 5 entries"
    assert faults((), None) == ["there is neither a journal nor a snapshot"]


def test_a_head_that_says_something_else_is_found() -> None:
    assert faults(state=TaskState.FAILED) == [
        "it is listed as TASK_STATE_FAILED and says TASK_STATE_COMPLETED"
    ]
    assert faults(task_id="u") == ["it holds another task, t"]
    assert faults(context_id="d") == ["it is listed in context d and says c"]
