import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.server.requests import asgi_call, request

from trunkline.model.errors import PermissionDenied, Unauthenticated
from trunkline.model.principal import ANONYMOUS, EVERYTHING, Principal
from trunkline.server.access import Access, check_origin
from trunkline.server.api_keys import ApiKeys
from trunkline.server.asgi import AsgiRequest
from trunkline.server.http import Header

KEY = b"a-key-that-is-long-enough"
ALICE = Principal(id="alice", grants=EVERYTHING, token="alice")
KEYS = ApiKeys({hashlib.sha256(KEY).hexdigest(): ALICE})
NO_KEYS = ApiKeys({})


def access(*, allows_anonymous: bool = False) -> Access:
    return Access(keys=KEYS, allows_anonymous=allows_anonymous)


async def who(access: Access, request: AsgiRequest) -> Principal:
    """The principal, as a request finds it: in memory, or by asking."""
    known = None if access.known is None else access.known(request.headers)
    assert known in (None, await access.identify(request))
    return await access.identify(request) if known is None else known


@pytest.mark.parametrize(
    "header",
    [
        (b"authorization", b"Bearer " + KEY),
        (b"authorization", b"bearer " + KEY),
        (b"authorization", b"BEARER   " + KEY + b" "),
        (b"x-api-key", KEY),
    ],
)
@pytest.mark.parametrize("allows_anonymous", [False, True])
async def test_a_key_stands_for_its_principal(
    header: tuple[bytes, bytes], allows_anonymous: bool
) -> None:
    caller = request(headers=[header, (b"host", b"gateway.example")])
    assert await who(access(allows_anonymous=allows_anonymous), caller) == ALICE


@pytest.mark.parametrize(
    "header", [(b"authorization", b"Bearer wrong"), (b"x-api-key", b"wrong"), (b"x-api-key", b"")]
)
@pytest.mark.parametrize("allows_anonymous", [False, True])
async def test_an_unknown_key_is_refused_also_where_none_is_needed(
    header: tuple[bytes, bytes], allows_anonymous: bool
) -> None:
    caller = request(headers=[header, (b"host", b"localhost")])
    with pytest.raises(Unauthenticated, match="not known"):
        await who(access(allows_anonymous=allows_anonymous), caller)


@pytest.mark.parametrize("value", [b"", b"Bearer", b"Bearer  ", b"Basic abc", KEY])
async def test_another_form_of_authorization_is_refused(value: bytes) -> None:
    # The other header does not help: the client must see which one is wrong.
    caller = request(headers=[(b"authorization", value), (b"x-api-key", KEY)])
    with pytest.raises(Unauthenticated, match="form 'Bearer KEY'"):
        await who(access(allows_anonymous=True), caller)


async def test_without_a_key_the_refusal_says_how_to_send_one() -> None:
    with pytest.raises(Unauthenticated, match="'X-API-Key: KEY'"):
        await who(access(), request())


@pytest.mark.parametrize(
    "host",
    [
        b"localhost",
        b"localhost:8642",
        b"LocalHost:8642",
        b"127.0.0.1",
        b"127.0.0.1:8642",
        b"127.8.9.10:1",
        b"[::1]",
        b"[::1]:8642",
        b"[0:0:0:0:0:0:0:1]:8642",
    ],
)
async def test_anonymous_callers_use_a_loopback_name(host: bytes) -> None:
    caller = request(headers=[(b"host", host)])
    assert await who(access(allows_anonymous=True), caller) == ANONYMOUS


@pytest.mark.parametrize(
    "host",
    [
        b"",
        b"evil.example",
        b"evil.example:8642",
        b"localhost.evil.example",
        b"127.evil.example",
        b"127.0.0.1.evil.example:8642",
        b"127.0.0.256",
        b"192.168.1.5",
        b"[::2]:8642",
        b"0.0.0.0",
        b"localhost:1@evil.example",
        b"127.0.0.1:80@evil.example",
        b"[::1]evil.example",
        b"[::1]@evil.example",
    ],
)
async def test_a_foreign_host_is_refused_to_anonymous_callers(host: bytes) -> None:
    caller = request(headers=[(b"host", host)])
    with pytest.raises(PermissionDenied, match="loopback"):
        await who(access(allows_anonymous=True), caller)


