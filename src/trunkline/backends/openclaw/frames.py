"""Frames of an OpenClaw gateway: the fields that the backend uses."""

from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from trunkline.backends.json_values import json_object, table, tables, text

_NULL: Final = Raw(b"null")


class Fault(Struct, frozen=True, rename="camel"):
    """The reason why OpenClaw refused a request."""

    code: str = ""
    message: str = ""
    details: Any = None
    retry_after_ms: int | None = None

    @property
    def detail(self) -> str:
        """The second code, which tells refusals with the same code apart."""
        details = table(self.details)
        return str(details.get("code") or details.get("reason") or "")


class Response(Struct, frozen=True, tag_field="type", tag="res"):
    """An answer to a request. `agent` gets two: that it is accepted, and its end."""

    id: str
    ok: bool
    payload: Raw = _NULL
    error: Fault | None = None

    @property
    def fields(self) -> dict[str, Any]:
        return _fields(self.payload)

    @property
    def fault(self) -> Fault:
        return self.error or Fault(code="UNKNOWN")


class Event(Struct, frozen=True, tag_field="type", tag="event"):
    event: str
    payload: Raw = _NULL

    @property
    def fields(self) -> dict[str, Any]:
        return _fields(self.payload)


class AgentEvent(Struct, frozen=True, rename="camel"):
    """An event of a run: `stream` is assistant, tool, lifecycle, usage, or another."""

    run_id: str = ""
    session_key: str = ""
    stream: str = ""
    data: dict[str, Any] = {}


class ChatEvent(Struct, frozen=True, rename="camel"):
    """The progress of the answer of a run: `state` is delta, final, aborted or error."""

    run_id: str = ""
    session_key: str = ""
    state: str = ""
    # The whole answer so far. The gateway reads it at the end only.
    message: Raw = _NULL

    @property
    def text(self) -> str:
        return message_text(_fields(self.message))


class Option(Struct, frozen=True, rename="camel"):
    label: str = ""
    description: str = ""


class QuestionItem(Struct, frozen=True, rename="camel"):
    question_id: str
    question: str = ""
    header: str = ""
    options: tuple[Option, ...] = ()
    multi_select: bool = False
    # Whether an answer may be none of the options.
    is_other: bool = False


class QuestionEvent(Struct, frozen=True, rename="camel"):
    """A run that waits until its questions are answered."""

    id: str
    questions: tuple[QuestionItem, ...]
    run_id: str = ""
    session_key: str = ""


Frame: TypeAlias = Response | Event
Happening: TypeAlias = AgentEvent | ChatEvent | QuestionEvent

_frames: msgspec.json.Decoder[Frame] = msgspec.json.Decoder(Frame)
_happenings: Final[dict[str, msgspec.json.Decoder[Happening]]] = {
    "agent": msgspec.json.Decoder(AgentEvent),
    "chat": msgspec.json.Decoder(ChatEvent),
    "question.requested": msgspec.json.Decoder(QuestionEvent),
}


class Garbled(Exception):
    """The bytes are not JSON."""


def decode(data: str) -> Frame | None:
    """The frame; None for a kind that the gateway does not use. Raises Garbled."""
    try:
        return _frames.decode(data)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise Garbled("no JSON") from None


def happening(event: Event) -> Happening | None:
    """The event of a run; None for all other events."""
    decoder = _happenings.get(event.event)
    if decoder is None:
        return None
    try:
        return decoder.decode(event.payload)
    except (msgspec.DecodeError, RecursionError):
        return None


def encode_request(request_id: str, method: str, params: dict[str, Any]) -> str:
    frame = {"type": "req", "id": request_id, "method": method, "params": params}
    return msgspec.json.encode(frame).decode()


def _fields(payload: Raw) -> dict[str, Any]:
    return json_object(payload) or {}


def message_text(message: Any) -> str:
    """The text of a message in the form of chat events and of the history."""
    content = table(message).get("content")
    if isinstance(content, str):
        return content
    items = [item for item in tables(content) if item.get("type") == "text"]
    return "".join(text(item.get("text")) for item in items)
