"""`Slots`: how the nodes share the slots of agents, in one row per agent.

A node reads the row, decides by `engine.slot_shares`, and writes it back unless another node was
faster. Then it begins again.
"""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from trunkline.engine.slot_shares import NodeSlots, share
from trunkline.model.errors import StoreUnusable
from trunkline.ports.cluster import SlotRequest, SlotShare
from trunkline.stores.postgres.database import LastingConnection
from trunkline.stores.postgres.packing import byteas, int8s, texts
from trunkline.stores.statements import Statements

# Each failed attempt means that another node has succeeded.
_ATTEMPTS = 100

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(dict[str, NodeSlots]).decode


class Slots:
    def __init__(self, connection: LastingConnection, sql: Statements) -> None:
        self._connection = connection
        self._sql = sql
        # One call of this node after the other, so that none comes late.
        self._sharing = asyncio.Lock()

    async def share(self, node: int, requests: Sequence[SlotRequest]) -> Sequence[SlotShare]:
        """As `Cluster.share_slots`. Raises StoreUnusable."""
        shares: dict[str, SlotShare] = {}
        async with self._sharing:
            for _ in range(_ATTEMPTS):
                left = [each for each in requests if each.agent not in shares]
                if not left:
                    return [shares[each.agent] for each in requests]
                shares |= await self._try(node, left)
        raise StoreUnusable("Too many nodes ask for the slots of an agent at the same time.")

    async def _try(self, node: int, requests: Sequence[SlotRequest]) -> Mapping[str, SlotShare]:
        """The answers to those requests that no other node was faster with."""
        agents = texts([each.agent for each in requests])
        rows = await self._connection.run(self._sql["read_slots"], (agents,))
        shares: dict[str, SlotShare] = {}
        changed: list[tuple[str, int, bytes]] = []
        for request, (version, before, living, now_ms) in zip(requests, rows, strict=True):
            if node not in (living or ()):
                shares[request.agent] = SlotShare(0)
                continue
            slots = {name: each for name, each in _decode(before).items() if int(name) in living}
            shares[request.agent] = share(slots, str(node), request, now_ms=now_ms)
            if (after := _encode(slots)) != before:
                changed.append((request.agent, version, after))
        if changed:
            names, versions, bodies = zip(*changed, strict=True)
            params = (texts(names), int8s(versions), byteas(bodies))
            written = await self._connection.run(self._sql["write_slots"], params)
            for name in set(names) - {each for (each,) in written}:
                del shares[name]
        return shares