async def test_a_caller_that_names_no_host_is_no_browser() -> None:
    assert await who(access(allows_anonymous=True), request()) == ANONYMOUS


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        (b"agents.example", True),
        (b"AGENTS.example:443", True),
        (b"127.0.0.1", True),
        (b"other.example", False),
    ],
)
async def test_anonymous_callers_may_use_the_names_of_the_gateway(
    host: bytes, is_known: bool
) -> None:
    own = Access(keys=NO_KEYS, allows_anonymous=True, hosts=["agents.example"])
    caller = request(headers=[(b"host", host)])
    if is_known:
        assert await who(own, caller) == ANONYMOUS
    else:
        with pytest.raises(PermissionDenied):
            await who(own, caller)


@pytest.mark.parametrize(
    "header",
    [
        b"forwarded",
        b"via",
        b"x-forwarded-for",
        b"x-forwarded-proto",
        b"x-forwarded-host",
        b"x-forwarded-whatever-comes-next",
        b"x-real-ip",
    ],
)
@pytest.mark.parametrize("value", [b"", b"203.0.113.9", b"127.0.0.1"])
async def test_a_request_through_a_proxy_is_no_anonymous_loopback_caller(
    header: bytes, value: bytes
) -> None:
    lines = [(b"host", b"127.0.0.1:8642"), (header, value)]
    with pytest.raises(Unauthenticated, match="came through a proxy"):
        await who(access(allows_anonymous=True), request(headers=lines))
    # A key counts on either way, and where the proxy asks for credentials itself, none is needed.
    keyed = request(headers=[*lines, (b"x-api-key", KEY)])
    assert await who(access(allows_anonymous=True), keyed) == ALICE
    behind_proxy = Access(keys=NO_KEYS, allows_anonymous=True, allows_proxied=True)
    assert await who(behind_proxy, request(headers=lines)) == ANONYMOUS


@pytest.mark.parametrize(
    ("peer", "is_local"),
    [
        (("127.0.0.1", 5000), True),
        (("127.9.9.9", 5000), True),
        (("::1", 5000), True),
        (("::ffff:127.0.0.1", 5000), True),
        (("192.168.1.7", 5000), False),
        (("203.0.113.9", 5000), False),
        (("fe80::1", 5000), False),
        # A Unix socket, and a client in the same process.
        (None, True),
        (("", 0), True),
        (("testclient", 50000), True),
    ],
)
async def test_behind_another_server_the_address_of_the_peer_decides(
    peer: tuple[str, int] | None, is_local: bool
) -> None:
    """That server may listen on any address, and a caller may send any Host."""
    scope, receive = asgi_call(headers=[(b"host", b"localhost")])
    caller = AsgiRequest.of({**scope, "client": peer}, receive)
    if is_local:
        assert await who(access(allows_anonymous=True), caller) == ANONYMOUS
    else:
        with pytest.raises(Unauthenticated, match="from another machine"):
            await who(access(allows_anonymous=True), caller)
    behind_proxy = Access(keys=NO_KEYS, allows_anonymous=True, allows_proxied=True)
    assert await who(behind_proxy, caller) == ANONYMOUS


@pytest.mark.parametrize(
    "lines",
    [
        [(b"authorization", b"Bearer " + KEY), (b"authorization", b"Bearer " + KEY)],
        [(b"authorization", b"Bearer other"), (b"authorization", b"Bearer " + KEY)],
        [(b"authorization", b"Basic x"), (b"authorization", b"Bearer " + KEY)],
        [(b"x-api-key", b"other"), (b"x-api-key", KEY)],
        [(b"authorization", "Bearer schlüssel".encode("latin-1"))],
        [(b"authorization", b"Bearer \xff\x00\xfe")],
        [(b"x-api-key", "ключ".encode())],
    ],
)
async def test_two_credentials_or_other_letters_are_no_key(lines: list[Header]) -> None:
    with pytest.raises(Unauthenticated):
        await who(access(allows_anonymous=True), request(headers=lines))


def test_digests_of_keys_are_not_shown() -> None:
    assert repr(KEYS) == "ApiKeys(1 keys)"


