import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trunkline.engine.task_fold import Pending, TaskFold
from trunkline.model.errors import GatewayBug
from trunkline.model.events import (
    Entry,
    Event,
    MessageAccepted,
    StatusShown,
    TaskSubmitted,
    TurnOptions,
    TurnRetried,
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
from trunkline.ports.store import Snapshot

S = TaskState
OPTIONS = TurnOptions(accepted_output_modes=("text/plain",))

# Values from small sets, so that ids meet again and chunks have something to follow.
_texts = st.sampled_from(["", "a", "b", "\n", "é"])
_metadata = st.none() | st.dictionaries(st.sampled_from("xy"), st.integers(0, 2), max_size=2)
_parts = st.one_of(
    st.builds(Part, text=_texts),
    st.builds(Part, text=_texts),
    st.builds(Part, text=_texts, metadata=_metadata),
    st.builds(Part, text=_texts, media_type=st.sampled_from(["", "text/html"])),
    st.builds(Part, text=_texts, filename=st.sampled_from(["", "f"])),
    st.builds(Part, data=st.none() | st.integers(0, 2)),
    st.builds(Part, url=_texts),
)
_ids = st.sampled_from(["m1", "m2", "m3"])
_messages = st.builds(
    Message,
    message_id=_ids,
    role=st.sampled_from(Role),
    parts=st.lists(_parts, min_size=1, max_size=2).map(tuple),
)
_artifacts = st.builds(
    Artifact,
    artifact_id=st.sampled_from(["a1", "a2"]),
    name=_texts,
    description=_texts,
    parts=st.lists(_parts, max_size=3).map(tuple),
    metadata=_metadata,
    extensions=st.sampled_from([(), ("urn:x",)]),
)
_options = st.none() | st.just(OPTIONS)
_statuses = st.builds(
    TaskStatus,
    state=st.sampled_from([state for state in TaskState if state is not S.UNSPECIFIED]),
    message=st.none() | _messages,
    timestamp=st.sampled_from(["", "2026-01-31T23:59:59.000Z"]),
)
_updates = st.builds(
    TaskStatusUpdateEvent, task_id=st.just("t"), context_id=st.just("c"), status=_statuses
)
_tasks = st.builds(
    Task,
    id=st.just("t"),
    context_id=st.just("c"),
    status=_statuses,
    artifacts=st.lists(_artifacts, max_size=2, unique_by=lambda a: a.artifact_id).map(tuple),
    history=st.lists(_messages, max_size=2, unique_by=lambda m: m.message_id).map(tuple),
    metadata=_metadata,
)
_first: st.SearchStrategy[Event] = _tasks | st.builds(
    TaskSubmitted, task=_tasks, options=st.just(OPTIONS)
)
_later: st.SearchStrategy[Event] = st.one_of(
    _updates,
    st.builds(MessageAccepted, message=_messages, status_update=_updates, options=_options),
    st.builds(StatusShown, status_update=_updates),
    st.builds(
        TaskArtifactUpdateEvent,
        task_id=st.just("t"),
        context_id=st.just("c"),
        artifact=_artifacts,
        append=st.sampled_from([True, True, True, False]),
        last_chunk=st.booleans(),
    ),
)


@st.composite
def journals(draw: st.DrawFn) -> tuple[Entry, ...]:
    events = [draw(_first), *draw(st.lists(_later, max_size=12))]
    return tuple(Entry.of(seq, event) for seq, event in enumerate(events, 1))


def journal(*events: Event) -> tuple[Entry, ...]:
    return tuple(Entry.of(seq, event) for seq, event in enumerate(events, 1))


def message(message_id: str, role: Role = Role.USER) -> Message:
    return Message(message_id=message_id, role=role, parts=(Part(text=message_id),))


def task(
    state: TaskState = S.SUBMITTED, *, history: tuple[Message, ...] = (message("m1"),)
) -> Task:
    return Task(id="t", context_id="c", status=TaskStatus(state=state), history=history)


def status(state: TaskState, said: Message | None = None) -> TaskStatusUpdateEvent:
    return TaskStatusUpdateEvent(
        task_id="t", context_id="c", status=TaskStatus(state=state, message=said)
    )


def accepted(
    message_id: str, state: TaskState, options: TurnOptions | None = None
) -> MessageAccepted:
    return MessageAccepted(
        message=message(message_id), status_update=status(state), options=options
    )


def chunk(artifact: Artifact, *, append: bool = True) -> TaskArtifactUpdateEvent:
    return TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=artifact, append=append)


