"""The server processes of a run: all are started here, and all are stopped here."""

import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.database import BenchDatabase
from bench.process import Process, free_port
from bench.servers import ROOT, Server
from bench.target import Target

# The durable servers must write to a disk, which a temporary folder often is not.
RESULTS = ROOT / "bench" / "results"
# Beside a database that was filled: ids of some of its tasks, one per line.
SAMPLE = "task-ids.txt"


class Fleet:
    """Starts servers on one core; whatever happens, leaving it ends every one of them."""

    def __init__(self, python: str, core: int) -> None:
        self._python = python
        self._core = core
        self._folder = RESULTS / f"run-{os.getpid()}"
        self._processes: dict[Process, Path | None] = {}
        self._database = BenchDatabase()
        self._urls: dict[Process, str] = {}

    def start(self, server: Server, *, data: Path | None = None) -> Target:
        """Start `server` on `data`, or on a new folder that goes away with the server."""
        own = None if data else self._folder / f"{len(list(self._folder.iterdir()))}-{server.name}"
        folder = data or own
        assert folder is not None
        folder.mkdir(parents=True, exist_ok=True)
        port = free_port()
        url = self._database.new_url() if server.on_postgres else ""
        process = Process(
            server.command(self._python, port, folder, url),
            port=port,
            env={**server.env, "PYTHONPATH": str(server.source)},
            log=self._folder / f"{server.name}-{port}.log",
            core=self._core,
            cwd=ROOT,
        )
        self._processes[process] = own
        if url:
            self._urls[process] = url
        process.wait_until_up(server.health)
        sample = folder / SAMPLE
        stored = sample.read_text("ascii").splitlines() if sample.exists() else []
        return Target(
            server=server,
            process=process,
            database=self._database if url else None,
            stored=tuple(stored),
        )

    def stop(self, target: Target) -> None:
        self._end(target.process)

    def _end(self, process: Process) -> None:
        own = self._processes.pop(process, None)
        process.stop()
        if (url := self._urls.pop(process, None)) is not None:
            self._database.drop(url)
        if own is not None:
            shutil.rmtree(own, ignore_errors=True)

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with ExitStack() as ending:
            ending.callback(shutil.rmtree, self._folder, ignore_errors=True)
            ending.callback(self._database.close)
            for process in list(self._processes):
                ending.callback(self._end, process)
