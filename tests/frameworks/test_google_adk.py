"""Agents of Google ADK, with a fake model of theirs behind them."""

from pathlib import Path

import pytest
from google.adk.apps import App
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from tests.frameworks.conftest import Talk
from tests.frameworks.fake_llm import theirs

from trunkline.backends.python import PythonBackend
from trunkline.backends.python.adapters import adk_agent, conversations
from trunkline.backends.python.loader import load
from trunkline.model.outputs import Failed, Final, StageStarted, Text, ToolCalled
from trunkline.model.values import Part
from trunkline.testing import (
    BACKEND_CHECKS,
    BackendSubject,
    FakeClock,
    answer_text,
)
from trunkline.testing.check_backend import Check

pytestmark = pytest.mark.frameworks
EXAMPLES = Path(__file__).parents[2] / "examples" / "frameworks"


@pytest.mark.parametrize("check", BACKEND_CHECKS, ids=lambda check: str(check.__name__))
async def test_it_is_a_backend(check: Check) -> None:
    await check(
        BackendSubject(
            make=lambda: PythonBackend(adk_agent(theirs()), clock=FakeClock()),
            hang="hang",
            crash="crash",
            tool="use hammer",
        )
    )


async def test_words_stream_once(talk: Talk) -> None:
    *texts, final = await talk(adk_agent(theirs())).say("hello to you")
    assert texts == [Text("hello "), Text("to "), Text("you ")]
    usage = {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}
    assert final == Final((), {"usage": usage})


async def test_tools_are_shown(talk: Talk) -> None:
    outputs = await talk(adk_agent(theirs())).say("use hammer")
    assert outputs[0] == Text("let me see")
    start, result = [output for output in outputs if isinstance(output, ToolCalled)]
    assert (start.phase, start.name, start.data) == ("start", "search", {"query": "hammer"})
    assert (result.phase, result.data, result.is_error) == ("result", {"found": "hammer"}, False)
    assert StageStarted() in outputs
    assert "the tool gave {'found': 'hammer'}" in answer_text(outputs)


async def test_a_tool_that_finds_nothing(talk: Talk) -> None:
    outputs = await talk(adk_agent(theirs())).say("use nothing")
    assert [o.is_error for o in outputs if isinstance(o, ToolCalled)] == [False, True]


async def test_a_model_that_fails(talk: Talk) -> None:
    outputs = await talk(adk_agent(theirs())).say("fail")
    assert outputs == [Failed("The agent's model gave no answer.")]


async def test_the_conversation_goes_on(talk: Talk) -> None:
    caller = talk(adk_agent(theirs()))
    await caller.say("one")
    assert answer_text(await caller.say("everything")).strip() == "one / one / everything"


async def test_a_restart_tells_what_was_said_before(talk: Talk) -> None:
    before, after = talk(adk_agent(theirs())), talk(adk_agent(theirs()))
    await before.say("one")
    after.session.told = list(before.session.told)
    answer = answer_text(await after.say("everything"))
    assert answer.split() == ["one", "/", "one", "/", "everything"]


async def test_two_callers_of_one_context_share_nothing(talk: Talk) -> None:
    agent = adk_agent(theirs())
    await talk(agent, principal="alice").say("my secret")
    assert answer_text(await talk(agent, principal="bob").say("everything")) == "everything "


async def test_conversations_in_memory_are_bounded(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "MOST_IN_MEMORY", 2)
    agent = adk_agent(theirs())
    for number in range(4):
        await talk(agent).say("hello", context_id=f"context-{number}")
    runner = agent.fn._runner  # type: ignore[attr-defined]
    listed = await runner.session_service.list_sessions(app_name="trunkline", user_id="tester")
    assert len(listed.sessions) == 2


async def test_a_runner_keeps_its_own_sessions(talk: Talk) -> None:
    sessions = InMemorySessionService()
    runner = Runner(app_name="theirs", agent=theirs(), session_service=sessions)
    agent = adk_agent(runner)
    assert agent.description == "Helps."
    await talk(agent).say("hello")
    listed = await sessions.list_sessions(app_name="theirs", user_id="tester")
    assert len(listed.sessions) == 1


async def test_an_app(talk: Talk) -> None:
    agent = adk_agent(App(name="theirs", root_agent=theirs()))
    assert agent.description == "Helps."
    assert answer_text(await talk(agent).say("hello")) == "hello "


async def test_an_image_reaches_the_model(talk: Talk) -> None:
    image = Part(raw=b"png", media_type="image/png")
    assert answer_text(await talk(adk_agent(theirs())).say(image)) == "image/png "


async def test_the_loader_takes_an_agent_as_it_is(talk: Talk) -> None:
    [named] = load(str(EXAMPLES / "adk_agent.py:root_agent"))
    [agent] = load(str(EXAMPLES / "adk_agent.py"))
    assert named.description == agent.description == "Counts what you say."
    assert (agent.name, agent.slug) == ("Counter", "counter")
    caller = talk(agent)
    assert answer_text(await caller.say("hello")) == "You have said 1 thing so far."
    assert answer_text(await caller.say("hello")) == "You have said 2 things so far."
