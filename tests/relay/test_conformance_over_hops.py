"""The cases of `tests/bindings` with two relays between the client and the agent."""

from collections.abc import AsyncIterator
from types import FunctionType

import pytest
from tests.relay import test_conformance
from tests.relay.cases import only_in_full
from tests.relay.gateways import RelayedWorld, open_world_of_two_relays

# The others pass one relay by default.
_ALWAYS = (
    "test_a_resumed_stream_follows_a_running_task__streaming",
    "test_a_stream_begins_with_the_task_and_closes_at_the_end__streaming",
    "test_cancel_ends_a_running_task_and_returns_it__cancel",
    "test_subscribe_closes_when_the_task_is_canceled__streaming",
)


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RelayedWorld]:
    async with open_world_of_two_relays(monkeypatch) as world:
        yield world


for name, case in vars(test_conformance).items():
    if name.startswith("test_") and isinstance(case, FunctionType):
        globals()[name] = case if name in _ALWAYS else only_in_full(case)
