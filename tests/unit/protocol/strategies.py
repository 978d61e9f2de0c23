"""Values of the model, with every kind of content and the falsy ones among them."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from trunkline.model.timestamps import format_timestamp
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

few = settings(max_examples=40, deadline=None)

words = st.text(max_size=12)
ids = st.text(min_size=1, max_size=12)
# Numbers that a double holds exactly, as the reference keeps all of them in one.
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | words
json_values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(words, json_values, min_size=1, max_size=3)
metadata = st.none() | objects
# A reference that drops zero milliseconds is no worse than us, only different.
timestamps = st.integers(0, 4_000_000_000).map(lambda s: format_timestamp(s * 1000 + 123))

_text = st.builds(Part, text=words, metadata=metadata)
_raw = st.builds(
    Part, raw=st.binary(max_size=8), metadata=metadata, filename=words, media_type=words
)
_url = st.builds(Part, url=words, metadata=metadata, filename=words, media_type=words)
_data = st.builds(Part, data=json_values, metadata=metadata)

# What 0.3 can say: it has no file name and no media type beside text and data.
parts_03 = _text | _raw | _url | _data
parts = parts_03 | st.builds(Part, text=words, filename=words, media_type=words)


def messages(part: st.SearchStrategy[Part] = parts) -> st.SearchStrategy[Message]:
    return st.builds(
        Message,
        message_id=ids,
        context_id=words,
        task_id=words,
        role=st.sampled_from(Role),
        parts=st.lists(part, min_size=1, max_size=3).map(tuple),
        metadata=metadata,
        extensions=st.lists(ids, max_size=2).map(tuple),
        reference_task_ids=st.lists(ids, max_size=2).map(tuple),
    )


def artifacts(part: st.SearchStrategy[Part] = parts) -> st.SearchStrategy[Artifact]:
    return st.builds(
        Artifact,
        artifact_id=ids,
        name=words,
        description=words,
        parts=st.lists(part, min_size=1, max_size=2).map(tuple),
        metadata=metadata,
        extensions=st.lists(ids, max_size=2).map(tuple),
    )


def statuses(part: st.SearchStrategy[Part] = parts) -> st.SearchStrategy[TaskStatus]:
    return st.builds(
        TaskStatus,
        state=st.sampled_from([state for state in TaskState if state != TaskState.UNSPECIFIED]),
        message=st.none() | messages(part),
        timestamp=timestamps,
    )


def tasks(part: st.SearchStrategy[Part] = parts) -> st.SearchStrategy[Task]:
    return st.builds(
        Task,
        id=ids,
        context_id=ids,
        status=statuses(part),
        artifacts=st.lists(artifacts(part), max_size=2).map(tuple),
        history=st.lists(messages(part), max_size=2).map(tuple),
        metadata=metadata,
    )


def status_updates(
    part: st.SearchStrategy[Part] = parts,
) -> st.SearchStrategy[TaskStatusUpdateEvent]:
    return st.builds(
        TaskStatusUpdateEvent,
        task_id=ids,
        context_id=ids,
        status=statuses(part),
        metadata=metadata,
    )


def artifact_updates(
    part: st.SearchStrategy[Part] = parts,
) -> st.SearchStrategy[TaskArtifactUpdateEvent]:
    return st.builds(
        TaskArtifactUpdateEvent,
        task_id=ids,
        context_id=ids,
        artifact=artifacts(part),
        append=st.booleans(),
        last_chunk=st.sampled_from((None, True)),
        metadata=metadata,
    )
