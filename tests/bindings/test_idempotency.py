"""The same request twice: `Idempotency-Key`, and `deduplicate_messages`."""

import asyncio
from pathlib import Path

import pytest
from tests.bindings.cases import V10, over, refused, states
from tests.bindings.clients import CLIENTS, Client, message
from tests.bindings.world import HANDLE, Database, World, open_world

KEY = {"idempotency-key": "order-17"}


async def test_a_key_after_the_end_gives_the_same_task(client: Client, world: World) -> None:
    first = await client.run("say hi", headers=KEY)
    again = await client.run("say hi", headers=KEY)
    assert again == first
    assert len(world.agent.turns) == 1
    assert (await client.list())["totalSize"] == 1


async def test_a_key_while_the_task_runs_waits_for_the_same_task(
    client: Client, world: World
) -> None:
    async with asyncio.TaskGroup() as group:
        first = group.create_task(client.run("wait gate; say hi", headers=KEY))
        await world.agent.gates.reached("gate")
        again = group.create_task(client.run("wait gate; say hi", headers=KEY))
        page = await client.list()
        assert page["totalSize"] == 1
        world.agent.gates.open("gate")
    assert first.result() == again.result()
    assert first.result()["status"]["state"] == "TASK_STATE_COMPLETED"
    assert len(world.agent.turns) == 1


async def test_many_at_once_with_one_key_are_one_task(client: Client, world: World) -> None:
    tasks = await asyncio.gather(*(client.run("say hi", headers=KEY) for _ in range(20)))
    assert len({task["id"] for task in tasks}) == 1
    assert len(world.agent.turns) == 1
    assert (await client.list())["totalSize"] == 1


async def test_a_key_gives_a_question_again(client: Client, world: World) -> None:
    first = await client.run("ask which?", headers=KEY)
    assert await client.run("ask which?", headers=KEY) == first
    assert len(world.agent.turns) == 1


async def test_a_key_for_another_request_is_a_conflict(client: Client, world: World) -> None:
    task = await client.run("say hi", headers=KEY)
    for other in (message("say bye"), message("say hi", id="message-2")):
        with refused("IDEMPOTENCY_CONFLICT"):
            await client.send(other, headers=KEY)
        with refused("IDEMPOTENCY_CONFLICT"):
            async with client.stream(other, headers=KEY):
                pass
    with refused("IDEMPOTENCY_CONFLICT"):
        await client.send("say hi", headers=KEY, acceptedOutputModes=["text/html"])
    assert (await client.list())["totalSize"] == 1
    assert await client.get(task["id"]) == task


async def test_a_key_for_another_request_is_a_conflict_while_the_task_runs(
    client: Client, world: World
) -> None:
    await client.run("wait gate; say hi", headers=KEY, returnImmediately=True)
    with refused("IDEMPOTENCY_CONFLICT"):
        await client.send("say bye", headers=KEY)


async def test_another_key_is_another_task(client: Client) -> None:
    first = await client.run("say hi", headers=KEY)
    second = await client.run("say hi", headers={"idempotency-key": "order-18"})
    assert first["id"] != second["id"]


async def test_a_key_belongs_to_its_principal(client: Client, world: World, dialect: str) -> None:
    mine = await client.run("say hi", headers=KEY)
    his = await world.client(dialect, "bob").run("say bye", headers=KEY)
    assert mine["id"] != his["id"]


@over(*V10)
async def test_a_key_belongs_to_its_tenant(world: World, dialect: str) -> None:
    ids = {
        (await world.client(dialect, tenant=tenant).run("say hi", headers=KEY))["id"]
        for tenant in ("", "acme", "globex")
    }
    assert len(ids) == 3


async def test_a_key_belongs_to_its_agent(dialect: str) -> None:
    async with open_world(agents={"test/one": {}, "test/two": {}}) as world:
        ids = {
            (await world.client(dialect, agent=agent).run("say hi", headers=KEY))["id"]
            for agent in ("test/one", "test/two")
        }
        assert len(ids) == 2


async def test_a_key_holds_over_all_bindings_and_versions(world: World) -> None:
    tasks = [await world.client(name).run("say hi", headers=KEY) for name in CLIENTS]
    assert len({task["id"] for task in tasks}) == 1
    assert len(world.agent.turns) == 1


async def test_a_key_joins_the_stream_of_the_same_task(client: Client, world: World) -> None:
    async with client.stream("wait gate; say hi", headers=KEY) as first:
        opening = await first.next()
        async with client.stream("wait gate; say hi", headers=KEY) as second:
            joined = await second.next()
            assert joined.kind == "task"
            assert joined.value["id"] == opening.value["id"]
            world.agent.gates.open("gate")
            assert states(await second.rest())[-1] == "COMPLETED"
        assert states(await first.rest())[-1] == "COMPLETED"
    assert len(world.agent.turns) == 1


async def test_a_key_after_the_end_streams_the_task_and_closes(
    client: Client, world: World
) -> None:
    task = await client.run("say hi", headers=KEY)
    async with client.stream("say hi", headers=KEY) as stream:
        [event] = await stream.rest()
    assert event.value == task
    assert len(world.agent.turns) == 1


