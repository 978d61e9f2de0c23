"""Nodes whose clocks differ by minutes: leases, timers and streams go by the database's clock."""

import asyncio
import random
from datetime import datetime
from pathlib import Path

import httpx
import pytest
from tests.acceptance.cluster.database import SHORT, config_on
from tests.acceptance.cluster.nodes import Nodes
from tests.acceptance.cluster.skew import HAS_FAKETIME, skewed
from tests.acceptance.cluster.test_kills import HAND_OVER_S, on_postgres, run
from tests.acceptance.cluster.trial import TAKEOVER_S
from tests.acceptance.conftest import eventually
from tests.acceptance.gateway import http_client
from tests.acceptance.kill_gateway import GatewayProcess
from tests.postgres.fixtures import fill_template
from tests.postgres.server import PostgresServer
from tests.remote.http.peer import client as remote_client

from trunkline.remote.http import HttpClient

pytestmark = HAS_FAKETIME

TEN_MINUTES_S = 600.0
FAILED, COMPLETED = "TASK_STATE_FAILED", "TASK_STATE_COMPLETED"


async def figure(http: httpx.AsyncClient, node: GatewayProcess, name: str) -> float:
    text = (await http.get(f"http://127.0.0.1:{node.port}/metrics")).text
    [line] = [line for line in text.splitlines() if line.startswith(f"trunkline_{name} ")]
    return float(line.split()[1])


async def test_clocks_that_differ_by_minutes(tmp_path: Path, own_postgres: PostgresServer) -> None:
    url = await asyncio.to_thread(own_postgres.create_database, fill_template)
    nodes = Nodes(tmp_path, [config_on(url, SHORT)] * 2, random.Random(1))
    slow, fast = nodes.all
    with skewed({slow: -TEN_MINUTES_S, fast: TEN_MINUTES_S}):
        try:
            await nodes.start()
            async with http_client() as http, remote_client() as client:
                await _work_together(nodes, http, client, (slow, fast))
                # Whichever clock is ahead.
                await _is_taken_over(nodes, client, slow, fast)
                await nodes.revive(slow)
                await _is_taken_over(nodes, client, fast, slow)
        except BaseException:
            print(nodes.logs())
            raise
        finally:
            await nodes.close()


async def _work_together(
    nodes: Nodes, http: httpx.AsyncClient, client: HttpClient, pair: tuple[GatewayProcess, ...]
) -> None:
    """Each node runs a turn that takes longer than its lease, and the other one follows it."""

    async def ended_at(here: GatewayProcess, there: GatewayProcess) -> float:
        task = await nodes.client(client, f"sender-{here.port}", here.url).submit(
            "effects", "30 0.05"
        )
        reader = nodes.client(client, "reader", there.url)
        seen = await reader.follow("effects", task, after=0)
        assert sorted(seen) == list(range(1, len(seen) + 1))
        ended = await reader.find(task)
        assert ended["status"]["state"] == COMPLETED
        return datetime.fromisoformat(ended["status"]["timestamp"]).timestamp()

    slow, fast = pair
    behind, ahead = await asyncio.gather(ended_at(slow, fast), ended_at(fast, slow))
    # The clocks differ indeed.
    assert ahead - behind > 1.9 * TEN_MINUTES_S
    for node in pair:
        assert await figure(http, node, "lanes_taken_over_total") == 0
        assert await figure(http, node, "appends_fenced_total") == 0


async def _is_taken_over(
    nodes: Nodes, client: HttpClient, dies: GatewayProcess, lives: GatewayProcess
) -> None:
    task = await nodes.client(client, f"last-{dies.port}", dies.url).submit("effects", "200 0.05")

    async def has_begun() -> bool:
        return task in nodes.running(dies, kind="effects")

    await eventually(has_begun)
    await nodes.kill(dies)
    async with asyncio.timeout(TAKEOVER_S):
        survivor = nodes.client(client, "survivor", lives.url)
        await survivor.follow("effects", task, after=0)
    assert (await survivor.find(task))["status"]["state"] == FAILED


@pytest.mark.full
@pytest.mark.timeout(600)
async def test_nodes_are_killed_whose_clocks_differ(
    tmp_path: Path, own_postgres: PostgresServer
) -> None:
    async with on_postgres(tmp_path, own_postgres, SHORT, seed=5) as trial:
        slow, fast, _ = trial.nodes.all
        with skewed({slow: -TEN_MINUTES_S, fast: TEN_MINUTES_S}):
            await run(trial, ["kill"] * 20 + ["database"] * 3 + ["stop"] * 3 + ["pause"] * 3)
    assert max(trial.hand_overs, default=0) < HAND_OVER_S
