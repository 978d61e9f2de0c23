"""`Hub`: the hub of a gateway, put together and connected with the server."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from trunkline.api.about import AboutApi
from trunkline.api.api import Api
from trunkline.app.audit import AuditParts
from trunkline.app.card_views import agent_cards
from trunkline.app.credentials import CredentialParts
from trunkline.app.directory import AgentDirectory
from trunkline.app.front import Front
from trunkline.app.limits import LimitParts
from trunkline.app.registry import RegistryParts
from trunkline.app.relay.at_hub import AGENTS_PATH, RelayedAtHub
from trunkline.app.runtimes import Runtimes
from trunkline.app.sign_in import HubSignIn
from trunkline.hub.agent_commands import AgentCommands
from trunkline.hub.gate import HubGate
from trunkline.hub.sign_in_token import GRANT
from trunkline.hub.turn_credentials import TurnCredentials
from trunkline.model.handles import folded
from trunkline.model.principal import Principal
from trunkline.ports.authenticator import Authenticator
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change, Record
from trunkline.ports.store import Store
from trunkline.runtime.due_work import DueKind
from trunkline.runtime.record_changes import RecordChanges
from trunkline.server.asgi import AsgiRequest
from trunkline.settings import Settings
from trunkline.settings.hub import HubSettings
from trunkline.settings.server import is_loopback_host

# A socket that listens on one of these is at every loopback address, too.
_WILDCARDS: Final = ("", "0.0.0.0", "::")


class Hub:
    """Made before the runtimes, which take its gate and its due work; `connect` comes after the
    front and the directory are there, and `open` after the runtimes are open."""

    def __init__(
        self, settings: HubSettings, *, gateway: Settings, base_url: str, clock: Clock
    ) -> None:
        self.settings = settings
        self.changes = RecordChanges(clock, feature="hub")
        self.audit = AuditParts(settings.audit, clock=clock)
        self.changes.note = self.audit.trail.noted_changes
        self.api = Api(
            identify=self._identify, on_refusal=self.audit.refused_by_api, realm="trunkline"
        )
        self._configured = gateway
        self.registry = RegistryParts(settings, self.changes, clock=clock)
        self.credentials = CredentialParts(
            settings,
            self.changes,
            self.registry.registry,
            clock=clock,
            allow_private=gateway.network.allow_private_addresses,
            noted=self.audit.trail.noted,
            on_denied=self.audit.refused_by_token_endpoint,
        )
        self.tokens = self.credentials.tokens
        self.turn_credentials = TurnCredentials(self.tokens, clock=clock, is_own=self._is_own)
        self.authenticators: tuple[Authenticator, ...] = self.credentials.authenticators
        self.sign_in = HubSignIn(
            settings.sign_in,
            changes=self.changes,
            tokens=self.tokens,
            clock=clock,
            base_url=base_url,
            is_taken=self._is_taken,
            identify=self._identify,
            allow_private=gateway.network.allow_private_addresses,
            noted=self.audit.trail.noted,
        )
        prefix = "cw" if settings.style == "clawborrator" else "tl"
        about = AboutApi(
            lambda: self.api.routes,
            cookie=f"{prefix}_session",
            bearer_format=f"{prefix}_sess_<32hex>",
        )
        self.api.add(*about.routes(), *self.credentials.routes())
        self.limits = LimitParts(settings, self.registry.registry, clock=clock)
        self.gate = HubGate(limits=self.limits.limiter, audit=self.audit.trail)
        self._front: Front | None = None
        self._directory: AgentDirectory | None = None

    def due_kinds(self) -> Sequence[DueKind]:
        """The due work of the main store."""
        return (
            DueKind(name=self.changes.kind, handle=_forget),
            *self.credentials.due_kinds(),
            *self.sign_in.due_kinds(),
            *self.audit.due_kinds(),
        )

    def connect(
        self,
        front: Front,
        directory: AgentDirectory,
        *,
        on_deleted: Callable[[str], Awaitable[object]],
        relayed: RelayedAtHub | None = None,
    ) -> None:
        """`on_deleted` is called with the handle of an agent that was deleted. `relayed` has the
        agents that are attached to this gateway."""
        self._front, self._directory = front, directory
        absent = partial(front.application.serve_absent, self.registry.registry.current)
        front.application.mount(
            AGENTS_PATH, absent if relayed is None else partial(relayed.serve, absent)
        )
        self.registry.on_deleted = on_deleted
        self.limits.connect(directory)
        self.credentials.connect(directory)
        self.api.add(
            *self.registry.connect(
                directory, agent_cards(front, directory), figures=self.limits.figures
            ).routes()
        )
        self.api.add(*self.sign_in.routes())
        self.api.add(*self.audit.connect(directory, self.registry.registry).routes())
        self.credentials.oauth.grants[GRANT] = self.sign_in.token.form
        self.credentials.oauth.json = self.sign_in.token.json

    async def open(self, runtimes: Runtimes, settings: Settings) -> None:
        """Raises StoreError."""
        main = runtimes.at(settings.store, adopting=settings.adopting_agent(settings.store))
        main.hear(self.changes.topic, lambda _: self.changes.hear())
        await self.changes.open(
            await main.main.open(),
            is_shared=main.is_shared,
            tell=partial(main.tell, self.changes.topic),
        )
        await self.audit.open(runtimes, main)
        self.credentials.open()
        await self.registry.registry.open()
        self.limits.open(runtimes)

    async def open_alone(self, store: Store, settings: Settings) -> None:
        """Work on an open store without a gateway, for a command of an operator. `connect` is not
        called. Other gateways may run on a store that several share. Raises StoreError."""
        self.registry.work_alone(settings)
        is_shared = settings.store.kind == "postgres"
        await self.changes.open(store, is_shared=is_shared, tell=lambda: None)

    @property
    def agent_commands(self) -> AgentCommands:
        parts = self.registry
        return AgentCommands(registry=parts.registry, changes=parts.agents, views=parts.views)

    async def first_admin_token(self) -> str:
        """Made once in the life of the store; empty if it is not needed. Raises StoreError."""
        return await self.sign_in.first_admin_token(self.changes.store)

    async def close(self) -> None:
        await self.limits.close()
        await self.sign_in.close()
        await self.registry.registry.close()
        await self.credentials.close()
        await self.audit.close()
        await self.changes.close()

    def _is_own(self, url: str) -> bool:
        """Whether a URL leads to this gateway, as far as its settings tell."""
        assert self._directory is not None
        settings = self._directory.settings
        own = [_origin(each) for each in settings.public_urls().values()]
        own += [_origin(self._directory.base_url), (settings.server.host, settings.server.port)]
        host, port = _origin(url)
        if not is_loopback_host(host):
            return (host, port) in own
        return any(
            port == at and (name in _WILDCARDS or is_loopback_host(name)) for name, at in own
        )

    async def _is_taken(self, login: str) -> bool:
        """Whether something belongs to a login that no user has: agents, a service that manages
        them, grants, or the name of an API key, which is its principal. Raises StoreError."""
        settings = self._configured if self._directory is None else self._directory.settings
        name, prefix = folded(login), folded(f"{login}/")
        return (
            any(folded(key) == name for key in settings.auth.keys)
            or any(folded(handle).startswith(prefix) for handle in settings.agents)
            or any(row.key.startswith(prefix) for row in self.registry.registry.rows())
            or await self.tokens.manages_for(login)
            or bool(await self.tokens.grants.of(f"user:{login}"))
        )

    async def _identify(self, request: Request) -> Principal | None:
        """None for a request without a credential."""
        assert self._front is not None
        asked = AsgiRequest.of(request.scope, request.receive)
        return await self._front.identify_if_stated(asked)


def _origin(url: str) -> tuple[str, int]:
    """Host and port; whatever the scheme, there is one gateway behind them."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


async def _forget(_: Record) -> Sequence[Change]:
    """Due work deletes a record for which its handler has no change."""
    return ()
