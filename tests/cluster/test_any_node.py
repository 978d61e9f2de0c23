"""A request at any node gives what one node would give."""

import pytest
from tests.cluster.nodes import nodes
from tests.runtime.gates import RecordingGate
from tests.runtime.world import Reading, opened, said

from trunkline.model.errors import TaskNotCancelable, TaskNotFound, TooManyRequests
from trunkline.model.session import ReplyPayload
from trunkline.model.values import TaskState
from trunkline.ports.store import Scope
from trunkline.runtime.admitted import Admitted
from trunkline.runtime.fanout import Opening
from trunkline.runtime.service import CLOSES_SEND
from trunkline.testing import FakeClock
from trunkline.testing.shared_store import SharedStore

COMPLETED, CANCELED = TaskState.COMPLETED, TaskState.CANCELED
INPUT = TaskState.INPUT_REQUIRED


async def test_a_task_of_one_node_is_read_at_the_other() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        task = await a.send("hello")
        assert (await b.get(task.id)).status.state is COMPLETED
        assert [each.id for each in await b.listed()] == [task.id]


async def test_messages_of_one_context_queue_up_at_its_owner() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        first = a.soon(a.send("wait gate\nsay one", context="c"))
        await a.gates.reached("gate")
        second = b.soon(b.send("say two", context="c"))
        await cluster.clock.advance(3)
        assert not second.done()
        a.gates.open("gate")
        assert (await first).status.state is COMPLETED
        assert (await second).status.state is COMPLETED
        assert [turn.message.parts[0].text for turn in a.scripted.turns] == [
            "wait gate\nsay one",
            "say two",
        ]
        assert not b.scripted.turns


async def test_a_follow_up_at_the_other_node_continues_the_task() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        asked = await a.send("ask Which one?")
        assert asked.status.state is INPUT
        answered = await b.send("say that one", task=asked.id)
        assert answered.id == asked.id
        assert answered.status.state is COMPLETED
        assert (await a.get(asked.id)).status.state is COMPLETED


async def test_a_follow_up_goes_to_the_owner_while_it_works() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        asked = await a.send("ask Which one?", context="c")
        running = a.soon(a.send("wait gate", context="c"))
        await a.gates.reached("gate")
        answered = b.soon(b.send("say that one", task=asked.id))
        await cluster.clock.advance(2)
        a.gates.open("gate")
        assert (await running).status.state is COMPLETED
        assert (await answered).status.state is COMPLETED
        assert len(a.scripted.turns) == 3


async def test_a_cancel_at_the_other_node_stops_the_agent() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        task = await a.submit("wait gate")
        await a.gates.reached("gate")
        canceled = await b.cancel(task.id)
        assert canceled.status.state is CANCELED
        assert a.scripted.canceled
        with pytest.raises(TaskNotCancelable):
            await b.cancel(task.id)
        with pytest.raises(TaskNotFound):
            await b.cancel("unknown")


async def test_a_subscriber_at_the_other_node_gets_every_entry_once() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        task = await a.submit("say one\nwait gate\nsay two")
        await a.gates.reached("gate")
        reading = await b.follow(task.id, after=0)
        a.gates.open("gate")
        await reading.all()
        last = len(await a.journal(task.id))
        assert reading.seqs == list(range(1, last + 1))


async def test_a_stream_at_the_other_node_begins_with_the_message() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        running = a.soon(a.send("wait gate", context="c"))
        await a.gates.reached("gate")
        opening = b.soon(b.stream("say one\nsay two", context="c"))
        await cluster.clock.advance(1)
        a.gates.open("gate")
        await running
        reading = await opening
        await reading.all()
        assert reading.seqs == list(range(1, len(await a.journal(reading.task_id)) + 1))


async def test_a_reader_resumes_at_the_other_node() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        stream = await a.stream("say one\nwait gate\nsay two")
        await stream.read()
        await a.gates.reached("gate")
        seen = stream.seqs[-1]
        stream.close()
        resumed = await b.follow(stream.task_id, after=seen)
        a.gates.open("gate")
        await resumed.all()
        assert resumed.seqs == list(range(seen + 1, len(await a.journal(stream.task_id)) + 1))


async def test_a_key_means_the_same_at_every_node() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        first = await a.send("say one", key="k", id="m")
        again = await b.send("say one", key="k", id="m")
        assert again.id == first.id
        assert len(a.scripted.turns) + len(b.scripted.turns) == 1


async def test_an_answer_without_a_task_comes_back_through_the_other_node() -> None:
    async with nodes(direct=True) as cluster:
        a, b = cluster.worlds
        first = a.soon(a.ask("wait gate; reply one", context="c"))
        await a.gates.reached("gate")
        second = b.soon(b.ask("reply two", context="c"))
        await cluster.clock.advance(1)
        a.gates.open("gate")
        await first
        assert (await second).parts[0].text == "two"
        assert not b.scripted.turns


async def test_work_of_different_contexts_runs_where_it_arrives() -> None:
    async with nodes(3) as cluster:
        for number, world in enumerate(cluster.worlds):
            task = await world.send(f"say {number}")
            assert said(task) == "" or task.status.state is COMPLETED
        assert [len(world.scripted.turns) for world in cluster.worlds] == [1, 1, 1]


