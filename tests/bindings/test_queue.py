"""Queues as clients see them: places, refusals, and answers that do not wait."""

import pytest
from tests.bindings.cases import over, refused
from tests.bindings.clients import CLIENTS, Client, message
from tests.bindings.world import World, open_world

EVERY = tuple(CLIENTS)


async def test_d25_d27_a_waiting_task_shows_its_place(client: Client, world: World) -> None:
    await client.run(message("wait gate", context="ours"), returnImmediately=True)
    await world.agent.gates.reached("gate")
    queued = [
        await client.run(message(f"say {n}", context="ours"), returnImmediately=True)
        for n in range(2)
    ]
    assert [task["metadata"] for task in queued] == [{"queue": {"position": n}} for n in (1, 2)]
    listed = (await client.list(contextId="ours", status="TASK_STATE_SUBMITTED"))["tasks"]
    assert [task["metadata"]["queue"]["position"] for task in listed] == [2, 1]
    await client.cancel(queued[0]["id"])
    assert (await client.get(queued[1]["id"]))["metadata"] == {"queue": {"position": 1}}
    world.agent.gates.open("gate")


@over(*EVERY)
async def test_x07_d26_a_full_queue_may_be_an_error_that_says_when_to_come_back(
    dialect: str,
) -> None:
    async with open_world(max_queue_per_context=1, overflow="error") as world:
        client = world.client(dialect)
        await client.run(message("wait gate", context="ours"), returnImmediately=True)
        await world.agent.gates.reached("gate")
        await client.run(message("say 2", context="ours"), returnImmediately=True)
        with refused("TOO_MANY_REQUESTS") as caught:
            await client.run(message("say 3", context="ours"))
        assert caught.value.answer.headers["retry-after"] == "5"
        assert (await client.list())["totalSize"] == 2
        world.agent.gates.open("gate")


@over(*EVERY)
@pytest.mark.parametrize(
    ("code", "reason"), [(-32004, "UNSUPPORTED_OPERATION"), (-32601, "METHOD_NOT_FOUND")]
)
async def test_x08_cancel_may_be_unsupported(dialect: str, code: int, reason: str) -> None:
    async with open_world(cancel="unsupported", cancel_unsupported_code=code) as world:
        client = world.client(dialect)
        asked = await client.run("ask which?")
        with refused(reason):
            await client.cancel(asked["id"])
        assert (await client.get(asked["id"]))["status"] == asked["status"]


@over(*EVERY)
async def test_x04_a_context_is_refused_where_there_are_none(dialect: str) -> None:
    async with open_world(context_mode="stateless") as world:
        client = world.client(dialect)
        with refused("INVALID_PARAMS", "message.contextId"):
            await client.run(message("say hi", context="ours"))
        sent = message("say hi")
        assert (await client.run(sent))["contextId"] == sent["messageId"]
