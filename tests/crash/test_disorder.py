"""Many things at once in an order that nobody thought of: nothing is lost, nothing stays behind."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from tests.runtime.world import HANDLE, Reading, World, opened, world

from trunkline.engine.task_fold import TaskFold
from trunkline.model.errors import GatewayBug, StoreUnusable, TrunklineError
from trunkline.model.events import ARTIFACT, Entry
from trunkline.model.session import ReplyPayload
from trunkline.model.values import TERMINAL, Task, TaskState
from trunkline.ports.store import Append, Scope, Settled, StoredTask
from trunkline.runtime.fanout import Opening
from trunkline.stores.memory import MemoryStore
from trunkline.testing import settle

SEEDS = [pytest.param(seed, marks=() if seed < 25 else pytest.mark.full) for seed in range(500)]
SCRIPTS = [
    "say a",
    "ask which?",
    "wait gate; say b",
    "stream 5; wait gate; say c",
    "artifact text a hi; wait gate; ask more?",
    "ignore-cancel; wait gate; say late",
    "delay 3; say d",
    "crash",
    "hang",
]


class MoodyStore(MemoryStore):
    """Commits late, refuses now and then, and takes its time to read."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self._late: list[tuple[Append, Settled]] = []
        self.is_full = self.is_late = False

    def submit(self, appends: Sequence[tuple[Append, Settled]]) -> None:
        self._late += appends
        asyncio.get_running_loop().call_soon(self.commit)

    def commit(self, *, all_of_it: bool = False) -> None:
        if all_of_it or not self.is_late:
            late, self._late = self._late, []
            for append, settled in late:
                settled(StoreUnusable("no space left") if self.is_full else self._apply(append))

    async def get(self, scope: Scope, task_id: str) -> StoredTask | None:
        stored = await super().get(scope, task_id)
        await passes(self._chance.choice([0, 0, 1, 5]))
        return stored

    async def entries(self, task_id: str, *, after: int, limit: int) -> tuple[Entry, ...]:
        found = await super().entries(task_id, after=after, limit=limit)
        await passes(self._chance.choice([0, 0, 1, 5]))
        return found


