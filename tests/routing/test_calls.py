"""An agent asks another one, and the answer comes to its session."""

from typing import Any

from tests.routing.world import calling, until

from trunkline.backends.python import Turn
from trunkline.model.values import TaskState, text_of


async def researcher(turn: Turn) -> Any:
    return {"output": f"found: {turn.text}", "confidence": 0.9, "caveats": "one source"}


async def asks(turn: Turn) -> str:
    """Ask without waiting."""
    made = await turn.call("acme/researcher", turn.text, wait=False)
    return f"{made['status']} {made['correlationId']} {made['taskId']}"


async def waits(turn: Turn) -> str:
    answer = await turn.call("acme/researcher", turn.text)
    return str(answer["output"])


async def test_the_answer_comes_to_the_session_of_the_caller() -> None:
    async with calling({"caller": asks, "researcher": researcher}) as w:
        task = await w.send("caller", "the moon", context="c1")
        status, correlation_id, task_id = text_of(task.artifacts[0].parts).split()
        assert status == "pending"
        entries = await until(lambda: w.entries("caller", "c1"))
        assert entries == [
            {
                "kind": "skill_response",
                "correlationId": correlation_id,
                "taskId": task_id,
                "status": "completed",
                "output": "found: the moon",
                "confidence": 0.9,
                "assumptions": [],
                "caveats": ["one source"],
            }
        ]
        (message,) = await w.entry_messages("caller", "c1")
        assert message.message_id == f"resp-{correlation_id}"
        assert message.metadata == {
            "provenance": {
                "kind": "tool_response",
                "sourceTool": "agent_call",
                "correlationId": correlation_id,
            }
        }


async def test_a_caller_that_waits_gets_the_answer_and_no_entry() -> None:
    async with calling({"caller": waits, "researcher": researcher}) as w:
        task = await w.send("caller", "the moon", context="c1")
        assert text_of(task.artifacts[0].parts) == "found: the moon"
        assert not await w.entries("caller", "c1")


async def test_the_called_agent_may_have_its_tasks_in_another_store() -> None:
    async with calling({"caller": asks}, elsewhere={"researcher": researcher}) as w:
        await w.send("caller", "the moon", context="c1")
        (entry,) = await until(lambda: w.entries("caller", "c1"))
        assert entry["output"] == "found: the moon"
        assert [each.state for each in await w.calls()] == ["completed"]


async def test_a_timeout_comes_when_no_answer_does() -> None:
    async def slow(turn: Turn) -> str:
        await turn.canceled()
        return "too late"

    async with calling({"caller": asks, "researcher": slow}) as w:
        task = await w.send("caller", "the moon", context="c1")
        task_id = text_of(task.artifacts[0].parts).split()[2]
        await w.clock.advance(59.9)
        assert not await w.entries("caller", "c1")
        await w.clock.advance(0.2)
        (entry,) = await until(lambda: w.entries("caller", "c1"))
        assert entry["kind"] == "skill_timeout"
        assert entry["message"] == "Agent call timed out after 60000ms"
        assert (await w.get("researcher", task_id)).status.state is TaskState.WORKING


async def test_the_transcript_has_the_answer() -> None:
    async def reads(turn: Turn) -> str:
        if turn.text == "first":
            await turn.call("acme/researcher", "the moon", wait=False)
            return "asked"
        return " | ".join(text_of(message.parts) for message in await turn.transcript())

    async with calling({"caller": reads, "researcher": researcher}) as w:
        await w.send("caller", "first", context="c1")
        await until(lambda: w.entries("caller", "c1"))
        task = await w.send("caller", "second", context="c1")
        first, asked, answer = text_of(task.artifacts[0].parts).split(" | ")
        assert (first, asked) == ("first", "asked")
        assert '"skill_response"' in answer
