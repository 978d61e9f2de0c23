"""Bearer tokens that another issuer signed, with its JWK Set on loopback."""

import hashlib
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey
from tests.hub.jwt_issuer import AUDIENCE, ISSUER, Issuer, part, serving_keys
from tests.hub.registry_world import HubWorld, hub_world

from trunkline.remote.jwks import AGAIN_S

ALGORITHMS = ["RS256", "ES256", "EdDSA"]


class World:
    def __init__(self, it: HubWorld, issuer: Issuer) -> None:
        self.it, self.issuer = it, issuer

    def claims(self, **changes: Any) -> dict[str, Any]:
        now_s = self.it.clock.now_ms() // 1000
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "alice",
            "iat": now_s,
            "exp": now_s + 300,
            **changes,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, *, key: str = "ec", alg: str = "ES256", **changes: Any) -> str:
        return self.issuer.token(self.claims(**changes), key=key, alg=alg)

    async def status(self, token: str, handle: str = "acme/echo") -> int:
        return (await self.it.send(handle, by=token)).status


@asynccontextmanager
async def world(**settings: Any) -> AsyncIterator[World]:
    async with serving_keys() as issuer:
        own = {
            "issuer": ISSUER,
            "audience": AUDIENCE,
            "jwks_url": issuer.url,
            "algorithms": ALGORITHMS,
            "open": True,
            **settings,
        }
        own = {name: value for name, value in own.items() if value is not None}
        async with hub_world(hub={"jwt": {"corp": own}}) as it:
            await it.create()
            await it.create(slug="secret", visibility="private")
            yield World(it, issuer)


@pytest.mark.parametrize(("key", "alg"), [("rsa", "RS256"), ("ec", "ES256"), ("ed", "EdDSA")])
async def test_a_token_of_the_issuer_is_a_principal(key: str, alg: str) -> None:
    async with world() as w:
        assert await w.status(w.token(key=key, alg=alg)) == 200
        assert await w.status(w.token(key=key, alg=alg, aud=["other", AUDIENCE])) == 200
        assert await w.status(w.token(key=key, alg=alg), "acme/secret") == 404
        assert w.issuer.asked == 1


async def test_grants_count_for_its_principal() -> None:
    async with world() as w:
        row = (await w.it.call("GET", "/agents/by-handle/acme/secret")).json()
        path = f"/agents/{row['id']}/grants/jwt:corp:alice"
        token = w.token()
        assert await w.status(token, "acme/secret") == 404
        assert (await w.it.call("PUT", path, {})).status == 200
        assert await w.status(token, "acme/secret") == 200
        assert await w.status(w.token(sub="bob"), "acme/secret") == 404
        assert (await w.it.call("DELETE", path)).status == 204
        assert await w.status(token, "acme/secret") == 404


async def test_wrong_claims_are_refused() -> None:
    async with world() as w:
        now_s = w.it.clock.now_ms() // 1000
        unknown = await w.it.send("acme/echo", by="tl_key_" + "0" * 40)
        wrong: list[dict[str, Any]] = [
            {"iss": "https://evil.example"},
            {"iss": ISSUER + "/"},
            {"iss": None},
            {"iss": [ISSUER]},
            {"aud": "https://other.example"},
            {"aud": None},
            {"aud": []},
            {"aud": {AUDIENCE: 1}},
            {"exp": now_s - 61},
            {"exp": None},
            {"exp": "tomorrow"},
            {"exp": True},
            {"nbf": now_s + 120},
            {"nbf": "x"},
            {"iat": now_s + 120},
            {"sub": None},
            {"sub": ""},
            {"sub": "a b"},
            {"sub": "\u00e9"},
            {"sub": "a" * 161},
            {"sub": 7},
        ]
        for changes in wrong:
            answer = await w.it.send("acme/echo", by=w.token(**changes))
            assert (answer.status, answer.body) == (401, unknown.body), changes
            assert answer.headers["www-authenticate"].endswith('error="invalid_token"')
        # Clocks may differ by a minute.
        for name, moment in (("exp", now_s - 59), ("nbf", now_s + 59), ("iat", now_s + 59)):
            assert await w.status(w.issuer.token(w.claims(**{name: moment}))) == 200


