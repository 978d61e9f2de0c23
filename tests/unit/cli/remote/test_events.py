import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from trunkline.cli.remote.events import (
    Attachment,
    Display,
    EventReader,
    Note,
    StateChange,
    TextPiece,
    ToolUse,
    answer_of,
)
from trunkline.cli.remote.follow import View
from trunkline.cli.remote.screen import PlainScreen
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
from trunkline.remote import StreamItem

WORKING, COMPLETED = TaskState.WORKING, TaskState.COMPLETED


def message(text: str, id: str = "m") -> Message:
    return Message(message_id=id, role=Role.AGENT, parts=(Part(text=text),))


def status(state: TaskState, text: str = "", id: str = "m") -> TaskStatus:
    return TaskStatus(state=state, message=message(text, id) if text else None)


def moved(state: TaskState, text: str = "") -> TaskStatusUpdateEvent:
    return TaskStatusUpdateEvent(task_id="t", context_id="c", status=status(state, text))


def artifact(id: str, *parts: Part | str, **fields: Any) -> Artifact:
    made = tuple(Part(text=part) if isinstance(part, str) else part for part in parts)
    return Artifact(artifact_id=id, parts=made, **fields)


def chunk(artifact: Artifact, *, append: bool = False) -> TaskArtifactUpdateEvent:
    return TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=artifact, append=append)


def task(state: TaskState, *artifacts: Artifact, text: str = "") -> Task:
    return Task(id="t", context_id="c", status=status(state, text), artifacts=artifacts)


def told(*items: StreamItem, before: Task | None = None) -> list[Display]:
    reader = EventReader(before)
    return [said for item in items for said in reader.read(item)]


def test_a_text_that_grows_is_told_piece_by_piece() -> None:
    said = told(
        task(TaskState.SUBMITTED),
        moved(WORKING),
        chunk(artifact("a", "one ")),
        chunk(artifact("a", "two"), append=True),
        # Many agents end with a status that repeats the answer.
        moved(COMPLETED, "one two"),
    )
    assert said == [
        StateChange(TaskState.SUBMITTED),
        StateChange(WORKING),
        TextPiece(place="a", text="one "),
        TextPiece(place="a", text="two"),
        StateChange(COMPLETED),
    ]
    assert answer_of(said) == "one two"


def test_a_snapshot_tells_only_what_is_new() -> None:
    file = Part(raw=b"x", filename="x.bin")
    said = told(
        chunk(artifact("a", "one ")),
        chunk(artifact("b", file)),
        task(WORKING, artifact("a", "one two"), artifact("b", file, Part(url="http://x.test"))),
        task(WORKING, artifact("a", "one two"), artifact("b", file, Part(url="http://x.test"))),
    )
    assert said == [
        TextPiece(place="a", text="one "),
        Attachment(name="x.bin", part=file),
        TextPiece(place="a", text="two"),
        Attachment(name="", part=Part(url="http://x.test")),
        StateChange(WORKING),
    ]


def test_a_text_in_place_of_another() -> None:
    said = told(chunk(artifact("a", "no")), chunk(artifact("a", "yes")))
    assert said == [
        TextPiece(place="a", text="no"),
        TextPiece(place="a", text="yes", replaces=True),
    ]
    assert answer_of(said) == "yes"


def test_pieces_that_are_joined_otherwise_are_not_told_again() -> None:
    said = told(
        chunk(artifact("a", "one\n", "two")),
        task(WORKING, artifact("a", "one\n\n\ntwo")),
    )
    assert [each for each in said if isinstance(each, TextPiece)] == [
        TextPiece(place="a", text="one\n\ntwo")
    ]


@pytest.mark.parametrize("state", [TaskState.FAILED, TaskState.REJECTED, TaskState.CANCELED])
def test_why_a_task_was_not_done_is_no_answer(state: TaskState) -> None:
    said = told(moved(state, "no paper"))
    assert said == [StateChange(state, "no paper")]
    assert answer_of(said) == ""


def test_notes_are_told_once_and_are_no_answer() -> None:
    said = told(moved(WORKING, "thinking"), moved(WORKING, "thinking"), moved(WORKING, "writing"))
    assert said == [Note("thinking"), StateChange(WORKING), Note("writing")]


def test_a_question_is_an_answer() -> None:
    said = told(moved(TaskState.INPUT_REQUIRED, "how many?"))
    assert answer_of(said) == "how many?"


def test_what_was_there_before_the_message_is_not_told() -> None:
    before = task(TaskState.INPUT_REQUIRED, artifact("a", "Hm."), text="how many?")
    again = task(WORKING, artifact("a", "Hm."), artifact("a-2", "two"))
    said = told(before, again, moved(COMPLETED, "two"), before=before)
    assert said == [
        TextPiece(place="a-2", text="two"),
        StateChange(WORKING),
        StateChange(COMPLETED),
    ]


def test_another_question_is_told_although_the_state_is_the_same() -> None:
    before = task(TaskState.INPUT_REQUIRED, text="how many?")
    after = Task(id="t", context_id="c", status=status(TaskState.INPUT_REQUIRED, "how long?", "m2"))
    assert answer_of(told(after, before=before)) == "how long?"


def test_words_of_an_earlier_turn_that_come_again_are_new() -> None:
    before = task(TaskState.INPUT_REQUIRED, artifact("a", "done"), text="more?")
    assert answer_of(told(moved(COMPLETED, "done"), before=before)) == "done"


