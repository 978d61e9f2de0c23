from typing import Any

import pytest

from trunkline import Artifact, Message, Part, Role, Turn
from trunkline.backends.python import TurnEnd
from trunkline.model.outputs import (
    ArtifactEmitted,
    AuthNeeded,
    Block,
    DirectReply,
    Failed,
    Final,
    Note,
    Question,
    Refused,
    StageEnded,
    StageStarted,
    TextPreview,
    TextReplaced,
    ToolCalled,
    ToolSummarized,
)
from trunkline.testing import FakeSession, turn_request


def turn_of(*content: str | Part, **changes: Any) -> Turn:
    return Turn(turn_request(*content, **changes))


def message(text: str, role: Role) -> Message:
    return Message(message_id=text, role=role, parts=(Part(text=text),))


def test_content_is_sorted_by_kind() -> None:
    raw, url = Part(raw=b"x", filename="a.txt"), Part(url="https://x.test/b.png")
    turn = turn_of("one", raw, Part(data=None), "two", url, Part(data={"a": 1}))
    assert turn.text == "one\ntwo"
    assert turn.files == (raw, url)
    assert turn.data == (None, {"a": 1})
    assert len(turn.parts) == 6


def test_who_and_where() -> None:
    turn = turn_of("hi", tenant="acme", metadata={"k": 1}, extensions=("https://x.test/e",))
    assert (turn.principal, turn.tenant, turn.task_id, turn.context_id) == (
        "tester",
        "acme",
        "task-1",
        "context-1",
    )
    assert turn.metadata == {"k": 1}
    assert turn.extensions == ("https://x.test/e",)
    assert turn_of("hi").metadata == {}


def test_references_are_the_messages() -> None:
    refers = Message(
        message_id="m", role=Role.USER, parts=(Part(text="x"),), reference_task_ids=("t-9",)
    )
    turn = turn_of(message=refers)
    assert turn.references == ("t-9",)
    assert turn.message is refers


def test_asked_is_the_last_thing_the_agent_said() -> None:
    assert turn_of("hi").asked is None
    history = (
        message("make a shirt", Role.USER),
        message("Which size?", Role.AGENT),
        message("L", Role.USER),
        message("Which colour?", Role.AGENT),
    )
    turn = turn_of("blue", history=history)
    assert turn.asked == "Which colour?"
    assert turn.history == history


@pytest.mark.parametrize(
    ("modes", "media_type", "accepted"),
    [
        ((), "image/png", True),
        (("text/plain",), "text/plain", True),
        (("text/plain",), "text/markdown", False),
        (("text/*",), "text/markdown", True),
        (("text/*",), "textual/x", False),
        (("*/*",), "image/png", True),
        (("image/png", "text/plain; charset=utf-8"), "TEXT/plain", True),
        (("application/json",), "application/json; charset=utf-8", True),
    ],
)
def test_accepts(modes: tuple[str, ...], media_type: str, accepted: bool) -> None:
    assert turn_of("hi", accepted_output_modes=modes).accepts(media_type) is accepted


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"text": ""}, Part(text="")),
        ({"data": None}, Part(data=None)),
        ({"data": "word"}, Part(data="word")),
        ({"raw": b"x", "filename": "f"}, Part(raw=b"x", filename="f")),
        (
            {"url": "https://x.test", "media_type": "a/b"},
            Part(url="https://x.test", media_type="a/b"),
        ),
    ],
    ids=repr,
)
def test_artifact_of_each_kind(given: dict[str, Any], part: Part) -> None:
    emitted = turn_of("hi").artifact(name="n", **given)
    assert emitted == ArtifactEmitted(
        artifact=Artifact(artifact_id="run-1-1", name="n", parts=(part,))
    )


def test_artifact_of_several_parts() -> None:
    emitted = turn_of("hi").artifact(parts=["a", b"b", {"c": 1}], artifact_id="mine")
    assert emitted.artifact.artifact_id == "mine"
    assert [part.text for part in emitted.artifact.parts] == ["a", None, None]


