"""An agent asks several others at once."""

import asyncio
from typing import Any

from tests.routing.world import calling, until

from trunkline.backends.python import Turn
from trunkline.engine.agent_calls import CallPolicy
from trunkline.model.errors import Unavailable
from trunkline.model.values import TaskState, text_of
from trunkline.testing import settle


class Helper:
    """Knows how many of its turns ran at once. It fails where the text says so."""

    def __init__(self) -> None:
        self.turns = 0
        self.at_once = 0
        self.most_at_once = 0
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def __call__(self, turn: Turn) -> Any:
        self.turns += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.go_on.wait()
            await settle()
            if turn.text == "hang":
                await turn.canceled()
            if turn.text == "ask":
                return turn.ask("Which moon?")
            if turn.text == "fail":
                return turn.fail("no ink")
            return {"output": f"about {turn.text}", "confidence": 0.8}
        finally:
            self.at_once -= 1


class Batcher:
    """Asks for what the test says, and keeps the result."""

    def __init__(self, calls: list[dict[str, Any]], **more: Any) -> None:
        self.calls = calls
        self.more = more
        self.result: dict[str, Any] = {}
        self.steps: list[dict[str, Any]] = []

    async def __call__(self, turn: Turn) -> str:
        batch = turn.call_batch(self.calls, **self.more)
        async for step in batch:
            self.steps.append(step)
        self.result = await batch
        return "done"


def agents(batcher: Batcher, helper: Helper) -> dict[str, Any]:
    async def ask(turn: Turn) -> str:
        return await batcher(turn)

    async def help(turn: Turn) -> Any:
        return await helper(turn)

    return {"caller": ask, "helper": help}


def call(text: str, **more: Any) -> dict[str, Any]:
    return {"agent": "acme/helper", "input": text, **more}


async def test_fifty_calls_of_which_some_fail() -> None:
    said = ["fail" if n % 10 == 3 else "ask" if n == 8 else f"{n}" for n in range(50)]
    calls = [call(text) for text in said]
    calls[20]["agent"] = "acme/nobody"
    batcher, helper = Batcher(calls, concurrency=7), Helper()
    async with calling(agents(batcher, helper)) as w:
        await w.send("caller", "go", context="c1")
    result = batcher.result
    assert (result["completedCount"], result["errorCount"], result["totalCount"]) == (43, 7, 50)
    assert result["aggregateConfidence"] == 0.8
    assert [each["index"] for each in result["results"]] == [*range(50)]
    by_status: dict[str, list[int]] = {}
    for each in result["results"]:
        by_status.setdefault(each["status"], []).append(each["index"])
    assert by_status["error"] == [3, 13, 20, 23, 33, 43]
    assert by_status["input_required"] == [8]
    assert result["results"][7]["output"] == "about 7"
    assert result["results"][3]["error"] == {"code": "failed", "message": "no ink"}
    assert result["results"][20]["error"]["code"] == "not_found"
    assert result["results"][8]["question"] == "Which moon?"
    assert helper.turns == 49
    assert helper.most_at_once == 7
    assert len(batcher.steps) == 50
    assert {step["agent"] for step in batcher.steps} == {"acme/helper", "acme/nobody"}


async def test_a_question_of_a_batch_is_answered_by_a_call_with_its_task() -> None:
    async def asker(turn: Turn) -> Any:
        return f"about {turn.text}" if turn.asked else turn.ask("Which moon?")

    async def answers(turn: Turn) -> str:
        batch = await turn.call_batch([call("the moon")])
        (asked,) = batch["results"]
        answer = await turn.call("acme/helper", "Io", task_id=asked["taskId"])
        return str(answer["output"])

    async with calling({"caller": answers, "helper": asker}) as w:
        task = await w.send("caller", "go", context="c1")
        assert text_of(task.artifacts[0].parts) == "about Io"


async def test_a_call_that_takes_too_long_does_not_hold_up_the_others() -> None:
    batcher, helper = Batcher([call("hang", timeoutSeconds=5), call("Io")]), Helper()
    async with calling(agents(batcher, helper)) as w:
        task = await w.send("caller", "go", context="c1", now=True)
        await w.clock.advance(4.9)
        assert not batcher.result
        assert [step["status"] for step in batcher.steps] == ["completed"]
        await w.clock.advance(0.5)
        await until(lambda: _settled(w, task.id))
    assert [each["status"] for each in batcher.result["results"]] == ["timeout", "completed"]
    assert "timed out after 5000ms" in batcher.result["results"][0]["error"]["message"]


