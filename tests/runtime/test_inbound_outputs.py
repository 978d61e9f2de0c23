"""What an agent says as events of its task (I-9), under the preset `openclaw-inbound`."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tests.runtime.outputs import artifact_of, artifacts_of, told
from tests.runtime.world import World, said, world

from trunkline.model.outputs import Final, Output, Text
from trunkline.model.values import Part, TaskArtifactUpdateEvent, TaskState
from trunkline.ports.backend import TurnRequest
from trunkline.ports.store import Store
from trunkline.testing import Gates

TASK = [("task", "submitted"), ("submitted",), ("working",)]
OUTPUT = "assistant-output-0001"


def inbound(**options: Any) -> AbstractAsyncContextManager[World]:
    return world(preset_name="openclaw-inbound", **options)


async def streamed(w: World, script: str, **options: Any) -> list[tuple[Any, ...]]:
    reading = await w.stream(script, **options)
    return told(await reading.all())


async def test_i9_the_example_stream() -> None:
    async with inbound() as w:
        assert await streamed(w, "summary Tool summary; stage-end after tool") == [
            *TASK,
            ("tool-result-0001", "Tool summary"),
            (OUTPUT, "after tool"),
            (OUTPUT, "", "append", "last"),
            ("completed", "after tool"),
        ]


async def test_i9_append_and_last_chunk_are_said_where_they_mean_something() -> None:
    async with inbound() as w:
        reading = await w.stream("tool grep; summary s; say a; say b; replace c")
        await reading.all()
        chunks = [
            (event.artifact.artifact_id, event.append, event.last_chunk)
            for entry in reading.entries
            if isinstance(event := entry.public, TaskArtifactUpdateEvent)
        ]
        assert chunks == [
            ("tool-progress-call-grep", False, None),
            ("tool-progress-call-grep", False, True),
            ("tool-result-0001", False, None),
            (OUTPUT, False, False),
            (OUTPUT, True, False),
            (OUTPUT, False, False),
            (OUTPUT, True, True),
        ]


async def test_i9_cumulative_text_and_deltas() -> None:
    async with inbound() as w:
        script = "tool grep; preview He; preview Hello; preview Hello; preview , you"
        assert (await streamed(w, script))[5:] == [
            (OUTPUT, "He"),
            (OUTPUT, "llo", "append"),
            (OUTPUT, ", you", "append"),
            (OUTPUT, "", "append", "last"),
            ("completed", "Hello, you"),
        ]


async def test_i9_another_text_replaces_the_whole() -> None:
    async with inbound() as w:
        assert (await streamed(w, "tool grep; say draft; stage-end The answer"))[5:] == [
            (OUTPUT, "draft"),
            (OUTPUT, "The answer", "last"),
            ("completed", "The answer"),
        ]


async def test_i9_tool_progress_is_replaced_in_each_phase() -> None:
    async with inbound() as w:
        task = await w.send(
            'tool-event start grep {"q": "x"}\n'
            'tool-event update grep {"found": 1}\n'
            'tool-event result grep {"found": 2}\n'
            "say done"
        )
        progress = artifact_of(task, "tool-progress-call-grep")
        assert progress.name == "grep progress"
        assert progress.metadata == {
            "source": "tool",
            "phase": "result",
            "toolName": "grep",
            "toolCallId": "call-grep",
            "sequence": 1,
        }
        text, data = progress.parts
        assert text == Part(text="Completed tool grep")
        assert data == Part(
            data={
                "phase": "result",
                "name": "grep",
                "toolCallId": "call-grep",
                "result": {"found": 2},
                "isError": False,
            }
        )
        failed = await w.send("tool-event error grep")
        assert artifact_of(failed, "tool-progress-call-grep").parts[0].text == "Tool grep failed"


async def test_i9_no_vendor_metadata() -> None:
    async with inbound() as w:
        task = await w.send("tool grep; summary s; say a; stage; say b")
        for artifact in task.artifacts:
            assert artifact.metadata is not None
            assert not any("openclaw" in key for key in artifact.metadata)


async def test_d5_later_turns_overwrite_nothing() -> None:
    async with inbound() as w:
        turn = "tool grep; summary s{0}; say a{0}; stage; say b{0}; ask {0}?"
        task = await w.send(turn.format(1))
        first = artifacts_of(task)
        task = await w.send(turn.format(2), task=task.id)
        both = artifacts_of(task)
        assert {key: both[key] for key in first} == first
        assert [key for key in both if key not in first] == [
            "tool-progress-call-grep-2",
            "tool-result-0002",
            "assistant-output-0003",
            "assistant-output-0004",
        ]


async def test_d5_nor_does_a_turn_after_the_task_has_left_the_memory() -> None:
    async with inbound() as w:
        task = await w.send("say a; ask ?")
        assert len(w.runtime.registry) == 0
        task = await w.send("say b", task=task.id)
        assert artifacts_of(task) == {OUTPUT: "a", "assistant-output-0002": "b"}


@pytest.mark.parametrize("preset_name", ["standard", "openclaw-inbound"])
@pytest.mark.parametrize(
    ("script", "error"),
    [("say partial; fail no network", "no network"), ("say partial; crash", "The agent failed")],
)
async def test_d16_failure_text_beside_partial_output(
    preset_name: str, script: str, error: str
) -> None:
    async with world(preset_name=preset_name) as w:
        task = await w.send(script)
        assert task.status.state is TaskState.FAILED
        assert error in said(task)
        assert list(artifacts_of(task).values()) == ["partial"]


class Stubborn:
    """Ignores every request to stop until its gate opens, and then has more to say."""

    may_reply_directly = False
    is_pure = False
    can_resume = False

    def __init__(self) -> None:
        self.gates = Gates()

    async def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        text = turn.message.parts[0].text or ""
        if text:
            yield Text(text)
        while True:
            try:
                await self.gates.wait("gate")
            except asyncio.CancelledError:
                continue
            break
        yield Text(" and more")
        yield Final()

    async def cancel(self, run_id: str) -> None:
        self.gates.open("canceled")

    async def close(self) -> None:
        pass


async def test_i12_cancel_of_an_agent_that_ignores_it_ends_with_its_text() -> None:
    stubborn = Stubborn()
    async with inbound(backend=stubborn) as w:
        task = await w.submit("some")
        await stubborn.gates.reached("gate")
        cancel = w.soon(w.cancel(task.id))
        await stubborn.gates.wait("canceled")
        stubborn.gates.open("gate")
        canceled = await cancel
        assert (canceled.status.state, said(canceled)) == (TaskState.CANCELED, "some and more")
        assert artifacts_of(canceled) == {OUTPUT: "some and more"}


async def test_i12_an_agent_that_never_stops_is_waited_for_only_so_long() -> None:
    stubborn = Stubborn()
    async with inbound(backend=stubborn, cancel_grace_s=5.0) as w:
        task = await w.submit("some")
        await stubborn.gates.reached("gate")
        cancel = w.soon(w.cancel(task.id))
        await w.clock.advance(5.1)
        canceled = await cancel
        assert (canceled.status.state, said(canceled)) == (TaskState.CANCELED, "some")
        stubborn.gates.open("gate")
        await w.clock.advance(0)
        assert await w.get(task.id, 99) == canceled


@pytest.mark.parametrize("script", ["tool grep; hang", "ask which?", "hang"])
async def test_i9_a_cancel_without_text_says_who_asked_for_it(script: str) -> None:
    async with inbound() as w:
        task = await w.submit(script)
        await w.clock.advance(0)
        canceled = await w.cancel(task.id)
        assert canceled.status.state is TaskState.CANCELED
        assert said(canceled) == "Task cancellation requested by the client."


async def test_x10_late_output_is_kept_in_an_artifact_where_the_profile_says_so(
    make_store: Callable[[], Store],
) -> None:
    stubborn = Stubborn()
    async with world(
        store=make_store(), backend=stubborn, late_output="keep", cancel_grace_s=1.0
    ) as w:
        task = await w.submit("some")
        await stubborn.gates.reached("gate")
        cancel = w.soon(w.cancel(task.id))
        await w.clock.advance(1.1)
        canceled = await cancel
        assert "its late output is kept" in said(canceled)
        assert artifacts_of(canceled) == {"answer": "some"}
        stubborn.gates.open("gate")
        late = canceled
        async with asyncio.timeout(10):
            while "late-output" not in artifacts_of(late):
                await w.clock.advance(0)
                late = await w.get(task.id)
        assert late.status == canceled.status
        assert artifacts_of(late) == {"answer": "some", "late-output": " and more"}
        assert len(w.runtime.registry) == 0


async def test_x10_late_output_during_the_grace_is_kept_too() -> None:
    stubborn = Stubborn()
    async with world(backend=stubborn, late_output="keep") as w:
        task = await w.submit("some")
        await stubborn.gates.reached("gate")
        cancel = w.soon(w.cancel(task.id))
        await stubborn.gates.wait("canceled")
        stubborn.gates.open("gate")
        canceled = await cancel
        assert canceled.status.state is TaskState.CANCELED
        await w.clock.advance(0)
        assert artifacts_of(await w.get(task.id))["late-output"] == " and more"
        assert (await w.states(task.id))[-1] is TaskState.CANCELED
