"""Requests and answers of chat completions, as bytes."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct

from trunkline.backends.json_values import json_value
from trunkline.backends.openai.settings import OpenAIBackend
from trunkline.ports.tools import TurnTool


class Usage(Struct, frozen=True):
    """Tokens, as the server counts them. The usage of several requests can be added."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.total_tokens + other.total_tokens,
        )


class Function(Struct, frozen=True):
    name: str | None = None
    # JSON as text, which servers may stream in pieces; some servers send the JSON itself.
    arguments: Any = None


class CallPiece(Struct, frozen=True):
    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Said(Struct, frozen=True):
    """A message, or a piece of one. The gateway ignores the fields for reasoning."""

    # A text, or a list of parts.
    content: Any = None
    refusal: str | None = None
    tool_calls: tuple[CallPiece, ...] | None = None


class Choice(Struct, frozen=True):
    delta: Said | None = None
    message: Said | None = None
    finish_reason: str | None = None


class Chunk(Struct, frozen=True):
    choices: tuple[Choice, ...] | None = None
    # For accounting only, so an unexpected value does not make the answer invalid.
    usage: Any = None
    error: Any = UNSET


def usage_of(told: Any) -> Usage:
    """The counts that are numbers; zero for the others."""
    found = told if isinstance(told, dict) else {}
    return Usage(
        *[
            int(value) if isinstance(value := found.get(name), int | float) else 0
            for name in Usage.__struct_fields__
        ]
    )


class Garbage(Exception):
    """The server sent something that is not an answer of a model."""


class ReportedError(Exception):
    """The server reports an error in place of an answer. The text is the server's."""


_decode: Final = msgspec.json.Decoder(Chunk).decode


def read_chunk(data: bytes) -> Chunk:
    """Raises Garbage and ReportedError."""
    try:
        chunk = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Garbage from None
    if chunk.error is not UNSET and chunk.error is not None:
        raise ReportedError(error_text(chunk.error))
    if chunk.choices is None and chunk.usage is None:
        raise Garbage
    return chunk


def error_text(error: Any) -> str:
    """The message of an error, in any of the usual shapes."""
    if isinstance(error, dict):
        inner = error.get("error", error)
        if isinstance(inner, dict):
            return str(inner.get("message") or inner.get("detail") or inner)
        return str(inner)
    return str(error)


def error_code(body: bytes) -> tuple[str, str]:
    """Code and text of an error, from the body of a response."""
    value = json_value(body)
    if value is UNSET:
        return "", body[:500].decode(errors="replace")
    inner = value.get("error", value) if isinstance(value, dict) else value
    code = inner.get("code") if isinstance(inner, dict) else ""
    return str(code or ""), error_text(value)


def request_body(
    settings: OpenAIBackend, tools: Sequence[TurnTool], messages: list[dict[str, Any]]
) -> bytes:
    body: dict[str, Any] = {"model": settings.model, "messages": messages}
    if settings.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if tools:
        body["tools"] = [tool.definition.as_openai() for tool in tools]
    return msgspec.json.encode(settings.extra_body | body)
