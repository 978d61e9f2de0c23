"""Batches of the PostgreSQL store: each append takes effect once, or it is refused."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import psycopg
import pytest
from msgspec import structs
from tests.postgres.fixtures import fill_template
from tests.postgres.nodes import PostgresNodes, postgres_nodes
from tests.postgres.proxy import DatabaseProxy, database_proxy
from tests.postgres.server import PostgresServer

from trunkline.model.errors import (
    LeaseLost,
    LimitReached,
    RecordConflict,
    StaleSeq,
    StoreUnusable,
    Unstorable,
)
from trunkline.model.large_values import LargeValue
from trunkline.ports.cluster import lane_name
from trunkline.ports.records import Add, Committed, Group, Put
from trunkline.ports.store import Append, Result, Snapshot
from trunkline.stores.postgres.store import PostgresStore
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
    key,
    listed,
    must_get,
    must_put,
    put,
    submit,
    with_groups,
)
from trunkline.testing.stores.lanes import Node

LANE = lane_name(ALICE, "context")


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url, allow_unsafe=True)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def behind_a_proxy(url: str) -> AsyncIterator[tuple[PostgresStore, DatabaseProxy]]:
    async with database_proxy(url) as proxy, opened(proxy.url) as store:
        yield store, proxy


async def rows(url: str, sql: str, *params: Any) -> list[Any]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        return await (await connection.execute(sql, params or None)).fetchall()


@asynccontextmanager
async def locked_task(url: str, task_id: str) -> AsyncIterator[None]:
    """A session that holds the row of a task, so that an append of it waits."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute("SELECT FROM tasks WHERE id = %s FOR UPDATE", [task_id])
        yield


async def until_waiting(url: str, count: int = 1) -> None:
    """Until so many statements wait for a lock of another session."""
    sql = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    async with asyncio.timeout(10):
        while len(await rows(url, sql)) < count:  # noqa: ASYNC110 - another process waits
            await asyncio.sleep(0.005)


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the state of a store has no event
            await asyncio.sleep(0.005)


def adding(append: Append, amount: int = 1, at_most: int = 1000) -> Append:
    return with_groups(append, Group((Add(key=key("n"), amount=amount, at_most=at_most),)))


async def count(store: PostgresStore) -> int:
    record = await store.record(key("n"))
    return 0 if record is None else record.count


async def test_refused_appends_leave_the_rest_of_their_batch_alone(
    cleared_postgres_url: str,
) -> None:
    async with opened(cleared_postgres_url) as store:
        await must_put(store, create("known"), create("locked"))
        await store.change(Put(key=key("taken")))
        taken = Group((Put(key=key("taken"), expected=0),))
        bad: Sequence[tuple[Append, type]] = [
            (follow("known", 7), StaleSeq),
            (follow("unknown", 1), StaleSeq),
            (create("known"), StaleSeq),
            (with_groups(create("key"), taken), RecordConflict),
            (adding(create("limit"), amount=9, at_most=8), LimitReached),
            (structs.replace(create("lane"), lane=LANE), LeaseLost),
            (create("id\0"), Unstorable),
            (create("context", context_id="a\0b"), Unstorable),
            (create("half", context_id="\ud800"), Unstorable),
            (create("long", context_id="x" * 3000), Unstorable),
            (structs.replace(create("nul"), lane=lane_name(ALICE, "\0")), Unstorable),
            (structs.replace(follow("locked", 1), entries=entries(5, 1)), StaleSeq),
        ]
        batch: list[Append] = []
        for number, (append, _) in enumerate(bad):
            batch += [adding(create(f"good{number}")), append]
        results = await put(store, *batch)
        assert_results(results[::2], *[None] * len(bad))
        assert_results(results[1::2], *[kind for _, kind in bad])
        expected = {"known", "locked", *[f"good{number}" for number in range(len(bad))]}
        assert set(await listed(store)) == expected
        assert await count(store) == len(bad)
        assert not await rows(cleared_postgres_url, "SELECT FROM lanes")
        numbers = await rows(
            cleared_postgres_url, "SELECT sum(n) FROM counts WHERE state = 1 HAVING sum(n) <> 0"
        )
        assert numbers == [(len(expected),)]


