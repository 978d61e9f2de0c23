"""Objects of frameworks are recognised by their classes; ./check --frameworks has the real ones."""

import sys
from pathlib import Path

import pytest

from trunkline.backends.python import Agent
from trunkline.backends.python.adapters import adapted, conversations
from trunkline.backends.python.adapters.conversations import Recent, conversation_id, plain, told
from trunkline.backends.python.loader import load
from trunkline.backends.python.turn import Cancellation, Turn
from trunkline.model.errors import ConfigError
from trunkline.model.values import Part
from trunkline.testing import FakeSession, turn_request

FAKES = """
class PregelProtocol:
    __module__ = "langgraph.pregel.protocol"
    checkpointer = True

class CompiledStateGraph(PregelProtocol):
    __module__ = "langgraph.graph.state"

class StateGraph:
    __module__ = "langgraph.graph.state"

class AbstractAgent:
    __module__ = "pydantic_ai.agent.abstract"

class BaseAgent:
    __module__ = "google.adk.agents.base_agent"
    name = "the_counter"
    description = "Counts."
"""


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, type]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    found: dict[str, type] = {}
    exec(FAKES, found)
    return found


def test_frameworks_are_recognised(names: dict[str, type]) -> None:
    graph = adapted(names["CompiledStateGraph"](), "my_orders")
    assert graph is not None
    assert (graph.name, graph.slug) == ("My orders", "my-orders")
    assert adapted(names["AbstractAgent"](), "holder.clerk") is not None
    counter = adapted(names["BaseAgent"](), "root_agent")
    assert counter is not None
    assert (counter.name, counter.slug) == ("The counter", "the-counter")
    assert counter.description == "Counts."


@pytest.mark.parametrize("value", [42, "text", None, int, object(), lambda turn: turn])
def test_nothing_else_is(value: object) -> None:
    assert adapted(value, "value") is None


def test_a_namesake_of_another_package_is_not() -> None:
    namesake = type("BaseAgent", (), {"__module__": "google_adkish.agents"})
    assert adapted(namesake(), "value") is None


def write(text: str) -> str:
    path = Path("agents.py")
    path.write_text(f"{FAKES}\n{text}")
    return str(path)


@pytest.mark.usefixtures("names")
def test_the_only_one_of_a_file_is_found() -> None:
    place = write("builder = StateGraph()\ngraph = CompiledStateGraph()\n_other = AbstractAgent()")
    [agent] = load(place)
    assert isinstance(agent, Agent)
    assert agent.slug == "graph"
    with pytest.raises(ConfigError, match=r"builder is a graph that is not compiled"):
        load(f"{place}:builder")


@pytest.mark.usefixtures("names")
def test_of_several_one_has_to_be_named() -> None:
    place = write("one = CompiledStateGraph()\ntwo = AbstractAgent()")
    with pytest.raises(ConfigError, match=r"one, two\.\nName one as agents\.py:one"):
        load(place)
    assert load(f"{place}:two")[0].slug == "two"


@pytest.mark.usefixtures("names")
def test_the_root_agent_is_the_one() -> None:
    place = write("one = BaseAgent()\nroot_agent = BaseAgent()")
    assert [agent.slug for agent in load(place)] == ["the-counter"]


@pytest.mark.usefixtures("names")
def test_agents_of_ours_come_first() -> None:
    place = write(
        "from trunkline import agent\ngraph = CompiledStateGraph()\n"
        "@agent\nasync def mine(turn):\n    return ''"
    )
    assert [agent.slug for agent in load(place)] == ["mine"]


def turn(**fields: str) -> Turn:
    request = turn_request("hi", session=FakeSession(), **fields)
    return Turn(request, direct=False, cancellation=Cancellation())


def test_callers_never_share_a_conversation() -> None:
    ids = {
        conversation_id(turn()),
        conversation_id(turn(principal="bob")),
        conversation_id(turn(tenant="acme")),
        conversation_id(turn(context_id="context-2")),
    }
    assert len(ids) == 4
    assert conversation_id(turn()) == conversation_id(turn(task_id="task-2"))


def test_a_message_as_text() -> None:
    parts = (
        Part(text="look"),
        Part(data={"n": 1}),
        Part(raw=b"", filename="a.png"),
        Part(url="https://example.com/a"),
    )
    assert told(parts) == 'look\n\n{"n":1}\n\n[a.png]\n\nhttps://example.com/a'


def test_values_become_json() -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd"

    assert plain({"a": (1, Odd()), 2: None}) == {"a": [1, "odd"], "2": None}


def test_what_is_held_in_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "MOST_IN_MEMORY", 2)
    recent = Recent()
    assert [recent.put(key, None) for key in "abac"] == [None, None, None, "b"]
