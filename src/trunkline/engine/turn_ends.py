"""`end_of_turn`: where the turn that a call has asked for ends, among the entries of its task.

A task may have several turns, of several calls and of messages from outside. So what ends next in a
task need not be the turn of the call, and what the task looks like later is not its answer. The
journal names the call beside the message of its turn, and no client can write that.
"""

from collections.abc import Iterable

from msgspec import Struct

from trunkline.engine.task_fold import TaskFold
from trunkline.model.events import Entry, MessageAccepted, TaskSubmitted, TurnOptions
from trunkline.model.values import TERMINAL, Artifact, TaskState, TaskStatus


class TurnEnd(Struct, frozen=True):
    status: TaskStatus
    # Those that the turn has made or changed.
    artifacts: tuple[Artifact, ...] = ()
    # Whether the turn ended with its process, and the task went on with another message.
    is_lost: bool = False


def awaits_turn(fold: TaskFold, call_id: str) -> bool:
    """Whether the turn of the call has not ended: it waits, or it is under way."""
    taken_up = fold.under_way
    left = fold.pending if taken_up is None else [*fold.pending, taken_up]
    return any(_is_of(each.options, call_id) for each in left)


def end_of_turn(fold: TaskFold | None, entries: Iterable[Entry], call_id: str) -> TurnEnd | None:
    """The end of the turn of the call, if it is among the entries. `fold` is the task before them,
    and is folded on; None if they begin with its first one."""
    for entry in entries:
        if fold is None:
            fold = TaskFold.begin(entry)
            event = entry.event
            # A refused message makes a task that has ended from the start.
            if fold.state in TERMINAL and isinstance(event, TaskSubmitted):
                return TurnEnd(fold.status) if _is_of(event.options, call_id) else None
            continue
        fold.apply(entry)
        if fold.state is TaskState.WORKING:
            continue
        is_pending = any(_is_of(each.options, call_id) for each in fold.pending)
        if is_pending:
            # Its turn did not begin, or is to begin again.
            if fold.state in TERMINAL:
                return TurnEnd(fold.status)
        elif _is_of(fold.last_options, call_id):
            # The task has ended, has a question, or is submitted again for the next message.
            is_lost = isinstance(entry.event, MessageAccepted)
            return TurnEnd(fold.status, _made(fold), is_lost)
    return None


def _made(fold: TaskFold) -> tuple[Artifact, ...]:
    earlier = {artifact.artifact_id: artifact for artifact in fold.earlier_artifacts}
    return tuple([each for each in fold.artifacts if earlier.get(each.artifact_id) != each])


def _is_of(options: TurnOptions | None, call_id: str) -> bool:
    return options is not None and options.call is not None and options.call.id == call_id
