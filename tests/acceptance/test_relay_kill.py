"""A relay and the gateway with the agent, each killed at random points under load: nothing that was
acknowledged is lost, no message runs twice, and clients are told what became of their requests."""

import asyncio
import json
import random
import time
from asyncio import IncompleteReadError
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from msgspec import Struct, field
from tests.acceptance.gateway import Gateway, gateway
from tests.acceptance.kill_gateway import free_port
from tests.acceptance.relay_hosts import HOST_TOKEN, RELAY, caller, request
from tests.acceptance.relay_streams import BROKEN, JSON, LOST, check, resume, stream
from tests.acceptance.test_relay_faults import attached

HOST = f"""
[relay]
url = "ws://127.0.0.1:{{port}}/agent"
tenant = "acme"
agent_id = "helper"
token = "{HOST_TOKEN}"
mode = "relay"
[agents."test/scripted"]
name = "Scripted"
default = true
max_concurrency = 0
backend = {{{{ kind = "scripted", turn_log = "{{log}}" }}}}
"""
ENDED = ("TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_REJECTED")
STREAM = "stream 20 every 0.08"
STREAMED = "".join(f"{number} " for number in range(1, 21))


class Facts(Struct):
    # The task of each message, as the relay has told it first.
    tasks: dict[str, str] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)


class Killed:
    """Both gateways, and clients that call the agent all the time."""

    def __init__(self, relay: Gateway, host: Gateway, log: Path) -> None:
        self.relay = relay
        self.host = host
        self.facts = Facts()
        self.port = relay.port
        self._log = log
        self._is_over = False
        # How often the relay was killed: only then may a connection end without a word.
        self._kills_of_relay = 0

    async def kill(self, which: Gateway, *, away_s: float) -> None:
        self._kills_of_relay += which is self.relay
        which.kill()
        await asyncio.sleep(away_s)
        options = ("--port", str(self.port)) if which is self.relay else ()
        await asyncio.to_thread(which.start, *options)

    async def work(self, name: str) -> None:
        number = 0
        while not self._is_over:
            number += 1
            if number % 3:
                await self._send(f"{name}-{number}", context=f"context-{name}")
            else:
                await self._stream()

    def stop(self) -> None:
        self._is_over = True

    async def _send(self, id: str, *, context: str) -> None:
        """One message, again and again until it is answered, under the same key."""
        own = {"messageId": id, "role": "ROLE_USER", "parts": [{"text": "delay 0.08; say done"}]}
        body = json.dumps({"message": own | {"contextId": context}}).encode()
        more = f"{JSON}Idempotency-Key: {id}\r\n"
        while id not in self.facts.tasks:
            status, answer = await self._call(request(body, below="/message:send", more=more))
            self.facts.outcomes[f"send {status}"] += 1
            if status == 200:
                self.facts.tasks[id] = answer["task"]["id"]
            else:
                assert status in (0, 502, 503), answer
                await asyncio.sleep(0.05)

    async def _stream(self) -> None:
        kills = self._kills_of_relay
        try:
            ended = await stream(self.port, STREAM)
        except ConnectionRefusedError:
            await asyncio.sleep(0.05)
            return
        if ended.how == BROKEN:
            assert self._kills_of_relay > kills, ended
            ended.how = LOST
        check(ended, text=STREAMED)
        self.facts.outcomes[f"stream {ended.how}"] += 1
        if ended.how == LOST and ended.ids:
            await self._resume(ended)

    async def _resume(self, ended: Any) -> None:
        while ended.state not in ENDED:
            with suppress(ConnectionRefusedError):
                await resume(self.port, ended)
            await asyncio.sleep(0.05)
        assert ended.ids == list(range(1, len(ended.ids) + 1))
        assert STREAMED.startswith(ended.text)

    async def _call(self, data: bytes) -> tuple[int, Any]:
        """The status and the answer; 0 where the relay was killed meanwhile."""
        kills = self._kills_of_relay
        async with caller(self.port) as client:
            try:
                status, body = await client.call(data)
            except ConnectionRefusedError:
                # It is away.
                return 0, None
            except (IncompleteReadError, ConnectionError):
                if self._kills_of_relay == kills:
                    raise
                return 0, None
        return status, json.loads(body)

    async def check(self) -> None:
        """Each message has one task, which ends, and ran once. A message that the agent had taken
        before it, and its answer, were lost may wait in the mailbox as well: then its task says
        which one ran."""
        first: dict[str, str] = {}
        # A gateway that was killed between its commit and the turn fails the task.
        failed: set[str] = set()
        for id, task_id in self.facts.tasks.items():
            task = await self._ended(task_id)
            assert task["id"] == task_id
            first[id] = task_id
            if task["status"]["state"] == "TASK_STATE_FAILED":
                failed.add(id)
            if task["status"]["state"] == "TASK_STATE_REJECTED":
                said = task["status"]["message"]["parts"][0]["text"]
                first[id] = said.rpartition("Its task is ")[2].rstrip(".")
        lines = self._log.read_text().splitlines()
        turns = Counter(line.split()[1] for line in lines)
        assert set(turns.values()) == {1}, [each for each in turns.items() if each[1] > 1]
        tasks = {line.split()[1]: line.split()[0] for line in lines}
        never = first.keys() - tasks.keys()
        assert never <= failed, never - failed
        assert {id: tasks[id] for id in first.keys() - never} == {
            id: task_id for id, task_id in first.items() if id not in never
        }

    async def _ended(self, task_id: str) -> Any:
        async with asyncio.timeout(60):
            while True:
                status, task = await self._call(request(below=f"/tasks/{task_id}", more=JSON))
                assert status in (200, 503), task
                if status == 200 and task["status"]["state"] in ENDED:
                    return task
                await asyncio.sleep(0.05)


@asynccontextmanager
async def killed(folder: Path) -> AsyncIterator[Killed]:
    port, log = free_port(), folder / "turns"
    for name in ("relay", "host"):
        (folder / name).mkdir()
    with (
        gateway(folder / "relay", RELAY) as relay,
        gateway(folder / "host", HOST.format(port=port, log=log)) as host,
    ):
        for each in (relay, host):
            # So that a host dials again soon.
            each.module = "tests.acceptance.fast_clock"
            each.environment = {"CLOCK_FACTOR": "4"}
        relay.launch("--port", str(port))
        host.launch()
        relay.finish_start()
        host.finish_start()
        await attached(port)
        it = Killed(relay, host, log)
        yield it
        for each in (relay, host):
            each.check_log()


async def under_kills(folder: Path, *, kills: int, clients: int, seed: int) -> None:
    chance = random.Random(seed)
    name = uuid4().hex[:6]
    async with killed(folder) as it:
        began = time.monotonic()
        working = [asyncio.ensure_future(it.work(f"{name}-{i}")) for i in range(clients)]
        for number in range(kills):
            await asyncio.sleep(chance.uniform(0.1, 0.8))
            which = it.host if number % 2 else it.relay
            await it.kill(which, away_s=chance.choice((0.0, 0.3)))
        await attached(it.port)
        it.stop()
        async with asyncio.timeout(90):
            await asyncio.gather(*working)
        await it.check()
        print(
            f"\n{kills} kills within {time.monotonic() - began:.1f} s, {clients} clients: "
            f"{dict(it.facts.outcomes)}; {len(it.facts.tasks)} messages, each ran once"
        )


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
async def test_nothing_is_lost_and_nothing_runs_twice(tmp_path: Path, seed: int) -> None:
    await under_kills(tmp_path, kills=30, clients=24, seed=seed)
