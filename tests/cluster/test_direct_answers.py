"""A request with a key that is answered without a task, sent to two nodes: one run, one answer."""

from typing import Any

import pytest
from tests.cluster.nodes import Nodes, nodes
from tests.runtime.world import said

from trunkline.model.values import TaskState, text_of
from trunkline.testing import settle

INBOUND: dict[str, Any] = {"preset_name": "openclaw-inbound", "list_tasks": "served"}
# A message without a context has a lane of its own, which only the key leads to.
CONTEXTS = pytest.mark.parametrize("context", ["c", ""])


def runs(made: Nodes) -> int:
    return sum(len(world.scripted.turns) for world in made.worlds)


@CONTEXTS
async def test_a_repeat_at_another_node_waits_for_the_run_under_way(context: str) -> None:
    async with nodes(2, **INBOUND) as made:
        one, two = made.worlds
        first = one.soon(one.ask("wait a; say one", key="k", id="m", context=context))
        await one.gates.reached("a")
        # Long enough for a node to leave a lane where nothing happens.
        await made.clock.advance(10)
        again = two.soon(two.ask("wait a; say one", key="k", id="m", context=context))
        await settle()
        assert not again.done()
        one.gates.open("a")
        answer = await first
        assert text_of(answer.parts) == "one"
        assert await again == answer
        assert await two.ask("wait a; say one", key="k", id="m", context=context) == answer
        assert await one.listed() == ()
        assert runs(made) == 1


@CONTEXTS
async def test_a_repeat_after_the_node_died_is_a_failed_task_and_no_second_run(
    context: str,
) -> None:
    async with nodes(2, **INBOUND) as made:
        one, two = made.worlds
        asking = one.soon(one.ask("wait a; say one", key="k", id="m", context=context))
        await one.gates.reached("a")
        await made.kill(0)
        assert not asking.done()
        await made.clock.advance(10)
        task = await two.send("wait a; say one", key="k", id="m", context=context)
        assert task.status.state is TaskState.FAILED
        assert "was not run again" in said(task)
        again = await two.send("wait a; say one", key="k", id="m", context=context)
        assert again.id == task.id
        assert runs(made) == 1
