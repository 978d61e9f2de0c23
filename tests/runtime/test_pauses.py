"""Approvals, questions and sign-ins: the task waits, and goes on by its id (I-10)."""

from typing import Any

import pytest
from tests.runtime.outputs import told
from tests.runtime.world import World, opened, said, world

from trunkline.model.values import Role, TaskState, text_of
from trunkline.runtime.fanout import Opening

PRESETS = ["standard", "openclaw-inbound", "openclaw-design"]
WAITING = TaskState.INPUT_REQUIRED
APPROVAL = (
    'tool-event start shell\ntool-event result shell {"requiresApproval": '
    '{"type": "approval_request", "prompt": "  Run it?  "}}\nsay never heard\ntool grep'
)


async def streamed(w: World, script: str, **options: Any) -> list[tuple[Any, ...]]:
    reading = await w.stream(script, **options)
    return told(await reading.all())


@pytest.mark.parametrize("preset_name", PRESETS)
async def test_i10_a_result_that_waits_for_approval_pauses_the_task(preset_name: str) -> None:
    async with world(preset_name=preset_name, queued_send="wait") as w:
        task = await w.send(APPROVAL)
        assert (task.status.state, said(task)) == (WAITING, "Run it?")
        assert len(task.artifacts) == 1
        assert not w.runtime.runs.running
        assert len(w.runtime.registry) == 0


@pytest.mark.parametrize("status", ["approval-pending", "needs_approval"])
async def test_i10_a_tool_without_words_gets_the_default_text(status: str) -> None:
    async with world(preset_name="openclaw-inbound") as w:
        task = await w.send(f'tool shell {{"status": "{status}"}}')
        assert task.status.state is WAITING
        assert said(task) == "OpenClaw is waiting for tool approval to continue."


async def test_i10_an_error_is_no_request_for_approval() -> None:
    async with world(preset_name="openclaw-inbound") as w:
        task = await w.send('tool-event error shell {"status": "needs_approval"}\nsay done')
        assert (task.status.state, said(task)) == (TaskState.COMPLETED, "done")


async def test_i10_the_pause_comes_after_the_result_once_and_ends_the_stream() -> None:
    async with world(preset_name="openclaw-inbound") as w:
        lines = await streamed(w, APPROVAL)
        assert [line[0] for line in lines] == [
            "task",
            "submitted",
            "working",
            "tool-progress-call-shell",
            "tool-progress-call-shell",
            "input-required",
        ]
        assert lines[-2][-1] == "last"


@pytest.mark.parametrize(
    ("script", "state"),
    [
        (APPROVAL, WAITING),
        ("ask Run it?", WAITING),
        ("auth Run it?", TaskState.AUTH_REQUIRED),
    ],
    ids=["approval", "question", "sign-in"],
)
@pytest.mark.parametrize("preset_name", PRESETS)
async def test_i10_a_message_with_the_task_id_resumes_it(
    preset_name: str, script: str, state: TaskState
) -> None:
    async with world(preset_name=preset_name, queued_send="wait") as w:
        paused = await w.send(script, context="c")
        assert (paused.status.state, said(paused)) == (state, "Run it?")
        task = await w.send("say done", task=paused.id)
        assert (task.status.state, said(task)) == (TaskState.COMPLETED, "done")
        assert task.context_id == "c"
        assert [(message.role, text_of(message.parts)) for message in task.history] == [
            (Role.USER, script),
            (Role.AGENT, "Run it?"),
            (Role.USER, "say done"),
            (Role.AGENT, "done"),
        ]
        assert task.artifacts[: len(paused.artifacts)] == paused.artifacts


async def test_i10_a_stream_that_resumes_begins_with_the_submitted_task() -> None:
    async with world(preset_name="openclaw-inbound") as w:
        paused = await w.send(APPROVAL)
        reading = await w.stream("say done", task=paused.id)
        lines = told(await reading.all())
        assert lines[1:] == [
            ("submitted",),
            ("working",),
            ("assistant-output-0001", "done"),
            ("assistant-output-0001", "", "append", "last"),
            ("completed", "done"),
        ]
        assert isinstance(reading.items[0], Opening)
        first = opened(reading.items[0])
        assert first.status.state is TaskState.SUBMITTED
        assert [text_of(message.parts) for message in first.history[1:]] == ["Run it?", "say done"]
        assert first.artifacts == paused.artifacts


async def test_i10_the_next_run_may_ask_again() -> None:
    async with world(preset_name="openclaw-inbound") as w:
        paused = await w.send(APPROVAL)
        again = await w.send(APPROVAL, task=paused.id)
        assert (again.status.state, said(again)) == (WAITING, "Run it?")
        assert said(await w.send("say done", task=paused.id)) == "done"


async def test_i10_a_paused_task_can_be_canceled() -> None:
    async with world(preset_name="openclaw-inbound") as w:
        paused = await w.send(APPROVAL)
        assert (await w.cancel(paused.id)).status.state is TaskState.CANCELED
