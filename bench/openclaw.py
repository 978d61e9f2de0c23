"""What the gateway adds in front of an OpenClaw: its own CPU per send and per streamed event.

python -m bench.openclaw            # in the environment of ./check, from the root of the checkout
python -m bench.openclaw --quick

The OpenClaw is the fake of the tests, a process of its own; only the gateway's CPU counts.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
from pathlib import Path
from uuid import uuid4

from tests.acceptance.gateway import Gateway, gateway
from tests.acceptance.openclaw.claws import NEW, TOKEN, FakeClaw

from trunkline.model.calls import SendMessageRequest
from trunkline.model.values import Message, Part, Role, Task, TaskArtifactUpdateEvent, TaskState
from trunkline.remote import RemoteAgent, connect

EVENTS = 100
CONFIG = """
[agents."bench/claw"]
name = "Claw"
[agents."bench/claw".backend]
kind = "openclaw"
url = "{url}"
token = "{token}"
[agents."bench/echo"]
name = "Echo"
backend = {{ kind = "echo" }}
"""


def cpu_us(ours: Gateway) -> float:
    """What the process has used so far; only Linux tells."""
    fields = Path(f"/proc/{ours.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") * 1e6


def message(text: str) -> SendMessageRequest:
    """A message of a conversation of its own."""
    parts = (Part(text=text),)
    made = Message(message_id=uuid4().hex, context_id=uuid4().hex, role=Role.USER, parts=parts)
    return SendMessageRequest(message=made)


async def sends(agent: RemoteAgent, count: int, at_once: int) -> None:
    left = iter(range(count))

    async def worker() -> None:
        for _ in left:
            task = await agent.send(message("hello"))
            assert isinstance(task, Task)
            assert task.status.state is TaskState.COMPLETED

    await asyncio.gather(*(worker() for _ in range(at_once)))


async def streams(agent: RemoteAgent, count: int) -> int:
    """So many streams at once; how many pieces came."""

    async def one() -> int:
        chunks = 0
        async for event in agent.stream(message(f"SLOW {EVENTS} 5")):
            chunks += isinstance(event, TaskArtifactUpdateEvent)
        return chunks

    return sum(await asyncio.gather(*(one() for _ in range(count))))


async def measure(ours: Gateway, scale: int) -> None:
    per_send: dict[str, list[float]] = {"bench/claw": [], "bench/echo": []}
    per_event: list[float] = []
    for number in range(4):
        for handle, figures in per_send.items():
            async with connect(ours.agent_url(handle)) as agent:
                before = cpu_us(ours)
                await sends(agent, scale, 8)
                figures.append((cpu_us(ours) - before) / scale)
        async with connect(ours.agent_url("bench/claw")) as agent:
            before = cpu_us(ours)
            chunks = await streams(agent, scale // 20)
            per_event.append((cpu_us(ours) - before) / chunks)
        if number == 0:  # the first round warms up
            per_event.clear()
            for figures in per_send.values():
                figures.clear()
    claw, echo = (statistics.median(figures) for figures in per_send.values())
    print(f"CPU per send: before OpenClaw {claw:.0f} µs, echo agent {echo:.0f} µs")
    print(f"CPU per streamed event: {statistics.median(per_event):.0f} µs")


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.openclaw")
    parser.add_argument("--quick", action="store_true", help="few calls")
    scale = 200 if parser.parse_args().quick else 2000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        claw = FakeClaw(NEW, folder / "claw")
        claw.start()
        try:
            config = CONFIG.format(url=claw.url, token=TOKEN)
            with gateway(folder, config) as ours:
                ours.start("--data", str(folder / "data"))
                asyncio.run(measure(ours, scale))
        finally:
            claw.kill()


if __name__ == "__main__":
    main()
