"""What the three forms of an answer have in common."""

from typing import Any, Protocol

import msgspec
from msgspec import Struct, field

from trunkline.protocol.sse import frame
from trunkline.testing.fake_model.script import CallTool


class Whole(Struct):
    """An answer put together: what a client gets that wants no stream."""

    text: str = ""
    thought: str = ""
    calls: list[CallTool] = field(default_factory=list)
    prompt_tokens: int = 0

    @property
    def completion_tokens(self) -> int:
        return len(self.text.split()) + len(self.thought.split()) + len(self.calls)


class Writer(Protocol):
    """One answer in one form. Each method gives the bytes to send now.

    The server keeps `whole` up to date before it asks for the bytes of a piece.
    """

    def begin(self) -> bytes: ...
    def say(self, piece: str) -> bytes: ...
    def think(self, piece: str) -> bytes: ...
    def call(self, call: CallTool) -> bytes: ...
    def end(self, reason: str) -> bytes: ...
    def error(self, text: str) -> bytes: ...
    def entire(self, reason: str) -> bytes:
        """All of it as one JSON value, in place of a stream."""
        ...


def data(value: Any, *, event: str = "") -> bytes:
    return frame(msgspec.json.encode(value), event=event)


def arguments(call: CallTool) -> str:
    return msgspec.json.encode(call.arguments).decode()
