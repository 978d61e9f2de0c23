"""A tool token as a turn leaves it in the main store."""

from typing import Final

from trunkline.model.principal import Principal
from trunkline.ports.session_entries import SessionRef
from trunkline.ports.store import Scope, Store
from trunkline.routing.callers import CallingTurn
from trunkline.routing.tool_tokens import _encode, _key, _Lent, _put

TOKEN: Final = "tl_tool_" + "0123456789" * 4


async def lend(
    main: Store,
    *tools: str,
    agent: str = "acme/editor",
    principal: Principal | None,
) -> None:
    """Write the token down, for a turn of the agent in the context c1."""
    session = SessionRef(Scope(agent, "", "" if principal is None else principal.id), "c1")
    turn = CallingTurn(
        agent=agent,
        session=session,
        session_key=f"agent:{agent.partition('/')[2]}:a2a:c1",
        task_id="t1",
        principal=principal,
        chain=(),
    )
    named = tools or ("agent_call", "agent_poll")
    await main.change(_put(_key(TOKEN), _encode(_Lent(turn, named)), session))
