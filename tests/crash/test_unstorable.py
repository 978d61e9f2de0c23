"""An append that cannot be made: its own task is refused, and no other waits for it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from msgspec import structs
from tests.runtime.stores import AheadStore
from tests.runtime.world import World, opened, said, world

from trunkline.backends.scripted.backend import Gates
from trunkline.model.errors import Unavailable
from trunkline.model.events import Entry
from trunkline.model.outputs import ArtifactEmitted, Final, Output
from trunkline.model.values import Artifact, Part, TaskState, text_of
from trunkline.ports.backend import TurnRequest
from trunkline.ports.store import Append, Settled
from trunkline.runtime.fanout import CutOff, Opening
from trunkline.runtime.store_refusals import NOT_STORED
from trunkline.testing import settle

WORKING, COMPLETED, FAILED = TaskState.WORKING, TaskState.COMPLETED, TaskState.FAILED


class WrittenDown(AheadStore):
    """Has the bytes of its entries and no more, as one with a disk."""

    def submit(self, appends: Sequence[tuple[Append, Settled]]) -> None:
        super().submit([(written(append), settled) for append, settled in appends])


def written(append: Append) -> Append:
    entries = tuple([Entry(entry.seq, entry.kind, entry.body) for entry in append.entries])
    return structs.replace(append, entries=entries)


class Spoiling:
    """Told `spoil`, it puts into what it has said already what no JSON can hold, so that the
    task cannot be written down at its end; told `spoil later`, when the gate opens."""

    may_reply_directly = False
    can_resume = False

    def __init__(self, *, is_pure: bool = False) -> None:
        self.is_pure = is_pure
        self.gates = Gates()

    async def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        text = text_of(turn.message.parts)
        if text.startswith("spoil"):
            data: dict[str, Any] = {"fine": True}
            yield ArtifactEmitted(artifact=Artifact(artifact_id="a", parts=(Part(data=data),)))
            if text == "spoil later":
                await self.gates.wait("gate")
            data["fine"] = object()
        yield Final((Part(text=text),))

    async def cancel(self, run_id: str) -> None: ...

    async def close(self) -> None: ...


async def working(w: World, agent: Spoiling) -> str:
    """The id of the only task, once it is stored that it is worked on."""
    await agent.gates.reached("gate")
    await settle()
    [task] = await w.listed()
    assert task.status.state is WORKING
    return task.id


async def test_a_task_that_cannot_be_stored_holds_up_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world(backend=Spoiling(is_pure=True)) as w:
        texts = ["before", "spoil", "after"]
        before, spoiled, after = [w.soon(w.send(text, key=text)) for text in texts]
        async with asyncio.timeout(10):
            assert (await before).status.state is COMPLETED
            assert (await after).status.state is COMPLETED
            with pytest.raises(Unavailable):
                await spoiled
        assert "a commit could not be made" in caplog.text
        assert "type object is unsupported" in caplog.text
        assert len(await w.listed()) == 2
        assert len(w.runtime.registry) == 0
        # Nothing of it is left, so that its key is free.
        assert (await w.send("fine", key="spoil")).status.state is COMPLETED


async def test_a_stored_task_that_cannot_go_on_fails() -> None:
    agent = Spoiling()
    async with world(store=WrittenDown(), backend=agent) as w:
        blocking = w.soon(w.send("spoil later", context="c"))
        task_id = await working(w, agent)
        reader = await w.follow(task_id)
        agent.gates.open("gate")
        async with asyncio.timeout(10):
            with pytest.raises(Unavailable):
                await blocking
            await reader.all()
        opening, cut = reader.items
        assert isinstance(opening, Opening)
        assert opened(opening).status.state is WORKING
        assert cut == CutOff("the store is unavailable", 3)
        await settle()
        # It is the task that could not be stored: what comes behind it need not wait.
        assert (await w.send("next", context="c")).status.state is COMPLETED
        await w.clock.advance(2.1)
        ended = await w.ended(task_id)
        assert (ended.status.state, said(ended)) == (FAILED, NOT_STORED)
        assert [entry.seq for entry in await w.journal(task_id)] == [1, 2, 3, 4]
        assert len(w.runtime.registry) == 0


async def test_what_was_on_its_way_to_the_store_before_counts() -> None:
    store, agent = WrittenDown(), Spoiling(is_pure=True)
    async with world(store=store, backend=agent) as w:
        store.is_held = True
        reader = await w.stream("spoil later")
        await agent.gates.reached("gate")
        await settle()
        agent.gates.open("gate")
        await settle()
        store.is_held = False
        store.tell()
        async with asyncio.timeout(10):
            await reader.all()
        assert reader.seqs == [1, 2, 3]
        assert reader.items[-1] == CutOff("the store is unavailable", 3)
        await w.clock.advance(2.1)
        ended = await w.ended(reader.task_id)
        assert (ended.status.state, said(ended)) == (FAILED, NOT_STORED)
        assert [entry.seq for entry in await w.journal(ended.id)] == [1, 2, 3, 4]
        assert len(w.runtime.registry) == 0
