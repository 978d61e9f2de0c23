"""A standby that becomes the primary under two nodes: they begin anew, and all work goes on."""

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGQUIT

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.cluster.postgres import PATIENCE_S, PostgresCluster, on_postgres, until
from tests.postgres.fixtures import fill_template
from tests.postgres.server import PostgresServer, embedded_binaries, postgres

from trunkline.model.values import TaskState
from trunkline.ports.cluster import Times

COMPLETED, FAILED = TaskState.COMPLETED, TaskState.FAILED


class Standby:
    """Follows a server, and takes its place."""

    def __init__(self, primary: PostgresServer, folder: Path) -> None:
        self._primary = primary
        self.folder = folder
        self._data = folder / "data"
        # A copy that the user of the server may read, if there is one.
        copies = [path.parent for path in primary.folder.rglob("bin/postgres")]
        self._binaries = [*copies, embedded_binaries()][0]
        if primary._user is not None:
            shutil.chown(folder, primary._user)
        self._run("pg_basebackup", "-h", str(primary.folder), "-U", "postgres", "-R", "-c", "fast")
        self._process = subprocess.Popen(
            [
                *(str(self._binaries / "postgres"), "-D", str(self._data), "-k", str(folder)),
                *("-c", "listen_addresses=", "-c", "max_connections=200"),
            ],
            cwd=folder,
            stderr=subprocess.DEVNULL,
            user=primary._user,
            group=primary._user,
        )

    def _run(self, program: str, *options: str) -> None:
        command = [str(self._binaries / program), *options, "-D", str(self._data)]
        user = self._primary._user
        subprocess.run(
            command, check=True, cwd=self.folder, user=user, group=user, stdout=subprocess.DEVNULL
        )

    def promote(self) -> None:
        """End the primary without a word, once this one has all of its commits."""
        with psycopg.connect(self._primary.url("postgres"), autocommit=True) as connection:
            is_behind = "SELECT FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()"
            while not connection.execute(is_behind).fetchall():
                pass
        self._primary.kill()
        self._run("pg_ctl", "promote")

    def close(self) -> None:
        self._process.send_signal(SIGQUIT)
        self._process.wait()


@contextmanager
def with_standby() -> Iterator[tuple[str, Standby]]:
    """A database at two addresses, one of which takes changes."""
    with postgres(embedded_binaries()) as primary:
        url = primary.create_database(fill_template)
        folder = Path(tempfile.mkdtemp(prefix="trunkline-standby-"))
        standby = Standby(primary, folder)
        try:
            hosts = f"{primary.folder},{folder}"
            yield f"postgresql://postgres@/{conninfo_to_dict(url)['dbname']}?host={hosts}", standby
        finally:
            standby.close()
            shutil.rmtree(folder)


@pytest.mark.full
def test_nodes_begin_anew_after_a_failover() -> None:
    with with_standby() as (url, standby):
        asyncio.run(_fail_over(url, standby))


async def _fail_over(url: str, standby: Standby) -> None:
    async with on_postgres(url, times=Times(beat_s=0.4, lease_s=2.0)) as cluster:
        a, b = cluster.worlds
        running = await a.submit("wait gate", context="c")
        await a.gates.reached("gate")
        queued = await a.submit("say two", context="c")
        done = await b.send("say done")
        names = _names(cluster)
        await asyncio.to_thread(standby.promote)

        async def begun_anew() -> bool:
            return not names & _names(cluster)

        await until(begun_anew)
        async with asyncio.timeout(PATIENCE_S):
            ended = await b.ended(queued.id)
        assert ended.status.state is COMPLETED
        assert (await b.get(running.id)).status.state is FAILED
        assert (await a.get(done.id)).status.state is COMPLETED
        assert (await a.send("say three", context="c")).status.state is COMPLETED


def _names(cluster: PostgresCluster) -> set[int]:
    return {node.store.node for node in cluster.nodes}
