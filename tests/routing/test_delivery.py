"""Where an answer goes: into the session, to the channel, and into a turn that it begins."""

import logging
from typing import Any

import msgspec
import pytest
from tests.routing.world import ALICE, BOB, CallWorld, calling, until

from trunkline.backends.python import Turn
from trunkline.engine.agent_calls import CallLimits, CallPolicy
from trunkline.model.principal import Principal
from trunkline.model.values import Task, text_of
from trunkline.ports.call_views import SessionFilter, SessionName, SessionView
from trunkline.ports.session_entries import SessionRef
from trunkline.ports.store import Scope


async def helper(turn: Turn) -> str:
    return f"about {turn.text}"


async def asks(turn: Turn) -> str:
    made = await turn.call("acme/helper", turn.text, wait=False)
    return str(made["taskId"])


async def answered(w: CallWorld) -> Any:
    """Once every call has ended."""
    calls = await w.calls()
    return bool(calls) and all(each.state != "pending" for each in calls)


def late_replies(task: Task) -> list[Any]:
    """What was added to the task as a later reply."""
    found = [each for each in task.artifacts if each.name == "Queued follow-up reply"]
    return [msgspec.json.decode(text_of(each.parts)) for each in found]


async def test_in_the_mode_channel_the_task_of_the_caller_gets_the_answer() -> None:
    policy = CallPolicy(delivery="channel")
    async with calling({"caller": asks, "helper": helper}, policies={"caller": policy}) as w:
        task = await w.send("caller", "the moon", context="c1")

        async def copied() -> Any:
            await w.clock.advance(1)
            return late_replies(await w.get("caller", task.id))

        (reply,) = await until(copied)
        assert reply["output"] == "about the moon"
        assert not await w.entries("caller", "c1")


async def test_in_the_mode_dual_the_log_gets_a_copy(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "trunkline.routing")
    policy = CallPolicy(delivery="dual", channel="log")
    async with calling({"caller": asks, "helper": helper}, policies={"caller": policy}) as w:
        await w.send("caller", "the moon", context="c1")

        async def copied() -> Any:
            await w.clock.advance(1)
            return [each for each in caplog.records if each.msg == "an answer of an agent"]

        (record,) = await until(copied)
        assert "about the moon" in record.__dict__["answer"]
        (entry,) = await w.entries("caller", "c1")
        assert entry["output"] == "about the moon"


async def test_beside_an_entry_of_the_session_the_channel_a2a_gets_no_copy() -> None:
    policy = CallPolicy(delivery="dual")
    async with calling({"caller": asks, "helper": helper}, policies={"caller": policy}) as w:
        task = await w.send("caller", "the moon", context="c1")
        await until(lambda: w.entries("caller", "c1"))
        await w.clock.advance(5)
        assert not late_replies(await w.get("caller", task.id))


async def test_an_answer_can_begin_the_next_turn_of_the_session() -> None:
    seen: list[list[str]] = []

    async def goes_on(turn: Turn) -> str:
        if "skill_response" not in turn.text:
            await turn.call("acme/helper", turn.text, wait=False)
            return "asked"
        seen.append([text_of(each.parts) for each in await turn.transcript()])
        return "thanks for " + str(msgspec.json.decode(turn.text)["output"])

    policy = CallPolicy(starts_turn=True)
    async with calling({"caller": goes_on, "helper": helper}, policies={"caller": policy}) as w:
        await w.send("caller", "the moon", context="c1")

        async def thanked() -> Any:
            await w.clock.advance(1)
            found = await w.routing.sessions.transcript(await session(w), limit=10)
            texts = [text_of(each.parts) for each in found]
            return texts if texts[-1].startswith("thanks") else None

        texts = await until(thanked)
        # The answer is there once: as the message that began the turn, not as an entry as well.
        assert [text[:16] for text in texts] == [
            "the moon",
            "asked",
            '{"kind":"skill_r',
            "thanks for about",
        ]
        assert seen == [["the moon", "asked"]]


async def session(w: CallWorld) -> Any:
    (view,) = await sessions_of(w, ALICE)
    return SessionRef(Scope(view.agent, view.tenant, view.principal), view.context_id)


async def sessions_of(w: CallWorld, principal: Principal) -> list[SessionView]:
    found, _ = await w.routing.session_list.page(SessionFilter(agent="acme/caller"), by=principal)
    return found


async def test_two_agents_cannot_keep_each_other_busy_with_answers_for_ever() -> None:
    turns = 0

    async def again(turn: Turn) -> str:
        nonlocal turns
        turns += 1
        await turn.call("acme/helper", "again", wait=False)
        return "asked"

    async with calling(
        {"caller": again, "helper": helper},
        policies={"caller": CallPolicy(starts_turn=True)},
        limits=CallLimits(max_turns=3),
    ) as w:
        await w.send("caller", "begin", context="c1")
        for _ in range(20):
            await w.clock.advance(1)
        assert turns == 4
        assert len(await w.entries("caller", "c1")) == 4


async def test_the_answers_to_a_session_that_was_ended_are_discarded() -> None:
    async def slow(turn: Turn) -> str:
        await turn.canceled()
        return "never"

    async with calling({"caller": asks, "helper": slow}) as w:
        await w.send("caller", "the moon", context="c1")
        await w.clock.advance(1)
        assert await w.routing.sessions.end(await session(w)) == 1
        assert w.routing.counts.ended["discarded"] == 1
        await w.clock.advance(70)
        assert not await w.entries("caller", "c1")
        assert not await sessions_of(w, ALICE)


async def test_an_ended_session_begins_anew() -> None:
    async def remembers(turn: Turn) -> str:
        before = await turn.transcript()
        kept = await turn.recall("name")
        await turn.keep("name", turn.text)
        return f"{len(before)} {kept}"

    async with calling({"caller": remembers}) as w:
        await w.send("caller", "one", context="c1")
        await w.clock.advance(1)
        again = await w.send("caller", "two", context="c1")
        assert text_of(again.artifacts[0].parts) == "2 one"
        await w.clock.advance(1)
        await w.routing.sessions.end(await session(w))
        await w.clock.advance(1)
        anew = await w.send("caller", "three", context="c1")
        assert text_of(anew.artifacts[0].parts) == "0 None"
        await w.clock.advance(1)
        last = await w.send("caller", "four", context="c1")
        assert text_of(last.artifacts[0].parts) == "2 three"


async def test_callers_see_their_own_sessions_only() -> None:
    async with calling({"caller": asks, "helper": helper}) as w:
        await w.send("caller", "one", context="c1", principal=ALICE)
        await w.send("caller", "two", context="c1", principal=BOB)
        (alice,), (bob,) = await sessions_of(w, ALICE), await sessions_of(w, BOB)
        assert (alice.principal, bob.principal) == ("alice", "bob")
        assert alice.key != bob.key
        name = SessionName(key=bob.key)
        messages = await w.routing.session_list.transcript(name, limit=10, by=BOB)
        texts = [text_of(message.parts) for message in messages]
        assert texts[0] == "two"
        assert not any("one" in text for text in texts)
