"""The common part of the adapters: names of conversations, messages as text, and `EventReading`."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from trunkline.backends import model_content
from trunkline.backends.python.turn import Turn
from trunkline.model.outputs import Output, StageStarted, Text, ToolCalled
from trunkline.model.values import Message, Part

# Maximum of paused runs and of conversations in memory; beyond it, the oldest are dropped.
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
    """The text of a message; data as JSON, files by link or name."""
    return model_content.told(parts, with_links=True)


def value_of(turn: Turn) -> Any:
    """The answer of the caller: the data if there are any, else the text."""
    return turn.data[0] if turn.data else turn.text


async def earlier(turn: Turn, *, limit: int = 100) -> tuple[Message, ...]:
    """Messages before this one, in earlier tasks of the conversation and in this task."""
    return (*await turn.transcript(limit=limit), *turn.history)


def plain(value: Any) -> Any:
    """The value as plain JSON; anything that JSON cannot express becomes its `str`."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        value = dump(mode="json")
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=str))


def usage_of(tokens: Sequence[int]) -> dict[str, Any]:
    """The metadata for the tokens of the prompts, of the answers and of both."""
    names = ("inputTokens", "outputTokens", "totalTokens")
    return {"usage": dict(zip(names, tokens, strict=True))}


class EventReading:
    """The events of one run of a framework as outputs; each framework has a subclass."""

    def __init__(self) -> None:
        self.has_spoken = False
        # The tool of each call that the run began, by the id of the call.
        self._begun: dict[str, str] = {}
        self._tokens = [0, 0, 0]

    def _say(self, text: str, *, is_apart: bool) -> list[Output]:
        """`is_apart`: whether the text begins another message than the text before it."""
        if not text:
            return []
        stage = [StageStarted()] if is_apart and self.has_spoken else []
        self.has_spoken = True
        return [*stage, Text(text)]

    def _call(self, call_id: str, name: str, arguments: Any) -> Output:
        self._begun[call_id] = name
        return ToolCalled(call_id=call_id, name=name, phase="start", data=plain(arguments))

    def _result(self, call_id: str, data: Any, *, is_error: bool) -> list[Output]:
        """No output for a call that an earlier run began."""
        if (name := self._begun.get(call_id)) is None:
            return []
        result = plain(data)
        return [
            ToolCalled(call_id=call_id, name=name, phase="result", data=result, is_error=is_error)
        ]

    def _count(self, *tokens: int | None) -> None:
        counts = zip(self._tokens, tokens, strict=True)
        self._tokens = [so_far + int(more or 0) for so_far, more in counts]

    def usage(self) -> dict[str, Any] | None:
        return usage_of(self._tokens) if any(self._tokens) else None


class Recent(OrderedDict[str, Any]):
    """The newest entries; `put` returns the key of an entry that it dropped."""

    def put(self, key: str, value: Any) -> str | None:
        self[key] = value
        self.move_to_end(key)
        return self.popitem(last=False)[0] if len(self) > MOST_IN_MEMORY else None
