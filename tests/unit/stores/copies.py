"""Stores with tasks and records of all sorts, for tests of copies."""

from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from trunkline.clock import SystemClock
from trunkline.model.events import STATUS, Entry
from trunkline.model.large_values import LargeValue, value_id
from trunkline.ports.copying import CopyableStore, require_whole
from trunkline.ports.records import Add, Defer, Group, Key, Put
from trunkline.ports.store import Append, Scope, Snapshot
from trunkline.stores.copying import Copied, Progress, StoreCopy
from trunkline.stores.jsonfile import JsonFileStore
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing.stores.kit import (
    ALICE,
    BOB,
    COMPLETED,
    create,
    follow,
    must_change,
    must_put,
    with_groups,
)

Make = Callable[[Path], CopyableStore]


def sqlite(path: Path) -> CopyableStore:
    return SqliteStore(path / "copy.db", clock=SystemClock())


def json_files(path: Path) -> CopyableStore:
    return JsonFileStore(path / "copy", clock=SystemClock(), adopts=Scope("", "", ""))


LARGE = LargeValue(value_id("large"), "é" * 300_000 + '"')


def plain(tasks: int) -> list[Append]:
    return [
        as_copied(create(f"plain-{n}", scope=(ALICE, BOB)[n % 2], status_ms=9000 - n, count=3))
        for n in range(tasks)
    ]


def as_copied(append: Append) -> Append:
    """The append by which a copy writes the task: its entries have no times, as old ones."""
    return structs.replace(append, keeps_times=True)


async def fill(store: CopyableStore, *, tasks: int = 100) -> None:
    """Tasks and records of all sorts."""
    await must_put(store, *plain(tasks))
    snapshot = Snapshot(3, b'{"id":"ended"}', b'[{"artifactId":"a"}]')
    ended = create("ended", context_id="é\n", count=3, state=COMPLETED, snapshot=snapshot)
    note = Put(key=Key("note.1", "agent", "n"), body=b"{}", tags=("b", "a"), goes_with_task=True)
    await must_put(store, with_groups(ended, Group((note,))))
    await must_put(store, create("pruned", count=5, snapshot=Snapshot(4, b"{}")))
    await store.prune_journal("pruned", up_to=3)
    await must_put(store, create("all-pruned", count=2, snapshot=Snapshot(2, b"{}")))
    await store.prune_journal("all-pruned", up_to=2)
    await must_put(
        store,
        create("file"),
        structs.replace(
            follow("file", 1), entries=(Entry(2, STATUS, b'"' + b"x" * 600_000 + b'"'),)
        ),
    )
    body = b'["%s"]' % (LARGE.reference if store.keeps_large_values else LARGE.text).encode()
    if not store.keeps_large_values:
        body = b'["' + b"".join(LARGE.slices()) + b'"]'
    await must_put(store, large_append(store, body))
    await must_change(store, Add(key=Key("count.1", "", "c"), amount=7, at_most=10))
    await must_change(store, Add(key=Key("count.1", "", "c"), amount=1, at_most=10))
    for n in range(3):
        await must_change(store, Put(key=Key("timer.1", "s", str(n)), body=b"\0\xff", due_in_ms=n))
    (claimed,) = await store.claim_due({"timer.1": 1}, lease_ms=1000)
    await must_change(store, Defer(key=claimed.key, in_ms=50_000, expected=claimed.version))


def large_append(store: CopyableStore, body: bytes) -> Append:
    append = structs.replace(
        create("large", count=2, state=COMPLETED),
        entries=(Entry(1, STATUS, b"[]"), Entry(2, STATUS, body)),
        snapshot=Snapshot(2, b"{}", body),
    )
    return structs.replace(append, values=(LARGE,)) if store.keeps_large_values else append


async def copy(
    source: CopyableStore,
    target: CopyableStore,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Copied:
    return await StoreCopy(source, target, name="the source", on_progress=on_progress).run()


async def opened(store: CopyableStore) -> CopyableStore:
    await store.open()
    return store


async def assert_like_the_source(store: CopyableStore) -> None:
    """What the gateway goes by, in the words of the port."""
    await require_whole(store)
    pruned = await store.get(ALICE, "pruned")
    assert pruned is not None
    assert (pruned.last_seq, len(pruned.tail)) == (5, 1)
    assert [each.seq for each in await store.entries("pruned", after=0, limit=9)] == [4, 5]
    (note,) = await store.task_records("ended")
    assert note.tags == ("b", "a")
    count = await store.record(Key("count.1", "", "c"))
    assert count is not None
    assert (count.count, count.version) == (8, 2)
    # A record of the scope was put off, so the scope waits.
    assert await store.claim_due({"timer.1": 9}, lease_ms=1000) == ()
    timer = await store.record(Key("timer.1", "s", "0"))
    assert timer is not None
    assert (timer.body, timer.attempts) == (b"\0\xff", 1)
    await must_put(store, follow("pruned", 5), follow("all-pruned", 2))
    assert (await store.unfinished())[0] == (ALICE, "plain-0")
