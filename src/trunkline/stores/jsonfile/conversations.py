"""`Conversation` and `NotesFile`: exchanges and notes, which belong to a context and to no task.

The exchanges of one context have a file, to which new ones are appended. The notes of all
backends are in memory and in one file.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

import msgspec
from msgspec import Struct

from trunkline.model.errors import StoreUnusable
from trunkline.ports.store import Exchange, Scope
from trunkline.stores.jsonfile.changes import ConversationChange, Forgot, Noted, Said, from_json
from trunkline.stores.jsonfile.files import synced, write_all

T = TypeVar("T")
PATTERN = "exchanges-*.jsonl"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Said).decode


class Conversation(Struct, eq=False):
    """A conversation whose file may lag behind the log by the changes in `pending`."""

    # Writing it costs its latest changes: most of the time the file only grows.
    file_bytes: ClassVar[int] = 0
    size_bytes: ClassVar[int] = 0

    scope: Scope
    context_id: str
    pending: list[ConversationChange] = []
    # The last change.
    n: int = 0

    @property
    def file_name(self) -> str:
        text = hashlib.sha256(_encode((self.scope, self.context_id))).hexdigest()[:32]
        return f"exchanges-{text}.jsonl"

    @property
    def only_grows(self) -> bool:
        return all(isinstance(change, Said) for change in self.pending)

    def count_forgotten(self) -> int:
        """How many exchanges the file may still hold although they were forgotten."""
        return sum(len(change.gone) for change in self.pending if isinstance(change, Forgot))

    def capture(self) -> "Conversation":
        return Conversation(self.scope, self.context_id, self.pending.copy(), self.n)

    def written(self, n: int, size: int) -> None:
        self.pending = [change for change in self.pending if change.n > n]

    def read(self, folder: Path) -> dict[int, Said]:
        """The exchanges by number, pending ones included."""
        found = read_exchanges(folder / self.file_name)
        for change in self.pending:
            if isinstance(change, Said):
                found[change.n] = change
            else:
                for n in change.gone:
                    found.pop(n, None)
        return found

    def rendered(self, folder: Path) -> bytes:
        return _lines(self.read(folder).values())

    def append_to_file(self, folder: Path) -> None:
        """Write the pending changes of a conversation that only grows."""
        with synced(os.open(folder / self.file_name, os.O_RDWR | os.O_CREAT, 0o600)) as fd:
            # Remove a line that a crash or a full disk cut off: it was never acknowledged.
            size = os.fstat(fd).st_size
            whole = os.pread(fd, size, 0).rfind(b"\n") + 1
            if whole < size:
                os.ftruncate(fd, whole)
            os.lseek(fd, whole, os.SEEK_SET)
            write_all(fd, _lines(self.pending))


def read_exchanges(path: Path) -> dict[int, Said]:
    """By number: an attempt that failed halfway was repeated, so lines may occur twice."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    # After the last line break comes nothing, or a line that was cut off.
    lines = data.split(b"\n")[:-1]
    return {said.n: said for said in decoded(_decode, lines, path, "exchange")}


def find_exchanges(
    folder: Path, numbers: Sequence[int], conversations: Iterable[Conversation]
) -> tuple[Exchange, ...]:
    """The exchanges with these numbers, in this order."""
    found: dict[int, Said] = {}
    for conversation in conversations:
        found |= conversation.read(folder)
    said = [found[n] for n in numbers if n in found]
    return tuple([Exchange(s.scope, s.context_id, s.at_ms, from_json(s.messages)) for s in said])


def _lines(changes: Iterable[ConversationChange]) -> bytes:
    return b"".join([_encode(change) + b"\n" for change in changes])


class Head(Struct, frozen=True):
    """The first line: the last change that the file holds."""

    n: int


decode_head = msgspec.json.Decoder(Head).decode
_decode_note = msgspec.json.Decoder(Noted).decode


class NotesFile(Struct, eq=False):
    """The notes with their last change, for a file that may lag behind the log."""

    file_name: ClassVar[str] = "notes.jsonl"
    size_bytes: ClassVar[int] = 0

    notes: Iterable[Noted]
    n: int = 0
    file_bytes: int = 0

    def capture(self) -> "NotesFile":
        return NotesFile(tuple(self.notes), self.n)

    def written(self, n: int, size: int) -> None:
        """The file is always written as a whole."""
        self.file_bytes = size

    def rendered(self) -> bytes:
        """Empty when there are no notes."""
        lines = [_encode(note) for note in self.notes]
        return b"\n".join([_encode(Head(self.n)), *lines, b""]) if lines else b""


def read_notes(folder: Path) -> NotesFile:
    """The file with the notes in the order of their age."""
    path = folder / NotesFile.file_name
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return NotesFile(())
    first, *rest = data.splitlines() or [b""]
    (head,) = decoded(decode_head, [first], path, "note")
    notes = decoded(_decode_note, rest, path, "note", first=2)
    return NotesFile(sorted(notes, key=lambda note: note.n), head.n, len(data))


def decoded(
    decode: Callable[[bytes], T], lines: Iterable[bytes], path: Path, what: str, *, first: int = 1
) -> Iterator[T]:
    for number, line in enumerate(lines, first):
        try:
            yield decode(line)
        except msgspec.DecodeError as error:
            raise StoreUnusable(
                f"{path} is damaged in line {number} ({error}). Restore the file from a backup, "
                f"or take out the line to go on without this {what}."
            ) from None
