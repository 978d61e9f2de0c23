"""What is to be written, and when the log may go: whatever comes while a file is written."""

import random
from collections.abc import Callable

import pytest

from trunkline.model.values import TaskState
from trunkline.ports.store import Append
from trunkline.stores.jsonfile.changes import Appended, Change, Recorded, StoredRecord
from trunkline.stores.jsonfile.files import record_name
from trunkline.stores.jsonfile.record_table import RecordsFile
from trunkline.stores.jsonfile.state import Captured, State
from trunkline.stores.jsonfile.tasks import TaskHead
from trunkline.testing import FakeClock
from trunkline.testing.stores.kit import WORKING, create, follow

PAUSED = TaskState.INPUT_REQUIRED


def apply(state: State, *appends: Append) -> None:
    for append in appends:
        state.apply(Appended(state.n + 1, append))


def test_the_log_stays_until_the_record_has_all_that_is_to_go_with_it() -> None:
    state = State(FakeClock())
    apply(state, create("t", state=PAUSED))
    (being_written,) = state.take_due(1)
    apply(state, follow("t", 1, state=PAUSED))
    state.retire()
    state.written(being_written, 100)
    assert not state.is_retired
    # At work again, it is written all the same: its second change is in no record yet.
    apply(state, follow("t", 2))
    assert not state.is_retired
    (again,) = state.take_due(1)
    state.written(again, 100)
    assert state.is_retired


def test_the_log_goes_although_more_came_since() -> None:
    state = State(FakeClock())
    apply(state, create("t", state=PAUSED))
    state.retire()
    (being_written,) = state.take_due(1)
    apply(state, follow("t", 1))
    state.written(being_written, 100)
    assert state.is_retired
    assert state.take_due(1) == []


class Disk:
    """What a crash leaves: the log as far as it has not gone, and files that hold changes up
    to some number. Files are begun and finished whenever the test likes."""

    def __init__(self) -> None:
        self.state = State(FakeClock())
        # Per file: the last change that is in there.
        self.files: dict[str, int] = {}
        # Changes of each file, and those that the log still has.
        self.changes: list[tuple[int, str]] = []
        self.log: set[int] = set()
        self._seqs: dict[str, int] = {}
        self._writing: list[Captured] = []

    def append(self, task_id: str, *, is_paused: bool) -> None:
        seq = self._seqs.get(task_id, 0)
        self._seqs[task_id] = seq + 1
        new = PAUSED if is_paused else WORKING
        append = follow(task_id, seq, state=new) if seq else create(task_id, state=new)
        self._commit(record_name(task_id), Appended(self.state.n + 1, append))

    def record(self) -> None:
        n = self.state.n + 1
        row = StoredRecord(kind="check.1", scope="scope", id="id", version=n)
        self._commit(RecordsFile.file_name, Recorded(n, (row,)))

    def _commit(self, file: str, change: Change) -> None:
        self.state.apply(change)
        self.changes.append((change.n, file))
        self.log.add(change.n)

    def retire(self) -> None:
        # As before a commit, when the log is long.
        if self.state.is_retired:
            self.state.retire()

    def begin_write(self) -> None:
        """As `Opened.write_files` chooses."""
        if self._writing:
            return
        self._writing = self.state.take_due(1)
        if not self._writing and self.state.is_retired:
            self.log = {n for n in self.log if n > self.state.retires_up_to}

    def end_write(self) -> None:
        written, self._writing = self._writing, []
        for captured in written:
            self.files[captured.copy.file_name] = captured.copy.n
            self.state.written(captured, 100)

    def fail_write(self) -> None:
        self.state.give_back(self._writing)
        self._writing = []

    def finish(self) -> None:
        """As `Opened.finish`, while a file may still be being written."""
        self.state.retire()
        own = self.state.take_due(9)
        self.end_write()
        while own:
            self._writing = own
            self.end_write()
            own = self.state.take_due(9)
        self.log.clear()

    def check(self) -> None:
        lost = [
            (n, file)
            for n, file in self.changes
            if n not in self.log and self.files.get(file, 0) < n
        ]
        assert not lost, f"neither in the log nor in their files: {lost}"


STEPS: list[Callable[[Disk], None]] = [
    lambda disk: disk.append("a", is_paused=True),
    lambda disk: disk.append("a", is_paused=False),
    lambda disk: disk.append("b", is_paused=True),
    lambda disk: disk.append("c", is_paused=True),
    Disk.record,
    Disk.retire,
    Disk.begin_write,
    Disk.end_write,
    Disk.fail_write,
]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_comes_while_files_are_written_no_change_is_lost(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(300):
        disk = Disk()
        # What takes several steps in a row is more likely among few.
        steps = chance.sample(STEPS, 5)
        for _ in range(chance.randrange(40)):
            chance.choice(steps)(disk)
            disk.check()
        disk.finish()
        disk.check()


def ids(captured: list[Captured]) -> list[str]:
    return [each.copy.id for each in captured if isinstance(each.copy, TaskHead)]


def test_large_records_are_written_one_after_the_other() -> None:
    state = State(FakeClock())
    apply(state, *(create(task_id, state=PAUSED) for task_id in "abc"))
    size = state.take_due(1)[0].document.size_bytes
    state.retire()
    assert ids(state.take_due(9, max_bytes=2 * size)) == ["a", "b"]
    assert ids(state.take_due(9, max_bytes=size - 1)) == ["c"]
