"""Nodes whose network to the database is cut: a real one, in namespaces of the kernel."""

import asyncio
import random
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.acceptance.cluster.database import REAL, config_on, read_postgres
from tests.acceptance.cluster.nodes import Nodes
from tests.acceptance.cluster.test_kills import run
from tests.acceptance.cluster.trial import Trial
from tests.postgres.fixtures import fill_template
from tests.postgres.namespace import HAS_NAMESPACES, namespace


@HAS_NAMESPACES
@pytest.mark.root
@pytest.mark.timeout(900)
async def test_cables_are_pulled(tmp_path: Path) -> None:
    """For 30 seconds each, with the lease that gateways have unless they are told."""
    with namespace(links=3) as network, network.postgres() as server:
        url = await asyncio.to_thread(server.create_database, fill_template)
        database = conninfo_to_dict(url)["dbname"]
        configs = [
            config_on(f"postgresql://postgres@{link.host}/{database}", REAL)
            for link in network.links
        ]
        chance = random.Random(7)
        trial = Trial(
            nodes=Nodes(tmp_path, configs, chance),
            read=lambda: read_postgres(url),
            chance=chance,
            links=network.links,
            pause_s=REAL.pause_s,
        )
        await run(trial, ["cut off"] * 6 + ["kill"] * 2 + ["stop"])
