"""`Warden`: kills the children of a gateway that was killed without warning."""

import asyncio
import logging
import sys
from pathlib import Path
from typing import cast

_log = logging.getLogger("trunkline.process")

SCRIPT = Path(__file__).with_name("watch_groups.py")


class _Watcher(asyncio.SubprocessProtocol):
    """Nothing is expected of it but its end."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._transport.close()
        if not self.ended.done():
            self.ended.set_result(None)


class Warden:
    """A small process that holds the other end of a pipe. When the pipe breaks, it kills the
    process groups that it was told of. It starts with the first child.
    """

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._starting = asyncio.Lock()
        self._transport: asyncio.SubprocessTransport | None = None
        self._watcher: _Watcher | None = None

    async def ready(self) -> None:
        """Call it before a child starts. A warden that was killed is started again."""
        async with self._starting:
            if self._watcher is not None and not self._watcher.ended.done():
                return
            transport, watcher = await asyncio.get_running_loop().subprocess_exec(
                _Watcher,
                sys.executable,
                "-I",
                "-S",
                str(SCRIPT),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
                env={},
                cwd="/",
            )
            if self._watcher is not None:
                _log.warning("the warden of child processes was ended; there is a new one")
            self._transport, self._watcher = transport, watcher
            for group in self._groups:
                self._tell(f"+{group}\n")

    def watch(self, group: int) -> None:
        self._groups.add(group)
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        """The group is gone; its number may come to mean another one."""
        self._groups.discard(group)
        self._tell(f"-{group}\n")

    async def close(self) -> None:
        if self._transport is None or self._watcher is None:
            return
        if (pipe := self._pipe()) is not None:
            pipe.close()
        await asyncio.shield(self._watcher.ended)

    def _tell(self, line: str) -> None:
        pipe = self._pipe()
        if pipe is not None and not pipe.is_closing():
            pipe.write(line.encode())

    def _pipe(self) -> asyncio.WriteTransport | None:
        if self._transport is None:
            return None
        # By shape: the transports of uvloop do not derive from those of asyncio.
        return cast(asyncio.WriteTransport | None, self._transport.get_pipe_transport(0))
