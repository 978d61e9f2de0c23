"""Output of commands: text that is safe on a terminal, JSON, counts and lines for a shell."""

import io
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, Final, TextIO

import msgspec

# Whole sequences first, so that nothing of them is left to read: CSI, then strings such as
# OSC up to their end, then the two-character ones.
_SEQUENCE: Final = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c|$)"
    "|\x1b[ -/]*[0-~]?"
)
# Bidirectional controls too: with them one text can pass for another.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")
_UNESCAPED: Final = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """The text without control characters, except line breaks and tabs."""
    if text.isprintable():
        return text
    return _CONTROL.sub("", _SEQUENCE.sub("", text.replace("\r\n", "\n")))


def one_line(text: str) -> str:
    return " ".join(clean(text).split())


def clean_json(text: str) -> str:
    """Escape the control characters that JSON allows as they are, which are all in strings."""
    return _UNESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def json_document(value: Any) -> str:
    return clean_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def json_line(value: Any) -> str:
    return clean_json(msgspec.json.encode(value).decode())


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows of a table as lines, with its columns below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def has_colours(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR")


def program() -> str:
    """The name that started this command, for lines that a user copies to a shell."""
    # The script of a checkout sets it, because plain `trunkline` is not found there.
    return os.environ.get("TRUNKLINE_PROGRAM") or "trunkline"


def prepare_streams() -> None:
    """Let an output that cannot encode a character print a replacement instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
