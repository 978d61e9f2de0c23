"""`Findings`: the faults that a check of a store found, up to a maximum."""

from collections.abc import Iterable

from msgspec import Struct

from trunkline.engine.task_integrity import task_faults
from trunkline.model.events import Entry
from trunkline.ports.store import StoredTask

_MAX_FAULTS = 1000


class Fault(Struct, frozen=True):
    # One of: file, page, schema, reference, count, task, record, log. Scripts rely on these words.
    kind: str
    what: str
    remedy: str
    task_id: str = ""


class Findings(Struct):
    path: str
    store: str
    tasks: int = 0
    entries: int = 0
    records: int = 0
    faults: list[Fault] = []
    # How many more there are than `faults` has room for.
    more: int = 0
    # What an operator should know, although nothing is damaged.
    notes: list[str] = []

    @property
    def is_sound(self) -> bool:
        return not self.faults

    def add(self, kind: str, what: str, remedy: str, *, task_id: str = "") -> None:
        if len(self.faults) < _MAX_FAULTS:
            self.faults.append(Fault(kind, what, remedy, task_id))
        else:
            self.more += 1

    def check_task(self, stored: StoredTask, journal: Iterable[Entry]) -> None:
        self.tasks += 1
        for what in task_faults(stored, self._counted(journal)):
            self.add("task", what, TASK_REMEDY, task_id=stored.task_id)

    def _counted(self, journal: Iterable[Entry]) -> Iterable[Entry]:
        for entry in journal:
            self.entries += 1
            yield entry


TASK_REMEDY = "Restore a backup; other tasks are not affected."
