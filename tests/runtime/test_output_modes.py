"""Accepted output modes, in every way in which an answer can come and be stored (D1, D2)."""

from collections.abc import Callable

import pytest
from tests.runtime.outputs import artifacts_of, content
from tests.runtime.world import ALICE, World, said, world

from trunkline.model.errors import ContentTypeNotSupported
from trunkline.model.values import Task, TaskState, text_of
from trunkline.ports.store import Store
from trunkline.runtime.fanout import NoReply, Reply

UNREPRESENTABLE = "The response could not be represented in any accepted output mode."
IMAGE = 'parts [{"url": "https://x.test/a.png"}]'
MIXED = 'parts [{"text": "see"}, {"url": "https://x.test/a.png"}, {"data": {"a": 1}}]'


@pytest.fixture
def store(make_store: Callable[[], Store]) -> Store:
    return make_store()


async def outcome(w: World, mode: str, script: str, modes: tuple[str, ...]) -> Task | str:
    """The task that the answer makes, or the text of the message or of the refusal."""
    if mode == "non-blocking":
        return await w.ended((await w.submit(script, modes=modes)).id)
    if mode == "streaming":
        reading = await w.stream(script, modes=modes)
        first = (await reading.all())[0]
        if isinstance(first, NoReply):
            return first.error.message
        return "message" if isinstance(first, Reply) else await w.get(reading.task_id)
    answer = await w.service.send(w.agent, ALICE, w.request(script, modes=modes))
    return "message" if isinstance(answer, Reply) else await w.ended((await w.listed())[0].id)


@pytest.mark.parametrize("mode", ["blocking", "non-blocking", "streaming"])
@pytest.mark.parametrize("promoted", ["", "tool grep\n"], ids=["direct", "promoted"])
@pytest.mark.parametrize("preset_name", ["standard", "openclaw-inbound"])
@pytest.mark.parametrize(
    ("script", "modes"),
    [("say words", ()), (IMAGE, ()), (IMAGE, (" ",)), ("say words", ("*/*",))],
    ids=["empty", "image-with-defaults", "blank", "anything"],
)
async def test_d1_d2_no_modes_take_any_answer(
    store: Store, mode: str, promoted: str, preset_name: str, script: str, modes: tuple[str, ...]
) -> None:
    async with world(store=store, preset_name=preset_name, list_tasks="served") as w:
        told = await outcome(w, mode, promoted + script, modes)
        is_direct = preset_name == "openclaw-inbound" and mode != "non-blocking" and not promoted
        if is_direct:
            assert told == "message"
            assert await w.listed() == ()
        else:
            assert isinstance(told, Task)
            assert told.status.state is TaskState.COMPLETED


@pytest.mark.parametrize("mode", ["blocking", "non-blocking", "streaming"])
@pytest.mark.parametrize("preset_name", ["standard", "openclaw-inbound", "openclaw-design"])
@pytest.mark.parametrize(
    ("script", "modes", "available"),
    [
        ("tool grep\nsay words", ("image/png",), ["text/plain"]),
        (f"tool grep\n{IMAGE}", ("text/plain",), ["image/png"]),
        ("summary words", ("image/*", "audio/mpeg"), ["text/plain"]),
        ("artifact text a words", ("image/png",), ["text/plain"]),
    ],
)
async def test_d1_a_task_of_which_nothing_is_left_fails_with_what_there_was(
    store: Store,
    mode: str,
    preset_name: str,
    script: str,
    modes: tuple[str, ...],
    available: list[str],
) -> None:
    async with world(store=store, preset_name=preset_name, queued_send="wait") as w:
        task = await outcome(w, mode, script, modes)
        assert isinstance(task, Task)
        assert (task.status.state, said(task)) == (TaskState.FAILED, UNREPRESENTABLE)
        assert task.status.message is not None
        assert task.status.message.metadata == {
            "acceptedOutputModes": list(modes),
            "availableOutputModes": available,
        }
        # And nothing else suffers from it.
        answered = await w.send("tool grep\nsay fine")
        assert said(answered) == "fine"


@pytest.mark.parametrize(("script", "mode"), [("say words", "image/png"), (IMAGE, "text/plain")])
async def test_d1_a_direct_run_is_refused_and_leaves_no_task(
    store: Store, script: str, mode: str
) -> None:
    async with world(store=store, preset_name="openclaw-inbound") as w:
        with pytest.raises(ContentTypeNotSupported, match=UNREPRESENTABLE) as refused:
            await w.ask(script, modes=(mode,))
        assert refused.value.metadata == {
            "acceptedOutputModes": mode,
            "availableOutputModes": "text/plain" if mode == "image/png" else "image/png",
        }
        assert await outcome(w, "streaming", script, (mode,)) == UNREPRESENTABLE
        assert await w.listed() == ()
        assert len(w.runtime.registry) == 0
        assert not w.runtime.runs.running
        assert text_of((await w.ask("say fine")).parts) == "fine"


async def test_a_non_blocking_run_that_would_be_refused_is_a_failed_task() -> None:
    async with world(preset_name="openclaw-inbound") as w:
        task = await outcome(w, "non-blocking", "say words", ("image/png",))
        assert isinstance(task, Task)
        assert (task.status.state, said(task)) == (TaskState.FAILED, UNREPRESENTABLE)


@pytest.mark.parametrize(
    ("modes", "parts"),
    [
        (("text/*",), "see"),
        ((" TEXT/Plain ",), "see"),
        (("application/json", "text/plain"), ["see", {"a": 1}]),
        (("image/*",), ["https://x.test/a.png"]),
    ],
)
async def test_parts_that_are_not_acceptable_are_left_out(
    modes: tuple[str, ...], parts: object
) -> None:
    async with world(preset_name="openclaw-inbound") as w:
        assert content((await w.ask(MIXED, modes=modes)).parts) == parts
        task = await w.send(f"tool grep\n{MIXED}", modes=modes)
        assert artifacts_of(task)["assistant-output-0001"] == parts


async def test_i9_tool_progress_is_not_filtered() -> None:
    async with world(preset_name="openclaw-inbound") as w:
        task = await w.send(f"tool grep\n{MIXED}", modes=("image/png",))
        assert list(artifacts_of(task)) == ["tool-progress-call-grep", "assistant-output-0001"]


async def test_modes_belong_to_the_turn_that_asked_for_them() -> None:
    async with world(preset_name="openclaw-inbound") as w:
        task = await w.send("ask which?", modes=("image/png",))
        assert task.status.state is TaskState.INPUT_REQUIRED
        assert said(await w.send("say words", task=task.id)) == "words"
