"""Checks of appends and reads: atomic, in order, refused for the right reason, and complete."""

import asyncio
from functools import partial

from msgspec import structs

from trunkline.model.errors import RecordConflict, StaleSeq, StoreError, StoreUnusable
from trunkline.model.events import STATUS, TASK, Entry
from trunkline.ports.caller_records import UsedKey, decode_used_key, request_key
from trunkline.ports.store import Result, Snapshot, Store, TaskQuery
from trunkline.testing.stores.kit import (
    ALICE,
    BOB,
    COMPLETED,
    SUBMITTED,
    WORKING,
    assert_refused,
    assert_results,
    create,
    entries,
    entry,
    follow,
    must_get,
    must_have,
    must_put,
    put,
    submit,
    task_of_key,
)


async def what_was_appended_is_read_back_unchanged(store: Store) -> None:
    await must_put(store, create("t", context_id="c", status_ms=7, count=2))
    task = await must_get(store, "t")
    assert (task.task_id, task.scope, task.context_id) == ("t", ALICE, "c")
    assert (task.state, task.status_ms, task.created_ms) == (SUBMITTED, 7, 7)
    assert task.last_seq == 2
    assert task.snapshot is None
    assert task.tail == entries(0, 2)
    assert await store.entries("t", after=0, limit=10) == entries(0, 2)


async def snapshot_and_tail_are_the_task(store: Store) -> None:
    snapshot = Snapshot(2, b'{"id":"t"}', b'[{"artifactId":"a"}]')
    await must_put(store, create("t", count=2, snapshot=snapshot), follow("t", 2, count=2))
    task = await must_get(store, "t")
    assert task.snapshot == snapshot
    assert task.tail == entries(2, 2)
    assert task.last_seq == 4
    newer = Snapshot(5, b'{"id":"t","newer":true}')
    await must_put(store, follow("t", 4, snapshot=newer, state=COMPLETED, status_ms=9))
    task = await must_get(store, "t")
    assert (task.snapshot, task.tail, task.last_seq) == (newer, (), 5)
    assert (task.state, task.status_ms) == (COMPLETED, 9)


async def snapshot_alone_may_be_appended(store: Store) -> None:
    await must_put(store, create("t", count=3))
    snapshot = Snapshot(3, b"{}")
    await must_put(store, follow("t", 3, count=0, snapshot=snapshot, state=SUBMITTED))
    task = await must_get(store, "t")
    assert (task.snapshot, task.tail, task.last_seq) == (snapshot, (), 3)
    await must_put(store, follow("t", 3))


async def stale_sequence_is_refused_without_trace(store: Store) -> None:
    await must_put(store, create("t", count=2))
    before = await must_get(store, "t")
    for after in (1, 3, 0):
        append = follow("t", after, state=COMPLETED, snapshot=Snapshot(after, b"{}"), key="k")
        assert_results(await put(store, append), StaleSeq)
    assert await must_get(store, "t") == before
    assert await task_of_key(store, "k") is None


async def task_is_created_once(store: Store) -> None:
    await must_put(store, create("t"))
    results = await put(store, create("before"), create("t", scope=BOB), create("behind"))
    assert_results(results, None, StaleSeq, None)
    assert await store.get(BOB, "t") is None
    assert_results(await put(store, create("twice"), create("twice")), None, StaleSeq)


async def unknown_task_is_refused(store: Store) -> None:
    results = await put(store, follow("nobody", 3), follow("nobody", 0))
    assert_results(results, StaleSeq, StaleSeq)
    assert await store.get(ALICE, "nobody") is None


async def refusals_do_not_disturb_the_same_commit(store: Store) -> None:
    results = await put(
        store,
        create("a"),
        follow("a", 9),
        follow("a", 1, count=3),
        create("b"),
        follow("a", 4, state=COMPLETED),
    )
    assert_results(results, None, StaleSeq, None, None, None)
    assert await store.entries("a", after=0, limit=99) == entries(0, 5)
    assert (await must_get(store, "a")).state == COMPLETED
    assert (await must_get(store, "b")).last_seq == 1


