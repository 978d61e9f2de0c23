"""The channel `a2a` towards the host of an agent (inbound.md I-1 and I-14)."""

from typing import Any

import pytest
from tests.bindings.world import World, open_world

from trunkline.app.openclaw_channel import PLUGIN_ID, Channel
from trunkline.model.errors import UnsupportedOperation
from trunkline.model.session import Delivered, ReplyPayload

HELLO = ReplyPayload(text="one more thing")
TWO: dict[str, dict[str, Any]] = {
    "acme/one": {"account_id": "one"},
    "acme/two": {"account_id": "two"},
}


def test_i1_one_channel_with_this_face() -> None:
    channel = Channel({})
    assert PLUGIN_ID == "openclaw-a2a-inbound"
    assert (channel.id, channel.label, channel.selection_label) == (
        "a2a",
        "A2A Inbound",
        "A2A Inbound (JSON-RPC)",
    )
    assert (channel.docs_path, channel.aliases) == ("/channels/a2a", ("a2a",))


def test_i1_the_plugin_itself_has_no_configuration() -> None:
    assert Channel.config_schema == {
        "type": "object",
        "additionalProperties": False,
        "properties": {},
    }


def test_i1_capabilities() -> None:
    assert Channel.capabilities == {
        "chatTypes": ["direct"],
        "reply": False,
        "blockStreaming": True,
    }


def test_i1_a_send_out_of_the_blue_is_refused() -> None:
    assert Channel.delivery_mode == "direct"
    with pytest.raises(UnsupportedOperation) as caught:
        Channel({}).send_text(to="a2a:peer", text="hello")
    assert caught.value.message == (
        "A2A_OUTBOUND_DELIVERY_UNSUPPORTED: openclaw-a2a-inbound does not implement "
        "OpenClaw-initiated outbound delivery. Use openclaw-a2a-outbound for delegated outbound "
        "A2A calls."
    )


async def task_of(world: World, agent: str = "") -> str:
    sent = await world.client("jsonrpc-1.0", agent=agent).send("say done")
    task_id: str = sent["task"]["id"]
    return task_id


async def test_i1_queued_replies_go_by_the_protocol() -> None:
    assert Channel.queued_reply_mode == "protocol"
    async with open_world() as world:
        task_id = await task_of(world)
        delivered = await world.gateway.channel.deliver_queued_reply(
            HELLO, thread_id=task_id, session_key="agent:main:a2a:secret"
        )
        assert delivered.ok
        task = await world.client("jsonrpc-1.0").get(task_id)
        assert task["artifacts"][-1]["artifactId"] == delivered.message_id
        # The peer learns nothing of how the session is called inside.
        assert "secret" not in str(task)


@pytest.mark.parametrize("how", [{"account_id": "two"}, {"to": "a2a:two"}])
async def test_i14_the_account_by_its_id_or_by_the_address(how: dict[str, str]) -> None:
    async with open_world(agents=TWO) as world:
        task_id = await task_of(world, "acme/two")
        delivered = await world.gateway.channel.deliver_queued_reply(
            HELLO, thread_id=task_id, **how
        )
        assert delivered.ok
        task = await world.client("jsonrpc-1.0", agent="acme/two").get(task_id)
        metadata = task["artifacts"][-1]["metadata"]
        assert metadata == {"source": "queued-reply", "channel": "a2a"} | (
            {"to": how["to"]} if "to" in how else {}
        )


@pytest.mark.parametrize("thread_id", ["", " ", None, 7])
async def test_i14_a_thread_is_needed(thread_id: object) -> None:
    delivered = await Channel({}).deliver_queued_reply(HELLO, thread_id=thread_id)
    assert delivered.error.startswith("A2A_QUEUED_REPLY_TASK_REQUIRED: ")


async def test_i14_which_account_is_not_guessed() -> None:
    async with open_world(agents=TWO) as world:
        task_id = await task_of(world, "acme/two")
        channel = world.gateway.channel
        assert await channel.deliver_queued_reply(HELLO, thread_id=task_id) == Delivered(
            ok=False,
            error="A2A_QUEUED_REPLY_ACCOUNT_NOT_RUNNING: queued A2A protocol reply could not "
            "resolve a running inbound account.",
        )
        other = await channel.deliver_queued_reply(HELLO, thread_id=task_id, account_id="three")
        assert other.error == (
            'A2A_QUEUED_REPLY_ACCOUNT_NOT_RUNNING: inbound A2A account "three" is not running.'
        )
        # The task of one account is unknown to the other.
        wrong = await channel.deliver_queued_reply(HELLO, thread_id=task_id, account_id="one")
        assert "A2A_QUEUED_REPLY_TASK_NOT_FOUND" in wrong.error
