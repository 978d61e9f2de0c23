"""One answer of the model, put together from its pieces."""

from typing import Any, Final

import msgspec
from msgspec import Struct

from trunkline.backends.openai.wire import CallPiece, Choice, Chunk, Said, Usage, usage_of

_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"


class Thoughts:
    """Removes the thoughts between `<think>` tags from text that streams."""

    def __init__(self) -> None:
        # Text that may still turn out to be a tag.
        self._held = ""
        self._is_thinking = False
        self._is_past = False
        # The blanks between thoughts and answer belong to neither.
        self._trims = False

    def feed(self, text: str) -> str:
        if self._is_past:
            return self._trimmed(text) if self._trims else text
        self._held += text
        if not self._is_thinking and self._begins_the_answer():
            self._is_past = True
            return self._released()
        if not self._is_thinking:
            return ""
        _, closes, rest = self._held.partition(_CLOSE)
        if not closes:
            # Keep only the last characters: they may be the beginning of the closing tag.
            self._held = self._held[-(len(_CLOSE) - 1) :]
            return ""
        self._held, self._is_past, self._trims = "", True, True
        return self._trimmed(rest)

    def end(self) -> str:
        """The rest at the end of the stream, unless it belongs to a tag that was never closed."""
        return "" if self._is_thinking else self._released()

    def _begins_the_answer(self) -> bool:
        """False for a thought, and as long as the text may become one."""
        start = self._held.lstrip()
        if start.startswith(_OPEN):
            self._is_thinking = True
            self._held = start[len(_OPEN) :]
            return False
        return not _OPEN.startswith(start)

    def _released(self) -> str:
        held, self._held = self._held, ""
        return held

    def _trimmed(self, text: str) -> str:
        rest = text.lstrip()
        self._trims = not rest
        return rest


# Estimated size of a call without its arguments.
_CALL_BYTES: Final = 100


class ModelCall(Struct, frozen=True):
    """A call of a tool. `arguments` is the JSON that the model wrote, as text."""

    id: str
    name: str
    arguments: str


class TooLarge(Exception):
    """The answer has grown beyond its limit."""


class Answer:
    """Feed it chunks; `feed` gives the text that is new. Raises TooLarge."""

    def __init__(self, *, max_bytes: int) -> None:
        self.finish_reason = ""
        self.usage = Usage()
        self.refusal = ""
        self._max_bytes = max_bytes
        self._size = 0
        self._texts: list[str] = []
        self._calls: dict[int, _CallFold] = {}
        self._thoughts = Thoughts()

    @property
    def text(self) -> str:
        return "".join(self._texts)

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        folds = sorted(self._calls.items())
        return tuple(fold.done(index) for index, fold in folds if fold.name)

    @property
    def is_complete(self) -> bool:
        """Whether the server gave a reason for the end of the answer."""
        return bool(self.finish_reason)

    def feed(self, chunk: Chunk) -> str:
        if chunk.usage is not None:
            # Some servers repeat the sum so far with every piece.
            self.usage = usage_of(chunk.usage)
        # Requests never ask for several choices.
        return self._take(chunk.choices[0]) if chunk.choices else ""

    def end(self) -> str:
        """The text that was held back, at the end of the stream."""
        return self._say(self._thoughts.end())

    def as_message(self) -> dict[str, Any]:
        """The answer as a message of the next request, which carries the results of the tools."""
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in self.calls
        ]
        return {"role": "assistant", "content": self.text or None, "tool_calls": calls}

    def _take(self, choice: Choice) -> str:
        self.finish_reason = choice.finish_reason or self.finish_reason
        said = choice.delta or choice.message
        if said is None:
            return ""
        if said.refusal:
            self._grow(len(said.refusal))
            self.refusal += said.refusal
        for piece in said.tool_calls or ():
            self._take_call(piece)
        return self._say(self._thoughts.feed(_text(said)))

    def _say(self, text: str) -> str:
        self._grow(len(text))
        if text:
            self._texts.append(text)
        return text

    def _take_call(self, piece: CallPiece) -> None:
        index = piece.index
        if index is None:
            # Without an index, a piece with a name begins a call and one without continues it.
            is_new = not self._calls or bool(piece.function and piece.function.name)
            index = len(self._calls) - (0 if is_new else 1)
        fold = self._calls.get(index)
        if fold is None:
            self._grow(_CALL_BYTES)
            fold = self._calls[index] = _CallFold()
        self._grow(fold.feed(piece))

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > self._max_bytes:
            raise TooLarge


class _CallFold:
    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self._arguments: list[str] = []

    def feed(self, piece: CallPiece) -> int:
        """Returns how much it grew."""
        self.id = self.id or piece.id or ""
        if piece.function is None:
            return 0
        self.name = self.name or piece.function.name or ""
        given = piece.function.arguments
        if given is not None and not isinstance(given, str):
            given = msgspec.json.encode(given).decode()
        self._arguments.append(given or "")
        return len(given or "")

    def done(self, index: int) -> ModelCall:
        return ModelCall(self.id or f"call_{index}", self.name, "".join(self._arguments) or "{}")


def _text(said: Said) -> str:
    if isinstance(said.content, str):
        return said.content
    parts = said.content if isinstance(said.content, list) else []
    # Parts of other kinds are thoughts.
    texts = [p.get("text") for p in parts if isinstance(p, dict) and p.get("type") == "text"]
    return "".join(text for text in texts if isinstance(text, str))
