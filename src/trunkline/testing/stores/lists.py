"""Checks of lists: order, pages, filters and totals."""

from typing import Any

from msgspec import structs

from trunkline.model.values import TaskState
from trunkline.ports.store import OperatorQuery, Scope, Snapshot, Store, StoredTask, TaskQuery
from trunkline.testing.stores.kit import (
    ALICE,
    BOB,
    COMPLETED,
    SUBMITTED,
    WORKING,
    create,
    entries,
    follow,
    ids,
    must_put,
)

INPUT_REQUIRED = TaskState.INPUT_REQUIRED


async def _all(store: Store, query: TaskQuery, total: int) -> list[StoredTask]:
    """Every page of a list, each with the same total."""
    found: list[StoredTask] = []
    while True:
        page = await store.list(query)
        assert page.total == total, f"the total is {page.total}, not {total}"
        assert len(page.tasks) <= query.limit
        found += page.tasks
        if page.next is None:
            return found
        assert page.tasks, "an empty page says that more follow"
        query = structs.replace(query, after=page.next)


async def most_recent_status_comes_first(store: Store) -> None:
    await must_put(
        store,
        create("a", status_ms=10),
        create("b", status_ms=30, state=COMPLETED),
        create("c", status_ms=20, state=WORKING),
    )
    page = await store.list(TaskQuery(scope=ALICE))
    assert ids(page.tasks) == ["b", "c", "a"]
    assert (page.total, page.next) == (3, None)
    await must_put(store, follow("a", 1, status_ms=40))
    page = await store.list(TaskQuery(scope=ALICE))
    assert ids(page.tasks) == ["a", "b", "c"]
    assert page.tasks[0].tail == entries(0, 2)
    assert page.tasks[0].last_seq == 2


async def newest_task_comes_first_among_equals(store: Store) -> None:
    await must_put(store, *[create(f"t{number}") for number in range(7)])
    newest_first = [f"t{number}" for number in range(6, -1, -1)]
    for limit in (1, 2, 3, 7, 50):
        found = await _all(store, TaskQuery(scope=ALICE, limit=limit), total=7)
        assert ids(found) == newest_first


