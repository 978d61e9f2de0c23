"""Agents of other frameworks, published as they are.

`adapted` recognises a framework by the module of an object's class, and so imports no framework
that the user has not imported. One module each: `langgraph`, `pydantic_ai`, `google_adk`;
`conversations` holds the parts that they share.
"""

from collections.abc import Callable
from typing import Any

from trunkline.backends.python.adapters.google_adk import adk_agent
from trunkline.backends.python.adapters.langgraph import graph_agent
from trunkline.backends.python.adapters.pydantic_ai import pydantic_ai_agent
from trunkline.backends.python.decorator import Agent, named_after
from trunkline.model.errors import ConfigError

__all__ = ["adapted", "adk_agent", "graph_agent", "pydantic_ai_agent"]

# The package and name of a class, anywhere among the bases → the function that makes the agent.
_MAKERS: dict[tuple[str, str], Callable[..., Agent]] = {
    ("langgraph", "PregelProtocol"): graph_agent,
    ("pydantic_ai", "AbstractAgent"): pydantic_ai_agent,
    ("google.adk", "BaseAgent"): adk_agent,
    ("google.adk", "Runner"): adk_agent,
    ("google.adk", "App"): adk_agent,
}


def adapted(value: Any, name: str) -> Agent | None:
    """The object of a framework as an agent, named after its `name` in the file; else None.

    Raises ConfigError for a graph that is not compiled.
    """
    for base in type(value).__mro__:
        for (package, title), make in _MAKERS.items():
            if base.__name__ == title and f"{base.__module__}.".startswith(f"{package}."):
                return make(value, **named_after(name.rpartition(".")[2]))
        if base.__name__ == "StateGraph" and base.__module__.startswith("langgraph."):
            raise ConfigError(
                f"{name} is a graph that is not compiled.\nWrite {name} = builder.compile() and "
                "name that."
            )
    return None
