"""Artifacts from the plain values that an agent has."""

from typing import Any

from msgspec import UNSET, structs

from trunkline.backends.python.parts import Content, json_of, part_of
from trunkline.model.outputs import ArtifactEmitted
from trunkline.model.values import Artifact, Part


def content_part(
    *,
    text: str | None,
    data: Any,
    raw: bytes | None,
    url: str | None,
    media_type: str,
    filename: str,
) -> Part:
    if data is not UNSET:
        data = json_of(data)
    try:
        return Part(
            text=text, data=data, raw=raw, url=url, media_type=media_type, filename=filename
        )
    except ValueError:
        raise ValueError(
            "an artifact needs exactly one of text, data, raw and url, or parts"
        ) from None


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
        return Part(
            text=part.text,
            raw=part.raw,
            data=part.data,
            media_type=self.media_type or part.media_type,
            filename=self.filename,
        )
