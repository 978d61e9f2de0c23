"""PostgreSQL under several nodes: how they are configured for it, and what they left in it."""

import psycopg
from msgspec import Struct
from tests.acceptance.kill_gateway import Row

from trunkline.stores.postgres.rows import entries_after
from trunkline.stores.sqlite.rows import STATES

_ON_POSTGRES = """
drain_s = 2
[store]
kind = "postgres"
url = "{url}"
{more}[cluster]
beat_s = {beat_s}
lease_s = {lease_s}
"""


class Times(Struct, frozen=True):
    beat_s: float
    lease_s: float
    # How long the database is away at most.
    down_s: float
    # How long a node stands still, or is cut off.
    pause_s: float


SHORT = Times(0.3, 1.2, 0.5, 2.5)
REAL = Times(2.0, 6.0, 3.0, 30.0)


def config_on(url: str, times: Times, *, more: str = "") -> str:
    """`more`: further lines of [store]."""
    return _ON_POSTGRES.format(url=url, more=more, beat_s=times.beat_s, lease_s=times.lease_s)


def read_postgres(url: str) -> dict[str, Row]:
    """Every task, oldest first. What lies in large values is not read: nothing here is large."""
    with psycopg.connect(url) as connection:
        # One snapshot, while nodes write.
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        tasks = connection.execute(
            "SELECT key, id, state, scope, context FROM tasks ORDER BY key"
        ).fetchall()
        rows = {key: Row(STATES[state], (*lane,), {}) for key, _, state, *lane in tasks}
        for task, seq, kind, body in connection.execute("SELECT task, seq, kind, body FROM events"):
            for entry in entries_after([(seq, kind, body, None)], 0, -1):
                assert entry.seq not in rows[task].events, f"{entry.seq} is in two rows"
                rows[task].events[entry.seq] = (entry.kind, entry.body)
    return {task_id: rows[key] for key, task_id, *_ in tasks}
