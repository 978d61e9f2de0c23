"""`CALL_PATH`: how the work under way came about, for all that calls other agents.

The runtime sets it for each turn. It holds in all that the turn starts, so that a tool, a bridge or
the code of a Python agent sends the chain along without knowing of it.
"""

from contextvars import ContextVar
from typing import Final

from msgspec import Struct


class CallPath(Struct, frozen=True, gc=False):
    # The marks of the agents through which the call came, the agent of the turn last.
    chain: tuple[str, ...] = ()
    # Whether the agent of the turn may call no other agents meanwhile.
    is_isolated: bool = False


CALL_PATH: Final[ContextVar[CallPath]] = ContextVar("call_path", default=CallPath())  # noqa: B039 - it is frozen
