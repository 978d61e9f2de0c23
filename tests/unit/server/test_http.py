import pytest
from tests.unit.server.requests import Answer, body, request

from trunkline.model.errors import InvalidRequest, PayloadTooLarge
from trunkline.server.asgi import AsgiResponse
from trunkline.server.http import Disconnected, hostname_of, sequence_of

LEFT = {"type": "http.disconnect"}


def test_headers_are_looked_up_by_their_lower_case_name() -> None:
    asked = request(headers=[(b"x-name", b"caf\xe9")])
    assert asked.header(b"x-name") == "café"
    assert asked.header(b"x-other") is None


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], []),
        ([(b"a", b"")], []),
        ([(b"a", b"one")], ["one"]),
        ([(b"a", b"one, two ,, three")], ["one", "two", "three"]),
        ([(b"a", b"one"), (b"c", b"no"), (b"a", b"two")], ["one", "two"]),
        ([(b"a", b"one"), (b"b", b"two,three")], ["one", "two", "three"]),
    ],
)
def test_a_list_is_gathered_from_all_headers_with_the_names(
    headers: list[tuple[bytes, bytes]], expected: list[str]
) -> None:
    assert request(headers=headers).header_list(b"a", b"b") == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (b"", None),
        (b"a=1", None),
        (b"A2A-Version=1.0", "1.0"),
        (b"x=1&a2a-version=1%2E0", "1.0"),
        (b"A2A-VERSION=", ""),
        (b"A2A-Version=0.3&A2A-Version=1.0", "0.3"),
        (b"A2A-Version=a+b", "a b"),
    ],
)
def test_a_query_value_is_found_whatever_its_case(query: bytes, expected: str | None) -> None:
    assert request(query=query).query_value("A2A-Version") == expected


@pytest.mark.parametrize(
    ("host", "name"),
    [
        (b"", ""),
        (b" Example.COM:80 ", "example.com"),
        (b"example.com", "example.com"),
        (b"[::1]:80", "::1"),
        (b"[::1]", "::1"),
        (b"agents_1.example:", "agents_1.example"),
    ],
)
def test_the_host_name_has_no_port(host: bytes, name: str) -> None:
    assert hostname_of(host) == name


@pytest.mark.parametrize(
    "host",
    [
        b"localhost:1@evil.example",
        b"localhost@evil.example",
        b"[::1]evil.example",
        b"[::1].evil.example",
        b"[::1",
        b"::1",
        b"[::1]:80:90",
        b"localhost:80:90",
        b"localhost:80/path",
        b"localhost/../evil.example",
        b"localhost, evil.example",
        b"localhost evil.example",
        b"localhost#evil.example",
        b"localhost?evil.example",
        b"localhost\\evil.example",
        b"localhost%2eevil.example",
        b"localhost:http",
        b"localhost:-1",
        b"\xa0localhost",
        b"loc\xe4lhost",
        b"http://localhost",
        b"[localhost]",
    ],
)
def test_what_is_more_than_a_host_and_a_port_names_nobody(host: bytes) -> None:
    assert hostname_of(host) == ""


async def test_a_body_may_come_at_once_or_in_pieces() -> None:
    assert await request(body(b"abc")).body(limit=3) == b"abc"
    assert await request({"type": "http.request"}).body(limit=3) == b""
    pieces = request(body(b"a", more=True), body(b"", more=True), body(b"bc"))
    assert await pieces.body(limit=3) == b"abc"


async def test_a_body_that_is_announced_as_too_large_is_not_read() -> None:
    asked = request(body(b"abcd"), headers=[(b"content-length", b"4")])
    with pytest.raises(PayloadTooLarge, match="larger than 3 bytes"):
        await asked.body(limit=3)
    # It is all still there.
    assert await asked.body(limit=4) == b"abcd"


@pytest.mark.parametrize("announced", [b"3", b"nonsense", b"-4"])
async def test_what_comes_counts_and_not_what_was_announced(announced: bytes) -> None:
    asked = request(body(b"abcd"), headers=[(b"content-length", announced)])
    with pytest.raises(PayloadTooLarge):
        await asked.body(limit=3)


async def test_a_body_in_pieces_is_refused_at_the_piece_that_is_too_much() -> None:
    asked = request(body(b"ab", more=True), body(b"cd", more=True), body(b"not read"))
    with pytest.raises(PayloadTooLarge):
        await asked.body(limit=3)
    assert await asked.body(limit=100) == b"not read"


async def test_a_client_that_leaves_while_it_sends() -> None:
    with pytest.raises(Disconnected):
        await request(LEFT).body(limit=3)
    with pytest.raises(Disconnected):
        await request(body(b"a", more=True), LEFT).body(limit=3)


async def test_waiting_for_the_client_to_leave() -> None:
    asked = request(body(b"late"), LEFT, body(b"never read"))
    await asked.disconnected()
    assert await asked.body(limit=100) == b"never read"


@pytest.mark.parametrize(
    ("text", "seq"), [(None, None), ("", None), ("  ", None), ("0", 0), (" 12 ", 12)]
)
def test_last_event_id_is_a_sequence(text: str | None, seq: int | None) -> None:
    assert sequence_of(text) == seq


@pytest.mark.parametrize("text", ["-1", "1.5", "abc", "²", "٣", "1" * 19])
def test_another_last_event_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="Last-Event-ID"):
        sequence_of(text)


async def test_an_answer_has_its_length_and_headers() -> None:
    sent = Answer()
    await AsgiResponse(sent).answer(201, b"{}", headers=[(b"x-a", b"1")])
    assert sent.status == 201
    assert sent.headers == {
        "content-type": "application/json",
        "content-length": "2",
        "x-a": "1",
    }
    assert sent.body == b"{}"
    assert not any(message.get("more_body") for message in sent.messages)
