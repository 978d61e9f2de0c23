"""`with_wide_history`: a task with the history of the plan or the objective that it belongs to."""

from operator import itemgetter

import msgspec
from msgspec.structs import replace

from trunkline.engine.history_scope import HistoryScope, history_scope
from trunkline.engine.task_fold import TaskFold
from trunkline.model.values import Message, Task
from trunkline.ports.store import Scope, Snapshot, Store, TaskQuery

_PAGE = 50
# The maximum number of tasks to search, the latest ones first. The store has no index of plans, and
# one request must not read all tasks of a caller.
_MAX_TASKS = 1000
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Task).decode


async def with_wide_history(store: Store, scope: Scope, snapshot: Snapshot) -> Snapshot:
    """The task with the history that its messages ask for."""
    task = _decode(snapshot.task)
    wanted = history_scope(task.history)
    if wanted is None:
        return snapshot
    history = await _wide_history(store, scope, wanted, task)
    return replace(snapshot, task=_encode(replace(task, history=history)))


async def _wide_history(
    store: Store, scope: Scope, wanted: HistoryScope, task: Task
) -> tuple[Message, ...]:
    """The messages of all tasks of the plan or objective, in the order in which the tasks began."""
    found: list[tuple[int, str, tuple[Message, ...]]] = []
    query, count = TaskQuery(scope=scope, limit=_PAGE), 0
    while count < _MAX_TASKS:
        page = await store.list(query)
        count += len(page.tasks)
        for stored in page.tasks:
            # `task` may be newer than the store has it.
            is_own = stored.task_id == task.id
            history = task.history if is_own else TaskFold.of(stored.snapshot, stored.tail).history
            if is_own or wanted.has(history):
                found.append((stored.created_ms, stored.task_id, history))
        if page.next is None:
            break
        query = replace(query, after=page.next)
    found.sort(key=itemgetter(0, 1))
    return tuple([message for _, _, history in found for message in history])
