"""Deliveries to agents of protocol v1 that do not answer as they should."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.bindings.world import KEYS
from tests.relay.v1_world import V1World, message, open_v1_world

from trunkline.relay.v1 import operations as v1_operations
from trunkline.testing import settle


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[V1World]:
    async with open_v1_world(monkeypatch) as world:
        async with world.attach():
            pass
        yield world


async def queue(world: V1World, text: str, **more: Any) -> str:
    answer = await world.rpc("message/send", message(text, **more))
    id: str = answer["result"]["id"]
    return id


async def test_a_message_comes_again_if_its_agent_was_lost(world: V1World) -> None:
    id = await queue(world, "again")
    async with world.attach() as agent:
        agent.may_answer.clear()
        await world.until(lambda: len(agent.requests) == 1)
    assert (await world.rpc("tasks/get", {"id": id}))["result"]["status"]["state"] == "submitted"
    async with world.attach() as agent:
        task = await world.task_in(id, "completed")
        assert "re: again" in str(task)
        assert len(agent.requests) == 1


async def test_a_task_fails_whose_agent_does_not_answer(
    world: V1World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not sent again: the agent may work on it."""
    monkeypatch.setattr(v1_operations, "DELIVERY_S", 0.3)
    id = await queue(world, "slow", contextId="c")
    later = await queue(world, "later", contextId="c")
    async with world.attach() as agent:
        agent.may_answer.clear()
        await world.until(lambda: len(agent.requests) == 1)
        await asyncio.wait_for(_answered(world, id), 5)
        agent.may_answer.set()
        failed = await world.task_in(id, "failed")
        assert "may still do what it was asked" in str(failed["status"]["message"])
        # The next one of the context follows.
        await world.until(lambda: len(agent.requests) == 2)
        await world.task_in(later, "completed")


async def _answered(world: V1World, id: str) -> None:
    # The time for an answer is real.
    while (await world.rpc("tasks/get", {"id": id}))["result"]["status"]["state"] == "submitted":
        await settle()


@pytest.mark.parametrize(
    "result", [None, {}, {"kind": "task", "id": "", "status": {"state": "completed"}}], ids=repr
)
async def test_a_task_fails_whose_answer_is_not_a2a(world: V1World, result: Any) -> None:
    id = await queue(world, "one")
    async with world.attach() as agent:
        agent.send = lambda _: result
        assert (await world.task_in(id, "failed"))["id"] == id


async def test_a_message_of_the_context_of_another_caller_is_a_dead_letter(world: V1World) -> None:
    id = await queue(world, "mine", contextId="shared")
    async with world.attach() as agent:
        await world.task_in(id, "completed")
        assert len(agent.requests) == 1
    body = message("not mine", contextId="shared")
    other = await world.rpc("message/send", body, key=KEYS["bob"])
    if "result" not in other:
        pytest.fail(str(other))
    async with world.attach() as agent:
        await world.clock.advance(2)
        assert not agent.requests


async def test_a_task_whose_agent_goes_on_is_read_from_the_agent(world: V1World) -> None:
    id = await queue(world, "long", contextId="c")
    async with world.attach() as agent:
        agent.send = lambda params: agent.run(params, state="working")
        await world.task_in(id, "working")
        (task,) = agent.tasks.values()
        task["status"] = {"state": "completed"}
        assert (await world.task_in(id, "completed"))["id"] == id
        listed = (await world.rpc("tasks/list", {"contextId": "c"}))["result"]["tasks"]
        assert [each["id"] for each in listed] == [id]
