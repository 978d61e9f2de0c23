"""`GatewayProcess`: a gateway that can be killed, and `Row`: what it leaves in its store."""

import asyncio
import ctypes
import os
import shutil
import signal
import socket
import sqlite3
import sys
from collections import Counter
from pathlib import Path

import httpx
from msgspec import Struct

from trunkline.clock import SystemClock
from trunkline.model.values import TaskState
from trunkline.ports.store import Scope
from trunkline.stores.jsonfile.folder import Folder
from trunkline.stores.jsonfile.log import Log
from trunkline.stores.jsonfile.state import State
from trunkline.stores.sqlite.rows import SEQ_BITS, STATES, entries_after

_STORE = """
[store]
kind = "{kind}"
path = "{path}"
"""
_AGENT = """
[agents."test/{name}"]
name = "{name}"
backend = {{ kind = "scripted", turn_log = "{turn_log}" }}
"""


class Row(Struct, frozen=True):
    """A task as the file has it."""

    state: TaskState
    # Whose context it is: the scope and its id.
    lane: tuple[object, str]
    # kind and body by sequence
    events: dict[int, tuple[str, bytes]]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def _die_with_the_tests() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class GatewayProcess:
    """`trunkline serve` on a configuration, to be killed and started again."""

    def __init__(
        self, folder: Path, port: int, config: str, *, commit_delay_s: float = 0.0
    ) -> None:
        """`commit_delay_s`: how much longer the disk takes for each commit."""
        self.folder = folder
        self.port = port
        self.environment: dict[str, str] = {}
        self._commit_delay_s = commit_delay_s
        self._config = folder / "trunkline.toml"
        self._config.write_text(f"[server]\nport = {port}\n{config}")
        self._process: asyncio.subprocess.Process | None = None

    def url(self, agent: str) -> str:
        return f"http://127.0.0.1:{self.port}/api/a2a/v1/agents/test/{agent}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        assert await self.try_start(), self.log()

    async def try_start(self) -> bool:
        """Whether it is ready; otherwise it has ended."""
        with (self.folder / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "tests.acceptance.slow_disk", str(self._commit_delay_s)),
                *("serve", "--config", str(self._config)),
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **self.environment},
                preexec_fn=_die_with_the_tests,
            )
        return await asyncio.wait_for(self._listens(), 30)

    async def _listens(self) -> bool:
        assert self._process is not None
        async with httpx.AsyncClient() as http:
            while True:
                if self._process.returncode is not None:
                    return False
                try:
                    answer = await http.get(f"http://127.0.0.1:{self.port}/readyz")
                    if answer.status_code == 200:
                        return True
                except httpx.TransportError:
                    pass
                await asyncio.sleep(0.02)

    async def kill(self) -> None:
        await self._end(signal.SIGKILL)

    async def stop(self) -> int:
        await self._end(signal.SIGTERM)
        assert self._process is not None
        assert self._process.returncode is not None
        return self._process.returncode

    async def _end(self, how: signal.Signals) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(how)
            await self._process.wait()

    def log(self) -> str:
        return (self.folder / "log").read_text()


class KillableGateway(GatewayProcess):
    """A gateway on a file, with agents that log their turns."""

    def __init__(
        self, folder: Path, agents: tuple[str, ...], kind: str, *, commit_delay_s: float = 0.0
    ) -> None:
        self._turn_log = folder / "turns"
        self._read = {"sqlite": read_sqlite, "json-file": read_json_files}[kind]
        config = _STORE.format(kind=kind, path=folder / "tasks")
        for name in agents:
            config += _AGENT.format(name=name, turn_log=self._turn_log)
        super().__init__(folder, free_port(), config, commit_delay_s=commit_delay_s)

    def turns(self) -> Counter[tuple[str, str]]:
        """How often the agents ran the turn of each message, by task and message id."""
        lines = self._turn_log.read_text().splitlines() if self._turn_log.exists() else []
        return Counter((task_id, message_id) for task_id, message_id, _ in map(str.split, lines))

    def read_file(self) -> dict[str, Row]:
        """Every task in the store, oldest first. Reads a copy: the store stays as it was."""
        return self._read(copy_of(self.folder / "tasks"))


def copy_of(store: Path) -> Path:
    """A copy of a file or a folder of a store, with all that lies beside it."""
    copy = store.parent / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    for path in store.parent.glob(f"{store.name}*"):
        if path.is_dir():
            shutil.copytree(path, copy / path.name, ignore=shutil.ignore_patterns("*.sock"))
        elif path.suffix not in (".lock", ".sock"):
            shutil.copy(path, copy)
    return copy / store.name


def read_sqlite(file: Path) -> dict[str, Row]:
    with sqlite3.connect(file) as db:
        tasks = db.execute(
            "SELECT key, id, state, scope, context FROM tasks ORDER BY key"
        ).fetchall()
        rows = {key: Row(STATES[state], (*lane,), {}) for key, _, state, *lane in tasks}
        for record in db.execute("SELECT place, kind, body, committed_ms FROM events"):
            events = rows[record[0] >> SEQ_BITS].events
            for entry in entries_after([record], 0, -1):
                events[entry.seq] = (entry.kind, entry.body)
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()
    return {task_id: rows[key] for key, task_id, *_ in tasks}


def read_json_files(folder: Path) -> dict[str, Row]:
    files, state = Folder(folder, adopts=Scope("", "", "")), State(SystemClock())
    files.remove_temporaries()
    files.load(state)
    state.replay(Log(folder).replay())
    rows = {}
    for head in sorted(state.tasks, key=lambda head: head.key):
        entries = files.read(head).entries
        events = {entry.seq: (entry.kind, entry.body) for entry in entries}
        rows[head.id] = Row(head.state, (head.scope, head.context_id), events)
    return rows
