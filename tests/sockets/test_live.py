"""News over real connections: a reader that does not read, one that leaves, and many at once."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.bindings.world import KEYS, World, open_world
from tests.console.task_world import until
from tests.sockets.handlers import post
from tests.sockets.peer import Peer, Server, passes, serving

from trunkline.console.live import live_feed
from trunkline.console.live.live_feed import EVERY_S
from trunkline.testing import settle

# Of a frame, and of its chunk.
END = b"\n\n\r\n"


@asynccontextmanager
async def open_server(folder: Path) -> AsyncIterator[tuple[World, Server]]:
    async with (
        open_world(database=folder / "tasks.db") as world,
        serving(world.gateway.application.serve) as server,
    ):
        try:
            yield world, server
        finally:
            await world.gateway.live.close()


async def watch(server: Server, *, key: str = "alice", reads: bool = True) -> Peer:
    peer = await server.peer(reads=reads)
    peer.send(
        b"GET /api/v1/live HTTP/1.1\r\nHost: here\r\n"
        b"Authorization: Bearer " + KEYS[key].encode() + b"\r\n\r\n"
    )
    if reads:
        status, headers = await peer.head()
        assert (status, headers["content-type"]) == (200, "text/event-stream")
        await peer.until(END)
    return peer


async def send(server: Server, text: str = "hello") -> None:
    peer = await server.peer()
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    peer.send(
        post(
            json.dumps(body).encode(),
            "Content-Type: application/json",
            "A2A-Version: 1.0",
            f"Authorization: Bearer {KEYS['alice']}",
            path="/a2a/jsonrpc",
        )
    )
    status, _, _ = await peer.response()
    assert status == 200
    peer.close()


async def test_a_watcher_hears_of_a_task_and_others_do_not(tmp_path: Path) -> None:
    async with open_server(tmp_path) as (world, server):
        alice, bob = await watch(server), await watch(server, key="bob")
        await send(server)
        await settle()
        await world.clock.advance(EVERY_S)
        frame = await alice.until(END)
        assert b"event: task\n" in frame
        assert b'"principal":"alice"' in frame
        await passes(20)
        assert not bob.has_answer


async def test_a_watcher_that_never_reads_delays_nobody_and_is_bounded(tmp_path: Path) -> None:
    async with open_server(tmp_path) as (world, server):
        deaf = [await watch(server, reads=False) for _ in range(3)]
        quick = await watch(server)
        feed = world.gateway.live._feed
        await until(lambda: len(feed._readers) == 4)
        before = server.budget.held_bytes
        # More than the buffers of both sides take.
        text = "x" * 50_000
        for number in range(400):
            feed.tell("agents", {"text": text}, key=f"{number}")
            await settle()
            await world.clock.advance(EVERY_S)
            await quick.until(END)
        held = [len(reader._pending) for reader in feed._readers]
        assert max(held) <= live_feed.MAX_PENDING
        assert sum(count > 0 for count in held) == len(deaf), held
        # A frame or two for each is on its way.
        assert server.budget.held_bytes - before < 64 * len(text)
        await send(server)


async def test_a_watcher_that_leaves_is_forgotten(tmp_path: Path) -> None:
    async with open_server(tmp_path) as (world, server):
        feed = world.gateway.live._feed
        peers = [await watch(server) for _ in range(10)]
        assert len(feed._readers) == 10
        for number, peer in enumerate(peers):
            if number % 2:
                peer.abort()
            else:
                peer.close()
        await asyncio.wait_for(passes_until_empty(world), 20)
        assert world.gateway.front.streams.total == 0


async def passes_until_empty(world: World) -> None:
    while world.gateway.live._feed._readers:
        await passes()


async def test_the_end_of_the_feed_ends_the_response(tmp_path: Path) -> None:
    async with open_server(tmp_path) as (world, server):
        peer = await watch(server)
        world.gateway.live.end_streams()
        assert (await peer.until(b"0\r\n\r\n")).endswith(b"0\r\n\r\n")
