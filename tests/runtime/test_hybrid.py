"""Message or task (I-7, I-8), under the preset `openclaw-inbound`."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tests.runtime.outputs import artifacts_of, told
from tests.runtime.world import World, said, world

from trunkline.model.outputs import Output, StageEnded, Text
from trunkline.model.values import Part, Role, TaskState, text_of
from trunkline.ports.backend import TurnRequest
from trunkline.runtime.fanout import Reply
from trunkline.testing import settle

COMPLETED, FAILED, WORKING = TaskState.COMPLETED, TaskState.FAILED, TaskState.WORKING
EMPTY = "OpenClaw completed without a user-visible terminal reply."


def inbound(**options: Any) -> AbstractAsyncContextManager[World]:
    return world(preset_name="openclaw-inbound", **options)


DIRECT = [
    ("final hello", "hello"),
    ("say hel; say lo", "hello"),
    ("preview hel; preview hello", "hello"),
    ("block one; block two", "one\n\ntwo"),
    ("say streamed; block block; stage-end whole", "whole"),
    ("stage; say hello; tool-event other grep", "hello"),
    ("reply hello", "hello"),
]


@pytest.mark.parametrize(("script", "text"), DIRECT)
async def test_i8_a_run_of_one_message_is_a_message_and_nothing_is_stored(
    script: str, text: str
) -> None:
    async with inbound() as w:
        message = await w.ask(script, context="c")
        assert (text_of(message.parts), message.role) == (text, Role.AGENT)
        assert (message.context_id, message.task_id) == ("c", "")
        assert await w.listed() == ()
        assert len(w.runtime.registry) == 0
        assert not w.runtime.runs.running


@pytest.mark.parametrize(("script", "text"), DIRECT)
async def test_i8_the_stream_of_such_a_run_is_exactly_one_message(script: str, text: str) -> None:
    async with inbound() as w:
        reading = await w.stream(script)
        [item] = await reading.all()
        assert isinstance(item, Reply)
        assert await w.listed() == ()


async def test_i8_nothing_shows_of_a_direct_run_before_it_ends() -> None:
    async with inbound() as w:
        reading = await w.stream("stream 50; wait a; say end")
        await w.gates.reached("a")
        assert reading.subscription._items == []
        assert len(w.runtime.registry) == 0
        w.gates.open("a")
        [item] = await reading.all()
        assert isinstance(item, Reply)


async def test_i8_direct_messages_have_their_own_ids() -> None:
    async with inbound() as w:
        messages = [await w.ask("final a"), await w.ask("final a")]
        assert len({message.message_id for message in messages}) == 2
        assert len({message.context_id for message in messages}) == 2


async def test_i8_1_a_message_to_a_task_is_a_turn_of_it() -> None:
    async with inbound() as w:
        task = await w.send("ask which?")
        assert task.status.state is TaskState.INPUT_REQUIRED
        assert said(await w.send("final this", task=task.id)) == "this"


async def test_i8_2_task_generating_is_always_a_task() -> None:
    async with inbound(agent_style="task-generating") as w:
        for script, text in DIRECT:
            task = await w.send(script)
            assert (task.status.state, said(task)) == (COMPLETED, text)
        assert len(await w.listed()) == len(DIRECT)


async def test_i8_2_task_generating_is_a_task_for_an_agent_that_replies_directly() -> None:
    async with world(direct=True, agent_style="task-generating") as w:
        assert said(await w.send("reply hello")) == "hello"


async def test_i7_i8_3_non_blocking_returns_the_submitted_task_and_the_run_goes_on() -> None:
    async with inbound() as w:
        task = await w.submit("wait a; final hello")
        assert task.status.state is TaskState.SUBMITTED
        assert [text_of(message.parts) for message in task.history] == ["wait a; final hello"]
        assert task.artifacts == ()
        w.gates.open("a")
        assert said(await w.ended(task.id)) == "hello"


async def test_i7_blocking_answers_with_the_latest_task_and_all_its_history() -> None:
    async with inbound() as w:
        task = await w.send("ask which?")
        assert said(task) == "which?"
        task = await w.send("summary s; final this", task=task.id)
        assert [text_of(message.parts) for message in task.history] == [
            "ask which?",
            "which?",
            "summary s; final this",
            "this",
        ]


@pytest.mark.parametrize(
    ("script", "state", "text"),
    [
        ("say a; summary done; say b", COMPLETED, "ab"),
        ("tool-event start grep; say b", COMPLETED, "b"),
        ("say a; stage; say b", COMPLETED, "b"),
        ("stage-end a; stage-end b", COMPLETED, "b"),
        ("stage-end a; final b", COMPLETED, "b"),
        ("say a; fail no network", FAILED, "no network"),
        ("fail no network", FAILED, "no network"),
        ("delay 0", COMPLETED, EMPTY),
        ("note aside; say b", COMPLETED, "b"),
        ("artifact text a words; say b", COMPLETED, "b"),
        ("refuse no", TaskState.REJECTED, "no"),
        ("auth sign in", TaskState.AUTH_REQUIRED, "sign in"),
    ],
    ids=[
        "4-tool-summary",
        "5-tool-event",
        "6-second-stage",
        "6-second-final",
        "6-second-final-at-the-end",
        "7-failure-after-text",
        "7-failure",
        "8-nothing-said",
        "note",
        "artifact",
        "refusal",
        "sign-in",
    ],
)
async def test_i8_what_promotes(script: str, state: TaskState, text: str) -> None:
    async with inbound() as w:
        task = await w.send(script)
        assert (task.status.state, said(task)) == (state, text)
        assert await w.get(task.id, 99) == task


async def test_i8_8_an_exception_promotes_and_keeps_what_was_said() -> None:
    async with inbound() as w:
        task = await w.send("say partial; crash secret")
        assert task.status.state is FAILED
        assert artifacts_of(task) == {"assistant-output-0001": "partial"}
        assert "failed while working" in said(task)
        assert "secret" not in said(task)


async def test_i8_on_promotion_the_task_then_its_states_then_what_was_held_back() -> None:
    async with inbound() as w:
        reading = await w.stream("say a; block b; say c; tool-event start grep; say d")
        items = await reading.all()
        assert [line[0] for line in told(items)] == [
            "task",
            "submitted",
            "working",
            "assistant-output-0001",
            "assistant-output-0001",
            "tool-progress-call-grep",
            "assistant-output-0001",
            "assistant-output-0001",
            "completed",
        ]
        assert told(items)[:5] == [
            ("task", "submitted"),
            ("submitted",),
            ("working",),
            ("assistant-output-0001", "a"),
            ("assistant-output-0001", "c", "append"),
        ]
        assert told(items)[-1] == ("completed", "acd")
        assert reading.entries == list(await w.journal(reading.task_id))


async def test_i8_a_promoted_run_stays_a_task() -> None:
    async with inbound() as w:
        task = await w.send("tool grep; tool grep; stage; say a; stage; final b")
        assert len(await w.listed()) == 1
        assert await w.states(task.id) == [
            TaskState.SUBMITTED,
            TaskState.SUBMITTED,
            WORKING,
            COMPLETED,
        ]


async def test_i12_a_direct_run_has_no_id_by_which_it_could_be_canceled() -> None:
    async with inbound() as w:
        answer = w.soon(w.ask("say a; wait gate"))
        await w.gates.reached("gate")
        assert await w.listed() == ()
        w.gates.open("gate")
        assert text_of((await answer).parts) == "a"


async def test_i12_a_client_that_leaves_does_not_stop_the_run() -> None:
    async with inbound() as w:
        reading = await w.stream("wait gate; tool grep; say a")
        await w.gates.reached("gate")
        reading.close()
        w.gates.open("gate")
        await settle()
        [task] = await w.listed()
        assert said(task) == "a"


async def test_a_slow_run_becomes_a_task_and_shows_what_it_said() -> None:
    async with inbound(promote_after_ms=2000) as w:
        reading = await w.stream("say early; wait gate; say  late")
        await w.gates.reached("gate")
        await w.clock.advance(1.9)
        assert reading.subscription._items == []
        await w.clock.advance(0.2)
        assert told(await reading.read()) == [
            ("task", "submitted"),
            ("submitted",),
            ("working",),
            ("assistant-output-0001", "early"),
        ]
        w.gates.open("gate")
        await reading.all()
        assert told(reading.items)[-1] == ("completed", "earlylate")


async def test_a_run_that_ends_in_time_stays_a_message() -> None:
    async with inbound(promote_after_ms=2000) as w:
        message = await w.ask("final quick")
        assert text_of(message.parts) == "quick"
        await w.clock.advance(3)
        assert await w.listed() == ()


async def test_a_run_that_waits_long_in_the_queue_shows_as_submitted() -> None:
    async with inbound(promote_after_ms=1000) as w:
        first = await w.submit("wait gate; final one", context="c")
        second = w.soon(w.send("final two", context="c"))
        await w.clock.advance(1.5)
        states = {task.status.state for task in await w.listed()}
        assert states == {WORKING, TaskState.SUBMITTED}
        w.gates.open("gate")
        await w.ended(first.id)
        assert said(await second) == "two"


class Unspeakable:
    """Says something that is no JSON, and waits."""

    may_reply_directly = False
    is_pure = False
    can_resume = False

    def __init__(self, *, ends: bool) -> None:
        self._ends = ends
        self.canceled: list[str] = []

    async def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        yield Text("said")
        yield StageEnded((Part(data=object()),))
        if not self._ends:
            raise RuntimeError("and crashes")

    async def cancel(self, run_id: str) -> None:
        self.canceled.append(run_id)

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("ends", [True, False])
async def test_a_reply_that_is_no_json_fails(ends: bool) -> None:
    async with inbound(backend=Unspeakable(ends=ends)) as w:
        task = await w.send("hello")
        assert task.status.state is FAILED
        assert not w.runtime.runs.running


async def test_a_direct_run_past_its_deadline_fails_and_keeps_what_it_said() -> None:
    async with inbound(task_deadline_s=10.0) as w:
        answer = w.soon(w.send("say partial; hang"))
        await w.clock.advance(12)
        task = await answer
        assert (task.status.state, said(task)) == (FAILED, "The agent did not finish within 10 s.")
        assert artifacts_of(task) == {"assistant-output-0001": "partial"}


async def test_i7_a_stream_with_a_history_length_may_be_one_message_too() -> None:
    async with inbound() as w:
        reading = await w.stream("final hello", history_length=1)
        [item] = await reading.all()
        assert isinstance(item, Reply)


async def test_the_standard_style_promotes_without_a_second_submitted() -> None:
    async with world(agent_style="hybrid") as w:
        assert text_of((await w.ask("say hello")).parts) == "hello"
        reading = await w.stream("say a; tool grep; say b")
        await reading.all()
        assert told(reading.items)[:3] == [("task", "submitted"), ("working",), ("answer", "a")]
        task = await w.send("delay 0")
        assert (task.status.state, said(task)) == (COMPLETED, "")
