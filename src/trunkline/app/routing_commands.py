"""`COMMANDS`: what operators do with calls and sessions, by the names of the operators' channel.

A running gateway takes them over the channel. Where none runs, `run_alone` opens the stores, does
the same and closes them; only a tool needs agents that run.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from trunkline.api.acting import ON_THE_MACHINE
from trunkline.app.stored_sessions import Lists, stored_sessions
from trunkline.model.errors import OperatorRefused
from trunkline.model.principal import EVERYTHING, OPERATOR, Principal
from trunkline.ports.call_views import CallFilter, SessionFilter, SessionName
from trunkline.routing.callers import CallingTurn
from trunkline.routing.routing import Routing
from trunkline.routing.tools import actions, carried_out
from trunkline.server.operator_channel import OperatorCommands, arguments_as
from trunkline.settings import Settings

LIST_CALLS: Final = "calls.list"
SHOW_CALL: Final = "calls.show"
LIST_SESSIONS: Final = "sessions.list"
READ_SESSION: Final = "sessions.read"
END_SESSION: Final = "sessions.end"
USE_TOOL: Final = "tools.use"

_OPERATOR: Final = Principal(id=ON_THE_MACHINE, roles=(OPERATOR,))


class NameCall(Struct, frozen=True, kw_only=True):
    id: str


class ReadSession(SessionName, frozen=True, kw_only=True):
    limit: int = 100


class UseTool(SessionName, frozen=True, kw_only=True):
    tool: str
    arguments: Any = None


Command: TypeAlias = Callable[[Lists, dict[str, Any]], Awaitable[Any]]


async def _list_calls(lists: Lists, arguments: dict[str, Any]) -> Any:
    items, after = await lists.calls.page(arguments_as(CallFilter, arguments), by=_OPERATOR)
    return {"items": items, "after": after}


async def _show_call(lists: Lists, arguments: dict[str, Any]) -> Any:
    return await lists.calls.find(arguments_as(NameCall, arguments).id, by=_OPERATOR)


async def _list_sessions(lists: Lists, arguments: dict[str, Any]) -> Any:
    items, after = await lists.sessions.page(arguments_as(SessionFilter, arguments), by=_OPERATOR)
    return {"items": items, "after": after}


async def _read_session(lists: Lists, arguments: dict[str, Any]) -> Any:
    given = arguments_as(ReadSession, arguments)
    return {"messages": await lists.sessions.transcript(given, limit=given.limit, by=_OPERATOR)}


async def _end_session(lists: Lists, arguments: dict[str, Any]) -> Any:
    given = arguments_as(SessionName, arguments)
    return {"discardedCalls": await lists.sessions.end(given, by=_OPERATOR)}


COMMANDS: Final[Mapping[str, Command]] = {
    LIST_CALLS: _list_calls,
    SHOW_CALL: _show_call,
    LIST_SESSIONS: _list_sessions,
    READ_SESSION: _read_session,
    END_SESSION: _end_session,
}


def add_to(commands: OperatorCommands, routing: Routing) -> None:
    """Let a running gateway take the commands."""
    lists = Lists(routing.call_list, routing.session_list)
    for name, command in COMMANDS.items():
        commands.add(name, partial(command, lists))
    commands.add(USE_TOOL, partial(_use_tool, routing))


async def _use_tool(routing: Routing, arguments: dict[str, Any]) -> Any:
    """Use a tool in a session as its agent would, on behalf of the caller of the session. The
    caller may then call every agent, because an operator says so; which of them its agent may
    call, its settings say."""
    given = arguments_as(UseTool, arguments)
    session = await routing.session_list.find(given, by=_OPERATOR)
    scope = session.ref.scope
    if not session.callee.agent.calls_others:
        raise OperatorRefused(
            f"{scope.agent} has no tools that call others, so no answer would come to its session. "
            "Give it some with the key tools of its backend."
        )
    found = actions(routing.toolbox).get(given.tool)
    if found is None:
        raise OperatorRefused(f"the gateway has no tool {given.tool[:64]!r}.")
    turn = CallingTurn(
        agent=scope.agent,
        session=session.ref,
        session_key=session.key,
        task_id="",
        principal=Principal(id=scope.principal, tenant=scope.tenant, grants=EVERYTHING),
        chain=(session.callee.agent.mark,),
    )
    _, action = found
    return (await carried_out(action, turn, given.arguments)).value


async def run_alone(settings: Settings, name: str, arguments: dict[str, Any]) -> Any:
    """The result of a command on the stores of the settings. Raises StoreError or another
    TrunklineError."""
    async with stored_sessions(settings) as lists:
        return msgspec.to_builtins(await COMMANDS[name](lists, arguments))
