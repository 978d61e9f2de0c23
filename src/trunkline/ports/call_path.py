"""`CALL_PATH`: how the work under way came about, for all that calls other agents.

The runtime sets it for each turn. It holds in all that the turn starts, so that a tool, a bridge or
the code of a Python agent sends the chain along without knowing of it.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final, TypeAlias

from msgspec import Struct

from trunkline.model.principal import Principal
from trunkline.model.routed_calls import CallOrigin

# The credential of a call to this URL in the name of the caller of the turn; empty if the call has
# no rights, None for the URL of another gateway.
CredentialFor: TypeAlias = Callable[[str], Awaitable[str | None]]


class CallPath(Struct, frozen=True):
    # The marks of the agents through which the call came, the agent of the turn last.
    chain: tuple[str, ...] = ()
    # Whether the agent of the turn may call no other agents meanwhile.
    is_isolated: bool = False
    # None where every call has the rights of whoever configured it.
    credential_for: CredentialFor | None = None
    # On whose behalf the turn runs; None where a restart forgot it.
    caller: Principal | None = None
    # For a turn that another agent of the gateway asked for.
    call: CallOrigin | None = None
    # The task and the context of the turn, and the id of its request in the wire log, if that was
    # recorded.
    task_id: str = ""
    context_id: str = ""
    wire_id: str = ""


CALL_PATH: Final[ContextVar[CallPath]] = ContextVar("call_path", default=CallPath())  # noqa: B039 - it is frozen
