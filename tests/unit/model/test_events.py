import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.protocol import strategies as values

from trunkline.model.events import (
    Entry,
    Event,
    MessageAccepted,
    StatusShown,
    TaskSubmitted,
    TurnOptions,
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

MESSAGE = Message(message_id="m1", role=Role.USER, parts=(Part(text="hi"),))
TASK = Task(
    id="t1",
    context_id="c1",
    status=TaskStatus(state=TaskState.SUBMITTED, timestamp="2026-01-31T23:59:59.000Z"),
    history=(MESSAGE,),
)
STATUS = TaskStatusUpdateEvent(
    task_id="t1", context_id="c1", status=TaskStatus(state=TaskState.WORKING)
)
ARTIFACT = TaskArtifactUpdateEvent(
    task_id="t1",
    context_id="c1",
    artifact=Artifact(artifact_id="a1", parts=(Part(text="yes"),)),
    append=True,
    last_chunk=True,
)
OPTIONS = TurnOptions(
    accepted_output_modes=("text/plain",), extensions=("urn:x",), metadata={"k": 1}
)
SUBMITTED = TaskSubmitted(task=TASK, options=OPTIONS)
SHOWN = StatusShown(status_update=STATUS)
ACCEPTED = MessageAccepted(message=MESSAGE, status_update=STATUS, options=OPTIONS)

# Bytes as journals on disk hold them. They are not to be edited: a new shape is a new kind.
JOURNAL: list[tuple[str, bytes, Event]] = [
    (
        "task.1",
        b'{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_SUBMITTED",'
        b'"timestamp":"2026-01-31T23:59:59.000Z"},"history":[{"messageId":"m1",'
        b'"role":"ROLE_USER","parts":[{"text":"hi"}]}]}',
        TASK,
    ),
    (
        "submitted.1",
        b'{"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_SUBMITTED",'
        b'"timestamp":"2026-01-31T23:59:59.000Z"},"history":[{"messageId":"m1",'
        b'"role":"ROLE_USER","parts":[{"text":"hi"}]}]},"options":{"acceptedOutputModes":'
        b'["text/plain"],"extensions":["urn:x"],"metadata":{"k":1}}}',
        SUBMITTED,
    ),
    (
        "status.1",
        b'{"taskId":"t1","contextId":"c1","status":{"state":"TASK_STATE_WORKING"}}',
        STATUS,
    ),
    (
        "artifact.1",
        b'{"taskId":"t1","contextId":"c1","artifact":{"artifactId":"a1","parts":'
        b'[{"text":"yes"}]},"append":true,"lastChunk":true}',
        ARTIFACT,
    ),
    (
        "message.1",
        b'{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hi"}]},'
        b'"statusUpdate":{"taskId":"t1","contextId":"c1","status":{"state":'
        b'"TASK_STATE_WORKING"}},"options":{"acceptedOutputModes":["text/plain"],'
        b'"extensions":["urn:x"],"metadata":{"k":1}}}',
        ACCEPTED,
    ),
    (
        "shown.1",
        b'{"statusUpdate":{"taskId":"t1","contextId":"c1","status":{"state":'
        b'"TASK_STATE_WORKING"}}}',
        SHOWN,
    ),
]
KINDS = [kind for kind, _, _ in JOURNAL]

options = st.builds(
    TurnOptions,
    accepted_output_modes=st.lists(values.words, max_size=2).map(tuple),
    extensions=st.lists(values.words, max_size=2).map(tuple),
    metadata=values.metadata,
)
events: st.SearchStrategy[Event] = (
    values.tasks()
    | values.status_updates()
    | values.artifact_updates()
    | st.builds(TaskSubmitted, task=values.tasks(), options=options)
    | st.builds(
        MessageAccepted,
        message=values.messages(),
        status_update=values.status_updates(),
        options=st.none() | options,
    )
    | st.builds(StatusShown, status_update=values.status_updates())
)


@settings(max_examples=60, deadline=None)
@given(events)
def test_every_event_reads_back_from_its_bytes(event: Event) -> None:
    written = Entry.of(3, event)
    assert written.event is event
    read = Entry(written.seq, written.kind, written.body)
    assert read.event == event
    assert read.event is read.event
    assert read.public == written.public
    assert read.public_body == written.public_body


@pytest.mark.parametrize(("kind", "body", "event"), JOURNAL, ids=KINDS)
def test_an_old_journal_still_reads(kind: str, body: bytes, event: Event) -> None:
    assert Entry(1, kind, body).event == event


@pytest.mark.parametrize(("kind", "body", "event"), JOURNAL, ids=KINDS)
def test_kinds_and_bytes_stay_as_they_are(kind: str, body: bytes, event: Event) -> None:
    entry = Entry.of(1, event)
    assert (entry.kind, entry.body) == (kind, body)


@pytest.mark.parametrize("event", [TASK, STATUS, ARTIFACT], ids=["task", "status", "artifact"])
def test_most_events_are_public_as_they_are(event: Event) -> None:
    entry = Entry.of(1, event)
    assert entry.public is event
    assert entry.public_body is entry.body


def test_of_a_status_that_history_does_not_keep_the_update_is_public() -> None:
    entry = Entry.of(1, SHOWN)
    assert entry.public == STATUS
    assert entry.public_body == Entry.of(1, STATUS).body


def test_of_a_submitted_task_the_task_is_public_and_the_options_are_not() -> None:
    entry = Entry.of(1, SUBMITTED)
    assert entry.public == TASK
    assert entry.public_body == Entry.of(1, TASK).body


def test_of_an_accepted_message_the_status_update_is_public() -> None:
    entry = Entry.of(2, ACCEPTED)
    assert entry.public == STATUS
    assert entry.public_body == Entry.of(2, STATUS).body
    # Encoded once, for all who read.
    assert entry.public_body is entry.public_body


def test_entries_are_equal_by_what_the_journal_holds() -> None:
    one, same = Entry.of(1, STATUS), Entry(1, "status.1", Entry.of(1, STATUS).body)
    assert one == same
    assert hash(one) == hash(same)
    assert one != Entry.of(2, STATUS)
    assert one != Entry.of(1, ARTIFACT)
    assert one != (1, "status.1", one.body)


def test_an_entry_shows_what_it_is() -> None:
    assert repr(Entry(4, "status.1", b"{}")) == "Entry(4, 'status.1', b'{}')"


def test_other_encodings_are_kept_with_the_entry() -> None:
    entry, other = Entry.of(1, STATUS), Entry.of(1, STATUS)
    entry.wire["0.3"] = b"..."
    assert other.wire == {}
