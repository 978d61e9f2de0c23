"""What a call is bound to: the commits of its own message and of the end of its own turn."""

from collections.abc import Sequence
from typing import Any

import pytest

from trunkline.model.events import Entry, MessageAccepted, TaskSubmitted, TurnOptions
from trunkline.model.principal import ANONYMOUS
from trunkline.model.routed_calls import CallOrigin
from trunkline.model.values import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.ports.records import Group, Key, Put, Record
from trunkline.ports.session_entries import SessionRef
from trunkline.ports.store import Scope
from trunkline.routing.call_news import CallNews
from trunkline.routing.call_records import CALL, WATCH, RoutedCall, decode_record, watch_of
from trunkline.routing.call_watch import CallWatch, CallWatches, numbers
from trunkline.routing.counts import CallCounts
from trunkline.routing.waiting import Waiting
from trunkline.runtime.live_task import LiveTask
from trunkline.runtime.outbox import MainStore
from trunkline.runtime.participants import NEW
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock, SequentialIds

S = TaskState
SCOPE = Scope("acme/helper", "", "alice")


class Watched:
    """A task whose appends the test commits, or refuses."""

    def __init__(self) -> None:
        clock, store = FakeClock(), MemoryStore()

        async def open_main() -> Any:
            return store

        self.counts = CallCounts()
        self.watches = CallWatches(
            main=MainStore.own(store, ids=SequentialIds()),
            clock=clock,
            news=CallNews(
                counts=self.counts,
                waiting=Waiting(open_main=open_main, clock=clock),
                wake=lambda: None,
                wake_in=lambda _: None,
                tell=lambda _: None,
            ),
            next_number=numbers(),
        )
        self.live = LiveTask(task_id="t", scope=SCOPE, context_id="c")
        self._sent: list[tuple[Entry, ...]] = []

    def call(self, id: str) -> CallWatch:
        """A call is about to be made by the next message."""
        call = RoutedCall(
            id=id,
            session=SessionRef(Scope("acme/caller", "", "alice"), "c1"),
            session_key="agent:caller:a2a:c1",
            callee="acme/helper",
            source_tool="agent_call",
            begun_ms=0,
            timeout_ms=60_000,
            kept_ms=120_000,
            root=id,
            depth=1,
            principal=ANONYMOUS,
        )
        body = watch_of(call).body
        record = Record(key=Key(WATCH, "acme/helper", id), version=NEW, body=body)
        (watch,) = self.watches.rejoin(self.live, [record])
        self.live.participants += (watch,)
        return watch

    def append(self, *events: Any) -> list[Group]:
        """Send the events to the store. Returns the changes that go with them."""
        for event in events:
            self.live.seq += 1
            self.live.unflushed.append(Entry.of(self.live.seq, event))
        entries = tuple(self.live.unflushed)
        participants = self.live.participants
        groups = [
            group for each in participants for group in each.enlist(self.live, entries, S.WORKING)
        ]
        self.live.in_flight.extend(entries)
        self.live.unflushed.clear()
        self._sent.append(entries)
        return groups

    def commit(self, *, skip: Sequence[Group] = ()) -> None:
        """The store has committed the first append that was sent."""
        entries = self._sent.pop(0)
        self.live.commit(entries, S.WORKING, None, None)
        del self.live.in_flight[: len(entries)]
        for each in self.live.participants:
            each.committed(self.live, entries, S.WORKING, skip)

    def refuse(self) -> None:
        self.live.generation += 1
        self.live.unflushed.clear()
        self.live.in_flight.clear()
        self.live.seq = self.live.committed_seq
        self._sent.clear()


def states(groups: list[Group]) -> list[tuple[str, str]]:
    """The calls that the groups change, with their states."""
    records = [
        decode_record(change.body)
        for group in groups
        for change in group.changes
        if isinstance(change, Put) and change.key.kind == CALL
    ]
    return [(each.call.id, each.state) for each in records]


def options(call: str) -> TurnOptions:
    return TurnOptions(call=CallOrigin(id=call, principal=ANONYMOUS))


