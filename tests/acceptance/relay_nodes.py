"""Two relays on one PostgreSQL, each a process, and a balancer in front of them for hosts."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct, field
from tests.acceptance.cluster.database import SHORT, Times, config_on
from tests.acceptance.kill_gateway import GatewayProcess, free_port
from tests.acceptance.relay_hosts import ALICE_KEY, HOST_TOKEN, caller, request

HELLO = b"hello"
# The bodies of calls that tell nothing, and of the card that the relay reads.
NOT_COUNTED = (HELLO, b"")
OTHER_HOST_TOKEN = "another-host-has-this-token"
_RELAY = f"""
[relay_server]
mailbox = "{{mailbox}}"
[auth.keys.alice]
key = "{ALICE_KEY}"
[auth.keys.hosts]
key = "{HOST_TOKEN}"
attach = ["acme/*"]
[auth.keys.others]
key = "{OTHER_HOST_TOKEN}"
attach = ["acme/*"]
"""


@asynccontextmanager
async def relay_nodes(
    folder: Path, url: str, *, count: int = 2, times: Times = SHORT, mailbox: str = "fail"
) -> AsyncIterator[list[GatewayProcess]]:
    nodes = []
    for number in range(count):
        place = folder / f"node{number}"
        place.mkdir()
        config = f"{config_on(url, times)}{_RELAY.format(mailbox=mailbox)}"
        nodes.append(GatewayProcess(place, free_port(), config))
        nodes[-1].environment["XDG_DATA_HOME"] = str(place)
    try:
        await asyncio.gather(*(node.start() for node in nodes))
        yield nodes
    except BaseException:
        for node in nodes:
            print(f"== {node.folder.name}\n{node.log()[-5000:]}")
        raise
    finally:
        for node in nodes:
            await node.kill()


class Balancer:
    """Connects each client with the next node that answers."""

    def __init__(self, nodes: Sequence[GatewayProcess]) -> None:
        self.port = 0
        # Those that it knows of; a test takes out one that stands still.
        self.nodes = [*nodes]
        self._turn = 0
        self._clients: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        upstream = await self._connect()
        try:
            if upstream is not None:
                there, to_node = upstream
                async with asyncio.TaskGroup() as pipes:
                    pipes.create_task(_pipe(reader, to_node))
                    pipes.create_task(_pipe(there, writer))
        finally:
            self._clients.discard(writer)
            writer.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for _ in range(len(self.nodes)):
            self._turn += 1
            node = self.nodes[self._turn % len(self.nodes)]
            try:
                return await asyncio.open_connection("127.0.0.1", node.port)
            except OSError:
                continue
        return None

    def close(self) -> None:
        for client in self._clients:
            client.transport.abort()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.transport.abort()


@asynccontextmanager
async def balancer(nodes: Sequence[GatewayProcess]) -> AsyncIterator[Balancer]:
    made = Balancer(nodes)
    async with await asyncio.start_server(made.serve, "127.0.0.1", 0) as server:
        made.port = server.sockets[0].getsockname()[1]
        yield made
        made.close()


class Calls(Struct):
    """What came of the calls of a client, each of which has a body of its own."""

    statuses: Counter[int] = field(default_factory=Counter)
    answered: Counter[bytes] = field(default_factory=Counter)
    # Those that certainly did not begin.
    refused: set[bytes] = field(default_factory=set)
    cut: int = 0

    def check(self, runs: Counter[bytes]) -> None:
        """`runs`: how often the agents got each body."""
        assert all(count == 1 for count in self.answered.values())
        assert all(runs[body] == 1 for body in self.answered)
        counted = {body: count for body, count in runs.items() if body not in NOT_COUNTED}
        assert set(counted.values()) <= {1}
        assert not any(runs[body] for body in self.refused)


async def keep_calling(
    node: GatewayProcess, agent: str, calls: Calls, is_over: asyncio.Event, *, name: str
) -> None:
    """One call after the other, until the node is gone."""
    number = 0
    async with caller(node.port) as client:
        while not is_over.is_set():
            number += 1
            body = f"{name}-{agent}-{number}".encode()
            try:
                status, answer = await client.call(request(body, agent=agent))
            except (OSError, asyncio.IncompleteReadError):
                calls.cut += 1
                client.close()
                await asyncio.sleep(0.05)
                continue
            calls.statuses[status] += 1
            if status == 200:
                assert answer == body
                calls.answered[body] += 1
            elif status == 503:
                calls.refused.add(body)
            else:
                assert status == 502, (status, answer)
                assert b"may have acted on the request" in answer
