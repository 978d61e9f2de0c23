"""`AuditApi`: the route of the inbound report, which tells an owner who has called an agent."""

from collections.abc import Iterator
from typing import Annotated, Final, Protocol

from msgspec import Meta, Struct

from trunkline.api.api import Call, Route
from trunkline.hub.inbound import Inbound, InboundReport
from trunkline.model.errors import PermissionDenied, RouteNotFound
from trunkline.model.principal import Principal, manages

MAX_DAYS: Final = 30


class InboundQuery(Struct, frozen=True, kw_only=True, rename="camel"):
    days: Annotated[int, Meta(ge=1, le=MAX_DAYS)] = 7


class FindAgent(Protocol):
    async def __call__(self, agent_id: str, caller: Principal) -> str | None:
        """The handle of the agent; None for one that the caller may not know. Raises StoreError."""
        ...


class AuditApi:
    def __init__(self, inbound: Inbound, find: FindAgent) -> None:
        self._inbound = inbound
        self._find = find

    def routes(self) -> Iterator[Route]:
        yield Route(
            method="GET",
            path="/agents/{id}/inbound",
            name="get_inbound",
            summary="Report who has called an agent in the last days, and how that ended.",
            handle=self._report,
            query=InboundQuery,
            result=InboundReport,
        )

    async def _report(self, call: Call) -> InboundReport:
        handle = await self._find(call.path["id"], call.caller)
        if handle is None:
            raise RouteNotFound("There is no such agent")
        if not manages(call.caller, handle.partition("/")[0]):
            raise PermissionDenied("Only those who manage the agent may see who calls it")
        query: InboundQuery = call.query
        return await self._inbound.report(handle, days=query.days)
