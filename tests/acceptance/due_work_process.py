"""A process that works off due records until it is killed: its arguments are STORE and FOLDER, or
`postgres` and the URL of the database.

Says `left ID` for every record that it finds at the start, `run ID` for every run of the handler,
and `done COUNT` when all are worked off.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from trunkline.clock import SystemClock
from trunkline.ports.records import Add, Change, Key, Put, Record
from trunkline.ports.store import Scope, Store
from trunkline.runtime.due_work import DueKind, DueWork
from trunkline.stores.jsonfile import JsonFileStore
from trunkline.stores.postgres.store import PostgresStore
from trunkline.stores.sqlite import SqliteStore

KIND = "check.1"
COUNT = Key("count.1", "", "done")
RECORDS = 300
SCOPES = 6


def say(word: str, value: object) -> None:
    """In one write, so that a kill leaves a whole line or none."""
    os.write(1, f"{word} {value}\n".encode())


def make(kind: str, where: str) -> Store:
    if kind == "postgres":
        return PostgresStore(where, allow_unsafe=True)
    if kind == "sqlite":
        return SqliteStore(Path(where) / "store.db")
    return JsonFileStore(Path(where) / "tasks", clock=SystemClock(), adopts=Scope("", "", ""))


async def handle(record: Record) -> Sequence[Change]:
    say("run", record.key.id)
    return [Add(key=COUNT, amount=1, at_most=RECORDS)]


async def fill(store: Store) -> None:
    if await store.record(COUNT) is None:
        puts = [
            Put(key=Key(KIND, f"s{number % SCOPES}", f"{number:04}"), due_in_ms=0)
            for number in range(RECORDS)
        ]
        await store.change(*puts, Add(key=COUNT, amount=0, at_most=RECORDS))


async def main(kind: str, where: str) -> None:
    store = make(kind, where)
    await store.open()
    await fill(store)
    for record in await store.records(KIND, limit=RECORDS):
        say("left", record.key.id)
    due = DueWork(store=store, clock=SystemClock(), kinds=[DueKind(name=KIND, handle=handle)])
    due.start()
    due.wake()
    while await store.records(KIND, limit=1):  # noqa: ASYNC110 - due work deletes them
        await asyncio.sleep(0.01)
    done = await store.record(COUNT)
    say("done", done and done.count)
    await due.close()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
