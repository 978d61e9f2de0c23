"""`TenantParts`: the tenants of the relay, with what they need of the gateway."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from trunkline.app.front import Front
from trunkline.model.errors import ConfigError
from trunkline.model.principal import Principal
from trunkline.ports.authenticator import Headers
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change, Record
from trunkline.ports.store import Store
from trunkline.relay.relay import Relay
from trunkline.relay.tenants.commands import NameTenant, NewToken, TenantCommands
from trunkline.relay.tenants.denials import Denials
from trunkline.relay.tenants.jwt_authenticator import JwtAuthenticator
from trunkline.relay.tenants.settings import TokenSettings
from trunkline.relay.tenants.tenants import Tenants
from trunkline.relay.tenants.wrong_tokens import WrongTokens
from trunkline.runtime.due_work import DueKind
from trunkline.runtime.record_changes import RecordChanges
from trunkline.runtime.runtime import Runtime
from trunkline.server.http import Request

# The names that the first tokens are for.
FIRST_AGENT: Final = "helper"
FIRST_CLIENT: Final = "me"


class FirstTenant(Struct, frozen=True, kw_only=True):
    host_token: str
    client_token: str

    def __repr__(self) -> str:
        return "FirstTenant()"


class TenantParts:
    """Made before the runtimes; `connect` comes after the front is there, and `open` after the
    runtimes are open."""

    def __init__(self, settings: TokenSettings, *, clock: Clock) -> None:
        """Raises ConfigError where a package is missing."""
        self.changes = RecordChanges(clock, feature="relay")
        self.tenants = Tenants(settings, self.changes, clock=clock)
        self.denials = Denials(self.changes, clock=clock)
        self._authenticator = JwtAuthenticator(
            settings, self.tenants, self.denials, self.changes, clock=clock
        )
        self.commands = TenantCommands(tenants=self.tenants, denials=self.denials, clock=clock)
        self._wrong = WrongTokens(clock=clock)
        self._front: Front | None = None

    def due_kinds(self) -> Sequence[DueKind]:
        """The due work of the main store."""
        return (DueKind(name=self.changes.kind, handle=_forget),)

    def connect(self, front: Front) -> None:
        self._front = front
        front.take_at_relay(self._authenticator)

    def watch(self, relay: Relay) -> None:
        """Let a change of a tenant, of a denial or of an API key end the sessions of hosts whose
        credentials count no more."""
        assert self._front is not None
        self.tenants.on_change(lambda names: relay.recheck(partial(_concerns, names)))
        self.denials.on_change(relay.recheck)
        self._front.on_apply(relay.recheck)

    async def open(self, main: Runtime) -> None:
        """Raises StoreError."""
        main.hear(self.changes.topic, lambda _: self.changes.hear())
        await self.changes.open(
            await main.main.open(),
            is_shared=main.is_shared,
            tell=partial(main.tell, self.changes.topic),
        )

    async def open_alone(self, store: Store, *, is_shared: bool) -> None:
        """Work on an open store without a gateway, for a command of an operator. Raises
        StoreError."""
        await self.changes.open(store, is_shared=is_shared, tell=lambda: None)

    async def first(self, name: str) -> "FirstTenant | None":
        """A tenant with this name and tokens for a host and a client, if the relay has none yet.
        Raises InvalidParams, ConfigError and StoreError."""
        if self.tenants.shared_signers or any(True for _ in self.tenants.all()):
            return None
        if self.tenants.is_taken(name):
            raise ConfigError(
                f"the relay has no tenant, and the name {name} is that of one that was removed; "
                "start with --tenant NAME"
            )
        await self.commands.add(NameTenant(name=name))
        host = await self.commands.token(NewToken(tenant=name, agents=[FIRST_AGENT]))
        client = await self.commands.token(NewToken(tenant=name, client=FIRST_CLIENT))
        return FirstTenant(host_token=host.token, client_token=client.token)

    async def close(self) -> None:
        await self._authenticator.close()
        await self.changes.close()

    async def identify_host(self, headers: Headers, address: str) -> Principal | None:
        """The principal of a host; None for headers without a credential. An empty address is not
        counted. Raises Unauthenticated, TooManyRequests or Unavailable."""
        assert self._front is not None
        access = self._front.relay_access
        if not address:
            return await access.identify_key(headers)
        return await self._wrong.identify(
            address,
            known=lambda: None if access.known is None else access.known(headers),
            identify=lambda: access.identify_key(headers),
        )

    async def identify_caller(self, request: Request) -> Principal:
        """The principal of a request to an agent of the relay. Raises Unauthenticated,
        PermissionDenied, TooManyRequests or Unavailable."""
        assert self._front is not None
        access = self._front.relay_access
        principal = await self._wrong.identify(
            request.peer,
            known=lambda: None if access.known is None else access.known(request.headers),
            identify=lambda: access.identify(request),
        )
        assert principal is not None
        return principal


def _concerns(names: Sequence[str] | None, principal: Principal) -> bool:
    return names is None or any(principal.id.startswith(f"host:{name}:") for name in names)


async def _forget(_: Record) -> Sequence[Change]:
    """Due work deletes a record for which its handler has no change."""
    return ()
