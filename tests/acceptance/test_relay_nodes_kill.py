"""Two relays on one PostgreSQL and the gateway with the agent, each killed at random points while
messages wait: nothing that was acknowledged is lost, and no message runs twice."""

import asyncio
import random
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from tests.acceptance.gateway import Gateway, gateway
from tests.acceptance.kill_gateway import GatewayProcess
from tests.acceptance.relay_nodes import balancer, relay_nodes
from tests.acceptance.test_relay_faults import attached
from tests.acceptance.test_relay_kill import HOST, Killed
from tests.postgres.fixtures import fill_template
from tests.postgres.server import PostgresServer


class KilledNodes(Killed):
    """Each request goes to any of the relays."""

    def __init__(
        self, nodes: Sequence[GatewayProcess], host: Gateway, log: Path, chance: random.Random
    ) -> None:
        self._nodes = nodes
        self._chance = chance
        super().__init__(host, host, log)

    @property
    def port(self) -> int:
        return self._chance.choice(self._nodes).port

    @port.setter
    def port(self, _: int) -> None:
        """There are several."""

    async def kill_node(self, node: GatewayProcess, *, away_s: float) -> None:
        # Before and after, because calls begin meanwhile.
        self._kills_of_relay += 1
        await node.kill()
        self._kills_of_relay += 1
        await asyncio.sleep(away_s)
        await node.start()

    async def kill_host(self, *, away_s: float) -> None:
        self.host.kill()
        await asyncio.sleep(away_s)
        await asyncio.to_thread(self.host.start)

    async def attached(self) -> None:
        """Return when the agent can be reached at both."""
        for node in self._nodes:
            await attached(node.port)


async def under_kills(
    folder: Path, server: PostgresServer, *, kills: int, clients: int, seed: int
) -> None:
    chance = random.Random(seed)
    url = await asyncio.to_thread(server.create_database, fill_template)
    log = folder / "turns"
    (folder / "host").mkdir()
    async with relay_nodes(folder, url, mailbox="queue") as nodes, balancer(nodes) as front:
        with gateway(folder / "host", HOST.format(port=front.port, log=log)) as host:
            host.module = "tests.acceptance.fast_clock"
            host.environment = {"CLOCK_FACTOR": "4"}
            await asyncio.to_thread(host.start)
            it = KilledNodes(nodes, host, log, chance)
            await it.attached()
            name, began = uuid4().hex[:6], time.monotonic()
            working = [asyncio.ensure_future(it.work(f"{name}-{i}")) for i in range(clients)]
            for number in range(kills):
                await asyncio.sleep(chance.uniform(0.1, 0.8))
                away_s = chance.choice((0.0, 0.5))
                if number % 3 == 2:
                    await it.kill_host(away_s=away_s)
                else:
                    await it.kill_node(nodes[number % 2], away_s=away_s)
            await it.attached()
            it.stop()
            async with asyncio.timeout(120):
                await asyncio.gather(*working)
            await it.check()
            print(
                f"\n{kills} kills within {time.monotonic() - began:.1f} s, {clients} clients: "
                f"{dict(it.facts.outcomes)}; {len(it.facts.tasks)} messages, each ran once"
            )
            assert "Traceback" not in host.stderr


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
async def test_nothing_is_lost_and_nothing_runs_twice_over_two_relays(
    tmp_path: Path, own_postgres: PostgresServer, seed: int
) -> None:
    await under_kills(tmp_path, own_postgres, kills=12, clients=8, seed=seed)
