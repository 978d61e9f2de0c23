"""A conversation to try an agent with."""

from trunkline.engine.session import msg_context
from trunkline.model.profile import Profile
from trunkline.model.session import Delivered, MsgContext, Peer, ReplyPayload
from trunkline.model.values import Message, Part, Role


class FakeSession:
    """Holds what was said before, and keeps what the agent keeps, and its follow-ups."""

    def __init__(self, *told: Message, key: str = "agent:test:a2a:context-1") -> None:
        self.key = key
        self.bound_key = ""
        self.told = list(told)
        self.follow_ups: list[ReplyPayload] = []
        self.notes: dict[str, str] = {}

    def say(self, text: str, *, role: Role = Role.USER) -> None:
        """Somebody said this before."""
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
