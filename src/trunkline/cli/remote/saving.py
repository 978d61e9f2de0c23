"""Files of an answer, put into a folder of the user's choice and nowhere else."""

import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET, Struct

from trunkline.cli.remote.clean import one_line
from trunkline.cli.remote.content import size
from trunkline.cli.remote.tools import tool_of
from trunkline.model.errors import ConfigError, TrunklineError
from trunkline.model.values import Artifact, Message, Part

_LONGEST_NAME: Final = 120
# Separators, what Windows refuses, and what a shell may take for something else.
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


class Content(Struct, frozen=True, kw_only=True):
    """`name` is a safe name of a file, which may be taken."""

    name: str
    body: bytes


def contents(artifacts: Iterable[Artifact], message: Message | None = None) -> Iterator[Content]:
    """What there is to save: all of the artifacts but links and tools, files of the message."""
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
    """Texts without a file name are one text, however many pieces they came in."""
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
    """Under its name, or the next one that is free; nothing is ever overwritten."""
    folder.mkdir(parents=True, exist_ok=True)
    stem, dot, suffix = content.name.rpartition(".")
    stem, suffix = (stem, f"{dot}{suffix}") if stem else (content.name, "")
    number = 1
    while True:
        name = content.name if number == 1 else f"{stem}-{number}{suffix}"
        number += 1
        # A link of that name is not followed either.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        try:
            handle = os.open(folder / name, flags, 0o666)
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ELOOP):
                continue
            raise
        with os.fdopen(handle, "wb") as out:
            out.write(content.body)
        return folder / name


def check_folder(folder: Path | None) -> None:
    """Before anything is sent. Raises ConfigError."""
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
    """`again` is the command that gets the same once more. Raises TrunklineError."""
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
