"""One line about an entry."""

import pytest

from trunkline.engine.event_rows import PREVIEW_CHARS, preview, row_of
from trunkline.model.events import Entry, MessageAccepted
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

ASKED = Message(message_id="m", role=Role.USER, parts=(Part(text="How far?"),))
SAID = Message(message_id="n", role=Role.AGENT, parts=(Part(text="Far."),))


def status(message: Message | None) -> TaskStatusUpdateEvent:
    return TaskStatusUpdateEvent(
        task_id="t", context_id="c", status=TaskStatus(state=TaskState.WORKING, message=message)
    )


def test_a_task_says_what_was_asked() -> None:
    task = Task(id="t", status=TaskStatus(state=TaskState.SUBMITTED), history=(ASKED,))
    row = row_of(Entry.of(1, task))
    assert (row.name, row.kind, row.state) == ("task", "task.1", TaskState.SUBMITTED)
    assert (row.text, row.artifact_id) == ("How far?", None)


def test_a_status_says_its_message() -> None:
    assert row_of(Entry.of(2, status(SAID))).text == "Far."
    assert row_of(Entry.of(2, status(None))).text == ""
    row = row_of(Entry.of(2, MessageAccepted(message=ASKED, status_update=status(None))))
    assert (row.name, row.kind) == ("statusUpdate", "message.1")


def test_an_artifact_has_its_id_and_no_state() -> None:
    artifact = Artifact(artifact_id="a", parts=(Part(text="x"),))
    row = row_of(
        Entry.of(3, TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=artifact))
    )
    assert (row.name, row.state, row.artifact_id, row.text) == ("artifactUpdate", None, "a", "x")


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (Part(data={"é": 1}), '{"é":1}'),
        (Part(data=None), "null"),
        (Part(raw=b"\0" * 1000, filename="a.bin"), "a.bin"),
        (Part(raw=b"", media_type="image/png"), "image/png"),
        (Part(raw=b""), "file"),
        (Part(url="https://example.org/f"), "https://example.org/f"),
        (Part(text="\N{GRINNING FACE}" * 500), "\N{GRINNING FACE}" * PREVIEW_CHARS),
        (Part(data="é" * 500), ('"' + "é" * 500)[:PREVIEW_CHARS]),
    ],
    ids=["data", "null", "file", "media-type", "bare", "url", "long", "long-data"],
)
def test_every_kind_of_part_has_a_preview(part: Part, text: str) -> None:
    assert preview((part,)) == text


def test_previews_of_many_parts_are_cut_together() -> None:
    assert preview((Part(text="one"), Part(text="two"))) == "one\ntwo"
    assert preview(tuple([Part(text="0123456789")] * 100_000)) == ("0123456789\n" * 20)[:120]
