"""Streams (protocol section 6)."""

import asyncio

import pytest
from tests.bindings.cases import JSONRPC, REST, V03, V10, over, refused, states, text_of
from tests.bindings.clients import Client, Event, message
from tests.bindings.world import World, open_world

from trunkline.testing import settle


async def test_a_stream_begins_with_the_task_and_closes_at_the_end(client: Client) -> None:
    async with client.stream("say one ; say two") as stream:
        events = await stream.rest()
    assert events[0].kind == "task"
    assert events[0].state == "TASK_STATE_SUBMITTED"
    assert {event.kind for event in events[1:]} == {"statusUpdate", "artifactUpdate"}
    assert states(events) == ["SUBMITTED", "WORKING", "COMPLETED"]
    assert events[-1].state == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize(
    ("script", "state"), [("fail no", "FAILED"), ("refuse no", "REJECTED"), ("crash", "FAILED")]
)
async def test_a_stream_closes_at_every_terminal_state(
    client: Client, script: str, state: str
) -> None:
    async with client.stream(script) as stream:
        events = await stream.rest()
    assert states(events)[-1] == state


async def test_the_stream_of_a_follow_up_begins_with_the_task(client: Client) -> None:
    asked = await client.run("ask which?")
    async with client.stream(message("say ok", task=asked["id"], id="message-2")) as stream:
        events = await stream.rest()
    assert events[0].kind == "task"
    assert events[0].value["id"] == asked["id"]
    assert "message-2" in [m["messageId"] for m in events[0].value["history"]]
    assert states(events)[-1] == "COMPLETED"


async def test_a_direct_reply_is_the_only_event(client: Client, world: World) -> None:
    world.agent.may_reply_directly = True
    async with client.stream("reply hello") as stream:
        events = await stream.rest()
    [event] = events
    assert event.kind == "message"
    assert event.value["parts"] == [{"text": "hello"}]
    assert event.value["contextId"]
    assert "taskId" not in event.value


async def test_a_run_that_turns_into_a_task_streams_as_one(client: Client, world: World) -> None:
    world.agent.may_reply_directly = True
    async with client.stream("say one; reply two") as stream:
        events = await stream.rest()
    assert events[0].kind == "task"
    assert states(events)[-1] == "COMPLETED"


async def test_chunks_are_appended_to_their_artifact(client: Client) -> None:
    async with client.stream("chunks report 3") as stream:
        events = await stream.rest()
    chunks = [event.value for event in events if event.kind == "artifactUpdate"]
    assert [chunk["artifact"]["artifactId"] for chunk in chunks] == ["report"] * 3
    assert [chunk.get("append", False) for chunk in chunks] == [False, True, True]
    assert [chunk.get("lastChunk", False) for chunk in chunks] == [False, False, True]


async def test_text_chunks_are_one_part_in_the_snapshot(client: Client) -> None:
    task = await client.run("chunks report 3")
    assert [len(artifact["parts"]) for artifact in task["artifacts"]] == [1]
    assert text_of(task) == "report 1 of 3\nreport 2 of 3\nreport 3 of 3\n"


async def test_a_send_stream_closes_at_input_required(client: Client) -> None:
    async with client.stream("say hm; ask which?") as stream:
        events = await stream.rest()
    assert states(events)[-1] == "INPUT_REQUIRED"


async def test_a_send_stream_stays_open_at_auth_required(client: Client) -> None:
    async with client.stream("auth sign in") as stream:
        events = await stream.until("TASK_STATE_AUTH_REQUIRED")
        await client.run(message("say in", task=events[0].value["id"], id="message-2"))
        assert states(await stream.rest())[-1] == "COMPLETED"


async def test_history_length_bounds_the_task_of_a_stream(client: Client) -> None:
    async with client.stream("say hi", historyLength=0) as stream:
        events = await stream.rest()
    assert events[0].kind == "task"
    assert "history" not in events[0].value
    assert states(events)[-1] == "COMPLETED"


async def test_return_immediately_does_not_shorten_a_stream(client: Client) -> None:
    async with client.stream("say hi", returnImmediately=True) as stream:
        assert states(await stream.rest())[-1] == "COMPLETED"


