"""A request with a key that is answered without a task: the same answer again, and one run."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.stores import DURABLE
from tests.runtime.world import World, next_morning, said, world

from trunkline.model.errors import (
    ContentTypeNotSupported,
    IdempotencyConflict,
    StoreUnusable,
    TrunklineError,
)
from trunkline.model.values import Message, TaskState, text_of
from trunkline.ports.records import Change
from trunkline.ports.store import Store
from trunkline.runtime.fanout import Reply
from trunkline.stores.memory import MemoryStore
from trunkline.testing import settle

INBOUND: dict[str, Any] = {"preset_name": "openclaw-inbound", "list_tasks": "served"}


def runs(w: World) -> int:
    return len(w.scripted.turns)


async def test_a_key_gives_the_message_again_and_runs_once(
    make_store: Callable[[], Store],
) -> None:
    async with world(store=make_store(), **INBOUND) as w:
        first = await w.ask("say one", key="k", id="m")
        assert text_of(first.parts) == "one"
        assert await w.ask("say one", key="k", id="m") == first
        assert await w.listed() == ()
        assert runs(w) == 1
        assert len(w.runtime.keys) == 0
        other = await w.ask("say one", key="l", id="m")
        assert other.message_id != first.message_id
        assert runs(w) == 2


async def test_a_stream_with_a_key_is_one_message_and_so_is_its_repeat() -> None:
    async with world(**INBOUND) as w:
        [first] = await (await w.stream("stream 3", key="k", id="m")).all()
        [again] = await (await w.stream("stream 3", key="k", id="m")).all()
        assert isinstance(first, Reply)
        assert again == first
        assert runs(w) == 1


async def test_repeats_while_it_runs_get_the_same_answer() -> None:
    async with world(**INBOUND) as w:
        first = w.soon(w.ask("wait a; say one", key="k", id="m"))
        await w.gates.reached("a")
        again = [w.soon(w.ask("wait a; say one", key="k", id="m")) for _ in range(2)]
        stream = await w.stream("wait a; say one", key="k", id="m")
        left = await w.stream("wait a; say one", key="k", id="m")
        left.close()
        await settle()
        w.gates.open("a")
        answers = await asyncio.gather(first, *again)
        assert all(answer == answers[0] for answer in answers)
        [reply] = await stream.all()
        assert isinstance(reply, Reply)
        assert runs(w) == 1


async def test_a_repeat_of_a_run_that_becomes_a_task_gets_the_task() -> None:
    async with world(**INBOUND) as w:
        first = w.soon(w.send("wait a; tool grep; say one", key="k", id="m"))
        await w.gates.reached("a")
        again = w.soon(w.send("wait a; tool grep; say one", key="k", id="m"))
        stream = await w.stream("wait a; tool grep; say one", key="k", id="m")
        await settle()
        w.gates.open("a")
        task = await first
        assert (await again).id == task.id
        await stream.all()
        assert stream.task_id == task.id
        assert (await w.send("wait a; tool grep; say one", key="k", id="m")).id == task.id
        assert runs(w) == 1
        assert len(w.runtime.keys) == 0


async def test_the_answer_outlives_the_process(make_store: Callable[[], Store]) -> None:
    first = World(store=make_store(), node="one", **INBOUND)
    await first.open()
    answer = await first.ask("say one", key="k", id="m")
    await first.close()
    async with world(store=make_store(), node="two", clock=next_morning(), **INBOUND) as w:
        assert await w.ask("say one", key="k", id="m") == answer
        [reply] = await (await w.stream("say one", key="k", id="m")).all()
        assert isinstance(reply, Reply)
        assert runs(w) == 0
        with pytest.raises(IdempotencyConflict):
            await w.ask("say two", key="k", id="m")


async def test_another_request_with_the_key_is_a_conflict() -> None:
    async with world(**INBOUND) as w:
        running = w.soon(w.ask("wait a; say one", key="k", id="m"))
        await w.gates.reached("a")
        for text in ("say other", "say third"):
            with pytest.raises(IdempotencyConflict):
                await w.ask(text, key="k", id="m")
        w.gates.open("a")
        await running
        with pytest.raises(IdempotencyConflict):
            await w.ask("say other", key="k", id="m")
        assert runs(w) == 1


async def test_an_answer_that_the_caller_does_not_take_is_refused_again_without_a_run() -> None:
    async with world(**INBOUND) as w:
        errors: list[TrunklineError] = []
        for _ in range(2):
            with pytest.raises(ContentTypeNotSupported) as refused:
                await w.ask("say one", key="k", id="m", modes=("image/png",))
            errors.append(refused.value)
        assert (errors[0].message, errors[0].metadata) == (errors[1].message, errors[1].metadata)
        assert runs(w) == 1


class KeyStore(MemoryStore):
    """Changes records when it is told to, or not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.may_keep = asyncio.Event()
        self.asked = asyncio.Event()
        self.is_refusing = False

    async def change(self, *changes: Change) -> None:
        self.asked.set()
        await self.may_keep.wait()
        if self.is_refusing:
            raise StoreUnusable("the disk is full")
        await super().change(*changes)


