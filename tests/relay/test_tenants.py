"""Tokens of tenants at the nodes of a relay, and changes while they run."""

import asyncio
import hashlib
import hmac
import json
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from tests.hub.jwt_issuer import Issuer, part
from tests.relay.tenants_world import (
    SECRETS,
    TENANTS,
    Node,
    bearer,
    client_claims,
    open_nodes,
    signed,
)
from tests.unit.hub.tokens_world import CountingStore

from trunkline.config.secret import Secret
from trunkline.model.errors import (
    ConfigError,
    Conflict,
    InvalidParams,
    InvalidRequest,
    RouteNotFound,
    StoreError,
)
from trunkline.ports.store import Store
from trunkline.relay.tenants.jwt_authenticator import REFUSED
from trunkline.relay.tenants.settings import TenantSettings, TokenSettings
from trunkline.relay.tenants.tenants import MAX_SECRETS
from trunkline.runtime.record_changes import LOOK_S, TRUST_S
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock

DAY_S = 24 * 3600


async def id_of(node: Node, token: str) -> str:
    principal = await node.principal(token)
    return "" if principal is None else principal.id


async def test_a_token_of_a_tenant_is_a_principal() -> None:
    async with open_nodes() as [node]:
        token = node.client()
        assert await id_of(node, token) == "tenant:acme:alice"
        # From memory.
        assert node.authenticator.known(bearer(token)) is not None
        assert await id_of(node, node.host("other")) == "host:other:helper"


async def test_a_secret_signs_for_its_own_tenant_alone() -> None:
    async with open_nodes() as [node]:
        for make in (node.client, node.host):
            assert await node.refusal(make("acme", secret=SECRETS["other"])) == REFUSED
            assert await node.refusal(make("unknown", secret=SECRETS["acme"])) == REFUSED


async def test_a_secret_of_the_relay_signs_for_every_tenant() -> None:
    async with open_nodes(secrets=(Secret(SECRETS["all"]),)) as [node]:
        for tenant in ("acme", "unknown"):
            token = node.client(tenant, secret=SECRETS["all"])
            assert await id_of(node, token) == f"tenant:{tenant}:alice"
        await node.tenants.set_disabled("acme", is_disabled=True)
        assert "disabled" in await node.refusal(node.client("acme", secret=SECRETS["all"]))


async def test_a_secret_of_the_relay_signs_for_no_removed_tenant() -> None:
    async with open_nodes(secrets=(Secret(SECRETS["all"]),)) as [node]:
        await node.tenants.add("new")
        await node.tenants.remove("new")
        assert "disabled" in await node.refusal(node.client("new", secret=SECRETS["all"]))


async def test_other_credentials_are_for_other_authenticators() -> None:
    async with open_nodes() as [node]:
        claims = client_claims(node.clock.now_ms())
        no_tenant = signed({name: claims[name] for name in claims if name != "tenant"})
        for value in ("Bearer a-key", "Basic x", f"Bearer {no_tenant}", "", "Bearer"):
            headers = {b"authorization": value.encode()}
            assert node.authenticator.known(headers) is None
            assert await node.authenticator.identify(headers) is None


async def test_forged_tokens_are_refused() -> None:
    async with open_nodes() as [node]:
        good = node.client()
        head, claims, signature = good.split(".")
        root = part(client_claims(node.clock.now_ms(), sub="root"))
        for forged in (
            f"{part({'alg': 'none'})}.{claims}.",
            f"{part({'alg': 'None'})}.{claims}.{signature}",
            f"{part({'alg': 'HS512'})}.{claims}.{signature}",
            f"{part({'alg': 'RS256'})}.{claims}.{signature}",
            f"{head}.{root}.{signature}",
            f"{head}.{claims}.{signature[:-4]}AAAA",
            f"{head}.{claims}.",
        ):
            assert await node.refusal(forged) == REFUSED, forged
        for broken in (
            f"{head}.{claims}",
            good + ".x",
            f"{part({'alg': 'HS256', 'crit': []})}.x.x",
        ):
            assert await node.principal(broken) is None
        assert await id_of(node, good) == "tenant:acme:alice"