async def test_subscribe_begins_with_the_task_as_it_is(client: Client, world: World) -> None:
    task = await client.run("say half; wait gate; say whole", returnImmediately=True)
    await world.agent.gates.reached("gate")
    while "artifacts" not in await client.get(task["id"]):
        await settle()  # what was said shows when it is committed
    async with client.subscribe(task["id"]) as stream:
        first = await stream.next()
        assert first.kind == "task"
        assert first.value == await client.get(task["id"])
        world.agent.gates.open("gate")
        events = await stream.rest()
    assert states(events)[-1] == "COMPLETED"
    # The snapshot and what follows make up the whole: nothing twice, nothing lost.
    assert text_of(await client.get(task["id"])) == "halfwhole"
    ids = [event.id for event in [first, *events]]
    assert first.id is not None
    assert ids == list(range(first.id, first.id + len(ids)))


@over(*V10)
async def test_subscribe_stays_open_at_input_required(client: Client) -> None:
    asked = await client.run("ask which?")
    async with client.subscribe(asked["id"]) as stream:
        assert (await stream.next()).state == "TASK_STATE_INPUT_REQUIRED"
        again = message("ask really?", task=asked["id"], id="message-2")
        await client.run(again)
        await stream.until("TASK_STATE_INPUT_REQUIRED")
        await client.run(message("say ok", task=asked["id"], id="message-3"))
        assert states(await stream.rest())[-1] == "COMPLETED"


@over(*V03)
async def test_resubscribe_ends_at_input_required_in_0_3(client: Client, world: World) -> None:
    task = await client.run("wait gate; ask which?", returnImmediately=True)
    async with client.subscribe(task["id"]) as stream:
        await stream.next()
        world.agent.gates.open("gate")
        events = await stream.rest()
    assert states(events)[-1] == "INPUT_REQUIRED"


@pytest.mark.parametrize("script", ["say done", "fail no", "refuse no"])
async def test_subscribe_to_an_ended_task_is_unsupported(client: Client, script: str) -> None:
    task = await client.run(script)
    with refused("UNSUPPORTED_OPERATION"):
        async with client.subscribe(task["id"]):
            pass


async def test_subscribe_to_an_unknown_task_is_not_found(client: Client) -> None:
    with refused("TASK_NOT_FOUND"):
        async with client.subscribe("made-up"):
            pass


async def test_subscribe_closes_when_the_task_is_canceled(client: Client) -> None:
    task = await client.run("hang", returnImmediately=True)
    async with client.subscribe(task["id"]) as stream:
        await stream.next()
        await client.cancel(task["id"])
        assert states(await stream.rest())[-1] == "CANCELED"


async def test_all_streams_of_a_task_get_the_same_events_in_order(
    client: Client, world: World
) -> None:
    async with client.stream("wait gate; stream 20") as first:
        opening = await first.next()
        task_id = opening.value["id"]
        async with client.subscribe(task_id) as second, client.subscribe(task_id) as third:
            start = max((await second.next()).id or 0, (await third.next()).id or 0)
            world.agent.gates.open("gate")
            streams = [first.rest(), second.rest(), third.rest()]
            read: list[list[Event]] = await asyncio.gather(*streams)
    after = [[e.raw for e in events if (e.id or 0) > start] for events in read]
    assert after[0] == after[1] == after[2]
    ids = [event.id for event in read[0]]
    assert ids == sorted(ids, key=lambda id: id or 0)
    assert len(after[0]) > 20


async def test_a_client_that_leaves_disturbs_neither_task_nor_other_streams(
    client: Client, world: World
) -> None:
    async with client.stream("say 1; wait gate; say 2") as stays:
        task_id = (await stays.next()).value["id"]
        async with client.subscribe(task_id) as leaves:
            await leaves.next()
            leaves.leave()
        await world.agent.gates.reached("gate")
        world.agent.gates.open("gate")
        assert states(await stays.rest())[-1] == "COMPLETED"
    assert world.agent.canceled == type(world.agent.canceled)()


async def test_a_task_goes_on_when_its_only_client_leaves(client: Client, world: World) -> None:
    async with client.stream("wait gate; say done") as stream:
        task_id = (await stream.next()).value["id"]
        stream.leave()
    world.agent.gates.open("gate")
    task = await client.get(task_id)
    if task["status"]["state"] != "TASK_STATE_COMPLETED":
        async with client.subscribe(task_id) as stream:
            await stream.until("TASK_STATE_COMPLETED")
    assert text_of(await client.get(task_id)) == "done"


