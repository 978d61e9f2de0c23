import json
from collections.abc import Callable

import pytest
from tests.unit.server.requests import Answer, body, request

from trunkline.model.errors import ContentTypeNotSupported, TooManyRequests, Unavailable
from trunkline.model.events import Entry
from trunkline.model.values import TERMINAL, TaskState, TaskStatus, TaskStatusUpdateEvent
from trunkline.protocol import sse
from trunkline.protocol.v03 import V03
from trunkline.protocol.v1 import V1
from trunkline.runtime.fanout import Beat, CutOff, Gap, Item, NoReply, Opening, Reply, Subscription
from trunkline.server.asgi import AsgiResponse
from trunkline.server.streams import Frames, StreamCounts, pump
from trunkline.testing.clock import settle


def entry(seq: int, state: TaskState = TaskState.WORKING) -> Entry:
    update = TaskStatusUpdateEvent(task_id="t", context_id="c", status=TaskStatus(state=state))
    return Entry.of(seq, update)


def reader() -> Subscription:
    return Subscription(closes_on=TERMINAL, limit=10)


STATUS = '{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}'


@pytest.mark.parametrize(
    ("item", "frame"),
    [
        (entry(7), f'id: 7\ndata: {{"statusUpdate":{STATUS}}}\n\n'),
        (Opening(3, b'{"id":"t"}'), 'id: 3\ndata: {"task":{"id":"t"}}\n\n'),
        (Reply(b'{"messageId":"m"}'), 'data: {"message":{"messageId":"m"}}\n\n'),
        (Gap(2, 9), 'event: gap\ndata: {"after":2,"resumesAt":9}\n\n'),
        (Beat(), ": keep-alive\n\n"),
        (CutOff("slow reader", 4), ": slow reader; resume with Last-Event-ID: 4\n\n"),
    ],
    ids=["entry", "opening", "reply", "gap", "beat", "cut off"],
)
def test_each_kind_of_item_has_its_frame(item: Item, frame: str) -> None:
    assert Frames(V1).joined([item], is_over=True).decode() == frame


@pytest.mark.parametrize("item", [entry(7), Opening(3, b'{"id":"t"}'), Reply(b'{"messageId":"m"}')])
def test_a_binding_puts_its_envelope_around_what_is_data(item: Item) -> None:
    wrapped = Frames(V1, (b'{"result":', b"}")).joined([item], is_over=True)
    bare = Frames(V1).joined([item], is_over=True)
    assert wrapped == bare.replace(b"data: ", b'data: {"result":').replace(b"\n\n", b"}\n\n")


@pytest.mark.parametrize("item", [Gap(2, 9), Beat(), CutOff("slow reader", 4)])
def test_what_is_no_data_has_no_envelope(item: Item) -> None:
    assert Frames(V1, (b"<", b">")).joined([item], is_over=True) == Frames(V1).joined(
        [item], is_over=True
    )


def test_a_frame_is_in_the_dialect_of_the_client() -> None:
    head, data, *_ = Frames(V03).joined([entry(7, TaskState.COMPLETED)], is_over=True).split(b"\n")
    assert head == b"id: 7"
    shown = json.loads(data.removeprefix(b"data: "))
    assert (shown["kind"], shown["final"]) == ("status-update", True)


@pytest.mark.parametrize("is_over", [False, True])
def test_only_the_last_item_of_a_stream_is_told_as_the_last(is_over: bool) -> None:
    asking = [entry(seq, TaskState.INPUT_REQUIRED) for seq in (3, 5)]
    first, second = Frames(V03).joined(asking, is_over=is_over).split(b"\n\n", 1)
    assert b'"final":false' in first
    assert (b'"final":true' in second) is is_over


def test_a_principal_may_hold_so_many_streams() -> None:
    counts = StreamCounts(2)
    counts.enter("alice")
    counts.enter("alice")
    with pytest.raises(TooManyRequests, match="2 streams open") as caught:
        counts.enter("alice")
    assert caught.value.retry_after_s > 0
    counts.enter("bob")
    assert counts.total == 3
    counts.leave("alice")
    counts.enter("alice")
    assert counts.total == 3


def test_who_holds_no_stream_is_forgotten() -> None:
    counts = StreamCounts(1)
    counts.enter("alice")
    counts.leave("alice")
    assert counts.total == 0
    with pytest.raises(KeyError):
        counts.leave("alice")


async def pumped(
    following: Subscription,
    *,
    waits_for_first: bool = True,
    sent: Callable[[], Answer] = Answer,
) -> Answer:
    answer = sent()
    await pump(
        request(),
        AsgiResponse(answer),
        following,
        Frames(V1),
        headers=[*sse.HEADERS, (b"x-a", b"1")],
        waits_for_first=waits_for_first,
    )
    return answer


