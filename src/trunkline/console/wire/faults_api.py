"""`FaultsApi`: the routes by which operators inject faults into the answers of an agent."""

from collections.abc import Callable, Iterator
from typing import Final

from trunkline.api.api import Call, Route
from trunkline.console.wire.control import WireControl
from trunkline.console.wire.recorded_agents import AgentName, KnowsAgents, agent_of
from trunkline.model.errors import InvalidParams, PermissionDenied
from trunkline.model.timestamps import format_timestamp
from trunkline.ports.wire_log import Fault
from trunkline.ports.wire_views import FaultBody, FaultView

TEXTS: Final = {
    "FaultView.on": "Whether the agent has a fault now.",
    "FaultView.until": "When the fault ends; null without one.",
    "delayMs": "Milliseconds before an answer, and before each write of a stream.",
    "cutAfterEvents": "Close the connection of a stream after this many events; null never does.",
    "duplicateEvery": "Send every Nth event of a stream twice; 0 never does.",
    "seconds": "How long the fault lasts.",
}


class FaultsApi:
    def __init__(
        self, control: WireControl, agents: KnowsAgents, *, why_refused: Callable[[], str]
    ) -> None:
        """`why_refused` tells why this gateway takes no faults; empty if it does."""
        self._control = control
        self._agents = agents
        self._why_refused = why_refused

    def routes(self) -> Iterator[Route]:
        yield Route(
            method="GET",
            path="/agents/{id}/fault",
            name="get_fault",
            summary="Tell which fault an operator has injected into the answers of an agent.",
            description="For operators.",
            handle=self._get,
            result=FaultView,
            texts=TEXTS,
        )
        yield Route(
            method="PUT",
            path="/agents/{id}/fault",
            name="set_fault",
            summary="Inject a fault into the answers of an agent, for a while.",
            description="To try how a client copes with slow answers, streams that break off and "
            "events that come twice. It takes the place of an earlier fault. For operators, on "
            "gateways that listen on loopback.",
            handle=self._put,
            body=FaultBody,
            result=FaultView,
            texts=TEXTS,
        )
        yield Route(
            method="DELETE",
            path="/agents/{id}/fault",
            name="delete_fault",
            summary="End the fault of an agent.",
            description="For operators.",
            handle=self._delete,
            texts=TEXTS,
        )

    async def _agent(self, call: Call) -> AgentName:
        call.require_operator()
        return await agent_of(self._agents, call.path["id"])

    async def _get(self, call: Call) -> FaultView:
        return self._view((await self._agent(call)).handle)

    async def _put(self, call: Call) -> FaultView:
        call.require_operator()
        why = self._why_refused()
        if why:
            raise PermissionDenied(why)
        body: FaultBody = call.body
        agent = await agent_of(self._agents, call.path["id"])
        fault = Fault(
            delay_ms=body.delay_ms,
            cut_after_events=body.cut_after_events,
            duplicate_every=body.duplicate_every,
        )
        if fault == Fault():
            raise InvalidParams.at("delayMs", "name a delay, a cut or a repetition")
        self._control.inject(agent.handle, fault, seconds=body.seconds)
        return self._view(agent.handle)

    async def _delete(self, call: Call) -> None:
        self._control.heal((await self._agent(call)).handle)

    def _view(self, handle: str) -> FaultView:
        injection = self._control.fault_of(handle)
        if injection is None or injection.fault is None:
            return FaultView(on=False)
        fault = injection.fault
        return FaultView(
            on=True,
            delay_ms=fault.delay_ms,
            cut_after_events=fault.cut_after_events,
            duplicate_every=fault.duplicate_every,
            until=format_timestamp(injection.until_ms),
        )
