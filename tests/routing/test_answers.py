"""What follows the end of a call: the turn that begins with its answer, and the copy of it."""

from collections.abc import Callable
from typing import Any

import msgspec
from tests.routing.helpers import Helper
from tests.routing.test_delivery import late_replies, session
from tests.routing.world import CallWorld, calling, until

from trunkline.backends.python import Turn
from trunkline.engine.agent_calls import CallPolicy
from trunkline.model.values import text_of
from trunkline.ports.store import Store
from trunkline.routing.delivery import CHANNEL_COPY
from trunkline.testing import FakeClock

STARTS_TURN = CallPolicy(starts_turn=True)


class Caller:
    """Asks for each line of its message, and remembers the answers that began turns."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    async def turn(self, turn: Turn) -> str:
        if "skill_response" in turn.text:
            self.told.append(msgspec.json.decode(turn.text)["output"])
            return "thanks"
        for line in turn.text.splitlines():
            await turn.call("acme/helper", line, wait=False)
        return "asked"


async def hold_back(w: CallWorld) -> Callable[[], None]:
    """Take up no due work of the main store, until the result is called."""
    w.main.due._is_closing = True

    def go_on() -> None:
        w.main.due._is_closing = False
        w.main.due.wake()

    return go_on


async def ended(w: CallWorld, count: int) -> Any:
    return len([each for each in await w.calls() if each.state != "pending"]) == count


async def test_answers_begin_turns_in_the_order_in_which_they_came(
    clock: FakeClock, make_store: Callable[[], Store]
) -> None:
    """R-20, also within a millisecond."""
    caller, helper = Caller(), Helper()
    agents = {"caller": caller.turn, "helper": helper.answers}
    policies = {"caller": STARTS_TURN}
    async with calling(agents, store=make_store(), clock=clock, policies=policies) as w:
        go_on = await hold_back(w)
        await w.send("caller", "one\ntwo\nthree", context="c1")
        for count, text in enumerate(("two", "three", "one"), start=1):
            await helper.begun(text)
            helper.open(text)
            await until(lambda: ended(w, count))  # noqa: B023 - awaited here
        go_on()

        async def told() -> Any:
            return len(caller.told) == 3

        await until(told)
        order = ["about two", "about three", "about one"]
        assert caller.told == order
        assert [each["output"] for each in await w.entries("caller", "c1")] == order


async def test_an_answer_begins_no_turn_in_a_session_that_was_ended_since() -> None:
    """R-11."""
    caller, helper = Caller(), Helper(is_open=True)
    agents = {"caller": caller.turn, "helper": helper.answers}
    async with calling(agents, policies={"caller": STARTS_TURN}) as w:
        go_on = await hold_back(w)
        await w.send("caller", "one", context="c1")
        await until(lambda: ended(w, 1))
        await w.clock.advance(1)
        await w.routing.sessions.end(await session(w))
        go_on()
        await w.clock.advance(5)
        assert not caller.told
        # The next session gets its answers.
        await w.send("caller", "two", context="c1")
        await w.clock.advance(5)
        assert caller.told == ["about two"]


async def test_a_turn_that_an_answer_began_may_not_call_back() -> None:
    """Trap 7: an agent that led to the turn is not asked by what comes of its answer either."""
    results: list[Any] = []

    async def first(turn: Turn) -> Any:
        return await turn.call("acme/second", "begin")

    async def second(turn: Turn) -> str:
        if "skill_response" in turn.text:
            results.append(await turn.call("acme/first", "again", wait=False))
        else:
            await turn.call("acme/helper", "one", wait=False)
        return "done"

    helper = Helper(is_open=True)
    agents = {"first": first, "second": second, "helper": helper.answers}
    async with calling(agents, policies={"second": STARTS_TURN}) as w:
        await w.send("first", "go", context="c1")
        await w.clock.advance(5)
        (result,) = results
        assert result["error"]["code"] == "call_cycle"


async def test_a_copy_that_is_made_again_after_a_crash_is_the_same() -> None:
    async def asks(turn: Turn) -> str:
        await turn.call("acme/helper", "one", wait=False)
        return "asked"

    agents = {"caller": asks, "helper": Helper(is_open=True).answers}
    async with calling(agents, policies={"caller": CallPolicy(delivery="channel")}) as w:
        go_on = await hold_back(w)
        task = await w.send("caller", "go", context="c1")
        await until(lambda: ended(w, 1))
        (due,) = await w.store.records(CHANNEL_COPY, limit=9)
        # As before the commit that deletes the record.
        await w.routing._answers._copy(due)
        go_on()

        async def copied() -> Any:
            return not await w.store.records(CHANNEL_COPY, limit=9)

        await until(copied)
        (reply,) = late_replies(await w.get("caller", task.id))
        assert reply["output"] == "about one"
        assert "asked" in text_of(task.artifacts[0].parts)
