"""Ended tasks are forgotten by age and by number, for each agent as its profile says, and
answers without a task by age."""

from pathlib import Path

import pytest
from tests.runtime.stores import LOCAL, STORES
from tests.runtime.world import World, world

from trunkline.model.errors import TaskNotFound
from trunkline.model.values import TaskState, text_of
from trunkline.ports.caller_records import ANSWER
from trunkline.runtime.retention import RETENTION, STEP, Gone, count_prunable, prune
from trunkline.settings.profiles import preset
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock

HANDLE = "test/agent"


async def ids(w: World) -> set[str]:
    return {task.id for task in await w.listed(page_size=100)}


@pytest.mark.parametrize("store", LOCAL)
async def test_d24_x03_tasks_go_once_they_ended_long_enough_ago(store: str, tmp_path: Path) -> None:
    async with world(store=LOCAL[store](tmp_path), retention_s=100.0) as w:
        ended = [
            (await w.send(script)).id for script in ("say one", "fail no", "refuse no", "ask size?")
        ]
        asked = ended.pop()
        running = await w.submit("hang", context="c")
        waiting = await w.submit("say later", context="c")
        canceled = await w.submit("wait a")
        await w.cancel(canceled.id)
        await w.clock.advance(70)
        young = await w.send("say two")
        assert {*ended, canceled.id} <= await ids(w)
        await w.sweep()
        assert {*ended, canceled.id} <= await ids(w)
        await w.clock.advance(49)
        await w.sweep()
        # What has not ended does not age.
        assert await ids(w) == {asked, running.id, waiting.id, young.id}
        with pytest.raises(TaskNotFound):
            await w.get(ended[0])


@pytest.mark.parametrize("store", STORES)
async def test_x03_an_ended_task_is_not_found_any_more_even_before_it_is_deleted(
    store: str, tmp_path: Path
) -> None:
    async with world(store=STORES[store](tmp_path), retention_s=100.0) as w:
        ended, asked = await w.send("say one"), await w.send("ask size?")
        w.clock.jump(100)
        assert (await w.get(ended.id)).id == ended.id
        w.clock.jump(1)
        for use in (w.get(ended.id), w.cancel(ended.id), w.send("say more", task=ended.id)):
            with pytest.raises(TaskNotFound):
                await use
        assert (await w.get(asked.id)).status.state is TaskState.INPUT_REQUIRED
        # A clock that was wrong hides tasks and deletes none.
        assert {ended.id, asked.id} <= await ids(w)
        w.clock.jump(-50)
        assert (await w.get(ended.id)).id == ended.id


@pytest.mark.parametrize("store", STORES)
async def test_x03_only_so_many_ended_tasks_are_kept(store: str, tmp_path: Path) -> None:
    kept = STORES[store](tmp_path)
    async with world(store=kept, retention_s=0.0, retention_max_tasks=3) as w:
        asked = await w.send("ask size?")
        done = [(await w.send(f"say {n}")).id for n in range(8)]
        await w.sweep()
        assert await ids(w) == {asked.id, *done[-3:]}
        await w.sweep()
        assert await ids(w) == {asked.id, *done[-3:]}


async def test_x03_the_sweep_runs_by_itself() -> None:
    async with world(retention_s=10.0) as w:
        await w.send("say one")
        await w.clock.advance(59)
        assert len(await w.listed()) == 1
        await w.clock.advance(2)
        assert await w.listed() == ()


async def transcript(w: World) -> list[str]:
    """What the turn that began last could know of the conversation."""
    session = w.scripted.turns[-1].session
    assert session is not None
    return [text_of(message.parts) for message in await session.transcript()]


@pytest.mark.parametrize("store", LOCAL)
async def test_x03_answers_without_a_task_go_when_they_are_old(store: str, tmp_path: Path) -> None:
    clock = FakeClock()
    kept = LOCAL[store](tmp_path, clock)
    async with world(direct=True, store=kept, clock=clock, retention_s=100.0) as w:
        await w.ask("reply one", context="c")
        await w.clock.advance(59)
        await w.ask("reply two", context="c")
        await w.ask("reply now", context="c")
        assert await transcript(w) == ["reply one", "one", "reply two", "two"]
        await w.clock.advance(50)
        await w.sweep()
        assert await transcript(w) == ["reply two", "two"]


