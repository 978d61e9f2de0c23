"""`check`: all that can be found wrong with a folder of JSON files, without changing it."""

from pathlib import Path

from trunkline.model.errors import StoreError
from trunkline.ports.clock import Clock
from trunkline.ports.store import Scope
from trunkline.stores.findings import TASK_REMEDY, Findings
from trunkline.stores.jsonfile.conversations import ConversationFiles
from trunkline.stores.jsonfile.lock import WriterLock
from trunkline.stores.jsonfile.log import Log
from trunkline.stores.jsonfile.notes import NoteFiles, NotesFile
from trunkline.stores.jsonfile.records import Records
from trunkline.stores.jsonfile.state import State


async def check(folder: Path, *, clock: Clock, adopts: Scope) -> Findings:
    """Raises StoreInUse while a gateway has the folder: its files are of several moments."""
    lock = WriterLock(folder, clock, wait_s=0)
    await lock.acquire()
    try:
        return _check(folder, adopts)
    finally:
        lock.release()


def _check(folder: Path, adopts: Scope) -> Findings:
    findings = Findings(str(folder), "json-file")

    def broken(error: StoreError) -> None:
        # What is wrong with a file ends with its own remedy.
        findings.add("record", error.message, "")

    records, state = Records(folder, adopts=adopts), State()
    heads, keys = records.load_all(broken)
    conversations, exchanges = ConversationFiles(folder), []
    for path in conversations.paths():
        try:
            exchanges += conversations.load(path)
        except StoreError as error:
            broken(error)
    notes = NotesFile(0, ())
    try:
        notes = NoteFiles(folder).read()
    except StoreError as error:
        broken(error)
    state.load(heads, keys, exchanges, notes)
    try:
        state.replay(Log(folder).read())
    except StoreError as error:
        findings.add("log", error.message, "")
    _check_tasks(records, state, findings)
    return findings


def _check_tasks(records: Records, state: State, findings: Findings) -> None:
    for head in state.index:
        try:
            contents = records.read(head)
        except (StoreError, OSError, ValueError) as error:
            findings.add("task", f"it cannot be read: {error}", TASK_REMEDY, task_id=head.id)
            continue
        findings.check_task(head.stored(contents.snapshot, contents.tail()), contents.entries)
