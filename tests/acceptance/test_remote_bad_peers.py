"""Peers that misbehave: a clear error within its limit in time, never a hang (O-8, D12, D13)."""

import asyncio
import json

import pytest
from tests.acceptance.raw_peer import (
    CHUNKED,
    DONE,
    STREAM,
    TASK,
    Asked,
    Handler,
    chunk,
    event,
    piece,
    raw_peer,
    response,
    result,
    status,
)
from tests.acceptance.remote import Sleepless, ask, collected, folded, free_port, state_of

from trunkline.model.values import Task, TaskState
from trunkline.remote import (
    BadPeerAnswer,
    InvalidTarget,
    Limits,
    PeerRefused,
    PeerTimeout,
    PeerUnreachable,
    RemoteError,
    StreamEnded,
    Target,
    TransportUnsupported,
    connect,
)

QUICK = Limits(connect_s=5, call_s=0.5, idle_s=0.3, stream_s=1.0, card_s=0.5, reconnects=1)
# For errors that are no matter of time.
CALM = Limits(attempts=1, reconnects=1)
LARGE = b" " * (30 * 1024 * 1024)


def writes(data: bytes, *, closes: bool = False) -> Handler:
    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        if closes:
            writer.close()

    return handle


def answers(make_body: object) -> Handler:
    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(result(asked, make_body))

    return handle


async def drips(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Slow: ")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def says_nothing(asked: Asked, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def endless(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(STREAM + event(asked, {"task": TASK}))
    while True:
        writer.write(event(asked, piece("more")))
        await writer.drain()
        await asyncio.sleep(0.01)


BAD_ANSWERS = {
    "not-http": (writes(b"\x00\x01\x02 nonsense\r\n\r\n", closes=True), "NOT_HTTP"),
    "html": (writes(response(b"<html>", kind="text/html; charset=utf-8")), "WRONG_TYPE"),
    "not-json": (writes(response(b"{nonsense")), "BAD_ANSWER"),
    "not-a2a": (answers({"something": "else"}), "BAD_ANSWER"),
    "empty": (writes(response(b"")), "BAD_ANSWER"),
    "wrong-id": (writes(response(b'{"jsonrpc":"2.0","id":"x","result":{}}')), "BAD_ANSWER"),
    "redirect": (
        writes(response(b"", "Location: https://elsewhere.example/", status="307 Go")),
        "REDIRECT",
    ),
    "large": (writes(response(LARGE), closes=True), "TOO_LARGE"),
    "compressed": (writes(response(b"x", "Content-Encoding: gzip")), "WRONG_TYPE"),
    "deep": (writes(response(b"[" * 100_000)), "BAD_ANSWER"),
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
async def test_an_answer_that_makes_no_sense(name: str) -> None:
    handler, reason = BAD_ANSWERS[name]
    async with raw_peer(handler) as peer, connect(peer.url, limits=CALM) as agent:
        for call in (agent.send(ask("hi")), agent.get("t"), collected(agent.stream(ask("hi")))):
            with pytest.raises(BadPeerAnswer) as bad:
                await call
            assert bad.value.reason == reason
            assert bad.value.message


@pytest.mark.parametrize("name", [name for name in BAD_ANSWERS if name not in ("not-a2a",)])
async def test_a_card_that_makes_no_sense(name: str) -> None:
    handler, reason = BAD_ANSWERS[name]
    async with (
        raw_peer(handler, has_card=False) as peer,
        connect(peer.url, limits=CALM) as agent,
    ):
        for call in (agent.card(), agent.send(ask("hi"))):
            with pytest.raises(BadPeerAnswer) as bad:
                await call
            expected = {"BAD_ANSWER": "BAD_CARD", "WRONG_TYPE": "BAD_CARD"}.get(reason, reason)
            assert bad.value.reason in (expected, reason)


async def test_large_without_a_length() -> None:
    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(40):
            writer.write(chunk(b" " * 1024 * 1024))
            await writer.drain()

    async with raw_peer(handle) as peer, connect(peer.url, limits=CALM) as agent:
        with pytest.raises(BadPeerAnswer) as bad:
            await agent.get("t")
        assert bad.value.reason == "TOO_LARGE"


@pytest.mark.parametrize("handler", [drips, says_nothing], ids=["drips", "silent"])
async def test_a_peer_that_takes_too_long(handler: Handler) -> None:
    async with raw_peer(handler) as peer, connect(peer.url, limits=QUICK) as agent:
        for call in (agent.send(ask("hi")), agent.get("t"), collected(agent.stream(ask("hi")))):
            with pytest.raises(PeerTimeout) as late:
                await call
            assert late.value.reason in ("CALL_TIMEOUT", "IDLE_TIMEOUT")
    async with (
        raw_peer(handler, has_card=False) as peer,
        connect(peer.url, limits=QUICK) as agent,
    ):
        with pytest.raises(PeerTimeout):
            await agent.card()


async def test_a_cancellation_is_no_timeout() -> None:
    """D12: whoever gives up is not told that the peer was slow."""
    reached = asyncio.Event()

    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        reached.set()
        await asyncio.Event().wait()

    async with raw_peer(handle) as peer, connect(peer.url) as agent:
        for call in (agent.send(ask("hi")), collected(agent.stream(ask("hi")))):
            reached.clear()
            waiting = asyncio.get_running_loop().create_task(call)
            await reached.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting


async def test_a_stream_that_never_ends_is_cut_at_its_cap() -> None:
    async with raw_peer(endless) as peer, connect(peer.url, limits=QUICK) as agent:
        with pytest.raises(PeerTimeout) as late:
            await collected(agent.stream(ask("hi")))
        assert late.value.task_id == "t"


async def test_a_stream_that_falls_silent() -> None:
    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM + event(asked, {"task": TASK}))
        await writer.drain()
        await asyncio.Event().wait()

    async with raw_peer(handle) as peer, connect(peer.url, limits=QUICK) as agent:
        with pytest.raises(PeerTimeout) as late:
            await collected(agent.stream(ask("hi")))
        assert (late.value.reason, late.value.task_id) == ("IDLE_TIMEOUT", "t")


async def test_a_flowing_stream_outlives_the_limit_of_a_call() -> None:
    """O-8: silence counts, not the length of the stream."""

    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM + event(asked, {"task": TASK}))
        for _ in range(30):
            writer.write(event(asked, piece("x")))
            await writer.drain()
            await asyncio.sleep(0.03)
        writer.write(event(asked, status("COMPLETED")))
        await writer.drain()
        writer.close()

    limits = Limits(call_s=0.3, idle_s=0.3)
    async with raw_peer(handle) as peer, connect(peer.url, limits=limits) as agent:
        assert folded(await collected(agent.stream(ask("hi")))) == "x" * 30


