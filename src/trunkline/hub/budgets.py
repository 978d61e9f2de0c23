"""`counts_of`: the counts that one message raises, with the limit of each. Everything here is pure.

Counts are records, whose scope begins with the time that they are for. So the oldest come first in
the store, and those of days that are over are found without a look at the others.
"""

import hashlib
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

from msgspec import Struct

from trunkline.hub.agent_limits import AgentLimits
from trunkline.model.calls import Refusal
from trunkline.ports.records import Add, Key

# Scope: the day of UTC, such as `2026-11-18`. Id: the handle, and behind a space whose part of the
# budget it is.
BUDGET: Final = "budget.1"
# The same for cost units.
COST: Final = "cost.1"
# Scope: the second in which the window ends. Id: handle, length of the window and caller.
RATE: Final = "rate.1"
# The queries of an agent, which is the scope, on days whose own counts are deleted.
EARLIER: Final = "queries.1"
# When an agent was called last, in milliseconds.
LAST: Final = "last-query.1"

# For a count that has no limit.
UNLIMITED: Final = 1 << 60
DAY_MS: Final = 86_400_000
# A task may wait in a queue for days before it gives its query back, and a clock may be set back.
KEEP_DAYS: Final = 3
_MAX_ID_CHARS: Final = 160
# No turn costs more; a larger number is a mistake of the backend.
_MAX_COST: Final = 1e15

Of = Literal["agent", "caller", "token", "cost", "rate"]


class Count(Struct, frozen=True):
    """A count that a message raises."""

    of: Of
    key: Key
    at_most: int
    amount: int = 1

    @property
    def add(self) -> Add:
        return Add(key=self.key, amount=self.amount, at_most=self.at_most)

    @property
    def give_back(self) -> Add:
        return Add(key=self.key, amount=-self.amount, at_most=UNLIMITED)


class Asker(Struct, frozen=True):
    """The caller of a message: each caller has a budget of its own."""

    caller: str
    # The public id of the credential; empty for one without a name of its own.
    token: str = ""


def day_of(now_ms: int) -> str:
    """The day of UTC."""
    return datetime.fromtimestamp(now_ms // 1000, UTC).strftime("%Y-%m-%d")


def seconds_of_day_left(now_ms: int) -> int:
    return math.ceil((DAY_MS - now_ms % DAY_MS) / 1000)


def counts_of_agent(handle: str, limits: AgentLimits | None, day: str) -> tuple[Count, ...]:
    """The counts that every message to the agent raises. `limits` is None for an agent without
    limits, whose queries are counted too."""
    at_most = UNLIMITED if limits is None else limits.daily_budget_queries
    counts = (Count("agent", Key(BUDGET, day, handle), at_most),)
    if limits is None or limits.daily_budget_cost is None:
        return counts
    cost = Count("cost", Key(COST, day, handle), limits.daily_budget_cost, limits.cost_estimate)
    return (*counts, cost)


def counts_of_asker(
    handle: str, limits: AgentLimits | None, day: str, asker: Asker
) -> tuple[Count, ...]:
    """The counts of the caller and of its credential."""
    counts: list[Count] = []
    if limits is None:
        return ()
    if limits.daily_budget_per_caller is not None:
        key = Key(BUDGET, day, f"{handle} caller {short(asker.caller)}")
        counts.append(Count("caller", key, limits.daily_budget_per_caller))
    if limits.daily_budget_per_token is not None:
        token = asker.token or asker.caller
        key = Key(BUDGET, day, f"{handle} token {short(token)}")
        counts.append(Count("token", key, limits.daily_budget_per_token))
    return tuple(counts)


def days_kept(now_ms: int) -> tuple[str, ...]:
    """The days whose counts are kept, today first."""
    return tuple([day_of(now_ms - days * DAY_MS) for days in range(KEEP_DAYS + 1)])


def window_end_s(at_ms: int, window_s: int) -> int:
    """The second in which the window of this moment ends. Windows begin with 1970."""
    return (at_ms // 1000 // window_s + 1) * window_s


def rate_count(handle: str, rate: int, window_s: int, at_ms: int, caller: str) -> Count:
    """The count of a caller in the window of this moment."""
    key = Key(RATE, f"{window_end_s(at_ms, window_s):012d}", f"{handle} {window_s} {short(caller)}")
    return Count("rate", key, rate)


def short(name: str) -> str:
    """A name that fits into a key."""
    if len(name) <= _MAX_ID_CHARS:
        return name
    return f"{name[:40]}~{hashlib.sha256(name.encode()).hexdigest()}"


def why_exceeded(of: Of, handle: str, at_most: int, now_ms: int, *, ends_ms: int = 0) -> Refusal:
    """The answer to a message for which a count has no room. `ends_ms` is the end of the window of
    a rate."""
    if of == "rate":
        wait_s = max(1, math.ceil((ends_ms - now_ms) / 1000))
        text = (
            f"You may send agent @{handle} {at_most} queries in this window; the next one begins "
            f"in {wait_s} s"
        )
        return Refusal("rate_limited", text, wait_s)
    wait_s = seconds_of_day_left(now_ms)
    if of == "agent":
        text = (
            f"The daily budget of agent @{handle} is used up ({at_most}); it begins anew at "
            "midnight UTC"
        )
        return Refusal("budget_exhausted", text, wait_s, limit=at_most)
    texts: dict[Of, str] = {
        "caller": f"Your daily budget for agent @{handle} is used up ({at_most} queries)",
        "token": f"The daily budget of this credential for agent @{handle} is used up ({at_most} "
        "queries)",
        "cost": f"The daily cost budget of agent @{handle} is used up ({at_most} units)",
    }
    return Refusal("budget_exhausted", f"{texts[of]}; it begins anew at midnight UTC", wait_s)


def cost_of(metadata: Mapping[str, Any], unit: Literal["tokens", "micro_usd"]) -> int | None:
    """The cost of a turn in units, by the usage that its backend reports; None if it reports
    none."""
    usage = metadata.get("usage")
    if not isinstance(usage, Mapping):
        return None
    if unit == "micro_usd":
        dollars = _number(usage.get("costUsd"))
        return None if dollars is None else math.ceil(dollars * 1_000_000)
    total = _number(usage.get("totalTokens"))
    if total is None:
        parts = [_number(usage.get(name)) for name in ("inputTokens", "outputTokens")]
        known = [part for part in parts if part is not None]
        total = sum(known) if known else None
    return None if total is None else math.ceil(total)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _MAX_COST else None
