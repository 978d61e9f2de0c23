"""`V1Connection` on a wire in memory; the test is the agent."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.relay.wire import TextEnd

from trunkline.background import BackgroundTasks
from trunkline.model.errors import (
    AgentLost,
    InvalidAgentResponse,
    InvalidParams,
    TaskNotCancelable,
    Unavailable,
)
from trunkline.protocol.relay.close_codes import BAD_FRAME
from trunkline.protocol.relay.v1.relay_session import V1RelaySession
from trunkline.relay.v1.connection import AgentRefused, AnsweredTooLate, V1Connection
from trunkline.testing import settle


class World:
    def __init__(self) -> None:
        self.tasks = BackgroundTasks("test")
        self.agent, relay = TextEnd(), TextEnd()
        self.agent.other, relay.other = relay, self.agent
        self.connection = V1Connection(relay, V1RelaySession(prefix="p"))
        self.serving = self.tasks.start(self.connection.serve(), name="serve")

    def call(self, **options: Any) -> "asyncio.Task[bytes]":
        return self.tasks.start(self.connection.call("tasks/get", b"{}", **options), name="call")

    async def request(self) -> Any:
        return json.loads(await self.agent.receive())["payload"]

    async def answer(self, **payload: Any) -> None:
        request = await self.request()
        await self.tell(type="a2a.response", payload={"id": request["id"], **payload})

    async def tell(self, **frame: Any) -> None:
        await self.agent.send(json.dumps(frame))
        await settle()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    world.connection.begin()
    yield world
    await world.agent.close()
    await settle()
    await world.tasks.close()


async def test_nothing_is_sent_before_the_agent_was_greeted() -> None:
    world = World()
    call = world.call()
    await settle()
    world.agent.room = 0
    assert not call.done()
    world.connection.begin()
    world.agent.room = 10
    await world.answer(result=7)
    assert await call == b"7"
    await world.tasks.close()


async def test_a_call_ends_at_its_time_and_the_late_answer_is_for_no_other(world: World) -> None:
    late = world.call(within_s=0.01)
    request = await world.request()
    with pytest.raises(AnsweredTooLate, match="may still do"):
        await late
    next_call = world.call()
    await settle()
    await world.tell(type="a2a.response", payload={"id": request["id"], "result": "late"})
    assert not next_call.done()
    await world.answer(result="right")
    assert await next_call == b'"right"'


async def test_calls_fail_when_the_connection_ends(world: World) -> None:
    calls = [world.call() for _ in range(3)]
    await settle()
    await world.agent.close()
    for call in calls:
        with pytest.raises(AgentLost, match="may have acted"):
            await call
    with pytest.raises(Unavailable, match="did not get"):
        await world.connection.call("tasks/get", b"{}")


async def test_garbage_ends_the_connection(world: World) -> None:
    call = world.call()
    await settle()
    await world.agent.send("garbage")
    with pytest.raises(AgentLost):
        await call
    assert (await world.serving).code == BAD_FRAME


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (-32002, TaskNotCancelable),
        (-32602, InvalidParams),
        (-32603, InvalidAgentResponse),
        (7, InvalidAgentResponse),
    ],
)
async def test_an_error_of_the_agent_keeps_its_text(
    world: World, code: int, kind: type[Exception]
) -> None:
    call = world.call()
    await settle()
    await world.answer(error={"code": code, "message": "not that one"})
    with pytest.raises(AgentRefused) as refused:
        await call
    assert isinstance(refused.value.as_error(), kind)
    assert "not that one" in refused.value.as_error().message


async def test_a_ping_is_answered_between_others(world: World) -> None:
    await world.tell(type="ping")
    assert json.loads(await world.agent.receive()) == {"type": "pong"}
