"""`Prompt`: a message as text and files, the way a program can take it."""

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct

from trunkline.backends.model_content import is_textual
from trunkline.model.values import Part

UNSAFE = re.compile(r"[^\w.,()@+ -]")
NAME_CHARS = 100


class CannotTell(Exception):
    """The program cannot take the message; the text is for the caller."""


class File(Struct, frozen=True, kw_only=True):
    """An attachment of the message that is not text."""

    name: str
    media_type: str
    data: bytes


class Prompt(Struct, frozen=True, kw_only=True):
    text: str
    files: tuple[File, ...] = ()


def prompt_of(parts: Iterable[Part]) -> Prompt:
    """Texts, data and text files become one text, in their order; other files stay files."""
    texts: list[str] = []
    files: list[File] = []
    for part in parts:
        if part.text is not None:
            texts.append(part.text)
        elif part.url is not None:
            texts.append(f"File {part.filename or 'at'}: {part.url}")
        elif part.data is not UNSET:
            texts.append(_fenced("json", json.dumps(part.data, ensure_ascii=False, indent=2)))
        elif part.raw is not None:
            _add_file(part, part.raw, texts, files)
    return Prompt(text="\n\n".join(texts), files=tuple(files))


def _add_file(part: Part, raw: bytes, texts: list[str], files: list[File]) -> None:
    names = [file.name for file in files]
    name = safe_name(part.filename, taken=names)
    media_type = part.media_type.partition(";")[0].strip().lower() or "application/octet-stream"
    if is_textual(media_type):
        try:
            texts.append(f"File {name}:\n{_fenced('', raw.decode())}")
        except UnicodeDecodeError:
            pass
        else:
            return
    files.append(File(name=name, media_type=media_type, data=raw))


def _fenced(kind: str, text: str) -> str:
    """The text between fences that are longer than any fence in it."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{kind}\n{text.rstrip()}\n{fence}"


def safe_name(name: str, *, taken: Sequence[str] = ()) -> str:
    """The last part of the name, without characters that are special for a file system or a
    terminal."""
    last = re.split(r"[/\\]", name)[-1]
    clean = UNSAFE.sub("_", last).strip(" .-")[-NAME_CHARS:] or "file"
    number, free = 1, clean
    while free in taken:
        number += 1
        free = f"{number}-{clean}"
    return free


def blocks_of(prompt: Prompt, as_block: Callable[[File], dict[str, Any]]) -> list[dict[str, Any]]:
    """The files, then the text, each as a block of content. Raises CannotTell."""
    blocks = [as_block(file) for file in prompt.files]
    if prompt.text.strip():
        blocks.append({"type": "text", "text": prompt.text})
    if not blocks:
        raise CannotTell("The message is empty.")
    return blocks


def with_paths(text: str, paths: Sequence[str]) -> str:
    """The text, followed by the paths of the files of the message."""
    if not paths:
        return text
    listed = "\n".join(f"- {path}" for path in paths)
    return f"{text}\n\nFiles that came with this message:\n{listed}".lstrip()


class Attachments:
    """A private folder, created for the first file."""

    def __init__(self) -> None:
        self._folder: Path | None = None

    @property
    def is_used(self) -> bool:
        return self._folder is not None

    @property
    def folder(self) -> Path:
        if self._folder is None:
            # Mode 0700, and a name that cannot be guessed.
            self._folder = Path(tempfile.mkdtemp(prefix="trunkline-"))
        return self._folder

    def write(self, files: Iterable[File]) -> list[str]:
        """Save the files under new names, and return their paths."""
        paths: list[str] = []
        for file in files:
            taken = [path.name for path in self.folder.iterdir()]
            path = self.folder / safe_name(file.name, taken=taken)
            path.write_bytes(file.data)
            paths.append(str(path))
        return paths

    def remove(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