def artifact(
    *parts: Part | str,
    artifact_id: str = "a",
    name: str = "",
    description: str = "",
    metadata: dict[str, object] | None = None,
    extensions: tuple[str, ...] = (),
) -> Artifact:
    return Artifact(
        artifact_id=artifact_id,
        name=name,
        description=description,
        parts=tuple(Part(text=part) if isinstance(part, str) else part for part in parts),
        metadata=metadata,
        extensions=extensions,
    )


def artifacts_after(*chunks: Artifact) -> tuple[Artifact, ...]:
    return TaskFold.of(None, journal(task(), *map(chunk, chunks))).artifacts


@settings(max_examples=80, deadline=None)
@given(journals(), st.data())
def test_folding_in_pieces_is_folding_at_once(
    entries: tuple[Entry, ...], data: st.DataObject
) -> None:
    whole = TaskFold.of(None, entries)
    cut = data.draw(st.integers(1, len(entries)))
    head = TaskFold.of(None, entries[:cut])
    copy = head.copy()
    at_cut = head.whole(), head.pending[:]
    for entry in entries[cut:]:
        copy.apply(entry)
    assert (copy.whole(), copy.pending, copy.seq) == (whole.whole(), whole.pending, whole.seq)
    # What was copied from has not moved.
    assert (head.whole(), head.pending) == at_cut


@settings(max_examples=80, deadline=None)
@given(journals(), st.data())
def test_a_snapshot_stands_for_the_journal_before_it(
    entries: tuple[Entry, ...], data: st.DataObject
) -> None:
    whole = TaskFold.of(None, entries)
    cut = data.draw(st.integers(1, len(entries)))
    snapshot = TaskFold.of(None, entries[:cut]).snapshot()
    through = TaskFold.of(snapshot, entries[cut:])
    assert (through.whole(), through.seq) == (whole.whole(), whole.seq)
    assert through.snapshot() == whole.snapshot()


@settings(max_examples=60, deadline=None)
@given(journals(), st.data())
def test_reading_now_and_then_changes_nothing(
    entries: tuple[Entry, ...], data: st.DataObject
) -> None:
    whole = TaskFold.of(None, entries).whole()
    fold = TaskFold.begin(entries[0])
    for entry in entries[1:]:
        if data.draw(st.booleans()):
            fold.snapshot()
        fold.apply(entry)
    assert fold.whole() == whole


@settings(max_examples=60, deadline=None)
@given(journals())
def test_a_snapshot_is_the_whole_task_in_two_pieces(entries: tuple[Entry, ...]) -> None:
    fold = TaskFold.of(None, entries)
    snapshot = fold.snapshot()
    task = msgspec.json.decode(snapshot.task, type=Task)
    assert task.artifacts == ()
    artifacts = msgspec.json.decode(snapshot.artifacts or b"[]", type=tuple[Artifact, ...])
    assert msgspec.structs.replace(task, artifacts=artifacts) == fold.whole()
    assert (snapshot.artifacts == b"") == (fold.artifacts == ())
    assert snapshot.seq == fold.seq == len(entries)


@given(journals(), st.integers(-2, 2).filter(lambda step: step != 1))
def test_sequences_have_no_holes(entries: tuple[Entry, ...], step: int) -> None:
    fold = TaskFold.of(None, entries)
    seq = fold.seq + step
    with pytest.raises(GatewayBug, match=f"entry {seq} does not follow {fold.seq}"):
        fold.apply(Entry.of(seq, status(S.WORKING)))
    assert fold.seq == len(entries)


def test_a_journal_begins_with_its_task() -> None:
    with pytest.raises(GatewayBug, match="begins with the task"):
        TaskFold.begin(Entry.of(1, status(S.WORKING)))


@pytest.mark.parametrize("again", [task(), TaskSubmitted(task=task(), options=OPTIONS)])
def test_a_task_is_submitted_once(again: Event) -> None:
    with pytest.raises(GatewayBug, match="submitted once"):
        TaskFold.of(None, journal(task(), again))


