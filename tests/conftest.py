"""Which tests run, and what the processes inherit that they start."""

import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
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

ROOT = Path(__file__).resolve().parent.parent

# Suites that want more than a checkout: they run only when they are asked for by their marker.
OPT_IN = ("openclaw", "claude", "codex", "root")

# The files that take longest, so that no process is left alone with one of them in the end. Those
# with a browser, which compute, stand beside those that wait for processes.
LONGEST = (
    "tests/browser/test_hostile.py",
    "tests/acceptance/openclaw/test_gateway.py",
    "tests/acceptance/test_mcp.py",
    "tests/browser/test_tasks.py",
    "tests/acceptance/test_cli_addresses.py",
    "tests/acceptance/test_signed_cards.py",
    "tests/browser/test_hub.py",
    "tests/acceptance/test_cli_tasks.py",
    "tests/hub/test_sign_in_oidc.py",
    "tests/browser/test_chat.py",
    "tests/acceptance/test_cli_send.py",
    "tests/acceptance/openclaw/test_interruptions.py",
    "tests/browser/test_inspector.py",
    "tests/acceptance/openclaw/test_turns.py",
    "tests/acceptance/test_tool_command.py",
    "tests/browser/test_big.py",
    "tests/runtime/test_long_queue.py",
    "tests/cluster/test_schedules.py",
    "tests/contract/test_stores.py",
    "tests/relay/test_conformance.py",
    "tests/relay/test_relays_that_fail.py",
    "tests/relay/test_nodes_at_random.py",
)

# An example may take long while the machine is busy; that says nothing of the code.
settings.register_profile("trunkline", deadline=None)
settings.load_profile("trunkline")

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
    places = {ROOT / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(LONGEST)))