async def test_what_is_pending_goes_out_in_one_write() -> None:
    following = reader()
    following.push([entry(1), entry(2, TaskState.COMPLETED)])
    sent = await pumped(following)
    assert sent.status == 200
    assert sent.headers == {
        "content-type": "text/event-stream",
        "cache-control": "no-store",
        "x-accel-buffering": "no",
        "x-a": "1",
    }
    writes = [message["body"] for message in sent.messages[1:]]
    assert [write.count(b"id: ") for write in writes] == [2, 0]
    assert [message.get("more_body", False) for message in sent.messages[1:]] == [True, False]


async def test_a_reader_that_resumes_sees_an_open_stream_at_once() -> None:
    following = reader()
    following.end()
    assert (await pumped(following, waits_for_first=False)).body == b": open\n\n"


async def test_nothing_is_sent_when_the_store_failed_before_the_first_event() -> None:
    following = reader()
    following.stop("the store is unavailable", 0)
    left: list[Subscription] = []
    following.on_close(left.append)
    sent = Answer()
    with pytest.raises(Unavailable, match="store is unavailable"):
        await pumped(following, sent=lambda: sent)
    assert sent.messages == []
    assert left == [following]


def refused() -> NoReply:
    return NoReply(ContentTypeNotSupported("nothing for you", metadata={"modes": "text/plain"}))


async def test_nothing_is_sent_when_there_is_no_answer_to_stream() -> None:
    following = reader()
    following.put(refused())
    following.end()
    sent = Answer()
    with pytest.raises(ContentTypeNotSupported, match="nothing for you"):
        await pumped(following, sent=lambda: sent)
    assert sent.messages == []


async def test_an_answer_that_is_refused_after_a_while_is_the_last_event() -> None:
    following = reader()
    following.beat()
    following.put(refused())
    following.end()
    beat, event = (await pumped(following)).body.split(b"\n\n", 1)
    assert beat == b": keep-alive"
    # Over HTTP+JSON clients know an error by the name of its event.
    status = json.loads(event.removeprefix(b"event: error\ndata: "))["error"]
    assert (status["code"], status["message"]) == (400, "nothing for you")


def test_a_binding_has_its_own_frame_for_errors() -> None:
    frames = Frames(V1, (b"<", b">"), lambda error: f"[{error}]".encode())
    assert frames.joined([refused()], is_over=True) == b"[nothing for you]"


async def test_a_stream_that_is_cut_off_later_says_where_to_resume() -> None:
    following = reader()
    following.push([entry(1)])
    following.stop("the gateway is shutting down", 1)
    assert b"resume with Last-Event-ID: 1" in (await pumped(following)).body


class Crowded(AsgiResponse):
    """A response with little room."""

    def admit(self, size: int) -> None:
        if size > 200:
            raise Unavailable("There is no room", retry_after_s=5)

    async def write(self, data: bytes) -> None:
        self.admit(len(data))
        await super().write(data)


async def test_a_stream_whose_first_event_finds_no_room_is_refused() -> None:
    answer, own = Answer(), reader()
    own.put(Opening(1, b'{"id":"%b"}' % (b"t" * 300)))
    with pytest.raises(Unavailable, match="no room"):
        await pump(
            request(body(b"")), Crowded(answer), own, Frames(V1), headers=[], waits_for_first=True
        )
    assert answer.messages == []


async def test_a_stream_that_finds_no_room_later_says_so_and_ends() -> None:
    answer, own = Answer(), reader()
    own.push([entry(1)])
    own.put(Opening(2, b'{"id":"%b"}' % (b"t" * 300)))
    own.end()
    await pump(
        request(body(b"")), Crowded(answer), own, Frames(V1), headers=[], waits_for_first=False
    )
    assert answer.body == b": open\n\n: There is no room\n\n"


async def test_a_quiet_stream_ends_when_its_client_leaves() -> None:
    following = reader()
    following.beat()
    # The client has sent its body and left; nothing but the first beat ever happens.
    sent = await pumped(following)
    assert sent.body == b": keep-alive\n\n"


async def test_the_watcher_of_a_stream_ends_with_it() -> None:
    following = reader()
    following.beat()
    sent = Answer()
    asked = request(*[body(b"")] * 10_000)
    following.on_close(lambda _: None)

    async def send(message: object) -> None:
        await sent(message)  # type: ignore[arg-type]
        if len(sent.messages) == 2:
            following.end()

    await pump(asked, AsgiResponse(send), following, Frames(V1), headers=[], waits_for_first=True)
    await settle()
    assert sent.body == b": keep-alive\n\n"
