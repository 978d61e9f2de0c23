"""Queued follow-ups on a task (inbound.md I-14)."""

import pytest
from tests.runtime.world import HANDLE, World, world

from trunkline.model.events import Entry
from trunkline.model.session import Delivered, ReplyPayload
from trunkline.model.values import TaskArtifactUpdateEvent, TaskState
from trunkline.testing import settle

HELLO = ReplyPayload(text="one more thing")
BOTH = pytest.mark.parametrize("preset_name", ["standard", "openclaw-inbound"])


async def deliver(w: World, task_id: str, payload: ReplyPayload = HELLO) -> Delivered:
    return await w.runtime.queued_replies.deliver(task_id, payload, agent=HANDLE)


@BOTH
async def test_i14_a_follow_up_is_an_artifact_of_the_ended_task(preset_name: str) -> None:
    async with world(preset_name=preset_name, agent_style="task-generating") as w:
        task = await w.send("say done")
        before = len(await w.journal(task.id))
        delivered = await deliver(w, task.id)
        assert delivered.ok
        after = await w.get(task.id)
        assert after.status == task.status
        artifact = after.artifacts[-1]
        assert artifact.artifact_id == delivered.message_id
        assert artifact.artifact_id.startswith("queued-reply-")
        assert artifact.name == "Queued follow-up reply"
        assert artifact.parts[0].text == "one more thing"
        assert artifact.metadata == {"source": "queued-reply", "channel": "a2a"}
        journal = await w.journal(task.id)
        assert len(journal) == before + 1
        assert isinstance(journal[-1].event, TaskArtifactUpdateEvent)
        assert len(w.runtime.registry) == 0


async def test_i14_who_follows_the_task_sees_it() -> None:
    async with world() as w:
        stream = await w.stream("wait a; say done")
        await stream.read()
        delivered = await deliver(w, stream.task_id)
        w.gates.open("a")
        items = await stream.all()
        ids = [
            item.public.artifact.artifact_id
            for item in items
            if isinstance(item, Entry) and isinstance(item.public, TaskArtifactUpdateEvent)
        ]
        assert list(dict.fromkeys(ids)) == [delivered.message_id, "answer"]


@BOTH
async def test_i14_a_paused_task_stays_paused(preset_name: str) -> None:
    async with world(preset_name=preset_name, agent_style="task-generating") as w:
        task = await w.send("ask which")
        assert (await deliver(w, task.id)).ok
        assert await w.state(task.id) is TaskState.INPUT_REQUIRED
        assert (await w.send("say this", task=task.id)).status.state is TaskState.COMPLETED


async def test_i14_what_a_reader_of_an_ended_task_missed_can_be_read() -> None:
    async with world() as w:
        task = await w.send("say done")
        last = (await w.journal(task.id))[-1].seq
        await deliver(w, task.id)
        reading = await w.follow(task.id, after=last)
        [item] = await reading.all()
        assert isinstance(item, Entry)
        assert item.seq == last + 1


@BOTH
async def test_i14_every_member_of_the_payload(preset_name: str) -> None:
    async with world(preset_name=preset_name, agent_style="task-generating") as w:
        task = await w.send("say done")
        await deliver(
            w,
            task.id,
            ReplyPayload(
                text="t",
                media_urls=("https://example.com/a.png",),
                channel_data={"k": 1},
                is_error=True,
                audio_as_voice=True,
                reply_to_id="m-1",
            ),
        )
        text, data = (await w.get(task.id)).artifacts[-1].parts
        assert text.text == "t"
        assert data.data == {
            "mediaUrls": ["https://example.com/a.png"],
            "channelData": {"k": 1},
            "isError": True,
            "audioAsVoice": True,
            "replyToId": "m-1",
        }


@BOTH
async def test_i14_an_empty_payload_is_fine_and_leaves_nothing(preset_name: str) -> None:
    async with world(preset_name=preset_name, agent_style="task-generating") as w:
        task = await w.send("say done")
        assert await deliver(w, task.id, ReplyPayload(text="  ")) == Delivered(ok=True)
        assert await w.get(task.id, 99) == task


@pytest.mark.parametrize("task_id", ["", "  "])
async def test_i14_a_follow_up_needs_a_task(task_id: str) -> None:
    async with world() as w:
        assert (await deliver(w, task_id)).error == (
            "A2A_QUEUED_REPLY_TASK_REQUIRED: queued A2A protocol replies require MessageThreadId "
            "to carry the local A2A task id."
        )


async def test_i14_an_unknown_task() -> None:
    async with world() as w:
        assert await deliver(w, "nope") == Delivered(
            ok=False,
            error='A2A_QUEUED_REPLY_TASK_NOT_FOUND: local A2A task "nope" was not found.',
        )


async def test_i14_a_task_of_another_agent_is_unknown() -> None:
    async with world() as w:
        task = await w.send("say done")
        delivered = await w.runtime.queued_replies.deliver(task.id, HELLO, agent="other/agent")
        assert "TASK_NOT_FOUND" in delivered.error
        assert await w.get(task.id) == task


async def test_i14_the_agent_itself_can_say_more_after_its_turn() -> None:
    async with world(preset_name="openclaw-inbound", agent_style="task-generating") as w:
        task = await w.send("say done", context="c")
        session = w.scripted.turns[-1].session
        assert session is not None
        assert (await session.follow_up(HELLO)).ok
        artifact = (await w.get(task.id)).artifacts[-1]
        # What names the session inside stays inside.
        assert session.key not in str(artifact)


async def test_i14_an_answer_without_a_task_takes_no_follow_up() -> None:
    async with world(direct=True) as w:
        await w.ask("reply hello")
        session = w.scripted.turns[-1].session
        assert session is not None
        assert "TASK_REQUIRED" in (await session.follow_up(HELLO)).error


async def test_i14_a_task_that_was_pruned_under_a_reader_is_not_found(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world() as w:
        task = await w.send("say done")
        # In memory because somebody reads it, and gone from the store.
        reading = await w.follow(task.id, after=0)
        assert await w.store.prune(HANDLE, limit=10) == 1
        delivered = await deliver(w, task.id)
        assert not delivered.ok
        assert "A2A_QUEUED_REPLY_TASK_NOT_FOUND" in delivered.error
        await reading.all()
        await settle()
        assert len(w.runtime.registry) == 0
    assert "background task failed" not in caplog.text
