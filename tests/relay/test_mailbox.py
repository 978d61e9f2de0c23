"""Messages for an agent that is away, over two gateways."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.bindings.cases import over, refused, states
from tests.bindings.clients import Client, message
from tests.bindings.shapes import Json
from tests.relay.gateways import PATH, RelayedWorld, open_relayed_world, relay_settings

from trunkline.model.errors import StoreUnusable
from trunkline.protocol.relay.close_codes import RESTART, Close
from trunkline.settings import Settings
from trunkline.settings.relay_server import RelayedAgentSettings, RelayServerSettings
from trunkline.testing import settle

COMPLETED, SUBMITTED = "TASK_STATE_COMPLETED", "TASK_STATE_SUBMITTED"


async def leave(world: RelayedWorld) -> None:
    """The relay gives the session of the host up, which cannot dial again."""
    world.wire.is_down = True
    for attached in [*world.relay.relaying._relay._relay._sessions.values()]:  # type: ignore[union-attr]
        attached.session.end(Close(RESTART, "away"))
        attached.carrier.flush()
    await world.clock.advance(2)


async def fall_silent(world: RelayedWorld) -> None:
    """Nothing of what the relay writes reaches the host, and no connection is closed."""
    for end in world.wire.open_ends:
        end.room = end.other.room = 0
    world.wire.is_down = True


async def come_back(world: RelayedWorld) -> None:
    """Return when what waits was delivered."""
    world.wire.is_down = False
    relay = world.relay.relaying._relay._relay  # type: ignore[union-attr]
    while not relay.attached_agents:
        await world.clock.advance(1)
    await world.clock.advance(2)


def policy(**keys: Any) -> Settings:
    return replace(relay_settings(), relay_server=RelayServerSettings(**keys))


async def send(client: Client, text: str, **fields: Any) -> Json:
    fields.setdefault("id", text)
    return await client.run(message(text, **fields))


def ids(page: Json) -> list[str]:
    return [task["id"] for task in page["tasks"]]


async def test_a_message_waits_and_is_delivered(world: RelayedWorld, client: Client) -> None:
    await leave(world)
    task = await send(client, "say done")
    assert task["status"]["state"] == SUBMITTED
    assert task["contextId"]
    assert await client.get(task["id"]) == task
    assert ids(await client.list()) == [task["id"]]
    await come_back(world)
    done = await client.get(task["id"])
    assert done["status"]["state"] == COMPLETED
    assert done["id"] == task["id"]
    assert done["contextId"] == task["contextId"]
    assert done["history"][0] == task["history"][0]


async def test_a_stream_goes_on_with_the_agent(world: RelayedWorld, client: Client) -> None:
    await leave(world)
    async with client.stream("say one; say two") as stream:
        first = await stream.next()
        assert (first.id, first.state) == (1, SUBMITTED)
        await come_back(world)
        events = await stream.rest()
    assert [event.id for event in events] == [*range(2, len(events) + 2)]
    assert states(events) == ["WORKING", "COMPLETED"]
    direct = world.runtime.store
    entries = await direct.entries(first.value["id"], after=0, limit=100)
    assert len(entries) == len(events) + 1


async def test_its_events_are_those_of_the_agent(world: RelayedWorld, client: Client) -> None:
    """Whoever subscribes at the agent later sees the same first event."""
    await leave(world)
    async with client.stream("say one; wait gate") as stream:
        first = await stream.next()
        await come_back(world)
        await world.agent.gates.reached("gate")
        at_agent = client.subscribe(first.value["id"], headers={"last-event-id": "0"})
        async with at_agent as again:
            assert await again.next() == first
        world.agent.gates.open("gate")
        assert (await stream.rest())[-1].state == COMPLETED


async def test_a_stream_says_that_the_agent_was_lost_again(
    world: RelayedWorld, client: Client
) -> None:
    await leave(world)
    async with client.stream("say one; wait gate") as stream:
        await stream.next()
        await come_back(world)
        await world.agent.gates.reached("gate")
        await leave(world)
        rest = b"".join([chunk async for chunk in stream.response.chunks()])
    assert b"AGENT_LOST" in rest
    if client.binding == "jsonrpc":
        assert b'"id":"request-1","error"' in rest


@over("jsonrpc-1.0", "jsonrpc-0.3", "rest-1.0", "rest-0.3")
async def test_a_task_that_waits_can_be_followed(world: RelayedWorld, client: Client) -> None:
    await leave(world)
    task = await send(client, "say one")
    async with client.subscribe(task["id"]) as stream:
        first = await stream.next()
        assert (first.id, first.value) == (1, task)
        await come_back(world)
        assert (await stream.rest())[-1].state == COMPLETED
    await leave(world)
    other = await send(client, "say two")
    async with client.subscribe(other["id"], headers={"last-event-id": "1"}) as stream:
        await come_back(world)
        events = await stream.rest()
        assert events[0].id == 2
        assert events[-1].state == COMPLETED


async def test_a_client_that_leaves_its_stream_costs_nothing(
    world: RelayedWorld, client: Client
) -> None:
    await leave(world)
    async with client.stream("say one") as stream:
        first = await stream.next()
        stream.leave()
        await settle()
    assert len(world.relay.front._streams._open) == 0
    await come_back(world)
    assert (await client.get(first.value["id"]))["status"]["state"] == COMPLETED


async def test_a_task_that_waits_can_be_canceled(world: RelayedWorld, client: Client) -> None:
    await leave(world)
    task = await send(client, "say one")
    async with client.subscribe(task["id"]) as stream:
        await stream.next()
        canceled = await client.cancel(task["id"])
        assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
        events = await stream.rest()
    assert [(event.id, event.state) for event in events] == [(2, "TASK_STATE_CANCELED")]
    assert await client.get(task["id"]) == canceled
    with refused("TASK_NOT_CANCELABLE"):
        await client.cancel(task["id"])
    with refused("UNSUPPORTED_OPERATION"):
        await send(client, "more", task=task["id"])
    with refused("UNSUPPORTED_OPERATION"):
        async with client.subscribe(task["id"]):
            """There is nothing to follow."""
    await come_back(world)
    assert await client.get(task["id"]) == canceled
    assert await world.runtime.store.entries(task["id"], after=0, limit=1) == ()
    world.clock.jump(2 * 3600)
    await world.clock.advance(2)
    with refused("TASK_NOT_FOUND"):
        await client.get(task["id"])


async def test_messages_of_a_context_stay_in_order(world: RelayedWorld, client: Client) -> None:
    await leave(world)
    tasks = [await send(client, f"say {n}", context=f"c-{n % 3}") for n in range(30)]
    page = await client.list(pageSize=100)
    assert sorted(ids(page)) == sorted(task["id"] for task in tasks)
    await come_back(world)
    for context in range(3):
        stored = await client.list(contextId=f"c-{context}", pageSize=100)
        assert stored["totalSize"] == 10
        assert {task["status"]["state"] for task in stored["tasks"]} == {COMPLETED}
    runs = [run.message.message_id for run in world.agent.turns]
    for context in range(3):
        own = [f"say {n}" for n in range(30) if n % 3 == context]
        assert [each for each in runs if each in own] == own


async def test_what_is_sent_to_a_context_that_waits_comes_behind_it(
    world: RelayedWorld, client: Client
) -> None:
    await leave(world)
    first = await send(client, "say 1", context="c")
    # The relay cannot deliver the first one as long as its caller holds it.
    mailbox = await world.relay.relaying.mailbox.mailboxes.of("acme/scripted")  # type: ignore[union-attr]
    waiting = mailbox.waiting[first["id"]]
    async with mailbox.hold(waiting.owner):
        await come_back(world)
        assert (await send(client, "say 3", context="other"))["status"]["state"] == COMPLETED
        second = await send(client, "say 2", context="c")
        assert second["status"]["state"] == SUBMITTED
        assert [*mailbox.waiting] == [first["id"], second["id"]]
    await world.clock.advance(5)
    assert [run.message.message_id for run in world.agent.turns] == ["say 3", "say 1", "say 2"]
    assert (await send(client, "say 4", context="c"))["status"]["state"] == COMPLETED


async def test_a_list_has_what_waits_and_what_the_agent_has(
    world: RelayedWorld, client: Client
) -> None:
    known = []
    for number in range(3):
        known.append((await send(client, f"say {number}"))["id"])
        await world.clock.advance(1)
    await leave(world)
    for number in range(2):
        known.append((await send(client, f"say late {number}", context="c"))["id"])
        await world.clock.advance(1)
    mailbox = await world.relay.relaying.mailbox.mailboxes.of("acme/scripted")  # type: ignore[union-attr]
    async with mailbox.hold(mailbox.waiting[known[-1]].owner):
        await come_back(world)
        known.append((await send(client, "say here"))["id"])
        order = [*reversed(known)]
        page = await client.list()
        assert (ids(page), page["totalSize"], page["nextPageToken"]) == (order, 6, "")
        found, token = [], ""
        while True:
            page = await client.list(pageSize=2, **({"pageToken": token} if token else {}))
            assert (page["totalSize"], page["pageSize"]) == (6, 2)
            found += ids(page)
            token = page["nextPageToken"]
            if not token:
                break
        assert found == order
        assert ids(await client.list(contextId="c")) == [known[4], known[3]]
        done = await client.list(status=COMPLETED, includeArtifacts=True)
        assert ids(done) == [known[5], known[2], known[1], known[0]]
        assert all(task["artifacts"] for task in done["tasks"])
        with refused("INVALID_PARAMS", "pageToken"):
            await client.list(pageToken="relay.nonsense")
        assert ids(await world.client(client.name, "bob").list()) == []
    await world.clock.advance(5)
    assert sorted(ids(await client.list())) == sorted(known)


async def test_a_repeated_message_is_one_task(world: RelayedWorld, client: Client) -> None:
    await leave(world)
    key = {"idempotency-key": "k"}
    task = await client.run(message("say 1", id="m"), headers=key)
    assert await client.run(message("say 1", id="m"), headers=key) == task
    with refused("IDEMPOTENCY_CONFLICT"):
        await client.run(message("say 2", id="m"), headers=key)
    # The same message without a key is a repeat as well, and another one is not.
    assert await client.run(message("say 1", id="m")) == task
    assert (await client.run(message("say 2", id="m")))["id"] != task["id"]
    await come_back(world)
    again = await client.run(message("say 1", id="m"), headers=key)
    assert (again["id"], again["status"]["state"]) == (task["id"], COMPLETED)


async def test_callers_do_not_see_each_other(world: RelayedWorld, client: Client) -> None:
    await leave(world)
    task = await send(client, "say 1", context="c")
    bob = world.client(client.name, "bob")
    for call in (bob.get(task["id"]), bob.cancel(task["id"]), bob.list()):
        with refused("UNAVAILABLE"):
            await call
    with refused("UNAVAILABLE"):
        await send(bob, "more", task=task["id"])
    own = await send(bob, "say 1", context="c")
    assert own["id"] != task["id"]
    assert ids(await bob.list()) == [own["id"]]
    await come_back(world)
    with refused("TASK_NOT_FOUND"):
        await bob.get(task["id"])


async def test_what_only_the_agent_knows_waits_for_it(world: RelayedWorld, client: Client) -> None:
    done = await send(client, "say 1")
    await leave(world)
    for call in (client.get(done["id"]), client.cancel(done["id"]), client.list()):
        with refused("UNAVAILABLE") as away:
            await call
        assert away.value.answer.headers["retry-after"] == "5"
    with refused("UNAVAILABLE"):
        await send(client, "more", task=done["id"])
    for operation in ("GetExtendedAgentCard", "ListTaskPushNotificationConfigs"):
        with refused("UNAVAILABLE"):
            await client.call(operation, {"taskId": done["id"]})
    waits = await send(client, "say 2")
    with refused("UNAVAILABLE"):
        await send(client, "more", task=waits["id"])


async def test_requests_are_checked_as_by_the_agent(world: RelayedWorld, client: Client) -> None:
    await leave(world)
    with refused("INVALID_PARAMS", "message.contextId"):
        await send(client, "say 1", context="c" * 300)
    with refused("PUSH_NOTIFICATION_NOT_SUPPORTED"):
        await client.send("say 1", taskPushNotificationConfig={"url": "https://example.com"})
    with refused("INVALID_PARAMS"):
        await client.send({"messageId": "m", "role": "ROLE_USER", "parts": []})
    assert (await world.relay.relaying.mailbox.mailboxes.of("acme/scripted")).head.next == 1  # type: ignore[union-attr]


@over("jsonrpc-1.0")
async def test_grants_count_at_the_relay(monkeypatch: pytest.MonkeyPatch, dialect: str) -> None:
    plain = relay_settings()
    keys = dict(plain.auth.keys)
    keys["alice"] = replace(keys["alice"], grants={"acme/*": ("SendMessage", "GetTask")})
    at_relay = replace(plain, auth=replace(plain.auth, keys=keys))
    async with open_relayed_world(monkeypatch, at_relay=at_relay) as world:
        client = world.client(dialect)
        await leave(world)
        task = await send(client, "say 1")
        assert (await client.get(task["id"]))["id"] == task["id"]
        for call in (client.cancel(task["id"]), client.list()):
            with refused("PERMISSION_DENIED"):
                await call
        with refused("PERMISSION_DENIED"):
            async with client.subscribe(task["id"]):
                """It may not."""
        await come_back(world)
        assert (await client.get(task["id"]))["status"]["state"] == COMPLETED


async def test_history_and_options_are_those_of_the_request(
    world: RelayedWorld, client: Client
) -> None:
    await leave(world)
    sent = message("say 1", id="m")
    task = await client.run(sent, historyLength=0, acceptedOutputModes=["text/plain"])
    assert task.get("history", []) == []
    assert len((await client.get(task["id"]))["history"]) == 1
    assert (await client.get(task["id"], historyLength=0)).get("history", []) == []
    await come_back(world)
    (turn,) = world.agent.turns
    assert turn.accepted_output_modes == ("text/plain",)


# Bounds.


@over("jsonrpc-1.0", "rest-0.3")
@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"mailbox_messages": 4}, "2 messages of yours"),
        ({"mailbox_bytes": 7000}, "half of mailbox_messages and of mailbox_bytes"),
    ],
    ids=["messages", "bytes"],
)
async def test_a_caller_has_half_of_a_mailbox(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    dialect: str,
    keys: dict[str, int],
    named: str,
) -> None:
    async with open_relayed_world(monkeypatch, at_relay=policy(**keys)) as world:
        client = world.client(dialect)
        await leave(world)
        tasks = [await send(client, f"say {n}") for n in range(2)]
        with refused("TOO_MANY_REQUESTS") as full:
            await send(client, "say 3")
        assert named in full.value.message
        assert full.value.answer.headers["retry-after"] == "60"
        # A repeat needs no room, and what goes makes some.
        assert (await send(client, "say 1"))["id"] == tasks[1]["id"]
        await client.cancel(tasks[0]["id"])
        await send(client, "say 3")
    # It is an error of the client alone.
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


@over("jsonrpc-1.0")
@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"mailbox_messages": 2}, "2 messages wait, the maximum (mailbox_messages)"),
        ({"mailbox_bytes": 3500}, "of the maximum of 3,500 (mailbox_bytes)"),
    ],
    ids=["messages", "bytes"],
)
async def test_a_full_mailbox_refuses_and_no_caller_keeps_the_others_out(
    monkeypatch: pytest.MonkeyPatch, dialect: str, keys: dict[str, int], named: str
) -> None:
    async with open_relayed_world(monkeypatch, at_relay=policy(**keys)) as world:
        alice, bob = world.client(dialect), world.client(dialect, "bob")
        await leave(world)
        await send(alice, "say 1")
        with refused("TOO_MANY_REQUESTS"):
            await send(alice, "say 2")
        await send(bob, "say 3")
        with refused("TOO_MANY_REQUESTS") as full:
            await send(bob, "say 4")
        assert named in full.value.message


@over("jsonrpc-1.0", "rest-0.3")
async def test_a_message_does_not_wait_for_ever(
    monkeypatch: pytest.MonkeyPatch, dialect: str
) -> None:
    async with open_relayed_world(monkeypatch, at_relay=policy(mailbox_ttl_s=3600)) as world:
        client = world.client(dialect)
        await leave(world)
        async with client.stream("say 1") as stream:
            task = (await stream.next()).value
            world.clock.jump(3590)
            await world.clock.advance(2)
            assert (await client.get(task["id"]))["status"]["state"] == SUBMITTED
            world.clock.jump(20)
            await world.clock.advance(2)
            (last,) = await stream.rest()
        assert (last.id, last.state) == (2, "TASK_STATE_FAILED")
        failed = await client.get(task["id"])
        assert failed["status"]["state"] == "TASK_STATE_FAILED"
        assert "was not picked up in time" in failed["status"]["message"]["parts"][0]["text"]
        assert "trunkline_mailbox_dead 1.0" in await metrics(world)
        await come_back(world)
        assert await client.get(task["id"]) == failed
        assert not world.agent.turns
        # And neither does what is left of it.
        world.clock.jump(8 * 24 * 3600)
        await world.clock.advance(2)
        with refused("TASK_NOT_FOUND"):
            await client.get(task["id"])
        assert "trunkline_mailbox_dead 0.0" in await metrics(world)


async def metrics(world: RelayedWorld) -> str:
    request = world.client("jsonrpc-1.0").request("GetTask", {"id": "t"})
    request.method, request.path, request.body = "GET", "/metrics", b""
    return (await world.http.send(request)).body.decode()


async def test_metrics_tell_what_waits(world: RelayedWorld, client: Client) -> None:
    await leave(world)
    await send(client, "say 1")
    await world.clock.advance(10)
    await send(client, "say 2")
    told = await metrics(world)
    assert "trunkline_mailbox_waiting 2.0" in told
    assert "trunkline_mailbox_oldest_seconds 10.0" in told
    await come_back(world)
    told = await metrics(world)
    assert "trunkline_mailbox_waiting 0.0" in told
    assert "trunkline_mailbox_oldest_seconds 0.0" in told
    assert "trunkline_mailbox_delivered_total 2.0" in told


@over("jsonrpc-1.0")
async def test_messages_for_an_agent_that_falls_silent_wait_soon(
    world: RelayedWorld, client: Client
) -> None:
    """As of a laptop whose lid was closed: the first request finds out."""
    await fall_silent(world)
    first = world.relay_tasks.start(send(client, "say 1"), name="send")
    await world.clock.advance(13)
    second = world.relay_tasks.start(send(client, "say 2"), name="send")
    await world.clock.advance(5)
    assert (await second)["status"]["state"] == SUBMITTED
    # It may have arrived, so that the relay cannot keep it.
    assert not first.done()
    await world.clock.advance(30)
    with refused("AGENT_LOST"):
        await first
    await come_back(world)
    assert (await client.get((await second)["id"]))["status"]["state"] == COMPLETED


# Policies.


@over("jsonrpc-1.0")
async def test_an_agent_may_have_no_mailbox(monkeypatch: pytest.MonkeyPatch, dialect: str) -> None:
    at_relay = policy(agents={"acme/scripted": RelayedAgentSettings(mailbox="fail")})
    async with open_relayed_world(monkeypatch, at_relay=at_relay) as world:
        client = world.client(dialect)
        await leave(world)
        with refused("UNAVAILABLE"):
            await send(client, "say 1")


@over("jsonrpc-1.0")
async def test_a_request_may_wait_for_its_agent(
    monkeypatch: pytest.MonkeyPatch, dialect: str
) -> None:
    at_relay = policy(mailbox="wait", wait_s=30)
    async with open_relayed_world(monkeypatch, at_relay=at_relay) as world:
        client = world.client(dialect)
        await leave(world)
        sent = world.relay_tasks.start(send(client, "say 1"), name="send")
        await world.clock.advance(1)
        assert not sent.done()
        await come_back(world)
        assert (await sent)["status"]["state"] == COMPLETED
        await leave(world)
        late = world.relay_tasks.start(send(client, "say 2"), name="send")
        await world.clock.advance(29)
        assert not late.done()
        await world.clock.advance(2)
        with refused("UNAVAILABLE"):
            await late


async def test_agents_that_were_never_attached_have_no_mailbox(
    world: RelayedWorld, client: Client
) -> None:
    away = f"{PATH.removesuffix('scripted')}absent"
    client.address = replace(client.address, jsonrpc=away, rest=away)
    sent = client.request("SendMessage", {"message": message("say 1")})
    answer = await world.http.send(sent)
    assert answer.status == 503
    foreign = client.request("SendMessage", {"message": message("say 1")})
    foreign.path = foreign.path.replace("/t/acme/", "/t/other/")
    assert (await world.http.send(foreign)).body == answer.body


@over("jsonrpc-1.0", "rest-0.3")
async def test_a_store_that_is_unusable_stops_what_waits_and_nothing_else(
    world: RelayedWorld, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await leave(world)
    task = await send(client, "say 1")
    mailbox = await world.relay.relaying.mailbox.mailboxes.of("acme/scripted")  # type: ignore[union-attr]
    async with mailbox.hold(mailbox.waiting[task["id"]].owner):
        await come_back(world)
        store = world.relay.relaying.mailbox.mailboxes.store  # type: ignore[union-attr]

        async def broken(*args: object, **options: object) -> None:
            raise StoreUnusable("no space left at /secret/path")

        with monkeypatch.context() as patched:
            for method in ("record", "records", "change"):
                patched.setattr(store, method, broken)
            assert (await send(client, "say 2"))["status"]["state"] == COMPLETED
            with refused("UNAVAILABLE") as away:
                await client.get(task["id"])
            assert "/secret" not in away.value.message
            await leave(world)
            for call in (send(client, "say 3"), client.get(task["id"])):
                with refused("UNAVAILABLE") as away:
                    await call
                assert "/secret" not in away.value.message
        await come_back(world)
    await world.clock.advance(5)
    assert (await client.get(task["id"]))["status"]["state"] == COMPLETED
