"""Nodes and their database are killed under load: nothing is lost, nothing runs twice."""

import asyncio
import random
from pathlib import Path

from tests.acceptance.kill_cluster.nodes import Nodes
from tests.acceptance.kill_cluster.trial import Trial
from tests.acceptance.kill_gateway import copy_of, read_sqlite


async def test_one_node_on_a_file(tmp_path: Path) -> None:
    """The clients and the checks, on the store that the other tests have proved."""
    asyncio.get_running_loop().set_debug(False)
    chance = random.Random(3)
    file = tmp_path / "tasks"
    nodes = Nodes(tmp_path, 1, f'drain_s = 2\n[store]\nkind = "sqlite"\npath = "{file}"\n', chance)

    trial = Trial(nodes=nodes, read=lambda: read_sqlite(copy_of(file)), chance=chance)
    try:
        history = await trial.run(["kill"] * 3)
        history.check()
    except BaseException:
        print(nodes.logs())
        raise
    finally:
        await nodes.close()
    print(len(history.rows), nodes.told.refusals, trial.takeovers)
