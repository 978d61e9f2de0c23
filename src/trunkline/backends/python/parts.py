"""Parts, artifacts and tool calls made from the plain values of an agent."""

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec
from msgspec import structs

from trunkline.model.outputs import ArtifactEmitted, ToolCalled, ToolSummarized
from trunkline.model.values import Artifact, Part

# Text, bytes, a Part, or any JSON value.
Content: TypeAlias = Any


def part_of(content: Content) -> Part:
    if isinstance(content, str):
        return Part(text=content)
    if isinstance(content, Part):
        return content
    if isinstance(content, bytes | bytearray | memoryview):
        return Part(raw=bytes(content), media_type="application/octet-stream")
    return Part(data=json_of(content))


def json_of(value: object) -> Any:
    """A copy of the value as plain JSON, because the agent may go on to change it; dataclasses,
    dates and the like are converted."""
    try:
        # Here rather than in the journal, so that the traceback shows the agent's own line.
        return msgspec.to_builtins(value, str_keys=True)
    except TypeError as error:
        raise TypeError(
            f"an agent can say text, bytes, parts, artifacts and JSON values, "
            f"not {type(value).__name__} ({error})"
        ) from None


def parts_of(contents: Iterable[Content]) -> tuple[Part, ...]:
    return tuple(part_of(content) for content in contents)


class ArtifactWriter:
    """One artifact in chunks: the first chunk opens it, the others are appended."""

    __slots__ = ("_begun", "_head", "filename", "media_type")

    def __init__(
        self, *, artifact_id: str, name: str, media_type: str, filename: str, description: str
    ) -> None:
        self._head = Artifact(artifact_id=artifact_id, name=name, description=description, parts=())
        self._begun = False
        self.media_type = media_type
        self.filename = filename

    @property
    def artifact_id(self) -> str:
        return self._head.artifact_id

    def chunk(self, content: Content, *, last: bool = False) -> ArtifactEmitted:
        """The next piece: text, bytes or data. Mark the last one, if you know it is."""
        append, self._begun = self._begun, True
        return ArtifactEmitted(
            artifact=structs.replace(self._head, parts=(self._part(content),)),
            append=append,
            last_chunk=last,
        )

    def _part(self, content: Content) -> Part:
        part = part_of(content)
        if isinstance(content, Part):
            return part
        media_type = self.media_type or part.media_type
        return structs.replace(part, media_type=media_type, filename=self.filename)


class ToolCall:
    """Yield it when the tool starts, then `update` and `result`, and perhaps a `summary`."""

    __slots__ = ("_data", "call_id", "name")

    def __init__(self, *, call_id: str, name: str, data: Any) -> None:
        self.call_id = call_id
        self.name = name
        self._data = json_of(data)

    def start(self) -> ToolCalled:
        return ToolCalled(call_id=self.call_id, name=self.name, phase="start", data=self._data)

    def update(self, data: Any) -> ToolCalled:
        return structs.replace(self.start(), phase="update", data=json_of(data))

    def result(self, data: Any = None, *, is_error: bool = False) -> ToolCalled:
        return structs.replace(self.start(), phase="result", data=json_of(data), is_error=is_error)

    def summary(self, content: Content, *more: Content) -> ToolSummarized:
        """The result in words for people."""
        return ToolSummarized(parts_of((content, *more)), self.name)
