from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.model.values import (
    INTERRUPTED,
    TERMINAL,
    Artifact,
    Message,
    Part,
    Role,
    TaskState,
    text_of,
)

CONTENTS: dict[str, Any] = {"text": "", "raw": b"", "url": "", "data": None}


@pytest.mark.parametrize("kind", CONTENTS)
def test_a_part_may_hold_what_is_empty(kind: str) -> None:
    part = Part(**{kind: CONTENTS[kind]})
    again = msgspec.json.decode(msgspec.json.encode(part), type=Part)
    assert again == part


@given(st.sets(st.sampled_from(sorted(CONTENTS))).filter(lambda kinds: len(kinds) != 1))
def test_a_part_holds_exactly_one_content(kinds: set[str]) -> None:
    with pytest.raises(ValueError, match="exactly one of text, raw, url and data"):
        Part(**{kind: CONTENTS[kind] for kind in kinds})


def test_decoding_names_the_part_that_is_wrong() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"parts\[1\]"):
        msgspec.json.decode(
            b'{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a"},{"text":"a","url":"b"}]}',
            type=Message,
        )


def test_a_message_has_an_id() -> None:
    with pytest.raises(ValueError, match="messageId"):
        Message(message_id="", role=Role.USER, parts=(Part(text="hi"),))


def test_a_message_has_a_part() -> None:
    with pytest.raises(ValueError, match="at least one part"):
        Message(message_id="m", role=Role.USER, parts=())


def test_an_artifact_has_an_id() -> None:
    with pytest.raises(ValueError, match="artifactId"):
        Artifact(artifact_id="", parts=())
    assert Artifact(artifact_id="a", parts=()).artifact_id == "a"


def test_json_has_the_names_of_the_specification_and_leaves_defaults_out() -> None:
    message = Message(
        message_id="m",
        context_id="c",
        role=Role.AGENT,
        parts=(Part(url="u", media_type="text/html"), Part(data={"a": None})),
        reference_task_ids=("t",),
    )
    assert msgspec.json.encode(message) == (
        b'{"messageId":"m","contextId":"c","role":"ROLE_AGENT","parts":['
        b'{"url":"u","mediaType":"text/html"},{"data":{"a":null}}],"referenceTaskIds":["t"]}'
    )


def test_states_that_end_and_states_that_wait_are_those_of_the_specification() -> None:
    assert {state.value for state in TERMINAL} == {
        "TASK_STATE_COMPLETED",
        "TASK_STATE_FAILED",
        "TASK_STATE_CANCELED",
        "TASK_STATE_REJECTED",
    }
    assert {state.value for state in INTERRUPTED} == {
        "TASK_STATE_INPUT_REQUIRED",
        "TASK_STATE_AUTH_REQUIRED",
    }
    assert {state.value for state in set(TaskState) - TERMINAL - INTERRUPTED} == {
        "TASK_STATE_UNSPECIFIED",
        "TASK_STATE_SUBMITTED",
        "TASK_STATE_WORKING",
    }


def test_text_of_passes_over_other_content() -> None:
    parts = (Part(text="one"), Part(url="u"), Part(text=""), Part(data="no"), Part(text="two"))
    assert text_of(parts) == "one\n\ntwo"
    assert text_of(()) == ""
