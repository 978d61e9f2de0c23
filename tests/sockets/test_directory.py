"""Agents that come and go, seen from connections that stay open and send the same head again."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.bindings.world import HANDLE, KEYS, World, open_world
from tests.sockets.handlers import post
from tests.sockets.peer import Peer, Server, serving

OTHER = "test/other"
TABLE: dict[str, Any] = {"name": "Other", "backend": {"kind": "scripted"}}


def sent(text: str, handle: str = OTHER, method: str = "SendMessage") -> bytes:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
    return post(
        json.dumps(body).encode(),
        "Content-Type: application/json",
        "A2A-Version: 1.0",
        f"Authorization: Bearer {KEYS['alice']}",
        path=f"/api/a2a/v1/agents/{handle}",
    )


async def ask(peer: Peer, data: bytes) -> tuple[int, str]:
    peer.send(data)
    status, _, body = await peer.response()
    return status, body.decode()


async def test_the_next_request_on_an_open_connection_sees_each_change() -> None:
    async with open_world() as world, serving(world.gateway.application.serve) as server:
        directory, peer = world.gateway.directory, await server.peer()
        unknown = await ask(peer, sent("say hi"))
        assert unknown[0] == 404
        for n in range(3):
            await directory.publish(OTHER, TABLE | {"name": f"Number {n}"})
            # The second and the third have the head of the one before, which is not parsed again.
            for _ in range(3):
                status, body = await ask(peer, sent("say hi"))
                assert (status, "TASK_STATE_COMPLETED" in body) == (200, True)
            await directory.withdraw(OTHER, grace_s=0)
            for _ in range(3):
                assert await ask(peer, sent("say hi")) == unknown


@pytest.mark.parametrize("is_replaced", [False, True], ids=["withdrawn", "replaced"])
async def test_a_request_whose_body_comes_after_the_change(is_replaced: bool) -> None:
    async with open_world() as world, serving(world.gateway.application.serve) as server:
        directory, peer = world.gateway.directory, await server.peer()
        await directory.publish(OTHER, TABLE)
        data = sent("say hi")
        await peer.send_all(data[:-20])
        # An answer on another connection shows that the server has read the first half.
        assert (await ask(await server.peer(), sent("say hi")))[0] == 200
        before = world.agent_of(OTHER)
        if is_replaced:
            await directory.publish(OTHER, TABLE, replace=True)
        else:
            await directory.withdraw(OTHER, grace_s=0)
        status, body = await ask(peer, data[-20:])
        if is_replaced:
            assert (status, "TASK_STATE_COMPLETED" in body) == (200, True)
            assert len(world.agent_of(OTHER).turns) == 1
        else:
            assert (status, "ROUTE_NOT_FOUND" in body) == (404, True)
        assert len(before.turns) == 1


async def test_open_streams_of_a_withdrawn_agent_end_with_their_task_or_a_reason() -> None:
    async with open_world() as world, serving(world.gateway.application.serve) as server:
        directory = world.gateway.directory
        await directory.publish(OTHER, TABLE)
        running, asking = await server.peer(), await server.peer()
        running.send(sent("say some; hang", method="SendStreamingMessage"))
        await running.until(b"some")
        _, body = await ask(asking, sent("ask size?"))
        task = json.loads(body)["result"]["task"]["id"]
        call = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task}}
        head = sent("").partition(b"\r\nContent-Length")[0].decode().split("\r\n")
        asking.send(post(json.dumps(call).encode(), *head[2:], path=head[0].split()[1]))
        await asking.until(b"size?")
        await directory.withdraw(OTHER, grace_s=0)
        # Both connections stay open: the streams have ended, and nothing was cut.
        assert b"TASK_STATE_FAILED" in await running.until(b"0\r\n\r\n")
        assert b": the agent was withdrawn; resume with Last-Event-ID:" in await asking.until(
            b"0\r\n\r\n"
        )
        assert (await ask(running, sent("say hi")))[0] == 404


async def load(server: Server, stop: asyncio.Event, method: str) -> int:
    """Requests to an agent that stays, one after the other on one connection."""
    peer, count = await server.peer(), 0
    while not stop.is_set():
        status, body = await ask(peer, sent("say hello", HANDLE, method))
        assert (status, "TASK_STATE_COMPLETED" in body) == (200, True), body
        count += 1
    return count


async def come_and_go(world: World, server: Server, number: int, rounds: int) -> int:
    """Publish, replace and withdraw an agent; its own callers get an answer each time."""
    directory, handle, answered = world.gateway.directory, f"test/guest-{number}", 0
    peer = await server.peer()
    for _ in range(rounds):
        await directory.publish(handle, TABLE)
        peer.send(sent("say one", handle))
        await directory.publish(handle, TABLE, replace=True)
        peer.send(sent("say two", handle))
        for _ in range(2):
            status, _, body = await peer.response()
            answered += (status, b"TASK_STATE_COMPLETED" in body) == (200, True)
        await directory.withdraw(handle, grace_s=5)
        assert (await ask(peer, sent("say three", handle)))[0] == 404
    return answered


async def churned(path: Path, *, clients: int, rounds: int) -> None:
    async with (
        open_world(database=path / "tasks.db") as world,
        serving(world.gateway.application.serve) as server,
    ):
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as all_of_them:
            loads = [
                all_of_them.create_task(load(server, stop, method))
                for method in ("SendMessage", "SendStreamingMessage")
                for _ in range(clients)
            ]
            guests = [
                all_of_them.create_task(come_and_go(world, server, n, rounds)) for n in range(2)
            ]
            answered = [await guest for guest in guests]
            stop.set()
        assert answered == [2 * rounds] * 2
        assert min([task.result() for task in loads]) > 0


async def test_others_are_served_without_a_fault_while_agents_come_and_go(tmp_path: Path) -> None:
    await churned(tmp_path, clients=2, rounds=4)


@pytest.mark.full
async def test_many_others_are_served_while_hundreds_of_agents_come_and_go(tmp_path: Path) -> None:
    await churned(tmp_path, clients=8, rounds=100)