def status(state: TaskState) -> TaskStatusUpdateEvent:
    return TaskStatusUpdateEvent(task_id="t", context_id="c", status=TaskStatus(state=state))


def said(call: str) -> Message:
    return Message(message_id=call, role=Role.USER, parts=(Part(text="ask"),))


def begun(call: str) -> TaskSubmitted:
    task = Task(id="t", context_id="c", status=TaskStatus(state=S.SUBMITTED), history=(said(call),))
    return TaskSubmitted(task=task, options=options(call))


def message(call: str) -> MessageAccepted:
    return MessageAccepted(
        message=said(call), status_update=status(S.WORKING), options=options(call)
    )


def chunk(text: str) -> TaskArtifactUpdateEvent:
    artifact = Artifact(artifact_id=text, parts=(Part(text=text),))
    return TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=artifact)


def test_a_call_is_made_by_the_commit_of_its_message_and_not_by_one_before() -> None:
    w = Watched()
    first = w.call("a")
    assert states(w.append(begun("a"), status(S.WORKING))) == [("a", "pending")]
    w.commit()
    assert w.counts.begun == 1
    assert not w.append(chunk("one"))
    # While output of the first turn is on its way to the store, a second call comes.
    w.call("b")
    assert states(w.append(message("b"))) == [("b", "pending")]
    w.commit()
    assert w.counts.begun == 1
    # The store refuses it. What is recorded next has its number.
    w.refuse()
    assert not w.append(chunk("more"))
    assert w.live.participants == (first,)


def test_an_end_that_was_refused_is_made_again() -> None:
    w = Watched()
    w.call("a")
    w.append(begun("a"), status(S.WORKING))
    w.commit()
    assert states(w.append(chunk("one"), status(S.COMPLETED))) == [("a", "completed")]
    w.refuse()
    assert states(w.append(status(S.FAILED))) == [("a", "error")]
    w.commit()
    assert dict(w.counts.ended) == {"error": 1}
    assert not w.live.participants


def test_an_end_is_told_by_its_own_commit_and_once() -> None:
    w = Watched()
    w.call("a")
    w.append(begun("a"), status(S.WORKING))
    w.append(chunk("one"))
    # The task goes on with another message in the same commit.
    groups = w.append(message("x"), status(S.SUBMITTED), status(S.WORKING), chunk("two"))
    assert states(groups) == [("a", "completed")]
    assert not w.append(status(S.COMPLETED))
    for ended in ({}, {}, {"completed": 1}, {"completed": 1}):
        w.commit()
        assert dict(w.counts.ended) == ended


def test_a_call_that_ends_with_its_first_commit_is_made_as_one_that_has_ended() -> None:
    w = Watched()
    w.call("a")
    (group,) = w.append(begun("a"), status(S.WORKING), chunk("one"), status(S.COMPLETED))
    assert states([group]) == [("a", "completed")]
    assert group.is_required
    put = group.changes[0]
    assert isinstance(put, Put)
    assert put.expected == 0
    w.commit()
    assert (w.counts.begun, dict(w.counts.ended)) == (1, {"completed": 1})


def test_an_end_after_another_end_is_late() -> None:
    w = Watched()
    w.call("a")
    w.append(begun("a"), status(S.WORKING))
    w.commit()
    (group,) = w.append(status(S.COMPLETED))
    assert not group.is_required
    w.commit(skip=[group])
    assert dict(w.counts.ended) == {"late": 1}


@pytest.mark.parametrize("is_over", [False, True])
def test_after_a_restart_a_call_is_watched_until_its_turn_has_ended(is_over: bool) -> None:
    w = Watched()
    watch = w.call("a")
    w.append(begun("a"), status(S.WORKING))
    w.commit()
    if is_over:
        w.append(status(S.INPUT_REQUIRED))
        w.commit()
    key, body = Key(WATCH, "acme/helper", "a"), watch_of(watch._call).body
    found = w.watches.rejoin(w.live, [Record(key=key, version=1, body=body)])
    assert len(found) == (not is_over)
