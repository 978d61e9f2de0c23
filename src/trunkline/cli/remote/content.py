"""A message from what the command line gives: words, stdin, files and data."""

import io
import mimetypes
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

from trunkline.cli.typed import from_json
from trunkline.model.errors import ConfigError
from trunkline.model.values import Part

# All of a message together. Files travel as base64 inside of JSON, and most servers take no
# body that is much larger.
MAX_BYTES: Final = 20 * 1024 * 1024
_TYPES: Final = {
    ".md": "text/markdown",
    ".toml": "application/toml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".jsonl": "application/jsonl",
}


def parts_of(
    text: str | None, files: list[str], data: list[str], *, stdin: BinaryIO | None = None
) -> tuple[Part, ...]:
    """Raises ConfigError, which names what is wrong and what to do."""
    words = _words(text, stdin, is_needed=not files and not data)
    parts = [Part(text=words)] if words else []
    left = MAX_BYTES - len((words or "").encode())
    for name in files:
        part = _file(name, left)
        left -= len(part.raw or b"")
        parts.append(part)
    parts += [Part(data=_json(one)) for one in data]
    if not parts:
        raise ConfigError(
            "there is nothing to send. Give TEXT, --file or --data, or pipe a text in."
        )
    return tuple(parts)


def _words(text: str | None, stdin: BinaryIO | None, *, is_needed: bool) -> str:
    if text is not None and text != "-":
        return text
    if text is None and not is_needed:
        return ""
    source = stdin
    if source is None:
        # A process may be started without one.
        source = sys.stdin.buffer if sys.stdin is not None else io.BytesIO()
    if text is None and source.isatty():
        return ""
    body = source.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        raise ConfigError(
            f"the text on stdin is larger than {size(MAX_BYTES)}, the maximum for a message. "
            "Send a part of it, or upload it and send its link with --file URL."
        )
    try:
        return body.decode("utf-8-sig").rstrip("\n")
    except UnicodeDecodeError:
        raise ConfigError(
            "the input on stdin is not UTF-8 text. Save it and send it with --file PATH."
        ) from None


def _file(name: str, left: int) -> Part:
    if name.startswith(("http://", "https://")):
        link = name.partition("?")[0].rpartition("/")[2]
        return Part(url=name, filename=link, media_type=_guessed(link))
    path = Path(name).expanduser()
    try:
        with path.open("rb") as source:
            body = source.read(left + 1)
        whole = max(path.stat().st_size, len(body))
    except FileNotFoundError:
        raise ConfigError(f"--file {name}: there is no such file.") from None
    except OSError as error:
        raise ConfigError(f"--file {name}: cannot be read: {error.strerror}.") from None
    if len(body) > left:
        raise ConfigError(
            f"--file {name} has {size(whole)}; the maximum for a message is {size(MAX_BYTES)}. "
            "Put it somewhere and send the link: --file https://…"
        )
    # The name of a file may hold bytes that are no text.
    filename = path.name.encode(errors="replace").decode()
    return Part(raw=body, filename=filename, media_type=_guessed(path.name) or _sniffed(body))


def _guessed(name: str) -> str:
    suffix = Path(name).suffix.lower()
    if suffix in _TYPES:
        return _TYPES[suffix]
    kind, encoding = mimetypes.guess_type(name)
    # A compressed file is not of the kind that is inside.
    return kind if kind and not encoding else ""


def _sniffed(body: bytes) -> str:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "application/octet-stream" if "\x00" in text else "text/plain"


def _json(text: str) -> Any:
    if text.startswith("@"):
        try:
            text = Path(text[1:]).expanduser().read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError):
            raise ConfigError(
                f"--data {text}: the file does not exist or cannot be read."
            ) from None
    return from_json(text, what="--data", remedy="Quote it for the shell: --data '{\"key\": 1}'.")


def size(count: int) -> str:
    """Bytes for people."""
    if count < 1000:
        return f"{count} B"
    number = count / 1024
    for unit in ("KB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} GB"
