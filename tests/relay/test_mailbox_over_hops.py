"""The cases of `test_mailbox` with two relays: messages come to one, and the agent is attached at
the other, which delivers them."""

import inspect
from collections.abc import AsyncIterator
from types import FunctionType

import pytest
from tests.bindings.clients import CLIENTS
from tests.relay import test_mailbox
from tests.relay.cases import only_in_full
from tests.relay.gateways import RelayedWorld, open_world_of_two_relays

NOT_HERE = {
    # Each relay counts its own deliveries.
    "test_metrics_tell_what_waits",
    # Nodes find each other by the store.
    "test_a_store_that_is_unusable_stops_what_waits_and_nothing_else",
}
# The others pass one relay by default.
ALWAYS = (
    "test_a_message_waits_and_is_delivered",
    "test_a_task_that_waits_can_be_canceled",
    "test_messages_of_a_context_stay_in_order",
    "test_a_list_has_what_waits_and_what_the_agent_has",
)


@pytest.fixture(
    params=[
        name if name == "jsonrpc-1.0" else pytest.param(name, marks=pytest.mark.full)
        for name in CLIENTS
    ]
)
def dialect(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RelayedWorld]:
    async with open_world_of_two_relays(monkeypatch) as world:
        yield world


for name, case in vars(test_mailbox).items():
    # The others open relays of their own.
    if (
        name.startswith("test_")
        and name not in NOT_HERE
        and isinstance(case, FunctionType)
        and {"world", "client"} <= set(inspect.signature(case).parameters)
    ):
        globals()[name] = case if name in ALWAYS else only_in_full(case)
