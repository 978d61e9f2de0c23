"""Answers that made no task: a file per conversation, to which the latest are added."""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from trunkline.model.errors import StoreUnusable
from trunkline.ports.store import Exchange, Scope
from trunkline.stores.exchanges import ExchangeIndex, Spot
from trunkline.stores.jsonfile.blobs import from_json
from trunkline.stores.jsonfile.changes import ConversationChange, Forgot, Said
from trunkline.stores.jsonfile.files import TEMPORARY, remove_all, replace_all, sync, write_all

_PATTERN = "exchanges-*.jsonl"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Said).decode


class Place(NamedTuple):
    """Which conversation it is."""

    scope: Scope
    context_id: str


_Changes = Mapping[Place, Sequence[ConversationChange]]


class Captured(NamedTuple):
    """Which exchanges are wanted, in this order, and what is not in their files yet."""

    numbers: Sequence[int]
    pending: _Changes


class Conversations:
    """Which exchanges there are, and what the log has of them in addition to their files."""

    def __init__(self) -> None:
        self._index: ExchangeIndex[Place] = ExchangeIndex()
        self._pending: dict[Place, list[ConversationChange]] = {}
        # Those to write now, each up to a change: more may come while they are written.
        self._due: dict[Place, int] = {}

    def load(self, exchanges: Iterable[Spot[Place]]) -> None:
        for spot in exchanges:
            self._add(spot)

    def replay(self, change: ConversationChange) -> None:
        # An exchange that was forgotten since, file and all, is so once more further on.
        if isinstance(change, Forgot) or not self._index.has(_spot(change)):
            self.apply(change)

    def apply(self, change: ConversationChange) -> None:
        place = Place(change.scope, change.context_id)
        pending = self._pending.setdefault(place, [])
        pending.append(change)
        if isinstance(change, Said):
            self._add(_spot(change))
            return
        numbers = set(change.gone)
        self._index.remove([spot for spot in self._index.of(place) if spot.n in numbers])
        # To write a file anew for every few that go would cost more the longer it is.
        gone = sum(len(each.gone) for each in pending if isinstance(each, Forgot))
        if gone >= len(self._index.of(place)):
            self._due[place] = change.n

    def _add(self, spot: Spot[Place]) -> None:
        # All of a conversation share one place, to save memory.
        known = self._index.of(spot.item)
        self._index.add(spot._replace(item=known[0].item) if known else spot)

    def oldest(self, agent: str, *, before_ms: int, limit: int) -> dict[Place, list[int]]:
        """The numbers of the oldest exchanges of an agent, by conversation."""
        found: dict[Place, list[int]] = {}
        for spot in self._index.oldest(agent, before_ms=before_ms, limit=limit):
            found.setdefault(spot.item, []).append(spot.n)
        return found

    def count(self, agent: str, *, before_ms: int) -> int:
        return self._index.count(agent, before_ms=before_ms)

    def scopes(self) -> Iterable[Scope]:
        return self._index.scopes()

    def capture(self, scope: Scope, context_id: str, limit: int) -> Captured:
        latest = self._index.latest(scope, context_id, limit)
        places = {spot.item for spot in latest}
        return Captured(
            [spot.n for spot in latest],
            {place: tuple(self._pending.get(place, ())) for place in places},
        )

    def retire(self) -> None:
        self._due = {place: changes[-1].n for place, changes in self._pending.items()}

    @property
    def is_retired(self) -> bool:
        return not self._due

    def due(self, limit: int) -> dict[Place, list[ConversationChange]]:
        return {place: list(self._pending[place]) for place in islice(self._due, limit)}

    def written(self, captured: _Changes) -> None:
        for place, changes in captured.items():
            n = changes[-1].n
            if self._due.get(place, 0) <= n:
                self._due.pop(place, None)
            pending = self._pending.pop(place, [])
            left = [change for change in pending if change.n > n]
            if left:
                self._pending[place] = left


class ConversationFiles:
    """Used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load_all(self) -> list[Spot[Place]]:
        """Every exchange that is in a file; what a crash left half-written goes."""
        for left_over in self._folder.glob(_PATTERN + TEMPORARY):
            left_over.unlink()
        return [spot for path in self.paths() for spot in self.load(path)]

    def paths(self) -> list[Path]:
        return sorted(self._folder.glob(_PATTERN))

    def load(self, path: Path) -> list[Spot[Place]]:
        return [_spot(said) for said in self._read(path).values()]

    def read(self, captured: Captured) -> tuple[Exchange, ...]:
        found: dict[int, Said] = {}
        for place, pending in captured.pending.items():
            found |= self._read(self._folder / _name(place))
            found |= {each.n: each for each in pending if isinstance(each, Said)}
        return tuple([_exchange(found[n]) for n in captured.numbers if n in found])

    def write(self, captured: _Changes, pool: Executor) -> None:
        """Bring the files of these conversations up to date."""
        anew: list[tuple[str, bytes]] = []
        empty: list[str] = []
        for place, changes in captured.items():
            name = _name(place)
            sayings = [each for each in changes if isinstance(each, Said)]
            if len(sayings) == len(changes):
                self._append(self._folder / name, sayings)
            elif left := _folded(self._read(self._folder / name), changes):
                anew.append((name, _lines(left)))
            else:
                empty.append(name)
        if anew:
            replace_all(self._folder, anew, pool)
        # Makes the names of new files durable as well.
        remove_all(self._folder, empty)

    def _append(self, path: Path, sayings: Iterable[Said]) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # What a crash or a full disk has cut off is no line.
            size = os.fstat(fd).st_size
            whole = os.pread(fd, size, 0).rfind(b"\n") + 1
            if whole < size:
                os.ftruncate(fd, whole)
            os.lseek(fd, whole, os.SEEK_SET)
            write_all(fd, _lines(sayings))
            sync(fd)
        finally:
            os.close(fd)

    def _read(self, path: Path) -> dict[int, Said]:
        """By number: what could not be written to its end was written again."""
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return {}
        found: dict[int, Said] = {}
        # Behind the last line break there is nothing, or a line that was cut off.
        for number, line in enumerate(data.split(b"\n")[:-1], 1):
            try:
                said = _decode(line)
            except msgspec.DecodeError as error:
                raise StoreUnusable(
                    f"{path} is damaged in line {number} ({error}). Restore the file from a "
                    "backup, or take out the line to go on without this exchange."
                ) from None
            found[said.n] = said
        return found


def _folded(found: dict[int, Said], changes: Iterable[ConversationChange]) -> list[Said]:
    for change in changes:
        if isinstance(change, Said):
            found[change.n] = change
        else:
            for n in change.gone:
                found.pop(n, None)
    return list(found.values())


def _lines(sayings: Iterable[Said]) -> bytes:
    return b"".join([_encode(said) + b"\n" for said in sayings])


def _spot(said: Said) -> Spot[Place]:
    return Spot(said.at_ms, said.n, Place(said.scope, said.context_id))


def _exchange(said: Said) -> Exchange:
    return Exchange(said.scope, said.context_id, said.at_ms, from_json(said.messages))


def _name(place: Place) -> str:
    text = hashlib.sha256(_encode(place)).hexdigest()[:32]
    return f"exchanges-{text}.jsonl"