async def test_the_total_timeout_ends_the_batch_with_what_it_has() -> None:
    calls = [call("hang"), call("Io")]
    batcher, helper = Batcher(calls, total_timeout_s=3, concurrency=1), Helper()
    async with calling(agents(batcher, helper)) as w:
        task = await w.send("caller", "go", context="c1", now=True)
        await w.clock.advance(3.1)
        await until(lambda: _settled(w, task.id))
    assert [each["status"] for each in batcher.result["results"]] == ["timeout", "timeout"]
    assert helper.turns == 1


async def test_without_waiting_the_result_comes_to_the_session() -> None:
    batcher, helper = Batcher([call("Io"), call("fail")], wait=False), Helper()
    async with calling(agents(batcher, helper)) as w:
        await w.send("caller", "go", context="c1")
        assert batcher.result["status"] == "pending"
        (entry,) = await until(lambda: w.entries("caller", "c1"))
        assert entry["correlationId"] == batcher.result["correlationId"]
        assert (entry["status"], entry["confidence"]) == ("completed", 0.8)
        assert entry["output"]["completedCount"] == 1
        (message,) = await w.entry_messages("caller", "c1")
        assert message.metadata is not None
        assert message.metadata["provenance"]["sourceTool"] == "agent_call_batch"


async def test_the_result_of_a_batch_may_be_larger_than_an_answer() -> None:
    batcher, helper = Batcher([call("x" * 90_000) for _ in range(4)]), Helper()
    async with calling(agents(batcher, helper)) as w:
        await w.send("caller", "go", context="c1")
    assert [len(each["output"]) for each in batcher.result["results"]] == [90_006] * 4


async def test_an_agent_that_may_call_nobody_gets_no_batch() -> None:
    batcher, helper = Batcher([call("Io")]), Helper()
    isolated = {"caller": CallPolicy(is_isolated=True)}
    async with calling(agents(batcher, helper), policies=isolated) as w:
        await w.send("caller", "go", context="c1")
        assert batcher.result["status"] == "forbidden"
        assert w.audit == [("policy_denied", "acme/caller", "")]


async def test_what_a_call_of_a_batch_may_not_do_is_an_error_of_it_alone() -> None:
    calls = [call("Io"), {"agent": "acme/caller", "input": "me"}]
    batcher, helper = Batcher(calls), Helper()
    async with calling(agents(batcher, helper)) as w:
        await w.send("caller", "go", context="c1")
        assert [each["status"] for each in batcher.result["results"]] == ["completed", "error"]
        assert batcher.result["results"][1]["error"]["code"] == "self_call_blocked"
        assert ("self_call_blocked", "acme/caller", "acme/caller") in w.audit


async def test_wrong_arguments_are_told_with_their_place() -> None:
    batcher, helper = Batcher([call("Io"), {"agent": "acme/helper", "timeout": -1}]), Helper()
    async with calling(agents(batcher, helper)) as w:
        await w.send("caller", "go", context="c1")
    assert batcher.result["status"] == "error"
    assert batcher.result["error"]["message"].startswith("calls[1]: timeout must be a number")


async def test_the_calls_name_the_batch_as_their_parent() -> None:
    batcher, helper = Batcher([call("Io"), call("Europa")]), Helper()
    async with calling(agents(batcher, helper)) as w:
        await w.send("caller", "go", context="c1")
        by_callee: dict[str, list[Any]] = {}
        for each in await w.calls():
            by_callee.setdefault(each.call.callee, []).append(each.call)
        (batch,) = by_callee["tool:agent_call_batch"]
        assert [each.parent for each in by_callee["acme/helper"]] == [batch.id] * 2
        assert {each.root for each in by_callee["acme/helper"]} == {batch.id}
        assert {each.depth for each in by_callee["acme/helper"]} == {1}


async def test_a_gateway_that_stops_begins_no_batch() -> None:
    batcher, helper = Batcher([call("Io")]), Helper()
    async with calling(agents(batcher, helper)) as w:

        async def closing() -> None:
            raise Unavailable("The gateway is shutting down", retry_after_s=5)

        w.routing.plans._open_main = closing  # type: ignore[assignment]
        await w.send("caller", "go", context="c1")
        assert batcher.result == {
            "status": "error",
            "error": {"code": "call_failed", "message": "The gateway is shutting down"},
        }


async def test_a_canceled_turn_waits_no_longer() -> None:
    batcher, helper = Batcher([call("hang")]), Helper()
    async with calling(agents(batcher, helper)) as w:
        task = await w.send("caller", "go", context="c1", now=True)
        await settle()
        await w.cancel("caller", task.id)
        assert (await w.get("caller", task.id)).status.state is TaskState.CANCELED
        assert not batcher.result


async def _settled(w: Any, task_id: str) -> bool:
    return bool((await w.get("caller", task_id)).status.state is TaskState.COMPLETED)
