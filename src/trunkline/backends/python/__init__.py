"""Agents that are Python functions.

Read in this order: `decorator` (what `@agent` makes), `turn` (what the function gets),
`parts` and `content` (what it may say), `inline` (a turn of an async function), `run` with
`workers` and `handover` (a turn of a plain function, in a thread), `backend`, `loader`
(where agents are found).
"""

from trunkline.backends.python.backend import PythonBackend
from trunkline.backends.python.content import TurnEnd
from trunkline.backends.python.decorator import Agent, agent
from trunkline.backends.python.turn import Turn

__all__ = ["Agent", "PythonBackend", "Turn", "TurnEnd", "agent"]
