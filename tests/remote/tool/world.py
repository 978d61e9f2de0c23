"""A tool with scripted peers, a clock to turn by hand and readable ids."""

from typing import Any

from tests.remote.tool.peers import Peers

from trunkline.model.card import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from trunkline.model.values import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.remote.tool import Handles, MemoryHandles, RemoteAgentTool, ToolConfig, parse_config
from trunkline.testing import FakeClock, SequentialIds

SUPPORT = "https://support.example/"
BILLING = "https://billing.example/"
STRANGER = "https://stranger.example/"
CARD_PATH = "/.well-known/agent-card.json"
TRANSPORTS = ["JSONRPC", "HTTP+JSON"]

TARGET_JSON = {
    "target_url": SUPPORT,
    "card_path": CARD_PATH,
    "preferred_transports": TRANSPORTS,
    "target_alias": "support",
}
HELLO = [{"kind": "text", "text": "hello"}]


def target(alias: str = "support", url: str = SUPPORT, **more: Any) -> dict[str, Any]:
    return {"alias": alias, "baseUrl": url, **more}


def document(*targets: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The plugin's configuration, with `support` as default unless targets are given."""
    return {"enabled": True, "targets": list(targets) or [target(default=True)], **more}


class World:
    """`await world(action="send", …)` calls the tool."""

    def __init__(
        self,
        config: dict[str, Any] | ToolConfig | None = None,
        *,
        peers: Peers | None = None,
        handles: Handles | None = None,
        clock: FakeClock | None = None,
    ) -> None:
        self.peers = Peers() if peers is None else peers
        self.clock = clock or FakeClock()
        self.handles = handles or MemoryHandles()
        self.updates: list[dict[str, Any]] = []
        self.tool = RemoteAgentTool(
            config
            if isinstance(config, ToolConfig)
            else parse_config(document() if config is None else config),
            peers=self.peers,
            handles=self.handles,
            clock=self.clock,
            ids=SequentialIds(),
        )

    async def __call__(self, *, signal: Any = None, **request: Any) -> dict[str, Any]:
        return await self.tool(request, on_update=self.updates.append, signal=signal)


def supported(**answers: Any) -> World:
    """A world whose `support` has a card and gives these answers, one per method."""
    world = World()
    world.peers.says(SUPPORT, "card", answers.pop("card", card()))
    for method, answer in answers.items():
        world.peers.says(SUPPORT, method, answer)
    return world


def card(
    name: str = "Support Agent",
    *,
    url: str = SUPPORT,
    streaming: bool | None = True,
    skills: tuple[AgentSkill, ...] = (),
    input_modes: tuple[str, ...] = ("text/plain",),
    output_modes: tuple[str, ...] = ("text/plain",),
) -> AgentCard:
    return AgentCard(
        name=name,
        description="Answers questions.",
        supported_interfaces=(
            AgentInterface(
                url=f"{url}a2a/jsonrpc", protocol_binding="JSONRPC", protocol_version="1.0"
            ),
        ),
        version="1",
        capabilities=AgentCapabilities(streaming=streaming),
        default_input_modes=input_modes,
        default_output_modes=output_modes,
        skills=skills,
    )


def skill(id: str, name: str = "", **more: Any) -> AgentSkill:
    return AgentSkill(id=id, name=name or id, description="", tags=(), **more)


def text(*words: str) -> tuple[Part, ...]:
    return tuple([Part(text=word) for word in words])


def message(*words: str, role: Role = Role.AGENT, **more: Any) -> Message:
    return Message(message_id=more.pop("message_id", "m-1"), role=role, parts=text(*words), **more)


def status(state: TaskState = TaskState.WORKING, said: str = "") -> TaskStatus:
    return TaskStatus(state=state, message=message(said) if said else None)


def task(state: TaskState = TaskState.COMPLETED, *, said: str = "", **more: Any) -> Task:
    return Task(
        id=more.pop("id", "task-1"),
        context_id=more.pop("context_id", "ctx-1"),
        status=status(state, said),
        **more,
    )


def artifact(*words: str, id: str = "a-1", **more: Any) -> Artifact:
    return Artifact(artifact_id=id, parts=text(*words), **more)


def moved(state: TaskState, said: str = "", task_id: str = "task-1") -> TaskStatusUpdateEvent:
    return TaskStatusUpdateEvent(task_id=task_id, context_id="ctx-1", status=status(state, said))


def made(artifact: Artifact, *, append: bool = False) -> TaskArtifactUpdateEvent:
    return TaskArtifactUpdateEvent(
        task_id="task-1", context_id="ctx-1", artifact=artifact, append=append
    )


def continuation(**more: Any) -> dict[str, Any]:
    return {"target": dict(TARGET_JSON), **more}


def errors_of(envelope: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Keyword, path and message of every validation error."""
    assert envelope["error"]["code"] == "VALIDATION_ERROR", envelope
    assert envelope["error"]["message"] == "remote_agent input validation failed"
    details = envelope["error"]["details"]
    assert (details["source"], details["tool"]) == ("ajv", "remote_agent")
    return [(one["keyword"], one["instancePath"], one["message"]) for one in details["errors"]]
