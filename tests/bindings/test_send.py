"""Sending a message (protocol section 5)."""

import asyncio

import pytest
from tests.bindings.cases import V10, over, refused, text_of
from tests.bindings.clients import Client, message
from tests.bindings.world import World

from trunkline.testing import settle

TERMINAL_SCRIPTS = {
    "TASK_STATE_COMPLETED": "say done",
    "TASK_STATE_FAILED": "fail no luck",
    "TASK_STATE_REJECTED": "refuse not mine",
}


async def test_blocking_send_waits_for_the_end_and_has_all_artifacts(
    client: Client, world: World
) -> None:
    script = "say one ; artifact text note two; wait gate; say three"
    async with asyncio.TaskGroup() as group:
        sending = group.create_task(client.run(script))
        await world.agent.gates.reached("gate")
        await settle()
        assert not sending.done()
        world.agent.gates.open("gate")
    task = sending.result()
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert {a["artifactId"] for a in task["artifacts"]} == {"answer", "note"}
    assert await client.get(task["id"]) == task


@pytest.mark.parametrize(
    ("script", "state"),
    [("ask which?", "TASK_STATE_INPUT_REQUIRED"), ("auth sign in", "TASK_STATE_AUTH_REQUIRED")],
)
async def test_blocking_send_returns_at_an_interrupted_state(
    client: Client, script: str, state: str
) -> None:
    task = await client.run(script)
    assert task["status"]["state"] == state


async def test_auth_required_comes_with_a_message_that_explains_it(client: Client) -> None:
    task = await client.run("auth sign in at the door")
    assert task["status"]["message"]["parts"] == [{"text": "sign in at the door"}]
    assert task["status"]["message"]["role"] == "ROLE_AGENT"


async def test_return_immediately_answers_once_the_task_exists(
    client: Client, world: World
) -> None:
    task = await client.run("wait gate; say done", returnImmediately=True)
    assert task["status"]["state"] in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
    assert (await client.get(task["id"]))["id"] == task["id"]
    world.agent.gates.open("gate")


async def test_an_explicit_false_for_return_immediately_waits(client: Client) -> None:
    task = await client.run("say done", returnImmediately=False)
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_return_immediately_gives_a_task_even_from_an_agent_that_replies(
    client: Client, world: World
) -> None:
    world.agent.may_reply_directly = True
    result = await client.send("reply hi", returnImmediately=True)
    assert set(result) == {"task"}


async def test_a_direct_reply_is_a_message_without_a_task(client: Client, world: World) -> None:
    world.agent.may_reply_directly = True
    result = await client.send("reply hello")
    assert set(result) == {"message"}
    reply = result["message"]
    assert reply["role"] == "ROLE_AGENT"
    assert reply["parts"] == [{"text": "hello"}]
    assert "taskId" not in reply
    assert (await client.list())["totalSize"] == 0


async def test_a_direct_reply_names_its_context(client: Client, world: World) -> None:
    world.agent.may_reply_directly = True
    chosen = await client.send(message("reply hello", context="ours"))
    assert chosen["message"]["contextId"] == "ours"
    made = await client.send("reply hello")
    assert made["message"]["contextId"]


async def test_a_context_made_by_the_server_is_in_the_answer(client: Client) -> None:
    first, second = await client.run("say 1"), await client.run("say 2")
    assert first["contextId"]
    assert first["contextId"] != second["contextId"]


async def test_a_context_from_the_client_is_kept_as_it_is(client: Client) -> None:
    task = await client.run(message("say hi", context="kontext/ä 1"))
    assert task["contextId"] == "kontext/ä 1"
    assert task["history"][0]["contextId"] == "kontext/ä 1"


async def test_a_context_that_cannot_be_taken_is_refused_and_not_replaced(client: Client) -> None:
    with refused("INVALID_PARAMS", "message.contextId"):
        await client.send(message("say hi", context="c" * 257))
    assert (await client.list())["totalSize"] == 0


async def test_a_context_without_a_task_makes_a_new_task_in_it(client: Client) -> None:
    first = await client.run(message("say 1", context="ours"))
    second = await client.run(message("say 2", context="ours"))
    assert first["id"] != second["id"]
    assert first["contextId"] == second["contextId"] == "ours"


async def test_an_unknown_task_is_not_found_and_never_created(client: Client) -> None:
    with refused("TASK_NOT_FOUND") as caught:
        await client.send(message("say hi", task="made-up"))
    assert caught.value.metadata == {"taskId": "made-up"}
    with refused("TASK_NOT_FOUND"):
        async with client.stream(message("say hi", task="made-up")):
            pass
    with refused("TASK_NOT_FOUND"):
        await client.get("made-up")
    assert (await client.list())["totalSize"] == 0


