"""What the relay remembers of agents."""

import pytest
from tests.relay.world import open_relay

from trunkline.model.errors import LimitReached
from trunkline.relay.host_calls import HostCalls
from trunkline.relay.known_agents import KnownAgents
from trunkline.stores.memory import MemoryStore


async def test_no_tenant_fills_the_store_with_agents() -> None:
    async with open_relay() as world:
        store = MemoryStore(clock=world.clock)
        await store.open()
        calls = HostCalls(world.relay, clock=world.clock, tasks=world.tasks)
        known = KnownAgents(calls, clock=world.clock, max_of_one=2)
        known.open(store)
        for agent in ("acme/a", "acme/b", "acme/a", "other/a"):
            await known.keep(agent, {})
        with pytest.raises(LimitReached):
            await known.keep("acme/c", {})
        assert await known.find("acme/c") is None
        # Those that are known may still change.
        world.clock.jump(60)
        await known.keep("acme/b", {})
        found = {
            id: each.last_seen_ms - each.first_seen_ms async for id, each in known.of_tenant("acme")
        }
        assert found == {"a": 0, "b": 60_000}
