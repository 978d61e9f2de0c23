"""`SignInToken`: exchanges the code of a program for a session, at the token endpoint.

Clients of the hub send JSON, and get the user and the session. A form with
`grant_type=authorization_code` is answered as RFC 6749 has it.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from starlette.requests import Request

from trunkline.api.input import MAX_FORM_BYTES, read_json
from trunkline.api.me import UserView
from trunkline.hub.oauth_token_api import AccessToken, OAuthError
from trunkline.hub.sign_in import Session, SignIn
from trunkline.hub.sign_in_api import source_of_request, view_of
from trunkline.hub.sign_in_codes import CodeRefused
from trunkline.hub.token_values import SCOPES
from trunkline.model.errors import PermissionDenied
from trunkline.model.timestamps import format_timestamp
from trunkline.ports.clock import Clock

GRANT: Final = "authorization_code"
_MAX_CHARS: Final = 1000


class CodeExchange(Struct, frozen=True, kw_only=True):
    """The JSON that programs send."""

    code: str
    code_verifier: str

    def __repr__(self) -> str:
        return "CodeExchange()"


class SessionView(Struct, frozen=True, kw_only=True, rename="camel"):
    token: str
    # RFC 3339
    expires_at: str

    def __repr__(self) -> str:
        return "SessionView()"


class SignedIn(Struct, frozen=True, kw_only=True):
    user: UserView
    session: SessionView


class SignInToken:
    def __init__(self, sign_in: SignIn, clock: Clock) -> None:
        self._sign_in = sign_in
        self._clock = clock

    async def json(self, request: Request) -> SignedIn:
        """Raises OAuthError, TooManyRequests, Unavailable and StoreError."""
        self._sign_in.check_providers()
        given = await read_json(request, CodeExchange, max_bytes=MAX_FORM_BYTES)
        session = await self._session(request, given.code, given.code_verifier)
        return SignedIn(
            user=view_of(session.user),
            session=SessionView(
                token=session.token, expires_at=format_timestamp(session.expires_ms)
            ),
        )

    async def form(self, fields: Mapping[str, str], request: Request) -> AccessToken:
        """RFC 6749, 4.1.3. A client id is not needed: any program may ask (RFC 8252, 8.4)."""
        self._sign_in.check_providers()
        for name in ("code", "code_verifier"):
            if name not in fields:
                raise OAuthError("invalid_request", f"{name} is missing")
        session = await self._session(request, fields["code"], fields["code_verifier"])
        return AccessToken(
            access_token=session.token,
            expires_in=(session.expires_ms - self._clock.now_ms()) // 1000,
            scope=" ".join(SCOPES),
        )

    async def _session(self, request: Request, code: str, verifier: str) -> Session:
        self._sign_in.admit(source_of_request(request))
        if len(code) > _MAX_CHARS or len(verifier) > _MAX_CHARS:
            raise OAuthError("invalid_grant", "The code is not valid")
        try:
            return await self._sign_in.exchange(code, verifier)
        except (CodeRefused, PermissionDenied) as error:
            raise OAuthError("invalid_grant", error.message) from None
