"""`OidcServer`: a small OpenID Connect provider on loopback, which can also do everything wrong."""

import asyncio
import base64
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote, urlencode

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from tests.acceptance.asgi_server import asgi_server

CLIENT_ID = "trunkline-tests"
CLIENT_SECRET = "the secret: of/the client"


class OidcServer:
    """A person is signed in at once, as `account`. A test changes what is told."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self.url = ""
        self.account: dict[str, Any] = {
            "sub": "1815",
            "preferred_username": "ada",
            "name": "Ada Lovelace",
            "email": "ada@example.com",
            "email_verified": True,
        }
        self.algorithm = "RS256"
        self.keys: dict[str, RSAKey | ECKey] = {
            "RS256": RSAKey.generate_key(2048, {"kid": "r1"}),
            "ES256": ECKey.generate_key("P-256", {"kid": "e1"}),
        }
        # What a test changes: the claims, the discovery document, and whole answers by their path.
        self.claims: dict[str, Any] = {}
        self.discovery: dict[str, Any] = {}
        self.answers: dict[str, Callable[[], Response]] = {}
        self.user_info: dict[str, Any] | None = None
        self.sign: Callable[[dict[str, Any]], str] | None = None
        self.iss_in_callback: str | None = None
        self.delay_s = 0.0
        self.calls: list[str] = []
        self.forms: list[dict[str, str]] = []
        self._codes: dict[str, dict[str, str]] = {}

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._discovery),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Route("/jwks", self._jwks),
                Route("/userinfo", self._user_info),
            ]
        )

    async def _begin(self, request: Request) -> Response | None:
        self.calls.append(request.url.path)
        if self.delay_s:
            await asyncio.sleep(self.delay_s)  # noqa: TID251 - a provider that is slow
        made = self.answers.get(request.url.path)
        return None if made is None else made()

    async def _discovery(self, request: Request) -> Response:
        document = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            "userinfo_endpoint": f"{self.url}/userinfo",
        }
        return await self._begin(request) or JSONResponse({**document, **self.discovery})

    async def _authorize(self, request: Request) -> Response:
        query = dict(request.query_params)
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT_ID
        assert "openid" in query["scope"].split()
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self._codes[code] = query
        answer = {"code": code, "state": query["state"]}
        if self.iss_in_callback is not None:
            answer["iss"] = self.iss_in_callback
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode(answer)}", 302)

    async def _token(self, request: Request) -> Response:
        form = {key: str(value) for key, value in (await request.form()).items()}
        self.forms.append(form)
        if (answer := await self._begin(request)) is not None:
            return answer
        query = self._codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if query is None or query["code_challenge"] != challenge:
            return JSONResponse({"error": "invalid_grant"}, 400)
        assert form["redirect_uri"] == query["redirect_uri"]
        if not self._is_client(request, form):
            return JSONResponse({"error": "invalid_client"}, 401)
        now = int(self._now_s())
        claims = {
            "iss": self.url,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": query["nonce"],
            **self.account,
            **self.claims,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        token = self._signed(claims) if self.sign is None else self.sign(claims)
        return JSONResponse({"access_token": "at", "token_type": "Bearer", "id_token": token})

    def _is_client(self, request: Request, form: dict[str, str]) -> bool:
        if "client_secret" in form:
            return (form["client_id"], form["client_secret"]) == (CLIENT_ID, CLIENT_SECRET)
        text = base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode()
        name, _, secret = text.partition(":")
        return (unquote(name), unquote(secret)) == (CLIENT_ID, CLIENT_SECRET)

    def _signed(self, claims: dict[str, Any]) -> str:
        key = self.keys[self.algorithm]
        return jwt.encode({"alg": self.algorithm, "kid": key.kid}, claims, key)

    async def _jwks(self, request: Request) -> Response:
        keys = KeySet(list(self.keys.values())).as_dict(private=False)
        return await self._begin(request) or JSONResponse(keys)

    async def _user_info(self, request: Request) -> Response:
        assert request.headers["authorization"] == "Bearer at"
        return await self._begin(request) or JSONResponse(self.user_info)


def unsigned(claims: dict[str, Any]) -> str:
    """A token with `alg: none`."""
    parts = [json.dumps({"alg": "none"}), json.dumps(claims)]
    encoded = [base64.urlsafe_b64encode(each.encode()).rstrip(b"=").decode() for each in parts]
    return ".".join([*encoded, ""])


@asynccontextmanager
async def oidc_server(now_s: Callable[[], float]) -> AsyncIterator[OidcServer]:
    made = OidcServer(now_s)
    async with asgi_server(made.app()) as port:
        made.url = f"http://127.0.0.1:{port}"
        yield made
