"""Records in PostgreSQL: several nodes at once change and claim them."""

import asyncio
import random
from collections.abc import Sequence
from itertools import chain

import psycopg
import pytest
from tests.postgres.fixtures import ON_EVERY_POSTGRES
from tests.postgres.record_nodes import RecordNode, key, record_nodes

from trunkline.model.errors import (
    LimitReached,
    RecordConflict,
    StoreError,
    StoreUnusable,
    Unstorable,
)
from trunkline.ports.records import Add, Change, Defer, Delete, Group, Key, Put
from trunkline.stores.postgres.database import Database
from trunkline.stores.postgres.records import Records, why_unstorable
from trunkline.stores.postgres.store import PostgresStore

pytestmark = pytest.mark.timeout(120)

# What every test leaves true, whatever happened.
BROKEN = {
    "a tag without its record, or a record without its tag": """
        SELECT r.kind, t.tag, r.scope, r.id
        FROM records AS r, json_array_elements_text(r.tags::json) AS t (tag)
        EXCEPT SELECT kind, tag, scope, id FROM record_tags
        UNION ALL
        (SELECT kind, tag, scope, id FROM record_tags
        EXCEPT SELECT r.kind, t.tag, r.scope, r.id
        FROM records AS r, json_array_elements_text(r.tags::json) AS t (tag))""",
    "a due record without its scope": """
        SELECT kind, scope FROM records WHERE due_ms IS NOT NULL
        EXCEPT SELECT kind, scope FROM due_scopes""",
    "a scope that a record without a due time holds": """
        SELECT kind, scope, held_id FROM due_scopes WHERE held_id IS NOT NULL
        EXCEPT SELECT kind, scope, id FROM records WHERE due_ms IS NOT NULL""",
}


async def assert_whole(node: RecordNode) -> None:
    for what, query in BROKEN.items():
        assert await node.run(query) == [], what


async def test_a_new_key_waits_for_the_node_that_is_putting_it(cleared_postgres_url: str) -> None:
    async with record_nodes(cleared_postgres_url, 3) as (first, second, observer):
        for end, wins in (("COMMIT", False), ("ROLLBACK", True)):
            put = Put(key=key(end), body=b"1", expected=0)
            await first.run("BEGIN")
            await first.must_change(put)
            late = asyncio.ensure_future(
                second.batch([Group((put,))], [Group((Put(key=key(f"{end} beside"), expected=0),))])
            )
            await observer.until_waiting(second)
            await first.run(end)
            refused, beside = await late
            assert (beside, refused == ()) == ((), wins)
            assert wins or isinstance(refused, RecordConflict)
            assert await observer.record(key(f"{end} beside")) is not None


async def test_counts_of_two_nodes_add_up_and_stop_at_the_limit(cleared_postgres_url: str) -> None:
    async with record_nodes(cleared_postgres_url, 3) as (first, second, observer):
        add = [Group((Add(key=key("n"), amount=2, at_most=9),))]
        await first.run("BEGIN")
        assert await first.batch(add, add) == [(), ()]
        late = asyncio.ensure_future(second.batch(add, add, add))
        await observer.until_waiting(second)
        await first.run("COMMIT")
        results = await late
        assert results[:2] == [(), ()] or isinstance(results[1], LimitReached)
        assert [isinstance(each, LimitReached) for each in results] == [False, False, True]
        found = await observer.record(key("n"))
        assert found is not None
        assert (found.count, found.version) == (8, 4)


async def test_a_record_that_goes_while_a_put_waits_for_it_is_new(
    cleared_postgres_url: str,
) -> None:
    """Two nodes wait for it; one of them makes it, and the other one meets that."""
    async with record_nodes(cleared_postgres_url, 4) as (first, second, third, observer):
        await first.must_change(Put(key=key("a"), body=b"old"))
        await first.run("BEGIN")
        await first.must_change(Delete(key=key("a"), expected=1))
        puts = [
            asyncio.ensure_future(node.change(Put(key=key("a"), body=b"new", expected=0)))
            for node in (second, third)
        ]
        await observer.until_waiting(second)
        await observer.until_waiting(third)
        await first.run("COMMIT")
        results = await asyncio.gather(*puts)
        assert sorted(isinstance(each, RecordConflict) for each in results) == [False, True]
        found = await observer.record(key("a"))
        assert found is not None
        assert (found.version, found.body) == (1, b"new")


