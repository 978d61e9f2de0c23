"""R-26, without its timing: hundreds of calls side by side, restarts among them, and one answer for
each."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.routing.helpers import Helper
from tests.routing.world import CallWorld, calling, until

from trunkline.backends.python import Turn
from trunkline.engine.agent_calls import CallLimits
from trunkline.model.values import text_of
from trunkline.routing.call_records import CallRecord
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing import FakeClock

CALLS = 200


async def caller(turn: Turn) -> str:
    """Make as many calls as the message says, each with a text of its own."""
    name, count = turn.text.split()
    made = [
        await turn.call("acme/helper", f"{name} {number}", wait=False, timeout_s=20)
        for number in range(int(count))
    ]
    return " ".join(each["correlationId"] for each in made)


async def recovered(w: CallWorld) -> bool:
    """Whether the calls of earlier lives have ended."""
    left = [each.call.id for each in await w.calls() if each.state == "pending"]
    return all(id.startswith("life-3") for id in left)


async def ended(w: CallWorld) -> Any:
    calls = await w.calls()
    return calls if all(each.state != "pending" for each in calls) else None


@pytest.mark.parametrize("seed", range(3))
async def test_each_of_many_calls_has_one_answer(tmp_path: Path, seed: int) -> None:
    chance, clock = random.Random(seed), FakeClock()
    told: set[str] = set()
    entries: list[dict[str, Any]] = []
    calls: list[CallRecord] = []
    for life in range(4):
        helper = Helper()
        store = SqliteStore(tmp_path / "main.db", synchronous="normal", clock=clock)
        options: Any = {"store": store, "clock": clock, "node": f"life-{life}"}
        agents = {"caller": caller, "helper": helper.answers}
        async with calling(agents, limits=CallLimits(grace_s=3600), **options) as w:
            task = await w.send("caller", f"life-{life} {CALLS // 4}", context="c1")
            told |= set(text_of(task.artifacts[0].parts).split())
            texts = [f"life-{life} {number}" for number in range(CALLS // 4)]
            for text in texts:
                await helper.begun(text)
            chance.shuffle(texts)
            answered = texts[: chance.randrange(len(texts))]
            # Some answers may not reach the store before the process ends.
            helper.open(*answered)
            if life == 3:
                await until(lambda: recovered(w))
                # The rest times out, all of it at once.
                await clock.advance(21)
                calls = await until(lambda: ended(w))
                entries = await w.entries("caller", "c1")
            else:
                await w.vanish()
                await store.close()
    expected = Counter(told)
    assert Counter(each["correlationId"] for each in entries) == expected
    assert Counter(each.call.id for each in calls) == expected
    states = Counter(each.state for each in calls)
    assert states.keys() <= {"completed", "error", "timeout"}
    outputs = [each["output"] for each in entries if each["status"] == "completed"]
    assert len(outputs) == len(set(outputs)) == states["completed"]
