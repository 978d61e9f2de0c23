"""Nodes and their database are killed under load: nothing is lost, nothing runs twice."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.acceptance.cluster.database import REAL, SHORT, Times, config_on, read_postgres
from tests.acceptance.cluster.nodes import Nodes
from tests.acceptance.cluster.trial import TAKEOVER_S, Trial
from tests.acceptance.kill_gateway import copy_of, read_sqlite
from tests.postgres.fixtures import fill_template
from tests.postgres.pgbouncer import HAS_PGBOUNCER, PgBouncer, pgbouncer
from tests.postgres.proxy import database_proxy
from tests.postgres.server import PostgresServer

# A node that is asked to stop hands its lanes over at once.
HAND_OVER_S = 1.0

_ON_FILE = """
drain_s = 2
[store]
kind = "sqlite"
path = "{file}"
"""


async def run(trial: Trial, disturbances: list[str]) -> None:
    trial.chance.shuffle(disturbances)
    nodes = trial.nodes
    try:
        history = await trial.run(disturbances)
        history.check()
        codes = [await node.stop() for node in nodes.all]
        assert codes == [0] * len(codes)
    except BaseException:
        print(nodes.logs())
        raise
    finally:
        await nodes.close()
    print(trial.summary(history))
    # The run was worth something: turns were interrupted, and queues formed.
    assert len(history.rows) > 10 * len(disturbances)
    assert max(trial.takeovers, default=0) < TAKEOVER_S


@pytest.mark.full
async def test_one_node_on_a_file(tmp_path: Path) -> None:
    """The clients and the checks, on a store that other tests have proved."""
    chance, file = random.Random(3), tmp_path / "tasks"
    nodes = Nodes(tmp_path, [_ON_FILE.format(file=file)], chance)
    trial = Trial(nodes=nodes, read=lambda: read_sqlite(copy_of(file)), chance=chance)
    await run(trial, ["kill"] * 3)


@asynccontextmanager
async def on_postgres(
    folder: Path,
    server: PostgresServer,
    times: Times,
    *,
    seed: int,
    proxied: bool = False,
    pooler: PgBouncer | None = None,
) -> AsyncIterator[Trial]:
    chance = random.Random(seed)
    url = await asyncio.to_thread(server.create_database, fill_template)
    ends: list[Callable[[], None]] = [server.kill, server.stop, server.stop_at_once]

    async def restart() -> None:
        # In turn: as a crash, as an operator does it, and as a failing machine does it.
        ends.append(ends.pop(0))
        await asyncio.to_thread(ends[-1])
        await asyncio.sleep(times.down_s * chance.random())
        await asyncio.to_thread(server.start)

    async with AsyncExitStack() as stack:
        proxies = [await stack.enter_async_context(database_proxy(url)) for _ in range(3 * proxied)]
        urls = [proxy.url for proxy in proxies] or [url] * 3
        configs = [config_on(each, times) for each in urls]
        if pooler is not None:
            more = f'listen_url = "{url}"\nprepared_statements = false\n'
            database = str(conninfo_to_dict(url)["dbname"])
            configs = [config_on(pooler.url(database), times, more=more)] * 3
        yield Trial(
            nodes=Nodes(folder, configs, chance),
            read=lambda: read_postgres(url),
            chance=chance,
            restart_database=restart,
            proxies=proxies,
            links=proxies,
            pause_s=times.pause_s,
        )


async def test_nodes_and_database_are_killed(tmp_path: Path, own_postgres: PostgresServer) -> None:
    async with on_postgres(tmp_path, own_postgres, SHORT, seed=1) as trial:
        await run(trial, ["kill"] * 10 + ["database"] * 2 + ["stop", "pause"])
    assert max(trial.hand_overs, default=0) < HAND_OVER_S


@HAS_PGBOUNCER
@pytest.mark.full
@pytest.mark.timeout(600)
async def test_nodes_behind_a_pooler_are_killed(
    tmp_path: Path, own_postgres: PostgresServer
) -> None:
    with pgbouncer(own_postgres.folder, size=8) as pooler:
        async with on_postgres(tmp_path, own_postgres, SHORT, seed=6, pooler=pooler) as trial:
            await run(trial, ["kill"] * 10 + ["database"] * 3 + ["stop"] * 2 + ["pause"] * 2)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(4))
async def test_two_hundred_kills(tmp_path: Path, own_postgres: PostgresServer, seed: int) -> None:
    async with on_postgres(tmp_path, own_postgres, REAL, seed=seed) as trial:
        await run(trial, ["kill"] * 50 + ["database"] * 5 + ["stop"] * 10 + ["pause"] * 2)
    assert max(trial.hand_overs, default=0) < HAND_OVER_S


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(3))
async def test_a_bad_network(tmp_path: Path, own_postgres: PostgresServer, seed: int) -> None:
    async with on_postgres(tmp_path, own_postgres, SHORT, seed=seed, proxied=True) as trial:
        await run(trial, ["lose"] * 60 + ["cut off"] * 10 + ["kill"] * 5 + ["database"] * 3)
