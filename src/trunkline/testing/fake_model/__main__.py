"""`python -m trunkline.testing.fake_model`: prints its URL, and runs until it is ended."""

import argparse
import asyncio
import signal

from trunkline.testing.fake_model.server import FakeModel


async def _serve(port: int, api_key: str) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with FakeModel(port=port, api_key=api_key) as model:
        print(model.url, flush=True)
        _ = await ended.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m trunkline.testing.fake_model",
        description="A model on loopback that does what the last user text says.",
    )
    _ = parser.add_argument("--port", type=int, default=0, help="0 takes any that is free")
    _ = parser.add_argument("--api-key", default="", help="refuse requests without this key")
    given = parser.parse_args()
    asyncio.run(_serve(given.port, given.api_key))


if __name__ == "__main__":
    main()
