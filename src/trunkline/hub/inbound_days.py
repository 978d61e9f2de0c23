"""`Day`: the figures of one agent and day for the inbound report, kept up to date with the audit.

Each chain has days of its own, which are changed in the same commit as its rows. A report adds up
the days of all chains, so it needs no look at the rows.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trunkline.hub.audit_rows import OK, Row
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
    # The agent that asked in the name of `who`.
    asked_by: str = ""

    @property
    def asker(self) -> str:
        """Who asked, for the report: an agent that asks in the name of a caller is the asker."""
        return self.asked_by or self.who


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
        seen = self.open[row.id] = _seen(row)
        self._ask(seen.asker, row.at_ms, 1)

    def end(self, row: Row) -> None:
        """The outcome of an attempt that is open."""
        seen = self.open.pop(row.id)
        is_ok = row.outcome == OK
        self.ok += is_ok
        if row.took_ms is not None:
            self.took_total_ms += row.took_ms
            self.took_count += 1
        reason = "" if is_ok else row.reason or row.outcome
        self._list(replace(seen, is_ok=is_ok, took_ms=row.took_ms, reason=reason))

    def refuse(self, row: Row) -> None:
        seen = _seen(row)
        self._ask(seen.asker, row.at_ms, row.count)
        self.denied += row.count
        self._list(seen)

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


def put_day(key: Key, day: Day, *, expected: int | None = None) -> Put:
    """A day with open attempts has the tag of its chain, to be found when the node is gone."""
    chain = key.id.partition("/")[2]
    return Put(
        key=key,
        body=_encode(day),
        due_in_ms=KEPT_MS,
        tags=(chain,) if day.open else (),
        expected=expected,
    )


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


def _seen(row: Row) -> Seen:
    return Seen(
        row.at_ms, row.who, row.task_id, row.question, reason=row.reason, asked_by=row.asked_by
    )
