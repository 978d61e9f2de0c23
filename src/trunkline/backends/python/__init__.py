"""Agents that are Python functions.

Read in this order: `decorator` (`@agent`), `turn` (the argument of the function), `parts` and
`outputs` (the values that it may yield), `async_functions` (a turn of an async function),
`plain_functions` (a turn of a plain function, in a thread), `backend`, `loader` (finds agents).
"""

from importlib import import_module
from typing import TYPE_CHECKING

from trunkline.backends.kind import Adapter, Kind
from trunkline.backends.python import settings
from trunkline.backends.python.rules import python_problems

if TYPE_CHECKING:
    from trunkline.backends.python.backend import PythonBackend
    from trunkline.backends.python.decorator import Agent, agent
    from trunkline.backends.python.outputs import TurnEnd
    from trunkline.backends.python.turn import Turn

__all__ = ["KIND", "Agent", "PythonBackend", "Turn", "TurnEnd", "agent"]

_HOMES = {
    "Agent": "decorator",
    "PythonBackend": "backend",
    "Turn": "turn",
    "TurnEnd": "outputs",
    "agent": "decorator",
}


def _adapter() -> Adapter[settings.PythonBackend]:
    from trunkline.backends.python.backend import make
    from trunkline.backends.python.doctor import check

    return Adapter(make, check)


KIND = Kind(
    settings=settings.PythonBackend, rules=python_problems, adapter=_adapter, has_own_name=True
)


def __getattr__(name: str) -> object:
    # Reading a configuration imports this file, so the implementation waits until it is used.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
