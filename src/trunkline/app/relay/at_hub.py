"""`RelayedAtHub`: the addresses of attached agents below those of the hub's agents."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from trunkline.engine.access import operations_of
from trunkline.model.errors import (
    PermissionDenied,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
)
from trunkline.model.principal import Principal
from trunkline.protocol.relay.addresses import path_of
from trunkline.relay.requests import RelayedRequests
from trunkline.server.asgi import Receive, Scope, Send, serve_with
from trunkline.server.http import Handler, Request, Response

# The addresses of all agents of the registry are below it.
AGENTS_PATH: Final = "/api/a2a/v1/agents"


class RelayedAtHub:
    """It comes after the agents that are published, so one of them keeps its address."""

    def __init__(
        self,
        requests: RelayedRequests,
        *,
        identify: Callable[[Request], Awaitable[Principal]],
        is_known: Callable[[str], Awaitable[bool]],
    ) -> None:
        """`identify` raises as `Access.identify` does. `is_known`: whether the relay has an
        agent."""
        self._requests = requests
        self._identify = identify
        self._is_known = is_known

    async def serve(self, absent: Handler, request: Request, response: Response) -> None:
        """Answer at the address of an attached agent, and else as `absent` does: to callers who may
        not call the agent, there is none."""
        agent = agent_at(request.path)
        raw = request.raw_path or request.path.encode("latin-1", "replace")
        own = f"{AGENTS_PATH}/{agent}"
        if (
            not agent
            # Another spelling of the address, which published agents do not have either.
            or not raw.startswith(own.encode())
            # First, so that an agent of others takes as long as one that does not exist.
            or not await self._may_call(agent, request)
            or not await self._is_known(agent)
        ):
            await absent(request, response)
            return
        at_relay = path_of(agent)
        target = at_relay + request.path.removeprefix(own)
        raw_target = at_relay.encode() + raw.removeprefix(own.encode())
        await serve_with(partial(self._serve, target, raw_target), request, response)

    async def _serve(
        self, path: str, raw_path: bytes, scope: Scope, receive: Receive, send: Send
    ) -> None:
        # The host knows its agents by the addresses of the relay alone.
        await self._requests({**scope, "path": path, "raw_path": raw_path}, receive, send)

    async def _may_call(self, agent: str, request: Request) -> bool:
        try:
            principal = await self._identify(request)
        except (Unauthenticated, PermissionDenied, TooManyRequests):
            return False
        except Unavailable:
            # It cannot be told now; the relay says so.
            return True
        operations = operations_of(principal, agent)
        return operations is None or bool(operations)


def agent_at(path: str) -> str:
    """`owner/slug` of an address of the hub; empty for any other."""
    owner, _, rest = path.removeprefix(f"{AGENTS_PATH}/").partition("/")
    slug = rest.partition("/")[0]
    is_below = path.startswith(f"{AGENTS_PATH}/")
    return f"{owner}/{slug}" if is_below and owner and slug else ""
