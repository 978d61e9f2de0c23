"""Connections to addresses that nobody configured: what is refused, and that nothing is sent."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.remote.http.peer import Peer, answer, fetch, peer, says
from tests.remote.http.test_tls import certificate, trusting
from tests.remote.names import Names

from trunkline.remote import AddressRefused, BadPeerAnswer, PeerUnreachable
from trunkline.remote.http import Guard, HttpClient
from trunkline.remote.http.request import origin_of

HELLO = says(answer(b"hello"))
PUBLIC = "93.184.215.14"
STRICT = Guard()


@asynccontextmanager
async def guarded(
    guard: Guard = STRICT, names: Names | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[HttpClient]:
    http = HttpClient(guard, tls=tls, network=names)
    try:
        yield http
    finally:
        await http.close()


def port_of(one: Peer) -> int:
    return origin_of(one.url).port


# In a URL, and the range that the refusal names. The system itself says what they stand for.
SPELLINGS = {
    "127.0.0.1": "loopback",
    "127.1": "loopback",
    "127.0.1": "loopback",
    "0x7f.1": "loopback",
    "0x7f000001": "loopback",
    "2130706433": "loopback",
    "017700000001": "loopback",
    "0177.0.0.1": "loopback",
    "１２７.0.0.1": "loopback",
    "127。0。0。1": "loopback",
    "localhost": "loopback",
    "LocalHost": "loopback",
    "[::1]": "loopback",
    "[0:0:0:0:0:0:0:1]": "loopback",
    "[::ffff:127.0.0.1]": "loopback",
    "[::ffff:7f00:1]": "loopback",
    "[::127.0.0.1]": "loopback",
    "[64:ff9b::7f00:1]": "loopback",
    "[2002:7f00:1::]": "loopback",
    "0": "unspecified",
    "0.0.0.0": "unspecified",
    "[::]": "unspecified",
    "169.254.169.254": "metadata",
    "0xa9fea9fe": "metadata",
    "2852039166": "metadata",
    "[::ffff:a9fe:a9fe]": "metadata",
    "[fd00:ec2::254]": "private",
    "10.0.0.1": "private",
    "167772161": "private",
    "192.168.0.1": "private",
    "172.16.0.1": "private",
    "100.64.0.1": "carrier-grade NAT",
    "224.0.0.1": "multicast",
    "255.255.255.255": "reserved",
}


@pytest.mark.parametrize(("host", "kind"), SPELLINGS.items())
async def test_every_spelling_of_a_special_address_is_refused(host: str, kind: str) -> None:
    async with peer(HELLO) as one, guarded(names=(names := Names())) as http:
        with pytest.raises(AddressRefused, match=kind) as refused:
            await fetch(http, f"http://{host}:{port_of(one)}/rpc")
        assert (one.connections, names.dialled) == (0, [])
    assert refused.value.reason == "ADDRESS_REFUSED"
    assert "trusted_origins" in refused.value.message
    assert "allow_private_addresses" in refused.value.message


@pytest.mark.parametrize(
    "answer",
    [
        ["127.0.0.1"],
        ["10.1.2.3"],
        ["fe80::1%eth0"],
        ["::ffff:10.0.0.1"],
        [PUBLIC, "10.0.0.1", "1.1.1.1"],
        [PUBLIC, "1.1.1.1", "::1"],
        ["127.0.0.1", PUBLIC],
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["rebind.test", "rebind.test."])
async def test_a_name_that_leads_to_one_special_address_is_refused(
    name: str, answer: list[str]
) -> None:
    names = Names()
    names.say(name, answer)
    async with guarded(names=names) as http:
        with pytest.raises(AddressRefused, match=r"rebind\.test.* leads to "):
            await fetch(http, f"https://{name}/rpc")
    assert names.dialled == []


async def test_the_name_is_asked_for_once_and_its_addresses_are_connected_to() -> None:
    names = Names(rebind_test=[[PUBLIC, "1.1.1.1"], ["127.0.0.1"]])
    async with peer(HELLO) as one, guarded(names=names) as http:
        url = f"http://rebind.test:{port_of(one)}/rpc"
        with pytest.raises(PeerUnreachable):
            await fetch(http, url)
        assert names.asked["rebind.test"] == 1
        assert names.dialled == [[PUBLIC, "1.1.1.1"]]
        # Now it says loopback, where somebody waits.
        with pytest.raises(AddressRefused, match="loopback"):
            await fetch(http, url)
        assert names.dialled == [[PUBLIC, "1.1.1.1"]]
        assert one.connections == 0


async def test_a_socket_that_ends_elsewhere_is_closed_before_anything_is_sent() -> None:
    names = Names(agent_test=[[PUBLIC]])
    async with peer(HELLO) as one, guarded(names=names) as http:
        names.detour = ("127.0.0.1", port_of(one))
        with pytest.raises(AddressRefused, match=r"leads to 127\.0\.0\.1"):
            await fetch(http, f"http://agent.test:{port_of(one)}/rpc")
        assert names.dialled == [[PUBLIC]]
        assert one.requests == []


async def test_configured_addresses_may_be_anywhere() -> None:
    async with peer(HELLO) as one:
        url = f"http://agent.test:{port_of(one)}/rpc"
        names = Names(agent_test=[["127.0.0.1"]])
        async with guarded(Guard.of(url), names) as http:
            assert (await fetch(http, url)).body == b"hello"
    async with peer(HELLO) as one, guarded(Guard.of(one.url)) as http:
        assert (await fetch(http, one.url)).body == b"hello"


async def test_an_open_connection_is_not_lent_to_another_origin() -> None:
    names = Names(agent_test=[["127.0.0.1"]], evil_test=[["127.0.0.1"]])
    async with peer(HELLO) as one:
        url = f"http://agent.test:{port_of(one)}/rpc"
        async with guarded(Guard.of(url), names) as http:
            for _ in range(2):
                await fetch(http, url)
            with pytest.raises(AddressRefused):
                await fetch(http, f"http://evil.test:{port_of(one)}/rpc")
            await fetch(http, url)
        # One connection for all of them, so the name was looked up once.
        assert (one.connections, len(one.requests)) == (1, 3)
        assert names.asked == {"agent.test": 1, "evil.test": 1}


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "0.0.0.0"])
@pytest.mark.parametrize("other", ["localhost", "127.0.0.1", "0.0.0.0"])
async def test_this_machine_by_another_name_at_the_same_port(host: str, other: str) -> None:
    async with peer(HELLO) as one:
        guard = Guard.of(f"http://{host}:{port_of(one)}")
        async with guarded(guard) as http:
            assert (await fetch(http, f"http://{other}:{port_of(one)}/rpc")).body == b"hello"
            assert guard.knows(origin_of(f"http://{other}:{port_of(one)}"))


@pytest.mark.parametrize(
    "learned",
    [
        "http://127.0.0.1:{other}/rpc",
        "https://127.0.0.1:{own}/rpc",
        "http://127.0.0.2:{own}/rpc",
        "http://localhost.:{own}/rpc",
        "http://my.localhost:{own}/rpc",
        "http://agent.test:{own}/rpc",
    ],
)
async def test_another_port_scheme_or_name_is_another_origin(learned: str) -> None:
    names = Names(agent_test=[["127.0.0.1"]], my_localhost=[["127.0.0.1"]])
    names.say("localhost.", ["127.0.0.1"])
    async with peer(HELLO) as one, peer(HELLO) as other:
        guard = Guard.of(f"http://localhost:{port_of(one)}")
        url = learned.format(own=port_of(one), other=port_of(other))
        assert not guard.knows(origin_of(url))
        async with guarded(guard, names) as http:
            with pytest.raises(AddressRefused, match="loopback"):
                await fetch(http, url)
        assert one.connections == other.connections == 0


async def test_localhost_that_is_somewhere_else_is_refused() -> None:
    names = Names(localhost=[["10.0.0.5"], [PUBLIC]])
    async with guarded(Guard.of("http://127.0.0.1:8642"), names) as http:
        for address in ("10.0.0.5", PUBLIC):
            with pytest.raises(AddressRefused, match=f"{address}, not this machine"):
                await fetch(http, "http://localhost:8642/rpc")
    assert names.dialled == []


async def test_the_setting_for_development_allows_private_addresses() -> None:
    async with peer(HELLO) as one, guarded(Guard(allow_private=True)) as http:
        assert (await fetch(http, one.url)).body == b"hello"
        # It opens addresses; credentials still belong to configured origins alone.
        assert not Guard(allow_private=True).knows(origin_of(one.url))


async def test_what_looks_like_the_host_may_be_a_user() -> None:
    async with peer(HELLO) as one, guarded(Guard.of(one.url)) as http:
        with pytest.raises(AddressRefused, match="metadata"):
            await fetch(http, f"http://127.0.0.1:{port_of(one)}@169.254.169.254/rpc")
        assert one.connections == 0


@pytest.mark.parametrize("host", ["[fe80::1%25eth0]", "[::1%25lo]", "a..b", "127.0.0.1\\.evil"])
async def test_hosts_that_are_none_reach_nobody(host: str) -> None:
    names = Names()
    async with guarded(names=names) as http:
        with pytest.raises((AddressRefused, PeerUnreachable, BadPeerAnswer)):
            await fetch(http, f"http://{host}/rpc")
    assert names.dialled == []


async def test_tls_still_verifies_the_name_that_was_asked_for(tmp_path: Path) -> None:
    served: list[str | None] = []
    context = certificate(tmp_path)
    context.sni_callback = lambda sock, name, _: served.append(name)
    names = Names(agent_test=[["127.0.0.1"]])
    async with peer(HELLO, tls=context) as one:
        # The certificate is for the address, not for the name that leads there.
        url = f"https://agent.test:{port_of(one)}/rpc"
        async with guarded(Guard.of(url), names, trusting(tmp_path)) as http:
            with pytest.raises(PeerUnreachable, match="certificate") as refused:
                await fetch(http, url)
        assert refused.value.reason == "TLS_FAILED"
        assert one.requests == []
        async with guarded(Guard.of(one.url), names, trusting(tmp_path)) as http:
            assert (await fetch(http, one.url)).body == b"hello"
    assert served == ["agent.test", None]
    assert b"Host: 127.0.0.1" in one.requests[0]


async def test_redirects_lead_nowhere() -> None:
    async with peer(HELLO) as inside:
        location = f"Location: {inside.url}".encode()
        moved = says(answer(b"", location, status=b"307 Temporary Redirect"))
        async with peer(moved) as one, guarded(Guard.of(one.url, inside.url)) as http:
            with pytest.raises(BadPeerAnswer, match="redirects") as refused:
                await fetch(http, one.url)
        assert refused.value.reason == "REDIRECT"
        assert inside.connections == 0
