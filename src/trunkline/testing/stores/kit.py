"""Helpers of the checks: appends with defaults, and functions that submit and wait."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from msgspec import structs

from trunkline.model.errors import StoreError
from trunkline.model.events import STATUS, TASK, Entry
from trunkline.model.values import TaskState
from trunkline.ports.caller_records import decode_used_key, key_body, request_key
from trunkline.ports.records import Change, Group, Key, Put, Record
from trunkline.ports.store import (
    Append,
    Creation,
    Result,
    Scope,
    Snapshot,
    Store,
    StoredTask,
    TaskQuery,
)

# Makes a store that is not open yet. Stores made with the same name share their data
# when they are durable; one with a new name is empty.
MakeStore: TypeAlias = Callable[[str], Store]

ALICE = Scope("agent", "", "alice")
BOB = Scope("agent", "", "bob")

SUBMITTED = TaskState.SUBMITTED
WORKING = TaskState.WORKING
COMPLETED = TaskState.COMPLETED


@asynccontextmanager
async def opened(make: MakeStore, name: str) -> AsyncIterator[Store]:
    store = make(name)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def entry(seq: int, text: str = "") -> Entry:
    # A store keeps bytes as they are, so the body need not fit the kind.
    return Entry(seq, TASK if seq == 1 else STATUS, f"{text} ✓ {seq}".encode())


def entries(after: int, count: int) -> tuple[Entry, ...]:
    return tuple([entry(after + step) for step in range(1, count + 1)])


def create(
    task_id: str,
    *,
    scope: Scope = ALICE,
    context_id: str = "context",
    state: TaskState = SUBMITTED,
    status_ms: int = 1000,
    **options: Any,
) -> Append:
    """`options` are those of `follow`."""
    creation = Creation(scope, context_id, status_ms)
    append = follow(task_id, 0, scope=scope, state=state, status_ms=status_ms, **options)
    return structs.replace(append, creation=creation)


def follow(
    task_id: str,
    after: int,
    *,
    state: TaskState = WORKING,
    status_ms: int = 1000,
    count: int = 1,
    snapshot: Snapshot | None = None,
    key: str = "",
    scope: Scope = ALICE,
) -> Append:
    return Append(
        task_id=task_id,
        expected_seq=after,
        entries=entries(after, count),
        state=state,
        status_ms=status_ms,
        snapshot=snapshot,
        also=(_key_group(scope, key, task_id),) if key else (),
    )


def _key_group(scope: Scope, key: str, task_id: str) -> Group:
    """An idempotency key, which its scope must not have used before."""
    put = Put(
        key=request_key(scope, key),
        body=key_body(b"\x00digest", task_id),
        goes_with_task=True,
        expected=0,
    )
    return Group((put,))


def with_groups(append: Append, *groups: Group) -> Append:
    return structs.replace(append, also=groups)


def submit(store: Store, append: Append) -> "asyncio.Future[Result]":
    future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    store.submit([(append, future.set_result)])
    return future


async def put(store: Store, *appends: Append) -> list[Result]:
    """Submit all in one call and wait. Returns the result of each."""
    futures = [asyncio.get_running_loop().create_future() for _ in appends]
    pairs = zip(appends, futures, strict=True)
    store.submit([(append, future.set_result) for append, future in pairs])
    return [await future for future in futures]


async def must_put(store: Store, *appends: Append) -> None:
    results = await put(store, *appends)
    assert results == [None] * len(appends), f"an append was refused: {results}"


async def must_get(store: Store, task_id: str, scope: Scope = ALICE) -> StoredTask:
    task = await store.get(scope, task_id)
    assert task is not None, f"{task_id} was committed but is not there"
    return task


async def task_of_key(store: Store, key: str, scope: Scope = ALICE) -> str | None:
    """The task whose append came with the idempotency key."""
    record = await store.record(request_key(scope, key))
    return None if record is None else decode_used_key(record.body).task_id


def assert_refused(result: Result, kind: type[StoreError]) -> None:
    assert type(result) is kind, f"expected {kind.__name__}, got {result!r}"


def assert_results(results: Sequence[Result], *expected: type[StoreError] | None) -> None:
    """Each append was committed (None) or refused; a refused one takes no other with it."""
    for result, kind in zip(results, expected, strict=True):
        if kind is None:
            assert result is None, f"an append was refused: {result!r}"
        else:
            assert_refused(result, kind)


def ids(tasks: Sequence[StoredTask]) -> list[str]:
    return [task.task_id for task in tasks]


async def listed(store: Store, scope: Scope = ALICE) -> list[str]:
    """The ids of all tasks of the scope."""
    page = await store.list(TaskQuery(scope=scope))
    assert page.total == len(page.tasks), f"the total is {page.total} of {len(page.tasks)}"
    return ids(page.tasks)


def key(name: str, *, scope: str = "scope", kind: str = "check.1") -> Key:
    return Key(kind, scope, name)


async def change(store: Store, *changes: Change) -> StoreError | None:
    try:
        await store.change(*changes)
    except StoreError as error:
        return error
    return None


async def must_change(store: Store, *changes: Change) -> None:
    result = await change(store, *changes)
    assert result is None, f"a change was refused: {result}"


async def must_have(store: Store, wanted: Key) -> Record:
    found = await store.record(wanted)
    assert found is not None, f"{wanted} was committed but is not there"
    return found
