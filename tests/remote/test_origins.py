"""Credentials of a target stay with its origin, whatever its card says."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from joserfc.jwk import OKPKey
from tests.remote.http.peer import Handler, Peer, answer, peer

from trunkline.protocol.card_reading import decode
from trunkline.protocol.card_signing import base64url
from trunkline.remote import (
    AddressRefused,
    Agents,
    ApiKey,
    BadPeerAnswer,
    Bearer,
    ClientCredentials,
    PeerRefused,
    RemoteError,
    Target,
    TransportUnsupported,
    connect,
)
from trunkline.remote.interfaces import endpoints_of

SECRET = "the-secret-of-the-target"
FETCHED = "a-token-that-was-fetched"
BASE = {
    "name": "Agent",
    "description": "Answers.",
    "version": "1",
    "capabilities": {"extendedAgentCard": True},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [],
}
MESSAGE = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}
MESSAGE_03 = {
    "kind": "message",
    "messageId": "m",
    "role": "agent",
    "parts": [{"kind": "text", "text": "hi"}],
}


def endpoint(url: str, binding: str = "JSONRPC") -> dict[str, str]:
    return {"protocolBinding": binding, "protocolVersion": "1.0", "url": url}


def card(*interfaces: dict[str, str], **more: Any) -> dict[str, Any]:
    return {**BASE, "supportedInterfaces": [*interfaces], **more}


def serving(said: dict[str, Any], *, wants: str = "") -> Handler:
    """An agent with that card, at every path; calls need the secret if it `wants` one."""

    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        if head.startswith(b"GET"):
            reply: Any = said
        elif b"/token" in head.partition(b"\r\n")[0]:
            reply = {"access_token": FETCHED, "expires_in": 3600}
        elif wants and wants not in head.decode():
            writer.write(answer(b"{}", status=b"401 Unauthorized"))
            return
        else:
            call = json.loads(body)
            method = call.get("method", "")
            result = MESSAGE_03 if "/" in method else {"message": MESSAGE}
            if "ExtendedAgentCard" in method:
                result = said
            # HTTP+JSON has no envelope.
            reply = {"jsonrpc": "2.0", "id": call["id"], "result": result} if method else result
        writer.write(answer(json.dumps(reply).encode(), b"Content-Type: application/json"))

    return handle


class Trap:
    """A target whose card leads to another server, which writes down what it is sent."""

    def __init__(self, target: Peer, collector: Peer) -> None:
        self.target = target
        self.collector = collector

    @property
    def collected(self) -> str:
        return b"\n".join(self.collector.requests).decode()


# The card, made of the URLs of the target and of the collector.
Cards = Callable[[str, str], dict[str, Any]]


@asynccontextmanager
async def trap(cards: Cards, *, wants: str = "") -> AsyncIterator[Trap]:
    said: dict[str, Any] = {}
    async with (
        peer(serving(said, wants=wants)) as collector,
        peer(serving(said)) as target,
    ):
        said |= cards(target.url, collector.url)
        yield Trap(target, collector)


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


def old(url: str, **more: Any) -> dict[str, Any]:
    return {**BASE, "protocolVersion": "0.3.0", "url": url, **more}


LURES: dict[str, Cards] = {
    "other origin": lambda own, evil: card(endpoint(evil)),
    "rest": lambda own, evil: card(endpoint(evil, "HTTP+JSON")),
    "first of two": lambda own, evil: card(endpoint(evil), endpoint("http://127.0.0.1:1/rpc")),
    "other port of localhost": lambda own, evil: card(
        endpoint(evil.replace("127.0.0.1", "LOCALHOST"))
    ),
    "other port of 0.0.0.0": lambda own, evil: card(endpoint(evil.replace("127.0.0.1", "0.0.0.0"))),
    "hexadecimal": lambda own, evil: card(endpoint(evil.replace("127.0.0.1", "0x7f.1"))),
    "0.3 url": lambda own, evil: old(evil, preferredTransport="JSONRPC"),
    "0.3 additional": lambda own, evil: old(
        "grpc.invalid:1",
        preferredTransport="GRPC",
        additionalInterfaces=[{"transport": "JSONRPC", "url": evil}],
    ),
    "tenant": lambda own, evil: card({**endpoint(evil), "tenant": "acme"}),
    "query": lambda own, evil: card(endpoint(f"{evil}?x={own}")),
}
CREDENTIALS: dict[str, Callable[[str], dict[str, Any]]] = {
    "bearer": lambda url: {"credentials": Bearer(SECRET)},
    "api key": lambda url: {"credentials": ApiKey(key=SECRET, header="X-Key")},
    "header": lambda url: {"headers": {"X-Team": SECRET, "Cookie": SECRET}},
    "oauth2": lambda url: {
        "credentials": ClientCredentials(
            token_url=f"{url}/token", client_id="me", client_secret=SECRET
        )
    },
}


@pytest.mark.parametrize("lure", LURES)
@pytest.mark.parametrize("kind", CREDENTIALS)
async def test_an_address_on_this_machine_that_only_the_card_names_is_not_called(
    lure: str, kind: str
) -> None:
    async with trap(LURES[lure]) as found:
        target = Target(url=found.target.url, **CREDENTIALS[kind](found.target.url))
        async with connect(target) as agent:
            with pytest.raises(AddressRefused, match=r"loopback|unspecified"):
                await agent.send("hello")
            with pytest.raises(AddressRefused):
                _ = [item async for item in agent.stream("hello")]
            with pytest.raises(AddressRefused):
                await agent.extended_card()
        assert found.collector.connections == 0


@pytest.mark.parametrize("lure", LURES)
@pytest.mark.parametrize("kind", CREDENTIALS)
async def test_an_origin_that_only_the_card_names_gets_no_credentials(lure: str, kind: str) -> None:
    async with trap(LURES[lure]) as found:
        own = CREDENTIALS[kind](found.target.url)
        target = Target(url=found.target.url, allow_private=True, **own)
        async with Agents() as agents:
            agent = agents.at(target, headers={"X-Also": SECRET, "A2A-Extensions": "urn:x"})
            await agent.send("hello")
            _ = [item async for item in agent.stream("hello")]
        assert len(found.collector.requests) == 2
        # What the call itself needs goes along, and nothing of the target.
        assert "A2A-Extensions: urn:x" in found.collected
        for secret in (SECRET, FETCHED, "Authorization", "X-Also", "Cookie"):
            assert secret not in found.collected


@pytest.mark.parametrize("kind", CREDENTIALS)
async def test_an_origin_that_the_target_trusts_gets_them(kind: str) -> None:
    async with trap(LURES["other origin"]) as found:
        origin = f"http://127.0.0.1:{port_of(found.collector.url)}"
        own = CREDENTIALS[kind](found.target.url)
        async with connect(Target(url=found.target.url, trusted_origins=(origin,), **own)) as agent:
            await agent.send("hello")
        assert (FETCHED if kind == "oauth2" else SECRET) in found.collected


async def test_the_same_machine_by_another_name_is_the_same_origin() -> None:
    async with trap(
        lambda own, evil: card(endpoint(own.replace("127.0.0.1", "localhost")))
    ) as found:
        async with connect(Target(url=found.target.url, credentials=Bearer(SECRET))) as agent:
            await agent.send("hello")
        assert f"Bearer {SECRET}" in found.target.requests[-1].decode()


async def test_a_target_with_credentials_is_rather_called_where_they_may_go() -> None:
    async with trap(lambda own, evil: card(endpoint(evil), endpoint(own, "HTTP+JSON"))) as found:
        target = Target(url=found.target.url, credentials=Bearer(SECRET), allow_private=True)
        async with connect(target) as agent:
            with pytest.raises(RemoteError):
                # The handler speaks JSON-RPC only; what counts is whom it was asked.
                await agent.get("t")
        assert found.collector.connections == 0
        assert f"Bearer {SECRET}" in found.target.requests[-1].decode()
        # Without credentials the order of the card holds.
        async with connect(Target(url=found.target.url, allow_private=True)) as agent:
            await agent.send("hello")
        assert found.collector.connections == 1


async def test_an_address_that_is_refused_makes_room_for_the_next_one() -> None:
    async with trap(
        lambda own, evil: card(endpoint("http://169.254.169.254/rpc"), endpoint(own))
    ) as found:
        async with connect(found.target.url) as agent:
            await agent.send("hello")
        assert found.target.requests[-1].startswith(b"POST")


async def test_who_refuses_a_call_without_credentials_is_explained() -> None:
    async with trap(LURES["other origin"], wants=SECRET) as found:
        target = Target(url=found.target.url, credentials=Bearer(SECRET), allow_private=True)
        async with connect(target) as agent:
            with pytest.raises(PeerRefused, match="were not sent to http://127") as refused:
                await agent.send("hello")
    assert (refused.value.status, refused.value.reason) == (401, "CREDENTIALS_WITHHELD")
    assert "trusted_origins" in refused.value.message
    assert SECRET not in refused.value.message


@pytest.mark.parametrize(
    "url",
    ["http://{own}@{evil}/rpc", "http://user:pw@{own}/rpc", "http://@{evil}/rpc"],
)
async def test_an_interface_with_a_user_in_its_url_is_not_called(url: str) -> None:
    def lure(own: str, evil: str) -> dict[str, Any]:
        places = {"own": urlsplit(own).netloc, "evil": urlsplit(evil).netloc}
        return card(endpoint(url.format(**places)))

    async with trap(lure) as found:
        target = Target(url=found.target.url, credentials=Bearer(SECRET), allow_private=True)
        async with connect(target) as agent:
            with pytest.raises(BadPeerAnswer, match="user or password"):
                await agent.send("hello")
        assert found.collector.connections == 0


@pytest.mark.parametrize(
    ("own", "named"),
    [
        ("https://agent.example", "http://agent.example/rpc"),
        ("https://agent.example", "http://agent.example:443/rpc"),
        ("https://agent.example", "http://169.254.169.254/rpc"),
    ],
)
async def test_tls_is_not_given_up_because_a_card_says_so(own: str, named: str) -> None:
    found = decode(json.dumps(card(endpoint(named))).encode())
    with pytest.raises(TransportUnsupported, match="not encrypted"):
        endpoints_of(found, Target(url=own, credentials=Bearer(SECRET)))


@pytest.mark.parametrize(
    ("named", "is_trusted"),
    [
        ("https://agent.example/rpc", True),
        ("https://AGENT.Example:443/rpc", True),
        ("https://agent.example./rpc", False),
        ("https://agent.example:8443/rpc", False),
        ("https://rpc.agent.example/rpc", False),
        ("https://agent.example.evil.example/rpc", False),
        ("https://agent-example/rpc", False),
        ("https://аgent.example/rpc", False),
        ("https://ａgent.example/rpc", True),
        ("https://xn--gent-53d.example/rpc", False),
        ("https://agent.example%2eevil.example/rpc", False),
        ("https://trusted.example/rpc", True),
        ("https://trusted.example:444/rpc", False),
    ],
)
def test_which_names_are_those_of_the_target(named: str, is_trusted: bool) -> None:
    target = Target(url="https://agent.example", trusted_origins=("https://trusted.example/",))
    [found] = endpoints_of(decode(json.dumps(card(endpoint(named))).encode()), target)
    assert found.is_trusted is is_trusted


def redirecting(location: str, status: bytes = b"307 Temporary Redirect") -> Handler:
    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(b"", f"Location: {location}".encode(), status=status))

    return handle


@pytest.mark.parametrize(
    "status", [b"301 Moved", b"302 Found", b"303 See Other", b"307 Temporary", b"308 Permanent"]
)
async def test_no_redirect_is_followed_with_or_without_credentials(status: bytes) -> None:
    async with peer(serving(card())) as collector:
        async with peer(redirecting(collector.url, status)) as moved:
            # Of the card.
            async with connect(Target(url=moved.url, credentials=Bearer(SECRET))) as agent:
                with pytest.raises(BadPeerAnswer, match="redirects"):
                    await agent.card()
            # Of a call.
            async with peer(serving(card(endpoint(moved.url)))) as target:
                trusted = Target(
                    url=target.url, credentials=Bearer(SECRET), trusted_origins=(origin(moved),)
                )
                async with connect(trusted) as agent:
                    with pytest.raises(BadPeerAnswer, match="redirects"):
                        await agent.send("hello")
            # Of the token endpoint.
            client = ClientCredentials(
                token_url=f"{moved.url}/token", client_id="me", client_secret=SECRET
            )
            unmoved = Target(url=collector.url, credentials=client)
            async with connect(unmoved) as agent:
                with pytest.raises(BadPeerAnswer, match="redirects"):
                    await agent.card()
        assert collector.connections == 0


def origin(one: Peer) -> str:
    return f"http://127.0.0.1:{port_of(one.url)}"


async def test_the_token_endpoint_is_no_way_for_a_card_to_a_private_address() -> None:
    # It is configured for tokens; as an interface of the card it is like any other address.
    said: dict[str, Any] = {}
    async with peer(serving({})) as issuer, peer(serving(said)) as target:
        said |= card(endpoint(issuer.url))
        client = ClientCredentials(
            token_url=f"{issuer.url}/token", client_id="me", client_secret=SECRET
        )
        async with connect(Target(url=target.url, credentials=client)) as agent:
            with pytest.raises(AddressRefused):
                await agent.send("hello")
        assert [one.partition(b" HTTP")[0] for one in issuer.requests] == [b"POST /rpc/token"]


def schemes(evil: str) -> dict[str, Any]:
    flows = {"clientCredentials": {"tokenUrl": f"{evil}/token", "scopes": {}}}
    return {
        "securitySchemes": {
            "oauth": {
                "oauth2SecurityScheme": {"flows": flows, "oauth2MetadataUrl": f"{evil}/meta"}
            },
            "oidc": {"openIdConnectSecurityScheme": {"openIdConnectUrl": f"{evil}/oidc"}},
        },
        "securityRequirements": [{"schemes": {"oauth": {"list": []}}}],
    }


async def test_where_a_card_says_to_get_tokens_nobody_asks() -> None:
    async with trap(lambda own, evil: card(endpoint(own), **schemes(evil))) as found:
        client = ClientCredentials(
            token_url=f"{found.target.url}/token", client_id="me", client_secret=SECRET
        )
        async with connect(Target(url=found.target.url, credentials=client)) as agent:
            await agent.send("hello")
            await agent.extended_card()
        assert found.collector.connections == 0


async def test_the_keys_that_a_signature_points_to_are_not_fetched() -> None:
    key = OKPKey.generate_key("Ed25519")
    public = json.dumps(key.as_dict(private=False))

    def lure(own: str, evil: str) -> dict[str, Any]:
        header = {"alg": "EdDSA", "kid": "theirs", "jku": f"{evil}/jwks.json", "typ": "JOSE"}
        protected = base64url(json.dumps(header).encode())
        return card(endpoint(own), signatures=[{"protected": protected, "signature": "AAAA"}])

    async with trap(lure) as found:
        target = Target(url=found.target.url, card_keys=(public,), require_signature=True)
        async with connect(target) as agent:
            with pytest.raises(BadPeerAnswer, match="must be signed"):
                await agent.send("hello")
        assert found.collector.connections == 0


async def test_an_extended_card_moves_nobody() -> None:
    # The public card names the target itself, the extended one the collector.
    said: dict[str, dict[str, Any]] = {"public": {}, "extended": {}}

    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        which = "extended" if b"ExtendedAgentCard" in request else "public"
        await serving(said[which])(request, writer)

    async with peer(serving({})) as collector, peer(handle) as target:
        said["public"] |= card(endpoint(target.url))
        said["extended"] |= card(endpoint(collector.url))
        own = Target(url=target.url, credentials=Bearer(SECRET), allow_private=True)
        async with connect(own) as agent:
            extended = await agent.extended_card()
            assert extended.supported_interfaces[0].url == collector.url
            await agent.send("hello")
        assert collector.connections == 0
