"""`Figures`: how often agents were called, for their cards and for the registry."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct


class AgentFigures(Struct, frozen=True, kw_only=True):
    queries_today: int
    queries_all_time: int
    # None for an agent that was never called.
    last_query_ms: int | None = None


class Figures(Protocol):
    async def of(self, handles: Sequence[str]) -> Mapping[str, AgentFigures]:
        """The figures of each agent, as the store has them now. Raises StoreError."""
        ...
