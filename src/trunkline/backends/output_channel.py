"""`OutputChannel`: the outputs of one run on their way from the agent's side to the reader."""

import asyncio
import threading
from collections import deque
from typing import Final

import msgspec

from trunkline.model.outputs import Failed, Output, Text

# How far producers may be ahead of the reader. The number limits the overhead of small outputs,
# the bytes limit large ones. A single output may be larger than that; it then waits alone.
MAX_WAITING: Final = 64
MAX_WAITING_BYTES: Final = 1024 * 1024

_encode = msgspec.json.Encoder().encode


class OutputChannel:
    """A bounded queue of outputs with one reader, and one producer or several, all of one run.

    A producer that is ahead of the reader waits in `put`, a thread in `put_from_thread`.
    `put_now` never waits: it is for the last output of a run, and for a producer that serves
    other runs too. Such a producer names an `overflow`: the channel joins its pieces of text
    while they wait, and if more than `max_waiting` outputs still wait, a failure with that text
    replaces them.

    The producer ends the channel with `finish`: the reader gets what is left, then the failure
    if there is one (once), then None. The reader ends it with `close`, and so does a cancel:
    the channel drops the outputs that are left, ignores later ones, and lets every producer go on.

    When all outputs together are larger than `max_total_bytes`, the reader gets those that fit,
    then a failure that says so.
    """

    def __init__(
        self,
        *,
        max_waiting: int = MAX_WAITING,
        max_waiting_bytes: int = MAX_WAITING_BYTES,
        max_total_bytes: int | None = None,
        overflow: str = "",
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """`loop` is the reader's; only `put_from_thread` needs it."""
        self._max_waiting = max_waiting
        self._max_waiting_bytes = max_waiting_bytes
        self._max_total_bytes = max_total_bytes
        self._overflow = overflow
        self._loop = loop
        self._waiting: deque[tuple[Output, int]] = deque()
        self._waiting_bytes = 0
        self._total_bytes = 0
        # `_is_shut`: the channel ignores further outputs. `_has_ended`: the producer or the
        # reader has ended it.
        self._is_shut = False
        self._has_ended = False
        self._failure: Exception | None = None
        self.is_closed = False
        # The outputs were larger than `max_total_bytes`.
        self.is_flooded = False
        # A plain lock, which a `with` enters without a call in Python, guards the queue.
        self._lock = threading.Lock()
        self._thread_room = threading.Condition(self._lock)
        self._room = asyncio.Event()
        # The reader, while it waits.
        self._reader: asyncio.Future[None] | None = None
        # From when the limit is passed until half of it is read.
        self._is_full = False

    def put_now(self, output: Output) -> None:
        """Ignored after `finish` and `close`."""
        with self._lock:
            self._append(output)
        if self._reader is not None:
            self._wake_reader()

    async def put(self, output: Output) -> None:
        """Returns when there is room for another one."""
        self.put_now(output)
        if self._is_full:
            await self._until_room()

    def put_from_thread(self, output: Output) -> None:
        """`put` for a thread. Raises RuntimeError when the reader's loop is closed."""
        assert self._loop is not None
        with self._lock:
            self._append(output)
        self._loop.call_soon_threadsafe(self._wake_reader)
        if self._is_full:
            with self._lock:
                while self._is_full:
                    self._thread_room.wait()

    def finish(self, failure: Exception | None = None) -> None:
        """No output follows. The first call counts."""
        if not self._has_ended:
            self._has_ended = self._is_shut = True
            self._failure = failure
            self._wake_reader()

    def close(self) -> None:
        """The reader takes no more outputs."""
        with self._lock:
            self.is_closed = self._has_ended = self._is_shut = True
            self._failure = None
            self._waiting.clear()
            self._waiting_bytes = 0
            self._let_go()
        self._wake_reader()

    async def take(self) -> Output | None:
        """The next output; None when none follows. Raises the failure of `finish`."""
        while not self._waiting:
            if self._has_ended:
                failure, self._failure = self._failure, None
                if failure is not None:
                    raise failure
                return None
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        with self._lock:
            output, size = self._waiting.popleft()
            self._waiting_bytes -= size
            if (
                self._is_full
                and 2 * len(self._waiting) <= self._max_waiting
                and 2 * self._waiting_bytes <= self._max_waiting_bytes
            ):
                self._let_go()
        return output

    async def _until_room(self) -> None:
        while self._is_full:
            self._room.clear()
            await self._room.wait()

    def _wake_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(None)

    def _append(self, output: Output) -> None:
        if self._is_shut:
            return
        size = size_of(output)
        self._total_bytes += size
        if self._max_total_bytes is not None and self._total_bytes > self._max_total_bytes:
            self.is_flooded = self._is_shut = True
            output, size = Failed(flooded(self._max_total_bytes)), 0
        if self._overflow:
            output, size = self._joined(output, size)
        self._waiting.append((output, size))
        self._waiting_bytes += size
        if len(self._waiting) > self._max_waiting or self._waiting_bytes > self._max_waiting_bytes:
            self._is_full = True

    def _joined(self, output: Output, size: int) -> tuple[Output, int]:
        """The output to append for a producer that cannot wait."""
        last = self._waiting[-1][0] if self._waiting else None
        if isinstance(output, Text) and isinstance(last, Text):
            _, before = self._waiting.pop()
            self._waiting_bytes -= before
            return Text(last.delta + output.delta), before + size
        if len(self._waiting) >= self._max_waiting:
            self._waiting.clear()
            self._waiting_bytes = 0
            return Failed(self._overflow), 0
        return output, size

    def _let_go(self) -> None:
        """Let the producers that wait continue."""
        self._is_full = False
        self._room.set()
        self._thread_room.notify_all()


def size_of(output: Output) -> int:
    """Bytes of an output as JSON. A piece of text, by far the most common, counts its text only."""
    if isinstance(output, Text):
        text = output.delta
        return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
    try:
        return len(_encode(output))
    except (TypeError, ValueError, OverflowError, RecursionError):
        # A value that is not JSON: the store refuses it, and says why.
        return 0


def flooded(max_bytes: int) -> str:
    return f"The agent said more than the {in_bytes(max_bytes)} that it may, so it was stopped."


def in_bytes(number: int) -> str:
    for unit, factor in (("MiB", 1024 * 1024), ("KiB", 1024)):
        if number >= factor:
            return f"{number / factor:g} {unit}"
    return f"{number} bytes"
