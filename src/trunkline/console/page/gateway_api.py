"""`GatewayApi`: what the gateway is and can do, for the page."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from trunkline.api.api import Call, Route
from trunkline.api.gateway_view import GatewayView, NodeList, NodeView, SignIn, Visiting
from trunkline.model.principal import OPERATOR
from trunkline.protocol.versions import Version
from trunkline.version import VERSION


class GatewayFacts(Struct, frozen=True, kw_only=True):
    sign_in: SignIn
    hub: bool
    features: dict[str, bool]
    public_url: str
    store: str
    nodes: int
    problems: list[str]
    anonymous: bool
    faults: bool
    visits: Visiting


_TEXTS: Final = {
    "GatewayView.name": "The name of the program.",
    "GatewayView.version": "Its version.",
    "GatewayView.a2a": "The versions of A2A that agents may have here.",
    "GatewayView.signIn": "How the page signs in: `code` by `trunkline open`, `hub` by the sign-in "
    "of the hub, `key` with an API key.",
    "GatewayView.hub": "Whether the hub is on.",
    "GatewayView.features": "Which groups of routes there are.",
    "GatewayView.publicUrl": "The base URL that cards advertise. This and the rest is for "
    "operators.",
    "GatewayView.store": "Where the tasks are.",
    "GatewayView.nodes": "How many gateways share the main store, this one included.",
    "GatewayView.problems": "Why the gateway should get no traffic now, as `/readyz` says it.",
    "GatewayView.anonymous": "Whether programs on the machine need no credential.",
    "GatewayView.faults": "Whether faults may be injected, which needs a gateway on loopback.",
    "GatewayView.visits": "Which agents elsewhere may be visited: `never`, `public` addresses, "
    "or `any`.",
}


_NODE_TEXTS: Final = {
    "NodeView.node": "The id of the node; empty where the store belongs to one process.",
    "NodeView.host": "The name of its machine.",
    "NodeView.pid": "Its process there.",
    "NodeView.release": "Its version of Trunkline.",
    "NodeView.startedAt": "When it was started.",
    "NodeView.isAlive": "Whether it gives signs of life. Others are shown for an hour.",
    "NodeView.beatAgoS": "Seconds since its last sign of life.",
    "NodeView.lanes": "How many lanes it owns.",
    "NodeView.isHere": "Whether it is the one that answers.",
    "NodeList.items": "The gateways on the main store.",
}


class GatewayApi:
    def __init__(
        self,
        facts: Callable[[bool], Awaitable[GatewayFacts]],
        nodes: Callable[[], Awaitable[list[NodeView]]],
    ) -> None:
        """`facts` is told whether an operator asks."""
        self._facts = facts
        self._nodes = nodes

    def routes(self) -> Iterator[Route]:
        yield Route(
            method="GET",
            path="/gateway",
            name="get_gateway",
            summary="Show what the gateway is, and to operators how it is.",
            handle=self._get,
            result=GatewayView,
            is_public=True,
            texts=_TEXTS,
        )
        yield Route(
            method="GET",
            path="/nodes",
            name="list_nodes",
            summary="List the gateways that share the main store.",
            handle=self._list,
            result=NodeList,
            texts=_NODE_TEXTS,
        )

    async def _list(self, call: Call) -> NodeList:
        call.require_operator()
        return NodeList(items=await self._nodes())

    async def _get(self, call: Call) -> GatewayView:
        is_operator = call.principal is not None and OPERATOR in call.principal.roles
        facts = await self._facts(is_operator)
        public = GatewayView(
            name="trunkline",
            version=VERSION,
            a2a=[*map(str, Version)],
            sign_in=facts.sign_in,
            hub=facts.hub,
            features=facts.features,
        )
        if not is_operator:
            return public
        return replace(
            public,
            public_url=facts.public_url,
            store=facts.store,
            nodes=facts.nodes,
            problems=facts.problems,
            anonymous=facts.anonymous,
            faults=facts.faults,
            visits=facts.visits,
        )