async def test_a_token_ends_also_in_memory() -> None:
    async with world() as w:
        token = w.token()
        assert await w.status(token) == 200
        w.it.clock.jump(359)
        assert await w.status(token) == 200
        w.it.clock.jump(1)
        assert await w.status(token) == 401


async def test_algorithms_are_pinned() -> None:
    async with world(algorithms=["ES256"]) as w:
        claims = part(w.claims())
        public = w.issuer.keys["rsa"].as_pem(private=False)
        forged = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{claims}"
        mac = hmac.new(public, forged.encode(), hashlib.sha256).digest()
        good = w.token()
        head, body, signature = good.split(".")
        for token in (
            f"{part({'alg': 'none'})}.{claims}.",
            f"{part({'alg': 'None', 'kid': 'ec'})}.{claims}.{signature}",
            f"{forged}.{part(mac)}",
            w.token(key="rsa", alg="RS256"),
            w.token(key="ed", alg="EdDSA"),
            f"{part({'alg': 'ES256', 'kid': 'rsa'})}.{claims}.{signature}",
            f"{head}.{claims}.{signature[:-4]}AAAA",
            f"{head}.{part(w.claims(sub='root'))}.{signature}",
            f"{head}.{body}.",
            f"{head}.{body}",
            f"{part({'alg': 'ES256', 'kid': 'ec', 'crit': ['exp']})}.{body}.{signature}",
            f"{part({'alg': ['ES256']})}.{body}.{signature}",
            f"{part([1])}.{body}.{signature}",
            f"{part(b'{')}.{body}.{signature}",
            f"{part(b'[' * 5000)}.{body}.{signature}",
            f"{head}.{body}.{signature}.x",
            good + "," + good,
            f"{head}.{'A' * 100_000}.{signature}"[:3000],
        ):
            assert await w.status(token) == 401, token[:80]
        assert await w.status(good) == 200


async def test_a_key_in_the_token_is_not_believed() -> None:
    async with world() as w:
        other = ECKey.generate_key("P-256", {"kid": "ec"})
        mine = Issuer()
        mine.keys["ec"] = other
        token = mine.token(
            w.claims(), jwk=other.as_dict(private=False), jku="https://evil.example/jwks"
        )
        assert await w.status(token) == 401


async def test_the_issuer_changes_its_keys() -> None:
    async with world() as w:
        old = w.token()
        assert await w.status(old) == 200
        w.issuer.keys = {"new": ECKey.generate_key("P-256", {"kid": "new"})}
        new = w.token(key="new")
        # An unknown key is asked for at most twice a minute.
        assert await w.status(new) == 401
        await w.it.clock.advance(AGAIN_S)
        assert await w.status(new) == 200
        assert w.issuer.asked == 2
        # A token that was looked up counts until it ends; others of the old key do not.
        assert await w.status(old) == 200


async def test_an_issuer_that_is_away_gives_503_and_not_401() -> None:
    async with world() as w:
        w.issuer.status = 500
        answer = await w.it.send("acme/echo", by=w.token())
        assert answer.status == 503
        assert int(answer.headers["retry-after"]) > 0
        w.issuer.status = 200
        await w.it.clock.advance(AGAIN_S)
        assert await w.status(w.token()) == 200


async def test_scopes_are_mapped() -> None:
    mapped = {"agents.read": ["read"], "agents.call": ["call"]}
    async with world(scope_map=mapped) as w:
        assert await w.status(w.token(scope="openid agents.call")) == 200
        assert await w.status(w.token(scope=["agents.call"])) == 200
        for scope in ("agents.read", "openid", "", None, 7, ["admin"], "call"):
            assert await w.status(w.token(scope=scope)) == 403
        read = w.token(scope="agents.read")
        found = await w.it.send("acme/echo", by=read, method="GetTask")
        assert found.json()["error"]["code"] == -32001


async def test_without_a_scope_map_a_token_manages_nothing() -> None:
    async with world() as w:
        assert (await w.it.call("GET", "/tokens", by=w.token(scope="admin"))).status == 403


async def test_keys_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    issuer = Issuer()
    file.write_bytes(issuer.jwks())
    async with world(jwks_url=None, jwks_path=str(file)) as w:
        w.issuer.keys = issuer.keys
        assert await w.status(w.token()) == 200
        assert w.issuer.asked == 0
