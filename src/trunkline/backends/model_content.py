"""Content of messages in the form of chat completions, for all backends that run a model."""

import base64
import re
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct

from trunkline.model.values import Part

_FORMATS: Final = "json|xml|yaml|x-yaml|toml|javascript|sql|x-sh"
_TEXTUAL: Final = re.compile(rf"text/.*|application/({_FORMATS})|(?!image/).*\+({_FORMATS})")


class Takes(Struct, frozen=True, kw_only=True):
    """Content beside text that the model can read."""

    images: bool = False
    files: bool = False
    # The gateway passes links on, and the model's server fetches them.
    links: bool = False


def is_textual(media_type: str) -> bool:
    """Whether a file of this type, in lower case and without parameters, is text."""
    return _TEXTUAL.fullmatch(media_type) is not None


class NotTaken(Exception):
    """The model cannot read such content; the text tells the caller what to do."""


def content_of(parts: tuple[Part, ...], takes: Takes) -> str | list[dict[str, Any]]:
    """The content of a message, for the model to answer. Raises NotTaken.

    Text alone stays a plain string, which every server understands.
    """
    contents = [_content(part, takes) for part in parts]
    texts = [content["text"] for content in contents if content["type"] == "text"]
    return "\n\n".join(texts) if len(texts) == len(contents) else contents


def told(parts: tuple[Part, ...], *, with_links: bool = False) -> str:
    """A message as text: data as JSON, files by their names or, if asked, by their links."""
    return "\n\n".join(_mentioned(part, with_links) for part in parts)


def _mentioned(part: Part, with_links: bool) -> str:
    if part.text is not None:
        return part.text
    if part.data is not UNSET:
        return _json(part.data)
    if with_links and part.url:
        return part.url
    return f"[{part.filename or part.media_type or 'a file'}]"


def _content(part: Part, takes: Takes) -> dict[str, Any]:
    if part.text is not None:
        return _text(part.text)
    if part.data is not UNSET:
        return _text(_json(part.data))
    kind = part.media_type.partition(";")[0].strip().lower()
    if part.url is not None and not takes.links:
        raise NotTaken("The agent follows no links to files: send the content itself.")
    if kind.startswith("image/"):
        if not takes.images:
            raise NotTaken("The agent takes no images: send text.")
        url = _data_url(part, kind) if part.url is None else part.url
        return {"type": "image_url", "image_url": {"url": url}}
    return _file(part, kind, takes) if part.url is None else _text(part.url)


def _file(part: Part, kind: str, takes: Takes) -> dict[str, Any]:
    name = part.filename or "file"
    text = _as_text(part.raw or b"", kind)
    if text is not None:
        return _text(f"{name}:\n\n{text}")
    if not takes.files:
        what = kind or "files of an unknown media type"
        raise NotTaken(f"The agent cannot read {what}: send text, or a text file.")
    data = _data_url(part, kind or "application/octet-stream")
    return {"type": "file", "file": {"filename": name, "file_data": data}}


def _as_text(raw: bytes, kind: str) -> str | None:
    if not is_textual(kind):
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _data_url(part: Part, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(part.raw or b'').decode()}"


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
