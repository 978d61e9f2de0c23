"""`NotesFile`: the notes of all backends, which are in memory and in one file."""

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

import msgspec
from msgspec import Struct

from trunkline.model.errors import StoreUnusable
from trunkline.stores.jsonfile.changes import Noted

# About how much a line takes beside the note itself.
_LINE_BYTES = 120


class _Head(Struct, frozen=True):
    """The first line: the last change that the file holds."""

    n: int


_encode = msgspec.json.Encoder().encode
_decode_head = msgspec.json.Decoder(_Head).decode
_decode = msgspec.json.Decoder(Noted).decode


class NotesFile(Struct, eq=False):
    """The notes with their last change, for a file that may lag behind the log."""

    file_name: ClassVar[str] = "notes.jsonl"
    file_bytes: ClassVar[int] = 0
    size_bytes: ClassVar[int] = 0

    notes: Iterable[Noted]
    n: int = 0

    def capture(self) -> "NotesFile":
        return NotesFile(tuple(self.notes), self.n)

    def written(self, n: int, size: int) -> None:
        """The file is always written as a whole."""

    def rendered(self) -> bytes:
        """Empty when there are no notes."""
        lines = [_encode(note) for note in self.notes]
        return b"\n".join([_encode(_Head(self.n)), *lines, b""]) if lines else b""


def read_notes(folder: Path) -> tuple[int, list[Noted]]:
    """The last change that the file holds, and the notes in the order of their age."""
    path = folder / NotesFile.file_name
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return 0, []
    number = 1
    try:
        head = _decode_head(lines[0] if lines else b"")
        notes = []
        for line in lines[1:]:
            number += 1
            notes.append(_decode(line))
    except msgspec.DecodeError as error:
        raise StoreUnusable(
            f"{path} is damaged in line {number} ({error}). Restore the file from a backup, "
            "or take out the line to go on without this note."
        ) from None
    return head.n, sorted(notes, key=lambda note: note.n)


def line_bytes(note: Noted | None) -> int:
    """About as much as the note takes in the file."""
    if note is None or not note.text:
        return 0
    return len(note.text) + len(note.name) + len(note.context_id) + _LINE_BYTES
