"""A relay with a full mailbox and the gateway with the agent, each killed at random points while
the mailbox fills and empties: nothing that was acknowledged is lost, the messages of a context run
in their order, and none runs twice."""

import asyncio
import json
import random
import time
from asyncio import IncompleteReadError
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, field
from tests.acceptance.gateway import Gateway, gateway
from tests.acceptance.kill_gateway import free_port
from tests.acceptance.relay_hosts import RELAY, caller, request
from tests.acceptance.relay_streams import JSON
from tests.acceptance.test_relay_faults import attached
from tests.acceptance.test_relay_kill import HOST

ENDED = ("TASK_STATE_COMPLETED", "TASK_STATE_FAILED")
RELAY_WITH_MAILBOX = f'{RELAY}[relay_server]\nmailbox = "queue"\nmailbox_messages = {{size}}\n'


class Context(Struct):
    """One conversation: its client sends the next message when this one was acknowledged."""

    id: str
    # The tasks of the messages that were acknowledged, in order.
    tasks: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


class Mailbox:
    def __init__(self, relay: Gateway, host: Gateway, log: Path, *, contexts: int) -> None:
        self.relay = relay
        self.host = host
        self.contexts = [Context(f"context-{number}") for number in range(contexts)]
        self.outcomes: Counter[str] = Counter()
        self._log = log
        self._port = relay.port

    async def kill(self, which: Gateway, *, away_s: float = 0.0) -> None:
        which.kill()
        await asyncio.sleep(away_s)
        options = ("--port", str(self._port)) if which is self.relay else ()
        await asyncio.to_thread(which.start, *options)

    async def send(self, context: Context, *, until_full: bool = False) -> bool:
        """One more message of the context, again and again until it is acknowledged. False if the
        mailbox was full, where that is asked for."""
        id = f"{context.id}-{len(context.messages)}"
        own = {
            "messageId": id,
            "contextId": context.id,
            "role": "ROLE_USER",
            "parts": [{"text": "delay 0.01; say done"}],
        }
        returns = {"returnImmediately": True}
        body = json.dumps({"message": own, "configuration": returns}).encode()
        more = f"{JSON}Idempotency-Key: {id}\r\n"
        while True:
            status, answer = await self._call(request(body, below="/message:send", more=more))
            self.outcomes[f"send {status}"] += 1
            if status == 200:
                self.outcomes[answer["task"]["status"]["state"]] += 1
                context.tasks.append(answer["task"]["id"])
                context.messages.append(id)
                return True
            assert status in (0, 429, 502, 503), answer
            if status == 429 and until_full:
                return False
            await asyncio.sleep(0.02)

    async def _call(self, data: bytes) -> tuple[int, Any]:
        """The status and the answer; 0 where the relay was away."""
        async with caller(self._port) as client:
            try:
                status, body = await client.call(data)
            except (IncompleteReadError, ConnectionError):
                return 0, None
        return status, json.loads(body)

    @property
    def acknowledged(self) -> int:
        return sum(len(context.tasks) for context in self.contexts)

    async def waiting(self) -> int:
        """What the relay says that still waits."""
        async with caller(self._port) as client:
            _, body = await client.call(request().replace(b"/t/acme/a2a/helper", b"/metrics"))
        [line] = [
            line for line in body.split(b"\n") if line.startswith(b"trunkline_mailbox_waiting ")
        ]
        return round(float(line.split()[1]))

    async def check(self) -> None:
        """Each message has one task, which ends, and ran once; contexts kept their order."""
        for context in self.contexts:
            assert len(set(context.tasks)) == len(context.tasks)
            for task_id in context.tasks:
                await self._ended(task_id)
        lines = [line.split() for line in self._log.read_text().splitlines()]
        turns = Counter(message for _, message, _ in lines)
        twice = {message: count for message, count in turns.items() if count > 1}
        assert not twice, twice
        for context in self.contexts:
            ran = [(task, message) for task, message, _ in lines if _context(message) == context.id]
            # A turn that was about to begin when its gateway was killed is not in the log.
            assert set(ran) <= set(zip(context.tasks, context.messages, strict=True))
            order = [context.messages.index(message) for _, message in ran]
            assert order == sorted(order), order
        assert len(lines) >= self.acknowledged - 2 * self.outcomes["kills of the host"]

    async def _ended(self, task_id: str) -> None:
        async with asyncio.timeout(120):
            while True:
                status, task = await self._call(request(below=f"/tasks/{task_id}", more=JSON))
                assert status in (0, 200, 503), (status, task)
                if status == 200 and task["status"]["state"] in ENDED:
                    self.outcomes[task["status"]["state"]] += 1
                    assert task["id"] == task_id
                    return
                await asyncio.sleep(0.05)


def _context(message: str) -> str:
    return message.rpartition("-")[0]


@asynccontextmanager
async def mailbox(folder: Path, *, contexts: int, size: int) -> AsyncIterator[Mailbox]:
    port, log = free_port(), folder / "turns"
    for name in ("relay", "host"):
        (folder / name).mkdir()
    with (
        gateway(folder / "relay", RELAY_WITH_MAILBOX.format(size=2 * size)) as relay,
        gateway(folder / "host", HOST.format(port=port, log=log)) as host,
    ):
        for each in (relay, host):
            each.module = "tests.acceptance.fast_clock"
            each.environment = {"CLOCK_FACTOR": "4"}
        relay.launch("--port", str(port))
        host.launch()
        relay.finish_start()
        host.finish_start()
        await attached(port)
        yield Mailbox(relay, host, log, contexts=contexts)
        for each in (relay, host):
            assert each.process.poll() is None
            each.check_log()


async def under_kills(
    folder: Path, *, size: int, contexts: int, kills: int, more: int, seed: int
) -> None:
    """Fill the mailbox while the agent is away, then kill both while it empties, and while more
    messages come."""
    chance = random.Random(seed)
    async with mailbox(folder, contexts=contexts, size=size) as it:
        it.host.kill()
        began = time.monotonic()
        filling = [asyncio.ensure_future(_fill(it, context)) for context in it.contexts]
        await asyncio.sleep(0.2)
        await it.kill(it.relay)
        await asyncio.gather(*filling)
        filled_s, waiting = time.monotonic() - began, await it.waiting()
        assert waiting == size
        await asyncio.to_thread(it.host.start)
        began = time.monotonic()
        sending = [asyncio.ensure_future(_send(it, context, more)) for context in it.contexts]
        for number in range(kills):
            await asyncio.sleep(chance.uniform(0.05, 0.6))
            which = it.relay if number % 2 else it.host
            it.outcomes["kills of the host"] += which is it.host
            await it.kill(which, away_s=chance.choice((0.0, 0.3)))
        async with asyncio.timeout(120):
            await asyncio.gather(*sending)
        await it.check()
        assert await it.waiting() == 0
        print(
            f"\na mailbox of {size} messages, filled within {filled_s:.1f} s, a kill of the relay "
            f"meanwhile; then {kills} kills within {time.monotonic() - began:.1f} s: "
            f"{it.acknowledged} messages of {contexts} contexts acknowledged, each ran once and in "
            f"order; {dict(it.outcomes)}"
        )


async def _fill(it: Mailbox, context: Context) -> None:
    while await it.send(context, until_full=True):
        pass


async def _send(it: Mailbox, context: Context, more: int) -> None:
    for _ in range(more):
        await it.send(context)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(3))
async def test_a_full_mailbox_survives_kills_of_both_sides(tmp_path: Path, seed: int) -> None:
    await under_kills(tmp_path, size=600, contexts=20, kills=20, more=30, seed=seed)
