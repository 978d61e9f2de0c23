"""`next_pass`: let everything else that is ready run before a long piece of work goes on."""

import asyncio


async def next_pass() -> None:
    loop = asyncio.get_running_loop()
    passed: asyncio.Future[None] = loop.create_future()
    loop.call_soon(_set, passed)
    await passed


def _set(passed: "asyncio.Future[None]") -> None:
    if not passed.done():
        passed.set_result(None)
