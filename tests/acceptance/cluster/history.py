"""`History`: all that is known after a run with kills, and what must be true of it.

The journal as the store has it is compared with what clients were told and with the turns that ran.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import msgspec
from msgspec import Struct, field
from tests.acceptance.kill_clients import ENDED, PAUSED
from tests.acceptance.kill_gateway import Row

from trunkline.model.events import Entry, MessageAccepted
from trunkline.model.values import Role, Task


class Turn(Struct):
    """A turn that an agent began, by the clock of the machine."""

    kind: str
    task_id: str
    message_id: str
    pid: int
    began_ns: int
    # None for one that never got so far: its process was killed.
    ended_ns: int | None = None


def read_turns(lines: str) -> list[Turn]:
    """The turns in the file that the agents write, in the order in which they began."""
    turns: list[Turn] = []
    running: dict[tuple[str, str, int], Turn] = {}
    for line in lines.splitlines():
        what, at, pid, kind, task_id, message_id = line.split()
        key = (task_id, message_id, int(pid))
        if what == "begin":
            running[key] = Turn(kind, task_id, message_id, int(pid), int(at))
            turns.append(running[key])
        else:
            running.pop(key).ended_ns = int(at)
    return turns


class Sent(Struct):
    """A message, when its sender first sent it, and when and in which task it was acknowledged."""

    sent_ns: int
    task_id: str = ""
    acknowledged_ns: int | None = None


class Stop(Struct, frozen=True):
    """When a process was killed, or stopped for longer than a lease."""

    pid: int
    at_ns: int


class History(Struct):
    # The tasks in the store, oldest first.
    rows: dict[str, Row]
    # Entries that clients got: by task and sequence, as bytes of the wire.
    events: dict[str, dict[int, bytes]] = {}
    # Tasks as they ended, as clients got them.
    ended: dict[str, dict[str, object]] = {}
    messages: dict[str, Sent] = {}
    turns: list[Turn] = []
    stops: list[Stop] = field(default_factory=list)

    def check(self) -> None:
        self.check_journals()
        self.check_told()
        self.check_messages()
        self.check_ended()
        self.check_runs()
        self.check_queues()

    def check_journals(self) -> None:
        """Every journal is without holes, and ends with the end of its task."""
        for task_id, row in self.rows.items():
            seqs = sorted(row.events)
            assert seqs == list(range(1, len(seqs) + 1)), f"{task_id} has holes: {seqs}"
            states = list(states_of(row))
            assert states[-1][1] == row.state, f"{task_id} is {row.state}, its journal {states}"
            ends = [seq for seq, state in states if state in ENDED]
            assert ends in ([], seqs[-1:]), f"{task_id} went on after its end: {states}"

    def check_told(self) -> None:
        """Whatever a client was told is in the journal, under the same number."""
        for task_id, events in self.events.items():
            assert task_id in self.rows, f"{task_id} was told and is lost"
            stored = self.rows[task_id].events
            for seq, data in events.items():
                assert seq in stored, f"{task_id} {seq} was told and is lost: {data!r}"
                body = Entry(seq, *stored[seq]).public_body
                assert body in data, f"{task_id} {seq} is {body!r} and was told as {data!r}"
        for task_id, task in self.ended.items():
            assert task_id in self.rows, f"{task_id} was acknowledged and is lost"
            told = msgspec.convert(task, Task).status.state
            state = self.rows[task_id].state
            assert state == told, f"{task_id} was told as {told} and is {state}"

    def check_messages(self) -> None:
        """Every message is in one journal, once, if its sender got an answer."""
        places: dict[str, list[str]] = {}
        for task_id, row in self.rows.items():
            for message_id in messages_of(row):
                places.setdefault(message_id, []).append(task_id)
        twice = {message_id: tasks for message_id, tasks in places.items() if len(tasks) > 1}
        assert not twice, f"messages that were accepted twice: {twice}"
        for message_id, sent in self.messages.items():
            if sent.acknowledged_ns is not None:
                found = places.get(message_id)
                assert found == [sent.task_id], f"{message_id} was acknowledged, {sent}: {found}"

    def check_ended(self) -> None:
        """Nothing is left behind: every task has ended, or waits for its caller."""
        left = {
            task_id: row.state
            for task_id, row in self.rows.items()
            if row.state not in ENDED and row.state != PAUSED
        }
        assert not left, f"tasks that did not end: {left}"

    def check_runs(self) -> None:
        """A turn with effects ran once at most, and one that completed ran."""
        times = Counter(
            (turn.task_id, turn.message_id) for turn in self.turns if turn.kind == "effects"
        )
        twice = {turn: count for turn, count in times.items() if count > 1}
        assert not twice, f"turns with effects that ran more than once: {twice}"
        # A pure agent may run before the task is stored.
        lost = [t for t in self.turns if t.kind != "pure" and t.task_id not in self.rows]
        assert not lost, f"turns of tasks that were not stored: {lost}"
        ran = {turn.task_id for turn in self.turns}
        idle = [
            task_id
            for task_id, row in self.rows.items()
            if row.state == "TASK_STATE_COMPLETED" and task_id not in ran
        ]
        assert not idle, f"tasks that completed without a turn: {idle}"

    def check_queues(self) -> None:
        """In one context turns run one after the other, in the order of their messages."""
        lanes: dict[tuple[object, ...], list[Turn]] = {}
        for turn in sorted(self.turns, key=lambda turn: turn.began_ns):
            if (row := self.rows.get(turn.task_id)) is not None:
                lanes.setdefault(row.lane, []).append(turn)
        for turns in lanes.values():
            self._check_order(turns)
            self._check_apart(turns)

    def _check_order(self, turns: list[Turn]) -> None:
        """A message comes after those that were acknowledged before it was sent."""
        first = {turn.message_id: turn.began_ns for turn in reversed(turns)}
        # The earliest acknowledgement of those whose turns began later.
        waiting_ns, waiting = None, ""
        for message_id in sorted(first, key=lambda each: -first[each]):
            sent = self.messages[message_id]
            if waiting_ns is not None and waiting_ns < sent.sent_ns:
                raise AssertionError(f"{message_id} overtook {waiting}")
            acknowledged_ns = sent.acknowledged_ns
            if acknowledged_ns is not None and (waiting_ns is None or acknowledged_ns < waiting_ns):
                waiting_ns, waiting = acknowledged_ns, message_id

    def _check_apart(self, turns: list[Turn]) -> None:
        for one, next_one in pairwise(turns):
            ended_ns = self._last_sign_ns(one)
            assert ended_ns is not None, f"{one} neither ended nor was its process stopped"
            assert ended_ns <= next_one.began_ns, f"{next_one} began beside {one}"

    def _last_sign_ns(self, turn: Turn) -> int | None:
        """When it ended, or when its process was stopped before that."""
        stops = [
            stop.at_ns
            for stop in self.stops
            if stop.pid == turn.pid and stop.at_ns >= turn.began_ns
        ]
        ends = stops if turn.ended_ns is None else [turn.ended_ns, *stops]
        return min(ends, default=None)


def states_of(row: Row) -> Iterator[tuple[int, str]]:
    for seq, (kind, body) in sorted(row.events.items()):
        event = Entry(seq, kind, body).public
        if hasattr(event, "status"):
            yield seq, event.status.state


def messages_of(row: Row) -> Iterator[str]:
    """The ids of the messages of callers."""
    for seq, (kind, body) in row.events.items():
        entry = Entry(seq, kind, body)
        if isinstance(entry.event, MessageAccepted):
            yield entry.event.message.message_id
        elif isinstance(entry.public, Task):
            history = entry.public.history
            yield from (message.message_id for message in history if message.role is Role.USER)
