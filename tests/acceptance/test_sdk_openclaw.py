"""The client of a2a-sdk against an agent of the preset `openclaw-inbound` (inbound.md I-6)."""

from collections.abc import AsyncIterator

import a2a.types.a2a_pb2 as a2a
import pytest
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError
from tests.acceptance.conftest import Make
from tests.acceptance.gateway import Gateway
from tests.acceptance.sdk import Peer, connect, text_of

AGENTS = """
[agents."test/claw"]
name = "Claw"
profile = "openclaw-inbound"
agent_style = "task-generating"
backend = { kind = "scripted" }
"""


@pytest.fixture(scope="module")
def gateway(gateways: Make) -> Gateway:
    return gateways(agents=AGENTS).start()


@pytest.fixture
async def claw(gateway: Gateway) -> AsyncIterator[Peer]:
    async with connect(gateway, "jsonrpc", "0.3") as peer:
        yield peer
        assert peer.spoken() == {("jsonrpc", "0.3")}


async def test_i6_send_stream_get_cancel_and_resubscribe(claw: Peer) -> None:
    assert claw.card.name == "Claw"
    assert {each.protocol_version for each in claw.card.supported_interfaces} == {"0.3.0"}

    sent = await claw.send("say all is well")
    assert sent.status.state == a2a.TASK_STATE_COMPLETED
    assert text_of(sent) == "all is well"
    assert (await claw.get(sent.id, history_length=1)).history[-1].role == a2a.ROLE_AGENT

    streamed = [event async for event in claw.stream("stream 3")]
    assert streamed[0].HasField("task")
    assert streamed[-1].status_update.status.state == a2a.TASK_STATE_COMPLETED

    running = await claw.send("hang", return_immediately=True)
    followed = claw.subscribe(running.id)
    assert (await anext(followed)).task.id == running.id
    canceled = await claw.cancel(running.id)
    assert canceled.status.state == a2a.TASK_STATE_CANCELED
    rest = [event async for event in followed]
    assert rest[-1].status_update.status.state == a2a.TASK_STATE_CANCELED


async def test_i6_errors_are_those_that_a_client_knows(claw: Peer) -> None:
    with pytest.raises(TaskNotFoundError, match="Task not found: nobody"):
        await claw.get("nobody")
    with pytest.raises(TaskNotFoundError, match="Task not found: nobody"):
        await claw.cancel("nobody")
    file = a2a.Part(url="https://example.com/a.png", media_type="image/png")
    with pytest.raises(InvalidParamsError, match=r"message\.parts\[0\]\.kind=file"):
        await claw.send(file)


async def test_i6_a_message_of_nothing_is_answered_with_a_message(claw: Peer) -> None:
    answer = await claw.answer(" ")
    assert "did not contain any supported text or data parts" in answer.message.parts[0].text