NAMES = [b"authorization", b"x-api-key", b"host", b"origin", b"via", b"cookie", b"x-forwarded-for"]
VALUES = [b"", KEY, b"Bearer " + KEY, b"Bearer", b"Basic x", b"localhost", b"evil.example"]


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES) | st.binary(max_size=8))),
    st.sampled_from([None, ("127.0.0.1", 1), ("192.168.1.7", 1)]),
    st.booleans(),
)
@settings(deadline=None)
async def test_whatever_the_headers_are_nobody_passes_without_a_right(
    lines: list[Header], peer: tuple[str, int] | None, allows_anonymous: bool
) -> None:
    scope, receive = asgi_call(headers=lines)
    caller = AsgiRequest.of({**scope, "client": peer}, receive)
    named = {name for name, _ in lines}
    try:
        found = await who(access(allows_anonymous=allows_anonymous), caller)
    except (Unauthenticated, PermissionDenied):
        return
    if found == ALICE:
        sent = [value for name, value in lines if name in (b"authorization", b"x-api-key")]
        assert any(value.endswith(KEY) for value in sent)
    else:
        assert found == ANONYMOUS
        assert allows_anonymous
        assert named.isdisjoint({b"authorization", b"x-api-key", b"via", b"x-forwarded-for"})
        assert peer in (None, ("127.0.0.1", 1))


@pytest.mark.parametrize(
    ("scheme", "header", "remedy"),
    [
        ("bearer", (b"x-api-key", KEY), "'Authorization: Bearer KEY'"),
        ("apiKey", (b"authorization", b"Bearer " + KEY), "'X-API-Key: KEY'"),
    ],
)
async def test_a_key_in_a_header_that_is_not_taken_is_refused_with_the_one_that_is(
    scheme: str, header: tuple[bytes, bytes], remedy: str
) -> None:
    one = Access(keys=replace(KEYS, schemes=(scheme,)), allows_anonymous=True)
    with pytest.raises(Unauthenticated, match=remedy) as refused:
        await who(one, request(headers=[header, (b"host", b"localhost")]))
    assert "or as" not in refused.value.message
    own = [(b"authorization", b"Bearer " + KEY), (b"x-api-key", KEY)]
    # Both at once are fine: one of them is the right one.
    assert await who(one, request(headers=own)) == ALICE


HOST: Header = (b"host", b"localhost:8642")


@pytest.mark.parametrize(
    "origin",
    [
        b"https://evil.example",
        b"null",
        b"",
        b"http://localhost",
        b"http://localhost:3000",
        b"http://localhost.evil.example:8642",
        b"http://localhost:8642@evil.example",
        b"http://evil.example/http://localhost:8642",
        b"localhost:8642",
        b"chrome-extension://localhost:8642",
        b"file://",
    ],
)
def test_a_page_of_another_origin_may_not_post(origin: bytes) -> None:
    with pytest.raises(PermissionDenied, match=r"Origin header.*API key"):
        check_origin(request(headers=[HOST, (b"origin", origin)]))


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        (b"http://localhost:8642", b"localhost:8642"),
        (b"HTTP://LocalHost:8642", b"localhost:8642"),
        (b"http://127.0.0.1:8642", b"127.0.0.1:8642"),
        (b"http://[::1]:8642", b"[::1]:8642"),
        (b"http://localhost", b"localhost"),
        (b"http://localhost", b"localhost:80"),
        (b"https://agents.example", b"agents.example"),
        (b"https://agents.example", b"agents.example:443"),
        # A proxy that names the gateway by its inner address.
        (b"https://agents.example", b"127.0.0.1:8642"),
    ],
)
def test_a_page_of_the_gateway_may_post(origin: bytes, host: bytes) -> None:
    check_origin(request(headers=[(b"host", host), (b"origin", origin)]), {"agents.example"})


def test_a_port_that_goes_without_saying_is_that_of_the_scheme() -> None:
    with pytest.raises(PermissionDenied):
        check_origin(
            request(headers=[(b"host", b"localhost:80"), (b"origin", b"https://localhost")])
        )


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_a_request_from_another_site_is_refused_without_an_origin(method: str) -> None:
    headers = [HOST, (b"sec-fetch-site", b"cross-site")]
    with pytest.raises(PermissionDenied, match="Sec-Fetch-Site: cross-site"):
        check_origin(request(method=method, headers=headers))


@pytest.mark.parametrize("site", [b"same-origin", b"none", b"same-site"])
def test_other_sites_of_a_fetch_are_fine(site: bytes) -> None:
    check_origin(request(headers=[HOST, (b"sec-fetch-site", site)]))


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_what_changes_nothing_is_looked_at_only_when_asked(method: str) -> None:
    asked = request(method=method, headers=[HOST, (b"origin", b"https://evil.example")])
    check_origin(asked)
    with pytest.raises(PermissionDenied):
        check_origin(asked, reads=True)


def test_a_program_that_is_no_browser_says_nothing_and_passes() -> None:
    check_origin(request(headers=[HOST]))
