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
