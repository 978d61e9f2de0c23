"""`check`: finds every fault of a folder of JSON files, without changing it."""

from pathlib import Path

from trunkline.model.errors import StoreError
from trunkline.ports.clock import Clock
from trunkline.ports.store import Scope
from trunkline.stores.findings import TASK_REMEDY, Findings
from trunkline.stores.jsonfile.folder import Folder
from trunkline.stores.jsonfile.log import Log
from trunkline.stores.jsonfile.record_table import RecordsFile
from trunkline.stores.jsonfile.state import State
from trunkline.stores.locks import WriterLock


async def check(folder: Path, *, clock: Clock, adopts: Scope) -> Findings:
    """Raises StoreInUse while a gateway has the folder: the check would see files of different
    moments."""
    lock = WriterLock(folder, clock, wait_s=0)
    await lock.acquire()
    try:
        return _check(folder, clock, adopts)
    finally:
        lock.release()


def _check(path: Path, clock: Clock, adopts: Scope) -> Findings:
    findings = Findings(str(path), "json-file")
    folder, state = Folder(path, adopts=adopts), State(clock)
    # The message for a damaged file ends with its own remedy.
    folder.load(state, on_broken=lambda error: findings.add("record", error.message, ""))
    try:
        state.replay(Log(path).replay(mends=False))
    except StoreError as error:
        findings.add("log", error.message, "")
    for row in state.records.rows():
        findings.records += 1
        if row.task_id and state.tasks.get(row.task_id) is None:
            findings.add(
                "reference",
                f"the record {row.kind} {row.id!r} in {row.scope!r} is of no task",
                f"Restore {RecordsFile.file_name} from a backup, or delete the line of the record.",
            )
    for head in state.tasks:
        try:
            contents = folder.read(head)
        except (StoreError, OSError, ValueError) as error:
            findings.add("task", f"it cannot be read: {error}", TASK_REMEDY, task_id=head.id)
            continue
        findings.check_task(head.stored(contents.snapshot, contents.entries), contents.entries)
    return findings
