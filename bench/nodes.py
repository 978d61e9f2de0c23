"""Two nodes on one PostgreSQL: sends per second, how far a reader at the other node is behind, and
how long a cancel takes that arrives there.

PYTHONPATH=src:. .venv-dev/bin/python -m bench.nodes    # in the environment of ./check

Each node is pinned to a core of its own; load and database share both cores with them.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.calls import Caller, Send
from bench.client import Client
from bench.database import BenchDatabase
from bench.dialects import A2A_1_0
from bench.process import Process, free_port
from bench.script import PACE, delta
from bench.servers import ROOT
from bench.target import expect_right

SENDS = 20_000
LIMIT_S = 15
DELTAS = 5_000
CANCELS = 50
PATH = "/a2a/jsonrpc"


def started(stack: ExitStack, url: str, agent: str, folder: Path) -> list[Process]:
    nodes = []
    for core in sorted(os.sched_getaffinity(0))[:2]:
        port = free_port()
        command = [sys.executable, "-m", "trunkline", "serve", f"bench/agents.py:{agent}"]
        node = Process(
            [*command, "--port", str(port), "--db", url],
            port=port,
            env={"PYTHONPATH": str(ROOT / "src")},
            log=folder / f"{agent}-{port}.log",
            core=core,
            cwd=ROOT,
        )
        stack.callback(node.stop)
        node.wait_until_up("/healthz")
        nodes.append(node)
    return nodes


def sends(database: BenchDatabase, nodes: Sequence[Process], connections: int) -> None:
    ports = [node.port for node in nodes]
    send = Send(Caller(A2A_1_0, PATH))
    with Client(ports[0], connections, *ports[1:]) as client:
        expect_right(client.run(send, total=3_000, limit_s=5))
        before = [database.cpu_s(), *[node.cpu_s() for node in nodes]]
        began = time.perf_counter()
        outcome = expect_right(client.run(send, total=SENDS, limit_s=LIMIT_S))
        wall_s = time.perf_counter() - began
        after = [database.cpu_s(), *[node.cpu_s() for node in nodes]]
    in_all = [(now - then) * 1e6 for then, now in zip(before, after, strict=True)]
    print(
        f"{len(nodes)} node(s), {connections} at a time: {outcome.done / wall_s:,.0f} sends/s, "
        f"p50 {outcome.percentile_ms(0.5):.1f} ms, p99 {outcome.percentile_ms(0.99):.1f} ms; "
        f"CPU per send: nodes {sum(in_all[1:]) / outcome.done:.0f} µs, "
        f"database {in_all[0] / outcome.done:.0f} µs"
    )


async def events(
    port: int, method: str, params: dict[str, Any]
) -> AsyncGenerator[tuple[int, Any], None]:
    """The events of a stream, each with the time of its arrival."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    writer.write(
        f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nA2A-Version: 1.0\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    try:
        while line := await reader.readline():
            if line.startswith(b"data:"):
                yield time.monotonic_ns(), json.loads(line[5:])["result"]
            elif line.startswith(b"{"):
                yield time.monotonic_ns(), json.loads(line)
                return
    finally:
        writer.close()


def message(text: str) -> dict[str, Any]:
    parts = [{"text": text}]
    return {
        "message": {"messageId": f"m-{time.monotonic_ns()}", "role": "ROLE_USER", "parts": parts}
    }


async def arrivals(stream: AsyncIterator[tuple[int, Any]]) -> dict[str, int]:
    """When each delta arrived, by its text."""
    found: dict[str, int] = {}
    async for at, event in stream:
        update = event.get("artifactUpdate")
        for part in update["artifact"]["parts"] if update else ():
            # Deltas that were committed together come as one text.
            for piece in part["text"].split(";")[:-1]:
                found[f"{piece};"] = at
        status = event.get("statusUpdate")
        if status and status["status"]["state"] == "TASK_STATE_COMPLETED":
            return found
    raise SystemExit("the stream ended before its task")


async def following(here: int, there: int) -> None:
    """How far a reader here is behind one there, where the task runs."""
    stream = events(there, "SendStreamingMessage", message(f"paced {DELTAS}"))
    _, first = await anext(stream)
    other = events(here, "SubscribeToTask", {"id": first["task"]["id"]})
    near, far = await asyncio.gather(arrivals(stream), arrivals(other))
    wanted = [delta(index) for index in range(DELTAS)]
    if list(near) != wanted or list(far) != wanted[DELTAS - len(far) :] or len(far) < DELTAS // 2:
        raise SystemExit(f"events were lost or mixed up: {len(near)}, {len(far)}")
    behind = sorted((far[each] - near[each]) / 1e6 for each in far)
    print(
        f"{len(far):,} events at {PACE}/s, read at the other node: "
        f"p50 {behind[len(behind) // 2]:.1f} ms, p99 {behind[len(behind) * 99 // 100]:.1f} ms, "
        f"max {behind[-1]:.1f} ms behind"
    )


async def canceling(here: int, there: int, folder: Path) -> None:
    took = []
    for number in range(CANCELS):
        stopped = folder / f"stopped-{number}"
        stream = events(there, "SendStreamingMessage", message(str(stopped)))
        _, first = await anext(stream)
        async for _, event in stream:
            if "artifactUpdate" in event:
                break
        asked = time.monotonic_ns()
        async for _, answer in events(here, "CancelTask", {"id": first["task"]["id"]}):
            if "error" in answer:
                raise SystemExit(f"not canceled: {answer}")
        while not stopped.exists():  # noqa: ASYNC110 - written by another process
            await asyncio.sleep(0.001)
        took.append((int(stopped.read_text()) - asked) / 1e6)
        await stream.aclose()
    took.sort()
    print(
        f"{CANCELS} cancels at the other node: the run stops after p50 "
        f"{took[CANCELS // 2]:.1f} ms, max {took[-1]:.1f} ms"
    )


def main() -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        database = BenchDatabase()
        stack.callback(database.close)
        nodes = started(stack, database.new_url(), "pure", folder)
        for connections in (32, 64):
            sends(database, nodes[:1], connections)
            sends(database, nodes, connections)
        here, there = (node.port for node in nodes)
        asyncio.run(following(here, there))
        here, there = (node.port for node in started(stack, database.new_url(), "waiting", folder))
        asyncio.run(canceling(here, there, folder))


if __name__ == "__main__":
    main()
