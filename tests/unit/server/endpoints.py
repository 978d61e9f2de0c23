"""An echo agent at an address, with one thing changed."""

from typing import Any

from trunkline.backends.echo.backend import EchoBackend
from trunkline.model.card import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from trunkline.protocol.dialects import dialects_for
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.runtime import Runtime
from trunkline.server.endpoint import Endpoint, Limits
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock, SequentialIds


def card(**changes: Any) -> AgentCard:
    fields: dict[str, Any] = {
        "name": "Echo",
        "description": "Repeats.",
        "supported_interfaces": (
            AgentInterface(url="http://h/a", protocol_binding="JSONRPC", protocol_version="1.0"),
            AgentInterface(url="http://h/a", protocol_binding="JSONRPC", protocol_version="0.3"),
        ),
        "version": "1.0.0",
        "capabilities": AgentCapabilities(streaming=True),
        "default_input_modes": ("text/plain",),
        "default_output_modes": ("text/plain",),
        "skills": (AgentSkill(id="echo", name="Echo", description="Repeats.", tags=("x",)),),
    }
    return AgentCard(**fields | changes)


def endpoint(**changes: Any) -> Endpoint:
    agent = PublishedAgent(handle="acme/echo", backend=EchoBackend())
    runtime = Runtime(store=MemoryStore(), clock=FakeClock(), ids=SequentialIds(), agents=[agent])
    fields: dict[str, Any] = {
        "agent": agent,
        "service": runtime.service,
        "dialects": dialects_for(agent.profile),
        "limits": Limits(),
        "card": card(),
        "card_paths": ("/agent-card.json",),
        "jsonrpc_path": "/rpc",
        "rest_path": "/rest",
    }
    return Endpoint(**fields | changes)
