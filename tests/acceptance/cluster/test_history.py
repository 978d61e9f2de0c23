"""Broken histories: the checks after a run with kills find each of them."""

from collections.abc import Callable

import msgspec
import pytest
from tests.acceptance.cluster.history import History, Sent, Stop, Turn, read_turns
from tests.acceptance.kill_gateway import Row

from trunkline.model.events import Entry, Event, MessageAccepted
from trunkline.model.values import (
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

WORKING, COMPLETED, FAILED = TaskState.WORKING, TaskState.COMPLETED, TaskState.FAILED


def message(message_id: str) -> Message:
    return Message(message_id=message_id, role=Role.USER, parts=(Part(text="1 0"),))


def status(task_id: str, state: TaskState) -> TaskStatusUpdateEvent:
    return TaskStatusUpdateEvent(task_id=task_id, context_id="c", status=TaskStatus(state=state))


def row(task_id: str, *events: Event) -> Row:
    first = Task(
        id=task_id,
        context_id="c",
        status=TaskStatus(state=TaskState.SUBMITTED),
        history=(message(f"m-{task_id}"),),
    )
    entries = [Entry.of(seq, event) for seq, event in enumerate((first, *events), 1)]
    [*_, state] = (one.public.status.state for one in entries if hasattr(one.public, "status"))
    return Row(state, ("alice", "c"), {one.seq: (one.kind, one.body) for one in entries})


def told(row: Row, seq: int) -> bytes:
    return b'{"id":1,"result":' + Entry(seq, *row.events[seq]).public_body + b"}"


TURNS = """\
begin 10 7 effects one m-one
begin 30 8 effects two m-two
end 50 8 effects two m-two
"""


def history() -> History:
    """Two tasks of one context; the process of the first was killed in its turn."""
    first = row("one", status("one", WORKING), status("one", FAILED))
    second = row("two", status("two", WORKING), status("two", COMPLETED))
    rows = {"one": first, "two": second}
    return History(
        rows,
        events={"one": {2: told(first, 2)}, "two": {seq: told(second, seq) for seq in (1, 2, 3)}},
        ended={"two": {"id": "two", "status": {"state": "TASK_STATE_COMPLETED"}}},
        messages={"m-one": Sent(1, "one", 2), "m-two": Sent(3, "two", 4)},
        turns=read_turns(TURNS),
        stops=[Stop(7, 20)],
    )


def test_a_sound_history_passes() -> None:
    history().check()


def lose_an_entry(it: History) -> None:
    del it.rows["one"].events[2]


def lose_the_end(it: History) -> None:
    it.rows["two"] = row("two", status("two", WORKING))


def lose_a_task(it: History) -> None:
    del it.rows["two"]


def lose_a_task_that_a_sender_knows(it: History) -> None:
    del it.rows["two"]
    del it.events["two"], it.ended["two"]


def change_an_entry(it: History) -> None:
    events = it.rows["two"].events
    events[2] = (events[2][0], events[2][1].replace(b"WORKING", b"SUBMITTED"))


def swap_entries(it: History) -> None:
    events = it.events["two"]
    events[2], events[3] = events[3], events[2]


def go_on_after_the_end(it: History) -> None:
    it.rows["one"] = row("one", status("one", FAILED), status("one", WORKING))


def end_twice(it: History) -> None:
    it.rows["one"] = row(
        "one", status("one", WORKING), status("one", FAILED), status("one", FAILED)
    )


def end_otherwise(it: History) -> None:
    it.ended["two"] = {"id": "two", "status": {"state": "TASK_STATE_FAILED"}}


def head_differs_from_journal(it: History) -> None:
    it.rows["one"] = msgspec.structs.replace(it.rows["one"], state=COMPLETED)


def accept_a_message_twice(it: History) -> None:
    again = MessageAccepted(message=message("m-one"), status_update=status("two", WORKING))
    it.rows["two"] = row("two", status("two", WORKING), again, status("two", COMPLETED))
    del it.events["two"]


def leave_a_task_behind(it: History) -> None:
    it.rows["three"] = row("three", status("three", WORKING))


def run_twice(it: History) -> None:
    it.turns.append(Turn("effects", "one", "m-one", 8, 25, 26))


def run_twice_on_one_node(it: History) -> None:
    it.turns.append(Turn("effects", "two", "m-two", 8, 60, 61))


def run_before_it_is_stored(it: History) -> None:
    it.turns.append(Turn("effects", "three", "m-three", 8, 60, 61))


def complete_without_a_turn(it: History) -> None:
    it.rows["three"] = row("three", status("three", COMPLETED))


def overtake(it: History) -> None:
    it.turns[1].began_ns, it.turns[1].ended_ns = 5, 6


def run_beside_another(it: History) -> None:
    it.turns[0].ended_ns = 40
    it.stops.clear()


def run_before_the_owner_was_killed(it: History) -> None:
    it.stops = [Stop(7, 31)]


def run_beside_a_process_that_lives(it: History) -> None:
    it.stops.clear()


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lose_an_entry, "one has holes"),
        (lose_the_end, "two 3 was told and is lost"),
        (lose_a_task, "two was told and is lost"),
        (lose_a_task_that_a_sender_knows, "m-two was acknowledged"),
        (change_an_entry, "two 2 is .* and was told as"),
        (swap_entries, "two 2 is .* and was told as"),
        (go_on_after_the_end, "one went on after its end"),
        (end_twice, "one went on after its end"),
        (end_otherwise, "two was told as TASK_STATE_FAILED"),
        (head_differs_from_journal, "one is TASK_STATE_COMPLETED, its journal"),
        (accept_a_message_twice, "accepted twice: {'m-one'"),
        (leave_a_task_behind, "tasks that did not end: {'three'"),
        (run_twice, "ran more than once: {\\('one', 'm-one'\\): 2}"),
        (run_twice_on_one_node, "ran more than once: {\\('two', 'm-two'\\): 2}"),
        (run_before_it_is_stored, "tasks that were not stored"),
        (complete_without_a_turn, "without a turn: \\['three'\\]"),
        (overtake, "m-two overtook m-one"),
        (run_beside_another, "began beside"),
        (run_before_the_owner_was_killed, "began beside"),
        (run_beside_a_process_that_lives, "neither ended nor was its process stopped"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_damage_is_found(damage: Callable[[History], None], found: str) -> None:
    it = history()
    damage(it)
    with pytest.raises(AssertionError, match=found):
        it.check()