def test_a_status_replaces_the_one_before_and_its_message_is_remembered() -> None:
    said = message("r.1", Role.AGENT)
    fold = TaskFold.of(None, journal(task(), status(S.WORKING), status(S.COMPLETED, said)))
    assert fold.state is S.COMPLETED
    assert fold.whole().status == TaskStatus(state=S.COMPLETED, message=said)
    assert fold.history == (message("m1"), said)


def test_a_message_of_a_status_that_is_repeated_is_remembered_once() -> None:
    said = message("r.1", Role.AGENT)
    fold = TaskFold.of(None, journal(task(), status(S.WORKING, said), status(S.WORKING, said)))
    assert fold.history == (message("m1"), said)


def test_a_caller_who_reuses_an_id_loses_no_message() -> None:
    fold = TaskFold.of(None, journal(task(), status(S.INPUT_REQUIRED), accepted("m1", S.SUBMITTED)))
    assert fold.history == (message("m1"), message("m1"))


def test_metadata_of_the_task_stays() -> None:
    begun = msgspec.structs.replace(task(), metadata={"k": "v"})
    fold = TaskFold.of(None, journal(begun, status(S.WORKING)))
    assert fold.whole().metadata == {"k": "v"}


def test_chunks_of_text_become_one_part() -> None:
    assert artifacts_after(artifact("a"), artifact("b"), artifact(""), artifact("c")) == (
        artifact("abc"),
    )


def test_parts_that_came_together_stay_apart() -> None:
    assert artifacts_after(artifact("a", "b"), artifact("c", "d")) == (artifact("a", "bc", "d"),)


@pytest.mark.parametrize(
    "other",
    [
        Part(text="x", metadata={"k": 1}),
        Part(text="x", metadata={}),
        Part(text="x", media_type="text/html"),
        Part(text="x", filename="f"),
        Part(data={"k": 1}),
        Part(url="u"),
        Part(raw=b"x"),
    ],
)
def test_parts_that_are_more_than_text_are_not_merged(other: Part) -> None:
    assert artifacts_after(
        artifact("a"), artifact(other), artifact(other), artifact("b"), artifact("c")
    ) == (artifact("a", other, other, "bc"),)


def test_a_chunk_without_parts_adds_none() -> None:
    assert artifacts_after(artifact("a"), artifact()) == (artifact("a"),)


def test_a_chunk_may_say_more_about_its_artifact() -> None:
    grown = artifacts_after(
        artifact("a", name="n", description="d", metadata={"k": 1, "l": 1}, extensions=("urn:x",)),
        artifact("b", metadata={"l": 2}),
        artifact("c", name="m"),
    )
    assert grown == (
        artifact(
            "abc", name="m", description="d", metadata={"k": 1, "l": 2}, extensions=("urn:x",)
        ),
    )


def test_a_chunk_that_is_not_appended_replaces_the_artifact_in_its_place() -> None:
    entries = journal(
        task(),
        chunk(artifact("a", metadata={"k": 1}), append=False),
        chunk(artifact("other", artifact_id="b"), append=False),
        chunk(artifact("new"), append=False),
    )
    assert TaskFold.of(None, entries).artifacts == (
        artifact("new"),
        artifact("other", artifact_id="b"),
    )


def test_a_first_chunk_that_is_appended_begins_the_artifact() -> None:
    assert artifacts_after(artifact("a")) == (artifact("a"),)


def test_a_submitted_message_waits_with_its_options() -> None:
    bare = TaskFold.of(None, journal(task()))
    assert bare.pending == [Pending(message("m1"), None, task().status.timestamp, 1)]
    with_options = TaskFold.of(None, journal(TaskSubmitted(task=task(), options=OPTIONS)))
    assert [each.options for each in with_options.pending] == [OPTIONS]


@pytest.mark.parametrize(
    "begun",
    [
        task(S.REJECTED),
        task(history=()),
        task(history=(message("m1"), message("r.1", Role.AGENT))),
    ],
    ids=["rejected", "no history", "the agent spoke last"],
)
def test_a_task_with_nothing_to_answer_has_nothing_waiting(begun: Task) -> None:
    assert TaskFold.of(None, journal(begun)).pending == []


