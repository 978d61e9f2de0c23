"""A process is killed, and another one takes its work up, by each policy of `on_restart`."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.runtime.stores import DURABLE, MakeStore
from tests.runtime.world import ALICE, SCOPE, World, next_morning, said, world

from trunkline.engine.recovery import restart_reason
from trunkline.model.calls import ListTasksRequest
from trunkline.model.events import Entry
from trunkline.model.outputs import ArtifactEmitted, Final, Note, Output, Text
from trunkline.model.profile import RestartPolicy
from trunkline.model.values import (
    TERMINAL,
    Artifact,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
    text_of,
)
from trunkline.ports.backend import TurnRequest
from trunkline.ports.store import Append, Creation, Snapshot
from trunkline.stores.memory import MemoryStore
from trunkline.testing import settle
from trunkline.testing.stores.kit import must_put

SUBMITTED, WORKING = TaskState.SUBMITTED, TaskState.WORKING
COMPLETED, FAILED = TaskState.COMPLETED, TaskState.FAILED

CONTEXTS = 20
QUEUED = 25

# Policies → how a task that ran ends, how one that waited ends; None: not at all.
ENDS: dict[tuple[RestartPolicy, ...], tuple[TaskState | None, TaskState | None]] = {
    ("resume_queued", "fail_running"): (FAILED, COMPLETED),
    ("resume_queued", "retry_running"): (COMPLETED, COMPLETED),
    ("resume_queued", "leave_orphaned"): (None, COMPLETED),
    ("fail_running",): (FAILED, FAILED),
    ("leave_orphaned",): (None, None),
}


class Left:
    """What the killed process left: per context the task that ran, then those that waited."""

    def __init__(self) -> None:
        self.running: dict[str, Task] = {}
        self.queued: dict[str, list[Task]] = {}


async def killed(make: MakeStore, folder: Path) -> Left:
    """500 messages wait in 20 contexts, each behind a running one, when the process dies."""
    left = Left()
    store = make(folder)
    w = World(store=store, node="one")
    await w.open()
    for n in range(CONTEXTS):
        context = f"c-{n}"
        left.running[context] = await w.submit("say some; wait go; say more", context=context)
    for number in range(QUEUED):
        for context in left.running:
            task = await w.submit(f"say {number}", context=context)
            left.queued.setdefault(context, []).append(task)
    await settle()
    for task in left.running.values():
        assert await w.state(task.id) is WORKING
    await w.vanish()
    await store.close()
    return left


@pytest.mark.parametrize("policies", ENDS, ids="+".join)
# A real process is killed on both in tests/acceptance/test_restart.py.
@pytest.mark.parametrize("store", ["sqlite", pytest.param("json-file", marks=pytest.mark.full)])
async def test_x11_a_kill_with_500_queued_in_20_contexts_and_20_running(
    store: str, policies: tuple[RestartPolicy, ...], tmp_path: Path
) -> None:
    left = await killed(DURABLE[store], tmp_path)
    ran, waited = ENDS[policies]
    again = DURABLE[store](tmp_path)
    async with world(store=again, node="two", clock=next_morning(), on_restart=policies) as w:
        w.gates.open("go")
        for context, task in left.running.items():
            await check(w, task, ran, WORKING)
            for queued in left.queued[context]:
                await check(w, queued, waited, SUBMITTED)
        began: dict[str, list[str]] = {}
        for turn in w.scripted.turns:
            began.setdefault(turn.context_id, []).append(turn.task_id)
        for context, task in left.running.items():
            order = [task.id] if "retry_running" in policies else []
            order += [each.id for each in left.queued[context]] if waited is COMPLETED else []
            assert began.get(context, []) == order
        assert len({turn.run_id for turn in w.scripted.turns}) == len(w.scripted.turns)
        page = await w.service.list(w.agent, ALICE, ListTasksRequest())
        assert page.total_size == CONTEXTS * (QUEUED + 1)
        assert len(w.runtime.registry) == 0


async def check(w: World, task: Task, expected: TaskState | None, before: TaskState) -> None:
    """The task ended as expected and once, with a reason that names where it was."""
    if expected is None:
        assert await w.state(task.id) is before
        return
    ended = await w.ended(task.id)
    assert ended.status.state is expected
    if expected is FAILED:
        assert said(ended) == restart_reason(before)
    states = await w.states(task.id)
    assert sum(state in TERMINAL for state in states) == 1
    texts = Counter(text_of(message.parts) for message in ended.history)
    assert max(texts.values()) == 1


class Halfway:
    """An agent that says all kinds of things, and is killed before it is done."""

    may_reply_directly = False
    is_pure = False
    can_resume = False

    def __init__(self, *, stops: bool, name: str) -> None:
        self._stops = stops
        self._name = name
        self.turns: list[TurnRequest] = []

    async def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        self.turns.append(turn)
        name = self._name
        yield Text(f"{name} ")
        yield Note((Part(text=f"note of the {name}"),))
        for word in ("one", "two"):
            part = Part(text=f"{name} {word} ")
            yield ArtifactEmitted(
                artifact=Artifact(artifact_id="log", name="log", parts=(part,)), append=True
            )
        yield ArtifactEmitted(
            artifact=Artifact(artifact_id=f"own-{name}", parts=(Part(text=name),))
        )
        if self._stops:
            await asyncio.get_running_loop().create_future()
        yield Text("end")
        yield Final()

    async def cancel(self, run_id: str) -> None:
        pass

    async def close(self) -> None:
        pass


@asynccontextmanager
async def heir(store: MemoryStore, **options: Any) -> AsyncIterator[World]:
    async with world(store=store, node="two", clock=next_morning(), **options) as w:
        yield w


async def test_x11_only_the_output_of_the_new_run_counts() -> None:
    store = MemoryStore()
    first = World(store=store, node="one", backend=Halfway(stops=True, name="first"))
    await first.open()
    task = await first.submit("do it", context="c")
    await settle()
    follow_up = await first.submit("and then", task=task.id)
    await settle()
    assert [each.artifact_id for each in (await first.get(task.id)).artifacts] == [
        *("answer", "log", "own-first")
    ]
    await first.vanish()
    second = Halfway(stops=False, name="second")
    policies = ("resume_queued", "retry_running")
    async with heir(store, backend=second, on_restart=policies) as w:
        done = await w.ended(follow_up.id)
        assert done.status.state is COMPLETED
        # The message that was under way runs again, and then the one behind it.
        assert [text_of(turn.message.parts) for turn in second.turns] == ["do it", "and then"]
        assert [text_of(m.parts) for m in second.turns[0].history] == []
        artifacts = {each.artifact_id: text_of(each.parts) for each in done.artifacts}
        assert artifacts == {
            "answer": "second end",
            "answer-2": "second end",
            "log": "second one second two second one second two ",
            "own-second": "second",
        }
        assert not any("first" in text_of(message.parts) for message in done.history)
        users = [text_of(m.parts) for m in done.history if m.role is Role.USER]
        assert users == ["do it", "and then"]
        retried = [entry for entry in await w.journal(task.id) if entry.kind == "retried.1"]
        assert len(retried) == 1
        assert b'"previousState":"TASK_STATE_WORKING"' in retried[0].public_body


async def test_x11_a_run_that_is_killed_again_and_again_is_retried_each_time() -> None:
    store = MemoryStore()
    policies = ("resume_queued", "retry_running")
    first = World(store=store, node="one", on_restart=policies)
    await first.open()
    task = await first.submit("say some; wait go; say more", context="c")
    await settle()
    await first.vanish()
    later = next_morning()
    for node in ("two", "three"):
        w = World(store=store, node=node, clock=later, on_restart=policies)
        await w.open()
        await settle()
        assert await w.state(task.id) is WORKING
        assert [text_of(each.parts) for each in (await w.get(task.id)).artifacts] == ["some"]
        await w.vanish()
        await later.advance(60)
    async with world(store=store, node="four", clock=later, on_restart=policies) as w:
        w.gates.open("go")
        done = await w.ended(task.id)
        assert said(done) == "somemore"
        assert [text_of(each.parts) for each in done.artifacts] == ["somemore"]


async def test_a_message_that_came_later_to_an_older_task_keeps_its_place() -> None:
    store = MemoryStore()
    first = World(store=store, node="one")
    await first.open()
    older = await first.send("ask size?", context="c")
    await first.submit("hang", context="c")
    await first.clock.advance(1)
    newer = await first.submit("say newer", context="c")
    await first.clock.advance(1)
    await first.submit("say XL", task=older.id)
    await first.vanish()
    async with heir(store) as w:
        assert (await w.ended(older.id)).status.state is COMPLETED
        assert [turn.task_id for turn in w.scripted.turns] == [newer.id, older.id]


async def test_x11_each_agent_has_its_own_policy_and_unknown_ones_wait() -> None:
    store = MemoryStore()
    first = World(store=store, node="one")
    await first.open()
    task = await first.submit("hang", context="c")
    await settle()
    await first.vanish()
    unpublished = World(store=store, node="two", clock=next_morning())
    unpublished.runtime.agents.clear()
    await unpublished.open()
    await unpublished.close()
    later = next_morning()
    await later.advance(60)
    async with world(store=store, node="three", clock=later) as w:
        assert (await w.ended(task.id)).status.state is FAILED


@pytest.mark.parametrize("state", [SUBMITTED, WORKING])
async def test_x11_a_task_that_was_never_begun_here_is_failed_and_not_left_waiting(
    state: TaskState,
) -> None:
    """As another program may leave one: there is a snapshot, and no message to run."""
    store = MemoryStore()
    await store.open()
    task = Task(id="t", context_id="c", status=TaskStatus(state=state))
    snapshot = Snapshot(1, msgspec.json.encode(task))
    append = Append(
        task_id="t",
        expected_seq=0,
        entries=(Entry.of(1, task),),
        state=state,
        status_ms=1,
        creation=Creation(SCOPE, "c", 1),
        snapshot=snapshot,
    )
    await must_put(store, append)
    async with heir(store, on_restart=("resume_queued", "retry_running")) as w:
        ended = await w.ended("t")
        assert (ended.status.state, said(ended)) == (FAILED, restart_reason(state))
