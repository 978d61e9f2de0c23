"""`EarlierData`: keys, direct answers and notes of earlier versions, which become records.

Those versions had the keys of a task in its record, the direct answers of a context in
`exchanges-….jsonl`, and all notes in `notes.jsonl`. Nothing of it is removed before the file of
the records holds it, so a start that was killed on the way is simply repeated.
"""

from pathlib import Path

import msgspec

from trunkline.ports.caller_records import (
    answer_id,
    key_body,
    note_key,
    put_answer,
    request_key,
)
from trunkline.ports.records import Key
from trunkline.ports.store import Scope
from trunkline.stores.jsonfile.changes import (
    Appended,
    Deleted,
    EarlierChange,
    Forgot,
    Noted,
    Said,
    StoredKey,
    StoredRecord,
    from_json,
    to_json,
)
from trunkline.stores.jsonfile.record_table import (
    LoggedRecords,
    RecordsFile,
    decoded,
    decoded_after_head,
)
from trunkline.stores.jsonfile.tasks import TaskHead

ANSWER_FILES = "exchanges-*.jsonl"
NOTES_FILE = "notes.jsonl"
# The beginning of the names of notes that were keys of requests without a task.
_KEY_NOTE = "idempotency-key "

_decode_said = msgspec.json.Decoder(Said).decode
_decode_note = msgspec.json.Decoder(Noted).decode


class EarlierData:
    """Adds what the file of the records lacks, by the numbers of changes."""

    def __init__(self, file: RecordsFile) -> None:
        self._file = file
        self._records: LoggedRecords = file.records
        # Answers by the numbers of their changes.
        self._answers: dict[int, Key] = {}
        # Whether the file of the records has to be written.
        self.is_new = False

    def read_files(self, folder: Path) -> None:
        """Raises StoreUnusable."""
        for path in sorted(folder.glob(ANSWER_FILES)):
            # After the last line break comes nothing, or a line that was cut off.
            lines = path.read_bytes().split(b"\n")[:-1]
            for said in decoded(_decode_said, lines, path, "answer"):
                self.apply(said)
        path = folder / NOTES_FILE
        if path.exists():
            for note in decoded_after_head(_decode_note, path, "note")[1]:
                self.apply(note)

    def add_keys(self, scope: Scope, task_id: str, n: int, *keys: StoredKey) -> None:
        """The keys of a task, from a change or a record with this number."""
        for each in keys if self._is_lacking(n) else ():
            body = key_body(each.digest, task_id)
            self._put(request_key(scope, each.key), body, task_id=task_id)

    def add_key(self, change: Appended, head: TaskHead | None) -> None:
        if change.key is not None and head is not None:
            self.add_keys(head.scope, head.id, change.n, change.key)

    def forget_task(self, change: Deleted) -> None:
        """Earlier versions did not say which records a task took with it."""
        if self._is_lacking(change.n):
            self._records.forget_tasks([change.task_id])

    def apply(self, change: EarlierChange) -> None:
        if not self._is_lacking(change.n):
            return
        if isinstance(change, Said):
            self._add_answer(change)
        elif isinstance(change, Noted):
            self._note(change)
        elif isinstance(change, Forgot):
            for n in change.gone:
                if n in self._answers:
                    self._delete(self._answers.pop(n))

    def _is_lacking(self, n: int) -> bool:
        return n > self._file.n

    def _add_answer(self, said: Said) -> None:
        messages = from_json(said.messages)
        put = put_answer(said.scope, said.context_id, answer_id(said.at_ms, said.n, ""), messages)
        self._answers[said.n] = put.key
        self._put(put.key, messages, due_ms=said.at_ms, tags=put.tags)

    def _note(self, note: Noted) -> None:
        key = note_key(note.scope, note.context_id, note.name)
        if not note.context_id and note.name.startswith(_KEY_NOTE):
            key = request_key(note.scope, note.name.removeprefix(_KEY_NOTE))
            if self._records.has_task(key):
                # The request got a task later on, which has the key.
                return
        if note.text:
            self._put(key, note.text.encode(), due_ms=note.at_ms)
        else:
            self._delete(key)

    def _put(
        self,
        key: Key,
        body: bytes,
        *,
        due_ms: int | None = None,
        task_id: str = "",
        tags: tuple[str, ...] = (),
    ) -> None:
        self.is_new = True
        row = StoredRecord(
            kind=key.kind,
            scope=key.scope,
            id=key.id,
            version=1,
            due_ms=due_ms,
            task_id=task_id,
            tags=tags,
            body=to_json(body),
        )
        self._records.put_row(row)

    def _delete(self, key: Key) -> None:
        self._records.put_row(StoredRecord(kind=key.kind, scope=key.scope, id=key.id))