async def one_of_many_appenders_wins(store: Store) -> None:
    await must_put(store, create("t"))
    for after in range(1, 6):
        results = await asyncio.gather(*[submit(store, follow("t", after)) for _ in range(8)])
        assert results.count(None) == 1, f"{results.count(None)} appends won one sequence"
        for result in results:
            if result is not None:
                assert_refused(result, StaleSeq)
    assert await store.entries("t", after=0, limit=99) == entries(0, 6)


async def appends_settle_in_the_order_of_submission(store: Store) -> None:
    settled: list[int] = []
    last = asyncio.get_running_loop().create_future()

    def note(number: int, _: StoreError | None) -> None:
        settled.append(number)

    number = 0
    for task in range(4):
        for after in range(5):
            append = create(f"t{task}") if after == 0 else follow(f"t{task}", after)
            store.submit([(append, partial(note, number))])
            number += 1
    store.submit([(follow("t0", 5), last.set_result)])
    assert settled == [], "an append settled before submit returned"
    assert await last is None
    assert settled == list(range(number))


async def settled_appends_are_visible(store: Store) -> None:
    for number in range(20):
        await must_put(store, create(f"t{number}"))
        assert (await must_get(store, f"t{number}")).state == SUBMITTED
        await must_put(store, follow(f"t{number}", 1, count=2, state=WORKING))
        assert len(await store.entries(f"t{number}", after=1, limit=9)) == 2


async def failing_listener_does_not_silence_others(store: Store) -> None:
    loop = asyncio.get_running_loop()
    reported: list[str] = []
    handler = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: reported.append(str(context["exception"])))

    def fail(_: Result) -> None:
        raise ValueError("listener failed")

    try:
        future = loop.create_future()
        store.submit([(create("a"), fail), (create("b"), future.set_result)])
        # Submitted in every pass while the first commit is under way, so that some wait
        # behind it when its listener fails.
        behind = []
        for number in range(200):
            behind.append(submit(store, create(f"c{number}")))
            passed = loop.create_future()
            loop.call_soon(passed.set_result, None)
            await passed
        assert await future is None
        for waiting in behind:
            assert await waiting is None, "a failing listener stopped the commits behind it"
    finally:
        loop.set_exception_handler(handler)
    assert reported == ["listener failed"]
    await must_put(store, follow("a", 1), follow("b", 1))


async def idempotency_key_comes_with_its_append(store: Store) -> None:
    assert await task_of_key(store, "k") is None
    await must_put(store, create("t", key="k"))
    record = await must_have(store, request_key(ALICE, "k"))
    assert decode_used_key(record.body) == UsedKey(b"\x00digest", "t")
    assert record.due_ms is None
    assert await task_of_key(store, "k", BOB) is None
    await must_put(store, follow("t", 1, key="k2"), create("b", scope=BOB, key="k"))
    assert await task_of_key(store, "k2") == "t"
    assert await task_of_key(store, "k", BOB) == "b"


async def used_idempotency_key_is_refused(store: Store) -> None:
    await must_put(store, create("t", key="k"))
    results = await put(store, create("a"), create("b", key="k"), create("c", key="k2"))
    assert_results(results, None, RecordConflict, None)
    assert await store.get(ALICE, "b") is None
    results = await put(store, create("d", key="k3"), create("e", key="k3"))
    assert_results(results, None, RecordConflict)
    assert await task_of_key(store, "k3") == "d"


async def close_commits_what_was_submitted(store: Store) -> None:
    futures = [submit(store, create(f"t{number}")) for number in range(20)]
    await store.close()
    await store.close()
    assert [await future for future in futures] == [None] * 20
    late = submit(store, create("late"))
    assert_refused(await late, StoreUnusable)


