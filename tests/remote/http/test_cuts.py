"""However the bytes of an answer are cut, it is the same answer."""

import asyncio
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tests.remote.http.peer import answer, chunked

from trunkline.remote.http.connection import Connection
from trunkline.remote.http.request import Origin, build_request
from trunkline.remote.http.response import MAX_UNREAD_BYTES, Response


class Wire(asyncio.Transport):
    """A transport that goes nowhere and says what was done to it."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []
        self.sent = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def abort(self) -> None:
        self.done.append("abort")

    def is_closing(self) -> bool:
        return "abort" in self.done

    def pause_reading(self) -> None:
        self.done.append("pause")

    def resume_reading(self) -> None:
        self.done.append("resume")

    def get_write_buffer_size(self) -> int:
        return 0


class Owner:
    def __init__(self) -> None:
        self.freed = self.lost_ones = 0

    def opened(self, connection: Connection) -> None:
        pass

    def free(self, connection: Connection) -> None:
        self.freed += 1

    def lost(self, connection: Connection) -> None:
        self.lost_ones += 1

    def closed(self, connection: Connection) -> None:
        pass


class Asked:
    """A request that was sent, on a wire that a test holds the other end of."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, max_bytes: int | None = None) -> None:
        self.wire, self.owner = Wire(), Owner()
        self.connection = Connection(loop, Origin(False, "x", 80), self.owner)
        self.connection.connection_made(self.wire)
        self.response = Response(loop, max_bytes=max_bytes, is_reused=False)
        self.connection.send(build_request("POST", "http://x/", {}, b"{}"), self.response)

    async def outcome(self) -> tuple[object, ...]:
        response, body, reason = self.response, b"", ""
        while response._pieces or (response.is_over and response.error is None):
            if not (piece := await response.chunk()):
                break
            body += piece
        if response.error is not None:
            reason = response.error.reason
        kept = (self.owner.freed, self.owner.lost_ones)
        return response.status, dict(response.headers), body, reason, response.is_over, kept


ANSWERS = [
    answer(b"12345", b"X-A: b", b"X-Empty:"),
    answer(b""),
    answer(b"12345", b"Connection: close"),
    chunked(b"1", b"23", b"456"),
    chunked(b"12345", end=b"0\r\nTrailer: yes\r\n\r\n"),
    b"HTTP/1.1 100 Continue\r\n\r\n" + answer(b"12345"),
    b"HTTP/1.1 103 Hints\r\nLink: a\r\n\r\n" + chunked(b"12345"),
    b"HTTP/1.1 204 Nothing\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\nuntil the end",
    b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n12",
    b"HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n12",
    chunked(b"12345")[:-3],
    chunked(b"12345", end=b"nonsense\r\n"),
    b"nonsense\r\n\r\n",
    b"HTTP/1.1 2",
]


async def outcome_of(chunks: list[bytes]) -> tuple[object, ...]:
    asked = Asked(asyncio.get_running_loop())
    for chunk in chunks:
        asked.connection.data_received(chunk)
    asked.connection.eof_received()
    asked.connection.connection_lost(None)
    return await asked.outcome()


@given(st.sampled_from(ANSWERS), st.data())
def test_any_cut_of_the_bytes_is_the_same_answer(whole: bytes, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=6))
    ends = sorted({0, *cuts, len(whole)})
    pieces = [whole[a:b] for a, b in pairwise(ends)]
    with asyncio.Runner() as runner:
        assert runner.run(outcome_of(pieces)) == runner.run(outcome_of([whole]))


def test_byte_by_byte() -> None:
    with asyncio.Runner() as runner:
        for whole in ANSWERS:
            single = [whole[i : i + 1] for i in range(len(whole))]
            assert runner.run(outcome_of(single)) == runner.run(outcome_of([whole]))


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_an_error(data: bytes) -> None:
    with asyncio.Runner() as runner:
        *_, reason, is_over, _ = runner.run(outcome_of([b"HTTP/1.1 200 OK\r\n" + data]))
        assert is_over or reason


async def test_a_slow_reader_is_not_overrun() -> None:
    """What nobody reads stays at the peer, and goes on when it is read."""
    asked = Asked(asyncio.get_running_loop())
    head, piece = chunked(end=b""), b"x" * 64 * 1024
    framed = b"%x\r\n%b\r\n" % (len(piece), piece)
    asked.connection.data_received(head)
    for _ in range(MAX_UNREAD_BYTES // len(piece)):
        asked.connection.data_received(framed)
    assert asked.wire.done == []
    asked.connection.data_received(framed)
    assert asked.wire.done == ["pause"]
    assert len(await asked.response.chunk()) == MAX_UNREAD_BYTES + len(piece)
    assert asked.wire.done == ["pause", "resume"]
    asked.connection.data_received(b"0\r\n\r\n")
    assert await asked.response.chunk() == b""
    assert (asked.owner.freed, asked.owner.lost_ones) == (1, 0)


async def test_an_idle_connection_takes_no_word_unasked() -> None:
    asked = Asked(asyncio.get_running_loop())
    asked.connection.data_received(answer(b"x"))
    assert asked.owner.freed == 1
    assert asked.connection.is_fit(max_idle_s=15)
    asked.connection.idle_since -= 16
    assert not asked.connection.is_fit(max_idle_s=15)
    asked.connection.idle_since += 16
    asked.connection.data_received(b"HTTP/1.1 408 Too Late\r\n\r\n")
    assert asked.owner.lost_ones == 1
    assert asked.wire.done == ["abort"]
    assert not asked.connection.is_fit(max_idle_s=15)
