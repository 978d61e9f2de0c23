"""Tasks in one SQLite file.

Read `store` (what is written when, and who is told), `writer` (a batch of appends as
few statements), `values` (large values in slices), `reads`, `upkeep` (claims and
retention), `opened`, `connections`, `schema` and `filelock`. `inspection` looks at the file
before a start, `watch` notices files that are gone, `problems` says what an error means.
The SQL is in `schema.sql`, `migrations/` and `queries.sql`.
"""

from trunkline.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
