"""Deletions of ended tasks, and of entries that a snapshot covers."""

from collections.abc import Iterable

from trunkline.stores.sqlite.rows import MAX_SEQ, PACKED, SEQ_BITS, Blob, add_rows, entries_after
from trunkline.stores.sqlite.statements import SQL
from trunkline.stores.sqlite.writer import Writer


def prune(writer: Writer, found: Iterable[int]) -> int:
    """Delete the tasks that still exist and are ended. Returns how many."""
    db = writer.connection
    ended = []
    for key in found:
        ended += db.execute(SQL["find_still_ended"], (key,)).fetchall()
    keys = [(key,) for key, _, _, _ in ended]
    for statement in (
        "delete_task",
        "delete_events",
        "delete_snapshot",
        # They may have many slices, which the sweep deletes later.
        "loosen_values",
        "delete_large_values",
    ):
        db.executemany(SQL[statement], keys)
    writer.records.forget_tasks([key for (key,) in keys])
    for _, _, scope, state in ended:
        SQL.write_rows(db, ("add_counts", 3, [state, scope, -1]))
    for _, task_id, _, _ in ended:
        writer.forget(task_id)
    return len(ended)


def prune_journal(writer: Writer, task_id: str, *, up_to: int) -> None:
    db = writer.connection
    for key, folded in db.execute(SQL["find_folded"], (task_id,)).fetchall():
        start = key << SEQ_BITS
        last = min(up_to, folded)
        db.execute(SQL["delete_entries"], (start, start | last))
        # The next row may begin with entries that are to go.
        rows = db.execute(SQL["get_entries"], (start, start | MAX_SEQ, 1)).fetchall()
        if rows and rows[0][1] == PACKED:
            kept: list[int | str | Blob | None] = []
            add_rows(kept, start, entries_after(rows, last, -1), rows[0][3])
            db.execute(SQL["replace_entries"], (*kept, rows[0][0]))
