"""`JwtAuthenticator`: the hosts and clients of tenants, by their bearer tokens.

A token names its tenant, and the secrets and keys of the tenant say whether it is right. Nothing
that a caller without a right token sees, or may time, depends on whether the tenant exists.
"""

import hashlib
import logging
import secrets
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from trunkline.extras import install_command
from trunkline.model.errors import ConfigError, Unauthenticated
from trunkline.model.principal import Principal
from trunkline.ports.authenticator import Headers
from trunkline.ports.clock import Clock
from trunkline.protocol.jwt import (
    HMAC,
    Jwt,
    is_signed,
    is_signed_with,
    looks_like_jwt,
    read_jwt,
)
from trunkline.relay.tenants.denials import Denials
from trunkline.relay.tenants.jwt_claims import Holder, TokenRefused, holder_of
from trunkline.relay.tenants.settings import TenantSettings, TokenSettings
from trunkline.relay.tenants.tenants import Signer, Tenants
from trunkline.remote.jwks import Jwks
from trunkline.runtime.record_changes import RecordChanges

_log: Final = logging.getLogger("trunkline.relay")

REFUSED: Final = "The token is not accepted here; check it or ask for a new one"
# Those that were used last.
MAX_HELD: Final = 20_000
# The algorithms of public keys.
ALGORITHMS: Final = frozenset({"EdDSA", "Ed25519", "ES256", "RS256"})


class _Held(Struct, frozen=True):
    principal: Principal
    ends_ms: int


class JwtAuthenticator:
    def __init__(
        self,
        settings: TokenSettings,
        tenants: Tenants,
        denials: Denials,
        changes: RecordChanges,
        *,
        clock: Clock,
    ) -> None:
        """Raises ConfigError where a package is missing."""
        self._tenants = tenants
        self._denials = denials
        self._changes = changes
        self._clock = clock
        self._keys = _keys(settings, clock=clock)
        # By the digests of the tokens.
        self._held: OrderedDict[bytes, _Held] = OrderedDict()
        # Rises when memory may have become wrong.
        self._generation = 0
        # Signs nothing. An unknown tenant costs as much time as a known one.
        self._decoy = Signer("", secrets.token_bytes(32))
        tenants.on_change(lambda _: self._forget())
        denials.on_change(self._forget)

    async def close(self) -> None:
        for keys in self._keys.values():
            await keys.close()

    def known(self, headers: Headers) -> Principal | None:
        """Also a right token that comes for the first time, if a secret has signed it."""
        credential = _bearer(headers)
        if credential is None or not self._changes.is_fresh:
            return None
        digest = _digest(credential)
        held = self._held.get(digest)
        if held is not None:
            self._held.move_to_end(digest)
            return held.principal if self._clock.now_ms() < held.ends_ms else None
        token = _of_a_tenant(credential)
        if token is None or token.algorithm != HMAC:
            return None
        signer = self._signer_of(token)
        if signer is None:
            return None
        try:
            return self._hold(credential, self._checked(token, signer))
        except TokenRefused:
            # `identify` says why.
            return None

    async def identify(self, headers: Headers) -> Principal | None:
        credential = _bearer(headers)
        token = None if credential is None else _of_a_tenant(credential)
        if credential is None or token is None:
            return None
        if not self._changes.is_fresh:
            await self._changes.look()
        generation = self._generation
        signer = self._signer_of(token) or await self._key_of(token)
        if generation != self._generation:
            # The keys took a while, and tenants have changed meanwhile.
            return await self.identify(headers)
        if signer is None:
            raise _refused(token, "no secret and no key of the tenant has signed it")
        try:
            return self._hold(credential, self._checked(token, signer))
        except TokenRefused as refused:
            # Whoever has a token that is rightly signed may know what is wrong with it.
            raise _refused(token, refused.why, is_told=True) from None

    def _signer_of(self, token: Jwt) -> Signer | None:
        """The secret that has signed the token."""
        for each in [*self._secrets_for(token)] or [self._decoy]:
            if is_signed_with(token, [each.secret]) and each is not self._decoy:
                return each
        return None

    def _secrets_for(self, token: Jwt) -> Iterator[Signer]:
        tenant = self._tenants.find(str(token.claims["tenant"]))
        signers = () if tenant is None else tenant.signers(self._clock.now_ms())
        for each in (*signers, *self._tenants.shared_signers):
            if not token.key_id or each.id in ("", token.key_id):
                yield each

    async def _key_of(self, token: Jwt) -> Signer | None:
        """Raises Unavailable while the keys cannot be read."""
        keys = self._keys.get(str(token.claims["tenant"]))
        if keys is None or token.algorithm not in ALGORITHMS:
            return None
        is_right = is_signed(token, await keys.keys_for(token))
        return Signer(token.key_id, b"") if is_right else None

    def _checked(self, token: Jwt, signer: Signer) -> Holder:
        """Raises TokenRefused."""
        tenant = self._tenants.find(str(token.claims["tenant"]))
        expected = self._tenants.expected(tenant)
        holder = holder_of(token.claims, expected, now_s=self._clock.now_ms() / 1000)
        if tenant is not None and tenant.is_disabled:
            raise TokenRefused("its tenant is disabled")
        if self._denials.deny(holder):
            raise TokenRefused("it was revoked")
        if signer.ends_ms is not None:
            ends_ms = min(signer.ends_ms, holder.principal.ends_ms or signer.ends_ms)
            return replace(holder, principal=replace(holder.principal, ends_ms=ends_ms))
        return holder

    def _hold(self, credential: bytes, holder: Holder) -> Principal:
        principal = holder.principal
        assert principal.ends_ms is not None
        self._held[_digest(credential)] = _Held(principal, principal.ends_ms)
        if len(self._held) > MAX_HELD:
            self._held.popitem(last=False)
        return principal

    def _forget(self) -> None:
        self._generation += 1
        self._held.clear()


def _keys(settings: TokenSettings, *, clock: Clock) -> Mapping[str, Jwks]:
    tenants: dict[str, TenantSettings] = {
        name: each for name, each in settings.tenants.items() if each.has_keys
    }
    if not tenants:
        return {}
    try:
        import joserfc  # noqa: F401
    except ImportError:
        raise ConfigError(
            f"relay_server.tenants.{next(iter(tenants))}: checking tokens by public keys needs a "
            f"package that is not installed: {install_command('hub')}. Tokens that are signed with "
            "secrets need none."
        ) from None
    return {
        name: Jwks(
            name,
            url=each.jwks_url,
            path=each.jwks_path,
            clock=clock,
            allow_private=settings.allow_private,
        )
        for name, each in tenants.items()
    }


def _bearer(headers: Headers) -> bytes | None:
    value = headers.get(b"authorization", b"")
    if value[:7].lower() != b"bearer ":
        return None
    credential = value[7:].strip()
    return credential if looks_like_jwt(credential) else None


def _of_a_tenant(credential: bytes) -> Jwt | None:
    """Others may be for another authenticator."""
    token = read_jwt(credential)
    return token if token is not None and isinstance(token.claims.get("tenant"), str) else None


def _digest(credential: bytes) -> bytes:
    return hashlib.sha256(credential).digest()


def _refused(token: Jwt, why: str, *, is_told: bool = False) -> Unauthenticated:
    tenant = str(token.claims["tenant"])[:64]
    _log.info("a token was refused", extra={"tenant": tenant, "reason": why})
    message = f"The token is not accepted: {why}" if is_told else REFUSED
    return Unauthenticated(message, has_credential=True)
