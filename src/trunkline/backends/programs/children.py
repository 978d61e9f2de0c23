"""All child processes of one backend. None of them outlives it."""

import asyncio
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, convert

from trunkline.backends.programs.child import Child
from trunkline.backends.programs.program import Program
from trunkline.backends.programs.settings import ProgramSettings
from trunkline.backends.programs.warden import Warden
from trunkline.background import BackgroundTasks
from trunkline.ports.clock import Clock

_log = logging.getLogger("trunkline.process")

LAUNCHER = Path(__file__).with_name("launch.py")


class Limits(Struct, frozen=True, kw_only=True):
    """Limits of one program and of one turn."""

    max_output_bytes: int = 16 * 1024 * 1024
    max_line_bytes: int = 8 * 1024 * 1024
    # For one turn.
    timeout_s: float = 1800.0
    # Between the polite signal and the one that cannot be ignored.
    stop_grace_s: float = 2.0
    # Programs at once.
    max_processes: int = 16


class TooMany(Exception):
    """As many programs run as may."""


class CannotStart(Exception):
    """The program is not there, or cannot be run; its text is for the operator."""


class Children:
    def __init__(self, clock: Clock, limits: Limits) -> None:
        self._clock = clock
        self.limits = limits
        self._warden: Warden | None = None
        self._tasks = BackgroundTasks("children")
        self._alive: set[Child] = set()
        # Those that are being started count, too.
        self._claimed = 0
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._alive)

    async def spawn(
        self,
        program: Program,
        arguments: Sequence[str],
        variables: Mapping[str, str] | None = None,
    ) -> Child:
        """Start it with these arguments, and with these variables beside its environment.
        Raises CannotStart and TooMany."""
        if self._claimed >= self.limits.max_processes:
            raise TooMany
        self._claimed += 1
        started: asyncio.Future[Child] = asyncio.get_running_loop().create_future()
        environment = program.environment | dict(variables or {})
        self._tasks.spawn(
            self._spawn(program, arguments, environment, started), name=f"start {program.name}"
        )
        try:
            return await asyncio.shield(started)
        except asyncio.CancelledError:
            # It is being started already; whoever wanted it does not any more.
            started.add_done_callback(self._unwanted)
            raise

    async def _spawn(
        self,
        program: Program,
        arguments: Sequence[str],
        environment: dict[str, str],
        started: "asyncio.Future[Child]",
    ) -> None:
        try:
            started.set_result(await self._start(program, arguments, environment))
        except CannotStart as error:
            self._claimed -= 1
            started.set_exception(error)

    def _unwanted(self, started: "asyncio.Future[Child]") -> None:
        if started.exception() is None:
            self.stop_soon(started.result())

    async def _start(
        self, program: Program, arguments: Sequence[str], environment: dict[str, str]
    ) -> Child:
        path = program.path()
        if fault := program.fault():
            raise CannotStart(fault)
        assert path is not None
        if self._is_closed:
            raise CannotStart("the gateway is stopping")
        if self._warden is None:
            self._warden = Warden()
        argv = [path, *arguments]
        if program.max_memory_bytes:
            limit = str(program.max_memory_bytes)
            argv = [sys.executable, "-I", "-S", str(LAUNCHER), limit, *argv]
        try:
            await self._warden.ready()
            _, child = await asyncio.get_running_loop().subprocess_exec(
                self._make,
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                cwd=program.cwd or None,
                env=environment,
            )
        except (OSError, ValueError) as error:
            raise CannotStart(f"{program.argv[0]} could not be started: {error}") from error
        self._alive.add(child)
        self._warden.watch(child.pid)
        child.gone.add_done_callback(lambda _: self._forget(child))
        _log.debug("child started", extra={"program": program.name, "pid": child.pid})
        return child

    def stop_soon(self, child: Child) -> None:
        """End it in the background, without waiting."""
        if not child.gone.done():
            self._tasks.spawn(child.stop(self.limits.stop_grace_s), name=f"stop {child.pid}")

    async def stop(self, child: Child) -> None:
        """End it, also when whoever waits for that leaves."""
        if not child.gone.done():
            name = f"stop {child.pid}"
            stopping = self._tasks.start(child.stop(self.limits.stop_grace_s), name=name)
            await asyncio.shield(stopping)

    async def close(self) -> None:
        """End all that is left. Nothing starts any more."""
        self._is_closed = True
        await asyncio.gather(*(self.stop(child) for child in list(self._alive)))
        if self._warden is not None:
            await self._warden.close()
        await self._tasks.close()

    def _make(self) -> Child:
        return Child(
            self._clock,
            max_output_bytes=self.limits.max_output_bytes,
            max_line_bytes=self.limits.max_line_bytes,
        )

    def _forget(self, child: Child) -> None:
        self._alive.discard(child)
        self._claimed -= 1
        if self._warden is not None:
            self._warden.forget(child.pid)


def limits_of(settings: ProgramSettings) -> Limits:
    return convert(settings, Limits, from_attributes=True)
