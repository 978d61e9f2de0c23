"""One turn of an agent without a gateway: its request, its session, and its answer as text."""

from typing import Any

from trunkline.engine.agent_message import AgentMessage
from trunkline.engine.session import msg_context
from trunkline.model.outputs import ArtifactEmitted, DirectReply, Final, Output, StageStarted
from trunkline.model.profile import Profile
from trunkline.model.session import Delivered, MsgContext, Peer, ReplyPayload
from trunkline.model.values import Message, Part, Role, text_of
from trunkline.ports.backend import Backend, TurnRequest
from trunkline.ports.session_entries import SessionRef
from trunkline.ports.store import Scope


def turn_request(*content: str | Part, **changes: Any) -> TurnRequest:
    """A first turn with this content; `changes` set any other field of the request."""
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
        # The agent answers in its own artifacts.
        return "\n".join(shown.values())
    return next((text for text in reversed(texts) if text.strip()), texts[-1])


class FakeSession:
    """A conversation in memory: its transcript, the notes of the agent and its follow-ups."""

    def __init__(self, *told: Message, key: str = "agent:test:a2a:context-1") -> None:
        self.key = key
        self.bound_key = ""
        self.ref = SessionRef(Scope("test/agent", "", "tester"), "context-1")
        self.told = list(told)
        self.follow_ups: list[ReplyPayload] = []
        self.notes: dict[str, str] = {}

    def say(self, text: str, *, role: Role = Role.USER) -> None:
        """Add a message to the transcript."""
        number = len(self.told) + 1
        self.told.append(Message(message_id=f"told-{number}", role=role, parts=(Part(text=text),)))

    def context(self) -> MsgContext:
        peer = Peer(
            principal="tester", agent_id="test", account_id="test/agent", context_id="context-1"
        )
        empty = Message(message_id="message-1", role=Role.USER, parts=(Part(text=""),))
        last = self.told[-1] if self.told else empty
        return msg_context(Profile(), peer, last, now_ms=0)

    async def transcript(self, *, limit: int = 100) -> tuple[Message, ...]:
        return tuple(self.told[-limit:]) if limit > 0 else ()

    async def recall(self, name: str) -> str | None:
        return self.notes.get(name)

    async def keep(self, name: str, text: str) -> None:
        if text:
            self.notes[name] = text
        else:
            self.notes.pop(name, None)

    async def follow_up(self, payload: ReplyPayload) -> Delivered:
        self.follow_ups.append(payload)
        return Delivered(ok=True, message_id=f"queued-reply-{len(self.follow_ups)}")
