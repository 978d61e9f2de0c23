"""A gateway on PostgreSQL, empty and with a million tasks: CPU, rows and bytes of a send.

PYTHONPATH=src:. .venv-dev/bin/python -m bench.grown    # in the environment of ./check

`--contexts one` puts the million into one context, else each task has a context of its own.
`--tasks` sets their number.
"""

import argparse
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg

from bench.calls import Caller, Get, Send
from bench.client import Client
from bench.database import BenchDatabase
from bench.dialects import A2A_1_0
from bench.exchange import Exchange
from bench.nodes import PATH, started
from bench.process import Process
from bench.target import expect_right

REQUESTS = 10_000
LIMIT_S = 10
AT_A_TIME = 32

# A copy of the latest task, with its journal and its snapshot, as often as is asked for: a million
# of the last 28 hours, because the gateway keeps ended tasks for seven days.
FILL = """
WITH one AS (SELECT * FROM tasks ORDER BY key DESC LIMIT 1), made AS (
    INSERT INTO tasks (key, id, scope, context, created_ms, status_ms, last_seq, state)
    SELECT task_key(), 'filled-' || i, one.scope,
        CASE WHEN %(contexts)s = 'one' THEN 'filled' ELSE 'filled-' || i END,
        one.created_ms - 100 * i, one.status_ms - 100 * i, one.last_seq, one.state
    FROM one, generate_series(1, %(tasks)s) AS i
    RETURNING key, scope, state
), journals AS (
    INSERT INTO events SELECT made.key, e.seq, e.kind, e.body
    FROM made, events AS e, one WHERE e.task = one.key
), folded AS (
    INSERT INTO snapshots SELECT made.key, s.seq, s.body, s.artifacts
    FROM made, snapshots AS s, one WHERE s.task = one.key
)
INSERT INTO counts (state, scope, writer, n)
SELECT state, scope, 0, count(*) FROM made GROUP BY state, scope
ON CONFLICT (state, scope, writer) DO UPDATE SET n = counts.n + excluded.n
"""
SIZES = """
SELECT coalesce(i.inhparent::regclass, c.oid::regclass)::text, sum(pg_relation_size(c.oid)),
    sum(pg_indexes_size(c.oid)), sum(pg_total_relation_size(c.oid))
FROM pg_class AS c LEFT JOIN pg_inherits AS i ON i.inhrelid = c.oid
WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
GROUP BY 1 HAVING sum(pg_total_relation_size(c.oid)) > 1000000 ORDER BY 4 DESC
"""
ROWS = """
SELECT coalesce(sum(n_tup_ins), 0), coalesce(sum(n_tup_upd), 0), coalesce(sum(n_tup_del), 0),
    (SELECT wal_bytes FROM pg_stat_wal)
FROM pg_stat_user_tables
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.grown")
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--contexts", choices=("one", "own"), default="own")
    return parser.parse_args()


def statistics(db: psycopg.Connection[Any], client: Client, what: Exchange) -> tuple[float, ...]:
    """Rows that were inserted, updated and deleted, and bytes of the log of the database."""
    # A process of the database tells these figures with the first commit after a second, and the
    # gateway leaves its lanes once in a second.
    time.sleep(2.5)
    expect_right(client.run(what, total=1, limit_s=5))
    time.sleep(2.5)
    row = db.execute(ROWS).fetchone()
    assert row is not None
    return tuple(float(each) for each in row)


def measure(
    name: str, node: Process, database: BenchDatabase, db: psycopg.Connection[Any], what: Exchange
) -> None:
    with Client(node.port, AT_A_TIME) as client:
        expect_right(client.run(what, total=2_000, limit_s=5))
        rows = statistics(db, client, what)
        before = database.cpu_s(), node.cpu_s(), time.perf_counter()
        outcome = expect_right(client.run(what, total=REQUESTS, limit_s=LIMIT_S))
        after = database.cpu_s(), node.cpu_s(), time.perf_counter()
        changed = [
            (now - then) / outcome.done
            for then, now in zip(rows, statistics(db, client, what), strict=True)
        ]
    db_us, node_us, wall_s = (now - then for then, now in zip(before, after, strict=True))
    print(
        f"{name}: CPU µs gateway {node_us * 1e6 / outcome.done:.1f}, "
        f"database {db_us * 1e6 / outcome.done:.1f}; {outcome.done / wall_s:,.0f}/s; "
        f"rows {changed[0]:.2f} new, {changed[1]:.2f} changed, {changed[2]:.2f} deleted; "
        f"log {changed[3]:,.0f} bytes"
    )


def main() -> None:
    options = arguments()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        database = BenchDatabase()
        stack.callback(database.close)
        url = database.new_url()
        node = started(stack, url, "pure", folder)[0]
        db = stack.enter_context(psycopg.connect(url, autocommit=True))
        caller = Caller(A2A_1_0, PATH)
        send = Send(caller)
        measure("send, empty", node, database, db, send)
        measure("get, empty", node, database, db, Get(caller, list(send.task_ids)))
        began = time.perf_counter()
        db.execute(FILL, {"tasks": options.tasks, "contexts": options.contexts})
        db.execute("VACUUM (ANALYZE)")
        db.execute("CHECKPOINT")
        print(f"filled with {options.tasks:,} tasks in {time.perf_counter() - began:.0f} s")
        for name, table, index, total in db.execute(SIZES).fetchall():
            sizes = [int(each) / options.tasks for each in (table, index, total)]
            print(
                f"  {name}: {sizes[2]:,.0f} bytes per task ({sizes[0]:,.0f} in the table, "
                f"{sizes[1]:,.0f} in indexes)"
            )
        for _ in range(2):
            # The first round writes every page that it changes to the log as a whole.
            measure("send, full", node, database, db, send)
        spread = [f"filled-{1 + i * options.tasks // 4_000}" for i in range(4_000)]
        measure("get, full", node, database, db, Get(caller, spread))


if __name__ == "__main__":
    main()
