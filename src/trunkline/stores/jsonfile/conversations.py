"""Answers that made no task: a file per conversation, to which the latest are added."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from trunkline.model.errors import StoreUnusable
from trunkline.ports.store import Exchange, Scope
from trunkline.stores.jsonfile.blobs import from_json
from trunkline.stores.jsonfile.changes import Said
from trunkline.stores.jsonfile.files import sync, sync_folder, write_all

_PATTERN = "exchanges-*.jsonl"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Said).decode


class Place(NamedTuple):
    """Which conversation it is."""

    scope: Scope
    context_id: str


class Conversations:
    """Which conversations there are, and what the log has of them in addition to their files."""

    def __init__(self) -> None:
        # The last change of each, the latest at the end.
        self._latest: dict[Scope, dict[str, int]] = {}
        self._pending: dict[Place, list[Said]] = {}
        self._retiring: dict[Place, None] = {}

    def load(self, places: Mapping[Place, int]) -> None:
        for place, n in sorted(places.items(), key=lambda item: item[1]):
            self._latest.setdefault(place.scope, {})[place.context_id] = n

    def has(self, said: Said) -> bool:
        return said.n <= self._latest.get(said.scope, {}).get(said.context_id, 0)

    def apply(self, said: Said) -> None:
        contexts = self._latest.setdefault(said.scope, {})
        contexts.pop(said.context_id, None)
        contexts[said.context_id] = said.n
        self._pending.setdefault(Place(said.scope, said.context_id), []).append(said)

    def capture(self, scope: Scope, context_id: str, limit: int) -> dict[Place, list[Said]]:
        """Where the latest exchanges are, and what is not in the files yet."""
        contexts = self._latest.get(scope, {})
        # One that was heard of before all of these has nothing to add to them.
        names = [context_id] if context_id else islice(reversed(contexts), limit)
        places = [Place(scope, name) for name in names if name in contexts]
        return {place: list(self._pending.get(place, ())) for place in places}

    def retire(self) -> None:
        self._retiring = dict.fromkeys(self._pending)

    @property
    def is_retired(self) -> bool:
        return not self._retiring

    def due(self, limit: int) -> dict[Place, list[Said]]:
        return {place: list(self._pending[place]) for place in islice(self._retiring, limit)}

    def written(self, captured: Mapping[Place, Sequence[Said]]) -> None:
        for place, sayings in captured.items():
            self._retiring.pop(place, None)
            pending = self._pending.pop(place, [])
            left = [said for said in pending if said.n > sayings[-1].n]
            if left:
                self._pending[place] = left


class ConversationFiles:
    """Used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load_all(self) -> dict[Place, int]:
        """Every conversation, and the last change in its file."""
        found: dict[Place, int] = {}
        for path in self._folder.glob(_PATTERN):
            for said in self._read(path):
                found[Place(said.scope, said.context_id)] = said.n
        return found

    def read(self, captured: Mapping[Place, Sequence[Said]], limit: int) -> tuple[Exchange, ...]:
        """The latest exchanges of these conversations, as they were captured."""
        sayings: list[Said] = []
        for place, pending in captured.items():
            in_file = list(self._read(self._path(place)))
            last = in_file[-1].n if in_file else 0
            sayings += in_file
            sayings += [said for said in pending if said.n > last]
        sayings.sort(key=lambda said: said.n, reverse=True)
        return tuple(
            [
                Exchange(said.scope, said.context_id, said.at_ms, from_json(said.messages))
                for said in sayings[:limit]
            ]
        )

    def append(self, captured: Mapping[Place, Sequence[Said]]) -> None:
        for place, sayings in captured.items():
            fd = os.open(self._path(place), os.O_RDWR | os.O_CREAT, 0o600)
            try:
                # What a crash or a full disk has cut off is no line.
                size = os.fstat(fd).st_size
                whole = os.pread(fd, size, 0).rfind(b"\n") + 1
                if whole < size:
                    os.ftruncate(fd, whole)
                os.lseek(fd, whole, os.SEEK_SET)
                write_all(fd, b"".join([_encode(said) + b"\n" for said in sayings]))
                sync(fd)
            finally:
                os.close(fd)
        sync_folder(self._folder)

    def _read(self, path: Path) -> Iterator[Said]:
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return
        last = 0
        # Behind the last line break there is nothing, or a line that was cut off.
        for number, line in enumerate(data.split(b"\n")[:-1], 1):
            try:
                said = _decode(line)
            except msgspec.DecodeError as error:
                raise StoreUnusable(
                    f"{path} is damaged in line {number} ({error}). Restore the file from a "
                    "backup, or take out the line to go on without this exchange."
                ) from None
            # What could not be written to its end was written again.
            if said.n > last:
                last = said.n
                yield said

    def _path(self, place: Place) -> Path:
        name = hashlib.sha256(_encode(place)).hexdigest()[:32]
        return self._folder / f"exchanges-{name}.jsonl"