async def test_a_blocking_caller_that_leaves_does_not_end_the_task(
    client: Client, world: World
) -> None:
    request = client.request("SendMessage", {"message": message("wait gate; say done")})
    async with asyncio.TaskGroup() as group:
        # Its answer never begins, so there is no stream to leave: the request is dropped.
        waiting = group.create_task(client.http.send(request))
        await world.agent.gates.reached("gate")
        waiting.cancel()
    [task] = (await client.list())["tasks"]
    async with client.subscribe(task["id"]) as stream:
        await stream.next()
        world.agent.gates.open("gate")
        assert states(await stream.rest())[-1] == "COMPLETED"


async def test_without_the_capability_streams_are_unsupported(dialect: str) -> None:
    async with open_world(streaming=False) as world:
        client = world.client(dialect)
        task = await client.run("ask which?")
        with refused("UNSUPPORTED_OPERATION"):
            async with client.stream("say hi"):
                pass
        with refused("UNSUPPORTED_OPERATION"):
            async with client.subscribe(task["id"]):
                pass
        assert (await client.list())["totalSize"] == 1


async def test_a_stream_may_not_be_kept_or_held_back_on_its_way(client: Client) -> None:
    async with client.stream("say hi") as stream:
        headers = stream.response.headers
        await stream.rest()
    assert headers["content-type"] == "text/event-stream"
    assert headers["cache-control"] == "no-store"
    assert headers["x-accel-buffering"] == "no"


async def test_each_event_is_one_line_of_json(client: Client) -> None:
    async with client.stream(message({"text": "line\nbreak\r\nand \u2028 more"})) as stream:
        await stream.rest()
    for frame in stream.frames:
        id_line, data_line = frame.split(b"\n")
        assert id_line.startswith(b"id: ")
        assert data_line.startswith(b"data: {")


@over(*JSONRPC)
async def test_each_jsonrpc_event_is_a_response_with_the_id_of_the_request(
    client: Client,
) -> None:
    async with client.stream("say hi") as stream:
        events = await stream.rest()
    # The client has taken each envelope apart and compared the id.
    assert len(events) == len(stream.frames)
    assert all(b'"id":"request-1"' in frame for frame in stream.frames)


@over(*REST)
async def test_rest_events_are_bare(client: Client) -> None:
    async with client.stream("say hi") as stream:
        await stream.rest()
    assert not any(b"jsonrpc" in frame for frame in stream.frames)


async def test_a_quiet_stream_shows_that_it_is_alive(client: Client, world: World) -> None:
    async with client.stream("wait gate; say done") as stream:
        await stream.next()
        await world.agent.gates.reached("gate")
        await stream.next()
        await world.clock.advance(15)
        world.agent.gates.open("gate")
        await stream.rest()
    assert b": keep-alive" in stream.frames


async def test_a_stream_resumes_after_the_last_event_that_was_seen(client: Client) -> None:
    async with client.stream("say 1; say 2; say 3") as stream:
        events = await stream.rest()
    task_id = events[0].value["id"]
    async with client.subscribe(task_id, headers={"last-event-id": "3"}) as stream:
        rest = await stream.rest()
    assert [event.raw for event in rest] == [event.raw for event in events[3:]]


async def test_a_resumed_stream_follows_a_running_task(client: Client, world: World) -> None:
    async with client.stream("say 1; wait gate; say 2") as first:
        task_id = (await first.next()).value["id"]
        await world.agent.gates.reached("gate")
        async with client.subscribe(task_id, headers={"last-event-id": "1"}) as second:
            assert (await second.next()).id == 2
            world.agent.gates.open("gate")
            rest = await second.rest()
        events = await first.rest()
    assert [event.raw for event in rest] == [event.raw for event in events[1:]]


async def test_a_place_that_the_journal_does_not_have_gives_the_task_anew(client: Client) -> None:
    task = await client.run("ask which?")
    async with client.subscribe(task["id"], headers={"last-event-id": "9999"}) as stream:
        assert (await stream.next()).value == task
    assert any(frame.startswith(b"event: gap") for frame in stream.frames)


async def test_a_caller_with_too_many_streams_is_told_so(dialect: str) -> None:
    async with open_world(server={"max_streams_per_principal": 1}) as world:
        client = world.client(dialect)
        async with client.stream("hang") as stream:
            await stream.next()
            with refused("TOO_MANY_REQUESTS") as caught:
                async with client.stream("say hi"):
                    pass
            assert caught.value.answer.headers["retry-after"] == "5"
            # Others are not concerned.
            async with world.client(dialect, "bob").stream("say hi") as other:
                await other.rest()
        await settle()
        async with client.stream("say hi") as stream:
            await stream.rest()
