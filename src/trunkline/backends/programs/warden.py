"""`Warden`: kills the children of a gateway that was killed without warning."""

import asyncio
import logging
import sys
from pathlib import Path

_log = logging.getLogger("trunkline.process")

SCRIPT = Path(__file__).with_name("watch_groups.py")


class Warden:
    """A small process that holds the other end of a pipe. When the pipe breaks, it kills the
    process groups that it was told of. It starts with the first child.
    """

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._starting = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None

    async def ready(self) -> None:
        """Start the process, if it does not run. Call this before a child starts."""
        async with self._starting:
            former = self._process
            if former is not None and former.returncode is None:
                return
            self._process = await asyncio.create_subprocess_exec(
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
            if former is not None:
                _log.warning("the warden of child processes was ended; started a new one")
            for group in self._groups:
                self._tell(f"+{group}\n")

    def watch(self, group: int) -> None:
        self._groups.add(group)
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        """The group is gone, and the system may reuse its number."""
        self._groups.discard(group)
        self._tell(f"-{group}\n")

    async def close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            await self._process.wait()

    def _tell(self, line: str) -> None:
        pipe = None if self._process is None else self._process.stdin
        if pipe is not None and not pipe.is_closing():
            pipe.write(line.encode())
