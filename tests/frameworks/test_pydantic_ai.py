"""Agents of pydantic-ai, with the fake model behind them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent as TheirAgent
from pydantic_ai import ModelRetry, RunContext
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.openai import OpenAIProvider
from tests.frameworks.conftest import Talk

from trunkline.backends.python import PythonBackend, Turn
from trunkline.backends.python.adapters import pydantic_ai_agent
from trunkline.backends.python.loader import load
from trunkline.model.outputs import Final, StageStarted, Text, ToolCalled
from trunkline.model.values import Part, Role
from trunkline.testing import (
    BACKEND_CHECKS,
    BackendSubject,
    FakeClock,
    answer_text,
    run_turn,
    turn_request,
)
from trunkline.testing.check_backend import Check
from trunkline.testing.fake_model import FakeModel

pytestmark = pytest.mark.frameworks
EXAMPLES = Path(__file__).parents[2] / "examples" / "frameworks"


@pytest.fixture
async def model() -> AsyncIterator[FakeModel]:
    async with FakeModel() as model:
        yield model


def theirs(model: FakeModel, **options: Any) -> Any:
    provider = OpenAIProvider(base_url=f"{model.url}/v1", api_key="none")
    agent = TheirAgent(OpenAIChatModel("fake-1", provider=provider), **options)

    @agent.tool_plain
    def search(query: str) -> dict[str, str]:
        """Finds things."""
        if query == "nothing":
            raise ModelRetry("ask for something else")
        return {"found": query}

    return agent


@pytest.mark.parametrize("check", BACKEND_CHECKS, ids=lambda check: str(check.__name__))
async def test_it_is_a_backend(check: Check, model: FakeModel) -> None:
    await check(
        BackendSubject(
            make=lambda: PythonBackend(pydantic_ai_agent(theirs(model)), clock=FakeClock()),
            hang="SAY begun\nHANG",
            crash="FAIL 400",
            tool='TOOL search {"query": "hammer"}',
            stages='SAY {first}\nTOOL search {{"query": "{second}"}}',
        )
    )


async def test_tokens_tools_and_usage(talk: Talk, model: FakeModel) -> None:
    caller = talk(pydantic_ai_agent(theirs(model)))
    text = 'THINK hm\nSAY let me see\nTOOL search {"query": "hammer"}'
    outputs = await caller.say(text)
    assert outputs[:3] == [Text("let"), Text(" me"), Text(" see")]
    start, result = [output for output in outputs if isinstance(output, ToolCalled)]
    assert (start.phase, start.name, start.data) == ("start", "search", {"query": "hammer"})
    assert (result.phase, result.data, result.is_error) == ("result", {"found": "hammer"}, False)
    assert StageStarted() in outputs
    assert answer_text(outputs).startswith('search gave: {"found":"hammer"}')
    final = outputs[-1]
    assert isinstance(final, Final)
    assert (final.metadata or {})["usage"]["outputTokens"] > 0


async def test_a_tool_that_wants_to_be_called_otherwise(talk: Talk, model: FakeModel) -> None:
    text = 'TOOL search {"query": "nothing"}'
    outputs = await talk(pydantic_ai_agent(theirs(model))).say(text)
    assert [o.is_error for o in outputs if isinstance(o, ToolCalled)] == [False, True]


async def test_the_conversation_goes_on_with_its_tools(talk: Talk, model: FakeModel) -> None:
    caller = talk(pydantic_ai_agent(theirs(model, instructions="be brief")))
    await caller.say('TOOL search {"query": "hammer"}')
    await caller.say("and then?")
    roles = [message["role"] for message in model.requests[-1].body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]


async def test_what_cannot_be_read_any_more_is_told_as_text(talk: Talk, model: FakeModel) -> None:
    caller = talk(pydantic_ai_agent(theirs(model)))
    await caller.say('TOOL search {"query": "hammer"}')
    await caller.session.keep("pydantic-ai messages", "[{]")
    await caller.say("and then?")
    roles = [message["role"] for message in model.requests[-1].body["messages"]]
    assert roles == ["user", "assistant", "user"]


async def test_without_a_gateway_the_history_of_the_task_is_told(model: FakeModel) -> None:
    backend = PythonBackend(pydantic_ai_agent(theirs(model)), clock=FakeClock())
    history = (turn_request("one").message,)
    await run_turn(backend, turn_request("two", history=history))
    contents = [message["content"] for message in model.requests[-1].body["messages"]]
    assert contents[0] == "one"
    assert contents[-1] == "two"


class Size(BaseModel):
    width: int
    unit: str = "mm"


async def test_an_output_with_a_type_is_data(talk: Talk) -> None:
    agent = TheirAgent(TestModel(custom_output_args={"width": 3}), output_type=Size)
    final = (await talk(pydantic_ai_agent(agent)).say("how wide?"))[-1]
    assert isinstance(final, Final)
    assert final.parts == (Part(data={"width": 3, "unit": "mm"}),)


async def test_dependencies_are_made_for_the_turn(talk: Talk) -> None:
    agent = TheirAgent(TestModel(), deps_type=str)

    @agent.tool
    def who(context: RunContext[str]) -> str:
        """Says who asks."""
        return f"it is {context.deps}"

    def deps(turn: Turn) -> str:
        return turn.principal

    outputs = await talk(pydantic_ai_agent(agent, deps=deps), principal="alice").say("who?")
    assert "it is alice" in answer_text(outputs)


async def test_an_image_reaches_the_model(talk: Talk, model: FakeModel) -> None:
    image = Part(raw=b"png", media_type="image/png")
    await talk(pydantic_ai_agent(theirs(model))).say("look", image)
    content = model.requests[0].body["messages"][0]["content"]
    assert [part["type"] for part in content] == ["text", "image_url"]


async def test_the_loader_takes_an_agent_as_it_is(
    talk: Talk, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_URL", f"{model.url}/v1")
    [named] = load(str(EXAMPLES / "pydantic_agent.py:clerk"))
    [agent] = load(str(EXAMPLES / "pydantic_agent.py"))
    assert (named.name, named.slug) == (agent.name, agent.slug) == ("Clerk", "clerk")
    caller = talk(agent)
    assert answer_text(await caller.say('TOOL stock {"item": "walrus"}')) == "stock gave: 6\n"
    assert caller.session.told[-1].role is Role.AGENT
