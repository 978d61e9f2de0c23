from tests.loops import ASYNCIO, UVLOOP, LoopFactories


def pytest_asyncio_loop_factories() -> LoopFactories:
    """Both loops that a caller may run on."""
    return UVLOOP | ASYNCIO