async def test_the_key_id_chooses_among_secrets() -> None:
    by_id = {"old": Secret(SECRETS["other"]), "new": Secret(SECRETS["acme"])}
    async with open_nodes(tenants={"acme": TenantSettings(secrets_by_id=by_id)}) as [node]:
        claims = client_claims(node.clock.now_ms())
        assert await node.refusal(signed(claims, kid="new")) == ""
        assert await node.refusal(signed(claims)) == ""
        assert await node.refusal(signed(claims, kid="old")) == REFUSED
        assert await node.refusal(signed(claims, kid="unknown")) == REFUSED
    # A secret without an id is tried for each.
    async with open_nodes() as [node]:
        assert await node.refusal(signed(client_claims(node.clock.now_ms()), kid="any")) == ""


async def test_a_token_ends_also_in_memory() -> None:
    async with open_nodes() as [node]:
        token = node.client()
        assert await node.refusal(token) == ""
        node.clock.jump(3600 + 59)
        assert await node.refusal(token) == ""
        node.clock.jump(1)
        assert "expired" in await node.refusal(token)


# Public keys.


@pytest.mark.parametrize(("key", "alg"), [("rsa", "RS256"), ("ec", "ES256"), ("ed", "EdDSA")])
async def test_keys_sign_tokens_too(tmp_path: Path, key: str, alg: str) -> None:
    issuer = Issuer()
    (tmp_path / "keys.json").write_bytes(issuer.jwks())
    keys = TenantSettings(jwks_path=str(tmp_path / "keys.json"))
    async with open_nodes(tenants={**TENANTS, "acme": keys}) as [node]:
        claims = client_claims(node.clock.now_ms())
        token = issuer.token(claims, key=key, alg=alg)
        assert await id_of(node, token) == "tenant:acme:alice"
        assert node.authenticator.known(bearer(token)) is not None
        # Of another tenant, by another key, and with another algorithm of the same key.
        other = issuer.token(claims | {"tenant": "other"}, key=key, alg=alg)
        stranger = Issuer()
        stranger.keys = {**stranger.keys, "rsa": _another_rsa_key()}
        assert await node.refusal(other) == REFUSED
        assert await node.refusal(stranger.token(claims, key=key, alg=alg)) == REFUSED
        assert await node.refusal(issuer.token(claims, key="rsa", alg="PS256")) == REFUSED


async def test_a_public_key_is_no_secret(tmp_path: Path) -> None:
    issuer = Issuer()
    (tmp_path / "keys.json").write_bytes(issuer.jwks())
    both = TenantSettings(jwks_path=str(tmp_path / "keys.json"), secrets=(Secret(SECRETS["acme"]),))
    async with open_nodes(tenants={"acme": both}) as [node]:
        claims = client_claims(node.clock.now_ms())
        assert await node.refusal(issuer.token(claims)) == ""
        assert await node.refusal(signed(claims)) == ""
        for name in ("rsa", "ec", "ed"):
            key = issuer.keys[name]
            for text in (key.as_pem(private=False), json.dumps(key.as_dict(private=False))):
                secret = text if isinstance(text, bytes) else text.encode()
                forged = f"{part({'alg': 'HS256', 'kid': name})}.{part(claims)}"
                mac = hmac.digest(secret, forged.encode(), hashlib.sha256)
                assert await node.refusal(f"{forged}.{part(mac)}") == REFUSED


def _another_rsa_key() -> Any:
    from joserfc.jwk import RSAKey

    return RSAKey.generate_key(2048, {"kid": "rsa"})


async def test_secrets_need_no_package_and_keys_say_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joserfc", None)
    async with open_nodes() as [node]:
        assert await node.refusal(node.client()) == ""
    clock = FakeClock()
    keys = TokenSettings(tenants={"acme": TenantSettings(jwks_url="https://x.example")})
    with pytest.raises(ConfigError, match=r"relay_server\.tenants\.acme: .*trunkline\[hub\]"):
        Node(MemoryStore(clock=clock), clock, keys)


