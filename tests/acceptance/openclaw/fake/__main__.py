"""`python -m tests.acceptance.openclaw.fake --port P --state DIR`: runs until it is ended."""

import argparse
import asyncio
import signal
from pathlib import Path

from tests.acceptance.asgi_server import asgi_server
from tests.acceptance.openclaw.fake.gateway import Gateway
from tests.acceptance.openclaw.fake.server import MAX_PAYLOAD, Server

AGENTS: dict[str, dict[str, list[str]]] = {"main": {}, "helper": {}, "guest": {"tools": []}}


async def serve(given: argparse.Namespace) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    gateway = Gateway(version=given.version, agents=AGENTS, state=Path(given.state))
    server = Server(gateway, token=given.token, refusals=given.refusals)
    app = server.application()
    async with asgi_server(app, port=given.port, max_message_bytes=MAX_PAYLOAD):
        recovering = asyncio.create_task(gateway.recover())
        print("ready", flush=True)
        await ended.wait()
        await gateway.drain()
        await server.close_all()
        recovering.cancel()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--state", required=True)
    parser.add_argument("--version", default="2026.9.6")
    parser.add_argument("--token", default="fake-token")
    parser.add_argument("--refusals", type=int, default=0)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
