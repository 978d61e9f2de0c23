"""The commands of operators on calls and sessions, as a running gateway takes them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from trunkline.app import routing_commands as names
from trunkline.app.gateway import build
from trunkline.model.calls import Caller, SendMessageRequest
from trunkline.model.errors import InvalidParams, OperatorRefused, RouteNotFound
from trunkline.model.principal import EVERYTHING, Principal
from trunkline.model.values import Message, Part, Role
from trunkline.server.operator_channel import OperatorCommands
from trunkline.settings import from_document
from trunkline.testing import FakeClock, settle

CODE = """\
from trunkline import agent


@agent
async def asker(turn):
    made = await turn.call("acme/helper", turn.text, wait=False)
    return made["status"]


@agent
async def helper(turn):
    return "about " + turn.text
"""
ASK = {"agent": "acme/helper", "input": "mars", "wait": True}


class Operator(Struct):
    commands: OperatorCommands
    clock: FakeClock

    async def run(self, name: str, **arguments: Any) -> Any:
        return msgspec.to_builtins(await self.commands.run(name, arguments))

    async def key(self, agent: str) -> str:
        (found,) = (await self.run(names.LIST_SESSIONS, agent=agent))["items"]
        return str(found["key"])


@pytest.fixture
async def operator(tmp_path: Path) -> AsyncIterator[Operator]:
    """A gateway in which alice has spoken to two agents."""
    target = tmp_path / "team.py"
    target.write_text(CODE)
    agents: dict[str, Any] = {
        f"acme/{name}": {"backend": {"kind": "python", "target": f"{target}:{name}"}}
        for name in ("asker", "helper")
    }
    agents["acme/echo"] = {"name": "Echo", "backend": {"kind": "echo"}}
    document = {"store": {"kind": "memory"}, "agents": agents}
    clock = FakeClock()
    gateway = build(from_document(document, environment={}), base_url="", clock=clock)
    await gateway.open()
    commands = OperatorCommands()
    names.add_to(commands, gateway.routing.routing)
    for agent in ("acme/asker", "acme/echo"):
        found = gateway.directory.callee(agent)
        assert found is not None
        alice = Principal(id="alice", grants=EVERYTHING)
        message = Message(
            message_id=agent, role=Role.USER, context_id="c1", parts=(Part(text="the moon"),)
        )
        await found.service.send(
            found.agent, Caller(principal=alice), SendMessageRequest(message=message)
        )
    await settle()
    yield Operator(commands, clock)
    await gateway.close()


async def test_calls_and_sessions_of_all_callers_are_shown(operator: Operator) -> None:
    (call,) = (await operator.run(names.LIST_CALLS))["items"]
    assert (call["agent"], call["principal"], call["status"]) == (
        "acme/asker",
        "alice",
        "completed",
    )
    shown = await operator.run(names.SHOW_CALL, id=call["id"])
    assert shown["result"]["output"] == "about the moon"
    listed = await operator.run(names.LIST_SESSIONS, limit=1)
    rest = await operator.run(names.LIST_SESSIONS, after=listed["after"])
    agents = {each["agent"] for each in (*listed["items"], *rest["items"])}
    assert agents == {"acme/asker", "acme/helper", "acme/echo"}
    read = await operator.run(names.READ_SESSION, key=await operator.key("acme/asker"))
    assert [each["role"] for each in read["messages"]] == [
        "ROLE_USER",
        "ROLE_AGENT",
        "ROLE_USER",
    ]


async def test_a_tool_is_used_in_a_session_on_behalf_of_its_caller(operator: Operator) -> None:
    key = await operator.key("acme/asker")
    done = await operator.run(names.USE_TOOL, key=key, tool="agent_call", arguments=ASK)
    assert (done["status"], done["output"]) == ("completed", "about mars")
    last, _ = (await operator.run(names.LIST_CALLS))["items"]
    assert (last["principal"], last["session"]) == ("alice", key)
    wrong = await operator.run(names.USE_TOOL, key=key, tool="agent_call", arguments={"agent": 7})
    assert wrong["error"]["code"] == "validation_failed"
    own = await operator.run(
        names.USE_TOOL, key=key, tool="agent_call", arguments=ASK | {"agent": "acme/asker"}
    )
    assert own["error"]["code"] == "self_call_blocked"


async def test_what_cannot_be_done_is_refused(operator: Operator) -> None:
    key = await operator.key("acme/asker")
    with pytest.raises(OperatorRefused, match="no tool"):
        await operator.run(names.USE_TOOL, key=key, tool="rm", arguments={})
    with pytest.raises(OperatorRefused, match="acme/echo has no tools"):
        await operator.run(
            names.USE_TOOL, key=await operator.key("acme/echo"), tool="agent_call", arguments=ASK
        )
    with pytest.raises(RouteNotFound):
        await operator.run(names.USE_TOOL, key="no-key", tool="agent_call", arguments=ASK)
    with pytest.raises(InvalidParams):
        await operator.run(names.READ_SESSION, key=7)
    with pytest.raises(RouteNotFound):
        await operator.run(names.SHOW_CALL, id="no-call")


async def test_an_operator_ends_the_session_of_a_caller(operator: Operator) -> None:
    key = await operator.key("acme/asker")
    await operator.clock.advance(1)
    assert await operator.run(names.END_SESSION, key=key) == {"discardedCalls": 0}
    with pytest.raises(RouteNotFound):
        await operator.run(names.END_SESSION, key=key)
