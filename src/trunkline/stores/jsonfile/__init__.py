"""Tasks as JSON files in one folder: one record per task, and a log of the latest changes.

A commit is one line in the log, so it costs what changed and not the task. A task that
has come to rest is written to its record, with what A2A 0.3 says of it for whoever looks
into the folder, and what the port wants back byte for byte under `trunkline`.

Read `store` (what is committed when, and who is told), `changes` and `log`, then
`contents` and `records` (a task in its file), `public` (its face to others), `adopted`
and `checks` (files that another program wrote), `conversations`, `files`, `lock` and
`problems`.
"""

from trunkline.stores.jsonfile.public import by_handle
from trunkline.stores.jsonfile.store import JsonFileStore

__all__ = ["JsonFileStore", "by_handle"]
