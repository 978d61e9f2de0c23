"""`Peers`: the remote agents that the tool calls; `PeerCards`: the cards of the configured ones."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from trunkline.ports.clock import Clock
from trunkline.remote.agents import Peer
from trunkline.remote.errors import RemoteError
from trunkline.remote.target import Target
from trunkline.remote.tool.catalog import RefreshedCard
from trunkline.remote.tool.config import ToolConfig
from trunkline.remote.tool.failures import ToolFailure, from_remote_error
from trunkline.remote.tool.limits import Limit, bounded

# One silent peer must not delay the list of all the others for as long as a send may take.
MOST_S: Final = 15.0


class Peers(Protocol):
    """All remote agents, such as `Agents`."""

    def at(
        self, target: Target, *, headers: Mapping[str, str] = ..., timeout_s: float = ...
    ) -> Peer:
        """`headers` go with every request, after those of the target itself."""
        ...


class PeerCards:
    """A failed refresh keeps the last card; the next caller tries again."""

    def __init__(self, peers: Peers, config: ToolConfig, clock: Clock) -> None:
        self._peers = peers
        self._config = config
        self._clock = clock
        self._seen: dict[str, RefreshedCard] = {}
        self._asking: dict[str, asyncio.Future[RefreshedCard]] = {}

    async def refreshed(self, targets: Sequence[Target]) -> list[RefreshedCard]:
        """All at once, and each peer once, however many ask at the same time."""
        return await asyncio.gather(*[self._refreshed(target) for target in targets])

    async def _refreshed(self, target: Target) -> RefreshedCard:
        while (under_way := self._asking.get(target.alias)) is not None:
            await asyncio.wait([under_way])
            if not under_way.cancelled():
                return under_way.result()
        answer: asyncio.Future[RefreshedCard] = asyncio.get_running_loop().create_future()
        self._asking[target.alias] = answer
        try:
            seen = self._seen[target.alias] = await self._ask(target)
            answer.set_result(seen)
            return seen
        finally:
            del self._asking[target.alias]
            # If the caller that asked was cancelled, those that joined ask again.
            answer.cancel()

    async def _ask(self, target: Target) -> RefreshedCard:
        known = self._seen.get(target.alias, RefreshedCard())
        limit_s = min(self._config.defaults.timeout_ms / 1000, MOST_S)
        try:
            peer = self._peers.at(target, timeout_s=limit_s)
            limit = Limit(self._clock, idle_s=limit_s)
            card = await bounded(lambda: peer.card(fresh=True), limit)
        except RemoteError as error:
            return replace(known, error=from_remote_error(error))
        except ToolFailure as failure:
            return replace(known, error=failure)
        return RefreshedCard(card=card, at_ms=self._clock.now_ms())
