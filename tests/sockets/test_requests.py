"""Requests as bytes: cut anywhere, one behind the other, slow, large, refused."""

import asyncio

import pytest
from tests.sockets.handlers import LIMIT, count_bytes, echo, post, told
from tests.sockets.peer import passes, serving

from trunkline.server.http import Request, Response

LENGTH = post(b"hello", "X-Two: words here", path="/a%20b/c?d=e%20f")
CHUNKED = (
    b"POST /a%20b/c?d=e%20f HTTP/1.1\r\nHost: here\r\nX-Two: words here\r\n"
    b"Transfer-Encoding: chunked\r\nTrailer: x-late\r\n\r\n"
    b"2;note=1\r\nhe\r\n3\r\nllo\r\n0\r\nX-Late: trailer\r\n\r\n"
)


@pytest.mark.parametrize("data", [LENGTH, CHUNKED], ids=["length", "chunked"])
async def test_a_request_may_be_cut_anywhere(data: bytes) -> None:
    async with serving(echo) as server:
        peer = await server.peer()
        peer.send(data)
        whole = await told(peer)
        assert (whole["method"], whole["path"], whole["query"]) == ("POST", "/a b/c", "d=e%20f")
        assert whole["body"] == "hello"
        assert isinstance(whole["headers"], list)
        assert whole["headers"][:2] == ["host=here", "x-two=words here"]
        assert not any("x-late" in line for line in whole["headers"][:3])
        for cut in range(1, len(data)):
            peer.send(data[:cut])
            await passes()
            peer.send(data[cut:])
            assert await told(peer) == whole, cut


async def test_a_request_may_come_byte_by_byte() -> None:
    async with serving(echo) as server:
        peer = await server.peer()
        for at in range(len(CHUNKED)):
            peer.send(CHUNKED[at : at + 1])
            await passes()
        assert (await told(peer))["body"] == "hello"


@pytest.mark.parametrize("cut", [1, 40, len(post(b"one")), len(post(b"one")) + 10, None])
async def test_pipelined_requests_are_answered_in_order_and_one_at_a_time(cut: int | None) -> None:
    busy = 0
    order: list[bytes] = []

    async def slow(request: Request, response: Response) -> None:
        nonlocal busy
        busy += 1
        assert busy == 1
        body = await request.body(limit=LIMIT)
        order.append(body)
        await passes(5 if body == b"one" else 1)
        await response.answer(200, body)
        busy -= 1

    async with serving(slow) as server:
        peer = await server.peer()
        data = post(b"one") + post(b"two") + post(b"three")
        peer.send(data[:cut])
        await passes(2)
        peer.send(data[len(data[:cut]) :])
        assert [(await peer.response())[2] for _ in range(3)] == [b"one", b"two", b"three"]
        assert order == [b"one", b"two", b"three"]


async def test_many_pipelined_requests_wait_at_the_client() -> None:
    go = asyncio.Event()
    served = 0

    async def waits(request: Request, response: Response) -> None:
        nonlocal served
        await request.body(limit=LIMIT)
        await go.wait()
        served += 1
        await response.answer(200, b"ok")

    async with serving(waits) as server:
        peer = await server.peer()
        one = post(b"x" * 1_000_000)
        sending = asyncio.get_running_loop().create_task(peer.send_all(one * 20))
        await passes(100)
        # 20 MB do not fit into the buffers between the two.
        assert not sending.done()
        go.set()
        for _ in range(20):
            assert (await peer.response())[0] == 200
        await sending
        assert served == 20


async def test_a_client_that_does_not_read_gets_no_further_answers() -> None:
    served = 0

    async def large(request: Request, response: Response) -> None:
        nonlocal served
        served += 1
        await response.answer(200, b"x" * 1_000_000)

    async with serving(large) as server:
        peer = await server.peer()
        peer.send(post() * 40)
        await passes(50)
        assert served < 30
        for _ in range(40):
            assert len((await peer.response())[2]) == 1_000_000
        assert served == 40


async def test_a_slow_body_is_waited_for() -> None:
    async with serving(count_bytes) as server:
        peer = await server.peer()
        data = post(b"x" * 10)
        peer.send(data[:-10])
        for _ in range(10):
            await passes(3)
            peer.send(b"x")
        assert (await peer.response())[2] == b"10"


async def test_a_body_that_nobody_reads_waits_at_the_client() -> None:
    go = asyncio.Event()

    async def late(request: Request, response: Response) -> None:
        await go.wait()
        size, has_more = 0, True
        while has_more:
            piece, has_more = await request.piece()
            # What a read of the socket brings, beyond what may lie unread.
            assert len(piece) <= 1 << 20
            size += len(piece)
        await response.answer(200, b"%d" % size)

    async with serving(late) as server:
        peer = await server.peer()
        sending = asyncio.get_running_loop().create_task(peer.send_all(post(b"x" * 30_000_000)))
        await passes(100)
        assert not sending.done()
        go.set()
        assert (await peer.response())[2] == b"30000000"
        await sending


async def test_a_refused_body_is_dropped_and_the_connection_goes_on() -> None:
    async with serving(count_bytes) as server:
        peer = await server.peer()
        large = post(b"x" * (LIMIT + 1))
        peer.send(large[:200])
        # Refused by its length, before it is there.
        assert (await peer.response())[0] == 413
        await peer.send_all(large[200:] + post(b"abc"))
        assert (await peer.response())[2] == b"3"
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        head = b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"
        await peer.send_all(head + chunk * 17)
        # Refused by what came, while more is to come.
        assert (await peer.response())[0] == 413
        await peer.send_all(chunk * 10 + b"0\r\n\r\n" + post(b"abcd"))
        assert (await peer.response())[2] == b"4"


async def test_expect_continue_is_answered_when_the_body_is_wanted() -> None:
    async with serving(count_bytes) as server:
        peer = await server.peer()
        data = post(b"abc", "Expect: 100-continue")
        peer.send(data[:-3])
        assert await peer.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        peer.send(data[-3:])
        assert (await peer.response())[2] == b"3"
        # Who sends the body at once is not asked for it.
        peer.send(data)
        assert (await peer.response())[2] == b"3"


async def test_expect_continue_is_not_answered_when_the_body_is_refused() -> None:
    async with serving(count_bytes) as server:
        peer = await server.peer()
        peer.send(post(b"x" * (LIMIT + 1), "Expect: 100-continue")[:-LIMIT])
        status, headers, _ = await peer.response()
        # Nobody knows whether the body comes now or the next request.
        assert (status, headers["connection"]) == (413, "close")
        assert await peer.rest() == b""
