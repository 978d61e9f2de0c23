"""`StreamedMessage`: a message of an agent as readers see it grow, in chunks of an artifact or in
messages of the working status."""

from collections.abc import Callable
from enum import Enum

from trunkline.engine.agent_message import AgentMessage, has_content
from trunkline.engine.artifact_styles import ArtifactStyle, Label
from trunkline.engine.decisions import Chunk, Decisions, Metadata, Move, OutputStyle, Parts
from trunkline.engine.transitions import Step
from trunkline.model.values import Artifact, Message, Part


class _Source(Enum):
    """The form of a message that its readers follow while it grows."""

    STREAM = "stream"
    BLOCKS = "blocks"


class StreamedMessage(AgentMessage, kw_only=True, eq=False):
    """Shows the text as it comes, or holds it back until the end, as the style says."""

    style: OutputStyle
    names: ArtifactStyle
    # Makes the next message of the turn.
    message: Callable[[Parts], Message]
    _label: Label | None = None
    _follows: _Source | None = None
    _shown: Parts = ()

    @property
    def shown(self) -> Parts:
        if self._follows is _Source.STREAM:
            return self.streamed
        return self.blocks if self._follows is _Source.BLOCKS else self._shown

    def show_text(self, delta: str) -> Decisions:
        self.add(delta)
        if self._follows is _Source.STREAM:
            return self._more((Part(text=delta),))
        # Blanks alone are not shown; they come with the text that follows.
        return self._follow(_Source.STREAM) if self.streams else ()

    def show_replacement(self, text: str) -> Decisions:
        self._fix(self.shown)
        self.replace(text)
        return self._follow(_Source.STREAM) if self.streams or self.shown else ()

    def show_block(self, parts: Parts) -> Decisions:
        new = self.add_block(parts)
        if not new or self.streams or self.has_final:
            return ()
        return self._more(new) if self._follows is _Source.BLOCKS else self._follow(_Source.BLOCKS)

    def show_whole(self, parts: Parts) -> Decisions:
        self.complete(parts)
        # Streamed text stays in view until the message is closed.
        if self.streams or not has_content(self.content()):
            return ()
        return self._show(self.content())

    def close(self, content: Parts, metadata: Metadata = None) -> Decisions:
        """End the message in its final form, which is `content()`."""
        if self.style.texts.empty_answer and not has_content(content):
            content = ()
        if not self.style.in_artifact or not (content or self._label):
            return ()
        if self._label is not None and (self.shown == content or not content):
            is_closing = self.names.amends_last_chunk and metadata is None
            closing = self._chunk(self._label, self.names.closing_parts, True, True, metadata)
            return (Chunk(closing.artifact, True, True, is_closing),)
        return self._publish(content, True, metadata)

    def _follow(self, source: _Source) -> Decisions:
        """Show the content of the source, and from here on every addition."""
        parts = self.streamed if source is _Source.STREAM else self.blocks
        decisions = self._show(parts)
        self._follows = source
        return decisions

    def _show(self, parts: Parts) -> Decisions:
        if self.shown == parts:
            return ()
        if self.style.in_working:
            rest = _growth(self.shown, parts)
            self._fix(parts)
            return (self._piece(rest or parts),)
        return self._publish(parts, False) if self.style.in_artifact else ()

    def _more(self, parts: Parts) -> Decisions:
        """Show a further piece of the form that readers follow."""
        if self.style.in_working:
            return (self._piece(parts),)
        return (self._chunk(self._label, parts, True, False),) if self._label is not None else ()

    def _piece(self, parts: Parts) -> Move:
        # History gets the complete text at the end, so it does not keep the pieces.
        return Move(Step.NOTE, self.message(parts), is_kept=False)

    def _publish(self, parts: Parts, is_last: bool, metadata: Metadata = None) -> Decisions:
        """Change the artifact that readers have into these parts."""
        label, rest = self._label, None
        if label is None:
            label = self._label = self.names.stage()
        else:
            rest = _growth(self.shown, parts)
        self._fix(parts)
        if rest is None:
            return (self._chunk(label, parts, False, is_last, metadata),)
        return (self._chunk(label, rest, True, is_last, metadata),)

    def _fix(self, shown: Parts) -> None:
        """Note that readers have exactly these parts."""
        self._shown = shown
        self._follows = None

    def _chunk(
        self,
        label: Label,
        parts: Parts,
        append: bool,
        last_chunk: bool,
        metadata: Metadata = None,
    ) -> Chunk:
        if label.metadata is not None:
            metadata = {**label.metadata, **(metadata or {})}
        artifact = Artifact(
            artifact_id=label.artifact_id, name=label.name, parts=parts, metadata=metadata
        )
        is_open = self.names.sends_last_chunk_false and not last_chunk
        return Chunk(artifact, append, last_chunk, is_open=is_open)


def _growth(before: Parts, after: Parts) -> Parts | None:
    """The parts to append that turn `before` into `after`; None when appending cannot do that."""
    if len(before) != 1 or not after or not before[0].is_bare_text or not after[0].is_bare_text:
        return None
    old, new = before[0].text or "", after[0].text or ""
    if not new.startswith(old):
        return None
    rest = new[len(old) :]
    return (Part(text=rest), *after[1:]) if rest else after[1:]
