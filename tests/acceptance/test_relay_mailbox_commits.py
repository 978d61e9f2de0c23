"""A mailbox is delivered while the gateway with the agent, or the relay, is killed between any two
of its commits: no message is lost, each context keeps its order, and nothing runs twice."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from msgspec import Struct
from tests.acceptance.gateway import Gateway, gateway
from tests.acceptance.kill_gateway import copy_of, free_port, read_sqlite
from tests.acceptance.relay_hosts import HOST_TOKEN, RELAY, caller, request
from tests.acceptance.relay_streams import JSON
from tests.acceptance.test_relay_faults import attached

# The number of a commit, and whether the process is killed before or after it.
Death: TypeAlias = tuple[int, Literal["before", "after"]]

RELAY_CONFIG = RELAY + "[relay_server]\nwait_s = 0\n"
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
max_queue_per_context = 3
backend = {{{{ kind = "scripted", turn_log = "{{folder}}/turns" }}}}
"""
# Without a turn for so long, there is nothing left to do. A host may wait for a while before it
# dials again.
QUIET_S = 12.0
SUBMITTED, COMPLETED = "TASK_STATE_SUBMITTED", "TASK_STATE_COMPLETED"
ENDED = (COMPLETED, "TASK_STATE_FAILED")


class Sent(Struct, frozen=True):
    context: str
    # As the relay has answered it.
    task: dict[str, Any]

    @property
    def task_id(self) -> str:
        id: str = self.task["id"]
        return id


class Post:
    def __init__(self, relay: Gateway, host: Gateway, folder: Path) -> None:
        self.relay = relay
        self.host = host
        self.folder = folder
        self.sent: dict[str, Sent] = {}

    async def fill(self, messages: int, contexts: int) -> None:
        """Messages of several contexts in turn, while the agent is away."""
        async with caller(self.relay.port) as client:
            for number in range(messages):
                context = f"context-{number % contexts}"
                await self._send(client, f"message-{number:04}", context)

    async def _send(self, client: Any, id: str, context: str) -> None:
        own = {"messageId": id, "role": "ROLE_USER", "parts": [{"text": "delay 0.01; say done"}]}
        body = json.dumps({"message": own | {"contextId": context}}).encode()
        more = f"{JSON}Idempotency-Key: key of {id}\r\n"
        status, answer = await client.call(request(body, below="/message:send", more=more))
        assert status == 200, answer
        task = json.loads(answer)["task"]
        assert task["status"]["state"] == SUBMITTED
        self.sent[id] = Sent(context, task)

    async def live(self, which: Gateway, death: Death | None) -> bool:
        """Start a gateway, which dies at this commit; False if it had fewer to make."""
        number, when = death or (0, "after")
        which.environment |= {"DIES_AT": str(number), "DIES": when}
        which.launch("--port", str(self.relay.port) if which is self.relay else "0")
        if not number:
            await asyncio.to_thread(which.finish_start)
            return False
        known, since = -1, time.monotonic()
        while which.process.poll() is None:
            await asyncio.sleep(0.02)
            if len(self.turns()) != known:
                known, since = len(self.turns()), time.monotonic()
            elif time.monotonic() - since > QUIET_S:
                # It has nothing left to commit.
                which.kill()
                return False
        return True

    async def deaths(self, which: Gateway, deaths: Iterable[Death]) -> int:
        """How often it has died before it had nothing left to do."""
        count = 0
        for death in deaths:
            if not await self.live(which, death):
                break
            count += 1
        return count

    def turns(self) -> list[str]:
        """The message of each turn that the agent ran, in this order."""
        log = self.folder / "turns"
        return [line.split()[1] for line in log.read_text().splitlines()] if log.exists() else []

    async def check(self) -> Counter[str]:
        """How many tasks ended in which state."""
        states: Counter[str] = Counter()
        async with caller(self.relay.port) as client:
            for sent in self.sent.values():
                states[await self._end_of(client, sent)] += 1
            status, body = await client.call(request(below="/tasks?pageSize=1", more=JSON))
            assert (status, json.loads(body)["totalSize"]) == (200, len(self.sent))
        turns = self.turns()
        assert len(turns) == len(set(turns)), "a message ran twice"
        # A turn that a kill has cut off may have failed before the agent wrote its line.
        assert states[COMPLETED] <= len(turns) <= len(self.sent)
        for context in {sent.context for sent in self.sent.values()}:
            order = [id for id in turns if self.sent[id].context == context]
            assert order == sorted(order), context
        self._check_journals()
        return states

    async def _end_of(self, client: Any, sent: Sent) -> str:
        async with asyncio.timeout(60):
            while True:
                below = f"/tasks/{sent.task_id}"
                status, body = await client.call(request(below=below, more=JSON))
                assert status in (200, 503), body
                task = json.loads(body)
                if status == 200 and task["status"]["state"] in ENDED:
                    assert task["history"][0] == sent.task["history"][0]
                    state: str = task["status"]["state"]
                    return state
                await asyncio.sleep(0.02)

    def _check_journals(self) -> None:
        """Each begins with the entry of the relay."""
        (file,) = (self.folder / "data").glob("*.db")
        rows = read_sqlite(copy_of(file))
        for sent in self.sent.values():
            kind, body = rows[sent.task_id].events[1]
            assert (kind, json.loads(body)) == ("task.1", sent.task)


