"""`HubSignIn`: the sign-in of a hub, put together of its settings."""

import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from starlette.requests import Request

from trunkline.api.api import Route
from trunkline.hub.first_admin import first_admin_token
from trunkline.hub.noted import Noted
from trunkline.hub.passwords import Passwords, check_installed
from trunkline.hub.providers.github import GithubProvider
from trunkline.hub.providers.local import LocalProvider
from trunkline.hub.providers.oidc import OidcProvider
from trunkline.hub.providers.provider import Provider
from trunkline.hub.sign_in import Session, SignIn
from trunkline.hub.sign_in_api import Cookies, SignInApi
from trunkline.hub.sign_in_codes import CODE, SignInCodes
from trunkline.hub.sign_in_limits import SignInLimits
from trunkline.hub.sign_in_settings import (
    PASSWORDS,
    SignInSettings,
)
from trunkline.hub.sign_in_settings import (
    GithubProvider as GithubSettings,
)
from trunkline.hub.sign_in_settings import (
    OidcProvider as OidcSettings,
)
from trunkline.hub.sign_in_token import SignInToken
from trunkline.hub.token_values import SCOPES, cookie_name
from trunkline.hub.tokens import Tokens
from trunkline.hub.user_commands import UserCommands
from trunkline.hub.users import User, Users
from trunkline.model.errors import InvalidRequest, RouteNotFound
from trunkline.model.principal import Principal
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change, Record
from trunkline.ports.store import Store
from trunkline.runtime.due_work import DueKind
from trunkline.runtime.record_changes import RecordChanges

_DAY_S: Final = 86_400


class HubSignIn:
    def __init__(
        self,
        settings: SignInSettings,
        *,
        changes: RecordChanges,
        tokens: Tokens,
        clock: Clock,
        base_url: str,
        is_taken: Callable[[str], Awaitable[bool]],
        identify: Callable[[Request], Awaitable[Principal | None]],
        allow_private: bool,
        noted: Noted,
    ) -> None:
        """`is_taken`: whether something belongs to a login that no user has. Raises
        ConfigError."""
        self._settings = settings
        self._noted = noted
        self._tokens = tokens
        self._clock = clock
        self._passwords = Passwords()
        self.users = Users(
            changes,
            passwords=self._passwords,
            sessions=tokens,
            rights=tokens.grants,
            clock=clock,
            is_taken=is_taken,
        )
        codes = SignInCodes(
            lambda: changes.store, sessions=self, clock=clock, new_secret=_new_secret
        )
        if settings.passwords:
            check_installed()
        self._providers = _providers(settings, codes, clock=clock, allow_private=allow_private)
        self.sign_in = SignIn(
            providers=self._providers,
            users=self.users,
            codes=codes,
            limits=SignInLimits(),
            open_session=self._open_session,
            revoke=self.revoke,
            clock=clock,
            new_secret=_new_secret,
            base_url=base_url,
        )
        session_cookie = cookie_name(tokens.style)
        self._api = SignInApi(
            self.sign_in,
            users=self.users,
            identify=identify,
            sign_out=self._sign_out,
            cookies=Cookies(
                session=session_cookie,
                flow=session_cookie.replace("session", "sign_in"),
                is_secure=base_url.startswith("https://"),
                session_s=settings.session_days * _DAY_S,
            ),
            clock=clock,
        )

    @property
    def commands(self) -> UserCommands:
        issuers = {
            name: given.issuer if isinstance(given, OidcSettings) else given.url.rstrip("/")
            for name, given in self._settings.providers.items()
        }
        return UserCommands(users=self.users, issuers=issuers)

    async def first_admin_token(self, store: Store) -> str:
        """The token of the first operator; empty unless one is needed. Raises StoreError."""
        return await first_admin_token(store, self._tokens, self.users, self._noted)

    @property
    def token(self) -> SignInToken:
        return SignInToken(self.sign_in, self._clock)

    def routes(self) -> Iterator[Route]:
        return self._api.routes()

    def end_others(self, end: Callable[[Request], Awaitable[Sequence[str]]]) -> None:
        """Have a sign-out end what other sessions a request has; it returns cookies to set."""
        self._api.end_others = end

    def due_kinds(self) -> Sequence[DueKind]:
        return (DueKind(name=CODE, handle=_forget),)

    async def close(self) -> None:
        self._passwords.close()
        for provider in self._providers.values():
            await provider.close()

    async def revoke(self, token: str) -> None:
        """Revoke a credential by its id, if there is one."""
        with suppress(RouteNotFound):
            await self._tokens.revoke(token)

    async def _open_session(self, user: User) -> Session:
        issued = await self._tokens.issue(
            kind="session",
            name="sign-in",
            principal=user.principal,
            scopes=SCOPES,
            reaches_open=True,
            roles=user.roles,
            expires_in_s=self._settings.session_days * _DAY_S,
            created_by=user.principal,
            also=self._noted(user.principal, "sign_in", f"user {user.login}"),
        )
        assert issued.expires_ms is not None
        return Session(user=user, id=issued.id, token=issued.token, expires_ms=issued.expires_ms)

    async def _sign_out(self, principal: Principal) -> None:
        with suppress(RouteNotFound):
            if (await self._tokens.find(principal.token)).token.kind == "session":
                await self._tokens.revoke(principal.token)
                return
        raise InvalidRequest("This credential is no session; revoke it where it was made")


def _providers(
    settings: SignInSettings, codes: SignInCodes, *, clock: Clock, allow_private: bool
) -> Mapping[str, Provider]:
    providers: dict[str, Provider] = {}
    if settings.passwords:
        providers[PASSWORDS] = LocalProvider(PASSWORDS, codes)
    for name, given in settings.providers.items():
        match given:
            case OidcSettings():
                providers[name] = OidcProvider(
                    name,
                    title=given.title or name,
                    issuer=given.issuer,
                    client_id=given.client_id,
                    client_secret=given.client_secret.reveal() if given.client_secret else "",
                    scopes=given.scopes,
                    algorithms=given.algorithms,
                    clock=clock,
                    sign_up=given.sign_up,
                    allow_private=allow_private,
                )
            case GithubSettings():
                providers[name] = GithubProvider(
                    name,
                    title=given.title or name,
                    url=given.url,
                    client_id=given.client_id,
                    client_secret=given.client_secret.reveal(),
                    sign_up=given.sign_up,
                )
    return providers


def _new_secret() -> str:
    return secrets.token_urlsafe(32)


async def _forget(_: Record) -> Sequence[Change]:
    """Due work deletes a record for which its handler has no change."""
    return ()
