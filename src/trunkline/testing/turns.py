"""Turns to try an agent with."""

from typing import Any

from trunkline.engine.agent_message import AgentMessage
from trunkline.model.outputs import ArtifactEmitted, DirectReply, Final, Output, StageStarted
from trunkline.model.values import Message, Part, Role, text_of
from trunkline.ports.backend import Backend, TurnRequest


def turn_request(*content: str | Part, **changes: Any) -> TurnRequest:
    """A first turn with such a message; any field of the request can be named too."""
    parts = tuple(Part(text=item) if isinstance(item, str) else item for item in content)
    fields: dict[str, Any] = {
        "run_id": "run-1",
        "agent": "test/agent",
        "task_id": "task-1",
        "context_id": "context-1",
        "message": Message(message_id="message-1", role=Role.USER, parts=parts or (Part(text=""),)),
        "principal": "tester",
    }
    return TurnRequest(**(fields | changes))


async def run_turn(backend: Backend, turn: TurnRequest) -> list[Output]:
    """Everything that the agent emits in the turn."""
    return [output async for output in backend.start(turn)]


def answer_text(outputs: list[Output]) -> str:
    """The answer as text, the way the runtime reads outputs: the newest message with any."""
    stages = [AgentMessage()]
    shown: dict[str, str] = {}
    for output in outputs:
        match output:
            case StageStarted():
                stages.append(AgentMessage())
            case Final(parts) | DirectReply(parts) if parts:
                stages[-1].complete(parts)
            case ArtifactEmitted(artifact=artifact):
                shown[artifact.artifact_id] = (
                    shown.get(artifact.artifact_id, "") if output.append else ""
                ) + text_of(artifact.parts)
            case _:
                stages[-1].hear(output)
    texts = [text_of(stage.content()) for stage in stages]
    if shown and not any(text.strip() for text in texts):
        # An agent that answers in artifacts of its own.
        return "\n".join(shown.values())
    return next((text for text in reversed(texts) if text.strip()), texts[-1])