async def test_a_later_reply_of_an_agent_reaches_a_task_of_another_node() -> None:
    async with nodes() as cluster:
        a, b = cluster.worlds
        task = await a.send("say one", context="c")
        await cluster.clock.advance(2)
        running = b.soon(b.send("wait gate", context="c"))
        await b.gates.reached("gate")
        delivered = await a.runtime.queued_replies.deliver(
            task.id, ReplyPayload(text="more"), agent="test/agent"
        )
        assert delivered.ok
        artifacts = (await b.get(task.id)).artifacts
        assert [each.artifact_id for each in artifacts].count(delivered.message_id) == 1
        b.gates.open("gate")
        await running


async def test_a_caller_that_waits_no_longer_fails_the_task_at_its_owner() -> None:
    async with nodes(reply_wait_s=5, on_reply_wait="fail") as cluster:
        a, b = cluster.worlds
        running = await a.submit("wait gate; ask Which one?", context="c")
        await a.gates.reached("gate")
        a.gates.open("gate")
        await a.follow(running.id)
        waiting = b.soon(b.send("wait other", task=running.id))
        await cluster.clock.advance(7)
        failed = await waiting
        assert failed.status.state is TaskState.FAILED
        assert "did not reply within 5s" in said(failed)
        states = [(await world.get(running.id)).status.state for world in cluster.worlds]
        assert states == [TaskState.FAILED] * 2


async def test_all_contexts_of_a_caller_are_one_lane_where_the_profile_says_so() -> None:
    async with nodes(context_mode="client") as cluster:
        a, b = cluster.worlds
        first = a.soon(a.send("wait gate", context="c"))
        await a.gates.reached("gate")
        second = b.soon(b.send("say two", context="d"))
        await cluster.clock.advance(2)
        assert not second.done()
        a.gates.open("gate")
        assert (await first).status.state is COMPLETED
        assert (await second).status.state is COMPLETED
        assert not b.scripted.turns


async def test_an_error_at_the_owner_is_the_error_of_the_caller() -> None:
    async with nodes(max_queue_per_context=1, overflow="error") as cluster:
        a, b = cluster.worlds
        await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        await a.submit("say two", context="c")
        with pytest.raises(TooManyRequests) as refused:
            await b.send("say three", context="c")
        assert refused.value.retry_after_s == 5
        a.gates.open("gate")


async def test_a_gateway_that_hears_no_notice_is_slow_and_right() -> None:
    clock = FakeClock()
    store = SharedStore(clock, loses_notice=lambda: True)
    async with nodes(clock=clock, store=store) as cluster:
        a, b = cluster.worlds
        first = a.soon(a.send("wait gate", context="c"))
        await a.gates.reached("gate")
        second = b.soon(b.send("say two", context="c"))
        await clock.advance(1)
        a.gates.open("gate")
        await clock.advance(5)
        assert (await first).status.state is COMPLETED
        assert (await second).status.state is COMPLETED


async def test_a_message_for_another_node_passes_one_gate_once() -> None:
    gates = [RecordingGate(), RecordingGate()]
    async with nodes(0) as cluster:
        a, b = [cluster.add(gate=gate) for gate in gates]
        await a.open()
        await b.open()
        first = a.soon(a.send("wait gate", context="c"))
        await a.gates.reached("gate")
        second = b.soon(b.send("say two", context="c"))
        await cluster.clock.advance(1)
        a.gates.open("gate")
        await first
        await second
        assert [len(gate.admitted) for gate in gates] == [2, 0]
        assert [len(gate.settled) for gate in gates] == [2, 0]


async def test_without_contexts_the_same_message_id_is_a_new_task_at_every_node() -> None:
    async with nodes(preset_name="hub") as cluster:
        a, b = cluster.worlds
        tasks = [await world.send("show context_id", id="m1") for world in (a, b, a)]
        assert len({task.id for task in tasks}) == 3
        assert {task.context_id for task in tasks} == {"m1"}
        # Backends know each as a conversation of its own.
        turns = [*a.scripted.turns, *b.scripted.turns]
        assert len({turn.context_id for turn in turns}) == 3
        cluster.clock.jump(1801)
        for task in tasks:
            for world in (a, b):
                with pytest.raises(TaskNotFound):
                    await world.get(task.id)


async def test_a_stream_of_whole_tasks_has_a_start_where_the_task_has_ended_meanwhile() -> None:
    async with nodes(preset_name="hub") as cluster:
        a, b = cluster.worlds
        task = await a.send("say one")
        readers = b.service.readers
        reader = readers.open(b.agent, CLOSES_SEND, is_whole=True)
        live = await b.runtime.registry.follow(Scope("test/agent", "", "alice"), task.id)
        forwarded = Admitted(live=live, accepted_seq=1, is_forwarded=True)
        await readers.attach_forwarded(reader, forwarded, None)
        items = await Reading(reader).all()
        states = [opened(item).status.state for item in items if isinstance(item, Opening)]
        assert states == [TaskState.SUBMITTED, COMPLETED]
