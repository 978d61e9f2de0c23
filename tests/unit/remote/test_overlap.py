"""EventReader that a snapshot holds already, and events that only look so."""

import pytest

from trunkline.model.values import (
    Artifact,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.remote.deduplication import Overlap


def task(*parts: Part) -> Task:
    artifacts = (Artifact(artifact_id="a", parts=parts),) if parts else ()
    status = TaskStatus(state=TaskState.WORKING)
    return Task(id="t", context_id="c", status=status, artifacts=artifacts)


def piece(*parts: Part, artifact_id: str = "a") -> TaskArtifactUpdateEvent:
    artifact = Artifact(artifact_id=artifact_id, parts=parts)
    return TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=artifact, append=True)


def text(text: str) -> Part:
    return Part(text=text)


@pytest.mark.parametrize(
    ("shown", "snapshot", "events", "new"),
    [
        ("", "1 2 3 ", "1 2 3 4", "4"),
        ("1 ", "1 2 3 ", "3 4", "4"),
        ("1 ", "1 2 3 ", "2 3 4 5", "4 5"),
        ("1 2 ", "1 2 3 ", "4", "4"),
        ("1 ", "1 2 2 ", "2 3", "3"),
        # The last one from before the cut comes again, and no other.
        ("1 2 ", "1 2 ", "2 3", "3"),
        ("1 2 ", "1 2 ", "2 2 3", "2 3"),
        ("1 2 ", "1 2 ", "1 3", "1 3"),
        # What comes in between is not what the snapshot has next.
        ("", "1 2 3 4 ", "2 9 3", "9 3"),
    ],
)
def test_text_that_the_snapshot_holds(shown: str, snapshot: str, events: str, new: str) -> None:
    overlap = Overlap(task(text(snapshot)), {"a": (len(shown), 0)} if shown else {})
    pieces = [f"{word} " for word in events.split()]
    held = 0
    while held < len(pieces) and overlap.holds(piece(text(pieces[held]))):
        held += 1
    assert "".join(pieces[held:]) == "".join(f"{word} " for word in new.split())


def test_it_does_not_matter_how_the_text_is_cut() -> None:
    overlap = Overlap(task(text("a"), text("bc")), {"a": (1, 0)})
    assert overlap.holds(piece(text("b"), text("c")))
    assert not overlap.holds(piece(text("b"), text("c")))


def test_other_parts_are_compared_from_the_end() -> None:
    overlap = Overlap(task(text("a"), Part(data=1), Part(data=2)), {})
    assert overlap.holds(piece(Part(data=2)))
    assert not overlap.holds(piece(Part(data=1)))
    assert not overlap.holds(piece(Part(data=2), artifact_id="b"))


def test_states_and_tasks() -> None:
    snapshot = task(text("a"))
    overlap = Overlap(snapshot, {})
    assert overlap.holds(snapshot)
    for state, is_held in ((TaskState.WORKING, True), (TaskState.COMPLETED, False)):
        status = TaskStatus(state=state)
        update = TaskStatusUpdateEvent(task_id="t", context_id="c", status=status)
        assert overlap.holds(update) is is_held


def at(second: int, state: TaskState = TaskState.WORKING, id: str = "t") -> Task:
    status = TaskStatus(state=state, timestamp=f"2026-01-01T00:00:{second:02}Z")
    return Task(id=id, context_id="c", status=status)


def test_a_status_from_before_that_of_the_snapshot_is_in_it() -> None:
    overlap = Overlap(at(2), {})
    for second, is_held in ((1, True), (2, True), (3, False)):
        event = TaskStatusUpdateEvent(task_id="t", context_id="c", status=at(second).status)
        assert overlap.holds(event) is is_held
    unsaid = TaskStatus(state=TaskState.SUBMITTED)
    assert not overlap.holds(TaskStatusUpdateEvent(task_id="t", context_id="c", status=unsaid))


def test_a_task_that_is_not_as_far_as_the_snapshot_is_in_it() -> None:
    overlap = Overlap(at(2), {})
    assert overlap.holds(at(1))
    assert overlap.holds(at(2))
    assert not overlap.holds(at(3))
    assert not overlap.holds(at(1, id="another"))
    grown = Overlap(task(text("one two")), {})
    assert grown.holds(task(text("one")))
    assert not grown.holds(task(text("one two three")))
