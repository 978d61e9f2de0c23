"""Tasks in one SQLite file.

Read `store` (when a batch is written, and how submitters are told), `writer` (a batch with few
statements), `rows` (tasks and entries as rows), `large_values` (values in slices), `reader`,
`retention`, `connections` and `schema`. `startup_check` looks at the file before a start,
`check` finds every fault of it, and `problems` notices deleted files and explains errors.
The SQL is in `schema.sql`, `migrations/` and `queries.sql`; `statements` loads it.
"""

from trunkline.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
