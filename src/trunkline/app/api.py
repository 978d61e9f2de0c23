"""`GatewayApi`: the HTTP interface below `/api/v1`, with a hub and without one."""

from functools import partial
from importlib.util import find_spec

from msgspec.structs import replace
from starlette.requests import Request

from trunkline.api.api import PREFIX, Api
from trunkline.app.card_views import agent_cards
from trunkline.app.console import GatewayConsole, is_console
from trunkline.app.directory import AgentDirectory
from trunkline.app.front import Front
from trunkline.app.hub import Hub
from trunkline.app.live import GatewayLive
from trunkline.app.recordings import GatewayRecordings
from trunkline.app.relay.relaying import Relaying
from trunkline.app.routing import GatewayRouting
from trunkline.hub.agent_views import AgentViews
from trunkline.hub.agents_api import ConfiguredAgentsApi
from trunkline.hub.calls_api import CallsApi
from trunkline.hub.sessions_api import SessionsApi
from trunkline.hub.tools_api import MAX_DEPTH, ROOM_BYTES, ToolsApi
from trunkline.hub.visits import Visits
from trunkline.hub.visits_api import VisitsApi
from trunkline.model.principal import Principal
from trunkline.routing.tool_tokens import ToolAddress
from trunkline.routing.tools import TOOLS
from trunkline.server.asgi import AsgiRequest, serve_with
from trunkline.server.endpoint import Limits
from trunkline.server.mcp.programs import ProgramMcp
from trunkline.version import VERSION

_TOOLS_PATH = f"{PREFIX}/tools"
_MCP_PATH = f"{_TOOLS_PATH}/mcp"


class GatewayApi:
    def __init__(
        self,
        front: Front,
        routing: GatewayRouting,
        hub: Hub | None,
        console: GatewayConsole | None,
        directory: AgentDirectory,
        *,
        relaying: Relaying,
        live: GatewayLive,
        recordings: GatewayRecordings,
        local_url: str,
    ) -> None:
        """`local_url` is where programs on this machine reach the gateway; empty where nothing
        listens."""
        self._front = front
        self._routing = routing
        self._mcp: ProgramMcp | None = None
        api = Api(identify=self._identify, realm="trunkline") if hub is None else hub.api
        self.api = api
        tokens = routing.routing.tool_tokens
        definitions = [tool.definition for tool in TOOLS.values()]
        api.add(*ToolsApi(tokens, definitions, max_body_bytes=self._max_body_bytes).routes())
        api.add(*CallsApi(routing.routing.call_list).routes())
        api.add(*SessionsApi(routing.routing.session_list).routes())
        api.add(*relaying.routes())
        api.add(*live.routes(api.identify))
        views = AgentViews(registry=None, directory=directory)
        if hub is None:
            cards = agent_cards(front, directory)
            api.add(*ConfiguredAgentsApi(directory, views, cards).routes())
        if console is not None:
            visits = Visits(
                directory, allowed=lambda: directory.settings.console.visits, clock=console.clock
            )
            api.add(*VisitsApi(visits, directory, views).routes())
            api.add(*console.routes(api))
            if hub is not None:
                hub.sign_in.end_others(console.session_api.end)
        api.add(*recordings.routes())
        front.application.mount(PREFIX, partial(serve_with, api))
        # The package is an extra.
        if find_spec("mcp") is not None:
            self._mcp = ProgramMcp(tokens, limits=self._mcp_limits, version=VERSION)
            front.application.mount(_MCP_PATH, partial(serve_with, self._mcp))
        if local_url:
            tokens.address = ToolAddress(
                url=f"{local_url}{_TOOLS_PATH}",
                mcp_url="" if self._mcp is None else f"{local_url}{_MCP_PATH}",
            )

    async def close(self) -> None:
        if self._mcp is not None:
            await self._mcp.close()

    def _max_body_bytes(self) -> int:
        return self._routing.limits().max_input_bytes + ROOM_BYTES

    def _mcp_limits(self) -> Limits:
        return Limits(max_body_bytes=self._max_body_bytes(), max_json_depth=MAX_DEPTH)

    async def _identify(self, request: Request) -> Principal:
        """The callers of a gateway without a hub are those of its pages. None of them manages
        it but the operator who opened the page on its machine: a key that may call every agent must
        not see what other callers have said."""
        principal = await self._front.identify(AsgiRequest.of(request.scope, request.receive))
        if principal.roles and not is_console(principal):
            return replace(principal, roles=())
        return principal
