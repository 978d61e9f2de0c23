"""Client certificates that a proxy verified (RFC 9440)."""

import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.bindings.asgi import Answer, Http
from tests.hub.registry_world import RPC, HubWorld, connection, hub_world, request, rpc_body

CERTIFICATE = b"a certificate in DER"
FINGERPRINT = f"sha256:{hashlib.sha256(CERTIFICATE).hexdigest()}"
HEADER = f":{base64.b64encode(CERTIFICATE).decode()}:"
OTHER = f":{base64.b64encode(b'another one').decode()}:"
REALM = 'Bearer realm="trunkline"'


@asynccontextmanager
async def world(*proxies: str, **holder: Any) -> AsyncIterator[HubWorld]:
    settings = {
        "trusted_proxies": [*proxies],
        "principals": {FINGERPRINT: {"name": "billing", "open": True, **holder}},
    }
    async with hub_world(hub={"client_certificates": settings}) as it:
        await it.create()
        await it.create(slug="secret", visibility="private")
        yield it


async def sent(it: HubWorld, header: str, handle: str = "acme/echo", **headers: str) -> Answer:
    return await it.http.send(
        Http(
            path=RPC.format(handle),
            headers={"content-type": "application/json", "client-cert": header, **headers},
            body=rpc_body(),
        )
    )


@pytest.mark.parametrize("proxy", ["127.0.0.1", "127.0.0.0/8", "10.0.0.1"])
async def test_over_a_connection_the_address_of_the_proxy_decides(proxy: str) -> None:
    async with world(proxy) as it, connection(it) as peer:
        asked = request(
            "POST", RPC.format("acme/echo"), rpc_body(), headers=(f"Client-Cert: {HEADER}",)
        )
        peer.send(asked)
        status, _, _ = await peer.response()
        assert status == (200 if proxy.startswith("127") else 403)


async def test_a_holder_is_a_principal_with_grants() -> None:
    async with world("127.0.0.1") as it:
        assert (await sent(it, HEADER)).status == 200
        assert (await sent(it, HEADER, "acme/secret")).status == 404
        row = (await it.call("GET", "/agents/by-handle/acme/secret")).json()
        assert (await it.call("PUT", f"/agents/{row['id']}/grants/cert:billing", {})).status == 200
        assert (await sent(it, HEADER, "acme/secret")).status == 200


@pytest.mark.parametrize(
    "header",
    [OTHER, "", ":", "::", HEADER[1:], HEADER[:-1], HEADER[1:-1], f"{HEADER},{HEADER}", ":!:"],
)
async def test_other_certificates_are_refused(header: str) -> None:
    async with world("127.0.0.1") as it:
        unknown = await it.send("acme/echo", by="tl_key_" + "0" * 40)
        answer = await sent(it, header)
        assert (answer.status, answer.body) == (401, unknown.body)


async def test_the_header_from_another_address_is_refused_beside_a_good_token_too() -> None:
    async with world("10.0.0.1") as it:
        key = (await it.call("POST", "/tokens", {"name": "ci", "open": True})).json()["token"]
        assert (await it.send("acme/echo", by=key)).status == 200
        forged = await sent(it, HEADER, authorization=f"Bearer {key}")
        assert forged.status == 403
        assert (await it.send("acme/echo", by=key)).status == 200
        api = await it.http.send(
            Http(method="GET", path="/api/v1/tokens", headers={"client-cert": HEADER})
        )
        assert api.status == 403


async def test_a_page_of_another_site_cannot_use_the_certificate_of_a_browser() -> None:
    async with world("127.0.0.1") as it:
        answer = await sent(it, HEADER, origin="https://evil.example", host="gateway.example")
        assert answer.status == 403


async def test_scopes_limit_a_holder() -> None:
    async with world("127.0.0.1", scopes=["read"]) as it:
        answer = await sent(it, HEADER)
        assert (answer.status, answer.headers["www-authenticate"]) == (
            403,
            f'{REALM}, error="insufficient_scope"',
        )
        listed = await it.http.send(
            Http(method="GET", path="/api/v1/tokens", headers={"client-cert": HEADER})
        )
        assert listed.status == 403
