"""Trap 1: what a task says next, or last, need not be the answer to a call."""

from typing import Any

import pytest

from trunkline.engine.call_outcome import outcome_of_turn
from trunkline.engine.task_fold import TaskFold
from trunkline.engine.turn_ends import TurnEnd, awaits_turn, end_of_turn
from trunkline.model.events import (
    Entry,
    Event,
    MessageAccepted,
    TaskSubmitted,
    TurnOptions,
    TurnRetried,
)
from trunkline.model.principal import ANONYMOUS
from trunkline.model.routed_calls import CallOrigin
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
    text_of,
)

S = TaskState


def options(call: str) -> TurnOptions | None:
    return TurnOptions(call=CallOrigin(id=call, principal=ANONYMOUS)) if call else None


def said(text: str, role: Role = Role.AGENT) -> Message:
    return Message(message_id=f"m-{text}", role=role, parts=(Part(text=text),))


def status(state: TaskState, text: str = "") -> TaskStatusUpdateEvent:
    message = said(text) if text else None
    return TaskStatusUpdateEvent(
        task_id="t", context_id="c", status=TaskStatus(state=state, message=message)
    )


def begun(call: str, state: TaskState = S.SUBMITTED) -> Event:
    history = (said("ask", Role.USER),)
    task = Task(id="t", context_id="c", status=TaskStatus(state=state), history=history)
    given = options(call)
    return task if given is None else TaskSubmitted(task=task, options=given)


def message(call: str, state: TaskState = S.WORKING) -> Event:
    return MessageAccepted(
        message=said(f"more {call}", Role.USER), status_update=status(state), options=options(call)
    )


def artifact(id: str, text: str, *, append: bool = False) -> Event:
    made = Artifact(artifact_id=id, parts=(Part(text=text),))
    return TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=made, append=append)


def journal(*events: Event) -> list[Entry]:
    return [Entry.of(number, event) for number, event in enumerate(events, start=1)]


def outcome(end: TurnEnd | None) -> Any:
    assert end is not None
    made = outcome_of_turn(end)
    return made.answer.output if made.answer is not None else (made.code or made.text)


WORK = status(S.WORKING)
# The journal, and how each call in it came out.
CASES: dict[str, tuple[list[Event], dict[str, Any]]] = {
    "one turn": (
        [begun("a"), WORK, artifact("1", "one"), status(S.COMPLETED)],
        {"a": "one"},
    ),
    "refused from the start": ([begun("a", S.REJECTED)], {"a": "rejected"}),
    "under way": ([begun("a"), WORK, artifact("1", "one")], {"a": None}),
    "a question, and a further call": (
        [
            begun("a"),
            WORK,
            status(S.INPUT_REQUIRED, "Which?"),
            message("b", S.SUBMITTED),
            WORK,
            artifact("2", "two"),
            status(S.COMPLETED),
        ],
        {"a": "Which?", "b": "two"},
    ),
    "two calls that overlap": (
        [
            begun("a"),
            WORK,
            artifact("1", "one"),
            message("b"),
            status(S.SUBMITTED),
            WORK,
            artifact("2", "two"),
            status(S.COMPLETED),
        ],
        {"a": "one", "b": "two"},
    ),
    "a message from outside follows": (
        [
            begun("a"),
            WORK,
            artifact("1", "one"),
            message(""),
            status(S.SUBMITTED),
            WORK,
            artifact("2", "two"),
            status(S.FAILED, "no"),
        ],
        {"a": "one"},
    ),
    "a call joins a task from outside": (
        [
            begun(""),
            WORK,
            artifact("1", "one"),
            message("b"),
            status(S.SUBMITTED),
            WORK,
            artifact("2", "two"),
            status(S.COMPLETED),
        ],
        {"b": "two"},
    ),
    "a turn is canceled while another one waits": (
        [begun("a"), WORK, message("b"), status(S.CANCELED)],
        {"a": "canceled", "b": "canceled"},
    ),
    "a turn goes on with an artifact of an earlier one": (
        [
            begun("a"),
            WORK,
            artifact("1", "one"),
            artifact("0", "same"),
            message("b"),
            status(S.SUBMITTED),
            WORK,
            artifact("1", " and two", append=True),
            status(S.COMPLETED),
        ],
        {"a": "one\nsame", "b": "one and two"},
    ),
    "a turn is run again": (
        [
            begun("a"),
            WORK,
            artifact("1", "half"),
            TurnRetried(status_update=status(S.SUBMITTED)),
            WORK,
            artifact("1", "whole"),
            status(S.COMPLETED),
        ],
        {"a": "whole"},
    ),
    "a turn fails before it is run again": (
        [
            begun("a"),
            WORK,
            artifact("1", "half"),
            TurnRetried(status_update=status(S.SUBMITTED)),
            status(S.FAILED, "no"),
        ],
        {"a": "failed"},
    ),
    "a turn is lost, and the task goes on": (
        [
            begun("a"),
            WORK,
            artifact("1", "half"),
            message("b", S.SUBMITTED),
            WORK,
            artifact("2", "two"),
            status(S.COMPLETED),
        ],
        {"a": "gateway_restarted", "b": "two"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_call_ends_with_its_own_turn(case: str) -> None:
    events, expected = CASES[case]
    entries = journal(*events)
    for call, result in expected.items():
        end = end_of_turn(None, entries, call)
        assert (None if end is None else outcome(end)) == result
        # The same, whatever was committed before.
        for cut in range(1, len(entries) + 1):
            fold = TaskFold.begin(entries[0])
            for entry in entries[1:cut]:
                fold.apply(entry)
            is_over = end_of_turn(None, entries[:cut], call) is not None
            if not is_over and cut < len(entries):
                again = end_of_turn(fold.copy(), entries[cut:], call)
                assert (None if again is None else outcome(again)) == result
                is_accepted = any(is_of(entry, call) for entry in entries[:cut])
                assert awaits_turn(fold, call) == is_accepted
        assert end_of_turn(None, entries, "other") is None


def is_of(entry: Entry, call: str) -> bool:
    event = entry.event
    found = event.options if isinstance(event, TaskSubmitted | MessageAccepted) else None
    return found is not None and found.call is not None and found.call.id == call


def test_the_question_is_the_text_of_the_status() -> None:
    end = end_of_turn(None, journal(begun("a"), WORK, status(S.INPUT_REQUIRED, "Which?")), "a")
    assert end is not None
    assert end.status.message is not None
    assert text_of(end.status.message.parts) == "Which?"
