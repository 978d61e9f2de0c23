"""Files that a user sends in a message, and files saved from an answer."""

import io
import mimetypes
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
from msgspec import UNSET, Struct

from trunkline.cli.options import from_json
from trunkline.cli.output import one_line
from trunkline.cli.remote.events import tool_of
from trunkline.model.errors import ConfigError, TrunklineError
from trunkline.model.values import Artifact, Message, Part

# The whole message. Files travel as base64 in JSON, and most servers refuse a body that is
# much larger.
MAX_BYTES: Final = 20 * 1024 * 1024
_TYPES: Final = {
    ".md": "text/markdown",
    ".toml": "application/toml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".jsonl": "application/jsonl",
}
_LONGEST_NAME: Final = 120
# Separators, characters that Windows refuses, and characters with a meaning in a shell.
_UNSAFE: Final = re.compile(r'[/\\:*?"<>|\x00-\x1f\x7f]+')
_RESERVED: Final = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_SUFFIXES: Final = {
    "text/markdown": ".md",
    "text/html": ".html",
    "text/csv": ".csv",
    "application/json": ".json",
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "image/svg+xml": ".svg",
    "application/pdf": ".pdf",
    "audio/mpeg": ".mp3",
    "audio/wav": ".wav",
}


def message_parts(
    text: str | None, files: list[str], data: list[str], *, stdin: BinaryIO | None = None
) -> tuple[Part, ...]:
    """The parts of a message from the text or stdin, files and data. Raises ConfigError."""
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
        # A process may be started without stdin.
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
    # The name of a file may hold bytes that are not UTF-8.
    filename = path.name.encode(errors="replace").decode()
    return Part(raw=body, filename=filename, media_type=_guessed(path.name) or _sniffed(body))


def _guessed(name: str) -> str:
    suffix = Path(name).suffix.lower()
    if suffix in _TYPES:
        return _TYPES[suffix]
    kind, encoding = mimetypes.guess_type(name)
    # The type of a compressed file is not the type of its content.
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
    """A number of bytes for people."""
    if count < 1000:
        return f"{count} B"
    number = count / 1024
    for unit in ("KB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} GB"


class Content(Struct, frozen=True, kw_only=True):
    """A file to save. `name` is safe, and may exist already."""

    name: str
    body: bytes


def contents(artifacts: Iterable[Artifact], message: Message | None = None) -> Iterator[Content]:
    """The content to save: artifacts without links and tool calls, and files of the message."""
    for artifact in artifacts:
        if tool_of(artifact) is not None:
            continue
        stem = artifact.name or artifact.artifact_id
        for part in _joined(artifact.parts):
            if (content := _content(part, stem)) is not None:
                yield content
    for part in message.parts if message is not None else ():
        if part.text is None and (content := _content(part, "message")) is not None:
            yield content


def _joined(parts: tuple[Part, ...]) -> list[Part]:
    """The parts, with all texts that have no file name joined into one."""
    bare = [part for part in parts if part.text is not None and not part.filename]
    rest = [part for part in parts if part not in bare]
    if not bare:
        return rest
    text = "\n".join([part.text or "" for part in bare])
    return [Part(text=text, media_type=bare[0].media_type), *rest]


def _content(part: Part, stem: str) -> Content | None:
    media_type = part.media_type.partition(";")[0].strip().lower()
    suffix = _SUFFIXES.get(media_type, "")
    if part.text is not None:
        body, suffix = part.text.encode(), suffix or ".txt"
    elif part.raw is not None:
        body = part.raw
    elif part.data is not UNSET:
        body, suffix = msgspec.json.format(msgspec.json.encode(part.data), indent=2), ".json"
    else:
        return None
    name = safe_name(part.filename or stem)
    if not part.filename and suffix and "." not in name:
        name += suffix
    return Content(name=name, body=body)


def safe_name(name: str) -> str:
    """The last part of a path, as the name of an ordinary file that is not hidden."""
    last = re.split(r"[/\\]", name.rstrip("/\\"))[-1]
    made = _UNSAFE.sub("_", one_line(last)).strip(" .")
    while len(made.encode()) > _LONGEST_NAME:
        stem, dot, suffix = made.rpartition(".")
        made = f"{stem[:-1]}{dot}{suffix}" if stem and len(suffix) < 16 else made[:-1]
    if made.startswith("-") or _RESERVED.fullmatch(made):
        made = f"_{made}"
    return made or "artifact"


def save(content: Content, folder: Path) -> Path:
    """Save it under its name or the next free one; existing files are never overwritten."""
    folder.mkdir(parents=True, exist_ok=True)
    stem, dot, suffix = content.name.rpartition(".")
    stem, suffix = (stem, f"{dot}{suffix}") if stem else (content.name, "")
    path, number = folder / content.name, 1
    while True:
        try:
            # Mode x creates the file itself: it does not follow a symbolic link of that name.
            with path.open("xb") as out:
                out.write(content.body)
            return path
        except FileExistsError:
            number += 1
            path = folder / f"{stem}-{number}{suffix}"


def check_folder(folder: Path | None) -> None:
    """Refuse a folder that is a file, before anything is sent. Raises ConfigError."""
    if folder is not None and folder.exists() and not folder.is_dir():
        raise ConfigError(f"--save {folder} is a file. Name a folder; it is created if needed.")


def save_all(
    artifacts: Iterable[Artifact],
    message: Message | None,
    folder: Path,
    *,
    quiet: bool,
    again: str = "",
) -> None:
    """Save all content. `again` is the command that fetches it again. Raises TrunklineError."""
    count = 0
    for content in contents(artifacts, message):
        try:
            path = save(content, folder)
        except OSError as error:
            remedy = f"Get it again with: {again}" if again else "Name another folder."
            raise TrunklineError(
                f"--save {folder}: {content.name} cannot be written: {error.strerror}. {remedy}"
            ) from error
        count += 1
        if not quiet:
            print(f"saved {path} ({size(len(content.body))})", file=sys.stderr)
    if not count and not quiet:
        print("nothing to save: the answer has no files and no artifacts", file=sys.stderr)
