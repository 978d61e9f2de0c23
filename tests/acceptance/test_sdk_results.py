"""Every shape that an answer can have, as the client of a2a-sdk reads it."""

from uuid import uuid4

import a2a.types.a2a_pb2 as a2a
import pytest
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    InvalidParamsError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from tests.acceptance.conftest import SPOKEN, eventually
from tests.acceptance.gateway import Gateway
from tests.acceptance.sdk import Peer, connect, text_of


def status_text(task: a2a.Task) -> str:
    return "".join(part.text for part in task.status.message.parts)


async def test_artifacts_carry_parts_of_every_kind(peer: Peer) -> None:
    task = await peer.send(
        "artifact text note a few words\n"
        "artifact file dot.png image/png not really\n"
        "artifact url page text/html https://example.com/page\n"
        'artifact data {"n": 1.5, "deep": [true, null, "x"]}'
    )
    parts = {artifact.artifact_id: artifact.parts[0] for artifact in task.artifacts}
    assert parts["note"].text == "a few words"
    file, link = parts["dot.png"], parts["page"]
    assert (file.raw, file.media_type, file.filename) == (b"not really", "image/png", "dot.png")
    assert (link.url, link.media_type) == ("https://example.com/page", "text/html")
    assert parts["data"].data.struct_value["n"] == 1.5
    assert list(parts["data"].data.struct_value["deep"]) == [True, None, "x"]


async def test_messages_carry_parts_of_every_kind(peer: Peer) -> None:
    data = a2a.Part()
    data.data.struct_value["answer"] = 42
    sent = [
        a2a.Part(text="look:"),
        a2a.Part(raw=b"\x00\xff", media_type="image/png", filename="dot.png"),
        a2a.Part(url="https://example.com/dot.png", media_type="image/png"),
        data,
    ]
    # Without a command in it, a message is echoed.
    task = await peer.send(*sent)
    [answer] = task.artifacts
    assert [part.WhichOneof("content") for part in answer.parts] == ["text", "raw", "url", "data"]
    assert answer.parts[1].raw == b"\x00\xff"
    assert answer.parts[2].url == "https://example.com/dot.png"
    assert answer.parts[3].data.struct_value["answer"] == 42
    assert task.history[0].parts[1].filename == "dot.png"


async def test_an_artifact_arrives_in_chunks(peer: Peer) -> None:
    events = [event async for event in peer.stream("chunks report 3")]
    chunks = [event.artifact_update for event in events if event.HasField("artifact_update")]
    assert [chunk.append for chunk in chunks] == [False, True, True]
    assert [chunk.last_chunk for chunk in chunks] == [False, False, True]
    whole = "".join(chunk.artifact.parts[0].text for chunk in chunks)
    [report] = (await peer.get(events[0].task.id)).artifacts
    assert "".join(part.text for part in report.parts) == whole


@pytest.mark.parametrize("spoken", SPOKEN, ids="-".join)
async def test_a_direct_answer_is_a_message_without_a_task(
    shared: Gateway, spoken: tuple[str, str]
) -> None:
    async with connect(shared, *spoken, agent="test/greeter") as peer:
        sent = await peer.answer("Ada")
        streamed = [event async for event in peer.stream("Ada")]
        assert peer.spoken() == {spoken}
    for event in (sent, *streamed):
        assert event.message.parts[0].text == "Hello, Ada!"
        assert event.message.role == a2a.ROLE_AGENT
        assert event.message.context_id
        assert not event.message.task_id
    assert len(streamed) == 1


async def test_a_question_is_answered_by_task_id_alone(peer: Peer) -> None:
    asked = await peer.send("say thinking; ask Which colour?")
    assert asked.status.state == a2a.TASK_STATE_INPUT_REQUIRED
    assert status_text(asked) == "Which colour?"

    done = await peer.send("say Painted.", task_id=asked.id)
    assert (done.id, done.context_id) == (asked.id, asked.context_id)
    assert done.status.state == a2a.TASK_STATE_COMPLETED
    said = [(message.role, message.parts[0].text) for message in done.history]
    assert (a2a.ROLE_AGENT, "Which colour?") in said
    assert (a2a.ROLE_USER, "say Painted.") in said


async def test_a_stream_ends_with_a_question_and_a_second_one_goes_on(peer: Peer) -> None:
    first = [event async for event in peer.stream("ask Which colour?")]
    assert first[-1].status_update.status.state == a2a.TASK_STATE_INPUT_REQUIRED
    task_id = first[0].task.id

    second = [event async for event in peer.stream("say Painted.", task_id=task_id)]
    assert second[0].task.id == task_id
    assert second[-1].status_update.status.state == a2a.TASK_STATE_COMPLETED