def test_tools() -> None:
    def use(phase: str, data: dict[str, Any]) -> Artifact:
        about = {"source": "tool", "toolName": "search", "phase": phase}
        return artifact("tool-1", Part(data=data), metadata=about)

    said = told(
        chunk(use("start", {"data": {"q": 1}})),
        chunk(use("start", {"data": {"q": 1}})),
        chunk(use("result", {"result": "none", "isError": True})),
    )
    assert said == [
        ToolUse(name="search", phase="start", data={"q": 1}),
        ToolUse(name="search", phase="result", data="none", is_error=True),
    ]
    assert answer_of(said) == ""


def test_tools_as_the_adk_reports_them() -> None:
    def part(kind: str, data: dict[str, Any]) -> Part:
        return Part(data=data, metadata={"adk_type": kind})

    said = told(
        chunk(artifact("a", part("function_call", {"name": "add", "args": {"a": 1}}))),
        TaskStatusUpdateEvent(
            task_id="t",
            context_id="c",
            status=TaskStatus(
                state=WORKING,
                message=Message(
                    message_id="m",
                    role=Role.AGENT,
                    parts=(part("function_response", {"name": "add", "response": 2}),),
                ),
            ),
        ),
    )
    assert said == [
        ToolUse(name="add", phase="start", data={"a": 1}),
        ToolUse(name="add", phase="result", data=2),
        StateChange(WORKING),
    ]


def test_an_answer_of_data_alone_is_json() -> None:
    assert answer_of(told(task(COMPLETED, artifact("a", Part(data=[1]))))) == "[\n  1\n]"
    both = task(COMPLETED, artifact("a", Part(data=[1])), artifact("b", "in words"))
    assert answer_of(told(both)) == "in words"


def test_several_texts_are_apart() -> None:
    assert answer_of(told(task(COMPLETED, artifact("a", "one\n"), artifact("b", "two")))) == (
        "one\n\ntwo"
    )


LONG = "All work and no play makes Jack a dull boy.\n" * 4000


def grown(*, times: int) -> list[StreamItem]:
    """The whole text so far, again and again."""
    return [chunk(artifact("a", LONG * number)) for number in range(1, times + 1)]


def test_a_long_text_that_is_sent_anew_is_told_piece_by_piece() -> None:
    said = told(*grown(times=5), task(WORKING, artifact("a", LONG * 5)), moved(COMPLETED, LONG * 5))
    assert said[:5] == [TextPiece(place="a", text=LONG)] * 5
    assert said[5:] == [StateChange(WORKING), StateChange(COMPLETED)]


def test_a_long_text_that_is_joined_in_another_way_is_not_told_again() -> None:
    said = told(
        chunk(artifact("a", LONG)), moved(COMPLETED, LONG.replace("\n", "\n\n").replace(" ", "  "))
    )
    assert said == [TextPiece(place="a", text=LONG), StateChange(COMPLETED)]


@pytest.mark.parametrize("other", [LONG[:-2], "No" + LONG[2:], LONG[:-3] + "!!\n"])
def test_a_long_text_that_changes_is_told_anew(other: str) -> None:
    said = told(chunk(artifact("a", LONG)), chunk(artifact("a", other)))
    assert said[1:] == [TextPiece(place="a", text=other, replaces=True)]
    assert answer_of(said) == other.strip("\n")


@pytest.mark.parametrize(
    "texts",
    [["\n\u00e9\U0001f600 " * 600_000 + "\n\n", "two"], ["\n" * 3_000_000, "x"], ["a", LONG * 9]],
)
def test_a_long_answer_is_the_same_in_pieces(texts: list[str]) -> None:
    items = [chunk(artifact(str(number), text)) for number, text in enumerate(texts)]
    assert answer_of(told(*items)) == "\n\n".join(text.strip("\n") for text in texts)


def held(items: Iterable[StreamItem], *, shows_text: bool) -> int:
    """Bytes that a view holds once it was given the items, which nobody else does."""
    view = View(Nowhere(shows_text=shows_text))
    tracemalloc.start()
    try:
        for item in items:
            view.item(item)
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


class Nowhere(PlainScreen):
    def _write(self, text: str) -> None:
        pass


class Waits(Nowhere):
    """Keeps what the user is told to wait for."""

    def __init__(self) -> None:
        super().__init__(shows_text=True)
        self.told: list[str] = []

    def wait(self, text: str) -> None:
        self.told.append(text)


def test_a_view_tells_a_task_that_waits_from_one_that_runs() -> None:
    screen = Waits()
    view = View(screen, agent="Helper")
    for item in (moved(TaskState.SUBMITTED), moved(WORKING), chunk(artifact("a", "Hi"))):
        view.item(item)
        view.wait()
    assert screen.told == [
        "the task waits for Helper",
        "Helper is working",
        "Helper is working",
    ]


CHUNK = "x" * 10_000
STREAMS: dict[str, Callable[[int], StreamItem]] = {
    "pieces": lambda number: chunk(artifact("a", f"{number} {CHUNK}"), append=number > 0),
    "rewritten": lambda number: chunk(artifact("a", f"{number} {CHUNK * 10}")),
    "notes": lambda number: moved(WORKING, f"{number} {CHUNK}"),
    "files": lambda number: chunk(artifact("a", Part(raw=CHUNK.encode())), append=number > 0),
}


@pytest.mark.parametrize(
    ("stream", "kept_bytes"), [("pieces", 4e6), ("rewritten", 1e5), ("notes", 0), ("files", 0)]
)
def test_an_answer_is_held_once_and_nothing_else_is(stream: str, kept_bytes: float) -> None:
    spare = 5e5
    # Between 4 and 40 MB came.
    assert held(map(STREAMS[stream], range(400)), shows_text=False) < kept_bytes * 1.3 + spare
    # What was written as it came is not held at all.
    assert held(map(STREAMS[stream], range(400)), shows_text=True) < spare
