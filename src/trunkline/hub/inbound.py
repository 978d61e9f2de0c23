"""`Inbound`: the report of who has called an agent in the last days."""

import msgspec
from msgspec import Struct

from trunkline.hub.inbound_days import (
    DAY,
    DAY_MS,
    TOP_ASKERS,
    Day,
    Seen,
    added_up,
    date_of,
    day_number,
    decode_day,
)
from trunkline.model.principal import ANONYMOUS
from trunkline.model.timestamps import format_timestamp
from trunkline.ports.clock import Clock
from trunkline.ports.records import Key, Record
from trunkline.ports.store import Store

PUBLIC = "(public)"
_PERSON = "user:"
_PAGE = 50


class Window(Struct, frozen=True, kw_only=True, rename="camel"):
    days: int
    # The beginning of the first day, in UTC.
    since: str


class Summary(Struct, frozen=True, kw_only=True, rename="camel"):
    total: int
    ok: int
    denied: int
    # None where no call has ended.
    avg_latency_ms: int | None
    # Beyond a thousand in a day, further ones count as one.
    distinct_askers: int


class TopAsker(Struct, frozen=True, kw_only=True, rename="camel"):
    login: str
    count: int
    last_at: str


class RecentCall(Struct, frozen=True, kw_only=True, rename="camel"):
    ts: str
    asker_login: str
    ok: bool
    latency_ms: int | None
    # None where the audit keeps no questions.
    question: str | None
    # The id of the task; None for a call that was refused before it had one.
    route_id: str | None
    # Why it was denied, or did not succeed.
    denied_reason: str | None


class InboundDay(Struct, frozen=True, kw_only=True, rename="camel"):
    """The figures of one day of UTC."""

    date: str
    total: int
    ok: int
    denied: int
    avg_latency_ms: int | None


class InboundReport(Struct, frozen=True, kw_only=True, rename="camel"):
    window: Window
    summary: Summary
    # Every day of the window, the oldest first.
    daily: list[InboundDay]
    top_askers: list[TopAsker]
    recent: list[RecentCall]


class Inbound:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Set when the hub is open.
        self.store: Store | None = None

    async def report(self, agent: str, *, days: int) -> InboundReport:
        """Today and the days before it, in UTC. Raises StoreError."""
        first = day_number(self._clock.now_ms()) - days + 1
        found = await self._days(agent, first)
        total = added_up(day for _, day in found)
        askers: dict[str, TopAsker] = {}
        for who, asker in total.askers.items():
            login = login_of(who)
            known = askers.get(login)
            count, last_ms = asker.count, asker.last_ms
            last_at = format_timestamp(last_ms)
            if known is not None:
                count, last_at = count + known.count, max(last_at, known.last_at)
            askers[login] = TopAsker(login=login, count=count, last_at=last_at)
        top = sorted(askers.values(), key=lambda each: (-each.count, each.login))[:TOP_ASKERS]
        dates = [date_of(first + each) for each in range(days)]
        return InboundReport(
            window=Window(days=days, since=format_timestamp(first * DAY_MS)),
            summary=Summary(
                total=total.total,
                ok=total.ok,
                denied=total.denied,
                avg_latency_ms=_average(total),
                distinct_askers=len(askers),
            ),
            daily=[
                _daily(date, added_up(day for of, day in found if of == date)) for date in dates
            ],
            top_askers=top,
            recent=[_recent(seen) for seen in total.recent],
        )

    async def _days(self, agent: str, first: int) -> list[tuple[str, Day]]:
        """The days of all chains, with their dates."""
        assert self.store is not None, "the hub is not open"
        found: list[tuple[str, Day]] = []
        # The id of a day is its date and a chain, so a date alone comes before all of them.
        after = Key(DAY, agent, date_of(first))
        while True:
            page = await self.store.records(DAY, scope=agent, after=after, limit=_PAGE)
            found += [(record.key.id.partition("/")[0], _decoded(record)) for record in page]
            if len(page) < _PAGE:
                return found
            after = page[-1].key


def _average(day: Day) -> int | None:
    return round(day.took_total_ms / day.took_count) if day.took_count else None


def _daily(date: str, day: Day) -> InboundDay:
    return InboundDay(
        date=date,
        total=day.total,
        ok=day.ok,
        denied=day.denied,
        avg_latency_ms=_average(day),
    )


def login_of(who: str) -> str:
    """The name of an asker: that of a person, or the id of another principal."""
    if who in ("", ANONYMOUS.id):
        return PUBLIC
    return who.removeprefix(_PERSON)


def _recent(seen: Seen) -> RecentCall:
    return RecentCall(
        ts=format_timestamp(seen.at_ms),
        asker_login=login_of(seen.asker),
        ok=seen.is_ok,
        latency_ms=seen.took_ms,
        question=seen.question or None,
        route_id=seen.task_id or None,
        denied_reason=seen.reason or None,
    )


def _decoded(record: Record) -> Day:
    try:
        return decode_day(record.body)
    except msgspec.DecodeError:
        # The rows themselves are in the chain.
        return Day()
