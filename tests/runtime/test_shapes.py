"""How an answer streams, and where it is (X-14, X-15, X-25, D-19 … D-21)."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.runtime.outputs import artifacts_of, told
from tests.runtime.world import opened, said, world

from trunkline.model.events import Entry
from trunkline.model.values import Role, Task, TaskState, text_of
from trunkline.ports.store import Store
from trunkline.runtime.fanout import Opening
from trunkline.testing import settle

COMPLETED = TaskState.COMPLETED


async def test_d21_text_streams_in_the_working_status() -> None:
    async with world(preset_name="openclaw-design") as w:
        reading = await w.stream('say Hel; tool grep {"hits": 2}; say lo')
        lines = told(await reading.all())
        assert lines == [
            ("task", "submitted"),
            ("working",),
            ("working", "Hel"),
            ("tool-call-grep", '{"hits":2}', "last"),
            ("working", "lo"),
            ("completed", "Hello"),
        ]
        [artifact] = (await w.get(reading.task_id)).artifacts
        assert artifact.name == "grep"


async def test_d19_the_answer_is_in_the_status_and_once_in_history() -> None:
    async with world(preset_name="openclaw-design", queued_send="wait") as w:
        task = await w.send("stream 100")
        answer = "".join(f"{number} " for number in range(1, 101))
        assert said(task) == answer
        assert [(message.role, text_of(message.parts)) for message in task.history] == [
            (Role.USER, "stream 100"),
            (Role.AGENT, answer),
        ]
        assert task.history[-1] == task.status.message
        assert task.status.timestamp
        assert task.artifacts == ()


async def test_d20_media_is_a_file_part_of_the_status() -> None:
    async with world(preset_name="openclaw-design", queued_send="wait") as w:
        task = await w.send('parts [{"text": "see"}, {"url": "https://x.test/a.png"}]')
        assert task.status.message is not None
        assert [part.url for part in task.status.message.parts] == [None, "https://x.test/a.png"]


async def test_pieces_in_the_status_are_no_history_after_a_reload_either(
    make_store: Callable[[], Store],
) -> None:
    async with world(store=make_store(), preset_name="openclaw-design", queued_send="wait") as w:
        task = await w.send("say a; say b; ask which?")
        assert len(w.runtime.registry) == 0
        reloaded = await w.send("say c", task=task.id)
        assert [text_of(message.parts) for message in reloaded.history] == [
            "say a; say b; ask which?",
            "which?",
            "say c",
            "c",
        ]


def shown(items: list[Any]) -> list[Task]:
    tasks = []
    for item in items:
        if isinstance(item, Opening):
            tasks.append(opened(item))
        else:
            assert isinstance(item, Entry)
            assert isinstance(item.public, Task)
            tasks.append(item.public)
    return tasks


async def test_x14_snapshots_show_the_task_at_its_start_and_its_end_only() -> None:
    async with world(stream_shape="snapshots") as w:
        reading = await w.stream("stream 20; tool grep; note aside; say end")
        first, last = shown(await reading.all())
        assert (first.status.state, first.artifacts) == (TaskState.SUBMITTED, ())
        assert last == await w.get(reading.task_id)
        assert last.status.state is COMPLETED
        assert len(await w.journal(reading.task_id)) > 20


async def test_x14_snapshots_of_a_task_that_pauses_and_goes_on() -> None:
    async with world(stream_shape="snapshots") as w:
        reading = await w.stream("say a; ask which?")
        assert [task.status.state for task in shown(await reading.all())] == [
            TaskState.SUBMITTED,
            TaskState.INPUT_REQUIRED,
        ]
        following = await w.follow(reading.task_id, after=1)
        await w.send("say b", task=reading.task_id)
        tasks = shown(await following.all())
        assert [task.status.state for task in tasks] == [TaskState.INPUT_REQUIRED, COMPLETED]
        assert said(tasks[-1]) == "b"


async def test_x14_snapshots_in_the_middle_of_a_turn() -> None:
    async with world(stream_shape="snapshots") as w:
        task = await w.submit("say a; wait gate; say b")
        await w.gates.reached("gate")
        await settle()
        following = await w.follow(task.id)
        w.gates.open("gate")
        first, last = shown(await following.all())
        assert (first.status.state, artifacts_of(first)) == (TaskState.WORKING, {"answer": "a"})
        assert (last.status.state, artifacts_of(last)) == (COMPLETED, {"answer": "ab"})


async def test_x14_a_direct_run_that_needs_a_task_shows_snapshots_too() -> None:
    async with world(stream_shape="snapshots", agent_style="hybrid") as w:
        reading = await w.stream("say a; tool grep; say b", history_length=1)
        first, last = shown(await reading.all())
        assert first.status.state is TaskState.SUBMITTED
        assert [text_of(message.parts) for message in last.history] == ["ab"]


@pytest.mark.parametrize(
    ("places", "artifacts", "status", "history"),
    [
        (("artifact", "status", "history"), {"answer": "hi"}, "hi", 2),
        (("artifact", "status"), {"answer": "hi"}, "hi", 1),
        (("artifact",), {"answer": "hi"}, "", 1),
        (("status",), {}, "hi", 1),
    ],
)
async def test_x15_the_answer_is_where_the_profile_wants_it(
    places: tuple[Any, ...], artifacts: dict[str, str], status: str, history: int
) -> None:
    async with world(result_in=places, stream_shape="snapshots") as w:
        for script in ("final hi", "say h; say i"):
            task = await w.send(script)
            assert task.status.state is COMPLETED
            assert (artifacts_of(task), said(task)) == (artifacts, status)
            assert len(task.history) == history


@pytest.mark.parametrize(
    ("style", "state"), [("rejected", TaskState.REJECTED), ("failed", TaskState.FAILED)]
)
async def test_x25_the_state_of_a_refusal(style: str, state: TaskState) -> None:
    async with world(refusal_state=style) as w:
        task = await w.send("refuse no")
        assert (task.status.state, said(task)) == (state, "no")