async def test_batch_that_the_database_refuses_is_tried_piece_by_piece(
    cleared_postgres_url: str,
) -> None:
    async with opened(cleared_postgres_url) as store:
        # Only the database notices that this is no name of a lane.
        bad = structs.replace(create("bad"), lane="no JSON")
        store.node = 1
        await rows(
            cleared_postgres_url,
            "INSERT INTO nodes VALUES (1, '', clock_timestamp() + interval '1 h') RETURNING node",
        )
        results = await put(store, create("one"), bad, create("two"))
        assert_results(results, None, Unstorable, None)
        assert store.problem is None


async def test_appends_of_one_task_in_one_batch_become_one(cleared_postgres_url: str) -> None:
    async with opened(cleared_postgres_url) as store:
        later = [follow("t", seq, state=WORKING) for seq in range(1, 40)]
        await must_put(store, create("t"), *later)
        assert (await must_get(store, "t")).last_seq == 40
        found = await rows(cleared_postgres_url, "SELECT seq FROM events")
        assert found == [(40,)]


async def test_append_behind_a_refused_one_of_its_task_stands(cleared_postgres_url: str) -> None:
    async with opened(cleared_postgres_url) as store:
        await must_put(store, create("t", count=3))
        # The second one fits whether or not the first one is refused.
        results = await put(store, follow("t", 1, count=2), follow("t", 3), create("u"))
        assert_results(results, StaleSeq, None, None)
        assert (await must_get(store, "t")).last_seq == 4


async def test_changes_of_a_batch_are_made_in_the_order_of_submission(
    cleared_postgres_url: str,
) -> None:
    async with opened(cleared_postgres_url) as store:
        # Tasks are sorted by their ids on the way.
        first = with_groups(create("z"), Group((Put(key=key("k"), body=b"1", expected=0),)))
        second = with_groups(create("a"), Group((Put(key=key("k"), body=b"2", expected=1),)))
        late = asyncio.ensure_future(store.change(Put(key=key("k"), body=b"0")))
        await asyncio.sleep(0)
        results = await put(store, first, second)
        await late
        assert_results(results, RecordConflict, None)


async def test_optional_group_that_cannot_be_stored_is_skipped(cleared_postgres_url: str) -> None:
    async with opened(cleared_postgres_url) as store:
        groups = (
            Group((Put(key=key("\0")),), is_required=False),
            Group((Put(key=key("fine")),), is_required=False),
        )
        assert await put(store, with_groups(create("t"), *groups)) == [Committed((0,))]
        assert await store.record(key("fine")) is not None


async def test_lost_answer_is_asked_for_again(cleared_postgres_url: str) -> None:
    async with behind_a_proxy(cleared_postgres_url) as (store, proxy):
        await must_put(store, create("t"))
        for seq in range(1, 21):
            proxy.lose_answer("write", "append_1")
            results = await put(store, adding(follow("t", seq)), adding(create(f"new{seq}")))
            assert_results(results, None, None)
        assert proxy.lost["write"] == 20
        assert await count(store) == 40
        assert len(await store.entries("t", after=0, limit=100)) == 21
        assert store.problem is None


async def test_batch_of_a_broken_connection_that_still_runs_is_waited_for(
    cleared_postgres_url: str,
) -> None:
    url = cleared_postgres_url
    async with behind_a_proxy(url) as (store, proxy):
        await must_put(store, create("t"))
        async with locked_task(url, "t"):
            result = submit(store, adding(follow("t", 1)))
            await until_waiting(url)
            proxy.cut("write")
            # The old session waits for the task, the new one for the old one.
            await until_waiting(url, 2)
            assert not result.done()
        assert await result is None
        assert await count(store) == 1
        assert (await must_get(store, "t")).last_seq == 2


async def test_progress_waits_for_a_database_that_is_away_and_new_tasks_do_not(
    cleared_postgres_url: str,
) -> None:
    async with behind_a_proxy(cleared_postgres_url) as (store, proxy):
        await must_put(store, create("t"))
        proxy.refuse()
        proxy.cut()
        behind = submit(store, follow("t", 1))
        await until(lambda: store.problem is not None)
        waiting = [submit(store, follow("t", seq)) for seq in (2, 3)]
        refused = await put(store, create("new"))
        assert_refused(refused[0], StoreUnusable)
        with pytest.raises(StoreUnusable):
            await store.change(Put(key=key("k")))
        assert "/tmp" not in str(store.problem)
        assert not behind.done()
        proxy.accept()
        assert [await each for each in (behind, *waiting)] == [None, None, None]
        assert not store.problem
        assert (await must_get(store, "t")).last_seq == 4


