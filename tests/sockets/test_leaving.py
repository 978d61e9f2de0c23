"""Clients that leave, do not read, or keep still, and a server that stops."""

import asyncio

import pytest
from tests.sockets.handlers import LIMIT, echo, post, told
from tests.sockets.peer import DEADLINE_S, Server, passes, serving

from trunkline.server.http import Disconnected, Request, Response


@pytest.mark.parametrize("reads_first", [False, True])
async def test_a_client_that_leaves_while_it_sends(reads_first: bool) -> None:
    ended = asyncio.Event()

    async def reading(request: Request, response: Response) -> None:
        if reads_first:
            assert await request.piece() == (b"ab", True)
        else:
            await passes(20)
        with pytest.raises(Disconnected):
            await request.body(limit=LIMIT)
        await request.disconnected()
        ended.set()

    async with serving(reading) as server:
        peer = await server.peer()
        peer.send(post(b"abcdef")[:-4])
        await passes(5)
        peer.abort()
        await asyncio.wait_for(ended.wait(), 10)


@pytest.mark.parametrize("count", [1, 3])
async def test_a_client_that_says_it_sends_no_more_is_answered(count: int) -> None:
    go = asyncio.Event()

    async def later(request: Request, response: Response) -> None:
        await go.wait()
        await echo(request, response)

    async with serving(later) as server:
        peer = await server.peer()
        peer.send(b"".join(post(b"%d" % number) for number in range(count)))
        peer.end()
        await passes(20)
        # The clock's look at all connections leaves it alone.
        server.shared.close_idle(asyncio.get_running_loop().time())
        go.set()
        for number in range(count):
            assert (await told(peer))["body"] == str(number)
        assert await peer.rest() == b""
        await server.everybody_left()


async def test_a_client_that_says_it_sends_no_more_gets_its_stream() -> None:
    async def stream(request: Request, response: Response) -> None:
        await response.begin(200, [])
        for number in range(3):
            await passes(10)
            await response.write(b"%d" % number)
        await response.end()

    async with serving(stream) as server:
        peer = await server.peer()
        peer.send(post(b"abc"))
        peer.end()
        assert (await peer.response())[2] == b"012"
        assert await peer.rest() == b""


async def test_a_client_that_left_is_known_when_it_refuses_what_it_is_sent() -> None:
    left = asyncio.Event()

    async def stream(request: Request, response: Response) -> None:
        await response.begin(200, [])
        await response.write(b"one")
        await request.disconnected()
        left.set()

    async with serving(stream) as server:
        peer = await server.peer()
        peer.send(post(b"abc"))
        await peer.until(b"one\r\n")
        peer.close()
        await passes(10)
        connection = server.only_connection()
        # It may only have ended what it sends.
        server.shared.close_idle(asyncio.get_running_loop().time())
        assert not left.is_set()
        connection._flow.write(b"3\r\ntwo\r\n")
        async with asyncio.timeout(DEADLINE_S):
            while not left.is_set():
                await passes()
                server.shared.close_idle(asyncio.get_running_loop().time())


@pytest.mark.parametrize("sent", [b"", b"POST / HT", post(b"abcdef")[:-4]])
async def test_a_client_that_ends_before_its_request_does_is_let_go(sent: bytes) -> None:
    async def reading(request: Request, response: Response) -> None:
        with pytest.raises(Disconnected):
            await request.body(limit=LIMIT)

    async with serving(reading) as server:
        peer = await server.peer()
        peer.send(sent)
        await passes(5)
        peer.end()
        assert await peer.rest() == b""
        await server.everybody_left()


async def test_a_client_that_leaves_before_its_answer() -> None:
    ended = asyncio.Event()

    async def answering(request: Request, response: Response) -> None:
        assert await request.body(limit=LIMIT) == b"abc"
        await request.disconnected()
        # To nobody, and without a fuss.
        await response.begin(200, [])
        await response.write(b"x" * 10_000_000)
        await response.write(b"y")
        await response.end()
        ended.set()

    async with serving(answering) as server:
        peer = await server.peer()
        peer.send(post(b"abc"))
        await passes(5)
        peer.abort()
        await asyncio.wait_for(ended.wait(), 10)


async def test_a_stream_waits_for_its_reader_and_ends_with_it() -> None:
    written = 0
    ended = asyncio.Event()

    async def flood(request: Request, response: Response) -> None:
        nonlocal written
        await response.begin(200, [])
        for _ in range(1000):
            await response.write(b"x" * 100_000)
            written += 1
        await response.end()
        ended.set()

    async with serving(flood) as server:
        peer = await server.peer()
        peer.send(post())
        await passes(50)
        assert 0 < written < 500
        stopped_at = written
        await passes(20)
        assert written == stopped_at
        peer.abort()
        await asyncio.wait_for(ended.wait(), 10)


