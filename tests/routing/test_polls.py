"""R-09 and R-23: a session sees how its own calls stand, and those of no other."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.routing.helpers import Helper, acts, use
from tests.routing.world import BOB, CallWorld, calling, until

from trunkline.backends.python import Turn
from trunkline.ports.store import Store
from trunkline.testing import FakeClock


def agents(helper: Helper) -> Any:
    return {"caller": acts, "other": acts, "helper": helper.answers}


async def call(w: CallWorld, text: str, **arguments: Any) -> dict[str, Any]:
    return await use(w, "agent_call", agent="acme/helper", input=text, **arguments)


@pytest.mark.parametrize("by", ["taskId", "correlationId"])
async def test_a_poll_tells_how_a_call_stands(
    clock: FakeClock, make_store: Callable[[], Store], by: str
) -> None:
    helper = Helper()
    async with calling(agents(helper), store=make_store(), clock=clock) as w:
        made = await call(w, "one")
        ids = {"correlationId": made["correlationId"], "taskId": made["taskId"]}
        assert await use(w, "agent_poll", **{by: made[by]}) == {"status": "working", **ids}
        helper.open("one")
        await until(lambda: w.entries("caller", "c1"))
        done = {
            "status": "completed",
            **ids,
            "output": "about one",
            "confidence": 0.5,
            "assumptions": [],
            "caveats": [],
        }
        # A poll takes nothing away.
        assert await use(w, "agent_poll", **{by: made[by]}) == done
        assert await use(w, "agent_poll", **{by: made[by]}) == done


async def test_other_sessions_get_the_same_answer_as_for_an_id_that_nobody_has(
    clock: FakeClock, make_store: Callable[[], Store]
) -> None:
    async with calling(agents(Helper(is_open=True)), store=make_store(), clock=clock) as w:
        made = await call(w, "one")
        silent = await call(w, "two", timeout=0)
        await until(lambda: w.entries("caller", "c1"))
        own = await w.send("helper", "of Alice herself")
        others: list[dict[str, Any]] = [
            {"context": "c2"},
            {"by": "other"},
            {"principal": BOB},
        ]
        (nothing,) = {
            msgspec.json.encode(await use(w, "agent_poll", taskId="no-such-task", **session))
            for session in others
        }
        assert msgspec.json.decode(nothing)["status"] == "not_found"
        for session in others:
            for ids in (
                {"taskId": made["taskId"]},
                {"correlationId": made["correlationId"]},
                {"taskId": silent["taskId"]},
            ):
                found = await use(w, "agent_poll", **ids, **session)
                assert msgspec.json.encode(found) == nothing
            # Nor can they go on with it.
            arguments = {"agent": "acme/helper", "input": "more", "taskId": made["taskId"]}
            found = await use(w, "agent_call", **arguments, **session)
            assert found["status"] == "not_found"
        # Nor does the session that may call the helper see what it has not asked for.
        found = await use(w, "agent_poll", taskId=own.id)
        assert msgspec.json.encode(found) == nothing


@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_a_call_that_expects_no_answer_can_be_polled(
    clock: FakeClock, make_store: Callable[[], Store], is_elsewhere: bool
) -> None:
    """R-17."""
    helper = Helper()
    both = agents(helper)
    other = {"helper": both.pop("helper")} if is_elsewhere else None
    async with calling(both, elsewhere=other, store=make_store(), clock=clock) as w:
        made = await call(w, "one", timeoutSeconds=0)
        assert made == {"status": "working", "taskId": made["taskId"]}
        assert await use(w, "agent_poll", taskId=made["taskId"]) == made
        helper.open("one")

        async def done() -> Any:
            found = await use(w, "agent_poll", taskId=made["taskId"])
            return found if found["status"] != "working" else None

        assert (await until(done))["output"] == "about one"
        assert not await w.calls()
        assert not await w.entries("caller", "c1")


async def test_a_call_to_an_agent_with_its_own_store_can_be_polled_at_once() -> None:
    """Its record may still be on its way to the main store."""

    async def helper(turn: Turn) -> str:
        return "about " + turn.text

    async def calls(turn: Turn) -> Any:
        made = await turn.call("acme/helper", "one", wait=False)
        return await turn.poll(made["taskId"])

    async with calling({"caller": calls}, elsewhere={"helper": helper}) as w:
        w.runtimes[1].due._is_closing = True
        task = await w.send("caller", "go", context="c1")
        polled: Any = task.artifacts[0].parts[0].data
        assert polled["status"] in ("working", "completed")


async def test_the_record_of_a_call_outlasts_its_end_by_its_timeout_and_a_minute() -> None:
    """R-25. Afterwards its task tells how it came out, for as long as that is kept."""
    async with calling(agents(Helper(is_open=True))) as w:
        made = await call(w, "one", timeoutSeconds=10)
        await until(lambda: w.entries("caller", "c1"))
        await w.clock.advance(65)
        assert await w.calls()
        await w.clock.advance(10)
        assert not await w.calls()
        polled = await use(w, "agent_poll", taskId=made["taskId"])
        assert (polled["status"], polled["output"]) == ("completed", "about one")
        missing = await use(w, "agent_poll", correlationId=made["correlationId"])
        assert missing["status"] == "not_found"
