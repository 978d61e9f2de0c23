"""The interface of the hub on real connections: slow, endless and unfinished bodies, methods
without bodies, and clients that leave."""

import asyncio
import json
from functools import partial

import pytest
from tests.sockets.peer import DEADLINE_S, Peer, Server, passes, serving
from tests.unit.api.test_api import identify, routes

from trunkline.api.api import Api, Call, Route
from trunkline.api.input import MAX_BODY_BYTES
from trunkline.server.asgi import serve_with
from trunkline.server.http import Handler

KEY = "Authorization: Bearer boss\r\n"
JSON = "Content-Type: application/json\r\n"


def hub(*more: Route) -> Handler:
    api = Api(identify=identify, realm="trunkline")
    api.add(*routes(), *more)
    return partial(serve_with, api)


def head(method: str, path: str, lines: str = "") -> bytes:
    start = f"{method} /api/v1{path} HTTP/1.1\r\nHost: here\r\n"
    return f"{start}{KEY}{lines}\r\n".encode("latin-1")


def reason(body: bytes) -> str:
    found = json.loads(body)["error"]["details"][0]["reason"]
    assert isinstance(found, str)
    return found


async def is_served(peer: Peer) -> None:
    """The connection is good for the next request."""
    peer.send(head("GET", "/agents/a"))
    assert (await peer.response())[0] == 200


async def test_a_body_in_pieces_is_read_to_its_end() -> None:
    async with serving(hub()) as server:
        peer = await server.peer()
        body = b'{"name": "x"}'
        peer.send(head("POST", "/agents", f"{JSON}Content-Length: {len(body)}\r\n"))
        for byte in body:
            peer.send(bytes([byte]))
            await passes(2)
        status, headers, answer = await peer.response()
        assert (status, json.loads(answer)) == (201, {"name": "x", "dayLimit": 0})
        assert headers["content-type"] == "application/json"
        await is_served(peer)


async def test_a_body_that_does_not_come_is_refused_in_json_and_lets_others_in() -> None:
    async with serving(hub()) as server:
        slow, other = await server.peer(), await server.peer()
        slow.send(head("POST", "/agents", f"{JSON}Content-Length: 100\r\n") + b"{")
        await passes(5)
        await is_served(other)
        server.shared.close_idle(asyncio.get_running_loop().time() + 31)
        status, headers, body = await slow.response()
        assert (status, reason(body)) == (408, "REQUEST_TIMEOUT")
        assert headers["content-type"] == "application/json"
        assert await slow.rest() == b""


async def test_a_body_is_not_awaited_from_those_who_may_not_send_one() -> None:
    async with serving(hub()) as server:
        for lines, expected in (
            (f"{JSON}Content-Length: 100\r\nAuthorization: Bearer forged\r\n", 401),
            (f"{JSON}Content-Length: 100\r\n", 401),
        ):
            peer = await server.peer()
            start = "POST /api/v1/agents HTTP/1.1\r\nHost: here\r\n"
            peer.send(f"{start}{lines}\r\n".encode())
            assert (await peer.response())[0] == expected


@pytest.mark.parametrize("expect", ["", "Expect: 100-continue\r\n"])
async def test_an_announced_body_that_is_too_large_is_refused_before_it_comes(expect: str) -> None:
    async with serving(hub()) as server:
        peer = await server.peer()
        lines = f"{JSON}{expect}Content-Length: {MAX_BODY_BYTES + 1}\r\n"
        peer.send(head("POST", "/agents", lines))
        # Without `100 Continue` before it.
        status, _, body = await peer.response()
        assert (status, reason(body)) == (413, "PAYLOAD_TOO_LARGE")
        assert server.budget.held_bytes == 0


async def test_a_client_that_expects_100_continue_gets_it() -> None:
    async with serving(hub()) as server:
        peer = await server.peer()
        body = b'{"name": "x"}'
        lines = f"{JSON}Expect: 100-continue\r\nContent-Length: {len(body)}\r\n"
        peer.send(head("POST", "/agents", lines))
        assert await peer.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        peer.send(body)
        assert (await peer.response())[0] == 201


