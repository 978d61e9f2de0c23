"""Runs the command line with WebSocket mounts below `/ws`."""

import asyncio
from typing import Any

from trunkline.cli import main
from trunkline.ports.websocket import Refusal, UpgradeRequest, WebSocket, WebSocketMount
from trunkline.server.application import Application

ORIGIN = "https://console.example"


async def echo(socket: WebSocket) -> None:
    async for message in socket:
        await socket.send(message)


async def flood(socket: WebSocket) -> None:
    while True:
        await socket.send(b"x" * 10_000)


async def deaf(socket: WebSocket) -> None:
    await asyncio.Event().wait()


async def check_origin(request: UpgradeRequest) -> Refusal | None:
    if request.header(b"origin") == ORIGIN:
        return None
    return Refusal(403, "Only the console may connect.\n")


MOUNTS = {
    "/ws/echo": WebSocketMount(handler=echo),
    "/ws/flood": WebSocketMount(handler=flood),
    "/ws/deaf": WebSocketMount(handler=deaf),
    "/ws/guarded": WebSocketMount(handler=echo, check=check_origin, subprotocols=("v1",)),
}


def mount_all() -> None:
    begin = Application.__init__

    def begin_with_mounts(self: Application, **options: Any) -> None:
        begin(self, **options)
        for prefix, mount in MOUNTS.items():
            self.mount(prefix, mount)

    Application.__init__ = begin_with_mounts  # type: ignore[method-assign]


if __name__ == "__main__":
    mount_all()
    main()