async def filters_narrow_list_and_total(store: Store) -> None:
    states = (SUBMITTED, WORKING, COMPLETED, INPUT_REQUIRED)
    expected = []
    for number in range(24):
        state, context = states[number % 4], f"c{number % 3}"
        await must_put(
            store,
            create(f"t{number}", state=state, context_id=context, status_ms=100 + number // 2),
        )
        expected.append((f"t{number}", state, context, 100 + number // 2))
    expected.reverse()
    for state_filter in (None, *states, TaskState.FAILED):
        for context_id in ("", "c0", "c2", "nowhere"):
            for from_ms in (None, 0, 105, 999):
                matching = [
                    task_id
                    for task_id, state, context, status_ms in expected
                    if state_filter in (None, state)
                    and context_id in ("", context)
                    and status_ms >= (from_ms or 0)
                ]
                query = TaskQuery(
                    scope=ALICE,
                    context_id=context_id,
                    state=state_filter,
                    status_from_ms=from_ms,
                    limit=5,
                )
                assert ids(await _all(store, query, len(matching))) == matching, query


async def totals_follow_every_change(store: Store) -> None:

    async def total(state: TaskState | None) -> int:
        return (await store.list(TaskQuery(scope=ALICE, state=state, limit=1))).total

    await must_put(store, create("a"), create("b"), follow("b", 1, state=WORKING))
    assert [await total(s) for s in (None, SUBMITTED, WORKING)] == [2, 1, 1]
    # A refused append does not count, a repeated state counts once.
    results = [create("a", state=COMPLETED), follow("b", 2), follow("a", 9, state=COMPLETED)]
    for append in results:
        store.submit([(append, lambda _: None)])
    await must_put(store, follow("a", 1, state=COMPLETED))
    assert [await total(s) for s in (None, SUBMITTED, WORKING, COMPLETED)] == [2, 0, 1, 1]


async def pages_hold_while_tasks_change(store: Store) -> None:
    await must_put(store, *[create(f"t{n}", status_ms=100 + n) for n in range(10)])
    first = await store.list(TaskQuery(scope=ALICE, limit=4))
    assert ids(first.tasks) == ["t9", "t8", "t7", "t6"]
    # A listed task and one that is not listed yet move to the front, and a new one appears.
    # The next pages do not shift.
    await must_put(
        store,
        follow("t8", 1, status_ms=500),
        follow("t3", 1, status_ms=501),
        create("new", status_ms=502),
    )
    second = await store.list(TaskQuery(scope=ALICE, limit=4, after=first.next))
    assert ids(second.tasks) == ["t5", "t4", "t2", "t1"]
    third = await store.list(TaskQuery(scope=ALICE, limit=4, after=second.next))
    assert (ids(third.tasks), third.next) == (["t0"], None)


async def artifacts_are_listed_only_on_request(store: Store) -> None:
    snapshot = Snapshot(1, b'{"id":"t"}', b"[" + b"x" * 100_000 + b"]")
    await must_put(store, create("t", snapshot=snapshot))
    page = await store.list(TaskQuery(scope=ALICE))
    assert page.tasks[0].snapshot == Snapshot(1, b'{"id":"t"}')
    page = await store.list(TaskQuery(scope=ALICE, with_artifacts=True))
    assert page.tasks[0].snapshot == snapshot
    assert page.tasks[0].tail == ()


async def operators_list_tasks_of_all_callers(store: Store) -> None:
    agents, tenants, principals = ("a/one", "a/two"), ("", "acme"), ("alice", "bob", "carol")
    states = (SUBMITTED, WORKING, COMPLETED)
    scopes = [Scope(a, t, p) for a in agents for t in tenants for p in principals]
    made: list[tuple[str, Scope, TaskState, int]] = []
    for number in range(60):
        # Several tasks have the same time, within a scope and across scopes.
        task = (f"t{number}", scopes[number % 11], states[number % 3], 100 + number // 4)
        made.append(task)
        task_id, scope, state, status_ms = task
        snapshot = Snapshot(1, b'{"id":"t"}', b"[1]")
        append = create(task_id, scope=scope, state=state, status_ms=status_ms, snapshot=snapshot)
        await must_put(store, append)
    made.reverse()
    for agent in ("", "a/one", "a/none"):
        for principal in ("", "bob"):
            for tenant in (None, "", "acme"):
                for wanted in ((), (WORKING,), (SUBMITTED, COMPLETED), (TaskState.FAILED,)):
                    for from_ms in (None, 107):
                        query = OperatorQuery(
                            agent=agent,
                            principal=principal,
                            tenant=tenant,
                            states=wanted,
                            status_from_ms=from_ms,
                            limit=7,
                        )
                        expected = [
                            task_id
                            for task_id, scope, state, status_ms in made
                            if query.covers(scope)
                            and (not wanted or state in wanted)
                            and status_ms >= (from_ms or 0)
                        ]
                        await _check_pages(store, query, expected)


async def _check_pages(store: Store, query: OperatorQuery, expected: list[str]) -> None:
    found: list[StoredTask] = []
    page = await store.list_all(query)
    while True:
        assert page.total == len(expected), query
        assert len(page.tasks) <= query.limit
        found += page.tasks
        if page.next is None:
            break
        page = await store.list_all(structs.replace(query, after=page.next))
    assert ids(found) == expected, query
    for task in found:
        assert query.covers(task.scope)
        assert task.snapshot == Snapshot(1, b'{"id":"t"}')
        assert await store.get(task.scope, task.task_id) is not None


async def empty_store_lists_nothing(store: Store) -> None:
    for query in (
        TaskQuery(scope=ALICE),
        TaskQuery(scope=Scope("x", "y", "z"), context_id="c", state=WORKING),
    ):
        page = await store.list(query)
        assert (page.tasks, page.total, page.next) == ((), 0, None)
    page = await store.list_all(OperatorQuery())
    assert (page.tasks, page.total, page.next) == ((), 0, None)


async def tasks_with_work_to_do_are_found_oldest_first(store: Store) -> None:
    for state in TaskState:
        if state is not TaskState.UNSPECIFIED:
            await must_put(store, create(f"one {state}", state=state, status_ms=9))
            await must_put(store, create(f"two {state}", state=state, status_ms=1, scope=BOB))
    expected = [
        (scope, f"{name} {state}")
        for state in (SUBMITTED, WORKING)
        for name, scope in (("one", ALICE), ("two", BOB))
    ]
    assert list(await store.unfinished()) == expected
    await must_put(store, follow(expected[0][1], 1, state=COMPLETED))
    assert list(await store.unfinished()) == expected[1:]


async def operators_narrow_the_list_by_agents_and_by_context(store: Store) -> None:
    other = Scope("other", "", "alice")
    third = Scope("third", "t", "carol")
    for number, (scope, context) in enumerate(
        [(ALICE, "c"), (ALICE, "d"), (BOB, "c"), (other, "c"), (third, "c"), (third, "é\n")]
    ):
        await must_put(
            store,
            create(f"t{number}", scope=scope, context_id=context, status_ms=number * 10, count=2),
        )
    await must_put(store, follow("t3", 2, state=COMPLETED, status_ms=5))

    async def found(**wanted: Any) -> list[str]:
        seen: list[str] = []
        after = None
        while True:
            page = await store.list_all(OperatorQuery(after=after, limit=2, **wanted))
            seen += ids(page.tasks)
            after = page.next
            if after is None:
                assert page.total == len(seen), f"the total is {page.total} of {len(seen)}"
                return seen

    assert await found(context_id="c") == ["t4", "t2", "t3", "t0"]
    assert await found(context_id="c", agent="agent") == ["t2", "t0"]
    assert await found(context_id="c", agents=("other", "third")) == ["t4", "t3"]
    assert await found(context_id="c", principal="alice") == ["t3", "t0"]
    assert await found(context_id="c", tenant="t") == ["t4"]
    assert await found(context_id="c", states=(COMPLETED,)) == ["t3"]
    assert await found(context_id="c", status_from_ms=10) == ["t4", "t2"]
    assert await found(context_id="é\n") == ["t5"]
    assert await found(context_id="unknown") == []
    assert await found(agents=("other", "third")) == ["t5", "t4", "t3"]
    assert await found(agents=("other", "third"), principal="alice") == ["t3"]
    assert await found(agents=("other", "third"), status_from_ms=45) == ["t5"]
    assert await found(agents=("\ud800", "other")) == ["t3"]
    assert await found(agents=()) == []


async def a_list_without_tails_has_the_rest(store: Store) -> None:
    await must_put(store, create("t", count=3, snapshot=Snapshot(2, b'{"id":"t"}', b"[]")))
    await must_put(store, create("u", count=2, status_ms=5))
    for context in ("", "context"):
        page = await store.list_all(OperatorQuery(without_tails=True, context_id=context))
        behind = await store.list_all(OperatorQuery(context_id=context, after=page.places[0]))
        assert ids(behind.tasks) == ["u"]
        task, other = page.tasks
        assert (task.tail, task.last_seq, other.tail, other.last_seq) == ((), 3, (), 2)
        assert task.snapshot == Snapshot(2, b'{"id":"t"}')
