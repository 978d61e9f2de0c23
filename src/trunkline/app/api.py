"""`serve_api`: the HTTP interface below `/api/v1`, with a hub and without one."""

from functools import partial

from starlette.requests import Request

from trunkline.app.front import Front
from trunkline.app.hub import Hub
from trunkline.app.routing import GatewayRouting
from trunkline.hub.api import PREFIX, Api
from trunkline.hub.tools_api import ToolsApi
from trunkline.model.principal import Principal
from trunkline.routing.tool_tokens import ToolAddress
from trunkline.routing.tools import TOOLS
from trunkline.server.asgi import AsgiRequest, serve_with

TOOLS_PATH = f"{PREFIX}/tools"


def serve_api(front: Front, routing: GatewayRouting, hub: Hub | None, *, local_url: str) -> None:
    """`local_url` is where programs on this machine reach the gateway; empty where nothing
    listens."""
    api = _alone(front) if hub is None else hub.api
    tokens = routing.routing.tool_tokens
    definitions = [tool.definition for tool in TOOLS.values()]
    limits = routing.limits
    tools = ToolsApi(tokens, definitions, max_input_bytes=lambda: limits().max_input_bytes)
    api.add(*tools.routes())
    front.application.mount(PREFIX, partial(serve_with, api))
    if local_url:
        tokens.address = ToolAddress(url=f"{local_url}{TOOLS_PATH}")


def _alone(front: Front) -> Api:
    """The interface of a gateway without a hub, whose callers are those of its pages."""

    async def identify(request: Request) -> Principal:
        return await front.identify(AsgiRequest.of(request.scope, request.receive))

    return Api(identify=identify, realm="trunkline")
