"""Deliveries from a mailbox at the gateway with the agent: accepted once they are committed."""

import json
from typing import Any

import msgspec
import pytest
from tests.bindings.clients import CLIENTS, Client, message
from tests.relay.gateways import RelayedWorld, open_relayed_world
from tests.relay.mail import Outcome, deliver, delivery

from trunkline.model.calls import SendMessageRequest
from trunkline.model.values import Part
from trunkline.protocol.relay.deliveries import encode
from trunkline.runtime.idempotency import digest_of
from trunkline.testing import settle

TAKEN = Outcome(is_accepted=True, status=204)


@pytest.fixture
def client(world: RelayedWorld) -> Client:
    return world.client("jsonrpc-1.0")


def taken(outcome: Outcome) -> bool:
    return outcome.is_accepted and outcome.status == 204 and outcome.text == ""


async def test_a_delivery_is_a_task_like_any_other(world: RelayedWorld) -> None:
    mail = delivery("say hi", context="c")
    assert taken(await deliver(world, mail))
    await settle()
    (first, *_) = await world.runtime.store.entries("given-1", after=0, limit=10)
    assert first.body == bytes(mail.entry)
    for dialect in CLIENTS:
        own = world.client(dialect)
        task = await own.get("given-1")
        assert task["contextId"] == "c"
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert [part["text"] for part in task["history"][0]["parts"]] == ["say hi"]
        assert [each["id"] for each in (await own.list())["tasks"]] == ["given-1"]
        others = world.client(dialect, "bob")
        assert (await others.list())["tasks"] == []
    (turn,) = world.agent.turns
    assert turn.principal == "relay:relay.example:alice"


async def test_a_stream_goes_on_behind_the_entry_of_the_relay(
    world: RelayedWorld, dialect: str
) -> None:
    await deliver(world, delivery("say one; wait gate; say two"))
    client = world.client(dialect)
    async with client.subscribe("given-1", headers={"last-event-id": "1"}) as stream:
        world.agent.gates.open("gate")
        events = await stream.rest()
    ids = [event.id for event in events if event.id is not None]
    assert ids[0] == 2
    assert ids == sorted(set(ids))
    assert events[-1].state == "TASK_STATE_COMPLETED"


async def test_a_delivery_again_is_accepted_and_does_nothing(world: RelayedWorld) -> None:
    mail = delivery("say hi; wait gate")
    assert taken(await deliver(world, mail))
    assert taken(await deliver(world, mail))
    world.agent.gates.open("gate")
    await settle()
    assert taken(await deliver(world, mail))
    assert len(world.agent.turns) == 1


async def test_a_repeat_on_the_direct_path_finds_the_task(
    world: RelayedWorld, client: Client
) -> None:
    body = message("say hi", id="m")
    request = msgspec.convert({"message": body}, SendMessageRequest)
    mail = delivery("say hi", message_id="m", key="k", digest=digest_of(request))
    assert taken(await deliver(world, mail))
    keyed = world.client("jsonrpc-1.0", headers={"idempotency-key": "k"})
    answer = await keyed.call("SendMessage", {"message": body})
    assert answer["task"]["id"] == "given-1"
    assert len(world.agent.turns) == 1


async def test_an_id_of_another_caller_is_refused_for_good(world: RelayedWorld) -> None:
    await deliver(world, delivery("say mine"))
    outcome = await deliver(world, delivery("say mine"), sender="bob")
    assert (outcome.is_accepted, outcome.status) == (False, 409)
    assert "another caller" in outcome.text
    assert len(world.agent.turns) == 1


async def test_a_caller_without_a_grant_gets_a_task_that_says_so(
    world: RelayedWorld, client: Client
) -> None:
    assert taken(await deliver(world, delivery("say hi"), operations=("GetTask",)))
    task = await client.get("given-1")
    assert task["status"]["state"] == "TASK_STATE_REJECTED"
    assert "may not call SendMessage" in json.dumps(task["status"]["message"])
    assert not world.agent.turns