async def test_check_notices_a_database_that_went_away_while_nothing_was_submitted(
    cleared_postgres_url: str,
) -> None:
    async with behind_a_proxy(cleared_postgres_url) as (store, proxy):
        await store.check()
        assert not store.problem
        proxy.refuse()
        proxy.cut()
        await store.check()
        assert str(store.problem).startswith("The store cannot reach its database. ")
        proxy.accept()
        async with asyncio.timeout(10):
            while store.problem is not None:
                await store.check()
                await asyncio.sleep(0.01)
        await must_put(store, create("t"))


async def test_close_gives_up_on_a_database_that_is_away(cleared_postgres_url: str) -> None:
    async with behind_a_proxy(cleared_postgres_url) as (store, proxy):
        await must_put(store, create("t"))
        proxy.refuse()
        proxy.cut()
        one = submit(store, follow("t", 1))
        await until(lambda: store.problem is not None)
        two = submit(store, follow("t", 2))
        await store.close()
        for result in (one, two):
            assert_refused(await result, StoreUnusable)


async def test_close_waits_for_the_batch_under_way(cleared_postgres_url: str) -> None:
    async with opened(cleared_postgres_url) as store:
        await must_put(store, create("t"))
        async with locked_task(cleared_postgres_url, "t"):
            result = submit(store, follow("t", 1))
            await until_waiting(cleared_postgres_url)
            closing = asyncio.ensure_future(store.close())
            await asyncio.sleep(0)
            refused = submit(store, create("late"))
            assert_refused(await refused, StoreUnusable)
            assert not closing.done()
        await closing
        assert await result is None


async def test_node_that_joins_again_lets_go_of_what_waits(postgres_url: str) -> None:
    nodes = PostgresNodes(postgres_url)
    try:
        one = await nodes.add()
        first = structs.replace(create("a"), lane=LANE)
        (result,) = await put(one.store, first)
        assert isinstance(result, Committed)
        async with locked_task(postgres_url, "a"):
            lane = {"lane": LANE, "epoch": result.epoch}
            under_way = submit(one.store, structs.replace(follow("a", 1), **lane))
            await until_waiting(postgres_url)
            late = submit(one.store, structs.replace(create("b"), lane=lane_name(ALICE, "other")))
            one.store.node = 12345
            assert_refused(await late, LeaseLost)
        # It was sent in the name of the node that owns the lane.
        assert await under_way is None
        assert await rows(postgres_url, "SELECT lane FROM lanes") == [(LANE,)]
    finally:
        await nodes.close()


async def test_node_that_was_given_up_makes_no_lane(postgres_url: str) -> None:
    nodes = PostgresNodes(postgres_url)
    try:
        one = await nodes.add()
        await nodes.let_die(cast("Node", one))
        (result,) = await put(one.store, structs.replace(create("a"), lane=LANE))
        assert_refused(result, LeaseLost)
        assert await one.store.get(ALICE, "a") is None
    finally:
        await nodes.close()


async def test_lanes_are_found_by_their_names_whatever_the_statistics_say(
    postgres_url: str,
) -> None:
    """Where the table was small when PostgreSQL looked at it, the index by owner is as good for its
    planner, and every append would read all lanes of the node."""
    async with postgres_nodes(postgres_url) as nodes:
        one = await nodes.add()
        lanes = [lane_name(ALICE, f"context {number}") for number in range(200)]
        await put(one.store, structs.replace(create("first"), lane=lanes[0]))
        async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as other:
            await other.execute("ANALYZE lanes")
        for number, lane in enumerate(lanes[1:]):
            await put(one.store, structs.replace(create(f"task {number}"), lane=lane))
        writer = cast("Any", one.store)._opened.writer._connection
        await writer.run("SELECT pg_stat_force_next_flush()")
        sql = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'lanes_by_owner'"
        assert await rows(postgres_url, sql) == [(0,)]


