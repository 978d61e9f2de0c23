"""`AgentCardBlock`: the member of an agent's card that says how the hub offers the agent."""

from collections.abc import Awaitable, Callable
from typing import Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from trunkline.hub.agents import AgentRow, isolation_note
from trunkline.hub.figures import Figures

NAMES: Final = {"trunkline": "_trunkline", "clawborrator": "_clawborrator"}


class Block(Struct, frozen=True, kw_only=True, rename="camel"):
    handle: str
    owner_login: str
    queries_today: int | UnsetType = UNSET
    daily_budget: int
    online: bool
    isolated: bool
    isolation_note: str


class AgentCardBlock:
    """Made for each card that is read, because its figures are those of the moment."""

    def __init__(
        self,
        style: Literal["trunkline", "clawborrator"],
        *,
        is_online: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._name = NAMES[style]
        self._is_online = is_online
        # None for a hub that counts no queries.
        self.figures: Figures | None = None

    async def __call__(self, row: AgentRow) -> tuple[str, bytes]:
        today: int | UnsetType = UNSET
        if self.figures is not None:
            found = (await self.figures.of((row.handle,))).get(row.handle)
            today = 0 if found is None else found.queries_today
        block = Block(
            handle=row.handle,
            owner_login=row.owner,
            queries_today=today,
            daily_budget=row.limits.daily_budget_queries,
            online=await self._is_online(row.handle),
            isolated=row.isolated,
            isolation_note=isolation_note(row),
        )
        return self._name, msgspec.json.encode(block)