async def test_a_key_holds_after_a_restart(tmp_path: Path, dialect: str) -> None:
    file = tmp_path / "trunkline.db"
    async with open_world(database=file) as world:
        done = await world.client(dialect).run("say hi", headers=KEY)
    async with open_world(database=file) as world:
        client = world.client(dialect)
        assert await client.run("say hi", headers=KEY) == done
        with refused("IDEMPOTENCY_CONFLICT"):
            await client.send("say bye", headers=KEY)
        assert not world.agent.turns
        assert (await client.list())["totalSize"] == 1


async def test_a_key_gives_a_direct_reply_again(client: Client, world: World) -> None:
    world.agent.may_reply_directly = True
    first = await client.send("reply hi", headers=KEY)
    assert set(first) == {"message"}
    assert await client.send("reply hi", headers=KEY) == first
    assert len(world.agent.turns) == 1


async def test_a_key_of_a_refused_request_is_free(client: Client) -> None:
    with refused("INVALID_PARAMS"):
        await client.send(message("say hi", id=""), headers=KEY)
    assert (await client.run("say hi", headers=KEY))["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_key_may_be_255_characters_long(client: Client) -> None:
    key = {"idempotency-key": "k" * 255}
    assert await client.run("say hi", headers=key) == await client.run("say hi", headers=key)


async def test_an_empty_key_is_no_key(client: Client) -> None:
    key = {"idempotency-key": ""}
    first, second = [await client.run("say hi", headers=key) for _ in range(2)]
    assert first["id"] != second["id"]


async def test_a_key_does_not_stop_other_operations(client: Client) -> None:
    task = await client.run("ask which?", headers=KEY)
    assert await client.call("GetTask", {"id": task["id"]}, headers=KEY) == task
    assert (await client.call("ListTasks", {}, headers=KEY))["totalSize"] == 1
    canceled = await client.call("CancelTask", {"id": task["id"]}, headers=KEY)
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"


async def test_a_follow_up_with_a_key_is_taken_once(client: Client, world: World) -> None:
    asked = await client.run("ask which?")
    answer = message("say thanks; ask more?", task=asked["id"], id="message-2")
    first = await client.run(answer, headers=KEY)
    assert await client.run(answer, headers=KEY) == first
    assert len(world.agent.turns) == 2
    with refused("IDEMPOTENCY_CONFLICT"):
        await client.run(message("say no", task=asked["id"], id="message-2"), headers=KEY)


async def test_a_follow_up_with_a_key_that_ended_the_task_gives_it_again(
    client: Client, world: World
) -> None:
    asked = await client.run("ask which?", headers={"idempotency-key": "order-16"})
    answer = message("say thanks", task=asked["id"], id="message-2")
    done = await client.run(answer, headers=KEY)
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    # Without the key it is a message to a task that has ended.
    assert await client.run(answer, headers=KEY) == done
    async with client.stream(answer, headers=KEY) as stream:
        [event] = await stream.rest()
    assert event.value == done
    assert len(world.agent.turns) == 2


async def test_many_follow_ups_at_once_are_taken_once_per_key(client: Client, world: World) -> None:
    asked = await client.run("ask which?")
    answers = [message("ask more?", task=asked["id"], id=f"answer-{n % 4}") for n in range(12)]
    await asyncio.gather(
        *(client.run(a, headers={"idempotency-key": a["messageId"]}) for a in answers)
    )
    assert len(world.agent.turns) == 1 + 4
    users = [m["messageId"] for m in (await client.get(asked["id"]))["history"]]
    assert sorted(m for m in users if m.startswith("answer-")) == [f"answer-{n}" for n in range(4)]


async def test_a_follow_up_with_a_key_holds_after_a_restart(tmp_path: Path, dialect: str) -> None:
    file = tmp_path / "trunkline.db"
    async with open_world(database=file) as world:
        client = world.client(dialect)
        asked = await client.run("ask which?")
        answer = message("say thanks", task=asked["id"], id="message-2")
        done = await client.run(answer, headers=KEY)
    async with open_world(database=file) as world:
        assert await world.client(dialect).run(answer, headers=KEY) == done
        assert not world.agent.turns


@pytest.fixture
def strict(database: Database) -> dict[str, object]:
    return {"database": database, "deduplicate_messages": True}


async def test_agents_may_take_every_message_id_once(
    strict: dict[str, object], dialect: str
) -> None:
    async with open_world(**strict) as world:
        client = world.client(dialect)
        first = await client.run("say hi")
        assert await client.run("say hi") == first
        with refused("IDEMPOTENCY_CONFLICT"):
            await client.send("say bye")
        assert (await client.run(message("say hi", id="message-2")))["id"] != first["id"]
        assert (await world.client(dialect, "bob").run("say hi"))["id"] != first["id"]
        assert len(world.agent_of(HANDLE).turns) == 3


async def test_message_ids_and_keys_are_apart(strict: dict[str, object], dialect: str) -> None:
    async with open_world(**strict) as world:
        client = world.client(dialect)
        await client.run(message("say hi", id="order-17"))
        assert (await client.run(message("say bye", id="message-2"), headers=KEY))["id"]


async def test_by_default_message_ids_may_repeat(client: Client, world: World) -> None:
    await client.run("say hi")
    await client.run("say hi")
    assert len(world.agent.turns) == 2