async def test_the_agent_starts_when_the_key_is_stored() -> None:
    store = KeyStore()
    async with world(store=store, **INBOUND) as w:
        answer = w.soon(w.ask("say one", key="k", id="m"))
        await store.asked.wait()
        await settle()
        assert runs(w) == 0
        store.may_keep.set()
        assert text_of((await answer).parts) == "one"


async def test_a_key_that_cannot_be_stored_runs_nothing_and_holds_up_nobody() -> None:
    store = KeyStore()
    store.is_refusing = True
    store.may_keep.set()
    async with world(store=store, **INBOUND) as w:
        with pytest.raises(TrunklineError):
            await w.ask("say one", key="k", id="m", context="c")
        assert runs(w) == len(w.runtime.keys) == 0
        store.is_refusing = False
        assert text_of((await w.ask("say one", key="k", id="m", context="c")).parts) == "one"


async def test_a_run_that_is_to_show_as_a_task_before_its_key_is_stored_does() -> None:
    store = KeyStore()
    async with world(store=store, **INBOUND, promote_after_ms=100) as w:
        sent = w.soon(w.send("say one", key="k", id="m"))
        await store.asked.wait()
        await w.clock.advance(1)
        [task] = await w.listed()
        assert task.status.state is TaskState.SUBMITTED
        store.may_keep.set()
        assert said(await sent) == "one"
        assert runs(w) == 1


@pytest.fixture(params=DURABLE)
def folder_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    return lambda: DURABLE[request.param](tmp_path)


async def test_after_a_kill_a_repeat_is_a_failed_task_and_no_second_run(
    folder_store: Callable[[], Store],
) -> None:
    """Nobody knows what the run did before the process went."""
    first = World(store=folder_store(), node="one", **INBOUND)
    await first.open()
    sent = first.soon(first.ask("wait a; say one", key="k", id="m", context="c"))
    await first.gates.reached("a")
    await first.vanish()
    sent.cancel()
    await first.store.close()
    async with world(store=folder_store(), node="two", clock=next_morning(), **INBOUND) as w:
        repeats = [w.soon(w.send("wait a; say one", key="k", id="m", context="c")) for _ in "12"]
        task, again = await asyncio.gather(*repeats)
        assert task.status.state is TaskState.FAILED
        assert "was not run again" in said(task)
        assert (again.id, task.context_id) == (task.id, "c")
        assert runs(w) == 0
        later = await w.send("wait a; say one", key="k", id="m", context="c")
        assert later.id == task.id
        assert len(await w.listed()) == 1


async def test_a_message_id_is_a_key_where_the_agent_says_so() -> None:
    async with world(**INBOUND, deduplicate_messages=True) as w:
        first: Message = await w.ask("say one", id="m")
        assert await w.ask("say one", id="m") == first
        assert runs(w) == 1