async def large_bodies_come_back(store: Store) -> None:
    """Files, or very many parts, make a body large."""
    body = bytes(range(256)).hex().encode() * 3_000
    first, second = Snapshot(1, b'"%b1"' % body, b'["%b"]' % body), Snapshot(2, b'"%b2"' % body)
    large = Entry(1, TASK, b'"%b"' % body)
    await must_put(
        store,
        structs.replace(create("a"), entries=(large,), snapshot=first),
        create("b"),
    )
    stored = await must_get(store, "a")
    assert stored.snapshot == first
    assert await store.entries("a", after=0, limit=9) == (large,)
    later = (Entry(2, STATUS, b'"%b"' % body), entry(3))
    await must_put(store, structs.replace(follow("a", 1), entries=later, snapshot=second))
    stored = await must_get(store, "a")
    assert stored.snapshot == second
    assert stored.tail == later[1:]
    assert await store.entries("a", after=0, limit=9) == (large, *later)
    page = await store.list(TaskQuery(scope=ALICE))
    assert {task.task_id: task.snapshot for task in page.tasks} == {"a": second, "b": None}


async def journal_is_read_in_pages(store: Store) -> None:
    await must_put(store, create("s", count=9), create("t", count=7), create("u", count=9))
    assert await store.entries("t", after=0, limit=3) == entries(0, 3)
    assert await store.entries("t", after=3, limit=3) == entries(3, 3)
    assert await store.entries("t", after=6, limit=3) == entries(6, 1)
    assert await store.entries("t", after=7, limit=3) == ()
    assert await store.entries("t", after=99, limit=3) == ()
    assert await store.entries("nobody", after=0, limit=3) == ()


async def resuming_reader_misses_nothing(store: Store) -> None:
    await must_put(store, create("t"))
    seen: list[Entry] = []
    appended = 1
    for step in range(30):
        pending = [submit(store, follow("t", appended + more)) for more in range(step % 4)]
        appended += len(pending)
        # Reads while the commit is under way, at any of its steps.
        seen += await store.entries("t", after=len(seen), limit=2)
        await asyncio.gather(*pending)
    while page := await store.entries("t", after=len(seen), limit=2):
        seen += page
    assert seen == list(entries(0, appended))


async def scopes_do_not_see_each_other(store: Store) -> None:
    await must_put(store, create("a", key="k"), create("b", scope=BOB))
    assert await store.get(BOB, "a") is None
    assert await store.get(ALICE, "b") is None
    page = await store.list(TaskQuery(scope=BOB))
    assert [(task.task_id, task.scope) for task in page.tasks] == [("b", BOB)]
    assert page.total == 1
    page = await store.list(TaskQuery(scope=BOB, context_id="context"))
    assert page.total == 1
    assert await task_of_key(store, "k", BOB) is None


async def pruned_journal_leaves_an_honest_gap(store: Store) -> None:
    snapshot = Snapshot(4, b"{}")
    await must_put(store, create("t", count=4, snapshot=snapshot), follow("t", 4, count=2))
    await store.prune_journal("t", up_to=3)
    assert await store.entries("t", after=0, limit=9) == entries(3, 3)
    # The store keeps every entry that the snapshot does not hold.
    await store.prune_journal("t", up_to=99)
    assert await store.entries("t", after=0, limit=9) == entries(4, 2)
    task = await must_get(store, "t")
    assert (task.snapshot, task.tail, task.last_seq) == (snapshot, entries(4, 2), 6)
    await must_put(store, create("bare", count=3))
    await store.prune_journal("bare", up_to=3)
    assert await store.entries("bare", after=0, limit=9) == entries(0, 3)
    await store.prune_journal("nobody", up_to=3)


async def sequence_goes_on_after_the_whole_journal_was_pruned(store: Store) -> None:
    await must_put(store, create("t", count=4, snapshot=Snapshot(4, b"{}")))
    await store.prune_journal("t", up_to=4)
    assert await store.entries("t", after=0, limit=9) == ()
    assert (await must_get(store, "t")).last_seq == 4
    page = await store.list(TaskQuery(scope=ALICE))
    assert page.tasks[0].last_seq == 4
    await must_put(store, follow("t", 4))
    assert await store.entries("t", after=0, limit=9) == entries(4, 1)


