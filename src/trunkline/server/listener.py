"""`Listener`: the process as a server, with its socket, its signals and an orderly stop.

uvicorn does everything that all servers have in common; the connections are our own.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from types import FrameType
from typing import Any, cast

import uvicorn

from trunkline.server.connection import Connection
from trunkline.server.shared import Shared

_log = logging.getLogger("trunkline.server")

BACKLOG = 2048
# Clients have this long to read their responses after the last turn.
LAST_READ_S = 3.0
# A client that has just connected has this long to send its request, and gets an answer to it.
LAST_REQUEST_S = 0.05
# Stops faster than this print nothing.
SILENT_S = 0.3
# Open files that are left for the store, the log, calls to agents and their programs.
RESERVED_FILES = 128
# The limit of open files that the listener asks for. Programs that agents run inherit it, and
# some of them look at every number up to it.
WANTED_FILES = 65_536


def listen(host: str, port: int) -> socket.socket:
    """Raises OSError with the address as its filename."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        # Python appends the address to the reason, in a form that is hard to read.
        reason = (error.strerror or str(error)).partition(" (while ")[0]
        raise OSError(error.errno, reason, address(host, port)) from error


def address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host or '*'}:{port}"


class Listener(uvicorn.Server):
    """After a first signal to stop, work may finish for `drain_s`; a second signal ends it at
    once."""

    def __init__(
        self,
        shared: Shared,
        *,
        on_started: Callable[[], None],
        drain: Callable[[float], Coroutine[Any, Any, None]],
        drain_s: float,
        on_waiting: Callable[[], None] = lambda: None,
        on_hangup: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_waiting` is called after a signal to stop, if work is still under way; `on_hangup`
        after a SIGHUP that asks to reload the settings."""
        self._shared = shared
        config = uvicorn.Config(
            # Never called: the connections hand requests to the handler.
            shared.handler,
            loop="uvloop",
            http=cast(type[asyncio.Protocol], self._connect),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            backlog=BACKLOG,
            # Streams and turns have ended before; nothing else is worth a longer wait.
            timeout_graceful_shutdown=5,
        )
        super().__init__(config)
        # The shutdown of uvicorn closes the connections and waits for the tasks.
        self.server_state.connections = cast(Any, shared.connections)
        self.server_state.tasks = shared.tasks
        self._on_started = on_started
        self._drain = drain
        # May be changed while the listener runs.
        self.drain_s = drain_s
        self._on_waiting = on_waiting
        self._on_hangup = on_hangup
        self._hurries = asyncio.Event()

    def _connect(self, **_: Any) -> Connection:
        return Connection(self._shared)

    async def on_tick(self, counter: int) -> bool:
        # Called ten times a second.
        if counter % 10 == 0:
            self._shared.date = b"date: %b\r\n" % formatdate(usegmt=True).encode()
            self._shared.close_idle(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn would raise the signal once more when it has stopped, and that would end the
        # process before the store is closed, with the exit code of a crash.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        caught = (signal.SIGINT, signal.SIGTERM)
        for number in caught:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        hears_hangups = _hears_hangups()
        if hears_hangups:
            loop.add_signal_handler(signal.SIGHUP, self._hang_up, _has_terminal())
        try:
            yield
        finally:
            for number in caught:
                loop.remove_signal_handler(number)
            if hears_hangups:
                loop.remove_signal_handler(signal.SIGHUP)

    def _hang_up(self, had_terminal: bool) -> None:
        """SIGHUP: the terminal is gone, or an operator wants the settings to be read again."""
        if had_terminal and not _has_terminal():
            _log.warning("stopping: the terminal is gone (SIGHUP); start with nohup to go on")
            self.handle_exit(signal.SIGHUP, None)
        elif not self.should_exit:
            _log.info("SIGHUP: the configuration is read again")
            self._on_hangup()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._on_started()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # The second signal ends the wait for running turns.
        if self.should_exit and not self._hurries.is_set():
            self._hurries.set()
        else:
            super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # While runs finish, callers with an open connection are still answered.
        async with asyncio.TaskGroup() as stopping:
            draining = stopping.create_task(self._drain(self.drain_s))
            hurrying = stopping.create_task(self._hurries.wait())
            either = (draining, hurrying)
            ended, _ = await asyncio.wait(
                either, timeout=SILENT_S, return_when=asyncio.FIRST_COMPLETED
            )
            if not ended:
                self._on_waiting()
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            for server in self.servers:
                server.close()
            await asyncio.wait({hurrying}, timeout=LAST_REQUEST_S)
            draining.cancel()
            hurrying.cancel()
        if self._hurries.is_set():
            await self._drain(0)
        asyncio.get_running_loop().call_later(LAST_READ_S, self._shared.abort_all)
        await super().shutdown(sockets=sockets)


def hear_hangups_early(on_hangup: Callable[[], None]) -> None:
    """Call `on_hangup` after a SIGHUP that comes before the listener runs, which would otherwise
    end the process. A process with a terminal still ends when the terminal is gone."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and _hears_hangups() and not _has_terminal():
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, on_hangup)


def _hears_hangups() -> bool:
    # Under `nohup` the signal is ignored, as the user wants.
    return hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN


def _has_terminal() -> bool:
    """Whether there is a controlling terminal, whatever the standard streams are."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def room_for_connections() -> int:
    """The number of connections that leaves enough files for everything else.

    Raises the soft limit of open files first, where the system allows it.
    """
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(WANTED_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (ValueError, OSError):
            # Some systems have a lower limit than they report.
            pass
    if soft == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(soft - RESERVED_FILES, soft // 2)