async def test_a_stream_that_breaks_off_every_time() -> None:
    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM)
        if asked.rpc == "SendStreamingMessage":
            writer.write(event(asked, {"task": TASK}))
        await writer.drain()
        writer.close()

    async with raw_peer(handle) as peer, connect(peer.url, limits=CALM) as agent:
        with pytest.raises(StreamEnded) as ended:
            await collected(agent.stream(ask("hi")))
        assert ended.value.task_id == "t"
        assert len(peer.asked) == 3, "the card, the message and one attempt to resume"


async def test_a_stream_that_breaks_off_before_it_names_a_task_is_not_repeated() -> None:
    async with raw_peer(writes(STREAM, closes=True)) as peer, connect(peer.url) as agent:
        with pytest.raises(StreamEnded, match="may have arrived"):
            await collected(agent.stream(ask("hi")))
        assert len(peer.asked) == 2


@pytest.mark.parametrize(
    "frame",
    [b"data: {garbage\n\n", b"data: <html>\n\n", b'data: {"jsonrpc":"2.0","id":"x"}\n\n'],
)
async def test_garbage_in_a_stream(frame: bytes) -> None:
    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM + event(asked, {"task": TASK}) + frame)
        await writer.drain()
        writer.close()

    async with raw_peer(handle) as peer, connect(peer.url, limits=CALM) as agent:
        with pytest.raises(BadPeerAnswer) as bad:
            await collected(agent.stream(ask("hi")))
        assert bad.value.task_id == "t"


async def test_an_event_of_another_task() -> None:
    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        other = {"task": TASK | {"id": "another"}}
        writer.write(STREAM + event(asked, {"task": TASK}) + event(asked, other))
        await writer.drain()
        writer.close()

    async with raw_peer(handle) as peer, connect(peer.url, limits=CALM) as agent:
        with pytest.raises(BadPeerAnswer, match="another task"):
            await collected(agent.stream(ask("hi")))


async def test_another_task_than_the_one_asked_for() -> None:
    async with raw_peer(answers(TASK)) as peer, connect(peer.url) as agent:
        with pytest.raises(BadPeerAnswer, match="another task"):
            await agent.get("mine")


