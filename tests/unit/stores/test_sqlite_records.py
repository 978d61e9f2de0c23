"""Records in the SQLite store: what the messages of one commit cost together."""

from pathlib import Path

from trunkline.ports.records import Add, Group, Key, Put
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing import FakeClock
from trunkline.testing.stores.kit import create, put, with_groups

BUDGET = Key("budget.1", "2026-11-18", "acme/echo")


async def test_a_commit_reads_and_writes_a_count_once(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "tasks.db", clock=FakeClock())
    await store.open()
    statements: list[str] = []
    assert store._opened is not None
    store._opened.writer.connection.set_trace_callback(statements.append)
    accepted = [
        with_groups(
            create(f"task{number}"),
            Group((Add(key=BUDGET, amount=1, at_most=40),)),
            Group((Put(key=Key("audit-attempt.1", "chain", f"{number:03d}"), expected=0),)),
        )
        for number in range(32)
    ]
    for _ in range(2):
        assert await put(store, *accepted[:16]) == [None] * 16
        accepted = accepted[16:]
    about_records = [each for each in statements if "records" in each]
    await store.close()
    # For each commit a look at the budget, one write of it, and one of all rows of the audit.
    assert [each.split()[0] for each in about_records] == [
        *("SELECT", "INSERT", "INSERT"),
        *("SELECT", "INSERT", "UPDATE"),
    ]