async def test_a_claim_neither_waits_nor_takes_what_another_has(cleared_postgres_url: str) -> None:
    async with record_nodes(cleared_postgres_url, 2) as (first, second):
        for scope in "abc":
            await first.must_change(Put(key=key("1", scope), due_in_ms=0))
        await first.run("BEGIN")
        (mine,) = await first.claim(limit=1)
        others = await second.claim()
        await first.run("COMMIT")
        assert sorted([mine.key.scope, *(each.key.scope for each in others)]) == ["a", "b", "c"]
        assert await second.claim() == []


async def test_a_claim_that_is_undone_leaves_the_record_to_others(
    cleared_postgres_url: str,
) -> None:
    async with record_nodes(cleared_postgres_url, 2) as (first, second):
        await first.must_change(Put(key=key("a"), due_in_ms=0))
        await first.run("BEGIN")
        assert await first.claim_ids() == ["a"]
        await first.run("ROLLBACK")
        (claimed,) = await second.claim()
        assert (claimed.version, claimed.attempts) == (2, 1)


async def test_a_claim_passes_by_a_scope_whose_first_record_is_being_changed(
    cleared_postgres_url: str,
) -> None:
    """It does not take the second one out of turn."""
    async with record_nodes(cleared_postgres_url, 2) as (first, second):
        await first.must_change(Put(key=key("a"), due_in_ms=0))
        await first.must_change(Put(key=key("b"), due_in_ms=0))
        await first.must_change(Put(key=key("c", "other"), due_in_ms=0))
        await first.run("BEGIN")
        await first.must_change(Delete(key=key("a")))
        assert await second.claim_ids() == ["c"]
        await first.run("COMMIT")
        assert await second.claim_ids() == ["b"]


@pytest.mark.parametrize("is_put_first", [True, False])
async def test_a_timer_is_not_lost_while_its_scope_is_released(
    cleared_postgres_url: str, is_put_first: bool
) -> None:
    """The node that releases a scope looks for its next record after the other one's commit."""
    async with record_nodes(cleared_postgres_url, 3) as (first, second, observer):
        await first.must_change(Put(key=key("held"), due_in_ms=0))
        (held,) = await first.claim()
        put = Put(key=key("timer"), due_in_ms=0)
        settle = Delete(key=held.key, expected=held.version)
        now, late = (put, settle) if is_put_first else (settle, put)
        await first.run("BEGIN")
        await first.must_change(now)
        waiting = asyncio.ensure_future(second.change(late))
        await observer.until_waiting(second)
        await first.run("COMMIT")
        assert await waiting is None
        assert await second.claim_ids() == ["timer"]
        await assert_whole(second)


async def test_a_claim_does_not_lose_a_timer_that_is_being_put(cleared_postgres_url: str) -> None:
    """Neither does it wait for it: a scope that looks empty is left alone meanwhile."""
    async with record_nodes(cleared_postgres_url, 2) as (first, second):
        await first.must_change(Put(key=key("gone"), due_in_ms=0), Put(key=key("x"), due_in_ms=0))
        await first.must_change(Delete(key=key("gone")), Delete(key=key("x")))
        await first.run("BEGIN")
        await first.must_change(Put(key=key("timer"), due_in_ms=0))
        assert await second.claim() == []
        await first.run("COMMIT")
        assert await second.claim_ids() == ["timer"]
        assert await first.change(Delete(key=key("timer"))) is None
        assert await second.run("SELECT * FROM due_scopes") == []


async def test_nodes_put_due_records_into_one_scope_side_by_side(
    cleared_postgres_url: str,
) -> None:
    """Also when they end claims of other scopes in the same batch."""
    async with record_nodes(cleared_postgres_url, 2) as (first, second):
        for scope in ("of first", "of second"):
            await first.must_change(Put(key=key("held", scope), due_in_ms=0))
        held = {record.key.scope: record for record in await first.claim()}
        for name in ("a", "b"):
            await first.must_change(Put(key=key(name), due_in_ms=0))
        await first.run("BEGIN")
        for node, name in ((first, "of first"), (second, "of second")):
            settle = Delete(key=held[name].key, expected=held[name].version)
            puts = [Put(key=key(each), due_in_ms=0) for each in (f"new {name}", name[3])]
            # The second one waits for nothing.
            items = [[Group((settle,))], *[[Group((put,))] for put in puts]]
            assert await node.batch(*items) == [(), (), ()]
        await first.run("COMMIT")
        await assert_whole(first)


async def test_a_due_time_that_follows_a_release_in_the_same_batch_counts(
    cleared_postgres_url: str,
) -> None:
    async with record_nodes(cleared_postgres_url, 1) as (node,):
        await node.must_change(Put(key=key("b")))
        await node.must_change(Put(key=key("a"), due_in_ms=0))
        (held,) = await node.claim()
        settle, later = Delete(key=held.key, expected=2), Put(key=key("b"), due_in_ms=0)
        assert await node.batch([Group((settle,))], [Group((later,))]) == [(), ()]
        assert await node.claim_ids() == ["b"]


