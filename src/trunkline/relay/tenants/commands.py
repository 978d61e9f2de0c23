"""`TenantCommands`: what operators do with the tenants of the relay, their tokens and denials."""

import secrets
from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta, Struct

from trunkline.model.errors import InvalidParams, InvalidRequest, RouteNotFound
from trunkline.model.handles import SLUG
from trunkline.model.timestamps import format_timestamp
from trunkline.ports.clock import Clock
from trunkline.protocol.jwt import HMAC, sign_with_secret
from trunkline.relay.tenants.denials import Denial, Denials, What
from trunkline.relay.tenants.jwt_claims import (
    AGENT,
    CLIENT,
    MAX_AGENTS,
    MAX_LIFE_S,
    SCOPES,
    is_tenant,
)
from trunkline.relay.tenants.records import TenantSecret
from trunkline.relay.tenants.tenants import KnownTenant, Signer, Tenants, unknown_tenant


class NameTenant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str


class RotateTenant(
    NameTenant, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    # For how long tokens of the secrets before it count. No token lasts longer than the default.
    grace_seconds: Annotated[int, Meta(ge=0, le=MAX_LIFE_S)] = MAX_LIFE_S


class NewToken(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """For a host, which has agents, or for a client."""

    tenant: str
    agents: Annotated[list[str], Meta(max_length=MAX_AGENTS)] = []
    client: str = ""
    # None for all operations.
    scopes: list[str] | None = None
    expires_in_seconds: Annotated[int, Meta(ge=1, le=MAX_LIFE_S)] = MAX_LIFE_S


class NameDenial(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    what: What
    name: str
    tenant: str = ""


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class SecretView(Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    created_at: str
    ends_at: str | None


class TenantView(Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    # `configuration`, or `store` for one that a command has made.
    origin: str
    status: str
    # Of the store; those of the configuration are counted.
    secrets: list[SecretView]
    configured_secrets: int
    # Where its public keys are; empty without any.
    keys: str


class NewSecret(Struct, frozen=True, kw_only=True, rename="camel"):
    # Shown once.
    tenant: str
    id: str
    secret: str

    def __repr__(self) -> str:
        return f"NewSecret(tenant={self.tenant!r}, id={self.id!r})"


class TenantToken(Struct, frozen=True, kw_only=True, rename="camel"):
    # Shown once: the relay does not keep it.
    token: str
    jti: str
    tenant: str
    role: str
    name: str
    expires_at: str

    def __repr__(self) -> str:
        return f"TenantToken(jti={self.jti!r})"


class DenialView(Struct, frozen=True, kw_only=True, rename="camel"):
    what: str
    name: str
    tenant: str
    created_at: str


class TenantCommands(Struct, frozen=True, kw_only=True):
    tenants: Tenants
    denials: Denials
    clock: Clock
    random_hex: Callable[[int], str] = secrets.token_hex

    async def add(self, given: NameTenant) -> NewSecret:
        return _shown(given.name, await self.tenants.add(given.name))

    async def list(self, _: Nothing) -> dict[str, Any]:
        now_ms = self.clock.now_ms()
        return {"items": [_view(each, now_ms) for each in self.tenants.all()]}

    async def disable(self, given: NameTenant) -> TenantView:
        await self.tenants.set_disabled(given.name, is_disabled=True)
        return self._one(given.name)

    async def enable(self, given: NameTenant) -> TenantView:
        await self.tenants.set_disabled(given.name, is_disabled=False)
        return self._one(given.name)

    async def rotate(self, given: RotateTenant) -> NewSecret:
        return _shown(
            given.name, await self.tenants.rotate(given.name, grace_s=given.grace_seconds)
        )

    async def remove(self, given: NameTenant) -> dict[str, Any]:
        await self.tenants.remove(given.name)
        return {"name": given.name}

    async def token(self, given: NewToken) -> TenantToken:
        """Raises InvalidParams, InvalidRequest and RouteNotFound."""
        if bool(given.agents) == bool(given.client):
            raise InvalidParams.at(
                "agents",
                "give --agent NAME for a gateway, or --client NAME for a caller, and not both",
            )
        signer = self._signer(given.tenant)
        jti, now_s = self.random_hex(16), self.clock.now_ms() // 1000
        expires_s = now_s + given.expires_in_seconds
        claims = {
            "tenant": given.tenant,
            **(_host(given) if given.agents else _client(given)),
            "iat": now_s,
            "exp": expires_s,
            "jti": jti,
        }
        expected = self.tenants.expected(self.tenants.find(given.tenant))
        claims |= {"iss": expected.issuer} if expected.issuer else {}
        claims |= {"aud": expected.audience} if expected.audience else {}
        header = {"alg": HMAC, "typ": "JWT"} | ({"kid": signer.id} if signer.id else {})
        return TenantToken(
            token=sign_with_secret(header, claims, signer.secret),
            jti=jti,
            tenant=given.tenant,
            role=AGENT if given.agents else CLIENT,
            name=",".join(given.agents) or given.client,
            expires_at=format_timestamp(expires_s * 1000),
        )

    async def deny(self, given: NameDenial) -> DenialView:
        return _denied(await self.denials.add(given.what, given.name, tenant=given.tenant))

    async def allow(self, given: NameDenial) -> dict[str, Any]:
        await self.denials.take_back(given.what, given.name, tenant=given.tenant)
        return {"what": given.what, "name": given.name, "tenant": given.tenant}

    async def denied(self, _: Nothing) -> dict[str, Any]:
        return {"items": [_denied(each) for each in self.denials.all()]}

    def _one(self, name: str) -> TenantView:
        known = self.tenants.find(name)
        if known is None:
            raise RouteNotFound(f"The tenant {name} was just removed")
        return _view(known, self.clock.now_ms())

    def _signer(self, name: str) -> Signer:
        """The secret that signs new tokens of a tenant."""
        known = self.tenants.find(name)
        if known is not None and known.is_removed:
            raise RouteNotFound(f"The tenant {name} was removed")
        if known is not None and known.is_disabled:
            raise InvalidRequest(f"The tenant {name} is disabled; enable it first")
        own = () if known is None else known.signers(self.clock.now_ms())
        in_use = [each for each in own if each.ends_ms is None]
        # Those of the relay sign tokens of tenants that it does not know, too.
        found = in_use or (self.tenants.shared_signers if is_tenant(name) else ())
        if found:
            return found[0]
        if known is None:
            raise unknown_tenant(name)
        raise InvalidRequest(
            f"The tenant {name} has no secret here: its tokens are made where its private key is"
        )


def _host(given: NewToken) -> dict[str, Any]:
    for index, name in enumerate(given.agents):
        if not SLUG.fullmatch(name) or len(name) > 160:
            raise InvalidParams.at(f"agents[{index}]", "use lower-case letters, digits and hyphens")
    if given.scopes is not None:
        raise InvalidParams.at("scopes", "a host calls nothing, so it has no scopes")
    one = given.agents[0] if len(given.agents) == 1 else given.agents
    return {"role": AGENT, "agent_id": one, "sub": f"agent:{given.tenant}:{','.join(given.agents)}"}


def _client(given: NewToken) -> dict[str, Any]:
    if not given.client.isascii() or not given.client.isprintable() or " " in given.client:
        raise InvalidParams.at("client", "use visible ASCII characters")
    if len(given.client) > 160:
        raise InvalidParams.at("client", "use up to 160 characters")
    claims: dict[str, Any] = {"role": CLIENT, "sub": given.client, "user_id": given.client}
    if given.scopes is None:
        return claims
    for index, scope in enumerate(given.scopes):
        if scope not in SCOPES:
            raise InvalidParams.at(
                f"scopes[{index}]", f"{scope[:100]!r} is none of: {', '.join(SCOPES)}"
            )
    return claims | {"scopes": given.scopes}


def _shown(tenant: str, secret: TenantSecret) -> NewSecret:
    return NewSecret(tenant=tenant, id=secret.id, secret=secret.secret)


def _view(known: KnownTenant, now_ms: int) -> TenantView:
    settings, record = known.settings, known.record
    stored = [] if record is None else [each for each in record.secrets if each.is_active(now_ms)]
    configured = 0
    if settings is not None:
        configured = len(settings.secrets) + len(settings.secrets_by_id)
    return TenantView(
        name=known.name,
        origin="store" if settings is None else "configuration",
        status="disabled" if known.is_disabled else "active",
        secrets=[
            SecretView(
                id=each.id,
                created_at=format_timestamp(each.created_ms),
                ends_at=None if each.ends_ms is None else format_timestamp(each.ends_ms),
            )
            for each in stored
        ],
        configured_secrets=configured,
        keys="" if settings is None else settings.jwks_url or settings.jwks_path,
    )


def _denied(denial: Denial) -> DenialView:
    return DenialView(
        what=denial.what,
        name=denial.name,
        tenant=denial.tenant,
        created_at=format_timestamp(denial.created_ms),
    )
