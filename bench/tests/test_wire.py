"""The response reader: whatever way the bytes are cut, the same response."""

import pytest
from bench.wire import BadResponse, Response, join_chunks

PLAIN = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\ncontent-length: 7\r\n\r\n{"a":1}'
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'f\r\ndata: {"a":0}\n\n\r\n10\r\ndata: {"a":10}\n\n\r\n0\r\n\r\n'
)


@pytest.mark.parametrize(
    ("raw", "body"),
    [(PLAIN, b'{"a":1}'), (CHUNKED, b'data: {"a":0}\n\ndata: {"a":10}\n\n')],
    ids=["content-length", "chunked"],
)
@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_every_cut_gives_the_same_body(raw: bytes, body: bytes, step: int) -> None:
    response = Response()
    pieces = [raw[at : at + step] for at in range(0, len(raw), step)]
    completed = [response.feed(piece) for piece in pieces]
    assert completed == [False] * (len(pieces) - 1) + [True]
    assert response.status == 200
    assert response.body() == body


def test_an_empty_chunked_body_is_complete() -> None:
    response = Response()
    assert response.feed(b"HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    assert response.body() == b""


def test_a_body_of_unknown_length_is_refused() -> None:
    with pytest.raises(BadResponse):
        Response().feed(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")


def test_a_chunk_that_lies_about_its_size_is_refused() -> None:
    with pytest.raises(BadResponse):
        join_chunks(b"2\r\nabc\r\n0\r\n\r\n")