async def test_a_follow_up_continues_the_task_in_its_context(client: Client, world: World) -> None:
    asked = await client.run("ask which size?")
    task = await client.run(message("say thanks", task=asked["id"], id="message-2"))
    assert task["id"] == asked["id"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    # The context is inferred, for the agent as well.
    assert task["contextId"] == asked["contextId"]
    assert world.agent.turns[-1].context_id == asked["contextId"]
    assert [m["messageId"] for m in task["history"] if m["role"] == "ROLE_USER"] == [
        "message-1",
        "message-2",
    ]


async def test_a_follow_up_may_name_the_context_of_its_task(client: Client) -> None:
    asked = await client.run(message("ask which?", context="ours"))
    task = await client.run(message("say thanks", task=asked["id"], context="ours"))
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_follow_up_with_another_context_is_refused(client: Client) -> None:
    asked = await client.run("ask which?")
    with refused("INVALID_PARAMS", "message.contextId"):
        await client.send(message("say hi", task=asked["id"], context="other"))
    assert await client.get(asked["id"]) == asked


@pytest.mark.parametrize("state", [*TERMINAL_SCRIPTS, "TASK_STATE_CANCELED"])
async def test_a_message_to_an_ended_task_is_unsupported(client: Client, state: str) -> None:
    if state == "TASK_STATE_CANCELED":
        task = await client.cancel((await client.run("hang", returnImmediately=True))["id"])
    else:
        task = await client.run(TERMINAL_SCRIPTS[state])
    assert task["status"]["state"] == state
    with refused("UNSUPPORTED_OPERATION"):
        await client.send(message("say more", task=task["id"]))
    assert await client.get(task["id"]) == task


async def test_artifacts_of_earlier_turns_stay(client: Client) -> None:
    asked = await client.run("say first; tool look; ask more?")
    task = await client.run(message("say second; tool look", task=asked["id"], id="message-2"))
    ids = [artifact["artifactId"] for artifact in task["artifacts"]]
    assert len(ids) == len(set(ids)) == 4
    assert {"first", "second"} <= {a["parts"][0].get("text") for a in task["artifacts"]}


async def test_history_length_bounds_the_history_of_the_answer(client: Client) -> None:
    asked = await client.run("ask which?")
    sent = message("say thanks", task=asked["id"], id="message-2")
    task = await client.run(sent, historyLength=2)
    whole = await client.get(task["id"])
    assert len(whole["history"]) == 4
    # The most recent ones, in their order.
    assert task["history"] == whole["history"][-2:]
    assert (await client.get(task["id"], historyLength=1))["history"] == whole["history"][-1:]
    assert (await client.get(task["id"], historyLength=99))["history"] == whole["history"]


async def test_history_length_zero_leaves_the_history_out(client: Client) -> None:
    task = await client.run("say hi", historyLength=0)
    assert "history" not in task
    assert "history" not in await client.get(task["id"], historyLength=0)
    assert "history" in await client.get(task["id"])


async def test_a_negative_history_length_is_refused(client: Client) -> None:
    with refused("INVALID_PARAMS", "configuration.historyLength"):
        await client.send("say hi", historyLength=-1)
    task = await client.run("say hi")
    with refused("INVALID_PARAMS", "historyLength"):
        await client.get(task["id"], historyLength=-1)


async def test_unknown_reference_tasks_are_hints_and_no_error(client: Client, world: World) -> None:
    await client.run(message("say hi", referenceTaskIds=["made-up"]))
    assert world.agent.turns[-1].message.reference_task_ids == ("made-up",)


async def test_accepted_output_modes_reach_the_agent(client: Client, world: World) -> None:
    await client.run("say hi", acceptedOutputModes=["text/html", "image/png"])
    assert world.agent.turns[-1].accepted_output_modes == ("text/html", "image/png")


async def test_no_accepted_output_modes_means_any(client: Client) -> None:
    task = await client.run("artifact file a.png image/png xyz", acceptedOutputModes=[])
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    [part] = task["artifacts"][0]["parts"]
    assert part["mediaType"] == "image/png"


@over(*V10)
async def test_a_part_of_a_type_the_agent_does_not_take_is_refused(client: Client) -> None:
    for part in ({"raw": "AAAA", "mediaType": "image/png"}, {"text": "x", "mediaType": "text/css"}):
        with refused("CONTENT_TYPE_NOT_SUPPORTED") as caught:
            await client.send(message("say hi", part))
        assert caught.value.metadata["mediaType"] == part["mediaType"]
    assert (await client.list())["totalSize"] == 0


async def test_a_file_of_a_type_the_agent_does_not_take_is_refused(client: Client) -> None:
    part = {"url": "https://files.example/a", "mediaType": "image/png", "filename": "a"}
    with refused("CONTENT_TYPE_NOT_SUPPORTED"):
        await client.send(message("say hi", part))
    with refused("CONTENT_TYPE_NOT_SUPPORTED"):
        async with client.stream(message("say hi", part)):
            pass
    assert (await client.list())["totalSize"] == 0


async def test_the_same_message_id_again_is_another_task(client: Client) -> None:
    first, second = await client.run("say 1"), await client.run("say 2")
    assert first["history"][0]["messageId"] == second["history"][0]["messageId"]
    assert first["id"] != second["id"]


async def test_a_message_in_the_name_of_the_agent_is_refused(client: Client) -> None:
    with refused("INVALID_PARAMS", "message.role"):
        await client.send(message("say hi", role="ROLE_AGENT"))


async def test_a_failure_keeps_what_was_said_and_tells_the_reason(client: Client) -> None:
    task = await client.run("say half an answer; fail the oven is cold")
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert task["status"]["message"]["parts"] == [{"text": "the oven is cold"}]
    assert text_of(task) == "half an answer"


async def test_a_crash_of_the_agent_fails_the_task_without_its_text(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    task = await client.run("crash secret words")
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "secret" not in str(task["status"])
    assert "secret words" in caplog.text


async def test_messages_of_one_context_run_one_after_the_other(
    client: Client, world: World
) -> None:
    first = await client.run(message("wait gate; say 1", context="ours"), returnImmediately=True)
    second = await client.run(message("say 2", context="ours"), returnImmediately=True)
    await world.agent.gates.reached("gate")
    assert [turn.task_id for turn in world.agent.turns] == [first["id"]]
    world.agent.gates.open("gate")
    async with client.subscribe(second["id"]) as stream:
        await stream.until("TASK_STATE_COMPLETED")
    assert [turn.task_id for turn in world.agent.turns] == [first["id"], second["id"]]
