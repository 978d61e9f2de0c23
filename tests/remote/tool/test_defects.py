"""The outbound rows of the defects to beat. D3 and D12 are in test_o8_limits."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.remote.tool.world import (
    HELLO,
    SUPPORT,
    World,
    artifact,
    card,
    document,
    made,
    message,
    moved,
    supported,
    target,
    task,
)

from trunkline.model.values import Role, TaskState
from trunkline.protocol.v03 import V03
from trunkline.remote.errors import PeerUnreachable

COMPLETED, WORKING = TaskState.COMPLETED, TaskState.WORKING


@pytest.mark.parametrize("given", [{}, {"accepted_output_modes": []}])
async def test_d2_no_wish_for_output_modes_is_not_a_wish_for_none(given: dict[str, Any]) -> None:
    """An empty list could be read as "nothing will do"; it is not sent at all."""
    world = supported(send=message("hi"))
    await world(action="send", parts=HELLO, **given)
    wire = msgspec.json.decode(msgspec.json.encode(world.peers.sent()))
    assert "acceptedOutputModes" not in wire["configuration"]


async def test_d13_a_peer_that_comes_up_is_seen() -> None:
    world = World()
    world.peers.says(SUPPORT, "card", PeerUnreachable("down"), card())
    down = await world(action="list_targets")
    assert down["summary"]["targets"][0]["last_refresh_error"]["message"] == "down"
    up = await world(action="list_targets")
    assert "last_refresh_error" not in up["summary"]["targets"][0]
    assert up["summary"]["targets"][0]["target_name"] == "Support Agent"


async def test_d13_a_send_that_failed_is_not_remembered() -> None:
    world = World()
    world.peers.says(SUPPORT, "card", PeerUnreachable("down"), card())
    world.peers.says(SUPPORT, "send", message("hi"))
    assert not (await world(action="send", parts=HELLO))["ok"]
    assert (await world(action="send", parts=HELLO))["ok"]


async def test_d14_card_path_and_transports_of_the_configuration_hold_for_its_url() -> None:
    world = World(document(target(cardPath="/mine.json", preferredTransports=["HTTP+JSON"])))
    world.peers.says(SUPPORT, "card", card())
    world.peers.says(SUPPORT, "send", message("hi", context_id="c"))
    result = await world(action="send", parts=HELLO, target_url="https://support.example")
    for asked in world.peers.asked:
        assert (asked.target.card_path, asked.target.transports) == ("/mine.json", ("HTTP+JSON",))
    assert result["summary"]["continuation"]["target"] == {
        "target_url": SUPPORT,
        "card_path": "/mine.json",
        "preferred_transports": ["HTTP+JSON"],
        "target_alias": "support",
    }


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_d15_the_text_is_the_answer_and_not_the_question(is_streamed: bool) -> None:
    history = (message("hello", role=Role.USER), message("old status"))
    answer = task(COMPLETED, history=history, artifacts=(artifact("The answer"),))
    world = supported(**({"stream": [answer]} if is_streamed else {"send": answer}))
    result = await world(action="send", parts=HELLO, follow_updates=is_streamed)
    assert result["summary"]["message_text"] == "The answer"


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_d16_why_a_task_failed_is_told_beside_what_it_made(is_streamed: bool) -> None:
    failed = TaskState.FAILED
    world = supported(
        send=task(failed, said="out of memory", artifacts=(artifact("half"),)),
        stream=[task(WORKING), made(artifact("half")), moved(failed, "out of memory")],
    )
    result = await world(action="send", parts=HELLO, follow_updates=is_streamed)
    assert result["summary"]["message_text"] == "half\n\nout of memory"
    assert result["summary"]["continuation"]["task"]["status"] == "failed"


async def test_d7_a_stream_that_stays_open_after_its_end_keeps_nobody() -> None:
    world = supported(stream=[task(WORKING), moved(COMPLETED), asyncio.Event()])
    result = await world(action="send", parts=HELLO, follow_updates=True)
    assert result["summary"]["continuation"]["task"]["status"] == "completed"


async def test_the_raw_answer_is_what_a_peer_of_0_3_would_have_said() -> None:
    answer = task(COMPLETED, said="done", artifacts=(artifact("x"),))
    result = await supported(send=answer)(action="send", parts=HELLO)
    assert result["raw"] == msgspec.json.decode(
        b"".join(V03.sent_task(msgspec.json.encode(answer)))
    )
