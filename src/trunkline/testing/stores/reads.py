"""Readers miss nothing, see nothing twice, and see only what is theirs."""

import asyncio

from trunkline.model.events import Entry
from trunkline.ports.store import Snapshot, TaskQuery
from trunkline.testing.stores.kit import (
    ALICE,
    BOB,
    MakeStore,
    create,
    entries,
    follow,
    must_get,
    must_put,
    opened,
    submit,
)


async def journal_is_read_in_pages(make: MakeStore) -> None:
    async with opened(make, "pages") as store:
        await must_put(store, create("s", count=9), create("t", count=7), create("u", count=9))
        assert await store.entries("t", after=0, limit=3) == entries(0, 3)
        assert await store.entries("t", after=3, limit=3) == entries(3, 3)
        assert await store.entries("t", after=6, limit=3) == entries(6, 1)
        assert await store.entries("t", after=7, limit=3) == ()
        assert await store.entries("t", after=99, limit=3) == ()
        assert await store.entries("nobody", after=0, limit=3) == ()


async def resuming_reader_misses_nothing(make: MakeStore) -> None:
    async with opened(make, "resuming") as store:
        await must_put(store, create("t"))
        seen: list[Entry] = []
        appended = 1
        for step in range(30):
            pending = [submit(store, follow("t", appended + more)) for more in range(step % 4)]
            appended += len(pending)
            # Reads while the commit is on its way, wherever that has got to.
            seen += await store.entries("t", after=len(seen), limit=2)
            await asyncio.gather(*pending)
        while page := await store.entries("t", after=len(seen), limit=2):
            seen += page
        assert seen == list(entries(0, appended))


async def scopes_do_not_see_each_other(make: MakeStore) -> None:
    async with opened(make, "scopes") as store:
        await must_put(store, create("a", key="k"), create("b", scope=BOB))
        assert await store.get(BOB, "a") is None
        assert await store.get(ALICE, "b") is None
        page = await store.list(TaskQuery(scope=BOB))
        assert [task.task_id for task in page.tasks] == ["b"]
        assert page.total == 1
        assert page.tasks[0].scope == BOB
        page = await store.list(TaskQuery(scope=BOB, context_id="context"))
        assert page.total == 1
        assert await store.recall(BOB, "k") is None


async def pruned_journal_leaves_an_honest_gap(make: MakeStore) -> None:
    async with opened(make, "gap") as store:
        snapshot = Snapshot(4, b"{}")
        await must_put(store, create("t", count=4, snapshot=snapshot), follow("t", 4, count=2))
        await store.prune_journal("t", up_to=3)
        assert await store.entries("t", after=0, limit=9) == entries(3, 3)
        # Nothing that the snapshot does not hold is ever forgotten.
        await store.prune_journal("t", up_to=99)
        assert await store.entries("t", after=0, limit=9) == entries(4, 2)
        task = await must_get(store, "t")
        assert (task.snapshot, task.tail, task.last_seq) == (snapshot, entries(4, 2), 6)
        await must_put(store, create("bare", count=3))
        await store.prune_journal("bare", up_to=3)
        assert await store.entries("bare", after=0, limit=9) == entries(0, 3)
        await store.prune_journal("nobody", up_to=3)


async def sequence_goes_on_after_the_whole_journal_was_pruned(make: MakeStore) -> None:
    async with opened(make, "all-pruned") as store:
        await must_put(store, create("t", count=4, snapshot=Snapshot(4, b"{}")))
        await store.prune_journal("t", up_to=4)
        assert await store.entries("t", after=0, limit=9) == ()
        assert (await must_get(store, "t")).last_seq == 4
        page = await store.list(TaskQuery(scope=ALICE))
        assert page.tasks[0].last_seq == 4
        await must_put(store, follow("t", 4))
        assert await store.entries("t", after=0, limit=9) == entries(4, 1)


async def store_that_works_has_no_problem(make: MakeStore) -> None:
    async with opened(make, "well") as store:
        assert store.problem is None
        await store.check()
        await must_put(store, create("t"))
        await store.check()
        assert store.problem is None
        assert (await must_get(store, "t")).last_seq == 1


CHECKS = (
    journal_is_read_in_pages,
    resuming_reader_misses_nothing,
    scopes_do_not_see_each_other,
    pruned_journal_leaves_an_honest_gap,
    sequence_goes_on_after_the_whole_journal_was_pruned,
    store_that_works_has_no_problem,
)
