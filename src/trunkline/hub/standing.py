"""`AgentStanding`: what the registry says of one of its agents at the moment of a request."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from trunkline.hub.agents import AgentRow
from trunkline.model.errors import RouteNotFound
from trunkline.runtime.record_changes import RecordChanges

# The name and the JSON of the member that the cards of the hub have more than others.
CardBlock: TypeAlias = Callable[[AgentRow], Awaitable[tuple[str, bytes] | None]]


class Rows(Protocol):
    changes: RecordChanges

    def at(self, handle: str) -> AgentRow | None: ...


class AgentStanding:
    """It implements `ports.directory.Standing`."""

    def __init__(self, rows: Rows, key: str, card_block: CardBlock) -> None:
        self._rows = rows
        self._key = key
        self._card_block = card_block

    @property
    def _row(self) -> AgentRow | None:
        row = self._rows.at(self._key)
        return row if row is not None and row.is_published else None

    @property
    def is_private(self) -> bool:
        row = self._row
        return row is None or row.visibility == "private"

    @property
    def is_open(self) -> bool:
        return not self.is_private

    @property
    def is_listed(self) -> bool:
        row = self._row
        return row is not None and row.visibility == "public"

    @property
    def is_fresh(self) -> bool:
        return self._rows.changes.is_fresh and self._row is not None

    async def renew(self) -> None:
        if not self._rows.changes.is_fresh:
            await self._rows.changes.look()
        if self._row is None:
            raise RouteNotFound("The agent is not published any more")

    async def card_block(self) -> tuple[str, bytes] | None:
        row = self._row
        return None if row is None else await self._card_block(row)
