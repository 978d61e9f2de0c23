"""What connections hold for their clients is counted, bounded and given back."""

import asyncio
import random

import pytest
from tests.sockets.handlers import keep, post
from tests.sockets.peer import DEADLINE_S, HEAD_LIMIT, Peer, Server, passes, serving

from trunkline.server.asgi import AsgiResponse, Receive, Scope, Send, serve_with
from trunkline.server.http import Request, Response
from trunkline.server.memory_budget import SMALL_BYTES

MB = 1 << 20
BUDGET = 16 * MB
BODY = b"x" * (2 * MB)


def unfinished(caller: str = "") -> bytes:
    return post(BODY + b"x", f"X-Caller: {caller}")[:-1]


async def nothing_held(server: Server) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while server.budget.held_bytes:
            await passes()


async def held(server: Server, size: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while server.budget.held_bytes < size:
            await passes()


async def test_unfinished_bodies_are_bounded_and_others_are_served() -> None:
    async with serving(keep, max_held_bytes=BUDGET) as server:
        hostile = [await server.peer() for _ in range(20)]
        for number, peer in enumerate(hostile):
            await peer.send_all(unfinished(f"caller-{number}"))
        async with asyncio.timeout(DEADLINE_S):
            while server.budget.held_bytes // len(BODY) < sum(not p.has_answer for p in hostile):
                await passes()
        assert server.budget.held_bytes <= BUDGET * 3 // 4
        small = await server.peer()
        small.send(post(b"abc"))
        assert (await small.response())[2] == b"3"
        refused = [peer for peer in hostile if peer.has_answer]
        answers = [await peer.response() for peer in refused]
        assert {(status, head["retry-after"]) for status, head, _ in answers} == {(503, "5")}
        assert len(refused) == len(hostile) - BUDGET * 3 // 4 // (len(BODY) + 1)
        # Those who got in go on.
        for peer in hostile:
            if peer not in refused:
                peer.send(b"x")
                assert (await peer.response())[2] == b"%d" % (len(BODY) + 1)
        assert server.budget.held_bytes == 0
        for peer in hostile:
            peer.abort()
        await nothing_held(server)


async def test_a_body_of_unknown_length_is_asked_about_as_it_grows() -> None:
    async with serving(keep, max_held_bytes=BUDGET) as server:
        peer = await server.peer()
        head = b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"
        server.budget.hold("", BUDGET // 2)
        await peer.send_all(head + b"%x\r\n" % len(BODY) + BODY + b"\r\n")
        await held(server, BUDGET // 2 + len(BODY))
        await peer.send_all(b"%x\r\n" % (2 * len(BODY)) + 2 * BODY + b"\r\n0\r\n\r\n")
        assert (await peer.response())[0] == 503
        assert server.budget.held_bytes == BUDGET // 2
        # What came of it was dropped, and the connection is good for more.
        peer.send(post(b"abc"))
        assert (await peer.response())[2] == b"3"
        server.budget.release("", BUDGET // 2)


async def gathering(scope: Scope, receive: Receive, send: Send) -> None:
    """An ASGI application that takes in the whole body first."""
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            await AsgiResponse(send).answer(200, b"%d" % len(body))
            return
    raise RuntimeError("the client left")


async def test_bodies_for_asgi_applications_are_bounded_as_well() -> None:
    async def page(request: Request, response: Response) -> None:
        await serve_with(gathering, request, response)

    async with serving(page, max_held_bytes=BUDGET) as server:
        good, late = await server.peer(), await server.peer()
        await good.send_all(unfinished())
        await held(server, len(BODY))
        server.budget.hold("", BUDGET)
        await late.send_all(unfinished())
        status, headers, _ = await late.response()
        assert (status, headers["retry-after"]) == (503, "5")
        good.send(b"x")
        assert (await good.response())[2] == b"%d" % (len(BODY) + 1)
        server.budget.release("", BUDGET)
        assert server.budget.held_bytes == 0


async def test_a_late_body_for_an_asgi_application_is_refused() -> None:
    async def page(request: Request, response: Response) -> None:
        await serve_with(gathering, request, response)

    async with serving(page) as server:
        peer = await server.peer()
        peer.send(post(b"abc")[:-1])
        await passes(5)
        server.shared.close_idle(asyncio.get_running_loop().time() + 31)
        assert (await peer.response())[0] == 408
        assert await peer.rest() == b""


async def test_one_caller_cannot_take_the_whole_budget() -> None:
    async with serving(keep, max_held_bytes=BUDGET) as server:
        hostile = [await server.peer() for _ in range(6)]
        for peer in hostile:
            await peer.send_all(unfinished("mallory"))
        async with asyncio.timeout(DEADLINE_S):
            while not any(peer.has_answer for peer in hostile):
                await passes()
        assert server.budget.held_for("mallory") <= BUDGET // 2
        status, headers, body = await next(p for p in hostile if p.has_answer).response()
        assert (status, headers["retry-after"]) == (429, "5")
        assert b"for you" in body
        other = await server.peer()
        other.send(post(BODY, "X-Caller: alice"))
        assert (await other.response())[0] == 200


async def test_a_body_by_drops_is_refused_and_closed() -> None:
    async with serving(keep) as server:
        peer = await server.peer()
        peer.send(post(b"x" * 1000)[:-500])
        await passes(5)
        now = asyncio.get_running_loop().time()
        for step in range(5):
            peer.send(b"x")
            await passes(5)
            server.shared.close_idle(now + step * 5)
        assert not peer.has_answer
        peer.send(b"x")
        await passes(5)
        server.shared.close_idle(now + 31)
        status, headers, body = await peer.response()
        assert (status, headers["connection"]) == (408, "close")
        assert b"too slowly" in body
        assert await peer.rest() == b""


async def test_a_large_body_has_more_time() -> None:
    async with serving(keep) as server:
        peer = await server.peer()
        await peer.send_all(unfinished())
        connection = server.only_connection()
        async with asyncio.timeout(DEADLINE_S):
            while getattr(connection._served, "_received_bytes", 0) < len(BODY):
                await passes()
        now = asyncio.get_running_loop().time()
        # 2 MB at 16 KB a second are 128 seconds.
        server.shared.close_idle(now + 150)
        await passes(5)
        peer.send(b"x")
        assert (await peer.response())[0] == 200


async def test_unread_answers_are_bounded_and_others_are_served() -> None:
    async with serving(keep, max_held_bytes=2 * BUDGET) as server:
        size = 8 * MB
        hostile = [await server.peer(reads=False) for _ in range(20)]
        for number, peer in enumerate(hostile):
            peer.send(post(b"", f"X-Caller: caller-{number}", f"X-Answer: {size}"))
            # One by one, so that which of them get in does not depend on luck.
            await passes(5)
        admitted = 3 * BUDGET // 2 // size
        await held(server, admitted * size)
        assert server.budget.held_bytes == admitted * size
        statuses = [await peer.status() for peer in hostile]
        assert statuses == [200] * admitted + [503] * (len(hostile) - admitted)
        small = await server.peer()
        small.send(post(b"abc"))
        assert (await small.response())[2] == b"3"
        hostile[0].read_on()
        assert len((await hostile[0].response())[2]) == size
        assert server.budget.held_bytes == (admitted - 1) * size


@pytest.mark.parametrize("is_scarce", [False, True])
async def test_who_reads_nothing_is_given_up_sooner_when_memory_is_short(is_scarce: bool) -> None:
    size = 12 * MB
    async with serving(keep, max_held_bytes=BUDGET if is_scarce else 4 * BUDGET) as server:
        peer = await server.peer(reads=False)
        peer.send(post(b"", "X-Caller: mallory", f"X-Answer: {size}"))
        await held(server, size)
        await passes(50)
        now = asyncio.get_running_loop().time()
        server.shared.close_idle(now)
        server.shared.close_idle(now + 11)
        await passes(5)
        assert bool(server.shared.connections) is not is_scarce
        server.shared.close_idle(now + 80)
        await nothing_held(server)
        await server.everybody_left()


async def test_who_reads_a_byte_now_and_then_is_given_up_in_the_end() -> None:
    size = 12 * MB
    async with serving(keep) as server:
        peer = await server.peer(reads=False)
        peer.send(post(b"", f"X-Answer: {size}"))
        await held(server, size)
        now = asyncio.get_running_loop().time()
        # At 16 KB a second it would have been read by then.
        patience = size / 16384 + server.shared.keep_alive_s
        server.shared.close_idle(now)
        for moment in (now + patience - 10, now + patience + 1):
            assert server.shared.connections
            await peer.read_some(3 * MB)
            await passes(20)
            server.shared.close_idle(moment)
        await nothing_held(server)


async def test_requests_that_wait_behind_another_are_counted() -> None:
    go = asyncio.Event()

    async def later(request: Request, response: Response) -> None:
        await go.wait()
        await keep(request, response)

    async with serving(later) as server:
        peer = await server.peer()
        first, second = post(b"abc"), post(b"y" * 20_000)
        peer.send(first)
        await passes(5)
        assert server.budget.held_bytes == 0
        peer.send(second)
        await held(server, len(second))
        assert server.budget.held_bytes == len(second)
        go.set()
        assert (await peer.response())[2] == b"3"
        assert (await peer.response())[2] == b"20000"
        assert server.budget.held_bytes == 0


async def test_a_head_in_pieces_is_counted() -> None:
    async with serving(keep) as server:
        peer = await server.peer()
        data = post(b"abc", "X: " + "y" * 2000)
        peer.send(data[:1500])
        await held(server, 1500)
        assert server.budget.held_bytes == 1500 < HEAD_LIMIT
        peer.send(data[1500:])
        assert (await peer.response())[2] == b"3"
        assert server.budget.held_bytes == 0


async def test_when_nothing_is_left_new_connections_are_told_to_come_later() -> None:
    async with serving(keep, max_held_bytes=BUDGET) as server:
        server.budget.hold("", BUDGET)
        peer = await server.peer()
        status, headers, body = await peer.response()
        assert (status, headers["retry-after"], headers["connection"]) == (503, "5", "close")
        assert b"max_held_bytes" in body
        server.budget.release("", BUDGET)
        again = await server.peer()
        again.send(post(b"abc"))
        assert (await again.response())[0] == 200


async def test_a_small_request_is_never_asked_about() -> None:
    async with serving(keep, max_held_bytes=BUDGET) as server:
        peer = await server.peer()
        peer.send(post(b"a"))
        await peer.response()
        server.budget.hold("", BUDGET)
        peer.send(post(b"a" * (SMALL_BYTES - 1), f"X-Answer: {SMALL_BYTES}"))
        assert len((await peer.response())[2]) == SMALL_BYTES
        server.budget.release("", BUDGET)


async def test_a_stream_that_finds_no_room_is_broken_off() -> None:
    async def stream(request: Request, response: Response) -> None:
        await request.body(limit=MB)
        await response.begin(200, [])
        await response.write(b"one")
        await response.write(b"x" * (8 * MB))

    async with serving(stream, max_held_bytes=BUDGET) as server:
        server.budget.hold("", BUDGET * 3 // 4)
        peer = await server.peer()
        peer.send(post(b"a"))
        assert (await peer.rest()).endswith(b"3\r\none\r\n")
        server.budget.release("", BUDGET * 3 // 4)


async def live_and_die(peer: Peer, chance: random.Random) -> None:
    """Some part of a request or several, maybe with reading, and any kind of end."""
    caller = f"X-Caller: {chance.choice('abc')}"
    answer = f"X-Answer: {chance.choice([0, 10, 100_000, 3 * MB])}"
    body = b"x" * chance.choice([0, 10, 70_000, 300_000, MB])
    data = post(body, caller, answer) * chance.randint(1, 3)
    cut = chance.choice([len(data), chance.randrange(len(data) + 1)])
    for start in range(0, cut, step := chance.choice([cut or 1, 10_000, 100_000])):
        peer.send(data[start : min(start + step, cut)])
        if chance.random() < 0.3:
            await passes()
    await passes(chance.randrange(5))
    if chance.random() < 0.3:
        peer.read_on()
        await passes(chance.randrange(20))
    chance.choice([peer.abort, peer.close, peer.end])()


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_connections_die_of_nothing_stays_held(seed: int) -> None:
    chance = random.Random(seed)
    async with serving(keep, max_held_bytes=4 * MB) as server:
        peers = [await server.peer(reads=False) for _ in range(40)]
        async with asyncio.TaskGroup() as group:
            for peer in peers:
                group.create_task(live_and_die(peer, random.Random(chance.random())))
        assert server.budget.held_bytes >= 0
        for peer in peers:
            peer.abort()
        await server.everybody_left()
        assert server.budget.held_bytes == 0
        assert [server.budget.held_for(name) for name in "abc"] == [0, 0, 0]
        last = await server.peer()
        last.send(post(b"abc"))
        assert (await last.response())[0] == 200
