"""Large texts: kept once, in slices, and whole for whoever works with them."""

import asyncio
import sqlite3
import zlib
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest
from tests.runtime.stores import DURABLE, STORES, MakeStore
from tests.runtime.world import SCOPE, World, world

from trunkline.engine.gateway_texts import AGENT_FAILED
from trunkline.model.errors import StoreError
from trunkline.model.large_values import MARK, SLICE_BYTES, referred_ids
from trunkline.model.outputs import Final, Output, Question, Text
from trunkline.model.values import Artifact, Message, Part, Task, TaskState, text_of
from trunkline.ports.backend import TurnRequest
from trunkline.ports.store import Append, Settled
from trunkline.runtime.large_append_turns import LARGE_APPEND_BYTES
from trunkline.stores.large_appends import Submit
from trunkline.stores.memory import LargeValues, MemoryStore
from trunkline.stores.sqlite import SqliteStore
from trunkline.stores.sqlite.check import check

TEXT = 'A line with "quotes", ünïcode ✓ and 😀.\n' * 20_000


class Listening:
    """Says what it is told to, and keeps what it was given."""

    can_resume = False
    may_reply_directly = False

    def __init__(self, *says: Output, is_pure: bool = True) -> None:
        self.is_pure = is_pure
        self._says = says
        self.turns: list[TurnRequest] = []
        self.transcripts: list[list[str]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        # Cleared, it has no end of its own.
        self.end = asyncio.Event()
        self.end.set()

    def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        return self._play(turn)

    async def _play(self, turn: TurnRequest) -> AsyncIterator[Output]:
        self.turns.append(turn)
        assert turn.session is not None
        told = await turn.session.transcript()
        self.transcripts.append(said(*told))
        await self.gate.wait()
        for output in self._says:
            yield output
        await self.end.wait()

    async def cancel(self, run_id: str) -> None:
        pass

    async def close(self) -> None:
        pass


@pytest.fixture(params=list(STORES))
def make(request: pytest.FixtureRequest) -> MakeStore:
    return STORES[request.param]


def short(text: str) -> str:
    """The text, or what tells a large one from others: a failure is to be readable."""
    return text if len(text) < 100 else f"{len(text)} characters, {zlib.crc32(text.encode())}"


WHOLE = short(TEXT)


def said(*messages: Message | Artifact) -> list[str]:
    return [short(text_of(each.parts)) for each in messages]


async def texts_of(world: World, task: object) -> list[str]:
    """The texts of a task as a caller gets them: messages, then artifacts."""
    data = msgspec.json.encode(task)
    pieces = await world.service.large_values.pieces(SCOPE, data)
    whole = b"".join([piece async for piece in world.service.large_values.written_out(pieces)])
    assert len(whole) == pieces.size
    value = msgspec.json.decode(whole)
    parts = [part for message in value.get("history", []) for part in message["parts"]]
    parts += [part for artifact in value.get("artifacts", []) for part in artifact["parts"]]
    return [short(part["text"]) for part in parts]


async def test_an_answer_is_kept_once(tmp_path: Path, make: MakeStore) -> None:
    store = make(tmp_path)
    agent = Listening(Text(TEXT))
    async with world(store=store, backend=agent) as here:
        task = await here.send("go")
        assert task.status.state is TaskState.COMPLETED
        assert await texts_of(here, task) == ["go", WHOLE, WHOLE]
        entries = await here.journal(task.id)
        if store.keeps_large_values:
            referred = [found for entry in entries for found in referred_ids(entry.body)]
            assert len(referred) == 2, "the artifact and the status refer to the text"
            assert len(set(referred)) == 1, "which is there once"
            assert max(len(entry.body) for entry in entries) < 1000
        else:
            assert not any(MARK in entry.body for entry in entries)


async def test_an_answer_in_pieces_is_kept_whole(tmp_path: Path, make: MakeStore) -> None:
    """Pieces are small entries; what they come to is large."""
    store = make(tmp_path)
    pieces = [TEXT[start : start + 50_000] for start in range(0, len(TEXT), 50_000)]
    async with world(store=store, backend=Listening(*map(Text, pieces))) as here:
        task = await here.send("go")
        assert await texts_of(here, task) == ["go", WHOLE, WHOLE]
        stored = await store.get(SCOPE, task.id)
        assert stored is not None
        assert stored.snapshot is not None
        if store.keeps_large_values:
            snapshot = stored.snapshot
            assert len(snapshot.task) + len(snapshot.artifacts) < 2000
            assert referred_ids(snapshot.artifacts) == referred_ids(snapshot.task)


@pytest.mark.parametrize("is_pure", [True, False], ids=["pure", "with effects"])
async def test_the_agent_gets_large_texts_whole(
    tmp_path: Path, make: MakeStore, is_pure: bool
) -> None:
    agent = Listening(Text(TEXT), Question((Part(text="more?"),)), is_pure=is_pure)
    async with world(store=make(tmp_path), backend=agent) as here:
        task = await here.send("first " + TEXT, context="c")
        await here.send("second " + TEXT, task=task.id)
        await here.send("third", context="c")
    first, second, _ = agent.turns
    asked, again = short("first " + TEXT), short("second " + TEXT)
    assert said(first.message, second.message) == [asked, again]
    assert said(*second.history) == [asked, "more?"]
    assert said(*second.artifacts) == [WHOLE]
    # A turn of another task in the same context.
    assert agent.transcripts[2] == [asked, "more?", again, "more?"]


@pytest.mark.parametrize("name", list(DURABLE))
async def test_a_large_message_that_waits_outlives_a_restart(tmp_path: Path, name: str) -> None:
    before = Listening()
    before.gate.clear()
    here = World(store=DURABLE[name](tmp_path), backend=before, max_concurrency=1)
    await here.open()
    first = await here.submit("keeps the agent busy", context="c")
    waiting = await here.submit(TEXT, context="c")
    await here.vanish()
    await here.store.close()

    after = Listening(Final((Part(text="done"),)))
    there = World(store=DURABLE[name](tmp_path), backend=after, node="other")
    await there.open()
    task = await there.ended(waiting.id)
    assert said(*[turn.message for turn in after.turns]) == [WHOLE]
    assert await texts_of(there, task) == [WHOLE, "done", "done"]
    assert (await there.get(first.id)).status.state is TaskState.FAILED
    await there.close()


async def test_a_text_that_is_no_json_fails_the_task(make: MakeStore, tmp_path: Path) -> None:
    agent = Listening(Text("ü" * SLICE_BYTES + "\ud800"))
    async with world(store=make(tmp_path), backend=agent) as here:
        task = await here.send("go")
        assert task.status.state is TaskState.FAILED
        assert task.status.message is not None
        assert text_of(task.status.message.parts) == AGENT_FAILED
        # Nothing of it is left, and the next one is answered.
        assert not any(MARK in entry.body for entry in await here.journal(task.id))
        assert (await here.send("again")).status.state is TaskState.FAILED


async def test_the_agent_waits_while_large_texts_are_stored() -> None:
    """They are in memory until then, so they must not pile up."""
    here = World(backend=(agent := Listening(*[Text(f"{n}{TEXT}") for n in range(8)])))
    await here.open()
    most = 0
    sending = here.soon(here.send("go"))
    while not sending.done():
        held = [len(live.values + live.in_flight_values) for live in here.runtime.registry.all()]
        most = max(most, *held, 0)
        await asyncio.wait({sending}, timeout=0)
    assert 0 < most <= 3
    assert agent.turns
    await here.close()


class HeldValues(LargeValues):
    """Begins to write large values, and goes on when it is told to."""

    def __init__(self, submit: Submit) -> None:
        super().__init__(submit)
        self.began, self.go = asyncio.Event(), asyncio.Event()

    async def _write(self, append: Append) -> None:
        self.began.set()
        await self.go.wait()
        await super()._write(append)


async def test_cancel_while_a_large_text_is_being_stored() -> None:
    store = MemoryStore()
    values = store._large = HeldValues(store._submit)
    agent = Listening(Text(TEXT), Text("and so on"))
    agent.gate.clear()
    agent.end.clear()
    async with world(store=store, backend=agent) as here:
        task = await here.submit("go")
        agent.gate.set()
        await values.began.wait()
        # Nobody sees what is not stored, and others are served.
        assert (await here.get(task.id)).artifacts == ()
        canceling = here.soon(here.cancel(task.id))
        agent.gate.clear()
        await here.submit("another")
        assert not canceling.done()
        values.go.set()
        assert (await canceling).status.state is TaskState.CANCELED
        # What the agent had said counts, and is whole.
        texts = await texts_of(here, await here.get(task.id))
        assert (texts[0], texts[-1]) == ("go", short(f"{TEXT}and so on"))
        seqs = [entry.seq for entry in await here.journal(task.id)]
        assert seqs == list(range(1, len(seqs) + 1))


async def test_two_large_answers_at_once(tmp_path: Path, make: MakeStore) -> None:
    agent = Listening(Text(TEXT))
    async with world(store=make(tmp_path), backend=agent) as here:
        first, second = await asyncio.gather(here.send("one"), here.send("two"))
        assert await texts_of(here, first) == ["one", WHOLE, WHOLE]
        assert await texts_of(here, second) == ["two", WHOLE, WHOLE]


async def test_db_check_reads_large_texts(tmp_path: Path) -> None:
    pieces = [TEXT[start : start + 50_000] for start in range(0, len(TEXT), 50_000)]
    path = tmp_path / "store.db"
    async with world(store=SqliteStore(path), backend=Listening(*map(Text, pieces))) as here:
        await here.send("go")
    async with world(store=SqliteStore(path), backend=Listening(Text(TEXT)), node="two") as here:
        await here.send(TEXT)
    assert [found.what for found in check(path).faults] == []
    db = sqlite3.connect(path)
    with db:
        db.execute("DELETE FROM slices WHERE place = (SELECT min(place) FROM slices)")
    db.close()
    assert ["a large text has" in found.what for found in check(path).faults] == [True]


class InlineStore(MemoryStore):
    """Keeps texts where they are, as json-file does, and remembers what was under way at once."""

    keeps_large_values = False

    def __init__(self) -> None:
        super().__init__()
        self.under_way: set[str] = set()
        self.most_at_once = 0

    def submit(self, appends: Sequence[tuple[Append, Settled]]) -> None:
        for append, settled in appends:
            if append.size_bytes > LARGE_APPEND_BYTES:
                self.under_way.add(append.task_id)
                self.most_at_once = max(self.most_at_once, len(self.under_way))
            super().submit([(append, partial(self._settle, append.task_id, settled))])

    def _settle(self, task_id: str, settled: Settled, error: StoreError | None) -> None:
        self.under_way.discard(task_id)
        settled(error)


async def test_large_appends_of_several_tasks_take_turns() -> None:
    store = InlineStore()
    async with world(store=store) as w:
        text = "x" * (LARGE_APPEND_BYTES + 1)
        tasks = [await w.submit(f"wait gate; say {text}") for _ in range(5)]
        store.most_at_once = 0
        w.gates.open("gate")
        for task in tasks:
            assert (await w.ended(task.id)).status.state is TaskState.COMPLETED
        assert store.most_at_once == 1


async def test_long_answers_that_end_together_are_put_together_one_after_the_other() -> None:
    """Each is in memory as a whole until it is stored, so that twenty at once would be much."""
    pieces = [TEXT[:50_000]] * (LARGE_APPEND_BYTES // 50_000 + 1)
    async with world(backend=Listening(*map(Text, pieces))) as here:
        most = 0

        async def send_all() -> list[Task]:
            return await asyncio.gather(*(here.send("go") for _ in range(5)))

        sending = here.soon(send_all())
        while not sending.done():
            held = [
                len(live.values + live.in_flight_values) for live in here.runtime.registry.all()
            ]
            most = max(most, sum(held))
            await asyncio.wait({sending}, timeout=0)
        assert most == 1
        assert {task.status.state for task in sending.result()} == {TaskState.COMPLETED}


async def test_a_long_answer_that_is_canceled_at_its_turn_holds_up_no_other() -> None:
    async with world() as w:
        said = f"stream {LARGE_APPEND_BYTES // 50_000 + 1} of 50000; wait gate; say end"
        tasks = [await w.submit(said) for _ in range(3)]
        w.gates.open("gate")
        await w.cancel(tasks[1].id)
        for task in tasks:
            await w.ended(task.id)
        assert (await w.send("say small")).status.state is TaskState.COMPLETED
        assert w.runtime.journal.large_turns.holder is None


async def test_a_large_append_that_is_refused_holds_up_no_other() -> None:
    store = InlineStore()
    async with world(store=store) as w:
        text = "x" * (LARGE_APPEND_BYTES + 1)
        tasks = [await w.submit(f"wait gate; say {text}") for _ in range(3)]
        w.gates.open("gate")
        await w.cancel(tasks[1].id)
        for task in tasks:
            await w.ended(task.id)
        assert (await w.send("say small")).status.state is TaskState.COMPLETED
        assert not w.runtime.journal.large_turns.waiting
