"""Checks of leases: which node may append to a task, and how it takes over from a dead one."""

import asyncio

from trunkline.model.errors import LeaseLost
from trunkline.model.values import TERMINAL, TaskState
from trunkline.ports.store import Snapshot, Store
from trunkline.testing.stores.kit import (
    ALICE,
    BOB,
    COMPLETED,
    WORKING,
    assert_refused,
    assert_results,
    create,
    entries,
    follow,
    ids,
    must_get,
    must_put,
    put,
    submit,
)


async def dead_nodes_work_is_taken_over_oldest_first(store: Store) -> None:
    await must_put(
        store,
        create("a", node="dead", count=3, snapshot=Snapshot(2, b"{}")),
        create("b", node="dead", scope=BOB, state=WORKING, epoch=5),
        create("c", node="dead"),
    )
    first = await store.claim("heir", now_ms=1000, limit=2)
    assert ids(first) == ["a", "b"]
    assert [(task.node, task.epoch) for task in first] == [("heir", 2), ("heir", 6)]
    assert first[0].tail == entries(2, 1)
    assert first[1].scope == BOB
    assert ids(await store.claim("heir", now_ms=1000, limit=2)) == ["c"]
    assert await store.claim("heir", now_ms=1000, limit=2) == ()
    assert (await must_get(store, "a")).epoch == 2


async def living_nodes_keep_their_tasks(store: Store) -> None:
    await store.heartbeat("busy", now_ms=1000, ttl_ms=500)
    await must_put(store, create("t", node="busy"))
    assert await store.claim("heir", now_ms=1499, limit=9) == ()
    assert await store.claim("heir", now_ms=1499, limit=9, task_id="t") == ()
    await store.heartbeat("busy", now_ms=1400, ttl_ms=500)
    assert await store.claim("heir", now_ms=1899, limit=9) == ()
    assert ids(await store.claim("heir", now_ms=1901, limit=9)) == ["t"]


async def own_tasks_are_not_claimed(store: Store) -> None:
    await must_put(store, create("t", node="me"))
    assert await store.claim("me", now_ms=1000, limit=9) == ()
    assert await store.claim("me", now_ms=1000, limit=9, task_id="t") == ()


async def zombie_is_fenced_off(store: Store) -> None:
    await must_put(store, create("t", node="zombie"))
    (task,) = await store.claim("heir", now_ms=1000, limit=9)
    results = await put(store, follow("t", 1), follow("t", 1, epoch=task.epoch))
    assert_results(results, LeaseLost, None)
    assert_results(await put(store, follow("t", 2)), LeaseLost)
    await store.heartbeat("heir", now_ms=1000, ttl_ms=10)
    assert await store.claim("zombie", now_ms=1000, limit=9) == ()


async def append_is_in_what_was_claimed_or_fenced_off(store: Store) -> None:
    await must_put(store, create("t", node="dead"))
    pending = submit(store, follow("t", 1, count=2))
    (task,) = await store.claim("heir", now_ms=1000, limit=9)
    result = await pending
    if result is not None:
        assert_refused(result, LeaseLost)
    assert task.last_seq == (3 if result is None else 1)


async def claims_of_several_nodes_are_disjoint(store: Store) -> None:
    await must_put(store, *[create(f"t{n}", node="dead") for n in range(20)])
    nodes = [f"n{number}" for number in range(4)]
    for node in nodes:
        await store.heartbeat(node, now_ms=1000, ttl_ms=1000)
    claimed = await asyncio.gather(
        *[store.claim(node, now_ms=1000, limit=3) for node in nodes for _ in range(2)]
    )
    taken = [task_id for tasks in claimed for task_id in ids(tasks)]
    assert len(taken) == len(set(taken)), "two nodes claimed one task"
    assert len(taken) == 20


async def only_tasks_with_work_to_do_are_claimed(store: Store) -> None:
    paused = (TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED)
    for state in (*paused, *TERMINAL):
        await must_put(store, create(state, node="dead", state=state))
    assert await store.claim("heir", now_ms=1000, limit=9) == ()
    # A node may take any task by name: a paused one when its caller answers, a finished one
    # for work that is left to do.
    for state in (*paused, COMPLETED):
        (task,) = await store.claim("heir", now_ms=1000, limit=9, task_id=state)
        assert (task.node, task.epoch, task.state) == ("heir", 2, state)
        await must_put(store, follow(state, 1, epoch=2, state=state))
    assert await store.claim("heir", now_ms=1000, limit=9, task_id="nobody") == ()


async def epoch_rises_with_every_change_of_owner(store: Store) -> None:
    await must_put(store, create("t", node="one"))
    await store.claim("two", now_ms=1000, limit=9)
    (task,) = await store.claim("three", now_ms=1000, limit=9)
    assert (task.epoch, task.node, task.scope) == (3, "three", ALICE)