async def test_an_idle_connection_is_closed_after_a_while() -> None:
    async with serving(echo) as server:
        fresh, used, slow = [await server.peer() for _ in range(3)]
        used.send(post())
        await used.response()
        slow.send(b"POST / HTTP/1.1\r\n")
        await passes(5)
        now = asyncio.get_running_loop().time()
        server.shared.close_idle(now + 70)
        await passes(5)
        assert len(server.shared.connections) == 3
        server.shared.close_idle(now + 80)
        for peer in (fresh, used, slow):
            assert await peer.rest() == b""


async def test_a_connection_whose_answer_takes_long_is_not_idle() -> None:
    go = asyncio.Event()

    async def slow(request: Request, response: Response) -> None:
        body = await request.body(limit=LIMIT)
        await go.wait()
        await response.answer(200, body)

    async with serving(slow) as server:
        peer = await server.peer()
        peer.send(post(b"abc"))
        await passes(5)
        server.shared.close_idle(asyncio.get_running_loop().time() + 1000)
        go.set()
        assert (await peer.response())[2] == b"abc"


@pytest.mark.parametrize("is_whole", [False, True])
async def test_a_client_that_never_reads_is_given_up(is_whole: bool) -> None:
    ended = asyncio.Event()

    async def flood(request: Request, response: Response) -> None:
        if is_whole:
            await response.answer(200, b"x" * 50_000_000)
        else:
            await response.begin(200, [])
            for _ in range(500):
                await response.write(b"x" * 100_000)
            await response.end()
        ended.set()

    async with serving(flood) as server:
        peer = await server.peer()
        peer.send(post(b"", "Connection: close"))
        now = await at_rest(server)
        server.shared.close_idle(now)
        server.shared.close_idle(now + 70)
        await passes(5)
        assert len(server.shared.connections) == 1
        server.shared.close_idle(now + 80)
        await asyncio.wait_for(ended.wait(), 10)
        await server.everybody_left()


async def test_a_client_that_reads_slowly_is_waited_for() -> None:
    async def flood(request: Request, response: Response) -> None:
        await response.answer(200, b"x" * 50_000_000)

    async with serving(flood) as server:
        peer = await server.peer()
        peer.send(post())
        now = await at_rest(server)
        for step in range(5):
            server.shared.close_idle(now + step * 70)
            await peer.exactly(5_000_000)
        assert len(server.shared.connections) == 1


async def at_rest(server: Server) -> float:
    """The time when nothing moves any more, for what is sent is not read.

    The kernel may take more after a pause, for it acknowledges late and lets its buffers grow.
    """
    connection = server.only_connection()
    left, quiet = -1, 0
    while quiet < 15:
        await passes(20)
        before, left = left, connection._flow.transport.get_write_buffer_size()
        quiet = quiet + 1 if left == before else 0
    assert left > 0
    return asyncio.get_running_loop().time()


async def test_a_request_begun_late_has_its_time() -> None:
    async with serving(echo) as server:
        peer = await server.peer()
        loop = asyncio.get_running_loop()
        opened = loop.time()
        await passes(30)
        data = post(b"abc")
        peer.send(data[:10])
        await passes(5)
        server.shared.close_idle(opened + 0.005 + server.shared.keep_alive_s)
        peer.send(data[10:])
        assert (await told(peer))["body"] == "abc"


async def test_a_stop_closes_what_is_idle_and_lets_an_answer_out() -> None:
    go = asyncio.Event()

    async def slow(request: Request, response: Response) -> None:
        body = await request.body(limit=LIMIT)
        await go.wait()
        await response.answer(200, body)

    async with serving(slow) as server:
        idle, busy = await server.peer(), await server.peer()
        busy.send(post(b"abc") + post(b"def"))
        await passes(5)
        for connection in [*server.shared.connections]:
            connection.shutdown()
        assert await idle.rest() == b""
        assert len(server.shared.tasks) == 1
        go.set()
        _, headers, body = await busy.response()
        assert (headers["connection"], body) == ("close", b"abc")
        assert await busy.rest() == b""


async def test_the_request_of_a_client_that_left_is_known_until_it_ends() -> None:
    go = asyncio.Event()

    async def slow(request: Request, response: Response) -> None:
        await request.body(limit=LIMIT)
        await go.wait()
        await response.answer(200, b"late")

    async with serving(slow) as server:
        peer = await server.peer()
        peer.send(post(b"abc"))
        await passes(5)
        peer.abort()
        await passes(5)
        assert not server.shared.connections
        assert len(server.shared.tasks) == 1
        go.set()
