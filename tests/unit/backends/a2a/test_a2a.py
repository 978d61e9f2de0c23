"""What the upstream backend decides, apart from the calls it makes."""

import pytest

from trunkline.backends.a2a import failures, notes
from trunkline.backends.a2a.notes import Ask, Follow, Kept, LookAt, LookFor
from trunkline.backends.a2a.outputs import ASKS, CANCELED, NEEDS_AUTH, REFUSED, SAID_NOTHING, Copy
from trunkline.backends.a2a.request import context_for, headers_for, request_for
from trunkline.model.outputs import (
    ArtifactEmitted,
    AuthNeeded,
    DirectReply,
    Failed,
    Final,
    Note,
    Output,
    Question,
    Refused,
)
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
from trunkline.remote.errors import PeerRefused, PeerTimeout, PeerUnreachable, StreamEnded
from trunkline.testing import turn_request

S = TaskState


def parts(text: str) -> tuple[Part, ...]:
    return (Part(text=text),)


def message(text: str, **fields: object) -> Message:
    return Message(message_id="m", role=Role.AGENT, parts=parts(text), **fields)  # type: ignore[arg-type]


def status(state: TaskState, text: str = "") -> TaskStatusUpdateEvent:
    said = message(text) if text else None
    return TaskStatusUpdateEvent(
        task_id="t", context_id="c", status=TaskStatus(state=state, message=said)
    )


def chunk(text: str, *, append: bool = False, last: bool | None = None) -> TaskArtifactUpdateEvent:
    artifact = Artifact(artifact_id="a", parts=parts(text))
    return TaskArtifactUpdateEvent(
        task_id="t", context_id="c", artifact=artifact, append=append, last_chunk=last
    )


def task(state: TaskState, *texts: str, said: str = "", history: tuple[Message, ...] = ()) -> Task:
    artifacts = tuple(
        Artifact(artifact_id=f"{number or 'a'}", parts=parts(text))
        for number, text in enumerate(texts)
    )
    return Task(
        id="t",
        context_id="c",
        status=TaskStatus(state=state, message=message(said) if said else None),
        artifacts=artifacts,
        history=history,
    )


@pytest.mark.parametrize(
    ("item", "output"),
    [
        (status(S.INPUT_REQUIRED, "size?"), Question(parts("size?"))),
        (status(S.INPUT_REQUIRED), Question(parts(ASKS))),
        (status(S.AUTH_REQUIRED), AuthNeeded(parts(NEEDS_AUTH))),
        (status(S.FAILED, "no paper"), Failed("no paper")),
        (status(S.FAILED), Failed(SAID_NOTHING)),
        (status(S.REJECTED), Refused(REFUSED)),
        (status(S.CANCELED), Failed(CANCELED)),
        (status(S.COMPLETED, "done"), Final(parts("done"))),
        (status(S.COMPLETED), Final()),
        (message("straight", metadata={"n": 1}), DirectReply(parts("straight"), {"n": 1})),
        (task(S.COMPLETED, history=(message("in the history"),)), Final(parts("in the history"))),
    ],
)
def test_each_end_becomes_one(item: Task | Message, output: Output) -> None:
    copy = Copy()
    assert copy.feed(item) == [output]
    assert copy.is_over
    assert copy.is_asking is isinstance(output, Question | AuthNeeded)


def test_with_artifacts_the_message_is_for_the_status_alone() -> None:
    copy = Copy()
    copy.feed(chunk("answer"))
    assert copy.feed(status(S.COMPLETED, "done")) == [Final((), None, parts("done"))]


def test_chunks_keep_what_they_say_of_themselves() -> None:
    copy = Copy()
    # The first chunk has nothing to be appended to.
    [first] = copy.feed(chunk("1", append=True, last=False))
    [second] = copy.feed(chunk("2", append=True, last=True))
    assert isinstance(first, ArtifactEmitted)
    assert isinstance(second, ArtifactEmitted)
    assert (first.append, first.last_chunk) == (False, False)
    assert (second.append, second.last_chunk) == (True, True)


def test_a_task_brings_what_was_missed_and_nothing_else() -> None:
    copy = Copy()
    copy.feed(chunk("1 "))
    copy.feed(chunk("2 ", append=True))
    assert copy.feed(task(S.WORKING, "1 2 ")) == []
    [caught_up] = copy.feed(task(S.WORKING, "1 2 3 "))
    assert isinstance(caught_up, ArtifactEmitted)
    assert (caught_up.artifact.parts, caught_up.append) == (parts("1 2 3 "), False)
    outputs = copy.feed(task(S.COMPLETED, "1 2 3 ", "more"))
    assert [type(output) for output in outputs] == [ArtifactEmitted, Final]