@asynccontextmanager
async def post(folder: Path) -> AsyncIterator[Post]:
    """The relay knows the agent, which is away."""
    port = free_port()
    for name in ("relay", "host"):
        (folder / name).mkdir()
    own = folder / "host"
    with (
        gateway(folder / "relay", RELAY_CONFIG) as relay,
        gateway(own, HOST.format(port=port, folder=own)) as host,
    ):
        for each in (relay, host):
            each.module = "tests.acceptance.dying_gateway"
            each.environment = {"CLOCK_FACTOR": "8", "DIES_AT": "0"}
        relay.launch("--port", str(port))
        host.launch()
        relay.finish_start()
        host.finish_start()
        await attached(port)
        assert await asyncio.to_thread(host.stop) == 0
        yield Post(relay, host, own)
        for each in (relay, host):
            assert "Traceback" not in each.stderr, each.stderr


async def delivered(folder: Path, deaths: Iterable[Death], *, messages: int, contexts: int) -> None:
    async with post(folder) as it:
        await it.fill(messages, contexts)
        died = await it.deaths(it.host, deaths)
        await it.live(it.host, None)
        states = await it.check()
        print(f"\n{died} deaths, {len(it.turns())} turns: {dict(states)}")
        assert died


@pytest.mark.full
async def test_a_gateway_that_is_killed_between_commits_loses_nothing(tmp_path: Path) -> None:
    deaths: list[Death] = [(2, "after"), (3, "before"), (6, "after")]
    await delivered(tmp_path, deaths, messages=18, contexts=3)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2))
async def test_nor_after_many_deaths(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    each: list[Death] = [(number, when) for number in range(1, 11) for when in ("before", "after")]
    some: list[Death] = [
        (chance.randint(1, 40), chance.choice(("before", "after"))) for _ in range(10)
    ]
    await delivered(tmp_path, [*each, *some], messages=200, contexts=7)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2))
async def test_nor_does_a_relay(tmp_path: Path, seed: int) -> None:
    """The gateway with the agent lives, and the relay dies between the commits of its mailbox."""
    chance = random.Random(seed)
    async with post(tmp_path) as it:
        await it.fill(200, 7)
        await asyncio.to_thread(it.relay.kill)
        it.host.environment |= {"DIES_AT": "0"}
        it.host.launch()
        deaths: list[Death] = [
            (chance.randint(1, 9), chance.choice(("before", "after"))) for _ in range(15)
        ]
        died = await it.deaths(it.relay, deaths)
        await it.live(it.relay, None)
        await attached(it.relay.port)
        states = await it.check()
        print(f"\n{died} deaths of the relay, {len(it.turns())} turns: {dict(states)}")
        assert states == {COMPLETED: 200}