async def test_groups_of_an_append_may_change_the_same_record(cleared_postgres_url: str) -> None:
    async with record_nodes(cleared_postgres_url, 1) as (node,):
        for _ in range(2):
            groups = [Group((Put(key=key("a"), tags=(tag,), due_in_ms=0),)) for tag in "bc"]
            groups.append(Group((Put(key=key("a"), tags=("d",)),), is_required=False))
            assert await node.batch(groups) == [()]
            found = await node.record(key("a"))
            assert found is not None
            assert found.tags == ("d",)
            await assert_whole(node)


async def test_what_a_refused_unit_locked_leaves_no_record(cleared_postgres_url: str) -> None:
    async with record_nodes(cleared_postgres_url, 1) as (node,):
        refusing = Add(key=key("n"), amount=2, at_most=1)
        every: list[Change] = [
            Put(key=key("put"), tags=("tag",), due_in_ms=0),
            Add(key=key("add"), amount=1, at_most=1),
            Delete(key=key("delete")),
            Defer(key=key("defer"), in_ms=1, expected=0),
            refusing,
        ]
        results = await node.batch(
            [Group(tuple(every))],
            [Group((Put(key=key("kept")),)), Group(tuple(every), is_required=False)],
            [Group((Put(key=key("put"), body=b"later", expected=0),))],
        )
        assert isinstance(results[0], LimitReached)
        assert results[1:] == [(1,), ()]
        rows = await node.run("SELECT id FROM records ORDER BY id")
        assert rows == [("kept",), ("put",)]
        await assert_whole(node)


async def test_records_of_tasks_go_with_their_claims_and_tags(cleared_postgres_url: str) -> None:
    async with record_nodes(cleared_postgres_url, 1) as (node,):
        mine = Put(key=key("mine"), tags=("tag",), due_in_ms=0, goes_with_task=True)
        later = Put(key=key("later"), due_in_ms=0, tags=("tag",))
        other = Put(key=key("other", "elsewhere"), goes_with_task=True)
        assert await node.batch([Group((mine,))], [Group((other,))], tasks=[7, 8]) == [(), ()]
        await node.must_change(later)
        assert await node.claim_ids() == ["mine"]
        await node.run("SELECT forget_task_records_1('{7, 9}'::int8[])")
        assert await node.record(key("mine")) is None
        assert await node.record(other.key) is not None
        assert await node.claim_ids() == ["later"]
        await assert_whole(node)


async def test_due_records_are_deleted_the_oldest_first(cleared_postgres_url: str) -> None:
    database = Database(cleared_postgres_url)
    records = Records(database)
    async with record_nodes(cleared_postgres_url, 2) as (node, other):
        for number in range(5):
            await node.must_change(Put(key=key(f"{number}"), due_in_ms=0, tags=("tag",)))
        (held,) = await node.claim()
        assert held.due_ms is not None
        before_ms = held.due_ms + 60_000
        assert await records.count_due("check.1", "scope", before_ms=before_ms) == 5
        await other.run("BEGIN")
        await other.must_change(Put(key=key("1")))
        # Neither waits for the one that is being changed nor deletes it.
        assert await records.delete_due("check.1", "scope", before_ms=before_ms, limit=2) == 2
        await other.run("COMMIT")
        rows = await node.run("SELECT id FROM records ORDER BY id")
        assert rows == [("1",), ("3",), ("4",)]
        assert await node.claim_ids() == ["3"]
        await assert_whole(node)
    await database.close()


