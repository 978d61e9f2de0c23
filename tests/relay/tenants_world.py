"""Nodes of a relay that share one store, each with its tenants, and the tokens of tenants."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from trunkline.config.secret import Secret
from trunkline.model.errors import Unauthenticated
from trunkline.model.principal import Principal
from trunkline.ports.store import Store
from trunkline.protocol.jwt import sign_with_secret
from trunkline.relay.tenants.denials import Denials
from trunkline.relay.tenants.jwt_authenticator import JwtAuthenticator
from trunkline.relay.tenants.settings import TenantSettings, TokenSettings
from trunkline.relay.tenants.tenants import Tenants
from trunkline.runtime.record_changes import RecordChanges
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock, settle

SECRETS = {name: f"the-secret-of-{name}-is-long-enough" for name in ("acme", "other", "all")}
TENANTS = {name: TenantSettings(secrets=(Secret(SECRETS[name]),)) for name in ("acme", "other")}


def client_claims(now_ms: int, tenant: str = "acme", **changes: Any) -> dict[str, Any]:
    claims = {"role": "client", "sub": "alice", "jti": "jti-1"}
    return _claims(now_ms, tenant, claims | changes)


def host_claims(now_ms: int, tenant: str = "acme", **changes: Any) -> dict[str, Any]:
    claims = {"role": "agent", "agent_id": "helper", "sub": f"agent:{tenant}:helper"}
    return _claims(now_ms, tenant, claims | changes)


def _claims(now_ms: int, tenant: str, changes: dict[str, Any]) -> dict[str, Any]:
    now_s = now_ms // 1000
    claims = {"tenant": tenant, "iat": now_s, "exp": now_s + 3600, **changes}
    return {name: value for name, value in claims.items() if value is not None}


def signed(claims: dict[str, Any], secret: str = SECRETS["acme"], **header: Any) -> str:
    return sign_with_secret({"alg": "HS256", "typ": "JWT", **header}, claims, secret.encode())


def bearer(token: str) -> dict[bytes, bytes]:
    return {b"authorization": b"Bearer " + token.encode()}


class Node:
    def __init__(self, store: Store, clock: FakeClock, settings: TokenSettings) -> None:
        self.store, self.clock = store, clock
        self.changes = RecordChanges(clock, feature="relay")
        self.tenants = Tenants(settings, self.changes, clock=clock)
        self.denials = Denials(self.changes, clock=clock)
        self.authenticator = JwtAuthenticator(
            settings, self.tenants, self.denials, self.changes, clock=clock
        )

    def client(self, tenant: str = "acme", *, secret: str = "", **changes: Any) -> str:
        claims = client_claims(self.clock.now_ms(), tenant, **changes)
        return signed(claims, secret or SECRETS.get(tenant, "x" * 32))

    def host(self, tenant: str = "acme", *, secret: str = "", **changes: Any) -> str:
        claims = host_claims(self.clock.now_ms(), tenant, **changes)
        return signed(claims, secret or SECRETS.get(tenant, "x" * 32))

    async def principal(self, token: str) -> Principal | None:
        """As `Access` finds it."""
        headers = bearer(token)
        return self.authenticator.known(headers) or await self.authenticator.identify(headers)

    async def refusal(self, token: str) -> str:
        """Why the token is refused; empty if it is not."""
        try:
            await self.principal(token)
        except Unauthenticated as error:
            return error.message
        return ""


@asynccontextmanager
async def open_nodes(
    count: int = 1, settings: TokenSettings | None = None, **changes: Any
) -> AsyncIterator[list[Node]]:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    await store.open()
    settings = settings or TokenSettings(**({"tenants": TENANTS} | changes))
    nodes = [Node(store, clock, settings) for _ in range(count)]
    for node in nodes:
        await node.changes.open(store, is_shared=count > 1, tell=lambda: None)
    try:
        yield nodes
    finally:
        for node in nodes:
            await node.authenticator.close()
            await node.changes.close()
        await store.close()
        await settle()
