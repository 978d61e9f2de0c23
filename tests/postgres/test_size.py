"""What reads of tasks take among few and among many: pages of the database that they look at."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from tests.postgres.fixtures import fill_template
from tests.postgres.server import PostgresServer
from tests.postgres.test_maintenance import rows

from trunkline.ports.store import OperatorQuery, Scope, TaskQuery
from trunkline.stores.postgres.connection import Params, Row
from trunkline.stores.postgres.database import Database
from trunkline.stores.postgres.reader import Reader

SCOPE = Scope("agent", "", "caller 1")
# Contexts of one task each, of ten callers; two rows of the journal, and a snapshot of all.
FILL = """
WITH names AS (
    INSERT INTO scopes (agent, tenant, principal)
    SELECT 'agent', '', 'caller ' || n FROM generate_series(1, 10) AS n ORDER BY n
),
new AS (
    INSERT INTO tasks (key, id, scope, context, created_ms, status_ms, last_seq, state)
    SELECT task_key(), 't' || n, 1 + n %% 10, 'c' || n, n, n, 4, 5 + n %% 4
    FROM generate_series(0, %s - 1) AS n RETURNING key, scope, state
),
journal AS (INSERT INTO events SELECT key, n, 'k', %s FROM new, generate_series(2, 4, 2) AS n),
counters AS (INSERT INTO counts SELECT state, scope, 1, count(*) FROM new GROUP BY 1, 2)
INSERT INTO snapshots SELECT key, 4, %s, '' FROM new
"""


class Explained:
    """Reads through one connection, and adds up the pages that PostgreSQL looks at."""

    def __init__(self, database: Database) -> None:
        self.name = database.name
        self._database = database
        self.pages = 0

    async def read(self, sql: str, params: Params = ()) -> list[Row]:
        explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}"
        # The first time the server reads its catalogue as well.
        await self._database.read(explain, params)
        [(found,)] = await self._database.read(explain, params)
        plan: dict[str, Any] = found[0]["Plan"]
        self.pages += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        return await self._database.read(sql, params)


def reads(reader: Reader, last: int) -> dict[str, Callable[[], Awaitable[object]]]:
    middle = f"t{last // 20 * 10}"
    return {
        "get": lambda: reader.get(SCOPE, middle),
        "entries": lambda: reader.entries(middle, 2, 500),
        "owner": lambda: reader.owner(middle),
        "page": lambda: reader.list(TaskQuery(scope=SCOPE, limit=10)),
        "next page": lambda: reader.list(TaskQuery(scope=SCOPE, limit=10, after=(last // 2, 0))),
        "context": lambda: reader.list(TaskQuery(scope=SCOPE, context_id=f"c{last // 20 * 10}")),
        "operator": lambda: reader.list_all(OperatorQuery(limit=10)),
        "ended": lambda: reader.count_ended("agent", None),
        "recently": lambda: reader.count_ended("agent", 10),
        "scopes": reader.scopes,
        "unfinished": reader.unfinished,
    }


async def pages_by_read(url: str, count: int) -> dict[str, int]:
    await rows(url, FILL, count, b"x" * 540, b"x" * 900)
    await rows(url, "VACUUM (ANALYZE)")
    database = Database(url, readers=1)
    explained = Explained(database)
    found: dict[str, int] = {}
    for name, read in reads(Reader(explained), count).items():
        explained.pages = 0
        assert await read() is not None, name
        found[name] = explained.pages
    await database.close()
    return found


@pytest.fixture
def two_urls(postgres_server: PostgresServer) -> Iterator[tuple[str, str]]:
    urls = [postgres_server.create_database(fill_template) for _ in range(2)]
    yield urls[0], urls[1]
    for url in urls:
        postgres_server.drop_database(url)


async def compare(urls: tuple[str, str], few: int, many: int) -> None:
    among_few = await pages_by_read(urls[0], few)
    among_many = await pages_by_read(urls[1], many)
    # An index has more levels then, and a page of ten tasks goes down four of them ten times.
    for name, pages in among_many.items():
        assert pages <= 2 * among_few[name] + 10, (name, among_few, among_many)


async def test_reads_look_at_as_few_pages_among_many_tasks(two_urls: tuple[str, str]) -> None:
    await compare(two_urls, 4000, 40_000)


@pytest.mark.full
async def test_reads_look_at_as_few_pages_among_a_million_tasks(two_urls: tuple[str, str]) -> None:
    await compare(two_urls, 4000, 1_000_000)
