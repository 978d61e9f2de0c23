"""`JwtAuthenticator`: the principals of bearer tokens that other issuers signed."""

import logging
from collections.abc import Mapping
from typing import Final

from trunkline.extras import install_command
from trunkline.hub.credential_settings import JwtIssuer
from trunkline.hub.held_principals import HeldPrincipals
from trunkline.hub.jwt_values import caller_of, ends_ms, scopes_of, why_refused
from trunkline.hub.token_values import digest_of, within
from trunkline.hub.tokens import REFUSED
from trunkline.model.errors import ConfigError, Unauthenticated
from trunkline.model.principal import OPERATOR, Grant, Principal
from trunkline.ports.authenticator import Headers
from trunkline.ports.clock import Clock
from trunkline.protocol.jwt import Jwt, is_signed, looks_like_jwt, read_jwt
from trunkline.remote.jwks import Jwks

_log: Final = logging.getLogger("trunkline.hub")


class JwtAuthenticator:
    def __init__(
        self,
        issuers: Mapping[str, JwtIssuer],
        keys: Mapping[str, Jwks],
        held: HeldPrincipals,
        *,
        clock: Clock,
    ) -> None:
        """`keys` are those of each issuer. Raises ConfigError where a package is missing."""
        try:
            import joserfc  # noqa: F401
        except ImportError:
            raise ConfigError(
                "hub.jwt: checking tokens needs a package that is not installed: "
                f"{install_command('hub')}"
            ) from None
        self._issuers = issuers
        self._names = {each.issuer: name for name, each in issuers.items()}
        self._keys = keys
        self._held = held
        self._clock = clock

    async def close(self) -> None:
        for keys in self._keys.values():
            await keys.close()

    def known(self, headers: Headers) -> Principal | None:
        credential = _bearer(headers)
        return None if credential is None else self._held.find(digest_of(credential))

    async def identify(self, headers: Headers) -> Principal | None:
        credential = _bearer(headers)
        if credential is None:
            return None
        token = read_jwt(credential)
        name = self._names.get(str(token.claims.get("iss"))) if token is not None else None
        if token is None or name is None:
            return None
        issuer = self._issuers[name]
        # Before the keys are asked for: `none` and HMAC are in no configuration.
        if token.algorithm not in issuer.algorithms:
            raise _refused(name, "its algorithm is not among those of the configuration")
        why = why_refused(token.claims, issuer, now_s=self._clock.now_ms() / 1000)
        if why:
            raise _refused(name, why)
        if not is_signed(token, await self._keys[name].keys_for(token)):
            raise _refused(name, "no key of the issuer has signed it")
        return await self._held.hold(
            digest_of(credential),
            _principal(name, issuer, token),
            ends_ms=ends_ms(token.claims, issuer),
        )


def _bearer(headers: Headers) -> bytes | None:
    value = headers.get(b"authorization", b"")
    if value[:7].lower() != b"bearer ":
        return None
    credential = value[7:].strip()
    return credential if looks_like_jwt(credential) else None


def _principal(name: str, issuer: JwtIssuer, token: Jwt) -> Principal:
    caller = f"jwt:{name}:{caller_of(token.claims, issuer)}"
    scopes = scopes_of(token.claims, issuer)
    identifier = token.claims.get("jti")
    return Principal(
        id=caller,
        grants=tuple(Grant(agent) for agent in issuer.agents),
        token=f"jti:{identifier[:64]}" if isinstance(identifier, str) else "",
        reaches_open=issuer.open,
        roles=(OPERATOR,) if "admin" in scopes else (),
        within=within(scopes),
    )


def _refused(name: str, why: str) -> Unauthenticated:
    # The caller may be anyone, so only the log has the reason, without the token.
    _log.info("a token was refused", extra={"issuer": name, "reason": why})
    return Unauthenticated(REFUSED, has_credential=True)
