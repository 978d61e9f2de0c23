"""`trunkline db check` on a database that a gateway has written, sound and damaged."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
from tests.postgres.server import PostgresServer
from tests.runtime.test_large_values import TEXT, Listening
from tests.runtime.world import world

from trunkline.model.errors import StoreUnusable
from trunkline.model.outputs import Text
from trunkline.ports.records import Put
from trunkline.stores.findings import Findings
from trunkline.stores.postgres.check import check
from trunkline.stores.postgres.store import PostgresStore
from trunkline.testing.stores.kit import key, must_change


def store(url: str) -> PostgresStore:
    return PostgresStore(url, allow_unsafe=True)


async def write(url: str) -> None:
    """Tasks of every kind, as the runtime writes them."""
    opened = store(url)
    async with world(store=opened) as w:
        await w.send("say done", key="once")
        paused = await w.send("ask which?", context="c")
        await w.send("say that one", task=paused.id, context="c")
        await w.send("ask again?", context="d")
        await w.send("stream 200", context="e")
        await w.send("fail badly")
        await w.cancel((await w.submit("hang", context="f")).id)
        done = await w.send("stream 9", context="g")
        await opened.prune_journal(done.id, up_to=4)
        await must_change(opened, Put(key=key("due"), tags=("tag",), due_in_ms=0))
    pieces = [TEXT[start : start + 50_000] for start in range(0, len(TEXT), 50_000)]
    async with world(store=store(url), backend=Listening(*map(Text, pieces)), node="two") as w:
        await w.send(TEXT)


def fill(url: str) -> None:
    asyncio.run(write(url))


@pytest.fixture
def written(postgres_server: PostgresServer) -> Iterator[str]:
    url = postgres_server.create_database(fill)
    yield url
    postgres_server.drop_database(url)


def change(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def words(found: Findings) -> list[tuple[str, str]]:
    return [(fault.kind, fault.what) for fault in found.faults]


async def test_a_sound_database(written: str) -> None:
    found = await check(written)
    assert words(found) == []
    assert (found.tasks, found.store) == (8, "postgres")
    assert found.entries > 200
    # What a failover may lose, and the settings that tests run with.
    assert [note.split(":")[0] for note in found.notes] == [
        "fsync is off",
        "full_page_writes is off",
        "synchronous_commit is off",
        "There is no synchronous standby",
    ]


FIRST = "(SELECT min(key) FROM tasks)"
DAMAGE: dict[str, tuple[str, str, str]] = {
    "no-scope": (
        f"UPDATE tasks SET scope = 99 WHERE key = {FIRST}",
        "reference",
        "1 tasks of an unknown scope",
    ),
    "no-task": (f"DELETE FROM tasks WHERE key = {FIRST}", "reference", "snapshots of no task"),
    "no-record": ("DELETE FROM records WHERE id = 'due'", "reference", "1 tags of no record"),
    "no-tag": ("DELETE FROM record_tags", "reference", "1 tags that find no record"),
    "no-due-scope": ("DELETE FROM due_scopes", "reference", "due records that no claim finds"),
    "record-task": (
        "UPDATE records SET task = 99 WHERE kind = 'key.1'",
        "reference",
        "1 records of no task",
    ),
    "value-task": ("UPDATE large_values SET task = 99", "reference", "large values of no task"),
    "value-twice": (
        "INSERT INTO loose_values SELECT min(value), now() FROM large_values",
        "reference",
        "1 large values that are about to be deleted although a task has them",
    ),
    "slices": ("DELETE FROM large_values", "reference", "slices of no large value"),
    "count": ("UPDATE counts SET n = n + 1", "count", "is said to have"),
    "state": ("UPDATE tasks SET state = 6 WHERE state = 5", "task", "it is listed as"),
    "snapshot": (
        "UPDATE snapshots SET body = '{' || substr(body, 9)",
        "task",
        "the snapshot cannot be read",
    ),
    "other": (
        "UPDATE snapshots SET body = convert_to(replace(convert_from(body, 'utf8'), 'say done',"
        " 'say DONE'), 'utf8')",
        "task",
        "is not what the journal gives",
    ),
    "packed": ("UPDATE events SET body = 'x' WHERE kind = ''", "task", "it cannot be read"),
    "ended": (f"DELETE FROM snapshots WHERE task = {FIRST}", "task", "its snapshot holds 0 of"),
    "last": ("UPDATE tasks SET last_seq = last_seq + 1", "task", "is said to end with entry"),
    "hole": (
        "DELETE FROM events WHERE (task, seq) = (SELECT task, (array_agg(seq ORDER BY seq))[2]"
        " FROM events GROUP BY task HAVING count(*) > 2 LIMIT 1)",
        "task",
        "the journal has a hole",
    ),
    "text": (
        "DELETE FROM slices WHERE (value, number) = (SELECT value, 0 FROM slices LIMIT 1)",
        "task",
        "a large text has",
    ),
    "index": (
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'tasks_by_lane'::regclass",
        "schema",
        "the index tasks_by_lane is not valid",
    ),
    "month": (
        "DO $$ BEGIN EXECUTE format('DROP TABLE events_%s', to_char((now() + interval '1 month')"
        " AT TIME ZONE 'UTC', 'YYYY_MM')); END $$",
        "schema",
        "is missing",
    ),
}


# Damages that do not hide each other.
TOGETHER = (
    "no-task no-record no-due-scope record-task value-task value-twice count index month",
    "no-scope no-tag slices packed",
    "snapshot last",
    "state",
    "other hole text",
    "ended",
)


@pytest.mark.parametrize("cases", TOGETHER)
async def test_damage(written: str, cases: str) -> None:
    for case in cases.split():
        change(written, DAMAGE[case][0])
    found = await check(written)
    for case in cases.split():
        _, kind, what = DAMAGE[case]
        assert any(each == kind and what in text for each, text in words(found)), case
    assert all(fault.remedy for fault in found.faults)


def test_every_damage_is_tried() -> None:
    assert sorted(" ".join(TOGETHER).split()) == sorted(DAMAGE)


async def test_a_gateway_may_write_meanwhile(written: str) -> None:
    async with world(store=store(written), node="three") as w:

        async def send() -> None:
            while not checking.done():
                await w.send("stream 9")

        checking = asyncio.create_task(check(written))
        await send()
        assert words(await checking) == []


async def test_other_databases_are_refused(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    empty = postgres_server.create_database(lambda _: None)
    with pytest.raises(StoreUnusable, match=r"has schema 0, .* Run `trunkline db migrate`"):
        await check(empty)
    change(postgres_url, "UPDATE trunkline SET version = 99, min_code = 99")
    with pytest.raises(StoreUnusable, match="changed by a newer release"):
        await check(postgres_url)
    with pytest.raises(StoreUnusable, match="cannot be reached"):
        await check("postgresql:///x?host=/nowhere")
