"""A running server as a case sees it, and the window in which a case measures it."""

import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from bench.calls import Caller
from bench.client import Client, Outcome
from bench.database import BenchDatabase
from bench.exchange import Exchange
from bench.process import Process
from bench.servers import Server


class WrongAnswers(Exception):
    """At least one answer was wrong; a figure from such a run means nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    server: Server
    process: Process
    # The database that the server keeps its tasks in, if it is a process of its own.
    database: BenchDatabase | None = None
    # Ids of some of the tasks that were there before the run.
    stored: tuple[str, ...] = ()

    @property
    def caller(self) -> Caller:
        return Caller(self.server.dialect, self.server.path)

    def client(self, connections: int) -> Client:
        return Client(self.process.port, connections)

    def ask(self, exchange: Exchange, *, times: int = 1, connections: int = 1) -> None:
        """Outside any window: set up, warm up, check afterwards."""
        with self.client(connections) as client:
            expect_right(client.run(exchange, total=times, limit_s=30))

    def window(self) -> "Window":
        return Window(self.process, self.database)


class Window:
    """CPU of the server, of its database and of this process, and time, between enter and exit."""

    def __init__(self, process: Process, database: BenchDatabase | None = None) -> None:
        self._process = process
        self._database = database
        self.database_cpu_s: float | None = None
        self.wall_s = 0.0
        self.cpu_s = 0.0
        self.server_share = 0.0
        self.generator_share = 0.0

    def __enter__(self) -> Self:
        self._generator = time.process_time()
        self._cpu = self._process.cpu_s()
        if self._database is not None:
            self._database_cpu = self._database.cpu_s()
        self._wall = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.wall_s = time.perf_counter() - self._wall
        self.cpu_s = self._process.cpu_s() - self._cpu
        if self._database is not None:
            self.database_cpu_s = self._database.cpu_s() - self._database_cpu
        self.server_share = self.cpu_s / self.wall_s
        self.generator_share = (time.process_time() - self._generator) / self.wall_s


def expect_right(outcome: Outcome) -> Outcome:
    if outcome.errors:
        reasons = "; ".join(f"{times}× {why}" for why, times in outcome.errors.most_common(3))
        raise WrongAnswers(f"{outcome.errors.total()} of {outcome.done} answers: {reasons}")
    return outcome
