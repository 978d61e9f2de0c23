"""Graphs of LangGraph as agents."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.language_models.fake_chat_models import (
    GenericFakeChatModel,
)
from langchain_core.messages import AIMessage, AIMessageChunk
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from tests.frameworks.chat_graph import chat
from tests.frameworks.conftest import Talk

from trunkline.backends.python import PythonBackend
from trunkline.backends.python.adapters import graph_agent
from trunkline.backends.python.loader import load
from trunkline.model.errors import ConfigError
from trunkline.model.outputs import (
    Failed,
    Final,
    Note,
    Question,
    Refused,
    StageStarted,
    Text,
    ToolCalled,
)
from trunkline.model.values import Part, Role, text_of
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
            make=lambda: PythonBackend(graph_agent(chat(), name="Chat"), clock=FakeClock()),
            hang="hang",
            crash="crash",
            tool="use hammer",
        )
    )


async def test_tokens_stream(talk: Talk) -> None:
    outputs = await talk(graph_agent(chat())).say("hello to you")
    texts = [output.delta for output in outputs if isinstance(output, Text)]
    assert (len(texts) > 2, "".join(texts)) == (True, "hello to you")


async def test_tools_are_shown(talk: Talk) -> None:
    outputs = await talk(graph_agent(chat())).say("use hammer")
    start, result = [output for output in outputs if isinstance(output, ToolCalled)]
    assert (start.phase, start.name, start.data) == ("start", "search", {"query": "hammer"})
    assert (result.phase, result.data, result.is_error) == ("result", "found hammer", False)
    assert Text("let me see") in outputs
    assert StageStarted() in outputs
    assert answer_text(outputs) == "the tool found hammer"


async def test_a_tool_that_fails(talk: Talk) -> None:
    outputs = await talk(graph_agent(chat())).say("use crash")
    assert [output.is_error for output in outputs if isinstance(output, ToolCalled)] == [
        False,
        True,
    ]


def seen(state: MessagesState) -> dict[str, Any]:
    told = [f"{message.type}: {message.content}" for message in state["messages"]]
    return {"messages": [AIMessage(" / ".join(told))]}


def listing(**options: Any) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("seen", seen)
    builder.add_edge(START, "seen")
    return builder.compile(**options)


@pytest.mark.parametrize("durable", [False, True], ids=["transcript", "checkpointer"])
async def test_the_conversation_goes_on(talk: Talk, durable: bool) -> None:
    graph = listing(checkpointer=InMemorySaver()) if durable else listing()
    caller = talk(graph_agent(graph))
    await caller.say("one")
    assert answer_text(await caller.say("two")) == "human: one / ai: human: one / human: two"


async def test_two_callers_of_one_context_share_nothing(talk: Talk) -> None:
    agent = graph_agent(listing(checkpointer=InMemorySaver()))
    await talk(agent, principal="alice").say("my secret")
    assert answer_text(await talk(agent, principal="bob").say("hi")) == "human: hi"


def ask(state: MessagesState) -> dict[str, Any]:
    first = interrupt("Which size?")
    second = interrupt({"question": "Which colour?", "options": ["red", "blue"]})
    return {"messages": [AIMessage(f"{first} and {second}")]}


def tailor(**options: Any) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    return builder.compile(**options)


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "checkpointer"])
async def test_an_interrupt_is_a_question(talk: Talk, durable: bool) -> None:
    graph = tailor(checkpointer=InMemorySaver()) if durable else tailor()
    caller = talk(graph_agent(graph))
    first = caller.turn("a shirt")
    [size] = [output async for output in caller.backend.start(first)]
    assert size == Question((Part(text="Which size?"),))
    [colour] = await caller.answer(first, "Which size?", "large")
    assert isinstance(colour, Question)
    assert text_of(colour.parts) == "Which colour?"
    assert colour.parts[1].data == {"question": "Which colour?", "options": ["red", "blue"]}
    done = await caller.answer(first, "Which colour?", Part(data="blue"))
    assert answer_text(done) == "large and blue"


async def test_a_question_that_the_conversation_left_behind(talk: Talk) -> None:
    caller = talk(graph_agent(tailor(checkpointer=InMemorySaver())))
    first, second = caller.turn("a shirt"), caller.turn("a hat")
    for turn in (first, second):
        assert [type(output) async for output in caller.backend.start(turn)] == [Question]
    answered = await caller.answer(second, "Which size?", "small")
    assert isinstance(answered[0], Question)
    [failed] = await caller.answer(first, "Which size?", "large")
    assert isinstance(failed, Failed)
    assert "no longer open" in failed.reason


async def test_a_restart_asks_again(talk: Talk) -> None:
    before, after = talk(graph_agent(tailor())), talk(graph_agent(tailor()))
    first = before.turn("a shirt")
    assert [type(output) async for output in before.backend.start(first)] == [Question]
    [again] = await after.answer(first, "Which size?", "large")
    assert again == Question((Part(text="Which size?"),))


class Report(TypedDict):
    topic: str
    text: str


def write(state: Report) -> dict[str, str]:
    get_stream_writer()({"step": "writing"})
    if state["topic"] == "ask":
        return {"text": str(interrupt("What about?"))}
    return {"text": f"All about {state['topic']}."}


def report() -> Any:
    builder = StateGraph(Report)
    builder.add_node("write", write)
    builder.add_edge(START, "write")
    return builder.compile()


async def test_a_graph_without_messages(talk: Talk) -> None:
    caller = talk(graph_agent(report()))
    note, final = await caller.say("walruses")
    assert note == Note((Part(data={"step": "writing"}),))
    assert final == Final((Part(text="All about walruses."),))
    [_, final] = await caller.say(Part(data={"topic": "otters"}))
    assert final == Final((Part(text="All about otters."),))


async def test_a_graph_without_messages_that_lost_its_question(talk: Talk) -> None:
    before, after = talk(graph_agent(report())), talk(graph_agent(report()))
    first = before.turn("ask")
    *_, question = [output async for output in before.backend.start(first)]
    assert isinstance(question, Question)
    [failed] = await after.answer(first, "What about?", "walruses")
    assert failed == Failed("The question was lost when the agent was restarted. Ask anew.")


class Two(TypedDict):
    left: str
    right: str


async def test_a_graph_that_needs_data(talk: Talk) -> None:
    builder = StateGraph(Two)
    builder.add_node("swap", lambda state: {"left": state["right"], "right": state["left"]})
    builder.add_edge(START, "swap")
    caller = talk(graph_agent(builder.compile()))
    [refused] = await caller.say("hello")
    assert refused == Refused("The agent takes data, an object with: left, right.")
    [final] = await caller.say(Part(data={"left": "a", "right": "b"}))
    assert final == Final((Part(data={"left": "b", "right": "a"}),))


async def test_usage_is_summed(talk: Talk) -> None:
    async def model(state: MessagesState) -> dict[str, Any]:
        usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
        return {"messages": [AIMessage("a", usage_metadata=usage, id=None)]}

    builder = StateGraph(MessagesState)
    builder.add_node("one", model)
    builder.add_node("two", model)
    builder.add_edge(START, "one")
    builder.add_edge("one", "two")
    final = (await talk(graph_agent(builder.compile())).say("x"))[-1]
    usage = {"inputTokens": 6, "outputTokens": 8, "totalTokens": 14}
    assert final == Final((), {"usage": usage})


async def test_thoughts_are_not_part_of_the_answer(talk: Talk) -> None:
    class Thinker(GenericFakeChatModel):
        async def _astream(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
            from langchain_core.outputs import ChatGenerationChunk

            for block in ({"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "so"}):
                yield ChatGenerationChunk(message=AIMessageChunk(content=[block]))

    async def model(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await Thinker(messages=iter([])).ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_edge(START, "model")
    outputs = await talk(graph_agent(builder.compile())).say("x")
    assert [output for output in outputs if isinstance(output, Text)] == [Text("so")]


async def test_an_image_reaches_the_graph(talk: Talk) -> None:
    image = Part(raw=b"png", media_type="image/png")
    answer = answer_text(await talk(graph_agent(listing())).say("look", image))
    assert "data:image/png;base64," in answer
    [refused] = await talk(graph_agent(listing())).say(Part(url="https://example.com/a.png"))
    assert isinstance(refused, Refused)


async def test_a_graph_that_is_a_function(talk: Talk) -> None:
    from langgraph.func import entrypoint

    @entrypoint()
    async def shout(text: str) -> str:
        return text.upper()

    assert await talk(graph_agent(shout)).say("hello") == [Final((Part(text="HELLO"),))]


def test_the_loader_takes_a_graph_as_it_is() -> None:
    for target in ("langgraph_agent.py:graph", "langgraph_agent.py"):
        [agent] = load(str(EXAMPLES / target))
        assert (agent.name, agent.slug) == ("Graph", "graph")
    with pytest.raises(ConfigError, match="not compiled"):
        load(str(EXAMPLES / "langgraph_agent.py:builder"))


async def test_the_example(talk: Talk) -> None:
    [agent] = load(str(EXAMPLES / "langgraph_agent.py"))
    caller = talk(agent)
    first = caller.turn("a walrus")
    [asked] = [output async for output in caller.backend.start(first)]
    assert asked == Question((Part(text="Shall I really order a walrus?"),))
    done = await caller.answer(first, "Shall I really order a walrus?", "yes")
    assert answer_text(done) == "Ordered: a walrus."
    assert Role.AGENT not in [message.role for message in caller.session.told]
