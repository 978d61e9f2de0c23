"""Cancelling (protocol section 8)."""

import pytest
from tests.bindings.cases import V10, over, refused
from tests.bindings.clients import Client, message
from tests.bindings.world import World


async def test_cancel_ends_a_running_task_and_returns_it(client: Client, world: World) -> None:
    task = await client.run("say half; wait gate", returnImmediately=True)
    await world.agent.gates.reached("gate")
    canceled = await client.cancel(task["id"])
    assert canceled["id"] == task["id"]
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    assert await client.get(task["id"]) == canceled
    # The agent is told, and not just no longer listened to.
    assert list(world.agent.canceled) == [world.agent.turns[0].run_id]


async def test_cancel_ends_a_task_that_waits_for_its_turn(client: Client, world: World) -> None:
    await client.run(message("wait gate", context="ours"), returnImmediately=True)
    second = await client.run(message("say 2", context="ours"), returnImmediately=True)
    await world.agent.gates.reached("gate")
    canceled = await client.cancel(second["id"])
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    assert len(world.agent.turns) == 1


@pytest.mark.parametrize("script", ["ask which?", "auth sign in"])
async def test_cancel_ends_a_task_that_waits_for_the_caller(client: Client, script: str) -> None:
    task = await client.run(script)
    assert (await client.cancel(task["id"]))["status"]["state"] == "TASK_STATE_CANCELED"


@pytest.mark.parametrize("script", ["say done", "fail no", "refuse no"])
async def test_cancel_of_an_ended_task_is_not_possible(client: Client, script: str) -> None:
    task = await client.run(script)
    with refused("TASK_NOT_CANCELABLE") as caught:
        await client.cancel(task["id"])
    assert caught.value.metadata == {"taskId": task["id"], "state": task["status"]["state"]}
    assert await client.get(task["id"]) == task


async def test_cancel_again_is_not_possible_and_changes_nothing(client: Client) -> None:
    task = await client.run("hang", returnImmediately=True)
    canceled = await client.cancel(task["id"])
    with refused("TASK_NOT_CANCELABLE"):
        await client.cancel(task["id"])
    assert await client.get(task["id"]) == canceled


async def test_cancel_of_an_unknown_task_is_not_found(client: Client) -> None:
    with refused("TASK_NOT_FOUND"):
        await client.cancel("made-up")


@over(*V10)
async def test_cancel_takes_metadata(client: Client) -> None:
    task = await client.run("ask which?")
    params = {"id": task["id"], "metadata": {"why": "changed my mind"}}
    assert (await client.call("CancelTask", params))["status"]["state"] == "TASK_STATE_CANCELED"


async def test_a_canceled_task_keeps_what_was_said(client: Client, world: World) -> None:
    task = await client.run("say half; wait gate; say whole", returnImmediately=True)
    await world.agent.gates.reached("gate")
    canceled = await client.cancel(task["id"])
    assert canceled["artifacts"][0]["parts"] == [{"text": "half"}]
