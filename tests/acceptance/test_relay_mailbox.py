"""A full mailbox, and a relay and a gateway that are killed at random points while it fills and
empties: nothing that was answered is lost, contexts keep their order, and no message runs twice."""

import asyncio
import json
import random
from asyncio import IncompleteReadError
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.gateway import DEADLINE_S, Gateway, gateway
from tests.acceptance.kill_gateway import GatewayProcess, free_port
from tests.acceptance.relay_hosts import (
    RELAY,
    AttachedHost,
    Caller,
    caller,
    hosts,
    request,
    until,
)
from tests.acceptance.relay_nodes import relay_nodes
from tests.acceptance.relay_streams import JSON
from tests.acceptance.test_relay_kill import HOST
from tests.postgres.fixtures import fill_template
from tests.postgres.server import PostgresServer
from tests.relay.mailboxes import Taker

from trunkline.relay.hosts.exchanges import DELIVERY

ENDED = {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED"}


class Mailed:
    """Clients that send to an agent that is away, and both of its gateways."""

    def __init__(self, relay: Gateway, host: Gateway, log: Path) -> None:
        self.relay = relay
        self.host = host
        self.port = relay.port
        self._log = log
        # The tasks of each context, in the order in which the relay has answered.
        self.sent: dict[str, list[str]] = defaultdict(list)

    async def killed(self, which: Gateway) -> None:
        which.kill()
        options = ("--port", str(self.port)) if which is self.relay else ()
        await asyncio.to_thread(which.start, *options)

    async def call(self, client: Caller, data: bytes) -> tuple[int, dict[str, Any]]:
        """The answer, also of a relay that was killed meanwhile."""
        deadline = asyncio.get_running_loop().time() + DEADLINE_S
        while True:
            try:
                status, body = await client.call(data)
            except (OSError, IncompleteReadError):
                client.close()
            else:
                if status != 503:
                    return status, json.loads(body)
            assert asyncio.get_running_loop().time() < deadline, self.relay.stderr
            await asyncio.sleep(0.05)

    async def send(self, context: str, count: int) -> None:
        """One message after the other; one that was not answered is sent again."""
        async with caller(self.port) as client:
            for number in range(count):
                message = {
                    "messageId": f"{context}-{number}",
                    "contextId": context,
                    "role": "ROLE_USER",
                    "parts": [{"text": f"say {number}"}],
                }
                body = json.dumps({"message": message}).encode()
                key = f"{JSON}Idempotency-Key: {context}-{number}\r\n"
                status, answer = await self.call(
                    client, request(body, below="/message:send", more=key)
                )
                assert status == 200, answer
                self.sent[context].append(answer["task"]["id"])

    async def states(self, context: str) -> list[str]:
        """Those of its tasks at the agent."""
        async with caller(self.port) as client:
            found = []
            for task in self.sent[context]:
                status, answer = await self.call(client, request(below=f"/tasks/{task}"))
                assert status == 200, answer
                found.append(answer["status"]["state"])
            return found

    async def until_over(self) -> None:
        deadline = asyncio.get_running_loop().time() + 2 * DEADLINE_S
        for context in self.sent:
            while not {*await self.states(context)} <= ENDED:
                assert asyncio.get_running_loop().time() < deadline, self.host.stderr
                await asyncio.sleep(0.1)

    def runs(self) -> list[str]:
        """The tasks in the order in which they ran."""
        return [line.split()[0] for line in self._log.read_text().splitlines()]


async def _kill_now_and_then(mailed: Mailed, which: list[Gateway], chance: random.Random) -> None:
    for each in which:
        await asyncio.sleep(chance.uniform(0.1, 0.5))
        await mailed.killed(each)


@pytest.mark.parametrize(
    ("contexts", "messages", "kills"),
    [(5, 8, 1), pytest.param(20, 40, 8, marks=pytest.mark.full)],
)
async def test_a_full_mailbox_survives_kills_of_both(
    tmp_path: Path, contexts: int, messages: int, kills: int
) -> None:
    chance = random.Random(contexts)
    for name in ("relay", "host"):
        (tmp_path / name).mkdir()
    log = tmp_path / "turns"
    log.touch()
    # One caller may have half of it.
    full = f"{RELAY}\n[relay_server]\nmailbox_messages = {2 * contexts * messages}\n"
    port = free_port()
    with (
        gateway(tmp_path / "relay", full) as relay,
        gateway(tmp_path / "host", HOST.format(log=log, port=port)) as host,
    ):
        relay.start("--port", str(port))
        host.start()
        mailed = Mailed(relay, host, log)
        # The agent is known from now on.
        await mailed.send("first", 1)
        host.kill()
        names = [f"context-{number}" for number in range(contexts)]
        async with asyncio.TaskGroup() as filling:
            for name in names:
                filling.create_task(mailed.send(name, messages))
            filling.create_task(_kill_now_and_then(mailed, [relay] * kills, chance))
        # Before anything is delivered, each of them waits, and the mailbox is full.
        async with caller(port) as client:
            late = b'{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"say 1"}]}}'
            status, answer = await mailed.call(
                client, request(late, below="/message:send", more=JSON)
            )
            assert status == 429, answer
        assert len({task for name in names for task in mailed.sent[name]}) == contexts * messages
        await asyncio.to_thread(host.start)
        await _kill_now_and_then(mailed, [relay, host] * kills, chance)
        await mailed.until_over()
        check(mailed, names)


def check(mailed: Mailed, names: list[str]) -> None:
    runs = mailed.runs()
    sent = [task for name in names for task in mailed.sent[name]]
    assert len({*runs}) == len(runs)
    # A turn that was under way when its gateway was killed has failed; all others ran.
    assert {*runs} >= {*sent}
    for name in names:
        own = {*mailed.sent[name]}
        assert [task for task in runs if task in own] == mailed.sent[name]


# Two nodes on PostgreSQL.


class Agent(Taker):
    """Answers other requests than deliveries as well."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if DELIVERY in scope["extensions"]:
            await super().__call__(scope, receive, send)
            return
        while (await receive()).get("more_body"):
            pass
        head = [(b"content-length", b"2"), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": b"{}"})


async def mail(node: GatewayProcess, id: str, *, context: str) -> str:
    """The id of the task of a message."""
    message = {
        "messageId": id,
        "contextId": context,
        "role": "ROLE_USER",
        "parts": [{"text": "hello"}],
    }
    body = json.dumps({"message": message}).encode()
    async with caller(node.port) as client:
        status, answer = await client.call(request(body, below="/message:send", more=JSON))
        assert status == 200, answer
        return str(json.loads(answer)["task"]["id"])


async def status_of(node: GatewayProcess, below: str, body: bytes = b"") -> int:
    async with caller(node.port) as client:
        return (await client.call(request(body, below=below, more=JSON if body else "")))[0]


async def until_status(node: GatewayProcess, wanted: int) -> None:
    deadline = asyncio.get_running_loop().time() + DEADLINE_S
    while (status := await status_of(node, "/tasks")) != wanted:
        assert asyncio.get_running_loop().time() < deadline, status
        await asyncio.sleep(0.05)


async def test_nodes_share_a_mailbox(tmp_path: Path, own_postgres: PostgresServer) -> None:
    url = await asyncio.to_thread(own_postgres.create_database, fill_template)
    agent = Agent()
    async with relay_nodes(tmp_path, url, mailbox="queue") as nodes, hosts() as made:
        known = await AttachedHost(nodes[0].port, agent).attached()
        made.append(known)
        await until(lambda: "acme/helper" in known.host.attached_agents)
        await until_status(nodes[1], 200)
        await known.host.drain(grace_s=5)
        await until_status(nodes[1], 503)
        tasks: dict[str, list[str]] = {"a": [], "b": []}
        for number in range(12):
            for context in tasks:
                node = nodes[(number + (context == "b")) % 2]
                tasks[context].append(await mail(node, f"{context}-{number}", context=context))
        # Each node answers for what the other one has taken.
        for task in tasks["a"][:2]:
            for node in nodes:
                assert await status_of(node, f"/tasks/{task}") == 200
        gone = tasks["a"].pop(5)
        assert await status_of(nodes[0], f"/tasks/{gone}:cancel", b"{}") == 200
        assert await status_of(nodes[1], f"/tasks/{gone}:cancel", b"{}") == 400
        # The node that delivers is killed, and the host goes to the other one.
        agent.gate.clear()
        first = await AttachedHost(nodes[1].port, agent).attached()
        made.append(first)
        await until(lambda: agent.at_gate == 2)
        await nodes[1].kill()
        await first.close()
        agent.gate.set()
        made.append(await AttachedHost(nodes[0].port, agent).attached())
        await until(lambda: len(agent.taken) == 23, lambda: str(agent.taken))
        for context, own in tasks.items():
            assert [task for task in agent.taken if task in tasks[context]] == own
        assert gone not in agent.delivered
        # What is sent now goes to the agent.
        await until_status(nodes[0], 200)