def test_messages_wait_until_a_turn_takes_them_up_in_order() -> None:
    entries = journal(
        task(),
        accepted("m2", S.SUBMITTED),
        status(S.WORKING),
        accepted("m3", S.WORKING, OPTIONS),
        status(S.WORKING),
        status(S.SUBMITTED),
        status(S.WORKING),
        status(S.SUBMITTED),
        status(S.WORKING),
        status(S.COMPLETED),
    )
    fold = TaskFold.begin(entries[0])
    waiting = []
    for entry in entries[1:]:
        fold.apply(entry)
        waiting.append([each.message.message_id for each in fold.pending])
    assert waiting == [
        ["m1", "m2"],
        ["m2"],
        ["m2", "m3"],
        ["m2", "m3"],
        ["m2", "m3"],
        ["m3"],
        ["m3"],
        [],
        [],
    ]
    assert fold.history == (message("m1"), message("m2"), message("m3"))


def test_a_message_after_a_snapshot_waits_with_its_options() -> None:
    entries = journal(
        task(), status(S.WORKING), status(S.INPUT_REQUIRED), accepted("m2", S.SUBMITTED, OPTIONS)
    )
    snapshot = TaskFold.of(None, entries[:3]).snapshot()
    [waiting] = TaskFold.of(snapshot, entries[3:]).pending
    assert (waiting.message, waiting.options) == (message("m2"), OPTIONS)


def test_a_turn_that_starts_without_a_waiting_message_takes_none() -> None:
    fold = TaskFold.of(None, journal(task(history=()), status(S.WORKING)))
    assert fold.pending == []


def test_an_empty_snapshot_has_no_artifacts() -> None:
    assert TaskFold.of(None, journal(task())).snapshot() == Snapshot(
        1,
        b'{"id":"t","contextId":"c","status":{"state":"TASK_STATE_SUBMITTED"},'
        b'"history":[{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"m1"}]}]}',
        b"",
    )


def test_a_status_that_is_only_shown_leaves_no_trace_in_history() -> None:
    said, piece = message("a1", Role.AGENT), message("a2", Role.AGENT)
    fold = TaskFold.of(
        None,
        journal(
            task(),
            status(S.WORKING),
            StatusShown(status_update=status(S.WORKING, piece)),
            status(S.COMPLETED, said),
        ),
    )
    assert fold.history == (message("m1"), said)
    assert not fold.pending
    half = TaskFold.of(None, journal(task(), StatusShown(status_update=status(S.WORKING, piece))))
    assert half.status.message == piece
    assert not half.pending


def retried() -> TurnRetried:
    return TurnRetried(status_update=status(S.SUBMITTED))


def test_a_turn_that_is_retried_leaves_nothing_but_what_callers_said() -> None:
    before = journal(
        task(),
        status(S.WORKING),
        chunk(artifact("kept"), append=False),
        status(S.INPUT_REQUIRED),
        accepted("m2", S.SUBMITTED, OPTIONS),
    )
    entries = journal(
        *(entry.event for entry in before),
        status(S.WORKING),
        chunk(artifact(" and more"), append=True),
        chunk(artifact("new", artifact_id="b"), append=False),
        status(S.WORKING, message("note", Role.AGENT)),
        accepted("m3", S.WORKING),
        retried(),
    )
    fold = TaskFold.of(None, entries)
    assert fold.state is S.SUBMITTED
    assert fold.artifacts == (artifact("kept"),)
    assert fold.history == (message("m1"), message("m2"), message("m3"))
    assert [(each.message, each.options) for each in fold.pending] == [
        (message("m2"), OPTIONS),
        (message("m3"), None),
    ]
    # Also when the turn before was snapshot, and a second time.
    snapshot = TaskFold.of(None, entries[:4]).snapshot()
    again = TaskFold.of(snapshot, entries[4:])
    assert (again.whole(), again.pending) == (fold.whole(), fold.pending)
    more = journal(*(entry.event for entry in entries), status(S.WORKING), retried())
    twice = TaskFold.of(None, more)
    assert twice.whole() == fold.whole()
    # Each time it is another run.
    assert [each.run_id("t") for each in fold.pending] == ["t.5-1", "t.10"]
    assert [each.run_id("t") for each in twice.pending] == ["t.5-2", "t.10"]


def test_only_a_turn_can_be_retried() -> None:
    with pytest.raises(GatewayBug):
        TaskFold.of(None, journal(task(), retried()))