# Changes while the relay runs.


async def test_a_tenant_is_added_and_known_at_every_node() -> None:
    async with open_nodes(2) as [node, other]:
        await other.clock.advance(TRUST_S)
        secret = await node.tenants.add("new")
        await other.clock.advance(TRUST_S)
        token = node.client("new", secret=secret.secret, jti="x")
        assert await id_of(other, token) == "tenant:new:alice"
        named = signed(client_claims(node.clock.now_ms(), "new"), secret.secret, kid=secret.id)
        assert await id_of(other, named) == "tenant:new:alice"
        assert [each.name for each in other.tenants.all()] == ["acme", "new", "other"]


@pytest.mark.parametrize("name", ["acme", "ACME", "new", "New"])
async def test_a_name_is_taken_once(name: str) -> None:
    async with open_nodes() as [node]:
        await node.tenants.add("new")
        with pytest.raises(Conflict):
            await node.tenants.add(name)


@pytest.mark.parametrize("name", ["", "a/b", "*", "ä", "a" * 65, "-x"])
async def test_a_name_is_of_letters(name: str) -> None:
    async with open_nodes() as [node]:
        with pytest.raises(InvalidParams):
            await node.tenants.add(name)


@pytest.mark.parametrize("origin", ["configuration", "store"])
async def test_a_disabled_tenant_has_no_access_until_it_is_enabled(origin: str) -> None:
    async with open_nodes(2) as [node, other]:
        name, secret = "acme", SECRETS["acme"]
        if origin == "store":
            name, secret = "new", (await node.tenants.add("new")).secret
            await node.clock.advance(TRUST_S)
        token = node.client(name, secret=secret)
        assert await other.refusal(token) == ""
        await within_a_second(node, node.tenants.set_disabled(name, is_disabled=True))
        assert "disabled" in await other.refusal(token)
        assert "disabled" in await node.refusal(token)
        await node.tenants.set_disabled(name, is_disabled=False)
        await node.clock.advance(TRUST_S)
        assert await other.refusal(token) == ""


async def within_a_second(node: Node, change: Any) -> None:
    """A change that takes access away returns when every node follows it."""
    made = asyncio.get_running_loop().create_task(change)
    await node.clock.advance(TRUST_S)
    assert made.done()
    await made


async def test_a_rotated_secret_counts_for_its_grace() -> None:
    async with open_nodes() as [node]:
        old = await node.tenants.add("new")
        token = node.client("new", secret=old.secret)
        new = await node.tenants.rotate("new", grace_s=600)
        principal = await node.principal(token)
        assert principal is not None
        # The secret ends before the token.
        assert principal.ends_ms == node.clock.now_ms() + 600_000
        assert await node.refusal(node.client("new", secret=new.secret)) == ""
        node.clock.jump(600)
        assert await node.refusal(token) == REFUSED
        fresh = node.client("new", secret=old.secret)
        assert await node.refusal(fresh) == REFUSED
        assert await node.refusal(node.client("new", secret=new.secret)) == ""


async def test_a_secret_can_be_replaced_at_once() -> None:
    async with open_nodes() as [node]:
        old = await node.tenants.add("new")
        token = node.client("new", secret=old.secret)
        assert await node.refusal(token) == ""
        await node.tenants.rotate("new", grace_s=0)
        assert await node.refusal(token) == REFUSED
        [tenant] = [each for each in node.tenants.all() if each.name == "new"]
        assert tenant.record is not None
        assert len(tenant.record.secrets) == 1


async def test_graces_are_bounded() -> None:
    async with open_nodes() as [node]:
        await node.tenants.add("new")
        for _ in range(MAX_SECRETS - 1):
            await node.tenants.rotate("new", grace_s=DAY_S)
        with pytest.raises(InvalidRequest, match="grace"):
            await node.tenants.rotate("new", grace_s=DAY_S)
        await node.tenants.rotate("new", grace_s=0)


