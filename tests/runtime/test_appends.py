"""What goes to the store together, and how little of it."""

from collections.abc import Sequence

from tests.runtime.world import world

from trunkline.model.events import ARTIFACT, STATUS, TASK, Entry
from trunkline.model.values import TaskArtifactUpdateEvent, TaskState
from trunkline.ports.store import Append, Settled
from trunkline.stores.memory import MemoryStore
from trunkline.testing import settle


class WatchedStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.appends: list[Append] = []

    def submit(self, appends: Sequence[tuple[Append, Settled]]) -> None:
        self.appends += [append for append, _ in appends]
        super().submit(appends)


def chunks(journal: Sequence[Entry]) -> list[tuple[str | None, bool]]:
    """Text and `lastChunk` of every chunk."""
    events = [entry.event for entry in journal]
    return [
        (event.artifact.parts[0].text, event.last_chunk is True)
        for event in events
        if isinstance(event, TaskArtifactUpdateEvent)
    ]


async def test_a_pure_turn_that_waits_for_nothing_is_one_append() -> None:
    store = WatchedStore()
    async with world(store=store) as w:
        w.scripted.is_pure = True
        await w.send("say hello")
        [append] = store.appends
        assert [entry.kind for entry in append.entries] == [TASK, STATUS, ARTIFACT, STATUS]
        assert append.creation is not None
        assert append.snapshot is not None


async def test_a_turn_with_effects_begins_with_the_append_of_its_task() -> None:
    store = WatchedStore()
    async with world(store=store) as w:
        await w.send("say hello")
        accepted, ended = store.appends
        assert [entry.kind for entry in accepted.entries] == [TASK, STATUS]
        assert accepted.state is TaskState.WORKING
        assert [entry.kind for entry in ended.entries] == [ARTIFACT, STATUS]


async def test_a_chunk_that_has_not_left_is_marked_as_the_last_one() -> None:
    async with world() as w:
        task = await w.send("say one; say two")
        assert chunks(await w.journal(task.id)) == [("one", False), ("two", True)]


async def test_a_chunk_that_has_left_is_followed_by_one_that_closes() -> None:
    async with world() as w:
        task = await w.submit("say one; wait gate")
        await w.gates.reached("gate")
        await settle()
        w.gates.open("gate")
        await w.ended(task.id)
        assert chunks(await w.journal(task.id)) == [("one", False), ("", True)]


async def test_another_artifact_is_not_taken_for_the_answer() -> None:
    async with world() as w:
        task = await w.send("say one; artifact text a hello")
        assert chunks(await w.journal(task.id)) == [("one", False), ("hello", True), ("", True)]
