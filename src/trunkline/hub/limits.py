"""`AgentLimiter`: budgets and rates of agents, counted where their tasks are stored.

The commit that accepts a message raises its counts, and the store refuses it if one of them would
exceed its limit. So no number of callers, at one node or at many, exceeds a budget. What a message
took comes back if its task ends before its first turn has begun (`runtime/reservations.py`).

The rate of a caller is counted in fixed windows: in records where several nodes share the store,
and in memory where one process has it to itself.
"""

import logging
from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from msgspec import Struct

from trunkline.hub import budgets
from trunkline.hub.agent_limits import AgentLimits
from trunkline.hub.budgets import Asker, Count
from trunkline.hub.rate_windows import RateWindows
from trunkline.model.calls import Refusal
from trunkline.model.errors import StoreError, Unavailable
from trunkline.model.values import TaskState
from trunkline.ports.clock import Clock
from trunkline.ports.gate import Admission, Attempt, Settles, Usage
from trunkline.ports.records import Add, Change, Group, Key, Put
from trunkline.ports.store import Store

_log = logging.getLogger("trunkline.hub")

_RETRY_AFTER_S: Final = 5
# How often the time of the last query is stored, per agent and node.
_LAST_MS: Final = 1000
# Memory of agents that were called today.
_MAX_AGENTS: Final = 200_000
_REFUSED: Final = frozenset({TaskState.REJECTED, TaskState.FAILED})


class Place(Struct, frozen=True):
    """Where the tasks of an agent are stored."""

    store: Store
    # Whether several nodes share the store.
    is_shared: bool


class LimitedAgents(Protocol):
    """The agents of the gateway, as the limits need them."""

    def limits_of(self, handle: str) -> AgentLimits | None:
        """None for an agent that has no limits of its own."""
        ...

    def place_of(self, handle: str) -> Place: ...

    @property
    def is_fresh(self) -> bool:
        """Whether memory is known to have the limits of the store."""
        ...

    async def renew(self) -> None:
        """Bring the limits in memory up to date, unless they are known to be. Raises StoreError."""
        ...


class _Plan(Struct, frozen=True):
    """What a message takes. Those of most agents are the same all day, for every caller."""

    day: str
    limits: AgentLimits | None
    counts: tuple[Count, ...]
    admission: Admission


