"""What adapters of frameworks have in common: names of conversations, and the message as text."""

import hashlib
from collections import OrderedDict
from typing import Any, Final

import msgspec
from msgspec import UNSET

from trunkline.backends.python.turn import Turn
from trunkline.model.values import Message, Part

# Paused runs and conversations that are held in memory; then the oldest are forgotten.
MOST_IN_MEMORY: Final = 1000


def conversation_id(turn: Turn) -> str:
    """Names the conversation, so that no two callers ever share one.

    Callers choose their context ids, so two may choose the same.
    """
    owner = msgspec.json.encode([turn.session_key, turn.tenant, turn.principal])
    return f"{turn.context_id}-{hashlib.sha256(owner).hexdigest()[:16]}"


def user_id(turn: Turn) -> str:
    return f"{turn.tenant}/{turn.principal}" if turn.tenant else turn.principal


def told(parts: tuple[Part, ...]) -> str:
    """The text of a message; data as JSON, files by name."""
    return "\n\n".join(_told(part) for part in parts)


def _told(part: Part) -> str:
    if part.text is not None:
        return part.text
    if part.data is not UNSET:
        return msgspec.json.encode(part.data).decode()
    return part.url or f"[{part.filename or part.media_type or 'a file'}]"


def value_of(turn: Turn) -> Any:
    """The answer of the caller: the data if there are any, else the text."""
    return turn.data[0] if turn.data else turn.text


async def earlier(turn: Turn, *, limit: int = 100) -> tuple[Message, ...]:
    """Messages before this one, in earlier tasks of the conversation and in this task."""
    return (*await turn.transcript(limit=limit), *turn.history)


def plain(value: Any) -> Any:
    """The value as JSON can say it; what JSON cannot is told by its text."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        value = dump(mode="json")
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=str))


class Recent(OrderedDict[str, Any]):
    """The newest entries; `put` says which one had to go."""

    def put(self, key: str, value: Any) -> str | None:
        self[key] = value
        self.move_to_end(key)
        return self.popitem(last=False)[0] if len(self) > MOST_IN_MEMORY else None