async def test_an_error_within_a_stream_is_the_answer() -> None:
    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        error = {"jsonrpc": "2.0", "id": asked.id, "error": {"code": -32603, "message": "broke"}}
        writer.write(STREAM + event(asked, {"task": TASK}))
        writer.write(b"data: " + json.dumps(error).encode() + b"\n\n")

    async with raw_peer(handle) as peer, connect(peer.url) as agent:
        with pytest.raises(PeerRefused, match="broke"):
            await collected(agent.stream(ask("hi")))


async def test_a_cut_without_ids_goes_on_with_the_snapshot() -> None:
    """The piece that was missed is in the task; the one that was seen is not shown again."""

    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.rpc == "SendStreamingMessage":
            writer.write(CHUNKED)
            writer.write(chunk(event(asked, {"task": TASK}) + event(asked, piece("1"))))
            await writer.drain()
            writer.transport.abort()
            return
        artifact = {"artifactId": "a", "parts": [{"text": "12"}]}
        writer.write(STREAM + event(asked, {"task": TASK | {"artifacts": [artifact]}}))
        writer.write(event(asked, piece("3")) + event(asked, status("COMPLETED")))
        writer.close()

    async with raw_peer(handle) as peer, connect(peer.url) as agent:
        items = await collected(agent.stream(ask("hi")))
    assert [type(item).__name__ for item in items] == [
        "Task",
        "TaskArtifactUpdateEvent",
        "Task",
        "TaskArtifactUpdateEvent",
        "TaskStatusUpdateEvent",
    ]
    assert folded(items) == "123"


async def test_a_numbered_stream_that_lost_its_first_event_begins_again() -> None:
    """A peer that numbers its events begins every stream with the task, which holds all of the
    earlier ones: a client that took the later ones alone would miss the text before them."""

    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.path.endswith(".json"):
            card = {"name": "Raw", "supportedInterfaces": [peer.interface()]}
            writer.write(response(json.dumps(card).encode(), "Trunkline-Features: event-ids"))
            return
        artifact = {"artifactId": "a", "parts": [{"text": "1"}]}
        first = event(asked, {"task": TASK | {"artifacts": [artifact]}}, "id: 7")
        writer.write(STREAM + (b"" if asked.rpc == "SendStreamingMessage" else first))
        writer.write(event(asked, piece("2"), "id: 8"))
        writer.write(event(asked, status("COMPLETED"), "id: 9"))
        await writer.drain()
        writer.close()

    async with raw_peer(handle, has_card=False) as peer, connect(peer.url) as agent:
        items = await collected(agent.stream(ask("hi")))
    assert isinstance(items[0], Task)
    assert folded(items) == "12"
    assert len(items) == 3
    assert [asked.rpc for asked in peer.asked[1:]] == ["SendStreamingMessage", "SubscribeToTask"]
    assert "last-event-id" not in peer.asked[2].headers


async def test_a_stream_of_0_3_that_begins_with_what_comes_next_is_the_whole_task() -> None:
    """0.3 leaves open what a subscription begins with; its SDK leaves out what was before."""
    begun = {
        "kind": "task",
        "id": "t",
        "contextId": "c",
        "status": {"state": "working"},
        "artifacts": [{"artifactId": "a", "parts": [{"kind": "text", "text": "1"}]}],
    }
    about = {"taskId": "t", "contextId": "c"}
    more = {"artifactId": "a", "parts": [{"kind": "text", "text": "2"}]}
    comes = [
        about | {"kind": "artifact-update", "artifact": more, "append": True},
        about | {"kind": "status-update", "status": {"state": "completed"}, "final": True},
    ]

    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.rpc == "tasks/get":
            writer.write(result(asked, begun))
            return
        assert asked.rpc == "tasks/resubscribe"
        writer.write(STREAM + b"".join(event(asked, one) for one in comes))
        writer.close()

    async with raw_peer(handle) as peer:
        peer.card["supportedInterfaces"] = [peer.interface(protocolVersion="0.3")]
        async with connect(peer.url) as agent:
            items = await collected(agent.subscribe("t"))
    assert isinstance(items[0], Task)
    assert folded(items) == "12"
    assert len(items) == 3


def refusing(*headers: str, code: int) -> Handler:
    """Begins a stream, refuses to resume it once, then does."""
    refused = False

    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        nonlocal refused
        if asked.rpc == "SubscribeToTask" and not refused:
            refused = True
            writer.write(response(b"{}", *headers, status=f"{code} Later"))
            return
        writer.write(STREAM + event(asked, {"task": TASK}))
        if asked.rpc == "SubscribeToTask":
            writer.write(event(asked, status("COMPLETED")))
        await writer.drain()
        writer.close()

    return handle