def changed(**members: Any) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(encode(delivery())) | members)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{", "cannot be read"),
        (b"[" * 500, "nest"),
        (b"\xff", "UTF-8"),
        (changed(task_id="other"), "task_id"),
        (changed(kind="message.1"), "kind"),
        (changed(operation="CancelTask"), "operation"),
        (changed(digest="xyz"), "digest"),
        (changed(created_ms=-1), "created_ms"),
    ],
    ids=["json", "depth", "utf-8", "id", "kind", "operation", "digest", "time"],
)
async def test_what_is_no_delivery_is_refused_for_good(
    world: RelayedWorld, body: bytes, text: str
) -> None:
    outcome = await deliver(world, delivery(), body=body)
    assert (outcome.is_accepted, outcome.status) == (False, 400)
    assert text in outcome.text
    assert not world.agent.turns


async def test_a_tenant_that_the_agent_does_not_have_is_refused_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_relayed_world(monkeypatch, tenants=("one",)) as world:
        outcome = await deliver(world, delivery(tenant="two"))
        assert (outcome.is_accepted, outcome.status) == (False, 400)
        assert "tenant" in outcome.text
        assert taken(await deliver(world, delivery(tenant="one")))
        own = world.client("jsonrpc-1.0", tenant="one")
        assert (await own.get("given-1"))["id"] == "given-1"


async def test_a_delivery_may_be_as_large_as_a_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = {"max_body_bytes": 1_000_000}
    async with open_relayed_world(monkeypatch, server=limits) as world:
        parts = (Part(text="say hi"), Part(text="x" * 999_000))
        assert taken(await deliver(world, delivery(parts=parts)))
        client = world.client("rest-0.3")
        assert len((await client.get("given-1"))["history"][0]["parts"][1]["text"]) == 999_000
        larger = (Part(text="x" * 1_100_000),)
        outcome = await deliver(world, delivery(id="large", parts=larger))
        assert (outcome.is_accepted, outcome.status) == (False, 413)
        assert world.gateway.front.budget.held_bytes == 0


async def test_a_full_queue_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_relayed_world(monkeypatch, max_queue_per_context=1) as world:
        assert taken(await deliver(world, delivery("wait gate", id="g-1", context="c")))
        assert taken(await deliver(world, delivery("say 2", id="g-2", context="c")))
        mail = delivery("say 3", id="g-3", context="c")
        outcome = await deliver(world, mail)
        assert (outcome.is_accepted, outcome.status, outcome.retry_after) == (False, 503, "5")
        world.agent.gates.open("gate")
        await settle()
        assert taken(await deliver(world, mail))
        await settle()
        assert [turn.task_id for turn in world.agent.turns] == ["g-1", "g-2", "g-3"]


async def test_a_gateway_that_stops_is_tried_again(world: RelayedWorld) -> None:
    world.runtime.stop_admitting()
    outcome = await deliver(world, delivery())
    assert (outcome.is_accepted, outcome.status) == (False, 503)
    assert outcome.retry_after


async def test_a_fault_of_the_gateway_loses_no_message(
    world: RelayedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(type(world.runtime.adoptions), "adopt", fail)
    outcome = await deliver(world, delivery())
    assert (outcome.is_accepted, outcome.status) == (False, 503)
    assert "a fault" not in outcome.text


async def test_a_delivery_of_another_agent_is_not_begun(world: RelayedWorld) -> None:
    outcome = await deliver(world, delivery(), target="/t/acme/a2a/other")
    assert outcome.cancelled is not None
    assert outcome.cancelled.is_unsent


async def test_a_client_cannot_deliver(world: RelayedWorld, client: Client) -> None:
    """A body that looks like a delivery is an A2A request like any other."""
    request = client.request("SendMessage", {"message": message("say hi")})
    request.body = msgspec.json.encode(delivery())
    request.headers["a2a-relay-delivery"] = "given-1"
    answer = await world.http.send(request)
    assert "error" in answer.json()
    assert not world.agent.turns
