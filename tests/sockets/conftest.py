import asyncio
from collections.abc import Callable

import uvloop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the gateway runs on, and the one that shows what that one forgives."""
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
