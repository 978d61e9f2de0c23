"""The gate: each message that asks for a turn passes it once, and each turn is settled once."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace
from tests.runtime.gates import QuickGate, RecordingGate
from tests.runtime.test_publishing import another
from tests.runtime.world import ALICE, World, next_morning, said, world

from trunkline.model.calls import Operation, Refusal
from trunkline.model.errors import (
    InvalidParams,
    PermissionDenied,
    RouteNotFound,
    TaskNotFound,
    TooManyRequests,
    Unavailable,
    UnsupportedOperation,
)
from trunkline.model.outputs import Final, Output, Text
from trunkline.model.principal import Grant, Principal
from trunkline.model.values import TaskState, text_of
from trunkline.ports.backend import TurnRequest
from trunkline.ports.gate import Admission
from trunkline.ports.records import Add, Group, Key, Put
from trunkline.ports.store import Store
from trunkline.runtime import turn_gate
from trunkline.runtime.fanout import Reply
from trunkline.runtime.live_task import LiveTask
from trunkline.testing import FakeClock, ScriptedBackend, settle

USED_UP = Refusal("budget_exhausted", "The budget of today is used up", retry_after_s=3600)
BUDGET = Key("budget.1", "test/agent", "2026-11-18")


def spends(at_most: int, *optional: Group) -> Admission:
    """Takes one of a budget of this size."""
    used = Group((Add(key=BUDGET, amount=1, at_most=at_most),))
    return Admission((used, *optional), USED_UP)


async def used(store: Store) -> int:
    record = await store.record(BUDGET)
    return 0 if record is None else record.count


async def test_a_turn_is_admitted_recorded_and_settled() -> None:
    gate = RecordingGate()
    async with world(gate=gate) as w:
        task = await w.send("say hi", context="c")
        (attempt,) = gate.admitted
        assert attempt.principal == ALICE.principal
        assert (attempt.agent, attempt.task_id, attempt.context_id) == ("test/agent", task.id, "c")
        assert text_of(attempt.message.parts) == "say hi"
        assert not attempt.is_follow_up
        assert gate.recorded == [(attempt, None)]
        ((settled, usage),) = gate.settled
        assert settled is attempt
        assert (usage.state, usage.ran_ms) == (TaskState.COMPLETED, 0)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("say hi", TaskState.COMPLETED),
        ("ask which?", TaskState.INPUT_REQUIRED),
        ("fail because", TaskState.FAILED),
        ("crash", TaskState.FAILED),
        ("refuse no", TaskState.REJECTED),
    ],
)
async def test_every_end_of_a_turn_is_settled(text: str, state: TaskState) -> None:
    gate = RecordingGate()
    async with world(gate=gate) as w:
        await w.send(text)
    assert gate.states == [state]
    assert gate.is_balanced()


async def test_an_answer_without_a_task_is_a_turn_too() -> None:
    gate = RecordingGate()
    async with world(gate=gate, direct=True) as w:
        await w.ask("reply hi")
        with pytest.raises(Exception, match="accept"):
            await w.ask("reply hi", modes=("image/png",))
    assert gate.states == [TaskState.COMPLETED, TaskState.FAILED]
    assert gate.is_balanced()


async def test_a_cancelled_turn_is_settled_whether_it_ran_or_waited() -> None:
    gate = RecordingGate()
    async with world(gate=gate) as w:
        running = await w.submit("hang", context="c")
        waiting = await w.submit("say hi", context="c")
        await w.cancel(waiting.id)
        await w.cancel(running.id)
        await settle()
    assert gate.states == [TaskState.CANCELED, TaskState.CANCELED]
    assert [usage.ran_ms for _, usage in gate.settled] == [None, 0]
    assert gate.is_balanced()


async def test_a_follow_up_and_an_answer_are_attempts_of_their_own() -> None:
    gate = RecordingGate()
    async with world(gate=gate) as w:
        asked = await w.send("ask which?")
        answered = await w.send("wait a; say this", task=asked.id, now=True)
        await w.gates.reached("a")
        queued = w.soon(w.send("say more", task=asked.id))
        await settle()
        w.gates.open("a")
        await queued
        assert answered.id == asked.id
    assert [attempt.is_follow_up for attempt in gate.admitted] == [False, True, True]
    assert {attempt.task_id for attempt in gate.admitted} == {asked.id}
    assert gate.is_balanced()


async def test_a_repeated_request_does_not_pass_again() -> None:
    gate = RecordingGate()
    async with world(gate=gate) as w:
        first = await w.send("say hi", key="k", id="m")
        assert await w.send("say hi", key="k", id="m") == first
        asked = await w.send("ask which?")
        for _ in range(2):
            await w.send("say this", key="l", id="n", task=asked.id)
        assert len(w.scripted.turns) == 3
    assert len(gate.admitted) == 3
    assert gate.is_balanced()


async def test_of_two_equal_requests_at_the_gate_one_runs(make_store: Callable[[], Store]) -> None:
    gate = RecordingGate()
    gate.held["say hi"] = asyncio.Event()
    async with world(gate=gate, store=make_store()) as w:
        sends = [w.soon(w.send("say hi", key="k", id="m")) for _ in range(5)]
        while len(gate.admitted) < 5:
            await settle()
        gate.held["say hi"].set()
        first, *others = await asyncio.gather(*sends)
        assert all(other.id == first.id for other in others)
        assert len(w.scripted.turns) == 1
    assert gate.states.count(TaskState.REJECTED) == 4
    assert gate.is_balanced()


async def test_messages_of_a_lane_keep_their_order_at_a_slow_gate() -> None:
    gate = RecordingGate()
    gate.held["say one"] = asyncio.Event()
    async with world(gate=gate) as w:
        asked = await w.send("ask which?", context="c")
        first = w.soon(w.send("say one", context="c"))
        await settle()
        others = [w.soon(w.send(f"say {n}", context="c")) for n in ("two", "three")]
        follow_up = w.soon(w.send("say four", task=asked.id))
        # Another lane does not wait.
        await w.send("say apart", context="d")
        await settle()
        gate.held["say one"].set()
        await asyncio.gather(first, *others, follow_up)
        said_to = [text_of(turn.message.parts) for turn in w.scripted.turns]
        assert said_to == ["ask which?", "say apart", "say one", "say two", "say three", "say four"]
        assert not w.runtime.intake.gate or not w.runtime.intake.gate._queues
    assert gate.is_balanced()


async def test_the_queue_before_a_slow_gate_is_limited_too() -> None:
    gate = RecordingGate()
    gate.held["say hi"] = asyncio.Event()
    async with world(gate=gate, max_queue_per_context=2) as w:
        asked = await w.send("ask which?", context="c")
        waiting = [w.soon(w.send("say hi", context="c")) for _ in range(3)]
        await settle()
        assert (await w.send("say hi", context="c")).status.state is TaskState.REJECTED
        with pytest.raises(TooManyRequests):
            await w.send("say hi", task=asked.id)
        # Others are not refused.
        await w.send("say apart", context="d")
        gate.held["say hi"].set()
        for task in await asyncio.gather(*waiting):
            assert task.status.state is TaskState.COMPLETED
    assert gate.reasons.count("queue_full") == 2
    assert gate.is_balanced()


@pytest.mark.parametrize("state", [TaskState.REJECTED, TaskState.FAILED])
async def test_a_refused_message_is_a_task_that_says_why(state: TaskState) -> None:
    gate = RecordingGate()
    gate.decision = USED_UP
    name = state.value.removeprefix("TASK_STATE_").lower()
    async with world(gate=gate, refusal_state=name) as w:
        task = await w.send("say hi")
        assert task.status.state is state
        assert said(task) == USED_UP.text
        assert task.status.message is not None
        assert task.status.message.metadata == {
            "reason": "budget_exhausted",
            "retryAfterSeconds": 3600,
        }
        assert not w.scripted.turns
    assert gate.reasons == ["budget_exhausted"]
    assert not gate.settled


async def test_a_refused_message_is_an_error_where_the_profile_says_so() -> None:
    gate = RecordingGate()
    gate.decision = USED_UP
    async with world(gate=gate, overflow="error") as w:
        for direct in (w.send, w.stream):
            with pytest.raises(TooManyRequests, match="used up") as refused:
                await direct("say hi")
            assert refused.value.retry_after_s == 3600
        assert await w.listed() == ()
    assert gate.reasons == ["budget_exhausted"] * 2


async def test_a_refused_follow_up_leaves_its_task_as_it_was() -> None:
    gate = RecordingGate()
    async with world(gate=gate) as w:
        asked = await w.send("ask which?")
        gate.decision = USED_UP
        with pytest.raises(TooManyRequests, match="used up"):
            await w.send("say this", task=asked.id)
        assert await w.get(asked.id) == asked
        gate.decision = Admission()
        assert (await w.send("say this", task=asked.id)).status.state is TaskState.COMPLETED


async def test_a_full_queue_refuses_before_the_gate_is_asked() -> None:
    gate = RecordingGate()
    async with world(gate=gate, max_queue_per_context=1) as w:
        running = await w.submit("hang", context="c")
        waiting = await w.submit("say hi", context="c")
        refused = await w.submit("say hi", context="c")
        assert refused.status.state is TaskState.REJECTED
        with pytest.raises(TooManyRequests):
            await w.submit("say hi", task=running.id)
        for task in (waiting, running):
            await w.cancel(task.id)
        await settle()
    assert len(gate.admitted) == 2
    assert gate.reasons == ["", "", "queue_full", "queue_full"]
    assert gate.is_balanced()


async def test_invalid_messages_do_not_reach_the_gate() -> None:
    gate = RecordingGate()
    async with world(gate=gate) as w:
        ended = await w.send("say hi")
        with pytest.raises(UnsupportedOperation):
            await w.send("say hi", task=ended.id)
        with pytest.raises(TaskNotFound):
            await w.send("say hi", task="made-up")
        with pytest.raises(InvalidParams):
            await w.send("say hi", context="x" * 300)
    assert len(gate.recorded) == 1


@pytest.mark.parametrize("operation", ["send", "stream"])
async def test_a_denied_caller_is_recorded_and_does_not_reach_the_gate(operation: str) -> None:
    gate = RecordingGate()
    grants = (Grant("test/agent", frozenset({Operation.GET_TASK})),)
    limited = replace(ALICE, principal=Principal(id="alice", grants=grants))
    async with world(gate=gate) as w:
        call = w.service.send if operation == "send" else w.service.stream
        with pytest.raises(PermissionDenied):
            await call(w.agent, limited, w.request("say hi", task="t", context="c"))
    assert gate.reasons == ["operation_not_granted"]
    ((attempt, _),) = gate.recorded
    assert (attempt.task_id, attempt.context_id) == ("t", "c")
    assert not gate.admitted


@pytest.mark.parametrize("makes_task", [True, False])
async def test_a_gate_that_raises_refuses_and_harms_no_other(
    makes_task: bool, caplog: pytest.LogCaptureFixture
) -> None:
    gate = RecordingGate()
    async with world(gate=gate, direct=not makes_task) as w:
        asked = await w.send("ask which?")
        gate.decision = RuntimeError("secret of the gate")
        for task in ("", asked.id):
            with pytest.raises(Unavailable) as refused:
                await w.send("say hi", task=task)
            assert "secret" not in refused.value.message
        assert (await w.get(asked.id)).status.state is TaskState.INPUT_REQUIRED
        gate.decision = PermissionDenied("Not today")
        with pytest.raises(PermissionDenied, match="Not today"):
            await w.send("say hi")
        gate.decision = Admission()
        await w.send("say hi", task=asked.id)
    assert gate.reasons == ["", "error", "error", "error", ""]
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == [
        "the gate failed"
    ] * 2
    assert gate.is_balanced()


async def test_a_gate_has_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = RecordingGate()
    gate.held["say late"] = asyncio.Event()
    async with world(gate=gate) as w:
        with monkeypatch.context() as patched:
            patched.setattr(turn_gate, "ADMIT_S", 0)
            with pytest.raises(Unavailable):
                await w.send("say late", context="c")
        assert (await w.send("say hi", context="c")).status.state is TaskState.COMPLETED
    assert gate.reasons == ["error", ""]
    assert gate.is_balanced()


async def test_a_gate_that_cannot_record_or_settle_stops_no_task() -> None:
    gate = RecordingGate()
    gate.error = RuntimeError("no")
    async with world(gate=gate) as w:
        assert (await w.send("say hi")).status.state is TaskState.COMPLETED
        asked = await w.send("ask which?")
        answered = await w.send("say this", task=asked.id)
        assert answered.status.state is TaskState.COMPLETED
        running = await w.submit("hang")
        assert (await w.cancel(running.id)).status.state is TaskState.CANCELED
        await settle()
    assert gate.is_balanced()


async def test_a_queue_that_fills_while_a_message_is_at_the_gate_refuses_it() -> None:
    gate = RecordingGate()
    gate.held["say late"] = asyncio.Event()
    async with world(gate=gate, busy="fail", max_concurrency=1) as w:
        late = w.soon(w.send("say late", context="c"))
        await settle()
        running = await w.submit("hang", context="d")
        gate.held["say late"].set()
        assert (await late).status.state is TaskState.REJECTED
        assert len(w.scripted.turns) == 1
        await w.cancel(running.id)
        await settle()
    assert gate.states == [TaskState.REJECTED, TaskState.CANCELED]
    assert gate.is_balanced()


async def test_a_shutdown_refuses_what_is_at_the_gate() -> None:
    gate = RecordingGate()
    for text in ("say late", "say more"):
        gate.held[text] = asyncio.Event()
    async with world(gate=gate) as w:
        asked = await w.send("ask which?")
        waiting = [w.soon(w.send("say late")), w.soon(w.send("say more", task=asked.id))]
        await settle()
        w.runtime.stop_admitting()
        for event in gate.held.values():
            event.set()
        for each in waiting:
            with pytest.raises(Unavailable, match="shutting down"):
                await each
        assert len(w.scripted.turns) == 1
    assert gate.is_balanced()


async def test_a_caller_that_leaves_at_the_gate_gives_its_place_back() -> None:
    gate = RecordingGate()
    gate.held["say one"] = asyncio.Event()
    async with world(gate=gate) as w:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(w.send("say one", context="c"))
            await settle()
            second = group.create_task(w.send("say two", context="c"))
            await settle()
            first.cancel()
        assert second.result().status.state is TaskState.COMPLETED
        assert len(w.scripted.turns) == 1


async def test_a_restart_does_not_ask_the_gate_again(make_store: Callable[[], Store]) -> None:
    before, after = RecordingGate(), RecordingGate()
    first = World(store=make_store(), node="one", gate=before)
    await first.open()
    await first.submit("hang", context="c")
    queued = await first.submit("say hi", context="c")
    await first.vanish()
    await first.store.close()
    async with world(store=make_store(), node="two", clock=next_morning(), gate=after) as w:
        assert (await w.ended(queued.id)).status.state is TaskState.COMPLETED
    assert len(before.admitted) == 2
    assert (after.admitted, after.recorded, after.settled) == ([], [], [])


async def test_a_budget_is_spent_in_the_commit_that_creates_the_task(
    make_store: Callable[[], Store],
) -> None:
    gate = RecordingGate()
    gate.decision = spends(3)
    async with world(gate=gate, store=make_store()) as w:
        sends = [w.send(f"say {n}") for n in range(10)]
        tasks = await asyncio.gather(*sends)
        refused = [task for task in tasks if task.status.state is TaskState.REJECTED]
        assert len(refused) == 7
        assert {said(task) for task in refused} == {USED_UP.text}
        assert len(await w.listed()) == 10
        # An agent with effects starts only when its task is stored.
        assert len(w.scripted.turns) == 3
        assert await used(w.store) == 3
        # Nothing stays behind.
        assert len(w.runtime.registry) == 0
    refusals = [usage.refusal for _, usage in gate.settled]
    assert (refusals.count(USED_UP), refusals.count(None)) == (7, 3)
    assert gate.is_balanced()


@pytest.mark.parametrize("is_pure", [True, False])
@pytest.mark.parametrize("waits", [True, False])
async def test_a_task_that_the_store_refuses_by_a_limit_says_so_to_every_reader(
    is_pure: bool, waits: bool
) -> None:
    """Whether its turn has begun by then, has even ended, or waits."""
    gate = RecordingGate()
    async with world(gate=gate) as w:
        w.scripted.is_pure = is_pure
        running = await w.submit("hang", context="c")
        gate.decision = spends(0)
        context = "c" if waits else ""
        blocking = w.soon(w.send("say late", context=context, key="k", id="m"))
        repeat = w.soon(w.send("say late", context=context, key="k", id="m"))
        at_once = w.soon(w.submit("say late", context=context))
        stream = await w.stream("say late", context=context)
        short = await w.stream("say late", context=context, history_length=0)
        for sent in (blocking, repeat, at_once):
            assert (await sent).status.state is TaskState.REJECTED
            assert said(await sent) == USED_UP.text
        assert (await blocking).id == (await repeat).id
        # Also when it is repeated later.
        assert await w.send("say late", context=context, key="k", id="m") == await blocking
        for reading in (stream, short):
            await reading.all()
            assert (await w.get(reading.task_id)).status.state is TaskState.REJECTED
            assert [each.event for each in await w.journal(reading.task_id)]
            assert len(await w.journal(reading.task_id)) == 1
        assert await used(w.store) == 0
        await w.cancel(running.id)
        # The lane is free again.
        gate.decision = Admission()
        assert (await w.send("say hi", context="c")).status.state is TaskState.COMPLETED
        assert len(w.runtime.registry) == 0
    assert gate.is_balanced()


async def test_a_limit_that_the_store_finds_reached_is_an_error_where_the_profile_says_so() -> None:
    gate = RecordingGate()
    gate.decision = spends(0)
    async with world(gate=gate, overflow="error") as w:
        with pytest.raises(TooManyRequests, match="used up"):
            await w.send("say hi")
        (item,) = await (await w.stream("say hi")).all()
        assert getattr(item, "error", None) is not None
        assert await w.listed() == ()
        assert not w.scripted.turns
    assert gate.is_balanced()


async def test_the_refusal_names_the_count_that_was_too_high() -> None:
    gate = RecordingGate()
    other = Key("budget.1", "test/agent", "other")
    both = Group((Add(key=BUDGET, amount=1, at_most=5), Add(key=other, amount=1, at_most=1)))
    gate.decision = Admission((both,), why_limited=lambda key: Refusal("limit", f"{key == other}"))
    async with world(gate=gate) as w:
        await w.send("say hi")
        assert said(await w.send("say hi")) == "True"
        assert await used(w.store) == 1


async def test_a_message_that_spends_a_budget_makes_a_task() -> None:
    gate = RecordingGate()
    async with world(gate=gate, direct=True) as w:
        answer = await w.service.send(w.agent, ALICE, w.request("reply hi"))
        assert isinstance(answer, Reply)
        gate.decision = spends(1)
        task = await w.send("reply hi")
        assert task.status.state is TaskState.COMPLETED
        assert await used(w.store) == 1


async def test_a_follow_up_spends_before_it_is_accepted(make_store: Callable[[], Store]) -> None:
    gate = RecordingGate()
    gate.decision = spends(2)
    async with world(gate=gate, store=make_store()) as w:
        asked = await w.send("ask which?")
        running = w.soon(w.send("wait a; ask again?", task=asked.id))
        await w.gates.reached("a")
        # The turn under way is not harmed by a budget that is used up.
        with pytest.raises(TooManyRequests, match="used up"):
            await w.send("say more", task=asked.id)
        w.gates.open("a")
        await running
        assert (await w.get(asked.id)).status.state is TaskState.INPUT_REQUIRED
        assert await used(w.store) == 2
    assert gate.is_balanced()


async def test_an_optional_change_that_fails_changes_nothing_else(
    make_store: Callable[[], Store],
) -> None:
    seen = Key("seen.1", "test/agent", "once")
    gate = RecordingGate()
    once = Group((Put(key=seen, body=b"x", expected=0),), is_required=False)
    gate.decision = spends(10, once)
    async with world(gate=gate, store=make_store()) as w:
        first = await w.send("ask which?")
        second = await w.send("ask which?")
        for task in (first, second):
            done = await w.send("say this", task=task.id)
            assert done.status.state is TaskState.COMPLETED
        assert await used(w.store) == 4
        record = await w.store.record(seen)
        assert record is not None
        assert record.version == 1


async def test_a_message_at_the_gate_goes_to_the_agent_that_takes_over() -> None:
    gate = RecordingGate()
    for text in ("say new", "say more"):
        gate.held[text] = asyncio.Event()
    async with world(gate=gate) as w:
        asked = await w.send("ask which?")
        waiting = [w.soon(w.send("say new")), w.soon(w.send("say more", task=asked.id))]
        await settle()
        successor = another(w)
        await w.runtime.publishing.replace(successor, switch=lambda: None)
        for event in gate.held.values():
            event.set()
        for task in await asyncio.gather(*waiting):
            assert task.status.state is TaskState.COMPLETED
        assert isinstance(successor.backend, ScriptedBackend)
        assert len(successor.backend.turns) == 2
    assert gate.is_balanced()


async def test_a_message_at_the_gate_of_an_agent_that_is_withdrawn_is_refused() -> None:
    gate = RecordingGate()
    gate.held["say late"] = asyncio.Event()
    async with world(gate=gate) as w:
        late = w.soon(w.send("say late"))
        await settle()
        await w.runtime.publishing.withdraw(w.agent.handle, grace_s=0)
        gate.held["say late"].set()
        with pytest.raises(RouteNotFound):
            await late
        assert not w.scripted.turns
    assert gate.states == [TaskState.REJECTED]
    assert gate.is_balanced()


async def test_the_end_of_a_turn_settles_what_it_cost() -> None:
    gate = RecordingGate()
    cost = Key("cost.1", "2026-11-18", "test/agent")

    def settles(metadata: Mapping[str, Any]) -> tuple[Add, ...]:
        return (Add(key=cost, amount=metadata["usage"]["totalTokens"] - 5, at_most=1000),)

    gate.decision = Admission(
        (Group((Add(key=cost, amount=5, at_most=100),)),), USED_UP, settles=settles
    )
    async with world(gate=gate, backend=Priced()) as w:
        task = await w.send("anything")
        assert task.status.state is TaskState.COMPLETED
        record = await w.store.record(cost)
        assert record is not None
        assert record.count == 42
        # A gate that cannot read the report stops no task.
        for text in ("free", "crash"):
            await w.send(text)
        record = await w.store.record(cost)
        assert record is not None
        assert record.count == 42 + 5 + 5
    assert gate.is_balanced()


class Priced(ScriptedBackend):
    """Reports what each turn cost."""

    def __init__(self) -> None:
        super().__init__(clock=FakeClock())

    async def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        text = text_of(turn.message.parts)
        if text == "crash":
            raise RuntimeError("no")
        yield Text("done")
        yield Final(metadata={"usage": {"totalTokens": 42}} if text != "free" else None)


async def test_a_message_overtakes_none_that_waits_at_the_gate() -> None:
    gate = QuickGate()
    gate.held["say one"] = asyncio.Event()
    async with world(gate=gate) as w:
        first = w.soon(w.send("say one", context="c"))
        await settle()
        second = w.soon(w.send("say two", context="c"))
        other = await w.send("say other", context="d")
        await settle()
        assert not second.done()
        gate.held["say one"].set()
        answers = [said(await sent) for sent in (first, second)]
        assert (answers, said(other)) == (["one", "two"], "other")
        assert [text_of(turn.message.parts) for turn in w.scripted.turns] == [
            *("say other", "say one", "say two")
        ]
    assert gate.is_balanced()


@pytest.mark.parametrize(
    ("decision", "error"),
    [(RuntimeError("broken"), Unavailable), (PermissionDenied("Not today"), PermissionDenied)],
)
async def test_a_quick_gate_that_raises_refuses_and_harms_no_other(
    decision: Exception, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    gate = QuickGate()
    async with world(gate=gate) as w:
        gate.decision = decision
        with pytest.raises(error):
            await w.send("say hi", context="c")
        gate.decision = Admission()
        assert (await w.send("say hi", context="c")).status.state is TaskState.COMPLETED
        assert len(w.runtime.registry) == 0
    assert gate.reasons == ["error", ""]
    assert ("the gate failed" in caplog.text) is (error is Unavailable)
    assert gate.is_balanced()


async def test_a_message_that_a_quick_gate_admits_in_vain_is_settled() -> None:
    gate = QuickGate()
    async with world(gate=gate) as w:
        # What the lane holds is encoded with the task, and this cannot be.
        with pytest.raises(UnicodeEncodeError):
            await w.send("say \ud800", context="c")
        ((_, usage),) = gate.settled
        assert (usage.state, usage.ran_ms) == (TaskState.REJECTED, None)
    assert gate.is_balanced()


def live_tasks() -> int:
    return sum(isinstance(each, LiveTask) for each in gc.get_objects())


async def test_a_task_with_a_budget_leaves_no_garbage() -> None:
    """Garbage that is collected later costs time at every send."""
    gate = QuickGate()
    gate.decision = spends(3)
    async with world(gate=gate) as w:
        await w.send("say hi")
        await settle()
        w.scripted.turns.clear()
        gc.collect()
        gc.disable()
        before = live_tasks()
        try:
            await w.send("say hi")
            await settle()
            w.scripted.turns.clear()
            assert live_tasks() == before
        finally:
            gc.enable()
