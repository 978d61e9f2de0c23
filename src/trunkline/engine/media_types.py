"""`AcceptedModes` and `mode_of`: the media type of a part, and whether the caller accepts it."""

from collections.abc import Iterable
from typing import Final

from msgspec import UNSET

from trunkline.model.values import Part

# The media types of files that state none, by the extension of the file name.
_BY_EXTENSION: Final = {
    "csv": "text/csv",
    "gif": "image/gif",
    "html": "text/html",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "json": "application/json",
    "md": "text/markdown",
    "mp3": "audio/mpeg",
    "mp4": "video/mp4",
    "ogg": "audio/ogg",
    "pdf": "application/pdf",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain",
    "wav": "audio/wav",
    "webp": "image/webp",
    "zip": "application/zip",
}

UNREPRESENTABLE: Final = "The response could not be represented in any accepted output mode."


class AcceptedModes:
    """The media types of a caller that does not accept everything."""

    __slots__ = ("_modes", "named", "takes_text")

    def __init__(self, named: tuple[str, ...]) -> None:
        self.named = named
        self._modes = tuple(bare_mode(mode) for mode in named)
        self.takes_text = self.accepts("text/plain")

    @classmethod
    def of(cls, named: tuple[str, ...]) -> "AcceptedModes | None":
        """The modes of the caller; None when the caller accepts everything, as an empty list
        means."""
        named = tuple(mode for mode in named if mode.strip())
        if not named or any(bare_mode(mode) in ("*", "*/*") for mode in named):
            return None
        return cls(named)

    def accepts(self, mode: str) -> bool:
        mode = bare_mode(mode)
        return any(mode_matches(each, mode) for each in self._modes)

    def kept(self, parts: Iterable[Part]) -> tuple[Part, ...]:
        """The parts that the caller accepts."""
        return tuple(part for part in parts if self.accepts(mode_of(part)))


def mode_of(part: Part) -> str:
    """The media type of a part, stated or implied."""
    return stated_mode(part) or _by_name(part)


def stated_mode(part: Part) -> str:
    """The stated media type, else the type that the kind of content implies, else empty."""
    if part.media_type:
        return part.media_type
    if part.text is not None:
        return "text/plain"
    return "application/json" if part.data is not UNSET else ""


def _by_name(part: Part) -> str:
    name = part.filename or (part.url or "").partition("?")[0].partition("#")[0]
    return _BY_EXTENSION.get(name.rpartition(".")[2].lower(), "application/octet-stream")


def mode_matches(offered: str, wanted: str) -> bool:
    """Whether the two media types match; `*/*` and `text/*` are patterns."""
    offered, wanted = bare_mode(offered), bare_mode(wanted)
    if offered == wanted or offered in ("*", "*/*") or wanted in ("*", "*/*"):
        return True
    kind, _, subtype = offered.partition("/")
    wanted_kind, _, wanted_subtype = wanted.partition("/")
    return kind == wanted_kind and "*" in (subtype, wanted_subtype)


def bare_mode(mode: str) -> str:
    mode = mode.partition(";")[0].strip().lower()
    # `text` is an old short name that cards still use.
    return "text/plain" if mode == "text" else mode
