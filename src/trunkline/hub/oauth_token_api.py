"""`OAuthTokenApi`: the token endpoint of OAuth 2, with a table of the grants that it takes.

Programs exchange a key for an access token by client credentials (RFC 6749, 4.4): the id of the key
is the client id, and the key itself the client secret. The access token allows what the key allows,
for an hour, and ends with the key.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, TypeAlias
from urllib.parse import unquote_plus

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from trunkline.api.api import Call, Route
from trunkline.api.input import FORM, JSON, read_form
from trunkline.hub.noted import Noted
from trunkline.hub.token_values import SCOPES, Scope, digest_of, id_of, looks_like_token
from trunkline.hub.tokens import Tokens
from trunkline.model.errors import (
    CallerError,
    InvalidParams,
    InvalidRequest,
    PayloadTooLarge,
    StoreError,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    WrongMediaType,
)
from trunkline.protocol.errors import message

ACCESS_S: Final = 3600
# Errors of a caller that proves nothing, or something else than it may.
_DENIED: Final = ("invalid_client", "invalid_grant", "unauthorized_client")
_NO_STORE: Final = {"Cache-Control": "no-store", "Pragma": "no-cache"}


class OAuthError(CallerError):
    """An error in the form of RFC 6749, 5.2."""

    def __init__(self, code: str, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


class AccessToken(Struct, frozen=True, kw_only=True):
    """RFC 6749, 5.1."""

    access_token: str
    token_type: str = "Bearer"
    expires_in: int
    scope: str

    def __repr__(self) -> str:
        return "AccessToken()"


class OAuthRefusal(Struct, frozen=True, kw_only=True):
    """RFC 6749, 5.2."""

    error: str
    error_description: str


class OAuthForm(Struct, frozen=True, kw_only=True):
    """The fields of the body for client credentials."""

    grant_type: str
    client_id: str = ""
    client_secret: str = ""
    # Some of the scopes of the key, separated by spaces.
    scope: str = ""


# Answers a request with a grant type: the fields of its form, and the request. It returns a value
# for JSON or a whole response, and raises OAuthError.
GrantHandler: TypeAlias = Callable[[Mapping[str, str], Request], Awaitable[object]]
# Answers a request with a JSON body, which RFC 6749 does not know.
JsonHandler: TypeAlias = Callable[[Request], Awaitable[object]]
# Told of every request whose credential or code is refused, with the code of the error.
OnDenied: TypeAlias = Callable[[Request, str], None]


class OAuthTokenApi:
    def __init__(self, tokens: Tokens, *, noted: Noted, on_denied: OnDenied) -> None:
        self._tokens = tokens
        self._noted = noted
        self._on_denied = on_denied
        self.grants: dict[str, GrantHandler] = {"client_credentials": self._client_credentials}
        self.json: JsonHandler | None = None

    def routes(self) -> Iterator[Route]:
        yield Route(
            method="POST",
            path="/auth/oauth/token",
            name="get_access_token",
            tag="auth",
            summary="Exchange a credential for a token (RFC 6749).",
            description="With `grant_type=client_credentials` the client id is the id of a key, "
            "and the client secret the key; they may come as HTTP Basic instead.",
            handle=self._answer,
            body=OAuthForm,
            body_media_type=FORM,
            result=AccessToken,
            error=OAuthRefusal,
            is_public=True,
            takes_credential=False,
        )

    async def _answer(self, call: Call) -> Response:
        try:
            result = await self._result(call.request)
        except OAuthError as error:
            if error.code in _DENIED:
                self._on_denied(call.request, error.code)
            return _refusal(error)
        except (Unavailable, StoreError, TooManyRequests):
            # The table of errors of the interface has their status and Retry-After.
            raise
        if isinstance(result, Response):
            return result
        return Response(
            msgspec.json.encode(result), headers=_NO_STORE, media_type="application/json"
        )

    async def _result(self, request: Request) -> object:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == JSON and self.json is not None:
            return await self.json(request)
        try:
            given = await read_form(request)
        except PayloadTooLarge as error:
            raise OAuthError("invalid_request", error.message, status=413) from None
        except (InvalidParams, InvalidRequest, WrongMediaType) as error:
            raise OAuthError("invalid_request", message(error)) from None
        # RFC 6749, 3.2: a parameter without a value counts as absent.
        fields = {name: value for name, value in given.items() if value}
        grant = fields.get("grant_type", "")
        if not grant:
            raise OAuthError("invalid_request", "grant_type is missing")
        handler = self.grants.get(grant)
        if handler is None:
            known = ", ".join(sorted(self.grants))
            raise OAuthError("unsupported_grant_type", f"grant_type must be one of {known}")
        return await handler(fields, request)

    async def _client_credentials(self, fields: Mapping[str, str], request: Request) -> AccessToken:
        client_id, secret = _client(fields, request.headers.get("authorization"))
        credential = secret.encode()
        refused = OAuthError("invalid_client", "The client is not known here", status=401)
        if not looks_like_token(credential):
            raise refused
        digest = digest_of(credential)
        # The id is public, and made of the digest, so it tells nothing that the key does not.
        if client_id != id_of(digest):
            raise refused
        try:
            valid = await self._tokens.read(digest)
        except Unauthenticated:
            raise refused from None
        key = valid.token
        if key.kind != "key":
            raise OAuthError("unauthorized_client", "Only keys are exchanged for access tokens")
        scopes = _scopes(fields.get("scope", ""), key.scopes)
        issued = await self._tokens.issue(
            kind="access",
            name=key.name,
            principal=key.principal,
            grants=key.grants,
            scopes=scopes,
            agents=key.agents,
            methods=key.methods,
            reaches_open=key.reaches_open,
            roles=key.roles,
            tenant=key.tenant,
            expires_in_s=ACCESS_S,
            created_by=key.principal,
            parent=key.id,
            also=self._noted(key.principal, "token.exchange", f"token {key.id}"),
        )
        return AccessToken(access_token=issued.token, expires_in=ACCESS_S, scope=" ".join(scopes))


def _client(fields: Mapping[str, str], authorization: str | None) -> tuple[str, str]:
    """The id and the secret of the client (RFC 6749, 2.3.1)."""
    if authorization is None:
        return fields.get("client_id", ""), fields.get("client_secret", "")
    if "client_secret" in fields:
        raise OAuthError("invalid_request", "The client authenticates in two ways; use one")
    scheme, _, encoded = authorization.partition(" ")
    refused = OAuthError("invalid_client", "The client is not known here", status=401)
    if scheme.lower() != "basic":
        raise refused
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        raise refused from None
    name, colon, secret = text.partition(":")
    if not colon or fields.get("client_id", unquote_plus(name)) != unquote_plus(name):
        raise refused
    return unquote_plus(name), unquote_plus(secret)


def _scopes(asked: str, own: tuple[Scope, ...]) -> tuple[Scope, ...]:
    if not asked:
        return own
    names = asked.split(" ")
    allowed = {*own, "read"} if "call" in own else {*own}
    if not allowed.issuperset(names):
        raise OAuthError("invalid_scope", "The key does not have this scope")
    return tuple(scope for scope in SCOPES if scope in names)


def _refusal(error: OAuthError) -> Response:
    headers = dict(_NO_STORE)
    if error.status == 401:
        # RFC 6749, 5.2: in the scheme that clients of this endpoint use.
        headers["WWW-Authenticate"] = 'Basic realm="trunkline"'
    body = OAuthRefusal(error=error.code, error_description=error.message)
    return Response(msgspec.json.encode(body), error.status, headers, media_type="application/json")