async def test_a_task_can_wait_for_a_sign_in(peer: Peer) -> None:
    waiting = await peer.send("auth Sign in at https://example.com")
    assert waiting.status.state == a2a.TASK_STATE_AUTH_REQUIRED
    assert status_text(waiting) == "Sign in at https://example.com"
    done = await peer.send("say Welcome.", task_id=waiting.id)
    assert done.status.state == a2a.TASK_STATE_COMPLETED


@pytest.mark.parametrize(
    ("script", "state"),
    [("fail it broke", a2a.TASK_STATE_FAILED), ("refuse it broke", a2a.TASK_STATE_REJECTED)],
    ids=["failed", "rejected"],
)
async def test_an_unhappy_end_says_why(peer: Peer, script: str, state: "a2a.TaskState") -> None:
    sent = await peer.send(script)
    assert (sent.status.state, status_text(sent)) == (state, "it broke")
    *_, last = [event async for event in peer.stream(script)]
    assert last.status_update.status.state == state


async def test_a_crash_of_the_agent_tells_the_caller_nothing(peer: Peer) -> None:
    task = await peer.send("crash the password is 1234")
    assert task.status.state == a2a.TASK_STATE_FAILED
    assert "1234" not in str(task.status)


async def test_a_message_to_a_task_that_ended_is_refused(peer: Peer) -> None:
    done = await peer.send("say done")
    with pytest.raises(UnsupportedOperationError):
        await peer.send("say more", task_id=done.id)


async def test_a_message_to_an_unknown_task_is_refused(peer: Peer) -> None:
    with pytest.raises(TaskNotFoundError):
        await peer.send("say more", task_id="no-such-task")
    with pytest.raises(TaskNotFoundError):
        await anext(peer.stream("say more", task_id="no-such-task"))


async def test_a_message_with_the_context_of_another_task_is_refused(peer: Peer) -> None:
    asked = await peer.send("ask what?")
    with pytest.raises(InvalidParamsError):
        await peer.send("say more", task_id=asked.id, context_id="another-context")


async def test_content_that_the_agent_does_not_take_is_refused(peer: Peer) -> None:
    with pytest.raises(ContentTypeNotSupportedError, match="audio/ogg"):
        await peer.send(a2a.Part(raw=b"la la", media_type="audio/ogg"))


async def test_get_of_an_unknown_task_is_refused(peer: Peer) -> None:
    with pytest.raises(TaskNotFoundError, match="no-such-task"):
        await peer.get("no-such-task")
    with pytest.raises(TaskNotFoundError):
        await peer.cancel("no-such-task")
    with pytest.raises(TaskNotFoundError):
        await anext(peer.subscribe("no-such-task"))


async def test_history_is_as_long_as_asked_for(peer: Peer) -> None:
    asked = await peer.send("ask what?")
    done = await peer.send("say done", task_id=asked.id, history_length=1)
    assert len(done.history) == 1
    whole = await peer.get(asked.id)
    assert len(whole.history) > 1
    assert list((await peer.get(asked.id, history_length=1)).history) == [whole.history[-1]]


async def test_a_stream_can_open_without_history(current_peer: Peer) -> None:
    opening = await anext(current_peer.stream("say hello", history_length=0))
    assert not opening.task.history


async def test_return_immediately_then_poll(peer: Peer) -> None:
    gate = f"gate-{uuid4()}"
    begun = await peer.send(f"wait {gate}; say done", return_immediately=True)
    assert begun.status.state in (a2a.TASK_STATE_SUBMITTED, a2a.TASK_STATE_WORKING)
    await peer.send(f"open {gate}")

    async def is_done() -> bool:
        return (await peer.get(begun.id)).status.state == a2a.TASK_STATE_COMPLETED

    await eventually(is_done)
    assert text_of(await peer.get(begun.id)) == "done"


async def test_a_context_is_kept_and_shared_by_its_tasks(peer: Peer) -> None:
    first = await peer.send("say one")
    second = await peer.send("say two", context_id=first.context_id)
    assert second.context_id == first.context_id
    assert second.id != first.id
    own = await peer.send("say three", context_id="a-context-of-the-client")
    assert own.context_id == "a-context-of-the-client"


async def test_subscribers_see_the_same_events_in_the_same_order(peer: Peer) -> None:
    gate = f"both-{uuid4()}"
    begun = await peer.send(f"wait {gate}; stream 5", return_immediately=True)
    streams = [peer.subscribe(begun.id) for _ in range(2)]
    openings = [await anext(stream) for stream in streams]
    assert all(opening.task.id == begun.id for opening in openings)
    await peer.send(f"open {gate}")
    first, second = [[event async for event in stream] for stream in streams]
    assert first[-1].status_update.status.state == a2a.TASK_STATE_COMPLETED
    # The one that came earlier may have seen the agent start.
    shorter = min(len(first), len(second))
    assert first[-shorter:] == second[-shorter:]
