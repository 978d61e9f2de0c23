"""The OpenClaw backend for the behavioural suite, with a fake gateway on the same loop."""

import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from tests.acceptance.asgi_server import asgi_server
from tests.acceptance.openclaw.fake.__main__ import AGENTS
from tests.acceptance.openclaw.fake.gateway import Gateway
from tests.acceptance.openclaw.fake.server import Server

from trunkline.backends.openclaw.address import Address
from trunkline.backends.openclaw.backend import OpenClawBackend
from trunkline.backends.openclaw.completions import OpenClawHttpBackend
from trunkline.clock import SystemClock
from trunkline.ports.backend import Backend

TOKEN = "a-token"


async def started() -> tuple[AsyncExitStack, int]:
    """The fake in a folder of its own: what ends it, and its port."""
    stack = AsyncExitStack()
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    gateway = Gateway(version="2026.9.6", agents=AGENTS, state=Path(folder))
    app = Server(gateway, token=TOKEN).application()
    return stack, await stack.enter_async_context(asgi_server(app))


async def over_websocket() -> Backend:
    stack, port = await started()
    address = Address(url=f"ws://127.0.0.1:{port}", token=TOKEN)

    class Closing(OpenClawBackend):
        async def close(self) -> None:
            await super().close()
            await stack.aclose()

    return Closing(address, clock=SystemClock())


async def over_http() -> Backend:
    stack, port = await started()
    address = Address(url=f"http://127.0.0.1:{port}", token=TOKEN, idle_s=30)

    class Closing(OpenClawHttpBackend):
        async def close(self) -> None:
            await super().close()
            await stack.aclose()

    return Closing(address)
