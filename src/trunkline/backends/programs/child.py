"""One child process: its pipes, its limits and its end."""

import asyncio
import os
import signal
from collections import deque
from contextlib import suppress
from typing import cast

from trunkline.backends.programs.output_lines import Lines, Tail
from trunkline.backends.programs.settings import ProgramSettings
from trunkline.backends.turn_task import done_within
from trunkline.ports.clock import Clock

# Output that waits for a slow reader. Beyond it the child is not read, and so waits too.
HIGH_WATER_BYTES = 256 * 1024
# After the end of the process: for the last of its output, should somebody who has left its
# group still hold the pipe.
DRAIN_S = 2.0


class Flooded(Exception):
    """The child said more than it may."""


class Child(asyncio.SubprocessProtocol):
    """Read it with `read` or `line`, tell it something with `write`, end it with `stop`.

    It leads a process group of its own. The group ends with it: what it left behind is
    killed as soon as it has exited.
    """

    def __init__(self, settings: ProgramSettings, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._max_output_bytes = settings.max_output_bytes
        self._heard_bytes = 0
        self._is_flooded = False
        self._lines = Lines(settings.max_line_bytes)
        self._ready_lines: deque[bytes] = deque()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._is_paused = False
        self._at_end = False
        self._wake: asyncio.Future[None] | None = None
        self._transport: asyncio.SubprocessTransport | None = None
        self._draining: asyncio.TimerHandle | None = None
        self.errors = Tail()
        # The exit code, negative for a signal, once the process has ended.
        self.exited: asyncio.Future[int] = self._loop.create_future()
        # Done when the pipes are closed, too.
        self.gone: asyncio.Future[None] = self._loop.create_future()

    @property
    def pid(self) -> int:
        assert self._transport is not None
        return self._transport.get_pid()

    @property
    def is_alive(self) -> bool:
        return not self.exited.done()

    @property
    def is_running(self) -> bool:
        """The same, asked of the system: the news of an end takes a moment to get here."""
        if not self.is_alive or not hasattr(os, "waitid"):
            return self.is_alive
        try:
            # Only to look: whoever waits for the process is to hear of its end as well.
            look = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.pid, look) is None
        except ChildProcessError:
            return False

    def begin_answer(self) -> None:
        """Count its output from here on, and forget the lines that it said unasked."""
        self._heard_bytes = 0
        if self._waiting:
            # By lines, so that the next one begins where it begins.
            self._ready_lines.extend(self._lines.feed(self._take()))
        self._ready_lines.clear()

    async def read(self) -> bytes:
        """What it said since; empty when it has closed its output. Raises Flooded."""
        while not self._waiting:
            if self._is_flooded:
                raise Flooded
            if self._at_end:
                return b""
            self._wake = self._loop.create_future()
            await self._wake
        return self._take()

    def _take(self) -> bytes:
        data = b"".join(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._is_paused:
            self._is_paused = False
            self._output().resume_reading()
        return data

    async def line(self) -> bytes | None:
        """The next line; None at the end. Raises Flooded and LineTooLong."""
        while not self._ready_lines:
            data = await self.read()
            if not data:
                return self._lines.rest() or None
            self._ready_lines.extend(self._lines.feed(data))
        return self._ready_lines.popleft()

    def write(self, data: bytes) -> None:
        """Tell it something. One that listens no more is not a fault: see how it ends."""
        pipe = self._input()
        if pipe is not None and not pipe.is_closing():
            pipe.write(data)

    def end_input(self) -> None:
        """Close its standard input, after all that was written."""
        pipe = self._input()
        if pipe is not None:
            pipe.close()

    async def exits_within(self, seconds: float) -> bool:
        """Whether it ends by itself by then, and has said all that it had to say."""
        return await done_within(self.gone, seconds, self._clock)

    async def stop(self, grace_s: float) -> None:
        """End the whole group: politely, then by force. Returns when it is gone."""
        self.kill(signal.SIGTERM)
        try:
            await self.exits_within(grace_s)
        finally:
            self.kill(signal.SIGKILL)
        await asyncio.shield(self.gone)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Signal the whole group, as long as the number is surely its own."""
        if self.is_alive and self._transport is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # By shape: the transports of uvloop do not derive from those of asyncio.
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.errors.feed(data)
            return
        self._heard_bytes += len(data)
        if self._heard_bytes > self._max_output_bytes:
            self._is_flooded = True
            self._notify()
            self.kill()
            return
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        is_full = self._waiting_bytes > HIGH_WATER_BYTES
        if is_full and self.is_alive and not self._is_paused:
            self._is_paused = True
            self._output().pause_reading()
        self._notify()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self._at_end = True
            self._notify()

    def process_exited(self) -> None:
        assert self._transport is not None
        code = self._transport.get_returncode()
        # Before anybody else can get the number: what it left behind ends with it.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._transport.get_pid(), signal.SIGKILL)
        if not self.exited.done():
            self.exited.set_result(0 if code is None else code)
        if self._is_paused:
            # All that is left fits into the pipe, so nobody has to be held back for it.
            self._is_paused = False
            self._output().resume_reading()
        self._draining = self._loop.call_later(DRAIN_S, self._transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._draining is not None:
            self._draining.cancel()
        if self._transport is not None:
            self._transport.close()
        self._at_end = True
        self._notify()
        if not self.gone.done():
            self.gone.set_result(None)

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _output(self) -> asyncio.ReadTransport:
        assert self._transport is not None
        return cast(asyncio.ReadTransport, self._transport.get_pipe_transport(1))

    def _input(self) -> asyncio.WriteTransport | None:
        assert self._transport is not None
        return cast(asyncio.WriteTransport | None, self._transport.get_pipe_transport(0))
