"""`COMMANDS`: what operators do with the hub, by the names of the operators' channel.

A running gateway takes them over the channel. Where none runs, `run_alone` opens the store, does
the same and closes it.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from trunkline.api.acting import ON_THE_MACHINE, Acting, acting
from trunkline.app import audit_commands
from trunkline.app.adapters import make_store
from trunkline.app.hub import Hub
from trunkline.clock import SystemClock
from trunkline.hub import user_commands as users
from trunkline.hub.agent_commands import AddAgent, ChangeAgent, ListAgents, NameAgent
from trunkline.hub.token_commands import ExplainToken, ListTokens, NameToken, RotateToken
from trunkline.hub.token_requests import NewToken
from trunkline.server.operator_channel import OperatorCommands, arguments_as
from trunkline.settings import Settings

Given = TypeVar("Given", bound=Struct)
Command: TypeAlias = Callable[[Hub, dict[str, Any]], Awaitable[Any]]


def _command(kind: type[Given], run: Callable[[Hub, Given], Awaitable[Any]]) -> Command:
    """A command whose arguments are a struct."""

    async def command(hub: Hub, arguments: dict[str, Any]) -> Any:
        return await run(hub, arguments_as(kind, arguments))

    return command


COMMANDS: Final[Mapping[str, Command]] = {
    "hub.user.add": _command(users.AddUser, lambda hub, given: hub.sign_in.commands.add(given)),
    "hub.user.list": _command(users.ListUsers, lambda hub, given: hub.sign_in.commands.list(given)),
    "hub.user.password": _command(
        users.SetPassword, lambda hub, given: hub.sign_in.commands.set_password(given)
    ),
    "hub.user.disable": _command(
        users.SetDisabled, lambda hub, given: hub.sign_in.commands.set_disabled(given)
    ),
    "hub.user.remove": _command(
        users.NameUser, lambda hub, given: hub.sign_in.commands.remove(given)
    ),
    audit_commands.COMMAND: _command(
        audit_commands.ReadAudit, lambda hub, given: audit_commands.read(hub.changes.store, given)
    ),
    "hub.agent.add": _command(AddAgent, lambda hub, given: hub.agent_commands.add(given)),
    "hub.agent.list": _command(ListAgents, lambda hub, given: hub.agent_commands.list(given)),
    "hub.agent.show": _command(NameAgent, lambda hub, given: hub.agent_commands.show(given)),
    "hub.agent.change": _command(ChangeAgent, lambda hub, given: hub.agent_commands.change(given)),
    "hub.agent.remove": _command(NameAgent, lambda hub, given: hub.agent_commands.remove(given)),
    "hub.token.create": _command(
        NewToken, lambda hub, given: hub.credentials.commands.create(given)
    ),
    "hub.token.list": _command(ListTokens, lambda hub, given: hub.credentials.commands.list(given)),
    "hub.token.revoke": _command(
        NameToken, lambda hub, given: hub.credentials.commands.revoke(given)
    ),
    "hub.token.rotate": _command(
        RotateToken, lambda hub, given: hub.credentials.commands.rotate(given)
    ),
    "hub.token.explain": _command(
        ExplainToken, lambda hub, given: hub.credentials.commands.explain(given)
    ),
}


def add_to(commands: OperatorCommands, hub: Hub) -> None:
    """Let a running gateway take the commands."""
    for name, command in COMMANDS.items():
        commands.add(name, partial(_on_the_machine, name, command, hub))


async def _on_the_machine(name: str, command: Command, hub: Hub, arguments: dict[str, Any]) -> Any:
    """The command as that of an operator on the machine of the gateway, for the audit."""
    acting.set(Acting(ON_THE_MACHINE, action=name))
    return await command(hub, arguments)


async def run_alone(settings: Settings, name: str, arguments: dict[str, Any]) -> Any:
    """The result of a command on the store of the settings, whose hub is on. Raises StoreError or
    another TrunklineError."""
    assert settings.hub is not None, "the settings of a hub"
    clock = SystemClock()
    store = make_store(settings.store, agent=settings.adopting_agent(settings.store), clock=clock)
    await store.open()
    try:
        hub = Hub(settings.hub, gateway=settings, base_url="", clock=clock)
        await hub.open_alone(store, settings)
        try:
            return msgspec.to_builtins(await _on_the_machine(name, COMMANDS[name], hub, arguments))
        finally:
            await hub.close()
    finally:
        await store.close()
