"""Which tests run, and what the processes inherit that they start."""

import logging
import signal
from collections.abc import Iterator

import pytest
from tests.failures_at_once import pytest_configure
from tests.loops import ASYNCIO, LoopFactories
from tests.postgres.fixtures import (
    cleared_postgres_url,
    own_postgres,
    postgres_server,
    postgres_servers,
    postgres_url,
    shared_postgres_url,
)

__all__ = [
    "cleared_postgres_url",
    "own_postgres",
    "postgres_server",
    "postgres_servers",
    "postgres_url",
    "pytest_configure",
    "shared_postgres_url",
]

# Suites that want more than a checkout: they run only when they are asked for by their marker.
OPT_IN = ("openclaw", "claude", "codex", "root")

# What a shell starts in the background ignores Ctrl+C, and so does all that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_asyncio_loop_factories() -> LoopFactories:
    return ASYNCIO


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    """For tests that run `serve` in their own process, whose logging it sets up."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked: str = config.option.markexpr
    unasked = {name for name in OPT_IN if name not in asked}
    left_out = [item for item in items if any(map(item.get_closest_marker, unasked))]
    if left_out:
        items[:] = [item for item in items if item not in set(left_out)]
        config.hook.pytest_deselected(items=left_out)
