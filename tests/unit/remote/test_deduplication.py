import pytest
from msgspec import structs

from trunkline.model.errors import InvalidAgentResponse
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
from trunkline.remote.deduplication import MissingEvent, Seen


def task(*texts: str, state: TaskState = TaskState.WORKING) -> Task:
    parts = tuple(Part(text=text) for text in texts)
    artifacts = (Artifact(artifact_id="a", parts=parts),) if parts else ()
    return Task(id="t", context_id="c", status=TaskStatus(state=state), artifacts=artifacts)


def piece(text: str, *, append: bool = True) -> TaskArtifactUpdateEvent:
    artifact = Artifact(artifact_id="a", parts=(Part(text=text),))
    return TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=artifact, append=append)


def status(state: TaskState) -> TaskStatusUpdateEvent:
    return TaskStatusUpdateEvent(task_id="t", context_id="c", status=TaskStatus(state=state))


def seen(*items: Task | TaskArtifactUpdateEvent | TaskStatusUpdateEvent) -> Seen:
    made = Seen()
    for item in items:
        made.note(item)
    return made


def test_a_snapshot_is_compared_with_all_that_was_shown() -> None:
    shown = seen(task(), piece("ab", append=False), piece("c"))
    assert shown.shows(task("abc"))
    assert shown.shows(task("a", "bc")), "agents join pieces as they like"
    assert not shown.shows(task("abcd"))
    assert not shown.shows(task("abc", state=TaskState.COMPLETED))
    shown.note(piece("x", append=False))
    assert shown.shows(task("x"))


def test_ends() -> None:
    assert not seen(task()).is_settled
    asked = seen(task(), status(TaskState.INPUT_REQUIRED))
    assert (asked.is_settled, asked.is_over) == (True, False)
    assert seen(task(), status(TaskState.CANCELED)).is_over
    answered = Seen()
    answered.note(Message(message_id="m", role=Role.AGENT, parts=(Part(text="x"),)))
    assert answered.is_over


def test_a_repeated_event_has_the_id_and_the_content() -> None:
    shown = Seen()
    assert not shown.is_repeated("1", b"a")
    assert shown.is_repeated("1", b"a")
    assert not shown.is_repeated("1", b"b"), "some count anew on each connection"


def test_a_peer_that_numbers_its_events_can_be_held_to_it() -> None:
    shown = Seen()
    shown.is_numbered = True
    assert not shown.is_repeated("7", b"a")
    shown.last_id = "7"
    assert shown.is_repeated("7", b"a")
    assert shown.is_repeated("3", b"another")
    assert not shown.is_repeated("8", b"b")
    with pytest.raises(MissingEvent):
        shown.is_repeated("9", b"c")
    shown.last_id = ""
    assert not shown.is_repeated("20", b"after a gap")


def test_a_numbered_stream_begins_with_the_task() -> None:
    shown = Seen()
    shown.is_numbered = True
    shown.begin_with(task("a"))
    for item in (piece("b"), status(TaskState.COMPLETED)):
        with pytest.raises(MissingEvent):
            shown.begin_with(item)
    assert shown.task_id == "t", "to subscribe to"
    assert not shown.is_over
    shown.is_numbered = False
    shown.begin_with(piece("b"))


@pytest.mark.parametrize("id", ["²", "٣", "9" * 5000, "abc", "-1"])
def test_an_id_that_is_no_number_is_an_id_all_the_same(id: str) -> None:
    shown = Seen()
    shown.is_numbered = True
    assert not shown.is_repeated(id, b"a")
    shown.last_id = id
    assert shown.is_repeated(id, b"a")
    assert not shown.is_repeated("7", b"b")


def test_events_of_another_task_are_refused() -> None:
    shown = seen(task())
    shown.note(piece("x"))
    others = (
        Task(id="u", status=TaskStatus(state=TaskState.COMPLETED)),
        TaskStatusUpdateEvent(
            task_id="u", context_id="c", status=TaskStatus(state=TaskState.COMPLETED)
        ),
        structs.replace(piece("y"), task_id="u"),
    )
    for other in others:
        with pytest.raises(InvalidAgentResponse):
            shown.note(other)
    assert not shown.is_over
    assert shown.shows(task("x"))
