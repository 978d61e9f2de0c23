"""The OpenClaw backend for the behavioural suite, with a fake gateway on the same loop."""

import tempfile
from pathlib import Path

from aiohttp import web
from tests.acceptance.openclaw.fake.__main__ import AGENTS
from tests.acceptance.openclaw.fake.gateway import Gateway
from tests.acceptance.openclaw.fake.server import Server

from trunkline.backends.openclaw.address import Address
from trunkline.backends.openclaw.backend import OpenClawBackend
from trunkline.backends.openclaw.completions import OpenClawHttpBackend
from trunkline.clock import SystemClock
from trunkline.ports.backend import Backend

TOKEN = "a-token"


async def started() -> tuple[web.AppRunner, int, tempfile.TemporaryDirectory[str]]:
    folder = tempfile.TemporaryDirectory()
    gateway = Gateway(version="2026.9.6", agents=AGENTS, state=Path(folder.name))
    server = Server(gateway, token=TOKEN)
    runner = web.AppRunner(server.application(), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, runner.addresses[0][1], folder


async def over_websocket() -> Backend:
    runner, port, folder = await started()
    address = Address(url=f"ws://127.0.0.1:{port}", token=TOKEN)

    class Closing(OpenClawBackend):
        async def close(self) -> None:
            await super().close()
            await runner.cleanup()
            folder.cleanup()

    return Closing(address, clock=SystemClock())


async def over_http() -> Backend:
    runner, port, folder = await started()
    address = Address(url=f"http://127.0.0.1:{port}", token=TOKEN, idle_s=30)

    class Closing(OpenClawHttpBackend):
        async def close(self) -> None:
            await super().close()
            await runner.cleanup()
            folder.cleanup()

    return Closing(address)
