import msgspec
import pytest
from hypothesis import given
from tests.unit.protocol.strategies import (
    artifact_updates,
    few,
    parts_03,
    status_updates,
    tasks,
)

from trunkline.model.errors import InvalidParams
from trunkline.model.values import Artifact, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent
from trunkline.protocol import v03_types as v03
from trunkline.protocol.openclaw import TerseWriter03
from trunkline.protocol.v03_reading import Reader03
from trunkline.protocol.v03_writing import Writer03

READER = Reader03(is_rest=False)
WRITER = Writer03(is_rest=False)


@few
@given(tasks(parts_03))
def test_a_task_survives_the_way_there_and_back(task: Task) -> None:
    raw = msgspec.json.encode(WRITER.task(task))
    assert READER.task(msgspec.json.decode(raw, type=v03.Task)) == task


@few
@given(status_updates(parts_03))
def test_a_status_update_survives_the_way_there_and_back(event: TaskStatusUpdateEvent) -> None:
    raw = msgspec.json.encode(WRITER.status_update(event))
    assert READER.status_update(msgspec.json.decode(raw, type=v03.StatusUpdate)) == event


@few
@given(artifact_updates(parts_03))
def test_an_artifact_update_survives_the_way_there_and_back(
    event: TaskArtifactUpdateEvent,
) -> None:
    raw = msgspec.json.encode(WRITER.artifact_update(event))
    assert READER.artifact_update(msgspec.json.decode(raw, type=v03.ArtifactUpdate)) == event


@pytest.mark.parametrize(
    ("append", "last_chunk", "members"),
    [
        (False, None, set()),
        (False, False, {"lastChunk"}),
        (True, True, {"append", "lastChunk"}),
    ],
)
def test_a_terse_agent_says_only_what_means_something(
    append: bool, last_chunk: bool | None, members: set[str]
) -> None:
    event = TaskArtifactUpdateEvent(
        task_id="t",
        context_id="c",
        artifact=Artifact(artifact_id="a", parts=()),
        append=append,
        last_chunk=last_chunk,
    )
    terse = msgspec.to_builtins(TerseWriter03(is_rest=False).artifact_update(event))
    assert set(terse) == {"kind", "taskId", "contextId", "artifact"} | members
    whole = msgspec.to_builtins(WRITER.artifact_update(event))
    assert whole == {**terse, "append": append, "lastChunk": bool(last_chunk)}


def test_an_artifact_needs_its_id() -> None:
    with pytest.raises(InvalidParams, match=r"^a\.artifactId: must not be empty$"):
        READER.artifact(v03.Artifact(artifact_id="", parts=()), "a")


@pytest.mark.parametrize(
    ("sent", "raw"),
    [(b"aGk=", b"hi"), (b"", b""), (b"\xff\x00", b"\xff\x00"), (b"no base64", b"no base64")],
)
def test_bytes_over_rest_may_be_encoded_twice_as_the_reference_does(
    sent: bytes, raw: bytes
) -> None:
    part = v03.Part(file=v03.File(file_with_bytes=sent))
    assert Reader03(is_rest=True).part(part, "").raw == raw
