"""`ProgramMcp`: the tools of a turn over MCP, for the program that has its token.

Every request is answered by itself, so there is no session that anyone could take over, and no
stream without a request. The package `mcp` is imported with the first request,
because that takes most of a second and few gateways need it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from trunkline.background import BackgroundTasks
from trunkline.engine.agent_calls import CallRefused
from trunkline.model.errors import TrunklineError, Unavailable, WrongHttpMethod
from trunkline.ports.tools import (
    Envelope,
    OnUpdate,
    ProgramTools,
    Signal,
    Tool,
    ToolDefinition,
    ToolTokens,
)
from trunkline.protocol import rest, skill_calls
from trunkline.protocol.errors import message
from trunkline.protocol.versions import Version
from trunkline.server.a2a import error_headers
from trunkline.server.access import check_origin
from trunkline.server.api_keys import bearer_token
from trunkline.server.asgi import AsgiRequest, AsgiResponse, Receive, Scope, Send
from trunkline.server.endpoint import Limits
from trunkline.server.http import Disconnected
from trunkline.server.mcp.body import checked_body

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

# Those of the request that is being answered.
_TOOLS: ContextVar[ProgramTools] = ContextVar("program_tools")


class ProgramMcp:
    """An ASGI application for one path."""

    def __init__(self, tokens: ToolTokens, *, limits: Callable[[], Limits], version: str) -> None:
        self._tokens = tokens
        self._limits = limits
        self._version = version
        self._tasks = BackgroundTasks("mcp of programs")
        self._manager: StreamableHTTPSessionManager | None = None
        self._starting: asyncio.Task[None] | None = None

    async def close(self) -> None:
        await self._tasks.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = AsgiRequest.of(scope, receive)
        try:
            check_origin(request, reads=True)
            if request.method != "POST":
                # MCP, Streamable HTTP: a server that offers no stream answers 405.
                raise WrongHttpMethod("This address takes POST", allow="POST")
            credential = bearer_token(request.headers.get(b"authorization", b""))
            _TOOLS.set(await self._tokens.find(credential.decode("latin-1")))
            receive = await checked_body(request, receive, self._limits())
            manager = await self._started()
        except TrunklineError as error:
            status, body = rest.error(error, Version.V1_0)
            await AsgiResponse(send).answer(status, body, headers=error_headers(error))
        except Disconnected:
            pass
        else:
            await manager.handle_request(scope, receive, send)

    async def _started(self) -> "StreamableHTTPSessionManager":
        if self._manager is None:
            if self._starting is None:
                self._starting = self._tasks.start(self._start(), name="start of mcp")
            await asyncio.wait({self._starting})
        if self._manager is None:
            raise Unavailable("The gateway cannot serve MCP; its log says why", retry_after_s=60)
        return self._manager

    async def _start(self) -> None:
        manager = await asyncio.to_thread(self._new_manager)
        is_running = asyncio.Event()
        self._tasks.spawn(self._run(manager, is_running), name="mcp of programs")
        await is_running.wait()
        self._manager = manager

    def _new_manager(self) -> "StreamableHTTPSessionManager":
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from trunkline.server.mcp.tools import make_server

        tools = _ToolsOfRequest(self._tasks)
        return StreamableHTTPSessionManager(
            make_server(lambda: nullcontext(tools), version=self._version),
            stateless=True,
            max_request_body_size=self._limits().max_body_bytes,
        )

    async def _run(
        self, manager: "StreamableHTTPSessionManager", is_running: asyncio.Event
    ) -> None:
        async with manager.run():
            is_running.set()
            # Until the gateway closes.
            await asyncio.Event().wait()


class _ToolsOfRequest(Mapping[str, Tool]):
    """The tools of the request that is being answered, by name."""

    def __init__(self, tasks: BackgroundTasks) -> None:
        self._tasks = tasks

    def __getitem__(self, name: str) -> Tool:
        return self._by_name()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name())

    def __len__(self) -> int:
        return len(self._by_name())

    def _by_name(self) -> dict[str, Tool]:
        tools = _TOOLS.get()
        return {each.name: self._tool(each, tools) for each in tools.definitions}

    def _tool(self, definition: ToolDefinition, tools: ProgramTools) -> Tool:
        async def run(
            request: object, *, on_update: OnUpdate | None = None, signal: Signal | None = None
        ) -> Envelope:
            def progress(update: Envelope) -> None:
                # A host may wait for minutes, and shows its user that something happens.
                if on_update is not None and (told := on_update(update)) is not None:
                    self._tasks.spawn(_wait(told), name="tool: progress")

            call = self._tasks.start(
                _result(tools, definition.name, request, progress), name="tool"
            )
            called_off = signal or asyncio.Event()
            canceled = self._tasks.start(_wait(called_off.wait()), name="tool: cancel")
            try:
                await asyncio.wait({call, canceled}, return_when=asyncio.FIRST_COMPLETED)
                return call.result() if call.done() else _CANCELED
            finally:
                call.cancel()
                canceled.cancel()

        return Tool(
            definition=definition,
            run=run,
            describe=_describe,
            has_failed=skill_calls.is_refusal,
        )


# Nobody reads it.
_CANCELED = skill_calls.refusal("call_failed", "the request was canceled")


async def _result(
    tools: ProgramTools, name: str, arguments: object, progress: Callable[[Envelope], None]
) -> Envelope:
    try:
        return await tools.call(name, arguments, progress)
    except CallRefused as refused:
        return skill_calls.refusal(refused.code, refused.text)
    except TrunklineError as error:
        return skill_calls.refusal("call_failed", message(error))


def _describe(update: Envelope) -> str:
    return f"steps that have ended: {len(update['steps'])}"


async def _wait(awaited: Awaitable[Any]) -> None:
    await awaited