async def test_snapshot_too_large_for_a_row_is_replaced(cleared_postgres_url: str) -> None:
    async with opened(cleared_postgres_url) as store:
        large = [b'"%b"' % (letter * 600_000) for letter in (b"a", b"b")]
        for seq, body in enumerate(large, 1):
            append = create("t") if seq == 1 else follow("t", 1, state=COMPLETED)
            await must_put(store, structs.replace(append, snapshot=Snapshot(seq, body)))
        snapshot = (await must_get(store, "t")).snapshot
        assert snapshot is not None
        assert snapshot.task == large[1]
        assert await rows(cleared_postgres_url, "SELECT id FROM large_values") != []
        assert len(await rows(cleared_postgres_url, "SELECT FROM loose_values")) == 1


async def test_large_append_survives_lost_answers(cleared_postgres_url: str) -> None:
    async with behind_a_proxy(cleared_postgres_url) as (store, proxy):
        await must_put(store, create("t"))
        value = LargeValue("v", "text " * 200_000)
        proxy.lose_answer("read", "INSERT INTO slices")
        proxy.lose_answer("read", "loose AS")
        proxy.lose_answer("write", "append_1")
        await must_put(store, structs.replace(follow("t", 1), values=(value,)))
        found = await store.value_slices("v", first=0, limit=100)
        assert b"".join(found) == value.text.encode()
        assert proxy.lost == {"read": 2, "write": 1}


async def test_two_stores_create_a_task_once(cleared_postgres_url: str) -> None:
    async with opened(cleared_postgres_url) as one, opened(cleared_postgres_url) as two:
        for number in range(20):
            made = [create(f"t{number}"), create(f"t{number}", scope=BOB)]
            results = [
                *await asyncio.gather(put(one, *made[:1], create(f"a{number}")), put(two, made[1]))
            ]
            first, second = results[0][0], results[1][0]
            assert {type(first), type(second)} == {type(None), StaleSeq}
            assert results[0][1] is None
        alice, bob = await listed(one), await listed(two, BOB)
        assert len(alice) + len(bob) == 40


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.full)])
async def test_server_that_is_killed_loses_nothing_that_was_acknowledged(
    own_postgres: PostgresServer, kills: int
) -> None:
    loop = asyncio.get_running_loop()
    url = await loop.run_in_executor(None, own_postgres.create_database, fill_template)
    store = PostgresStore(url)
    await store.open()
    done = asyncio.Event()
    acknowledged: dict[str, int] = {}

    async def work(name: str) -> None:
        await must_put(store, create(name))
        seq = 1
        while not done.is_set():
            result: Result = await submit(store, adding(follow(name, seq), at_most=10**9))
            assert result is None, result
            seq += 1
            acknowledged[name] = seq

    workers = [asyncio.ensure_future(work(f"t{number}")) for number in range(8)]
    for _ in range(kills):
        before = sum(acknowledged.values())
        await until(lambda before=before: sum(acknowledged.values()) > before + 100)
        await loop.run_in_executor(None, own_postgres.kill)
        await until(lambda: store.problem is not None)
        await loop.run_in_executor(None, own_postgres.start)
        await until(lambda: store.problem is None)
    done.set()
    await asyncio.gather(*workers)
    for name, last in acknowledged.items():
        found = await store.entries(name, after=0, limit=1_000_000)
        assert [entry.seq for entry in found] == list(range(1, last + 1))
    assert await count(store) == sum(acknowledged.values()) - len(acknowledged)
    await store.close()


async def test_server_that_may_lose_commits_is_refused(cleared_postgres_url: str) -> None:
    with pytest.raises(StoreUnusable, match="fsync") as caught:
        await PostgresStore(cleared_postgres_url).open()
    assert "postgresql.conf" in caught.value.message


async def test_database_that_cannot_be_opened_is_named_without_its_password() -> None:
    store = PostgresStore("postgresql://me:secret@127.0.0.1:1/tasks")
    with pytest.raises(StoreUnusable, match=r"127\.0\.0\.1:1/tasks") as caught:
        await store.open()
    assert "secret" not in caught.value.message
