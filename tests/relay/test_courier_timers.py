"""Timers that fire early."""

import pytest
from tests.relay import gateways
from tests.relay.gateways import open_relayed_world
from tests.relay.test_mailbox import come_back, leave, send

from trunkline.testing import FakeClock, settle


class EarlyClock(FakeClock):
    """Its timers fire a little early, as those of event loops do that count in milliseconds."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds - 0.004 if seconds > 0.1 else seconds)


async def test_a_timer_that_fires_early_leaves_no_letter_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gateways, "FakeClock", EarlyClock)
    async with open_relayed_world(monkeypatch, max_queue_per_context=1) as world:
        client = world.client("jsonrpc-1.0")
        await leave(world)
        for text in ("wait gate", "say two"):
            await send(client, text, context="c")
        task = await send(client, "say three", context="c")
        await come_back(world)
        # The queue of the agent is full, so the last one waits at the relay.
        assert len(world.agent.turns) == 1
        world.agent.gates.open("gate")
        await settle()
        for _ in range(20):
            await world.clock.advance(1)
        assert (await client.get(task["id"]))["status"]["state"] == "TASK_STATE_COMPLETED"
        assert len(world.agent.turns) == 3
