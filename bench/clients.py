"""Our client beside that of a2a-sdk, on the same server: CPU per call and per streamed event.

bench/.venv/bin/python -m bench.clients           # after bench/run has made that environment
bench/.venv/bin/python -m bench.clients --quick
"""

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TypeAlias
from uuid import uuid4

import httpx
import uvloop
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import a2a_pb2 as a2a

from bench import cores
from bench.fleet import Fleet
from bench.servers import SERVERS
from trunkline.model.values import TaskArtifactUpdateEvent
from trunkline.remote import RemoteAgent, connect

DELTAS = 500
ROUNDS = 5
AT_ONCE = 16
# One call of a case: how many things it did, by which the CPU is divided.
Call: TypeAlias = Callable[[], Awaitable[int]]


def our_cases(agent: RemoteAgent) -> dict[str, Call]:
    async def send() -> int:
        await agent.send("hello")
        return 1

    async def stream() -> int:
        seen = 0
        async for item in agent.stream(f"stream {DELTAS}"):
            seen += isinstance(item, TaskArtifactUpdateEvent)
        return seen

    return {"call": send, "call, 16 at a time": many(send), "streamed event": stream}


def many(send: Call) -> Call:
    """Calls at the same time, as a program makes them that has more than one thing to do."""

    async def send_many() -> int:
        return sum(await asyncio.gather(*[send() for _ in range(AT_ONCE)]))

    return send_many


def their_cases(waiting: Client, streaming: Client) -> dict[str, Call]:
    def request(text: str) -> a2a.SendMessageRequest:
        message = a2a.Message(
            message_id=str(uuid4()), role=a2a.ROLE_USER, parts=[a2a.Part(text=text)]
        )
        return a2a.SendMessageRequest(message=message)

    async def send() -> int:
        return len([event async for event in waiting.send_message(request("hello"))])

    async def stream() -> int:
        seen = 0
        async for event in streaming.send_message(request(f"stream {DELTAS}")):
            seen += event.HasField("artifact_update")
        return seen

    return {"call": send, "call, 16 at a time": many(send), "streamed event": stream}


async def cpu_us(call: Call, count: int) -> float:
    """Microseconds on the CPU of this process for each thing done."""
    done, before = 0, time.process_time_ns()
    for _ in range(count):
        done += await call()
    return (time.process_time_ns() - before) / 1000 / done


async def measure(url: str, *, rounds: int, calls: int) -> dict[str, dict[str, list[float]]]:
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx.AsyncClient(timeout=60, verify=False))
        card = await A2ACardResolver(http, url).get_agent_card()
        clients = [
            ClientFactory(ClientConfig(httpx_client=http, streaming=streaming)).create(card)
            for streaming in (False, True)
        ]
        agent = await stack.enter_async_context(connect(url))
        cases = {"trunkline.remote": our_cases(agent), "a2a-sdk": their_cases(*clients)}
        figures: dict[str, dict[str, list[float]]] = {}
        for number in range(rounds + 1):
            for client, of_client in cases.items():
                for name, call in of_client.items():
                    count = {"call": calls, "streamed event": max(1, calls // 100)}.get(
                        name, max(1, calls // AT_ONCE)
                    )
                    figure = await cpu_us(call, count)
                    if number:  # the first round warms up
                        figures.setdefault(name, {}).setdefault(client, []).append(figure)
        return figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.clients")
    parser.add_argument("--quick", action="store_true", help="few calls, one round")
    options = parser.parse_args()
    server_core, own_core = cores.split()
    os.sched_setaffinity(0, {own_core})
    [server] = [one for one in SERVERS if one.name == "trunkline"]
    with Fleet(sys.executable, server_core) as fleet:
        target = fleet.start(server)
        url = f"http://127.0.0.1:{target.process.port}"
        rounds, calls = (1, 100) if options.quick else (ROUNDS, 1000)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            figures = runner.run(measure(url, rounds=rounds, calls=calls))
    for name, by_client in figures.items():
        ours = statistics.median(by_client["trunkline.remote"])
        theirs = statistics.median(by_client["a2a-sdk"])
        print(
            f"CPU per {name}: trunkline.remote {ours:.0f} µs, a2a-sdk {theirs:.0f} µs, "
            f"{theirs / ours:.1f} times"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