@pytest.mark.parametrize("code", [429, 503])
async def test_a_stream_is_resumed_when_the_peer_says(code: int) -> None:
    clock = Sleepless()
    async with (
        raw_peer(refusing("Retry-After: 7", code=code)) as peer,
        connect(peer.url, clock=clock) as agent,
    ):
        items = await collected(agent.stream(ask("hi")))
    assert state_of(items[-1]) is TaskState.COMPLETED
    assert clock.slept[1:] == [7]


async def test_a_stream_that_can_be_resumed_much_later_says_when() -> None:
    async with (
        raw_peer(refusing("Retry-After: 600", code=429)) as peer,
        connect(peer.url, clock=Sleepless()) as agent,
    ):
        with pytest.raises(PeerRefused) as refused:
            await collected(agent.stream(ask("hi")))
    assert (refused.value.retry_after_s, refused.value.task_id) == (600, "t")


async def test_a_snapshot_that_tells_nothing_new_is_not_shown() -> None:
    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM + event(asked, {"task": TASK}))
        if asked.rpc == "SubscribeToTask":
            writer.write(event(asked, status("COMPLETED")))
        await writer.drain()
        writer.close()

    async with raw_peer(handle) as peer, connect(peer.url) as agent:
        items = await collected(agent.stream(ask("hi")))
    assert [type(item).__name__ for item in items] == ["Task", "TaskStatusUpdateEvent"]


async def test_a_task_that_ended_while_we_were_away() -> None:
    """There is no stream of an ended task, so the task itself tells the end."""

    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.rpc == "SendStreamingMessage":
            writer.write(STREAM + event(asked, {"task": TASK}))
            writer.close()
        elif asked.rpc == "SubscribeToTask":
            error = {"code": -32004, "message": "it has ended"}
            body = {"jsonrpc": "2.0", "id": asked.id, "error": error}
            writer.write(response(json.dumps(body).encode()))
        else:
            writer.write(result(asked, DONE))

    async with raw_peer(handle) as peer, connect(peer.url) as agent:
        items = await collected(agent.stream(ask("hi")))
    assert [state_of(item) for item in items] == [TaskState.WORKING, TaskState.COMPLETED]


async def test_a_peer_that_is_not_there() -> None:
    async with connect(f"http://127.0.0.1:{free_port()}", limits=CALM) as agent:
        with pytest.raises(PeerUnreachable) as gone:
            await agent.send(ask("hi"))
        assert gone.value.is_unsent


async def test_the_next_interface_is_tried_when_one_cannot_be_reached() -> None:
    async with raw_peer(answers({"task": DONE})) as peer, connect(peer.url) as agent:
        closed = f"http://127.0.0.1:{free_port()}/"
        peer.card["supportedInterfaces"] = [
            peer.interface() | {"url": closed},
            peer.interface(),
        ]
        assert isinstance(await agent.send(ask("hi")), Task)
        assert [asked.path for asked in peer.asked[1:]] == ["/rpc"]
        # What worked is asked first from now on.
        assert isinstance(await agent.send(ask("hi")), Task)


@pytest.mark.parametrize(
    "interface",
    [
        {"protocolBinding": "GRPC"},
        {"protocolVersion": "2.0"},
        {"url": "ftp://x/"},
    ],
)
async def test_no_interface_that_we_speak(interface: dict[str, str]) -> None:
    async with raw_peer(answers({})) as peer, connect(peer.url) as agent:
        peer.card["supportedInterfaces"] = [peer.interface() | interface]
        with pytest.raises(TransportUnsupported):
            await agent.send(ask("hi"))


@pytest.mark.parametrize(
    "target",
    [
        Target(url="ftp://x"),
        Target(url="nonsense"),
        Target(url="http://[x"),
        Target(url="http://x:99999/"),
        Target(url="https://user:password@x/"),
        Target(url="https://x/", headers={"X": "a\r\nY: b"}),
        Target(url="https://x/", headers={"a b": "c"}),
    ],
)
def test_a_target_that_makes_no_sense(target: Target) -> None:
    with pytest.raises(InvalidTarget) as bad:
        connect(target)
    assert "password@" not in bad.value.message
    assert isinstance(bad.value, RemoteError)


async def test_a_stream_that_stays_open_after_the_task_has_ended() -> None:
    """The default limit for silence is two minutes; nobody waits that long for nothing."""

    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM + event(asked, {"task": TASK}) + event(asked, status("COMPLETED")))
        await writer.drain()
        await asyncio.Event().wait()

    async with raw_peer(handle) as peer, connect(peer.url) as agent:
        items = await collected(agent.stream(ask("hi")))
    assert state_of(items[-1]) is TaskState.COMPLETED
    assert len(items) == 2