class AgentLimiter:
    def __init__(
        self,
        *,
        clock: Clock,
        agents: LimitedAgents,
        rate_per_caller: int | None = None,
        rate_window_s: int = 60,
    ) -> None:
        """`rate_per_caller` is for agents that have no rate of their own."""
        self._clock = clock
        self._agents = agents
        self._default_rate = (rate_per_caller, rate_window_s)
        self._windows = RateWindows()
        self._plans: dict[str, _Plan] = {}
        # Counts that the store found too high. They are read before another message is accepted.
        self._full: set[Key] = set()
        # When a query of the agent was stored last.
        self._last_ms: dict[str, int] = {}
        self._day = (0, "")

    async def admit(self, attempt: Attempt) -> Admission | Refusal:
        try:
            await self._agents.renew()
        except StoreError as error:
            _log.warning("limits cannot be read", extra={"reason": error.message})
            raise Unavailable(
                "The gateway cannot read the limits of the agent now; try again later",
                retry_after_s=_RETRY_AFTER_S,
            ) from None
        plan = self._plan(attempt)
        refusal = await self._why_full(attempt, plan.counts)
        return self._decide(attempt, plan) if refusal is None else refusal

    def admit_at_once(self, attempt: Attempt) -> Admission | Refusal | None:
        if not self._agents.is_fresh:
            return None
        plan = self._plan(attempt)
        if self._full and any([count.key in self._full for count in plan.counts]):
            return None
        return self._decide(attempt, plan)

    def _plan(self, attempt: Attempt) -> _Plan:
        """What a message takes, by the limits in memory."""
        handle, now_ms = attempt.agent, self._clock.now_ms()
        limits, day = self._agents.limits_of(handle), self._today(now_ms)
        plan = self._plans.get(handle)
        if plan is None or plan.day != day or plan.limits is not limits:
            if len(self._plans) >= _MAX_AGENTS:
                self._plans.clear()
            counts = budgets.counts_of_agent(handle, limits, day)
            plan = self._plans[handle] = self._made(handle, limits, day, counts)
        further = self._further(attempt, limits, day)
        return plan if not further else self._made(handle, limits, day, (*plan.counts, *further))

    def _made(
        self, handle: str, limits: AgentLimits | None, day: str, counts: tuple[Count, ...]
    ) -> _Plan:
        admission = Admission(
            also=(Group(tuple([count.add for count in counts])),),
            why_limited=partial(self._why, handle, counts),
            returns=tuple([count.give_back for count in counts if count.of != "rate"]),
            settles=_settles(counts, limits),
        )
        return _Plan(day, limits, counts, admission)

    def _decide(self, attempt: Attempt, plan: _Plan) -> Admission | Refusal:
        refused = self._count_in_memory(attempt, plan.limits)
        if refused is not None:
            return refused
        handle, now_ms = attempt.agent, self._clock.now_ms()
        if abs(now_ms - self._last_ms.get(handle, 0)) >= _LAST_MS:
            return self._with_time(handle, plan.admission, now_ms)
        return plan.admission

    def settle(self, attempt: Attempt, usage: Usage) -> None:
        if usage.refusal is not None or (usage.ran_ms is None and usage.state in _REFUSED):
            # A message that was refused does not count, whoever refused it.
            self._windows.uncount(attempt.agent, attempt.principal.id, attempt.id)

    def _today(self, now_ms: int) -> str:
        number = now_ms // budgets.DAY_MS
        if self._day[0] != number:
            self._day = (number, budgets.day_of(now_ms))
            self._full.clear()
        return self._day[1]

    def _rate(self, limits: AgentLimits | None) -> tuple[int | None, int]:
        if limits is not None and limits.rate_per_caller is not None:
            return limits.rate_per_caller, limits.rate_window_s
        return self._default_rate

    def _further(self, attempt: Attempt, limits: AgentLimits | None, day: str) -> tuple[Count, ...]:
        """The counts that depend on the caller."""
        principal, handle = attempt.principal, attempt.agent
        rate, window_s = self._rate(limits)
        counts: tuple[Count, ...] = ()
        if limits is not None and (
            limits.daily_budget_per_caller is not None or limits.daily_budget_per_token is not None
        ):
            asker = Asker(principal.id, principal.token)
            counts = budgets.counts_of_asker(handle, limits, day, asker)
        if rate is not None and self._agents.place_of(handle).is_shared:
            at_ms = attempt.at_ms
            counts += (budgets.rate_count(handle, rate, window_s, at_ms, principal.id),)
        return counts

    def _count_in_memory(self, attempt: Attempt, limits: AgentLimits | None) -> Refusal | None:
        rate, window_s = self._rate(limits)
        if rate is None or self._agents.place_of(attempt.agent).is_shared:
            return None
        ends_s = budgets.window_end_s(attempt.at_ms, window_s)
        caller = attempt.principal.id
        if self._windows.count(attempt.agent, caller, attempt.id, ends_s=ends_s, at_most=rate):
            return None
        now_ms = self._clock.now_ms()
        return budgets.why_exceeded("rate", attempt.agent, rate, now_ms, ends_ms=ends_s * 1000)

    async def _why_full(self, attempt: Attempt, counts: tuple[Count, ...]) -> Refusal | None:
        """Read the counts that were too high, so that a message that has no room costs a read in
        place of a commit."""
        for count in counts:
            if count.key not in self._full:
                continue
            record = await self._agents.place_of(attempt.agent).store.record(count.key)
            spent = 0 if record is None else record.count
            if spent + count.amount > count.at_most:
                return self._why(attempt.agent, counts, count.key)
            self._full.discard(count.key)
        return None

    def _why(self, handle: str, counts: tuple[Count, ...], key: Hashable) -> Refusal:
        """The answer where this count has no room."""
        now_ms = self._clock.now_ms()
        for count in counts:
            if count.key == key:
                if len(self._full) >= _MAX_AGENTS:
                    self._full.clear()
                self._full.add(count.key)
                ends_ms = int(count.key.scope) * 1000 if count.of == "rate" else 0
                return budgets.why_exceeded(
                    count.of, handle, count.at_most, now_ms, ends_ms=ends_ms
                )
        return Refusal("limit_reached", "A limit of the agent is reached; try again later")

    def _with_time(self, handle: str, admission: Admission, now_ms: int) -> Admission:
        """Store the time of the query with it, at most once a second."""
        if len(self._last_ms) >= _MAX_AGENTS:
            self._last_ms.clear()
        self._last_ms[handle] = now_ms
        put = Put(key=Key(budgets.LAST, handle, ""), body=str(now_ms).encode())
        return Admission(
            (*admission.also, Group((put,), is_required=False)),
            admission.if_limited,
            admission.why_limited,
            admission.returns,
            admission.settles,
        )


def _settles(counts: tuple[Count, ...], limits: AgentLimits | None) -> Settles | None:
    cost = next((count for count in counts if count.of == "cost"), None)
    if cost is None or limits is None:
        return None
    return partial(_settle_cost, cost, limits)


def _settle_cost(
    cost: Count, limits: AgentLimits, metadata: Mapping[str, Any]
) -> tuple[Change, ...]:
    """Count what the turn cost in place of the estimate. Without a report the estimate stays."""
    spent = budgets.cost_of(metadata, limits.cost_unit)
    if spent is None or spent == cost.amount:
        return ()
    return (Add(key=cost.key, amount=spent - cost.amount, at_most=budgets.UNLIMITED),)
