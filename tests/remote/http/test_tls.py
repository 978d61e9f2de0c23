"""TLS and addresses: whom a connection is made to."""

import asyncio
import datetime
import ipaddress
import socket
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.remote.http.peer import answer, client, fetch, peer, raw, says

from trunkline.remote import Limits, PeerTimeout, PeerUnreachable

LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
FAR_OFF = datetime.datetime(2120, 1, 1, tzinfo=datetime.UTC)


def certificate(folder: Path, *, until: datetime.datetime = FAR_OFF) -> ssl.SSLContext:
    """What a server at 127.0.0.1 needs; the certificate is also left as `ca.pem`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test")])
    own = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(LONG_AGO)
        .not_valid_after(until)
        .add_extension(own, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM)
    (folder / "ca.pem").write_bytes(pem)
    (folder / "server.pem").write_bytes(
        pem
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return context


def trusting(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=folder / "ca.pem")


async def test_over_tls(tmp_path: Path) -> None:
    async with (
        peer(says(answer(b"x")), tls=certificate(tmp_path)) as one,
        client(trusting(tmp_path)) as http,
    ):
        for _ in range(2):
            assert (await fetch(http, one.url)).body == b"x"
        assert one.connections == 1


async def refusal(url: str, tls: ssl.SSLContext | None) -> tuple[str, bool]:
    async with client(tls) as http:
        with pytest.raises(PeerUnreachable) as refused:
            await fetch(http, url)
    return refused.value.reason, refused.value.is_unsent


async def test_a_certificate_that_the_system_does_not_know(tmp_path: Path) -> None:
    async with peer(says(answer(b"x")), tls=certificate(tmp_path)) as one:
        assert await refusal(one.url, None) == ("TLS_FAILED", True)
        assert one.requests == []


async def test_a_certificate_for_another_host(tmp_path: Path) -> None:
    async with peer(says(answer(b"x")), tls=certificate(tmp_path)) as one:
        elsewhere = one.url.replace("127.0.0.1", "localhost")
        assert await refusal(elsewhere, trusting(tmp_path)) == ("TLS_FAILED", True)


async def test_a_certificate_that_is_too_old(tmp_path: Path) -> None:
    expired = LONG_AGO + datetime.timedelta(days=1)
    async with peer(says(answer(b"x")), tls=certificate(tmp_path, until=expired)) as one:
        assert await refusal(one.url, trusting(tmp_path)) == ("TLS_FAILED", True)


async def test_a_peer_that_knows_no_tls(tmp_path: Path) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async with raw(greet) as one:
        reason, is_unsent = await refusal(one.url.replace("http", "https"), None)
    assert (reason in ("TLS_FAILED", "CONNECTION_FAILED"), is_unsent) == (True, True)


async def words(url: str, tls: ssl.SSLContext | None) -> str:
    async with client(tls) as http:
        with pytest.raises(PeerUnreachable) as refused:
            await fetch(http, url)
    return refused.value.message


async def test_what_is_wrong_with_tls_is_said(tmp_path: Path) -> None:
    async def answer_in_plain_text(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()

    async with raw(answer_in_plain_text) as one:
        said = await words(one.url.replace("http", "https"), None)
    assert said == "the agent does not speak TLS there; its url may begin with http://"
    expired = LONG_AGO + datetime.timedelta(days=1)
    async with peer(says(answer(b"x")), tls=certificate(tmp_path, until=expired)) as one:
        said = await words(one.url, trusting(tmp_path))
    assert said == "the certificate of the agent is not accepted: certificate has expired"


async def test_connecting_takes_too_long() -> None:
    """The peer takes the connection and never says a word of TLS."""

    async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        await reader.read()

    async with raw(nothing) as one, client() as http:
        url = one.url.replace("http", "https")
        with pytest.raises(PeerTimeout) as late:
            await fetch(http, url, limits=Limits(connect_s=0.05))
        assert (late.value.reason, late.value.is_unsent) == ("CONNECT_TIMEOUT", True)


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")
async def test_an_address_of_ipv6() -> None:
    async with peer(says(answer(b"x")), host="::1") as one, client() as http:
        assert (await fetch(http, one.url)).body == b"x"
        port = one.url.rsplit(":", 1)[1].removesuffix("/rpc")
        assert f"Host: [::1]:{port}".encode() in one.requests[0]


async def test_a_name_with_several_addresses_of_which_one_answers() -> None:
    async with peer(says(answer(b"x"))) as one, client() as http:
        assert (await fetch(http, one.url.replace("127.0.0.1", "localhost"))).body == b"x"
