import pytest

from trunkline.protocol.relay import headers


@pytest.mark.parametrize(
    "name",
    [
        b"Authorization",
        b"X-API-Key",
        b"cookie",
        b"client-cert",
        b"x-forwarded-for",
        b"connection",
        b"host",
        b"sec-fetch-site",
    ],
)
def test_credentials_and_marks_of_proxies_do_not_reach_the_host(name: bytes) -> None:
    assert headers.of_request([(name, b"x"), (b"A2A-Version", b"1.0")]) == (("a2a-version", "1.0"),)


def test_headers_of_extensions_pass() -> None:
    lines = [(b"x-of-an-extension", b"a\xffb"), (b"last-event-id", b"7")]
    passed = headers.of_request(lines)
    assert passed == (("x-of-an-extension", "a\xffb"), ("last-event-id", "7"))
    assert headers.received(passed) == lines


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorization", "Bearer x"),
        ("A2A-Version", "1.0"),
        ("", "x"),
        ("a b", "x"),
        ("a", "b\r\nc: d"),
        ("a", "\0"),
        ("a", "\u20ac"),
        ("\u20ac", "x"),
    ],
)
def test_a_host_takes_headers_alone(name: str, value: str) -> None:
    assert headers.received([(name, value)]) == []


def test_a_response_keeps_what_clients_need() -> None:
    passed = headers.of_response(
        [
            ("content-type", "application/json"),
            ("etag", '"1"'),
            ("set-cookie", "session=1"),
            ("access-control-allow-origin", "*"),
            ("content-security-policy", "default-src *"),
            ("vary", "a\r\nset-cookie: b"),
        ]
    )
    assert passed == [
        (b"content-type", b"application/json"),
        (b"etag", b'"1"'),
        (b"content-security-policy", b"default-src 'none'; sandbox"),
        (b"x-content-type-options", b"nosniff"),
    ]


@pytest.mark.parametrize("length", ["-2", "1_0", "+5", "abc", "", "0x5", "9" * 5000, "\u0665"])
def test_a_length_that_is_no_number_does_not_pass(length: str) -> None:
    passed = headers.of_response([("content-length", length)])
    assert b"content-length" not in dict(passed)


def test_a_header_that_comes_once_passes_once() -> None:
    """Of two lengths a proxy may act on one, and the client on the other."""
    passed = headers.of_response(
        [
            ("content-length", "2"),
            ("content-length", "10"),
            ("content-type", "application/json"),
            ("content-type", "text/html"),
            ("vary", "a"),
            ("vary", "b"),
        ]
    )
    names = [name for name, _ in passed]
    assert b"content-length" not in names
    assert (b"content-type", b"application/json") in passed
    assert names.count(b"content-type") == 1
    assert names.count(b"vary") == 2


def test_a_response_without_a_body_has_no_length() -> None:
    assert b"content-length" not in dict(headers.of_response([("content-length", "9")], status=204))