async def test_a_removed_tenant_is_unknown() -> None:
    async with open_nodes() as [node]:
        secret = await node.tenants.add("new")
        token = node.client("new", secret=secret.secret)
        assert await node.refusal(token) == ""
        await node.tenants.remove("new")
        assert await node.refusal(token) == REFUSED
        assert [each.name for each in node.tenants.all()] == ["acme", "other"]
        # What waits for its agents must not come to those of another tenant.
        for name in ("new", "NEW"):
            with pytest.raises(Conflict, match="choose another name"):
                await node.tenants.add(name)
        for change in (
            node.tenants.set_disabled("new", is_disabled=False),
            node.tenants.rotate("new", grace_s=0),
            node.tenants.remove("new"),
        ):
            with pytest.raises(RouteNotFound):
                await change
        with pytest.raises(RouteNotFound):
            await node.tenants.remove("unknown")


async def test_the_configuration_is_changed_in_its_file() -> None:
    async with open_nodes() as [node]:
        for change in (node.tenants.remove("acme"), node.tenants.rotate("acme", grace_s=1)):
            with pytest.raises(InvalidRequest, match=r"\[relay_server\.tenants\.acme\]"):
                await change


# Denials.


@pytest.mark.parametrize(
    ("what", "name"),
    [("jti", "jti-1"), ("sub", "alice"), ("sub", "tenant:acme:alice"), ("sub", "alice@v1")],
)
@pytest.mark.parametrize("tenant", ["", "acme", "other"])
async def test_a_denied_token_is_refused_at_every_node(what: Any, name: str, tenant: str) -> None:
    async with open_nodes(2) as [node, other]:
        token = node.client(user_id="alice@v1")
        assert await other.refusal(token) == ""
        await within_a_second(node, node.denials.add(what, name, tenant=tenant))
        expected = "" if tenant == "other" else "revoked"
        for each in (node, other):
            assert expected in await each.refusal(token)
            assert await each.refusal(node.client(sub="bob", jti="jti-2")) == ""
        await node.denials.take_back(what, name, tenant=tenant)
        await node.clock.advance(TRUST_S)
        assert await other.refusal(token) == ""


async def test_memory_is_not_trusted_while_the_store_is_away() -> None:
    async with open_nodes(2) as [node, _]:
        cut = CountingStore(node.store)
        other = Node(node.store, node.clock, TokenSettings(tenants=TENANTS))
        await other.changes.open(cast("Store", cut), is_shared=True, tell=lambda: None)
        token = node.client()
        assert await other.refusal(token) == ""
        cut.is_cut = True
        await node.clock.advance(TRUST_S + LOOK_S)
        # It may have been revoked at another node. Nobody is told that it is wrong.
        with pytest.raises(StoreError):
            await other.principal(token)
        cut.is_cut = False
        await node.clock.advance(LOOK_S)
        assert await other.refusal(token) == ""
        await other.changes.close()


async def test_denials_outlive_a_restart() -> None:
    async with open_nodes() as [node]:
        await node.denials.add("sub", "alice", tenant="acme")
        await node.denials.add("jti", "x")
        again = Node(node.store, node.clock, TokenSettings(tenants=TENANTS))
        await again.changes.open(node.store, is_shared=False, tell=lambda: None)
        assert "revoked" in await again.refusal(node.client())
        assert [each.id for each in again.denials.all()] == ["jti:x", "sub:alice"]
        await again.changes.close()


async def test_only_what_was_denied_can_be_taken_back() -> None:
    async with open_nodes() as [node]:
        await node.denials.add("sub", "alice", tenant="acme")
        with pytest.raises(RouteNotFound):
            await node.denials.take_back("sub", "alice")
        with pytest.raises(InvalidParams):
            await node.denials.add("sub", "two words")


async def test_a_host_is_denied_by_its_subject() -> None:
    async with open_nodes() as [node]:
        token = node.host()
        for name in ("agent:acme:helper", "host:acme:helper"):
            await node.denials.add("sub", name)
            assert "revoked" in await node.refusal(token)
            await node.denials.take_back("sub", name)
        assert await node.refusal(token) == ""
