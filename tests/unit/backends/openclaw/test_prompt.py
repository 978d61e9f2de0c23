"""A message as OpenClaw takes it, and the session that it goes to."""

import base64

import pytest

from trunkline.backends.openclaw.hello import Hello
from trunkline.backends.openclaw.prompt import MAX_INLINE_BYTES, Unfit, agent_params, prompt_of
from trunkline.backends.openclaw.session_key import DEFAULT_TEMPLATE, session_key_of
from trunkline.model.values import Part
from trunkline.testing import turn_request


def key(**changes: str) -> str:
    return session_key_of(turn_request("hi", **changes), DEFAULT_TEMPLATE, agent_id="main")


def test_texts_and_data_follow_each_other() -> None:
    prompt = prompt_of((Part(text="one"), Part(data={"a": 1}), Part(text="two")))
    assert prompt.text == 'one\n\n```json\n{"a":1}\n```\n\ntwo'


def test_an_image_goes_beside_the_text() -> None:
    prompt = prompt_of((Part(raw=b"png", media_type="image/png", filename="a.png"),))
    assert prompt.text == "See the attached image."
    assert prompt.attachments == (
        {
            "type": "image",
            "mimeType": "image/png",
            "fileName": "a.png",
            "content": base64.b64encode(b"png").decode(),
        },
    )


def test_a_link_is_named() -> None:
    part = Part(url="https://x.test/a.pdf", media_type="application/pdf", filename="a.pdf")
    assert prompt_of((part,)).text == "a.pdf (application/pdf): https://x.test/a.pdf"


@pytest.mark.parametrize(
    "part",
    [
        Part(raw=b"PK", media_type="application/zip"),
        Part(raw=b"x"),
        Part(raw=b"\xff\xfe", media_type="text/plain"),
        Part(raw=b"x" * (MAX_INLINE_BYTES + 1), media_type="text/plain"),
    ],
    ids=["zip", "unknown", "no text", "too large"],
)
def test_what_cannot_be_given_is_refused_by_its_place(part: Part) -> None:
    with pytest.raises(Unfit, match=r"message\.parts\[1\]"):
        prompt_of((Part(text="see"), part))


def test_an_image_that_is_too_large() -> None:
    with pytest.raises(Unfit, match="larger than the 4 bytes"):
        prompt_of((Part(raw=b"12345", media_type="image/png"),), max_image_bytes=4)


def test_a_message_without_words() -> None:
    with pytest.raises(Unfit, match="holds no text"):
        prompt_of((Part(text="  "),))


def test_trap_7_an_answer_goes_to_nobody_else() -> None:
    params = agent_params(turn_request("hi"), "agent:main:x", "r1", Hello())
    assert params["deliver"] is False
    assert params["idempotencyKey"] == "r1"


def test_a_message_that_no_frame_can_hold() -> None:
    hello = Hello(max_payload_bytes=5000)
    with pytest.raises(Unfit, match="larger than the agent takes"):
        agent_params(turn_request("x" * 1000), "agent:main:x", "r1", hello)


@pytest.mark.parametrize("context", ["a2a", "a2a:x", "A2A:default", ":a2a:", "../a2a"])
def test_trap_2_no_key_looks_like_a_channel(context: str) -> None:
    found = key(context_id=context)
    assert found.startswith("agent:main:br-")
    assert ":" not in found.removeprefix("agent:main:br-")


def test_keys_are_readable_and_stay_the_same() -> None:
    assert key(context_id="Trip to Rome") == key(context_id="Trip to Rome")
    assert key(context_id="Trip to Rome").startswith("agent:main:br-trip-to-rome-")


def test_no_two_conversations_share_a_key() -> None:
    alice = {"principal": "alice", "context_id": "c"}
    keys = [
        key(**alice),
        key(principal="bob", context_id="c"),
        key(**alice, tenant="acme"),
        key(**alice, agent="other/agent"),
        key(principal="alice", context_id="C"),
        key(principal="alice", context_id="c!"),
        key(principal="alice", context_id=""),
        # Whoever knows how keys are made cannot make up the key of somebody else.
        key(principal="mallory", context_id=key(**alice).removeprefix("agent:main:br-")),
    ]
    assert len(set(keys)) == len(keys)
    assert all(found == found.lower() for found in keys)
