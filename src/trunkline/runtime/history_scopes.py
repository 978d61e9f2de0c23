"""`Histories`: tasks with the history of the plan or the objective that they belong to."""

import msgspec
from msgspec.structs import replace

from trunkline.engine.history_scope import HistoryScope, history_scope
from trunkline.engine.task_fold import TaskFold
from trunkline.model.events import Entry
from trunkline.model.values import Message, Task
from trunkline.ports.store import Scope, Snapshot, Store, TaskQuery

_PAGE = 50
# The latest tasks of the caller that are looked at. Plans are not indexed, and one request must
# not read everything that a caller has ever stored.
_MAX_TASKS = 1000
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Task).decode


class Histories:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def widened(self, scope: Scope, snapshot: Snapshot) -> Snapshot:
        """The task as it is, with the history that its messages ask for."""
        task = _decode(snapshot.task)
        wanted = history_scope(task.history)
        if wanted is None:
            return snapshot
        history = await self._history(scope, wanted, task)
        return replace(snapshot, task=_encode(replace(task, history=history)))

    async def _history(self, scope: Scope, wanted: HistoryScope, task: Task) -> tuple[Message, ...]:
        """Of all tasks in the order in which they began; the task itself as it was given."""
        found: list[tuple[int, str, tuple[Message, ...]]] = []
        query, count = TaskQuery(scope=scope, limit=_PAGE), 0
        while count < _MAX_TASKS:
            page = await self._store.list(query)
            count += len(page.tasks)
            for stored in page.tasks:
                is_own = stored.task_id == task.id
                history = task.history if is_own else _history_of(stored.snapshot, stored.tail)
                if is_own or wanted.has(history):
                    found.append((stored.created_ms, stored.task_id, history))
            if page.next is None:
                break
            query = replace(query, after=page.next)
        return tuple([message for _, _, history in sorted(found, key=_age) for message in history])


def _age(found: tuple[int, str, tuple[Message, ...]]) -> tuple[int, str]:
    return found[0], found[1]


def _history_of(snapshot: Snapshot | None, tail: tuple[Entry, ...]) -> tuple[Message, ...]:
    return tuple(TaskFold.of(snapshot, tail).history)