async def task_may_begin_with_a_pruned_journal(store: Store) -> None:
    """As in a copy of a task from another store."""
    creation = create("t").creation
    snapshot = Snapshot(5, b"{}")
    whole = structs.replace(follow("t", 4, count=3), creation=creation)
    pruned = structs.replace(whole, snapshot=snapshot)
    empty = structs.replace(follow("u", 5, snapshot=snapshot, count=0), creation=creation)
    # Without a snapshot the entries before would be missing.
    assert_results(await put(store, whole, pruned, empty, pruned), StaleSeq, None, None, StaleSeq)
    task = await must_get(store, "t")
    assert (task.last_seq, task.snapshot, task.tail) == (7, snapshot, entries(5, 2))
    assert await store.entries("t", after=0, limit=10) == entries(4, 3)
    await must_put(store, follow("t", 7))
    task = await must_get(store, "u")
    assert (task.last_seq, task.snapshot, task.tail) == (5, snapshot, ())
    assert await store.entries("u", after=0, limit=10) == ()
    await must_put(store, follow("u", 5, state=COMPLETED, snapshot=Snapshot(6, b"{}")))
    assert (await must_get(store, "u")).last_seq == 6


async def store_that_works_has_no_problem(store: Store) -> None:
    assert store.problem is None
    await store.check()
    await must_put(store, create("t"))
    await store.check()
    assert store.problem is None
    assert (await must_get(store, "t")).last_seq == 1


async def entries_have_the_time_of_their_commit(store: Store) -> None:
    await must_put(store, create("t", count=2))
    await must_put(store, follow("t", 2, count=70))
    await must_put(store, follow("t", 72))
    found = await store.entries("t", after=0, limit=100)
    times = [each.committed_ms for each in found]
    known = [each for each in times if each is not None]
    assert len(known) == 73, f"entries without a time: {times}"
    assert known == sorted(known), "a later commit has an earlier time"
    # By whatever clock the store has; a copy of it is no commit.
    assert len({*known[:2]}) == len({*known[2:72]}) == 1, "entries of one commit have one time"


async def a_copy_keeps_the_times_of_entries(store: Store) -> None:
    """Also those of entries from before times were kept, which have none."""
    times = (None, None, 5, 7, 7, 7, 9, None)
    copied = [
        structs.replace(each, committed_ms=committed_ms)
        for each, committed_ms in zip(entries(0, 8), times, strict=True)
    ]
    large = structs.replace(copied[3], body=b'"%s"' % (b"x" * 300_000))
    for name, written in {"t": copied, "large": [*copied[:3], large, *copied[4:]]}.items():
        append = structs.replace(create(name, count=8), entries=tuple(written), keeps_times=True)
        await must_put(store, append)
        found = await store.entries(name, after=0, limit=20)
        assert [each.committed_ms for each in found] == [*times]
        assert found == tuple(written)
    behind = await store.entries("t", after=4, limit=2)
    assert [each.committed_ms for each in behind] == [7, 7]
    await must_put(store, follow("t", 8))
    last = (await store.entries("t", after=8, limit=2))[0]
    assert last.committed_ms is not None, "an append behind a copy has its own time"


async def pruning_a_journal_keeps_the_times_of_the_rest(store: Store) -> None:
    copied = [structs.replace(each, committed_ms=5) for each in entries(0, 6)]
    append = create("t", count=6, snapshot=Snapshot(6, b"{}"))
    await must_put(store, structs.replace(append, entries=tuple(copied), keeps_times=True))
    await store.prune_journal("t", up_to=4)
    found = await store.entries("t", after=0, limit=9)
    assert [(each.seq, each.committed_ms) for each in found] == [(5, 5), (6, 5)]
