"""`AuditParts`: the audit of the hub, with what it needs of the gateway."""

from collections.abc import Sequence

from starlette.requests import Request as AsgiRequest

from trunkline.app.directory import AgentDirectory
from trunkline.app.runtimes import Runtimes
from trunkline.clock import Uuid7Ids
from trunkline.engine.agent_calls import CallRefused
from trunkline.hub.agent_views import configured_id
from trunkline.hub.agents import may_know
from trunkline.hub.audit import AuditTrail
from trunkline.hub.audit_api import AuditApi
from trunkline.hub.audit_keeper import NODE, AuditKeeper
from trunkline.hub.audit_writer import AuditWriter
from trunkline.hub.chain_writer import ChainWriter
from trunkline.hub.inbound import Inbound
from trunkline.hub.inbound_days import DAY
from trunkline.hub.redaction import Redaction
from trunkline.hub.registry import Registry
from trunkline.hub.sign_in_codes import CodeRefused
from trunkline.model.calls import Operation
from trunkline.model.errors import (
    PermissionDenied,
    TooManyRequests,
    TrunklineError,
    Unauthenticated,
)
from trunkline.model.principal import Principal
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change, Put, Record
from trunkline.protocol.errors import wire
from trunkline.routing.callers import CallingTurn
from trunkline.runtime.due_work import DueKind
from trunkline.runtime.runtime import Runtime
from trunkline.server.http import Request
from trunkline.settings.hub_audit import HubAuditSettings

_MAX_PATH_CHARS = 200


class AuditParts:
    def __init__(self, settings: HubAuditSettings, *, clock: Clock) -> None:
        self.writer = AuditWriter(ChainWriter(clock=clock, ids=Uuid7Ids()), clock)
        self.trail = AuditTrail(
            self.writer,
            clock,
            into_main=self._into_main,
            redaction=Redaction(settings.redact) if settings.keep_questions else None,
        )
        self._keeper = AuditKeeper(self.writer, clock, keep_days=settings.retention_days)
        self._clock = clock
        self._inbound = Inbound(clock)
        self._runtimes: Runtimes | None = None
        self._directory: AgentDirectory | None = None
        self._registry: Registry | None = None

    def due_kinds(self) -> Sequence[DueKind]:
        """The due work of the main store."""
        return (
            DueKind(name=NODE, handle=self._keeper.presume_dead),
            DueKind(name=DAY, handle=_forget),
        )

    def connect(self, directory: AgentDirectory, registry: Registry) -> AuditApi:
        self._directory, self._registry = directory, registry
        return AuditApi(self._inbound, self._find, clock=self._clock, flush=self.writer.flush)

    async def open(self, runtimes: Runtimes, main: Runtime) -> None:
        """Raises StoreError."""
        self._runtimes = runtimes
        store = self._inbound.store = await main.main.open()
        await self.writer.open(store)
        await self._keeper.open(is_shared=main.is_shared)

    async def close(self) -> None:
        await self._keeper.close()
        await self.writer.close()
        await self._keeper.leave()

    def turned_away(self, request: Request, agent: str, operation: str, reason: str) -> None:
        """A request to an agent was refused before the gate could record it."""
        self.trail.turned_away(
            source=request.peer,
            who=request.caller,
            agent=agent,
            operation=operation,
            reason=reason,
        )

    def agent_call(self, event: str, turn: CallingTurn, callee: str) -> None:
        """An agent has asked another one, or was not allowed to. A call that was sent is an attempt
        like any other, whose row the gate writes."""
        if event != "invocation":
            self.trail.turned_away(
                source="",
                who="" if turn.principal is None else turn.principal.id,
                agent=callee,
                operation=Operation.SEND_MESSAGE.value,
                reason=event,
                asked_by=turn.agent,
            )

    def refused_by_api(
        self, request: AsgiRequest, principal: Principal | None, error: TrunklineError
    ) -> None:
        """The interface of the hub refused a request. Only those that its caller may not make are
        rows: another wrong request is no attempt at anything."""
        if isinstance(error.__cause__, CallRefused):
            return  # `agent_call` has written its row.
        if isinstance(error, CodeRefused):
            self._refused(request, "", "invalid_grant")
        elif isinstance(error, Unauthenticated | PermissionDenied | TooManyRequests):
            who = "" if principal is None else principal.id
            self._refused(request, who, wire(error).reason.lower())

    def refused_by_token_endpoint(self, request: AsgiRequest, reason: str) -> None:
        self._refused(request, "", reason)

    def _refused(self, request: AsgiRequest, who: str, reason: str) -> None:
        self.trail.turned_away(
            source="" if request.client is None else request.client.host,
            who=who,
            operation=f"{request.method} {request.url.path[:_MAX_PATH_CHARS]}",
            reason=reason,
        )

    def _into_main(self, agent: str, scope: str, put: Put) -> tuple[Change, ...]:
        main = None if self._runtimes is None else self._runtimes.main_of(agent)
        return (put,) if main is None else main.changes(scope, put)

    async def _find(self, agent_id: str, caller: Principal) -> str | None:
        assert self._registry is not None
        assert self._directory is not None
        await self._registry.current()
        row = self._registry.find(agent_id)
        if row is not None:
            return row.handle if may_know(row, caller) else None
        for listed in self._directory.list():
            if configured_id(listed.handle) == agent_id:
                return listed.handle
        return None


async def _forget(_: Record) -> Sequence[Change]:
    """Due work deletes a record for which its handler has no change."""
    return ()
