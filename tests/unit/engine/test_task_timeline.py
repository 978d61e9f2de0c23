"""The timeline of a task, from its journal."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trunkline.engine.task_timeline import MAX_GAPS, MIN_GAP_MS, TimelineFold, time_of
from trunkline.model.events import (
    Entry,
    Event,
    MessageAccepted,
    StatusShown,
    TaskSubmitted,
    TurnOptions,
    TurnRetried,
)
from trunkline.model.timestamps import format_timestamp
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

SUBMITTED, WORKING = TaskState.SUBMITTED, TaskState.WORKING
COMPLETED, CANCELED = TaskState.COMPLETED, TaskState.CANCELED
INPUT = TaskState.INPUT_REQUIRED


def asked(number: int) -> Message:
    return Message(message_id=f"m{number}", role=Role.USER, parts=(Part(text="?"),))


def begun(state: TaskState = SUBMITTED) -> Task:
    return Task(id="t", context_id="c", status=TaskStatus(state=state), history=(asked(1),))


def status(state: TaskState, timestamp: str = "") -> TaskStatusUpdateEvent:
    return TaskStatusUpdateEvent(
        task_id="t", context_id="c", status=TaskStatus(state=state, timestamp=timestamp)
    )


def accepted(number: int, state: TaskState = SUBMITTED) -> MessageAccepted:
    return MessageAccepted(message=asked(number), status_update=status(state))


def chunk() -> TaskArtifactUpdateEvent:
    artifact = Artifact(artifact_id="a", parts=(Part(text="x"),))
    return TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=artifact, append=True)


def journal(*events: tuple[int | None, Event], after: int = 0) -> list[Entry]:
    """Entries with the times of their commits in milliseconds."""
    found: list[Entry] = []
    for seq, (at_ms, event) in enumerate(events, after + 1):
        made = Entry.of(seq, event)
        # As a store returns it.
        found.append(Entry(seq, made.kind, made.body, None, at_ms))
    return found


def folded(entries: list[Entry]) -> TimelineFold:
    fold = TimelineFold()
    fold.apply(entries)
    return fold


def turns(fold: TimelineFold) -> list[tuple[Any, ...]]:
    return [
        (t.number, t.message_id, t.queued_ms, t.started_ms, t.ended_ms, t.outcome)
        for t in fold.shown_turns()
    ]


def test_a_turn_has_its_time_in_the_queue_and_its_time_at_work() -> None:
    fold = folded(
        journal((100, begun()), (700, status(WORKING)), (800, chunk()), (900, status(COMPLETED)))
    )
    assert turns(fold) == [(1, "m1", 100, 700, 900, COMPLETED)]
    (turn,) = fold.shown_turns()
    assert (turn.first_seq, turn.last_seq) == (1, 4)
    bands = [(b.state, b.seq, b.from_ms, b.to_ms) for b in fold.bands]
    assert bands == [
        (SUBMITTED, 1, 100, 700),
        (WORKING, 2, 700, 900),
        (COMPLETED, 4, 900, None),
    ]


def test_a_status_that_repeats_the_state_begins_no_band() -> None:
    fold = folded(
        journal((1, begun()), (2, status(WORKING)), (3, StatusShown(status_update=status(WORKING))))
    )
    assert [band.state for band in fold.bands] == [SUBMITTED, WORKING]


def test_a_question_and_its_answer_are_two_turns() -> None:
    fold = folded(
        journal(
            (1, begun()),
            (2, status(WORKING)),
            (3, status(INPUT)),
            (9, accepted(2)),
            (10, status(WORKING)),
            (12, status(COMPLETED)),
        )
    )
    assert turns(fold) == [(1, "m1", 1, 2, 3, INPUT), (2, "m2", 9, 10, 12, COMPLETED)]


def test_messages_that_come_during_a_turn_wait_for_theirs() -> None:
    entries = journal(
        (1, begun()),
        (2, status(WORKING)),
        (3, accepted(2, WORKING)),
        (4, accepted(3, WORKING)),
        (5, status(SUBMITTED)),
        (6, status(WORKING)),
    )
    fold = folded(entries)
    assert turns(fold) == [
        (1, "m1", 1, 2, 5, SUBMITTED),
        (2, "m2", 3, 6, None, None),
        (3, "m3", 4, None, None, None),
    ]
    # The end of the task ends the turns that have not begun.
    fold.apply(journal((8, status(CANCELED)), after=6))
    assert turns(fold)[1:] == [(2, "m2", 3, 6, 8, CANCELED), (3, "m3", 4, None, 8, CANCELED)]


def test_a_turn_that_is_run_again_is_another_turn_of_its_message() -> None:
    fold = folded(
        journal(
            (1, begun()),
            (2, status(WORKING)),
            (3, accepted(2, WORKING)),
            (5, TurnRetried(status_update=status(SUBMITTED))),
            (6, status(WORKING)),
            (7, status(SUBMITTED)),
            (8, status(WORKING)),
        )
    )
    # The one that runs again goes before the one that waited.
    assert turns(fold) == [
        (1, "m1", 1, 2, 5, SUBMITTED),
        (2, "m2", 3, 8, None, None),
        (3, "m1", 5, 6, 7, SUBMITTED),
    ]


def test_a_refused_task_has_a_turn_that_never_began() -> None:
    fold = folded(
        journal((1, TaskSubmitted(task=begun(TaskState.REJECTED), options=TurnOptions())))
    )
    assert turns(fold) == [(1, "m1", 1, None, 1, TaskState.REJECTED)]


def test_a_pruned_journal_begins_in_the_middle() -> None:
    fold = folded(journal((10, chunk()), (20, status(WORKING)), (30, status(COMPLETED)), after=7))
    assert turns(fold) == [(1, "", None, 20, 30, COMPLETED)]
    assert [(b.state, b.seq) for b in fold.bands] == [(WORKING, 9), (COMPLETED, 10)]


def test_entries_without_a_time_have_that_of_their_status() -> None:
    at = format_timestamp(1_700_000_000_123)
    old, artifact, bad = journal(
        (None, status(WORKING, at)), (None, chunk()), (None, status(WORKING, "not a time"))
    )
    assert time_of(old) == 1_700_000_000_123
    assert time_of(artifact) is None
    assert time_of(bad) is None
    assert time_of(journal((5, status(WORKING, at)))[0]) == 5


def test_gaps_are_times_in_which_nothing_was_recorded_before_the_end() -> None:
    fold = folded(
        journal(
            (0, begun()),
            (MIN_GAP_MS - 1, status(WORKING)),
            (3000, chunk()),
            (None, chunk()),
            (9000, status(COMPLETED)),
            (99_000, StatusShown(status_update=status(COMPLETED))),
        )
    )
    assert [(g.after_seq, g.from_ms, g.to_ms, g.ms) for g in fold.gaps()] == [
        (2, 999, 3000, 2001),
        (4, 3000, 9000, 6000),
    ]


def test_the_longest_gaps_are_kept_in_the_order_of_time() -> None:
    times = [0]
    for number in range(3 * MAX_GAPS):
        times.append(times[-1] + MIN_GAP_MS + number)
    fold = folded(journal((times[0], begun()), *[(at, chunk()) for at in times[1:]]))
    gaps = fold.gaps()
    assert [gap.ms for gap in gaps] == [MIN_GAP_MS + n for n in range(2 * MAX_GAPS, 3 * MAX_GAPS)]


def test_a_clock_that_goes_back_makes_no_gap() -> None:
    fold = folded(journal((50_000, begun()), (10, chunk()), (50_100, chunk())))
    assert fold.gaps() == []


events = st.one_of(
    st.sampled_from([WORKING, SUBMITTED, INPUT, COMPLETED]).map(status),
    st.builds(chunk),
    st.integers(2, 5).map(accepted),
    st.integers(2, 5).map(lambda n: accepted(n, WORKING)),
    st.just(TurnRetried(status_update=status(SUBMITTED))),
    st.just(StatusShown(status_update=status(WORKING))),
)
histories = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 400_000)), events), max_size=40
).map(lambda found: journal((0, begun()), *found))


@given(histories, st.data())
def test_folding_in_pieces_is_folding_once(entries: list[Entry], data: st.DataObject) -> None:
    pieces = TimelineFold()
    rest = entries
    while rest:
        count = data.draw(st.integers(1, len(rest)))
        pieces.apply(rest[:count])
        # To look at it changes nothing.
        pieces.shown_turns(), pieces.gaps()
        rest = rest[count:]
    once = folded(entries)
    assert pieces.bands == once.bands
    assert pieces.shown_turns() == once.shown_turns()
    assert pieces.gaps() == once.gaps()
    assert pieces.seq == once.seq == entries[-1].seq


@given(histories)
def test_bands_and_turns_fit_together(entries: list[Entry]) -> None:
    fold = folded(entries)
    states = [band.state for band in fold.bands]
    assert all(one is not other for one, other in pairwise(states))
    assert [band.to_ms for band in fold.bands[-1:]] == [None]
    found = fold.shown_turns()
    assert [turn.number for turn in found] == [*range(1, len(found) + 1)]
    for turn in found:
        assert turn.first_seq <= turn.last_seq <= fold.seq
        assert turn.outcome is not None or turn.ended_ms is None