async def test_x03_the_sweep_forgets_answers_without_a_task_by_itself() -> None:
    async with world(direct=True, retention_s=10.0) as w:
        await w.ask("reply one", context="c")
        await w.clock.advance(59)
        await w.ask("reply now", context="c")
        assert await transcript(w) == ["reply one", "one"]
        await w.clock.advance(2)
        assert await transcript(w) == []


async def test_x03_answers_without_a_task_are_kept_for_ever_without_an_age() -> None:
    async with world(direct=True, retention_s=0.0, retention_max_tasks=1) as w:
        for number in range(3):
            await w.ask(f"reply {number}", context="c")
        await w.clock.advance(61)
        await w.ask("reply now", context="c")
        await w.sweep()
        # The number is one of tasks.
        assert await transcript(w) == ["reply 0", "0", "reply 1", "1", "reply 2", "2"]


async def test_many_answers_without_a_task_go_in_small_steps() -> None:
    class Counting(MemoryStore):
        steps: tuple[int, ...] = ()

        async def delete_due(self, kind: str, scope: str, *, before_ms: int, limit: int) -> int:
            gone = await super().delete_due(kind, scope, before_ms=before_ms, limit=limit)
            self.steps += (gone,) if kind == ANSWER else ()
            return gone

    clock = FakeClock()
    store = Counting(clock)
    async with world(direct=True, store=store, clock=clock) as w:
        for number in range(STEP + 10):
            await w.ask("reply x", context=f"c{number}")
        before_ms = w.clock.now_ms() + 1
        gone = await prune(store, HANDLE, before_ms=before_ms, keep=None)
        assert gone == Gone(tasks=0, answers=STEP + 10)
        assert store.steps == (STEP, 10, 0)
        assert await store.records(ANSWER, limit=9) == ()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("standard", 7 * 86_400), ("openclaw-design", 7 * 86_400), ("hub", 1800)],
)
async def test_x03_d24_h14_what_the_presets_keep(name: str, expected: float) -> None:
    assert preset(name).retention_s == expected


async def test_x03_nothing_is_ever_forgotten_inbound() -> None:
    class Watched(MemoryStore):
        sweeps = 0

        async def count_ended(self, agent: str, *, before_ms: int | None = None) -> int:
            self.sweeps += 1
            return await super().count_ended(agent, before_ms=before_ms)

        async def prune(self, agent: str, *, limit: int, before_ms: int | None = None) -> int:
            self.sweeps += 1
            return await super().prune(agent, limit=limit, before_ms=before_ms)

    store = Watched()
    options = {"preset_name": "openclaw-inbound", "agent_style": "task-generating"}
    async with world(store=store, **options) as w:
        done = await w.send("say one")
        await w.clock.advance(200)
        assert await ids(w) == {done.id}
        # A sweep does not even look at the tasks of this agent.
        assert store.sweeps == 0
        assert await w.store.records(RETENTION, limit=9) == ()


async def test_many_tasks_go_in_small_steps() -> None:
    class Counting(MemoryStore):
        steps: tuple[int, ...] = ()

        async def prune(self, agent: str, *, limit: int, before_ms: int | None = None) -> int:
            self.steps += (limit,)
            return await super().prune(agent, limit=limit, before_ms=before_ms)

    store = Counting()
    async with world(store=store, retention_s=0.0) as w:
        for _ in range(STEP + 10):
            await w.send("say x")
        assert await count_prunable(store, HANDLE, before_ms=None, keep=5) == Gone(STEP + 5)
        assert await prune(store, HANDLE, before_ms=None, keep=5) == Gone(STEP + 5)
        assert store.steps == (STEP, 5)
        now_ms = w.clock.now_ms()
        assert await count_prunable(store, HANDLE, before_ms=now_ms + 1, keep=4) == Gone(5)
        assert await prune(store, HANDLE, before_ms=now_ms + 1, keep=4) == Gone(5)
        assert await count_prunable(store, HANDLE, before_ms=None, keep=None) == Gone()
        assert all(task.status.state is TaskState.COMPLETED for task in await w.listed())
