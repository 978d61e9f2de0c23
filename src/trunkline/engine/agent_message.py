"""`AgentMessage`: one message of an agent, assembled from pieces, blocks or the complete text.

An agent streams its text in pieces, sends it in blocks, sends it complete at the end, or does
several of these at once. At the end the complete text takes precedence over streamed text, and
streamed text over blocks; before the end, streamed text takes precedence over both.
"""

from msgspec import Struct

from trunkline.model.outputs import Block, Output, StageEnded, Text, TextPreview, TextReplaced
from trunkline.model.values import Part

Parts = tuple[Part, ...]


class AgentMessage(Struct, eq=False):
    """The content of a message so far. To add a piece costs the same, however long the text is."""

    _pieces: list[str] = []
    _length: int = 0
    # The streamed text as parts, made on first use.
    _streamed: Parts = ()
    _blocks: list[Part] = []
    _final: Parts = ()
    # Whether the complete text has come. A second complete text begins another message.
    has_final: bool = False
    # Whether the streamed text is more than blanks.
    streams: bool = False

    def hear(self, output: Output) -> None:
        """Take one output that belongs to a message; ignore any other."""
        match output:
            case Text():
                self.add(output.delta)
            case TextPreview():
                self.add(self.rest_of(output.text))
            case TextReplaced():
                self.replace(output.text)
            case Block():
                self.add_block(output.parts)
            case StageEnded():
                self.complete(output.parts)
            case _:
                pass

    def add(self, delta: str) -> None:
        self._pieces.append(delta)
        self._length += len(delta)
        self._streamed = ()
        if not self.streams:
            self.streams = not is_blank(delta)

    def replace(self, text: str) -> None:
        self._pieces = [text]
        self._length = len(text)
        self._streamed = ()
        self.streams = not is_blank(text)

    def add_block(self, parts: Parts) -> Parts:
        """Add the parts that have content. Returns them as they follow the blocks before them."""
        before = len(self._blocks)
        for part in parts:
            if part.text is None or not is_blank(part.text):
                follows_text = self._blocks and self._blocks[-1].is_bare_text
                if follows_text and part.is_bare_text:
                    part = Part(text=f"\n\n{part.text}")
                self._blocks.append(part)
        return tuple(self._blocks[before:])

    def complete(self, parts: Parts) -> None:
        self.has_final = True
        self._final = parts

    @property
    def is_active(self) -> bool:
        """Whether the message has content."""
        return self.streams or bool(self._blocks) or has_content(self._final)

    def rest_of(self, preview: str) -> str:
        """The new part of a text that may repeat everything streamed before it."""
        # A shorter text cannot repeat it, so the comparison costs no more than the text itself.
        if self._length and len(preview) >= self._length and preview.startswith(self.text):
            return preview[self._length :]
        return preview

    @property
    def text(self) -> str:
        """The text streamed so far."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    @property
    def blocks(self) -> Parts:
        """The blocks so far, with adjacent bare texts joined."""
        if len(self._blocks) > 1:
            merged: list[list[Part]] = []
            for part in self._blocks:
                if merged and part.is_bare_text and merged[-1][-1].is_bare_text:
                    merged[-1].append(part)
                else:
                    merged.append([part])
            self._blocks = [_joined(run) for run in merged]
        return tuple(self._blocks)

    @property
    def streamed(self) -> Parts:
        """The text streamed so far, as parts."""
        if not self._streamed:
            self._streamed = (Part(text=self.text),)
        return self._streamed

    def content(self) -> Parts:
        if self._final and has_content(self._final):
            return self._final
        if self.streams:
            return self.streamed
        # An answer of blanks counts when there is no other content.
        return self.blocks or self._final


def is_blank(text: str) -> bool:
    return not text or text.isspace()


def has_content(parts: Parts) -> bool:
    """Whether the parts hold more than blank text."""
    return any(part.text is None or not is_blank(part.text) for part in parts)


def _joined(parts: list[Part]) -> Part:
    return parts[0] if len(parts) == 1 else Part(text="".join(part.text or "" for part in parts))
