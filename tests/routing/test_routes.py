"""Routes of the configuration: what follows the work of an agent."""

import logging
from typing import Any

import msgspec
import pytest
from tests.routing.world import Function, calling, until

from trunkline.backends.python import Turn
from trunkline.engine.routes import Route
from trunkline.model.values import TaskState
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock

WRITER, REVIEWER = "acme/writer", "acme/reviewer"


class Reviewer:
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def __call__(self, turn: Turn) -> str:
        self.asked.append(msgspec.json.decode(turn.text))
        return "fine"


async def writer(turn: Turn) -> Any:
    if turn.text == "fail":
        return turn.fail("no ink")
    return f"a poem on {turn.text}"


def agents(reviewer: Reviewer, first: Function = writer) -> dict[str, Function]:
    async def review(turn: Turn) -> str:
        return await reviewer(turn)

    return {"writer": first, "reviewer": review}


def follows(on: Any, **more: Any) -> list[Route]:
    return [Route(name="review", agent="acme/wr*", on=on, call=REVIEWER, **more)]


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_what_an_agent_has_completed_goes_to_another_one(elsewhere: bool) -> None:
    reviewer = Reviewer()
    both = agents(reviewer)
    other = {"writer": both.pop("writer")} if elsewhere else None
    async with calling(both, elsewhere=other, routes=follows("completed")) as w:
        task = await w.send("writer", "the moon", context="c1")
        await until(_true_when(lambda: reviewer.asked))
        assert reviewer.asked == [
            {
                "route": "review",
                "agent": WRITER,
                "taskId": task.id,
                "output": "a poem on the moon",
            }
        ]
        await w.send("writer", "fail", context="c1")
        await w.clock.advance(5)
        assert len(reviewer.asked) == 1


async def test_a_failure_can_be_followed() -> None:
    reviewer = Reviewer()
    async with calling(agents(reviewer), routes=follows("failed")) as w:
        await w.send("writer", "the moon", context="c1")
        task = await w.send("writer", "fail", context="c1")
        assert task.status.state is TaskState.FAILED
        (asked,) = await until(_true_when(lambda: reviewer.asked))
        assert asked["error"] == {"code": "failed", "message": "no ink"}


async def test_an_artifact_is_followed_when_it_is_complete() -> None:
    async def draws(turn: Turn) -> Any:
        yield turn.artifact(name="sketch", text="-o-")
        yield turn.artifact(name="report-1", text="it is round")
        yield turn.artifact(name="report-2", data={"round": True})
        await turn.canceled()

    reviewer = Reviewer()
    routes = follows("artifact", artifact="report*", media_type="text/*")
    async with calling(agents(reviewer, draws), routes=routes) as w:
        await w.send("writer", "the moon", context="c1", now=True)
        (asked,) = await until(_true_when(lambda: reviewer.asked))
        assert (asked["artifact"], asked["output"]) == ("report-1", "it is round")


async def test_the_answer_comes_to_the_session_of_the_task_if_it_is_expected() -> None:
    routes = follows("completed", timeout_ms=5000)
    async with calling(agents(Reviewer()), routes=routes) as w:
        await w.send("writer", "the moon", context="c1")
        (entry,) = await until(lambda: w.entries("writer", "c1"))
        assert (entry["status"], entry["output"]) == ("completed", "fine")


async def test_routes_cannot_go_in_a_circle() -> None:
    turns: list[str] = []

    async def heard(turn: Turn) -> str:
        turns.append(turn.text)
        return "heard"

    routes = [
        Route(name="there", agent="acme/a", on="completed", call="acme/b"),
        Route(name="back", agent="acme/b", on="completed", call="acme/a"),
    ]
    async with calling({"a": heard, "b": heard}, routes=routes) as w:
        await w.send("a", "begin", context="c1")
        for _ in range(5):
            await w.clock.advance(1)
        assert len(turns) == 2
        assert ("call_cycle", "acme/b", "acme/a") in w.audit


async def test_a_route_is_taken_no_more_often_than_it_may_be(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reviewer = Reviewer()
    async with calling(agents(reviewer), routes=follows("completed", max_per_hour=2)) as w:
        for number in range(4):
            await w.send("writer", f"{number}", context="c1")
            await w.clock.advance(1)
        assert len(reviewer.asked) == 2
        assert "a route was not taken, because it was taken too often" in caplog.text
        w.clock.jump(3600)
        await w.send("writer", "later", context="c1")
        await w.clock.advance(1)
        assert len(reviewer.asked) == 3


async def test_a_route_can_lead_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "trunkline.routing")
    routes = [Route(name="told", agent=WRITER, on="completed", channel="log")]
    async with calling({"writer": writer}, routes=routes) as w:
        await w.send("writer", "the moon", context="c1")
        await until(_true_when(lambda: "a route was taken" in caplog.text))


async def test_a_route_is_taken_after_a_restart() -> None:
    clock = FakeClock()
    store, reviewer = MemoryStore(clock), Reviewer()
    async with calling(
        agents(reviewer), store=store, clock=clock, routes=follows("completed")
    ) as w:
        w.main.due._is_closing = True  # The process takes up no due work any more.
        await w.send("writer", "the moon", context="c1")
        await w.vanish()
    assert not reviewer.asked
    async with calling(
        agents(reviewer), store=store, clock=clock, node="next", routes=follows("completed")
    ) as w:
        await w.clock.advance(2)
        assert len(reviewer.asked) == 1


def _true_when(happened: Any) -> Any:
    async def ask() -> Any:
        return happened()

    return ask


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_other_routes_hold_for_the_next_task(elsewhere: bool) -> None:
    reviewer = Reviewer()
    both = agents(reviewer)
    other = {"writer": both.pop("writer")} if elsewhere else None
    async with calling(both, elsewhere=other) as w:
        for runtime in w.runtimes:
            participants = runtime.registry.participants
            assert participants is not None
            # Without routes a new task asks nobody.
            assert participants.watchers.of is None
        await w.send("writer", "one", context="c1")
        w.routing.take_over(follows("completed"))
        await w.send("writer", "two", context="c1")
        await until(_true_when(lambda: reviewer.asked))
        w.routing.take_over(())
        await w.send("writer", "three", context="c1")
        await w.clock.advance(2)
        assert [each["output"] for each in reviewer.asked] == ["a poem on two"]
