"""One child process: its pipes, its limits and its end."""

import asyncio
import os
import signal
from collections import deque
from contextlib import suppress
from typing import cast

from trunkline.backends.programs.output_lines import Lines, Masked, Tail
from trunkline.backends.programs.settings import ProgramSettings
from trunkline.backends.turn_task import done_within
from trunkline.config.secret import Secret
from trunkline.ports.clock import Clock

# Maximum output that waits for a slow reader. With more, the gateway stops reading the pipe,
# and so the child has to wait.
HIGH_WATER_BYTES = 256 * 1024
# How long the pipe stays open after the end of the process, when a process that has left the
# group still holds it.
DRAIN_S = 2.0


class Flooded(Exception):
    """The output of the child is larger than allowed."""


class Child(asyncio.SubprocessProtocol):
    """Read its output with `read` or `line`, send input with `write`, end it with `stop`.

    The child leads a new process group. As soon as it has exited, the rest of the group is
    killed.
    """

    def __init__(
        self, settings: ProgramSettings, clock: Clock, tool_token: Secret | None = None
    ) -> None:
        """`tool_token` is the one in its environment. It is masked in all output, because answers
        and logs outlive it."""
        self._clock = clock
        self.tool_token = tool_token
        self._masked: dict[int, Masked] = {}
        if tool_token is not None:
            self._masked = {fd: Masked(tool_token.reveal().encode()) for fd in (1, 2)}
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
        # Done when the process has ended and its pipes are closed.
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
        """`is_alive` as the system knows it, before the event loop hears of the end."""
        if not self.is_alive or not hasattr(os, "waitid"):
            return self.is_alive
        try:
            # WNOWAIT leaves the exit status for the event loop.
            look = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.pid, look) is None
        except ChildProcessError:
            return False

    def begin_answer(self) -> None:
        """Count the output from here on, and drop lines that belong to no answer."""
        self._heard_bytes = 0
        if self._waiting:
            # Split into lines first: the rest is the beginning of the next line.
            self._ready_lines.extend(self._lines.feed(self._take()))
        self._ready_lines.clear()

    async def read(self) -> bytes:
        """The next output; empty when the child has closed it. Raises Flooded."""
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
        """Send input. A child that has closed its input is not a fault: its end decides."""
        pipe = self._input()
        if pipe is not None and not pipe.is_closing():
            pipe.write(data)

    def end_input(self) -> None:
        """Close its standard input after everything that was written."""
        pipe = self._input()
        if pipe is not None:
            pipe.close()

    async def exits_within(self, seconds: float) -> bool:
        """Whether it ends by itself in that time, and its output was read."""
        return await done_within(self.gone, seconds, self._clock)

    async def stop(self, grace_s: float) -> None:
        """End the whole group with SIGTERM, then SIGKILL. Returns when the child is gone."""
        self.kill(signal.SIGTERM)
        try:
            await self.exits_within(grace_s)
        finally:
            self.kill(signal.SIGKILL)
        await asyncio.shield(self.gone)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Signal the whole group. Its number is certain only while the child is alive."""
        if self.is_alive and self._transport is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, because the transports of uvloop do not derive from those of asyncio.
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if self._masked:
            data = self._masked[fd].feed(data)
        self._received(fd, data)

    def _received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.errors.feed(data)
            return
        self._heard_bytes += len(data)
        if self._heard_bytes > self._max_output_bytes:
            self._is_flooded = True
            self._notify()
            self.kill()
            return
        if not data:
            return
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        is_full = self._waiting_bytes > HIGH_WATER_BYTES
        if is_full and self.is_alive and not self._is_paused:
            self._is_paused = True
            self._output().pause_reading()
        self._notify()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd in self._masked:
            self._received(fd, self._masked[fd].end())
        if fd == 1:
            self._at_end = True
            self._notify()

    def process_exited(self) -> None:
        assert self._transport is not None
        code = self._transport.get_returncode()
        # The rest of the group ends at once, before the system can reuse the number.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._transport.get_pid(), signal.SIGKILL)
        if not self.exited.done():
            self.exited.set_result(0 if code is None else code)
        if self._is_paused:
            # The rest of the output fits into the pipe, so there is no need to hold it back.
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
