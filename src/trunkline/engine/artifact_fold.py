"""`ArtifactFold`: an artifact put together from its chunks. Appending costs the chunk, not the
artifact, because the pieces of a text are joined only when it is read."""

from typing import Any

from msgspec.structs import replace

from trunkline.model.values import Artifact, Part


class ArtifactFold:
    """For readers, adjacent pieces of bare text are one part."""

    __slots__ = ("_head", "_parts", "_text")

    def __init__(self, artifact: Artifact) -> None:
        self._head = artifact
        self._parts: list[Part] = []
        self._text: list[str] = []
        for part in artifact.parts:
            self._push(part)

    def _push(self, part: Part) -> None:
        self._close_text()
        if part.is_bare_text:
            self._text.append(part.text or "")
        else:
            self._parts.append(part)

    def _close_text(self) -> None:
        if self._text:
            self._parts.append(Part(text="".join(self._text)))
            self._text = []

    def extend(self, chunk: Artifact, *, replaces_metadata: bool = False) -> None:
        """Append the chunk. Its metadata extends or replaces that of the artifact."""
        # Most chunks have only parts, and most of those only one text.
        if chunk.metadata or chunk.name != self._head.name or chunk.description or chunk.extensions:
            known = None if replaces_metadata and chunk.metadata else self._head.metadata
            self._extend_head(chunk, known)
        parts = chunk.parts
        if parts and self._text and parts[0].is_bare_text:
            self._text.append(parts[0].text or "")
            parts = parts[1:]
        for part in parts:
            self._push(part)

    def _extend_head(self, chunk: Artifact, metadata: dict[str, Any] | None) -> None:
        head = self._head
        self._head = replace(
            head,
            name=chunk.name or head.name,
            description=chunk.description or head.description,
            parts=(),
            metadata={**(metadata or {}), **(chunk.metadata or {})} or metadata,
            extensions=chunk.extensions or head.extensions,
        )

    def copy(self) -> "ArtifactFold":
        other = ArtifactFold.__new__(ArtifactFold)
        other._head = self._head
        other._parts = list(self._parts)
        other._text = list(self._text)
        return other

    def artifact(self) -> Artifact:
        if len(self._text) > 1:
            self._text = ["".join(self._text)]
        parts = tuple(self._parts)
        if self._text:
            parts += (Part(text=self._text[0]),)
        return replace(self._head, parts=parts)
