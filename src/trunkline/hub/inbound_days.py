"""`Day`: the figures of one agent and day for the inbound report, kept up to date with the audit.

Each chain has days of its own, which are changed in the same commit as its rows. A report adds up
the days of all chains, so it needs no look at the rows.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from msgspec import Struct

from trunkline.hub.audit_rows import INTERRUPTED, OK, Row
from trunkline.ports.records import Key, Put

# The scope is the handle of the agent, the id is the day and the chain.
DAY: Final = "audit-day.1"
DAY_MS: Final = 86_400_000
# The longest report is 30 days; one more, because it begins within a day.
KEPT_MS: Final = 32 * DAY_MS
MAX_RECENT: Final = 50
# Beyond this number in a day, askers are counted together.
MAX_ASKERS: Final = 1000
OTHERS: Final = "(others)"
TOP_ASKERS: Final = 10
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Asker(Struct, array_like=True, gc=False):
    count: int = 0
    last_ms: int = 0


class Seen(Struct, frozen=True, array_like=True, gc=False):
    """One attempt in the list of recent ones."""

    at_ms: int
    who: str
    task_id: str
    question: str = ""
    is_ok: bool = False
    took_ms: int | None = None
    reason: str = ""


class Day(Struct, omit_defaults=True):
    total: int = 0
    ok: int = 0
    denied: int = 0
    took_total_ms: int = 0
    took_count: int = 0
    askers: dict[str, Asker] = {}
    recent: list[Seen] = []
    # Attempts without an outcome, by their ids.
    open: dict[str, Seen] = {}

    def attempt(self, row: Row) -> None:
        self._ask(_asker(row), row.at_ms, 1)
        self.open[row.id] = Seen(row.at_ms, _asker(row), row.task_id, row.question)

    def end(self, row: Row) -> None:
        """The outcome of an attempt that is open."""
        seen = self.open.pop(row.id)
        is_ok = row.outcome == OK
        self.ok += is_ok
        if row.took_ms is not None:
            self.took_total_ms += row.took_ms
            self.took_count += 1
        self._list(
            Seen(
                seen.at_ms,
                seen.who,
                seen.task_id,
                seen.question,
                is_ok,
                row.took_ms,
                "" if is_ok else row.reason or row.outcome,
            )
        )

    def refuse(self, row: Row) -> None:
        self._ask(_asker(row), row.at_ms, row.count)
        self.denied += row.count
        self._list(Seen(row.at_ms, _asker(row), row.task_id, row.question, reason=row.reason))

    def interrupted(self) -> list[Seen]:
        """The open attempts of a node that is gone."""
        return [msgspec.structs.replace(seen, reason=INTERRUPTED) for seen in self.open.values()]

    def _ask(self, who: str, at_ms: int, count: int) -> None:
        self.total += count
        asker = self.askers.get(who)
        if asker is None:
            if len(self.askers) >= MAX_ASKERS:
                who = OTHERS
            asker = self.askers.setdefault(who, Asker())
        asker.count += count
        asker.last_ms = max(asker.last_ms, at_ms)

    def _list(self, seen: Seen) -> None:
        self.recent.append(seen)
        if len(self.recent) > MAX_RECENT:
            del self.recent[0]


_encode = msgspec.json.Encoder().encode
decode_day = msgspec.json.Decoder(Day).decode


def day_number(at_ms: int) -> int:
    return at_ms // DAY_MS


def date_of(number: int) -> str:
    return (_EPOCH + timedelta(days=number)).date().isoformat()


def day_key(agent: str, number: int, chain: str) -> Key:
    return Key(DAY, agent, f"{date_of(number)}/{chain}")


def put_day(key: Key, day: Day) -> Put:
    return Put(key=key, body=_encode(day), due_in_ms=KEPT_MS)


def chain_of_day(key: Key) -> str:
    return key.id.partition("/")[2]


def added_up(days: Iterable[Day]) -> Day:
    """The figures of several days as those of one, with the most recent attempts first."""
    total = Day()
    for day in days:
        total.total += day.total
        total.ok += day.ok
        total.denied += day.denied
        total.took_total_ms += day.took_total_ms
        total.took_count += day.took_count
        for who, asker in day.askers.items():
            known = total.askers.setdefault(who, Asker())
            known.count += asker.count
            known.last_ms = max(known.last_ms, asker.last_ms)
        total.recent += day.recent
    total.recent.sort(key=lambda seen: seen.at_ms, reverse=True)
    del total.recent[MAX_RECENT:]
    return total


def _asker(row: Row) -> str:
    """Who asked, for the report: an agent that asks in the name of a caller is the asker."""
    return row.asked_by or row.who
