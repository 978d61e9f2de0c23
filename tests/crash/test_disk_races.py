"""A crash at any moment while much happens at once: what was acknowledged is there."""

import asyncio
import random
from pathlib import Path

import pytest
from tests.crash.disk import Disk
from tests.unit.stores.jsonfiles import store_on

from trunkline.model.values import TaskState
from trunkline.ports.caller_records import ANSWER, answer_id, note_key, put_answer
from trunkline.ports.records import Put
from trunkline.ports.store import Store
from trunkline.stores.jsonfile import opened as opened_module
from trunkline.testing.stores.kit import ALICE, COMPLETED, WORKING, create, follow, must_put

PAUSED = TaskState.INPUT_REQUIRED
SEEDS = [pytest.param(seed, marks=() if seed < 2 else pytest.mark.full) for seed in range(60)]


class Traffic:
    """Writers that do not wait for each other, and what each was told to be safe, in order."""

    def __init__(self, store: Store, disk: Disk, chance: random.Random) -> None:
        self._store = store
        self._disk = disk
        self._chance = chance
        self.tasks: list[tuple[int, str, int]] = []
        self.said: list[tuple[int, Put]] = []
        self.notes: list[tuple[int, str, int]] = []

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(self._task(f"t{number}"))
            for number in range(3):
                group.create_task(self._talk(f"c{number}"))
                group.create_task(self._keep(f"n{number}"))

    async def _task(self, task_id: str) -> None:
        steps = self._chance.randrange(1, 25)
        for seq in range(steps):
            state = self._chance.choice([WORKING, WORKING, PAUSED])
            if seq == steps - 1:
                state = self._chance.choice([state, COMPLETED])
            new = follow(task_id, seq, state=state) if seq else create(task_id, state=state)
            await must_put(self._store, new)
            self.tasks.append((self._acknowledged(), task_id, seq + 1))
            await self._pause()

    async def _talk(self, context_id: str) -> None:
        for number in range(1, self._chance.randrange(2, 9)):
            put = put_answer(ALICE, context_id, answer_id(number, 0, context_id), b"[%d]" % number)
            await self._store.change(put)
            self.said.append((self._acknowledged(), put))
            await self._pause()

    async def _keep(self, name: str) -> None:
        for number in range(1, self._chance.randrange(2, 9)):
            await self._store.change(Put(key=note_key(ALICE, "c", name), body=b"%d" % number))
            self.notes.append((self._acknowledged(), name, number))
            await self._pause()

    def _acknowledged(self) -> int:
        self._disk.committed += 1
        return self._disk.committed

    async def _pause(self) -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        loop.call_later(self._chance.choice([0, 0, 0.001, 0.004]), done.set_result, None)
        await done

    async def check(self, left: Store, committed: int) -> None:
        """All that was acknowledged by then is there, and nothing by halves."""
        for number, task_id, seq in self.tasks:
            if number <= committed:
                task = await left.get(ALICE, task_id)
                assert task is not None
                journal = await left.entries(task_id, after=0, limit=99)
                assert [entry.seq for entry in journal] == list(range(1, task.last_seq + 1))
                assert task.last_seq >= seq
        for number, put in self.said:
            if number <= committed:
                there = await left.records(ANSWER, tag=put.tags[1], limit=99)
                assert (put.key, put.body) in [(record.key, record.body) for record in there]
        for number, name, latest in self.notes:
            if number <= committed:
                note = await left.record(note_key(ALICE, "c", name))
                assert note is not None
                assert int(note.body) >= latest


@pytest.mark.parametrize("seed", SEEDS)
async def test_json_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = random.Random(seed)
    moments = random.Random(seed)

    def is_looked_at() -> bool:
        return moments.random() < 0.15

    disk = Disk(tmp_path / "store", tmp_path / "copies", is_looked_at=is_looked_at)
    store = store_on(tmp_path / "store", log_bytes=chance.choice([0, 500, 3000]))
    await store.open()
    with monkeypatch.context() as patch:
        # So that some wait for their turn to be written.
        patch.setattr(opened_module, "_FILES_AT_ONCE", 2)
        disk.watch(patch)
        traffic = Traffic(store, disk, chance)
        await traffic.run()
        await store.close()
    assert len(disk.cases) > 5
    for copy, committed in [*disk.cases, (tmp_path / "store", disk.committed)]:
        left = store_on(copy)
        await left.open()
        await traffic.check(left, committed)
        await left.close()
