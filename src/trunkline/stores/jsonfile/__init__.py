"""Tasks as JSON files in one folder: one record per task, and a log of the latest changes.

A commit is one line in the log, so it costs the size of the change and not of the task. A task
that has come to rest is written to its record: the task in the form of A2A 0.3, for people and
programs that look into the folder, and under `trunkline` the bytes that the port returns.

Read `store` (when changes are committed, and how submitters are told), `changes` and `log`,
`state` (everything in memory, and the files that lag behind the log), `opened`, `folder` and
`files`, then what has a file: `tasks` and `record_table`. `public_record` writes the A2A form of
a task, `foreign_records` reads that of other programs, `earlier_versions` the files of releases
before, `check` finds faults.
"""

from trunkline.stores.jsonfile.public_record import by_handle
from trunkline.stores.jsonfile.store import JsonFileStore

__all__ = ["JsonFileStore", "by_handle"]
