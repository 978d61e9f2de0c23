"""`COMMANDS`: what operators do with the relay, by the names of the operators' channel.

A running gateway takes them over the channel. Where none runs, `run_alone` opens the store, does
the same and closes it; only the attached agents are those of a gateway that runs.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from trunkline.api.acting import ON_THE_MACHINE, Acting, acting
from trunkline.app.adapters import make_store
from trunkline.app.relay.relaying import Relaying
from trunkline.app.relay.tenants import TenantParts
from trunkline.clock import SystemClock, Uuid7Ids
from trunkline.ports.clock import Clock
from trunkline.ports.store import Store
from trunkline.relay.mailbox.commands import MailCommands, NameAgent, NameLetter
from trunkline.relay.mailbox.mailboxes import Mailboxes
from trunkline.relay.tenants.commands import (
    NameDenial,
    NameTenant,
    NewToken,
    Nothing,
    RotateTenant,
    TenantCommands,
)
from trunkline.server.operator_channel import OperatorCommands, arguments_as
from trunkline.settings import Settings
from trunkline.settings.relay_server import RelayServerSettings

ADD_TENANT: Final = "relay.tenant.add"
LIST_TENANTS: Final = "relay.tenant.list"
DISABLE_TENANT: Final = "relay.tenant.disable"
ENABLE_TENANT: Final = "relay.tenant.enable"
ROTATE_TENANT: Final = "relay.tenant.rotate"
REMOVE_TENANT: Final = "relay.tenant.remove"
NEW_TOKEN: Final = "relay.token"
DENY: Final = "relay.deny"
ALLOW: Final = "relay.allow"
LIST_DENIALS: Final = "relay.denied"
LIST_AGENTS: Final = "relay.agents"
LIST_MAIL: Final = "relay.mail.list"
LIST_DEAD: Final = "relay.mail.dead"
RETRY_MAIL: Final = "relay.mail.retry"
DISCARD_MAIL: Final = "relay.mail.discard"

Given = TypeVar("Given", bound=Struct)
Command: TypeAlias = Callable[[TenantCommands, dict[str, Any]], Awaitable[Any]]


def _command(kind: type[Given], run: Callable[[TenantCommands, Given], Awaitable[Any]]) -> Command:
    """A command whose arguments are a struct."""

    async def command(commands: TenantCommands, arguments: dict[str, Any]) -> Any:
        return await run(commands, arguments_as(kind, arguments))

    return command


COMMANDS: Final[Mapping[str, Command]] = {
    ADD_TENANT: _command(NameTenant, TenantCommands.add),
    LIST_TENANTS: _command(Nothing, TenantCommands.list),
    DISABLE_TENANT: _command(NameTenant, TenantCommands.disable),
    ENABLE_TENANT: _command(NameTenant, TenantCommands.enable),
    ROTATE_TENANT: _command(RotateTenant, TenantCommands.rotate),
    REMOVE_TENANT: _command(NameTenant, TenantCommands.remove),
    NEW_TOKEN: _command(NewToken, TenantCommands.token),
    DENY: _command(NameDenial, TenantCommands.deny),
    ALLOW: _command(NameDenial, TenantCommands.allow),
    LIST_DENIALS: _command(Nothing, TenantCommands.denied),
}


async def _list_mail(commands: MailCommands, arguments: dict[str, Any]) -> Any:
    arguments_as(Nothing, arguments)
    return await commands.list()


async def _list_dead(commands: MailCommands, arguments: dict[str, Any]) -> Any:
    return await commands.dead(arguments_as(NameAgent, arguments))


async def _retry_mail(commands: MailCommands, arguments: dict[str, Any]) -> Any:
    return await commands.retry(arguments_as(NameLetter, arguments))


async def _discard_mail(commands: MailCommands, arguments: dict[str, Any]) -> Any:
    return await commands.discard(arguments_as(NameLetter, arguments))


MAIL_COMMANDS: Final[Mapping[str, Callable[[MailCommands, dict[str, Any]], Awaitable[Any]]]] = {
    LIST_MAIL: _list_mail,
    LIST_DEAD: _list_dead,
    RETRY_MAIL: _retry_mail,
    DISCARD_MAIL: _discard_mail,
}


def add_to(commands: OperatorCommands, relaying: Relaying) -> None:
    """Let a running gateway take the commands, if it is a relay."""
    if relaying.tenants is None or relaying.mailbox is None:
        return
    for name, mail_command in MAIL_COMMANDS.items():
        commands.add(name, partial(mail_command, relaying.mailbox.commands))
    for name, command in COMMANDS.items():
        commands.add(name, partial(_on_the_machine, name, command, relaying.tenants.commands))
    commands.add(LIST_AGENTS, partial(_list_agents, relaying))


async def _on_the_machine(
    name: str, command: Command, commands: TenantCommands, arguments: dict[str, Any]
) -> Any:
    """The command as that of an operator on the machine of the gateway, for the audit of the
    hub."""
    acting.set(Acting(ON_THE_MACHINE, action=name))
    return await command(commands, arguments)


async def _list_agents(relaying: Relaying, _: dict[str, Any]) -> Any:
    return {"items": await relaying.attached_agents()}


async def run_alone(settings: Settings, name: str, arguments: dict[str, Any]) -> Any:
    """The result of a command on the store of the settings, which are those of a relay. Raises
    StoreError or another TrunklineError."""
    relay = settings.as_relay
    assert relay is not None, "the settings of a relay"
    clock = SystemClock()
    store = make_store(settings.store, agent=settings.adopting_agent(settings.store), clock=clock)
    await store.open()
    try:
        if name in MAIL_COMMANDS:
            return await _run_mail_alone(settings, relay, store, clock, name, arguments)
        # Without a gateway, no token is checked.
        tokens = relay.tokens(allow_private=False)
        tenants = TenantParts(tokens, clock=clock)
        try:
            await tenants.open_alone(store, is_shared=settings.store.kind == "postgres")
            return msgspec.to_builtins(await COMMANDS[name](tenants.commands, arguments))
        finally:
            await tenants.close()
    finally:
        await store.close()


async def _run_mail_alone(
    settings: Settings,
    relay: RelayServerSettings,
    store: Store,
    clock: Clock,
    name: str,
    arguments: dict[str, Any],
) -> Any:
    mailboxes = Mailboxes(clock=clock, policies=relay.policies)
    try:
        is_shared = settings.store.kind == "postgres"
        await mailboxes.open(store, is_shared=is_shared, tell=lambda _: None)
        commands = MailCommands(
            mailboxes=mailboxes, policies=relay.policies, clock=clock, ids=Uuid7Ids()
        )
        return msgspec.to_builtins(await MAIL_COMMANDS[name](commands, arguments))
    finally:
        await mailboxes.close()
