from tests.loops import ASYNCIO, UVLOOP, LoopFactories


def pytest_asyncio_loop_factories() -> LoopFactories:
    """The loop that the gateway runs on, and the one that shows what that one forgives."""
    return UVLOOP | ASYNCIO
