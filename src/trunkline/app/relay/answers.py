"""`RelayAnswers`: answers requests to agents of the relay by the bindings of the server."""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from trunkline.app.front import Front
from trunkline.model.calls import Operation
from trunkline.model.card import AgentCapabilities, AgentCard
from trunkline.model.errors import TrunklineError
from trunkline.model.profile import Profile
from trunkline.protocol.dialects import dialects_for
from trunkline.protocol.operations import RequestValue
from trunkline.protocol.relay.addresses import path_of
from trunkline.relay.requests import RelayedRequest
from trunkline.server.asgi import AsgiRequest, AsgiResponse, Message
from trunkline.server.calls import Call, JsonRpcCall, RestCall
from trunkline.server.endpoint import Endpoint, Limits, Operations

_STREAMING: Final = Profile()
_NOT_STREAMING: Final = Profile(streaming=False)
_DIALECTS: Final = dialects_for(_STREAMING)
# For an agent whose card is not known.
_NO_CARD: Final = AgentCard(
    name="",
    description="",
    version="",
    supported_interfaces=(),
    capabilities=AgentCapabilities(streaming=True),
    default_input_modes=(),
    default_output_modes=(),
    skills=(),
)


class AgentOfHost(Struct, frozen=True, kw_only=True):
    """An agent as the server needs it; its tasks are at its host."""

    # Tenant and id at the relay.
    handle: str
    profile: Profile = _STREAMING
    is_open: bool = False


class RelayAnswers:
    def __init__(self, front: Front, *, limits: Limits) -> None:
        self._front = front
        self._limits = limits

    def endpoint(
        self,
        agent: str,
        operations: Operations,
        card: AgentCard | None = None,
        *,
        make: type[Endpoint] = Endpoint,
    ) -> Endpoint:
        """What is served at the address of the agent. Its card says whether it streams, and which
        extensions it has."""
        card = card or _NO_CARD
        streams = card.capabilities.streaming is not False
        path = path_of(agent)
        return make(
            agent=AgentOfHost(handle=agent, profile=_STREAMING if streams else _NOT_STREAMING),
            service=operations,
            dialects=_DIALECTS,
            limits=self._limits,
            card=card,
            card_paths=(),
            jsonrpc_path=path,
            rest_path=path,
        )

    def read(
        self, request: RelayedRequest, endpoint: Endpoint
    ) -> tuple[Operation, RequestValue] | None:
        """The operation that a request calls, and its parameters; None for one that is not
        valid."""
        asgi = AsgiRequest.of(request.scope, request.receive)
        call = _call(request, endpoint, asgi)
        try:
            call.begin(asgi)
            value = call.read(asgi, request.body)
        except TrunklineError:
            return None
        assert call.operation is not None
        return call.operation, value

    async def serve(self, request: RelayedRequest, endpoint: Endpoint) -> None:
        asgi = AsgiRequest.of(request.scope, _Body(request).receive)
        # The tenant of A2A is that of the request, as at the host.
        handler = self._front.handler_for(replace(request.principal, tenant=""))
        await handler.serve(_call(request, endpoint, asgi), asgi, AsgiResponse(request.send))


def _call(request: RelayedRequest, endpoint: Endpoint, asgi: AsgiRequest) -> Call:
    if request.address.is_jsonrpc:
        dialects = endpoint.dialects
        return JsonRpcCall(endpoint, dialects.jsonrpc[dialects.default])
    return RestCall(endpoint, endpoint.jsonrpc_path, asgi)


class _Body(Struct):
    """The body that has come, and then what else the client does."""

    request: RelayedRequest
    was_read: bool = False

    async def receive(self) -> Message:
        if self.was_read:
            return await self.request.receive()
        self.was_read = True
        return {"type": "http.request", "body": self.request.body, "more_body": False}
