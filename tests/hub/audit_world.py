"""A runtime whose turns are audited, and what its audit says."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.runtime.world import World

from trunkline.hub.audit import AuditTrail
from trunkline.hub.audit_keeper import AuditKeeper
from trunkline.hub.audit_reading import AuditReader, Records
from trunkline.hub.audit_rows import Line
from trunkline.hub.audit_verify import Verified, verify
from trunkline.hub.audit_writer import AuditWriter
from trunkline.hub.chain_writer import ChainWriter
from trunkline.hub.gate import HubGate
from trunkline.hub.inbound import Inbound, InboundReport
from trunkline.hub.redaction import Redaction
from trunkline.model.calls import Refusal
from trunkline.ports.cluster import Cluster
from trunkline.ports.gate import Admission, Attempt, Usage
from trunkline.ports.store import Store
from trunkline.runtime.outbox import MainStore
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock, SequentialIds, settle


class Limits:
    """Refuses what begins with a word, and adds to the commit of what it admits."""

    def __init__(self) -> None:
        self.also: Callable[[Attempt], Admission] = lambda _: Admission()

    async def admit(self, attempt: Attempt) -> Admission | Refusal:
        text = attempt.message.parts[0].text or ""
        if text.startswith("refuse-at-gate"):
            return Refusal("budget_exhausted", "The budget is used up")
        return self.also(attempt)

    def admit_at_once(self, attempt: Attempt) -> Admission | Refusal | None:
        return None

    def settle(self, attempt: Attempt, usage: Usage) -> None:
        pass


class Audited:
    """One process: the runtime and its part of the audit."""

    def __init__(
        self,
        store: Store | None = None,
        *,
        clock: FakeClock | None = None,
        node: str = "one",
        keep_days: float = 0,
        redaction: Redaction | None = None,
        cluster: Cluster | None = None,
        way: MainStore | None = None,
        **world: Any,
    ) -> None:
        self.clock = clock or FakeClock()
        self.store = store if store is not None else MemoryStore(self.clock)
        self.is_shared = cluster is not None
        self.limits = Limits()
        chain = ChainWriter(clock=self.clock, ids=SequentialIds(f"chain-{node}"))
        self.writer = AuditWriter(chain, self.clock)
        self.trail = AuditTrail(
            self.writer,
            self.clock,
            into_main=lambda _, scope, put: (put,) if way is None else way.changes(scope, put),
            redaction=redaction,
        )
        self.keeper = AuditKeeper(self.writer, self.clock, keep_days=keep_days)
        self.world = World(
            store=self.store,
            clock=self.clock,
            node=node,
            gate=HubGate(limits=self.limits, audit=self.trail),
            cluster=cluster,
            **world,
        )

    async def open(self) -> None:
        await self.world.open()
        await self.writer.open(self.store)
        await self.keeper.open(is_shared=self.is_shared)

    async def close(self) -> None:
        await self.world.callers.close()
        await self.world.runtime.drain(grace_s=0)
        await self.keeper.close()
        await self.writer.close()
        await self.keeper.leave()
        await self.world.close()

    async def vanish(self) -> None:
        """Be gone without a word, as after kill -9."""
        await self.writer._tasks.close()
        await self.keeper.close()
        await self.world.vanish()

    async def rows(self) -> list[Line]:
        return await rows_of(self.store)

    async def report(self, *, days: int = 7) -> InboundReport:
        inbound = Inbound(self.clock)
        inbound.store = self.store
        return await inbound.report("test/agent", days=days)


@asynccontextmanager
async def audited(store: Store | None = None, **options: Any) -> AsyncIterator[Audited]:
    made = Audited(store, **options)
    await made.open()
    try:
        yield made
    finally:
        await made.close()
    await settle()


async def rows_of(store: Records) -> list[Line]:
    return [line async for _, line, _ in AuditReader(store).stored()]


async def sound(store: Records) -> Verified:
    found = await verify(store)
    assert found.faults == ()
    return found


def said(rows: Sequence[Line]) -> list[tuple[str, str]]:
    """Kind and outcome or reason of each row."""
    return [(row.kind, row.outcome or row.reason or row.action) for row in rows]