def test_a_note_is_passed_on_once() -> None:
    copy = Copy(told=[message("begun")])
    assert copy.feed(status(S.WORKING, "begun")) == []
    assert copy.feed(status(S.WORKING, "half")) == [Note(parts("half"))]
    assert copy.feed(task(S.WORKING, said="half")) == []
    assert copy.feed(status(S.SUBMITTED)) == []


RUN = "t1.3"


@pytest.mark.parametrize(
    ("kept", "first"),
    [
        (None, Ask()),
        (Kept(RUN), LookFor()),
        (Kept(RUN, context="c"), LookFor("c")),
        (Kept(RUN, "up", "c"), Follow("up", "c")),
        (Kept(RUN, "up", "c", answers=True), LookAt("up", "c")),
        (Kept("t1.1", "up", "c", waits=True), Ask("up", "c")),
        (Kept("t1.1", "up", "c"), Ask("", "c", "up")),
    ],
)
def test_what_was_kept_says_how_a_turn_begins(kept: Kept | None, first: notes.Next) -> None:
    assert notes.next_of(kept, RUN) == first
    if kept is not None:
        assert notes.read(notes.written(kept)) == kept


@pytest.mark.parametrize("text", [None, "", "{", '{"other": 1}'])
def test_a_note_that_is_none_is_passed_over(text: str | None) -> None:
    assert notes.read(text) is None


def test_notes_are_named_after_the_task_of_the_run() -> None:
    assert notes.name_of("t1.3") == notes.name_of("t1.7-1") == "task t1"


def test_a_context_belongs_to_one_caller_and_tells_nothing() -> None:
    base = turn_request("hi")
    changes = [
        {"principal": "other"},
        {"tenant": "other"},
        {"context_id": "other"},
        {"agent": "test/other"},
        # The same letters, cut otherwise.
        {"principal": "testercontext", "context_id": "-1"},
    ]
    found = {context_for(base), *(context_for(turn_request("hi", **each)) for each in changes)}
    assert len(found) == len(changes) + 1
    assert all(each.isalnum() and len(each) == 32 for each in found)


def test_the_message_is_theirs_but_for_its_ids() -> None:
    sent = Message(
        message_id="chosen by the caller",
        role=Role.USER,
        parts=parts("hi"),
        metadata={"n": 1},
        task_id="t1",
        reference_task_ids=("ours",),
    )
    turn = turn_request(
        run_id=RUN, message=sent, accepted_output_modes=("text/plain",), metadata={"r": 2}
    )
    request = request_for(turn, Ask(after="before"), context_id="own", waits=False)
    assert request.message.parts == sent.parts
    assert request.message.metadata == {"n": 1}
    assert (request.message.message_id, request.message.task_id) == (RUN, "")
    assert request.message.reference_task_ids == ("before",)
    assert request.metadata == {"r": 2}
    assert request.configuration is not None
    assert request.configuration.accepted_output_modes == ("text/plain",)
    assert request.configuration.return_immediately
    answer = request_for(turn, Ask("up", "c"), context_id="own", waits=True)
    assert (answer.message.task_id, answer.message.context_id) == ("up", "c")


def test_extensions_are_passed_on() -> None:
    assert headers_for(turn_request("hi")) == {}
    headers = headers_for(turn_request("hi", extensions=("https://a", "https://b")))
    assert headers["A2A-Extensions"] == "https://a, https://b"


def test_what_is_worth_another_attempt() -> None:
    assert failures.is_unsent(PeerUnreachable("no", is_unsent=True))
    assert failures.is_unsent(PeerUnreachable("left alone", reason="CIRCUIT_OPEN", is_unsent=True))
    assert failures.is_unsent(PeerRefused("starting", status=503))
    assert failures.is_unsent(PeerRefused("busy", status=429))
    assert not failures.is_unsent(PeerRefused("passed on", status=502))
    assert not failures.is_unsent(PeerRefused("passed on", status=504))
    assert not failures.is_unsent(PeerUnreachable("reset"))
    assert not failures.is_unsent(PeerTimeout("late"))
    assert failures.is_passing(StreamEnded("gone"))
    assert failures.is_passing(PeerRefused("busy", status=429))
    assert failures.is_passing(PeerRefused("lost in a stream", reason="AGENT_LOST"))
    assert not failures.is_passing(PeerRefused("no", status=400))
