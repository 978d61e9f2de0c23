"""`Batch`: rows that go into the chain in one change, with the days of the report."""

from msgspec import Struct

from trunkline.hub.audit_rows import INTERRUPTED, Row, encode_row, recovered
from trunkline.hub.inbound_days import Day, day_number
from trunkline.ports.records import Change, Delete, Record

# Agent and day.
Place = tuple[str, int]


class Ended(Struct, frozen=True, kw_only=True, gc=False):
    """The end of a turn that was admitted."""

    row: Row
    # When the message was admitted: the day that it counts for.
    admitted_ms: int
    # By the monotonic clock.
    ended_at: float


class Batch(Struct, eq=False):
    # The days that may change, as this chain has them.
    known: dict[Place, Day]
    bodies: list[bytes] = []
    changes: list[Change] = []
    # Whether it has all records of the outbox.
    is_last: bool = True
    # How many of the waiting rows and of the lost ones it takes.
    waiting: int = 0
    lost: int = 0
    # Outcomes whose attempt is not there yet, by the id of the attempt.
    held: dict[str, Ended] = {}
    # Those of `known` that it changes.
    days: dict[Place, Day] = {}

    def take(self, record: Record, row: Row) -> None:
        """Add a row of the outbox."""
        self.bodies.append(_body(record, row))
        self.changes.append(Delete(key=record.key, expected=record.version))
        if row.kind == "attempt":
            self._day(row.agent, row.at_ms).attempt(row)

    def take_over(
        self, record: Record, row: Row, chain: str, now_ms: int, *, is_abandoned: bool
    ) -> None:
        """Add a row of the outbox of a node that is gone. Only a node that stopped in order has
        written the outcomes of its attempts."""
        self.bodies.append(recovered(_body(record, row), chain))
        self.changes.append(Delete(key=record.key, expected=record.version))
        if row.kind == "attempt":
            day = self._day(row.agent, row.at_ms)
            day.attempt(row)
            outcome = self._interrupted(day, row.agent, row.id, chain, now_ms)
            if is_abandoned:
                self.bodies.append(outcome)

    def interrupt(self, day: Day, agent: str, chain: str, now_ms: int) -> None:
        """Add the outcomes of the open attempts of a node that is gone: it cannot tell them any
        more."""
        for id in [*day.open]:
            self.bodies.append(self._interrupted(day, agent, id, chain, now_ms))

    def _interrupted(self, day: Day, agent: str, id: str, chain: str, now_ms: int) -> bytes:
        seen = day.open[id]
        row = Row(
            kind="outcome",
            at_ms=now_ms,
            id=id,
            who=seen.who,
            agent=agent,
            task_id=seen.task_id,
            outcome=INTERRUPTED,
            recovered_from=chain,
        )
        day.end(row)
        return encode_row(row)

    def end(self, ended: Ended) -> None:
        """Add the outcome of an attempt, or hold it while there is no such attempt."""
        row = ended.row
        day = self._day(row.agent, ended.admitted_ms)
        if row.id in day.open:
            day.end(row)
            self.bodies.append(encode_row(row))
        else:
            self.held[row.id] = ended

    def add(self, row: Row) -> None:
        if row.kind == "refusal" and row.agent:
            self._day(row.agent, row.at_ms).refuse(row)
        self.bodies.append(encode_row(row))

    def _day(self, agent: str, at_ms: int) -> Day:
        place = (agent, day_number(at_ms))
        day = self.days.get(place)
        if day is None:
            day = self.days[place] = self.known[place]
        return day


def _body(record: Record, row: Row) -> bytes:
    return encode_row(row) if row.kind == "lost" else record.body
