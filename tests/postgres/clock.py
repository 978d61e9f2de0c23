"""`DatabaseClock` and `ClockedStore`: a test decides what time it is for due records.

The database has no switch for that. The test replaces the one function that all of them ask.
"""

from collections.abc import Mapping

import psycopg

from trunkline.ports.clock import Clock
from trunkline.ports.records import Change, Record
from trunkline.stores.postgres.store import PostgresStore

_TAKE_OVER = b"""
CREATE TABLE test_clock (at_ms int8 NOT NULL, ticks bool NOT NULL);
INSERT INTO test_clock VALUES (0, true);
CREATE OR REPLACE FUNCTION now_ms() RETURNS int8 LANGUAGE sql VOLATILE AS $$
    SELECT at_ms + ticks::int4 * (extract(epoch FROM clock_timestamp()) * 1000)::int8
    FROM test_clock
$$;
"""


class DatabaseClock:
    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute(_TAKE_OVER)

    def close(self) -> None:
        self._connection.close()

    def set(self, now_ms: int) -> None:
        """Stand still at this time."""
        self._connection.execute("UPDATE test_clock SET at_ms = %s, ticks = false", [now_ms])

    def skip(self, seconds: float) -> None:
        """Go forward at once, and tick on if it does."""
        ms = round(seconds * 1000)
        self._connection.execute("UPDATE test_clock SET at_ms = at_ms + %s", [ms])


class ClockedStore(PostgresStore):
    """A store whose database has the time of a clock in the process."""

    def __init__(self, url: str, clock: Clock, database_clock: DatabaseClock) -> None:
        super().__init__(url, allow_unsafe=True)
        self._process_clock = clock
        self._database_clock = database_clock

    async def change(self, *changes: Change) -> None:
        self._database_clock.set(self._process_clock.now_ms())
        await super().change(*changes)

    async def claim_due(self, shares: Mapping[str, int], *, lease_ms: int) -> tuple[Record, ...]:
        self._database_clock.set(self._process_clock.now_ms())
        return await super().claim_due(shares, lease_ms=lease_ms)