@pytest.mark.parametrize("given", [{}, {"text": "a", "raw": b"b"}], ids=repr)
def test_artifact_needs_one_content(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="exactly one of text, data, raw and url"):
        turn_of("hi").artifact(**given)


def test_two_artifacts_have_two_ids() -> None:
    turn = turn_of("hi")
    first, second = turn.artifact(text="a"), turn.artifact(text="b")
    assert first.artifact.artifact_id != second.artifact.artifact_id


def test_chunks_share_an_id_and_append() -> None:
    report = turn_of("hi").chunked(name="report", media_type="text/markdown", filename="r.md")
    chunks = [report.chunk("a"), report.chunk(b"b"), report.chunk("c", last=True)]
    assert {chunk.artifact.artifact_id for chunk in chunks} == {report.artifact_id}
    assert [(chunk.append, chunk.last_chunk) for chunk in chunks] == [
        (False, False),
        (True, False),
        (True, True),
    ]
    assert chunks[1].artifact.parts == (
        Part(raw=b"b", media_type="text/markdown", filename="r.md"),
    )


def test_ends() -> None:
    turn = turn_of("hi")
    text = (Part(text="x"),)
    assert turn.ask("x").output == Question(text)
    assert turn.need_auth("x").output == AuthNeeded(text)
    assert turn.refuse("x").output == Refused("x")
    assert turn.fail("x").output == Failed("x")
    assert turn.answer("x", metadata={"a": 1}).output == Final(text, {"a": 1})
    assert isinstance(turn.ask("x"), TurnEnd)


def test_reply_is_direct_only_for_direct_agents() -> None:
    request = turn_request("hi")
    assert Turn(request).reply("x").output == Final((Part(text="x"),))
    assert Turn(request, direct=True).reply("x").output == DirectReply((Part(text="x"),))


def test_asides() -> None:
    turn = turn_of("hi")
    assert turn.note("a", {"b": 1}) == Note((Part(text="a"), Part(data={"b": 1})))
    assert turn.replace("whole") == TextReplaced("whole")


def test_tool_calls_share_an_id() -> None:
    call = turn_of("hi").tool("search", {"q": "x"})
    assert [call.start(), call.update(50), call.result([], is_error=True)] == [
        ToolCalled(call_id=call.call_id, name="search", phase="start", data={"q": "x"}),
        ToolCalled(call_id=call.call_id, name="search", phase="update", data=50),
        ToolCalled(call_id=call.call_id, name="search", phase="result", data=[], is_error=True),
    ]


def test_messages_in_a_turn() -> None:
    turn = turn_of("x")
    assert turn.preview("a") == TextPreview("a")
    assert turn.block("a", {"b": 1}) == Block((Part(text="a"), Part(data={"b": 1})))
    assert turn.stage() == StageStarted()
    assert turn.stage_end() == StageEnded()
    assert turn.stage_end("a") == StageEnded((Part(text="a"),))
    summary = turn.tool("search").summary("two hits")
    assert summary == ToolSummarized((Part(text="two hits"),), "search")


async def test_an_agent_keeps_something_for_the_conversation() -> None:
    session = FakeSession()
    turn = Turn(turn_request("hi", session=session))
    assert await turn.recall("order") is None
    await turn.keep("order", "4711")
    assert await Turn(turn_request("again", session=session)).recall("order") == "4711"
    await turn.keep("order", "")
    assert await turn.recall("order") is None


async def test_without_a_gateway_nothing_is_kept() -> None:
    turn = Turn(turn_request("hi"))
    assert await turn.recall("order") is None
    with pytest.raises(RuntimeError, match="no gateway"):
        await turn.keep("order", "4711")


def test_what_was_said_does_not_change_with_the_values_that_it_was_made_of() -> None:
    given: dict[str, Any] = {"step": 1}
    turn = turn_of("hi")
    artifact = turn.artifact(data=given, metadata=given)
    told = [turn.answer("x", metadata=given).output, turn.reply("x", metadata=given).output]
    given["step"] = object()
    assert artifact.artifact.parts[0].data == artifact.artifact.metadata == {"step": 1}
    assert told == [Final((Part(text="x"),), {"step": 1})] * 2
