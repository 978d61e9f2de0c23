"""What backends keep for themselves: all of it in memory, and in one file."""

from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from trunkline.model.errors import StoreUnusable
from trunkline.ports.store import KeptNote, Scope
from trunkline.stores.jsonfile.changes import Noted
from trunkline.stores.jsonfile.files import TEMPORARY, remove_all, replace_all
from trunkline.stores.notes import Key, NoteIndex

FILE = "notes.jsonl"
# What a line takes beside the note itself, roughly.
_LINE_BYTES = 120


class _Head(Struct, frozen=True):
    """The first line: which change the file holds last."""

    n: int


class NotesFile(NamedTuple):
    n: int
    notes: Sequence[Noted]


_encode = msgspec.json.Encoder().encode
_decode_head = msgspec.json.Decoder(_Head).decode
_decode = msgspec.json.Decoder(Noted).decode


class KeptNotes:
    """Which notes there are, and whether the file has them."""

    def __init__(self) -> None:
        self._index: NoteIndex[Noted] = NoteIndex()
        # About how much there is to write when they are.
        self._bytes = 0
        # Numbers of changes: the last one, the last that the file has, and the one that it
        # must have for the log to go. A note may come while the file is being written.
        self._n = 0
        self._written_n = 0
        self._due_n = 0

    @property
    def dirty_bytes(self) -> int:
        return self._bytes if self._written_n < self._n else 0

    def load(self, file: NotesFile) -> None:
        for note in file.notes:
            self.apply(note)
        self._n = self._written_n = file.n

    def replay(self, change: Noted) -> None:
        if change.n > self._n:
            self.apply(change)

    def apply(self, change: Noted) -> None:
        before = self._index.put(change)
        self._bytes += _size(change) - (_size(before) if before is not None else 0)
        self._n = change.n

    def text(self, key: Key) -> str | None:
        note = self._index.get(key)
        return None if note is None else note.text

    def old(self, agent: str, *, before_ms: int, limit: int) -> list[Noted]:
        return self._index.old(agent, before_ms=before_ms, limit=limit)

    def scopes(self) -> list[Scope]:
        return list(self._index.scopes())

    def retire(self) -> None:
        self._due_n = self._n

    @property
    def is_retired(self) -> bool:
        return self._due_n <= self._written_n

    def due(self) -> NotesFile | None:
        """All there is, when it is to be written now."""
        return None if self.is_retired else NotesFile(self._n, tuple(self._index))

    def written(self, file: NotesFile) -> None:
        self._written_n = file.n


class NoteFiles:
    """Used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self) -> NotesFile:
        (self._folder / (FILE + TEMPORARY)).unlink(missing_ok=True)
        return self.read()

    def read(self) -> NotesFile:
        path = self._folder / FILE
        try:
            lines = path.read_bytes().splitlines()
        except FileNotFoundError:
            return NotesFile(0, ())
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
        # In the order in which they were kept, which is that of their age.
        return NotesFile(head.n, sorted(notes, key=lambda note: note.n))

    def write(self, file: NotesFile, pool: Executor) -> None:
        if not file.notes:
            remove_all(self._folder, [FILE])
            return
        lines = [_encode(_Head(file.n)), *[_encode(note) for note in file.notes]]
        replace_all(self._folder, [(FILE, b"\n".join(lines) + b"\n")], pool)


def change_of(note: KeptNote, n: int) -> Noted:
    return Noted(n, note.scope, note.context_id, note.name, note.text, note.at_ms)


def _size(note: Noted) -> int:
    if not note.text:
        return 0
    return len(note.text) + len(note.name) + len(note.context_id) + _LINE_BYTES
