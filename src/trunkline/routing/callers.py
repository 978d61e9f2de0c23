"""`CallingTurn`: the turn in which an agent asks another one, as the gateway knows it.

All of it comes from the runtime, or from a credential that the gateway minted for the turn. Nothing
comes from the text of a message or from the arguments of a tool.
"""

from msgspec import Struct

from trunkline.model.principal import ANONYMOUS, Principal
from trunkline.model.routed_calls import CallOrigin
from trunkline.ports.backend import TurnRequest
from trunkline.ports.call_path import CallPath
from trunkline.ports.session_entries import SessionRef


class CallingTurn(Struct, frozen=True, kw_only=True):
    # The handle of the agent.
    agent: str
    session: SessionRef
    session_key: str
    task_id: str
    # On whose behalf; None where a restart forgot it.
    principal: Principal | None
    # The marks of the agents through which the turn came, that of the agent itself last.
    chain: tuple[str, ...]
    # For a turn that another agent asked for, or that an answer began.
    call: CallOrigin | None = None
    is_isolated: bool = False
    # For a route, which the operator has written: it may call the target that it names.
    is_route: bool = False

    @classmethod
    def of(cls, turn: TurnRequest, path: CallPath) -> "CallingTurn | None":
        """The turn under way; None where there is no gateway around it."""
        if turn.session is None:
            return None
        principal = path.caller
        if principal is None and turn.principal == ANONYMOUS.id:
            principal = ANONYMOUS
        return cls(
            agent=turn.agent,
            session=turn.session.ref,
            session_key=turn.session.key,
            task_id=turn.task_id,
            principal=principal,
            chain=path.chain,
            call=path.call,
            is_isolated=path.is_isolated,
        )
