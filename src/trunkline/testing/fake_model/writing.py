"""`Writer`: the parts that the three forms of an answer have in common."""

from abc import ABC, abstractmethod
from typing import Any

import msgspec

from trunkline.protocol.sse import frame
from trunkline.testing.fake_model.script import CallTool


class Writer(ABC):
    """One answer in one form. Each method returns the bytes to send now.

    `Answering` adds a piece to `text`, `thought` or `calls` before it asks for the bytes of the
    piece.
    """

    def __init__(self, number: int, body: dict[str, Any]) -> None:
        """`number` counts the requests of the server; `body` is that of this one."""
        self._number = number
        self._body = body
        self._model = str(body.get("model", ""))
        self.text = ""
        self.thought = ""
        self.calls: list[CallTool] = []
        self._prompt_tokens = tokens(body)

    @property
    def _completion_tokens(self) -> int:
        return len(self.text.split()) + len(self.thought.split()) + len(self.calls)

    @abstractmethod
    def begin(self) -> bytes: ...
    @abstractmethod
    def say(self, piece: str) -> bytes: ...
    @abstractmethod
    def think(self, piece: str) -> bytes: ...
    @abstractmethod
    def call(self, call: CallTool) -> bytes: ...
    @abstractmethod
    def end(self, reason: str) -> bytes: ...
    @abstractmethod
    def error(self, text: str) -> bytes: ...
    @abstractmethod
    def entire(self, reason: str) -> bytes:
        """All of it as one JSON value, in place of a stream."""


def data(value: Any, *, event: str = "") -> bytes:
    return frame(msgspec.json.encode(value), event=event)


def arguments(call: CallTool) -> str:
    return msgspec.json.encode(call.arguments).decode()


def tokens(body: Any) -> int:
    """A rough count: about four bytes are a token."""
    return len(msgspec.json.encode(body)) // 4 + 1
