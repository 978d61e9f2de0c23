"""`acting`: on whose behalf, and by which operation, the current task changes the hub.

The audit reads it where a change is committed, so that no change can forget to say who made it.
"""

from contextvars import ContextVar
from typing import Final

from msgspec import Struct


class Acting(Struct, frozen=True):
    # The id of the principal, and the public id of its credential.
    who: str = ""
    token: str = ""
    # The name of a route, or of a command of an operator.
    action: str = "change"


# Who gives commands on the machine of the gateway.
ON_THE_MACHINE: Final = "@operator"
NOT_KNOWN: Final = Acting()
acting: Final[ContextVar[Acting]] = ContextVar("acting", default=NOT_KNOWN)
