"""The fence of the shared store: only the owner of a lane writes to it, and only in its epoch."""

import asyncio
from typing import Any

import pytest
from msgspec import structs
from tests.cluster.nodes import nodes

from trunkline.model.errors import LeaseLost
from trunkline.ports.cluster import lane_name
from trunkline.ports.store import Append, Result, Scope


@pytest.mark.parametrize(
    ("node", "changes", "is_refused"),
    [
        (0, {}, False),
        (0, {"epoch": 0}, False),
        (0, {"epoch": 999}, True),
        (1, {}, True),
        (1, {"epoch": 0}, True),
        (1, {"epoch": 0, "lane": lane_name(Scope("test/agent", "", "alice"), "new")}, False),
        (1, {"epoch": 7, "lane": lane_name(Scope("test/agent", "", "alice"), "new")}, True),
        (None, {"epoch": 0, "lane": lane_name(Scope("test/agent", "", "alice"), "new")}, True),
    ],
)
async def test_the_store_refuses_who_does_not_own_the_lane(
    node: int | None, changes: dict[str, Any], is_refused: bool
) -> None:
    async with nodes() as cluster:
        a, _ = cluster.worlds
        seen: list[Append] = []
        submit = cluster.store.submit_from

        def watch(name: str, appends: Any) -> None:
            seen.extend(append for append, _ in appends)
            submit(name, appends)

        cluster.store.submit_from = watch  # type: ignore[method-assign, assignment]
        await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        epoch = cluster.store.epochs[seen[0].lane][-1]
        append = structs.replace(seen[0], **{"task_id": "another", "epoch": epoch, **changes})
        settled: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        name = "gone" if node is None else cluster.nodes[node].name
        submit(name, [(append, settled.set_result)])
        assert isinstance(await settled, LeaseLost) is is_refused
