"""A task of ours that is a task of another agent, through everything that can happen to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from tests.runtime.loopback import Loopback
from tests.runtime.world import World, next_morning, said, world

from trunkline.backends.a2a import failures, notes
from trunkline.backends.a2a.outputs import CANCELED
from trunkline.backends.a2a.request import context_for, request_for
from trunkline.model.calls import Caller
from trunkline.model.outputs import Failed, Question
from trunkline.model.principal import EVERYTHING, Principal
from trunkline.model.values import Part, Role, Task, TaskState, text_of
from trunkline.ports.backend import TurnRequest
from trunkline.remote.errors import (
    BadPeerAnswer,
    PeerRefused,
    PeerTimeout,
    PeerUnreachable,
    RemoteError,
    StreamEnded,
)
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeSession, answer_text, run_turn, settle, turn_request

SUBMITTED, WORKING = TaskState.SUBMITTED, TaskState.WORKING
COMPLETED, FAILED, REJECTED = TaskState.COMPLETED, TaskState.FAILED, TaskState.REJECTED
CANCELED_STATE, INPUT_REQUIRED = TaskState.CANCELED, TaskState.INPUT_REQUIRED

DOWN = PeerUnreachable("connection refused", is_unsent=True)
CUT = PeerUnreachable("connection reset")
REACH = ("on_unreachable", "retry_s", "max_output_bytes")


@asynccontextmanager
async def inner(**options: Any) -> AsyncIterator[World]:
    """A world within another, which looks for what was left behind in the end."""
    made = World(**options)
    await made.open()
    try:
        yield made
    finally:
        await made.close()


@asynccontextmanager
async def bridge(
    *, streams: bool | None = True, lists: bool = True, there: World | None = None, **options: Any
) -> AsyncIterator[tuple[World, Loopback]]:
    """A gateway in front of another: ours, and the way to theirs."""
    reach = {name: options.pop(name) for name in REACH if name in options}
    async with world(node="up") as theirs:
        up = Loopback(there or theirs, streams=streams, lists=lists)
        clock = options.setdefault("clock", theirs.clock)
        backend = up.backend(clock=clock, **reach)
        async with inner(node="ours", backend=backend, **options) as ours:
            yield ours, up


WAYS = pytest.mark.parametrize("streams", [True, None, False], ids=["streams", "unsaid", "polled"])


async def pass_time(up: Loopback) -> None:
    for _ in range(3):
        await settle()
        await up.there.clock.advance(1)
    await settle()


@WAYS
async def test_artifacts_are_copied_as_they_are(streams: bool | None) -> None:
    async with bridge(streams=streams) as (w, up):
        answer = w.soon(w.send("artifact text a first; chunks b 3; say done"))
        await pass_time(up)
        task = await answer
        theirs = await up.get(upstream_task_of(up))
        assert task.status.state is COMPLETED
        assert task.artifacts == theirs.artifacts
        assert said(task) == "done"
        assert [text_of(m.parts) for m in task.history if m.role is Role.AGENT] == ["done"]


async def test_chunks_come_as_they_were_sent() -> None:
    async with bridge() as (w, up):
        reading = await w.stream('chunks b 3; artifact data {"n":1}; final ok')
        await reading.all()
        theirs = [entry.public for entry in await up.there.journal(upstream_task_of(up))]

        def chunks(events: list[Any]) -> list[Any]:
            found = [event for event in events if hasattr(event, "artifact")]
            return [(e.artifact, e.append, bool(e.last_chunk)) for e in found]

        assert chunks([entry.public for entry in reading.entries]) == chunks(theirs)
        assert len(chunks(theirs)) > 3


@WAYS
async def test_notes_questions_and_answers_go_both_ways(streams: bool | None) -> None:
    async with bridge(streams=streams) as (w, up):
        asked = w.soon(w.send("note looking; ask size?", context="c"))
        await pass_time(up)
        task = await asked
        assert (task.status.state, said(task)) == (INPUT_REQUIRED, "size?")
        answered = w.soon(w.send("say large it is", task=task.id))
        await pass_time(up)
        ended = await answered
        assert (ended.status.state, said(ended)) == (COMPLETED, "large it is")
        # It was one task over there, in one context.
        turns = up.there.scripted.turns
        assert len({turn.task_id for turn in turns}) == 1
        assert len({turn.context_id for turn in turns}) == 1


@WAYS
@pytest.mark.parametrize("again", [False, True], ids=["ends", "asks again"])
async def test_a_task_that_still_shows_its_question_is_not_asking_again(
    streams: bool | None, again: bool
) -> None:
    async with bridge(streams=streams) as (w, up):
        up.looks_back = True
        asked = w.soon(w.send("ask size?"))
        await pass_time(up)
        answered = w.soon(
            w.send("ask colour?" if again else "say large it is", task=(await asked).id)
        )
        await pass_time(up)
        task = await answered
        expected = (INPUT_REQUIRED, "colour?") if again else (COMPLETED, "large it is")
        assert (task.status.state, said(task)) == expected


@pytest.mark.parametrize(
    ("script", "state", "words"),
    [
        ("fail out of paper", FAILED, "out of paper"),
        ("refuse not me", REJECTED, "not me"),
        ("auth sign in", TaskState.AUTH_REQUIRED, "sign in"),
        ("crash", FAILED, "The agent failed while working"),
    ],
)
async def test_ends_are_told_in_their_words(script: str, state: TaskState, words: str) -> None:
    async with bridge() as (w, _):
        task = await w.send(script)
        assert task.status.state is state
        assert words in said(task)


async def test_an_agent_without_tasks_answers() -> None:
    async with world(node="up", direct=True) as theirs:
        up = Loopback(theirs)
        async with inner(node="ours", backend=up.backend()) as w:
            task = await w.send("reply straight")
            assert (task.status.state, said(task)) == (COMPLETED, "straight")
        async with inner(node="ours", backend=up.backend(), agent_style="hybrid") as w:
            assert text_of((await w.ask("reply straight")).parts) == "straight"


async def test_callers_never_meet_over_there() -> None:
    async with bridge() as (w, up):
        for principal in ("alice", "bob"):
            request = w.request("say hi", context="same")
            caller = Caller(principal=Principal(id=principal, grants=EVERYTHING))
            await w.service.send(w.agent, caller, request)
        await w.send("say again", context="same")
        alice, bob, again = (turn.context_id for turn in up.there.scripted.turns)
        assert alice == again != bob
        assert "alice" not in alice
        ids = {request.message.message_id for request in up.requests}
        assert len(ids) == 3


async def test_an_upstream_that_names_its_contexts_is_called_by_that_name() -> None:
    async with bridge() as (w, up):
        stream = up.stream

        async def renaming(request: Any) -> Any:
            if not request.message.context_id.startswith("theirs"):
                message = replace(request.message, context_id="theirs-1")
                request = replace(request, message=message)
            async for item in stream(request):
                yield item

        up.stream = renaming  # type: ignore[method-assign]
        await w.send("say one", context="c")
        seen: list[str] = []

        async def watching(request: Any) -> Any:
            seen.append(request.message.context_id)
            async for item in stream(request):
                yield item

        up.stream = watching  # type: ignore[method-assign]
        await w.send("say two", context="c")
        assert seen == ["theirs-1"]


async def test_cancel_is_real() -> None:
    async with bridge() as (w, up):
        task = await w.submit("say some; hang")
        await settle()
        assert (await w.cancel(task.id)).status.state is CANCELED_STATE
        await settle()
        assert await state_there(up, upstream_task_of(up)) is CANCELED_STATE


def upstream_task_of(up: Loopback) -> str:
    return str(up.there.scripted.turns[-1].task_id)


async def state_there(up: Loopback, task_id: str) -> TaskState:
    return (await up.get(task_id)).status.state


async def test_a_question_that_is_not_answered_is_canceled_there() -> None:
    async with bridge() as (w, up):
        task = await w.send("ask size?")
        await w.cancel(task.id)
        await settle()
        assert await state_there(up, upstream_task_of(up)) is CANCELED_STATE


async def test_an_upstream_that_says_too_much_is_stopped() -> None:
    async with bridge(max_output_bytes=2000) as (w, up):
        task = await w.send("chunks b 100; hang")
        assert task.status.state is FAILED
        assert said(task).startswith("The agent said more than the 1.95312 KiB that it may")
        theirs = await up.get(upstream_task_of(up))
        assert theirs.status.state is CANCELED_STATE


async def test_an_upstream_that_cancels_by_itself_fails_the_task() -> None:
    async with bridge() as (w, up):
        task = await w.submit("hang")
        await settle()
        await up.cancel(upstream_task_of(up))
        ended = await w.ended(task.id)
        assert (ended.status.state, said(ended)) == (FAILED, CANCELED)


async def test_a_message_behind_a_working_task_begins_another_that_refers_to_it() -> None:
    async with bridge() as (w, up):
        task = await w.submit("wait go; say one", context="c")
        await up.there.gates.reached("go")
        await w.submit("say two", task=task.id)
        up.there.gates.open("go")
        ended = await w.ended(task.id)
        assert ended.status.state is COMPLETED
        first, second = up.requests
        assert first.message.reference_task_ids == ()
        assert second.message.reference_task_ids == (up.there.scripted.turns[0].task_id,)
        assert len({turn.context_id for turn in up.there.scripted.turns}) == 1


@pytest.mark.parametrize(
    ("error", "state", "words"),
    [
        (DOWN, FAILED, failures.UNREACHABLE),
        (PeerRefused("no", status=401), FAILED, failures.NOT_LET_IN),
        (PeerRefused("not that", reason="CONTENT_TYPE_NOT_SUPPORTED"), REJECTED, "not that"),
        (PeerRefused("too busy", reason="BUSY"), FAILED, "too busy"),
        (PeerRefused("lost", reason="AGENT_LOST"), FAILED, failures.MAY_HAVE_ARRIVED),
        (BadPeerAnswer("<html>"), FAILED, failures.NONSENSE),
        (CUT, FAILED, failures.MAY_HAVE_ARRIVED),
        (PeerTimeout("late"), FAILED, failures.MAY_HAVE_ARRIVED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, RemoteError) else None,
)
async def test_a_message_that_cannot_be_delivered(
    error: RemoteError, state: TaskState, words: str
) -> None:
    async with bridge() as (w, up):
        up.fails["stream"] = error
        task = await w.send("say hi")
        assert task.status.state is state
        assert words in said(task)
        # Nobody else is touched.
        up.fails.clear()
        assert said(await w.send("say hi")) == "hi"


async def test_a_message_waits_for_an_upstream_that_is_down() -> None:
    async with bridge(on_unreachable="retry", retry_s=60) as (w, up):
        up.fails["all"] = DOWN
        task = await w.submit("say hi")
        await settle()
        now = await w.get(task.id)
        assert (now.status.state, said(now)) == (WORKING, failures.TRYING)
        up.fails.clear()
        await pass_time(up)
        assert said(await w.ended(task.id)) == "hi"


async def test_a_message_that_waits_is_delivered_after_a_restart() -> None:
    """Nobody has to look for what surely was not sent."""
    async with world(node="up") as there:
        up = Loopback(there)
        restart = Restart(up)
        first = await restart.first(on_unreachable="retry", retry_s=600)
        up.fails["stream"] = DOWN
        task = await first.submit("say hi")
        await settle()
        await there.clock.advance(30)
        await restart.kill(first)
        up.fails.clear()
        async with restart.again() as w:
            assert said(await w.ended(task.id)) == "hi"
        assert "list" not in up.calls


async def test_a_card_that_comes_too_late_is_not_a_message_that_may_have_arrived() -> None:
    async with world(node="up") as there:
        up = Loopback(there)
        backend = up.backend()
        up.fails["card"] = PeerTimeout("late")
        assert await run_turn(backend, turn_request("say hi")) == [
            Failed(failures.UNREACHABLE, is_unreachable=True)
        ]
        up.fails.clear()
        assert answer_text(await run_turn(backend, turn_request("say hi"))) == "hi"
        await backend.close()


async def test_the_wait_for_an_upstream_that_is_down_has_an_end() -> None:
    async with bridge(on_unreachable="retry", retry_s=60) as (w, up):
        up.fails["all"] = DOWN
        task = await w.submit("say hi")
        for _ in range(9):
            await settle()
            await up.there.clock.advance(10)
        ended = await w.ended(task.id)
        assert (ended.status.state, said(ended)) == (FAILED, failures.UNREACHABLE)


async def test_a_message_that_arrived_is_found_again() -> None:
    async with bridge() as (w, up):
        up.fails["cut"] = CUT
        task = await w.submit("say hi; wait go")
        await up.there.gates.reached("go")
        await settle()
        up.fails.clear()
        up.there.gates.open("go")
        await pass_time(up)
        ended = await w.ended(task.id)
        assert (ended.status.state, said(ended)) == (COMPLETED, "hi")
        assert len(up.there.scripted.turns) == 1


async def test_an_answer_that_never_arrives_leaves_the_question() -> None:
    async with bridge() as (w, up):
        asked = await w.send("ask size?")
        up.fails["stream"] = CUT
        again = await w.send("say large", task=asked.id)
        assert (again.status.state, said(again)) == (INPUT_REQUIRED, "size?")
        # It was tried once more, and no more.
        assert up.calls.count("stream") == 3
        up.fails.clear()
        assert said(await w.send("say large", task=asked.id)) == "large"


async def test_a_task_is_followed_again_after_a_cut() -> None:
    async with bridge(retry_s=60) as (w, up):
        task = await w.submit("chunks a 2; wait go; chunks b 2; say hi")
        await up.there.gates.reached("go")
        await settle()
        up.fails |= {"cut": StreamEnded("gone"), "get": CUT}
        up.there.gates.open("go")
        await settle()
        now = await w.get(task.id)
        assert (now.status.state, said(now)) == (WORKING, failures.TRYING)
        up.fails.clear()
        await pass_time(up)
        ended = await w.ended(task.id)
        theirs = await up.get(upstream_task_of(up))
        assert (ended.status.state, said(ended)) == (COMPLETED, "hi")
        assert ended.artifacts == theirs.artifacts


async def test_an_upstream_that_forgot_the_task_fails_it() -> None:
    async with bridge() as (w, up):
        task = await w.submit("say hi; wait go")
        await up.there.gates.reached("go")
        await settle()
        up.fails |= {"cut": CUT, "get": PeerRefused("who?", reason="TASK_NOT_FOUND")}
        up.there.gates.open("go")
        ended = await w.ended(task.id)
        assert (ended.status.state, said(ended)) == (FAILED, failures.LOST)


class Restart:
    """Our gateway is killed and comes back; theirs goes on all the while."""

    def __init__(self, up: Loopback) -> None:
        self.up = up
        self.store = MemoryStore()

    async def first(self, **options: Any) -> World:
        backend = self.up.backend(**options)
        w = World(store=self.store, node="one", clock=self.up.there.clock, backend=backend)
        await w.open()
        return w

    async def kill(self, w: World) -> None:
        await settle()
        await w.vanish()
        await w.agent.backend.close()

    @asynccontextmanager
    async def again(self, **options: Any) -> AsyncIterator[World]:
        clock = next_morning()
        backend = self.up.backend(clock=clock)
        async with inner(
            store=self.store, node="two", clock=clock, backend=backend, **options
        ) as w:
            await settle()
            yield w


@pytest.mark.parametrize("streams", [True, False], ids=["streams", "polled"])
async def test_a_restart_picks_up_the_task_over_there(streams: bool) -> None:
    async with world(node="up") as there:
        restart = Restart(Loopback(there, streams=streams))
        first = await restart.first()
        task = await first.submit("note begun; chunks a 2; wait go; chunks b 2; say hi")
        await there.gates.reached("go")
        await there.clock.advance(1)
        await restart.kill(first)
        async with restart.again() as w:
            there.gates.open("go")
            for _ in range(3):
                await settle()
                await w.clock.advance(1)
            ended = await w.ended(task.id)
            theirs = await restart.up.get(there.scripted.turns[0].task_id)
            assert (ended.status.state, said(ended)) == (COMPLETED, "hi")
            assert ended.artifacts == theirs.artifacts
            notes = [text_of(m.parts) for m in ended.history if m.role is Role.AGENT]
            assert notes == ["begun", "hi"]
        assert len(there.scripted.turns) == 1


async def test_what_ended_over_there_meanwhile_has_ended() -> None:
    async with world(node="up") as there:
        restart = Restart(Loopback(there))
        first = await restart.first()
        task = await first.submit("say some; wait go; ask size?")
        await there.gates.reached("go")
        await restart.kill(first)
        there.gates.open("go")
        await settle()
        async with restart.again() as w:
            now = await w.get(task.id)
            assert (now.status.state, said(now)) == (INPUT_REQUIRED, "size?")
            ended = await w.send("say large", task=task.id)
            assert said(ended) == "large"
        assert len({turn.task_id for turn in there.scripted.turns}) == 1


def resumed(*content: str, session: FakeSession, **changes: Any) -> TurnRequest:
    return turn_request(*content, run_id="task-1.3", session=session, is_resumed=True, **changes)


def kept(**fields: Any) -> FakeSession:
    session = FakeSession()
    session.notes["task task-1"] = notes.written(notes.Kept(**fields))
    return session


async def test_a_message_that_was_on_its_way_is_looked_for() -> None:
    async with world(node="up") as there:
        up = Loopback(there)
        backend = up.backend()
        turn = resumed("say hi", session=kept(run="task-1.3"))
        outputs = await run_turn(backend, turn)
        assert outputs == [Failed(failures.UNKNOWN_AFTER_RESTART)]
        # Had it arrived, this is what would be there.
        await up.send(request_for(turn, notes.Ask(), context_id=context_for(turn), waits=True))
        assert answer_text(await run_turn(backend, turn)) == "hi"
        assert len(there.scripted.turns) == 1
        await backend.close()


async def test_a_message_that_was_never_sent_is_sent() -> None:
    async with world(node="up") as there:
        backend = Loopback(there).backend()
        session = FakeSession()
        assert answer_text(await run_turn(backend, resumed("say hi", session=session))) == "hi"
        assert notes.read(session.notes["task task-1"]) == notes.Kept(
            "task-1.3", there.scripted.turns[0].task_id, there.scripted.turns[0].context_id
        )
        await backend.close()


async def test_an_answer_that_was_on_its_way_is_given_once() -> None:
    async with world(node="up") as there:
        up = Loopback(there)
        backend = up.backend()
        asked = await up.send(
            request_for(turn_request("ask size?"), notes.Ask(), context_id="c", waits=True)
        )
        assert isinstance(asked, Task)
        session = kept(run="task-1.3", task=asked.id, context=asked.context_id, answers=True)
        turn = resumed("ask colour?", session=session)
        # It did not arrive, so it is given now; had the process died again, it would not be.
        for _ in range(2):
            outputs = await run_turn(backend, turn)
            assert outputs == [Question((Part(text="colour?"),))]
            session.notes["task task-1"] = notes.written(
                notes.Kept("task-1.3", asked.id, asked.context_id, answers=True)
            )
        assert len(there.scripted.turns) == 2
        await backend.close()


async def test_nobody_knows_of_a_message_to_an_upstream_without_a_list() -> None:
    async with bridge(lists=False) as (w, up):
        up.fails["cut"] = CUT
        task = await w.send("say hi")
        assert (task.status.state, said(task)) == (FAILED, failures.MAY_HAVE_ARRIVED)


async def test_a_restart_that_is_not_to_resume_cancels_over_there() -> None:
    async with world(node="up") as there:
        restart = Restart(Loopback(there))
        first = await restart.first()
        task = await first.submit("say some; hang")
        await settle()
        await restart.kill(first)
        async with restart.again(on_restart=("resume_queued", "fail_running")) as w:
            assert (await w.ended(task.id)).status.state is FAILED
            await settle()
            state = (await restart.up.get(there.scripted.turns[0].task_id)).status.state
            assert state is CANCELED_STATE


async def test_a_proper_stop_lets_the_upstream_go_on() -> None:
    async with world(node="up") as there:
        restart = Restart(Loopback(there))
        first = await restart.first()
        task = await first.submit("say some; wait go; say more")
        await there.gates.reached("go")
        await settle()
        await first.close()
        there.gates.open("go")
        async with restart.again() as w:
            assert said(await w.ended(task.id)) == "somemore"
        assert list(there.scripted.canceled) == []
