"""`Children`: all child processes of one backend. None of them outlives it."""

import asyncio
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from trunkline.backends.programs.child import Child
from trunkline.backends.programs.program import Program
from trunkline.backends.programs.settings import ProgramSettings
from trunkline.backends.programs.warden import Warden
from trunkline.background import BackgroundTasks
from trunkline.config.secret import Secret
from trunkline.ports.clock import Clock
from trunkline.ports.tools import LentTools

_log = logging.getLogger("trunkline.process")

# The variables by which a program finds its tools.
TOOLS_URL = "TRUNKLINE_TOOLS_URL"
TOOLS_TOKEN = "TRUNKLINE_TOOLS_TOKEN"
# The name of the gateway among the MCP servers of a program.
MCP_NAME = "trunkline"
LAUNCHER = Path(__file__).with_name("launch.py")


class TooMany(Exception):
    """The maximum number of processes is running."""


class CannotStart(Exception):
    """The program is not there, or cannot be run; its text is for the operator."""


class Children:
    """Starts processes of one program, within the limits of its settings, and ends them."""

    def __init__(self, settings: ProgramSettings, clock: Clock) -> None:
        self.settings = settings
        self.program = Program(settings)
        self._clock = clock
        self._warden = Warden()
        self._tasks = BackgroundTasks("children")
        self._alive: set[Child] = set()
        # Processes that run or are being started.
        self._claimed = 0
        self._is_closed = False

    async def spawn(
        self,
        arguments: Sequence[str],
        variables: Mapping[str, str] | None = None,
        *,
        tools: LentTools | None = None,
    ) -> Child:
        """A process with these arguments, and with these variables and tools beside its
        environment. Raises CannotStart and TooMany."""
        if self._claimed >= self.settings.max_processes:
            raise TooMany
        self._claimed += 1
        environment = self.program.environment | dict(variables or {}) | _variables(tools)
        token = None if tools is None else tools.token
        starting = self._tasks.start(
            self._spawn(arguments, environment, token), name=f"start {self.program.name}"
        )
        try:
            started = await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The process starts anyway, and has to be ended.
            starting.add_done_callback(self._stop_unwanted)
            raise
        if isinstance(started, CannotStart):
            raise started
        return started

    async def _spawn(
        self, arguments: Sequence[str], environment: dict[str, str], token: Secret | None
    ) -> Child | CannotStart:
        try:
            return await self._start(arguments, environment, token)
        except CannotStart as error:
            self._claimed -= 1
            return error

    def _stop_unwanted(self, starting: "asyncio.Task[Child | CannotStart]") -> None:
        if not starting.cancelled() and isinstance(child := starting.result(), Child):
            self.stop_soon(child)

    async def _start(
        self, arguments: Sequence[str], environment: dict[str, str], token: Secret | None
    ) -> Child:
        path = self.program.path()
        if fault := self.program.fault():
            raise CannotStart(fault)
        assert path is not None
        if self._is_closed:
            raise CannotStart("the gateway is stopping")
        argv = [path, *arguments]
        if self.settings.max_memory_bytes:
            limit = str(self.settings.max_memory_bytes)
            argv = [sys.executable, "-I", "-S", str(LAUNCHER), limit, *argv]
        try:
            await self._warden.ready()
            _, child = await asyncio.get_running_loop().subprocess_exec(
                partial(Child, self.settings, self._clock, token),
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                cwd=self.settings.cwd or None,
                env=environment,
            )
        except (OSError, ValueError) as error:
            name = self.settings.command[0]
            raise CannotStart(f"{name} could not be started: {error}") from error
        self._alive.add(child)
        self._warden.watch(child.pid)
        child.gone.add_done_callback(lambda _: self._forget(child))
        _log.debug("child started", extra={"program": self.program.name, "pid": child.pid})
        return child

    @contextmanager
    def killed_after(self, child: Child, seconds: float) -> Iterator[None]:
        """Kill the child if the body takes longer."""
        timer = self._tasks.start(self._clock.sleep(seconds), name=f"kill {child.pid}")
        timer.add_done_callback(lambda timer: None if timer.cancelled() else child.kill())
        try:
            yield
        finally:
            timer.cancel()

    def stop_soon(self, child: Child) -> None:
        """End it in the background, without waiting."""
        if not child.gone.done():
            self._tasks.spawn(child.stop(self.settings.stop_grace_s), name=f"stop {child.pid}")

    async def stop(self, child: Child) -> None:
        """End it, also when the caller stops waiting for that."""
        if not child.gone.done():
            stopping = child.stop(self.settings.stop_grace_s)
            await asyncio.shield(self._tasks.start(stopping, name=f"stop {child.pid}"))

    async def close(self) -> None:
        """End all processes. No more can be started."""
        self._is_closed = True
        await asyncio.gather(*(self.stop(child) for child in list(self._alive)))
        await self._warden.close()
        await self._tasks.close()

    def _forget(self, child: Child) -> None:
        self._alive.discard(child)
        self._claimed -= 1
        self._warden.forget(child.pid)


def _variables(tools: LentTools | None) -> dict[str, str]:
    if tools is None:
        return {}
    return {TOOLS_URL: tools.url, TOOLS_TOKEN: tools.token.reveal()}
