"""Changes of the store that are no appends: taking tasks over, and forgetting them."""

from collections.abc import Mapping
from heapq import nsmallest

from trunkline.stores.sqlite.bulk import write_rows
from trunkline.stores.sqlite.statements import SQL
from trunkline.stores.sqlite.writer import Writer

# Later than any status: all ended tasks are older.
_FOREVER_MS = (1 << 63) - 1


def take_over(
    writer: Writer,
    leases: Mapping[str, int],
    node: str,
    *,
    now_ms: int,
    limit: int,
    task_id: str | None,
) -> list[int]:
    """The numbers of the tasks that `node` owns from now on."""
    db = writer.connection
    cursor = (
        db.execute(SQL["find_to_do"])
        if task_id is None
        else db.execute(SQL["find_owner"], (task_id,))
    )
    free: list[tuple[int, str]] = []
    for key, found_id, owner in cursor:
        if len(free) == limit:
            break
        if owner != node and leases.get(owner, -1) < now_ms:
            free.append((key, found_id))
    cursor.close()
    node_id = writer.node_id(node)
    db.executemany(SQL["take_over"], [(node_id, key) for key, _ in free])
    for _, found_id in free:
        writer.forget(found_id)
    return [key for key, _ in free]


def prune(writer: Writer, agent: str, *, limit: int, before_ms: int | None) -> int:
    db = writer.connection
    before = _FOREVER_MS if before_ms is None else before_ms
    found: list[tuple[int, int, str, int, int]] = []
    for scope, state, _ in db.execute(SQL["get_ended"], (agent,)).fetchall():
        found += db.execute(SQL["find_ended"], (scope, state, before, limit)).fetchall()
    ended = nsmallest(limit, found)
    keys = [(key,) for _, key, _, _, _ in ended]
    for statement in ("delete_task", "delete_events", "delete_snapshot", "delete_idempotency"):
        db.executemany(SQL[statement], keys)
    for _, _, _, scope, state in ended:
        write_rows(db, "add_counts", 3, [state, scope, -1])
    for _, _, task_id, _, _ in ended:
        writer.forget(task_id)
    return len(ended)


def prune_journal(writer: Writer, task_id: str, *, up_to: int) -> None:
    for (key,) in writer.connection.execute(SQL["find_key"], (task_id,)).fetchall():
        writer.connection.execute(SQL["prune_journal"], {"task": key, "up_to": up_to})
