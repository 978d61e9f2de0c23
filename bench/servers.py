"""The servers of a run: how each is started and what it cannot do."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.dialects import A2A_1_0, FASTA2A, HARD_CODED, Dialect

ROOT = Path(__file__).resolve().parent.parent
NODE_PEER = Path(__file__).resolve().parent / "peers" / "a2a_js"

# What a server is asked to do; a case names the ones it needs.
SEND, GET, STREAM, SUBSCRIBE, STORED = "send", "get", "stream", "subscribe", "stored"
TASKS = frozenset({SEND, GET, STREAM, SUBSCRIBE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    name: str
    title: str
    module: str | None = None  # python -m …
    script: Path | None = None  # node …
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    path: str = "/"
    health: str | None = None  # answers 200 when up; else an open port is enough
    dialect: Dialect = A2A_1_0
    durable: bool = False
    # Whether it keeps its tasks in the PostgreSQL of the run, whose URL it gets as `--db`.
    on_postgres: bool = False
    can: frozenset[str] = TASKS
    is_there: Callable[[], bool] = lambda: True
    # Tasks in the database before the server starts.
    stored_tasks: int = 0
    # Where the Python package is, if not in this checkout.
    source: Path = ROOT / "src"

    def command(self, python: str, port: int, data: Path, url: str = "") -> list[str]:
        options = [*self.arguments, "--port", str(port)]
        options += ["--db", url] if url else ["--data", str(data)]
        if self.script is not None:
            return ["node", str(self.script), *options]
        assert self.module is not None
        return [python, "-m", self.module, *options]


def has_trunkline() -> bool:
    return (ROOT / "src" / "trunkline" / "__main__.py").exists()


def has_node_peer() -> bool:
    return shutil.which("node") is not None and (NODE_PEER / "node_modules").is_dir()


def has_node_sqlite() -> bool:
    built = NODE_PEER / "node_modules" / "better-sqlite3" / "build" / "Release"
    return has_node_peer() and (built / "better_sqlite3.node").exists()


def trunkline(
    name: str,
    title: str,
    can: frozenset[str],
    *,
    agent: str = "pure",
    on_postgres: bool = False,
    stored_tasks: int = 0,
    source: Path = ROOT / "src",
) -> Server:
    return Server(
        name=name,
        title=title,
        module="trunkline",
        arguments=("serve", f"bench/agents.py:{agent}"),
        path="/a2a/jsonrpc",
        health="/healthz",
        durable=True,
        on_postgres=on_postgres,
        can=can,
        is_there=has_trunkline,
        stored_tasks=stored_tasks,
        source=source,
    )


NODE_ENV = {"NODE_ENV": "production"}
# opentelemetry comes into the environment with fasta2a; alone, a2a-sdk would not trace.
A2A_SDK_ENV = {"OTEL_INSTRUMENTATION_A2A_SDK_ENABLED": "false"}

SERVERS: tuple[Server, ...] = (
    trunkline("trunkline", "Trunkline, pure agent (SQLite)", TASKS),
    trunkline("ordinary", "Trunkline, ordinary agent (SQLite)", TASKS, agent="ordinary"),
    trunkline("postgres", "Trunkline, pure agent (PostgreSQL)", TASKS, on_postgres=True),
    trunkline(
        "ordinary-postgres",
        "Trunkline, ordinary agent (PostgreSQL)",
        TASKS,
        agent="ordinary",
        on_postgres=True,
    ),
    Server(
        name="a2a-sdk",
        title="a2a-sdk (memory)",
        module="bench.peers.a2a_sdk",
        env=A2A_SDK_ENV,
    ),
    Server(
        name="a2a-sdk-sqlite",
        title="a2a-sdk (SQLite)",
        module="bench.peers.a2a_sdk",
        arguments=("--store", "sqlite"),
        env=A2A_SDK_ENV,
        durable=True,
    ),
    Server(
        name="a2a-sdk-postgres",
        title="a2a-sdk (PostgreSQL)",
        module="bench.peers.a2a_sdk",
        arguments=("--store", "postgres"),
        env=A2A_SDK_ENV,
        durable=True,
        on_postgres=True,
    ),
    Server(name="fasta2a", title="fasta2a (memory)", module="bench.peers.fasta2a", dialect=FASTA2A),
    Server(
        name="a2a-js",
        title="a2a-js (memory)",
        script=NODE_PEER / "server.js",
        env=NODE_ENV,
        is_there=has_node_peer,
    ),
    Server(
        name="a2a-js-sqlite",
        title="a2a-js (SQLite)",
        script=NODE_PEER / "server.js",
        env=NODE_ENV,
        arguments=("--store", "sqlite"),
        durable=True,
        is_there=has_node_sqlite,
    ),
    Server(
        name="floor",
        title="hard-coded answer",
        module="bench.peers.floor",
        dialect=HARD_CODED,
        can=frozenset({SEND}),
    ),
)


def stored_servers(tasks: int) -> tuple[Server, Server]:
    """Trunkline on an empty database and on one with many tasks, for the cases about size."""
    can = frozenset({STORED})
    return (
        trunkline("trunkline-empty", "Trunkline, 0 stored tasks", can),
        trunkline(
            "trunkline-stored", f"Trunkline, {tasks:,} stored tasks", can, stored_tasks=tasks
        ),
    )


def earlier_servers(commit: str, source: Path) -> tuple[Server, Server]:
    """Trunkline as of an earlier commit, with the agents of this one."""
    return (
        trunkline("trunkline-then", f"Trunkline {commit}, pure", TASKS, source=source),
        trunkline(
            "ordinary-then", f"Trunkline {commit}, ordinary", TASKS, agent="ordinary", source=source
        ),
    )