@ON_EVERY_POSTGRES
async def test_no_statement_reads_a_whole_table(postgres_url: str) -> None:
    """Also not one whose plan was made while the tables were empty."""
    database = Database(postgres_url, readers=1)
    records = Records(database)
    page = {"scope": "scope", "tag": None, "after": key("5"), "limit": 3, "newest_first": False}

    async def use(node: RecordNode, number: int) -> None:
        await records.get(key("5"))
        await records.page("check.1", **page)  # type: ignore[arg-type]
        await records.page("check.1", **{**page, "scope": None, "tag": "tag"})  # type: ignore[arg-type]
        # Of two nodes, one is dead in each round, and has left claims.
        living = 7 + number % 2
        await node.run(
            f"UPDATE nodes SET dead_at = CASE node WHEN {living} THEN NULL ELSE now() END"
        )
        await records.claim_due({"check.1": 2}, lease_ms=60_000, node=living)
        await records.count_due("check.1", "scope", before_ms=1)
        await records.delete_due("check.1", "scope", before_ms=1, limit=2)
        await node.must_change(Put(key=key(f"new {number}"), expected=0))
        await node.must_change(
            Put(key=key(f"due {number}"), due_in_ms=0, tags=("tag",)), Delete(key=key("none"))
        )
        await node.run("SELECT forget_task_records_1('{7, 9}'::int8[])")

    async with record_nodes(postgres_url, 2) as (node, observer):
        await node.run("INSERT INTO nodes SELECT n, '', now() FROM generate_series(7, 8) AS n")
        for number in range(12):
            await use(node, number)
        await node.run(
            """INSERT INTO records (kind, scope, id, version, due_ms, task, tags)
            SELECT 'check.1', 'scope ' || n % 1000, n, 1, n, n, '["tag"]'
            FROM generate_series(100, 20000) AS n"""
        )
        await node.run(
            """WITH tags AS (
                INSERT INTO record_tags SELECT kind, 'tag', scope, id FROM records WHERE version = 1
                ON CONFLICT DO NOTHING)
            INSERT INTO due_scopes
            SELECT kind, scope, min(due_ms) FROM records WHERE due_ms IS NOT NULL GROUP BY 1, 2
            ON CONFLICT DO NOTHING"""
        )
        before = await _rows_read(observer, node, database)
        for number in range(12, 24):
            await use(node, number)
        after = await _rows_read(observer, node, database)
    await database.close()
    # Twelve rounds of statements that each want a few rows, among twenty thousand.
    assert after - before < 2000


