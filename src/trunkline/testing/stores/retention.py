"""Checks of retention, and of data that outlives the process."""

from trunkline.model.errors import StaleSeq
from trunkline.model.values import TaskState
from trunkline.ports.store import Scope, Snapshot, Store, TaskQuery
from trunkline.testing.stores.kit import (
    ALICE,
    BOB,
    COMPLETED,
    SUBMITTED,
    MakeStore,
    assert_results,
    create,
    entries,
    follow,
    listed,
    must_get,
    must_put,
    opened,
    put,
    task_of_key,
)


async def ended_tasks_are_pruned_in_steps(store: Store) -> None:
    for number in range(5):
        task_id = f"old{number}"
        snapshot = Snapshot(2, b"{}", b"[]")
        await must_put(
            store,
            create(task_id, status_ms=10, key=task_id),
            follow(task_id, 1, status_ms=20, state=COMPLETED, snapshot=snapshot),
        )
    await must_put(
        store,
        create("young", status_ms=10),
        follow("young", 1, status_ms=100, state=TaskState.FAILED),
        create("running", status_ms=10),
        create("paused", status_ms=10, state=TaskState.INPUT_REQUIRED),
    )
    assert await store.prune("agent", before_ms=100, limit=3) == 3
    assert await store.prune("agent", before_ms=100, limit=3) == 2
    assert await store.prune("agent", before_ms=100, limit=3) == 0
    assert await listed(store) == ["young", "paused", "running"]
    assert (await store.list(TaskQuery(scope=ALICE, state=COMPLETED))).total == 0
    for number in range(5):
        task_id = f"old{number}"
        assert await store.get(ALICE, task_id) is None
        assert await store.entries(task_id, after=0, limit=9) == ()
        assert await task_of_key(store, task_id) is None
        assert_results(await put(store, follow(task_id, 2)), StaleSeq)
    # Ids and keys can be used again.
    await must_put(store, create("old0", key="old0"))
    assert (await must_get(store, "old0")).tail == entries(0, 1)


async def all_that_ended_counts_and_the_longest_ended_goes_first(store: Store) -> None:
    states = (TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED, COMPLETED)
    for number, state in enumerate(states):
        scope = (ALICE, BOB)[number % 2]
        await must_put(
            store, create(f"t{number}", scope=scope, state=state, status_ms=100 + number // 2)
        )
    await must_put(
        store,
        create("working", state=TaskState.WORKING, status_ms=1),
        create("paused", state=TaskState.AUTH_REQUIRED, status_ms=1),
    )
    assert await store.count_ended("agent") == 4
    assert await store.count_ended("agent", before_ms=101) == 2
    assert await store.count_ended("agent", before_ms=100) == 0
    # Of tasks that ended at the same time, the first created goes first.
    assert await store.prune("agent", limit=1) == 1
    assert await store.get(ALICE, "t0") is None
    assert await store.prune("agent", limit=2) == 2
    assert await listed(store, BOB) == ["t3"]
    assert await store.count_ended("agent") == 1
    assert await store.prune("agent", limit=9) == 1
    assert await store.prune("agent", limit=9) == 0
    assert await listed(store) == ["paused", "working"]


async def agents_are_pruned_apart(store: Store) -> None:
    other = Scope("other", "tenant", "alice")
    assert await store.scopes() == ()
    await must_put(
        store,
        create("mine", state=COMPLETED, status_ms=50),
        create("theirs", scope=other, state=COMPLETED, status_ms=10),
    )
    assert set(await store.scopes()) == {ALICE, other}
    assert await store.prune("agent", limit=9, before_ms=100) == 1
    assert await store.count_ended("agent") == 0
    assert await store.count_ended("other", before_ms=100) == 1
    assert (await must_get(store, "theirs", other)).state is COMPLETED
    assert await store.prune("unknown", limit=9) == 0
    assert await store.scopes() == (other,)


async def everything_survives_a_restart(make: MakeStore) -> None:
    snapshot = Snapshot(2, b'{"id":"a"}', b"[]")
    async with opened(make, "restart") as store:
        await must_put(
            store,
            create("a", count=2, snapshot=snapshot, key="k"),
            follow("a", 2, count=2),
            create("b", state=COMPLETED, status_ms=5000),
        )
        before = await must_get(store, "a")
    async with opened(make, "restart") as store:
        assert await must_get(store, "a") == before
        assert await store.entries("a", after=0, limit=9) == entries(0, 4)
        assert await listed(store) == ["b", "a"]
        assert await task_of_key(store, "k") == "a"
        assert_results(await put(store, create("a")), StaleSeq)
        await must_put(store, create("c", status_ms=5000), follow("a", 4, state=SUBMITTED))
        assert await listed(store) == ["c", "b", "a"]
        assert await store.unfinished() == ((ALICE, "a"), (ALICE, "c"))
