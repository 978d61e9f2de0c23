"""`SignIn`: signs people in: at a provider, then with a session for the browser or a code for a
program."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from msgspec import Struct

from trunkline.hub.providers.provider import Answer, LocalLogin, Person, Profile, Provider
from trunkline.hub.sign_in_codes import SignInCodes, refused
from trunkline.hub.sign_in_flow import Program, SignInFlow
from trunkline.hub.sign_in_limits import SignInLimits
from trunkline.hub.sign_in_settings import allows_sign_up
from trunkline.hub.users import User, Users
from trunkline.model.errors import (
    InvalidParams,
    PermissionDenied,
    RouteNotFound,
    TrunklineError,
    Unauthenticated,
    Unavailable,
)
from trunkline.model.handles import folded
from trunkline.ports.clock import Clock

_log = logging.getLogger("trunkline.hub")

_RETRY_AFTER_S: Final = 3600
_MAX_LOGIN_CHARS: Final = 100
CALLBACK_PATH: Final = "/api/v1/auth/oauth/callback"


class Session(Struct, frozen=True, kw_only=True):
    """A new session. Only this holds its token."""

    user: User
    id: str
    token: str
    expires_ms: int

    def __repr__(self) -> str:
        return f"Session(user={self.user!r}, id={self.id!r})"


class OpenSession(Protocol):
    def __call__(self, user: User) -> Awaitable[Session]:
        """A session of the user, whose id `revoke` takes. Raises StoreError."""
        ...


class SignIn:
    def __init__(
        self,
        *,
        providers: Mapping[str, Provider],
        users: Users,
        codes: SignInCodes,
        limits: SignInLimits,
        open_session: OpenSession,
        revoke: Callable[[str], Awaitable[None]],
        clock: Clock,
        new_secret: Callable[[], str],
        base_url: str,
    ) -> None:
        """`new_secret` gives at least 32 characters of base64url that cannot be guessed."""
        self.providers = providers
        self._users = users
        self._codes = codes
        self._limits = limits
        self._open_session = open_session
        self._revoke = revoke
        self._clock = clock
        self._new_secret = new_secret
        self._callback_url = base_url + CALLBACK_PATH

    def admit(self, source: str) -> None:
        """Count a request that needs no credential. Raises TooManyRequests."""
        self._limits.request(source, self._clock.monotonic())

    def check_providers(self) -> None:
        """Raises Unavailable where no way to sign in is configured."""
        if not self.providers:
            raise Unavailable(
                "This gateway has no sign-in. Set passwords = true in [hub.sign_in], or add a "
                "table [hub.sign_in.providers.NAME]",
                retry_after_s=_RETRY_AFTER_S,
            )

    def begin(self, provider: str, *, next: str, program: Program | None) -> SignInFlow:
        """A new sign-in. Raises InvalidParams for a provider that there is not."""
        if provider not in self.providers:
            raise InvalidParams.at("provider", f"must be one of: {', '.join(self.providers)}")
        return SignInFlow(
            secret=self._new_secret(),
            provider=provider,
            started_ms=self._clock.now_ms(),
            next=next,
            program=program,
        )

    async def address(self, flow: SignInFlow) -> str:
        """Where the browser signs in. Raises Unavailable."""
        return await self.providers[flow.provider].address(flow, self._callback_url)

    async def check_password(
        self, flow: SignInFlow, login: str, password: str, source: str
    ) -> Answer:
        """What goes to the callback. Raises Unauthenticated, TooManyRequests, Unavailable."""
        name = folded(login[:_MAX_LOGIN_CHARS])
        self._limits.begin(name, source, self._clock.monotonic())
        user = await self._users.check(login, password)
        if user is None:
            _log.info("a sign-in failed", extra={"provider": flow.provider, "source": source})
            raise Unauthenticated("The login or the password is wrong")
        self._limits.succeeded(name, source)
        code = await self._codes.issue(user.login, challenge=flow.challenge, purpose="passwords")
        return Answer(code=code, state=flow.state)

    async def finish(self, flow: SignInFlow, answer: Answer) -> User:
        """Who has signed in. Raises PermissionDenied, InvalidParams, Unavailable, StoreError."""
        if answer.error or not answer.code:
            raise PermissionDenied("The sign-in was cancelled or refused at the provider")
        provider = self.providers[flow.provider]
        person = await provider.person(answer, flow, self._callback_url)
        user = await self._user_of(person, provider)
        if user is None or not user.may_sign_in:
            raise _not_allowed()
        return user

    async def _user_of(self, person: Person, provider: Provider) -> User | None:
        match person:
            case LocalLogin():
                return await self._users.find(person.login)
            case Profile():
                known = await self._users.of_identity(person.identity)
                if known is not None or not allows_sign_up(
                    provider.sign_up, account=person.account, verified_email=person.verified_email
                ):
                    return known
                return await self._users.sign_up(
                    person.identity,
                    account=person.account or person.nickname,
                    display_name=person.display_name,
                )

    async def code_for(self, user: User, program: Program) -> str:
        """A code that the program exchanges for a session. Raises StoreError."""
        return await self._codes.issue(user.login, challenge=program.challenge, purpose="program")

    async def exchange(self, code: str, verifier: str) -> Session:
        """The session for a code. Raises CodeRefused and StoreError."""
        redeemed = await self._codes.redeem(code, verifier, purpose="program")
        user = await self._users.find(redeemed.login)
        if user is None or not user.may_sign_in:
            raise refused()
        session = await self.open(user)
        await self._codes.exchanged(redeemed, token=session.id)
        return session

    async def open(self, user: User) -> Session:
        """A session of a user who has signed in. Raises PermissionDenied and StoreError."""
        session = await self._open_session(user)
        # A change of the user revokes its sessions, and this one may have come right after that.
        if await self._users.find(user.login) != user:
            await self._revoke(session.id)
            raise _not_allowed()
        _log.info("signed in", extra={"login": user.login, "session": session.id})
        return session


def _not_allowed() -> PermissionDenied:
    return PermissionDenied(
        "This account may not sign in here; ask the operator of the gateway to add it"
    )


def error_for_program(error: TrunklineError) -> str:
    """RFC 6749, 4.1.2.1."""
    match error:
        case PermissionDenied() | Unauthenticated():
            return "access_denied"
        case Unavailable():
            return "temporarily_unavailable"
        case InvalidParams() | RouteNotFound():
            return "invalid_request"
        case _:
            return "server_error"
