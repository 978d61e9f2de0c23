"""`DatabaseClock`: lets a test decide what time a database has for due records and leases.

The database has no switch for that. The test replaces the one function that all of them ask.
"""

import psycopg

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
