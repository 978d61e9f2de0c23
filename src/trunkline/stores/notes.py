"""Notes in memory: what is kept under which name, and which of an agent are old."""

from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

from trunkline.ports.store import Scope


class Named(Protocol):
    """A note, or whatever else says which one it is."""

    @property
    def scope(self) -> Scope: ...

    @property
    def context_id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def at_ms(self) -> int: ...


T = TypeVar("T", bound=Named)


class Key(NamedTuple):
    scope: Scope
    context_id: str
    name: str


class NoteIndex(Generic[T]):
    def __init__(self) -> None:
        # By agent, in the order in which they were last kept.
        self._agents: dict[str, dict[Key, T]] = {}

    def __iter__(self) -> Iterator[T]:
        for notes in self._agents.values():
            yield from notes.values()

    def get(self, key: Key) -> T | None:
        return self._agents.get(key.scope.agent, {}).get(key)

    def put(self, note: T) -> T | None:
        """Keep it, or forget it when it is empty. Returns what it takes the place of."""
        agent = note.scope.agent
        notes = self._agents.setdefault(agent, {})
        key = key_of(note)
        before = notes.pop(key, None)
        if note.text:
            notes[key] = note
        elif not notes:
            del self._agents[agent]
        return before

    def old(self, agent: str, *, before_ms: int, limit: int) -> list[T]:
        """Where a clock was set back, some may be passed over until those before them go."""
        found: list[T] = []
        for note in self._agents.get(agent, {}).values():
            if note.at_ms >= before_ms or len(found) == limit:
                break
            found.append(note)
        return found

    def scopes(self) -> Iterable[Scope]:
        return {note.scope: None for note in self}


def key_of(note: Named) -> Key:
    return Key(note.scope, note.context_id, note.name)
