"""`CredentialParts`: the tokens of the hub, with what they need of the gateway."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from trunkline.api.api import Route
from trunkline.app.directory import AgentDirectory
from trunkline.hub.agent_views import configured_id
from trunkline.hub.certificate_authenticator import CertificateAuthenticator
from trunkline.hub.grants_api import GrantsApi
from trunkline.hub.held_principals import HeldPrincipals
from trunkline.hub.jwt_authenticator import JwtAuthenticator
from trunkline.hub.noted import Noted
from trunkline.hub.oauth_token_api import OAuthTokenApi, OnDenied
from trunkline.hub.registry import Registry
from trunkline.hub.token_authenticator import TokenAuthenticator
from trunkline.hub.token_changes import TokenChanges
from trunkline.hub.token_commands import TokenCommands
from trunkline.hub.token_explain import AgentFacts
from trunkline.hub.tokens import Tokens
from trunkline.hub.tokens_api import TokensApi
from trunkline.model.principal import OPERATOR, Principal, manages
from trunkline.ports.authenticator import Authenticator
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change
from trunkline.remote.jwks import Jwks
from trunkline.runtime.due_work import DueKind
from trunkline.runtime.record_changes import RecordChanges
from trunkline.settings.hub import HubSettings


class CredentialParts:
    def __init__(
        self,
        settings: HubSettings,
        changes: RecordChanges,
        registry: Registry,
        *,
        clock: Clock,
        allow_private: bool,
        noted: Noted,
        on_denied: OnDenied,
    ) -> None:
        """`allow_private`: whether the keys of issuers may be at private addresses. `on_denied` is
        told of refusals of the token endpoint. Raises ConfigError."""
        self._registry = registry
        # The handles of the agents of the configuration.
        self._configured: Callable[[], Iterable[str]] = tuple
        self.tokens = Tokens(changes, clock=clock, style=settings.style)
        self._in_use = TokenAuthenticator(self.tokens, changes, clock=clock)
        self._audit = noted
        self._changes = TokenChanges(self.tokens, clock=clock, noted=self._noted)
        self.commands = TokenCommands(changes=self._changes, agent=self._facts_of, clock=clock)
        held = HeldPrincipals(changes, self.tokens.grants, clock=clock)
        self._jwt: JwtAuthenticator | None = None
        if settings.jwt:
            keys = {
                name: Jwks(
                    name,
                    url=issuer.jwks_url,
                    path=issuer.jwks_path,
                    clock=clock,
                    allow_private=allow_private,
                )
                for name, issuer in settings.jwt.items()
            }
            self._jwt = JwtAuthenticator(settings.jwt, keys, held, clock=clock)
        self._certificates: CertificateAuthenticator | None = None
        if settings.client_certificates is not None:
            holders = settings.client_certificates.principals
            self._certificates = CertificateAuthenticator(holders, held)
        # Parts that take other grants of OAuth add them here.
        self.oauth = OAuthTokenApi(self.tokens, noted=self._noted, on_denied=on_denied)
        self._is_open = False

    @property
    def authenticators(self) -> tuple[Authenticator, ...]:
        more = (self._jwt, self._certificates)
        return (self._in_use, *(each for each in more if each is not None))

    def due_kinds(self) -> Sequence[DueKind]:
        return self.tokens.due_kinds()

    def routes(self) -> Iterator[Route]:
        yield from TokensApi(self._changes).routes()
        yield from GrantsApi(self.tokens.grants, find=self._managed, noted=self._noted).routes()
        yield from self.oauth.routes()

    def connect(self, directory: AgentDirectory) -> None:
        self._configured = lambda: [
            each.handle
            for each in directory.list()
            if self._registry.configured(each.handle) == each.handle
        ]

    def open(self) -> None:
        """The store is open."""
        self._is_open = True
        self._in_use.start()

    async def close(self) -> None:
        if self._is_open:
            await self._in_use.close()
        if self._jwt is not None:
            await self._jwt.close()

    def _noted(
        self, actor: Principal | str, action: str, subject: str, detail: str = ""
    ) -> Sequence[Change]:
        # The audit is written by running gateways.
        return self._audit(actor, action, subject, detail) if self._is_open else ()

    def _managed(self, agent_id: str, caller: Principal) -> str | None:
        """The handle of an agent whose grants the caller manages."""
        row = self._registry.find(agent_id)
        if row is not None:
            return row.handle if manages(caller, row.owner) else None
        if OPERATOR not in caller.roles:
            return None
        return next(
            (handle for handle in self._configured() if configured_id(handle) == agent_id), None
        )

    def _facts_of(self, handle: str) -> AgentFacts | None:
        row = self._registry.at(handle)
        if row is not None:
            is_private = row.visibility == "private"
            return AgentFacts(
                handle=row.handle,
                is_published=row.is_published,
                status=row.status,
                is_private=is_private,
                is_open=not is_private,
            )
        configured = self._registry.configured(handle)
        if not configured:
            return None
        return AgentFacts(handle=configured, is_published=True, status="configured")
