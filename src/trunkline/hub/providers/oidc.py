"""`OidcProvider`: sign-in at a provider that speaks OpenID Connect, found by its discovery."""

import asyncio
import base64
import logging
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from msgspec import Struct

from trunkline.hub.providers.http import ProviderHttp
from trunkline.hub.providers.id_token import Claims, claims_of, why_refused
from trunkline.hub.providers.provider import Answer, Profile
from trunkline.hub.sign_in_flow import SignInFlow
from trunkline.hub.users import Identity
from trunkline.model.errors import InvalidParams, PermissionDenied, Unavailable
from trunkline.ports.clock import Clock
from trunkline.remote.http import Network

_log = logging.getLogger("trunkline.hub")

# How long the description of the provider, and its keys, are kept.
_KEPT_S: Final = 3600.0
# After a failure others need not wait for the same one. An ID token with an unknown key makes the
# gateway ask for the keys again, and a sign-in alone must not decide how often.
_FAILED_S: Final = 5.0
_KEYS_AGAIN_S: Final = 30.0


class _Discovery(Struct, frozen=True):
    """OpenID Connect Discovery, 3."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    # RFC 9207
    authorization_response_iss_parameter_supported: bool = False


class _Tokens(Struct):
    id_token: str
    access_token: str = ""


class _Refusal(Struct):
    error: str = ""


class OidcProvider:
    def __init__(
        self,
        name: str,
        *,
        title: str,
        issuer: str,
        client_id: str,
        client_secret: str,
        scopes: tuple[str, ...],
        algorithms: tuple[str, ...],
        clock: Clock,
        sign_up: tuple[str, ...] = (),
        allow_private: bool = False,
        network: Network | None = None,
    ) -> None:
        self.name = name
        self.title = title
        self.sign_up = sign_up
        self._issuer = issuer
        self._client_id = client_id
        self._client_secret = client_secret
        self._scopes = scopes
        self._algorithms = algorithms
        self._clock = clock
        self._http = ProviderHttp(name, issuer, allow_private=allow_private, network=network)
        self._lock = asyncio.Lock()
        self._known: _Discovery | None = None
        self._known_until = 0.0
        self._failed: Unavailable | None = None
        self._keys: bytes = b""
        self._keys_until = 0.0
        self._keys_at = 0.0

    def __repr__(self) -> str:
        return f"OidcProvider({self.name!r})"

    async def close(self) -> None:
        await self._http.close()

    async def address(self, flow: SignInFlow, callback_url: str) -> str:
        found = await self._discovery()
        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": callback_url,
            "scope": " ".join(dict.fromkeys(("openid", *self._scopes))),
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": flow.challenge,
            "code_challenge_method": "S256",
        }
        mark = "&" if "?" in found.authorization_endpoint else "?"
        return f"{found.authorization_endpoint}{mark}{urlencode(query)}"

    async def person(self, answer: Answer, flow: SignInFlow, callback_url: str) -> Profile:
        found = await self._discovery()
        # RFC 9207: a provider that is honest about itself cannot be taken for another.
        must_say = found.authorization_response_iss_parameter_supported
        if (answer.iss or must_say) and answer.iss != self._issuer:
            raise self._distrusted("the callback names another issuer")
        tokens = await self._exchange(found, answer.code, flow, callback_url)
        claims = await self._checked(found, tokens.id_token, flow)
        if (
            not (claims.account or claims.nickname or claims.name)
            and found.userinfo_endpoint
            and tokens.access_token
        ):
            claims = await self._user_info(found, tokens.access_token, claims)
        email = claims.email if claims.has_verified_email else ""
        return Profile(
            identity=Identity(self._issuer, claims.subject),
            account=claims.account,
            nickname=claims.nickname or claims.email.partition("@")[0] or claims.name,
            display_name=claims.name or claims.account or claims.nickname,
            verified_email=email,
        )

    async def _discovery(self) -> _Discovery:
        async with self._lock:
            now = self._clock.monotonic()
            if now < self._known_until:
                if self._known is not None:
                    return self._known
                if self._failed is not None:
                    raise self._failed
            try:
                found = await self._fetched_discovery()
            except Unavailable as error:
                self._known, self._failed = None, error
                self._known_until = self._clock.monotonic() + _FAILED_S
                raise
            self._known, self._failed = found, None
            self._known_until = self._clock.monotonic() + _KEPT_S
            return found

    async def _fetched_discovery(self) -> _Discovery:
        url = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        fetched = await self._http.fetch("GET", url)
        found = self._http.decoded(fetched, _Discovery, what="its discovery document")
        # Discovery, 4.3: otherwise one provider could speak for another.
        if found.issuer != self._issuer:
            raise self._http.failed(
                f'its discovery document names the issuer "{found.issuer[:200]}", and issuer in '
                "the configuration must be the same, character by character"
            )
        for endpoint in (found.authorization_endpoint, found.token_endpoint, found.jwks_uri):
            if not self._may_call(endpoint):
                raise self._http.failed(f'it names the address "{endpoint[:200]}"')
        return found

    def _may_call(self, url: str) -> bool:
        """Plain HTTP only where the operator has named it."""
        try:
            parts, issuer = urlsplit(url), urlsplit(self._issuer)
        except ValueError:
            return False
        return bool(parts.hostname) and (
            parts.scheme == "https" or (parts.scheme == issuer.scheme == "http")
        )

    async def _exchange(
        self, found: _Discovery, code: str, flow: SignInFlow, callback_url: str
    ) -> _Tokens:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback_url,
            "code_verifier": flow.verifier,
        }
        headers: dict[str, str] = {}
        methods = found.token_endpoint_auth_methods_supported
        if not self._client_secret:
            form["client_id"] = self._client_id
        elif "client_secret_basic" in methods or "client_secret_post" not in methods:
            headers["Authorization"] = _basic(self._client_id, self._client_secret)
        else:
            form |= {"client_id": self._client_id, "client_secret": self._client_secret}
        fetched = await self._http.fetch("POST", found.token_endpoint, headers=headers, form=form)
        if fetched.status == 400 and _error_in(fetched.body) == "invalid_grant":
            raise InvalidParams.at("code", "is not one that the provider has given; sign in again")
        return self._http.decoded(fetched, _Tokens, what="the answer with the ID token")

    async def _checked(self, found: _Discovery, token: str, flow: SignInFlow) -> Claims:
        tree = await self._verified(found, token)
        why = why_refused(
            tree,
            issuer=self._issuer,
            client_id=self._client_id,
            nonce=flow.nonce,
            now_s=self._clock.now_ms() / 1000,
        )
        if why:
            raise self._distrusted(f"the ID token is refused: {why}")
        return claims_of(tree)

    async def _verified(self, found: _Discovery, token: str) -> dict[str, Any]:
        """The claims of a token that is signed with a key of the provider."""
        for is_again in (False, True):
            keys = await self._key_set(found, is_again=is_again)
            claims = _decoded(token, keys, self._algorithms)
            if claims is not None:
                return claims
        raise self._distrusted("the ID token is not signed with a key of the provider")

    async def _key_set(self, found: _Discovery, *, is_again: bool) -> bytes:
        """The JSON of the keys, asked for `is_again` if they may have changed."""
        async with self._lock:
            now = self._clock.monotonic()
            is_stale = now >= self._keys_until or (
                is_again and now >= self._keys_at + _KEYS_AGAIN_S
            )
            if not self._keys or is_stale:
                fetched = await self._http.fetch("GET", found.jwks_uri)
                _ = self._http.decoded(fetched, dict[str, Any], what="its set of keys")
                self._keys, self._keys_at = fetched.body, now
                self._keys_until = now + _KEPT_S
            return self._keys

    async def _user_info(self, found: _Discovery, access_token: str, claims: Claims) -> Claims:
        """Core, 5.3: some providers state names there alone."""
        if not self._may_call(found.userinfo_endpoint):
            return claims
        headers = {"Authorization": f"Bearer {access_token}"}
        fetched = await self._http.fetch("GET", found.userinfo_endpoint, headers=headers)
        more = claims_of(self._http.decoded(fetched, dict[str, Any], what="its user info"))
        # Core, 5.3.2: an access token could be of another person.
        if more.subject != claims.subject:
            raise self._distrusted("its user info is about another subject")
        return more

    def _distrusted(self, reason: str) -> PermissionDenied:
        _log.warning(
            "the answer of a sign-in provider cannot be trusted",
            extra={"provider": self.name, "reason": reason},
        )
        return PermissionDenied(
            "The answer of the sign-in provider cannot be trusted, so the sign-in failed; the log "
            "of the gateway has the reason"
        )


def _decoded(token: str, keys: bytes, algorithms: tuple[str, ...]) -> dict[str, Any] | None:
    """None for a token that no key has signed."""
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    try:
        known = KeySet.import_key_set(msgspec.json.decode(keys))
        return dict(jwt.decode(token, known, algorithms=list(algorithms)).claims)
    except (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        # The library raises these for keys and tokens that are no JSON of the expected form.
        return None


def _error_in(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Refusal).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def _basic(client_id: str, secret: str) -> str:
    # RFC 6749, 2.3.1: both are form-encoded before they are joined.
    pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()