async def test_a_body_without_end_is_refused_at_the_limit_and_is_not_kept() -> None:
    async with serving(hub()) as server:
        peer = await server.peer()
        peer.send(head("POST", "/agents", f"{JSON}Transfer-Encoding: chunked\r\n"))
        piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        for _ in range(6):
            peer.send(piece)
        status, _, body = await peer.response()
        assert (status, reason(body)) == (413, "PAYLOAD_TOO_LARGE")
        assert server.budget.held_bytes == 0
        # The rest is read and dropped, and then the next request is served.
        for _ in range(20):
            await peer.send_all(piece)
        assert server.budget.held_bytes == 0
        await peer.send_all(b"0\r\n\r\n")
        await is_served(peer)


async def test_unfinished_bodies_count_in_the_memory_budget() -> None:
    large = b" " * (MAX_BODY_BYTES - 1)
    async with serving(hub(), max_held_bytes=4 * MAX_BODY_BYTES) as server:
        start = head("POST", "/agents", f"{JSON}Content-Length: {MAX_BODY_BYTES}\r\n")
        peers = [await server.peer() for _ in range(8)]
        for peer in peers:
            await peer.send_all(start + large)
            await passes(5)
        assert server.budget.held_bytes <= 4 * MAX_BODY_BYTES
        refused = [peer for peer in peers if peer.has_answer]
        assert refused
        for peer in refused:
            status, headers, body = await peer.response()
            assert (status, reason(body)) == (503, "UNAVAILABLE")
            assert headers["retry-after"] == "5"
        # A small request is served beside them.
        await is_served(await server.peer())


async def test_answers_without_a_body_have_none() -> None:
    async with serving(hub()) as server:
        peer = await server.peer()
        peer.send(head("HEAD", "/agents/a") + head("DELETE", "/agents/a"))
        status, headers = await peer.head()
        assert (status, headers["content-length"]) == (200, str(len(_seen("a"))))
        status, headers = await peer.head()
        assert status == 204
        assert not {"content-length", "transfer-encoding"} & {*headers}
        await is_served(peer)


async def test_a_body_that_no_route_reads_does_not_become_a_request() -> None:
    inner = head("DELETE", "/agents/b")
    async with serving(hub()) as server:
        peer = await server.peer()
        peer.send(head("GET", "/agents/a", f"Content-Length: {len(inner)}\r\n") + inner)
        peer.send(head("GET", "/agents/c"))
        assert (await peer.response())[2] == _seen("a")
        assert (await peer.response())[2] == _seen("c")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/agents/a%2Fb", 404),
        ("/agents/%00", 404),
        ("/agents/%FF", 404),
        ("/agents/%C3%A9", 200),
        ("/agents/..%2f..%2fmetrics", 404),
        ("/agents/a?pageSize=1&pageSize=2", 400),
        ("/agents/a?pageSize=%FF", 400),
        ("/agents/a?" + "&".join(["x=1"] * 500), 400),
    ],
)
async def test_paths_and_queries_are_read_as_they_came(path: str, status: int) -> None:
    async with serving(hub()) as server:
        peer = await server.peer()
        peer.send(head("GET", path))
        assert (await peer.response())[0] == status
        await is_served(peer)


async def test_a_client_that_leaves_does_not_stop_what_it_asked_for() -> None:
    began, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def change(_: Call) -> None:
        began.set()
        await go_on.wait()
        done.set()

    route = Route(method="POST", path="/change", name="change", summary="Change", handle=change)
    async with serving(hub(route)) as server:
        peer = await server.peer()
        peer.send(head("POST", "/change", "Content-Length: 0\r\n"))
        await asyncio.wait_for(began.wait(), DEADLINE_S)
        peer.abort()
        await passes(5)
        go_on.set()
        await asyncio.wait_for(done.wait(), DEADLINE_S)
        await is_served(await server.peer())


async def test_many_slow_clients_do_not_stop_another_one() -> None:
    async with serving(hub()) as server:
        await _open_slow(server, 200)
        await is_served(await server.peer())
        assert server.budget.held_bytes < 200 * 1024


async def _open_slow(server: Server, number: int) -> None:
    for _ in range(number):
        peer = await server.peer()
        peer.send(head("POST", "/agents", f"{JSON}Content-Length: 100\r\n") + b'{"name": ')
    await passes(10)


def _seen(id: str) -> bytes:
    return b'{"path":{"id":"%b"},"pageSize":20}' % id.encode()