async def _rows_read(observer: RecordNode, *others: RecordNode | Database) -> int:
    """How many rows and entries of indexes all statements have read so far."""
    for other in others:
        if isinstance(other, Database):
            await other.read("SELECT pg_stat_force_next_flush()")
        else:
            await other.run("SELECT pg_stat_force_next_flush()")
    ((read,),) = await observer.run(
        """SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables)::int8
            + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)::int8"""
    )
    return int(read)


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_the_isolation_of_the_database_does_not_matter(postgres_url: str, level: str) -> None:
    """Behind a pooler it cannot be chosen, and has to be right."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = '{level}'")
    async with record_nodes(postgres_url, 1) as (node,):
        assert await node.run("SHOW transaction_isolation") == [("read committed",)]
    store = PostgresStore(postgres_url, prepares=False, allow_unsafe=True)
    with pytest.raises(StoreUnusable, match=f"'{level}'.*default_transaction_isolation"):
        await store.open()


def _random_change(chance: random.Random) -> Change:
    name = str(chance.randrange(6))
    place = key(name, scope=f"s{int(name) % 3}")
    expected = chance.choice([None, None, 0, chance.randrange(1, 6)])
    kind = chance.random()
    if kind < 0.5:
        return Put(
            key=place,
            due_in_ms=chance.choice([None, 0, 0, 5]),
            tags=tuple(chance.sample("abc", chance.randrange(3))),
            expected=expected,
            goes_with_task=chance.random() < 0.3,
        )
    if kind < 0.75:
        return Delete(key=place, expected=expected)
    if kind < 0.8:
        return Defer(key=place, in_ms=chance.randrange(5), expected=chance.randrange(1, 6))
    return Add(key=Key("count.1", "", str(chance.randrange(2))), amount=1, at_most=1 << 40)


def _random_groups(chance: random.Random) -> list[Group]:
    groups = []
    for _ in range(chance.randrange(1, 3)):
        changes = {change.key: change for change in (_random_change(chance) for _ in range(3))}
        groups.append(Group(tuple(changes.values()), is_required=chance.random() < 0.8))
    return groups


def _adds(groups: Sequence[Group], result: StoreError | tuple[int, ...]) -> int:
    """How many adds of the groups were made."""
    if isinstance(result, StoreError):
        return 0
    made = [group for number, group in enumerate(groups) if number not in result]
    return sum(isinstance(change, Add) for group in made for change in group.changes)


async def _disturb(node: RecordNode, seed: int, rounds: int) -> int:
    """Change, claim and delete at random. Returns how many adds were made. The database would say
    so if two of them waited for each other."""
    chance, added = random.Random(seed), 0
    for _ in range(rounds):
        kind = chance.random()
        if kind < 0.7:
            items = [_random_groups(chance) for _ in range(chance.randrange(1, 6))]
            tasks = [chance.randrange(1, 5) for _ in items]
            results = await node.batch(*items, tasks=tasks)
            added += sum(map(_adds, items, results))
        elif kind < 0.95:
            for record in (await node.claim(limit=2, lease_ms=chance.choice([0, 50])))[:1]:
                wanted = {"key": record.key, "expected": record.version}
                await node.change(
                    chance.choice(
                        [Delete(**wanted), Put(due_in_ms=0, **wanted), Defer(in_ms=3, **wanted)]  # type: ignore[arg-type]
                    )
                )
        elif kind < 0.97:
            scope = chance.randrange(3)
            await node.run(f"SELECT delete_due_1('check.1', 's{scope}', now_ms(), 3)")
        else:
            await node.run(f"SELECT forget_task_records_1('{{{chance.randrange(1, 5)}}}')")
    return added


@pytest.mark.parametrize("rounds", [150, pytest.param(2000, marks=pytest.mark.full)])
async def test_nodes_that_change_the_same_records_never_deadlock(
    cleared_postgres_url: str, rounds: int
) -> None:
    async with record_nodes(cleared_postgres_url, 6) as nodes:
        added = await asyncio.gather(
            *[_disturb(node, seed, rounds) for seed, node in enumerate(nodes)]
        )
        await assert_whole(nodes[0])
        ((counted,),) = await nodes[0].run(
            "SELECT sum(count)::int8 FROM records WHERE kind = 'count.1'"
        )
        assert counted == sum(added)
        # All that is due can be claimed in the end, and nothing else.
        # None is due later than 5 ms after its put, or deferred for longer.
        ((due,),) = await nodes[0].run(
            "SELECT count(*) FROM records WHERE due_ms IS NOT NULL AND pg_sleep(0.02) IS NOT NULL"
        )
        await nodes[0].run("UPDATE due_scopes SET held_until_ms = 0")
        for _ in range(due):
            record = (await nodes[0].claim())[0]
            await nodes[0].must_change(Delete(key=record.key, expected=record.version))
            await nodes[0].run("UPDATE due_scopes SET held_until_ms = 0")
        assert await nodes[0].claim() == []
        assert await nodes[0].run("SELECT * FROM due_scopes") == []


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.full)])
async def test_nodes_that_claim_at_once_never_claim_the_same(
    cleared_postgres_url: str, count: int
) -> None:
    async with record_nodes(cleared_postgres_url, 3) as nodes:
        puts = [
            Put(key=key(f"{number}", f"s{number % (count // 2)}"), due_in_ms=0, expected=0)
            for number in range(count)
        ]
        await nodes[0].batch(*[[Group((put,))] for put in puts])

        async def work_off(node: RecordNode) -> list[Key]:
            done: list[Key] = []
            while claimed := await node.claim(limit=8):
                done += [record.key for record in claimed]
                deletes = [Delete(key=each.key, expected=each.version) for each in claimed]
                assert await node.batch(*[[Group((delete,))] for delete in deletes]) == [
                    () for _ in deletes
                ]
            return done

        done = await asyncio.gather(*map(work_off, nodes))
        # A claim leaves out what the others have at that moment.
        rest = await work_off(nodes[0])
        every = [*chain.from_iterable(done), *rest]
        assert sorted(every, key=repr) == sorted([put.key for put in puts], key=repr)
        assert await nodes[0].run("SELECT * FROM due_scopes") == []


async def test_a_text_that_postgresql_cannot_store_is_refused_by_name(
    cleared_postgres_url: str,
) -> None:
    long = "ü" * 1400
    for bad, reason in (
        (Put(key=key("a\0b")), "U+0000"),
        (Put(key=key("a"), tags=("fine", "\0")), "U+0000"),
        (Put(key=key(long)), "2812 bytes"),
        (Put(key=key("a"), tags=("x", long)), "2813 bytes"),
        (Add(key=key("a"), amount=-(1 << 62), at_most=1), "too large"),
        (Defer(key=key("a"), in_ms=1 << 62, expected=1), "too large"),
    ):
        refused = why_unstorable([bad])
        assert isinstance(refused, Unstorable)
        assert reason in refused.message
    database = Database(cleared_postgres_url)
    records = Records(database)
    for name in ("a\0b", "\ud800"):
        assert await records.get(key(name)) is None
        assert await records.of_task(name) == ()
    # The longest key that is allowed, of bytes that do not become shorter in an index.
    name = random.Random(1).randbytes(1300).hex()[: 2600 - len("check.1scope")]
    async with record_nodes(cleared_postgres_url, 1) as (node,):
        put = Put(key=key(name), due_in_ms=0)
        assert why_unstorable([put]) is None
        await node.must_change(put)
        refused = await node.change(Put(key=key(name), expected=1 << 70))
        assert isinstance(refused, RecordConflict)
        assert str(1 << 70) in refused.message
        assert await records.get(key(name)) is not None
    await database.close()
