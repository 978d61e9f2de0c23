"""Two relays on one PostgreSQL are one relay, also while one of them stops, stalls or dies."""

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.cluster.database import REAL, SHORT, Times
from tests.acceptance.kill_gateway import GatewayProcess
from tests.acceptance.relay_hosts import (
    AttachedHost,
    Echo,
    caller,
    hosts,
    request,
    until,
)
from tests.acceptance.relay_nodes import (
    HELLO,
    OTHER_HOST_TOKEN,
    Balancer,
    Calls,
    balancer,
    keep_calling,
    relay_nodes,
)
from tests.postgres.fixtures import fill_template
from tests.postgres.server import PostgresServer

AGENTS = ("one", "two", "three", "four")


class Named(Echo):
    """Answers with its name."""

    def __init__(self, name: bytes) -> None:
        super().__init__()
        self.name = name

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        head = [(b"content-length", b"%d" % len(self.name))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": self.name})


async def reached_at(node: GatewayProcess, agent: str) -> tuple[int, bytes]:
    async with caller(node.port) as client:
        return await client.call(request(HELLO, agent=agent))


async def moved(made: list[AttachedHost], front: Balancer, node: GatewayProcess) -> None:
    """Attach the hosts at this node."""
    everywhere, front.nodes = front.nodes, [node]
    before = [len(host.sockets) for host in made]
    for host in made:
        host.cut()
    await until(
        lambda: all(
            len(host.sockets) > count and host.host.attached_agents
            for host, count in zip(made, before, strict=True)
        )
    )
    front.nodes = everywhere


async def stopped(nodes: list[GatewayProcess], app: Echo) -> None:
    """A node that is asked to stop moves its agents, and no call fails."""
    calls, is_over = Calls(), asyncio.Event()
    async with asyncio.TaskGroup() as load:
        for agent in AGENTS:
            load.create_task(keep_calling(nodes[1], agent, calls, is_over, name="stop"))
        await asyncio.sleep(0.3)
        assert await nodes[0].stop() == 0
        await asyncio.sleep(0.3)
        is_over.set()
    assert set(calls.statuses) == {200}
    assert not calls.cut
    calls.check(app.runs)


async def killed(nodes: list[GatewayProcess], app: Echo) -> None:
    """Calls go on after one reconnect, and none is answered twice."""
    calls, is_over = Calls(), asyncio.Event()
    async with asyncio.TaskGroup() as load:
        for number, node in enumerate(nodes):
            for agent in AGENTS:
                name = f"kill-{number}"
                load.create_task(keep_calling(node, agent, calls, is_over, name=name))
        await asyncio.sleep(0.3)
        await nodes[0].kill()
        before = calls.answered.total()
        began = time.monotonic()
        # The first ones were attached there.
        for agent in AGENTS:
            assert (await reached_at(nodes[1], agent))[0] == 200
        print(f"all agents were reached again after {time.monotonic() - began:.2f} s")
        await until(lambda: calls.answered.total() > before)
        is_over.set()
    print(calls.statuses, calls.cut)
    calls.check(app.runs)


async def paused(nodes: list[GatewayProcess], made: list[AttachedHost], times: Times) -> None:
    """A node that stood still for longer than its lease serves nothing that it has lost."""
    made.append(await AttachedHost(nodes[0].port, Named(b"old"), agent="late").attached())
    # The host of the last round is at the other node, which hears of it some milliseconds later.
    while (answer := await reached_at(nodes[1], "late")) != (200, b"old"):
        assert answer == (200, b"new")
    os.kill(nodes[0].pid, signal.SIGSTOP)
    try:
        new = AttachedHost(nodes[1].port, Named(b"new"), agent="late", token=OTHER_HOST_TOKEN)
        made.append(await new.attached())
        assert await reached_at(nodes[1], "late") == (200, b"new")
        # These are read by the node when it goes on, before anything else.
        waiting = [asyncio.create_task(reached_at(nodes[0], "late")) for _ in range(8)]
        await asyncio.sleep(1.5 * times.lease_s)
    finally:
        os.kill(nodes[0].pid, signal.SIGCONT)
    answers = await asyncio.gather(*waiting)
    assert {answer for status, answer in answers if status == 200} <= {b"new"}
    assert {status for status, _ in answers} <= {200, 503}
    await until(lambda: made[-2].is_refused)
    assert await reached_at(nodes[0], "late") == (200, b"new")


async def run(folder: Path, server: PostgresServer, times: Times, *, stops: int) -> None:
    url = await asyncio.to_thread(server.create_database, fill_template)
    app = Echo()
    async with (
        relay_nodes(folder, url, times=times) as nodes,
        balancer(nodes) as front,
        hosts() as made,
    ):
        for agent in AGENTS:
            made.append(await AttachedHost(front.port, app, agent=agent).attached())
        for number in range(stops + 1):
            await moved(made[: len(AGENTS) : 2], front, nodes[0])
            await paused(nodes, made, times)
            await killed(nodes, app)
            if number < stops:
                await nodes[0].start()
                await moved(made[: len(AGENTS) : 2], front, nodes[0])
                await stopped(nodes, app)
                await nodes[0].start()
            app.runs.clear()
            print(f"round {number} is over")


async def test_a_node_stalls_and_dies_under_load(
    tmp_path: Path, own_postgres: PostgresServer
) -> None:
    await run(tmp_path, own_postgres, SHORT, stops=0)


@pytest.mark.full
@pytest.mark.timeout(600)
async def test_nodes_stall_die_and_stop_under_load(
    tmp_path: Path, own_postgres: PostgresServer
) -> None:
    await run(tmp_path, own_postgres, REAL, stops=5)