class Disorder:
    def __init__(self, w: World, store: MoodyStore, chance: random.Random) -> None:
        self._w = w
        self._store = store
        self._chance = chance
        self._calls: list[asyncio.Task[None]] = []
        # What clients know: ids, and the ends that they were told of.
        self._ids: list[str] = []
        self.ends: dict[str, TaskState] = {}
        self.faults: list[str] = []

    async def step(self) -> None:
        # Some more often than others.
        often = [self.send, self.send, self.answer, self.cancel, self.stream, self.follow]
        steps = [*often, *often, self.go_on, self.add, self.open, self.wait, self.leave]
        await self._chance.choice([*steps, self.fill, self.delay, self.commit, self.prune])()
        await passes(self._chance.choice([0, 0, 1, 2, 20]))

    async def send(self) -> None:
        self._call(self._send, self._text(), context=self._context(), **self._options())

    async def answer(self) -> None:
        self._call(self._send, self._text(), task=self._task(), **self._options())

    async def cancel(self) -> None:
        self._call(self._cancel, self._task())

    async def stream(self) -> None:
        length, context = self._chance.choice([None, 0]), self._context()
        stream = partial(self._w.stream, self._text(), context=context, history_length=length)
        self._call(self._read, stream)

    async def go_on(self) -> None:
        self._call(self._read, partial(self._w.stream, self._text(), task=self._task()))

    async def follow(self) -> None:
        after, closes = self._chance.choice([None, 0, 1, 3]), self._chance.random() < 0.3
        follow = partial(self._w.follow, self._task(), after=after, closes_on_input=closes)
        self._call(self._read, follow)

    async def add(self) -> None:
        self._call(self._add, self._task())

    async def open(self) -> None:
        self._w.gates.open("gate")

    async def wait(self) -> None:
        await self._w.clock.advance(self._chance.choice([0.5, 2.1, 6]))

    async def leave(self) -> None:
        for call in self._calls[-1:]:
            call.cancel()

    async def fill(self) -> None:
        self._store.is_full = not self._store.is_full

    async def delay(self) -> None:
        self._store.is_late = not self._store.is_late

    async def commit(self) -> None:
        self._store.commit(all_of_it=True)

    async def prune(self) -> None:
        await self._store.prune(HANDLE, limit=1)

    def _text(self) -> str:
        return self._chance.choice(SCRIPTS)

    def _task(self) -> str:
        return self._chance.choice(self._ids or ["nobody"])

    def _context(self) -> str:
        return self._chance.choice(["c1", "c2", ""])

    def _options(self) -> dict[str, Any]:
        key = self._chance.choice(["", "", "k1", "k2"])
        return {"key": key, "now": self._chance.random() < 0.5}

    def _call(self, what: Callable[..., Awaitable[None]], *args: Any, **options: Any) -> None:
        async def call() -> None:
            try:
                await what(*args, **options)
            except GatewayBug as error:
                self.faults.append(repr(error))
            except TrunklineError:
                pass

        self._calls.append(self._w.callers.start(call(), name="caller"))

    async def _send(self, text: str, **options: Any) -> None:
        self._told(await self._w.send(text, **options))

    async def _cancel(self, task_id: str) -> None:
        self._told(await self._w.cancel(task_id))

    def _told(self, task: Task) -> None:
        self._ids.append(task.id)
        state = task.status.state
        if state in TERMINAL and self.ends.setdefault(task.id, state) is not state:
            self.faults.append(f"{task.id} ended twice")

    async def _add(self, task_id: str) -> None:
        payload = ReplyPayload(text="more")
        await self._w.runtime.queued_replies.deliver(task_id, payload, agent=HANDLE)

    async def _read(self, opening: Callable[[], Awaitable[Reading]]) -> None:
        reading = await opening()
        try:
            while await reading.read() and self._chance.random() > 0.1:
                await passes(self._chance.choice([0, 0, 3]))
        finally:
            reading.close()
        self._ids += [opened(item).id for item in reading.items if isinstance(item, Opening)]
        for item, before in zip(reading.items[1:], reading.items, strict=False):
            if isinstance(item, Entry) and isinstance(before, Entry | Opening):
                self.faults += [] if item.seq == before.seq + 1 else [f"{before.seq}, {item.seq}"]

    async def end(self) -> None:
        """Let all of it come to an end, and cancel what does not."""
        self._store.is_full = self._store.is_late = False
        self._store.commit(all_of_it=True)
        for _ in range(5):
            self._w.gates.open("gate")
            await self._w.clock.advance(6)
        for live in self._w.runtime.registry.all():
            self._call(self._cancel, live.task_id)
        for _ in range(5):
            await self._w.clock.advance(6)
        for call in self._calls:
            call.cancel()
        await settle()


@asynccontextmanager
async def disorder(seed: int) -> AsyncIterator[tuple[World, MoodyStore, Disorder]]:
    chance = random.Random(seed)
    store = MoodyStore(chance)
    profile = {
        "max_concurrency": chance.choice([0, 2]),
        "late_output": chance.choice(["drop", "keep"]),
        "stream_shape": chance.choice(["events", "events", "snapshots"]),
        "subscribe_pause": chance.choice(["by-version", "close"]),
        "stream_buffer": chance.choice([1000, 3]),
    }
    async with world(store=store, agent_style="task-generating", **profile) as w:
        w.scripted.is_pure = chance.random() < 0.3
        made = Disorder(w, store, chance)
        for _ in range(60):
            await made.step()
        await made.end()
        yield w, store, made


@pytest.mark.parametrize("seed", SEEDS)
async def test_nothing_is_lost_and_nothing_stays_behind(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with disorder(seed) as (w, store, made):
        assert not made.faults
        assert not w.runtime.registry.all()
        assert not w.runtime.runs.running
        assert not w.service.readers.subscriptions
        assert (w.agent.lanes.running, w.agent.lanes.total_waiting) == (0, 0)
        for head in store._index:
            first, *rest = head.journal
            fold = TaskFold.begin(first)
            for entry in rest:
                assert fold.state not in TERMINAL or entry.kind == ARTIFACT
                fold.apply(entry)
            assert fold.state is head.state
            assert head.state not in (TaskState.SUBMITTED, TaskState.WORKING)
            assert made.ends.get(head.id, head.state) is head.state
    assert "background task failed" not in caplog.text


async def passes(count: int) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(count):
        done: asyncio.Future[None] = loop.create_future()
        loop.call_soon(done.set_result, None)
        await done
